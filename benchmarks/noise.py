"""Noise models against an independent sampler, and laws under outliers.

    python -m benchmarks.noise nuts       # needs NumPyro
    python -m benchmarks.noise outliers [--seeds 10]
    python -m benchmarks.noise show

`nuts` gives `compare` three formulas with Student and with relative noise, scale inferred and
given, and holds means and standard deviations of constants and noise against those of NUTS: to 0.05
standard deviations and 5 %. `outliers` throws a tenth of the rows of three laws off by 30 standard
deviations and asks how often the law comes first with `noise="student"`. Both put what was measured
into docs/noise.json; `show` writes the tables in docs/fits.md of it.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import re
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from dvisr.comparing import compare
from dvisr.likelihood import Likelihood, make_likelihood

RESULTS = Path("docs/noise.json")
PAGE = Path("docs/fits.md")
CHAINS, WARMUP, DRAWS = 4, 2_000, 20_000
PRIOR_STD = 10.0
SIGMA, THROWN, ROWS = 0.1, 30.0, 40

# formula: its values by constants, true constants, and the range of x0
FORMULAS: dict[str, tuple[Callable[[Any, Any, Any], Any], tuple[float, ...]]] = {
    "c * x0 + c": (lambda np, c, x: c[0] * x + c[1], (1.7, 2.5)),
    "c * exp(-(c * x0)) + c": (lambda np, c, x: c[0] * np.exp(-c[1] * x) + c[2], (4.0, 0.9, 1.0)),
    "c * x0 / (c + x0)": (lambda np, c, x: c[0] * x / (c[1] + x), (6.0, 1.5)),
}
NOISES = ("student", "student:4,0.15", "relative", "relative:0.08")


def nuts() -> list[dict[str, Any]]:
    rows = []
    for noise in NOISES:
        for formula, (values, constants) in FORMULAS.items():
            rng = np.random.default_rng([NOISES.index(noise), list(FORMULAS).index(formula)])
            x = np.sort(rng.uniform(0.3, 5.0, 30))
            clean = values(np, constants, x)
            if noise.startswith("student"):
                y = clean + 0.15 * rng.standard_t(4, 30)
            else:
                y = clean * np.exp(0.08 * rng.standard_normal(30))
            rows.append(_against_nuts(noise, formula, x, y))
            print(rows[-1], flush=True)
    return rows


def _against_nuts(noise: str, formula: str, x: np.ndarray, y: np.ndarray) -> dict[str, Any]:
    prior = f"normal:0,{PRIOR_STD:g}"
    ours = compare(x[:, None], y, [formula], noise=noise, constant_prior=prior, random_state=0)
    row = ours.table.iloc[0]
    means = np.array([*ours.constants["mean"], row["noise_std"]])
    stds = np.array([*ours.constants["std"], row["noise_std_std"]])
    likelihood = make_likelihood(y, noise)
    draws = _nuts_draws(likelihood, formula, x, y, ours.constants["mode"].to_numpy())
    kept = slice(None) if likelihood.is_inferred else slice(0, -1)  # a given scale has no spread
    off = np.abs(means - draws.mean(axis=0))[kept] / draws.std(axis=0)[kept]
    spread = np.abs(stds[kept] / draws.std(axis=0)[kept] - 1.0)
    return {
        "noise": noise,
        "formula": formula,
        "mean_off": float(off.max()),
        "std_off": float(spread.max()),
        "log_evidence_stderr": float(row["log_evidence_stderr"]),
    }


def _nuts_draws(
    likelihood: Likelihood, formula: str, x: np.ndarray, y: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """(draws, constants + 1): the constants and the scale of the noise, in float64."""
    import jax
    import jax.numpy as jnp
    import numpyro
    import numpyro.distributions as dist
    from numpyro.infer import MCMC, NUTS, init_to_value

    values = FORMULAS[formula][0]
    unit, model = float(likelihood.scale[0]), likelihood.noise

    def joint() -> None:
        c = [numpyro.sample(f"c{j}", dist.Normal(0.0, PRIOR_STD)) for j in range(len(start))]
        s = jnp.asarray(1.0)
        if likelihood.prior is not None:
            # log s, so that the prior is smooth: s^2 is inverse gamma
            log_s = numpyro.sample("log_s", dist.ImproperUniform(dist.constraints.real, (), ()))
            numpyro.factor("prior of s", likelihood.prior.log_density(jnp, log_s))
            s = jnp.exp(log_s)
        mean = values(jnp, c, x)
        if model.link == "log":
            safe = jnp.where(mean > 0.0, mean, 1.0)
            numpyro.factor("domain", jnp.where((mean > 0.0).all(), 0.0, -1e6))
            numpyro.sample("y", dist.LogNormal(jnp.log(safe), s * unit), obs=y)
        else:
            freedom = model.freedom  # type: ignore[attr-defined]
            numpyro.sample("y", dist.StudentT(freedom, mean, s * unit), obs=y)

    residuals = likelihood.residuals(np, values(np, start, x))
    first: dict[str, Any] = {f"c{j}": value for j, value in enumerate(start)}
    first["log_s"] = 0.5 * np.log(np.mean(residuals**2))
    with jax.enable_x64(True):
        kernel = NUTS(joint, init_strategy=init_to_value(values=first), target_accept_prob=0.95)
        sampler = MCMC(
            kernel, num_warmup=WARMUP, num_samples=DRAWS, num_chains=CHAINS, progress_bar=False,
            chain_method="vectorized",
        )  # fmt: skip
        sampler.run(jax.random.key(0))
        drawn = sampler.get_samples()
    columns = [np.asarray(drawn[f"c{j}"]) for j in range(len(start))]
    scale = np.exp(np.asarray(drawn["log_s"])) if "log_s" in drawn else np.ones(len(columns[0]))
    return np.stack([*columns, unit * scale], axis=1)


# Outliers -----------------------------------------------------------------------------------------

LAWS: dict[str, tuple[tuple[str, ...], Callable[[np.ndarray], np.ndarray], str]] = {
    "2.37 x + 3.02": (("x",), lambda X: 2.37 * X[:, 0] + 3.02, "x * c + c"),
    "x + sin(5.5 x)": (("x",), lambda X: X[:, 0] + np.sin(5.5 * X[:, 0]), "x + sin(x * c)"),
    "sqrt(x^2 + y^2)": (
        ("x", "y"), lambda X: np.hypot(X[:, 0], X[:, 1]), "sqrt(x * x + y * y)",
    ),
}  # fmt: skip


def thrown(case: tuple[str, int, str]) -> dict[str, Any]:
    """One fit: whether the law is first, and the verdict."""
    import pandas as pd

    from dvisr import DVISRRegressor
    from dvisr.expression import parse
    from dvisr.fitting.merging import merged, probe_rows
    from dvisr.marginal import Engine

    name, seed, noise = case
    columns, law, formula = LAWS[name]
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3.0, 3.0, (ROWS, len(columns)))
    y = law(X) + SIGMA * rng.standard_normal(ROWS)
    rows = rng.choice(ROWS, ROWS // 10, replace=False)
    y[rows] += THROWN * SIGMA * rng.choice([-1.0, 1.0], len(rows))
    model = DVISRRegressor(max_tokens=9, max_constants=3, noise=noise, random_state=seed, n_jobs=1)
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(pd.DataFrame(X, columns=list(columns)), y)
    problem = model._problem
    trees = np.full((2, problem.grammar.max_tokens), -1, dtype=np.int8)
    first = model._posterior.functions[0].expression
    for row, expression in enumerate([parse(formula, problem.grammar.library), first]):
        trees[row, : len(expression.tokens)] = expression.tokens
    groups = merged(Engine.of(problem), trees, probe_rows(problem.X))
    return {
        "law": name,
        "seed": seed,
        "noise": noise,
        "is_first": len(groups) == 1,
        "first": str(first),
        "verdict": model.verdict_.word,
        "flagged": [check.name for check in model.verdict_.checks if check.grade],
        "seconds": round(time.perf_counter() - began, 1),
    }


def outliers(seeds: int, processes: int) -> list[dict[str, Any]]:
    cases = [(name, seed, "student") for name in LAWS for seed in range(seeds)]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        rows = []
        for row in pool.imap(thrown, cases):
            print(row, flush=True)
            rows.append(row)
    return rows


# Tables -------------------------------------------------------------------------------------------


def nuts_table(rows: list[dict[str, Any]]) -> str:
    lines = ["| noise | formula | mean off, in sd | sd off |", "| --- | --- | --- | --- |"]
    for row in rows:
        off = f"{row['mean_off']:.3f} | {row['std_off']:.1%}"
        lines.append(f"| {row['noise']} | `{row['formula']}` | {off} |")
    return "\n".join(lines)


def outlier_table(rows: list[dict[str, Any]]) -> str:
    lines = ["| law | noise | first | verdicts |", "| --- | --- | --- | --- |"]
    for name in LAWS:
        own = [row for row in rows if row["law"] == name]
        words = [row["verdict"] for row in own]
        counts = ", ".join(f"{word} {words.count(word)}" for word in sorted(set(words)))
        first = sum(row["is_first"] for row in own)
        lines.append(f"| {name} | {own[0]['noise']} | {first} of {len(own)} | {counts} |")
    return "\n".join(lines)


def show() -> None:
    measured = json.loads(RESULTS.read_text())
    page = PAGE.read_text()
    for name, table in (("nuts", nuts_table), ("outliers", outlier_table)):
        if name in measured:
            marked = re.compile(
                rf"(<!-- noise: {name} -->\n).*?(\n<!-- end of noise -->)", re.DOTALL
            )
            text = table(measured[name])
            page = marked.sub(lambda m, text=text: m.group(1) + text + m.group(2), page)  # type: ignore[misc]
    PAGE.write_text(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=["nuts", "outliers", "show"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    asked = parser.parse_args()
    if asked.what == "show":
        show()
        return
    measured = json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}
    is_nuts = asked.what == "nuts"
    measured[asked.what] = nuts() if is_nuts else outliers(asked.seeds, asked.processes or 1)
    RESULTS.write_text(json.dumps(measured, indent=1) + "\n")
    print(nuts_table(measured["nuts"]) if is_nuts else outlier_table(measured["outliers"]))


if __name__ == "__main__":
    main()
