"""Sums over all trees without constants, one entry a function rather than one a tree.

Bottom-up over sizes: the functions of n tokens are an operator applied to functions of fewer
tokens. Trees with equal values on the data (see `grouping`), equal size and equal class (see
`classes`) become one entry that carries how many trees it stands for, how much prior weight they
have together, and every way to derive it, so that single trees can still be told.

Floating point has an edge. Values that agree to about 14 digits are one function, and one row
stands for its group. Where a tree magnifies the digits after that, they decide: x - x is 0 exactly,
while (x + x + x) - x - x - x may be 0 or 1e-17, and under a division or a logarithm the one is
undefined and the other enormous; and the sine of 1e15 is what the last digits of 1e15 make it.
Enumeration has the same edge, but there each tree answers for its own rounding; here one answers
for its group.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

from dvisr.constraints import Grammar
from dvisr.counting import count_by_size
from dvisr.evaluation import apply_operator
from dvisr.exact.candidates import Candidates, Rows, summed
from dvisr.exact.charges import Charges
from dvisr.exact.classes import Classes, SubtreeClass
from dvisr.exact.grouping import fingerprints, group
from dvisr.library import Kind, Token

MAX_LEVEL_BYTES = 4_000_000_000  # of candidates at one size; the peak is about three times it
_ROW_BYTES = 48  # of a candidate apart from its values and weights
_CHUNK_ROWS = 1 << 18

Progress = Callable[[float], None]


@dataclasses.dataclass
class Block:
    """The functions of one size and class. Derivations are stored by entry: those of entry i are
    `starts[i]:starts[i + 1]`. An operand is (block number, entry); -1 for none."""

    size: int
    subtree_class: SubtreeClass
    values: np.ndarray  # (entries, points); none at the largest size, where none are needed
    scores: np.ndarray  # (entries,): log likelihoods
    prints: np.ndarray  # (2, entries): fingerprints
    counts: np.ndarray  # (entries,): trees, exact up to 2**53
    # Summed products of what the prior charges, by the kind of the root's parent (see `charges`).
    weights: np.ndarray  # (entries, kinds)
    starts: np.ndarray  # (entries + 1,)
    job: np.ndarray  # (derivations,): which job made it
    left: np.ndarray  # (derivations,): entry in the job's left block
    right: np.ndarray


@dataclasses.dataclass(frozen=True)
class Job:
    """One operator on all pairs of entries of two blocks (or all entries of one)."""

    token: int
    left: int  # block number
    right: int  # block number, -1 for a unary operator
    both_orders: bool  # left and right may be swapped: another tree, the same value
    is_triangle: bool  # the blocks are one, so pairs are unordered

    def num_rows(self, blocks: list[Block]) -> int:
        first = len(blocks[self.left].counts)
        if self.right < 0:
            return first
        return (
            first * (first + 1) // 2 if self.is_triangle else first * len(blocks[self.right].counts)
        )


class TooManyFunctions(ValueError):
    """More functions than the memory that is promised."""


class FunctionTable:
    """All functions of a grammar without constants on the rows of X. `score` gives the log
    likelihood of rows of values."""

    def __init__(
        self,
        grammar: Grammar,
        X: np.ndarray,
        charges: Charges,
        score: Callable[[np.ndarray], np.ndarray],
        progress: Progress = lambda fraction: None,
    ) -> None:
        if grammar.library.has_constants:
            raise ValueError("functions can be tabulated only without constants")
        self.grammar = grammar
        self.blocks: list[Block] = []
        self.jobs: list[Job] = []
        self._X = X
        self.charges = charges
        self._score = score
        self._classes = Classes(grammar, charges.signatures)
        self._num_rows = [0] * (grammar.max_tokens + 1)
        self._by_size: list[list[int]] = [[] for _ in range(grammar.max_tokens + 1)]
        for size in range(1, grammar.max_tokens + 1):
            self._progress = _scaled(progress, size, grammar.max_tokens)
            self._build(size)

    def root_of(self, block: int) -> int:
        """A token that the rest of a tree treats as it does the roots of a block's entries."""
        return self._classes.root(self.blocks[block].subtree_class)

    def trees(self) -> Iterator[tuple[int, Block]]:
        """The blocks whose entries may stand as whole trees, with their numbers."""
        for number, block in enumerate(self.blocks):
            if self._classes.is_tree(block.subtree_class, block.size):
                yield number, block

    def _build(self, size: int) -> None:
        plans = self._leaves() if size == 1 else self._plans(size)
        sizes = {
            target: sum(self.jobs[job].num_rows(self.blocks) if job >= 0 else 1 for job, _ in plan)
            for target, plan in plans.items()
        }
        self._refuse_if_too_large(size, sum(sizes.values()))
        self._rows_left = self._rows_of_size = max(1, sum(sizes.values()))
        made = [self._block(size, target, plan, sizes[target]) for target, plan in plans.items()]
        for block in made:
            if len(block.counts):
                self._by_size[size].append(len(self.blocks))
                self.blocks.append(block)

    def _refuse_if_too_large(self, size: int, num_rows: int) -> None:
        """At the size that does not fit; or long before, once the growth from size to size has
        shown that the largest size is far out of reach."""
        self._num_rows[size] = num_rows
        last = self.grammar.max_tokens
        # The largest size keeps no values, so the one before it may be what does not fit.
        row = _ROW_BYTES + 8 * self.charges.num_kinds
        most = MAX_LEVEL_BYTES / (row + (8 * len(self._X) if size < last else 0))
        if num_rows > most:
            raise TooManyFunctions(_too_many(size, math.log10(num_rows), size - 1))
        if size < 6 or self._num_rows[size - 4] < 100:
            return
        # In logarithms, for the numbers are beyond any float; and never more than there are trees,
        # for rules may end the growth.
        growth = math.log(num_rows / self._num_rows[size - 4]) / 4.0
        at_last = math.log(num_rows) + growth * (last - size)
        at_last = min(at_last, math.log(max(1, *count_by_size(self.grammar))))
        fits = min(math.log(MAX_LEVEL_BYTES / row), growth + math.log(most))
        margin = math.log(1.5 if num_rows > 20_000 else 100.0)  # few rows, a rough forecast
        if at_last > fits + margin:
            reach = max(size, size + int((fits - math.log(num_rows)) / max(growth, 1e-3)))
            raise TooManyFunctions(_too_many(last, at_last / math.log(10.0), reach))

    def _leaves(self) -> dict[SubtreeClass, list[tuple[int, int]]]:
        plans: dict[SubtreeClass, list[tuple[int, int]]] = {}
        for token_id, token in enumerate(self.grammar.library):
            target = self._classes.leaf(token_id) if token.is_leaf else None
            if target is not None:
                plans.setdefault(target, []).append((-1, token_id))
        return plans

    def _plans(self, size: int) -> dict[SubtreeClass, list[tuple[int, int]]]:
        """For each class of this size the jobs that make it, with a multiplicity."""
        plans: dict[SubtreeClass, list[tuple[int, int]]] = {}

        def plan(target: SubtreeClass | None, job: Job) -> None:
            if target is not None:
                plans.setdefault(target, []).append((len(self.jobs), 2 if job.both_orders else 1))
                self.jobs.append(job)

        for token_id, token in enumerate(self.grammar.library):
            if token.arity == 1:
                for below in self._by_size[size - 1]:
                    target = self._classes.unary(token_id, self.blocks[below].subtree_class)
                    plan(target, Job(token_id, below, -1, False, False))
            elif token.arity == 2:
                for left_size in range(1, size - 1):
                    for left in self._by_size[left_size]:
                        for right in self._by_size[size - 1 - left_size]:
                            self._plan_pair(plan, token_id, token, left, right)
        return plans

    def _plan_pair(
        self,
        plan: Callable[[SubtreeClass | None, Job], None],
        token_id: int,
        token: Token,
        left: int,
        right: int,
    ) -> None:
        one, two = self.blocks[left].subtree_class, self.blocks[right].subtree_class
        target = self._classes.binary(token_id, one, two)
        if not token.is_commutative:
            plan(target, Job(token_id, left, right, False, False))
        elif left == right:
            plan(target, Job(token_id, left, right, True, True))
        else:
            # The values of both orders are the same. Where the classes are too, one job does both.
            swapped = self._classes.binary(token_id, two, one)
            if target != swapped:
                plan(target, Job(token_id, left, right, False, False))
            elif left < right:
                plan(target, Job(token_id, left, right, True, False))

    def _block(
        self, size: int, target: SubtreeClass, plan: list[tuple[int, int]], num_rows: int
    ) -> Block:
        found = self._candidates(plan, num_rows, keeps_values=size < self.grammar.max_tokens)
        members, starts = group(found.prints)
        first = members[starts[:-1]]
        return Block(
            size=size,
            subtree_class=target,
            values=found.values[first] if len(found.values) else found.values,
            scores=found.scores[first],
            prints=found.prints[:, first],
            counts=summed(found.counts, members, starts),
            weights=summed(found.weights, members, starts),
            starts=starts,
            job=found.job[members],
            left=found.left[members],
            right=found.right[members],
        )

    def _candidates(
        self, plan: list[tuple[int, int]], num_rows: int, *, keeps_values: bool
    ) -> Candidates:
        points = len(self._X) if keeps_values else 0
        found = Candidates.empty(num_rows, points, self.charges.num_kinds)
        at = 0
        for job_id, argument in plan:
            for rows in self._rows(job_id, argument):
                keep = np.flatnonzero(rows.is_defined)
                values = np.ascontiguousarray(rows.values[keep])
                here = slice(at, at + len(keep))
                if keeps_values:
                    found.values[here] = values
                found.prints[:, here] = fingerprints(values)
                found.scores[here] = self._score(values)
                found.counts[here], found.weights[here] = rows.counts[keep], rows.weights[keep]
                found.job[here], found.left[here] = job_id, rows.left[keep]
                found.right[here] = -1 if rows.right is None else rows.right[keep]
                at = here.stop
                self._rows_left -= len(rows.is_defined)
                self._progress(1.0 - self._rows_left / self._rows_of_size)
        return found.first(at)

    def _rows(self, job_id: int, argument: int) -> Iterator[Rows]:
        """Candidates, a chunk at a time. Without a job (-1) the argument is a leaf."""
        if job_id < 0:
            yield self._leaf(argument)
            return
        job = self.jobs[job_id]
        token = self.grammar.library[job.token]
        straight, swapped = self.job_charges(job)
        kind = self.charges.kind(job.token)
        for i, j in _pairs(job, self.blocks):
            first = self.blocks[job.left]
            counts, weights = first.counts[i], first.weights[i, kind, None]
            operands = [first.values[i]]
            if j is None:
                weights = weights * straight
            else:
                second = self.blocks[job.right]
                operands.append(second.values[j])
                # A swapped pair is another tree, unless it is a function with itself.
                is_one = job.is_triangle & (i == j)
                counts = counts * second.counts[j] * np.where(is_one, 1.0, argument)
                both = straight if argument == 1 else straight + swapped
                charged = np.where(is_one[:, None], straight, both)
                weights = weights * second.weights[j, kind, None] * charged
            values, defined = apply_operator(token, operands)
            yield Rows(
                values,
                np.logical_and.reduce(defined, axis=1),
                counts,
                weights,
                i,
                j,
            )

    def job_charges(self, job: Job) -> tuple[np.ndarray, np.ndarray]:
        """What the prior charges for a job's operator and for the roots of its operands where they
        stand, by the kind of the operator's parent: in this order, and swapped."""
        left = self.root_of(job.left)
        own = self.charges.own(job.token)
        if job.right < 0:
            straight = own * self.charges.operand(job.token, left)
            return straight, np.zeros(len(straight))
        right = self.root_of(job.right)
        straight = self.charges.operands(job.token, left, right)
        return own * straight, own * self.charges.operands(job.token, right, left)

    def _leaf(self, token_id: int) -> Rows:
        token = self.grammar.library[token_id]
        row = self._X[:, token.column] if token.kind is Kind.VARIABLE else token.value
        values = np.broadcast_to(np.asarray(row, dtype=float), (1, len(self._X)))
        weights = np.full((1, self.charges.num_kinds), self.charges.own(token_id))
        # A leaf's "left" holds its token.
        return Rows(values, np.ones(1, dtype=bool), np.ones(1), weights, np.array([token_id]), None)


