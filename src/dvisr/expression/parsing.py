"""Infix text to a tree. The parser knows the names of the library and no others, bounds size and
depth, and executes nothing."""

from __future__ import annotations

import dataclasses
import difflib
from collections.abc import Sequence

from dvisr.expression.lexing import MAX_TOKENS, SYNONYMS, Lexeme, ParseError, lexemes_of
from dvisr.expression.printing import least_precedences
from dvisr.expression.tree import Expression
from dvisr.library import INFIX, OPERATORS, Kind, Library, Precedence

MAX_NESTING = 100

# Functions that are none here, and how to write them, where a library has none of that name.
_INSTEAD = {
    **dict.fromkeys(("log10", "lg"), "log is the natural logarithm: write log(x) / log(10)"),
    **dict.fromkeys(("log2", "lb"), "log is the natural logarithm: write log(x) / log(2)"),
    **dict.fromkeys(("pow", "power"), "write x ^ 2 for pow(x, 2)"),
    "cbrt": "write x ^ (1 / 3)",
    "exp2": "write 2 ^ x",
    "expm1": "write exp(x) - 1",
    "log1p": "write log(x + 1)",
    "sinh": "write (exp(x) - exp(-x)) / 2",
    "cosh": "write (exp(x) + exp(-x)) / 2",
    "sec": "write 1 / cos(x)",
    "csc": "write 1 / sin(x)",
    "cot": "write 1 / tan(x)",
}
_INVERSE = ("asin", "acos", "atan", "arcsin", "arccos", "arctan", "asinh", "acosh", "atanh")


def parse(text: str, library: Library) -> Expression:
    """Read a formula.

    Parameters
    ----------
    text : str
        For example `x0 * c + sin(x0)`. Every name, number and operator in it must be in the
        library; a sign before anything but a number is the operator `neg`. `**` is `^`, `ln(x)` is
        `log(x)`, and `2x` and `2(x + 1)` are products.
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
    dvisr.expression.lexing.ParseError: the number 2 at column 6 is not in the library: ...
    """
    return _parsed(_Parser(lexemes_of(text), library))


def parse_with_parameters(text: str, library: Library) -> tuple[Expression, tuple[str, ...]]:
    """Read a formula in which constants may have names: whatever name is in no library.

    Parameters
    ----------
    text : str
        As for `parse`. A name that is neither a column nor an operator is a constant, and may
        stand once: a constant can't be shared between two places of a tree. Names that are much
        like a column's are refused, for they are likelier to be slips.
    library : Library
        With the constant.

    Returns
    -------
    tuple of Expression and tuple of str
        The names are of its constants, in prefix order; those written `c` are c0, c1, ... by their
        place.

    Raises
    ------
    ParseError

    Examples
    --------
    >>> from dvisr import Library
    >>> from dvisr.expression import parse_with_parameters
    >>> library = Library.create(["+", "*"], ["x"], constants=True)
    >>> expression, names = parse_with_parameters("slope * x + c", library)
    >>> str(expression), names
    ('c * x + c', ('slope', 'c1'))
    """
    parser = _Parser(lexemes_of(text), library, has_parameters=library.has_constants)
    expression = _parsed(parser)
    # Leaves stand in a text in the same order as in prefix notation.
    taken = {name for name in parser.constants if name is not None}
    names = (
        f"{'_' * (f'c{place}' in taken)}c{place}" if name is None else name
        for place, name in enumerate(parser.constants)
    )
    return expression, tuple(names)


def _parsed(parser: _Parser) -> Expression:
    tokens = parser.expression(Precedence.SUM, 0)
    parser.expect_end()
    return Expression(parser.library, tuple(tokens))


