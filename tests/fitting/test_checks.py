"""The checks of the search: every grade of each, and what they lean on."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from dvisr.checks import SEARCH, Check, Grade, graded
from dvisr.fitting import checks
from dvisr.fitting.building import make_posterior
from dvisr.fitting.weighing import FormWeigher
from dvisr.settings import CheckSettings
from tests.fitting.problems import LINE, X, problem_of, weighed
from tests.fitting.test_weighing import weigher_of

OK, CAUTION, GRAVE = Grade.OK, Grade.CAUTION, Grade.DO_NOT_TRUST
LIMITS = CheckSettings(
    integral_error=(0.1, 0.5),
    few_steps=4,
    missed=(0.2, 0.6),
    moved=(0.1, 0.3),
    disagreement=(0.15, 0.45),
    late_gain=(2.0, 7.0),
    fewest_effective=10.0,
    unexplained=0.8,
)


def assert_sound(check: Check) -> None:
    """The grade is that of the measurement and the limits; a doubtful one says what to do."""
    assert check.group == SEARCH
    assert check.grade is graded(check.measured, check.limit, check.grave_limit)
    assert (": " in check.sentence) == (check.grade is not OK)


@pytest.mark.parametrize(("error", "grade"), [(0.0, OK), (0.09, OK), (0.1, CAUTION), (0.5, GRAVE)])
def test_integrals(error: float, grade: Grade) -> None:
    """The worst of them counts."""
    check = checks.integral_check(
        [(1.0, weighed(error=0.001)), (1.0, weighed(error=error)), (1e-3, weighed(error=1.0))],
        LIMITS,
    )
    assert check.grade is grade
    assert check.measured == max(0.001, error)
    assert_sound(check)


def test_integrals_over_no_constants_are_known() -> None:
    assert checks.integral_check([], LIMITS).measured == 0.0
    assert checks.integral_check([(1.0, weighed((), error=math.inf))], LIMITS).grade is OK


def heavy(top: float) -> np.ndarray:
    """Log weights of index 1, with the share of the largest given."""
    shares = np.sort(np.random.default_rng(1).pareto(1.0, 2000) + 1.0)
    shares[-1] = shares[:-1].sum() * top / (1.0 - top)
    logs: np.ndarray = np.log(shares / shares.sum())
    return logs


def test_one_draw_that_decides_is_a_doubt_unless_the_error_is_tiny() -> None:
    lone = heavy(0.3)
    assert (
        checks.integral_check([(1.0, weighed(error=0.05, log_weights=lone))], LIMITS).grade
        is CAUTION
    )
    assert checks.integral_check([(1.0, weighed(error=0.03, log_weights=lone))], LIMITS).grade is OK
    assert checks.integral_check([(1.0, weighed(error=0.05))], LIMITS).grade is OK
    assert_sound(checks.integral_check([(1.0, weighed(error=0.05, log_weights=lone))], LIMITS))


def test_a_heavy_tail_is_one_in_which_a_single_draw_decides() -> None:
    def is_heavy(log_weights: np.ndarray | None, k: float) -> bool:
        one = weighed() if log_weights is None else weighed(log_weights=log_weights)
        return checks.is_heavy(dataclasses.replace(one, pareto_k_of_all=k))

    assert is_heavy(heavy(0.3), 0.9)
    assert not is_heavy(heavy(0.3), 0.6)
    assert not is_heavy(None, 0.9)  # no draw is worth a hundredth
    assert not is_heavy(heavy(0.3), math.nan)


@pytest.mark.parametrize(
    ("num_steps", "is_whole", "is_still", "grade", "said"),
    [
        (4, True, False, OK, "made all of its 4 steps"),
        (900, True, False, OK, "made all of its 900 steps"),
        (3, True, True, OK, "3 steps, and the last of them changed next to nothing"),
        (3, True, False, CAUTION, "a search of 3 steps is short"),
        (0, True, False, CAUTION, "a search of 0 steps is short"),
        (4, False, False, CAUTION, "stopped early, after 4 steps"),
        (3, False, False, GRAVE, "stopped early, after 3 steps"),
        (3, False, True, CAUTION, "stopped early, after 3 steps"),
        (0, False, False, GRAVE, "stopped early, after 0 steps"),
    ],
)
def test_steps(num_steps: int, is_whole: bool, is_still: bool, grade: Grade, said: str) -> None:
    check = checks.steps_check(num_steps, is_whole, is_still, LIMITS)
    assert check.grade is grade
    assert said in check.sentence
    assert_sound(check)


@pytest.mark.parametrize(
    ("agreement", "grade"), [(1.0, OK), (0.9, OK), (0.8, CAUTION), (0.5, GRAVE), (0.0, GRAVE)]
)
def test_agreement(agreement: float, grade: Grade) -> None:
    check = checks.agreement_check(agreement, LIMITS)
    assert check.grade is grade
    assert check.measured == pytest.approx(1.0 - agreement)
    assert f"{agreement:.0%}" in check.sentence
    assert_sound(check)


@pytest.mark.parametrize(("gain", "grade"), [(0.0, OK), (1.9, OK), (2.0, CAUTION), (7.0, GRAVE)])
@pytest.mark.parametrize("num_steps", [3, 6, 20])
def test_settled(gain: float, grade: Grade, num_steps: int) -> None:
    """What was gained before the last third does not matter."""
    evidence = np.concatenate([[-50.0], np.full(num_steps - 1, -8.0)])
    if num_steps == 3:
        evidence[0] = -50.0
    evidence[-1] += gain
    check = checks.settled_check(evidence, LIMITS)
    assert check.measured == pytest.approx(gain)
    assert check.grade is grade
    assert_sound(check)


def test_settled_of_too_few_steps_and_of_nothing_found_before() -> None:
    assert checks.settled_check(np.array([-90.0, -1.0]), LIMITS).grade is OK  # `steps` objects
    nothing = checks.settled_check(np.array([-np.inf, -np.inf, -3.0]), LIMITS)
    assert nothing.grade is GRAVE
    assert nothing.measured == math.inf


@pytest.mark.parametrize(
    ("missed", "moved", "grades"),
    [
        (0.0, 0.0, (OK, OK)),
        (0.19, 0.09, (OK, OK)),
        (0.2, 0.09, (CAUTION, OK)),
        (0.19, 0.1, (OK, CAUTION)),
        (0.6, 0.1, (GRAVE, CAUTION)),
        (0.0, 0.3, (OK, GRAVE)),
    ],
)
def test_fresh_draws(missed: float, moved: float, grades: tuple[Grade, Grade]) -> None:
    found = {"effective_sample_size": 10.0, "unknown_mass": missed, "moved": moved}
    found["unknown_mass_stderr"] = 0.0
    made = checks.fresh_draw_checks(found, LIMITS)
    assert [check.name for check in made] == ["missed", "moved"]
    assert tuple(check.grade for check in made) == grades
    for check in made:
        assert_sound(check)


@pytest.mark.parametrize(("error", "grade"), [(0.0, GRAVE), (0.1, CAUTION), (0.3, OK), (9.0, OK)])
def test_one_draw_does_not_show_that_something_was_missed(error: float, grade: Grade) -> None:
    found = {"effective_sample_size": 10.0, "unknown_mass": 0.65, "unknown_mass_stderr": error}
    missed, _ = checks.fresh_draw_checks(found | {"moved": 0.0}, LIMITS)
    assert missed.grade is grade
    assert missed.measured == pytest.approx(max(0.0, 0.65 - 2.0 * error))
    assert_sound(missed)


@pytest.mark.parametrize("effective", [0.0, 1.0, 9.99])
def test_nothing_leans_on_draws_that_are_worth_fewer_than_ten(effective: float) -> None:
    found = {"effective_sample_size": effective, "unknown_mass": 1.0, "moved": 1.0}
    assert checks.fresh_draw_checks(found, LIMITS) == []
    assert checks.fresh_draw_checks({}, LIMITS) == []
    assert CheckSettings().fewest_effective == 10.0


@pytest.mark.parametrize(
    ("share", "gap", "grade"),
    [
        (1.0, 0.0, OK),
        (0.95, 0.04, OK),
        (0.95, 0.05, CAUTION),
        (0.85, 0.0, CAUTION),
        (0.06, 2.9, CAUTION),
        (0.95, 3.0, GRAVE),
        (0.04, 0.0, GRAVE),
    ],
)
def test_network(share: float, gap: float, grade: Grade) -> None:
    check = checks.network_check(share * 8000, gap, 8000)
    assert check.grade is grade
    assert_sound(check)


@pytest.mark.parametrize(
    ("r2", "grade"), [(1.0, OK), (0.21, OK), (0.2, CAUTION), (0.0, CAUTION), (-5.0, CAUTION)]
)
def test_explained(r2: float, grade: Grade) -> None:
    check = checks.explained_check(r2, LIMITS)
    assert check.grade is grade
    assert check.grave_limit is None  # data may be noise, and the posterior right to say so
    assert_sound(check)


def test_a_constant_target_leaves_nothing_to_explain() -> None:
    check = checks.explained_check(math.nan, LIMITS)
    assert check.grade is OK
    assert "%" not in check.sentence


def test_unsure() -> None:
    assert checks.unsure_check(0).grade is OK
    for count in (1, 30):
        check = checks.unsure_check(count)
        assert check.grade is CAUTION
        assert f"integrals of {count} are not known well enough" in check.sentence
        assert_sound(check)


@pytest.fixture(scope="module")
def weigher() -> FormWeigher:
    return weigher_of(problem_of())


def test_explained_is_the_r_squared_of_the_posteriors_mean(weigher: FormWeigher) -> None:
    slope, offset = np.polyfit(X, LINE, 1)
    expected = 1.0 - ((LINE - slope * X - offset) ** 2).mean() / LINE.var()
    found = checks.explained(weigher.search.problem, make_posterior(weigher))
    assert found == pytest.approx(expected, abs=0.005)


def test_what_the_checks_of_the_data_are_given(weigher: FormWeigher) -> None:
    problem, posterior = weigher.search.problem, make_posterior(weigher)
    rep = checks.replication(problem, posterior, 3)
    assert rep.curves.shape == rep.residuals.shape == rep.replicated.shape == (1000, len(X))
    np.testing.assert_array_equal(rep.y, problem.data.y)
    np.testing.assert_array_equal(LINE[rep.position], rep.y)  # sorted rows, and where they were
    draws = posterior.draws.chosen(np.linspace(0, len(posterior.draws) - 1, 1000).astype(int))
    sigma = draws.noise_factor * draws.scale
    np.testing.assert_allclose(
        rep.residuals * sigma[:, None] + rep.curves, rep.y + 0.0 * rep.curves
    )
    np.testing.assert_allclose(
        rep.log_density,
        -0.5 * rep.residuals**2 - np.log(sigma)[:, None] - 0.5 * math.log(2.0 * math.pi),
        atol=1e-9,
    )
    assert (rep.noise.name, rep.noise_is_inferred) == ("gaussian", True)
    assert 0.0 < float(rep.scale_prior or 0.0) < 1.0
    assert abs(rep.replicated.mean()) < 4.0 / math.sqrt(rep.replicated.size)
    again, other = (checks.replication(problem, posterior, seed) for seed in (3, 4))
    np.testing.assert_array_equal(again.replicated, rep.replicated)
    assert (other.replicated != rep.replicated).any()


def test_rows_seen_twice_count_twice() -> None:
    weights = np.array([2.0, 1.0] * 7)
    made: Any = weigher_of(problem_of(sample_weight=weights))
    rep = checks.replication(made.search.problem, make_posterior(made), 0)
    np.testing.assert_array_equal(rep.counts, weights[rep.position])
