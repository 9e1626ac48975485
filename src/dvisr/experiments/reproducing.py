"""Many experiments in turn, each kept when it is done."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from dvisr.experiments.checks import failures
from dvisr.experiments.paper import LARGEST_SIZE, Experiment, experiments
from dvisr.experiments.results import Result, load_result, save_result
from dvisr.experiments.running import run
from dvisr.recipes import Recipe, find_recipe
from dvisr.runs import BrokenFile

_COMPILING = 5e10  # multiplications that take as long
_FIXED = 1e4  # ... as what a token takes besides the network
_DOUBLE = 1.7  # how much longer float64 takes


@dataclasses.dataclass(frozen=True)
class Reproduction:
    experiment: Experiment
    result: Result
    failures: list[str]


def reproduce(
    chosen: Sequence[Experiment],
    recipe_name: str,
    seed: int,
    *,
    num_steps: int | None = None,
    num_samples: int | None = None,
    out: Path | None = None,
    on_progress: Callable[[str, float], None] = lambda name, fraction: None,
    on_result: Callable[[Reproduction], None] = lambda reproduction: None,
    on_note: Callable[[str], None] = lambda text: None,
) -> list[Reproduction]:
    """Run experiments one after the other. With `out`, finished ones are kept there and found
    again, and an unfinished one goes on where it was interrupted. Steps and samples a step are the
    paper's where they are not given.

    `on_progress` is told the experiment's name and the fraction of all the work that is done,
    `on_note` what was found in `out`.
    """
    recipes = [find_recipe(recipe_name, e.kind, num_steps, num_samples) for e in chosen]
    for experiment, recipe in zip(chosen, recipes, strict=True):
        recipe.check(experiment.problem.grammar)
    work = [_work(e, recipe) for e, recipe in zip(chosen, recipes, strict=True)]
    if out is not None:
        _make_folder(out)
    found: list[Reproduction] = []
    for number, (experiment, recipe) in enumerate(zip(chosen, recipes, strict=True)):

        def report(fraction: float, number: int = number) -> None:
            done = sum(work[:number]) + fraction * work[number]
            on_progress(chosen[number].name, done / sum(work))

        report(0.0)
        settings = _settings(experiment, recipe_name, recipe, seed)
        budget = [recipe.num_steps, recipe.objective.num_samples]
        settings["budget"] = [None, None] if budget == _papers_budget(experiment) else budget
        result = _kept(out, experiment, settings, on_note)
        if result is None:
            result = run(
                experiment,
                recipe,
                settings,
                checkpoint=None if out is None else _file(out, "unfinished", experiment),
                progress=report,
            )
            if out is not None:
                save_result(_file(out, "results", experiment), result)
                _file(out, "unfinished", experiment).unlink(missing_ok=True)
        found.append(Reproduction(experiment, result, failures(experiment, result)))
        on_result(found[-1])
    return found


def _work(experiment: Experiment, recipe: Recipe) -> float:
    """How long an experiment takes, in some unit: for the time left."""
    factor = _DOUBLE if experiment.precision == "float64" else 1.0
    samples = recipe.num_steps * recipe.objective.num_samples * experiment.num_runs
    return factor * samples * experiment.max_tokens * (recipe.policy.work + _FIXED) + _COMPILING


def _settings(
    experiment: Experiment, recipe_name: str, recipe: Recipe, seed: int
) -> dict[str, Any]:
    """All that a result depends on, as JSON has it."""
    parts = {f.name: _described(getattr(recipe, f.name)) for f in dataclasses.fields(recipe)}
    return {
        "version": version("dvisr"),
        "experiment": experiment.name,
        "num_runs": experiment.num_runs,
        "precision": experiment.precision,
        "seed": seed,
        "recipe": recipe_name,
        **parts,
    }


def _papers_budget(experiment: Experiment) -> list[int]:
    paper = find_recipe("paper", experiment.kind)
    return [paper.num_steps, paper.objective.num_samples]


def _described(part: Any) -> str:
    """As it would be written, with all of its settings, those that have a default included."""
    if not dataclasses.is_dataclass(part):
        return part.__name__ if isinstance(part, type) else repr(part)
    if isinstance(part, type):
        return part.__name__
    settings = [f"{f.name}={_described(getattr(part, f.name))}" for f in dataclasses.fields(part)]
    return f"{type(part).__name__}({', '.join(settings)})"


def _kept(
    out: Path | None,
    experiment: Experiment,
    settings: dict[str, Any],
    on_note: Callable[[str], None],
) -> Result | None:
    """An earlier result of the same settings. One of others, or a broken file, is run again."""
    if out is None:
        return None
    path = _file(out, "results", experiment)
    if not path.is_file():
        if _file(out, "unfinished", experiment).exists():
            on_note(f"{experiment.name}: going on where it was interrupted, if nothing has changed")
        return None
    try:
        result = load_result(path)
    except BrokenFile as error:
        on_note(f"{experiment.name}: run again, since {error}")
        return None
    if result.settings != settings:
        on_note(f"{experiment.name}: run again, since the result in {out} is of other settings")
        return None
    on_note(f"{experiment.name}: taken from {out}, where it was finished before")
    return result


def everything_in(out: Path, found: Sequence[Reproduction]) -> list[Reproduction]:
    """What was found, and besides it what `out` holds of the same recipe, budget, seed and
    version: a page about a part of the experiments must not replace one about all."""
    if not found:
        return []
    same = ("recipe", "seed", "version", "budget")
    wanted = {key: found[0].result.settings[key] for key in same}
    by_name = {one.experiment.name: one for one in found}
    for experiment in experiments("all", tuple(range(1, LARGEST_SIZE + 1))):
        path = _file(out, "results", experiment)
        if experiment.name in by_name or not path.exists():
            continue
        try:
            result = load_result(path)
        except BrokenFile:
            continue
        if {key: result.settings.get(key) for key in same} == wanted:
            of_file = dataclasses.replace(experiment, num_runs=len(result.kl))
            checked = Reproduction(of_file, result, failures(of_file, result))
            by_name[experiment.name] = checked
    order = [one.name for one in experiments("all", tuple(range(1, LARGEST_SIZE + 1)))]
    return sorted(by_name.values(), key=lambda one: order.index(one.experiment.name))


def _file(out: Path, folder: str, experiment: Experiment) -> Path:
    return out / folder / f"{experiment.name.replace('/', '-')}.safetensors"


def _make_folder(out: Path) -> None:
    """Before hours of work, not after."""
    try:
        for name in ("results", "unfinished", "figures"):
            (out / name).mkdir(parents=True, exist_ok=True)
            probe = out / name / ".probe"
            probe.write_bytes(b"")
            probe.unlink()
        if (out / "index.html").is_dir():
            raise IsADirectoryError(0, "index.html is a folder")
    except OSError as error:
        raise ValueError(
            f"can't write to {out} ({error.strerror}): choose another folder with --out"
        ) from None
