"""Laws to train on: trees as the prior has them, whatever the number of columns, and tables that
are what their settings say."""

from __future__ import annotations

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.stats

from dvisr import DVISRRegressor
from dvisr.evaluation import evaluate
from dvisr.expression import Expression
from dvisr.library import Kind
from dvisr.policy.reading import MOST_ROWS
from dvisr.policy.vocabulary import MOST_COLUMNS
from dvisr.pretraining.laws import LawMaker, Laws, LawSettings, draw_noise, language
from dvisr.prior import TreePrior
from dvisr.prior.named import tree_prior
from dvisr.sampling.following import follow

COUNT = 20_000


def science(grammar: Any) -> TreePrior:
    return tree_prior("science", grammar)


def maker(**changes: Any) -> LawMaker:
    return LawMaker.create(science, LawSettings(**changes), max_tokens=5)


@pytest.fixture(scope="module")
def drawn() -> tuple[LawMaker, Laws]:
    made = maker(kept_size=1.0, column_weights=(0.0, 0.0, 1.0))
    return made, jax.jit(lambda: made.draw(jax.random.key(0), COUNT))()


def log_prior_of(made: LawMaker, trees: np.ndarray) -> np.ndarray:
    """Of trees of three columns: the prior of the network's own language, which has ten, with the
    share of ten divided among three."""
    prior = science(language(5))
    first = made.library.ids_of_kind(Kind.VARIABLE)[0]
    num_columns = (trees >= first).sum(axis=1)
    found: np.ndarray = np.asarray(prior.log_prob(np, trees)) + num_columns * math.log(10 / 3)
    return found


def test_trees_fit_the_prior(drawn: tuple[LawMaker, Laws]) -> None:
    """Of three columns: chi-square over the likeliest trees, at a false alarm in a thousand."""
    made, laws = drawn
    trees = np.asarray(laws.tokens).astype(np.int8)
    distinct, counts = np.unique(trees, axis=0, return_counts=True)
    log_prior = log_prior_of(made, distinct)
    expected = COUNT * np.exp(log_prior)
    common = expected > 20.0
    assert common.sum() > 50
    rest = COUNT - expected[common].sum(), COUNT - counts[common].sum()
    expected, found = np.append(expected[common], rest[0]), np.append(counts[common], rest[1])
    assert scipy.stats.chisquare(found, expected).pvalue > 1e-3


def test_weights_for_fewer_columns(drawn: tuple[LawMaker, Laws]) -> None:
    """Followed along a tree they give its prior for as many columns as the table has."""
    made, laws = drawn

    def log_p(tokens: Any, table: Any) -> Any:
        weights = jax.nn.log_softmax(made.weights(follow(made.writer, tokens)[1], table))
        chosen = tokens[:, None] == jnp.arange(len(made.library), dtype=jnp.int32)[None]
        return jnp.where(chosen, weights, 0.0).sum()

    some = jax.tree.map(lambda leaf: leaf[:200], laws)
    found = jax.vmap(log_p)(some.tokens, some.table)
    trees = np.asarray(some.tokens).astype(np.int8)
    np.testing.assert_allclose(found, log_prior_of(made, trees), atol=1e-4)


def test_values_are_the_laws(drawn: tuple[LawMaker, Laws]) -> None:
    """Without noise, a law without constants has the values that NumPy gives it."""
    made = maker(noise=(1e-30, 1e-29), outlier_tables=0.0)
    laws = jax.jit(lambda: made.draw(jax.random.key(1), 300))()
    checked = 0
    for number in np.flatnonzero(np.asarray(laws.is_good)):
        tokens = np.asarray(laws.tokens[number])
        if (tokens == made.library.constant_id).any():
            continue
        expression = Expression(made.library, tuple(int(t) for t in tokens if t >= 0))
        rows = np.asarray(laws.table.is_row[number])
        X = np.asarray(laws.table.X[number], dtype=np.float64)[rows]
        values, _ = evaluate(expression, X)
        y = np.asarray(laws.table.y[number])[rows]
        np.testing.assert_allclose(y, values, rtol=1e-3, atol=1e-5 * np.abs(values).max())
        checked += 1
    assert checked > 20


def test_tables_are_as_they_should_be() -> None:
    made = maker()
    laws = jax.jit(lambda: made.draw(jax.random.key(2), 2000))()
    table = laws.table
    good = np.asarray(laws.is_good)
    assert 0.2 < good.mean() < 0.9
    rows, columns = np.asarray(table.is_row).sum(axis=1), np.asarray(table.is_column).sum(axis=1)
    assert rows.min() == 5
    assert rows.max() == MOST_ROWS
    assert columns.min() == 1
    assert columns.max() == MOST_COLUMNS
    for leaf in (table.X, table.y):
        assert np.isfinite(np.asarray(leaf)[good]).all()
    assert (np.asarray(table.X)[~np.asarray(table.is_row)] == 0.0).all()
    first = made.library.ids_of_kind(Kind.VARIABLE)[0]
    used = np.asarray(laws.tokens).max(axis=1) - first
    assert (used < columns).all()
    sizes = np.log10(np.abs(np.asarray(table.X)[good & (columns == 10)]).max(axis=(1, 2)))
    assert np.ptp(sizes) > 6.0


def test_noise_is_of_the_size_that_is_asked_for() -> None:
    own = LawSettings(noise=(0.1, 0.1 + 1e-9), outlier_tables=0.0)
    keys = jax.random.split(jax.random.key(3), 500)
    drawn = np.asarray(jax.vmap(lambda key: draw_noise(key, own))(keys))
    assert drawn.std() == pytest.approx(0.1, rel=0.03)


def test_its_language_is_the_default_of_a_fit() -> None:
    names = [t.name for t in language(5).library if t.kind in (Kind.OPERATOR, Kind.LITERAL)]
    assert set(names) == set(DVISRRegressor().operators)
