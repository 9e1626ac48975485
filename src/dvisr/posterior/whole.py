"""The whole posterior for ArviZ: draws of tree, noise and curve."""

from __future__ import annotations

import importlib.metadata
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from dvisr.likelihood import AbstractLikelihood
from dvisr.posterior.answer import Posterior
from dvisr.posterior.datatree import noise_unit
from dvisr.types import Dataset

if TYPE_CHECKING:
    import xarray


def whole_datatree(
    likelihood: AbstractLikelihood, data: Dataset, answer: Posterior
) -> xarray.DataTree:
    """Groups `posterior` (which tree, the noise, the curve at the data), `posterior_predictive`,
    `log_likelihood`, `observed_data` and `constant_data`. The trees' texts are in the attribute
    `expressions`. Draws in which the tree is undefined at a row can't occur: those have no
    posterior probability."""
    import xarray

    draws = answer.draws
    curves = draws.curves(data.X)
    scale = np.asarray(likelihood.scale)
    sigmas = draws.noise[:, None] * scale[None, :]
    residuals = (data.y - curves) / sigmas
    log_density = -0.5 * residuals**2 - np.log(sigmas) - 0.5 * math.log(2.0 * math.pi)
    rng = np.random.default_rng(0)
    replicated = curves + sigmas * rng.standard_normal(curves.shape)
    name, unit = noise_unit(likelihood)
    rows = {"observation": np.arange(len(data.y))}
    steps: dict[str, Any] = {"chain": [0], "draw": np.arange(len(draws))}
    by_row = ("chain", "draw", "observation")
    tree = xarray.DataTree.from_dict(
        {
            "posterior": xarray.Dataset(
                {
                    "tree": (("chain", "draw"), draws.tree[None]),
                    name: (("chain", "draw"), (draws.noise * unit)[None]),
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
            "constant_data": xarray.Dataset(
                {"X": (("observation", "feature"), data.X)},
                coords={**rows, "feature": list(data.feature_names)},
            ),
        }
    )
    tree.attrs.update(
        expressions=[str(expression) for expression in draws.expressions],
        inference_library="dvisr",
        inference_library_version=importlib.metadata.version("dvisr"),
    )
    return tree
