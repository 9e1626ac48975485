"""Spaces small enough to list every tree: is what a fit says of them as exact as it claims?

    python -m benchmarks.exactness --spaces 60

Each space is generated: some operators, sizes, priors, noise, rows, and a law of the space itself.
The truth is every tree's integral by quadrature (`dvisr.exact.log_marginal`). It takes most of the
time, and is kept in a file between runs if one is named with --truths.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import time
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import logsumexp

from dvisr.counting import count_trees
from dvisr.enumeration import enumerate_trees
from dvisr.evaluation import evaluate
from dvisr.exact import log_marginal
from dvisr.expression import Expression, canonical_form
from dvisr.fitting.building import make_posterior
from dvisr.fitting.limits import Limit
from dvisr.fitting.search import Search
from dvisr.fitting.weighing import FormWeigher
from dvisr.marginal import nonlinear_constants
from dvisr.problem import Problem, make_problem
from dvisr.search.from_prior import PriorSampler
from dvisr.settings import FitSettings
from dvisr.types import Dataset

BINARY, UNARY = ("+", "-", "*", "/"), ("sin", "exp", "sqrt")
MOST_TREES = 250
FIRST_LOOK = 1.0  # nats
MATTERS = 1e-3  # of the posterior: forms whose first look is judged
PROMISED = 2e-4  # the error of a truth beyond which it is none


@dataclasses.dataclass(frozen=True)
class Space:
    """A problem whose trees can be listed, and the law behind its data."""

    seed: int
    problem: Problem
    law: str
    noise: str

    def __str__(self) -> str:
        grammar = self.problem.grammar
        return (
            f"{self.seed}: {self.law}; {self.problem.constant_prior}; noise {self.noise}; "
            f"{len(self.problem.X)} rows; up to {grammar.max_tokens} tokens"
        )


def make_space(seed: int, most_trees: int = MOST_TREES) -> Space:
    """Draws until there are few enough trees and a law that is defined."""
    rng = np.random.default_rng([seed, 77])
    size = int(rng.choice([4, 5, 6], p=[0.2, 0.4, 0.4]))
    while True:
        space = _drawn_space(seed, rng, size, most_trees)
        if space is not None:
            return space


def _drawn_space(seed: int, rng: np.random.Generator, size: int, most_trees: int) -> Space | None:
    binary = list(rng.choice(BINARY, rng.integers(1, 3), replace=False))
    unary = list(rng.choice(UNARY, rng.integers(0, 3), replace=False))
    rows = int(rng.integers(8, 26))
    low = float(rng.choice([0.1, -2.0]))
    x = np.sort(rng.uniform(low, rng.choice([1.0, 3.0, 8.0]), rows))
    std = float(rng.choice([1.0, 3.0, 10.0, 30.0]))
    words: dict[str, Any] = {
        "operators": tuple(binary + unary),
        "constants": True,
        "max_tokens": size,
        "max_constants": int(rng.choice([1, 2, 2])),
        "constraints": str(rng.choice(["default", "none"])),
        "tree_prior": str(rng.choice(["uniform", "size-balanced"])),
        "constant_prior": f"normal:0,{std}",
    }
    problem = make_problem(Dataset.create(x[:, None], x), noise=1.0, **words)
    grammar = problem.grammar
    if not 20 <= count_trees(grammar) <= most_trees:
        return None
    law = _drawn_law(problem, rng)
    if law is None:
        return None
    with np.errstate(all="ignore"):
        constants = rng.normal(0.0, std, law.num_constants)
        values, is_defined = evaluate(law, x[:, None], list(constants))
    values = np.broadcast_to(values, rows)
    if not np.all(is_defined) or not 1e-3 < np.abs(values).max() < 1e4:
        return None
    sigma = float(rng.choice([0.02, 0.1, 0.5]) * max(values.std(), 0.05 * np.abs(values).max()))
    y = values + rng.normal(0.0, sigma, rows)
    noise = "infer" if rng.uniform() < 0.5 else sigma
    problem = make_problem(Dataset.create(x[:, None], y), noise=noise, **words)
    shown = " ".join(f"{c:.3g}" for c in constants)
    return Space(seed, problem, f"{law} at {shown}", str(noise)[:6])


def _drawn_law(problem: Problem, rng: np.random.Generator) -> Expression | None:
    """A tree of the space with x and constants, most often with one that enters nonlinearly."""
    library = problem.grammar.library
    is_curved = rng.uniform() < 0.8
    for tokens in PriorSampler(problem.grammar, problem.tree_prior).draw(100, rng):
        law = Expression(library, tuple(int(token) for token in tokens if token >= 0))
        if law.num_constants == 0 or "x0" not in str(law):
            continue
        if not is_curved or nonlinear_constants(law):
            return law
    return None


Truths = dict[str, tuple[float, float]]  # by canonical form: log p(y | tree), and the error of it


def form_of(problem: Problem, tree: Expression) -> str:
    return canonical_form(tree, symmetric_constants=problem.constant_prior.is_symmetric)


def truths_of(problem: Problem) -> Truths:
    """By quadrature; once more with more nodes where the error could matter."""
    library = problem.grammar.library
    trees: dict[str, Expression] = {}
    for row in enumerate_trees(problem.grammar):
        tree = Expression(library, tuple(int(token) for token in row if token >= 0))
        trees.setdefault(form_of(problem, tree), tree)
    found = {form: _integral(problem, tree, 1) for form, tree in trees.items()}
    best = max(value for value, _ in found.values())
    for form, tree in trees.items():
        value, error = found[form]
        if not error < 1e-5 and (value > best - 12.0 or not math.isfinite(error)):
            found[form] = _integral(problem, tree, 8)
    return found


def _integral(problem: Problem, tree: Expression, effort: int) -> tuple[float, float]:
    found = log_marginal(tree, problem.X, problem.likelihood, problem.constant_prior, effort=effort)
    error = found.error if math.isfinite(found.value) else 0.0
    return found.value, error


@dataclasses.dataclass(frozen=True)
class Measured:
    """One space: the fit's log evidence against the truth, and its first looks."""

    space: Space
    num_forms: int
    num_weighed: int
    evidence: float
    stderr: float
    truth: float
    truth_error: float
    is_exact: bool
    worst_look: float  # nats, of the forms that matter
    worst_tree: str
    worst_weighed: float  # in standard errors, of the forms that were weighed
    worst_weighed_tree: str
    seconds: float

    @property
    def off(self) -> float:
        return self.evidence - self.truth

    @property
    def holds(self) -> bool:
        return abs(self.off) <= 2.0 * self.stderr + 1e-3 + self.truth_error

    @property
    def is_promised(self) -> bool:
        return self.truth_error < PROMISED


