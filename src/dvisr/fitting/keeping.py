"""A search that is kept on disk while it is made, and goes on from what was kept."""

from __future__ import annotations

import abc

from dvisr.fitting.search import Search
from dvisr.fitting.snapshots import Snapshot, restore, taken


class AbstractKeeper(abc.ABC):
    """Keeps a search on disk while it is made, and has what was kept of it before."""

    @abc.abstractmethod
    def kept(self) -> Snapshot | None:
        """Where the search goes on from; None for the beginning."""

    @abc.abstractmethod
    def after_step(self, snapshot: Snapshot) -> None: ...

    @abc.abstractmethod
    def after_search(self) -> None:
        """Before what was found is weighed."""


def keep(search: Search, keeper: AbstractKeeper, num_steps: int | None) -> None:
    """Go on from what was kept; keep every whole step from there on."""
    if search.is_enumerated:
        return
    snapshot = keeper.kept()
    if snapshot is not None and snapshot.serves(num_steps):
        try:
            restore(search, snapshot)
        except (KeyError, TypeError, IndexError, AttributeError, ValueError) as error:
            raise ValueError(
                f"what was kept of the search is not as it was written ({error}): fit again"
            ) from None
    search.after_step = lambda: keeper.after_step(taken(search, num_steps))


def nothing() -> None:
    """After a step of a search that is not kept."""
