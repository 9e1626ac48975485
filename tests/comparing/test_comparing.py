"""Formulas that the user names: against closed forms, the oracle and certified fits."""

from __future__ import annotations

import dataclasses
import inspect
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from dvisr.checks import DATA, SEARCH, Verdict
from dvisr.cli.compare import compare as command
from dvisr.comparing import Comparison, compare
from dvisr.comparing.result import make_verdict
from dvisr.constants import Normal
from dvisr.exact import log_marginal
from dvisr.expression import parse
from dvisr.library import OPERATORS, Library
from dvisr.likelihood import make_likelihood
from dvisr.settings import FitSettings

RNG = np.random.default_rng(8)
X = RNG.uniform(0.5, 2.0, (15, 1))
Y = 1.5 * X[:, 0] + 0.7 + RNG.normal(0.0, 0.2, 15)
LINES = ["c * x0 + c", "c * x0", "c", "x0"]


def oracle(text: str, noise: float | str, std: float = 10.0) -> float:
    library = Library.create([*OPERATORS], ["x0"], constants=True)
    found = log_marginal(parse(text, library), X, make_likelihood(Y, noise), Normal(0.0, std))
    return found.value


@pytest.mark.parametrize("noise", [0.2, "infer"])
def test_lines_have_their_exact_evidence(noise: float | str) -> None:
    found = compare(X, Y, LINES, noise=noise, constant_prior="normal:0,10", random_state=0)
    table = found.table.set_index("expression")
    values = {text: oracle(text, noise) for text in LINES}
    for text, value in values.items():
        assert table.loc[text, "log_evidence"] == pytest.approx(value, abs=1e-6)
        assert table.loc[text, "log_evidence_stderr"] == 0.0
    assert list(found.table["expression"]) == sorted(values, key=lambda text: -values[text])
    assert found.table["probability"].sum() == pytest.approx(1.0)
    best = found.table.iloc[0]["expression"]
    for text, value in values.items():
        log_factor = value - values[best]
        assert table.loc[text, "log_bayes_factor"] == pytest.approx(log_factor, abs=1e-6)
        assert table.loc[text, "bayes_factor"] == pytest.approx(math.exp(log_factor), rel=1e-5)
    assert found.table.iloc[0]["bayes_factor"] == 1.0
    assert found.verdict == "ok"
    assert found.reasons == []


def test_constants_of_a_line() -> None:
    found = compare(
        X, Y, ["c * x0 + c"], noise=0.2, constant_prior="normal:0,10", coverage=0.8, random_state=0
    )
    slopes = np.column_stack([X[:, 0], np.ones(15)]) / 0.2
    covariance = np.linalg.inv(slopes.T @ slopes + np.eye(2) / 100.0)
    mean, std = covariance @ slopes.T @ (Y / 0.2), np.sqrt(np.diag(covariance))
    table = found.constants
    assert list(table["constant"]) == ["c0", "c1"]
    np.testing.assert_allclose(table["mode"], mean, rtol=1e-9)
    np.testing.assert_allclose(table["curvature_std"], std, rtol=1e-6)
    np.testing.assert_allclose(table["mean"], mean, atol=0.06 * std.max())
    np.testing.assert_allclose(table["std"], std, rtol=0.06)
    np.testing.assert_allclose(table["low"], mean - 1.2816 * std, atol=0.1 * std.max())
    np.testing.assert_allclose(table["high"], mean + 1.2816 * std, atol=0.1 * std.max())
    row = found.table.iloc[0]
    assert (row["noise_std"], row["noise_std_std"]) == (0.2, 0.0)
    residual = Y - X[:, 0] * mean[0] - mean[1]
    assert row["r2"] == pytest.approx(1.0 - residual.var() / Y.var(), abs=1e-6)
    assert row["equation"] == f"{mean[0]:.6g} * x0 + {mean[1]:.6g}"
    assert (row["complexity"], row["num_constants"]) == (5, 2)


