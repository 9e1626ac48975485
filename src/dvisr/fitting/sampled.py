"""The published way: a network draws trees and the values of their constants, and its distribution,
once trained, is the answer. Nothing is integrated out but the noise.

It works where the noise is large against the range of y, as in the paper, and says so where it does
not: rewards of minus thousands drown everything.
"""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd

from dvisr.diagnostics import Verdict, importance_weights, judged
from dvisr.expression import Expression
from dvisr.fitting.finish import NUM_DRAWS
from dvisr.fitting.problem import Problem
from dvisr.fitting.run import Outcome
from dvisr.marginal import Engine, Weighed, noise_draws
from dvisr.marginal.weighing import squares_of
from dvisr.posterior.answer import Function, Posterior, Tree, inclusion_of
from dvisr.posterior.predictive import Draws
from dvisr.recipes import find_recipe
from dvisr.sampling import sample
from dvisr.search.forms import forms, make_algebra
from dvisr.target import make_target
from dvisr.training import train

_SAMPLES = 8000


@dataclasses.dataclass(frozen=True)
class _Sampled:
    trees: np.ndarray  # int8 (draws, length)
    constants: np.ndarray  # (draws, length): at their tokens' places
    log_q: np.ndarray
    log_joint: np.ndarray
    is_valid: np.ndarray


def run_sampled(
    problem: Problem,
    recipe: str,
    num_steps: int | None,
    num_samples: int | None,
    *,
    seed: int,
    max_time: float | None,
    num_threads: int | None,
    progress: Callable[[int, int, float], None],
    should_stop: Callable[[], bool],
) -> tuple[Outcome, pd.DataFrame]:
    """By a recipe's name, in double precision; with its own budget where none is given."""
    kind = "constants" if problem.grammar.library.has_constants else "scaling"
    chosen = find_recipe(recipe, kind, num_steps, num_samples)
    chosen.check(problem.grammar)
    reports: list[np.ndarray] = []
    began, is_whole = None, True
    with jax.enable_x64(True):
        target = make_target(
            problem.grammar, problem.data.X, problem.likelihood, problem.tree_prior,
            problem.constant_prior, np.float64,
        )  # fmt: skip
        made = chosen.training(problem.grammar, target)
        states = chosen.start(made, problem.grammar, np.float64, seed=seed, num_runs=1)
        for chunk in train(made, states, chosen.num_steps):
            states = chunk.states
            began = time.perf_counter() if began is None else began  # the first one compiles
            reports.append(np.stack([chunk.info.elbo[0], chunk.info.invalid_share[0]], axis=1))
            progress(chunk.num_done, chosen.num_steps, float(chunk.info.elbo[0, -1]))
            late = max_time is not None and time.perf_counter() - began > max_time
            if (late or should_stop()) and chunk.num_done < chosen.num_steps:
                is_whole = False
                break
        policy = jax.tree.map(lambda leaf: leaf[0], eqx.filter(states.policy, eqx.is_array))
        policy = eqx.combine(policy, states.policy)
        drawn = _draws(policy, made.writer, target, seed)
    history = pd.DataFrame(np.concatenate(reports), columns=["elbo", "invalid_share"])
    history.insert(0, "step", np.arange(1, len(history) + 1))
    engine = problem.engine(num_threads)
    return _outcome(problem, engine, drawn, seed, is_interrupted=not is_whole), history


def _draws(policy: Any, writer: Any, target: Any, seed: int) -> _Sampled:
    @eqx.filter_jit
    def draw(policy: Any, keys: Any) -> Any:
        drawn = jax.vmap(lambda key: sample(policy, writer, key=key))(keys)
        joint, valid = jax.vmap(target.log_joint)(drawn.tokens, drawn.constants)
        return drawn.tokens, drawn.constants, drawn.log_q, joint, valid

    keys = jax.random.split(jax.random.key(seed + 1), _SAMPLES)
    tokens, constants, log_q, joint, valid = (np.asarray(part) for part in draw(policy, keys))
    return _Sampled(tokens.astype(np.int8), constants, log_q, joint, valid)


def _outcome(
    problem: Problem, engine: Engine, drawn: _Sampled, seed: int, *, is_interrupted: bool
) -> Outcome:
    ratios = np.where(drawn.is_valid, drawn.log_joint - drawn.log_q, -np.inf)
    weights = importance_weights(ratios)
    if weights.effective_size == 0.0:
        raise ValueError(
            "every formula that the network draws is undefined on these data: train it for more "
            "steps, or use recipe='default'"
        )
    elbo = float((drawn.log_joint - drawn.log_q).mean())
    answer = _answer(problem, engine, drawn, weights.log_evidence, weights.stderr, seed)
    found = {
        "exact": False,
        "elbo": elbo,
        "log_evidence_importance": weights.log_evidence,
        "log_evidence_importance_stderr": weights.stderr,
        "effective_sample_size": weights.effective_size,
        "num_fresh": _SAMPLES,
        "largest_weight": weights.largest_share,
        "invalid_share": float(1.0 - drawn.is_valid.mean()),
        "num_trees_visited": len(answer.trees),
        "num_allowed": 0,
        "complete_size": 0,
        "r2": _r2(problem, answer),
    }
    verdict = _verdict(found)
    diagnostics = {"verdict": verdict.word, "reasons": list(verdict.reasons), **found}
    return Outcome(answer, diagnostics, elbo, is_interrupted)


