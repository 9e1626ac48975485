"""The search over trees: neighbours of good ones, draws from the prior and from a network that
learns, all noted in one set of visited trees.

Two islands make neighbours only of what they have come across themselves. Where each has found what
the other found, the search has likely not missed much; that is one of the checks.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import time
from collections.abc import Callable, Sequence

import numpy as np

from dvisr.counting import count_trees
from dvisr.enumeration import enumerate_trees
from dvisr.fitting import streams
from dvisr.fitting.beside import beside, is_done_in_time
from dvisr.fitting.data_network import make_network
from dvisr.fitting.limits import Limit
from dvisr.fitting.matched import list_functions, said_by_the_data
from dvisr.fitting.network import AbstractNetwork
from dvisr.fitting.progress import StepReport, Teller, likely_forms, report_of
from dvisr.marginal import Engine
from dvisr.problem import Problem
from dvisr.search.exploring import Parents, temper
from dvisr.search.forms import make_algebra
from dvisr.search.from_prior import PriorSampler
from dvisr.search.inner import InnerConstants
from dvisr.search.likeliest import listed
from dvisr.search.matching import Contexts, Matching
from dvisr.search.neighbours import Neighbours
from dvisr.search.numbering import Numbering
from dvisr.search.powers import PowerProducts
from dvisr.search.racing import Looks, Race
from dvisr.search.recasting import Recasting
from dvisr.search.refining import Refiner
from dvisr.search.table import OutOfTime
from dvisr.search.visited import ALL_ISLANDS, NUM_ISLANDS, VisitedTrees
from dvisr.settings import FitSettings
from dvisr.target import undefined_log_likelihood

_LAST_PHASE = 0.75  # of the steps: from there on the posterior itself is replayed, not a hotter one
_MOST_REPLAYED = 4000  # trees that replay is drawn from
_MOMENT = 1.5  # seconds
_LOOKS = 12  # a tree that is made sure of takes so many times as long as a first look


class Search:
    """Call `run` once or more; `visited` has the trees.

    Parameters
    ----------
    problem : Problem
    settings : FitSettings
    num_samples : int
        Trees of each kind that a step tries.
    seed : int
    num_threads : int, optional
        All cores, if not given.
    """

    def __init__(
        self,
        problem: Problem,
        settings: FitSettings,
        *,
        num_samples: int,
        seed: int,
        num_threads: int | None = None,
    ) -> None:
        self.problem, self.settings = problem, settings
        own, grammar = settings.search, problem.grammar
        self.num_allowed = count_trees(grammar)
        self.is_enumerated = (
            self.num_allowed <= own.max_enumerated
            and self.num_allowed * len(problem.data.y) <= own.max_enumerated_points
        )
        rng = np.random.default_rng([seed, streams.RACED_ROWS])
        fewest = len(problem.data.y) if self.is_enumerated else own.raced_rows
        self.engine = Engine.in_parts(problem, fewest, rng, num_threads)
        self.race = Race(
            self.engine, own.num_starts, own.hopeless, own.hopeless_a_row, lambda: self._is_late()
        )
        is_symmetric = problem.constant_prior.is_symmetric
        self._algebra = make_algebra(grammar.library, symmetric_constants=is_symmetric)
        self.visited = VisitedTrees(
            grammar.max_tokens, problem.tree_prior, self._algebra, self._fit
        )
        self.num_samples, self.seed = num_samples, seed
        self.rng = np.random.default_rng(seed)
        self.history: list[StepReport] = []
        self.sampler = PriorSampler(grammar, problem.tree_prior)
        self.neighbours = Neighbours(grammar, self.sampler.token_shares(len(grammar.library)))
        self.refiner = Refiner(grammar, problem.tree_prior, own)
        self.numbering = Numbering(grammar, problem.tree_prior, problem.constant_prior, own)
        self.recasting = Recasting(grammar)
        self._refined: list[set[bytes]] = [set() for _ in ALL_ISLANDS]
        self._matched: list[set[bytes]] = [set() for _ in ALL_ISLANDS]
        self._heat = [1.0] * NUM_ISLANDS
        self.is_listed = False  # every tree that there is was weighed
        self.num_listed = 0  # of the likeliest trees before the data, all of which were weighed
        self.listed_share = 0.0  # of the prior, that these have
        self.network: AbstractNetwork | None = None
        self.why_plain = ""  # why the network is not the one that reads the data
        self.floor = max(undefined_log_likelihood(problem.likelihood), -1e12)
        self.unsure: list[tuple[np.ndarray, float]] = []  # trees, and the most they may weigh
        self._seconds = 0.0
        self._is_late: Callable[[], bool] = lambda: False
        self.is_whole = True  # every step was made in full, and nothing else was done since
        self.after_step: Callable[[], None] = lambda: None  # called after each that was
        self.teller = Teller()

    @functools.cached_property
    def matching(self) -> Matching:
        own = self.settings.search
        return Matching(self.problem, self.engine, self._algebra, own, self._is_late)

    @functools.cached_property
    def powers(self) -> PowerProducts:
        return PowerProducts(self.problem, self.matching, self.settings.search.power_pairs)

    @functools.cached_property
    def inner(self) -> InnerConstants:
        own = self.settings.search
        return InnerConstants(self.problem, self.matching, self._algebra, own.inner_functions)

    def continues(self, problem: Problem, settings: FitSettings, num_samples: int) -> bool:
        """Whether a search of that problem can go on from here."""
        own = self.num_samples, self.settings
        return own == (num_samples, settings) and self.problem.is_same_as(problem)

    def _fit(self, trees: np.ndarray, log_prior: np.ndarray) -> Looks:
        own = self.settings
        if self.is_enumerated:
            surely = self.engine.fit_surely(trees, own.search.num_starts, own.weighing.sure_change)
            for place in np.flatnonzero(~surely.is_sure):
                self.unsure.append((trees[place], float(surely.highest[place])))
            return Looks(surely.log_marginal, surely.log_marginal)
        if self.engine.coarse is not None:
            return self.race.look(trees, log_prior)
        bar = float(self.visited.form_log_joint.max(initial=-np.inf)) - own.search.hopeless
        found = self.engine.fit(trees, own.search.num_starts, bar - log_prior).log_marginal
        return Looks(found, found)

    def prepare(self) -> None:
        """Whatever must be compiled: host code, which counts as no time, and the network's
        programs, beside the search if they can be."""
        own = self.settings.search
        with self.teller.phase("compiling what a first fit needs"):
            if not self.is_enumerated and self.network is None:
                self.network, self.why_plain = make_network(
                    self.problem, own, self.num_samples, seed=self.seed
                )
                self.network.compile()
            self.engine.fit(self.sampler.draw(2, np.random.default_rng(0)), own.num_starts)

    def run(self, num_steps: int, limit: Limit | None = None, begun: int | None = None) -> bool:
        """So many steps more, or until the limit; whether all were made. Where a search goes on
        that was broken off, `begun` is the number of steps from which these count."""
        limit = Limit() if limit is None else limit
        self._is_late = functools.partial(self._noted, limit)
        if self.is_enumerated:
            return self._list_all()
        first = len(self.history)
        planned = num_steps + (first if begun is None else begun)
        began = time.perf_counter()
        self.teller.tell(planned=planned, latest_end=limit.end)
        if first == 0:
            self._start()
        self.teller.steps(first, planned, limit.end)
        for step in range(0 if begun is None else first - begun, num_steps):
            if self._is_late():
                self._seconds += time.perf_counter() - began
                return False
            before = likely_forms(self.visited)
            elbo = self._step((step + 1) / num_steps)
            seconds = self._seconds + time.perf_counter() - began
            number = len(self.history) + 1
            self.history.append(report_of(number, seconds, elbo, self.visited, before))
            self.teller.look(self.visited, self.engine, is_due=True)
            self.teller.steps(len(self.history), planned, limit.end)
            if self.is_whole:
                self.after_step()
        self._seconds += time.perf_counter() - began
        return True

    def heed(self, is_late: Callable[[], bool]) -> None:
        """What is still visited after the search must end once it is late."""
        self._is_late = is_late

    def abandon(self) -> None:
        """It ended by an error: what goes on beside it ends soon."""
        self.heed(lambda: True)
        if self.network is not None:
            self.network.give_up()
            self.network = self.network if self.network.is_ready() else None

    def _noted(self, limit: Limit) -> bool:
        """Whether the search is over; once it is, what is left of a step is left out."""
        is_over = limit.search_is_over()
        self.is_whole = self.is_whole and not is_over
        return is_over

    def _list_all(self) -> bool:
        """Every tree there is, the likeliest before the data first; whether all were weighed."""
        trees = enumerate_trees(self.problem.grammar)
        log_prior = np.asarray(self.problem.tree_prior.log_prob(np, trees))
        order = np.argsort(-log_prior, kind="stable")
        self.is_listed = self.visit(trees[order], name="weighing every formula")
        self.listed_share = float(np.exp(log_prior[order[: len(self.visited.trees)]]).sum())
        return self.is_listed

    def _start(self) -> None:
        """The likeliest trees before the data, what the network says of them, pairs of likely parts
        that fit them, and draws from the prior. The network, which often has the law, is left alone
        for a moment; then the pairs are worked out beside it, but visited after it, always."""
        prior = self.problem.tree_prior
        with self.teller.phase("listing the likeliest formulas before the data"):
            trees, _ = listed(self.problem.grammar, prior, self.settings.search.likeliest_trees)
        if self.visit(trees, name="fitting the likeliest formulas before the data"):
            self.num_listed = len(trees)
            self.listed_share = float(np.exp(np.asarray(prior.log_prob(np, trees))).sum())
        list_functions(self, self._is_late)  # while the network reads and draws
        if self.network is not None:
            self.network.wait_for_draws(_MOMENT, self._is_late)
        (pairs,) = beside(self._pairs)
        if self.network is not None:
            self.network.begin(self, self._is_late)
        if is_done_in_time(pairs, self._is_late):
            self.visit(pairs.result(), name="fitting what was matched and paired")
        for island in ALL_ISLANDS:
            self.visit(self.sampler.draw(2 * self.num_samples, self.rng), [island])

    def _pairs(self) -> np.ndarray:
        return said_by_the_data(self, self._is_late)

    @property
    def trees_at_once(self) -> int:
        """Trees that are visited between two looks at the clock."""
        own = self.settings.search
        size = min(own.trees_at_once, own.points_at_once // self.race.num_rows)
        return max(16, size // (_LOOKS if self.is_enumerated else 1))

    def visit(
        self, trees: np.ndarray, islands: Sequence[int] = ALL_ISLANDS, name: str = "searching"
    ) -> bool:
        """In parts of some tenths of a second, unless it has grown late; whether all were."""
        size = self.trees_at_once
        with self.teller.phase(name) as tell:
            for start in range(0, len(trees), size):
                if self._is_late() and len(self.visited.trees) > 0:
                    return False
                self.visited.visit(trees[start : start + size], islands)
                self.teller.look(self.visited, self.engine)
                tell((start + size) / len(trees))
        return True

    def _step(self, done: float) -> float:
        for island in ALL_ISLANDS:
            self._explore(island)
        elbo = float("nan") if self.network is None else self.network.step(self, done)
        self.visited.drop_least_likely(self.settings.search.max_forms)
        return elbo

    def _explore(self, island: int) -> None:
        """Neighbours of what the island knows, and draws from the prior; then, of the most
        promising trees that were not gone through yet, contexts filled and refinements."""
        own = self.settings.search
        from_prior = self.sampler.draw(max(1, int(own.from_prior * self.num_samples)), self.rng)
        parents = Parents(self.visited, island, own)
        drawn = parents.draw(own.neighbours * self.num_samples, self.rng, self._heat[island])
        trees = from_prior
        if len(drawn):
            donors = np.concatenate([from_prior, drawn[: len(from_prior)]])
            proposed = self.neighbours.propose(drawn, donors, self.rng)
            proposed = proposed[proposed[:, 0] >= 0]
            self._adjust_heat(island, proposed)
            trees = np.concatenate([from_prior, proposed])
        self.visit(trees, [island])
        self._match(parents, island)
        self._refine(parents, island)

    def _match(self, parents: Parents, island: int) -> None:
        """Subtrees of the most promising trees replaced by what the data say they should be."""
        own, done = self.settings.search, self._matched[island]
        new = (tree for tree in parents.ranking() if tree.tobytes() not in done)
        trees = list(itertools.islice(new, own.matched_trees))
        if trees and not self._is_late():
            done.update(tree.tobytes() for tree in trees)
            with contextlib.suppress(OutOfTime):
                contexts = self.matching.contexts_of(np.array(trees), self._is_late)
                most, functions = own.matched_a_step, own.step_functions
                self.visit(self.matching.filled(contexts, most, functions, self._is_late), [island])
                self._multiply(contexts, island)
                self._fill_with_inner(contexts, island)

    def _multiply(self, contexts: Contexts, island: int) -> None:
        """Products of powers of the columns in the holes of contexts."""
        own, threads = self.settings.search, self.engine.num_threads
        if (most := own.powers_a_step) and not self._is_late():
            pairs = own.power_pairs_a_step
            self.visit(self.powers.filled(contexts, most, pairs, threads, self._is_late), [island])

    def _fill_with_inner(self, contexts: Contexts, island: int) -> None:
        """Functions with a constant inside in the holes of contexts."""
        if (most := self.settings.search.inner_a_step) and not self._is_late():
            threads = self.engine.num_threads
            self.visit(self.inner.filled(contexts, most, threads, self._is_late), [island])

    def _refine(self, parents: Parents, island: int) -> None:
        """Small trees in the place of constants of the most promising trees."""
        if not self.problem.grammar.library.has_constants:
            return
        room, done = self.settings.search.refined, self._refined[island]
        for tree in parents.ranking():
            key = tree.tobytes()
            if room <= 0 or self._is_late():
                return
            if key in done:
                continue
            done.add(key)
            refined = self.refiner.refinements(tree, self.rng)
            if len(refined):
                self.visit(refined, [island])
                room -= 1

    def _adjust_heat(self, island: int, proposed: np.ndarray) -> None:
        """Where most neighbours were visited before, parents are drawn more evenly next time."""
        if len(proposed) == 0:
            return
        own = self.settings.search
        known = float(self.visited.contains(proposed).mean())
        factor = 1.5 if known > own.familiar else 0.8
        self._heat[island] = float(np.clip(factor * self._heat[island], 1.0, own.hottest))

    def replayed(self, count: int, done: float) -> np.ndarray:
        """Visited trees by their posterior; earlier by a hotter one, which has more of them."""
        joint = self.visited.tree_joint_estimate
        most = min(_MOST_REPLAYED, len(joint))
        foremost = np.argpartition(-joint, most - 1)[:most]
        foremost = foremost[np.isfinite(joint[foremost])]
        if len(foremost) == 0:
            return self.sampler.draw(count, self.rng)
        spread = 1.0 if done > _LAST_PHASE else self.settings.search.replay_spread
        shares = temper(joint[foremost], spread)
        return self.visited.trees[self.rng.choice(foremost, count, p=shares)]