@pytest.mark.parametrize("text", ["exp(c * x0)", "x0 ^ c + x0"])
def test_curved_formulas_against_quadrature(text: str) -> None:
    row = compare(X, Y, [text], noise=0.5, constant_prior="normal:0,3", random_state=0).table.iloc[
        0
    ]
    error = row["log_evidence_stderr"]
    assert 0.0 < error < 0.011
    assert row["log_evidence"] == pytest.approx(oracle(text, 0.5, 3.0), abs=4.0 * error)


def test_the_noise_that_is_inferred() -> None:
    """Without constants its posterior is an inverse gamma in closed form."""
    row = compare(X, Y, ["x0"], random_state=0).table.iloc[0]
    scale = 1e-3 * Y.std()
    squares = ((Y - X[:, 0]) ** 2).sum() / scale**2
    rng = np.random.default_rng(0)
    draws = scale * np.sqrt((0.5 + 0.5 * squares) / rng.gamma(8.0, 1.0, 400_000))
    assert row["noise_std"] == pytest.approx(draws.mean(), rel=0.005)
    assert row["noise_std_std"] == pytest.approx(draws.std(), rel=0.01)


# NIST, Statistical Reference Datasets, nonlinear regression (public domain): x, y, the certified
# parameters, their standard deviations and the residual standard deviation.
DANWOOD = (
    [1.309, 1.471, 1.490, 1.565, 1.611, 1.680],
    [2.138, 3.421, 3.597, 4.340, 4.882, 5.660],
    [7.6886226176e-01, 3.8604055871e00],
    [1.8281973860e-02, 5.1726610913e-02],
    3.2853114039e-02,
)
MISRA1A = (
    [77.6, 114.9, 141.1, 190.8, 239.9, 289.0, 332.8, 378.4, 434.8, 477.3, 536.8, 593.1, 689.1,
     760.0],
    [10.07, 14.73, 17.94, 23.93, 29.61, 35.18, 40.02, 44.82, 50.76, 55.05, 61.01, 66.40, 75.47,
     81.78],
    [2.3894212918e02, 5.5015643181e-04],
    [2.7070075241e00, 7.2668688436e-06],
    1.0187876330e-01,
)  # fmt: skip


@pytest.mark.parametrize(
    ("certified", "text"),
    [(DANWOOD, "c * t ^ c"), (MISRA1A, "c * (1 - exp(-c * t))")],
    ids=["DanWood", "Misra1a"],
)
def test_certified_fits(certified: Any, text: str) -> None:
    x, y, values, stds, noise = certified
    frame = pd.DataFrame({"t": x})
    found = compare(
        frame, y, [text], noise=noise, constant_prior="normal:0,1e5", random_state=0
    ).constants
    np.testing.assert_allclose(found["mode"], values, rtol=1e-6)
    np.testing.assert_allclose(found["curvature_std"], stds, rtol=0.01)
    inferred = compare(frame, y, [text], constant_prior="normal:0,1e5", random_state=0)
    np.testing.assert_allclose(inferred.constants["mode"], values, rtol=1e-5)
    assert inferred.verdict_.group_word(SEARCH) == "ok"


def test_integer_weights_are_copies() -> None:
    """To the last bit."""
    weights = np.array([2.0, 3.0] + [1.0] * 13)
    often = np.repeat(np.arange(15), weights.astype(int))
    bars = np.linspace(0.1, 0.4, 15)
    texts = ["c * x0 + c", "x0 * x0"]
    for noise in (1.0, "infer"):
        options: dict[str, Any] = {
            "noise": noise, "constant_prior": "normal:0,10", "random_state": 0,
        }  # fmt: skip
        one = compare(X, Y, texts, y_err=bars, sample_weight=weights, **options)
        two = compare(X[often], Y[often], texts, y_err=bars[often], **options)
        pd.testing.assert_frame_equal(one.table, two.table, check_exact=True)
        pd.testing.assert_frame_equal(one.constants, two.constants, check_exact=True)


