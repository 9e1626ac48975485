"""The paper's numbers. Expressions and probabilities are those of its six tables; log evidences and
counts are those of its published runs and of an independent enumeration."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr import exact_posterior
from dvisr.exact.charges import Charges
from dvisr.exact.functions import FunctionTable
from dvisr.prior import tree_prior

X = (np.arange(11) / 10.0)[:, None]
TARGETS = {"quadratic": X[:, 0] ** 2, "linear": X[:, 0], "constant": np.full(11, 0.5)}

TABLES = {
    ("simple", "quadratic"): {
        "x0 * x0": 0.36091529,
        "sin(x0)": 0.31404061,
        "x0": 0.30551329,
        "x0 + x0": 0.01953081,
    },
    ("simple", "linear"): {
        "x0": 0.33699068,
        "sin(x0)": 0.32858934,
        "x0 * x0": 0.28526121,
        "x0 + x0": 0.04915877,
    },
    ("simple", "constant"): {
        "sin(x0)": 0.37718952,
        "x0": 0.32865058,
        "x0 * x0": 0.27820135,
        "x0 + x0": 0.01595856,
    },
    ("constants", "quadratic"): {
        "x0 * x0": 0.48299064,
        "x0": 0.40884956,
        "cos(x0)": 0.03737588,
        "x0 + x0": 0.02613688,
        "x0 * c": 0.02266321,
        "x0 + c": 0.01394328,
        "c": 0.00804056,
    },
    ("constants", "linear"): {
        "x0": 0.44342029,
        "x0 * x0": 0.37535343,
        "cos(x0)": 0.07302076,
        "x0 + x0": 0.06468427,
        "x0 * c": 0.02245722,
        "x0 + c": 0.01336355,
        "c": 0.00770048,
    },
    ("constants", "constant"): {
        "x0": 0.34938537,
        "x0 * x0": 0.29575326,
        "cos(x0)": 0.28838233,
        "x0 * c": 0.02075641,
        "c": 0.01822765,
        "x0 + x0": 0.01696539,
        "x0 + c": 0.01052958,
    },
}
LOG_EVIDENCE = {
    ("simple", "quadratic"): -10.698649771749983,
    ("simple", "linear"): -10.630061779755758,
    ("simple", "constant"): -11.155001613798962,
    ("constants", "quadratic"): -12.019623180988647,
    ("constants", "linear"): -11.93414397173446,
    ("constants", "constant"): -12.245801441842511,
}


@pytest.mark.parametrize("experiment", TABLES, ids="/".join)
def test_the_six_tables_to_eight_decimals(experiment: tuple[str, str]) -> None:
    kind, target = experiment
    has_constants = kind == "constants"
    posterior = exact_posterior(
        X,
        TARGETS[target],
        operators=("+", "*", "cos" if has_constants else "sin"),
        max_tokens=3,
        constants=has_constants,
    )
    table = posterior.table()
    found = dict(zip(table["expression"], table["probability"], strict=True))
    assert {key: round(value, 8) for key, value in found.items()} == TABLES[experiment]
    assert list(found) == list(TABLES[experiment])
    assert abs(posterior.log_evidence - LOG_EVIDENCE[experiment]) < 1e-10
    assert (posterior.num_trees, posterior.num_allowed) == ((14, 7) if has_constants else (5, 4))


SCALING = [
    (1, 1, 1, -10.2749738652514),
    (2, 2, 2, -10.261114615300924),
    (3, 5, 4, -10.69864977174998),
    (4, 12, 10, -10.754452060165546),
    (5, 33, 20, -11.292021649455805),
    (6, 94, 60, -11.3033769406773),
    (7, 285, 132, -11.799317519216533),
    (8, 888, 420, -11.841882031612798),
    (9, 2849, 1020, -12.259758975909058),
    (10, 9306, 3244, -12.389208948935105),
    (11, 30901, 8532, -12.74349272532765),
    (12, 103876, 26804, -12.935535614852897),
    (13, 352961, 74644, -13.24699799169118),
    (14, 1209974, 232564, -13.470763319952871),
]


@pytest.mark.parametrize(("size", "num_trees", "num_allowed", "log_evidence"), SCALING)
def test_scaling(size: int, num_trees: int, num_allowed: int, log_evidence: float) -> None:
    posterior = exact_posterior(X, X[:, 0] ** 2, max_tokens=size)
    assert posterior.num_trees == num_trees
    assert posterior.num_allowed == num_allowed
    assert abs(posterior.log_evidence - log_evidence) < 1e-10


def test_size_20_counts_every_tree() -> None:
    posterior = exact_posterior(X, X[:, 0] ** 2, max_tokens=20)
    assert posterior.num_allowed == 182_515_572
    charges = Charges(tree_prior("uniform", posterior.grammar))
    table = FunctionTable(posterior.grammar, X, charges, lambda values: np.zeros(len(values)))
    assert sum(int(block.counts.sum()) for _, block in table.trees()) == 182_515_572


def test_products_of_constants_are_not_one_constant() -> None:
    """The trial that Laplace's method gets wrong: (x * c) * c has log p(y) = -14.04, not -13.40."""
    from dvisr.constants import Normal
    from dvisr.exact import log_marginal
    from dvisr.expression import parse
    from dvisr.library import Library
    from dvisr.likelihood import make_likelihood

    library = Library.create(["*"], ["x0"], constants=True)
    likelihood = make_likelihood(X[:, 0] ** 2, 1.0)
    found = log_marginal(parse("x0 * c * c", library), X, likelihood, Normal(0.0, 10.0))
    assert found.value == pytest.approx(-14.04, abs=5e-3)
