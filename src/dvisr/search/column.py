"""An array that grows."""

from __future__ import annotations

import numpy as np


class Column:
    """An array whose rows can be added to, at amortised constant cost a row."""

    def __init__(self, dtype: type, width: int | None = None) -> None:
        shape = (1024,) if width is None else (1024, width)
        self._room: np.ndarray = np.zeros(shape, dtype=dtype)
        self._used = 0

    def extend(self, rows: np.ndarray) -> None:
        needed = self._used + len(rows)
        if needed > len(self._room):
            grown = np.zeros((2 * needed, *self._room.shape[1:]), dtype=self._room.dtype)
            grown[: self._used] = self.rows
            self._room = grown
        self._room[self._used : needed] = rows
        self._used = needed

    @property
    def rows(self) -> np.ndarray:
        return self._room[: self._used]

    def replace(self, rows: np.ndarray) -> None:
        self._used = 0
        self.extend(rows)

    def keep(self, chosen: np.ndarray) -> None:
        kept = self.rows[chosen].copy()
        self._room[: len(kept)] = kept
        self._used = len(kept)
