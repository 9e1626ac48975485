"""PPO, GRPO, trajectory balance, replay, risk-seeking, and constants last, against enumeration.

On a space of a few trees, with a policy that is a table of logits, everything is known in NumPy:
log q of every tree, its slopes by every logit, the log joint, the reward. What an objective should
say of a batch is then written down sample by sample.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from dvisr import training
from dvisr.constants import AbstractConstantHead, MixtureHead, NormalHead
from dvisr.constraints import Grammar
from dvisr.divergence import tree_log_q
from dvisr.enumeration import enumerate_trees
from dvisr.exact import solve
from dvisr.library import Library
from dvisr.objective import (
    PPO,
    AbstractObjective,
    LeaveOneOut,
    Reinforce,
    ReinforceWithReplay,
    RiskSeeking,
    TrajectoryBalance,
    grpo,
)
from dvisr.objective.risk import reward
from dvisr.objective.visited import replayed
from dvisr.optim import Adam, CosineDecay
from dvisr.policy import AbstractPolicy, Filler, GRUPolicy, Observation, Outputs
from dvisr.sampling import IndependentDraws, log_prob, sample
from tests import contracts
from tests.objective.test_gradient import (
    NUM_SAMPLES,
    UNDEFINED,
    WITH,
    WITHOUT,
)
from tests.problems import Small, small
from tests.reference_network import parents_and_siblings

TINY = small(("+", "*", "sin"), max_tokens=3)
KEY = jax.random.key(41)
NUM_BATCHES = 2000  # at once
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "+": np.add,
    "-": np.subtract,
    "*": np.multiply,
    "sin": np.sin,
    "log": np.log,
}


def _soon_compiled() -> dict[str, Any]:
    """Settings of the compiler, where it knows them: there is more to compile here than to run, and
    without its emitters of fused loops that takes a third of the time."""
    options = {"xla_backend_optimization_level": 0, "xla_cpu_use_fusion_emitters": False}
    try:
        jax.jit(lambda x: x + 1.0, compiler_options=options)(jnp.zeros(()))
    except jax.errors.JaxRuntimeError:
        return {}
    return options


compiled = functools.partial(jax.jit, compiler_options=_soon_compiled())


@pytest.fixture
def _unoptimised() -> Iterator[None]:
    """The same for what is compiled elsewhere, as far as it goes."""
    jax.config.update("jax_disable_most_optimizations", True)
    yield
    jax.config.update("jax_disable_most_optimizations", False)


class Table(AbstractPolicy):
    """Logits by the previous token and the parent, the first of each being none."""

    head: AbstractConstantHead
    filler: Filler | None
    logits: jax.Array

    def start(self) -> jax.Array:
        return jnp.zeros((), dtype=self.dtype)

    def __call__(self, memory: jax.Array, observation: Observation) -> tuple[jax.Array, Outputs]:
        logits = self.logits[observation.previous + 1, observation.parent + 1]
        return memory, Outputs(logits, jnp.zeros((self.head.num_outputs,), dtype=self.dtype))

    @property
    def dtype(self) -> Any:
        return self.logits.dtype


def table(logits: np.ndarray) -> Table:
    return Table(NormalHead(), None, jnp.asarray(logits))


def values_of(library: Library, tokens: Sequence[int], X: np.ndarray) -> np.ndarray:
    """What a tree without constants computes at each point; NaN where it is undefined."""
    left = iter(tokens)

    def value() -> np.ndarray:
        token = library[next(left)]
        if token.arity == 0:
            return X[:, 0]
        found: np.ndarray = FUNCTIONS[token.name](*[value() for _ in range(token.arity)])
        return found

    with np.errstate(all="ignore"):
        return value()


def count_all(num_leaves: int, num_unary: int, num_binary: int, max_tokens: int) -> int:
    """Trees of up to so many tokens, forbidden ones included: what the uniform prior spreads
    over."""
    counts = [0, num_leaves]
    for size in range(2, max_tokens + 1):
        pairs = sum(counts[i] * counts[size - 1 - i] for i in range(1, size - 1))
        counts.append(num_unary * counts[size - 1] + num_binary * pairs)
    return sum(counts)


@dataclasses.dataclass(frozen=True)
class Truth:
    trees: list[tuple[int, ...]]
    log_joint: np.ndarray
    rewards: np.ndarray

    @property
    def log_evidence(self) -> float:
        return float(np.logaddexp.reduce(self.log_joint))

    @property
    def written(self) -> list[tuple[int, ...]]:
        """The trees without what fills them up."""
        return [tuple(token for token in tree if token >= 0) for tree in self.trees]

    def places(self, tokens: Any) -> np.ndarray:
        """Which trees these are."""
        numbers = {tree: place for place, tree in enumerate(self.trees)}
        rows = np.asarray(tokens).reshape(-1, len(self.trees[0])).tolist()
        return np.array([numbers[tuple(row)] for row in rows]).reshape(tokens.shape[:-1])

    def kl(self, log_q: np.ndarray) -> float:
        return float((np.exp(log_q) * (log_q - self.log_joint + self.log_evidence)).sum())


@functools.cache
def truth(case: Small) -> Truth:
    """By NumPy, of a problem with noise 1 and the uniform prior."""
    grammar, X = case.problem.grammar, case.problem.X
    y = X[:, 0] ** 2
    trees = [tuple(tree) for tree in enumerate_trees(grammar).tolist()]
    arities = [token.arity for token in grammar.library]
    leaves, unary, binary = (arities.count(arity) for arity in range(3))
    total = count_all(leaves, unary, binary, grammar.max_tokens)
    log_joint, rewards = [], []
    for tree in trees:
        errors = values_of(grammar.library, [t for t in tree if t >= 0], X) - y
        normaliser = -0.5 * len(y) * np.log(2.0 * np.pi) - np.log(total)
        log_joint.append(-0.5 * (errors**2).sum() + normaliser)
        is_defined = np.isfinite(errors).all()
        rewards.append(1.0 / (1.0 + np.sqrt((errors**2).mean()) / y.std()) if is_defined else 0.0)
    return Truth(trees, np.array(log_joint), np.array(rewards))


@functools.cache
def steps_of(case: Small) -> list[list[tuple[int, int, int, list[int]]]]:
    """By tree and place: the previous token and the parent as the table has them, the token, and
    all that could stand there, found by comparing prefixes."""
    found, written = [], truth(case).written
    for tree in written:
        relatives = parents_and_siblings(case.problem.grammar.library, tree)
        steps = []
        for place, token in enumerate(tree):
            parent = relatives[place][0]
            may = {t[place] for t in written if len(t) > place and t[:place] == tree[:place]}
            above = tree[parent] + 1 if parent >= 0 else 0
            steps.append((tree[place - 1] + 1 if place else 0, above, token, sorted(may)))
        found.append(steps)
    return found


def log_q_and_scores(case: Small, logits: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of all trees: log q, and its slopes by all logits, flat."""
    logits = np.asarray(logits)
    log_q, scores = [], []
    for steps in steps_of(case):
        total, slopes = 0.0, np.zeros(logits.shape)
        for previous, parent, token, may in steps:
            row = logits[previous, parent]
            shares = np.exp(row[may]) / np.exp(row[may]).sum()
            total += np.log(shares[may.index(token)])
            slopes[previous, parent, token] += 1.0
            slopes[previous, parent, may] -= shares
        log_q.append(total)
        scores.append(slopes.ravel())
    return np.array(log_q), np.stack(scores)


