"""Where commands write: a folder that is fit for it, a file that is whole or not there."""

from __future__ import annotations

import os
from pathlib import Path

import click


def check_folder(path: Path) -> None:
    """A `ValueError` where no folder can be made or written to: before the work, not after it."""
    place = path
    while not place.exists() and place != place.parent:
        place = place.parent
    if not place.is_dir():
        raise ValueError(f"{str(place)!r} is a file, and a folder is needed: choose another name")
    if not os.access(place, os.W_OK | os.X_OK):
        raise ValueError(f"the folder {str(place)!r} can't be written to: choose another one")


def write_text(text: str, out: str | None) -> None:
    """To a file, or to standard output where there is none or it is `-`."""
    if out is None or out == "-":
        click.echo(text, nl=not text.endswith("\n"))
        return
    path = Path(out)
    if path.is_dir():
        raise ValueError(f"{out!r} is a folder: give the name of a file")
    from dvisr.runs.files import whole  # it imports NumPy, which help can do without

    with whole(path) as place, place.open("w", encoding="utf-8", newline="") as file:
        file.write(text if text.endswith("\n") else text + "\n")
