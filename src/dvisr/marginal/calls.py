"""Compiled functions that stay functions of their own."""

from __future__ import annotations

from typing import Any

from numba import types
from numba.extending import intrinsic


@intrinsic  # type: ignore[untyped-decorator]
def stand_alone(context: Any) -> Any:
    """Called anywhere in a compiled function, it keeps that function from being copied into those
    that call it: the time that LLVM takes grows with every copy. For functions that are called a
    few times a tree: such a call counts the references to every array that it passes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), generate