def posterior_logits(case: Small) -> np.ndarray:
    """With which q is exactly the posterior: where there is a choice, the logs of the posterior
    masses of what begins so."""
    num_tokens = len(case.problem.grammar.library)
    logits = np.zeros((num_tokens + 1, num_tokens + 1, num_tokens))
    known, written = truth(case), truth(case).written
    for tree, steps in zip(written, steps_of(case), strict=True):
        for place, (previous, parent, token, may) in enumerate(steps):
            if len(may) > 1:
                begins = [t[: place + 1] == tree[: place + 1] for t in written]
                log_mass = np.logaddexp.reduce(known.log_joint[begins]) - known.log_evidence
                logits[previous, parent, token] = log_mass
    return logits


LOGITS = np.random.default_rng(7).normal(size=(5, 5, 4))
LOG_Q, SCORES = log_q_and_scores(WITHOUT, LOGITS)
LINES = np.random.default_rng(1).normal(size=(LOGITS.size, 8))
TERMS = truth(WITHOUT).log_joint - LOG_Q
EXACT = (np.exp(LOG_Q) * TERMS) @ SCORES  # the ELBO's gradient


def keys_of(number: int, num_batches: int = NUM_BATCHES) -> jax.Array:
    return jax.random.split(jax.random.fold_in(KEY, number), num_batches)


HALVES = compiled(jax.vmap(jax.random.split))


