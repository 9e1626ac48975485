"""Settings as TOML that people can read: what the standard library reads but does not write."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dvisr.runs.files import BrokenFile

_BARE = re.compile(r"[A-Za-z0-9_-]+")
_DEEPEST = 20  # tables in tables


def to_toml(values: Mapping[str, Any]) -> str:
    """Text, numbers, booleans, lists and tables of these. What is None is left out: TOML has no
    word for it."""
    return "\n".join(_table(values, ())).lstrip("\n") + "\n"


def from_toml(content: bytes, path: Path) -> dict[str, Any]:
    """`BrokenFile` for what is no TOML, or is nested deeper than settings are."""
    try:
        found = tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0]
        raise BrokenFile(f"{path} can't be read ({reason}): take it from a copy") from None
    if _depth(found) > _DEEPEST:
        raise BrokenFile(f"{path} is nested too deeply to be settings: take it from a copy")
    return found


def _table(values: Mapping[str, Any], names: tuple[str, ...]) -> list[str]:
    lines = [f"\n[{'.'.join(map(_key, names))}]"] if names else []
    tables = {name: value for name, value in values.items() if isinstance(value, Mapping)}
    for name, value in values.items():
        if name not in tables and value is not None:
            lines.append(f"{_key(name)} = {_written(value)}")
    for name, table in tables.items():
        lines += _table(table, (*names, name))
    return lines


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (int, float)):
        return repr(value)
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_written(part) for part in value)}]"
    raise TypeError(f"{value!r} has no place in TOML")


def _text(text: str) -> str:
    """JSON's text is TOML's, but for one character that must be escaped here, and halves of
    characters, which have no place in a file."""
    whole = text.encode(errors="replace").decode()
    return json.dumps(whole, ensure_ascii=False).replace("\x7f", "\\u007f")


def _depth(value: Any) -> int:
    deepest, rest = 0, [(value, 1)]
    while rest:
        part, depth = rest.pop()
        inside = part.values() if isinstance(part, dict) else part if isinstance(part, list) else ()
        deepest = max(deepest, depth)
        rest += [(one, depth + 1) for one in inside]
    return deepest
