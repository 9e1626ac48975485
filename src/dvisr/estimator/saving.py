"""A fitted model in a folder: numbers in safetensors, the rest in its JSON. Nothing in such a file
is ever executed."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dvisr import runs
from dvisr.checks import Verdict
from dvisr.expression import Expression
from dvisr.fitting.fitters import Outcome
from dvisr.library import OPERATORS, Token
from dvisr.marginal import Weighed
from dvisr.noise import AbstractNoise, noise_model
from dvisr.posterior import Draws, Function, Posterior, Tree
from dvisr.prior import Surroundings, TreePrior
from dvisr.problem import Problem
from dvisr.settings import FitSettings
from dvisr.types import Dataset

if TYPE_CHECKING:
    from dvisr.estimator.regressor import DVISRRegressor

FILE = "model.safetensors"
FORMAT = 3
_WEIGHED = ("mode", "curvature", "constants", "log_weights", "log_q")


def plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them; what can't be written there is refused by name."""
    plain = {}
    for name, value in settings.items():
        if name in ("run_dir", "verbose", "n_jobs", "warm_start"):
            continue
        if name == "operators":
            value = [_operator_name(operator) for operator in value]
        elif name == "noise" and isinstance(value, AbstractNoise):
            value = _noise_name(value)
        elif name == "settings" and value is not None:
            value = value.as_dict()
        elif name == "random_state" and value is not None:
            value = int(value) if isinstance(value, (int, np.integer)) else None
        try:
            plain[name] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            raise ValueError(
                f"{name}={value!r} can't be written to a file: give it as text or numbers"
            ) from None
    return plain


def _noise_name(noise: AbstractNoise) -> str:
    try:
        if noise_model(noise.spelling) == noise:
            return noise.spelling
    except ValueError:
        pass
    raise ValueError(
        f"the noise model {noise.name!r} is code of your own and can't be written to a file"
    )


def _operator_name(operator: Any) -> str:
    if not isinstance(operator, Token):
        return str(operator)
    if OPERATORS.get(operator.name) is not operator:
        raise ValueError(
            f"the operator {operator.name!r} is code of your own and can't be written to a file"
        )
    return operator.name


def check_can_be_saved(path: Any, model: Any) -> None:
    """A `ValueError` where the path is none, or a setting can't be written to a file."""
    if not isinstance(path, (str, Path)):
        raise ValueError(f"a model is saved in a folder: give its path, not {path!r}")
    plain_settings(model.get_params(deep=False))


def save(path: Path, model: Any) -> None:
    """Write a fitted model into a folder."""
    problem: Problem = model._problem
    posterior: Posterior = model._posterior
    draws = posterior.draws
    arrays: dict[str, np.ndarray] = {
        "X": problem.X,
        "y": problem.data.y,
        "draws.tree": draws.tree,
        "draws.constants": draws.constants,
        "draws.noise_factor": draws.noise_factor,
        "trees.log_joint": np.array([tree.log_joint for tree in posterior.trees]),
        "trees.probability": np.array([tree.probability for tree in posterior.trees]),
    }
    if problem.data.y_err is not None:
        arrays["y_err"] = problem.data.y_err
    if problem.likelihood.weights is not None:
        arrays["weights"] = problem.likelihood.weights
    if problem.position is not None:
        arrays["position"] = problem.position
    arrays |= _prior_arrays(problem.tree_prior)
    reserved = ("verdict", "reasons", "checks")
    own = FitSettings() if model.settings is None else model.settings
    meta: dict[str, Any] = {
        "format": FORMAT,
        "settings": {**plain_settings(model.get_params(deep=False)), "settings": own.as_dict()},
        "feature_names": list(problem.data.feature_names),
        "target": getattr(model, "_target", "y"),
        "command": getattr(model, "_command", None),
        "has_names": hasattr(model, "feature_names_in_"),
        "scale": draws.scale,
        "prior": problem.tree_prior.name,
        "drawn": [list(expression.tokens) for expression in draws.expressions],
        "trees": [list(tree.expression.tokens) for tree in posterior.trees],
        "inclusion": posterior.inclusion.to_dict(),
        "is_exact": posterior.is_exact,
        "log_evidence": posterior.log_evidence,
        "log_evidence_stderr": posterior.log_evidence_stderr,
        "elbo": model.elbo_,
        "verdict": model.verdict_.as_dict(),
        "diagnostics": {k: v for k, v in model.diagnostics_.items() if k not in reserved},
        "interrupted": model.interrupted_,
        "history": model.history_.to_dict("records"),
        "history_columns": list(model.history_.columns),
        "front": model.front_.to_dict("records"),
        "front_columns": list(model.front_.columns),
        "functions": [],
        "weighed": [],
    }
    kept: dict[int, int] = {}

    def keep(weighed: Weighed | None) -> int:
        if weighed is None:
            return -1
        if id(weighed) not in kept:
            number = kept[id(weighed)] = len(kept)
            for name in _WEIGHED:
                arrays[f"weighed.{number}.{name}"] = getattr(weighed, name)
            meta["weighed"].append([weighed.log_marginal, weighed.error, weighed.method])
        return kept[id(weighed)]

    for function in posterior.functions:
        row = [function.probability, function.log_joint, function.log_prior, function.num_trees]
        meta["functions"].append([list(function.expression.tokens), *row, keep(function.weighed)])
    meta["tree_weighed"] = [keep(tree.weighed) for tree in posterior.trees]
    runs.save(Path(path) / FILE, arrays, _finite(meta))