class _Parser:
    """Precedence climbing. Every method returns prefix tokens."""

    def __init__(
        self, lexemes: list[Lexeme], library: Library, *, has_parameters: bool = False
    ) -> None:
        self.library = library
        self.constants: list[str | None] = []  # the names of those so far; None for c
        self._lexemes = lexemes
        self._has_parameters = has_parameters
        self._next = 0

    def expression(self, least: int, nesting: int) -> list[int]:
        """An operand, then operators that bind at least as tightly as `least`."""
        if nesting > MAX_NESTING:
            raise ParseError(f"the formula is nested more than {MAX_NESTING} deep")
        left = self._operand(nesting)
        while True:
            is_product = self._is_juxtaposed()
            lexeme = self._lexemes[self._next]
            if is_product:
                lexeme = dataclasses.replace(lexeme, kind="symbol", text="*")
            if lexeme.kind != "symbol" or lexeme.text not in INFIX:
                return left
            operator = OPERATORS[lexeme.text]
            assert operator.precedence is not None
            if operator.precedence < least:
                return left
            self._next += not is_product
            token_id = self._token(lexeme, lexeme.text)
            # A sign may follow an operator: x0 ^ -1.
            right = self.expression(least_precedences(operator)[1], nesting + 1)
            left = self._bounded([token_id, *left, *right])

    def _is_juxtaposed(self) -> bool:
        """Whether a number stands right before a name or a bracket: 2x is a product, but 1/2x and
        x^2y could be read in two ways."""
        lexeme = self._lexemes[self._next]
        number = self._lexemes[self._next - 1]
        if number.kind != "number" or not _begins_value(lexeme):
            return False
        before = self._next - 2
        while before > 0 and self._lexemes[before].text == "-":
            before -= 1
        operator = self._lexemes[before].text if before >= 0 else ""
        if operator in ("/", "^"):
            shown = f"{number.text}{lexeme.text}"
            raise ParseError(
                f"{_shortened(shown)!r} after {operator!r} at column {number.column} can be read "
                f"in two ways: write the * and brackets"
            )
        return True

    def expect_end(self) -> None:
        lexeme = self._lexemes[self._next]
        if lexeme.kind != "end":
            hint = ": write * for a product" if _begins_value(lexeme) else ""
            hint = ": write a number with a point, as in 1.5" if lexeme.text == "," else hint
            shown = _shortened(lexeme.text)
            raise ParseError(f"unexpected {shown!r} at column {lexeme.column}{hint}")

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

    def _signed(self, sign: Lexeme, nesting: int) -> list[int]:
        number = self._lexemes[self._next]
        after = self._lexemes[min(self._next + 1, len(self._lexemes) - 1)]
        if number.kind == "number" and after.text != "^":
            negative = self._find_literal(-float(number.text))
            if negative is not None:
                self._next += 1
                return [negative]
        operand = self.expression(Precedence.SIGN + 1, nesting + 1)
        return self._bounded([self._token(sign, "neg"), *operand])

    def _name(self, lexeme: Lexeme, nesting: int) -> list[int]:
        if self._is_parameter(lexeme):
            return [self._parameter(lexeme)]
        token_id = self._token(lexeme, lexeme.text)
        token = self.library[token_id]
        if token.kind is Kind.CONSTANT:
            self.constants.append(None)
        if token.is_leaf:
            return [token_id]
        self._expect("(", after=lexeme)
        operands = self.expression(Precedence.SUM, nesting + 1)
        for _ in range(token.arity - 1):
            self._expect(",", after=lexeme)
            operands = [*operands, *self.expression(Precedence.SUM, nesting + 1)]
        self._expect(")", after=lexeme)
        return self._bounded([token_id, *operands])

    def _is_parameter(self, lexeme: Lexeme) -> bool:
        is_operator = lexeme.text in OPERATORS or lexeme.text in SYNONYMS
        is_known = is_operator or self.library.find(lexeme.text) is not None
        is_called = self._lexemes[self._next].text == "("
        is_name = lexeme.text[0].isalpha()  # 1_000 is no product with _000
        return self._has_parameters and is_name and not is_known and not is_called

    def _parameter(self, lexeme: Lexeme) -> int:
        """A constant by a name of the user's."""
        name, where = lexeme.text, f"{_shortened(lexeme.text)!r} at column {lexeme.column}"
        if name in ("e", "E"):
            raise ParseError(f"{where} is no column: write exp(x) for e^x, or name it otherwise")
        slip = _alike(name, self.library.variables)
        if slip is not None:
            raise ParseError(
                f"{where} is no column: did you mean {slip!r}? A constant needs a name that is "
                f"less like a column's"
            )
        if name in self.constants:
            raise ParseError(
                f"{where} stands there a second time, and one constant can't stand in two places: "
                f"rewrite the formula so that it stands once, or give the other its own name"
            )
        self.constants.append(name)
        return self.library.constant_id

    def _literal(self, lexeme: Lexeme, text: str) -> int:
        token_id = self._find_literal(float(text))
        if token_id is None:
            raise ParseError(
                f"the number {_shortened(text)} at column {lexeme.column} is not in the library: "
                f"list it among the operators, or write c for a constant to be found"
            )
        return token_id

    def _find_literal(self, value: float) -> int | None:
        for token_id in self.library.ids_of_kind(Kind.LITERAL):
            if self.library[token_id].value == value and self.library[token_id].name != "pi":
                return token_id
        return None

    def _token(self, lexeme: Lexeme, name: str) -> int:
        token_id = self.library.find(name)
        if token_id is None and lexeme.kind == "name":
            token_id = self.library.find(SYNONYMS.get(name, name))
        if token_id is None and lexeme.kind == "quoted":
            token_id = self.library.find(name[1:-1].replace("``", "`"))
            if token_id is not None and self.library[token_id].kind is not Kind.VARIABLE:
                token_id = None
        if token_id is None:
            raise ParseError(self._unknown(lexeme, name))
        return token_id

    def _unknown(self, lexeme: Lexeme, name: str) -> str:
        known = [token.name for token in self.library]
        if lexeme.text == "-" and name == "neg":
            return f"the sign at column {lexeme.column} needs the operator 'neg' in the library"
        if lexeme.kind == "symbol":
            return (
                f"the operator {name!r} at column {lexeme.column} is not in the library: "
                f"add it to the operators"
            )
        names = [token.name for token in self.library if token.kind is not Kind.LITERAL]
        close = [] if name in _INVERSE else difflib.get_close_matches(name, names, n=1)
        hint = f"did you mean {close[0]!r}?" if close else f"it has {' '.join(known[:20])}"
        hint = _INSTEAD.get(name, hint)
        return f"{_shortened(name)!r} at column {lexeme.column} is not in the library: {hint}"

    def _expect(self, symbol: str, after: Lexeme | None = None) -> None:
        lexeme = self._lexemes[self._next]
        if lexeme.text != symbol or lexeme.kind != "symbol":
            behind = f" after {after.text!r}" if after is not None else ""
            got = "the formula stops" if lexeme.kind == "end" else f"{lexeme.text!r} stands"
            hint = f": write {after.text}(x)" if after is not None and symbol == "(" else ""
            where = f"{got} at column {lexeme.column}"
            raise ParseError(f"{symbol!r} is missing{behind}: {where}{hint}")
        self._next += 1

    def _bounded(self, tokens: list[int]) -> list[int]:
        if len(tokens) > MAX_TOKENS:
            raise ParseError(f"the formula has more than {MAX_TOKENS} tokens")
        return tokens


def _alike(name: str, columns: Sequence[str]) -> str | None:
    """The column that a name may be a slip for: other capitals, another number, a letter wrong."""
    plain = {column.lower(): column for column in columns}
    digits = "0123456789"
    for column in plain:
        if column.rstrip(digits) == name.lower().rstrip(digits):
            return plain[column]
    close = difflib.get_close_matches(name.lower(), plain, n=1)
    return plain[close[0]] if close else None


def _begins_value(lexeme: Lexeme) -> bool:
    return lexeme.kind in ("name", "quoted") or lexeme.text == "("


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else text[:37] + "..."
