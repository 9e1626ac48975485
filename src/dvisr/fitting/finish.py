"""From what was visited to the answer: weigh what matters, merge what is the same, draw."""

from __future__ import annotations

import dataclasses
import itertools
import math
import time

import numpy as np

from dvisr.constants import Normal
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.fitting.loop import Search
from dvisr.marginal import Engine, Weighed, noise_draws, weigh
from dvisr.posterior.answer import Function, Posterior, Tree, inclusion_of, log_total
from dvisr.posterior.predictive import Draws
from dvisr.search.visited import VisitedTrees

NUM_DRAWS = 2000
WEIGHED_ABOVE = 0.01  # of the posterior: every such form is weighed to a known error
WEIGHED_ABOVE_IF_ENUMERATED = 1e-4
_ROUGH = 0.3  # the error that is good enough for the rest
_COVERED = 0.995  # of the posterior: forms that draws are made from
_MOST_FORMS = 100
_MOST_TREES = 1000
_WEIGHED_TREES = 20  # trees whose own constants are worked out
_MOST_MATCHED = 5  # constants of such a tree: 3840 orders and signs
_MOST_REWRITINGS = 500  # trees of one form that are looked for
_ALIKE = 1e-4  # of the residuals: fits that differ by less are one function
_ABOUT = 0.4  # of the likeliest: forms that may speak for a function
_LAPLACE_ERROR = 0.3  # what is reckoned for a form that was not weighed
_PROBES = 16


