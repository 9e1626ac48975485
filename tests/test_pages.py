"""Pages whose tables are made by a script must hold what the script makes of what was measured."""

from __future__ import annotations

import collections
import json
import math
import re
import subprocess
import sys
from collections.abc import Collection
from pathlib import Path

import numpy as np
import pytest
from benchmarks import (
    beside,
    fits_shown,
    kept,
    limits,
    moves,
    network,
    noise,
    noiseless,
    starts,
    sweep,
    threads,
    verdict,
)
from benchmarks.beyond import constants_recipes, ladder
from benchmarks.beyond_shown import WANTED, tables
from benchmarks.pages import with_tables
from benchmarks.watched import WITHOUT
from tools import command_page

import dvisr
from dvisr.likelihood import make_likelihood
from dvisr.recipes import OLDER_NAMES, RECIPES, find_recipe

DOCS = Path(__file__).parent.parent / "docs"
ROWS = json.loads((DOCS / "beyond.json").read_text())


def test_the_tables_of_beyond_are_the_measurements() -> None:
    page = (DOCS / "beyond.md").read_text()
    made = tables(ROWS, json.loads((DOCS / "sweep.json").read_text()))
    assert len(made) == page.count("<!-- end -->") == 9
    assert with_tables(page, made) == page


def test_the_tables_of_fits_are_the_measurements() -> None:
    held = json.loads((DOCS / "fits.json").read_text())
    assert {"laws", "coverage", "data", "kernel", "nist"} <= set(held)
    for path, count in (
        (DOCS / "fits.md", 5),
        (DOCS / "prior.md", 1),
        (DOCS.parent / "README.md", 1),
    ):
        page = path.read_text()
        assert page.count("<!-- end of fits -->") == count
        assert fits_shown.with_fits(page, held) == page


def test_what_a_fit_leaves_behind_is_small() -> None:
    """The sentences are the measurements, and these what was set out for."""
    held = json.loads(kept.FOUND.read_text())
    for path, count in zip(kept.PAGES, (2, 1), strict=True):
        page = path.read_text("utf-8")
        assert page.count("<!-- end of kept -->") == count
        assert kept.with_found(page, held) == page
    sizes, memory = held["sizes"], held["memory"]
    assert sizes["rows"] == 40
    assert sum(sizes["files"].values()) < 5e6
    assert sizes["report_bytes"] < 3e6
    assert sizes["report_first"]["seconds"] < 5.0
    assert memory["seconds"] >= 600.0
    assert memory["growth_of_the_search_after_its_first_sixth"] < 0.05


def test_the_table_of_starts_is_the_measurement() -> None:
    page = (DOCS / "network.md").read_text()
    made = starts.table(json.loads((DOCS / "starts.json").read_text()))
    assert with_tables(page, {"starts": made}) == page


def test_the_tables_of_the_network_are_the_measurements() -> None:
    found = json.loads((DOCS / "network.json").read_text())
    assert {"draws", "fits", "trace"} <= set(found)
    page = (DOCS / "network.md").read_text()
    assert network.tables(found) in page
    assert with_tables(page, {"trace": network.trace_table(found["trace"])}) == page
    assert len(found["draws"]["drawn"]) == 200
    assert {row["kind"] for row in found["trace"]} == set(network.KINDS)


def test_formulas_without_noise_are_all_measured() -> None:
    rows = json.loads((DOCS / "noiseless.json").read_text())
    page = (DOCS / "fits.md").read_text()
    assert with_tables(page, {"noiseless": noiseless.table(rows)}) == page
    assert {row["name"] for row in rows} == {formula.name for formula in noiseless.FORMULAS}


def test_what_a_fit_takes_is_the_measurement() -> None:
    page = (DOCS / "speed.md").read_text()
    found = {
        module.__name__.rsplit(".", 1)[1]: json.loads(module.FOUND.read_text())
        for module in (beside, limits, moves, threads)
    }
    made = {
        "beside": beside.table(found["beside"]),
        "limits": limits.table(found["limits"]),
        "moves": moves.tables(found["moves"]),
        "threads": threads.table(found["threads"]),
    }
    assert with_tables(page, made) == page
    assert set(found["limits"]) == set(limits.TABLES)
    sizes = {"searches": [7, 41, 42], "added": [7, 41, 42], "inside": [14]}
    added = {place: {*kinds} for place, kinds in moves.ADDED.values()}
    kept = {*WITHOUT}.difference(*added.values())
    for place, expected in {"searches": kept, **added}.items():
        searches = [(row["group"], row["name"], row["without"]) for row in found["moves"][place]]
        cases, kinds = {case[:2] for case in searches}, {kind for *_, kind in searches}
        assert sorted(collections.Counter(group for group, _ in cases).values()) == sizes[place]
        assert len(searches) == len({*searches}) == len(cases) * len(kinds)
        assert kinds == {None, *expected}
    assert not {row["without"] for row in found["moves"]["dropped"]} & {*WITHOUT}
    assert all(row["is_same"] for row in found["threads"])


def test_no_place_for_a_table_is_empty() -> None:
    for path in sorted(DOCS.glob("*.md")):
        text = path.read_text()
        for place in re.finditer(r"<!-- (?!end)([^>]*) -->\n(.*?)<!-- end", text, re.DOTALL):
            assert place[2].strip(), f"{path.name}: {place[1]}"


