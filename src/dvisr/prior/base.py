"""`TreePrior`: log p(tree) = a term for its size + a term for each of its tokens in its place.

What a place is, `Surroundings` says: the parent's token, the side, the root of the left sibling,
the kind of the grandparent, or as much of these as a prior looks at. No more than that, so that
sums over all trees are sums over slots: a slot's surroundings are known when it comes to be filled.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from scipy.special import logsumexp

from dvisr.constraints import Grammar
from dvisr.constraints.scopes import Scopes
from dvisr.counting import count_by_size
from dvisr.prior.sums import Sums
from dvisr.prior.walking import log_prob_of_rows

_HostArray = np.ndarray
_PLACES = ("below", "right", "kinds", "arities")


def _freeze(owner: Any, names: Sequence[str]) -> None:
    """Arrays of the host become copies that can't be written to: what follows from them is worked
    out once."""
    for name in names:
        array = getattr(owner, name)
        if isinstance(array, np.ndarray):
            array = array.copy()
            array.flags.writeable = False
            object.__setattr__(owner, name, array)


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["below", "right", "kinds", "arities"],
    meta_fields=[],
)
@dataclasses.dataclass(frozen=True, eq=False)
class Surroundings:
    """The places of a tree that a prior tells apart, numbered; the root's number is 0.

    Parameters
    ----------
    below : ndarray of shape (kinds, tokens)
        Of the only or the left operand, by the kind of the grandparent (0: the parent is the root)
        and the parent.
    right : ndarray of shape (kinds, tokens, tokens)
        Of the right operand, by the kind of the grandparent, the parent and the root of the left
        operand.
    kinds : ndarray of shape (tokens,)
        What kind a token is as a grandparent, from 1.
    arities : ndarray of shape (tokens,)
        How many operands each token has.
    """

    below: np.ndarray
    right: np.ndarray
    kinds: np.ndarray
    arities: np.ndarray

    def __post_init__(self) -> None:
        _freeze(self, _PLACES)

    def of_trees(self, np: Any, tokens: Any) -> Any:
        """The surroundings of each token of legal trees (..., length), ids padded with -1.

        With S the number of open slots before each token, the parent of a token is the one just
        before it, or, if that is a leaf, the last one before it with the same S: all of its left
        operand has more.
        """
        length = tokens.shape[-1]
        places = np.broadcast_to(np.arange(length, dtype=np.int32), tokens.shape)
        safe = np.where(tokens >= 0, tokens, 0).astype(np.int32)
        arities = np.asarray(self.arities)[safe].astype(np.int32)
        open_slots = np.cumsum(arities - 1, axis=-1, dtype=np.int32) - (arities - 1)
        is_same = open_slots[..., :, None] == open_slots[..., None, :]
        is_before = places[..., None, :] < places[..., :, None]
        before = np.broadcast_to(places[..., None, :], is_same.shape)
        last_same = np.where(is_same & is_before, before, 0).max(axis=-1)
        previous = np.maximum(places - 1, 0)
        is_first = np.take_along_axis(arities, previous, axis=-1) > 0
        above = np.where(is_first, previous, last_same)  # the parent's position
        parent = np.take_along_axis(safe, above, axis=-1)
        sibling = np.take_along_axis(safe, np.minimum(last_same + 1, length - 1), axis=-1)
        second = np.take_along_axis(parent, above, axis=-1)  # the grandparent, or nonsense
        kind = np.where(above == 0, 0, np.asarray(self.kinds)[second])
        below = np.asarray(self.below)[kind, parent]
        right = np.asarray(self.right)[kind, parent, sibling]
        return np.where(places == 0, 0, np.where(is_first, below, right))

    @functools.lru_cache(maxsize=16)  # noqa: B019 - bounded, and equal by identity
    def told_apart(self, grammar: Grammar) -> tuple[Grammar, np.ndarray]:
        """The same grammar with slot states that know their surroundings, and these by state."""
        scopes = grammar.scopes
        num = 1 + int(max(self.below.max(), self.right.max()))
        parent_kind = self.parent_kinds()
        codes, numbers = [0], {0: 0}
        rows: list[tuple[np.ndarray, np.ndarray, np.ndarray]] = []
        while len(rows) < len(codes):
            state, place = divmod(codes[len(rows)], num)
            kind = parent_kind[place]
            operand, right = scopes.operand[state], scopes.right[state]
            below = np.where(operand >= 0, operand * num + self.below[kind], -1)
            beside = np.where(right >= 0, right * num + self.right[kind], -1)
            for code in np.unique(np.concatenate([below, beside.ravel()])):
                if code >= 0 and int(code) not in numbers:
                    numbers[int(code)] = len(codes)
                    codes.append(int(code))
            rows.append((scopes.allowed[state], below, beside))
        known = np.array(sorted(numbers), dtype=np.int64)
        by_code = np.array([numbers[int(code)] for code in known], dtype=np.int32)

        def numbered(values: np.ndarray) -> np.ndarray:
            found = np.searchsorted(known, np.maximum(values, 0))
            return np.where(values >= 0, by_code[found], -1).astype(np.int32)

        allowed, below, beside = (np.stack(column) for column in zip(*rows, strict=True))
        made = Scopes(allowed, numbered(below), numbered(beside))
        states, numbers_of = np.divmod(np.array(codes, dtype=np.int64), num)
        return grammar.told_apart(made, states), numbers_of

    def parent_kinds(self) -> np.ndarray:
        """Of each place: the kind of its parent, 0 for the root's."""
        num = 1 + int(max(self.below.max(), self.right.max()))
        found = np.zeros(num, dtype=np.int64)
        for token, arity in enumerate(self.arities):
            if arity > 0:
                found[self.below[:, token]] = self.kinds[token]
            if arity > 1:
                found[self.right[:, token]] = self.kinds[token]
        found[0] = 0
        return found

    def arrays(self) -> dict[str, np.ndarray]:
        """Its numbers by name, but for the arities, which the library has."""
        return {name: np.asarray(getattr(self, name)) for name in ("below", "right", "kinds")}


