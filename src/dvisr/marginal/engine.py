"""log p(y | tree) for batches of trees: the compiled kernel and its threads."""

from __future__ import annotations

import dataclasses
import math
import os
from collections.abc import Callable

import numpy as np

from dvisr.constants import AbstractConstantPrior, Decades, Normal
from dvisr.evaluation import leaf_values
from dvisr.evaluation.operations import make_apply
from dvisr.evaluation.tree import Language, make_language, make_work, own_operators
from dvisr.library import Library
from dvisr.library.threads import for_each
from dvisr.likelihood import Likelihood
from dvisr.marginal import laplace
from dvisr.marginal.law import DECADES, NORMAL, Law, make_fit
from dvisr.marginal.mixtures import near_zero
from dvisr.marginal.parts import nested_parts, standing_for
from dvisr.noise import AbstractNoise
from dvisr.problem import Problem

NUM_STARTS = 8
TOLERANCE = 1e-4
POLISHED = 1e-13
METHODS = {
    laplace.UNDEFINED: "undefined",
    laplace.NO_CONSTANTS: "exact",
    laplace.CLOSED_FORM: "exact",
    laplace.LAPLACE: "laplace",
}
_FEWEST_A_TASK, _MOST_A_TASK = 32, 256  # trees, many tasks a thread, so that none waits long
_TASKS_A_THREAD = 8
_STARTED_TREES_A_TASK = 4  # there are many rows then
_OWN_STARTS = 2  # beside those that a coarse engine has led to
_LISTED_MODES = 4  # of a tree
_FOLLOWED = 0.02  # nats, to which modes are followed from some rows to more


@dataclasses.dataclass(frozen=True)
class Fits:
    """Of many trees: log p(y | tree), how each was found, and the constants of the best mode."""

    log_marginal: np.ndarray
    method: np.ndarray
    constants: np.ndarray  # (trees, most constants)
    modes: np.ndarray  # (trees, modes, most constants): this one and other high ones, or NaN


@dataclasses.dataclass(frozen=True)
class Followed:
    """Of many trees: the log likelihood at the best of the constants that given modes led to, and
    these."""

    log_likelihood: np.ndarray
    modes: np.ndarray  # (trees, modes, most constants), or NaN


@dataclasses.dataclass(frozen=True)
class SureFits:
    """Of many trees: log p(y | tree), whether it stayed as it was when more starts were made, and
    the most that it may be where it did not."""

    log_marginal: np.ndarray
    is_sure: np.ndarray
    highest: np.ndarray


@dataclasses.dataclass(frozen=True)
class Modes:
    """Of one tree: log p(y | tree), how it was found, the constants of the best mode, and all
    modes with their precisions and the logs of their masses."""

    log_marginal: float
    method: str
    best: np.ndarray  # (constants,)
    modes: np.ndarray  # (modes, constants)
    precision: np.ndarray  # (modes, constants, constants)
    masses: np.ndarray  # (modes,)