def test_rows_of_weight_zero_are_not_looked_at() -> None:
    more_X = np.concatenate([X, [[-1.0], [0.0]]])
    more_Y = np.concatenate([Y, [1e6, -1e6]])
    weights = np.concatenate([np.ones(15), [0.0, 0.0]])
    texts = ["c * log(x0) + c", "c / x0"]
    found = compare(more_X, more_Y, texts, sample_weight=weights, random_state=0)
    expected = compare(X, Y, texts, random_state=0)
    pd.testing.assert_frame_equal(found.table, expected.table, check_exact=True)


def test_what_is_undefined_has_no_probability() -> None:
    found = compare(X, Y, ["log(x0 - 5)", "sqrt(-1 - c ^ 2) + x0", "c * x0"], random_state=0)
    assert found.table["expression"][0] == "c * x0"
    assert list(found.table["log_evidence"])[1:] == [-math.inf, -math.inf]
    assert list(found.table["probability"]) == [1.0, 0.0, 0.0]
    assert set(found.constants["expression"]) == {"c * x0"}
    assert found.verdict == "caution"
    assert "no constants were found" in found.reasons[0]
    with pytest.raises(ValueError, match="undefined on these data"):
        found.to_datatree(1)
    with pytest.raises(ValueError, match="none of the formulas is defined"):
        compare(X, Y, ["log(x0 - 5)"])


def test_numbers_names_and_signs() -> None:
    frame = pd.DataFrame({"x": X[:, 0], "my col": X[:, 0] ** 2, "c": X[:, 0] + 1.0})
    texts = {
        "2.5e-1 * x + .5 + -3": 0.25 * frame["x"] + 0.5 - 3.0,
        "x ** -1 + 1.0 * 1": 1.0 / frame["x"] + 1.0,
        "`my col` * pi - `c`": frame["my col"] * math.pi - frame["c"],
        "-x": -frame["x"],
    }
    found = compare(frame, Y, list(texts), noise=0.4).table.set_index("complexity")
    assert len(found) == len(texts)
    for text, values in texts.items():
        expected = -0.5 * (((Y - values) / 0.4) ** 2).sum() - 15 * math.log(
            0.4 * math.sqrt(2.0 * math.pi)
        )
        assert np.isclose(found["log_evidence"], expected, atol=1e-9).any(), text
        assert np.isclose(found["elpd_loo"], expected, atol=1e-9).any(), text


@pytest.mark.slow
def test_the_same_seed_gives_the_same_answer_whatever_the_order_and_the_rivals() -> None:
    texts = ["c * exp(x0 * c)", "x0 ^ c", "c * x0 + c"]
    one = compare(X, Y, texts, random_state=3)
    for other in (
        compare(X, Y, texts[::-1], random_state=3),
        compare(X, Y, texts, random_state=3, n_jobs=2),
        compare(X, Y, texts, random_state=np.int64(3), n_jobs=-1),
    ):
        pd.testing.assert_frame_equal(one.table, other.table, check_exact=True)
        pd.testing.assert_frame_equal(one.constants, other.constants, check_exact=True)
    alone = compare(X, Y, ["x0 ^ c", "2.5 * x0"], random_state=3).table.set_index("expression")
    both = one.table.set_index("expression")
    for name in ("log_evidence", "elpd_loo"):
        assert float(alone[name]["x0 ^ c"]) == float(both[name]["x0 ^ c"])
    other = compare(X, Y, texts, random_state=4)
    assert not other.table["log_evidence"].equals(one.table["log_evidence"])
    compare(X, Y, ["c"], random_state=np.random.RandomState(1))
    compare(X, Y, ["c"], random_state=np.random.default_rng(1))


def test_constants_by_names_of_ones_own_are_the_same_constants() -> None:
    named = compare(X, Y, ["rate * x0 + offset", "c * ln(x0)"], random_state=0)
    plain = compare(X, Y, ["c * x0 + c", "c * log(x0)"], random_state=0)
    pd.testing.assert_frame_equal(named.table, plain.table, check_exact=True)
    assert set(named.constants["constant"]) == {"rate", "offset", "c0"}
    assert list(plain.constants["constant"]).count("c0") == 2
    assert "No columns, so taken for constants to be found: rate, offset." in named.assumptions
    assert len(plain.assumptions) == len(named.assumptions) - 1