def _verdict(found: dict[str, Any]) -> Verdict:
    grave, doubtful = [], []
    share = found["effective_sample_size"] / found["num_fresh"]
    gap = found["log_evidence_importance"] - found["elbo"]
    text = (
        f"the network is {gap:.2g} nats from the posterior by its own draws, of which "
        f"{share:.1%} count"
    )
    if share < 0.05 or gap > 3.0:
        grave.append(text + "; train for more steps, or use the recipe default")
    elif share < 0.9 or gap > 0.05:
        doubtful.append(text)
    return judged(grave, doubtful)


def _answer(
    problem: Problem,
    engine: Engine,
    drawn: _Sampled,
    log_evidence: float,
    stderr: float,
    seed: int,
) -> Posterior:
    """Shares of the draws are the probabilities: the network's distribution is the answer."""
    rng = np.random.default_rng(seed)
    library = problem.grammar.library
    algebra = make_algebra(library, symmetric_constants=problem.constant_prior.is_symmetric)
    keys = forms(drawn.trees, algebra)
    trees: list[Tree] = []
    by_form: dict[int, list[tuple[float, Tree, int]]] = {}
    expressions: list[Expression] = []
    tree_of = np.zeros(len(drawn.trees), dtype=np.int64)
    unique, first, inverse = np.unique(drawn.trees, axis=0, return_index=True, return_inverse=True)
    for number, tokens in enumerate(unique):
        rows = np.flatnonzero(inverse.reshape(-1) == number)
        expression = Expression(library, tuple(int(t) for t in tokens if t >= 0))
        share = len(rows) / len(drawn.trees)
        weighed = _weighed(engine, drawn, rows, tokens)
        tree = Tree(expression, share, float(np.log(share) + log_evidence), weighed)
        tree_of[rows] = len(expressions)
        expressions.append(expression)
        trees.append(tree)
        by_form.setdefault(int(keys[first[number]]), []).append((share, tree, number))
    functions = []
    for members in by_form.values():
        best = max(members, key=lambda row: row[0])[1]
        share = sum(row[0] for row in members)
        assert best.weighed is not None
        joint = float(np.log(share) + log_evidence)
        functions.append(Function(best.expression, share, joint, len(members), best.weighed))
    functions.sort(key=lambda function: -function.probability)
    chosen = np.sort(rng.choice(len(drawn.trees), NUM_DRAWS, replace=False))
    most = max(1, max(expression.num_constants for expression in expressions))
    constants, squares = np.zeros((NUM_DRAWS, most)), np.zeros(NUM_DRAWS)
    for place, row in enumerate(chosen):
        own = drawn.constants[row, drawn.trees[row] == library.constant_id]
        constants[place, : len(own)] = own
    for number in np.unique(tree_of[chosen]):
        rows = np.flatnonzero(tree_of[chosen] == number)
        k = expressions[number].num_constants
        found = squares_of(engine, unique[number], constants[rows, :k])
        squares[rows] = np.where(np.isfinite(found), found, np.nanmax(problem.likelihood.y) ** 2)
    shares = np.array([tree.probability for tree in trees])
    order = np.argsort(-shares, kind="stable")
    return Posterior(
        grammar=problem.grammar,
        functions=tuple(functions),
        trees=tuple(trees[place] for place in order),
        log_evidence=log_evidence,
        log_evidence_stderr=stderr,
        is_exact=False,
        inclusion=inclusion_of(problem.grammar, functions),
        draws=Draws(
            tuple(expressions),
            tree_of[chosen],
            constants,
            noise_draws(engine, squares, rng),
            float(np.median(problem.likelihood.scale)),
        ),
    )


def _weighed(engine: Engine, drawn: _Sampled, rows: np.ndarray, tokens: np.ndarray) -> Weighed:
    own = drawn.constants[np.ix_(rows, np.flatnonzero(tokens == engine.library.constant_id))]
    best = int(np.argmax(drawn.log_joint[rows]))
    k = own.shape[1]
    spread = np.cov(own.T).reshape(k, k) if len(rows) > 1 and k else np.zeros((k, k))
    return Weighed(
        log_marginal=float("nan"),
        error=float("nan"),
        method="sampled by the network",
        mode=own[best],
        curvature=spread,
        constants=own,
        log_weights=np.full(len(rows), -np.log(len(rows))),
        log_q=drawn.log_q[rows],
        squares=squares_of(engine, tokens, own),
    )


def _r2(problem: Problem, answer: Posterior) -> float:
    curves = answer.draws.curves(problem.data.X)
    y = problem.data.y
    if not np.isfinite(curves).any(axis=0).all() or not np.var(y) > 0.0:
        return float("nan")
    left = float(np.mean((np.nanmedian(curves, axis=0) - y) ** 2))
    return 1.0 - left / float(np.var(y))
