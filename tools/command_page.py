"""The page of commands, of what the commands say of themselves.

python -m tools.command_page       writes docs/command-line.md
"""

from __future__ import annotations

import re
from pathlib import Path

import click

from dvisr.cli import COMMANDS, cli

PAGE = Path("docs/command-line.md")
HEAD = """# The command line

Written by `python -m tools.command_page` from the commands themselves; `dvisr COMMAND --help` has
the same.

`--json` prints one JSON object on standard output and nothing else there. Progress and messages go
to standard error. Exit status: 0 done, whatever the verdict; 1 a check that was asked for failed
(`verify`, `reproduce`); 2 the request or its input was wrong, with one line that says what to mend;
130 interrupted and 143 told to end, with what was done kept.
"""


def page() -> str:
    parts = [HEAD, "| command | |\n| --- | --- |\n"]
    parts[-1] += "".join(
        f"| [`{name}`](#dvisr-{name}) | {text} |\n" for name, text in COMMANDS.items()
    )
    context = click.Context(cli, info_name="dvisr")
    for name in COMMANDS:
        command = cli.get_command(context, name)
        assert command is not None
        parts.append(section(name, command, click.Context(command, info_name=name, parent=context)))
    parts.append(COMPLETION)
    return "\n".join(parts)


def section(name: str, command: click.Command, context: click.Context) -> str:
    usage = " ".join(command.collect_usage_pieces(context))
    told = [line.strip() for line in (command.help or "").replace("\b", "").splitlines()]
    records = [
        record
        for parameter in command.params
        if isinstance(parameter, click.Option)
        and (record := parameter.get_help_record(context)) is not None
    ]
    rows = "".join(f"| `{cell(option)}` | {escaped(text)} |\n" for option, text in records)
    table = f"\n| option | |\n| --- | --- |\n{rows}" if rows else ""
    return f"## dvisr {name}\n\n`dvisr {name} {usage}`\n\n" + "\n".join(told).strip() + f"\n{table}"


def cell(text: str) -> str:
    return re.sub(r"\s+", " ", text).replace("|", "\\|")


def escaped(text: str) -> str:
    """Text in which Markdown finds nothing to do."""
    return re.sub(r"([*_`<\[\]])", r"\\\1", cell(text))


COMPLETION = """## Completion

```console
eval "$(_DVISR_COMPLETE=bash_source dvisr)"
```

in `~/.bashrc` (`zsh_source` in `~/.zshrc`; for fish, `_DVISR_COMPLETE=fish_source dvisr | source`
in its `config.fish`) has the shell complete commands and their options.
"""


def main() -> None:
    PAGE.write_text(page(), "utf-8")


if __name__ == "__main__":
    main()
