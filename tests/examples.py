"""Examples of pages: what is typed, and what the page says comes of it.

`python -m tests.examples PAGE` runs those of a page and prints what each gives.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
COMMAND = "from dvisr.cli import main; main()"
BETWEEN = "\x1e"  # printed after each example

_BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[-+]?\d+)?")
_THOUSANDS = re.compile(r"\d{1,3}(?:,\d{3})+")
_FRAME = re.compile(r"[━─┃│┏┓┗┛┡┩┳┻╇└┘┴┬├┤┼╋]+")


@dataclass(frozen=True)
class Example:
    """Python or a `dvisr` command, and the output that is shown below it, if any is."""

    kind: str
    typed: str
    shown: str | None


def blocks_of(page: str) -> list[tuple[str, str]]:
    """What follows the fence of each block of code, and what is in it."""
    return [(block.group(1), block.group(2)) for block in _BLOCK.finditer(page)]


def examples_of(page: str) -> list[Example]:
    """In the order of the page: each block of Python, each `$ dvisr` line of a console."""
    found: list[Example] = []
    blocks = list(_BLOCK.finditer(page))
    for block, after in zip(blocks, [*blocks[1:], None], strict=True):
        kind, body = block.group(1), block.group(2)
        if kind == "python":
            found.append(Example("python", body, _shown(page, block, after)))
        elif kind == "console":
            for part in re.split(r"^\$ ", body, flags=re.MULTILINE)[1:]:
                line, _, output = part.partition("\n")
                if line.startswith("dvisr "):
                    found.append(Example("console", line.removeprefix("dvisr "), output or None))
    return found


def _shown(page: str, block: re.Match[str], after: re.Match[str] | None) -> str | None:
    """The block of text right below a block of Python."""
    if after is None or after.group(1) != "text" or page[block.end() : after.start()].strip():
        return None
    return after.group(2)


def outputs_of(examples: list[Example], folder: Path) -> list[str]:
    """What they print, run one after the other in one Python and one folder."""
    lines = ["import subprocess as _subprocess, sys as _sys"]
    for example in examples:
        if example.kind == "python":
            lines.append(example.typed)
        else:
            arguments = ["-c", COMMAND, *shlex.split(example.typed)]
            lines.append(f"_subprocess.run([_sys.executable, *{arguments!r}], check=True)")
        lines.append(f"print({BETWEEN!r}, flush=True)")
    script = folder / "examples_of_a_page.py"
    script.write_text("\n".join(lines), "utf-8")
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, cwd=folder, check=False
    )
    if done.returncode:
        raise AssertionError(f"an example failed:\n{done.stdout}\n{done.stderr}")
    return [text.lstrip("\n") for text in done.stdout.split(BETWEEN)[:-1]]


def same(shown: str, printed: str) -> bool:
    """The same words, and numbers to within a hundredth: the last digits of a fit are the
    machine's, and how many thousands of trees it visited. Spaces and frames do not count."""
    sides = [_THOUSANDS.sub("0", _FRAME.sub(" ", text)) for text in (shown, printed)]
    words = [_NUMBER.sub("0", side).split() for side in sides]
    if words[0] != words[1]:
        return False
    numbers = [[float(n) for n in _NUMBER.findall(side)] for side in sides]
    return all(abs(a - b) <= 0.01 * max(1.0, abs(a), abs(b)) for a, b in zip(*numbers, strict=True))


def place_with_tables(folder: Path) -> Path:
    """The folder with the tables of examples/ in it, as a reader has them."""
    shutil.copytree(ROOT / "examples", folder / "examples", dirs_exist_ok=True)
    return folder


def main() -> None:
    place = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(tempfile.mkdtemp())
    examples = examples_of(Path(sys.argv[1]).read_text("utf-8"))
    for example, printed in zip(
        examples, outputs_of(examples, place_with_tables(place)), strict=True
    ):
        is_right = example.shown is None or same(example.shown, printed)
        print(f"---- {'as shown' if is_right else 'NOT AS SHOWN'}\n{example.typed}\n{printed}")


if __name__ == "__main__":
    main()
