"""Certified nonlinear fits: modes, standard deviations and posteriors of constants.

    python -m benchmarks.nist --data DIR [--nuts] [--out FILE]

DIR (or DVISR_DATA) has a folder `nist` with BoxBOD.dat, Chwirut2.dat, DanWood.dat, Eckerle4.dat,
MGH09.dat, Misra1a.dat and Rat42.dat, as the NIST Statistical Reference Datasets publish them under
nonlinear regression (public domain).

Each set is given its own formula. Where a parameter stands twice in NIST's, or is of another size
than the rest, the formula has other constants, and they are turned into NIST's parameters b1, b2,
... for the comparison, standard deviations by way of the Jacobian. Three things are asked:

- the mode, with the noise given as NIST's residual standard deviation and the prior of the
  constants Normal(0, 1e6), against the certified values, to 1e-6;
- the standard deviations that the curvature there says, against the certified ones, to 1 %;
- with --nuts, noise inferred and the Normal prior that is listed: the means and standard deviations
  of the importance-sampled posterior against those of NUTS (NumPyro, which must be installed), to
  0.05 standard deviations and 5 %.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import math
import os
import re
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dvisr.constants import Normal
from dvisr.expression import parse
from dvisr.library import OPERATORS, Library
from dvisr.likelihood import make_likelihood
from dvisr.marginal import Engine, Weighed, weigh

FLAT = 1e6  # the prior's standard deviation where the mode is compared
MODE, CURVATURE, MEAN, STD = 1e-6, 0.01, 0.05, 0.05  # what is to be reached
STARTS = 256
ERROR = 0.002  # of the log evidence that posteriors are sampled to
CHAINS, WARMUP, DRAWS = 4, 3_000, 50_000


@dataclasses.dataclass(frozen=True)
class Certified:
    """One set as published, with the formula that it is given here."""

    name: str
    formula: str
    literals: tuple[str, ...]
    parameters: Callable[[Any], list[Any]]  # NIST's, of the constants
    model: Callable[[Any, list[Any], Any], Any]  # np, parameters, x: as NIST writes it
    prior_std: float  # of the constants, where the posterior is compared
    in_logs: tuple[int, ...] = ()  # constants that NUTS moves in by their logarithms


SETS = (
    Certified(
        "BoxBOD",
        "100 * c * (1 - exp(-(c * x)))",
        ("100", "1"),
        lambda c: [100.0 * c[0], c[1]],
        lambda np, b, x: b[0] * (1.0 - np.exp(-b[1] * x)),
        2.0,
        (0, 1),
    ),
    Certified(
        "Chwirut2",
        "exp(-(c * x)) / (c + c * x)",
        (),
        lambda c: [c[0], c[1], c[2]],
        lambda np, b, x: np.exp(-b[0] * x) / (b[1] + b[2] * x),
        10.0,
    ),
    Certified(
        "DanWood",
        "c * x ^ c",
        (),
        lambda c: [c[0], c[1]],
        lambda np, b, x: b[0] * x ** b[1],
        10.0,
    ),
    Certified(
        "Eckerle4",
        "c * exp(-0.5 * ((x - c) / c) ^ 2)",
        ("0.5", "2"),
        lambda c: [c[0] * abs(c[2]), abs(c[2]), c[1]],  # the width's sign is lost in the square
        lambda np, b, x: b[0] / b[1] * np.exp(-0.5 * ((x - b[2]) / b[1]) ** 2),
        1000.0,
    ),
    Certified(
        "MGH09",
        "c * (x ^ 2 + x * c) / (x ^ 2 + x * c + c)",
        ("2",),
        lambda c: [c[0], c[1], c[2], c[3]],
        lambda np, b, x: b[0] * (x * x + x * b[1]) / (x * x + x * b[2] + b[3]),
        1.0,
    ),
    Certified(
        "Misra1a",
        "c * (1 - exp(-(c * x)))",
        ("1",),
        lambda c: [c[0], c[1]],
        lambda np, b, x: b[0] * (1.0 - np.exp(-b[1] * x)),
        1000.0,
    ),
    Certified(
        "Rat42",
        "100 * c / (1 + exp(10 * c - 0.1 * c * x))",
        ("100", "1", "10", "0.1"),
        lambda c: [100.0 * c[0], 10.0 * c[1], 0.1 * c[2]],
        lambda np, b, x: b[0] / (1.0 + np.exp(b[1] - b[2] * x)),
        3.0,
    ),
)


@dataclasses.dataclass(frozen=True)
class Published:
    X: np.ndarray
    y: np.ndarray
    values: np.ndarray
    stds: np.ndarray
    residual_std: float


def published(path: Path) -> Published:
    """One .dat file: certified values above, then the data, y first."""
    lines = path.read_text(encoding="ascii").splitlines()
    rows = [re.match(r"\s*b\d+ =\s+\S+\s+\S+\s+(\S+)\s+(\S+)\s*$", line) for line in lines]
    certified = np.array([[float(row[1]), float(row[2])] for row in rows if row])
    residual = next(line for line in lines if line.startswith("Residual Standard Deviation"))
    first = max(place for place, line in enumerate(lines) if line.startswith("Data:")) + 1
    table = np.array([[float(part) for part in line.split()] for line in lines[first:] if line])
    return Published(
        table[:, 1:], table[:, 0], certified[:, 0], certified[:, 1], float(residual.split(":")[1])
    )


def weighed_with(
    one: Certified, data: Published, noise: float | str, prior: Normal, error: float
) -> tuple[Engine, Weighed]:
    library = Library.create([*OPERATORS, *one.literals], ["x"], constants=True)
    tokens = np.array(parse(one.formula, library).tokens, dtype=np.int8)
    engine = Engine(library, data.X, make_likelihood(data.y, noise), prior, num_threads=1)
    rng = np.random.default_rng(0)
    return engine, weigh(engine, tokens, rng, error=error, num_starts=STARTS)


def parameters_of(one: Certified, constants: np.ndarray) -> np.ndarray:
    """(..., parameters) of constants (..., constants)."""
    found: np.ndarray = np.stack(one.parameters(np.moveaxis(constants, -1, 0)), axis=-1)
    return found


def jacobian(one: Certified, at: np.ndarray) -> np.ndarray:
    """(parameters, constants), by differences: the maps are of second degree at most."""
    steps = np.diag(1e-4 * np.abs(at))
    ahead, behind = parameters_of(one, at + steps), parameters_of(one, at - steps)
    found: np.ndarray = ((ahead - behind) / (2.0 * np.diag(steps))[:, None]).T
    return found


def at_the_mode(one: Certified, data: Published) -> dict[str, Any]:
    _, weighed = weighed_with(one, data, data.residual_std, Normal(0.0, FLAT), 1.0)
    mode = parameters_of(one, weighed.mode)
    slopes = jacobian(one, weighed.mode)
    stds = np.sqrt(np.diag(slopes @ weighed.curvature @ slopes.T))
    off = np.abs(mode / data.values - 1.0)
    stds_off = np.abs(stds / data.stds - 1.0)
    return {
        "mode": mode.tolist(),
        "mode_off": off.tolist(),
        "curvature_std": stds.tolist(),
        "curvature_std_off": stds_off.tolist(),
        "passed": bool((off <= MODE).all() and (stds_off <= CURVATURE).all()),
    }


def of_the_posterior(one: Certified, data: Published) -> dict[str, Any]:
    """The importance-sampled posterior beside NUTS; all moments are of NIST's parameters."""
    start = time.perf_counter()
    engine, weighed = weighed_with(one, data, "infer", Normal(0.0, one.prior_std), ERROR)
    seconds = time.perf_counter() - start
    usable = weighed.weights > 0.0
    draws, weights = parameters_of(one, weighed.constants[usable]), weighed.weights[usable]
    mean = weights @ draws
    std = np.sqrt(weights @ (draws - mean) ** 2)
    start = time.perf_counter()
    chains = nuts(one, data, engine, weighed)
    nuts_seconds = time.perf_counter() - start
    others = parameters_of(one, chains)
    nuts_mean, nuts_std = others.mean(axis=(0, 1)), others.std(axis=(0, 1))
    mean_off, std_off = np.abs(mean - nuts_mean) / nuts_std, np.abs(std / nuts_std - 1.0)
    return {
        "prior_std": one.prior_std,
        "effective_draws": weighed.effective_size,
        "log_evidence": weighed.log_marginal,
        "log_evidence_stderr": weighed.error,
        "seconds": seconds,
        "nuts_seconds": nuts_seconds,
        "nuts_effective_draws": _effective(others),
        "mean": mean.tolist(),
        "std": std.tolist(),
        "nuts_mean": nuts_mean.tolist(),
        "nuts_std": nuts_std.tolist(),
        "mean_off": mean_off.tolist(),
        "std_off": std_off.tolist(),
        "passed": bool((mean_off <= MEAN).all() and (std_off <= STD).all()),
    }


