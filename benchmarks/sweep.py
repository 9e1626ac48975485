"""A small study of the default recipe's hyperparameters, with Optuna (pip install optuna).

    python -m benchmarks.sweep --trials 30
    python -m benchmarks.sweep --table

The first measures and puts its trials into docs/sweep.json; the second prints the table of
docs/beyond.md. Each trial trains at size 12 with a fiftieth of the paper's samples, in a few
seconds, and is judged by the mean over the seeds of log10 KL to the exact posterior. The first
trial is the default as it stands.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

from benchmarks.study import Truth, measure, scaling_problem, truth_of
from dvisr.objective import TrajectoryBalance
from dvisr.optim import Adam, CosineDecay
from dvisr.policy import PlaceInputs
from dvisr.recipes import GRUSpec, Recipe
from dvisr.sampling import StratifiedDraws

SIZE, NUM_STEPS, NUM_SAMPLES, NUM_SEEDS = 12, 200, 200, 2
DEFAULT = {
    "learning_rate": 2e-2,
    "hidden_size": 64,
    "num_layers": 1,
    "second_decay": 0.95,
    "replayed": 1.0,
    "temperature": 2.0,
}


def recipe_of(chosen: dict[str, Any]) -> Recipe:
    return Recipe(
        num_steps=NUM_STEPS,
        policy=GRUSpec(chosen["hidden_size"], chosen["num_layers"], PlaceInputs),
        objective=TrajectoryBalance(
            NUM_SAMPLES,
            num_replayed=round(chosen["replayed"] * NUM_SAMPLES),
            memory=round(16.384 * NUM_SAMPLES),
            temperature=chosen["temperature"],
            draws=StratifiedDraws(),
        ),
        optimiser=Adam(0.95, chosen["second_decay"]),
        schedule=CosineDecay(chosen["learning_rate"], NUM_STEPS),
    )


def sweep(path: Path, num_trials: int) -> None:
    import optuna  # for this alone: the package does not depend on it

    truth = truth_of(scaling_problem(SIZE))
    rows: list[dict[str, Any]] = []

    def judged(trial: Any) -> float:
        chosen = {
            "learning_rate": trial.suggest_float("learning_rate", 1e-3, 6e-2, log=True),
            "hidden_size": trial.suggest_categorical("hidden_size", [32, 64, 128]),
            "num_layers": trial.suggest_int("num_layers", 1, 2),
            "second_decay": trial.suggest_categorical("second_decay", [0.9, 0.95, 0.99, 0.999]),
            "replayed": trial.suggest_categorical("replayed", [0.0, 0.5, 1.0, 2.0]),
            "temperature": trial.suggest_float("temperature", 1.0, 4.0),
        }
        value, seconds = _judged(truth, chosen)
        rows.append({**chosen, "log10_kl": value, "seconds": seconds})
        print(rows[-1], flush=True)
        return value

    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=0))
    study.enqueue_trial(DEFAULT)
    study.optimize(judged, n_trials=num_trials)
    importances = optuna.importance.get_param_importances(
        study, evaluator=optuna.importance.PedAnovaImportanceEvaluator()
    )
    budget = {"size": SIZE, "steps": NUM_STEPS, "samples": NUM_SAMPLES, "seeds": NUM_SEEDS}
    found = {"budget": budget, "importances": importances, "trials": rows}
    path.write_text(json.dumps(found, indent=1) + "\n")


def _judged(truth: Truth, chosen: dict[str, Any]) -> tuple[float, float]:
    found = measure(truth, recipe_of(chosen), NUM_SEEDS)
    # A training that came to nothing: worse than all that could be, but a number.
    logs = [math.log10(min(kl, 100.0)) for kl in found.kl]
    return sum(logs) / len(logs), round(found.seconds, 1)


def table(found: dict[str, Any], num_shown: int = 6) -> str:
    """The first trial, which is the default, then the best and the worst; and what mattered."""
    trials = found["trials"]
    ranked = sorted(trials, key=lambda row: float(row["log10_kl"]))
    lines = [
        "| | rate | hidden | layers | second decay | replayed | temperature | KL |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
        _line("default", trials[0]),
        *[_line(f"{place}", row) for place, row in enumerate(ranked[:num_shown], start=1)],
        _line(f"{len(ranked)}", ranked[-1]),
        "",
        "| setting | importance |",
        "| --- | --- |",
        *[f"| {name} | {share:.2f} |" for name, share in found["importances"].items()],
    ]
    return "\n".join(lines)


def _line(place: str, row: dict[str, Any]) -> str:
    cells = [
        f"{row['learning_rate']:.2g}",
        f"{row['hidden_size']}",
        f"{row['num_layers']}",
        f"{row['second_decay']:g}",
        f"{row['replayed']:g}",
        f"{row['temperature']:.2g}",
        f"{10 ** row['log10_kl']:.3g}",
    ]
    return f"| {place} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=30)
    parser.add_argument("--table", action="store_true", help="print the table, measure nothing")
    parser.add_argument("--results", type=Path, default=Path("docs/sweep.json"))
    arguments = parser.parse_args()
    if arguments.table:
        print(table(json.loads(arguments.results.read_text())))
    else:
        sweep(arguments.results, arguments.trials)


if __name__ == "__main__":
    main()