@functools.cache
def gradients(objective: AbstractObjective) -> Callable[..., Any]:
    """Of the objective, that is of -loss, by the logits: (batches, logits); the states; what was
    seen. One compiled function serves all tests of an objective."""

    def one(logits: jax.Array, state: Any, key: jax.Array) -> Any:
        policy = Table(NormalHead(), None, logits)
        gradient, after, info = objective.gradient(
            policy, WITHOUT.writer, WITHOUT.target, state, key=key
        )
        assert isinstance(gradient, Table)
        return -gradient.logits.ravel(), after, info

    each = compiled(jax.vmap(one, in_axes=(None, None, 0)))

    def found(state: Any, keys: jax.Array, logits: np.ndarray = LOGITS) -> Any:
        gradient, after, info = each(jnp.asarray(logits), state, keys)
        return np.asarray(gradient), after, info

    return found


def drawn(keys: jax.Array) -> np.ndarray:
    """(batches, samples): which trees come up with these keys."""
    _, batches, _ = gradients(PPO(NUM_SAMPLES))(None, keys)
    return truth(WITHOUT).places(batches.tokens)


def drawn_first(keys: jax.Array) -> np.ndarray:
    """The same for objectives that replay: they draw with the first half of a key."""
    return drawn(HALVES(keys)[:, 0])


def many(objective: AbstractObjective, state: Any) -> np.ndarray:
    found = gradients(objective)
    return np.concatenate([found(state, keys_of(number))[0] for number in range(10)])


def largest_z(slopes: np.ndarray, expected: np.ndarray) -> float:
    errors = slopes.std(axis=0, ddof=1) / np.sqrt(len(slopes))
    return float(np.abs((slopes.mean(axis=0) - expected) / errors).max())


def mean_z(found: np.ndarray, expected: np.ndarray) -> float:
    """Of the mean gradient, along a few lines."""
    return largest_z(found @ LINES, expected @ LINES)


def test_the_truth_is_that_of_the_oracle() -> None:
    for case in (TINY, WITHOUT):
        assert truth(case).log_evidence == pytest.approx(
            solve(case.problem).log_evidence, abs=1e-12
        )
        posterior = truth(case).log_joint - truth(case).log_evidence
        log_q, _ = log_q_and_scores(case, posterior_logits(case))
        np.testing.assert_allclose(log_q, posterior, rtol=0.0, atol=1e-12)
    trees = np.array(truth(WITHOUT).trees)
    found = tree_log_q(table(LOGITS), WITHOUT.writer, trees)
    np.testing.assert_allclose(found, LOG_Q, rtol=0.0, atol=1e-12)


# PPO and GRPO


def test_the_first_gradient_of_ppo_is_the_elbos() -> None:
    """Less a share of 1/N, which a mean that includes the sample itself takes away."""
    found = many(PPO(NUM_SAMPLES), None)
    assert mean_z(found, (NUM_SAMPLES - 1) / NUM_SAMPLES * EXACT) < 4.0
    assert mean_z(found, EXACT) > 6.0
    assert mean_z(found, 0.5 * EXACT) > 6.0


def clipped_surrogate(
    log_q: np.ndarray, scores: np.ndarray, log_drawn: np.ndarray, terms: np.ndarray, clip: float
) -> tuple[np.ndarray, list[str]]:
    """The gradient of mean min(r A, clip(r) A), sample by sample, and which cases came up."""
    total, kinds = np.zeros(scores.shape[1]), []
    for i in range(len(terms)):
        advantage, ratio = terms[i] - terms.mean(), np.exp(log_q[i] - log_drawn[i])
        is_inside = 1.0 - clip < ratio < 1.0 + clip
        # Beyond the clip, where the clipped product is the smaller one, the surrogate is flat.
        if not is_inside and np.clip(ratio, 1.0 - clip, 1.0 + clip) * advantage < ratio * advantage:
            kinds.append("above" if ratio > 1.0 else "below")
            continue
        kinds.append("inside" if is_inside else "outside")
        total += advantage * ratio * scores[i]  # d ratio = ratio d log q
    return total / len(terms), kinds


