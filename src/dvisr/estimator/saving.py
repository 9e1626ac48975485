"""A fit in a folder: settings as TOML, the columns used, the answer. Nothing in such a folder is
ever executed, and what is read from it is checked."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib.metadata
import platform
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import dvisr
from dvisr.constraints import Grammar
from dvisr.estimator import answers
from dvisr.estimator.parameters import (
    model_of,
    parameters_of,
    plain_settings,
    saved_parameters,
)
from dvisr.prior import Surroundings, TreePrior
from dvisr.problem import Problem
from dvisr.runs import BrokenFile, files, folder, toml
from dvisr.types import Dataset

if TYPE_CHECKING:
    from dvisr.estimator.regressor import DVISRRegressor
    from dvisr.estimator.table import TableRegressor

RUN = "run.toml"
DATA = "data.safetensors"
FILE = "model.safetensors"
HISTORY = "history.csv"
FORMAT = 6
_PACKAGES = ("numpy", "scipy", "numba", "jax", "equinox")
_WRONG = (
    KeyError,
    TypeError,
    IndexError,
    AttributeError,
    ValueError,
    OverflowError,
    RecursionError,
)
_ONE_AT_A_TIME = threading.Lock()  # threads of this program wait for each other


@dataclasses.dataclass(frozen=True)
class Begun:
    """What a run has from its beginning."""

    model: DVISRRegressor  # not fitted
    problem: Problem
    seed: int
    can_be_resumed: bool


def check_can_be_saved(path: Any, model: Any) -> None:
    """A `ValueError` where the path is none, or a setting can't be written to a file."""
    if not isinstance(path, (str, Path)):
        raise ValueError(f"a model is saved in a folder: give its path, not {path!r}")
    plain_settings(parameters_of(model))


def beginning(
    model: TableRegressor, problem: Problem, seed: int | None, *, can_be_resumed: bool
) -> dict[str, bytes]:
    """The files that a run has from its beginning."""
    arrays = _data_arrays(problem)
    names = list(problem.data.feature_names)
    described = {
        "format": FORMAT,
        "version": dvisr.__version__,
        "seed": seed,
        "can_be_resumed": can_be_resumed,
        "target": getattr(model, "_target", "y"),
        "command": getattr(model, "_command", None),
        "columns": names,
        "rows": len(problem.data.y),
        "fingerprint": fingerprint(arrays, names),
        "parameters": saved_parameters(model),
        "versions": {
            "python": platform.python_version(),
            **{name: importlib.metadata.version(name) for name in _PACKAGES},
        },
    }
    about = {
        "feature_names": names,
        "has_names": hasattr(model, "feature_names_in_"),
        "prior": problem.tree_prior.name,
    }
    return {
        RUN: toml.to_toml(described).encode(),
        DATA: files.to_bytes(arrays, about),
    }


def fingerprint(arrays: dict[str, np.ndarray], names: list[str]) -> str:
    """Of the columns, to know whether they are the same."""
    found = hashlib.sha256(repr(names).encode())
    for name in ("X", "y", "y_err", "weights"):
        if name in arrays:
            found.update(name.encode() + np.ascontiguousarray(arrays[name]).tobytes())
    return found.hexdigest()


def _data_arrays(problem: Problem) -> dict[str, np.ndarray]:
    """Columns, and the prior by its numbers: the formulas that they came from may be gone by the
    time the run is read."""
    prior = problem.tree_prior
    arrays = {
        "X": problem.X,
        "y": problem.data.y,
        "y_err": problem.data.y_err,
        "weights": problem.likelihood.weights,
        "position": problem.position,
        "prior.log_size": prior.log_size,
        "prior.log_token": prior.log_token,
    }
    if prior.surroundings is not None:
        arrays |= {f"prior.{name}": a for name, a in prior.surroundings.arrays().items()}
    return {name: np.asarray(array) for name, array in arrays.items() if array is not None}


def answer_files(model: TableRegressor) -> dict[str, bytes]:
    """The files that a run has once it is fitted."""
    arrays, values = answers.to_file(model._outcome)
    return {
        FILE: files.to_bytes(arrays, {**values, "planned": model.num_steps}),
        HISTORY: model.history_.to_csv(index=False).encode(),
    }


