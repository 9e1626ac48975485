"""Single trees out of a table of functions: the likeliest trees of an entry, found lazily."""

from __future__ import annotations

import functools

import numpy as np

from dvisr.exact.functions import Block, FunctionTable
from dvisr.prior import TreePrior

# (log of what the prior charges for the tokens, the root's place aside; tokens)
Derivation = tuple[float, tuple[int, ...]]


class Derivations:
    """The `limit` heaviest trees of any entry. Which of equally heavy ones are listed is settled by
    the order in which they were derived."""

    def __init__(self, table: FunctionTable, prior: TreePrior, limit: int) -> None:
        self._table, self._limit = table, limit
        self._heaviest: list[np.ndarray] = []
        charges = table.charges
        with np.errstate(divide="ignore"):
            self._own = np.log([charges.own(token) for token in range(charges.num_tokens)])
            self._charges = [np.log(table.job_charges(job)) for job in table.jobs]
        if not prior.log_token.any():  # all trees weigh the same
            self._heaviest = [np.zeros(block.weights.shape) for block in table.blocks]
            return
        for block in table.blocks:
            bounds = self._bounds(block, 0, len(block.job))
            self._heaviest.append(np.maximum.reduceat(bounds, block.starts[:-1], axis=0))

    def heaviest(self, block: int) -> np.ndarray:
        """The log weight of the heaviest tree of each entry of a block, standing alone."""
        heaviest: np.ndarray = self._heaviest[block][:, 0]
        return heaviest

    def _bounds(self, block: Block, start: int, stop: int) -> np.ndarray:
        """The log weight of the heaviest tree of each derivation, by the kind of its parent."""
        jobs, left, right = block.job[start:stop], block.left[start:stop], block.right[start:stop]
        bounds = np.empty((len(jobs), block.weights.shape[1]))
        for job_id in np.unique(jobs):
            here = jobs == job_id
            if job_id < 0:
                bounds[here] = self._own[left[here], None]
                continue
            job = self._table.jobs[job_id]
            kind = self._table.charges.kind(job.token)
            straight, swapped = self._charges[job_id]
            charge = np.maximum(straight, swapped) if job.both_orders else straight
            total = charge + self._heaviest[job.left][left[here], kind, None]
            if job.right >= 0:
                total = total + self._heaviest[job.right][right[here], kind, None]
            bounds[here] = total
        return bounds

    @functools.cache  # noqa: B019 - lives as long as one table is asked for
    def of_entry(self, block_number: int, entry: int, kind: int = 0) -> tuple[Derivation, ...]:
        """Below a parent of that kind; 0 for a whole tree."""
        block = self._table.blocks[block_number]
        start, stop = block.starts[entry], block.starts[entry + 1]
        bounds = self._bounds(block, start, stop)[:, kind]
        found: list[Derivation] = []
        for place in np.argsort(-bounds, kind="stable"):
            if len(found) >= self._limit and bounds[place] < found[self._limit - 1][0]:
                break
            if len(found) >= self._limit and bounds[place] == found[self._limit - 1][0] == 0.0:
                break  # without token weights all trees weigh the same: these will do
            found += self._of_derivation(block, int(start + place), kind)
            found = sorted(found, key=_order)[: self._limit]
        return tuple(found)

    def _of_derivation(self, block: Block, place: int, kind: int) -> list[Derivation]:
        job_id, left, right = int(block.job[place]), int(block.left[place]), int(block.right[place])
        if job_id < 0:
            return [(float(self._own[left]), (left,))]
        job = self._table.jobs[job_id]
        own, swapped = (float(charge[kind]) for charge in self._charges[job_id])
        here = self._table.charges.kind(job.token)
        firsts = self.of_entry(job.left, left, here)
        if job.right < 0:
            return [(own + weight, (job.token, *tokens)) for weight, tokens in firsts]
        seconds = self.of_entry(job.right, right, here)
        is_same = job.is_triangle and left == right
        pairs = [(own + one + two, (job.token, *a, *b)) for one, a in firsts for two, b in seconds]
        if job.both_orders and not is_same:
            pairs += [
                (swapped + one + two, (job.token, *b, *a))
                for one, a in firsts
                for two, b in seconds
            ]
        return sorted(pairs, key=_order)[: self._limit]


def _order(derivation: Derivation) -> tuple[float, int, tuple[int, ...]]:
    weight, tokens = derivation
    return -weight, len(tokens), tokens
