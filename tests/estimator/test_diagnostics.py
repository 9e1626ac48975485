"""`diagnostics_`: every key of every kind of fit is in the table of docs/fits.md, and no other."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dvisr import DVISRRegressor
from tests.fitting.problems import searching
from tests.marks import quick_only

pytestmark = pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")

PAGE = Path(__file__).parent.parent.parent / "docs" / "fits.md"
X = np.linspace(0.5, 2.0, 12)
Y = 1.5 * X + 0.3 + np.random.default_rng(0).normal(0.0, 0.1, 12)
KINDS = ("search", "exact", "network")


def documented() -> dict[str, set[str]]:
    """Of each kind of fit: the keys that the table says it has."""
    section = PAGE.read_text().split("## What `diagnostics_` holds\n")[1].split("\n## ")[0]
    section = section.split("\nThe checks.")[0]
    found: dict[str, set[str]] = {kind: set() for kind in KINDS}
    for line in section.splitlines():
        cells = [cell.strip() for cell in line.split("|")]
        if len(cells) > 3 and cells[1].startswith("`"):
            kinds = [kind.strip() for kind in cells[2].split(",")]
            for kind in KINDS if kinds == ["all"] else kinds:
                names = {name.strip("` ") for name in cells[1].split(",")}
                assert not names & found[kind]
                found[kind] |= names
    return found


def fitted(kind: str) -> DVISRRegressor:
    kinds: dict[str, dict[str, Any]] = {
        "search": {"settings": searching()},
        "exact": {},
        "network": {"recipe": "paper", "num_steps": 3, "num_samples": 32, "noise": 1.0},
    }
    model = DVISRRegressor(
        operators=("+", "*"), max_tokens=3, max_constants=1, constant_prior="normal:0,10",
        random_state=0, **kinds[kind],
    )  # fmt: skip
    return model.fit(X[:, None], Y)


@pytest.mark.parametrize("kind", quick_only(KINDS, "search", "exact"))
def test_every_key_is_documented(kind: str) -> None:
    model = fitted(kind)
    found = model.diagnostics_
    assert set(found) == documented()[kind]
    assert found["exact"] is (kind == "exact")
    assert found["verdict"] == model.verdict_.word
    assert found["reasons"] == list(model.verdict_.reasons)
    assert found["checks"] == [check.as_dict() for check in model.verdict_.checks]
    assert json.loads(json.dumps(found))["verdict"] == found["verdict"]  # plain values
    shares = {
        "shown_share", "unseen_share", "unseen_mass", "unknown_mass", "unknown_mass_stderr",
        "moved", "total_variation", "island_agreement", "invalid_share", "largest_weight",
    }  # fmt: skip
    for name in shares & set(found):
        assert 0.0 <= found[name] <= 1.0 + 1e-12, name
    assert found["num_rows"] == 12
    assert found["num_trees_visited"] <= found["num_allowed"]


@pytest.mark.slow
def test_every_check_is_documented() -> None:
    text = PAGE.read_text()
    names = {
        check.name for kind in KINDS for check in fitted(kind).verdict_.checks
    }  # fmt: skip
    names |= {"unsure", "missed", "moved"}
    listed = set(re.findall(r"^\| `(\w+)` \|", text, flags=re.MULTILINE))
    assert names <= listed, names - listed
