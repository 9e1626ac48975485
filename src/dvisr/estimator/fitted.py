"""Whether there is an answer yet."""

from __future__ import annotations

from typing import Any


def check_is_fitted(model: Any) -> None:
    """scikit-learn's `NotFittedError`, imported where it is needed, if there is none."""
    if not model.__sklearn_is_fitted__():
        from sklearn.exceptions import NotFittedError

        raise NotFittedError(
            f"this {type(model).__name__} is not fitted yet: call its fit with a table first"
        )
