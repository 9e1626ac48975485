"""The same words mean the same everywhere: `exact_posterior`, `DVISRRegressor`, `compare` and the
command line are asked for one log evidence, and all of them must give it."""

from __future__ import annotations

import dataclasses
import json
import math
import os
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner
from scipy.special import logsumexp

from dvisr import DVISRRegressor, FitSettings, FitWarning, compare, exact_posterior
from dvisr.cli import cli
from dvisr.constraints import Grammar
from dvisr.enumeration import enumerate_trees
from dvisr.problem import make_problem, most_constants, seed_of, threads_of, whole_number
from dvisr.settings import WeighingSettings
from dvisr.types import Dataset
from tests.marks import quick_only

X = np.array([0.4, 0.7, 1.0, 1.6, 2.1])
Y = np.array([0.62, 0.98, 1.61, 2.3, 3.2])
BARS = np.array([0.1, 0.1, 0.2, 0.2, 0.3])
TIMES = np.array([1, 2, 1, 1, 3])
# Its trees: x, c, x * x, x * c and c * x.
GRAMMAR: dict[str, Any] = {
    "operators": ["*"],
    "max_tokens": 3,
    "max_constants": 1,
    "constraints": "none",
    "tree_prior": "allowed",
}
TREES = ["x", "c", "x * x", "x * c", "c * x"]


@dataclasses.dataclass(frozen=True)
class Words:
    noise: Any
    constant_prior: str = "normal:0,10"
    y_err: bool = False
    weighted: bool = False

    def __str__(self) -> str:
        extras = (" with bars" if self.y_err else "") + (" weighted" if self.weighted else "")
        return f"{self.noise} {self.constant_prior}{extras}"

    @property
    def own(self) -> dict[str, Any]:
        return {"noise": self.noise, "constant_prior": self.constant_prior}

    @property
    def extras(self) -> dict[str, Any]:
        return {
            "y_err": BARS if self.y_err else None,
            "sample_weight": TIMES if self.weighted else None,
        }

    def file(self, folder: Path) -> str:
        """The command line has no weights: rows are copied."""
        frame = pd.DataFrame({"x": X, "y": Y, "e": BARS})
        if self.weighted:
            frame = frame.loc[np.repeat(frame.index, TIMES)]
        frame.to_csv(folder / "data.csv", index=False)
        return str(folder / "data.csv")

    def options(self) -> list[str]:
        found = ["--target", "y", "--features", "x", "--noise", str(self.noise), "--json"]
        found += ["--constant-prior", self.constant_prior]
        return [*found, "--err", "e"] if self.y_err else found


def table() -> pd.DataFrame:
    return pd.DataFrame({"x": X})


def by_exact(words: Words) -> float:
    found = exact_posterior(table(), Y, constants=True, **GRAMMAR, **words.own, **words.extras)
    assert found.num_allowed == 5
    return found.log_evidence


