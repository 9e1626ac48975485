"""What the data say that formulas should be: contexts filled with functions and with products of
powers, and functions paired with others."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dvisr.search.pairing import Pairing
from dvisr.search.table import OutOfTime

if TYPE_CHECKING:
    from dvisr.fitting.search import Search


def said_by_the_data(search: Search, is_late: Callable[[], bool]) -> np.ndarray:
    """Trees for the start of a search; those that there was time for. What is heeded once the
    search is over gives it no more time."""
    own, phase = search.settings.search, search.teller.phase
    threads = search.engine.num_threads
    found = [np.zeros((0, search.problem.grammar.max_tokens), dtype=np.int8)]
    contexts = None  # a limit may move, where something was compiled meanwhile
    with contextlib.suppress(OutOfTime):
        if (own.matched_at_start or own.powers_at_start) and not is_late():
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
        if own.paired_at_start and not is_late():
            with phase("pairing functions") as tell:
                pairing = Pairing(search.problem, search.matching, own.pair_functions)
                found.append(pairing.likeliest(own.paired_at_start, threads, is_late, tell))
    return np.concatenate(found)
