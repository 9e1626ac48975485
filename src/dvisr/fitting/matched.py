"""What the data say that formulas should be: contexts filled with functions and with products of
powers, and functions paired with others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dvisr.search.pairing import Pairing
from dvisr.search.table import OutOfTime

_MOST_CONTEXTS = 300  # that functions with a constant inside are put into
_ALONE = 48  # functions with a constant inside that others are put into

if TYPE_CHECKING:
    from dvisr.fitting.search import Search
    from dvisr.search.matching import Contexts
    from dvisr.settings import SearchSettings


def said_by_the_data(search: Search, is_late: Callable[[], bool]) -> np.ndarray:
    """Trees for the start of a search; those that there was time for. What is heeded once the
    search is over gives it no more time."""
    own, phase = search.settings.search, search.teller.phase
    threads = search.engine.num_threads
    found = [np.zeros((0, search.problem.grammar.max_tokens), dtype=np.int8)]
    contexts = None  # a limit may move, where something was compiled meanwhile
    with contextlib.suppress(OutOfTime):
        if _needs_contexts(own) and not is_late():
            with phase("matching parts of formulas to the data") as tell:
                contexts = search.matching.likely_contexts(is_late)
                if most := own.matched_at_start:
                    found.append(search.matching.filled(contexts, most, None, is_late, tell))
        if contexts is not None and own.powers_at_start and not is_late():
            with phase("looking for products of powers") as tell:
                most = own.powers_at_start
                pairs = own.power_pairs
                found.append(search.powers.filled(contexts, most, pairs, threads, is_late))
                found.append(search.powers.pairs(most, threads, is_late, tell))
        if contexts is not None and own.inner_at_start and not is_late():
            with phase("looking for functions with a constant inside"):
                found += filled_with_inner(search, contexts, is_late)
        if own.paired_at_start and not is_late():
            with phase("pairing functions") as tell:
                pairing = Pairing(search.problem, search.matching, own.pair_functions)
                found.append(pairing.likeliest(own.paired_at_start, threads, is_late, tell))
    return np.concatenate(found)


def filled_with_inner(
    search: Search, contexts: Contexts, is_late: Callable[[], bool]
) -> list[np.ndarray]:
    """Functions with a constant inside: in the holes of likely contexts; by themselves, whatever
    each of them is worth; and with another function, of either kind, in each place of these."""
    own, inner, threads = search.settings.search, search.inner, search.engine.num_threads
    most = own.inner_at_start
    filled = inner.filled(contexts.first(_MOST_CONTEXTS), most, threads, is_late)
    alone = inner.alone(contexts, _ALONE, is_late)
    if not len(alone) or is_late():
        return [filled, alone]
    places = search.matching.contexts_of(alone, is_late)
    functions = search.matching.filled(places, most // 2, own.step_functions, is_late)
    return [filled, alone, functions, inner.filled(places, most, threads, is_late)]


def list_functions(search: Search, is_late: Callable[[], bool]) -> None:
    """Those that the start of a search fills contexts with."""
    if _needs_contexts(search.settings.search):
        with contextlib.suppress(OutOfTime), search.teller.phase("listing likely functions"):
            search.matching  # noqa: B018
            if search.settings.search.inner_at_start and not is_late():
                search.inner  # noqa: B018


def _needs_contexts(own: SearchSettings) -> bool:
    return bool(own.matched_at_start or own.powers_at_start or own.inner_at_start)
