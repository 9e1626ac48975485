"""`compare` with Student and relative noise, against integrals by SciPy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dvisr import Student, compare, exact_posterior
from tests.estimator.test_noise import NOISES, WITH, X, Y, log_likelihood
from tests.marks import quick_only


@pytest.mark.parametrize("with_", quick_only(WITH, "both"))
@pytest.mark.parametrize("noise", NOISES)
def test_the_evidence_of_formulas_without_constants(noise: str, with_: str) -> None:
    found = compare(X, Y, ["x0 + x0", "x0"], noise=noise, random_state=0, **WITH[with_])
    table = found.table.set_index("expression")
    for text, factor in (("x0 + x0", 2.0), ("x0", 1.0)):
        expected = log_likelihood(noise, Y, factor * X[:, 0], **WITH[with_])
        assert table["log_evidence"][text] == pytest.approx(expected, abs=1e-6)
        assert table["log_evidence_stderr"][text] == 0.0


@pytest.mark.parametrize("noise", NOISES)
def test_the_evidence_of_a_formula_with_a_constant(noise: str) -> None:
    row = compare(X, Y, ["x0 * c"], noise=noise, constant_prior="normal:0,10", random_state=0)
    oracle = exact_posterior(
        X, Y, operators=("*",), constants=True, max_tokens=3, noise=noise,
        constraints=["default", "min-tokens=3"], max_constants=1,
    )  # fmt: skip
    trees = oracle.table(10).set_index("expression")["log_joint"]
    prior = -np.log(oracle.num_trees)  # uniform over all trees, forbidden ones too
    one = row.table.iloc[0]
    assert one["log_evidence"] == pytest.approx(
        float(trees["x0 * c"]) - prior, abs=4.0 * one["log_evidence_stderr"] + 1e-3
    )
    assert np.isfinite(one["elpd_loo"])
    assert row.constants["mean"][0] == pytest.approx(2.3, abs=0.3)


@pytest.mark.slow
def test_draws_and_assumptions() -> None:
    for noise, said in (("student", "Student t with 4 degrees"), ("relative", "logarithm of y")):
        found = compare(X, Y, ["x0 * c"], noise=noise, random_state=0)
        assert said in " ".join(found.assumptions)
        assert np.isfinite(np.asarray(found.to_datatree(count=50)["log_likelihood"]["y"])).all()
        same: Any = compare(X, Y, ["x0 * c"], noise=noise, random_state=0)
        assert same.table.equals(found.table)
    named = compare(X, Y, ["x0 * c"], noise=Student(), random_state=0)
    assert named.table.equals(compare(X, Y, ["x0 * c"], noise="student", random_state=0).table)


def test_relative_noise_is_for_a_positive_target() -> None:
    with pytest.raises(ValueError, match="for a positive target, but y is -1 in one row"):
        compare(X, np.where(np.arange(14) == 2, -1.0, Y), ["x0 * c"], noise="relative")
