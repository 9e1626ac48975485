"""The settings of a fit: round trips, what is refused, and that they can't be changed."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

import pytest

from dvisr import DVISRRegressor, FitSettings
from dvisr.settings import CheckSettings, SearchSettings, WeighingSettings

OTHER = FitSettings(
    search=SearchSettings(num_steps=3, parent_levels=(1.0, 2.0)),
    weighing=WeighingSettings(error=0.5, rounds=(10, 20)),
    checks=CheckSettings(missed=(0.2, 0.3)),
)


@pytest.mark.parametrize("settings", [FitSettings(), OTHER], ids=["default", "other"])
def test_a_round_trip_through_json(settings: FitSettings) -> None:
    """JSON has lists and no tuples."""
    written = json.dumps(settings.as_dict(), allow_nan=False)
    assert FitSettings.from_dict(json.loads(written)) == settings
    assert FitSettings.from_dict(settings.as_dict()) == settings
    assert hash(FitSettings.from_dict(json.loads(written))) == hash(settings)


def test_what_is_left_out_is_as_usual() -> None:
    assert FitSettings.from_dict({}) == FitSettings()
    found = FitSettings.from_dict({"weighing": {"error": 0.5}})
    assert found == FitSettings(weighing=WeighingSettings(error=0.5))


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"serch": {}}, "no settings 'serch'"),
        ({"search": {"steps": 3}}, "no setting 'steps'"),
        ({"checks": {"missed": [0.1, 0.2], "num_starts": 3}}, "no setting 'num_starts'"),
    ],
)
def test_unknown_names_are_refused(values: dict, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        FitSettings.from_dict(values)


@pytest.mark.parametrize(
    ("part", "kind", "name", "value", "least"),
    [
        ("search", SearchSettings, "raced_rows", 0, 1),
        ("search", SearchSettings, "num_fresh", 0, 1),
        ("search", SearchSettings, "fewest_steps", 0, 1),
        ("search", SearchSettings, "num_samples", 2.5, 1),
        ("search", SearchSettings, "neighbours", -1, 0),
        ("search", SearchSettings, "matches_a_context", 0, 1),
        ("search", SearchSettings, "first_batches", 0, 1),
        ("weighing", WeighingSettings, "num_draws", 0, 1),
        ("weighing", WeighingSettings, "num_starts", True, 1),
    ],
)
def test_counts_that_can_not_be_are_refused(
    part: str, kind: Any, name: str, value: Any, least: int
) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a whole number of at least {least}"):
        FitSettings(**{part: kind(**{name: value})})


def test_they_are_frozen() -> None:
    part = FitSettings()
    with pytest.raises(dataclasses.FrozenInstanceError):
        part.search = SearchSettings()  # type: ignore[misc]
    for own in (part.search, part.weighing, part.checks):
        first = dataclasses.fields(own)[0].name
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(own, first, 1)


def test_every_setting_is_documented() -> None:
    for kind in (SearchSettings, WeighingSettings, CheckSettings):
        text = kind.__doc__ or ""
        for field in dataclasses.fields(kind):
            assert field.name in text, (kind.__name__, field.name)


def test_a_regressor_is_cloned_with_its_settings() -> None:
    from sklearn.base import clone

    model = DVISRRegressor(settings=OTHER)
    assert clone(model).settings == OTHER
    assert DVISRRegressor().settings is None
