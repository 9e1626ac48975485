from __future__ import annotations

import math

import numpy as np
import pytest

from dvisr.library import OPERATORS, Kind, Library, new_operator


def test_every_operator_of_the_language_is_there() -> None:
    expected = "+ - * / ^ sin cos tan exp log sqrt square cube neg inv abs tanh"
    assert " ".join(OPERATORS) == expected


def test_order_is_operators_literals_constant_variables() -> None:
    library = Library.create(["+", "2", "sin", "pi"], ["a", "b"], constants=True)
    assert [token.name for token in library] == ["+", "sin", "2", "pi", "c", "a", "b"]
    assert library.constant_id == 4
    assert library.variables == ("a", "b")
    assert library[3].value == math.pi


@pytest.mark.parametrize("listed", ["+,c", ["+", "c"]])
def test_c_may_be_listed(listed: str | list[str]) -> None:
    assert Library.create(listed, ["x"]).has_constants


@pytest.mark.parametrize(
    ("name", "spelling"),
    [
        ("x0", "x0"),
        ("I", "I"),
        ("lambda", "lambda"),
        ("x y", "`x y`"),
        ("c", "`c`"),
        ("sin", "`sin`"),
        ("pi", "`pi`"),
        ("a`b", "`a``b`"),
        ("ünï", "`ünï`"),
        ("", "``"),
        ("=cmd()", "`=cmd()`"),
    ],
)
def test_columns_of_any_name(name: str, spelling: str) -> None:
    library = Library.create(["+", "sin"], [name], constants=True)
    (variable,) = library.ids_of_kind(Kind.VARIABLE)
    assert library[variable].name == spelling
    assert library[variable].column_name == name


@pytest.mark.parametrize(
    ("operators", "message"),
    [
        (["+", "+"], "twice"),
        (["1", "1.0"], "literal 1 is in the library twice"),
        (["add"], "did you mean '\\+'"),
        (["sine"], "did you mean 'sin'"),
        (["%%%"], "choose from"),
        (["1e999"], "not a finite number"),
        (["nan"], "is no operator"),
        (["__import__"], "is no operator"),
    ],
)
def test_mistakes_are_explained(operators: list[str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Library.create(operators, ["x"])


def test_no_leaf_and_too_many_tokens() -> None:
    with pytest.raises(ValueError, match="no variable, literal or constant"):
        Library.create(["+"], [])
    with pytest.raises(ValueError, match="at most 120"):
        Library.create(["+"], [f"x{i}" for i in range(200)])


def square(np: object, x: float) -> float:
    return x * x


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("f", 3, square), "1 or 2 operands"),
        (("f g", 1, square), "ASCII letters"),
        (("f", 1, None), "needs a function"),
        (("ключ", 1, square), "ASCII letters"),
    ],
)
def test_bad_operators(arguments: tuple[object, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        new_operator(*arguments)  # type: ignore[arg-type]


def test_bad_operator_promises() -> None:
    with pytest.raises(ValueError, match="can't be commutative"):
        new_operator("f", 1, square, is_commutative=True)
    with pytest.raises(ValueError, match="no parity"):
        new_operator("f", 2, square, parity="odd")
    with pytest.raises(ValueError, match="2 derivative"):
        new_operator("f", 2, square, derivatives=(square,))
    with pytest.raises(ValueError, match="1 safe operand"):
        new_operator("f", 1, square, safe_operands=(1.0, 2.0))


@pytest.mark.parametrize("name", OPERATORS)
def test_declared_algebra_is_true(name: str) -> None:
    """Derivatives, parity, commutativity, associativity and inverses, at points of the domain."""
    operator = OPERATORS[name]
    rng = np.random.default_rng(0)
    points = [rng.uniform(0.3, 1.4, 50) for _ in range(3)]
    f = operator.function
    assert f is not None
    a, b, c = points
    operands = points[: operator.arity]
    assert operator.derivatives is not None
    step = 1e-6
    for place, derivative in enumerate(operator.derivatives):
        up = [x + step * (i == place) for i, x in enumerate(operands)]
        down = [x - step * (i == place) for i, x in enumerate(operands)]
        numerical = (f(np, *up) - f(np, *down)) / (2 * step)
        np.testing.assert_allclose(derivative(np, *operands), numerical, rtol=1e-7, atol=1e-8)
    if operator.arity == 1:
        parities = {"odd": -f(np, a), "even": f(np, a)}
        for parity, mirrored in parities.items():
            with np.errstate(invalid="ignore"):
                is_so = np.allclose(f(np, -a), mirrored)
            assert is_so == (operator.parity == parity)
    else:
        assert np.allclose(f(np, a, b), f(np, b, a)) == operator.is_commutative
        is_associative = np.allclose(f(np, f(np, a, b), c), f(np, a, f(np, b, c)))
        assert is_associative == operator.is_associative
    if operator.inverse is not None:
        undo = OPERATORS[operator.inverse].function
        assert undo is not None
        np.testing.assert_allclose(undo(np, f(np, a)), a)
        assert OPERATORS[operator.inverse].inverse == name


@pytest.mark.parametrize("name", ["inv", "neg", "square", "c", "pi"])
def test_names_of_the_language_are_taken(name: str) -> None:
    mine = new_operator(name, 1, square)
    with pytest.raises(ValueError, match="is a name of the language"):
        Library.create([mine], ["x"])


def test_misspelt_promises_are_refused() -> None:
    with pytest.raises(ValueError, match="must be 'odd' or 'even'"):
        new_operator("f", 1, square, parity="evn")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="must be 'joint'"):
        new_operator("f", 1, square, linearity="quadratic")  # type: ignore[arg-type]


def test_other_spellings_of_operators() -> None:
    assert Library.create(["**"], ["x"])[0].name == "^"
    with pytest.raises(ValueError, match="separate operators with commas"):
        Library.create("+ * sin", ["x"])