def test_draws_for_arviz_and_text_to_read() -> None:
    found = compare(X, Y, ["c * x0 + c", "x0"], random_state=0)
    tree = found.to_datatree(0, count=100)
    assert tree.attrs["expression"] == found.table.iloc[0]["expression"]
    assert tree.identical(found.to_datatree(0, count=100))
    assert tree["posterior"].sizes["draw"] == 100
    for place in (-1, 2):
        with pytest.raises(ValueError, match="rows 0 to 1"):
            found.to_datatree(place)
    text = str(found)
    for part in ("verdict: ok", "Prior of every constant: either sign", "inferred", "c0", "x0"):
        assert part in text


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"noise": 0.2}, "of the scale 0.2 in every row"),
        ({"noise": 1.0, "y_err": np.full(15, 0.2)}, "given row by row"),
        ({"y_err": np.full(15, 0.2)}, "error bars times a factor, inferred"),
        ({"constant_prior": "normal:0,3"}, "Normal, mean 0, standard deviation 3"),
        ({"constant_prior": Normal(1.0, 2.0)}, "Normal, mean 1, standard deviation 2"),
        ({"sample_weight": np.full(15, 2.0)}, "as often as it was seen"),
    ],
)
def test_assumptions_are_stated(settings: dict[str, Any], said: str) -> None:
    assert said in " ".join(compare(X, Y, ["x0"], **settings).assumptions)


def test_verdicts() -> None:
    found = compare(X, Y, ["c * exp(x0 * c)", "exp(x0 ^ c)"], random_state=0)
    best, other = found._compared

    def judged(which: int, **changes: Any) -> Verdict:
        pair = [best, other]
        weighed = dataclasses.replace(pair[which].weighed, **changes)
        pair[which] = dataclasses.replace(pair[which], weighed=weighed)
        return make_verdict(pair, 0, FitSettings())

    assert judged(0).word == "ok"
    assert judged(0).reasons == ()
    assert judged(1, error=0.2).group_word(SEARCH) == "caution"
    assert "standard error of 0.2" in " ".join(judged(1, error=0.2).reasons)
    assert judged(1, error=0.9).group_word(SEARCH) == "caution"  # of a rival it is no more
    assert judged(0, error=0.2).group_word(SEARCH) == "caution"
    assert judged(0, error=0.9).group_word(SEARCH) == "do-not-trust"
    few = np.full(len(best.weighed.log_weights), -np.inf)
    few[:20] = -math.log(20.0)
    assert judged(0, log_weights=few).group_word(SEARCH) == "do-not-trust"
    assert "only 20 independent ones" in " ".join(judged(0, log_weights=few).reasons)
    # A heavy tail in which a single draw decides.
    shares = np.sort(np.random.default_rng(0).pareto(1.0, len(other.weighed.log_weights)) + 1.0)
    shares[-1] = 0.4 * shares[:-1].sum()
    heavy = judged(1, log_weights=np.log(shares / shares.sum()))
    assert heavy.group_word(SEARCH) == "caution"
    assert "importance weights of exp(x0 ^ c) have heavy tails" in " ".join(heavy.reasons)


def test_the_checks_are_of_both_groups_and_make_the_verdict() -> None:
    found = compare(X, Y, ["c * x0 + c", "x0"], random_state=0)
    names = [check.name for check in found.verdict_.checks if check.group == SEARCH]
    assert names == ["integral of c * x0 + c"]  # x0 has no constants to integrate over
    assert {check.name for check in found.verdict_.checks if check.group == DATA} >= {
        "outliers", "spread", "order", "coverage",
    }  # fmt: skip
    assert found.verdict == found.verdict_.word
    assert found.reasons == list(found.verdict_.reasons)