class Finish:
    """What is known of each form, and so of the posterior. May be gone through again."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.weighed: dict[int, Weighed] = {}
        self._precise: set[int] = set()
        self._shown: dict[int, np.ndarray] = {}  # the tree that was weighed and is printed

    @property
    def ledger(self) -> VisitedTrees:
        return self.search.ledger

    def expression(self, tree: np.ndarray) -> Expression:
        tokens = tuple(int(token) for token in tree if token >= 0)
        return Expression(self.search.problem.grammar.library, tokens)

    def shares(self) -> np.ndarray:
        """Of each form: its posterior probability among the visited."""
        joint = self.ledger.form_log_joint
        total = log_total(joint)
        if not math.isfinite(total):
            return np.zeros(len(joint))
        found: np.ndarray = np.exp(joint - total)
        return found

    def weigh(self, deadline: float | None) -> None:
        """Weigh what ends up above the threshold; weighing moves what is above it."""
        threshold = WEIGHED_ABOVE_IF_ENUMERATED if self.search.is_enumerated else WEIGHED_ABOVE
        while True:
            shares = self.shares()
            due = [f for f in np.flatnonzero(shares > threshold) if f not in self._precise]
            if not due:
                return
            for form in sorted(due, key=lambda f: -shares[f]):
                if deadline is not None and time.perf_counter() > deadline:
                    return
                self._weigh(int(form), rough=False)

    def _weigh(self, form: int, *, rough: bool) -> Weighed:
        tree = self.shown(form)
        # A form's own stream of random numbers: the order of weighing does not matter.
        seed = [self.search.seed, *(int(token) + 1 for token in tree)]
        rng = np.random.default_rng(seed)
        if rough:
            found = weigh(self.search.engine, tree, rng, error=_ROUGH, num_starts=8)
        else:
            found = weigh(self.search.engine, tree, rng)
        self.weighed[form] = found
        if not rough:
            self._precise.add(form)
        self.ledger.set_log_marginal(form, found.log_marginal)
        return found

    def complete(self, above: float = 0.005) -> None:
        """Trees that are sure to be of a likely form are noted, visited or not."""
        for form in np.flatnonzero(self.shares() > above):
            found = {self.ledger.form_tree[form].tobytes(): self.ledger.form_tree[form]}
            border = list(found.values())
            while border and len(found) < _MOST_REWRITINGS:
                tree = border.pop()
                for other in self.search.neighbours.rewritings(tree):
                    if other.tobytes() not in found:
                        found[other.tobytes()] = other
                        border.append(other)
            self.ledger.visit(np.array(list(found.values())), islands=())

    def posterior(self, deadline: float | None = None) -> Posterior:
        for _ in range(20):  # weighing the rest may bring others to the front
            shares = self.shares()
            forms = self._foremost(shares)
            due = [form for form in forms if form not in self.weighed]
            late = deadline is not None and time.perf_counter() > deadline
            if not due or (late and len(due) < len(forms)):
                break
            for form in due:
                late = deadline is not None and time.perf_counter() > deadline
                if late and any(other in self.weighed for other in forms):
                    break  # but one at least there must be
                self._weigh(form, rough=True)
        forms = [form for form in self._foremost(self.shares()) if form in self.weighed]
        if not forms or not math.isfinite(log_total(self.ledger.form_log_joint)):
            raise ValueError(
                "no expression that was tried is defined on these data and near enough to the "
                "target: allow more operators or constants, or rescale the columns"
            )
        joint = self.ledger.form_log_joint
        log_evidence = log_total(joint)
        shares = self.shares()
        functions = tuple(self._functions(forms, shares))
        return Posterior(
            grammar=self.search.problem.grammar,
            functions=functions,
            trees=tuple(self._trees(log_evidence)),
            log_evidence=log_evidence,
            log_evidence_stderr=self._error(shares),
            is_exact=self.search.is_enumerated,
            inclusion=inclusion_of(self.search.problem.grammar, functions),
            draws=self._draws(forms, shares),
        )

    def function_shares(self) -> list[tuple[frozenset[int], float]]:
        """Of each function that matters: its forms, and its probability."""
        shares = self.shares()
        forms = [form for form in self._foremost(shares) if form in self.weighed]
        return [(frozenset(own), float(shares[own].sum())) for own in self._groups(forms)]

    def _groups(self, forms: list[int]) -> list[list[int]]:
        """Forms that the data fit to one and the same function: x * c + c and (x + c) * c, say."""
        shown = np.array([self.shown(form) for form in forms])
        groups = merged(self.search.engine, shown, self._probes())
        return [[forms[place] for place in group] for group in groups]

    def _foremost(self, shares: np.ndarray) -> list[int]:
        order = np.argsort(-shares, kind="stable")[:_MOST_FORMS]
        needed = int(np.searchsorted(np.cumsum(shares[order]), _COVERED)) + 1
        return [int(form) for form in order[:needed] if shares[form] > 0.0]

    def _error(self, shares: np.ndarray) -> float:
        """Of the log evidence, as far as the integrals over constants go."""
        errors = np.full(len(shares), _LAPLACE_ERROR)
        for form, found in self.weighed.items():
            errors[form] = found.error
        constant = self.search.problem.grammar.library.constant_id
        if constant < 0:
            return 0.0
        has_constants = (self.ledger.form_tree == constant).any(axis=1)
        errors[~has_constants] = 0.0
        return float(np.sqrt(((shares * errors) ** 2).sum()))

    def _trees(self, log_evidence: float) -> list[Tree]:
        joint = self.ledger.tree_log_joint
        count = min(_MOST_TREES, len(joint))
        order = np.argpartition(-joint, count - 1)[:count]
        order = order[np.isfinite(joint[order])]
        order = order[np.argsort(-joint[order], kind="stable")]
        found = [
            Tree(
                self.expression(self.ledger.trees[number]),
                math.exp(joint[number] - log_evidence),
                float(joint[number]),
                self._weighed_tree(int(number)) if place < _WEIGHED_TREES else None,
            )
            for place, number in enumerate(order)
        ]
        return sorted(
            found,
            key=lambda t: (-round(t.log_joint, 9), t.expression.complexity, t.expression.tokens),
        )

    def _weighed_tree(self, number: int) -> Weighed | None:
        """A tree's own constants, in its own order and with its own signs."""
        tree, form = self.ledger.trees[number], int(self.ledger.tree_form[number])
        known = self.weighed.get(form)
        if known is None or (tree == self.shown(form)).all():
            return known
        X = self.search.problem.data.X
        return matched(self.expression(self.shown(form)), known, self.expression(tree), X)

    def _functions(self, forms: list[int], shares: np.ndarray) -> list[Function]:
        """Forms that are the same function are merged. Probabilities are of all; the row shows the
        likeliest."""
        counts = np.bincount(self.ledger.tree_form, minlength=self.ledger.num_forms)
        found = []
        for members in self._groups(forms):
            # Of forms about as likely as each other the one that reads best speaks for all.
            likely = [f for f in members if shares[f] > _ABOUT * shares[members].max()]
            speaker = min(likely, key=lambda form: self._roughness(self.shown(form)))
            weighed = self.weighed[speaker]
            found.append(
                Function(
                    expression=self.expression(self.shown(speaker)),
                    probability=float(shares[members].sum()),
                    log_joint=log_total(self.ledger.form_log_joint[members]),
                    num_trees=int(counts[members].sum()),
                    weighed=weighed,
                )
            )
        return sorted(found, key=lambda f: (-round(f.log_joint, 9), f.expression.complexity))

    def shown(self, form: int) -> np.ndarray:
        """The tree that speaks for a form: of its likeliest ones, that which reads best."""
        if form not in self._shown:
            own = np.flatnonzero(self.ledger.tree_form == form)
            prior = self.ledger.tree_log_prior[own]
            likeliest = self.ledger.trees[own[prior > prior.max() - 1e-9]]
            self._shown[form] = min(likeliest, key=self._roughness)
        return self._shown[form]

    def _roughness(self, tree: np.ndarray) -> tuple[int, int, tuple[int, ...]]:
        """Few tokens first, then few differences and quotients, then constants last."""
        library = self.search.problem.grammar.library
        tokens = [int(token) for token in tree if token >= 0]
        crooked = sum(library[token].name in ("-", "/") for token in tokens)
        last = len(library)
        order = tuple(last if token == library.constant_id else token for token in tokens)
        return len(tokens), crooked, order

    def _probes(self) -> np.ndarray:
        """Rows beside the data's: values of each column, combined at random."""
        X = self.search.problem.data.X
        rng = np.random.default_rng(0)
        return np.stack([rng.choice(column, _PROBES) for column in X.T], axis=1)

    def _draws(self, forms: list[int], shares: np.ndarray) -> Draws:
        rng = np.random.default_rng([self.search.seed, 1])
        weights = shares[forms] / shares[forms].sum()
        points = (np.arange(NUM_DRAWS) + rng.uniform()) / NUM_DRAWS
        tree = np.minimum(np.searchsorted(np.cumsum(weights), points), len(forms) - 1)
        most = max(len(self.weighed[form].mode) for form in forms)
        constants = np.zeros((NUM_DRAWS, most))
        squares = np.zeros(NUM_DRAWS)
        for number, form in enumerate(forms):
            rows = np.flatnonzero(tree == number)
            weighed = self.weighed[form]
            places = weighed.resampled(len(rows), rng)
            constants[rows, : weighed.constants.shape[1]] = weighed.constants[places]
            squares[rows] = weighed.squares[places]
        scale = np.asarray(self.search.problem.likelihood.scale)
        return Draws(
            expressions=tuple(self.expression(self.shown(form)) for form in forms),
            tree=tree,
            constants=constants,
            noise=noise_draws(self.search.engine, squares, rng),
            scale=float(np.median(scale)),
        )


