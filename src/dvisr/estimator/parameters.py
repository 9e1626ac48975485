"""The parameters of an estimator as plain values for a file, and back."""

from __future__ import annotations

import inspect
import json
from typing import TYPE_CHECKING, Any

import numpy as np

from dvisr.constants import AbstractConstantPrior
from dvisr.library import OPERATORS, Token
from dvisr.noise import AbstractNoise, noise_model
from dvisr.settings import FitSettings

if TYPE_CHECKING:
    from dvisr.estimator.regressor import DVISRRegressor
    from dvisr.estimator.table import TableRegressor

NOT_SAVED = ("run_dir", "verbose", "n_jobs", "warm_start")  # of one program and its machine


def parameters_of(model: TableRegressor) -> dict[str, Any]:
    own = list(inspect.signature(type(model).__init__).parameters.values())[1:]
    named = (one.name for one in own if one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD))
    return {name: getattr(model, name) for name in named}


def changed(model: TableRegressor) -> dict[str, Any]:
    """Those that are not as they are by default."""
    usual = inspect.signature(type(model).__init__).parameters
    return {
        name: value
        for name, value in parameters_of(model).items()
        if repr(value) != repr(usual[name].default)
    }


def plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them; what can't be written there is refused by name."""
    plain = {}
    for name, value in settings.items():
        if name in NOT_SAVED:
            continue
        if name == "operators":
            value = [_operator_name(operator) for operator in value]
        elif name == "noise" and isinstance(value, AbstractNoise):
            value = _noise_name(value)
        elif name == "constant_prior" and isinstance(value, AbstractConstantPrior):
            value = value.spelling or value
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


def saved_parameters(model: TableRegressor) -> dict[str, Any]:
    """All that make the answer, the settings of the search in full: defaults may change."""
    own = FitSettings() if model.settings is None else model.settings
    return {**plain_settings(parameters_of(model)), "settings": own.as_dict()}


def model_of(saved: dict[str, Any]) -> DVISRRegressor:
    """An estimator that is not fitted yet. What a file may not say, such as where to write, is
    refused."""
    from dvisr.estimator.regressor import DVISRRegressor

    names = set(inspect.signature(DVISRRegressor).parameters) - set(NOT_SAVED)
    if set(saved) - names:
        raise ValueError(f"it has no parameter {sorted(set(saved) - names)[0]!r}")
    found: dict[str, Any] = {
        name: saved.get(name) for name in names
    }  # TOML leaves out what is None
    found["operators"] = tuple(saved["operators"])
    own = FitSettings.from_dict(saved["settings"])
    found["settings"] = None if own == FitSettings() else own
    return DVISRRegressor(**found)
