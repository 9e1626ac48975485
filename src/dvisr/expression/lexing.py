"""A formula's text in pieces: numbers, names, symbols, with where they stand."""

from __future__ import annotations

import dataclasses
import itertools
import re

MAX_CHARACTERS = 20_000
MAX_TOKENS = 1_000

_PIECE = re.compile(
    r"""\s*(?:
        (?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)
      | (?P<name>[A-Za-z_]\w*)
      | (?P<quoted>`(?:[^`]|``)*`)
      | (?P<symbol>\*\*|[-+*/^(),])
    )""",
    re.VERBOSE | re.ASCII,
)

SYNONYMS = {"ln": "log"}  # other names of operators, where a library has none of that name

# What people write that is no part of the language, and what to write instead.
_INSTEAD = {
    "=": "write the right-hand side alone",
    "²": "write ^ 2",
    "³": "write ^ 3",
    "√": "write sqrt(x)",
    "π": "write pi",
    "|": "write abs(x)",
    "!": "there are no factorials",
    ".": "write a function by its name alone, as in sin(x)",
    **dict.fromkeys("·×∙⋅", "write *"),
    **dict.fromkeys("÷∕", "write /"),
    **dict.fromkeys("−–—", "write -"),  # signs that look like one
    **dict.fromkeys("[{", "write ("),
    **dict.fromkeys("]}", "write )"),
}
_OTHERWISE = "write a column's name in backticks where it has other signs than letters and digits"


class ParseError(ValueError):
    """A formula can't be read: the message says what is wrong with it, and where."""


@dataclasses.dataclass(frozen=True)
class Lexeme:
    kind: str
    text: str
    column: int  # counted from 1


def lexemes_of(text: str) -> list[Lexeme]:
    """The last is the end."""
    if not isinstance(text, str):
        raise ParseError(f"a formula must be text, not {type(text).__name__}")
    if len(text) > MAX_CHARACTERS:
        raise ParseError(f"the formula is longer than {MAX_CHARACTERS} characters")
    lexemes: list[Lexeme] = []
    position, end = 0, len(text.rstrip())
    while position < end:
        match = _PIECE.match(text, position)
        if match is None:
            position += len(text[position:]) - len(text[position:].lstrip())
            sign = text[position]
            instead = "its end is missing" if sign == "`" else _INSTEAD.get(sign, _OTHERWISE)
            raise ParseError(f"{sign!r} at column {position + 1} can't be read: {instead}")
        assert match.lastgroup is not None
        lexeme = match[match.lastgroup]
        spelled = "^" if lexeme == "**" else lexeme
        lexemes.append(Lexeme(match.lastgroup, spelled, match.start(match.lastgroup) + 1))
        position = match.end()
        if len(lexemes) > 4 * MAX_TOKENS:
            raise ParseError(f"the formula has more than {MAX_TOKENS} tokens")
    if not lexemes:
        raise ParseError("the formula is empty: write one, as in c * x0 + c")
    lexemes.append(Lexeme("end", "the end", end + 1))
    return lexemes


def numbers_in(text: str) -> list[str]:
    """The numbers of a formula, `pi` among them, each value once, as they are spelt."""
    spellings: dict[float, str] = {}
    lexemes = lexemes_of(text) if isinstance(text, str) else []
    for lexeme in lexemes:
        if lexeme.kind == "number":
            spellings.setdefault(float(lexeme.text), lexeme.text)
    numbers = [spellings[value] for value in sorted(spellings)]
    if any(lexeme.kind == "name" and lexeme.text == "pi" for lexeme in lexemes):
        numbers.append("pi")
    return numbers


def leaves_in(text: str) -> list[str]:
    """The names that no bracket follows, so columns or constants."""
    lexemes = lexemes_of(text)
    return [
        lexeme.text
        for lexeme, after in itertools.pairwise(lexemes)
        if lexeme.kind == "name" and after.text != "("
    ]


def names_in(text: str) -> list[str]:
    """The names in a formula, as they are spelt, those in backticks without them; operators by
    their own names."""
    return [
        SYNONYMS.get(lexeme.text, lexeme.text)
        if lexeme.kind == "name"
        else lexeme.text[1:-1].replace("``", "`")
        for lexeme in lexemes_of(text)
        if lexeme.kind in ("name", "quoted")
    ]
