"""Draws for ArviZ: of one tree's constants and noise, or of the whole posterior. Draws are equally
likely."""

from __future__ import annotations

import importlib.metadata
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dvisr.expression import Expression
from dvisr.likelihood import Likelihood
from dvisr.marginal import Engine, Weighed, noise_draws
from dvisr.posterior.loo import MOST_DRAWS, check_defined, row_log_density
from dvisr.posterior.posterior import Posterior
from dvisr.problem import Problem

if TYPE_CHECKING:
    import xarray


def tree_datatree(
    engine: Engine,
    expression: Expression,
    weighed: Weighed,
    *,
    count: int = MOST_DRAWS,
    seed: int,
) -> xarray.DataTree:
    """Groups `posterior` (c0, c1, ... and `sigma`, or `noise_factor` where there are error bars),
    `log_likelihood`, `observed_data` and `constant_data`. A row that was weighted has the density
    of one observation of it; the weights are among the constant data."""
    import xarray

    check_defined(expression, weighed)
    if count < 1:
        raise ValueError(f"the number of draws must be at least 1, not {count}")
    rng = np.random.default_rng(seed)
    places = weighed.resampled(count, rng)
    constants = weighed.constants[places]
    factor = noise_draws(engine, np.array(expression.tokens), constants, rng)
    likelihood = engine.likelihood
    draws = {f"c{j}": (("chain", "draw"), column[None]) for j, column in enumerate(constants.T)}
    name, scale = likelihood.noise_unit
    draws[name] = (("chain", "draw"), (scale * factor)[None])
    log_density = row_log_density(engine, expression, constants, factor)
    rows = {"observation": np.arange(len(likelihood.y))}
    steps = {"chain": [0], "draw": np.arange(count)}
    groups = {
        "posterior": xarray.Dataset(draws, coords=steps),
        "log_likelihood": xarray.Dataset(
            {"y": (("chain", "draw", "observation"), log_density[None])}, coords=steps | rows
        ),
        "observed_data": xarray.Dataset({"y": (("observation",), likelihood.y)}, coords=rows),
        "constant_data": _given(engine.X, engine.library.variables, likelihood),
    }
    tree = xarray.DataTree.from_dict(groups)
    tree.attrs.update(
        expression=str(expression),
        inference_library="dvisr",
        inference_library_version=importlib.metadata.version("dvisr"),
    )
    return tree


def _given(X: np.ndarray, names: Sequence[str], likelihood: Likelihood) -> xarray.Dataset:
    """What was given: columns, and error bars and weights where there are any."""
    import xarray

    given: dict[str, Any] = {"X": (("observation", "feature"), X)}
    if likelihood.y_err is not None:
        given["y_err"] = (("observation",), np.asarray(likelihood.y_err))
    if likelihood.weights is not None:
        given["sample_weight"] = (("observation",), np.asarray(likelihood.weights))
    return xarray.Dataset(given, coords={"observation": np.arange(len(X)), "feature": list(names)})


def whole_datatree(problem: Problem, posterior: Posterior) -> xarray.DataTree:
    """Groups `posterior` (which tree, the noise, the curve at the data), `posterior_predictive`,
    `log_likelihood`, `observed_data` and `constant_data`. The trees' texts are in the attribute
    `expressions`. Draws in which the tree is undefined at a row can't occur: those have no
    posterior probability."""
    import xarray

    draws, data, likelihood = posterior.draws, problem.data, problem.likelihood
    curves = draws.curves(data.X)
    sigmas = draws.noise_factor[:, None] * np.asarray(likelihood.scale)[None, :]
    log_density = likelihood.row_log_density(curves, draws.noise_factor)
    z = likelihood.noise.draw(np.random.default_rng(0), curves.shape)
    replicated = likelihood.noise.observed(curves, sigmas, z)
    name, unit = likelihood.noise_unit
    rows = {"observation": np.arange(len(data.y))}
    steps: dict[str, Any] = {"chain": [0], "draw": np.arange(len(draws))}
    by_row = ("chain", "draw", "observation")
    tree = xarray.DataTree.from_dict(
        {
            "posterior": xarray.Dataset(
                {
                    "tree": (("chain", "draw"), draws.tree[None]),
                    name: (("chain", "draw"), (draws.noise_factor * unit)[None]),
                    "curve": (by_row, curves[None]),
                },
                coords=steps | rows,
            ),
            "posterior_predictive": xarray.Dataset(
                {"y": (by_row, replicated[None])}, coords=steps | rows
            ),
            "log_likelihood": xarray.Dataset(
                {"y": (by_row, log_density[None])}, coords=steps | rows
            ),
            "observed_data": xarray.Dataset({"y": (("observation",), data.y)}, coords=rows),
            "constant_data": _given(data.X, data.feature_names, likelihood),
        }
    )
    tree.attrs.update(
        expressions=[str(expression) for expression in draws.expressions],
        inference_library="dvisr",
        inference_library_version=importlib.metadata.version("dvisr"),
    )
    return tree