def save(path: Path, model: TableRegressor) -> None:
    """Write a fitted model into a folder."""
    content = beginning(model, model._problem, getattr(model, "_seed", None), can_be_resumed=False)
    content |= answer_files(model)
    with _ONE_AT_A_TIME, folder.lock(path):
        before = folder.read_manifest(path) if folder.is_run(path) else {}
        folder.commit(path, content, [name for name in before if name not in content])


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
    place = Path(path)
    if not folder.is_run(place):
        if (place / FILE).is_file():
            raise ValueError(
                f"{place} has no {folder.MANIFEST}, which says what its files must be: take it "
                f"from a copy, or fit again and save anew"
            )
        raise ValueError(f"there is no fitted model in {str(path)!r}: give the folder it is in")
    if FILE not in folder.read_manifest(place):
        raise ValueError(
            f"there is no fitted model in {str(path)!r} yet, but a run that was broken off: "
            f"go on with dvisr resume {path}"
        )
    content = folder.read_together(place, (RUN, DATA, FILE))
    begun = _beginning_of(content, place)
    arrays, values = files.from_bytes(content[FILE], place / FILE)
    return answered(begun, arrays, values, place / FILE)


def answered(
    begun: Begun, arrays: dict[str, np.ndarray], values: dict[str, Any], path: Path
) -> DVISRRegressor:
    """The model with an answer; one clear error for what is none. The path is for its sentence."""
    try:
        begun.model._keep(begun.problem, answers.from_file(arrays, values, begun.problem))
    except _WRONG as error:
        raise _wrong(path, error) from None
    return begun.model


def is_answered(place: Path, planned: int | None) -> bool:
    """Whether a run has come to its end, with so many steps asked for."""
    if FILE not in folder.read_manifest(place):
        return False
    values = files.from_bytes(folder.read(place, FILE), place / FILE)[1]
    return values.get("planned") == planned and values.get("interrupted") is False


def read_beginning(place: Path) -> Begun:
    """What `beginning` wrote."""
    return _beginning_of(folder.read_together(place, (RUN, DATA)), place)


def _beginning_of(content: dict[str, bytes], place: Path) -> Begun:
    described = toml.from_toml(content[RUN], place / RUN)
    if described.get("format") != FORMAT:
        raise ValueError(f"{place} was written by another version: fit again and save anew")
    arrays, about = files.from_bytes(content[DATA], place / DATA)
    try:
        return _begun(described, arrays, about)
    except _WRONG as error:
        raise _wrong(place / RUN, error) from None


def _begun(
    described: dict[str, Any], arrays: dict[str, np.ndarray], about: dict[str, Any]
) -> Begun:
    names = about["feature_names"]
    if not all(isinstance(name, str) for name in names):
        raise ValueError("the names of its columns are no text")
    if fingerprint(arrays, names) != described["fingerprint"]:
        raise ValueError("its columns are others than those that it was fitted to")
    model = model_of(described["parameters"])
    data = Dataset.create(arrays["X"], arrays["y"], arrays.get("y_err"), names)
    problem = _problem(model, data, arrays, str(about["prior"]))
    model._target = str(described["target"])
    command = described.get("command")
    model._command = None if command is None else str(command)
    model.n_features_in_ = data.X.shape[1]
    if about["has_names"] is True:
        model.feature_names_in_ = np.array(data.feature_names, dtype=object)
    seed = described.get("seed")
    if seed is not None and (type(seed) is not int or not 0 <= seed < 2**32):
        raise ValueError(f"its seed is {seed!r:.40}")
    model._seed = seed
    can_be_resumed = seed is not None and described["can_be_resumed"] is True
    return Begun(model, problem, 0 if seed is None else seed, can_be_resumed)


def _problem(
    model: TableRegressor, data: Dataset, arrays: dict[str, np.ndarray], name: str
) -> Problem:
    def prior(grammar: Grammar) -> TreePrior:
        places = None
        if "prior.below" in arrays:
            own = {part: arrays[f"prior.{part}"] for part in ("below", "right", "kinds")}
            places = Surroundings(**own, arities=grammar.library.arities)
        return TreePrior(name, arrays["prior.log_size"], arrays["prior.log_token"], places)

    problem = model._problem_of(data, arrays.get("weights"), tree_prior=prior)
    position = arrays.get("position")
    if position is not None and (
        position.shape != data.y.shape or position.dtype.kind != "i" or position.min() < 0
    ):
        raise ValueError("the places of its rows are none")
    return dataclasses.replace(problem, position=position)


def _wrong(path: Path, error: Exception) -> BrokenFile:
    reason = (str(error) or type(error).__name__).splitlines()[0]
    return BrokenFile(f"{path} is not as it was written ({reason}): fit and save anew")
