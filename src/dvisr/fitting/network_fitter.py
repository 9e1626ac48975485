"""The published way: a network draws trees and the values of their constants, and its distribution,
once trained, is the answer. Nothing is integrated out but the noise.

It works where the noise is large against the range of y, as in the paper, and says so where it does
not: rewards of minus thousands drown everything.
"""

from __future__ import annotations

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
import pandas as pd

from dvisr.checks import Verdict
from dvisr.counting import count_trees
from dvisr.diagnostics import importance_weights
from dvisr.expression import Expression
from dvisr.fitting import checks
from dvisr.fitting.fitters import AbstractFitter, Budget, Outcome
from dvisr.fitting.front import FRONT_COLUMNS
from dvisr.fitting.keeping import AbstractKeeper
from dvisr.fitting.progress import Progress, Teller
from dvisr.fitting.snapshots import Snapshot
from dvisr.fitting.telling import stopped_by
from dvisr.marginal import Engine, Weighed, noise_draws
from dvisr.posterior import Draws, Function, Posterior, Tree, inclusion_of
from dvisr.problem import Problem
from dvisr.recipes import Recipe, find_recipe
from dvisr.runs import pytrees
from dvisr.sampling import sample
from dvisr.search.forms import forms, make_algebra
from dvisr.settings import FitSettings
from dvisr.target import make_target
from dvisr.training import TrainState, train

_SAMPLES = 8000


@dataclasses.dataclass(frozen=True)
class _Sampled:
    trees: np.ndarray  # int8 (draws, length)
    constants: np.ndarray  # (draws, length): at their tokens' places
    log_q: np.ndarray
    log_joint: np.ndarray
    is_valid: np.ndarray


class NetworkFitter(AbstractFitter):
    """The published method, by a recipe, in double precision; with the recipe's own budget
    where none is given.

    Parameters
    ----------
    recipe : str or Recipe
        "paper", "network" or another of `dvisr.recipes.RECIPES`, or a recipe of one's own.
    settings : FitSettings, optional
    """

    def __init__(self, recipe: str | Recipe, settings: FitSettings | None = None) -> None:
        self.recipe = recipe
        self.settings = FitSettings() if settings is None else settings

    def fit(
        self,
        problem: Problem,
        budget: Budget,
        *,
        seed: int,
        progress: Progress | None = None,
        should_stop: Callable[[], bool] = lambda: False,
        keeper: AbstractKeeper | None = None,
    ) -> Outcome:
        kind = "constants" if problem.grammar.library.has_constants else "scaling"
        chosen = find_recipe(self.recipe, kind, budget.num_steps, budget.num_samples)
        chosen.check(problem.grammar)
        began, stopped, teller = None, "", Teller(progress)
        teller.tell(planned=chosen.num_steps)
        with jax.enable_x64(True):
            target = make_target(problem, np.float64)
            made = chosen.training(problem.grammar, target)
            states = chosen.start(made, problem.grammar, np.float64, seed=seed, num_runs=1)
            states, reports = _restored(keeper, states, chosen.num_steps)
            for chunk in train(made, states, chosen.num_steps):
                states = chunk.states
                began = time.perf_counter() if began is None else began  # the first one compiles
                reports.append(np.stack([chunk.info.elbo[0], chunk.info.invalid_share[0]], axis=1))
                end = None if budget.max_time is None else began + budget.max_time
                teller.steps(chunk.num_done, chosen.num_steps, end)
                teller.tell(elbo=float(chunk.info.elbo[0, -1]))
                if keeper is not None:
                    keeper.after_step(_taken(states, reports, chosen.num_steps))
                late = budget.max_time is not None and time.perf_counter() - began > budget.max_time
                if (late or should_stop()) and chunk.num_done < chosen.num_steps:
                    stopped = stopped_by(is_whole=False, is_told=should_stop())
                    break
            policy = jax.tree.map(lambda leaf: leaf[0], eqx.filter(states.policy, eqx.is_array))
            policy = eqx.combine(policy, states.policy)
            if keeper is not None:
                keeper.after_search()
            with teller.phase("drawing from the trained network"):
                drawn = _draws(policy, made.writer, target, seed)
        teller.tell(steps_end=None)
        history = _history(reports)
        engine = Engine.of(problem, num_threads=budget.num_threads)
        with teller.phase("weighing what it drew"):
            return self._outcome(problem, engine, drawn, seed, history, stopped)

    def _outcome(
        self,
        problem: Problem,
        engine: Engine,
        drawn: _Sampled,
        seed: int,
        history: pd.DataFrame,
        stopped: str,
    ) -> Outcome:
        ratios = np.where(drawn.is_valid, drawn.log_joint - drawn.log_q, -np.inf)
        weights = importance_weights(ratios)
        if weights.effective_size == 0.0:
            raise ValueError(
                "every formula that the network draws is undefined on these data: train it for "
                "more steps, or use recipe='default'"
            )
        elbo = float((drawn.log_joint - drawn.log_q).mean())
        own = self.settings
        posterior = _posterior(
            problem, engine, drawn, weights.log_evidence, weights.stderr, seed, own
        )
        gap = weights.log_evidence - elbo
        r2 = checks.explained(problem, posterior)
        verdict = Verdict.of(
            [
                checks.network_check(weights.effective_size, gap, _SAMPLES),
                checks.explained_check(r2, own.checks),
                *checks.data_checks(problem, posterior, seed),
            ]
        )
        return Outcome(
            posterior=posterior,
            verdict=verdict,
            diagnostics={
                "exact": False,
                "elbo": elbo,
                "log_evidence_importance": weights.log_evidence,
                "log_evidence_importance_stderr": weights.stderr,
                "effective_sample_size": weights.effective_size,
                "num_fresh": _SAMPLES,
                "largest_weight": weights.largest_share,
                "invalid_share": float(1.0 - drawn.is_valid.mean()),
                "num_trees_visited": len(posterior.trees),
                "num_allowed": count_trees(problem.grammar),
                "num_steps": len(history),
                "stopped_by": stopped,
                "num_rows": problem.likelihood.count,
                "r2": r2,
            },
            elbo=elbo,
            history=history,
            front=pd.DataFrame(columns=FRONT_COLUMNS),
            is_interrupted=bool(stopped),
        )