@functools.partial(
    jax.tree_util.register_dataclass,
    data_fields=["log_size", "log_token", "surroundings"],
    meta_fields=["name"],
)
@dataclasses.dataclass(frozen=True, eq=False)
class TreePrior:
    """A prior over trees. A forbidden tree has no place here: its prior mass, where it has any,
    meets a likelihood of zero.

    Parameters
    ----------
    name : str
    log_size : ndarray of shape (max_tokens + 1,)
        The term of each size; -inf for a size that has no tree.
    log_token : ndarray of shape (surroundings, tokens)
        The term of each token by its surroundings.
    surroundings : Surroundings, optional
        None: a token's term is the same everywhere.
    """

    name: str
    log_size: np.ndarray
    log_token: np.ndarray
    surroundings: Surroundings | None = None

    def __post_init__(self) -> None:
        _freeze(self, ("log_size", "log_token"))

    def log_prob(self, np: Any, tokens: Any) -> Any:
        """Of legal trees (..., length), ids padded with -1, with the namespace that is given."""
        places = self.surroundings
        if places is not None and isinstance(tokens, _HostArray) and tokens.ndim == 2:
            return log_prob_of_rows(
                np.ascontiguousarray(tokens, dtype=np.int8),
                *(np.require(a, np.float64, ["C", "W"]) for a in (self.log_size, self.log_token)),
                *(np.require(getattr(places, name), np.int32, ["C", "W"]) for name in _PLACES),
            )
        is_token = tokens >= 0
        log_size, log_token = np.asarray(self.log_size), np.asarray(self.log_token)
        safe = np.where(is_token, tokens, 0)
        if places is None:
            terms = log_token[0][safe]
        else:
            terms = log_token[places.of_trees(np, tokens), safe]
        return log_size[is_token.sum(axis=-1)] + np.where(is_token, terms, 0.0).sum(axis=-1)

    def normalised(self, grammar: Grammar) -> TreePrior:
        """The same but for a factor, so that the legal trees of a grammar have a sum of 1."""
        told, rows = self.checked(grammar).slots(grammar)
        has_tree = np.array(count_by_size(grammar)) > 0
        sums = logsumexp(Sums(told, self.log_token[rows]).log_whole, axis=1)
        total = logsumexp(self.log_size[has_tree] + sums[has_tree])
        return dataclasses.replace(
            self, log_size=np.where(has_tree, self.log_size - total, -np.inf)
        )

    def checked(self, grammar: Grammar) -> TreePrior:
        """Itself, if it is for such trees: a `ValueError` if it was made for others."""
        num_tokens, places = len(grammar.library), self.surroundings
        fits = self.log_size.shape == (grammar.max_tokens + 1,)
        fits &= self.log_token.ndim == 2 and self.log_token.shape[1] == num_tokens
        if fits and places is not None:
            fits &= np.array_equal(places.arities, grammar.library.arities)
            fits &= places.kinds.shape == (num_tokens,)
            num = 1 + int(places.kinds.max(initial=0))
            fits &= places.below.shape == (num, num_tokens)
            fits &= places.right.shape == (num, num_tokens, num_tokens)
            for numbers in (places.below, places.right) if fits else ():
                fits &= bool((numbers >= 0).all() and (numbers < len(self.log_token)).all())
        if not fits:
            raise ValueError("this tree prior was made for another grammar: make it anew")
        return self

    def slots(self, grammar: Grammar) -> tuple[Grammar, np.ndarray]:
        """The grammar with slot states that know what the prior looks at, and the row of
        `log_token` that each state has."""
        if self.surroundings is None:
            return grammar, np.zeros(grammar.scopes.num_states, dtype=np.int64)
        return self.surroundings.told_apart(grammar)

    def is_same_as(self, other: TreePrior) -> bool:
        one, two = self.surroundings, other.surroundings
        if (one is None) != (two is None):
            return False
        if one is not None and two is not None:
            pairs = zip(one.arrays().values(), two.arrays().values(), strict=True)
            if not all(np.array_equal(a, b) for a, b in pairs):
                return False
        return np.array_equal(self.log_size, other.log_size) and np.array_equal(
            self.log_token, other.log_token
        )
