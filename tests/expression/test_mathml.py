"""MathML: what a reader sees, and that names stay text."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree

import pytest
from hypothesis import given

from dvisr.expression import Expression, mathml, parse
from dvisr.library import Library
from tests.strategies import expressions, libraries

LIBRARY = Library.create(
    ["+", "-", "*", "/", "^", "sin", "sqrt", "abs", "neg", "inv", "square", "2", "pi"],
    ["x0", "speed"],
    constants=True,
)


def shown(text: str, *values: float) -> str:
    """The characters of the markup in their order, with brackets around what is set apart."""
    expression = parse(text, LIBRARY)
    root = ElementTree.fromstring(
        mathml(expression.with_constants(values) if values else expression)
    )

    def read(element: ElementTree.Element) -> str:
        parts = [read(child) for child in element]
        if element.tag in ("mfrac", "msup", "msub", "msqrt"):
            return f"{element.tag}[{';'.join(parts)}]"
        return (element.text or "") + "".join(parts)

    return read(root).replace("\u2061", "")


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("x0 + speed * c", (2.5,), "msub[x;0]+speed·2.5"),
        ("x0 + c", (-0.003,), "msub[x;0]−0.003"),
        ("x0 - c", (-0.003,), "msub[x;0]+0.003"),
        ("x0 + speed * c", (-2.5,), "msub[x;0]−speed·2.5"),
        ("speed * c", (-2.5,), "speed·(−2.5)"),
        ("x0 - (speed - 2)", (), "msub[x;0]−(speed−2)"),
        ("x0 - speed * 2", (), "msub[x;0]−speed·2"),
        ("(x0 + 2) * speed", (), "(msub[x;0]+2)·speed"),
        ("x0 / (speed + 2)", (), "mfrac[msub[x;0];speed+2]"),
        ("x0 + c / speed", (-3.0,), "msub[x;0]−mfrac[3;speed]"),
        ("(x0 / speed) ^ 2", (), "msup[(mfrac[msub[x;0];speed]);2]"),
        ("square(x0 + speed)", (), "msup[(msub[x;0]+speed);2]"),
        ("inv(speed) * pi", (), "mfrac[1;speed]·π"),
        ("sqrt(abs(speed))", (), "msqrt[|speed|]"),
        ("-(x0 + speed)", (), "−(msub[x;0]+speed)"),
        ("-(-speed)", (), "−(−speed)"),
        ("sin(speed + c) + c", (), "sin(speed+msub[c;0])+msub[c;1]"),
        ("speed * c", (1.5e-9,), "speed·(1.5×msup[10;−9])"),
    ],
)
def test_what_is_shown(text: str, values: tuple[float, ...], expected: str) -> None:
    assert shown(text, *values) == expected


@pytest.mark.parametrize(
    "name", ["</script><img onerror=alert(1)>", 'a"b', "x y", "<b>", "&amp;", "a\nb", "\u202eabc"]
)
def test_a_name_stays_text(name: str) -> None:
    library = Library.create(["+"], [name, "x"])
    markup = mathml(Expression(library, (0, 1, 2)), left=name)
    texts = [element.text or "" for element in ElementTree.fromstring(markup).iter()]
    printed = "".join(c if c.isprintable() else repr(c)[1:-1] for c in name)
    assert texts.count(printed) == 2
    assert set(re.findall(r"</?([a-z]+)", markup)) <= {"math", "mrow", "mi", "mo", "mtext"}


@given(libraries().flatmap(expressions))
def test_every_tree_is_well_formed(expression: Expression) -> None:
    values = [(-1.0) ** place * 1.5 for place in range(expression.num_constants)]
    root = ElementTree.fromstring(mathml(expression.with_constants(values)))
    assert root.tag == "math"
    for element in root.iter():
        assert len(element) == 2 or element.tag not in ("mfrac", "msup", "msub")
