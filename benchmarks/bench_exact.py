"""How fast the language and the oracle are. Run with `make bench`; `--quick` leaves out size 25.

Each section is one process of its own, so that memory is its own too. Seconds belong to a machine;
the ratios, taken in one run, travel.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

POINTS = (np.arange(11) / 10.0)[:, None]
TARGET = POINTS[:, 0] ** 2


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    began = time.perf_counter()
    result = work()
    return time.perf_counter() - began, result


def exact(size: int) -> dict[str, Any]:
    from dvisr import exact_posterior

    exact_posterior(POINTS, TARGET, max_tokens=4)  # compiles
    seconds, posterior = timed(lambda: exact_posterior(POINTS, TARGET, max_tokens=size))
    return {
        "seconds": seconds,
        "allowed trees": posterior.num_allowed,
        "functions": posterior.num_functions,
        "log evidence": posterior.log_evidence,
        "GB at most": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
    }


def functions_against_enumeration() -> dict[str, Any]:
    """The same evidence at size 16, by functions and tree by tree."""
    from dvisr import exact_posterior
    from dvisr.constraints import Grammar
    from dvisr.enumeration import enumerate_trees
    from dvisr.evaluation import evaluate_batch
    from dvisr.library import Library
    from dvisr.likelihood import make_likelihood
    from dvisr.prior import tree_prior

    grammar = Grammar(Library.create(["+", "*", "sin"], ["x0"]), 16, "paper")
    likelihood, prior = make_likelihood(TARGET, 1.0), tree_prior("uniform", grammar)

    def by_trees() -> float:
        trees = enumerate_trees(grammar)
        values, _ = evaluate_batch(grammar.library, trees, POINTS)
        log_joint = likelihood.log_prob(np, values) + prior.log_prob(np, trees)
        return float(np.logaddexp.reduce(log_joint))

    by_trees()
    exact_posterior(POINTS, TARGET, max_tokens=4)
    slow, one = timed(by_trees)
    fast, two = timed(lambda: exact_posterior(POINTS, TARGET, max_tokens=16).log_evidence)
    return {"by trees, seconds": slow, "by functions, seconds": fast, "ratio": slow / fast,
            "difference of log evidences": abs(one - two)}  # fmt: skip


def random_trees(count: int, length: int) -> np.ndarray:
    """Trees of 6 to `length` tokens of {+, *, sin, x0}, drawn without rules."""
    rng = np.random.default_rng(0)
    arities = np.array([2, 2, 1, 0])
    rows: list[list[int]] = []
    while len(rows) < 20_000:
        tokens: list[int] = []
        unfinished = 1
        while unfinished and len(tokens) < length:
            tokens.append(int(rng.choice(4, p=[0.2, 0.2, 0.15, 0.45])))
            unfinished += arities[tokens[-1]] - 1
        if not unfinished and len(tokens) >= 6:
            rows.append(tokens + [-1] * (length - len(tokens)))
    return np.tile(np.array(rows, dtype=np.int8), (count // len(rows), 1))


def evaluation() -> dict[str, Any]:
    import jax
    import jax.numpy as jnp

    from dvisr.evaluation import evaluate, evaluate_batch
    from dvisr.evaluation.device import Evaluator
    from dvisr.expression import Expression
    from dvisr.library import Library

    library = Library.create(["+", "*", "sin"], ["x0"])
    trees = random_trees(1_000_000, 12)
    compiling, _ = timed(lambda: evaluate_batch(library, trees[:10], POINTS))
    kernel, _ = timed(lambda: evaluate_batch(library, trees, POINTS))
    some = [Expression(library, tuple(int(t) for t in row[row >= 0])) for row in trees[:20_000]]
    plain, _ = timed(lambda: [evaluate(expression, POINTS) for expression in some])
    with jax.enable_x64(True):
        on_device = jax.jit(jax.vmap(Evaluator(library), in_axes=(0, 0, None)))
        some_trees = jnp.asarray(trees[:100_000].astype(np.int32))
        arguments = (some_trees, jnp.zeros(some_trees.shape), jnp.asarray(POINTS))
        jax.block_until_ready(on_device(*arguments))
        jitted, _ = timed(lambda: jax.block_until_ready(on_device(*arguments)))
    return {
        "trees": len(trees),
        "tokens a tree": float((trees >= 0).sum(axis=1).mean()),
        "kernel, seconds": kernel,
        "compiling, seconds": compiling,
        "jit, seconds for as many": 10.0 * jitted,
        "one tree at a time, seconds for as many": 50.0 * plain,
        "ratio": 50.0 * plain / kernel,
    }


def constants() -> dict[str, Any]:
    """The paper's library with constants, past the paper's three tokens."""
    from dvisr import exact_posterior

    found: dict[str, Any] = {}
    for size in (3, 5, 7):
        seconds, posterior = timed(
            lambda size=size: exact_posterior(  # type: ignore[misc]
                POINTS, TARGET, operators=("+", "*", "cos"), max_tokens=size, constants=True
            )
        )
        found[f"size {size}, seconds"] = seconds
        found[f"size {size}, trees"] = posterior.num_allowed
        found[f"size {size}, log evidence"] = posterior.log_evidence
        found[f"size {size}, its estimated error"] = posterior.log_evidence_error
    return found


SECTIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "exact posterior, size 20": lambda: exact(20),
    "exact posterior, size 25": lambda: exact(25),
    "functions against enumeration, size 16": functions_against_enumeration,
    "evaluation of a million trees": evaluation,
    "constants integrated out": constants,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--section", choices=SECTIONS)
    arguments = parser.parse_args()
    if arguments.section:
        print(json.dumps(SECTIONS[arguments.section]()))
        return
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}")
    for name in SECTIONS:
        if arguments.quick and name.endswith("25"):
            continue
        done = subprocess.run(
            [sys.executable, __file__, "--section", name], stdout=subprocess.PIPE, check=True
        )
        print(f"\n{name}")
        for key, value in json.loads(done.stdout).items():
            shown = f"{value:,}" if isinstance(value, int) else f"{value:.4g}"
            print(f"  {key:<42} {shown if 'evidence' not in key else value}")


if __name__ == "__main__":
    main()
