"""The constraints that have a name, and the one place where names become rules."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable

from dvisr.constraints.rules import (
    CountRule,
    ForbidAllConstantChildren,
    ForbidAllNumberChildren,
    ForbidChild,
    ForbidDescendant,
    MaxDepth,
    Rule,
    ScopeRule,
    max_constants,
    max_repeats,
    min_tokens,
)
from dvisr.library import CONSTANT, Kind, Library, Role


def no_nested_trig(library: Library) -> tuple[Rule, ...]:
    """No trigonometric function anywhere inside another."""
    trig = frozenset(token.name for token in library if token.is_trig)
    return (ForbidDescendant(trig, trig),) if trig else ()


def no_inverse(library: Library) -> tuple[Rule, ...]:
    """No operator directly inside the one that undoes it, such as exp(log(x))."""
    pairs = {
        (token.name, token.inverse)
        for token in library
        if token.inverse and library.find(token.inverse) is not None
    }
    pairs |= {(child, parent) for parent, child in pairs}
    return tuple(
        ForbidChild(frozenset({parent}), frozenset({child})) for parent, child in sorted(pairs)
    )


def no_all_constant(library: Library) -> tuple[Rule, ...]:
    """No operator with nothing but constants as operands, such as cos(c)."""
    return (ForbidAllConstantChildren(),) if library.has_constants else ()


def no_all_number(library: Library) -> tuple[Rule, ...]:
    """No sum, difference or function of numbers alone, such as 1 + 1 or log(2), where there are
    constants: it would be one of these. Products, quotients, powers and roots of numbers stay."""
    has_numbers = any(token.kind is Kind.LITERAL for token in library)
    parents = frozenset(
        token.name
        for token in library
        if token.role in (Role.SUM, Role.DIFFERENCE)
        or (token.arity == 1 and token.role is None and token.name != "sqrt")
    )
    if not (library.has_constants and has_numbers and parents):
        return ()
    return (ForbidAllNumberChildren(parents),)


def no_constant_left(library: Library) -> tuple[Rule, ...]:
    """No constant as the left operand of any binary operator (the paper's rule)."""
    return _constant_not_left(library, lambda token: True)


def constant_right(library: Library) -> tuple[Rule, ...]:
    """No constant as the left operand of a commutative operator, so that c / x stays."""
    return _constant_not_left(library, lambda token: token.is_commutative)


def _constant_not_left(library: Library, applies: Callable[..., bool]) -> tuple[Rule, ...]:
    parents = frozenset(token.name for token in library if token.arity == 2 and applies(token))
    if not (parents and library.has_constants):
        return ()
    return (ForbidChild(parents, frozenset({CONSTANT.name}), "left"),)


NAMED: dict[str, Callable[[Library], tuple[Rule, ...]]] = {
    "no-nested-trig": no_nested_trig,
    "no-inverse": no_inverse,
    "no-all-constant": no_all_constant,
    "no-all-number": no_all_number,
    "no-constant-left": no_constant_left,
    "constant-right": constant_right,
}
SETS: dict[str, tuple[str, ...]] = {
    "none": (),
    "paper": ("no-nested-trig", "no-inverse", "no-constant-left", "no-all-constant"),
    "default": (
        "no-nested-trig",
        "no-inverse",
        "no-all-constant",
        "no-all-number",
        "constant-right",
    ),
}
_LIMIT = re.compile(r"(min-tokens|max-depth|max-constants|max-repeats:(?P<token>.+))=(?P<n>\d+)\Z")

Constraints = str | Rule | Iterable[str | Rule]


def rules_of(constraints: Constraints, library: Library) -> tuple[Rule, ...]:
    """Rules from what a user gives: a set's name, names, rules, or a list that mixes them."""
    if isinstance(constraints, str):
        constraints = [part for part in constraints.split(",") if part.strip()]
    elif isinstance(constraints, (ScopeRule, CountRule)):
        constraints = [constraints]
    if not isinstance(constraints, Iterable):
        raise ValueError(f"constraints must be names or rules, not {constraints!r}")
    rules: list[Rule] = []
    for entry in constraints:
        if isinstance(entry, (ScopeRule, CountRule)):
            rules.append(_comparable(entry))
        elif isinstance(entry, str):
            rules.extend(_from_name(entry.strip(), library))
        else:
            raise ValueError(f"a constraint must be a name or a rule, not {entry!r}")
    return tuple(dict.fromkeys(rules))


def _comparable(rule: Rule) -> Rule:
    """Itself. What follows from equal rules is worked out once: all that a rule goes by must be
    compared, and stay as it is."""
    own = type(rule)
    params = vars(own).get("__dataclass_params__")
    if own.__eq__ is not object.__eq__ and not (params and params.frozen and params.eq):
        raise ValueError(
            f"the class of the rule {rule.describe()!r} must compare by its fields: put "
            f"@dataclasses.dataclass(frozen=True) above {own.__name__}"
        )
    return rule


def _from_name(name: str, library: Library) -> tuple[Rule, ...]:
    if name in SETS:
        return tuple(rule for part in SETS[name] for rule in NAMED[part](library))
    if name in NAMED:
        return NAMED[name](library)
    limit = _LIMIT.match(name)
    if limit is None:
        known = [
            *SETS,
            *NAMED,
            "min-tokens=N",
            "max-depth=N",
            "max-constants=N",
            "max-repeats:TOKEN=N",
        ]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"choose from {', '.join(known)}"
        raise ValueError(f"{name!r} is no constraint: {hint}")
    count = int(limit["n"])
    if limit["token"]:
        return (max_repeats(limit["token"], count),)
    limits: dict[str, Callable[[int], Rule]] = {
        "min-tokens": min_tokens,
        "max-depth": MaxDepth,
        "max-constants": max_constants,
    }
    return (limits[name.partition("=")[0]](count),)