def test_later_gradients_of_ppo_are_the_clipped_surrogates() -> None:
    """Of a policy that has moved since the draws, with its own log q in the terms."""
    objective = PPO(NUM_SAMPLES)
    first, batches, info = gradients(objective)(None, keys_of(0))
    places = truth(WITHOUT).places(batches.tokens)
    np.testing.assert_allclose(batches.log_q, LOG_Q[places], rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(info.elbo, TERMS[places].mean(axis=1), rtol=0.0, atol=1e-12)
    np.testing.assert_allclose(info.elbo_std, TERMS[places].std(axis=1), rtol=0.0, atol=1e-12)

    @compiled
    def again(logits: jax.Array) -> jax.Array:
        policy = Table(NormalHead(), None, logits)
        found = jax.vmap(lambda batch: objective.again(policy, WITHOUT.writer, batch))(batches)
        assert isinstance(found, Table)
        return -found.logits

    def kinds_seen(logits: np.ndarray, found: np.ndarray) -> list[str]:
        log_q, scores = log_q_and_scores(WITHOUT, logits)
        terms, seen = truth(WITHOUT).log_joint - log_q, []
        for rows, gradient in zip(places[:200], found[:200], strict=True):
            expected, kinds = clipped_surrogate(
                log_q[rows], scores[rows], LOG_Q[rows], terms[rows], objective.clip
            )
            np.testing.assert_allclose(gradient.ravel(), expected, rtol=0.0, atol=1e-12)
            seen += kinds
        return seen

    assert set(kinds_seen(LOGITS, first)) == {"inside"}
    moves = np.random.default_rng(5).normal(size=(6, *LOGITS.shape))
    seen = [
        kind
        for moved in LOGITS + 0.2 * moves
        for kind in kinds_seen(moved, np.asarray(again(jnp.asarray(moved))))
    ]
    assert min(seen.count(kind) for kind in ("inside", "above", "below", "outside")) > 50


def test_grpo_is_ppo_over_the_deviation_of_the_terms() -> None:
    """Batch by batch, and so its mean still points up the ELBO."""
    plain, _, _ = gradients(PPO(NUM_SAMPLES))(None, keys_of(0))
    found, _, _ = gradients(grpo(NUM_SAMPLES))(None, keys_of(0))
    deviations = TERMS[drawn(keys_of(0))].std(axis=1)
    is_mixed = deviations > 1e-9
    assert 0 < is_mixed.sum() < NUM_BATCHES
    expected = plain[is_mixed] / deviations[is_mixed, None]
    np.testing.assert_allclose(found[is_mixed], expected, rtol=1e-12, atol=1e-12)
    assert np.abs(found[~is_mixed]).max() < 1e-2  # of one tree four times: rounding
    slopes = found @ EXACT
    assert slopes.mean() > 4.0 * slopes.std(ddof=1) / np.sqrt(len(slopes))


def test_grpo_goes_on_with_full_steps_at_the_optimum() -> None:
    """Close to the posterior PPO's gradient has vanished, and with it the terms' deviation."""
    noise = np.random.default_rng(3).normal(size=LOGITS.shape)
    near = posterior_logits(WITHOUT) + 1e-6 * noise
    assert truth(WITHOUT).kl(log_q_and_scores(WITHOUT, near)[0]) < 1e-10
    sizes = {}
    for objective in (PPO(NUM_SAMPLES), grpo(NUM_SAMPLES)):
        for logits in (LOGITS, near):
            found, _, _ = gradients(objective)(None, keys_of(0), logits)
            sizes[objective.normalise, logits is near] = np.linalg.norm(found, axis=1).mean()
    assert sizes[False, True] < 1e-4 * sizes[False, False]
    assert sizes[True, True] > 0.3 * sizes[True, False]


# Trajectory balance


def balance_state(objective: TrajectoryBalance, log_evidence: float) -> Any:
    state = objective.start(table(LOGITS), WITHOUT.writer)
    return eqx.tree_at(lambda s: s.log_evidence, state, jnp.float64(log_evidence))


BALANCE = TrajectoryBalance(NUM_SAMPLES, rate=0.3)
REPLAYING = TrajectoryBalance(NUM_SAMPLES, num_replayed=24, memory=16, temperature=3.0)


def test_trajectory_balance_has_the_elbos_gradient() -> None:
    """log Z is a baseline that no sample has a say in, so there is no bias, right or wrong."""
    found = many(BALANCE, balance_state(BALANCE, truth(WITHOUT).log_evidence - 0.5))
    assert mean_z(found, EXACT) < 4.0
    assert mean_z(found, 0.75 * EXACT) > 6.0


def test_log_evidence_starts_at_the_mean_and_then_moves_at_its_rate() -> None:
    state, before = BALANCE.start(table(LOGITS), WITHOUT.writer), None
    assert np.isnan(state.log_evidence)
    for number in range(3):
        gradient, after, info = gradients(BALANCE)(state, keys_of(number))
        places = drawn_first(keys_of(number))
        means = TERMS[places].mean(axis=1)
        was = means if before is None else np.full(NUM_BATCHES, before)
        np.testing.assert_allclose(info.elbo, means, rtol=0.0, atol=1e-12)
        moved = was + 0.3 * (means - was)
        np.testing.assert_allclose(after.log_evidence, moved, rtol=0.0, atol=1e-12)
        expected = ((TERMS[places] - was[:, None])[:, :, None] * SCORES[places]).mean(axis=1)
        np.testing.assert_allclose(gradient, expected, rtol=0.0, atol=1e-12)
        state, before = jax.tree.map(lambda a: a[0], after), moved[0]


@pytest.mark.slow
def test_replay_has_the_gradient_of_the_squared_balance() -> None:
    """Half the mean of (log Z + log q - log joint)^2 over fresh and replayed rows together, with
    what was visited up to now, this batch included."""
    log_evidence, num_old = truth(WITHOUT).log_evidence + 1.5, REPLAYING.num_replayed
    errors = log_evidence + LOG_Q - truth(WITHOUT).log_joint
    weights = np.exp(truth(WITHOUT).log_joint / 3.0)
    chosen = compiled(
        jax.vmap(
            lambda visited, key: visited.tokens[
                replayed(visited, num_old, key=key, temperature=3.0)
            ]
        )
    )
    state = balance_state(REPLAYING, log_evidence)
    before: set[int] = set()
    sizes = []
    for number in range(3):
        keys = keys_of(number)
        found, after, _ = gradients(REPLAYING)(state, keys)
        fresh, old = (
            drawn_first(keys),
            truth(WITHOUT).places(chosen(after.visited, HALVES(keys)[:, 1])),
        )
        for batch in range(100):
            seen = sorted(before | set(fresh[batch].tolist()))
            # In proportion to joint^(1/3) over what was visited, rounded up or down.
            shares = np.zeros(len(LOG_Q))
            shares[seen] = weights[seen] / weights[seen].sum()
            counts = np.bincount(old[batch], minlength=len(LOG_Q))
            assert (np.abs(counts - num_old * shares) < 1.0).all()
            rows = np.concatenate([fresh[batch], old[batch]])
            slope = (errors[rows, None] * SCORES[rows]).mean(axis=0)
            np.testing.assert_allclose(-found[batch], slope, rtol=0.0, atol=1e-12)
        before |= set(fresh[0].tolist())
        sizes.append(len(before))
        state = jax.tree.map(lambda a: a[0], after)
        state = eqx.tree_at(lambda s: s.log_evidence, state, jnp.float64(log_evidence))
    assert 1 < sizes[0] < sizes[-1]


def test_at_the_posterior_no_batch_has_a_gradient() -> None:
    logits, log_evidence = posterior_logits(WITHOUT), truth(WITHOUT).log_evidence
    for known in (log_evidence, np.nan):
        found, after, info = gradients(REPLAYING)(
            balance_state(REPLAYING, known), keys_of(0), logits
        )
        assert np.abs(found).max() < 1e-12
        np.testing.assert_allclose(after.log_evidence, log_evidence, rtol=0.0, atol=1e-12)
        assert np.abs(info.elbo_std).max() < 1e-12
    assert np.abs(gradients(PPO(NUM_SAMPLES))(None, keys_of(0), logits)[0]).max() < 1e-12
    # A wrong log Z pushes every tree up or down.
    wrong, _, _ = gradients(REPLAYING)(
        balance_state(REPLAYING, log_evidence + 1.0), keys_of(0), logits
    )
    assert np.abs(wrong).max(axis=1).min() > 1e-2


# Reinforce with replay


@pytest.mark.slow
def test_replay_adds_the_cross_entropy_over_the_visited_set() -> None:
    """What it adds to REINFORCE's gradient is a sum of scores. How often each tree was replayed
    can be read from it, and is N times its posterior over the visited set, rounded."""
    weight, num_old = 0.37, 50
    objective = ReinforceWithReplay(NUM_SAMPLES, num_replayed=num_old, weight=weight, memory=16)
    joint = np.exp(truth(WITHOUT).log_joint)
    # The scores of all trees, weighed by q, add up to nothing: one more equation is needed.
    system = np.concatenate([weight * SCORES.T, np.ones((1, len(LOG_Q)))])
    assert np.linalg.matrix_rank(system, tol=1e-9) == len(LOG_Q)
    inverse = np.linalg.pinv(system)
    state = objective.start(table(LOGITS), WITHOUT.writer)
    before: set[int] = set()
    sizes = []
    for number in range(3):
        keys = keys_of(number)
        found, after, _ = gradients(objective)(state, keys)
        # REINFORCE's part: each term less the mean of the other three.
        fresh = drawn_first(keys)
        terms = TERMS[fresh]
        others = (terms.sum(axis=1, keepdims=True) - terms) / (NUM_SAMPLES - 1)
        plain = ((terms - others)[:, :, None] * SCORES[fresh]).mean(axis=1)
        added = found - plain
        for batch in range(100):
            shares = inverse @ np.append(added[batch], 1.0)
            counts = np.round(num_old * shares)
            np.testing.assert_allclose(num_old * shares, counts, rtol=0.0, atol=1e-9)
            np.testing.assert_allclose(
                added[batch], weight * counts @ SCORES / num_old, rtol=0.0, atol=1e-12
            )
            seen = sorted(before | set(fresh[batch].tolist()))
            wanted = np.zeros(len(LOG_Q))
            wanted[seen] = num_old * joint[seen] / joint[seen].sum()
            assert (np.abs(counts - wanted) < 1.0).all()
            assert counts[seen].sum() == num_old
        before |= set(fresh[0].tolist())
        sizes.append(len(before))
        state = jax.tree.map(lambda a: a[0], after)
    assert 1 < sizes[0] < sizes[-1]


def test_the_forward_kl_refuses_constants() -> None:
    with pytest.raises(ValueError, match="libraries without constants"):
        ReinforceWithReplay(8).start(WITH.policy, WITH.writer)


# Risk-seeking


@pytest.mark.parametrize("case", [WITHOUT, UNDEFINED], ids=["defined", "undefined"])
def test_the_reward(case: Small) -> None:
    trees = jnp.asarray(truth(case).trees, jnp.int32)
    found = compiled(jax.vmap(lambda t: reward(case.target, t, jnp.zeros(t.shape))))(trees)
    np.testing.assert_allclose(found, truth(case).rewards, rtol=1e-12, atol=0.0)
    zeros = int((truth(case).rewards == 0.0).sum())
    assert (zeros > 0) == (case is UNDEFINED)
    assert zeros < len(trees)


def mean_of_the_best(q: np.ndarray, rewards: np.ndarray, share: float) -> float:
    """Of the best share of all draws; the tree at the border counts as far as it is inside."""
    total, left = 0.0, share
    for place in np.argsort(-rewards):
        inside = min(q[place], left)
        total, left = total + inside * rewards[place], left - inside
    return float(total / share)


def entropy_slopes(logits: np.ndarray) -> np.ndarray:
    """The entropies of the tokens' distributions along the way to a tree, differentiated with the
    way fixed, and averaged over the trees: dH / d logit = -p (log p + H)."""
    found = np.zeros(logits.shape)
    for log_q, steps in zip(LOG_Q, steps_of(WITHOUT), strict=True):
        for previous, parent, _, may in steps:
            weights = np.exp(logits[previous, parent, may])
            shares = weights / weights.sum()
            entropy = -(shares * np.log(shares)).sum()
            slopes = -shares * (np.log(shares) + entropy)
            found[previous, parent, may] += np.exp(log_q) * slopes
    return found.ravel()


@pytest.mark.slow
def test_risk_seeking_has_the_gradient_of_the_mean_of_the_best() -> None:
    """And of the entropies along the draws, not of how often they are drawn."""
    entropy, num_samples, num_batches = 0.2, 1000, 200
    q, rewards = np.exp(LOG_Q), truth(WITHOUT).rewards
    # The border in the middle of a tree that is not the best, far from its edges: no batch's
    # quantile falls elsewhere.
    order = np.argsort(-rewards)
    border = max(range(1, len(q)), key=lambda place: q[order[place]])
    share = float(q[order[:border]].sum() + 0.5 * q[order[border]])
    threshold = rewards[order[border]]
    assert rewards.min() < threshold < rewards.max()
    assert 0.5 * q[order[border]] > 6.0 * np.sqrt(share * (1.0 - share) / num_samples)

    objective = RiskSeeking(num_samples, share=share, entropy=entropy)
    found, _, info = gradients(objective)(None, keys_of(0, num_batches))
    of_best = (q * np.maximum(rewards - threshold, 0.0) / share) @ SCORES
    # That is the slope of the mean of the best. As it is piecewise linear in q, a central
    # difference is exact.
    for line in LINES.T:
        move = 1e-3 * q * (SCORES @ line)
        ends = [mean_of_the_best(q + sign * move, rewards, share) for sign in (1.0, -1.0)]
        assert (ends[0] - ends[1]) / 2e-3 == pytest.approx(of_best @ line, rel=1e-9, abs=1e-11)
    of_entropy = entropy * entropy_slopes(LOGITS)
    assert mean_z(found, of_best + of_entropy) < 4.0
    for wrong in (of_best, of_entropy, share * of_best + of_entropy, EXACT):
        assert mean_z(found, wrong) > 6.0
    assert largest_z(np.asarray(info.elbo)[:, None], np.array([q @ TERMS])) < 4.0


# Where training ends


OPTIMA: dict[str, AbstractObjective] = {
    "ppo": PPO(64, num_updates=2),
    "trajectory balance": TrajectoryBalance(64),
    "trajectory balance with replay": TrajectoryBalance(64, num_replayed=16, memory=8),
    "reinforce with replay": ReinforceWithReplay(64, memory=8),
    "risk-seeking": RiskSeeking(64, share=1.0, entropy=0.0),
}


def trained(name: str, num_steps: int = 1000) -> np.ndarray:
    """log q of the trees of three tokens in the end."""
    setup = training.Training(
        TINY.writer, TINY.target, OPTIMA[name], Adam(), CosineDecay(0.05, num_steps)
    )
    state = training.init(setup, table(LOGITS), key=KEY)
    states = jax.tree.map(lambda a: a[None], state)
    count = jnp.asarray(num_steps, jnp.int32)
    states, _ = compiled(lambda s: training.advance(setup, s, count))(states)
    assert isinstance(states.policy, Table)
    return log_q_and_scores(TINY, states.policy.logits[0])[0]


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in OPTIMA if name != "risk-seeking"])
def test_training_ends_at_the_posterior(name: str) -> None:
    assert truth(TINY).kl(log_q_and_scores(TINY, LOGITS)[0]) > 0.1
    assert abs(truth(TINY).kl(trained(name))) < 1e-6


