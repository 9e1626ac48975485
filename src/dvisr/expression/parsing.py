"""Infix text to a tree. The parser knows the names of the library and no others, bounds size and
depth, and executes nothing."""

from __future__ import annotations

import dataclasses
import difflib
import re

from dvisr.expression.printing import least_precedences
from dvisr.expression.tree import Expression
from dvisr.library import INFIX, OPERATORS, Kind, Library, Precedence

MAX_CHARACTERS = 20_000
MAX_TOKENS = 1_000
MAX_NESTING = 100

_LEXEME = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<symbol>\*\*|[-+*/^(),])
    )""",
    re.VERBOSE | re.ASCII,
)


class ParseError(ValueError):
    """A formula can't be read: the message says what is wrong with it, and where."""


@dataclasses.dataclass(frozen=True)
class _Lexeme:
    kind: str
    text: str
    column: int  # counted from 1


def parse(text: str, library: Library) -> Expression:
    """Read a formula.

    Parameters
    ----------
    text : str
        For example `x0 * c + sin(x0)`. Every name, number and operator in it must be in the
        library; a sign before anything but a number is the operator `neg`.
    library : Library

    Returns
    -------
    Expression

    Raises
    ------
    ParseError
        If the text is no formula over the library. It is a `ValueError`.

    Examples
    --------
    >>> from dvisr import Library, parse
    >>> library = Library.create(["+", "*", "sin"], ["x0"], constants=True)
    >>> parse("x0*c + sin(x0)", library).complexity
    6
    >>> parse("x0 + 2", library)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
        ...
    dvisr.expression.parsing.ParseError: the number 2 at column 6 is not in the library: ...
    """
    if not isinstance(text, str):
        raise ParseError(f"a formula must be text, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise ParseError(f"the formula is longer than {MAX_CHARACTERS} characters")
    parser = _Parser(_lexemes(text), library)
    tokens = parser.expression(Precedence.SUM, 0)
    parser.expect_end()
    return Expression(library, tuple(tokens))


def _lexemes(text: str) -> list[_Lexeme]:
    lexemes: list[_Lexeme] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _LEXEME.match(text, position)
        if match is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            raise ParseError(f"{text[position]!r} at column {position + 1} can't be read")
        assert match.lastgroup is not None
        lexeme = match[match.lastgroup]
        spelled = "^" if lexeme == "**" else lexeme
        lexemes.append(_Lexeme(match.lastgroup, spelled, match.start(match.lastgroup) + 1))
        position = match.end()
        if len(lexemes) > 4 * MAX_TOKENS:
            raise ParseError(f"the formula has more than {MAX_TOKENS} tokens")
    if not lexemes:
        raise ParseError("the formula is empty")
    lexemes.append(_Lexeme("end", "the end", end + 1))
    return lexemes


def numbers_in(text: str) -> list[str]:
    """The numbers of a formula, `pi` among them, each value once, as they are spelt."""
    spellings: dict[float, str] = {}
    lexemes = _lexemes(text) if isinstance(text, str) else []
    for lexeme in lexemes:
        if lexeme.kind == "number":
            spellings.setdefault(float(lexeme.text), lexeme.text)
    numbers = [spellings[value] for value in sorted(spellings)]
    if any(lexeme.kind == "name" and lexeme.text == "pi" for lexeme in lexemes):
        numbers.append("pi")
    return numbers


def names_in(text: str) -> list[str]:
    """The names in a formula, as they are spelt, those in backticks without them."""
    return [
        lexeme.text if lexeme.kind == "name" else lexeme.text[1:-1].replace("``", "`")
        for lexeme in _lexemes(text)
        if lexeme.kind in ("name", "quoted")
    ]


class _Parser:
    """Precedence climbing. Every method returns prefix tokens."""

    def __init__(self, lexemes: list[_Lexeme], library: Library) -> None:
        self._lexemes = lexemes
        self._library = library
        self._next = 0

    def expression(self, least: int, nesting: int) -> list[int]:
        """An operand, then operators that bind at least as tightly as `least`."""
        if nesting > MAX_NESTING:
            raise ParseError(f"the formula is nested more than {MAX_NESTING} deep")
        left = self._operand(nesting)
        while True:
            lexeme = self._lexemes[self._next]
            if lexeme.kind != "symbol" or lexeme.text not in INFIX:
                return left
            operator = OPERATORS[lexeme.text]
            assert operator.precedence is not None
            if operator.precedence < least:
                return left
            self._next += 1
            token_id = self._token(lexeme, lexeme.text)
            # A sign may follow an operator: x0 ^ -1.
            right = self.expression(least_precedences(operator)[1], nesting + 1)
            left = self._bounded([token_id, *left, *right])

    def expect_end(self) -> None:
        lexeme = self._lexemes[self._next]
        if lexeme.kind != "end":
            raise ParseError(f"unexpected {lexeme.text!r} at column {lexeme.column}")

    def _operand(self, nesting: int) -> list[int]:
        lexeme = self._lexemes[self._next]
        self._next += 1
        if lexeme.kind == "number":
            return [self._literal(lexeme, lexeme.text)]
        if lexeme.kind == "quoted":
            return [self._token(lexeme, lexeme.text)]
        if lexeme.kind == "name":
            return self._name(lexeme, nesting)
        if lexeme.text == "(":
            inner = self.expression(Precedence.SUM, nesting + 1)
            self._expect(")")
            return inner
        if lexeme.text == "-":
            return self._signed(lexeme, nesting)
        if lexeme.kind == "end":
            raise ParseError(f"the formula stops at column {lexeme.column} where a value should be")
        raise ParseError(
            f"{lexeme.text!r} at column {lexeme.column} stands where a value should be"
        )

    def _signed(self, sign: _Lexeme, nesting: int) -> list[int]:
        number = self._lexemes[self._next]
        after = self._lexemes[min(self._next + 1, len(self._lexemes) - 1)]
        if number.kind == "number" and after.text != "^":
            negative = self._find_literal(-float(number.text))
            if negative is not None:
                self._next += 1
                return [negative]
        operand = self.expression(Precedence.SIGN + 1, nesting + 1)
        return self._bounded([self._token(sign, "neg"), *operand])

    def _name(self, lexeme: _Lexeme, nesting: int) -> list[int]:
        token_id = self._token(lexeme, lexeme.text)
        token = self._library[token_id]
        if token.is_leaf:
            return [token_id]
        self._expect("(", after=lexeme)
        operands = self.expression(Precedence.SUM, nesting + 1)
        for _ in range(token.arity - 1):
            self._expect(",", after=lexeme)
            operands = [*operands, *self.expression(Precedence.SUM, nesting + 1)]
        self._expect(")", after=lexeme)
        return self._bounded([token_id, *operands])

    def _literal(self, lexeme: _Lexeme, text: str) -> int:
        token_id = self._find_literal(float(text))
        if token_id is None:
            raise ParseError(
                f"the number {_shortened(text)} at column {lexeme.column} is not in the library: "
                f"list it among the operators, or write c for a constant to be found"
            )
        return token_id

    def _find_literal(self, value: float) -> int | None:
        for token_id in self._library.ids_of_kind(Kind.LITERAL):
            if self._library[token_id].value == value and self._library[token_id].name != "pi":
                return token_id
        return None

    def _token(self, lexeme: _Lexeme, name: str) -> int:
        token_id = self._library.find(name)
        if token_id is None and lexeme.kind == "quoted":
            token_id = self._library.find(name[1:-1].replace("``", "`"))
            if token_id is not None and self._library[token_id].kind is not Kind.VARIABLE:
                token_id = None
        if token_id is None:
            raise ParseError(self._unknown(lexeme, name))
        return token_id

    def _unknown(self, lexeme: _Lexeme, name: str) -> str:
        known = [token.name for token in self._library]
        if lexeme.text == "-" and name == "neg":
            return f"the sign at column {lexeme.column} needs the operator 'neg' in the library"
        if lexeme.kind == "symbol":
            return (
                f"the operator {name!r} at column {lexeme.column} is not in the library: "
                f"add it to the operators"
            )
        names = [token.name for token in self._library if token.kind is not Kind.LITERAL]
        close = difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {' '.join(known[:20])}"
        return f"{_shortened(name)!r} at column {lexeme.column} is not in the library: {hint}"

    def _expect(self, symbol: str, after: _Lexeme | None = None) -> None:
        lexeme = self._lexemes[self._next]
        if lexeme.text != symbol or lexeme.kind != "symbol":
            behind = f" after {after.text!r}" if after is not None else ""
            got = "the formula stops" if lexeme.kind == "end" else f"{lexeme.text!r} stands"
            raise ParseError(f"{symbol!r} is missing{behind}: {got} at column {lexeme.column}")
        self._next += 1

    def _bounded(self, tokens: list[int]) -> list[int]:
        if len(tokens) > MAX_TOKENS:
            raise ParseError(f"the formula has more than {MAX_TOKENS} tokens")
        return tokens


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
