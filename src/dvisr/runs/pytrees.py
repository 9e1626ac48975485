"""Pytrees of JAX as named arrays, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from dvisr.runs.files import BrokenFile


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
