"""From weighed forms to a posterior: merge what is the same function, list the trees, draw."""

from __future__ import annotations

import math

import numpy as np

from dvisr.diagnostics import log_total
from dvisr.fitting import streams
from dvisr.fitting.merging import matched, merged, probe_rows
from dvisr.fitting.weighing import FormWeigher
from dvisr.marginal import Weighed, noise_draws
from dvisr.posterior import Draws, Function, Posterior, Tree, inclusion_of

_SIMILAR = 0.4  # of the likeliest: forms of which the most readable is shown


def make_posterior(weigher: FormWeigher) -> Posterior:
    """Of what was visited and weighed."""
    forms = [form for form in weigher.foremost() if form in weigher.weighed]
    log_evidence = log_total(weigher.visited.form_log_joint)
    if not forms or not math.isfinite(log_evidence):
        raise ValueError(
            "no expression that was tried is defined on these data and near enough to the "
            "target: allow more operators or constants, or rescale the columns"
        )
    shares = weigher.shares()
    groups = _groups(weigher, forms)
    functions = _functions(weigher, groups, shares)
    return Posterior(
        grammar=weigher.search.problem.grammar,
        functions=functions,
        trees=tuple(_trees(weigher, log_evidence)),
        log_evidence=log_evidence,
        log_evidence_stderr=weigher.error(),
        is_exact=weigher.is_exact,
        inclusion=inclusion_of(weigher.search.problem.grammar, functions),
        draws=_draws(weigher, forms, shares),
    )


def moved(weigher: FormWeigher, before: np.ndarray, posterior: Posterior) -> float:
    """How much probability lies elsewhere than before: a total variation between functions, as
    the posterior has merged them. `before` are shares of the forms that there were then."""
    after = weigher.shares()
    earlier = np.zeros(len(after))
    earlier[: len(before)] = before
    difference = after - earlier
    grouped = [list(function.forms) for function in posterior.functions]
    inside = {form for group in grouped for form in group}
    rest = np.array([form not in inside for form in range(len(after))])
    total = sum(abs(float(difference[group].sum())) for group in grouped)
    return 0.5 * (total + float(np.abs(difference[rest]).sum()))


def _groups(weigher: FormWeigher, forms: list[int]) -> list[list[int]]:
    """Forms that the data fit to one and the same function: x * c + c and (x + c) * c, say."""
    trees = np.array([weigher.representative(form) for form in forms])
    groups = merged(weigher.search.engine, trees, probe_rows(weigher.search.problem.X))
    return [[forms[place] for place in group] for group in groups]


def _trees(weigher: FormWeigher, log_evidence: float) -> list[Tree]:
    joint = weigher.visited.tree_log_joint
    count = min(weigher.settings.most_trees, len(joint))
    order = np.argpartition(-joint, count - 1)[:count]
    order = order[np.isfinite(joint[order])]
    order = order[np.argsort(-joint[order], kind="stable")]
    trees = [
        Tree(
            weigher.expression(weigher.visited.trees[number]),
            math.exp(joint[number] - log_evidence),
            float(joint[number]),
            _constants_of(weigher, int(number))
            if place < weigher.settings.most_tree_constants
            else None,
        )
        for place, number in enumerate(order)
    ]
    return sorted(
        trees,
        key=lambda t: (-round(t.log_joint, 9), t.expression.complexity, t.expression.tokens),
    )


def _constants_of(weigher: FormWeigher, number: int) -> Weighed | None:
    """A tree's own constants, in its own order and with its own signs."""
    tree, form = weigher.visited.trees[number], int(weigher.visited.tree_form[number])
    known = weigher.weighed.get(form)
    shown = weigher.representative(form)
    if known is None or (tree == shown).all():
        return known
    X = weigher.search.engine.levels[0].X
    return matched(weigher.expression(shown), known, weigher.expression(tree), X)


def _functions(
    weigher: FormWeigher, groups: list[list[int]], shares: np.ndarray
) -> tuple[Function, ...]:
    """One a group of forms. Probabilities are of the group; the expression is the most readable
    one of those that are about as likely as the likeliest."""
    counts = np.bincount(weigher.visited.tree_form, minlength=weigher.visited.num_forms)
    functions = []
    for members in groups:
        likely = [f for f in members if shares[f] > _SIMILAR * shares[members].max()]
        shown = min(likely, key=lambda form: weigher.reading_order(weigher.representative(form)))
        functions.append(
            Function(
                expression=weigher.expression(weigher.representative(shown)),
                probability=float(shares[members].sum()),
                log_joint=log_total(weigher.visited.form_log_joint[members]),
                num_trees=int(counts[members].sum()),
                weighed=weigher.weighed[shown],
                forms=tuple(members),
                log_prior=log_total(weigher.visited.form_log_prior[members]),
            )
        )
    return tuple(sorted(functions, key=lambda f: (-round(f.log_joint, 9), f.expression.complexity)))


def _draws(weigher: FormWeigher, forms: list[int], shares: np.ndarray) -> Draws:
    rng = np.random.default_rng([weigher.search.seed, streams.POSTERIOR_DRAWS])
    count = weigher.settings.num_draws
    weights = shares[forms] / shares[forms].sum()
    points = (np.arange(count) + rng.uniform()) / count
    tree = np.minimum(np.searchsorted(np.cumsum(weights), points), len(forms) - 1)
    most = max(len(weigher.weighed[form].mode) for form in forms)
    constants, factor = np.zeros((count, most)), np.ones(count)
    for number, form in enumerate(forms):
        rows = np.flatnonzero(tree == number)
        weighed = weigher.weighed[form]
        own = weighed.constants[weighed.resampled(len(rows), rng)]
        constants[rows, : own.shape[1]] = own
        shown = weigher.representative(form)
        factor[rows] = noise_draws(weigher.search.engine, shown, own, rng)
    likelihood = weigher.search.problem.likelihood
    return Draws(
        expressions=tuple(weigher.expression(weigher.representative(form)) for form in forms),
        tree=tree,
        constants=constants,
        noise_factor=factor,
        scale=likelihood.typical_scale,
        noise=likelihood.noise,
    )
