"""A search between two steps, as arrays and plain values; and a new search put back there.

A restored search takes the steps that the first one would have taken, to the last bit. What follows
from the problem and the seed is not in a snapshot: it is worked out again.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from dvisr.fitting.network import PlainNetwork
from dvisr.fitting.progress import StepReport
from dvisr.fitting.search import Search
from dvisr.search.legality import Legality
from dvisr.search.visited import NUM_ISLANDS

_VISITED, _NETWORK = "visited.", "network."
_DONE = ("refined", "matched")  # trees that each island has gone through


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What `restore` needs; the plain values are such as JSON has."""

    arrays: dict[str, np.ndarray]
    values: dict[str, Any]

    @property
    def num_steps(self) -> int:
        return len(self.values["history"])

    def serves(self, planned: int | None) -> bool:
        """Whether a search of so many steps goes by here. The plain network's rate of learning
        depends on how many there are in all; nothing else does."""
        made = self.num_steps
        if self.values["network"] == PlainNetwork.name:
            return bool(self.values["planned"] == planned)
        return planned is None or made <= planned


def taken(search: Search, planned: int | None) -> Snapshot:
    """Of a search between two whole steps, planned to have so many in all."""
    network = search.network
    assert network is not None
    arrays = {_VISITED + name: array for name, array in search.visited.state().items()}
    arrays |= {_NETWORK + name: array for name, array in network.state().items()}
    length = search.problem.grammar.max_tokens
    for name in _DONE:
        for island, trees in enumerate(getattr(search, f"_{name}")):
            rows = np.frombuffer(b"".join(sorted(trees)), dtype=np.int8)
            arrays[f"{name}.{island}"] = rows.reshape(-1, length)
    return Snapshot(
        arrays,
        {
            "planned": planned,
            "seed": search.seed,
            "num_samples": search.num_samples,
            "network": network.name,
            "random": _random_state(search.rng),
            "heat": list(search._heat),
            "num_listed": search.num_listed,
            "listed_share": search.listed_share,
            "reference": [repr(float(value)) for value in search.race.reference],
            "seconds": search.history[-1].seconds if search.history else 0.0,
            "history": [_plain(report) for report in search.history],
        },
    )


def restore(search: Search, snapshot: Snapshot) -> None:
    """Put a new search of the same problem and settings, prepared, to where the snapshot was taken;
    a `ValueError` where it is of another search, or not as it was taken."""
    arrays, values = snapshot.arrays, snapshot.values
    network = search.network
    assert network is not None
    if (values["seed"], values["num_samples"]) != (search.seed, search.num_samples):
        raise ValueError("it is of another search")
    if values["network"] != network.name:
        raise ValueError(f"the search had the network {values['network']!r} then")
    legality = Legality(search.problem.grammar)
    length = search.problem.grammar.max_tokens
    num_tokens = len(search.problem.grammar.library)

    def checked(name: str) -> np.ndarray:
        trees = arrays[name]
        if trees.dtype != np.int8 or trees.shape[1:] != (length,):
            raise ValueError("its trees are of another size")
        is_token = ((trees >= -1) & (trees < num_tokens)).all()
        if not is_token or not legality(np.ascontiguousarray(trees)).all():
            raise ValueError("its trees are none of this grammar")
        return trees

    checked(_VISITED + "trees")
    search.visited.restore(_part(arrays, _VISITED))
    for name in _DONE:
        sets = [{tree.tobytes() for tree in checked(f"{name}.{i}")} for i in range(NUM_ISLANDS)]
        setattr(search, f"_{name}", sets)
    heat = [_number(value, 1.0, math.inf) for value in values["heat"]]
    if len(heat) != NUM_ISLANDS:
        raise ValueError("it has not one heat for each island")
    search._heat = heat
    search.num_listed = int(_number(values["num_listed"], 0, math.inf))
    search.listed_share = _number(values["listed_share"], 0.0, 1.0 + 1e-9)
    reference = np.array([float(value) for value in values["reference"]])
    if reference.shape != search.race.reference.shape:
        raise ValueError("it was of other parts of the rows")
    search.race.reference = reference
    search._seconds = _number(values["seconds"], 0.0, math.inf)
    search.history = [_report(n, row) for n, row in enumerate(values["history"], 1)]
    _set_random_state(search.rng, values["random"])
    network.restore(_part(arrays, _NETWORK))


def _part(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    return {
        name.removeprefix(prefix): array
        for name, array in arrays.items()
        if name.startswith(prefix)
    }


def _number(value: Any, low: float, high: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise ValueError(f"{value!r:.40} is not from {low:g} to {high:g}")
    return float(value)


def _plain(report: StepReport) -> dict[str, Any]:
    """NaN and infinities as text, which JSON has."""
    return {
        name: value if isinstance(value, int) or math.isfinite(value) else repr(float(value))
        for name, value in vars(report).items()
    }


def _report(number: int, row: dict[str, Any]) -> StepReport:
    kinds = {field.name: field.type for field in dataclasses.fields(StepReport)}
    if not isinstance(row, dict) or set(row) != set(kinds) or row["step"] != number:
        raise ValueError(f"the history of step {number} is not as this version writes it")
    found = {name: int(v) if kinds[name] == "int" else float(v) for name, v in row.items()}
    return StepReport(**found)  # type: ignore[arg-type]


def _random_state(rng: np.random.Generator) -> dict[str, Any]:
    """Whole numbers of 128 bits as text: JSON's readers may make floats of them."""
    state = rng.bit_generator.state
    return {
        "kind": state["bit_generator"],
        "state": str(state["state"]["state"]),
        "increment": str(state["state"]["inc"]),
        "has_half": state["has_uint32"],
        "half": state["uinteger"],
    }


def _set_random_state(rng: np.random.Generator, saved: dict[str, Any]) -> None:
    state = dict(rng.bit_generator.state)
    if saved["kind"] != state["bit_generator"]:
        raise ValueError("its random numbers are of another kind")
    parts = [int(saved["state"]), int(saved["increment"])]
    half = [int(saved["has_half"]), int(saved["half"])]
    if not all(0 <= part < 2**128 for part in parts) or not 0 <= half[1] < 2**32:
        raise ValueError("the state of its random numbers is out of range")
    state["state"] = {"state": parts[0], "inc": parts[1]}
    state["has_uint32"], state["uinteger"] = int(bool(half[0])), half[1]
    rng.bit_generator.state = state
