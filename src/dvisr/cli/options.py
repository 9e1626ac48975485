"""Kinds of options that several commands take."""

from __future__ import annotations

import csv
from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


class Noise(click.ParamType):
    name = "noise"

    def convert(self, value: Any, param: Any, ctx: Any) -> str:
        from dvisr.noise import noise_model

        try:
            noise_model(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        return str(value)


def noise_option(help_text: str = "") -> Callable[[F], F]:
    """`--noise`, the same for every command that has a likelihood."""
    return click.option(
        "--noise",
        "--likelihood-std",
        type=Noise(),
        metavar="NUMBER|infer|student[:NU[,SCALE]]|relative[:SCALE]",
        default=None,
        help=help_text
        or "Standard deviation of Gaussian noise, infer, student (for outliers), student:NU, "
        "relative (in proportion to a positive target). By default infer; with --err, 1: the "
        "error bars themselves.",
    )


COUNT = click.IntRange(min=1)
SECONDS = click.FloatRange(min=0.0, min_open=True)
SEED = click.IntRange(min=0, max=2**32 - 1)


def chosen_noise(noise: str | None, err: str | None) -> str:
    """Error bars that were measured are believed unless something else is asked for."""
    if noise is not None:
        return noise
    return "infer" if err is None else "1"


def table_options(command: F) -> F:
    """The table (a path, or - for standard input), and what its columns are."""
    for decorate in (
        click.option("--err", help="A column with the standard deviation of each row's noise."),
        click.option(
            "--features",
            callback=names,
            help="Columns to explain it by, as a,b; by default all others.",
        ),
        click.option("--target", required=True, help="The column to explain."),
        click.argument("data", type=click.Path(allow_dash=True)),
    ):
        command = decorate(command)
    return command


def grammar_options(*, constraints: str, tree_prior: str) -> Callable[[F], F]:
    """Which trees are allowed and how probable they are beforehand, with a command's defaults."""

    def decorate(command: F) -> F:
        command = click.option(
            "--tree-prior",
            default=tree_prior,
            show_default=True,
            help="science (how formulas are written), science:FILE, size-balanced, uniform, "
            "allowed, weights, or weights:sin=0.5,exp=0.1.",
        )(command)
        return click.option(
            "--constraints",
            default=constraints,
            show_default=True,
            help="paper, default, none, or a list such as no-nested-trig,max-depth=3.",
        )(command)

    return decorate


def names(_: Any, __: Any, value: str | None) -> tuple[str, ...] | None:
    """The callback of an option that lists columns, as a,b; quoted where a name has a comma."""
    if value is None:
        return None
    try:
        return tuple(name.strip() for name in next(csv.reader([value])) if name.strip())
    except csv.Error as error:
        raise click.BadParameter(f"the list can't be read: {error}") from None
