"""Laws of the Feynman Symbolic Regression Database: in the words of a fit, and whether a fit's
function is the law."""

from __future__ import annotations

import ast
import csv
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_NAMES = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}
_FUNCTIONS = {"sqrt": "sqrt", "exp": "exp", "ln": "log", "log": "log", "sin": "sin", "cos": "cos"}
_VALUES = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
_SAME = 1e-6  # of the spread of a law's values
_NOTHING = 1e-6  # the size of a constant that does nothing where it is added
_REWRITTEN = 500  # trees of a form, as many as a fit looks at
# Shorter or likelier ways to say a law than the database's own, by that.
_SAID_OTHERWISE = {
    "m_0/sqrt(1-v**2/c**2)": ("m_0 * `c` / sqrt(square(`c`) - square(v))",),
    "m_0*v/sqrt(1-v**2/c**2)": ("m_0 * v * `c` / sqrt(square(`c`) - square(v))",),
    "(x-u*t)/sqrt(1-u**2/c**2)": ("(x - u * t) * `c` / sqrt(square(`c`) - square(u))",),
    "(1+v/c)/sqrt(1-v**2/c**2)*omega_0": ("omega_0 * sqrt((`c` + v) / (`c` - v))",),
    "h/(2*pi)*omega**3/(pi**2*c**2*(exp((h/(2*pi))*omega/(kb*T))-1))": (
        "h * omega ^ 3 / (square(`c`) * (exp(h * omega / (kb * T) * c) - 1)) * c",
    ),
    "m*c**2/sqrt(1-v**2/c**2)": ("m * `c` ^ 3 / sqrt(square(`c`) - square(v))",),
    "n*alpha/(1-(n*alpha/3))*epsilon*Ef": ("epsilon * Ef / (1 / (n * alpha) - 1 / 3)",),
    "rho_c_0/sqrt(1-v**2/c**2)": ("rho_c_0 * `c` / sqrt(square(`c`) - square(v))",),
    "sqrt(omega**2/c**2-pi**2/d**2)": ("sqrt(square(omega / `c`) - square(pi / d))",),
    "mom*H/(kb*T)+(mom*alpha)/(epsilon*c**2*kb*T)*M": (
        "mom * (H + alpha * M / (epsilon * square(`c`))) / (kb * T)",
    ),
    "-m*q**4/(2*(4*pi*epsilon)**2*(h/(2*pi))**2)*(1/n**2)": (
        "m * square(square(q) / (epsilon * h * n)) * c",
        "m * q ^ 4 / (square(epsilon) * square(h) * square(n)) * c",
    ),
    "1/(exp((h/(2*pi))*omega/(kb*T))-1)": ("1 / (exp(h * omega / (kb * T) * c) - 1)",),
}


def feynman_cases(folder: Path) -> list[tuple[Path, str]]:
    with (folder / "laws.csv").open() as file:
        return [(folder / f"{row['name']}.csv", row["formula"]) for row in csv.DictReader(file)]


