"""`dvisr predict` and `dvisr export`, from a fit that `dvisr fit` saved."""

from __future__ import annotations

import ast
import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray

from dvisr import DVISRRegressor, Library, load, parse
from dvisr.runs import folder as runs_folder
from tests.cli.running import dvisr

SMALL = ["--target", "y", "--features", "x,z w", "--operators", "+,*", "--max-tokens", "5"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = 2.37 x - 1.3 with noise, an error bar for every row, and a column without use:
    saved as `run`, and with error bars as `bars`."""
    folder = tmp_path_factory.mktemp("saved")
    rng = np.random.default_rng(0)
    x = np.linspace(-1.0, 2.0, 12)
    y = 2.37 * x - 1.3 + 0.4 * rng.standard_normal(12)
    frame = pd.DataFrame({"x": x, "z w": rng.permutation(x), "y": y, "e": 0.4})
    frame.to_csv(folder / "line.csv", index=False)
    new = pd.DataFrame({"e": [0.1, 0.2], "z w": [0.0, 1.0], "other": ["a", "b"], "x": [0.5, 1.5]})
    new.to_csv(folder / "new.csv", index=False)
    for name, more in (("run", []), ("bars", ["--err", "e"])):
        done = dvisr("fit", str(folder / "line.csv"), *SMALL, *more, "--out", str(folder / name))
        assert done.returncode == 0, done.stderr
        assert f"saved in {folder / name}" in " ".join(done.stdout.split())
    return folder


@pytest.fixture(scope="module")
def model(folder: Path) -> DVISRRegressor:
    return load(folder / "run")


def rows() -> pd.DataFrame:
    return pd.DataFrame({"x": [0.5, 1.5], "z w": [0.0, 1.0]})


def table(text: str) -> pd.DataFrame:
    return pd.read_csv(io.StringIO(text))


def test_predictions_are_the_estimators(folder: Path, model: DVISRRegressor) -> None:
    done = dvisr("predict", str(folder / "run"), str(folder / "new.csv"), "--coverage", "0.5")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    found = table(done.stdout)
    assert list(found.columns) == [
        "x", "z w", "mean", "std", "low", "high", "curve_low", "curve_high", "undefined",
    ]  # fmt: skip
    mean, std = model.predict(rows(), return_std=True)
    interval = model.predict_interval(rows(), 0.5)
    curve = model.predict_interval(rows(), 0.5, kind="function")
    expected = np.column_stack([rows(), mean, std, interval, curve, [0.0, 0.0]])
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-12)


def test_predictions_by_function(folder: Path, model: DVISRRegressor) -> None:
    done = dvisr(
        "predict", str(folder / "run"), str(folder / "new.csv"), "--index", "1", "--index", "0"
    )
    assert done.returncode == 0, done.stderr
    found = table(done.stdout)
    assert list(found.columns) == ["x", "z w", "function_1", "function_0"]
    for index in (0, 1):
        np.testing.assert_allclose(found[f"function_{index}"], model.predict(rows(), index=index))


def test_predictions_into_a_file_from_a_pipe(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = (folder / "new.csv").read_bytes()
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(content)))
    out = tmp_path / "out.csv"
    done = dvisr("predict", str(folder / "run"), "-", "-o", str(out))
    assert (done.returncode, done.stdout) == (0, "")
    assert len(pd.read_csv(out)) == 2
    assert [path.name for path in tmp_path.iterdir()] == ["out.csv"]


def test_error_bars_of_new_rows(folder: Path) -> None:
    arguments = ["predict", str(folder / "bars"), str(folder / "new.csv")]
    done = dvisr(*arguments, "--err", "e")
    assert (done.returncode, done.stderr) == (0, "")
    expected = load(folder / "bars").predict(rows(), return_std=True, y_err=[0.1, 0.2])[1]
    np.testing.assert_allclose(table(done.stdout)["std"], expected)
    without = dvisr(*arguments)
    assert without.returncode == 0
    assert "fitted with error bars and the new rows have none" in without.stderr
    assert without.stderr.count("\n") == 1


@pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")
def test_columns_that_are_called_like_predictions(tmp_path: Path) -> None:
    x = np.linspace(1.0, 2.0, 8)
    frame = pd.DataFrame({"mean": x})
    model = DVISRRegressor(operators=("+",), max_tokens=1, random_state=0, noise=0.1)
    model.fit(frame, x).save(tmp_path / "run")
    frame.to_csv(tmp_path / "new.csv", index=False)
    done = dvisr("predict", str(tmp_path / "run"), str(tmp_path / "new.csv"))
    assert list(table(done.stdout).columns)[:3] == ["mean", "predicted_mean", "std"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere", "new.csv"], "there is no folder"),
        ([".", "new.csv"], "there is no fitted model in"),
        (["run", "missing.csv"], "there is no file"),
        (["run", "line.csv", "--index", "99"], "--index 99 is not there: the fit lists"),
        (["run", "line.csv", "--index", "-1"], "--index"),
        (["run", "line.csv", "--coverage", "1"], "--coverage"),
        (["run", "line.csv", "--err", "e"], "y_err is for a model that was fitted with y_err"),
        (["bars", "line.csv", "--err", "x"], "y_err must be above zero, but is -1 in row 1"),
        (["bars", "line.csv", "--err", "q"], "there is no column 'q'"),
        (["bars", "line.csv", "--err", "e", "--index", "0"], "leave out --index"),
        (["run", "short.csv"], "there is no column 'z w'"),
        (["run", "gap.csv"], "column 'x' has a missing value in row 2"),
        (["run", "line.csv", "-o", "."], "is a folder: give the name of a file"),
    ],
)
def test_mistakes_of_predict(
    folder: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    (folder / "short.csv").write_text("x,y\n1,2\n")
    (folder / "gap.csv").write_text("x,z w\n1,2\n,3\n")
    done = dvisr("predict", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def exported(folder: Path, *arguments: str) -> str:
    done = dvisr("export", str(folder / "run"), *arguments)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout


def test_formulas_a_line(folder: Path, model: DVISRRegressor) -> None:
    texts = exported(folder, "--top", "3").splitlines()
    assert texts == list(model.functions_["equation"].head(3))
    assert "x * 2." in texts[0]
    assert " - 1." in texts[0]
    one = exported(folder, "--format", "latex", "--index", "0").strip()
    assert one == model.latex(0, digits=6)
    assert exported(folder, "--format", "sympy", "--index", "0").strip() == str(model.sympy(0))


def test_python_of_numpy(folder: Path, model: DVISRRegressor) -> None:
    source = exported(folder, "--format", "python", "--top", "2")
    module = ast.parse(source)
    assert [n.name for n in module.body if isinstance(n, ast.FunctionDef)] == [
        "function_0", "function_1",
    ]  # fmt: skip
    assert "#   column_1: 'z w'" in source
    path = folder / "formulas.py"
    path.write_text(source)
    sys.path.insert(0, str(folder))
    try:
        import formulas  # type: ignore[import-not-found]
    finally:
        sys.path.remove(str(folder))
    found = formulas.function_0([0.5, 1.5], [0.0, 1.0])
    np.testing.assert_allclose(found, model.predict(rows(), index=0), rtol=1e-12)


def test_json(folder: Path, model: DVISRRegressor) -> None:
    found: dict[str, Any] = json.loads(exported(folder, "--format", "json", "--index", "0"))
    assert found["features"] == ["x", "z w"]
    assert found["log_evidence"] == model.log_evidence_
    (function,) = found["functions"]
    assert function["latex"] == model.latex(0, digits=6)
    for constant, mode in zip(function["constants"], model._posterior.functions[0].weighed.mode,
                              strict=True):  # fmt: skip
        assert constant["mode"] == mode
        assert constant["low"] < constant["mean"] < constant["high"]


def test_tables_of_functions_and_draws(folder: Path, model: DVISRRegressor) -> None:
    functions = table(exported(folder, "--format", "csv", "--top", "4"))
    assert list(functions["expression"]) == list(model.functions_["expression"].head(4))
    np.testing.assert_allclose(functions["probability"], model.functions_["probability"].head(4))
    first = model._posterior.functions[0].weighed
    np.testing.assert_allclose(functions.loc[0, ["c0", "c1"]].to_numpy(dtype=float), first.mode)
    assert (functions["c0_low"].dropna() < functions["c0_high"].dropna()).all()

    own = table(exported(folder, "--format", "draws", "--index", "0"))
    assert list(own.columns) == ["c0", "c1", "sigma"]
    assert own["c0"].mean() == pytest.approx(first.mean[0], abs=4.0 * first.std[0] / 40.0)

    whole = table(exported(folder, "--format", "draws"))
    assert whole.columns[0] == "expression"
    assert len(whole) == len(model._posterior.draws)
    bare = whole[whole["expression"].str.count(r"\bc\b") == 1]
    assert bare.empty or bare["c1"].isna().all()
    assert whole["sigma"].mean() == pytest.approx(model.noise_["mean"])


def test_netcdf_reads_back(folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "t.nc"
    done = dvisr("export", str(folder / "run"), "--format", "netcdf", "-o", str(out))
    assert done.returncode == 0, done.stderr
    expected = load(folder / "run").to_datatree()
    with xarray.open_datatree(out, engine="h5netcdf") as found:
        assert set(found.children) == set(expected.children)
        for group in expected.children:
            xarray.testing.assert_equal(found[group].to_dataset(), expected[group].to_dataset())
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "there is no folder"),
        (["run", "--format", "word"], "--format"),
        (["run", "--index", "99"], "--index 99 is not there"),
        (["run", "--format", "netcdf"], "give a file with --out"),
        (["run", "--format", "draws", "--index", "0", "--index", "1"], "give one --index"),
        (["run", "-o", "."], "is a folder"),
    ],
)
def test_mistakes_of_export(
    folder: Path, arguments: list[str], message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    done = dvisr("export", *arguments)
    assert done.returncode == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")
def test_a_hostile_name_stays_a_name_in_every_form(tmp_path: Path) -> None:
    name = "__import__('os').abort()"
    x = np.linspace(1.0, 2.0, 8)
    model = DVISRRegressor(operators=("+",), max_tokens=1, random_state=0, noise=0.1)
    model.fit(pd.DataFrame({name: x}), x).save(tmp_path / "run")
    from dvisr.cli import export

    text = dvisr("export", str(tmp_path / "run"), "--format", "sympy", "--index", "0").stdout
    assert f'Symbol("{name}", real=True)' in text
    source = dvisr("export", str(tmp_path / "run"), "--format", "python", "--index", "0").stdout
    called = [n for n in ast.walk(ast.parse(source)) if isinstance(n, ast.Call)]
    assert [ast.unparse(call.func) for call in called] == ["np.asarray"]
    for form in export._WRITERS:
        assert dvisr("export", str(tmp_path / "run"), "--format", form).returncode == 0


def test_the_answer_is_printed_though_it_can_not_be_saved(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = runs_folder.commit

    def full(path: Path, changed: dict[str, bytes], *rest: list[str]) -> None:
        if "model.safetensors" in changed:
            raise OSError(28, "No space left on device", str(path))
        commit(path, changed, *rest)

    monkeypatch.setattr(runs_folder, "commit", full)
    arguments = ["fit", str(folder / "line.csv"), *SMALL, "--out", str(tmp_path / "run")]
    done = dvisr(*arguments)
    assert done.returncode == 2
    assert "verdict:" in done.stdout
    assert "saved" not in done.stdout
    assert "it was not saved in" in done.stderr
    assert "No space left on device" in done.stderr
    assert done.stderr.count("\n") == 1
    as_json = dvisr(*arguments, "--json")
    assert as_json.returncode == 2
    assert json.loads(as_json.stdout)["functions"]


def test_a_place_that_is_no_folder_is_refused_before_the_work(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    for place in (tmp_path / "file", tmp_path / "file" / "run"):
        done = dvisr("fit", str(folder / "line.csv"), *SMALL, "--out", str(place))
        assert (done.returncode, done.stdout) == (2, "")
        assert "is a file, and a folder is needed" in done.stderr
    monkeypatch.setattr(os, "access", lambda _, mode, **__: not mode & os.W_OK)
    done = dvisr("fit", str(folder / "line.csv"), *SMALL, "--out", str(tmp_path / "run"))
    assert "can't be written to: choose another one" in done.stderr


def test_a_constant_has_one_number(folder: Path) -> None:
    """The number in the formula is that in the list, to all of its digits."""
    done = dvisr("fit", str(folder / "line.csv"), *SMALL)
    lines = [line.split("│") for line in done.stdout.splitlines() if line.startswith("│")]
    formula = next(cells[2].strip() for cells in lines if cells[1].strip() == "1")
    listed = [cells[3].strip() for cells in lines if len(cells) == 7 and cells[2].strip() == "c0"]
    numbers = [token for token in formula.replace("- ", "-").split() if token[-1].isdigit()]
    own = [cells[3].strip() for cells in lines if cells[2].strip() in ("c0", "c1")]
    assert own[: len(numbers)] == numbers
    assert listed[0] == numbers[0]
    assert "not saved: with --out FOLDER" in done.stdout


def test_the_text_that_is_exported_can_be_compared(folder: Path) -> None:
    """What one command writes another reads."""
    text = exported(folder, "--index", "0").strip()
    done = dvisr(
        "compare", str(folder / "line.csv"), "--target", "y", "--features", "x,z w",
        "--expression", text, "--json",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["expressions"][0]["r2"] > 0.9
    library = Library.create("+,*,2", ["x"], constants=True)
    assert str(parse("2x + c", library)) == "2 * x + c"
