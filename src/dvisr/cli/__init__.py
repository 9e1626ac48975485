"""The command line: parses, calls, prints.

Each command is a module of its own name with a function of that name, and a line in `COMMANDS`. A
module is imported when its command is asked for, and what takes long to import only when its work
begins: help, and most wrong requests, need neither.
"""

from __future__ import annotations

import atexit
import difflib
import errno
import gc
import importlib
import os
import sys

import click
from click.shell_completion import CompletionItem

import dvisr
from dvisr.cli.status import INTERRUPTED, OK, TERMINATED, WRONG_REQUEST
from dvisr.fitting.beside import is_busy
from dvisr.text import printable

COMMANDS = {
    "demo": "Fit a small built-in table and write a report on it.",
    "fit": "The posterior over formulas for your data.",
    "resume": "Go on with a fit that was broken off, or give it more steps.",
    "compare": "Formulas that you name, weighed against each other.",
    "predict": "New rows, predicted by a saved fit.",
    "report": "A saved fit as one HTML file to look at and to send.",
    "export": "A saved fit as text, LaTeX, Python, SymPy, JSON or CSV.",
    "verify": "Check that every file of a saved fit is as it was written.",
    "exact": "The exact posterior over all small expressions.",
    "reproduce": "The paper's experiments, beside the paper's numbers.",
    "pretrain": "Train the network that reads data, for your own field.",
}

_SELDOM = (50_000, 20, 100)  # new objects after which cycles are looked for, by generation
_IN_PYTHON = {"random_state": "--seed", "run_dir": "--out", "y_err": "--err"}  # else the same word


class _LateGroup(click.Group):
    """Imports a command when it is run, or when its own help is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"dvisr.cli.{cmd_name}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            close = difflib.get_close_matches(name, COMMANDS, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"there is {', '.join(COMMANDS)}"
            raise click.UsageError(f"No such command {name!r}: {hint}", ctx)
        return super().resolve_command(ctx, args)

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:  # click would print an empty line, too
            click.echo("dvisr: interrupted", err=True)
            raise click.exceptions.Exit(INTERRUPTED) from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        offers = [
            CompletionItem(name, help=text)
            for name, text in COMMANDS.items()
            if name.startswith(incomplete)
        ]
        return [*offers, *click.Command.shell_complete(self, ctx, incomplete)]


def main() -> None:
    """The `dvisr` command: it runs, and the process ends."""
    # What is imported stays. Looking for cycles in it takes a second while it comes in, and most of
    # a second at the end of the process.
    gc.set_threshold(*_SELDOM)
    atexit.register(gc.freeze)
    code = run()
    if code in (INTERRUPTED, TERMINATED) or is_busy():
        # Compiled code may still be running in threads of its own, and an interpreter that shuts
        # down under it can crash, or waits for it. There is nothing to tidy up: every file is
        # whole.
        sys.stderr.flush()
        sys.stdout.flush()
        os._exit(code)
    sys.exit(code)


def run() -> int:
    """What the command's words ask for; the status that a process exits with. A wrong request is
    one line on standard error and status 2."""
    try:
        code = cli.main(standalone_mode=False, prog_name="dvisr")
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.NoSuchOption as error:
        path = "dvisr" if error.ctx is None else error.ctx.command_path
        said = f"{error.format_message().rstrip('.')}: {path} --help lists them"
        code = _fail(_other_option(error) or said)
    except click.MissingParameter as error:
        path = "dvisr" if error.ctx is None else error.ctx.command_path
        code = _fail(f"{error.format_message().rstrip('.')}: {path} --help says what it is")
    except click.ClickException as error:
        code = _fail(error.format_message())
    except (ValueError, MemoryError) as error:
        code = _fail(str(error) or "there is not enough memory for this: lower --max-tokens")
    except BrokenPipeError:  # `dvisr ... | head`: the reader has gone, which is no failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = OK
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        cure = "make room there, or choose another place" if full else "choose another place"
        code = _fail(f"{place}{error.strerror or error}: {cure}")
    except (KeyboardInterrupt, click.Abort):
        click.echo("dvisr: interrupted", err=True)
        code = INTERRUPTED
    except SystemExit as told:  # by a signal, or once a shell's completion was answered
        code = told.code
    return code if isinstance(code, int) else OK


def _other_option(error: click.NoSuchOption) -> str | None:
    """By a name that it has in Python or in another package."""
    from dvisr.neighbours import OURS

    name = error.option_name.lstrip("-").replace("-", "_")
    words = OURS.get(name, name).replace("=", " ").replace(",", " ").split()
    if not words:
        return None
    own = _IN_PYTHON.get(words[0], f"--{words[0].replace('_', '-')}")
    known = [] if error.ctx is None else error.ctx.command.params
    if not any(own in parameter.opts for parameter in known) or error.ctx is None:
        return None
    return f"No such option {error.option_name!r}: use {own}, see {error.ctx.command_path} --help"


def _fail(message: str) -> int:
    click.echo(f"dvisr: {printable(' '.join(message.split()))}", err=True)
    return WRONG_REQUEST


@click.group(
    cls=_LateGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    invoke_without_command=True,
    epilog="""\b
To have the shell complete commands and options:
  ~/.bashrc    eval "$(_DVISR_COMPLETE=bash_source dvisr)"
  ~/.zshrc     eval "$(_DVISR_COMPLETE=zsh_source dvisr)"
  config.fish  _DVISR_COMPLETE=fish_source dvisr | source""",
)
@click.version_option(dvisr.__version__, prog_name="dvisr")
@click.pass_context
def cli(context: click.Context) -> None:
    """Symbolic regression with a posterior: which formulas, with what probability."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())
