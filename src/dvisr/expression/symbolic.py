"""SymPy, for output only: nothing here reads text."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from dvisr.expression.tree import Expression, fold
from dvisr.library import Kind, Token

_Node = tuple[Any, float | None]  # the SymPy expression, and its value where it is a number


def to_sympy(expression: Expression) -> Any:
    """The tree as a SymPy expression. Variables are real symbols of the columns' names; constants
    are symbols c0, c1, ... in prefix order, or their values where the expression has them."""
    import sympy

    taken = set(expression.library.variables)
    names = (f"{'_' * bar}c{{}}" for bar in itertools.count())
    pattern = next(n for n in names if not any(n.format(i) in taken for i in range(1000)))

    def combine(token: Token, index: int, operands: list[_Node]) -> _Node:
        if token.kind is Kind.CONSTANT:
            if expression.constants is None:
                return sympy.Symbol(pattern.format(index), real=True), None
            return sympy.Float(expression.constants[index], 17), None
        if token.kind is Kind.VARIABLE:
            return sympy.Symbol(token.column_name, real=True), None
        if token.kind is Kind.LITERAL:
            return (sympy.pi if token.name == "pi" else _number(sympy, token.value)), token.value
        return _operation(sympy, token, operands)

    return fold(expression, combine)[0]


def _operation(sympy: Any, token: Token, operands: list[_Node]) -> _Node:
    values = [value for _, value in operands if value is not None]
    if len(values) == token.arity:
        # An operation on plain numbers is worked out in floating point, as `evaluate` does: left
        # to SymPy, 9^9^9^9 would be worked out digit by digit.
        assert token.function is not None
        with np.errstate(all="ignore"):
            value = float(token.function(np, *(np.float64(v) for v in values)))
        return _number(sympy, value), value
    parts = [part for part, _ in operands]
    if token.sympy is not None:
        return token.sympy(sympy, *parts), None
    return sympy.Function(token.name)(*parts), None


def _number(sympy: Any, value: float) -> Any:
    if not math.isfinite(value):
        return sympy.nan
    if value == int(value) and abs(value) < 2**53:
        return sympy.Integer(int(value))
    return sympy.Float(value, 17)


def simplified(expression: Expression) -> Any:
    """The easiest form to read: a SymPy expression with like terms collected and constants that
    only ever appear together folded into one. It may have fewer constants than the tree, so it
    has another marginal likelihood: show it, never score it."""
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
