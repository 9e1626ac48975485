"""SymPy, for output only: nothing here reads text."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from dvisr.expression.tree import Expression, fold
from dvisr.library import Kind, Role, Token

# The SymPy expression, its value where it is a number, and how high its powers are.
_Node = tuple[Any, float | None, float]

# SymPy works out 2 ** 10 ** 15 digit by digit; powers beyond this are left as they are written.
_HIGHEST_POWER = 1000.0


def to_sympy(expression: Expression) -> Any:
    """Convert an expression to SymPy.

    Parameters
    ----------
    expression : Expression

    Returns
    -------
    sympy.Expr
        Variables are real symbols with the columns' names. Constants are real symbols c0, c1, ...
        in prefix order (with underscores before them where a column has such a name), or numbers
        where the expression has values for them.

    Examples
    --------
    >>> from dvisr import Library, parse
    >>> from dvisr.expression import to_sympy
    >>> library = Library.create(["+", "*", "^", "2"], ["x"], constants=True)
    >>> to_sympy(parse("c * x + x ^ 2", library))
    c0*x + x**2
    """
    import sympy

    taken = set(expression.library.variables)
    names = (f"{'_' * bar}c{{}}" for bar in itertools.count())
    pattern = next(n for n in names if not any(n.format(i) in taken for i in range(1000)))

    def combine(token: Token, index: int, operands: list[_Node]) -> _Node:
        if token.kind is Kind.CONSTANT:
            if expression.constants is None:
                return sympy.Symbol(pattern.format(index), real=True), None, 1.0
            return sympy.Float(expression.constants[index], 17), None, 1.0
        if token.kind is Kind.VARIABLE:
            return sympy.Symbol(token.column_name, real=True), None, 1.0
        if token.kind is Kind.LITERAL:
            formula = sympy.pi if token.name == "pi" else _number(sympy, token.value)
            return formula, token.value, 1.0
        return _operation(sympy, token, operands)

    return fold(expression, combine)[0]


def _operation(sympy: Any, token: Token, operands: list[_Node]) -> _Node:
    values = [value for _, value, _ in operands if value is not None]
    if len(values) == token.arity:
        # An operation on plain numbers is worked out in floating point, as `evaluate` does.
        assert token.function is not None
        with np.errstate(all="ignore"):
            value = float(token.function(np, *(np.float64(v) for v in values)))
        return _number(sympy, value), value, 1.0
    parts = [part for part, _, _ in operands]
    power = max(power for _, _, power in operands)
    exponent = 1.0
    if token.role is Role.WHOLE_POWER and token.exponent is not None:
        exponent = float(token.exponent)
    elif token.role is Role.POWER and operands[1][1] is not None:
        exponent = operands[1][1]
    power *= max(1.0, abs(exponent))
    if exponent != 1.0 and not power <= _HIGHEST_POWER:
        formula = sympy.Pow(parts[0], _number(sympy, exponent), evaluate=False)
    elif token.sympy is not None:
        formula = token.sympy(sympy, *parts)
    else:
        formula = sympy.Function(token.name)(*parts)
    return formula, None, power


def _number(sympy: Any, value: float) -> Any:
    if not math.isfinite(value):
        return sympy.nan
    if value == int(value) and abs(value) < 2**53:
        return sympy.Integer(int(value))
    return sympy.Float(value, 17)


def simplified(expression: Expression) -> Any:
    """Convert an expression to SymPy in a form that is easy to read.

    Like terms are collected, and constants that only appear together are folded into one. The
    result may have fewer constants than the tree, and so another marginal likelihood: it is for
    showing, not for scoring.

    Parameters
    ----------
    expression : Expression

    Returns
    -------
    sympy.Expr

    Examples
    --------
    >>> from dvisr import Library, parse
    >>> from dvisr.expression import simplified
    >>> simplified(parse("x * c * c", Library.create(["*"], ["x"], constants=True)))
    c0*x
    """
    import sympy

    formula = to_sympy(expression)
    if expression.constants is not None:
        return formula
    variables = {sympy.Symbol(name, real=True) for name in expression.library.variables}
    fresh = (sympy.Dummy(f"k{index}", real=True) for index in itertools.count())
    folded = _folded(sympy, formula, variables, fresh)
    constants = [s for s in _symbols_in_order(folded) if s not in variables]
    names = [f"c{index}" for index in range(len(constants))]
    return folded.xreplace(
        {old: sympy.Symbol(new, real=True) for old, new in zip(constants, names, strict=True)}
    )


def _folded(sympy: Any, formula: Any, variables: set[Any], fresh: Any) -> Any:
    """Replace, from the leaves up, whatever depends on constants alone by one constant."""
    if not formula.free_symbols - variables:
        return formula
    if not formula.free_symbols & variables:
        return next(fresh)
    parts = [_folded(sympy, part, variables, fresh) for part in formula.args]
    if formula.is_Pow:
        is_high = parts[1].is_number and not abs(float(parts[1])) <= _HIGHEST_POWER
        return sympy.Pow(*parts, evaluate=not is_high)
    if not (formula.is_Add or formula.is_Mul):
        return formula.func(*parts)
    alone = [part for part in parts if not part.free_symbols & variables]
    others = [part for part in parts if part.free_symbols & variables]
    if not any(part.free_symbols for part in alone):
        return formula.func(*parts)
    return formula.func(next(fresh), *others)


def _symbols_in_order(formula: Any) -> list[Any]:
    import sympy

    seen: dict[Any, None] = {}
    for node in sympy.preorder_traversal(formula):
        if node.is_Symbol:
            seen.setdefault(node)
    return list(seen)