class Engine:
    """One problem's data and priors, ready to fit trees.

    Parameters
    ----------
    library : Library
    X : ndarray of shape (rows, columns)
    likelihood : Likelihood
    prior : AbstractConstantPrior
    num_threads : int, optional
        All cores, if not given.
    coarse : Engine, optional
        Of some of the rows: most starts are made there, and gone on from where they lead.
    """

    @classmethod
    def of(cls, problem: Problem, *, num_threads: int | None = None) -> Engine:
        return cls(
            problem.grammar.library,
            problem.X,
            problem.likelihood,
            problem.constant_prior,
            num_threads=num_threads,
        )

    @classmethod
    def in_parts(
        cls, problem: Problem, fewest: int, rng: np.random.Generator, num_threads: int | None = None
    ) -> Engine:
        """With a coarse one where there are twice as many rows as `fewest` or more, which has a
        coarser one, and so on down to so many rows."""
        coarse: Engine | None = None
        library, prior = problem.grammar.library, problem.constant_prior
        for rows, part in nested_parts(problem.likelihood, fewest, rng):
            X = problem.X[rows]
            coarse = cls(library, X, part, prior, num_threads=num_threads, coarse=coarse)
        own = problem.likelihood
        return cls(library, problem.X, own, prior, num_threads=num_threads, coarse=coarse)

    def standing_for(self, observations: float) -> Engine:
        """By itself, its rows counted as so many observations."""
        scaled = standing_for(self.likelihood, observations)
        return Engine(self.library, self.X, scaled, self.prior, num_threads=self.num_threads)

    def with_prior(self, prior: AbstractConstantPrior) -> Engine:
        coarse = None if self.coarse is None else self.coarse.with_prior(prior)
        return Engine(
            self.library,
            self.X,
            self.likelihood,
            prior,
            num_threads=self.num_threads,
            coarse=coarse,
        )

    def __init__(
        self,
        library: Library,
        X: np.ndarray,
        likelihood: Likelihood,
        prior: AbstractConstantPrior,
        *,
        num_threads: int | None = None,
        coarse: Engine | None = None,
    ) -> None:
        self.coarse = coarse
        self.library = library
        self.X = X
        self.likelihood = likelihood
        self.prior = prior
        self.law = make_law(likelihood, prior)
        self.language: Language = make_language(library)
        self.leaves = leaf_values(library, X)
        self.units = _units(X, likelihood.y)
        self.num_threads = num_threads or os.cpu_count() or 1
        self.apply = make_apply(own_operators(library))

    def use_threads(self, num_threads: int | None) -> None:
        """From now on; all cores, if not given."""
        for level in self.levels:
            level.num_threads = num_threads or os.cpu_count() or 1

    @property
    def levels(self) -> list[Engine]:
        """From the coarsest to this one."""
        return [self] if self.coarse is None else [*self.coarse.levels, self]

    def fit(
        self,
        trees: np.ndarray,
        num_starts: int = NUM_STARTS,
        bar: float | np.ndarray = -math.inf,
        starts: np.ndarray | None = None,
    ) -> Fits:
        """`trees` are (trees, length), ids padded with -1, each row one complete tree. Those that
        will clearly not come up to a log marginal likelihood of `bar`, one for all or one a tree,
        are fitted roughly. Where `starts` are given, as the modes of another fit of these trees,
        descents begin there alone."""
        own_starts = num_starts if starts is None else 0
        if starts is None and self.coarse is not None and len(trees):
            starts = self.coarse.fit(trees, num_starts).modes
            own_starts = min(num_starts, _OWN_STARTS)
        bars = np.array(np.broadcast_to(bar, len(trees)), dtype=np.float64)
        trees = np.array(trees, dtype=np.int8, order="C")
        length = max(1, trees.shape[1])
        most = int((trees == self.library.constant_id).sum(axis=1).max(initial=0))
        if self.library.constant_id < 0:
            most = 0
        values = np.full(len(trees), -np.inf)
        methods = np.full(len(trees), laplace.UNDEFINED, dtype=np.int64)
        best = np.zeros((len(trees), max(1, most)))
        modes = np.full((len(trees), _LISTED_MODES, max(1, most)), np.nan)
        given = modes[:, :0].copy()
        if starts is not None:
            given = np.array(starts[:, :, : max(1, most)], order="C")
        even = len(trees) // (_TASKS_A_THREAD * self.num_threads)
        a_task = min(max(even, _FEWEST_A_TASK), _MOST_A_TASK)
        if starts is not None:
            a_task = _STARTED_TREES_A_TASK

        def make_run() -> Callable[[slice], None]:
            work = make_work(length, most, self.leaves.shape[1])
            fit = make_fit(most, self.leaves.shape[1])
            return lambda part: laplace.fit_many(
                self.apply, trees[part], self.language, self.leaves, own_starts,
                given[part], TOLERANCE, bars[part], self.law, work, fit, self.units,
                values[part], methods[part], best[part], modes[part],
            )  # fmt: skip

        tasks = [slice(start, start + a_task) for start in range(0, len(trees), a_task)]
        for_each(make_run, tasks, self.num_threads)
        return Fits(values, methods, best, modes)

    def follow(self, trees: np.ndarray, starts: np.ndarray) -> Followed:
        """From the modes of another fit of these trees, (trees, modes, constants), a few steps each
        towards those on these rows. It takes a fraction of the time of `fit`, most of all where
        constants do the same work."""
        trees = np.array(trees, dtype=np.int8, order="C")
        starts = np.array(starts, order="C")
        values, modes = np.full(len(trees), -np.inf), np.full(starts.shape, np.nan)

        def make_run() -> Callable[[slice], None]:
            work = make_work(trees.shape[1], starts.shape[2], self.leaves.shape[1])
            fit = make_fit(starts.shape[2], self.leaves.shape[1])
            return lambda part: laplace.follow_many(
                self.apply, trees[part], self.language, self.leaves, starts[part],
                _FOLLOWED, self.law, work, fit, values[part], modes[part],
            )  # fmt: skip

        a_task = _STARTED_TREES_A_TASK
        tasks = [slice(start, start + a_task) for start in range(0, len(trees), a_task)]
        for_each(make_run, tasks, self.num_threads)
        return Followed(values, modes)

    def fit_surely(self, trees: np.ndarray, num_starts: int, change: float) -> SureFits:
        """As `fit`, again and again with three times the starts until the value of a tree changes
        by no more than `change` nats: at the least with 3 and with 9 times `num_starts`."""
        values = self.fit(trees, 3 * num_starts).log_marginal
        is_sure = np.zeros(len(trees), dtype=bool)
        highest = values.copy()
        for factor in (9, 27):
            due = np.flatnonzero(~is_sure)
            if len(due) == 0:
                break
            again = self.fit(trees[due], factor * num_starts)
            with np.errstate(invalid="ignore"):
                moved = np.abs(again.log_marginal - values[due])
            moved = np.where(np.isnan(moved), 0.0, moved)  # undefined, and still undefined
            is_closed = (again.method == laplace.NO_CONSTANTS) | (
                again.method == laplace.CLOSED_FORM
            )
            is_sure[due] = is_closed | (moved <= change)
            values[due] = again.log_marginal
            room = np.where(is_sure[due] | ~np.isfinite(moved), 0.0, 2.0 * moved)
            is_open = ~is_sure[due] & (moved == np.inf)
            highest[due] = np.where(is_open, np.inf, again.log_marginal + room)
        return SureFits(values, is_sure, highest)

    def polish(self, tree: np.ndarray, num_starts: int = 2 * NUM_STARTS) -> np.ndarray:
        """The constants of one tree's best mode to many digits."""
        return self.modes(tree, num_starts, POLISHED).best

    def modes(self, tree: np.ndarray, num_starts: int, tolerance: float) -> Modes:
        """Of the posterior of one tree's constants, to that tolerance in nats; all that so many
        starts lead to. With a coarse engine, its modes are most of the starts."""
        tokens = np.ascontiguousarray(tree[None], dtype=np.int8)
        constant = self.library.constant_id
        k = int((tokens == constant).sum()) if constant >= 0 else 0
        starts = np.zeros((1, 0, max(1, k)))
        if k > 0 and self.coarse is not None:
            starts = self.coarse.modes(tree, num_starts, tolerance).modes[None]
            num_starts = min(num_starts, _OWN_STARTS)
        fit = make_fit(k, self.leaves.shape[1])
        values, methods, best = np.zeros(1), np.zeros(1, dtype=np.int64), np.zeros((1, max(1, k)))
        laplace.fit_many(
            self.apply, tokens, self.language, self.leaves, num_starts,
            np.ascontiguousarray(starts), tolerance, np.full(1, -np.inf), self.law,
            make_work(tokens.shape[1], k, self.leaves.shape[1]), fit, self.units,
            values, methods, best, np.zeros((1, 0, max(1, k))),
        )  # fmt: skip
        count = int(fit.num_modes[0])
        return Modes(
            float(values[0]),
            METHODS[int(methods[0])],
            best[0],
            fit.modes[:count, : max(1, k)].copy(),
            fit.widths[:count].copy(),
            fit.masses[:count].copy(),
        )


