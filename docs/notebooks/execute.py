"""Run the notebooks of this folder and store what they show: `make notebooks`."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

FOLDER = Path(__file__).parent


def execute(path: Path) -> None:
    """In place, without the times of the run, which would differ every time."""
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(FOLDER)}}
    NotebookClient(notebook, timeout=600, record_timing=False, resources=resources).execute()
    notebook.metadata["language_info"] = {"name": "python"}
    nbformat.write(notebook, path)


if __name__ == "__main__":
    for file in sorted(FOLDER.glob("*.ipynb")):
        execute(file)
        print(f"{file.name}: {file.stat().st_size / 1000:.0f} kB")