def _history(reports: list[np.ndarray]) -> pd.DataFrame:
    history = pd.DataFrame(np.concatenate(reports), columns=["elbo", "invalid_share"])
    history.insert(0, "step", np.arange(1, len(history) + 1))
    return history


def _taken(states: TrainState, reports: list[np.ndarray], planned: int) -> Snapshot:
    """Between two chunks of a training that is planned to have so many steps."""
    rows = [
        {name: value if math.isfinite(value) else repr(value) for name, value in row.items()}
        for row in _history(reports).to_dict("records")
    ]
    arrays = {**pytrees.flatten(states, "state"), "reports": np.concatenate(reports)}
    return Snapshot(arrays, {"planned": planned, "history": rows})


def _restored(
    keeper: AbstractKeeper | None, states: TrainState, planned: int
) -> tuple[TrainState, list[np.ndarray]]:
    """Where a training goes on from. The rate of learning depends on how many steps there are in
    all, so one of another number begins anew."""
    snapshot = None if keeper is None else keeper.kept()
    if snapshot is None or snapshot.values.get("planned") != planned:
        return states, []
    found = pytrees.restore(states, snapshot.arrays, "state")
    reports = snapshot.arrays.get("reports")
    done = int(found.step[0])
    if reports is None or reports.shape != (done, 2) or not 0 < done <= planned:
        raise ValueError("what was kept of the training is not as it was written: fit again")
    return found, [reports]


@eqx.filter_jit
def _draw(policy: Any, writer: Any, target: Any, keys: Any) -> Any:
    drawn = jax.vmap(lambda key: sample(policy, writer, key=key))(keys)
    joint, valid = jax.vmap(target.log_joint)(drawn.tokens, drawn.constants)
    return drawn.tokens, drawn.constants, drawn.log_q, joint, valid


