"""Arrays and settings in one file that is whole or not there: safetensors, written beside its place
and moved into it, with a digest of everything. Nothing in such a file is ever executed."""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

_META, _DIGEST = "dvisr", "sha256"


class BrokenFile(ValueError):
    """A file that is no file of ours, or was damaged."""


def save(path: Path, arrays: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{threading.get_ident()}")
    try:
        contiguous = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        text = json.dumps(meta, allow_nan=False)
        digest = _digest(contiguous, text)
        save_file(contiguous, temporary, metadata={_META: text, _DIGEST: digest})
        os.replace(temporary, path)
    except SafetensorError as error:  # a full disk, say
        temporary.unlink(missing_ok=True)
        raise OSError(0, str(error), str(path)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def load(path: Path) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    """`BrokenFile` for anything that `save` did not write."""
    try:
        with safe_open(path, framework="numpy") as file:
            held = file.metadata() or {}
            arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            if _digest(arrays, held[_META]) != held[_DIGEST]:
                raise BrokenFile("its contents are not what was written")
            meta = json.loads(held[_META])
    except (SafetensorError, KeyError, ValueError, OSError, TypeError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise BrokenFile(f"{path} can't be read ({reason}): delete it and run again") from None
    if not isinstance(meta, dict):
        raise BrokenFile(f"{path} is not a file of dvisr: delete it and run again")
    return arrays, meta


def _digest(arrays: Mapping[str, np.ndarray], text: str) -> str:
    found = hashlib.sha256(text.encode())
    for name in sorted(arrays):
        array = arrays[name]
        found.update(f"{name} {array.dtype} {array.shape}".encode())
        found.update(array.tobytes())
    return found.hexdigest()


def flatten(tree: Any, prefix: str) -> dict[str, np.ndarray]:
    """A pytree's arrays by their paths; random keys as the numbers they hold."""
    leaves, _ = jax.tree_util.tree_flatten_with_path(tree)
    return {f"{prefix}{jax.tree_util.keystr(path)}": _plain(leaf) for path, leaf in leaves}


def restore(like: Any, arrays: Mapping[str, np.ndarray], prefix: str) -> Any:
    """The pytree again. `like` has its structure, shapes and types; arrays must fit them."""

    def one(path: Any, leaf: Any) -> Any:
        name = f"{prefix}{jax.tree_util.keystr(path)}"
        wanted = _plain(leaf)
        found = arrays.get(name)
        if found is None or found.shape != wanted.shape or found.dtype != wanted.dtype:
            raise BrokenFile(f"what was saved does not fit these settings ({name})")
        restored = jnp.asarray(found)
        return jax.random.wrap_key_data(restored) if _is_key(leaf) else restored

    return jax.tree_util.tree_map_with_path(one, like)


def _plain(leaf: Any) -> np.ndarray:
    return np.asarray(jax.random.key_data(leaf) if _is_key(leaf) else leaf)


def _is_key(leaf: Any) -> bool:
    return bool(jnp.issubdtype(leaf.dtype, jax.dtypes.prng_key))
