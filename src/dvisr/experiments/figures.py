"""The paper's figures, from the runs that were made."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import jax
import numpy as np

from dvisr.experiments.paper import LAWS
from dvisr.experiments.reproducing import Reproduction
from dvisr.experiments.trace import trace
from dvisr.plots import (
    draw_trace,
    new_figure,
    plot_density,
    plot_elbo,
    plot_kl,
    plot_kl_by_size,
    save_figure,
)
from dvisr.policy import AbstractPolicy
from dvisr.recipes import Recipe, find_recipe
from dvisr.runs import pytrees
from dvisr.sampling import make_writer


@dataclasses.dataclass(frozen=True)
class Drawn:
    """A figure's file without its ending, what it shows, and whose figure it is."""

    stem: str
    caption: str
    experiment: str  # a name, or "scaling" or "trace"


def draw_figures(found: Sequence[Reproduction], folder: Path) -> list[Drawn]:
    """Everything that these experiments give; each as PNG and SVG."""
    drawn = [
        figure
        for one in found
        if one.experiment.kind != "scaling"
        for figure in _of_experiment(one, folder)
    ]
    sizes = [one for one in found if one.experiment.kind == "scaling"]
    if sizes:
        drawn.append(_by_size(sizes, folder))
    for kind in ("constants", "simple"):
        first = next((one for one in found if one.experiment.kind == kind), None)
        if first is not None:
            return [_sampling(first, folder), *drawn]
    return drawn


def _of_experiment(one: Reproduction, folder: Path) -> list[Drawn]:
    experiment, result = one.experiment, one.result
    name = experiment.name.replace("/", "-")
    with_constants = "with" if experiment.has_constants else "without"
    what = f"{LAWS[experiment.law]}, {with_constants} constants, {result.runs_in_words}"
    figure = new_figure()
    axes = figure.add_subplot()
    plot_elbo(axes, result.elbo, result.log_evidence)
    axes.set_title(what, fontsize=10)
    save_figure(figure, folder / f"elbo-{name}")
    drawn = [
        Drawn(
            f"elbo-{name}",
            "ELBO of each epoch's batch, median and quartiles over runs (blue), and the log of the "
            f"evidence (orange); {what}.",
            experiment.name,
        )
    ]
    figure = new_figure()
    axes = figure.add_subplot()
    plot_kl(axes, result.log_evidence - result.elbo)
    axes.set_title(what, fontsize=10)
    save_figure(figure, folder / f"kl-{name}")
    drawn.append(
        Drawn(
            f"kl-{name}",
            "KL divergence, the log evidence less the ELBO of each epoch's batch; median and "
            f"quartiles over runs (blue), and zero (orange); {what}.",
            experiment.name,
        )
    )
    return drawn + ([_constants(one, folder, what)] if result.densities else [])


def _constants(one: Reproduction, folder: Path, what: str) -> Drawn:
    densities = one.result.densities
    figure = new_figure(3.2 * len(densities), 2.8)
    for number, density in enumerate(densities):
        axes = figure.add_subplot(1, len(densities), number + 1)
        plot_density(axes, density.values, density.exact, density.q)
        mean, std = density.moments(density.exact)
        means, stds = density.moments(density.q)
        inside = float(np.trapezoid(density.q, density.values, axis=1).min())
        outside = f"\na run has {1 - inside:.1%} outside this range" if inside < 0.999 else ""
        axes.set_title(
            f"{density.expression}\nexact {mean:.4f} ± {std:.4f}\n"
            f"q {np.median(means):.4f} ± {np.median(stds):.4f}{outside}",
            fontsize=8,
        )
        if number == 0:
            axes.legend(frameon=False, fontsize=7)
            axes.set_ylabel("density")
    stem = f"constants-{one.experiment.law}"
    save_figure(figure, folder / stem)
    return Drawn(
        stem,
        "q(c | tree) of all runs (dashed, blue) over the exact posterior of the constant "
        f"(orange); {what}.",
        one.experiment.name,
    )


def _by_size(sizes: Sequence[Reproduction], folder: Path) -> Drawn:
    figure = new_figure(6.4, 5.6)
    linear, logarithmic = figure.subplots(2, 1, sharex=True)
    plot_kl_by_size(
        linear,
        logarithmic,
        [one.experiment.max_tokens for one in sizes],
        [one.result.median_kl for one in sizes],
        [one.experiment.published_kl for one in sizes],
    )
    save_figure(figure, folder / "kl-by-size")
    return Drawn(
        "kl-by-size",
        "KL divergence of the trained q by maximum expression size, by exact summation, beside "
        "the published one, which the authors took from samples; above as in the paper, below "
        "with a logarithmic axis (values below 1e-16 are not shown there).",
        "scaling",
    )


def _sampling(one: Reproduction, folder: Path) -> Drawn:
    problem = one.experiment.problem
    with jax.enable_x64(True):
        prior = problem.tree_prior if _recipe(one).from_prior else None
        told = trace(_policy(one), make_writer(problem.grammar, prior, np.float64), problem.grammar)
    figure = new_figure(2.6 * (len(told) + 1), 6.6)
    draw_trace(figure, [token.name for token in problem.grammar.library], told)
    save_figure(figure, folder / "sampling-trace")
    return Drawn(
        "sampling-trace",
        "How an expression is sampled: an actual draw from the trained network of "
        f"{one.experiment.name}, run 0. From below: the inputs of each step, the recurrent "
        "network, the distribution of the constant, that of the token.",
        "trace",
    )


def _recipe(one: Reproduction) -> Recipe:
    settings = one.result.settings
    return find_recipe(settings["recipe"], one.experiment.kind, *settings["budget"])


def _policy(one: Reproduction) -> AbstractPolicy:
    """Run 0's trained policy, from what the result holds."""
    grammar = one.experiment.problem.grammar
    dtype = np.dtype(one.experiment.precision)
    blank = jax.vmap(lambda key: _recipe(one).policy.create(grammar, dtype, key=key))(
        jax.random.split(jax.random.key(0), len(one.result.kl))
    )
    policies = pytrees.restore(blank, one.result.policy, "policy")
    first: AbstractPolicy = jax.tree.map(lambda a: a[0], policies)
    return first