def _effective(chains: np.ndarray) -> float:
    from numpyro.diagnostics import effective_sample_size

    return float(np.min(effective_sample_size(chains)))


def nuts(one: Certified, data: Published, engine: Engine, weighed: Weighed) -> np.ndarray:
    """(chains, draws, constants). NUTS moves in coordinates in which the curvature at the mode is
    1, of the constants or their logarithms, and in log s; s is drawn too, not integrated out."""
    import jax
    import jax.numpy as jnp
    from numpyro.infer import MCMC, NUTS

    likelihood, prior = engine.likelihood, Normal(0.0, one.prior_std)
    logs = np.array([place in one.in_logs for place in range(len(weighed.mode))])
    stretch = np.where(logs, weighed.mode, 1.0)
    centre = np.where(logs, np.log(np.abs(weighed.mode)), weighed.mode)
    factor = np.linalg.cholesky(weighed.curvature / np.outer(stretch, stretch))
    scale = float(np.asarray(likelihood.scale)[0])
    fitted = np.asarray(one.model(np, list(parameters_of(one, weighed.mode)), data.X[:, 0]))
    squares = float((((data.y - fitted) / scale) ** 2).sum())
    assert likelihood.prior is not None
    shape, rate = likelihood.prior.shape, likelihood.prior.rate
    count = len(data.y)
    centre_s = 0.5 * math.log((2.0 * rate + squares) / (2.0 * shape + count))

    def constants_of(at: Any) -> Any:
        moved = centre + factor @ at
        return jnp.where(logs, jnp.exp(jnp.where(logs, moved, 0.0)), moved)

    def potential(at: dict[str, Any]) -> Any:
        constants, log_s = constants_of(at["constants"]), centre_s + at["noise"]
        values = one.model(jnp, one.parameters(constants), data.X[:, 0])
        left = ((data.y - values) / scale) ** 2
        log_joint = prior.log_prob(jnp, constants).sum()
        log_joint += jnp.where(logs, jnp.log(jnp.abs(constants)), 0.0).sum()  # of the change
        log_joint += -2.0 * shape * log_s - rate * jnp.exp(-2.0 * log_s)  # inverse gamma of s^2
        log_joint += -count * log_s - 0.5 * left.sum() * jnp.exp(-2.0 * log_s)
        return -jnp.where(jnp.isfinite(log_joint), log_joint, -1e300)

    jax.config.update("jax_enable_x64", True)
    sampler = MCMC(
        NUTS(potential_fn=potential, target_accept_prob=0.9),
        num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, chain_method="sequential",
        progress_bar=False,
    )  # fmt: skip
    rng = np.random.default_rng(1)
    starts = {
        "constants": jnp.asarray(0.5 * rng.standard_normal((CHAINS, len(centre)))),
        "noise": jnp.asarray(0.1 * rng.standard_normal(CHAINS)),
    }
    sampler.run(jax.random.key(0), init_params=starts)
    found = sampler.get_samples(group_by_chain=True)["constants"]
    return np.asarray(jax.vmap(jax.vmap(constants_of))(found))