def _prior_arrays(prior: TreePrior) -> dict[str, np.ndarray]:
    """The prior by its numbers: the formulas that they came from may be gone by the time the model
    is loaded."""
    arrays = {"prior.log_size": prior.log_size, "prior.log_token": prior.log_token}
    if prior.surroundings is not None:
        arrays |= {f"prior.{name}": a for name, a in prior.surroundings.arrays().items()}
    return {name: np.asarray(array) for name, array in arrays.items()}


def _finite(value: Any) -> Any:
    """JSON has no infinity and no NaN."""
    if isinstance(value, dict):
        return {str(name): _finite(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(part) for part in value]
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else {"number": repr(float(value))}
    if isinstance(value, np.generic):
        return value.item()
    return value


def _restored(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"number"}:
            return float(value["number"])
        return {name: _restored(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_restored(part) for part in value]
    return value


def load(path: Any) -> DVISRRegressor:
    """A model that `save` wrote, ready to predict.

    Parameters
    ----------
    path : str or Path
        The folder it was saved in.

    Returns
    -------
    DVISRRegressor

    Raises
    ------
    ValueError
        If there is none, or it is not as it was written. Nothing in a file is ever executed.
    """
    from dvisr.estimator.regressor import DVISRRegressor

    file = Path(path) / FILE
    if not file.is_file():
        raise ValueError(f"there is no fitted model in {str(path)!r}: give the folder it is in")
    arrays, meta = runs.load(file)
    if meta.get("format") != FORMAT:
        raise ValueError(f"{file} was written by another version: fit again and save anew")
    try:
        meta = _restored(meta)
        settings = dict(meta["settings"])
        settings["operators"] = tuple(settings["operators"])
        own = FitSettings.from_dict(settings["settings"])
        settings["settings"] = None if own == FitSettings() else own
        model = DVISRRegressor(**settings)
        _restore(model, meta, arrays)
    except (KeyError, TypeError, IndexError, AttributeError) as error:
        raise ValueError(
            f"the model in {str(path)!r} is not as it was written ({error}): fit and save anew"
        ) from None
    return model


def _restore(model: DVISRRegressor, meta: dict[str, Any], arrays: dict[str, np.ndarray]) -> None:
    data = Dataset.create(arrays["X"], arrays["y"], arrays.get("y_err"), meta["feature_names"])
    problem = model._problem_of(data, arrays.get("weights"), tree_prior="allowed")
    places = None
    if "prior.below" in arrays:
        own = {name: arrays[f"prior.{name}"] for name in ("below", "right", "kinds")}
        places = Surroundings(**own, arities=problem.grammar.library.arities)
    prior = TreePrior(
        meta["prior"], arrays["prior.log_size"], arrays["prior.log_token"], places
    ).checked(problem.grammar)
    problem = dataclasses.replace(problem, tree_prior=prior, position=arrays.get("position"))
    outcome = Outcome(
        posterior=_posterior(meta, arrays, problem),
        verdict=Verdict.from_dict(meta["verdict"]),
        diagnostics=meta["diagnostics"],
        elbo=meta["elbo"],
        history=pd.DataFrame(meta["history"], columns=meta["history_columns"]),
        front=pd.DataFrame(meta["front"], columns=meta["front_columns"]),
        is_interrupted=meta["interrupted"],
    )
    model._keep(problem, outcome)
    model._target = str(meta.get("target", "y"))  # files from before reports have neither
    command = meta.get("command")
    model._command = None if command is None else str(command)
    model.n_features_in_ = data.X.shape[1]
    if meta["has_names"]:
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)


def _posterior(meta: dict[str, Any], arrays: dict[str, np.ndarray], problem: Problem) -> Posterior:
    library = problem.grammar.library

    def expression(tokens: list[int]) -> Expression:
        return Expression(library, tuple(int(token) for token in tokens))

    weighed = [
        Weighed(
            log_marginal=value,
            error=error,
            method=method,
            **{name: arrays[f"weighed.{number}.{name}"] for name in _WEIGHED},
        )
        for number, (value, error, method) in enumerate(meta["weighed"])
    ]
    functions = tuple(
        Function(
            expression(tokens), probability, log_joint, int(count), weighed[place], (), log_prior
        )
        for tokens, probability, log_joint, log_prior, count, place in meta["functions"]
    )
    trees = tuple(
        Tree(expression(tokens), float(p), float(joint), weighed[place] if place >= 0 else None)
        for tokens, p, joint, place in zip(
            meta["trees"],
            arrays["trees.probability"],
            arrays["trees.log_joint"],
            meta["tree_weighed"],
            strict=True,
        )
    )
    return Posterior(
        grammar=problem.grammar,
        functions=functions,
        trees=trees,
        log_evidence=meta["log_evidence"],
        log_evidence_stderr=meta["log_evidence_stderr"],
        is_exact=meta["is_exact"],
        inclusion=pd.Series(meta["inclusion"], name="inclusion", dtype=float),
        draws=Draws(
            tuple(expression(tokens) for tokens in meta["drawn"]),
            arrays["draws.tree"],
            arrays["draws.constants"],
            arrays["draws.noise_factor"],
            float(meta["scale"]),
            problem.likelihood.noise,
        ),
    )