def test_data_that_do_not_look_like_the_best_formula_are_told() -> None:
    spoilt = Y.copy()
    spoilt[7] += 40.0
    found = compare(X, spoilt, ["c * x0 + c"], noise=0.2, random_state=0)
    assert found.verdict_.group_word(SEARCH) == "ok"
    assert found.verdict_.group_word(DATA) == "do-not-trust"
    assert "row 8" in " ".join(found.reasons)


def test_seeds_and_threads_by_default() -> None:
    """Another seed each time; all cores."""
    parameters = inspect.signature(compare).parameters
    assert parameters["random_state"].default is None
    assert parameters["n_jobs"].default is None
    one, two = (compare(X, Y, ["c * exp(x0 * c)"]).table["log_evidence"][0] for _ in range(2))
    assert one != two
    assert one == pytest.approx(two, abs=0.1)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"expressions": []}, "there is no formula to compare"),
        ({"expressions": ["c * x0", "x0 * c"]}, r"formula 2, 'x0 \* c', is the same as c \* x0"),
        ({"expressions": ["c * x1"]}, "formula 1, 'c \\* x1': 'x1' at column 5 is no column"),
        ({"expressions": ["a * x0 + a"]}, "'a' at column 10 stands there a second time"),
        ({"expressions": ["a * x0", "b * x0"]}, "formula 2, 'b \\* x0', is the same as c \\* x0"),
        ({"expressions": ["1/2x0"]}, "can be read in two ways"),
        ({"expressions": ["c +"]}, "formula 1, 'c \\+': the formula stops"),
        ({"expressions": [""]}, "formula 1, '': the formula is empty"),
        ({"expressions": ["c", "y = x0"]}, "formula 2, 'y = x0': '=' at column 3 can't be read"),
        ({"expressions": ["1e999"]}, "not a finite number"),
        ({"expressions": [3]}, "a formula must be text, not int"),
        ({"noise": -1.0}, "noise must be a number above 0"),
        ({"noise": "loud"}, "noise must be a number above 0"),
        ({"constant_prior": "decade"}, "did you mean 'decades'"),
        ({"coverage": 1.0}, "coverage must be between 0 and 1"),
        ({"coverage": "most"}, "coverage must be between 0 and 1"),
        ({"sample_weight": np.full(15, -1.0)}, "must not be negative, but is -1 in row 1"),
        ({"sample_weight": np.full(15, np.nan)}, "sample_weight has a missing value in row 1"),
        ({"sample_weight": np.full(15, np.inf)}, "sample_weight has an infinite value"),
        ({"sample_weight": np.zeros(15)}, "sample_weight of zero"),
        ({"sample_weight": np.ones(3)}, "one number a row"),
        ({"y_err": np.zeros(15)}, "y_err must be above zero"),
        ({"n_jobs": 0}, "n_jobs must be None or a whole number other than 0"),
        ({"random_state": -1}, "random_state must be from 0"),
        ({"random_state": "x"}, "random_state must be None, a whole number"),
        ({"feature_names": ["a", "b"]}, "1 columns need as many feature names"),
    ],
)
def test_mistakes(changes: dict[str, Any], message: str) -> None:
    settings: dict[str, Any] = {"expressions": ["c * x0"], **changes}
    with pytest.raises(ValueError, match=message):
        compare(X, Y, settings.pop("expressions"), **settings)


def test_the_target_is_no_constant() -> None:
    named = pd.Series(Y, name="speed")
    with pytest.raises(ValueError, match=r"formula 2, 'speed \* x0': 'speed' is the target"):
        compare(X, named, ["c * x0", "speed * x0"])
    for harmless in ("log", "c"):  # functions and c are read as such, whatever the target is called
        found = compare(X, named.rename(harmless), ["c * x0 + log(x0)"], random_state=0)
        assert found.table["expression"][0] == "c * x0 + log(x0)"


