"""Formulas that people have written, said in the words of a library.

A corpus is a list of formulas with how often each occurs. A formula is a nested tuple: the name of
an operator and its operands, or a leaf: a symbol, a number, or a constant without a name. To be
counted it is put into a library's own words: a square is a product where there is no `square`, and
1 / x stands for the inverse. A symbol may be a column of somebody's table, or a quantity that was
constant there: both are counted, by their shares, and a product of constants is one constant, as it
would be in a fit.
"""

from __future__ import annotations

import functools
import importlib.resources
import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dvisr.expression import parse
from dvisr.expression.lexing import names_in, numbers_in
from dvisr.library import OPERATORS, Kind, Library, Role

Formula = tuple[Any, ...]
Corpus = tuple[tuple[float, Formula], ...]

SYMBOL, NUMBER, CONSTANT, COLUMN = "symbol", "number", "constant", "column"
LEAVES = (SYMBOL, NUMBER, CONSTANT, COLUMN)
COLUMN_SHARE = 0.55  # of the symbols of a formula: the others are constants of an experiment
EXPONENTIAL_SHARE = 0.1  # of readings with a constant to the power of a column: exp is usual
_MOST_READINGS = 16  # of one formula, by which of its symbols are columns
_UNARY = ("sinh", "cosh", *(name for name, token in OPERATORS.items() if token.arity == 1))


@functools.cache
def named_equations() -> Corpus:
    """The equations that come with the package."""
    text = importlib.resources.files("dvisr.prior").joinpath("named_equations.txt").read_text()
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    return tuple((float(count), _from_prefix(iter(words.split()))) for count, words in rows)


def _from_prefix(words: Iterator[str]) -> Formula:
    word = next(words)
    if word in OPERATORS or word in _UNARY:
        arity = 1 if word in _UNARY else 2
        return (word, *(_from_prefix(words) for _ in range(arity)))
    if word[0] == "v" and word[1:].isdigit():
        return (SYMBOL, word)
    if word == "pi":
        return (NUMBER, math.pi)
    return (NUMBER, float(word)) if word.isdigit() else (CONSTANT,)  # "c", and "e"


