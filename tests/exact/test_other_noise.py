"""The oracle and `weigh` with noise that is not Gaussian, against integrals written out by hand:
densities from their definitions, Gauss' rule in small panels over constants and log s."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from dvisr import exact_posterior
from dvisr.constants import AbstractConstantPrior, Decades, Normal
from dvisr.exact import log_marginal
from dvisr.expression import parse
from dvisr.library import Library
from dvisr.likelihood import Likelihood, make_likelihood
from dvisr.marginal import Engine, weigh
from tests import reference

LIBRARY = Library.create(["+", "-", "*", "/", "exp", "sin", "log"], ["x"], constants=True)
RNG = np.random.default_rng(8)
X = np.array([0.3, 0.7, 1.1, 1.4, 1.8, 2.0])
Y = 1.5 * X * np.exp(0.2 * RNG.standard_normal(6))
Y[3] *= 1.8  # an outlier
BARS = np.array([0.3, 0.2, 0.5, 0.4, 0.3, 0.6])
COUNTS = np.array([1, 2, 1, 1, 3, 1])

Values = Callable[..., np.ndarray]
# Over x (rows,) and constants (nodes, 1).
FORMULAS: dict[str, Values] = {
    "x * c": lambda x, a: x * a,
    "exp(x * c)": lambda x, a: np.exp(x * a),
    "x * c + c": lambda x, a, b: x * a + b,
    "c * exp(x * c)": lambda x, a, b: a * np.exp(x * b),
}


# By hand -----------------------------------------------------------------------------------------


def panels(low: float, high: float, width: float, order: int) -> tuple[np.ndarray, np.ndarray]:
    nodes, weights = np.polynomial.legendre.leggauss(order)
    edges = np.linspace(low, high, round((high - low) / width) + 1)
    half = 0.5 * np.diff(edges)[:, None]
    middle = 0.5 * (edges[1:] + edges[:-1])[:, None]
    return (middle + half * nodes).reshape(-1), (half * weights).reshape(-1)


@dataclasses.dataclass(frozen=True)
class ByHand:
    """`freedom` of a t; None for relative noise. `scale` None: inferred."""

    freedom: float | None
    scale: float | None
    with_bars: bool = False
    with_counts: bool = False

    @property
    def word(self) -> str:
        scale = "" if self.scale is None else f"{self.scale!r}"
        if self.freedom is None:
            return f"relative:{scale}" if scale else "relative"
        return f"student:{self.freedom:g}" + (f",{scale}" if scale else "")

    def __str__(self) -> str:
        bars = " with bars" if self.with_bars else ""
        return self.word + bars + (" weighted" if self.with_counts else "")

    @property
    def likelihood(self) -> Likelihood:
        counts = COUNTS.astype(float) if self.with_counts else None
        return make_likelihood(Y, self.word, BARS if self.with_bars else None, counts)

    def log_likelihood(self, values: np.ndarray, times: np.ndarray) -> np.ndarray:
        """Of values (nodes, rows), each row copied so many times."""
        y = np.repeat(Y, times)
        values = np.repeat(values, times, axis=1)
        bars = np.repeat(BARS, times) if self.with_bars else np.ones(len(y))
        with np.errstate(all="ignore"):
            if self.freedom is None:
                bars = bars / y if self.with_bars else bars
                gaps, spread = np.log(y) - np.log(values), float(np.log(y).std())
                jacobian = -np.log(y).sum()
            else:
                gaps, spread, jacobian = y - values, float(y.std()), 0.0
        size = 1.0 if self.with_bars else 1e-3 * spread
        unit = bars * (size if self.scale is None else self.scale)
        # Too far to be squared has likelihood zero.
        z = np.where(np.abs(gaps) < 1e150, gaps, np.inf) / unit
        constant = jacobian - np.log(unit).sum()
        if self.scale is not None:
            return np.asarray(self._density(z).sum(axis=1) + constant)
        total = np.full(len(z), -np.inf)
        for u, weight in zip(*panels(-4.0, 18.0, 0.5, 12), strict=True):
            # s^2 ~ inverse gamma(1/2, 1/2): s = 1 / |standard Normal|.
            log_prior = math.log(2.0 / math.sqrt(2.0 * math.pi)) - u - 0.5 * math.exp(-2.0 * u)
            given = self._density(z * math.exp(-u)).sum(axis=1) - z.shape[1] * u
            total = np.logaddexp(total, given + log_prior + math.log(weight))
        return np.asarray(total + constant)

    def _density(self, z: np.ndarray) -> np.ndarray:
        nu = self.freedom
        with np.errstate(over="ignore"):
            if nu is None:
                return np.asarray(-0.5 * z * z - 0.5 * math.log(2.0 * math.pi))
            constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * math.log(nu * math.pi)
            found: np.ndarray = constant - 0.5 * (nu + 1.0) * np.log1p(z * z / nu)
            return found

    def log_marginal(self, text: str, prior: AbstractConstantPrior) -> float:
        count = text.count("c")
        times = COUNTS if self.with_counts else np.ones(6, dtype=int)
        nodes, log_weights = constant_nodes(prior, 1 if count == 1 else 2)
        if count == 2:
            first, second = np.meshgrid(nodes, nodes, indexing="ij")
            constants = [first.reshape(-1, 1), second.reshape(-1, 1)]
            log_weights = (log_weights[:, None] + log_weights).reshape(-1)
        else:
            constants = [nodes[:, None]]
        with np.errstate(over="ignore"):
            values = np.broadcast_to(FORMULAS[text](X, *constants), (len(log_weights), 6))
        parts = [
            self.log_likelihood(values[i : i + 20_000], times)
            for i in range(0, len(values), 20_000)
        ]
        return float(logsumexp(np.concatenate(parts) + log_weights))


@functools.cache
def constant_nodes(prior: AbstractConstantPrior, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes, and the logs of their weights times the prior's density."""
    if isinstance(prior, Normal):
        reach = 9.0 * prior.std
        width = (0.1 if dims == 1 else 0.25) * prior.std
        c, weights = panels(prior.mean - reach, prior.mean + reach, width, 8)
        z = (c - prior.mean) / prior.std
        return c, np.log(weights) - 0.5 * z * z - math.log(prior.std * math.sqrt(2.0 * math.pi))
    assert isinstance(prior, Decades)
    u, weights = panels(-16.0, 16.0, 0.1, 8)
    c = 0.1 * np.sinh(u)
    size = np.abs(c)
    density = (np.arctan(size / prior.low) - np.arctan(size / prior.high)) / (
        math.pi * size * math.log(prior.high / prior.low)
    )
    return c, np.log(weights * 0.1 * np.cosh(u) * density)


