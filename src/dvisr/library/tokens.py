"""`Token`: one symbol of the language, with everything the rest of the package must know of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from enum import Enum, IntEnum
from typing import Any, Literal

# An operator's function takes the array namespace first (jax.numpy, or numpy, in compiled code too)
# and then its operands, so that one definition is enough for every evaluator.
OperatorFunction = Callable[..., Any]

Parity = Literal["odd", "even"]

# How a value depends on operands that contain constants:
#   "joint"  affine in all operands together (a + b, a - b, -a);
#   "each"   affine in one operand while the others hold no constant (a * b);
#   "first"  affine in the first operand while the second holds no constant (a / b).
Linearity = Literal["joint", "each", "first"]

MAX_ARITY = 2


class Kind(Enum):
    OPERATOR = "operator"
    LITERAL = "literal"
    CONSTANT = "constant"
    VARIABLE = "variable"


class Role(Enum):
    """What an operator computes, where rules of arithmetic apply to it.

    Canonical forms, regroupings and output go by the role of a token, never by its name.
    """

    SUM = "a + b"
    DIFFERENCE = "a - b"
    PRODUCT = "a * b"
    QUOTIENT = "a / b"
    POWER = "a ^ b"
    NEGATIVE = "-a"
    RECIPROCAL = "1 / a"
    WHOLE_POWER = "a ^ n"  # n is the token's `exponent`


class Precedence(IntEnum):
    """How tightly a text binds; an operand that binds more loosely than its place requires is
    printed in parentheses."""

    SUM = 1
    PRODUCT = 2
    SIGN = 3
    POWER = 4
    ATOM = 5


@dataclasses.dataclass(frozen=True)
class Token:
    """One symbol of a library.

    Users make operators with `new_operator`; `Library.create` makes the other tokens. No two tokens
    of a library have the same name.

    Attributes
    ----------
    name : str
        How the symbol is typed and printed. A variable whose column is called `x y`, `sin` or `c`
        has that name in backticks.
    kind : Kind
        Operator, literal, constant or variable.
    arity : int
        The number of operands: 0 for a leaf.
    role, exponent : Role or None, int or None
        What the operator computes, if rules of arithmetic apply to it; the exponent of a whole
        power. Declared by the built-in operators alone.
    precedence : Precedence or None
        Of an operator written between its operands, or before its only one. The others are written
        as calls, `name(...)`.

    The other attributes are described at `new_operator`.

    Examples
    --------
    >>> from dvisr import Library
    >>> plus, x = Library.create(["+"], ["x"])
    >>> plus.arity, plus.is_commutative, plus.role.value, x.is_leaf
    (2, True, 'a + b', True)
    """

    name: str
    kind: Kind
    arity: int = 0
    function: OperatorFunction | None = None
    is_defined: OperatorFunction | None = None
    derivatives: tuple[OperatorFunction, ...] | None = None
    inverse: str | None = None
    is_trig: bool = False
    is_commutative: bool = False
    is_associative: bool = False
    parity: Parity | None = None
    linearity: Linearity | None = None
    role: Role | None = None
    exponent: int | None = None
    precedence: Precedence | None = None
    latex: str | None = None
    sympy: Callable[..., Any] | None = None
    safe_operands: tuple[float, ...] = ()
    value: float = dataclasses.field(default=math.nan, compare=False)  # of a literal: its name's
    column: int = -1  # of a variable
    column_name: str = ""  # of a variable, as the user's table has it

    @property
    def is_leaf(self) -> bool:
        return self.arity == 0

    @property
    def inverts_second(self) -> bool:
        """Whether it is a sum or a product with the second operand inverted: a - b, a / b."""
        return self.role in (Role.DIFFERENCE, Role.QUOTIENT)

    def __repr__(self) -> str:
        return f"Token({self.name!r})"

    def __reduce__(self) -> Any:
        # A built-in operator is pickled by its name, since its functions can't be.
        from dvisr.library.operators import OPERATORS

        if OPERATORS.get(self.name) is self:
            return _built_in, (self.name,)
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return _rebuilt, (fields,)


def new_operator(
    name: str,
    arity: int,
    function: OperatorFunction,
    *,
    is_defined: OperatorFunction | None = None,
    derivatives: OperatorFunction | tuple[OperatorFunction, ...] | None = None,
    inverse: str | None = None,
    is_trig: bool = False,
    is_commutative: bool = False,
    is_associative: bool = False,
    parity: Parity | None = None,
    linearity: Linearity | None = None,
    latex: str | None = None,
    sympy: Callable[..., Any] | None = None,
    safe_operands: tuple[float, ...] | None = None,
) -> Token:
    """Make an operator of one or two operands, to be listed among the operators of a library.

    Functions take the array namespace first, `function(np, x)` or `function(np, a, b)`, and work
    elementwise. They are compiled by Numba and run by NumPy and JAX, so they must suit all three.

    Parameters
    ----------
    name : str
        How the operator is typed: ASCII letters, digits and _, no name of the language.
    arity : int
        The number of operands, 1 or 2.
    function : callable
        Computes the operator. Where the result is not finite, the operator is undefined.
    is_defined : callable, optional
        Says where the operator is defined, if not wherever the result is finite.
    derivatives : callable or tuple of callables, optional
        The partial derivative by each operand, called like `function`. Without it, compiled code
        uses a central difference and JAX its automatic differentiation.
    inverse : str, optional
        The name of the operator that undoes this one: read by the constraint `no-inverse`.
    is_trig : bool, default=False
        Whether the constraint `no-nested-trig` applies.
    is_commutative, is_associative : bool, default=False
        Promises about an operator of two operands. They are relied on, not checked.
    parity : {"odd", "even"}, optional
        A promise about an operator of one operand: f(-x) is -f(x), or f(x).
    linearity : {"joint", "each", "first"}, optional
        A promise that the value is affine: in all operands together ("joint"), in each one while
        the other holds no constant ("each"), in the first while the second holds none ("first").
    latex : str, optional
        A template in which `#1` and `#2` stand for the operands.
    sympy : callable, optional
        `sympy(module, ...)` returns the SymPy expression. Without it, the operator becomes a
        function symbol.
    safe_operands : tuple of float, optional
        A point inside the domain; needed where (1.0, ...) is outside it.

    Returns
    -------
    Token

    Raises
    ------
    ValueError
        If the name, the number of operands or a promise is not possible.

    Examples
    --------
    >>> from dvisr import Library, new_operator, parse
    >>> bell = new_operator("bell", 1, lambda np, x: np.exp(-x * x), parity="even")
    >>> print(parse("bell(x) + x", Library.create(["+", bell], ["x"])))
    bell(x) + x
    """
    if callable(derivatives):
        derivatives = (derivatives,)
    operator = Token(
        name=name,
        kind=Kind.OPERATOR,
        arity=arity,
        function=function,
        is_defined=is_defined,
        derivatives=derivatives,
        inverse=inverse,
        is_trig=is_trig,
        is_commutative=is_commutative,
        is_associative=is_associative,
        parity=parity,
        linearity=linearity,
        latex=latex,
        sympy=sympy,
        safe_operands=(1.0,) * arity if safe_operands is None else tuple(safe_operands),
    )
    _check(operator)
    return operator


def _built_in(name: str) -> Token:
    from dvisr.library.operators import OPERATORS

    return OPERATORS[name]


def _rebuilt(fields: dict[str, Any]) -> Token:
    return Token(**fields)


def _check(operator: Token) -> None:
    name, arity = operator.name, operator.arity
    if arity not in (1, MAX_ARITY):
        raise ValueError(f"operator {name!r} must take 1 or 2 operands, not {arity!r}")
    if not isinstance(name, str) or not (name.isidentifier() and name.isascii()):
        raise ValueError(
            f"an operator's name must be made of ASCII letters, digits and _, not {name!r}"
        )
    if not callable(operator.function):
        raise ValueError(f"operator {name!r} needs a function(np, ...), not {operator.function!r}")
    if arity == 1 and (operator.is_commutative or operator.is_associative):
        raise ValueError(f"operator {name!r} takes one operand, so it can't be commutative")
    if operator.parity not in (None, "odd", "even"):
        raise ValueError(f"parity of {name!r} must be 'odd' or 'even', not {operator.parity!r}")
    if arity == MAX_ARITY and operator.parity is not None:
        raise ValueError(f"operator {name!r} takes two operands, so it has no parity")
    if operator.linearity not in (None, "joint", "each", "first"):
        raise ValueError(
            f"linearity of {name!r} must be 'joint', 'each' or 'first', not {operator.linearity!r}"
        )
    if operator.derivatives is not None and len(operator.derivatives) != arity:
        raise ValueError(
            f"operator {name!r} needs {arity} derivative(s), one an operand, "
            f"not {len(operator.derivatives)}"
        )
    if len(operator.safe_operands) != arity:
        raise ValueError(f"operator {name!r} needs {arity} safe operand(s)")
