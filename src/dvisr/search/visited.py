"""The visited trees of a search, their canonical forms, and the log joint of each.

Trees of one canonical form have the same log p(y | tree), so it is worked out once a form. The
posterior over the visited trees is computed from these numbers, not sampled: how a tree came to be
visited does not matter to it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from dvisr.prior import TreePrior
from dvisr.search.column import Column
from dvisr.search.forms import Algebra, forms
from dvisr.search.racing import Looks

MAX_FORMS = 400_000
_KEPT = 0.5  # the share of `max_forms` that is kept when there are more
# Islands are independent searches: each goes on from the trees that it has come across itself.
NUM_ISLANDS = 2
ALL_ISLANDS = tuple(range(NUM_ISLANDS))

# From trees (n, length) and their log priors to what a first look at each found.
Fit = Callable[[np.ndarray, np.ndarray], Looks]


class VisitedTrees:
    """Every visited tree once, and every canonical form among them once.

    Trees and forms are numbered from 0 in the order in which they were first visited. An attribute
    `tree_*` has a row for each tree, `form_*` for each form.

    Parameters
    ----------
    length : int
        The length of a row of tokens, padding included.
    prior : TreePrior
        The prior over trees.
    algebra : Algebra
        Decides which trees have one canonical form.
    fit : callable
        From trees (n, length) and their log priors to a first look at each; asked once for each
        form.

    Attributes
    ----------
    num_visits : int
        How many trees were passed to `visit`, repeats included.
    num_undefined : int
        How many forms had a log p(y | tree) of -inf.
    """

    def __init__(self, length: int, prior: TreePrior, algebra: Algebra, fit: Fit) -> None:
        self._prior, self._algebra, self._fit = prior, algebra, fit
        self._tree_numbers: dict[bytes, int] = {}  # by the tree's tokens
        self._form_numbers: dict[int, int] = {}  # by the form's key
        self._trees = Column(np.int8, length)
        self._tree_form = Column(np.int64)
        self._tree_log_prior = Column(np.float64)
        self._tree_islands = Column(np.bool_, NUM_ISLANDS)
        self._form_key = Column(np.int64)
        self._form_likeliest = Column(np.int64)  # the number of the form's likeliest tree
        self._form_log_marginal = Column(np.float64)
        self._form_estimate = Column(np.float64)
        self._form_log_prior = Column(np.float64)  # of all its visited trees together
        self.num_visits = 0
        self.num_undefined = 0

    @property
    def trees(self) -> np.ndarray:
        """(trees, length): token ids in prefix order, padded with -1."""
        return self._trees.rows

    @property
    def tree_form(self) -> np.ndarray:
        """The number of each tree's form."""
        return self._tree_form.rows

    @property
    def tree_log_prior(self) -> np.ndarray:
        """log p(tree)."""
        return self._tree_log_prior.rows

    @property
    def tree_log_joint(self) -> np.ndarray:
        """log p(tree) + log p(y | tree)."""
        joint: np.ndarray = self.tree_log_prior + self.form_log_marginal[self.tree_form]
        return joint

    @property
    def form_log_marginal(self) -> np.ndarray:
        """log p(y | tree), the same for all trees of a form; -inf where that is undefined, or a
        look at part of the rows showed that it is next to nothing beside another's."""
        return self._form_log_marginal.rows

    @property
    def form_estimate(self) -> np.ndarray:
        """As `form_log_marginal`, with an estimate where it was not worked out on all rows: what
        the search goes by, and the posterior does not."""
        return self._form_estimate.rows

    @property
    def form_joint_estimate(self) -> np.ndarray:
        """As `form_log_joint`, by the estimates."""
        joint: np.ndarray = self._form_log_prior.rows + self.form_estimate
        return joint

    @property
    def tree_joint_estimate(self) -> np.ndarray:
        """As `tree_log_joint`, by the estimates."""
        joint: np.ndarray = self.tree_log_prior + self.form_estimate[self.tree_form]
        return joint

    @property
    def form_log_prior(self) -> np.ndarray:
        """log of the sum of p(tree) over the visited trees of a form."""
        return self._form_log_prior.rows

    @property
    def form_log_joint(self) -> np.ndarray:
        """log of the sum of p(tree) p(y | tree) over the visited trees of a form."""
        joint: np.ndarray = self._form_log_prior.rows + self.form_log_marginal
        return joint

    def posterior(self, least: float) -> dict[int, float]:
        """The share of each form that has no less than that, by a key that it keeps when others
        are dropped."""
        joint = self.form_log_joint
        highest = float(joint.max(initial=-np.inf))
        if not np.isfinite(highest):
            return {}
        shares = np.exp(joint - highest)
        shares /= shares.sum()
        likely = np.flatnonzero(shares >= least)
        keys = self._form_key.rows[likely].tolist()
        return dict(zip(keys, shares[likely].tolist(), strict=True))

    @property
    def form_tree(self) -> np.ndarray:
        """(forms, length): the likeliest visited tree of each form."""
        trees: np.ndarray = self.trees[self._form_likeliest.rows]
        return trees

    def likeliest_tree(self, form: int) -> np.ndarray:
        """Of that form."""
        tree: np.ndarray = self.trees[self._form_likeliest.rows[form]]
        return tree

    @property
    def num_forms(self) -> int:
        """How many forms there are."""
        return len(self.form_log_marginal)

    @property
    def num_weighed(self) -> int:
        """How many forms have a log p(y | tree) on all rows that is not -inf."""
        return int(np.isfinite(self.form_log_marginal).sum())

    def set_log_marginal(self, form: int, value: float) -> None:
        """Replace log p(y | tree) of one form by a better value."""
        self.form_log_marginal[form] = value
        self.form_estimate[form] = value

    def contains(self, trees: np.ndarray) -> np.ndarray:
        """Whether each of the trees (n, length) was visited."""
        return np.array([key in self._tree_numbers for key in _keys(trees)], dtype=bool)

    def trees_of_island(self, island: int) -> np.ndarray:
        """For each tree whether the island has come across it."""
        trees: np.ndarray = self._tree_islands.rows[:, island]
        return trees

    def forms_of_island(self, island: int) -> np.ndarray:
        """For each form whether the island has come across one of its trees."""
        forms_of_island = np.zeros(self.num_forms, dtype=bool)
        forms_of_island[self.tree_form[self.trees_of_island(island)]] = True
        return forms_of_island

    def visit(self, trees: np.ndarray, islands: Sequence[int] = ALL_ISLANDS) -> np.ndarray:
        """Add trees, and fit those of a new form.

        Parameters
        ----------
        trees : numpy.ndarray of int8, (n, length)
            With repeats or without, visited before or not.
        islands : sequence of int
            The islands that have come across these trees: all of them unless told otherwise, `()`
            for trees that no island shall go on from.

        Returns
        -------
        numpy.ndarray of int64, (n,)
            The number of each tree.
        """
        self.num_visits += len(trees)
        keys = _keys(trees)
        numbers = np.empty(len(trees), dtype=np.int64)
        new: list[int] = []
        for row, key in enumerate(keys):
            number = self._tree_numbers.get(key)
            if number is None:
                number = len(self._tree_numbers)
                self._tree_numbers[key] = number
                new.append(row)
            numbers[row] = number
        if new:
            self._add(trees[np.array(new)])
        for island in islands:
            self._tree_islands.rows[numbers, island] = True
        return numbers

    def _add(self, trees: np.ndarray) -> None:
        """Add trees that are all different and all new."""
        first = len(self.trees)
        keys = forms(trees, self._algebra)
        log_prior = np.asarray(self._prior.log_prob(np, trees.astype(np.int64)))
        of_form = np.empty(len(trees), dtype=np.int64)
        new: list[int] = []
        for row, key in enumerate(keys.tolist()):
            number = self._form_numbers.get(key)
            if number is None:
                number = len(self._form_numbers)
                self._form_numbers[key] = number
                new.append(row)
            of_form[row] = number
        self._trees.extend(trees)
        self._tree_form.extend(of_form)
        self._tree_log_prior.extend(log_prior)
        self._tree_islands.extend(np.zeros((len(trees), NUM_ISLANDS), dtype=bool))
        if new:
            rows = np.array(new)
            looks = self._fit(trees[rows], log_prior[rows])
            self.num_undefined += int((looks.estimate == -np.inf).sum())
            self._form_key.extend(keys[rows])
            self._form_log_marginal.extend(looks.log_marginal)
            self._form_estimate.extend(looks.estimate)
            self._form_log_prior.extend(np.full(len(rows), -np.inf))
            self._form_likeliest.extend(first + rows)
        np.logaddexp.at(self._form_log_prior.rows, of_form, log_prior)
        # Two new trees may be of one form: each is compared with the likeliest so far.
        likeliest = self._form_likeliest.rows
        for row in map(int, np.flatnonzero(log_prior > self.tree_log_prior[likeliest[of_form]])):
            if log_prior[row] > self.tree_log_prior[likeliest[of_form[row]]]:
                likeliest[of_form[row]] = first + row

    def state(self) -> dict[str, np.ndarray]:
        """All that there is to know of what was visited, as copies, for `restore`."""
        return {
            "trees": self.trees.copy(),
            "tree_form": self.tree_form.astype(np.int32),
            "tree_log_prior": self.tree_log_prior.copy(),
            "tree_islands": self._tree_islands.rows.copy(),
            "form_likeliest": self._form_likeliest.rows.astype(np.int32),
            "form_log_marginal": self.form_log_marginal.copy(),
            "form_estimate": self.form_estimate.copy(),
            "form_log_prior": self.form_log_prior.copy(),
            "counts": np.array([self.num_visits, self.num_undefined], dtype=np.int64),
        }

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        """As it was when `state` was taken. The trees are legal ones; whether the rest fits them
        is checked here, with a `ValueError` where it does not."""
        trees, counts = state["trees"], state["counts"]
        tree_form, likeliest = state["tree_form"], state["form_likeliest"]
        num_trees, num_forms = len(trees), len(likeliest)
        shapes = {
            "tree_form": (num_trees,), "tree_log_prior": (num_trees,), "counts": (2,),
            "tree_islands": (num_trees, NUM_ISLANDS), "form_log_marginal": (num_forms,),
            "form_log_prior": (num_forms,), "form_likeliest": (num_forms,),
            "form_estimate": (num_forms,),
        }  # fmt: skip
        if trees.dtype != np.int8 or any(state[n].shape != s for n, s in shapes.items()):
            raise ValueError("the arrays of visited trees do not fit each other")
        for numbers, count in ((tree_form, num_forms), (likeliest, num_trees)):
            if numbers.dtype != np.int32 or not ((numbers >= 0) & (numbers < count)).all():
                raise ValueError("the numbers of visited trees are out of range")
        names = ("tree_log_prior", "form_log_marginal", "form_log_prior", "form_estimate")
        logs = [state[name] for name in names]
        if any(log.dtype != np.float64 or np.isnan(log).any() for log in logs):
            raise ValueError("the logarithms of visited trees are no numbers")
        if (tree_form[likeliest] != np.arange(num_forms)).any() or counts.min() < 0:
            raise ValueError("the forms of visited trees are not theirs")
        keys = _keys(trees)
        form_keys = forms(trees[likeliest], self._algebra)
        if len(set(keys)) != num_trees or len(np.unique(form_keys)) != num_forms:
            raise ValueError("a tree was visited twice")
        self._tree_numbers = {key: number for number, key in enumerate(keys)}
        self._form_numbers = {key: number for number, key in enumerate(form_keys.tolist())}
        self._trees.replace(trees)
        self._tree_form.replace(tree_form)
        self._tree_log_prior.replace(state["tree_log_prior"])
        self._tree_islands.replace(state["tree_islands"].astype(bool))
        self._form_key.replace(form_keys)
        self._form_likeliest.replace(likeliest)
        self._form_log_marginal.replace(state["form_log_marginal"])
        self._form_estimate.replace(state["form_estimate"])
        self._form_log_prior.replace(state["form_log_prior"])
        self.num_visits, self.num_undefined = (int(count) for count in counts)

    def drop_least_likely(self, max_forms: int = MAX_FORMS) -> None:
        """Where there are more than `max_forms` forms, keep the likeliest half of that many.

        Dropped trees count as not visited: they are fitted again if they are visited again. The
        numbers of trees and forms change.
        """
        if self.num_forms <= max_forms:
            return
        num_kept = max(1, int(_KEPT * max_forms))
        kept_forms = np.zeros(self.num_forms, dtype=bool)
        kept_forms[np.argsort(-self.form_joint_estimate, kind="stable")[:num_kept]] = True
        kept_trees = kept_forms[self.tree_form]
        new_form = np.cumsum(kept_forms) - 1
        new_tree = np.cumsum(kept_trees) - 1
        self._tree_form.rows[:] = new_form[self.tree_form]
        self._form_likeliest.rows[:] = new_tree[self._form_likeliest.rows]
        for column in (self._trees, self._tree_form, self._tree_log_prior, self._tree_islands):
            column.keep(kept_trees)
        own = (self._form_key, self._form_likeliest, self._form_log_marginal, self._form_estimate)
        for column in (*own, self._form_log_prior):
            column.keep(kept_forms)
        self._tree_numbers = {key: n for n, key in enumerate(_keys(self.trees))}
        self._form_numbers = {key: n for n, key in enumerate(self._form_key.rows.tolist())}


def _keys(trees: np.ndarray) -> list[bytes]:
    """The tokens of each tree as bytes."""
    rows = np.ascontiguousarray(trees, dtype=np.int8)
    width = rows.shape[1]
    whole = rows.tobytes()
    return [whole[start : start + width] for start in range(0, len(whole), width)]
