"""Which visited forms are weighed, to what error, and how well the evidence is then known."""

from __future__ import annotations

import dataclasses
import math

import numpy as np

from dvisr.constants import Normal
from dvisr.diagnostics import log_total, pareto_k
from dvisr.expression import Expression
from dvisr.fitting.limits import Limit
from dvisr.fitting.search import Search
from dvisr.fitting.varying import Varying, shares_of
from dvisr.marginal import Weighed, nonlinear_constants, weigh
from dvisr.search.visited import VisitedTrees

_CLOSED_ABOVE = 0.005  # of the posterior: forms that are weighed though a look is exact
_ROUNDS = 20  # of weighing the rest, which may bring others to the front
_VARIED_PART = 0.3  # of the time that is left
_ROUGHEST = 0.3  # the error of an unlikely form, where all trees are listed
_MOST_SURPRISE = 8.0  # nats
_NOTHING = 1e-12  # of the posterior
_DOUBTED = 1e-3  # of the posterior: what an integral that is in doubt may not come up to


class FormWeigher:
    """What is known of each visited form. More may be visited and weighed before the posterior is
    made of it.

    Parameters
    ----------
    search : Search
    """

    def __init__(self, search: Search) -> None:
        self.search = search
        self.settings = search.settings.weighing
        self.weighed: dict[int, Weighed] = {}
        self._is_precise: set[int] = set()
        self._varying = Varying(search)
        self._asked: dict[int, float] = {}  # the errors that these were weighed to
        self._is_closed: dict[int, bool] = {}
        self._surprise = 0.0  # nats by which a first look was too low, at the most
        self._representatives: dict[int, np.ndarray] = {}

    @property
    def visited(self) -> VisitedTrees:
        return self.search.visited

    def expression(self, tree: np.ndarray) -> Expression:
        tokens = tuple(int(token) for token in tree if token >= 0)
        return Expression(self.search.problem.grammar.library, tokens)

    def shares(self) -> np.ndarray:
        """Of each form: its posterior probability among the visited."""
        return shares_of(self.visited)

    def weigh_likely(self, limit: Limit) -> None:
        """Weigh to a known error every form above a share; weighing moves what is above it."""
        while True:
            shares = self.shares()
            due = self._due(shares)
            if not due:
                return
            with self.search.teller.phase("weighing the likeliest functions") as tell:
                for number, form in enumerate(due):
                    if limit.weighing_is_over():
                        return
                    wanted = self._wanted(float(shares[form]))
                    self._weigh(form, wanted, limit, is_rough=False)
                    tell((number + 1) / len(due))

    def _wanted(self, share: float) -> float:
        """The error that a form of that share is weighed to."""
        own = self.settings
        if not self.search.is_enumerated:
            return own.error
        return min(max(own.error, own.error_share / max(share, 1e-9)), _ROUGHEST)

    def _is_done(self, form: int, share: float) -> bool:
        """Whether it was weighed, and to the error that its share asks for by now."""
        if form not in self._is_precise:
            return False
        wanted = self._wanted(share)
        return 0.5 * self._asked[form] <= wanted or self.weighed[form].error <= wanted

    def _due(self, shares: np.ndarray) -> list[int]:
        """Forms yet to be weighed, the likeliest first. Where all trees are listed these are all
        above a share, the lower the more a first look was found to be too low; and so many more
        that next to nothing is left."""
        own = self.settings
        if not self.search.is_enumerated:
            likely = np.flatnonzero(shares > own.above)
            due = [int(form) for form in likely if form not in self._is_precise]
            return sorted(due, key=lambda form: -shares[form])
        threshold = own.above_if_enumerated * math.exp(-self._surprise)
        order = np.argsort(-shares, kind="stable")
        left = np.append(np.cumsum(shares[order][::-1])[::-1][1:], 0.0)
        return [
            int(form)
            for form, after in zip(order, left, strict=True)
            if (shares[form] > threshold or shares[form] + after > own.most_left)
            and not self._is_done(int(form), float(shares[form]))
            and not (shares[form] < _CLOSED_ABOVE and self.is_closed(int(form)))
        ]

    def left_share(self) -> float:
        """Of the posterior: what likely forms have whose integrals there was no time for."""
        shares = self.shares()
        due = [f for f in self._due(shares) if not self.is_closed(f) and f not in self.weighed]
        return float(shares[due].sum())

    def is_closed(self, form: int) -> bool:
        """Whether the first look at a form is no approximation."""
        if form not in self._is_closed:
            problem = self.search.problem
            tree = self.expression(self.visited.form_tree[form])
            law = self.search.engine.law
            self._is_closed[form] = tree.num_constants == 0 or (
                isinstance(problem.constant_prior, Normal)
                and self.search.engine.coarse is None  # else it was a race's, on part of the rows
                and law.is_linear
                and not nonlinear_constants(tree)
            )
        return self._is_closed[form]

    def weigh_rest(self, limit: Limit) -> None:
        """Weigh roughly whatever else functions and draws are made of; one form at least."""
        for _ in range(_ROUNDS):
            forms = self.foremost()
            due = [form for form in forms if form not in self.weighed]
            with self.search.teller.phase("weighing the other functions") as tell:
                for number, form in enumerate(due):
                    if limit.weighing_is_over() and any(other in self.weighed for other in forms):
                        return
                    self._weigh(form, self.settings.rough_error, limit, is_rough=True)
                    tell((number + 1) / len(due))
            if not due:
                return

    def _weigh(self, form: int, error: float, limit: Limit, *, is_rough: bool) -> None:
        tree, own = self.representative(form), self.settings
        # A form's own stream of random numbers: the order of weighing does not matter.
        rng = np.random.default_rng([self.search.seed, *(int(token) + 1 for token in tree)])
        starts = own.sure_starts if self.search.is_enumerated else own.num_starts
        if is_rough:
            starts = own.rough_starts
        weighed = weigh(
            self.search.engine,
            tree,
            rng,
            own,
            error=error,
            num_starts=starts,
            is_late=limit.weighing_is_over,
        )
        thinned = weighed.thinned(own.most_kept, rng)
        if thinned is not weighed:
            k = pareto_k(weighed.log_weights)
            thinned = dataclasses.replace(thinned, pareto_k_of_all=k)
        self.weighed[form] = thinned
        if not is_rough:
            self._is_precise.add(form)
            self._asked[form] = error
            higher = weighed.log_marginal - float(self.visited.form_log_marginal[form])
            if math.isfinite(higher):
                self._surprise = min(max(self._surprise, higher), _MOST_SURPRISE)
        self.visited.set_log_marginal(form, weighed.log_marginal)
        self.search.teller.look(self.visited, self.search.engine)

    def vary(self, limit: Limit) -> None:
        """Visit what is sure to be near the likely forms; most of the time is left to weighing."""
        self._varying.vary(limit.part(_VARIED_PART), self.weighed)

    @property
    def is_exact(self) -> bool:
        """Whether every tree was weighed and no integral is in doubt that could matter."""
        return self.search.is_listed and not self.in_doubt()

    def in_doubt(self) -> list[int]:
        """Where all trees are listed: forms that could matter and whose integrals are not known."""
        shares = self.shares()
        doubtful = set(self._due(shares))
        if self.error() > self.settings.exact_error:
            worst = {f for f in self.weighed if shares[f] * self.weighed[f].error > 1e-3}
            doubtful |= worst or set(self.weighed)
        bar = log_total(self.visited.form_log_joint) + math.log(_DOUBTED)
        if self.search.unsure:
            trees = np.array([tree for tree, _ in self.search.unsure])
            highest = np.array([value for _, value in self.search.unsure])
            log_prior = np.asarray(self.search.problem.tree_prior.log_prob(np, trees))
            could_matter = {self._form_of(tree) for tree in trees[highest + log_prior >= bar]}
            doubtful |= could_matter - self._is_precise
        return sorted(doubtful)

    def _form_of(self, tree: np.ndarray) -> int:
        number = int(np.flatnonzero((self.visited.trees == tree).all(axis=1))[0])
        return int(self.visited.tree_form[number])

    def foremost(self) -> list[int]:
        shares = self.shares()
        order = np.argsort(-shares, kind="stable")[: self.settings.most_forms]
        needed = int(np.searchsorted(np.cumsum(shares[order]), self.settings.covered)) + 1
        return [int(form) for form in order[:needed] if shares[form] > 0.0]

    def error(self) -> float:
        """Of the log evidence, as far as the integrals over constants go."""
        constant = self.search.problem.grammar.library.constant_id
        if constant < 0:
            return 0.0
        shares = self.shares()
        has_constants = (self.visited.form_tree == constant).any(axis=1)
        errors = np.zeros(len(shares))
        for form, weighed in self.weighed.items():
            errors[form] = weighed.error
        left = np.flatnonzero(has_constants & (shares > _NOTHING))
        left = np.array([f for f in map(int, left) if f not in self.weighed], dtype=np.int64)
        off = self.settings.laplace_error
        if not self.search.is_enumerated:
            errors[left] = off
            return float(np.sqrt(((shares * errors) ** 2).sum()))
        # First looks may all be off to the same side, and as much as others were.
        left = np.array([f for f in map(int, left) if not self.is_closed(f)], dtype=np.int64)
        off = max(off, math.expm1(self._surprise))
        return float(np.sqrt(((shares * errors) ** 2).sum()) + off * shares[left].sum())

    def representative(self, form: int) -> np.ndarray:
        """The tree that is weighed and shown for a form: of its likeliest, the most readable."""
        if form not in self._representatives:
            own = np.flatnonzero(self.visited.tree_form == form)
            prior = self.visited.tree_log_prior[own]
            likeliest = self.visited.trees[own[prior > prior.max() - 1e-9]]
            self._representatives[form] = min(likeliest, key=self.reading_order)
        return self._representatives[form]

    def reading_order(self, tree: np.ndarray) -> tuple[int, int, tuple[int, ...]]:
        """Few tokens first, then few differences and quotients, then constants last."""
        library = self.search.problem.grammar.library
        tokens = [int(token) for token in tree if token >= 0]
        inverting = sum(library[token].inverts_second for token in tokens)
        last = len(library)
        order = tuple(last if token == library.constant_id else token for token in tokens)
        return len(tokens), inverting, order