def matched(one: Expression, weighed: Weighed, two: Expression, X: np.ndarray) -> Weighed | None:
    """What is known of one tree's constants as the other's, which has the same ones in another
    order or with other signs; None where no order and signs make the two equal, or there are too
    many to try."""
    k = len(weighed.mode)
    if k > _MOST_MATCHED:
        return None
    values, _ = evaluate(one, X, list(weighed.mode))
    for order in itertools.permutations(range(k)):
        for signs in itertools.product((1.0, -1.0), repeat=k):
            factors = np.array(signs)
            others, defined = evaluate(two, X, list(factors * weighed.mode[list(order)]))
            if defined.all() and np.allclose(others, values, rtol=1e-9, atol=1e-12):
                flips = np.outer(factors, factors)
                return dataclasses.replace(
                    weighed,
                    mode=factors * weighed.mode[list(order)],
                    curvature=flips * weighed.curvature[np.ix_(order, order)],
                    constants=factors * weighed.constants[:, list(order)],
                )
    return None


def merged(engine: Engine, trees: np.ndarray, probes: np.ndarray) -> list[list[int]]:
    """Groups of trees whose best fits by least squares are one function, on the data and beside
    them. Where constants do the same work in another way the best fit is the same to the last
    digits; where one tree can do more than another it is not."""
    flat = Engine(
        engine.library,
        engine.X,
        engine.likelihood,
        Normal(0.0, 1e9),
        num_threads=engine.num_threads,
    )
    X = np.concatenate([engine.X, probes])
    unit = float(np.abs(engine.likelihood.y).max()) or 1.0  # so that no square overflows
    y = engine.likelihood.y / unit
    values = []
    for tree in trees:
        fitted = flat.polish(tree)
        tokens = tuple(int(token) for token in tree if token >= 0)
        expression = Expression(engine.library, tokens)
        constants = [np.asarray(value) for value in fitted]
        found, defined = evaluate(expression, X, constants[: expression.num_constants])
        values.append(np.where(defined, np.broadcast_to(found, (len(X),)), np.nan) / unit)
    spread = float(np.std(y)) or 1.0
    groups: list[list[int]] = []
    for place, row in enumerate(values):
        residuals = row[: len(y)] - y
        residuals = residuals[np.isfinite(residuals)]
        with np.errstate(over="ignore"):
            left = float(np.sqrt((residuals**2).sum() / max(1, len(residuals))))
        for group in groups:
            other = values[group[0]]
            same = np.isnan(row) == np.isnan(other)
            gap = np.nanmax(np.abs(row - other)) if (~np.isnan(row - other)).any() else 0.0
            if same.all() and gap <= _ALIKE * left + 1e-9 * spread:
                group.append(place)
                break
        else:
            groups.append([place])
    return groups
