"""What every implementation of an interface must hold to."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import integrate, stats

from dvisr.constants import AbstractConstantHead
from dvisr.constraints import Grammar, Rule
from dvisr.enumeration import enumerate_trees
from dvisr.evaluation import evaluate, evaluate_batch
from dvisr.evaluation.device import Evaluator
from dvisr.expression import Expression, parse
from dvisr.library import Library, Token
from dvisr.policy import AbstractPolicy
from dvisr.prior import TreePrior, tree_prior
from dvisr.sampling import IndependentDraws, log_prob, make_writer, sample
from dvisr.search import moves
from dvisr.search.from_prior import PriorSampler
from dvisr.search.rows import measured, new_workspace
from dvisr.search.streams import new_stream

FALSE_ALARM = 2e-5


def check_head(head: AbstractConstantHead) -> None:
    """A proper density that samples fit, with finite slopes wherever a network may stray."""
    for number in range(4):
        key = jax.random.key(number)
        outputs = 1.5 * jax.random.normal(key, (head.num_outputs,), dtype=jnp.float64)
        centre, scale = float(head.centre(outputs)), float(head.scale(outputs))
        assert np.isfinite(centre)
        assert scale > 0.0
        log_density = jax.jit(lambda v, o=outputs: head.log_prob(o, v))

        def density(value: float, f: Any = log_density) -> float:
            return float(np.exp(f(jnp.asarray(value))))

        # In units of the scale around the centre: this is what quadrature relies on.
        edges = [-np.inf, centre - 4 * scale, centre, centre + 4 * scale, np.inf]
        mass = sum(integrate.quad(density, *edge)[0] for edge in itertools.pairwise(edges))
        assert abs(mass - 1.0) < 1e-7
        middle = integrate.quad(density, centre - 20 * scale, centre + 20 * scale, limit=200)[0]
        assert middle > 0.9

        keys = jax.random.split(key, 4000)
        drawn = np.asarray(jax.vmap(lambda k, o=outputs: head.sample(o, key=k))(keys))
        fine = _fine(drawn, centre, scale)
        heights = np.exp(np.asarray(jax.vmap(log_density)(jnp.asarray(fine))))
        left = integrate.quad(density, -np.inf, float(fine[0]))[0]
        cumulative = left + integrate.cumulative_trapezoid(heights, fine, initial=0)
        ranks = np.interp(drawn, fine, cumulative)
        assert stats.kstest(ranks, stats.uniform.cdf).pvalue > FALSE_ALARM

        moved, choice = head.path(outputs, jnp.asarray(centre + 0.3 * scale))
        assert abs(float(moved) - (centre + 0.3 * scale)) < 1e-12 * max(1.0, abs(centre), scale)
        assert float(choice) <= 0.0

        slopes = jax.jacobian(lambda o, v: head.log_prob(o, v))(outputs, jnp.asarray(centre))
        assert np.isfinite(slopes).all()
    for far in (-30.0, 30.0):
        outputs = jnp.full((head.num_outputs,), far)
        slopes = jax.jacobian(head.log_prob)(outputs, head.centre(outputs))
        assert np.isfinite(slopes).all()


def _fine(drawn: np.ndarray, centre: float, scale: float) -> np.ndarray:
    """Points close enough together for the trapezoidal rule, over all that was drawn."""
    inner = np.linspace(centre - 12 * scale, centre + 12 * scale, 20_001)
    return np.unique(np.concatenate([inner, drawn]))


def check_policy(policy: AbstractPolicy, grammar: Grammar) -> None:
    """A distribution over the grammar's trees, drawn from as it says, with finite slopes."""
    writer = make_writer(grammar)
    trees = enumerate_trees(grammar)
    constant = grammar.library.constant_id
    drawn = IndependentDraws()(policy, writer, 2000, key=jax.random.key(7))
    assert drawn.log_q.dtype == drawn.constants.dtype == policy.dtype
    legal = {tuple(tree) for tree in trees.tolist()}
    assert {tuple(tokens) for tokens in np.asarray(drawn.tokens).tolist()} <= legal
    is_constant = (np.asarray(drawn.tokens) == constant) & (np.asarray(drawn.tokens) >= 0)
    assert (np.asarray(drawn.constants)[~is_constant] == 0.0).all()
    again = jax.vmap(lambda t, c: log_prob(policy, writer, t, c))(drawn.tokens, drawn.constants)
    np.testing.assert_allclose(again, drawn.log_q, rtol=1e-12, atol=1e-12)
    if constant < 0:
        total = jax.vmap(lambda t: log_prob(policy, writer, t, jnp.zeros(t.shape, policy.dtype)))(
            jnp.asarray(trees, jnp.int32)
        )
        assert abs(float(jnp.exp(total).sum()) - 1.0) < 1e-12
    slopes = eqx.filter_grad(lambda p: sample(p, writer, key=jax.random.key(3)).log_q)(policy)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(slopes))


