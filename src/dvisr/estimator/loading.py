"""A fitted model from a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dvisr.estimator import preparing, saving
from dvisr.estimator.regressor import DVISRRegressor
from dvisr.types import Dataset


def load(path: Any) -> DVISRRegressor:
    """A model that `save` wrote, ready to predict."""
    meta, arrays = saving.load(Path(path))
    try:
        return _rebuilt(meta, arrays)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"the model in {str(path)!r} is not as it was written ({error}): fit and save anew"
        ) from None


def _rebuilt(meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> DVISRRegressor:
    settings = dict(meta["settings"])
    settings["operators"] = tuple(settings["operators"])
    model = DVISRRegressor(**settings)
    data = Dataset.create(arrays["X"], arrays["y"], arrays.get("y_err"), meta["feature_names"])
    problem = model._problem_of(preparing.Table(data, arrays.get("weights")))
    answer = saving.restored_answer(meta, arrays, problem)
    model._keep(problem, answer, meta["elbo"], meta["diagnostics"])
    model.history_ = pd.DataFrame(meta["history"])
    model.front_ = pd.DataFrame(meta["front"])
    model.interrupted_ = meta["interrupted"]
    model.n_iter_ = len(meta["history"])
    model.n_features_in_ = data.X.shape[1]
    if meta["has_names"]:
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)
    return model
