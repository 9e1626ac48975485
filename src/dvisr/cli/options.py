"""Kinds of options that several commands take."""

from __future__ import annotations

import csv
from typing import Any

import click


class Noise(click.ParamType):
    name = "NUMBER|infer"

    def convert(self, value: Any, param: Any, ctx: Any) -> float | str:
        if value == "infer":
            return "infer"
        try:
            return float(value)
        except (TypeError, ValueError):
            self.fail(f"{value!r} is neither a number nor 'infer'", param, ctx)


def names(_: Any, __: Any, value: str | None) -> tuple[str, ...] | None:
    """The callback of an option that lists columns, as a,b; quoted where a name has a comma."""
    if value is None:
        return None
    try:
        return tuple(name.strip() for name in next(csv.reader([value])) if name.strip())
    except csv.Error as error:
        raise click.BadParameter(f"the list can't be read: {error}") from None