# With two constants a narrow one, so that no ridge is finer than the panels.
NORMAL, NARROW, DECADES = Normal(1.0, 1.0), Normal(1.0, 0.4), Decades(1e-2, 1e2)
ONE = [
    (text, noise, prior)
    for text in ("x * c", "exp(x * c)")
    for prior in (NORMAL, DECADES)
    for noise in (
        ByHand(3.0, 0.3),
        ByHand(4.0, None),
        ByHand(None, 0.25),
        ByHand(None, None),
        ByHand(2.5, 0.8, with_bars=True, with_counts=True),
        ByHand(4.0, None, with_bars=True, with_counts=True),
        ByHand(None, 0.8, with_bars=True, with_counts=True),
        ByHand(None, None, with_counts=True),
    )
]
TWO = [
    ("x * c + c", ByHand(3.0, 0.5), NARROW),
    ("c * exp(x * c)", ByHand(4.0, 0.8, with_bars=True, with_counts=True), NARROW),
    ("c * exp(x * c)", ByHand(None, 0.4), NARROW),
    ("x * c + c", ByHand(4.0, None, with_bars=True), NARROW),
]


def name(value: object) -> str:
    return type(value).__name__ if isinstance(value, AbstractConstantPrior) else str(value)


@pytest.mark.parametrize(("text", "noise", "prior"), ONE, ids=name)
def test_one_constant(text: str, noise: ByHand, prior: AbstractConstantPrior) -> None:
    check(text, noise, prior)