def test_every_recipe_that_was_measured_is_there() -> None:
    known: dict[str, Collection[str]] = {
        "scaling": {*RECIPES, *OLDER_NAMES},
        "ladder": ladder(),
        "constants": constants_recipes(),
    }
    for row in ROWS:
        if row["group"] in known:
            assert row["name"] in known[row["group"]], row["name"]
        if "steps" in row and row["group"] == "scaling":
            recipe = find_recipe(row["name"], "scaling")
            budget = (recipe.num_steps, recipe.objective.num_samples)
            assert (row["steps"], row["samples"]) == budget == (2000, 1000)


@pytest.mark.parametrize("size", WANTED)
def test_the_measured_numbers_are_those_set_out_for(size: int) -> None:
    (row,) = [r for r in ROWS if (r["group"], r["name"], r["x"]) == ("scaling", "default", size)]
    found = sorted(float(kl) for kl in row["kl"])
    assert len(found) == 5
    assert found[2] <= WANTED[size]
    assert found[4] <= 3.0 * found[2]
    assert math.isfinite(found[4])


def test_the_sweep_starts_from_the_default() -> None:
    budget = (sweep.NUM_STEPS, sweep.NUM_SAMPLES)
    assert sweep.recipe_of(sweep.DEFAULT) == find_recipe("default", "scaling", *budget)


def test_a_page_without_a_place_for_a_table_is_refused() -> None:
    with pytest.raises(ValueError, match="no place"):
        with_tables("nothing", {"numbers": "| 1 |\n"})


def test_the_page_of_verdicts_shows_what_was_measured() -> None:
    rows = json.loads((DOCS / "verdicts.json").read_text())
    page = (DOCS / "verdicts.md").read_text()
    assert verdict.tables(rows) in page
    for path in verdict.IN_SHORT:
        text = (DOCS.parent / path).read_text()
        assert verdict.in_short(rows) in text
        assert verdict.with_short(text, rows) == text
    kinds = {row["kind"] for row in rows}
    assert {verdict.GOOD, *verdict.FAULTS} <= kinds
    assert sum(row["kind"] == verdict.GOOD for row in rows) >= 200
    assert sum(row["kind"] in verdict.FAULTS for row in rows) >= 200


def test_the_page_of_fits_shows_what_was_measured_of_noise_models() -> None:
    measured = json.loads((DOCS / "noise.json").read_text())
    page = (DOCS / "fits.md").read_text()
    assert noise.nuts_table(measured["nuts"]) in page
    assert noise.outlier_table(measured["outliers"]) in page


def test_the_prior_of_the_noise_is_as_the_page_says() -> None:
    """The median at 1.5 s, 5 % below 0.5 s and above 16 s, with s a thousandth of the spread."""
    page = " ".join((DOCS / "language.md").read_text().split())
    assert "s is a thousandth of the standard deviation of y" in page
    assert "the median of the prior lies at 1.5 s, 5 % of it below 0.5 s and 5 % above 16 s" in page
    y = np.array([1.0, 2.0, 4.0, 7.0])
    likelihood = make_likelihood(y, "infer")
    assert likelihood.prior is not None
    np.testing.assert_allclose(likelihood.scale, 1e-3 * y.std())
    assert likelihood.prior.cdf(1.5) == pytest.approx(0.5, abs=0.01)
    assert likelihood.prior.cdf(0.5) == pytest.approx(0.05, abs=0.006)
    assert 1.0 - likelihood.prior.cdf(16.0) == pytest.approx(0.05, abs=0.006)
    relative = make_likelihood(y, "relative")
    np.testing.assert_allclose(relative.scale, 1e-3 * np.log(y).std())


def test_the_page_of_commands_is_what_the_commands_say() -> None:
    page = (DOCS / "command-line.md").read_text("utf-8")
    assert command_page.page() == page, "run python -m tools.command_page"


def test_the_site_builds_strictly_and_needs_no_network(tmp_path: Path) -> None:
    """Every page, link and docstring; what a page loads lies beside it."""
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, cwd=DOCS.parent, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    pages = {path.name: path.read_text("utf-8") for path in tmp_path.glob("*.html")}
    assert {"index.html", "start.html", "api.html", "command-line.html"} <= set(pages)
    for name, page in pages.items():
        loaded = re.findall(r"<(?:script|img|iframe)\b[^>]*\ssrc=\"?([^\s\">]+)", page)
        loaded += re.findall(r"<link\b[^>]*rel=\"?stylesheet[^>]*href=\"?([^\s\">]+)", page)
        loaded += re.findall(r"<link\b[^>]*href=\"?([^\s\">]+)[^>]*rel=\"?stylesheet", page)
        assert loaded, name
        assert not [address for address in loaded if "//" in address], name
    for method in ("predict_interval", "sympy", "latex", "to_datatree", "resume", "report"):
        assert f'id="dvisr.estimator.DVISRRegressor.{method}"' in pages["api.html"]
    assert {*dvisr.__all__} <= set(re.findall(r'id="dvisr\.[\w.]*?(\w+)"', pages["api.html"]))
