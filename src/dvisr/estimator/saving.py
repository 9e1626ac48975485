"""A fitted model in a folder: numbers in safetensors, the rest in its JSON. Nothing in such a file
is ever executed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dvisr import runs
from dvisr.expression import Expression
from dvisr.fitting.problem import Problem
from dvisr.library import OPERATORS, Token
from dvisr.marginal import Weighed
from dvisr.posterior.answer import Function, Posterior, Tree
from dvisr.posterior.predictive import Draws

FILE = "model.safetensors"
FORMAT = 1
_WEIGHED = ("mode", "curvature", "constants", "log_weights", "log_q", "squares")


def plain_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings as JSON has them; what can't be written there is refused by name."""
    found = {}
    for name, value in settings.items():
        if name in ("run_dir", "verbose", "n_jobs", "warm_start"):
            continue
        if name == "operators":
            value = [_operator_name(operator) for operator in value]
        elif name == "random_state" and value is not None:
            value = int(value) if isinstance(value, (int, np.integer)) else None
        try:
            found[name] = json.loads(json.dumps(value))
        except (TypeError, ValueError):
            raise ValueError(
                f"{name}={value!r} can't be written to a file: give it as text or numbers"
            ) from None
    return found


def _operator_name(operator: Any) -> str:
    if not isinstance(operator, Token):
        return str(operator)
    if OPERATORS.get(operator.name) is not operator:
        raise ValueError(
            f"the operator {operator.name!r} is code of your own and can't be written to a file"
        )
    return operator.name


def save(path: Path, settings: dict[str, Any], model: Any) -> None:
    problem: Problem = model._problem
    answer: Posterior = model._answer
    arrays: dict[str, np.ndarray] = {
        "X": problem.data.X,
        "y": problem.data.y,
        "draws.tree": answer.draws.tree,
        "draws.constants": answer.draws.constants,
        "draws.noise": answer.draws.noise,
        "trees.log_joint": np.array([tree.log_joint for tree in answer.trees]),
        "trees.probability": np.array([tree.probability for tree in answer.trees]),
    }
    if problem.data.y_err is not None:
        arrays["y_err"] = problem.data.y_err
    if problem.likelihood.weights is not None:
        arrays["weights"] = problem.likelihood.weights
    meta: dict[str, Any] = {
        "format": FORMAT,
        "settings": plain_settings(settings),
        "feature_names": list(problem.data.feature_names),
        "has_names": hasattr(model, "feature_names_in_"),
        "scale": answer.draws.scale,
        "drawn": [list(expression.tokens) for expression in answer.draws.expressions],
        "trees": [list(tree.expression.tokens) for tree in answer.trees],
        "inclusion": answer.inclusion.to_dict(),
        "is_exact": answer.is_exact,
        "log_evidence": answer.log_evidence,
        "log_evidence_stderr": answer.log_evidence_stderr,
        "elbo": model.elbo_,
        "diagnostics": model.diagnostics_,
        "interrupted": model.interrupted_,
        "history": model.history_.to_dict("records"),
        "front": model.front_.to_dict("records"),
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

    for function in answer.functions:
        row = [function.probability, function.log_joint, function.num_trees]
        meta["functions"].append([list(function.expression.tokens), *row, keep(function.weighed)])
    meta["tree_weighed"] = [keep(tree.weighed) for tree in answer.trees]
    runs.save(Path(path) / FILE, arrays, _finite(meta))


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


def load(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The file's JSON and arrays, checked to be what was written."""
    file = Path(path) / FILE
    if not file.is_file():
        raise ValueError(f"there is no fitted model in {str(path)!r}: give the folder it is in")
    arrays, meta = runs.load(file)
    if meta.get("format") != FORMAT:
        raise ValueError(f"{file} was written by another version: fit again and save anew")
    return _restored(meta), arrays


def restored_answer(
    meta: dict[str, Any], arrays: dict[str, np.ndarray], problem: Problem
) -> Posterior:
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
        Function(expression(tokens), probability, log_joint, int(count), weighed[place])
        for tokens, probability, log_joint, count, place in meta["functions"]
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
            arrays["draws.noise"],
            float(meta["scale"]),
        ),
    )
