"""The search over trees: neighbours of good ones, draws from the prior and from a network that
learns, all into one ledger.

Two islands make neighbours only of what they have come across themselves. Had each found what the
other found, the search has likely not missed much; that is one of the diagnostics.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Sequence

import numpy as np

from dvisr.constraints import Grammar
from dvisr.counting import count_by_size, count_trees
from dvisr.enumeration import enumerate_trees
from dvisr.fitting.network import FIRST_RATE, Network
from dvisr.fitting.problem import Problem
from dvisr.search.exploring import Parents, temper
from dvisr.search.forms import make_algebra
from dvisr.search.from_prior import PriorSampler
from dvisr.search.neighbours import Neighbours
from dvisr.search.sweeping import Sweep
from dvisr.search.visited import ALL_ISLANDS, NUM_ISLANDS, VisitedTrees
from dvisr.target import UNDEFINED_ERRORS

NUM_STEPS = 20
NUM_SAMPLES = 256
MAX_ENUMERATED = 20_000  # trees; where there are no more, all are weighed and nothing is searched
MOST_POINTS = 20_000_000  # ... times points
_POINTS_AT_ONCE = 400_000  # trees times points between two looks at the clock
_NEIGHBOURS = 4  # an island, for each sample of a step
_FROM_PRIOR = 0.5
_OF_THE_NETWORK = 0.25
_SWEPT = 4  # forms an island and step, the most promising that were not swept yet
_REFINED = 12  # the same for refinements
_FAMILIAR = 0.5  # the share of neighbours that were visited before, above which it gets hotter
_HOTTEST = 50.0
_SMALL_TREES = (
    10_000  # the smallest sizes, as many as have no more trees than this, are all weighed
)
_BELOW_ALL = 100.0  # nats below the best: what can't come nearer is fitted roughly
_CLIP = 5.0  # an advantage, in nats: likelihoods of bad trees are thousands of nats apart
_LAST_PHASE = 0.75  # of the steps: from there on the posterior itself is replayed, not a hotter one
_HOT = 200.0  # trees that share the weight of replay before that

Progress = Callable[[int, int, float], None]


@dataclasses.dataclass(frozen=True)
class StepReport:
    step: int
    seconds: float
    num_trees: int
    num_forms: int
    log_evidence: float  # of what was visited
    best_log_joint: float
    elbo: float  # of this step's draws; NaN without a network


class Search:
    """Call `run` once or more; `ledger` has what was found."""

    def __init__(
        self,
        problem: Problem,
        *,
        num_samples: int,
        seed: int,
        num_threads: int | None = None,
    ) -> None:
        self.problem = problem
        grammar = problem.grammar
        self.engine = problem.engine(num_threads)
        algebra = make_algebra(
            grammar.library, symmetric_constants=problem.constant_prior.is_symmetric
        )
        self.ledger = VisitedTrees(
            grammar.max_tokens,
            problem.tree_prior,
            algebra,
            self._fit,
        )
        self.num_samples = num_samples
        self.seed = seed
        self.rng = np.random.default_rng(seed)
        self.history: list[StepReport] = []
        self.num_allowed = count_trees(grammar)
        self.is_enumerated = (
            self.num_allowed <= MAX_ENUMERATED
            and self.num_allowed * len(problem.data.y) <= MOST_POINTS
        )
        self.neighbours = Neighbours(grammar)
        self.sampler = PriorSampler(grammar, problem.tree_prior)
        self._sweep = Sweep(grammar)
        self._swept: list[set[bytes]] = [set() for _ in ALL_ISLANDS]
        self._refined: list[set[bytes]] = [set() for _ in ALL_ISLANDS]
        self._heat = [1.0] * NUM_ISLANDS
        self.complete_size = _complete_size(grammar)
        self.network: Network | None = None
        self.floor = _floor(problem)
        self._seconds = 0.0
        self._is_late: Callable[[], bool] = lambda: False

    def continues(self, problem: Problem, num_samples: int) -> bool:
        """Whether a search of that problem can go on from here."""
        own = self.problem
        return (
            num_samples == self.num_samples
            and problem.grammar.library == own.grammar.library
            and problem.grammar.max_tokens == own.grammar.max_tokens
            and problem.grammar.rules == own.grammar.rules
            and problem.constant_prior == own.constant_prior
            and np.array_equal(problem.tree_prior.log_size, own.tree_prior.log_size)
            and np.array_equal(problem.tree_prior.log_token, own.tree_prior.log_token)
            and np.array_equal(problem.data.X, own.data.X)
            and type(problem.likelihood) is type(own.likelihood)
            and np.array_equal(problem.likelihood.y, own.likelihood.y)
            and np.array_equal(problem.likelihood.scale, own.likelihood.scale)
            and np.array_equal(_weights(problem), _weights(own))
        )

    def _fit(self, trees: np.ndarray) -> np.ndarray:
        known = self.ledger.form_log_marginal
        best = float(known.max()) if len(known) and not self.is_enumerated else -np.inf
        found: np.ndarray = self.engine.fit(trees, bar=best - _BELOW_ALL).log_marginal
        return found

    def prepare(self) -> None:
        """Whatever must be compiled, before the clock starts."""
        self.engine.fit(self.sampler.draw(2, np.random.default_rng(0)))
        if not self.is_enumerated and self.network is None:
            self.network = Network(
                self.problem.grammar,
                self.problem.tree_prior,
                max(16, int(_OF_THE_NETWORK * self.num_samples)),
                max(16, int(2 * _OF_THE_NETWORK * self.num_samples)),
                seed=self.seed,
            )
            self.network.compile()

    def run(
        self,
        num_steps: int,
        deadline: float | None = None,
        progress: Progress = lambda done, steps, evidence: None,
        should_stop: Callable[[], bool] = lambda: False,
    ) -> bool:
        """So many steps more, or until the deadline or someone says stop; whether all were made."""
        if self.is_enumerated:
            self.ledger.visit(enumerate_trees(self.problem.grammar))
            return True
        assert self.network is not None
        first = len(self.history)
        began = time.perf_counter()
        self._is_late = lambda: (
            should_stop() or (deadline is not None and time.perf_counter() >= deadline)
        )
        if first == 0:
            self._start()
        for step in range(num_steps):
            if self._is_late():
                self._seconds += time.perf_counter() - began
                return False
            elbo = self._step(self.network, (step + 1) / num_steps)
            seconds = self._seconds + time.perf_counter() - began
            self._report(seconds, elbo)
            progress(step + 1, num_steps, self.history[-1].log_evidence)
        self._seconds += time.perf_counter() - began
        return True

    def _start(self) -> None:
        """All the smallest trees, and draws from the prior."""
        if not self._visit(_small_trees(self.problem.grammar, self.complete_size)):
            self.complete_size = 0
        for island in ALL_ISLANDS:
            self._visit(self.sampler.draw(2 * self.num_samples, self.rng), [island])

    def _visit(self, trees: np.ndarray, islands: Sequence[int] = ALL_ISLANDS) -> bool:
        """In parts of some tenths of a second, unless it has grown late; whether all were."""
        size = max(16, _POINTS_AT_ONCE // len(self.problem.data.y))
        for start in range(0, len(trees), size):
            if self._is_late() and len(self.ledger.trees) > 0:
                return False
            self.ledger.visit(trees[start : start + size], islands)
        return True

    def _step(self, network: Network, done: float) -> float:
        for island in ALL_ISLANDS:
            self._explore(island)
        trees, log_q = network.draw()
        numbers = self.ledger.visit(trees, islands=())  # the network learns from both islands
        joint = np.maximum(self.ledger.tree_log_joint[numbers], self.floor + self._prior(numbers))
        terms = joint - log_q
        others = (terms.sum() - terms) / max(1, len(terms) - 1)
        advantages = np.clip(terms - others, -_CLIP, _CLIP)
        rate = FIRST_RATE * 0.5 * (1.0 + np.cos(np.pi * min(1.0, done)))
        network.learn(trees, advantages, self.replayed(network, done), max(rate, 1e-4))
        self.ledger.drop_least_likely()
        return float(terms.mean())

    def _prior(self, numbers: np.ndarray) -> np.ndarray:
        found: np.ndarray = self.ledger.tree_log_prior[numbers]
        return found

    def _explore(self, island: int) -> None:
        """Neighbours of what the island knows, and what the prior offers; then all small changes
        of the most promising trees that were not gone through yet."""
        from_prior = self.sampler.draw(max(1, int(_FROM_PRIOR * self.num_samples)), self.rng)
        parents = Parents(self.ledger, island)
        drawn = parents.draw(_NEIGHBOURS * self.num_samples, self.rng, self._heat[island])
        found = from_prior
        if len(drawn):
            donors = np.concatenate([from_prior, drawn[: len(from_prior)]])
            proposed = self.neighbours.propose(drawn, donors, self.rng)
            proposed = proposed[proposed[:, 0] >= 0]
            self._warm(island, proposed)
            found = np.concatenate([from_prior, proposed])
        self._visit(found, [island])
        self._go_through(parents, self._swept[island], _SWEPT, self._sweep.changes, island)
        self._go_through(parents, self._refined[island], _REFINED, self._sweep.refinements, island)

    def _go_through(
        self,
        parents: Parents,
        done: set[bytes],
        room: int,
        changes: Callable[[np.ndarray, np.random.Generator], np.ndarray],
        island: int,
    ) -> None:
        for tree in parents.ranking():
            key = tree.tobytes()
            if self._is_late():
                return
            if key in done:
                continue
            done.add(key)
            found = changes(tree, self.rng)
            if len(found):
                self._visit(found, [island])
                room -= 1
            if room == 0:
                return

    def _warm(self, island: int, proposed: np.ndarray) -> None:
        """Where most neighbours are old acquaintances, look further afield next time."""
        if len(proposed) == 0:
            return
        known = float(self.ledger.contains(proposed).mean())
        factor = 1.5 if known > _FAMILIAR else 0.8
        self._heat[island] = float(np.clip(factor * self._heat[island], 1.0, _HOTTEST))

    def replayed(self, network: Network, done: float) -> np.ndarray:
        """Visited trees by their posterior; earlier by a hotter one, which has more of them."""
        joint = self.ledger.tree_log_joint
        count = min(4000, len(joint))
        foremost = np.argpartition(-joint, count - 1)[:count]
        foremost = foremost[np.isfinite(joint[foremost])]
        if len(foremost) == 0:
            return self.sampler.draw(network.num_replayed, self.rng)
        shares = temper(joint[foremost], 1.0 if done > _LAST_PHASE else _HOT)
        chosen = self.rng.choice(foremost, network.num_replayed, p=shares)
        trees: np.ndarray = self.ledger.trees[chosen]
        return trees

    def _report(self, seconds: float, elbo: float) -> None:
        joint = self.ledger.form_log_joint
        best = float(joint.max())
        total = best + float(np.log(np.exp(joint - best).sum())) if np.isfinite(best) else best
        self.history.append(
            StepReport(
                step=len(self.history) + 1,
                seconds=seconds,
                num_trees=len(self.ledger.trees),
                num_forms=self.ledger.num_forms,
                log_evidence=total,
                best_log_joint=best,
                elbo=elbo,
            )
        )


def _weights(problem: Problem) -> np.ndarray:
    weights = problem.likelihood.weights
    return np.ones(len(problem.likelihood.y)) if weights is None else weights


def _floor(problem: Problem) -> float:
    """What the likelihood of an undefined tree counts as, where it must be a number; see
    `target`."""
    likelihood = problem.likelihood
    residuals = UNDEFINED_ERRORS * (np.abs(likelihood.y).max() / likelihood.scale + 1.0)
    with np.errstate(over="ignore"):
        floor = float(likelihood.of_squares(np, np.asarray((residuals**2).sum())))
    return max(floor, -1e12)


def _complete_size(grammar: Grammar) -> int:
    """The largest size up to which there are few enough trees to weigh them all."""
    totals = np.cumsum([float(count) for count in count_by_size(grammar)])
    return max(0, int((totals <= _SMALL_TREES).sum()) - 1)


def _small_trees(grammar: Grammar, size: int) -> np.ndarray:
    if size < 1:
        return np.empty((0, grammar.max_tokens), dtype=np.int8)
    small = Grammar(grammar.library, size, grammar.rules)
    rows = np.full((count_trees(small), grammar.max_tokens), -1, dtype=np.int8)
    rows[:, :size] = enumerate_trees(small)
    return rows