def test_a_parameter_that_is_none() -> None:
    with pytest.raises(TypeError, match="did you mean 'noise'"):
        compare(X, Y, ["x0"], nois=1.0)


def run(folder: Path, *arguments: str) -> Any:
    path = folder / "t.csv"
    frame = pd.DataFrame({"x0": X[:, 0], "[red]": X[:, 0] ** 2, "y": Y, "e": 0.2})
    frame.to_csv(path, index=False)
    return CliRunner().invoke(command, [str(path), "--target", "y", *arguments])


def test_the_command_gives_what_the_function_does(tmp_path: Path) -> None:
    done = run(
        tmp_path, "--features", "x0", "--err", "e", "--noise", "2", "--constant-prior",
        "normal:0,5", "--coverage", "0.5", "--seed", "7", "--expression", "c * exp(x0 * c)",
        "--expression", "x0", "--expression", "log(x0 - 9)", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    found = json.loads(done.output)
    expected: Comparison = compare(
        X, Y, ["c * exp(x0 * c)", "x0", "log(x0 - 9)"], y_err=np.full(15, 0.2), noise=2.0,
        constant_prior="normal:0,5", coverage=0.5, random_state=7,
    )  # fmt: skip
    assert set(found) == {"expressions", "verdict", "reasons", "checks", "assumptions"}
    assert found["checks"] == [check.as_dict() for check in expected.verdict_.checks]
    assert (found["verdict"], found["assumptions"]) == (expected.verdict, expected.assumptions)
    rows = found["expressions"]
    assert [row["expression"] for row in rows] == list(expected.table["expression"])
    for name in ("probability", "bayes_factor"):
        assert [row[name] for row in rows] == pytest.approx(list(expected.table[name]), rel=1e-9)
    assert rows[0]["log_evidence"] == pytest.approx(expected.table["log_evidence"][0], rel=1e-9)
    assert rows[-1]["log_evidence"] is None
    assert rows[-1]["noise_std"] == {"mean": None, "std": None}
    own = next(row for row in rows if row["constants"])["constants"]
    assert [one["low"] for one in own] == pytest.approx(list(expected.constants["low"]), rel=1e-9)


def test_the_command_prints_tables(tmp_path: Path) -> None:
    done = run(tmp_path, "--expression", "c * `[red]`", "--expression", "c * x0 + c")
    assert done.exit_code == 0, done.output
    for text in ("[red]", "verdict: ok", "intervals of 90 %", "Noise: Gaussian", "c1"):
        assert text in done.output


def test_constants_are_listed_by_their_own_names(tmp_path: Path) -> None:
    """And by the place of their formula, whose text has numbers where the names were."""
    done = run(tmp_path, "--expression", "7 * x0", "--expression", "slope * x0 + start")
    assert done.exit_code == 0, done.output
    lines = [line.split("│") for line in done.output.splitlines() if line.startswith("│")]
    own = [[cell.strip() for cell in cells[1:4]] for cells in lines if len(cells) == 8]
    assert [row[:2] for row in own] == [["1", "slope"], ["1", "start"]]
    formula = "".join(cells[2] for cells in lines if len(cells) == 10)  # which may be folded
    assert all(row[2] in formula.split() for row in own)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "Missing option '--expression'"),
        (
            ["--expression", "c", "--noise", "loud"],
            "noise must be a number above 0, infer, student",
        ),
        (["--expression", "c", "--seed", "-1"], "--seed"),
    ],
)
def test_mistakes_of_the_command(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(tmp_path, *arguments)
    assert done.exit_code == 2
    assert message in done.output


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--expression", "c * y"], "'y' is the target: leave it out"),
        (["--err", "e", "--expression", "c * e"], "'e' is the error bar"),
        (["--features", "[red]", "--expression", "c * x0"], "'x0' is a column that is not among"),
    ],
)
def test_a_column_is_no_constant(tmp_path: Path, arguments: list[str], message: str) -> None:
    done = run(tmp_path, *arguments)
    assert isinstance(done.exception, ValueError)
    assert message in str(done.exception)
