"""`Library`: the ordered tokens of one problem."""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from dvisr.library.operators import OPERATORS
from dvisr.library.tokens import Kind, Token

MAX_TOKENS_IN_LIBRARY = 120  # token ids travel as int8

CONSTANT = Token(name="c", kind=Kind.CONSTANT, latex="c")

_NUMBER = re.compile(r"-?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\Z", re.ASCII)


class Library:
    """The tokens of one problem, in order: operators, literals, the constant, variables.

    A token's *id* is its position in this order. Two libraries are equal when they hold equal
    tokens in equal order. `Library.create` makes one from names.

    Parameters
    ----------
    tokens : iterable of Token

    Raises
    ------
    ValueError
        If a name or a literal occurs twice, an operator has a name of the language, there is no
        leaf, or there are too many tokens.

    Examples
    --------
    >>> from dvisr import Library
    >>> Library.create(["+", "sin", "2"], ["x", "my column"], constants=True)
    Library(+, sin, 2, c, x, `my column`)
    """

    def __init__(self, tokens: Iterable[Token]) -> None:
        self.tokens = tuple(tokens)
        for token in self.tokens:
            # Formulas are parsed, and models saved, by these names.
            is_taken = token.name in OPERATORS or token.name in (CONSTANT.name, "pi")
            if token.kind is Kind.OPERATOR and is_taken and token is not OPERATORS.get(token.name):
                raise ValueError(f"{token.name!r} is a name of the language: call yours otherwise")
        names = [token.name for token in self.tokens]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{name!r} is in the library twice: list it once")
        values = [token.value for token in self.tokens if token.kind is Kind.LITERAL]
        for value in values:
            if values.count(value) > 1:
                raise ValueError(f"the literal {value:g} is in the library twice: list it once")
        if not any(token.is_leaf for token in self.tokens):
            raise ValueError(
                "the library has no variable, literal or constant, so no expression can end: "
                "add one"
            )
        if len(self.tokens) > MAX_TOKENS_IN_LIBRARY:
            raise ValueError(
                f"the library has {len(self.tokens)} tokens and may have at most "
                f"{MAX_TOKENS_IN_LIBRARY}: select fewer columns or operators"
            )

        self._ids = {name: token_id for token_id, name in enumerate(names)}

    @classmethod
    def create(
        cls,
        operators: Sequence[str | Token],
        variables: Sequence[str],
        *,
        constants: bool = False,
    ) -> Library:
        """Make a library from names.

        Parameters
        ----------
        operators : sequence of str or Token
            Names of operators, numbers, `c` for the constant, and operators of your own. May be one
            text, separated by commas.
        variables : sequence of str
            The names of the columns, in order.
        constants : bool, default=False
            Whether to add the constant `c`.

        Returns
        -------
        Library

        Raises
        ------
        ValueError
            If a name is not known, or the tokens can't be a library.
        """
        if isinstance(operators, str):
            operators = operators.split(",")
        if not isinstance(operators, Iterable):
            raise ValueError(f"operators must be a list of names, not {operators!r}")
        chosen: list[Token] = []
        literals: list[Token] = []
        for entry in operators:
            if isinstance(entry, Token):
                chosen.append(entry)
                continue
            name = "^" if entry == "**" else str(entry).strip()
            if name == CONSTANT.name:
                constants = True
            elif name in OPERATORS:
                chosen.append(OPERATORS[name])
            elif name == "pi" or _NUMBER.match(name):
                literals.append(literal(name))
            else:
                raise ValueError(_unknown_operator(name))
        leaves = [CONSTANT] if constants else []
        taken = {token.name for token in chosen} | set(OPERATORS) | {CONSTANT.name, "pi"}
        columns = [
            Token(name=_spelling(name, taken), kind=Kind.VARIABLE, column=column, column_name=name)
            for column, name in enumerate(variables)
        ]
        return cls([*chosen, *literals, *leaves, *columns])

    @property
    def arities(self) -> np.ndarray:
        return np.array([token.arity for token in self.tokens], dtype=np.int32)

    @property
    def has_constants(self) -> bool:
        return any(token.kind is Kind.CONSTANT for token in self.tokens)

    @property
    def constant_id(self) -> int:
        """The id of the constant token, or -1."""
        ids = self.ids_of_kind(Kind.CONSTANT)
        return ids[0] if ids else -1

    @property
    def variables(self) -> tuple[str, ...]:
        """The columns' own names."""
        return tuple(token.column_name for token in self.tokens if token.kind is Kind.VARIABLE)

    def ids_of_kind(self, kind: Kind) -> tuple[int, ...]:
        return tuple(i for i, token in enumerate(self.tokens) if token.kind is kind)

    def find(self, name: str) -> int | None:
        """The id of the token of that name."""
        return self._ids.get(name)

    def __len__(self) -> int:
        return len(self.tokens)

    def __iter__(self) -> Iterator[Token]:
        return iter(self.tokens)

    def __getitem__(self, token_id: int) -> Token:
        return self.tokens[token_id]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Library) and self.tokens == other.tokens

    def __hash__(self) -> int:
        return hash(self.tokens)

    def __repr__(self) -> str:
        return f"Library({', '.join(token.name for token in self.tokens)})"


def _spelling(column: str, taken: set[str]) -> str:
    """A column's name as it is typed: in backticks, doubled inside, unless it reads by itself."""
    if column.isidentifier() and column.isascii() and column not in taken:
        return column
    return "`" + column.replace("`", "``") + "`"


def literal(name: str) -> Token:
    """A number as a token: it keeps the spelling it was given."""
    value = math.pi if name == "pi" else float(name)
    if not math.isfinite(value):
        raise ValueError(f"the literal {name!r} is not a finite number")
    return Token(
        name=name,
        kind=Kind.LITERAL,
        value=value,
        latex=r"\pi" if name == "pi" else _latex_number(name),
    )


def _latex_number(name: str) -> str:
    mantissa, _, exponent = name.lower().partition("e")
    return rf"{mantissa} \cdot 10^{{{int(exponent)}}}" if exponent else mantissa


def _unknown_operator(name: str) -> str:
    known = [*OPERATORS, "pi", CONSTANT.name]
    if len(name.split()) > 1:
        return f"{name!r} is no operator: separate operators with commas, as in +,*,sin"
    close = difflib.get_close_matches(name.lower(), known, n=1)
    aliases = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "^", "**": "^", "ln": "log"}
    guess = aliases.get(name.lower()) or (close[0] if close else None)
    hint = f"did you mean {guess!r}?" if guess else f"choose from {' '.join(known)} or a number"
    return f"{name!r} is no operator: {hint}"
