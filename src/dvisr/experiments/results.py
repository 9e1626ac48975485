"""What an experiment found, and its file."""

from __future__ import annotations

import dataclasses
import math
from pathlib import Path
from typing import Any

import numpy as np

from dvisr import runs
from dvisr.divergence import ConstantDensity

_DENSITY = ("values", "exact", "q")


@dataclasses.dataclass(frozen=True)
class Row:
    """One expression: the paper's number, the exact one, and q of each run."""

    expression: str
    paper: float | None
    exact: float
    q: tuple[float, ...]
    kl_of_constants: tuple[float, ...] | None  # KL(q(c | tree) || p(c | tree, y)) of each run

    @property
    def q_median(self) -> float:
        return float(np.median(self.q))

    @property
    def q_iqr(self) -> tuple[float, float]:
        low, high = np.quantile(self.q, [0.25, 0.75])
        return float(low), float(high)


@dataclasses.dataclass(frozen=True)
class Result:
    """`settings` say what was run; a result answers for those settings alone."""

    name: str
    settings: dict[str, Any]
    log_evidence: float
    rows: tuple[Row, ...]  # empty for the scaling experiments
    kl: tuple[float, ...]  # one a run
    kl_stderr: float
    kl_method: str  # exact, elbo or weights
    kl_elbo: tuple[float, ...]  # the paper's estimator: log evidence - mean ELBO of fresh samples
    seconds: float
    elbo: np.ndarray  # (runs, steps)
    learning_rate: np.ndarray
    densities: tuple[ConstantDensity, ...] = ()
    policy: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # weights, by run

    @property
    def runs_in_words(self) -> str:
        return "1 run" if len(self.kl) == 1 else f"{len(self.kl)} runs"

    @property
    def worst_kl(self) -> float:
        return float(np.max(self.kl))  # NaN, if a run is

    @property
    def median_kl(self) -> float:
        return float(np.median(self.kl))

    @property
    def median_kl_elbo(self) -> float:
        return float(np.median(self.kl_elbo))


def save_result(path: Path, result: Result) -> None:
    arrays = {"elbo": result.elbo, "learning_rate": result.learning_rate, **result.policy}
    for number, density in enumerate(result.densities):
        arrays |= {f"density{number}.{part}": getattr(density, part) for part in _DENSITY}
    plain = ("name", "settings", "log_evidence", "kl", "kl_stderr", "kl_method", "kl_elbo")
    meta: dict[str, Any] = {name: getattr(result, name) for name in (*plain, "seconds")}
    meta["rows"] = [dataclasses.asdict(row) for row in result.rows]
    meta["densities"] = [density.expression for density in result.densities]
    runs.save(path, arrays, _without_nan(meta))


def _without_nan(value: Any) -> Any:
    """JSON has no NaN or infinity, and a run that diverged has: they are written as null."""
    if isinstance(value, dict):
        return {key: _without_nan(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_without_nan(inner) for inner in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def load_result(path: Path) -> Result:
    arrays, meta = runs.load(path)
    try:
        rows = tuple(
            Row(
                expression=str(row["expression"]),
                paper=None if row["paper"] is None else float(row["paper"]),
                exact=float(row["exact"]),
                q=_floats(row["q"]),
                kl_of_constants=_optional_floats(row["kl_of_constants"]),
            )
            for row in meta["rows"]
        )
        densities = tuple(
            ConstantDensity(str(name), *(arrays.pop(f"density{i}.{part}") for part in _DENSITY))
            for i, name in enumerate(meta["densities"])
        )
        return Result(
            name=str(meta["name"]),
            settings=dict(meta["settings"]),
            log_evidence=float(meta["log_evidence"]),
            rows=rows,
            kl=_floats(meta["kl"]),
            kl_stderr=_float(meta["kl_stderr"]),
            kl_method=str(meta["kl_method"]),
            kl_elbo=_floats(meta["kl_elbo"]),
            seconds=float(meta["seconds"]),
            elbo=arrays.pop("elbo"),
            learning_rate=arrays.pop("learning_rate"),
            densities=densities,
            policy=arrays,
        )
    except (KeyError, TypeError, ValueError) as error:
        raise runs.BrokenFile(
            f"{path} is not a result of an experiment ({error}): delete it and run again"
        ) from None


def _float(value: Any) -> float:
    return math.nan if value is None else float(value)


def _floats(values: Any) -> tuple[float, ...]:
    return tuple(_float(value) for value in values)


def _optional_floats(values: Any) -> tuple[float, ...] | None:
    return None if values is None else _floats(values)
