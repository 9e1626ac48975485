"""`Token`: one symbol of the language, and all that the other rooms need to know of it."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Literal

# An operator's function takes the array namespace first (numpy or jax.numpy; inside compiled host
# kernels, numpy again) and then its operands, so that one definition serves every evaluator.
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


@dataclasses.dataclass(frozen=True)
class Token:
    """One symbol. Build operators with `new_operator`; a `Library` builds the rest.

    `name` is how the symbol is typed and printed, and no two tokens of a library share it: a
    variable whose column is called `x y`, `sin` or `c` has that name in backticks.
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
    latex: str | None = None
    sympy: Callable[..., Any] | None = None
    safe_operands: tuple[float, ...] = ()
    value: float = math.nan  # of a literal
    column: int = -1  # of a variable
    column_name: str = ""  # of a variable, as the user's table has it

    @property
    def is_leaf(self) -> bool:
        return self.arity == 0

    def __repr__(self) -> str:
        return f"Token({self.name!r})"

    def __reduce__(self) -> Any:
        """A built-in operator is sent between processes by its name: its functions can't be. And
        what is not a number must come back as the same nothing, or tokens would not be equal."""
        from dvisr.library.operators import OPERATORS

        if OPERATORS.get(self.name) is self:
            return _built_in, (self.name,)
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        if math.isnan(self.value):
            del fields["value"]
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
    """An operator of one or two operands.

    - `function(np, x)` or `function(np, a, b)` computes it, elementwise, with the namespace it is
      given. A result that is not finite is undefined; `is_defined(np, ...)` may narrow the domain.
    - `derivatives`: the partial derivative by each operand, called like `function`. Without it,
      automatic differentiation is used.
    - `safe_operands`: a point inside the domain, needed only where (1.0, ...) is outside it.
    - `inverse`: the name of the operator that undoes this one; `parity`, `is_commutative`,
      `is_associative` and `linearity` are promises about its algebra that are relied on.
    - `latex`: a template in which `#1` and `#2` stand for the operands.
    - `sympy(sympy, ...)`: the SymPy expression, the module given first.
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