def by_regressor(words: Words) -> tuple[float, float]:
    model = DVISRRegressor(**GRAMMAR, **words.own, random_state=0, n_jobs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model.fit(table(), Y, **words.extras)
    assert model.diagnostics_["exact"]
    return model.log_evidence_, model.log_evidence_stderr_


def by_compare(words: Words) -> tuple[float, float]:
    """The mean over the five trees."""
    found = compare(table(), Y, TREES[:4], **words.own, **words.extras, random_state=0, n_jobs=1)
    return of_formulas(found.table.to_dict(orient="records"))


def of_formulas(rows: list[dict[Any, Any]]) -> tuple[float, float]:
    by_text = {row["expression"]: row for row in rows}
    # "c * x" is "x * c", which is given once.
    kept = [by_text[text] for text in ("x", "c", "x * x", "x * c", "x * c")]
    value = float(logsumexp([row["log_evidence"] for row in kept])) - math.log(5.0)
    return value, max(row["log_evidence_stderr"] for row in kept)


def by_command(words: Words, folder: Path, command: str) -> tuple[float, float]:
    arguments = [command, words.file(folder), *words.options()]
    if command == "compare":
        arguments += [part for text in TREES[:4] for part in ("--expression", text)]
    else:
        arguments += ["--operators", "*", "--max-tokens", "3", "--constraints", "none"]
        arguments += ["--max-constants", "1", "--tree-prior", "allowed"]
        arguments += ["--constants"]
    done = CliRunner().invoke(cli, arguments, catch_exceptions=False)
    assert done.exit_code == 0, done.output
    found = json.loads(done.stdout)
    if command == "compare":
        return of_formulas(found["expressions"])
    return found["log_evidence"], found.get("log_evidence_stderr", 0.0)


WORDS = [
    Words(0.3),
    Words("infer"),
    Words("student:4,0.3"),
    Words("student", weighted=True),
    Words("relative:0.2", y_err=False, weighted=True),
    Words("relative"),
    Words("1", y_err=True, weighted=True),
    Words("infer", "decades:0.01,100", y_err=True),
    Words("student:3,1", y_err=True),
]


@pytest.mark.parametrize("words", quick_only(WORDS, *WORDS[3::4]), ids=str)
def test_one_log_evidence_by_every_way(words: Words, tmp_path: Path) -> None:
    """Within four of the standard errors that each states."""
    expected = by_exact(words)
    found = {
        "DVISRRegressor": by_regressor(words),
        "compare": by_compare(words),
        **{
            f"dvisr {name}": by_command(words, tmp_path, name)
            for name in ("exact", "fit", "compare")
        },
    }
    for way, (value, error) in found.items():
        assert error < 0.05
        assert value == pytest.approx(expected, rel=0.0, abs=1e-6 + 4.0 * error), way


def test_a_normal_prior_is_the_one_of_its_mean_and_deviation() -> None:
    """ "normal:0,10" is also what no word at all means to the oracle."""
    plain = exact_posterior(table(), Y, constants=True, **GRAMMAR, noise=0.3)
    assert by_exact(Words(0.3)) == plain.log_evidence
    other = exact_posterior(
        table(), Y, constants=True, **GRAMMAR, noise=0.3, constant_prior="normal:1,2"
    )
    same = exact_posterior(
        table(), Y, constants=True, **GRAMMAR, noise=0.3,
        constant_prior_mean=1.0, constant_prior_std=2.0,
    )  # fmt: skip
    assert other.log_evidence == same.log_evidence != plain.log_evidence


# The most constants ------------------------------------------------------------------------------


def grammar(constraints: Any, most: int | None) -> Grammar:
    return make_problem(
        Dataset.create(table(), Y), operators=["+"], constants=True, max_tokens=15,
        max_constants=most, constraints=constraints, tree_prior="allowed",
        constant_prior="decades", noise="infer",
    ).grammar  # fmt: skip


def most_in_a_tree(found: Grammar) -> int:
    """Over all trees of the grammar: seven of eight leaves where nothing limits them."""
    trees = enumerate_trees(found)
    return int((trees == found.library.constant_id).sum(axis=1).max())


@pytest.mark.parametrize(
    ("constraints", "most", "expected"),
    [
        ("default", 4, 4),
        ("default,max-constants=6", 4, 6),
        (["default", "max-constants=6"], 4, 6),
        (" default , max-constants=6 ", 4, 6),
        ("default,max-constants=2", 4, 2),
        ("default,max-constants=6", None, 6),
        ("default,max-constants=3", 3, 3),
        ("default", 2, 2),
        ("default", None, 7),
    ],
)
def test_a_limit_among_the_constraints(constraints: Any, most: int | None, expected: int) -> None:
    assert most_in_a_tree(grammar(constraints, most)) == expected


def test_two_limits_that_disagree_are_refused() -> None:
    with pytest.raises(ValueError, match="max_constants=3 and the constraint max-constants=6"):
        grammar("default,max-constants=6", 3)
    model = DVISRRegressor(max_constants=3, constraints="default,max-constants=6")
    with pytest.raises(ValueError, match="disagree: give one of them"):
        model.fit(table(), Y)
    with pytest.raises(ValueError, match="disagree: give one of them"):
        exact_posterior(
            table(), Y, constants=True, max_constants=3, constraints="default,max-constants=6"
        )
    assert most_constants(3, ["max-constants=3"]) == 3
    assert most_constants(None, ["max-constants=3"]) is None


# Threads and seeds -------------------------------------------------------------------------------


def test_threads() -> None:
    cores = os.cpu_count() or 1
    assert threads_of(None) == threads_of(-1) == cores
    assert threads_of(1) == 1
    assert threads_of(np.int64(3)) == 3
    assert threads_of(-2) == max(1, cores - 1)
    assert threads_of(-1000) == 1


@pytest.mark.parametrize("n_jobs", [0, 2.5, "2", True])
def test_threads_that_are_refused(n_jobs: Any) -> None:
    sentence = "n_jobs must be None or a whole number other than 0"
    with pytest.raises(ValueError, match=sentence):
        threads_of(n_jobs)
    with pytest.raises(ValueError, match=sentence):
        compare(table(), Y, ["x"], n_jobs=n_jobs)
    with pytest.raises(ValueError, match=sentence):
        DVISRRegressor(**GRAMMAR, n_jobs=n_jobs).fit(table(), Y)


@pytest.mark.parametrize("n_jobs", quick_only([None, -1, 1], -1))
def test_threads_change_no_number(n_jobs: int | None) -> None:
    found = compare(table(), Y, TREES[:4], random_state=0, n_jobs=n_jobs).table
    alone = compare(table(), Y, TREES[:4], random_state=0, n_jobs=2).table
    pd.testing.assert_frame_equal(found, alone)


def test_seeds() -> None:
    assert seed_of(7) == seed_of(np.int32(7)) == 7
    assert seed_of(np.random.default_rng(3)) == seed_of(np.random.default_rng(3))
    assert seed_of(np.random.RandomState(3)) == seed_of(np.random.RandomState(3))
    assert len({seed_of(None) for _ in range(20)}) > 15
    generator = np.random.default_rng(3)
    assert seed_of(generator) != seed_of(generator)


@pytest.mark.parametrize("random_state", [-1, 2**32, 1.5, "0", True])
def test_seeds_that_are_refused(random_state: Any) -> None:
    with pytest.raises(ValueError, match="random_state must be"):
        seed_of(random_state)
    with pytest.raises(ValueError, match="random_state must be"):
        compare(table(), Y, ["x * c"], random_state=random_state)
    with pytest.raises(ValueError, match="random_state must be"):
        DVISRRegressor(**GRAMMAR, random_state=random_state).fit(table(), Y)


@pytest.mark.slow
def test_a_seed_gives_the_same_again_and_none_another() -> None:
    def run(random_state: Any) -> float:
        found = compare(table(), Y, ["x * c"], random_state=random_state).table
        return float(found["log_evidence"][0])

    assert run(5) == run(5) == run(np.int64(5))
    assert run(np.random.default_rng(5)) == run(np.random.default_rng(5))
    assert run(None) != run(None)
    assert run(5) != run(6)


# What is refused ---------------------------------------------------------------------------------

ASKED: dict[str, Callable[..., Any]] = {
    "exact_posterior": lambda **words: exact_posterior(table(), Y, **words),
    "compare": lambda **words: compare(table(), Y, ["x * c"], **words),
}


@pytest.mark.parametrize("name", ASKED)
@pytest.mark.parametrize(
    ("wrong", "right"),
    [("nois", "noise"), ("sample_weights", "sample_weight"), ("constants_prior", "constant_prior")],
)
def test_an_unknown_keyword_names_the_one_that_was_meant(name: str, wrong: str, right: str) -> None:
    with pytest.raises(
        TypeError, match=f"{name} has no parameter '{wrong}': did you mean '{right}'"
    ):
        ASKED[name](**{wrong: 1})


def test_an_unknown_keyword_like_none_lists_what_there_is() -> None:
    with pytest.raises(TypeError, match="it takes X, y, expressions, noise"):
        compare(table(), Y, ["x"], zzzz=1)


def refused(sentence: str, **words: Any) -> None:
    """By all three, in the same words."""
    weights = {key: words.pop(key) for key in ("sample_weight", "y_err") if key in words}
    for ask in (
        lambda: exact_posterior(table(), Y, constants=True, **{**GRAMMAR, **words}, **weights),
        lambda: compare(table(), Y, ["x * c"], **words, **weights),
        lambda: DVISRRegressor(**{**GRAMMAR, **words}).fit(table(), Y, **weights),
    ):
        with pytest.raises(ValueError, match=sentence):
            ask()


def test_what_one_refuses_all_refuse() -> None:
    refused("did you mean 'student'", noise="studnt")
    refused("degrees of freedom of Student noise must lie", noise="student:0.1")
    refused("constants' prior standard deviation must be above 0", constant_prior="normal:0,-1")
    refused("sample_weight must not be negative", sample_weight=[1, 1, -1, 1, 1])
    refused("sample_weight must be one number a row", sample_weight=[1, 1])
    refused("every row has a sample_weight of zero", sample_weight=np.zeros(5))
    refused("y_err must be above zero", y_err=[1, 1, 0, 1, 1])


@pytest.mark.parametrize("command", ["exact", "fit", "compare"])
@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--noise", "studnt"], "did you mean 'student'"),
        (["--noise", "student:0.1"], "between 0.5 and 1000"),
        (["--constant-prior", "normal:0,-1"], "must be above 0"),
    ],
)
def test_the_command_line_refuses_it_too(
    command: str, options: list[str], sentence: str, tmp_path: Path
) -> None:
    arguments = [command, Words(1).file(tmp_path), "--target", "y", "--features", "x", *options]
    arguments += ["--expression", "x * c"] if command == "compare" else ["--constants"]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code != 0
    assert sentence in done.output or sentence in str(done.exception)


@pytest.mark.parametrize("value", [1.5, "3", True, -1])
def test_whole_numbers(value: Any) -> None:
    with pytest.raises(ValueError, match="max_constants must be a whole number of at least 0"):
        whole_number(value, "max_constants", 0)
    assert whole_number(None, "max_constants", 0) is None
    assert whole_number(np.int8(3), "max_constants", 0) == 3


def test_settings_of_a_fit_are_heeded() -> None:
    settings = FitSettings(weighing=WeighingSettings(num_draws=100))
    model = DVISRRegressor(**GRAMMAR, random_state=0, n_jobs=1, settings=settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        model.fit(table(), Y)
    assert len(model._posterior.draws.noise_factor) == 100
