"""`dvisr pretrain`."""

from __future__ import annotations

import dataclasses
import time
from pathlib import Path
from typing import Any

import click

_HELD_OUT = 8192  # laws
_LINES = 20.0  # seconds between two


@click.command
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--tree-prior", default="science", show_default=True, help="science or science:FILE.")
@click.option("--steps", default=30_000, show_default=True, type=click.IntRange(min=1))
@click.option(
    "--cool",
    default=12_000,
    show_default=True,
    type=click.IntRange(min=0),
    help="Last steps, over which the rate of learning falls to nothing.",
)
@click.option(
    "--checkpoint",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where to keep the state of the training; goes on from it if it is there.",
)
@click.option(
    "--begin-with",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="Weights to begin with, in the place of random ones, such as an earlier OUT.",
)
@click.option("--seconds", type=float, help="Stop after so long, with a checkpoint.")
@click.option("--batch", default=4096, show_default=True, type=click.IntRange(min=1))
@click.option("--rate", default=2e-3, show_default=True, help="Of learning.")
@click.option("--width", default=256, show_default=True)
@click.option("--reader-layers", default=4, show_default=True)
@click.option("--decoder-layers", default=4, show_default=True)
@click.option("--seed", default=0, show_default=True)
def pretrain(
    out: Path,
    tree_prior: str,
    steps: int,
    cool: int,
    checkpoint: Path | None,
    begin_with: Path | None,
    seconds: float | None,
    **numbers: Any,
) -> None:
    """Draw laws from a prior and train a network to read them off their tables; write its weights
    to OUT.

    An H200 makes some 25 steps a second, of 4,096 laws each.
    """  # fmt: skip
    import jax

    from dvisr.policy.conditioned import Sizes
    from dvisr.pretraining.laws import LawMaker, LawSettings
    from dvisr.pretraining.training import Trainer, TrainingSettings, draw_good, held_out
    from dvisr.pretraining.weights import save_network

    sizes = Sizes(numbers["width"], numbers["reader_layers"], numbers["decoder_layers"])
    settings = dataclasses.replace(
        TrainingSettings(), batch=numbers["batch"], rate=numbers["rate"], seed=numbers["seed"]
    )
    maker = LawMaker.create(lambda grammar: _prior(tree_prior, grammar), LawSettings())
    trainer = Trainer(maker, sizes, settings)
    if begin_with is not None:
        trainer.begin_with(begin_with)
    if checkpoint is not None and checkpoint.exists():
        trainer.resume(checkpoint)
        click.echo(f"going on from step {trainer.step} of {checkpoint}")
    began = latest = time.perf_counter()

    def report(step: int, loss: float, prior: float) -> None:
        nonlocal latest
        if time.perf_counter() - latest > _LINES:
            latest = time.perf_counter()
            left = (steps - step) * (latest - began) / max(step - first, 1)
            click.echo(
                f"step {step}: {loss:.3f} nats a law (the prior {prior:.3f}), {left:.0f} s left"
            )

    first = trainer.step
    try:
        trainer.train(steps, cool=cool, seconds=seconds or float("inf"), report=report)
    finally:
        if checkpoint is not None:
            trainer.save(checkpoint)
    laws = draw_good(maker, jax.random.key(settings.seed + 1), _HELD_OUT, 4.0)
    by_network, by_prior = held_out(trainer.state.network, maker, laws)
    about = {
        "tree_prior": tree_prior,
        "steps": trainer.step,
        "held_out": float(by_network.mean()),
        "prior": float(by_prior.mean()),
        "training": dataclasses.asdict(settings),
        "laws": dataclasses.asdict(maker.settings),
    }
    save_network(out, trainer.state.network, sizes, about)
    click.echo(
        f"{out}: {trainer.step} steps, {by_network.mean():.3f} nats a law on "
        f"{len(by_network)} laws held out (the prior {by_prior.mean():.3f})"
    )


def _prior(choice: str, grammar: Any) -> Any:
    from dvisr.prior import named

    return named.tree_prior(choice, grammar)
