"""The network's weights as a file: safetensors, half precision, with a digest of what they are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import jax
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from dvisr.policy.conditioned import DataNetwork, Sizes

FORMAT = "dvisr network 1"


def named_arrays(tree: Any) -> dict[str, np.ndarray]:
    """The arrays of a pytree by their places in it."""
    leaves = jax.tree_util.tree_leaves_with_path(eqx.filter(tree, eqx.is_array))
    return {jax.tree_util.keystr(path): np.asarray(leaf) for path, leaf in leaves}


def with_arrays(tree: Any, arrays: Mapping[str, np.ndarray]) -> Any:
    """The pytree with these arrays in their places, which must be all of its own. They are cast on
    the host: on the device each shape would have to be compiled."""
    own, rest = eqx.partition(tree, lambda leaf: eqx.is_array(leaf) or _is_shape(leaf))
    leaves, structure = jax.tree_util.tree_flatten_with_path(own)
    names = [jax.tree_util.keystr(path) for path, _ in leaves]
    if set(names) != set(arrays):
        odd = sorted(set(names) ^ set(arrays))[0]
        raise ValueError(f"these weights are of another network: {odd} is in one of them alone")
    made = []
    for name, (_, leaf) in zip(names, leaves, strict=True):
        if arrays[name].shape != leaf.shape:
            raise ValueError(f"these weights are of another network: {name} has another shape")
        made.append(jax.device_put(arrays[name].astype(leaf.dtype)))
    return eqx.combine(jax.tree_util.tree_unflatten(structure, made), rest)


def _is_shape(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def digest(arrays: Mapping[str, np.ndarray]) -> str:
    """SHA-256 of the names, shapes and numbers."""
    summed = hashlib.sha256()
    for name in sorted(arrays):
        array = np.asarray(arrays[name], order="C")
        summed.update(f"{name} {array.dtype} {array.shape}\n".encode())
        summed.update(array.tobytes())
    return summed.hexdigest()


def write_arrays(path: Path, arrays: Mapping[str, np.ndarray], about: Mapping[str, Any]) -> None:
    """A whole file or none."""
    text = json.dumps({"format": FORMAT, "digest": digest(arrays), **about})
    made = save({name: np.asarray(a, order="C") for name, a in arrays.items()}, {"about": text})
    beside = path.with_name(path.name + ".new")
    beside.write_bytes(made)
    beside.replace(path)


def read_arrays(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """What `write_arrays` wrote; a `ValueError` for anything else."""
    try:
        with safe_open(path, framework="np") as file:
            about = json.loads((file.metadata() or {}).get("about", "{}"))
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except (OSError, SafetensorError, ValueError) as error:
        raise ValueError(f"{path} can't be read as weights of a network: {error}") from None
    if not isinstance(about, dict) or about.get("format") != FORMAT:
        raise ValueError(f"{path} has no weights of such a network")
    if about.get("digest") != digest(arrays):
        raise ValueError(f"{path} is damaged: its numbers do not agree with its digest")
    return arrays, about


def save_network(path: Path, network: DataNetwork, sizes: Sizes, about: Mapping[str, Any]) -> None:
    arrays = {name: a.astype(np.float16) for name, a in named_arrays(network).items()}
    write_arrays(path, arrays, {"sizes": sizes._asdict(), **about})


def load_network(path: Path) -> tuple[DataNetwork, dict[str, Any]]:
    """The network in float32, and what its file says of its training."""
    arrays, about = read_arrays(path)
    try:
        sizes = Sizes(**{name: int(value) for name, value in about["sizes"].items()})
        shape = eqx.filter_eval_shape(lambda: DataNetwork.create(sizes, key=jax.random.key(0)))
    except (KeyError, TypeError, ValueError, AttributeError):
        raise ValueError(f"{path} does not say of what sizes its network is") from None
    return with_arrays(shape, arrays), about