@pytest.mark.slow
def test_risk_seeking_ends_at_the_best_expression() -> None:
    """Which is a third of the posterior. (With a smaller share nothing is left to gain as soon as
    the best expression has that share.)"""
    best = int(np.argmax(truth(TINY).rewards))
    assert np.exp(truth(TINY).log_joint[best] - truth(TINY).log_evidence) < 0.4
    assert np.exp(trained("risk-seeking")[best]) > 0.99


# Constants last


HEADS: dict[str, AbstractConstantHead] = {"normal": NormalHead(), "mixture": MixtureHead(2)}


def skeleton_policy(grammar: Grammar, name: str) -> GRUPolicy:
    policy = GRUPolicy.create(
        grammar,
        4,
        key=jax.random.key(2),
        head=HEADS[name],
        skeleton_first=True,
        dtype=jnp.float64,
    )
    assert policy.filler is not None
    assert policy.constant_layer is None
    return policy


@functools.cache
def skeleton_first(name: str) -> Small:
    return dataclasses.replace(WITH, policy=skeleton_policy(WITH.problem.grammar, name))


def flat(policy: AbstractPolicy) -> jax.Array:
    return jnp.concatenate([leaf.ravel() for leaf in jax.tree.leaves(policy)])


def lines_for(policy: AbstractPolicy) -> np.ndarray:
    return np.random.default_rng(1).normal(size=(flat(policy).shape[0], 8))


