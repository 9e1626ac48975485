from __future__ import annotations

import dataclasses
from collections.abc import Hashable

import pytest

from dvisr.constraints import NAMED, SETS, ForbidChild, Grammar, MaxDepth, max_constants
from dvisr.enumeration import enumerate_trees
from dvisr.expression import Expression
from dvisr.library import Library, Token, new_operator


def printed(library: Library, max_tokens: int, constraints: object) -> set[str]:
    grammar = Grammar(library, max_tokens, constraints)  # type: ignore[arg-type]
    return {
        str(Expression(library, tuple(int(t) for t in row[row >= 0])))
        for row in enumerate_trees(grammar)
    }


def test_the_papers_seven_trees() -> None:
    library = Library.create(["+", "*", "cos"], ["x0"], constants=True)
    assert printed(library, 3, "paper") == {
        "x0", "c", "cos(x0)", "x0 + x0", "x0 * x0", "x0 + c", "x0 * c",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("name", "forbidden", "allowed"),
    [
        (
            "no-nested-trig",
            ["sin(sin(x))", "sin(exp(cos(x)))", "cos(x + sin(x))"],
            ["sin(tanh(x))"],
        ),
        (
            "no-inverse",
            ["exp(log(x))", "log(exp(x))", "sqrt(square(x))", "-(-x)"],
            ["exp(-log(x))"],
        ),
        ("no-all-constant", ["cos(c)", "c + c", "c - 1", "1 - c"], ["c - x", "x - c", "cos(1)"]),
        (
            "no-all-number",
            ["log(1)", "cos(1)", "1 + 1", "x / (1 - 1)"],
            ["sqrt(1)", "1 / 1", "1 * 1", "-1", "1 + c", "log(1 * x)", "x + 1"],
        ),
        ("no-constant-left", ["c - x", "c * x", "c / x"], ["x - c", "x / c"]),
        ("constant-right", ["c * x", "c + x"], ["c / x", "c - x", "x * c"]),
    ],
)
def test_named_rules(name: str, forbidden: list[str], allowed: list[str]) -> None:
    import jax.numpy as jnp
    import numpy as np

    from dvisr.constraints.masking import is_allowed, make_mask
    from dvisr.expression import parse

    operators = "+,-,*,/,sin,cos,exp,log,sqrt,square,neg,tanh,1"
    library = Library.create(operators, ["x"], constants=True)
    mask = make_mask(Grammar(library, 6, name))

    def accepts(text: str) -> bool:
        tokens = parse(text, library).tokens
        row = np.pad(np.array(tokens, dtype=np.int32), (0, 6 - len(tokens)), constant_values=-1)
        return bool(is_allowed(mask, jnp.asarray(row)))

    assert [text for text in forbidden if accepts(text)] == []
    assert [text for text in allowed if not accepts(text)] == []


def test_sets_are_what_they_promise() -> None:
    assert set(SETS["paper"]) == {
        "no-nested-trig", "no-inverse", "no-all-constant", "no-constant-left",
    }  # fmt: skip
    assert set(SETS["default"]) == {
        "no-nested-trig", "no-inverse", "no-all-constant", "no-all-number", "constant-right",
    }  # fmt: skip
    assert SETS["none"] == ()
    assert set(NAMED) == set(SETS["paper"]) | {"constant-right", "no-all-number"}


def test_lists_mix_names_limits_and_rules() -> None:
    library = Library.create(["+", "sin"], ["x"], constants=True)
    by_text = printed(library, 4, "no-nested-trig,max-depth=1,max-constants=1,max-repeats:sin=1")
    by_rules = printed(library, 4, ["no-nested-trig", MaxDepth(1), max_constants(1)])
    assert by_text == by_rules == {"x", "c", "sin(x)", "sin(c)", "x + x", "x + c", "c + x"}
    assert printed(library, 2, "min-tokens=2") == {"sin(x)", "sin(c)"}


@pytest.mark.parametrize(
    ("text", "hint"),
    [("papr", "did you mean 'paper'"), ("no-nested", "did you mean"), ("zzz", "choose from")],
)
def test_unknown_names_get_a_hint(text: str, hint: str) -> None:
    with pytest.raises(ValueError, match=hint):
        Grammar(Library.create(["+"], ["x"]), 3, text)


def test_a_column_called_c_is_not_the_constant() -> None:
    library = Library.create(["+"], ["c"], constants=True)
    assert printed(library, 3, ["paper", max_constants(1)]) == {
        "c", "`c`", "`c` + c", "`c` + `c`",
    }  # fmt: skip


def test_a_users_operator_obeys_the_named_rules() -> None:
    sinc = new_operator("sinc", 1, lambda np, x: np.sin(x) / x, is_trig=True, inverse="exp")
    library = Library.create([sinc, "sin", "exp"], ["x"])
    found = printed(library, 3, "paper")
    assert "sinc(x)" in found
    assert not found & {"sinc(sin(x))", "sin(sinc(x))", "sinc(exp(x))", "exp(sinc(x))"}


@dataclasses.dataclass(frozen=True)
class Never(ForbidChild):
    """Compares by a field more."""

    is_strict: bool = True

    def allows(self, state: Hashable, token: Token) -> bool:
        return super().allows(state, token) and not (self.is_strict and token.name == "sin")


class Loose(ForbidChild):
    """Compares as what it was made of, whatever else it has."""


def test_rules_of_a_users_own_are_told_apart_by_all_that_they_have() -> None:
    library = Library.create(["+", "sin"], ["x"])
    names = frozenset({"sin"}), frozenset({"+"})
    assert printed(library, 2, [Never(*names)]) == {"x"}
    assert printed(library, 2, [Never(*names, is_strict=False)]) == {"x", "sin(x)"}
    with pytest.raises(ValueError, match=r"put @dataclasses\.dataclass\(frozen=True\) above Loose"):
        Grammar(library, 2, [Loose(*names)])
