"""The examples on a page of the documentation, run."""

from __future__ import annotations

import contextlib
import functools
import io
import re
from pathlib import Path
from types import ModuleType

DOCS = Path(__file__).parent.parent / "docs"
_CODE = re.compile(r"```python\n(.*?)```(?:\n+```text\n(.*?)```)?", re.DOTALL)


def code_of(page: str, heading: str) -> tuple[str, str]:
    """The only example in a section of a page, and what it is said to print."""
    text = (DOCS / page).read_text()
    sections = re.split(r"^## ", text, flags=re.MULTILINE)
    (section,) = [part for part in sections if part.startswith(f"{heading}\n")]
    ((code, output),) = _CODE.findall(section)
    return code, output


@functools.cache
def example(page: str, heading: str) -> ModuleType:
    """The example as a module that was run, once for all tests; what it prints is what the page
    says that it prints."""
    code, output = code_of(page, heading)
    module = ModuleType(f"page_{heading.lower().replace(' ', '_')}")
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        made = compile(code, f"{page}, {heading}", "exec", dont_inherit=True)
        exec(made, module.__dict__)  # noqa: S102
    assert printed.getvalue() == output
    return module