def read_corpus(path: Path) -> Corpus:
    """A file with a formula a line, in our own syntax; names are symbols, `c` is a constant. Blank
    lines, and lines that begin with #, are passed over.

    Raises
    ------
    ValueError
        If a line can't be read, or there is none.
    """
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"the formulas of {str(path)!r} can't be read: {error}") from None
    found: dict[Formula, float] = {}
    for number, line in enumerate(lines, 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        try:
            formula = from_text(line)
        except RecursionError:
            raise ValueError(f"{path}, line {number}: the formula is too long") from None
        except ValueError as error:
            raise ValueError(f"{path}, line {number}: {error}") from None
        found[formula] = found.get(formula, 0.0) + 1.0
    if not found:
        raise ValueError(f"{str(path)!r} holds no formula: write one a line, as in a * x + b")
    return tuple((count, formula) for formula, count in found.items())


def from_text(text: str) -> Formula:
    """A formula in our own syntax."""
    symbols = [name for name in names_in(text) if name not in OPERATORS and name not in ("c", "pi")]
    library = Library.create(
        [*OPERATORS, *numbers_in(text)], list(dict.fromkeys(symbols)), constants=True
    )
    tokens = iter(parse(text, library).tokens)

    def built() -> Formula:
        token = library[next(tokens)]
        if token.kind is Kind.VARIABLE:
            return (SYMBOL, token.column_name)
        if token.kind is Kind.LITERAL:
            return (NUMBER, token.value)
        if token.kind is Kind.CONSTANT:
            return (CONSTANT,)
        return (token.name, *(built() for _ in range(token.arity)))

    return built()


class Translator:
    """Puts formulas into the words of a library."""

    def __init__(self, library: Library) -> None:
        self._names = {token.name for token in library if token.kind is Kind.OPERATOR}
        self._roles = {token.role: token.name for token in library if token.role is not None}
        self._powers = {t.exponent: t.name for t in library if t.role is Role.WHOLE_POWER}
        self._literals = {t.value: t.name for t in library if t.kind is Kind.LITERAL}
        self._has_constants = library.has_constants
        self._num_columns = len(library.variables)

    def readings(self, formula: Formula) -> list[tuple[float, Formula]]:
        """The formula in the library's words with each choice of its symbols as columns, and the
        shares of these: not more columns than there are, at least one if there is any. Without
        constants all are columns. Nothing if the library can't say it."""
        symbols = sorted(set(_symbols(formula)))
        found: dict[Formula, float] = {}
        for share, columns in self._choices(symbols):
            said = self._said(formula, columns)
            if said is not None:
                share *= EXPONENTIAL_SHARE ** _num_exponentials(formula, columns)
                found[said] = found.get(said, 0.0) + share
        total = sum(found.values())
        return [(share / total, said) for said, share in found.items()]

    def _choices(self, symbols: Sequence[str]) -> Iterator[tuple[float, frozenset[str]]]:
        if not self._has_constants:
            if len(symbols) and self._num_columns:
                yield 1.0, frozenset(symbols)
            return
        size = len(symbols)
        counts = np.arange(min(1, size, self._num_columns), min(size, self._num_columns) + 1)
        numbers = [math.comb(size, n) for n in counts]
        shares = [COLUMN_SHARE**n * (1 - COLUMN_SHARE) ** (size - n) for n in counts]
        if sum(numbers) <= _MOST_READINGS:
            for count, share in zip(counts, shares, strict=True):
                for columns in itertools.combinations(symbols, int(count)):
                    yield share, frozenset(columns)
            return
        rng = np.random.default_rng(size)
        of_count = np.array(shares) * np.array(numbers)
        for count in rng.choice(counts, _MOST_READINGS, p=of_count / of_count.sum()):
            yield 1.0, frozenset(rng.choice(symbols, count, replace=False).tolist())

    def _said(self, formula: Formula, columns: frozenset[str]) -> Formula | None:
        kind = formula[0]
        if kind == SYMBOL:
            return (COLUMN,) if formula[1] in columns else (CONSTANT,)
        if kind == CONSTANT:
            return formula if self._has_constants else None
        if kind == NUMBER:
            return self._number(formula[1])
        if kind == "^" and "^" not in self._names and formula[2] in _POWERS_BY_NAME:
            return self._said((_POWERS_BY_NAME[formula[2]], formula[1]), columns)
        if kind == "^" and "^" not in self._names and _is_whole(formula[2]):
            base = self._said(formula[1], columns)
            return None if base is None else self._power(base, int(formula[2][1]))
        operands = [self._said(operand, columns) for operand in formula[1:]]
        if any(operand is None for operand in operands):
            return None
        return self._operator(kind, *operands)  # type: ignore[arg-type]

    def _number(self, value: float) -> Formula | None:
        if value in self._literals:
            return (NUMBER, self._literals[value])
        return (CONSTANT,) if self._has_constants else None

    def _operator(self, name: str, *operands: Formula) -> Formula | None:
        """An operator on operands that are said already."""
        if name in self._names:
            return self._folded(name, *operands)
        other = _OTHER_WORDS.get(name)
        return None if other is None else other(self, *operands)

    def _with_number(
        self, name: str, value: float, operand: Formula, *, first: bool
    ) -> Formula | None:
        number = self._number(value)
        if number is None:
            return None
        return self._operator(name, *((number, operand) if first else (operand, number)))

    def _power(self, operand: Formula, exponent: int) -> Formula | None:
        if exponent in self._powers:
            return self._folded(self._powers[exponent], operand)
        if Role.POWER in self._roles and float(exponent) in self._literals:
            return self._with_number("^", float(exponent), operand, first=False)
        if Role.PRODUCT in self._roles:
            product = self._roles[Role.PRODUCT]
            made: Formula = operand
            if exponent > 2 and 2 in self._powers:
                made, exponent = self._folded(self._powers[2], operand), exponent - 1
            for _ in range(exponent - 1):
                made = self._folded(product, made, operand)
            return made
        if Role.POWER in self._roles:
            return self._with_number("^", float(exponent), operand, first=False)
        return None

    # One constant instead of several --------------------------------------------------------------

    def _folded(self, name: str, *operands: Formula) -> Formula:
        """Constants that could be one are one, written to the right where the order is free."""
        kinds = {operand[0] for operand in operands}
        if CONSTANT in kinds and kinds <= {CONSTANT, NUMBER}:
            return (CONSTANT,)
        if self._has_constants and kinds == {NUMBER} and name in _OF_NUMBERS:
            return (CONSTANT,)
        role = OPERATORS[name].role if name in OPERATORS else None
        if not self._has_constants or role not in _FOLDED:
            return (name, *operands)
        if role is Role.NEGATIVE:
            _, has_one = self._split(operands[0], Role.PRODUCT)
            is_free = has_one or self._begins(operands[0], Role.QUOTIENT)
            return operands[0] if is_free else (name, *operands)
        return self._joined(role, name, *operands)

    def _split(self, formula: Formula, role: Role) -> tuple[Formula, bool]:
        """A product (or sum) without the constant it ends in, and whether it had one."""
        if formula[0] == self._roles.get(role) and formula[2] == (CONSTANT,):
            return formula[1], True
        return formula, False

    def _joined(self, role: Role, name: str, left: Formula, right: Formula) -> Formula:
        whole = Role.PRODUCT if role in (Role.PRODUCT, Role.QUOTIENT) else Role.SUM
        joiner = self._roles.get(whole)
        (one, has_one), (two, has_two) = self._split(left, whole), self._split(right, whole)
        is_straight = role in (Role.PRODUCT, Role.SUM)
        if joiner is None:
            return (name, left, right)
        if two == (CONSTANT,):
            return self._with_constant(whole, joiner, one)
        if one == (CONSTANT,):
            return self._with_constant(whole, joiner, two) if is_straight else (name, one, two)
        if not (has_one or has_two):
            return (name, left, right)
        if one[0] == NUMBER:
            return (joiner, two, (CONSTANT,)) if is_straight else (name, (CONSTANT,), two)
        if two[0] == NUMBER:
            return (joiner, one, (CONSTANT,))
        return self._with_constant(whole, joiner, (name, one, two))

    def _begins(self, formula: Formula, role: Role) -> bool:
        """Whether it is c / x (or c - x): it has its constant."""
        return bool(formula[0] == self._roles.get(role) and formula[1] == (CONSTANT,))

    def _with_constant(self, whole: Role, joiner: str, formula: Formula) -> Formula:
        """A product (or sum) with a constant, which takes in a sign, a number and a constant that
        are there already."""
        is_product = whole is Role.PRODUCT
        if self._begins(formula, Role.QUOTIENT if is_product else Role.DIFFERENCE):
            return formula
        if is_product and formula[0] == self._roles.get(Role.NEGATIVE):
            formula = formula[1]
        if formula[0] == joiner and formula[1][0] == NUMBER:
            formula = formula[2]
        return (joiner, formula, (CONSTANT,))


_POWERS_BY_NAME = {(NUMBER, 0.5): "sqrt", (NUMBER, 2.0): "square", (NUMBER, 3.0): "cube"}
_OF_NUMBERS = ("exp", "log", "sin", "cos", "tan", "tanh")  # what they make of a number has no name
_FOLDED = (Role.PRODUCT, Role.QUOTIENT, Role.SUM, Role.DIFFERENCE, Role.NEGATIVE)


def _is_whole(formula: Formula) -> bool:
    """Whether it is a number from 2 to 9 as an exponent."""
    return formula[0] == NUMBER and float(formula[1]).is_integer() and 2.0 <= formula[1] <= 9.0


def _raised(translator: Translator, base: Formula, exponent: Formula) -> Formula | None:
    logarithm = translator._operator("log", base)
    product = None if logarithm is None else translator._operator("*", logarithm, exponent)
    return None if product is None else translator._operator("exp", product)


def _difference(translator: Translator, left: Formula, right: Formula) -> Formula | None:
    negative = translator._operator("neg", right)
    return None if negative is None else translator._operator("+", left, negative)


def _quotient(translator: Translator, left: Formula, right: Formula) -> Formula | None:
    inverse = translator._operator("inv", right) if "inv" in translator._names else None
    return None if inverse is None else translator._operator("*", left, inverse)


def _tangent(translator: Translator, operand: Formula) -> Formula | None:
    sine, cosine = translator._operator("sin", operand), translator._operator("cos", operand)
    return None if sine is None or cosine is None else translator._operator("/", sine, cosine)


# How to say an operator that a library does not have.
_OTHER_WORDS: dict[str, Any] = {
    "square": lambda translator, a: translator._power(a, 2),
    "cube": lambda translator, a: translator._power(a, 3),
    "inv": lambda translator, a: (
        translator._with_number("/", 1.0, a, first=True) if "/" in translator._names else None
    ),
    "sqrt": lambda translator, a: (
        translator._with_number("^", 0.5, a, first=False) if "^" in translator._names else None
    ),
    "neg": lambda translator, a: (
        translator._with_number("*", -1.0, a, first=False) if "*" in translator._names else None
    ),
    "^": _raised,
    "-": _difference,
    "/": _quotient,
    "tan": _tangent,
}


def _num_exponentials(formula: Formula, columns: frozenset[str]) -> int:
    """How many powers have a symbol that is constant as base, and a column in the exponent."""
    if formula[0] in LEAVES:
        return 0
    here = 0
    if formula[0] == "^" and formula[1][0] == SYMBOL and formula[1][1] not in columns:
        here = int(any(symbol in columns for symbol in _symbols(formula[2])))
    return here + sum(_num_exponentials(operand, columns) for operand in formula[1:])


def _symbols(formula: Formula) -> Iterator[str]:
    if formula[0] == SYMBOL:
        yield formula[1]
    elif formula[0] not in LEAVES:
        for operand in formula[1:]:
            yield from _symbols(operand)