def exact_gradient(case: Small) -> np.ndarray:
    """Of the ELBO: over all trees, with their constant, of which they have at most one, on a fixed
    fine grid."""
    constant = case.problem.grammar.library.constant_id
    grid, width = np.linspace(-14.0, 14.0, 1401, retstep=True)
    rows: list[tuple[np.ndarray, np.ndarray, float]] = []
    for tree in enumerate_trees(case.problem.grammar):
        places = np.flatnonzero(tree == constant)
        assert len(places) <= 1
        for value in grid if len(places) else [0.0]:
            constants = np.zeros(len(tree))
            constants[places] = value
            rows.append((tree, constants, float(width) if len(places) else 1.0))
    trees, values, widths = (jnp.asarray(np.array(part)) for part in zip(*rows, strict=True))

    def elbo(policy: GRUPolicy) -> jax.Array:
        def term(tokens: jax.Array, constants: jax.Array) -> jax.Array:
            log_q = log_prob(policy, case.writer, tokens, constants)
            return jnp.exp(log_q) * (case.target.log_joint(tokens, constants)[0] - log_q)

        return (widths * jax.vmap(term)(trees.astype(jnp.int32), values)).sum()

    return np.asarray(compiled(lambda policy: flat(jax.grad(elbo)(policy)))(case.policy))


