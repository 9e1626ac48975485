"""The paper's eighteen experiments, as data, and what it reports of them."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping

import numpy as np

from dvisr.constants import Normal
from dvisr.problem import Problem, make_problem
from dvisr.types import Dataset

KINDS = ("simple", "scaling", "constants")
LAWS = {"quadratic": "y = x0²", "linear": "y = x0", "constant": "y = 0.5"}
LIKELIHOOD_STD = 1.0
CONSTANT_PRIOR = Normal(0.0, 10.0)
LARGEST_SIZE = 25  # of the scaling experiments: beyond it the exact evidence can't be had
DOUBLE_UP_TO = 4  # scaling runs beyond this size are trained in float32


@dataclasses.dataclass(frozen=True)
class Experiment:
    """Data from a law, a library, a size; and the paper's word on it where there is one."""

    kind: str  # simple, scaling or constants
    law: str  # quadratic, linear or constant
    max_tokens: int
    num_runs: int
    probabilities: Mapping[str, float] | None = None  # the paper's table
    published_kl: float | None = None
    published_seconds: float | None = None  # of one run, on the authors' machine

    @property
    def name(self) -> str:
        return f"{self.kind}/{self.max_tokens if self.kind == 'scaling' else self.law}"

    @property
    def has_constants(self) -> bool:
        return self.kind == "constants"

    @property
    def precision(self) -> str:
        is_large = self.kind == "scaling" and self.max_tokens > DOUBLE_UP_TO
        return "float32" if is_large else "float64"

    @functools.cached_property
    def problem(self) -> Problem:
        x = np.arange(11) / 10.0
        y = {"quadratic": x**2, "linear": x, "constant": np.full(11, 0.5)}[self.law]
        return make_problem(
            Dataset.create(x[:, None], y),
            operators=("+", "*", "cos" if self.has_constants else "sin"),
            constants=self.has_constants,
            max_tokens=self.max_tokens,
            max_constants=None,
            constraints="paper",
            tree_prior="uniform",
            constant_prior=CONSTANT_PRIOR,
            noise=LIKELIHOOD_STD,
        )


# The six tables: the posterior of every expression, which the medians and both quartiles of the
# authors' ten runs equal to all eight decimals.
_TABLES = {
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

# From the logs of the authors' public runs: the seconds of one run (the median of ten), and by
# size the log evidence less the mean ELBO of the last 100 epochs, and seconds.
_SECONDS = {
    ("simple", "quadratic"): 36.9,
    ("simple", "linear"): 36.6,
    ("simple", "constant"): 36.8,
    ("constants", "quadratic"): 644.1,
    ("constants", "linear"): 625.9,
    ("constants", "constant"): 601.0,
}
_SCALING = {
    1: (0.0, 6061.0),
    2: (0.0, 7435.0),
    3: (3e-08, 8947.0),
    4: (7e-08, 12515.0),
    5: (5.124e-05, 14516.0),
    6: (3.924e-05, 18924.0),
    7: (0.00036046, 21278.0),
    8: (0.00301668, 25298.0),
    9: (0.01210149, 27624.0),
    10: (0.01973471, 34041.0),
    11: (0.02543961, 33684.0),
    12: (0.08141437, 37453.0),
}
SCALING_SIZES = tuple(_SCALING)


def tabled(kind: str, law: str, num_runs: int | None = None) -> Experiment:
    """One of the six experiments that the paper has a table of."""
    return Experiment(
        kind=kind,
        law=law,
        max_tokens=3,
        num_runs=10 if num_runs is None else num_runs,
        probabilities=_TABLES[kind, law],
        published_seconds=_SECONDS[kind, law],
    )


def scaling(size: int, num_runs: int | None = None) -> Experiment:
    """One size; past 12 there is nothing to compare with but the exact evidence."""
    kl, seconds = _SCALING.get(size, (None, None))
    return Experiment(
        kind="scaling",
        law="quadratic",
        max_tokens=size,
        num_runs=1 if num_runs is None else num_runs,
        published_kl=kl,
        published_seconds=seconds,
    )


def experiments(
    group: str, sizes: tuple[int, ...] = SCALING_SIZES, num_runs: int | None = None
) -> list[Experiment]:
    """The experiments of a kind, or of all three in the paper's order."""
    if group not in (*KINDS, "all"):
        raise ValueError(f"{group!r} is no group of experiments: choose from {', '.join(KINDS)}")
    chosen: list[Experiment] = []
    for kind in KINDS if group == "all" else (group,):
        if kind == "scaling":
            chosen += [scaling(size, num_runs) for size in sizes]
        else:
            chosen += [tabled(kind, law, num_runs) for law in LAWS]
    return chosen