def make_law(likelihood: Likelihood, prior: AbstractConstantPrior) -> Law:
    """The likelihood and the prior as compiled code takes them."""
    if isinstance(prior, Normal):
        kind, first, second = NORMAL, prior.mean, prior.std
    elif isinstance(prior, Decades):
        kind, first, second = DECADES, prior.low, prior.high
    else:
        raise ValueError(f"constants must have a Normal or a Decades prior, not {prior!r}")
    points = len(likelihood.y)
    noise, count, scale_prior = likelihood.noise, likelihood.count, likelihood.prior
    weights = likelihood.weights
    if not isinstance(noise, AbstractNoise):
        raise ValueError(f"the likelihood must have a noise model of dvisr.noise, not {noise!r}")
    is_log = noise.link == "log"
    log_scale = float(likelihood.log_scale(np))
    kernel = noise.kernel
    # Copies: for arrays that can't be written to Numba would compile everything once more.
    return Law(
        y=np.array(likelihood.linked(np, likelihood.y), dtype=np.float64),
        inverse=np.array(np.broadcast_to(1.0 / likelihood.scale, points), dtype=np.float64),
        counts=np.array(1.0 if weights is None else weights, dtype=np.float64) + np.zeros(points),
        is_log=is_log,
        squares=kernel.squares,
        misfit=kernel.misfit,
        parameters=kernel.parameters(count, scale_prior),
        observations=float(count),
        is_inferred=scale_prior is not None,
        is_linear=noise.by_squares and not is_log,
        shape=0.5 if scale_prior is None else float(scale_prior.shape),
        rate=0.5 if scale_prior is None else float(scale_prior.rate),
        perfect=likelihood.perfect,
        given=-0.5 * count * math.log(2.0 * math.pi) - log_scale,
        prior=kind,
        first=float(first),
        second=float(second),
        unit=near_zero(prior),
    )


def _units(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Sizes that a constant may have, from the data's: for the starts of the optimiser only."""

    def size(column: np.ndarray) -> float:
        found = float(np.median(np.abs(column)))
        return found if 1e-100 < found < 1e100 else 1.0

    of_y = size(y)
    units = [1.0, 1.0, of_y]
    for column in X.T[:8]:
        of_x = size(column)
        units += [1.0 / of_x, of_x, of_y / of_x]
    return np.array(units)