@pytest.mark.slow
@pytest.mark.parametrize("name", HEADS)
def test_constants_last_have_the_exact_gradient(name: str) -> None:
    case = skeleton_first(name)
    objective, lines = Reinforce(NUM_SAMPLES, LeaveOneOut()), lines_for(case.policy)

    @compiled
    @jax.vmap
    def each(key: jax.Array) -> jax.Array:
        gradient, _, _ = objective.gradient(case.policy, case.writer, case.target, None, key=key)
        return -flat(gradient)

    found = np.concatenate([np.asarray(each(keys_of(number))) for number in range(4)]) @ lines
    exact = exact_gradient(case) @ lines
    assert largest_z(found, exact) < 4.0
    assert largest_z(found, 0.75 * exact) > 6.0


@pytest.mark.slow
@pytest.mark.usefixtures("_unoptimised")
@pytest.mark.parametrize("name", HEADS)
def test_constants_last_sum_to_one(name: str) -> None:
    case = skeleton_first(name)
    log_q = tree_log_q(case.policy, case.writer, enumerate_trees(case.problem.grammar))
    assert abs(np.exp(log_q).sum() - 1.0) < 1e-10


@pytest.mark.slow
@pytest.mark.usefixtures("_unoptimised")
@pytest.mark.parametrize("name", HEADS)
def test_constants_last_keep_the_contract(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With as many as two constants. Op by op it would take long."""
    draws = compiled(IndependentDraws(), static_argnums=2)
    monkeypatch.setattr(contracts, "IndependentDraws", lambda: draws)
    monkeypatch.setattr(contracts, "sample", jax.jit(sample))
    monkeypatch.setattr(contracts, "log_prob", jax.jit(log_prob))
    grammar = Grammar(WITH.problem.grammar.library, 5, "paper")
    contracts.check_policy(skeleton_policy(grammar, name), grammar)


@pytest.mark.slow
def test_risk_seeking_has_the_score_where_constants_come_last() -> None:
    """With a share of 1 and no entropy: the mean of (R - least R) grad log q over the batch."""
    case, num_samples = small(("+",), constants=True, max_tokens=1), 16
    filler = skeleton_policy(case.problem.grammar, "normal").filler
    count = len(case.problem.grammar.library)
    policy = Table(NormalHead(), filler, jnp.zeros((count + 1, count + 1, count)))
    objective = RiskSeeking(num_samples, share=1.0, entropy=0.0)

    @compiled
    def gradients_of(policy: Table) -> Any:
        found, _, _ = objective.gradient(policy, case.writer, case.target, None, key=KEY)
        keys = jax.random.split(KEY, num_samples)
        samples = jax.vmap(lambda k: sample(policy, case.writer, key=k))(keys)
        given = (samples.tokens, samples.constants)
        rewards = jax.vmap(lambda t, c: reward(case.target, t, c))(*given)

        def loss(policy: Table) -> jax.Array:
            log_q = jax.vmap(lambda t, c: log_prob(policy, case.writer, t, c))(*given)
            return -((rewards - rewards.min()) * log_q).mean()

        return found, jax.grad(loss)(policy)

    for one, other in zip(*map(jax.tree.leaves, gradients_of(policy)), strict=True):
        np.testing.assert_allclose(one, other, rtol=0.0, atol=1e-12)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: PPO(1), "at least 2 samples a step, not 1"),
        (lambda: PPO(8, num_updates=0), "at least 1 update a batch, not 0"),
        (lambda: PPO(8, clip=0.0), "clip must be between 0 and 1, not 0"),
        (lambda: PPO(8, clip=1.0), "clip must be between 0 and 1, not 1"),
        (lambda: grpo(1), "at least 2 samples a step, not 1"),
        (lambda: TrajectoryBalance(0), "at least 1 samples a step, not 0"),
        (lambda: TrajectoryBalance(8, num_replayed=-1), "at least 0 replayed samples.*-1"),
        (lambda: TrajectoryBalance(8, temperature=0.0), "temperature above 0"),
        (lambda: TrajectoryBalance(8, rate=0.0), "rate above 0 and at most 1"),
        (lambda: TrajectoryBalance(8, rate=1.5), "rate above 0 and at most 1.*1.5"),
        (
            lambda: TrajectoryBalance(8, 4, memory=0).start(WITHOUT.policy, WITHOUT.writer),
            "at least 1 tree, not 0",
        ),
        (lambda: ReinforceWithReplay(1), "at least 2 samples a step, not 1"),
        (lambda: ReinforceWithReplay(8, weight=0.0), "weight above 0"),
        (lambda: ReinforceWithReplay(8, num_replayed=0), "at least 1 replayed sample"),
        (
            lambda: ReinforceWithReplay(8, memory=0).start(WITHOUT.policy, WITHOUT.writer),
            "at least 1 tree, not 0",
        ),
        (lambda: RiskSeeking(1), "at least 2 samples a step, not 1"),
        (lambda: RiskSeeking(8, share=0.0), "share above 0 and at most 1.*not 0.0"),
        (lambda: RiskSeeking(8, share=1.5), "share above 0 and at most 1.*not 1.5"),
        (lambda: RiskSeeking(8, entropy=-0.1), "entropy weight of at least 0.*-0.1"),
    ],
)
def test_wrong_settings_are_refused(make: Callable[[], object], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        make()
