"""What the answer would be under another prior: as if it had been fitted with that one."""

from __future__ import annotations

import numpy as np
import pytest

from dvisr.checks import DATA, Grade, graded
from dvisr.fitting import checks
from dvisr.fitting.building import make_posterior
from dvisr.fitting.other_priors import OtherPrior, other_priors
from dvisr.posterior import Posterior
from dvisr.settings import CheckSettings
from tests.fitting.problems import problem_of
from tests.fitting.test_weighing import weigher_of

OPERATORS = ("+", "*", "exp")


def posterior_under(name: str) -> Posterior:
    weigher = weigher_of(problem_of(tree_prior=name, operators=OPERATORS, max_tokens=4))
    return make_posterior(weigher)


def test_it_is_the_answer_of_a_fit_with_that_prior() -> None:
    weigher = weigher_of(problem_of(tree_prior="science", operators=OPERATORS, max_tokens=4))
    own = make_posterior(weigher)
    others = other_priors(weigher, own)
    assert [other.name for other in others] == ["size-balanced", "uniform"]
    for other in others:
        fitted = {str(f.expression): f.probability for f in posterior_under(other.name).functions}
        for function, found in zip(own.functions, other.probabilities, strict=True):
            expected = fitted.get(str(function.expression))
            if expected is not None and expected > 1e-3:
                assert found == pytest.approx(expected, rel=0.1)
        shares = [share for _, share in other.first]
        assert shares == sorted(shares, reverse=True)
        assert other.first[0][0] == max(fitted, key=lambda text: fitted[text])


def test_a_fits_own_prior_is_not_another() -> None:
    weigher = weigher_of(problem_of(tree_prior="size-balanced", operators=OPERATORS, max_tokens=4))
    assert [other.name for other in other_priors(weigher, make_posterior(weigher))] == ["uniform"]


def test_log_prior_and_log_likelihood_make_the_joint() -> None:
    table = posterior_under("science").function_table()
    np.testing.assert_allclose(table["log_prior"] + table["log_likelihood"], table["log_joint"])
    assert (table["log_prior"] < 0.0).all()


@pytest.mark.parametrize(
    ("under", "grade"),
    [((1.0, 1.0), Grade.OK), ((0.5, 1e-9), Grade.OK), ((1e-3, 1e-9), Grade.CAUTION)],
)
def test_the_prior_decides_where_no_other_prior_agrees(
    under: tuple[float, float], grade: Grade
) -> None:
    posterior = posterior_under("science")
    share = posterior.functions[0].probability
    rest = (0.0,) * (len(posterior.functions) - 1)
    others = [
        OtherPrior(name, (0.1 * share * factor, *rest), (("x * x", 0.9),), share * factor)
        for name, factor in zip(("size-balanced", "uniform"), under, strict=True)
    ]
    limits = CheckSettings(prior_decides=4.0)
    check = checks.prior_check(posterior, others, limits)
    assert check.group == DATA
    assert check.grade is grade is graded(check.measured, check.limit)
    assert "under size-balanced" in check.sentence
    assert ("x * x" in check.sentence) == (grade is not Grade.OK)


def test_without_another_prior_nothing_is_said_of_it() -> None:
    check = checks.prior_check(posterior_under("science"), [], CheckSettings())
    assert check.grade is Grade.OK


def test_a_function_that_says_the_same_agrees() -> None:
    """Half of a line is a number: x + x / 2 + c has no slope to pay for, and is the same line."""
    x = np.linspace(-2.0, 3.0, 30)
    y = 1.5 * x + 0.7 + np.random.default_rng(0).normal(0.0, 0.1, 30)
    words = {"operators": ("+", "*", "/", "2"), "max_tokens": 7, "constant_prior": "decades"}
    weigher = weigher_of(problem_of(y, x, tree_prior="science", **words))
    own = make_posterior(weigher)
    assert str(own.functions[0].expression) == "x0 * c + c"
    for other in other_priors(weigher, own):
        assert other.first[0][0] != "x0 * c + c"
        assert other.probabilities[0] < 0.1
        assert other.agreeing > 0.8


def test_a_function_that_says_something_else_does_not_agree() -> None:
    """A line and a parabola through few points: under another prior the parabola is first."""
    x = np.linspace(-1.0, 1.0, 6)
    y = 0.8 * x + 0.3 * x * x + np.random.default_rng(2).normal(0.0, 0.15, 6)
    words = {"operators": ("+", "*"), "max_tokens": 7, "constant_prior": "decades"}
    weigher = weigher_of(problem_of(y, x, tree_prior="science", **words))
    own = make_posterior(weigher)
    for other in other_priors(weigher, own):
        named = dict(other.first)
        said_otherwise = [text for text in named if "x0 * x0" in text]
        assert said_otherwise
        assert other.agreeing < 1.0 - max(named[text] for text in said_otherwise)
