"""Notebooks of docs/notebooks as pages of the site, with what they showed when they were last run:
a hook of MkDocs (`mkdocs.yml`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files


def on_files(files: Files, *, config: Any) -> Files:
    """Each notebook is a page; the file itself stays beside it, to be downloaded."""
    for path in sorted(Path(config["docs_dir"]).glob("notebooks/*.ipynb")):
        name = f"notebooks/{path.stem}.md"
        files.append(File.generated(config, name, content=page_of(path)))
    return files


def page_of(path: Path) -> str:
    notebook = json.loads(path.read_text("utf-8"))
    parts = [_cell(cell) for cell in notebook["cells"]]
    parts.append(f"[The notebook itself]({path.name}), to be run.")
    return "\n\n".join(part for part in parts if part) + "\n"


def _cell(cell: dict[str, Any]) -> str:
    text = "".join(cell["source"]).strip()
    if cell["cell_type"] == "markdown":
        return text
    lines = [line for line in text.splitlines() if not line.startswith("%")]
    code = "\n".join(lines).strip()
    shown = [f"```python\n{code}\n```"] if code else []
    return "\n\n".join([*shown, *(_output(output) for output in cell["outputs"])])


def _output(output: dict[str, Any]) -> str:
    """A picture, or text, indented and so set as it is; what has HTML has text too."""
    found = output.get("data", {})
    if "image/png" in found:
        return f"![A figure](data:image/png;base64,{''.join(found['image/png']).strip()})"
    text = "".join(output.get("text", found.get("text/plain", "")))
    return "\n".join(f"    {line}" for line in text.rstrip().splitlines())


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """Links to a notebook, which a reader of the files follows as they are, lead to its page."""
    return markdown.replace(".ipynb)", ".md)") if page.file.src_uri == "index.md" else markdown
