"""Sums over trees and integrals over their constants, under q.

A policy that draws constants as it writes lets every later token depend on them. So q(tree) is an
integral over all constants but one that is the last token, whose density integrates to one; and
the expected log ratio of q to the joint is an integral over all of them. Each constant is placed at
centre + scale * x, with the centre and the scale that the policy itself states at that point, and x
on the nodes of a double exponential rule, x = sinh(pi/2 sinh t): equal steps in t, which converge
exponentially for smooth integrands, light tails and heavy ones alike. The number of nodes is
doubled until the result stands still.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from dvisr.policy import AbstractPolicy
from dvisr.sampling import Choices, Writer, log_prob, write
from dvisr.target import Target

MAX_DIMENSIONS = 2
_BATCH = 4096  # rows worked out at once
_FEW = 256
_NODES = {1: (60, 120, 240, 480), 2: (60, 120, 240)}
_RANGE = 4.0  # of t: x reaches 2e18, where even a Cauchy tail is below rounding
_TOLERANCE = 1e-12


@dataclasses.dataclass(frozen=True)
class TreeIntegrals:
    """By tree: log q(tree), and the integral over its constants of q (log q - log joint).

    `error` is how much the last doubling of nodes changed either, summed over the trees."""

    log_q: np.ndarray
    gap: np.ndarray
    error: float

    @property
    def elbo(self) -> float:
        return -math.fsum(self.gap.tolist())

    def kl(self, log_evidence: float) -> float:
        """KL(q || posterior) over trees and constants together. Summed tree by tree, since at the
        optimum every tree's share vanishes and the ELBO's own digits would be lost."""
        q = np.exp(self.log_q)
        return math.fsum((self.gap + q * log_evidence).tolist())

    def kl_of_constants(self, log_joint: np.ndarray) -> np.ndarray:
        """By tree: KL(q(constants | tree) || posterior), given the trees' log joints with the
        constants integrated out."""
        with np.errstate(divide="ignore", invalid="ignore"):
            found: np.ndarray = self.gap / np.exp(self.log_q) - self.log_q + log_joint
        return found


def tree_log_q(policy: AbstractPolicy, writer: Writer, trees: np.ndarray) -> np.ndarray:
    """log q of each tree (ids padded with -1), constants integrated out."""
    log_q = np.empty(len(trees))
    inner = _inner_constants(trees, writer.constant_id)
    for count in np.unique(inner):
        rows = np.flatnonzero(inner == count)
        if count == 0:
            log_q[rows] = _without_integral(policy, writer, trees[rows])
        else:
            log_q[rows] = _integrated(policy, writer, None, trees[rows], int(count)).log_q
    return log_q


def integrate_trees(
    policy: AbstractPolicy, writer: Writer, target: Target, trees: np.ndarray
) -> TreeIntegrals:
    """For trees of at most `MAX_DIMENSIONS` constants."""
    num_constants = ((trees == writer.constant_id) & (trees >= 0)).sum(axis=1)
    log_q, gap, error = np.empty(len(trees)), np.empty(len(trees)), 0.0
    for count in np.unique(num_constants):
        rows = np.flatnonzero(num_constants == count)
        found = _integrated(policy, writer, target, trees[rows], int(count))
        log_q[rows], gap[rows] = found.log_q, found.gap
        error += found.error
    return TreeIntegrals(log_q, gap, error)


def _inner_constants(trees: np.ndarray, constant_id: int) -> np.ndarray:
    """How many constants of each tree are followed by another token."""
    is_constant = (trees == constant_id) & (trees >= 0)
    last = (trees >= 0).sum(axis=1) - 1
    inner: np.ndarray = is_constant.sum(axis=1) - is_constant[np.arange(len(trees)), last]
    return inner


def _integrated(
    policy: AbstractPolicy, writer: Writer, target: Target | None, trees: np.ndarray, dims: int
) -> TreeIntegrals:
    """Over the first `dims` constants of each tree: all of them where there is a target."""
    if dims > MAX_DIMENSIONS:
        raise ValueError(
            f"an integral over {dims} constants was asked for, and up to {MAX_DIMENSIONS} can be "
            f"done: lower max_tokens, or add max-constants={MAX_DIMENSIONS} to the constraints"
        )
    if dims == 0:
        return _on_nodes(policy, writer, target, trees, np.zeros((1, 0)), np.zeros(1))
    first, *finer = _NODES[dims]
    found = _on_nodes(policy, writer, target, trees, *_rule(first, dims))
    for count in finer:
        before, found = found, _on_nodes(policy, writer, target, trees, *_rule(count, dims))
        change = np.abs(np.exp(found.log_q) - np.exp(before.log_q)).sum()
        change = float(max(change, np.abs(found.gap - before.gap).sum()))
        found = dataclasses.replace(found, error=change)
        if change < _TOLERANCE:
            break
    return found


def _rule(count: int, dims: int) -> tuple[np.ndarray, np.ndarray]:
    """Nodes (n, dims) and the logs of their weights (n,), for integrals over all reals."""
    t = np.linspace(-_RANGE, _RANGE, count)
    inner = 0.5 * math.pi * np.sinh(t)
    x = np.sinh(inner)
    log_weight = np.log((t[1] - t[0]) * 0.5 * math.pi * np.cosh(t) * np.cosh(inner))
    nodes = np.stack(np.meshgrid(*[x] * dims, indexing="ij"), axis=-1).reshape(-1, dims)
    weights = np.meshgrid(*[log_weight] * dims, indexing="ij")
    return nodes, np.sum(weights, axis=0).reshape(-1)


def _on_nodes(
    policy: AbstractPolicy,
    writer: Writer,
    target: Target | None,
    trees: np.ndarray,
    nodes: np.ndarray,
    log_weights: np.ndarray,
) -> TreeIntegrals:
    num_nodes, dims = nodes.shape
    is_constant = (trees == writer.constant_id) & (trees >= 0)
    is_free = is_constant & (np.cumsum(is_constant, axis=1) <= dims)
    q = np.zeros(len(trees))
    gap = np.zeros(len(trees))
    for rows in _batches(len(trees) * num_nodes):
        tree, node = rows // num_nodes, rows % num_nodes
        placed = np.zeros(trees[tree].shape)
        placed[is_free[tree]] = nodes[node].reshape(-1)
        log_density, log_ratio = _densities(
            policy,
            writer,
            target,
            _padded(trees[tree].astype(np.int32)),
            _padded(placed),
            _padded(is_free[tree]),
        )
        density = np.exp(np.asarray(log_density)[: len(rows)] + log_weights[node])
        np.add.at(q, tree, density)
        # A density that has underflowed to zero beats any log ratio.
        ratio = np.where(density > 0.0, np.asarray(log_ratio)[: len(rows)], 0.0)
        np.add.at(gap, tree, density * ratio)
    with np.errstate(divide="ignore"):
        return TreeIntegrals(np.log(q), gap, 0.0)


@eqx.filter_jit
def _densities(
    policy: AbstractPolicy,
    writer: Writer,
    target: Target | None,
    tokens: Int[Array, "rows length"],
    nodes: Float[Array, "rows length"],
    is_free: Bool[Array, "rows length"],
) -> tuple[Float[Array, " rows"], Float[Array, " rows"]]:
    """By row: the log of q's density over the free constants, in units of the nodes, and
    log q - log joint."""

    def one(tokens: Array, nodes: Array, is_free: Array) -> tuple[Array, Array]:
        def place(outputs: Array, node: Array) -> Array:
            return policy.head.centre(outputs) + policy.head.scale(outputs) * node

        told = Choices(lambda _, log_probs, token: (token, None), place)
        written, steps = write(policy, writer, told, tokens, nodes.astype(policy.dtype))
        log_scales = jnp.log(jax.vmap(policy.head.scale)(steps.outputs.constant))
        of_constants = jnp.where(is_free, steps.log_q_constant + log_scales, 0.0).sum()
        log_density = steps.log_q_token.sum() + of_constants
        if target is None:
            return log_density, jnp.zeros_like(log_density)
        log_joint, _ = target.log_joint(written.tokens, written.constants)
        return log_density, written.log_q - log_joint

    return jax.vmap(one)(tokens, nodes, is_free)


def _without_integral(policy: AbstractPolicy, writer: Writer, trees: np.ndarray) -> np.ndarray:
    if writer.constant_id >= 0:
        return _on_nodes(policy, writer, None, trees, np.zeros((1, 0)), np.zeros(1)).log_q
    found = [
        np.asarray(_log_probs(policy, writer, _padded(trees[rows].astype(np.int32))))[: len(rows)]
        for rows in _batches(len(trees))
    ]
    return np.concatenate(found).astype(np.float64)


@eqx.filter_jit
def _log_probs(
    policy: AbstractPolicy, writer: Writer, trees: Int[Array, "rows length"]
) -> Float[Array, " rows"]:
    zeros = jnp.zeros((trees.shape[1],), dtype=policy.dtype)
    return jax.vmap(lambda tokens: log_prob(policy, writer, tokens, zeros))(trees)


def _batches(total: int) -> Iterator[np.ndarray]:
    for begin in range(0, total, _BATCH):
        yield np.arange(begin, min(begin + _BATCH, total))


def _padded(rows: np.ndarray) -> Array:
    """To one of two numbers of rows, so that few shapes are compiled."""
    wanted = _FEW if len(rows) <= _FEW else _BATCH
    return jnp.asarray(np.concatenate([rows, np.repeat(rows[:1], wanted - len(rows), axis=0)]))