def measure(space: Space, known: Truths) -> Measured:
    """Fit a space as an estimator would, and compare."""
    problem = space.problem
    search = Search(problem, FitSettings(), num_samples=16, seed=0, num_threads=1)
    began = time.perf_counter()
    search.prepare()
    search.run(1)
    weigher = FormWeigher(search)
    weigher.vary(Limit())
    visited = search.visited
    trees = [weigher.expression(tree) for tree in visited.form_tree]
    looks = visited.form_log_marginal.copy()
    weigher.weigh_likely(Limit())
    weigher.weigh_rest(Limit())
    posterior = make_posterior(weigher)
    seconds = time.perf_counter() - began
    values = np.array([known[form_of(problem, tree)] for tree in trees])
    prior = np.array(
        [
            logsumexp(visited.tree_log_prior[visited.tree_form == form])
            for form in range(visited.num_forms)
        ]
    )
    log_joint = prior + values[:, 0]
    truth = float(logsumexp(log_joint))
    shares = np.exp(log_joint - truth)
    errors = np.where(shares > 1e-12, values[:, 1], 0.0)
    with np.errstate(invalid="ignore"):
        off = np.where(looks == values[:, 0], 0.0, np.abs(looks - values[:, 0]))
        looked = np.exp(prior + looks - truth)
    off = np.where((shares > MATTERS) | (looked > MATTERS), off, 0.0)
    worst = int(np.argmax(off))
    pulls = {
        form: abs(one.log_marginal - values[form, 0]) / (one.error + 5e-4 + values[form, 1])
        for form, one in weigher.weighed.items()
        if form in weigher._is_precise
    }
    pulled = max(pulls, key=lambda form: pulls[form], default=0)
    return Measured(
        space=space,
        num_forms=len(trees),
        num_weighed=len(weigher.weighed),
        evidence=posterior.log_evidence,
        stderr=posterior.log_evidence_stderr,
        truth=truth,
        truth_error=float((shares * errors).sum()),
        is_exact=posterior.is_exact,
        worst_look=float(off[worst]),
        worst_tree=str(trees[worst]),
        worst_weighed=pulls.get(pulled, 0.0),
        worst_weighed_tree=str(trees[pulled]),
        seconds=seconds,
    )


def shown(rows: list[Measured]) -> str:
    """The table."""
    sure = [row for row in rows if row.is_promised]
    exact = [row for row in sure if row.is_exact]
    worst = max(sure, key=lambda row: abs(row.off) - 2.0 * row.stderr)
    look = max(rows, key=lambda row: row.worst_look)

    def share(flags: list[bool]) -> str:
        return f"{sum(flags)} of {len(flags)}"

    return "\n".join(
        [
            f"spaces, of them with a truth             {len(rows)}, {len(sure)}",
            f"called exact                             {share([row.is_exact for row in sure])}",
            "every form that matters within 1 nat at  "
            + share([row.worst_look < FIRST_LOOK for row in rows]),
            f"  the first look; worst                  {look.worst_look:.2g}: {look.worst_tree} "
            f"in {look.space}",
            f"evidence within 2 errors + 0.001: exact  {share([row.holds for row in exact])}",
            f"                                  all    {share([row.holds for row in sure])}",
            f"worst                                    {worst.off:+.2g} with an error of "
            f"{worst.stderr:.2g} in {worst.space}",
            f"seconds a space                          "
            f"{np.mean([row.seconds for row in rows]):.2f}, at most "
            f"{max(row.seconds for row in rows):.2f}",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--spaces", type=int, default=60)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--truths", type=Path, default=None)
    parser.add_argument("--only-truths", action="store_true")
    asked = parser.parse_args()
    path: Path | None = asked.truths
    held = json.loads(path.read_text()) if path is not None and path.exists() else {}
    rows = []
    for seed in range(asked.first, asked.first + asked.spaces):
        space = make_space(seed)
        if str(seed) not in held:
            held[str(seed)] = truths_of(space.problem)
            if path is not None:
                path.write_text(json.dumps(held))
        if asked.only_truths:
            continue
        row = measure(space, held[str(seed)])
        rows.append(row)
        print(
            f"{space}; forms {row.num_forms} weighed {row.num_weighed}; off {row.off:+.4f} "
            f"error {row.stderr:.4f} (truth {row.truth_error:.1g}) exact {row.is_exact} holds "
            f"{row.holds}; look {row.worst_look:.2f} {row.worst_tree}; weighed "
            f"{row.worst_weighed:.1f} {row.worst_weighed_tree}; {row.seconds:.1f} s",
            flush=True,
        )
    if rows:
        print(shown(rows))


if __name__ == "__main__":
    main()
