"""Pages whose tables are made by a script must hold what the script makes of what was measured."""

from __future__ import annotations

import json
import math
from collections.abc import Collection
from pathlib import Path

import pytest
from benchmarks import fits_shown, sweep
from benchmarks.beyond import constants_recipes, ladder
from benchmarks.beyond_shown import IN_README, WANTED, tables, with_tables

from dvisr.recipes import OLDER_NAMES, RECIPES, find_recipe

DOCS = Path(__file__).parent.parent / "docs"
ROWS = json.loads((DOCS / "beyond.json").read_text())


def test_the_tables_of_beyond_are_the_measurements() -> None:
    page = (DOCS / "beyond.md").read_text()
    made = tables(ROWS, json.loads((DOCS / "sweep.json").read_text()))
    assert len(made) == page.count("<!-- end -->") == 9
    assert with_tables(page, made) == page
    readme = (DOCS.parent / "README.md").read_text()
    assert readme.count("<!-- end -->") == len(IN_README)
    assert with_tables(readme, {name: made[name] for name in IN_README}) == readme


def test_the_tables_of_fits_are_the_measurements() -> None:
    held = json.loads((DOCS / "fits.json").read_text())
    assert {"laws", "coverage", "data", "kernel", "nist"} <= set(held)
    for path, count in ((DOCS / "fits.md", 5), (DOCS.parent / "README.md", 2)):
        page = path.read_text()
        assert page.count("<!-- end of fits -->") == count
        assert fits_shown.with_fits(page, held) == page


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