def show(name: str, data: Published, row: dict[str, Any]) -> None:
    mode = row["at_the_mode"]
    print(f"\n{name}: {'pass' if mode['passed'] else 'FAIL'} at the mode")
    for place, value in enumerate(data.values):
        print(
            f"  b{place + 1} certified {value:.10e}  mode off by {mode['mode_off'][place]:.1e}  "
            f"std {data.stds[place]:.6e}, off by {mode['curvature_std_off'][place]:.1e}"
        )
    found = row.get("posterior")
    if found is None:
        return
    print(
        f"  posterior, constants Normal(0, {found['prior_std']:g}): "
        f"{'pass' if found['passed'] else 'FAIL'}; {found['effective_draws']:.0f} effective draws "
        f"in {found['seconds']:.1f} s, NUTS {found['nuts_effective_draws']:.0f} in "
        f"{found['nuts_seconds']:.0f} s"
    )
    for place in range(len(data.values)):
        print(
            f"  b{place + 1} mean {found['mean'][place]:.6g} (NUTS {found['nuts_mean'][place]:.6g},"
            f" off by {found['mean_off'][place]:.3f} std)  std {found['std'][place]:.4g} "
            f"(NUTS {found['nuts_std'][place]:.4g}, off by {100 * found['std_off'][place]:.1f} %)"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, default=os.environ.get("DVISR_DATA"))
    parser.add_argument("--nuts", action="store_true", help="compare posteriors with NUTS")
    parser.add_argument("--sets", nargs="*", default=[one.name for one in SETS])
    parser.add_argument("--out", type=Path, help="a JSON file for the results")
    asked = parser.parse_args()
    folder = None if asked.data is None else Path(asked.data) / "nist"
    missing = [n for n in asked.sets if folder is None or not (folder / f"{n}.dat").is_file()]
    if folder is None or missing:
        print(
            f"SKIPPED: {folder or 'a folder (--data or DVISR_DATA)'} must have "
            f"{', '.join(f'{name}.dat' for name in missing)} of the NIST Statistical Reference "
            f"Datasets, nonlinear regression",
            file=sys.stderr,
        )
        return
    results: dict[str, Any] = {}
    for one in SETS:
        if one.name not in asked.sets:
            continue
        data = published(folder / f"{one.name}.dat")
        row: dict[str, Any] = {"formula": one.formula, "at_the_mode": at_the_mode(one, data)}
        if asked.nuts:
            row["posterior"] = of_the_posterior(one, data)
        results[one.name] = row
        show(one.name, data, row)
    passed = all(part["passed"] for row in results.values() for part in row.values()
                 if isinstance(part, dict))  # fmt: skip
    print(f"\n{'all pass' if passed else 'NOT ALL PASS'}")
    if asked.out is not None:
        asked.out.write_text(json.dumps(results, indent=1) + "\n")
    sys.exit(0 if passed else 1)


if __name__ == "__main__":
    main()