def check_operator(operator: Token, operands: np.ndarray) -> None:
    """One definition for all evaluators, with the slopes and the algebra that it promises.
    `operands` are points (points, arity) of its domain."""
    names = ["a", "b"][: operator.arity]
    library = Library.create([operator], names)
    text = f"{operator.name}({', '.join(names)})"
    expression = parse(text, library)
    assert str(expression) == text
    values, is_defined = evaluate(expression, operands)
    assert is_defined.all()
    tokens = np.array([expression.tokens], dtype=np.int8)
    by_kernel, valid = evaluate_batch(library, tokens, operands)
    by_jax, is_valid = Evaluator(library)(
        jnp.asarray(tokens[0], jnp.int32), jnp.zeros(tokens.shape[1]), jnp.asarray(operands)
    )
    assert valid.all()
    assert bool(is_valid)
    np.testing.assert_allclose(by_kernel[0], values, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(by_jax, values, rtol=1e-12, atol=1e-14)
    _check_slopes(operator, operands)
    _check_promises(operator, operands)


def _check_slopes(operator: Token, operands: np.ndarray) -> None:
    """Declared derivatives against JAX's own."""
    function: Any = operator.function
    columns = [jnp.asarray(column) for column in operands.T]
    for place, derivative in enumerate(operator.derivatives or ()):
        slope = jax.vmap(jax.grad(lambda *x: function(jnp, *x), argnums=place))(*columns)
        np.testing.assert_allclose(derivative(np, *operands.T), slope, rtol=1e-9, atol=1e-12)


def _check_promises(operator: Token, operands: np.ndarray) -> None:
    function: Any = operator.function

    def of(*x: np.ndarray) -> np.ndarray:
        return np.asarray(function(np, *x))

    close: Any = lambda one, two: np.testing.assert_allclose(one, two, rtol=1e-9, atol=1e-12)  # noqa: E731
    first, last = operands[:, 0], operands[:, -1]
    if operator.parity is not None:
        close(of(-first), -of(first) if operator.parity == "odd" else of(first))
    if operator.is_commutative:
        close(of(first, last), of(last, first))
    if operator.is_associative:
        third = np.roll(first, 1)
        close(of(of(first, last), third), of(first, of(last, third)))
    if operator.linearity == "joint":
        half = 0.5 * (operands + np.roll(operands, 1, axis=0))
        close(of(*half.T), 0.5 * (of(*operands.T) + np.roll(of(*operands.T), 1)))
    if operator.linearity in ("each", "first"):
        middle = 0.5 * (first + np.roll(first, 1))
        close(of(middle, last), 0.5 * (of(first, last) + of(np.roll(first, 1), last)))
    if operator.linearity == "each":
        middle = 0.5 * (last + np.roll(last, 1))
        close(of(first, middle), 0.5 * (of(first, last) + of(first, np.roll(last, 1))))


def check_rule(
    rule: Rule, library: Library, max_tokens: int, is_forbidden: Callable[[Expression], bool]
) -> None:
    """The rule leaves the trees that a plain function of finished trees leaves, and no other."""

    def of_row(row: np.ndarray) -> Expression:
        return Expression(library, tuple(int(token) for token in row if token >= 0))

    before = [of_row(row) for row in enumerate_trees(Grammar(library, max_tokens))]
    after = {of_row(row) for row in enumerate_trees(Grammar(library, max_tokens, [rule]))}
    left = {tree for tree in before if not is_forbidden(tree)}
    assert 0 < len(left) < len(before)
    assert after == left
    assert rule.describe()


def check_prior(prior: TreePrior, grammar: Grammar) -> None:
    """A distribution over the legal trees, the same by NumPy and JAX, that draws fit."""
    trees = enumerate_trees(grammar)
    log_prior = prior.log_prob(np, trees)
    assert np.isfinite(log_prior).all()
    assert abs(float(np.exp(log_prior).sum()) - 1.0) < 1e-12
    by_jax = prior.log_prob(jnp, jnp.asarray(trees))
    np.testing.assert_allclose(by_jax, log_prior, rtol=1e-12)
    drawn = PriorSampler(grammar, prior).draw(20_000, np.random.default_rng(0))
    codes = {tuple(tree): place for place, tree in enumerate(trees.tolist())}
    counts = np.bincount([codes[tuple(tree)] for tree in drawn.tolist()], minlength=len(trees))
    expected = np.exp(log_prior) * len(drawn)
    is_common = expected >= 5.0
    seen = [*counts[is_common], counts[~is_common].sum()]
    due = [*expected[is_common], expected[~is_common].sum()]
    if due[-1] == 0.0:
        seen, due = seen[:-1], due[:-1]
    assert stats.chisquare(seen, np.array(due) * sum(seen) / sum(due)).pvalue > FALSE_ALARM


def check_move(move: Any) -> None:
    """It writes a whole tree or says that it does not, and leaves the tree it was given alone."""
    library = Library.create(["+", "-", "*", "exp", "sin"], ["x", "y"], constants=True)
    grammar = Grammar(library, 12, "none")
    sampler = PriorSampler(grammar, tree_prior("size-balanced", grammar))
    rows = sampler.draw(300, np.random.default_rng(0))
    tables, workspace = moves.token_tables(library), new_workspace(12)
    sizes = np.zeros(12, dtype=np.int32)
    for donors in (rows[:50], rows[:0]):
        stream, num_made = new_stream(np.random.default_rng(1)), 0
        for row in rows:
            before = row.copy()
            length = measured(row, tables.arities, workspace.sizes)
            new_length = move(row, length, donors, tables, workspace, stream)
            np.testing.assert_array_equal(row, before)
            if 1 <= new_length <= 12:
                num_made += 1
                workspace.made[new_length:] = -1
                assert measured(workspace.made, tables.arities, sizes) == new_length
        assert num_made > 30