class Wording:
    """A formula as nested tuples in a fit's own words: numbers as themselves where the library has
    them, or all of them as constants, of which one is enough where several could be one; or, with
    `folded`, single numbers as themselves and several that could be one as a constant."""

    def __init__(self, library: Any, *, with_numbers: bool, folded: bool = False) -> None:
        self._library = library
        self._folds = folded
        self._numbers = {}
        if with_numbers:
            self._numbers = {t.value: t.name for t in library if t.kind.value == "literal"}

    def tokens(self, formula: str) -> list[int]:
        return self._tokens(self._said(ast.parse(formula, mode="eval").body))

    def _has(self, name: str) -> bool:
        return self._library.find(name) is not None

    def _number(self, value: float) -> Any:
        return ("number", self._numbers[value]) if value in self._numbers else "c"

    def _said(self, node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return self._number(float(node.value))  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return self._number(math.pi) if node.id == "pi" else ("column", node.id)
        if isinstance(node, ast.UnaryOp):
            inner = self._said(node.operand)
            if inner == "c":
                return "c"
            return ("neg", inner) if self._has("neg") else self._joined("*", inner, "c")
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            inner = self._said(node.args[0])
            return "c" if inner == "c" else (_FUNCTIONS[node.func.id], inner)
        assert isinstance(node, ast.BinOp)
        left = self._said(node.left)
        if isinstance(node.op, ast.Pow):
            assert isinstance(node.right, ast.Constant)
            return self._power(left, int(node.right.value))  # type: ignore[arg-type]
        return self._joined(_NAMES[type(node.op)], left, self._said(node.right))

    def _power(self, left: Any, exponent: int) -> Any:
        if left == "c":
            return "c"
        if exponent == 2 and self._has("square"):
            return ("square", left)
        if self._has("^") and float(exponent) in self._numbers:
            return ("^", left, self._number(float(exponent)))
        product = left
        for _ in range(exponent - 1):
            product = ("*", product, left)
        return product

    def _joined(self, name: str, left: Any, right: Any) -> Any:
        are_numbers = all(part == "c" or part[0] == "number" for part in (left, right))
        if are_numbers and (self._folds or "c" in (left, right)):
            return "c"
        if name == "/" and right == "c":
            name = "*"
        if name in "*+" and left == "c":
            left, right = right, left
        # One constant factor is enough: (a * c) * b is (a * b) * c.
        if name in "*/" and isinstance(left, tuple) and left[0] == "*" and left[2] == "c":
            return left if right == "c" else self._scaled(self._joined(name, left[1], right))
        if name in "*/" and isinstance(right, tuple) and right[0] == "*" and right[2] == "c":
            return self._scaled(self._joined(name, left, right[1]))
        return (name, left, right)

    def _scaled(self, formula: Any) -> Any:
        return self._joined("*", formula, "c")

    def _tokens(self, tree: Any) -> list[int]:
        library = self._library
        if tree == "c":
            return [library.constant_id]
        if tree[0] == "column":
            return [next(i for i, t in enumerate(library) if t.column_name == tree[1])]
        if tree[0] == "number":
            return [library.find(tree[1])]
        return [
            library.find(tree[0]),
            *(token for part in tree[1:] for token in self._tokens(part)),
        ]


def law_rows(problem: Any, formula: str) -> list[np.ndarray]:
    """The law as rows of tokens, in each wording that the grammar allows."""
    from dvisr.expression import parse
    from dvisr.search.legality import Legality

    grammar = problem.grammar
    said = [
        Wording(grammar.library, with_numbers=with_numbers, folded=folded).tokens(formula)
        for with_numbers, folded in itertools.product((True, False), repeat=2)
    ]
    for text in _SAID_OTHERWISE.get(formula, ()):
        said.append(list(parse(text, grammar.library).tokens))
    rows = []
    for tokens in said:
        if len(tokens) <= grammar.max_tokens:
            row = np.full((1, grammar.max_tokens), -1, dtype=np.int8)
            row[0, : len(tokens)] = tokens
            if bool(Legality(grammar)(row)[0]):
                rows.append(row[0])
    return rows


def law_log_joint(problem: Any, formula: str) -> float | None:
    """log p(law, y) under the priors, of its likeliest wording with operands in every order; None
    if the grammar has none."""
    from dvisr.marginal import Engine, weigh
    from dvisr.search.neighbours import Neighbours

    engine, neighbours = Engine.of(problem), Neighbours(problem.grammar)
    found = []
    for row in law_rows(problem, formula):
        log_marginal = weigh(engine, row, np.random.default_rng(0), num_starts=256).log_marginal
        trees = neighbours.all_rewritings(row, _REWRITTEN)
        log_prior = np.asarray(problem.tree_prior.log_prob(np, trees))
        found.append(log_marginal + float(np.logaddexp.reduce(log_prior)))
    return max(found, default=None)


def law_values(formula: str, names: Sequence[str], X: np.ndarray) -> np.ndarray:
    """The law's own values, without noise."""
    columns = dict(zip(names, X.T, strict=True))

    def value(node: ast.expr) -> Any:
        if isinstance(node, ast.Constant):
            return float(node.value)  # type: ignore[arg-type]
        if isinstance(node, ast.Name):
            return columns.get(node.id, math.pi)
        if isinstance(node, ast.UnaryOp):
            return -value(node.operand)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return getattr(np, _FUNCTIONS[node.func.id])(value(node.args[0]))
        assert isinstance(node, ast.BinOp)
        if isinstance(node.op, ast.Pow):
            return value(node.left) ** value(node.right)
        return _VALUES[_NAMES[type(node.op)]](value(node.left), value(node.right))

    with np.errstate(all="ignore"):
        found: np.ndarray = np.broadcast_to(value(ast.parse(formula, mode="eval").body), len(X))
    return found


def _num_numbers(formula: str) -> int:
    """How many numbers a law has, exponents aside."""
    nodes = list(ast.walk(ast.parse(formula, mode="eval")))
    exponents = [n.right for n in nodes if isinstance(n, ast.BinOp) and isinstance(n.op, ast.Pow)]
    named = [n for n in nodes if isinstance(n, ast.Name) and n.id == "pi"]
    return len(named) + sum(isinstance(n, ast.Constant) and n not in exponents for n in nodes)


def is_law(problem: Any, tokens: Sequence[int], formula: str) -> bool:
    """Whether a function is the law: with constants of the right values, no more of them than the
    law has numbers and none of them zero, its values are the law's, at the rows and beside them."""
    from dvisr.constants import Normal
    from dvisr.evaluation import evaluate
    from dvisr.expression import Expression
    from dvisr.fitting.merging import probe_rows
    from dvisr.likelihood import make_likelihood
    from dvisr.marginal import Engine

    library = problem.grammar.library
    expression = Expression(library, tuple(tokens))
    if expression.num_constants > _num_numbers(formula):
        return False
    names = problem.data.feature_names
    X = np.concatenate([problem.X, probe_rows(problem.X)])
    clean = law_values(formula, names, X)
    X, clean = X[np.isfinite(clean)], clean[np.isfinite(clean)]
    spread = float(clean.std()) or 1.0
    likelihood = make_likelihood(clean, 1e-3 * spread, None, None)
    row = np.full(problem.grammar.max_tokens, -1, dtype=np.int8)
    row[: len(tokens)] = tokens
    constants = Engine(library, X, likelihood, Normal(0.0, 1e9)).polish(row, 64)
    if (np.abs(constants[: expression.num_constants]) < _NOTHING).any():
        return False
    with np.errstate(all="ignore"):
        values, _ = evaluate(expression, X, list(constants[: expression.num_constants]))
    return bool(np.abs(values - clean).max() < _SAME * spread)