def _too_many(size: int, log10_rows: float, reach: int) -> str:
    rows = f"{10.0**log10_rows:.1e}" if log10_rows < 300.0 else f"10^{log10_rows:.0f}"
    return (
        f"expressions of {size} tokens make about {rows} candidate functions, more than memory "
        f"holds: lower max_tokens to {reach}, or use fewer operators, columns or rows"
    )


def _scaled(progress: Progress, size: int, max_tokens: int) -> Progress:
    """Each size takes about as long as all smaller ones together."""
    done = 2.0 ** (size - 1 - max_tokens)
    return lambda fraction: progress(done * (1.0 + fraction))


def _pairs(job: Job, blocks: list[Block]) -> Iterator[tuple[np.ndarray, np.ndarray | None]]:
    """Entries of the left block, and of the right one, in chunks."""
    num_left = len(blocks[job.left].counts)
    if job.right < 0:
        for start in range(0, num_left, _CHUNK_ROWS):
            yield np.arange(start, min(start + _CHUNK_ROWS, num_left)), None
        return
    num_right = len(blocks[job.right].counts)
    step = max(1, _CHUNK_ROWS // num_right)
    for start in range(0, num_left, step):
        rows = np.arange(start, min(start + step, num_left))
        i = np.repeat(rows, num_right)
        j = np.tile(np.arange(num_right), len(rows))
        if job.is_triangle:
            keep = i <= j
            i, j = i[keep], j[keep]
        yield i, j
