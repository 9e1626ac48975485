"""A formula as a Python function of NumPy arrays, for output only: nothing here runs it. Columns
become arguments by names that are safe in Python, whatever the columns are called."""

from __future__ import annotations

import keyword

from dvisr.expression.tree import Expression, fold
from dvisr.library import Kind, Role, Token

# The text, how tightly it binds in Python, and whether it is made of numbers alone.
_Part = tuple[str, int, bool]

_SUM, _PRODUCT, _SIGN, _ATOM = 1, 2, 3, 5
_INFIX = {
    Role.SUM: ("+", _SUM, _SUM),
    Role.DIFFERENCE: ("-", _SUM, _SUM + 1),
    Role.PRODUCT: ("*", _PRODUCT, _PRODUCT),
    Role.QUOTIENT: ("/", _PRODUCT, _PRODUCT + 1),
}
_NUMPY = frozenset({"sin", "cos", "tan", "exp", "log", "sqrt", "square", "abs", "tanh"})


def python_arguments(expression: Expression) -> list[tuple[str, str]]:
    """For each column of the library: the name of its argument, and its own name."""
    taken = {"np"}
    pairs = []
    for column, name in enumerate(expression.library.variables):
        is_safe = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
        argument = name if is_safe and not name.startswith("__") else f"column_{column}"
        while argument in taken:
            argument += "_"
        taken.add(argument)
        pairs.append((argument, name))
    return pairs


def python_source(expression: Expression, name: str) -> str:
    """Write a formula as a function of Python source.

    Parameters
    ----------
    expression : Expression
        With values for its constants.
    name : str
        What to call the function.

    Returns
    -------
    str
        Source that needs `import numpy as np`. It takes every column of the library, in order, as
        arrays or numbers; where the formula is undefined it may give NaN, infinity or, unlike
        `DVISRRegressor.numpy`, a number.

    Raises
    ------
    ValueError
        If constants have no values, or an operator is code of the user's own.

    Examples
    --------
    >>> from dvisr import Library, parse
    >>> from dvisr.expression import python_source
    >>> library = Library.create(["*", "sin"], ["x"], constants=True)
    >>> print(python_source(parse("sin(x) * c", library).with_constants([0.1]), "wave"))
    def wave(x):
        x = np.asarray(x, dtype=np.float64)
        return np.sin(x) * 0.1
    """
    if expression.num_constants and expression.constants is None:
        raise ValueError("the constants of a formula need values before it can be Python")
    arguments = [argument for argument, _ in python_arguments(expression)]

    def combine(token: Token, index: int, operands: list[_Part]) -> _Part:
        if token.kind is Kind.VARIABLE:
            return arguments[token.column], _ATOM, False
        if token.kind is Kind.CONSTANT:
            assert expression.constants is not None
            return _number(expression.constants[index])
        if token.kind is Kind.LITERAL:
            return ("np.pi", _ATOM, True) if token.name == "pi" else _number(token.value)
        return _operation(token, operands)

    body, _, _ = fold(expression, combine)
    used = {expression.library[token].column for token in expression.tokens} - {-1}
    lines = [f"def {name}({', '.join(arguments)}):"]
    for column in sorted(used):
        lines.append(f"    {arguments[column]} = np.asarray({arguments[column]}, dtype=np.float64)")
    return "\n".join([*lines, f"    return {body}"])


def _operation(token: Token, operands: list[_Part]) -> _Part:
    is_number = all(plain for _, _, plain in operands)
    texts = [text for text, _, _ in operands]
    if token.role in _INFIX and not (token.role is Role.QUOTIENT and is_number):
        symbol, own, right = _INFIX[token.role]
        left_text, right_text = _bracketed(operands[0], own), _bracketed(operands[1], right)
        return f"{left_text} {symbol} {right_text}", own, is_number
    if token.role is Role.NEGATIVE:
        return f"-{_bracketed(operands[0], _SIGN)}", _SIGN, is_number
    # Plain numbers raise errors in Python where arrays give infinity: NumPy's functions do not.
    if token.role is Role.QUOTIENT:
        return f"np.divide({', '.join(texts)})", _ATOM, is_number
    if token.role is Role.POWER:
        return f"np.power({', '.join(texts)})", _ATOM, is_number
    if token.role is Role.RECIPROCAL:
        return f"np.divide(1.0, {texts[0]})", _ATOM, is_number
    if token.name in _NUMPY:
        return f"np.{token.name}({texts[0]})", _ATOM, is_number
    if token.role is Role.WHOLE_POWER:
        return f"np.power({texts[0]}, {float(token.exponent or 1)})", _ATOM, is_number
    raise ValueError(f"the operator {token.name!r} is code of your own and has no Python text")


def _number(value: float) -> _Part:
    text = repr(float(value))
    return text, _SIGN if text.startswith("-") else _ATOM, True


def _bracketed(operand: _Part, least: int) -> str:
    text, own, _ = operand
    return text if own >= least else f"({text})"
