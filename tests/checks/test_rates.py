"""False alarms on good tables and power on bad ones, within what chance allows.

Seeds follow from the scenario's name. The bounds are binomial: a share that is as promised fails
one time in a thousand.
"""

from __future__ import annotations

import pytest
from benchmarks import data_checks as scenarios
from scipy import stats

from dvisr.checks import Grade

PROMISED_ALARMS = 0.04
PROMISED_POWER = 0.8
SETS = 20


@pytest.mark.slow
def test_false_alarms() -> None:
    found = []
    for label, make in scenarios.good_scenarios((8, 12, 20, 30, 100)):
        found += scenarios.measure(make, f"test {label}", 5)
    assert len(found) == 100
    flagged = sum(any(check.grade > Grade.OK for check in checks) for checks in found)
    assert flagged <= stats.binom.ppf(0.999, 100, PROMISED_ALARMS)
    assert all(check.grade is not Grade.DO_NOT_TRUST for checks in found for check in checks)


@pytest.mark.parametrize(
    ("scenario", "n", "name"),
    [
        (scenarios.thrown, 30, "outliers"),
        (scenarios.cauchy, 50, "outliers"),
        (scenarios.growing, 50, "spread"),
        (scenarios.proportional, 50, "spread"),
        (scenarios.bent, 30, "columns"),
        (scenarios.wavy, 40, "columns"),
        (scenarios.crossed, 50, "columns"),
        (scenarios.drifting, 30, "order"),
        (scenarios.lasting, 40, "order"),
        (scenarios.copied, 8, "copies"),
        (scenarios.too_small, 20, "noise"),
        (scenarios.too_small, 20, "coverage"),
        (scenarios.too_large, 20, "noise"),
        (scenarios.noiseless, 20, "noise"),
        (scenarios.scarce, 5, "rows"),
        (scenarios.lever, 20, "influence"),
    ],
)
def test_power(scenario: scenarios.Scenario, n: int, name: str) -> None:
    found = scenarios.measure(scenarios.maker(scenario, n), f"test {scenario.__name__} {n}", SETS)
    flagged = sum(
        any(check.name == name and check.grade > Grade.OK for check in checks) for checks in found
    )
    assert flagged >= stats.binom.ppf(0.001, SETS, PROMISED_POWER)