def _draws(policy: Any, writer: Any, target: Any, seed: int) -> _Sampled:
    keys = jax.random.split(jax.random.key(seed + 1), _SAMPLES)
    drawn = _draw(policy, writer, target, keys)
    tokens, constants, log_q, joint, valid = (np.asarray(part) for part in drawn)
    return _Sampled(tokens.astype(np.int8), constants, log_q, joint, valid)


def _posterior(
    problem: Problem,
    engine: Engine,
    drawn: _Sampled,
    log_evidence: float,
    stderr: float,
    seed: int,
    settings: FitSettings,
) -> Posterior:
    """Shares of the draws are the probabilities: the network's distribution is the answer."""
    rng = np.random.default_rng(seed)
    library = problem.grammar.library
    algebra = make_algebra(library, symmetric_constants=problem.constant_prior.is_symmetric)
    keys = forms(drawn.trees, algebra)
    trees: list[Tree] = []
    by_form: dict[int, list[Tree]] = {}
    tree_of = np.zeros(len(drawn.trees), dtype=np.int64)
    unique, first, inverse = np.unique(drawn.trees, axis=0, return_index=True, return_inverse=True)
    for number, tokens in enumerate(unique):
        rows = np.flatnonzero(inverse.reshape(-1) == number)
        expression = Expression(library, tuple(int(t) for t in tokens if t >= 0))
        share = len(rows) / len(drawn.trees)
        weighed = _weighed(engine, drawn, rows, tokens)
        tree = Tree(expression, share, float(np.log(share) + log_evidence), weighed)
        tree_of[rows] = number
        trees.append(tree)
        by_form.setdefault(int(keys[first[number]]), []).append(tree)
    functions = []
    for members in by_form.values():
        best = max(members, key=lambda tree: tree.probability)
        share = sum(tree.probability for tree in members)
        assert best.weighed is not None
        joint = float(np.log(share) + log_evidence)
        functions.append(Function(best.expression, share, joint, len(members), best.weighed))
    functions.sort(key=lambda function: -function.probability)
    return Posterior(
        grammar=problem.grammar,
        functions=tuple(functions),
        trees=tuple(sorted(trees, key=lambda tree: -tree.probability)),
        log_evidence=log_evidence,
        log_evidence_stderr=stderr,
        is_exact=False,
        inclusion=inclusion_of(problem.grammar, functions),
        draws=_kept_draws(
            problem, engine, drawn, tuple(tree.expression for tree in trees), tree_of, rng,
            settings.weighing.num_draws,
        ),
    )  # fmt: skip


def _kept_draws(
    problem: Problem,
    engine: Engine,
    drawn: _Sampled,
    expressions: tuple[Expression, ...],
    tree_of: np.ndarray,
    rng: np.random.Generator,
    count: int,
) -> Draws:
    """Draws for predictions, with noise; of trees that are defined, since the others have no
    likelihood."""
    usable = np.flatnonzero(drawn.is_valid)
    chosen = np.sort(rng.choice(usable, count, replace=len(usable) < count))
    most = max(1, max(expression.num_constants for expression in expressions))
    constants, factor = np.zeros((count, most)), np.ones(count)
    constant_id = problem.grammar.library.constant_id
    for number in np.unique(tree_of[chosen]):
        places = np.flatnonzero(tree_of[chosen] == number)
        tokens = drawn.trees[chosen[places[0]]]
        own = drawn.constants[np.ix_(chosen[places], _constants_of(tokens, constant_id))]
        constants[places, : own.shape[1]] = own
        factor[places] = noise_draws(engine, tokens, own, rng)
    return Draws(
        expressions,
        tree_of[chosen],
        constants,
        np.where(np.isfinite(factor), factor, np.nanmedian(factor)),
        problem.likelihood.typical_scale,
        problem.likelihood.noise,
    )


def _constants_of(tokens: np.ndarray, constant_id: int) -> np.ndarray:
    """The places of a tree's constants; the id is -1, as padding is, where the library has none."""
    return np.flatnonzero((tokens == constant_id) & (tokens >= 0))


def _weighed(engine: Engine, drawn: _Sampled, rows: np.ndarray, tokens: np.ndarray) -> Weighed:
    own = drawn.constants[np.ix_(rows, _constants_of(tokens, engine.library.constant_id))]
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
    )