@pytest.mark.parametrize(("text", "noise", "prior"), TWO[:3], ids=name)
def test_two_constants(text: str, noise: ByHand, prior: AbstractConstantPrior) -> None:
    check(text, noise, prior)


@pytest.mark.slow
@pytest.mark.parametrize(("text", "noise", "prior"), TWO[3:], ids=name)
def test_two_constants_and_the_scale(
    text: str, noise: ByHand, prior: AbstractConstantPrior
) -> None:
    check(text, noise, prior)


def check(text: str, noise: ByHand, prior: AbstractConstantPrior) -> None:
    """The oracle to its promise, and `weigh` within three of its standard errors."""
    tree, likelihood = parse(text, LIBRARY), noise.likelihood
    oracle = log_marginal(tree, X[:, None], likelihood, prior)
    assert oracle.value == pytest.approx(noise.log_marginal(text, prior), rel=0.0, abs=1e-6)
    assert oracle.error < 1e-6
    engine = Engine(LIBRARY, X[:, None], likelihood, prior, num_threads=1)
    tokens = np.array(tree.tokens, dtype=np.int8)
    found = weigh(engine, tokens, np.random.default_rng(0))
    assert found.method == "importance sampling"
    assert 0.0 < found.error < 0.02
    assert abs(found.log_marginal - oracle.value) < 3.0 * found.error + oracle.error


# Over all trees ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [ByHand(3.0, 0.5), ByHand(4.0, None), ByHand(None, 0.3), ByHand(None, None)],
    ids=str,
)
def test_the_sum_over_trees(noise: ByHand) -> None:
    """Without constants: every tree of up to five tokens by brute force, in 40 digits."""
    found = exact_posterior(
        X[:, None], Y, operators=["+", "*", "sin"], max_tokens=5, constraints="none",
        noise=noise.word, feature_names=["x"],
    )  # fmt: skip
    library = Library.create(["+", "*", "sin"], ["x"])
    trees = reference.all_trees(library, 5)
    values = np.array([[float(reference.value(library, t, [x], [])) for x in X] for t in trees])
    log_likelihood = noise.log_likelihood(values, np.ones(6, dtype=int))
    expected = float(logsumexp(log_likelihood)) - math.log(len(trees))
    assert found.num_trees == len(trees)
    assert found.log_evidence == pytest.approx(expected, rel=0.0, abs=1e-8)
    best = found.table(1).iloc[0]
    share = math.exp(log_likelihood.max() - float(logsumexp(log_likelihood)))
    assert best["probability"] == pytest.approx(share, rel=1e-7)


@pytest.mark.parametrize("noise", [ByHand(3.0, 0.5), ByHand(None, 0.3)], ids=str)
def test_the_sum_over_trees_with_constants(noise: ByHand) -> None:
    """x, c, x + x, x + c, c + x, x * x, x * c and c * x, each as likely before the data."""
    found = exact_posterior(
        X[:, None], Y, operators=["+", "*"], max_tokens=3, constants=True, max_constants=1,
        constraints="none", noise=noise.word, constant_prior=NORMAL, tree_prior="allowed",
        feature_names=["x"],
    )  # fmt: skip
    nodes, log_weights = constant_nodes(NORMAL, 1)
    c = nodes[:, None]
    once = np.ones(6, dtype=int)

    def integral(values: np.ndarray) -> float:
        wide = np.broadcast_to(values, (len(nodes), 6))
        return float(logsumexp(noise.log_likelihood(wide, once) + log_weights))

    plain = [float(noise.log_likelihood(v[None], once)[0]) for v in (X, X + X, X * X)]
    sums = [integral(c), integral(X + c), integral(X + c), integral(X * c), integral(X * c)]
    assert found.num_allowed == 8
    expected = float(logsumexp([*plain, *sums])) - math.log(8.0)
    assert found.log_evidence == pytest.approx(expected, rel=0.0, abs=1e-6)
