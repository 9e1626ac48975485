"""The command line: parses, calls, prints."""

from __future__ import annotations

import os
import sys

import click

from dvisr.cli.compare import compare
from dvisr.cli.console import printable
from dvisr.cli.exact import exact
from dvisr.cli.fit import demo, fit
from dvisr.cli.pretrain import pretrain
from dvisr.cli.report import report
from dvisr.cli.reproduce import reproduce

OK, FAILED_CHECK, WRONG_REQUEST, INTERRUPTED = 0, 1, 2, 130


def main() -> None:
    """The `dvisr` command: one line on standard error and exit status 2 for a wrong request."""
    try:
        code = cli.main(standalone_mode=False)
        sys.stdout.flush()
    except click.exceptions.Exit as stop:
        code = stop.exit_code
    except click.ClickException as error:
        _fail(error.format_message())
    except (ValueError, MemoryError) as error:
        _fail(str(error) or "there is not enough memory for this: lower --max-tokens")
    except BrokenPipeError:  # `dvisr ... | head`: the reader has gone, which is no failure
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(OK)
    except OSError as error:
        place = f"{error.filename}: " if error.filename else ""
        _fail(f"{place}{error.strerror or error}: make room there, or choose another place")
    except (KeyboardInterrupt, click.Abort):
        click.echo("dvisr: interrupted", err=True)
        code = INTERRUPTED
    if code == INTERRUPTED:
        # Compiled code may still be running in threads of its own, and an interpreter that shuts
        # down under it can crash. There is nothing to tidy up: every file is whole.
        sys.stderr.flush()
        os._exit(INTERRUPTED)
    sys.exit(code if isinstance(code, int) else OK)


def _fail(message: str) -> None:
    click.echo(f"dvisr: {printable(' '.join(message.split()))}", err=True)
    sys.exit(WRONG_REQUEST)


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, invoke_without_command=True)
@click.version_option(package_name="dvisr")
@click.pass_context
def cli(context: click.Context) -> None:
    """Symbolic regression with a posterior: which formulas, with what probability."""
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


cli.add_command(exact)
cli.add_command(fit)
cli.add_command(compare)
cli.add_command(report)
cli.add_command(demo)
cli.add_command(reproduce)
cli.add_command(pretrain)
