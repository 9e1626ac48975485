"""Sums over functions against sums over enumerated trees, away from the edge of any domain."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dvisr import exact_posterior, new_operator
from dvisr.constraints import Grammar, MaxDepth, Rule, max_repeats, min_tokens
from dvisr.counting import count_trees
from dvisr.enumeration import enumerate_trees
from dvisr.evaluation import evaluate
from dvisr.exact import ExactPosterior, TooManyFunctions
from dvisr.exact import functions as functions_module
from dvisr.exact.grouping import fingerprints, group
from dvisr.expression import Expression, parse
from dvisr.library import Library, Token
from dvisr.likelihood import make_likelihood
from dvisr.prior import tree_prior as make_tree_prior
from tests import strategies

# No subtraction here, no sine of something enormous, and values well inside every domain, so
# rounding decides nothing.
OPERATORS = ["+", "*", "/", "sin", "sqrt", "tanh"]
RNG = np.random.default_rng(11)
DATA = RNG.uniform(0.5, 1.5, size=(7, 2))
TARGET = DATA[:, 0] / DATA[:, 1] + RNG.normal(0.0, 0.1, 7)


def by_enumeration(
    grammar: Grammar, prior: str | dict[str, float], noise: float | str
) -> tuple[list[Expression], np.ndarray, np.ndarray]:
    trees = enumerate_trees(grammar)
    expressions = [
        Expression(grammar.library, tuple(int(t) for t in row[row >= 0])) for row in trees
    ]
    found = [evaluate(expression, DATA) for expression in expressions]
    values = np.stack([np.broadcast_to(value, len(DATA)) for value, _ in found])
    valid = np.array([bool(np.all(is_defined)) for _, is_defined in found])
    likelihood = make_likelihood(TARGET, noise)
    log_likelihood = np.where(valid, likelihood.log_prob(np, np.nan_to_num(values)), -np.inf)
    log_prior = make_tree_prior(prior, grammar).log_prob(np, trees)
    return expressions, log_likelihood + log_prior, np.where(valid[:, None], values, np.nan)


def check(
    posterior: ExactPosterior, grammar: Grammar, prior: str | dict[str, float], noise: float | str
) -> None:
    expressions, log_joint, values = by_enumeration(grammar, prior, noise)
    log_evidence = float(np.logaddexp.reduce(log_joint))
    assert posterior.log_evidence == pytest.approx(log_evidence, abs=1e-9)
    assert posterior.num_allowed == len(expressions)
    valid = np.isfinite(values).all(axis=1)
    distinct = {tuple(f"{value:.9e}" for value in row) for row in values[valid]}
    assert posterior.num_functions == len(distinct)
    # The likeliest trees, with their own joint probabilities.
    table = posterior.table(15)
    top = np.sort(log_joint[np.isfinite(log_joint)])[::-1][:15]
    np.testing.assert_allclose(table["log_joint"], top, atol=1e-9)
    known = {str(e): value for e, value in zip(expressions, log_joint, strict=True)}
    assert len(known) == len(expressions)
    for text, value in zip(table["expression"], table["log_joint"], strict=True):
        assert known[text] == pytest.approx(value, abs=1e-9)
    assert table["expression"].is_unique
    # The functions: together they are everything, and each has all of its trees.
    functions = posterior.functions(10**6)
    assert functions["probability"].sum() == pytest.approx(1.0, abs=1e-9)
    assert functions["num_trees"].sum() == valid.sum()
    library = grammar.library
    for row in functions.head(5).itertuples():
        tokens = parse(str(row.expression), library).tokens
        mine = values[[e.tokens for e in expressions].index(tokens)]
        same = np.isclose(values, mine, rtol=1e-9, atol=0.0).all(axis=1)
        assert row.num_trees == same.sum()
        assert row.log_joint == pytest.approx(np.logaddexp.reduce(log_joint[same]), abs=1e-9)


@pytest.mark.parametrize(
    "prior", ["uniform", "allowed", "size-balanced", "weights", {"sin": 0.2}, "science"]
)
@pytest.mark.parametrize("constraints", ["none", "paper"])
def test_every_prior(prior: str | dict[str, float], constraints: str) -> None:
    posterior = exact_posterior(
        DATA, TARGET, operators=OPERATORS, max_tokens=5, constraints=constraints,
        tree_prior=prior, noise=0.3,
    )  # fmt: skip
    check(posterior, posterior.grammar, prior, 0.3)


@settings(max_examples=40)
@given(data=st.data())
def test_any_rules(data: st.DataObject) -> None:
    names = data.draw(st.lists(st.sampled_from(OPERATORS), min_size=2, max_size=4, unique=True))
    library = Library.create([*names, "2"], ["x0", "x1"])
    rules: list[Rule] = [
        checked.rule
        for checked in data.draw(st.lists(strategies.checked_rules(library), max_size=4))
    ]
    noises: list[float | str] = [0.3, "infer"]
    noise = data.draw(st.sampled_from(noises))
    prior = data.draw(st.sampled_from(["uniform", "size-balanced", "weights", "science"]))
    try:
        grammar = Grammar(library, 5, rules)
    except ValueError:
        assume(False)
    _, log_joint, _ = by_enumeration(grammar, prior, noise)
    assume(np.isfinite(log_joint).any())
    posterior = exact_posterior(
        DATA, TARGET, operators=[*names, "2"], max_tokens=5, constraints=rules,
        tree_prior=prior, noise=noise,
    )  # fmt: skip
    check(posterior, grammar, prior, noise)


def test_depth_counts_and_sides_together() -> None:
    from dvisr.constraints import ForbidChild

    rules: list[Rule] = [
        ForbidChild(frozenset({"+"}), frozenset({"x1"}), "left"),
        MaxDepth(3),
        max_repeats("x0", 2),
        max_repeats(("sin", "*"), 2),
        min_tokens(3),
    ]
    operators = ["+", "*", "/", "sin"]
    posterior = exact_posterior(
        DATA, TARGET, operators=operators, max_tokens=7, constraints=rules, noise=0.2
    )
    check(posterior, posterior.grammar, "uniform", 0.2)


def test_a_users_operators_in_the_oracle() -> None:
    hypotenuse = new_operator(
        "hypot", 2, lambda np, a, b: np.sqrt(a * a + b * b), is_commutative=True
    )
    lean = new_operator(
        "lean", 2, lambda np, a, b: a - 0.25 * b, is_defined=lambda np, a, b: a > 0.0
    )
    operators: list[str | Token] = ["+", hypotenuse, lean, "sin"]
    posterior = exact_posterior(DATA, TARGET, operators=operators, max_tokens=5, noise=0.3)
    check(posterior, posterior.grammar, "uniform", 0.3)


def test_rounding_does_not_split_functions_and_hashing_tells_them_apart() -> None:
    x = np.linspace(0.1, 1.0, 11)
    rows = np.stack([x * x + x, x * (x + 1.0), x * x + x * (1.0 + 1e-9), -0.0 * x, 0.0 * x])
    members, starts = group(fingerprints(rows))
    groups = {frozenset(members[a:b].tolist()) for a, b in itertools.pairwise(starts)}
    assert groups == {frozenset({0, 1}), frozenset({2}), frozenset({3, 4})}


def test_the_edge_of_a_domain_is_as_documented() -> None:
    """x - x is zero exactly and so undefined under a division; sums that cancel only up to
    rounding need not be. The oracle and enumeration may differ there, and nowhere else."""
    posterior = exact_posterior(
        DATA[:, :1], TARGET, operators=["-", "/"], max_tokens=5, noise=0.3, constraints="none"
    )
    table = posterior.table(10**6)
    assert "x0 / (x0 - x0)" not in set(table["expression"])
    assert "(x0 - x0) / x0" in set(table["expression"])
    assert posterior.num_allowed == count_trees(posterior.grammar)


def test_more_than_fits_is_refused_with_advice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions_module, "MAX_LEVEL_BYTES", 100_000)
    with pytest.raises(TooManyFunctions, match=r"lower max_tokens to \d+"):
        exact_posterior(DATA, TARGET, operators=OPERATORS, max_tokens=12)


@pytest.mark.parametrize("count", [0, -1, 2.5, True])
def test_bad_row_counts(count: int) -> None:
    posterior = exact_posterior(DATA, TARGET, operators=["+"], max_tokens=3)
    with pytest.raises(ValueError, match="number of rows"):
        posterior.table(count)


def test_nothing_is_possible() -> None:
    with pytest.raises(ValueError, match="no expression has a likelihood above zero"):
        exact_posterior(DATA, TARGET * 1e200, operators=["+"], max_tokens=3, noise=1e-200)
    with pytest.raises(ValueError, match="no expression has a likelihood above zero"):
        exact_posterior(-DATA, TARGET, operators=["log"], max_tokens=2, constraints="min-tokens=2")


def test_progress_goes_from_nothing_to_everything() -> None:
    seen: list[float] = []
    exact_posterior(DATA, TARGET, operators=OPERATORS, max_tokens=5, progress=seen.append)
    assert seen == sorted(seen)
    assert 0.0 < seen[0] < 0.2
    assert seen[-1] == 1.0


def test_values_that_differ_in_the_fourteenth_digit_are_two_functions() -> None:
    """x^4 + 1 and x^4 + 2 at x near 2000 differ by 6e-14; their sines have nothing in common."""
    X = np.arange(1990, 2021, 3.0)[:, None]
    y = np.sin(X[:, 0] ** 4 + 2)
    posterior = exact_posterior(
        X, y, operators=["+", "sin", "square", "1", "2"], max_tokens=6, noise=0.1
    )
    assert posterior.table(1)["expression"][0] == "sin(square(square(x0)) + 2)"
    # A perfect fit among 11 points, at a noise of 0.1, one of so many trees.
    perfect = -11 * np.log(0.1 * np.sqrt(2 * np.pi)) - np.log(posterior.num_trees)
    assert posterior.table(1)["log_joint"][0] == pytest.approx(perfect, abs=1e-9)


def test_the_number_of_functions_does_not_hang_on_the_number_of_points() -> None:
    """With more points, more values fall on any edge of rounding; functions stay functions."""
    counts = set()
    for points in (50, 500, 3000):
        x = np.linspace(0.05, 1.0, points)[:, None]
        counts.add(exact_posterior(x, x[:, 0] ** 2, max_tokens=11).num_functions)
    assert len(counts) == 1


def test_equally_likely_trees_are_listed_smallest_first() -> None:
    x = np.linspace(0.0, 1.0, 5)[:, None]
    posterior = exact_posterior(x, x[:, 0], max_tokens=12, noise=1e7)
    complexity = posterior.table(30)["complexity"]
    assert list(complexity) == sorted(complexity)


def test_trees_without_likelihood_are_not_listed() -> None:
    x = np.linspace(-1.0, 1.0, 5)[:, None]
    for constants in (False, True):
        posterior = exact_posterior(
            x, x[:, 0], operators=["log", "+"], max_tokens=3, constants=constants
        )
        assert np.isfinite(posterior.table(1000)["log_joint"]).all()
        assert np.isfinite(posterior.functions(1000)["log_joint"]).all()


def test_a_forecast_knows_that_rules_end_growth() -> None:
    """To depth 3 there are few trees, whatever max_tokens says; without the rule it is hopeless."""
    x = np.linspace(0.1, 1.0, 5)[:, None]
    posterior = exact_posterior(
        x, x[:, 0], operators=["+", "*", "sin"], max_tokens=100, constraints="paper,max-depth=3"
    )
    assert posterior.num_allowed == count_trees(posterior.grammar) > 100
    with pytest.raises(TooManyFunctions, match="lower max_tokens to"):
        exact_posterior(x, x[:, 0], operators="+,-,*,/,sin,cos,exp,log", max_tokens=120)
