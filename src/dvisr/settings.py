"""The settings of a fit: what its search, its weighing and its checks go by. They are saved with a
model, so that it is known how it came about."""

from __future__ import annotations

import dataclasses
from typing import Any

_AT_LEAST_ONE = (
    "num_steps", "fewest_steps", "steps_at_once", "num_samples", "num_starts", "raced_rows",
    "trees_at_once", "points_at_once", "max_forms", "num_fresh", "num_draws", "most_forms",
    "matches_a_context", "first_batches", "most_taught", "best_of_size", "small_tokens",
    "number_tokens",
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class SearchSettings:
    """How trees are searched.

    Parameters
    ----------
    num_steps, num_samples : int
        Steps, and trees of each kind that a step tries, where the user gives none.
    fewest_steps, still : int, float
        Where the user gives no number of steps, so many are enough if the probability that has
        moved between formulas is no more than that in each of the last two. A search with the plain
        network, which learns step by step, makes all.
    extra_steps, steps_at_once : int
        The most steps more, and how many at a time, that are made where the user gives no number
        and the search has not settled: two independent searches disagree, or the evidence grows.
    far, max_time : float
        Where the noise is known: so many times as far from the data, it has not settled. Seconds
        after which a fit stops where the user gives neither steps nor a time.
    max_enumerated, max_enumerated_points : int
        Where the grammar has no more trees (trees times rows), all are weighed, none searched.
    likeliest_trees, num_starts : int
        The likeliest trees before the data are seen, so many, are all weighed; starts of the
        optimiser for a first look at a tree's constants.
    hopeless : float
        Nats below the likeliest tree so far: what can't come nearer is fitted roughly.
    raced_rows, hopeless_a_row : int, float
        Where there are twice as many rows or more, trees are fitted on so many first, and on all if
        they may matter: unless they are behind by `hopeless` nats, and so many more for each row
        that one of those stands for.
    trees_at_once, points_at_once : int
        The most trees, and trees times rows, between two looks at the clock.
    neighbours, from_prior, of_network : int, float, float
        Neighbours an island proposes, and draws from the prior and from the network, for each
        sample of a step.
    refined, small_tokens, most_small, most_refinements : int
        Trees a step, most promising first, in which small trees are put in the place of constants;
        the largest of these, the most of them, and the most that come of one tree.
    varied_above : float
        The share of the posterior from which at the end the constants of a form are written out as
        numbers and put elsewhere.
    number_tokens, most_numbers, most_chained, most_numbered : int
        Of the numbers that constants are written as: the largest size, how many there are, alone
        and two together, and how many of either are tried for each sign of a constant.
    table_functions, step_functions, table_contexts, most_matched_values : int
        Functions that the holes of contexts are filled with at the start and in each step; trees
        that the first contexts are made of, the likeliest before the data are seen; contexts times
        functions times rows that are compared at the start, the likeliest contexts first.
    matched_at_start, matched_trees, matched_a_step, matches_a_context : int
        Trees that come of the first contexts; trees a step that contexts are made of, and that come
        of those; functions that a context is filled with at most.
    pair_functions, paired_at_start : int
        The likeliest functions that are tried in pairs at the start, and trees that come of them.
    power_pairs, power_pairs_a_step, powers_at_start, powers_a_step : int
        Products of powers with another one, or another function, and trees that come of products.
    inner_functions, inner_at_start, inner_a_step : int
        Functions of one constant that are neither a factor nor an offset of it, and trees that come
        of contexts filled with them, at the start and in each step.
    familiar, hottest : float
        The share of neighbours known before, above which parents are drawn more evenly; the most.
    parent_levels : tuple of float
        How many forms share the weight when parents are drawn, by level.
    most_parents, best_of_size : int
        Forms that parents are drawn from, and the best of each size among them.
    of_best_sizes : float
        The share of parents that are the best of their size.
    max_forms : int
        Forms beyond which the least likely are dropped.
    network : str
        "pretrained" for the network that reads the data, where it knows the library; "plain" for
        one that starts from the prior; or a file of weights that `dvisr pretrain` made.
    first_batches, first_prefixes : int
        The most batches of trees that it draws before it has learnt anything of these data, and
        distinct prefixes of trees after which it stops drawing them.
    adapter_width : int
        Hidden units of what it learns on these data.
    most_looked_at, most_taught : int
        The likeliest visited trees, and all trees with its own draws, that it is taught on.
    lesson_rounds, lesson_updates, lesson_goal : int, int, float
        The most times that it is taught at the end, with draws in between, steps of training each
        time, and the gap between its ELBO and the log evidence, in nats, that is small enough.
    hidden_size : int
        Of the plain network; up to `final_updates` all is of it alone.
    first_rate, last_rate, most_advantage : float
        Of its training, from the first step to the last; nats at which an advantage is cut off.
    replay_spread, final_updates : float, int
        Trees that share the weight of replay until the last quarter of the steps; steps of training
        on the posterior over the visited, at the end.
    num_fresh, fresh_rounds : int
        Draws of the trained network to check the search by, and how often, while they find more.
    """

    num_steps: int = 8
    fewest_steps: int = 3
    still: float = 0.01
    far: float = 10.0
    extra_steps: int = 1_000
    steps_at_once: int = 5
    max_time: float = 60.0
    num_samples: int = 256
    max_enumerated: int = 20_000
    max_enumerated_points: int = 20_000_000
    likeliest_trees: int = 10_000
    num_starts: int = 8
    hopeless: float = 25.0
    raced_rows: int = 64
    hopeless_a_row: float = 10.0
    trees_at_once: int = 2_000
    points_at_once: int = 200_000
    neighbours: int = 4
    from_prior: float = 0.5
    of_network: float = 0.25
    refined: int = 4
    small_tokens: int = 5
    most_small: int = 2_000
    most_refinements: int = 500
    varied_above: float = 5e-4
    number_tokens: int = 5
    most_numbers: int = 500
    most_chained: int = 40
    most_numbered: int = 15
    table_functions: int = 100_000
    step_functions: int = 30_000
    table_contexts: int = 4_000
    most_matched_values: int = 2_000_000_000
    matched_at_start: int = 2_000
    matched_trees: int = 24
    matched_a_step: int = 300
    matches_a_context: int = 4
    pair_functions: int = 5_000
    paired_at_start: int = 1_000
    power_pairs: int = 100_000
    power_pairs_a_step: int = 5_000
    powers_at_start: int = 500
    powers_a_step: int = 100
    inner_functions: int = 100
    inner_at_start: int = 200
    inner_a_step: int = 60
    familiar: float = 0.5
    hottest: float = 50.0
    parent_levels: tuple[float, ...] = (5.0, 20.0, 80.0, 300.0)
    most_parents: int = 3_000
    best_of_size: int = 20
    of_best_sizes: float = 0.2
    max_forms: int = 400_000
    network: str = "pretrained"
    first_batches: int = 8
    first_prefixes: int = 2_500
    adapter_width: int = 64
    most_looked_at: int = 128
    most_taught: int = 512
    lesson_rounds: int = 3
    lesson_updates: int = 80
    lesson_goal: float = 0.2
    hidden_size: int = 64
    first_rate: float = 5e-3
    last_rate: float = 1e-4
    most_advantage: float = 5.0
    replay_spread: float = 200.0
    final_updates: int = 150
    num_fresh: int = 1_024
    fresh_rounds: int = 3


@dataclasses.dataclass(frozen=True)
class WeighingSettings:
    """How the integrals over constants are worked out, and what of them is kept.

    Parameters
    ----------
    error, rough_error : float
        Of log p(y | tree): rounds of importance sampling go on until it is met, for forms above
        `above` and for the rest.
    num_starts, rough_starts : int
        Starts of the optimiser, for the same.
    rounds : tuple of int
        Draws of each round.
    most_values : int
        Draws times rows, in one round.
    adaptations, most_adapted : int
        Steps of EM on the proposal after a round, and the draws that they look at.
    above, above_if_enumerated : float
        The share of the posterior from which a form is weighed to `error`. Where all trees are
        listed, forms below the second are weighed too if looks turn out to have been too low.
    sure_starts, error_share : int, float
        Where all trees are listed: as `num_starts`; the error of a form times its share that is
        aimed at, so that unlikely forms take few draws.
    most_left : float
        Where all trees are listed: the share of the posterior that all forms together may have
        that were not weighed.
    exact_error : float
        The error of the log evidence up to which an answer may be called exact.
    covered, most_forms : float, int
        The share of the posterior, and the most forms, that functions and draws are made of.
    most_trees, most_tree_constants : int
        Trees that are listed, and those whose own constants are worked out.
    most_kept : int
        Draws of a form's constants that are kept of those that it was weighed with.
    num_draws : int
        Draws of the posterior that are kept for predictions.
    completed_above, most_rewritings : float, int
        The share of the posterior from which a form's other trees are visited too, and how many of
        them at most.
    laplace_error : float
        What is reckoned for a form that was not weighed: a share of it.
    sure_change : float
        Nats by which a first look may change with three times the starts and still count as sure.
    compared_starts, compared_errors : tuple
        Of `compare`: fewest and most starts, the more the fewer rows there are; errors of a log
        evidence, tried in turn where few draws decide.
    """

    error: float = 0.01
    rough_error: float = 0.3
    num_starts: int = 48
    rough_starts: int = 8
    rounds: tuple[int, ...] = (1_000, 4_000, 16_000, 64_000, 200_000)
    most_values: int = 100_000_000
    adaptations: int = 6
    most_adapted: int = 32_000
    above: float = 0.01
    above_if_enumerated: float = 1e-5
    sure_starts: int = 144
    error_share: float = 0.003
    most_left: float = 1e-4
    exact_error: float = 0.05
    covered: float = 0.995
    most_forms: int = 100
    most_trees: int = 1_000
    most_tree_constants: int = 20
    most_kept: int = 16_000
    num_draws: int = 2_000
    completed_above: float = 1e-4
    most_rewritings: int = 500
    laplace_error: float = 0.3
    sure_change: float = 0.1
    compared_starts: tuple[int, ...] = (48, 256)
    compared_errors: tuple[float, ...] = (0.01, 0.004, 0.0015)


@dataclasses.dataclass(frozen=True)
class CheckSettings:
    """Where a check of the search begins to say caution, and where do-not-trust. Checks of the data
    go by p-values and have their limits in `dvisr.checks`.

    Parameters
    ----------
    integral_error : tuple of float
        The share of the posterior that the error of one integral over constants comes to.
    compared_error : tuple of float
        Of a log evidence in `compare`.
    compared_effective : float
        Independent draws that those of the best formula's constants must be worth in `compare`.
    few_steps : int
        Steps below which a search counts as short, unless the last two moved next to nothing.
    missed : tuple of float
        The share of the posterior that fresh draws found and the search had not, less two standard
        errors.
    moved : tuple of float
        The probability that fresh draws moved between functions.
    disagreement : tuple of float
        The total variation between the posteriors of two independent searches.
    late_gain : tuple of float
        Nats of evidence gained in the last third of the steps.
    fewest_effective : float
        Fresh draws must be worth so many for a check to lean on them.
    prior_decides : float
        The log of how many times likelier the first function is than under the most favourable of
        two other priors over trees.
    unexplained : float
        The share of the variance of y that no formula explains.
    """

    integral_error: tuple[float, float] = (0.05, 0.3)
    compared_error: tuple[float, float] = (0.1, 0.5)
    compared_effective: float = 100.0
    few_steps: int = 5
    missed: tuple[float, float] = (0.1, 0.4)
    moved: tuple[float, float] = (0.05, 0.2)
    disagreement: tuple[float, float] = (0.1, 0.5)
    late_gain: tuple[float, float] = (1.0, 5.0)
    fewest_effective: float = 10.0
    prior_decides: float = 4.0
    unexplained: float = 0.9


@dataclasses.dataclass(frozen=True)
class FitSettings:
    """All settings of a fit.

    Examples
    --------
    >>> import dataclasses
    >>> from dvisr import FitSettings
    >>> settings = FitSettings()
    >>> FitSettings.from_dict(settings.as_dict()) == settings
    True
    """

    search: SearchSettings = SearchSettings()
    weighing: WeighingSettings = WeighingSettings()
    checks: CheckSettings = CheckSettings()

    def __post_init__(self) -> None:
        for part in (self.search, self.weighing):
            for field in dataclasses.fields(part):
                if isinstance(field.default, int):
                    _check_count(field.name, getattr(part, field.name))

    def as_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        return dataclasses.asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> FitSettings:
        """Back from `as_dict`, or from what JSON made of it."""
        parts = {field.name: field.default for field in dataclasses.fields(cls)}
        unknown = set(values) - set(parts)
        if unknown:
            raise ValueError(f"a fit has no settings {sorted(unknown)[0]!r}")
        return cls(**{name: _restored(part, values.get(name, {})) for name, part in parts.items()})


def _restored(default: Any, values: dict[str, Any]) -> Any:
    known = {field.name for field in dataclasses.fields(default)}
    if set(values) - known:
        raise ValueError(f"a fit has no setting {sorted(set(values) - known)[0]!r}")
    plain = {n: tuple(v) if isinstance(v, (list, tuple)) else v for n, v in values.items()}
    return dataclasses.replace(default, **plain)


def _check_count(name: str, value: Any) -> None:
    least = int(name in _AT_LEAST_ONE)
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{name} must be a whole number of at least {least}, not {value!r}")
