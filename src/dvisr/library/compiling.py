"""Host code compiled by Numba, kept between processes (see `code_cache`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import numba
from numba import types
from numba.core import ccallback, cgutils, sigutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
)

from dvisr.library.code_cache import KeptCode


def compiled(function: Callable[..., Any]) -> Any:
    """Compile a function of a module when it is first called, and keep the code.

    The function must not be a closure, and what it was compiled from must lie in the package.
    """
    dispatcher = numba.njit(function, error_model="numpy", nogil=True)
    dispatcher._cache = KeptCode(function)
    return dispatcher


def compiled_inside(function: Callable[..., Any]) -> Any:
    """As `compiled`, for a function that only other compiled ones call: without the code that takes
    its arguments from Python, which for tuples of many arrays is most of it."""
    dispatcher = numba.njit(
        function,
        error_model="numpy",
        nogil=True,
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )
    dispatcher._cache = KeptCode(function)
    return dispatcher


def compiled_sum(function: Callable[..., Any]) -> Any:
    """As `compiled_inside`, for a function that adds up numbers of all points: in whatever order is
    quickest, many at once. In the order of the points each addition would wait for the last."""
    dispatcher = numba.njit(
        function,
        error_model="numpy",
        nogil=True,
        fastmath={"reassoc", "nsz"},
        no_cpython_wrapper=True,
        no_cfunc_wrapper=True,
    )
    dispatcher._cache = KeptCode(function)
    return dispatcher


_Function = TypeVar("_Function", bound=Callable[..., Any])


def named_for(*names: str) -> Callable[[_Function], _Function]:
    """For a closure that is compiled several times, each time of other functions: their names
    become part of its own. Compiled code finds what it calls by name and by a number that each
    process counts from 1, so that of two closures of one name, one of them kept between processes
    and one not, one could be called for the other."""

    def name(function: _Function) -> _Function:
        function.__qualname__ = ".".join((function.__qualname__, *names))
        return function

    return name


_Class = TypeVar("_Class", bound=type)


def typed_once(named_tuple: _Class) -> _Class:
    """For a named tuple whose parts have the same types in each of its instances: they are looked
    at in the first alone. To look at twenty arrays in every call takes longer than a short call."""
    known: list[Any] = []

    @typeof_impl.register(named_tuple)
    def _(value: Any, context: Any) -> Any:
        if not known:
            parts = [typeof_impl(part, context) for part in value]
            known.append(types.BaseTuple.from_types(parts, named_tuple))
        return known[0]

    return named_tuple


def compiled_callback(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile a function of a module to one that C could call, and keep the code.

    As `numba.cfunc(signature, nopython=True)`; compiled code can take it as a pointer.
    """
    callback: Any = ccallback.CFunc(
        function, sigutils.normalize_signature(signature), locals={}, options={"nopython": True}
    )
    callback._cache = KeptCode(function)
    callback.compile()
    return callback


@intrinsic
def stand_alone(context: Any) -> Any:
    """Called anywhere in a compiled function, it keeps that function from being copied into those
    that call it: the time that LLVM takes grows with every copy. For functions that are called a
    few times a tree: such a call counts the references to every array that it passes."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        builder.function.attributes.add("noinline")
        return context.get_dummy_value()

    return types.none(), generate


class Lent(types.Type):  # type: ignore[misc]
    """A named tuple that compiled functions pass on by its address; see `lent`."""

    def __init__(self, whole: Any) -> None:
        self.whole = whole
        super().__init__(name=f"Lent({whole})")

    def place(self, name: str) -> int:
        return list(self.whole.fields).index(name)


@register_model(Lent)
class _LentModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, kind: Lent) -> None:
        whole = manager.lookup(kind.whole).get_value_type()
        super().__init__(manager, kind, whole.as_pointer())


@infer_getattr
class _LentParts(AttributeTemplate):  # type: ignore[misc]
    key = Lent

    def generic_resolve(self, kind: Lent, name: str) -> Any:
        return kind.whole[kind.place(name)] if name in kind.whole.fields else None


@lower_getattr_generic(Lent)
def _part(context: Any, builder: Any, kind: Lent, value: Any, name: str) -> Any:
    place = kind.place(name)
    own = builder.load(cgutils.gep_inbounds(builder, value, 0, place))
    if not isinstance(kind.whole[place], types.Array):
        return own
    array = context.make_array(kind.whole[place])(context, builder, own)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


@intrinsic
def lent(context: Any, value: Any) -> Any:
    """A named tuple of arrays by its address, for the functions that this one calls, whose parts
    have their names as before. References to them are not counted any more: Python, which called
    this function, holds them until it returns. To pass on a tuple of many arrays, and to count
    references, which is atomic, takes longer than to work through arrays of twenty numbers.

    Before a loop over points, parts are to be taken out of it: in the loop each would be looked up
    again at every point.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return cgutils.alloca_once_value(builder, arguments[0])

    return Lent(value)(value), generate
