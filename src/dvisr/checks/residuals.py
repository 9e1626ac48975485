"""Checks of the shape of the residuals: tails, spread, order along rows and columns.

Each works out one or more statistics that do not depend on the size of the noise, for the residuals
and for replicated ones.
"""

from __future__ import annotations

import dataclasses
import math

import numpy as np
from scipy import fft

from dvisr.checks.base import Check, Grade
from dvisr.checks.reference import (
    FALSE_ALARMS,
    Compared,
    compared,
    not_measured,
    p_text,
    rows_text,
    too_few,
)
from dvisr.checks.replication import Replication
from dvisr.diagnostics import rank_correlation, ranks_of

SPREAD_ALARMS = 0.01  # the spread is the hardest to see: 30 rows tell a factor of seven barely
GRAVE_CORRELATION = 0.5  # of neighbours
_CORE = 0.75  # share of rows that tell the size of the noise where others may be outliers
LEAST_GROWTH = 1.5  # of the spread: less does no harm
_POWER = 1.5
_DRAWN_IN = 5.0  # times the core: nearly 3 standard deviations
_SLOPES = np.linspace(-2.0, 2.0, 41)
_MOST_WAVES = 30


def core(sizes: np.ndarray) -> np.ndarray:
    """The root mean square of the smallest three quarters of each set."""
    kept = math.ceil(_CORE * sizes.shape[1])
    inner = np.partition(sizes, kept - 1, axis=1)[:, :kept]
    return np.asarray(np.maximum(np.sqrt((inner**2).mean(axis=1)), 1e-12))


def _far(sizes: np.ndarray) -> Compared:
    """How far the furthest residual is out, and how much the far ones weigh together."""
    middle = core(sizes)
    kinds = [np.log(np.maximum(sizes.max(axis=1), 1e-12) / middle), -np.log(middle)]
    return compared(np.stack(kinds, axis=1))


def outliers(rep: Replication) -> Check:
    """Rows far from the curve, and tails heavier than the noise model's."""
    rep = rep.observations
    few = too_few(rep, "outliers")
    if few is not None:
        return few
    sizes = np.abs(evened(rep))
    middle = core(sizes)
    found = _far(sizes)
    check = found.check("outliers")
    # In standard units of the noise, were its size what the core of the rows says.
    replicated = np.sqrt((rep.refit.replicates**2).mean(axis=1))
    unit = float(np.median(middle[1:] * replicated))
    distance = sizes[0] / middle[0] * unit
    usual = float(np.quantile(sizes[1:].max(axis=1) / middle[1:], 1.0 - FALSE_ALARMS) * unit)
    far = np.flatnonzero(distance > usual)
    far = far[np.argsort(-distance[far])]
    name = "standard deviations" if not rep.noise.has_heavy_tails else "scales of the noise"
    if check.grade is Grade.OK:
        text = (
            f"no row lies further from the curve than replicated data do: the furthest is "
            f"{distance.max():.1f} {name} away ({p_text(found.p)})"
        )
    else:
        cure = (
            f"{rep.noise.name} noise is not wide enough: look at {rows_text(rep.position[far])}"
            if rep.noise.has_heavy_tails
            else "refit with noise 'student'"
        )
        if len(far):
            verb = "lies" if len(far) == 1 else "lie"
            what = (
                f"{len(far)} of {rep.num_rows} rows ({rows_text(rep.position[far])}) {verb} more "
                f"than {usual:.1f} {name} from the curve, where replicated data have none"
            )
        else:
            what = f"the residuals have heavier tails than {rep.noise.name} noise"
        text = f"{what} ({p_text(found.p)}): {cure}"
    return dataclasses.replace(check, sentence=text)


def spread(rep: Replication) -> Check:
    """Residuals whose size changes with the prediction or along a column."""
    rep = rep.observations
    few = too_few(rep, "spread")
    if few is not None:
        return few
    along = _places(rep)
    if not along:
        return not_measured("spread", "because the prediction is the same for all rows")
    found, slope = _growth(rep)
    name, _ = along[found.which]
    factor = math.exp(2.0 * abs(slope))
    # Far rows pull the curve and can look like a spread that grows: they come first.
    far = _far(np.abs(evened(rep)))
    is_grave = far.measured < far.limit
    check = found.check("spread", is_large=factor >= LEAST_GROWTH, is_grave=is_grave)
    if check.grade is Grade.OK:
        text = f"the spread of the residuals does not change with {name} ({p_text(found.p)})"
    else:
        how = "grows" if slope > 0.0 else "shrinks"
        text = (
            f"the spread of the residuals {how} by a factor of about {factor:.1f} along {name} "
            f"({p_text(found.p)}): {_cure_of_spread(rep)}"
        )
    return dataclasses.replace(check, sentence=text)


def _places(rep: Replication) -> list[tuple[str, np.ndarray]]:
    """What residuals may change along, with ranks from -1 to 1: the prediction, each column."""
    along = [("the prediction", rep.prediction)]
    along += [(name, column) for name, column in zip(rep.column_names, rep.X.T, strict=True)]
    top = max(rep.num_rows - 1, 1) / 2.0
    return [
        (name, (ranks_of(values) - 1.0) / top - 1.0)
        for name, values in along
        if np.ptp(values) > 0.0
    ]


def _growth(rep: Replication) -> tuple[Compared, float]:
    """The likelihood ratio of a spread exp(slope * rank) against a constant one, and the slope
    where it is worst. For a density exp(-|e|^1.5), between Gaussian and Laplace, and with the
    furthest residuals drawn in: outliers are another check's."""
    left = np.sqrt(np.maximum(1.0 - rep.refit.leverage, 0.05))
    sizes = np.abs(rep.refit.all_scaled) / left
    sizes = np.minimum(sizes, _DRAWN_IN * core(sizes)[:, None]) ** _POWER
    plain = np.log(sizes.mean(axis=1))
    kinds, slopes = [], []
    for _, ranks in _places(rep):
        means = np.log(sizes @ np.exp(-_POWER * np.outer(ranks - ranks.mean(), _SLOPES)))
        means -= math.log(rep.num_rows)
        kinds.append(np.sqrt(np.maximum(plain - means.min(axis=1), 0.0)))
        slopes.append(float(_SLOPES[int(np.argmin(means[0]))]))
    found = compared(np.stack(kinds, axis=1), SPREAD_ALARMS)
    return found, slopes[found.which]


def _cure_of_spread(rep: Replication) -> str:
    """Relative noise where the spread grows about as the prediction does."""
    bars = "give an error bar for each row"
    if rep.noise.link == "log" or not (rep.y > 0.0).all() or not (rep.prediction > 0.0).all():
        return bars
    if np.ptp(rep.prediction) == 0.0:
        return bars
    sizes = np.abs(rep.refit.residuals)
    centred = np.log(rep.prediction) - np.log(rep.prediction).mean()
    powers = np.linspace(-3.0, 3.0, 61)
    power = powers[int(np.argmin(sizes @ np.exp(-np.outer(centred, powers))))]
    return f"refit with noise 'relative', or {bars}" if 0.5 <= power <= 2.0 else bars


def evened(rep: Replication) -> np.ndarray:
    """Residuals and replicates, as `all_scaled`; the residuals are first divided by a spread that
    changes, where it does, so that the wide end of it does not count as outliers."""
    every, along = rep.refit.all_scaled, _places(rep)
    if not along:
        return every
    found, slope = _growth(rep)
    if found.measured < found.limit or math.exp(2.0 * abs(slope)) < LEAST_GROWTH:
        return every
    own = every[0] * np.exp(-slope * along[found.which][1])
    own /= math.sqrt(float((own**2).mean()))
    return np.vstack([own, every[1:]])


def sorted_by(rep: Replication) -> str | None:
    """The column in whose order the rows are, or nearly are."""
    for name, column in zip(rep.column_names, rep.X.T, strict=True):
        if np.ptp(column) > 0.0 and abs(rank_correlation(rep.position, column)) > 0.95:
            return name
    return None


def order(rep: Replication) -> Check:
    """Drift and correlation of the residuals along the rows of the user's table."""
    few = too_few(rep, "order")
    if few is not None:
        return few
    if len(np.unique(rep.position)) < rep.num_rows:
        return not_measured("order", "because the order of the rows is not known")
    along = sorted_by(rep)
    if along is not None:
        return not_measured("order", f"because the rows are in the order of {along}")
    statistics, lag = smoothness(rep.refit.all_scaled, rep.position.astype(float))
    found = compared(statistics)
    check = found.check("order", is_grave=lag >= GRAVE_CORRELATION)
    if check.grade is Grade.OK:
        text = f"no order is left in the residuals along the rows ({p_text(found.p)})"
    else:
        text = (
            f"residuals of neighbouring rows of the table are alike (correlation {lag:.2f}, "
            f"{p_text(found.p)}), as from a drift or correlated noise: give the time or the "
            f"order of measurement as a column, or expect wider intervals than these"
        )
    return dataclasses.replace(check, sentence=text)


def columns(rep: Replication) -> Check:
    """Order of the residuals along columns: a term that the formula lacks."""
    rep = rep.observations
    few = too_few(rep, "columns")
    if few is not None:
        return few
    every = rep.refit.all_scaled
    kinds, names, lags = [], [], []
    places = list(zip(rep.column_names, rep.X.T, strict=True))
    if len(places) > 1:
        places.append(("the prediction", rep.prediction))
    for name, column in places:
        if np.ptp(column) > 0.0:
            statistics, lag = smoothness(every, column)
            kinds.append(statistics)
            names += [name] * statistics.shape[1]
            lags += [lag] * statistics.shape[1]
    if not kinds:
        return not_measured("columns", "because every column is constant")
    near = _nearness(every, rep.X)
    if near is not None:
        kinds.append(near[:, None])
        names.append("all columns together")
        lags.append(float(near[0]))
    found = compared(np.concatenate(kinds, axis=1))
    name, lag = names[found.which], lags[found.which]
    lasting = ", or the noise is correlated from row to row" if name == sorted_by(rep) else ""
    check = found.check("columns", is_grave=lag >= GRAVE_CORRELATION)
    if check.grade is Grade.OK:
        text = f"no order is left in the residuals along any column ({p_text(found.p)})"
    else:
        text = (
            f"residuals of rows that are neighbours along {name} are alike (correlation "
            f"{lag:.2f}, {p_text(found.p)}): the formula lacks a term{lasting}; allow more "
            f"operators or longer formulas, or add the column that is missing"
        )
    return dataclasses.replace(check, sentence=text)


def smoothness(every: np.ndarray, along: np.ndarray) -> tuple[np.ndarray, float]:
    """Statistics (sets, kinds) of how smooth each set of residuals is along some values, and the
    correlation of neighbours in the first set. Rows of one value are one place: how they are
    sorted among themselves says nothing.

    Neighbours see bends of every length; the largest mean power of the longest waves (Eubank and
    Hart 1992) sees long weak ones; the share of variance between places sees what is not smooth,
    where places have several rows.
    """
    values, group, size = np.unique(along, return_inverse=True, return_counts=True)
    starts = np.concatenate([[0], np.cumsum(size)[:-1]])
    by_place = np.argsort(group, kind="stable")
    places = np.add.reduceat(every[:, by_place], starts, axis=1) / np.sqrt(size)
    power = np.maximum((places**2).sum(axis=1), 1e-12)
    kinds, lag = [], 0.0
    if len(values) >= 4:
        neighbours = (places[:, 1:] * places[:, :-1]).sum(axis=1) / power
        lag = float(neighbours[0])
        waves = np.asarray(fft.dct(places, norm="ortho", axis=1))[:, 1 : 1 + _MOST_WAVES] ** 2
        mean_power = np.cumsum(waves, axis=1) / np.arange(1, waves.shape[1] + 1)
        kinds += [neighbours, np.sqrt(mean_power.max(axis=1))]
    if len(values) <= len(along) / 2:
        kinds.append(np.sqrt(power / len(along)))
        if len(values) < 4:
            lag = float(power[0] / len(along))
    if not kinds:
        kinds.append(np.abs(places).max(axis=1))
    return np.stack(kinds, axis=1), lag


def _nearness(every: np.ndarray, X: np.ndarray) -> np.ndarray | None:
    """The correlation of each row with its nearest ones in all columns, by ranks."""
    varied = X[:, np.ptp(X, axis=0) > 0.0]
    if varied.shape[1] < 2:
        return None
    from scipy.spatial import cKDTree  # takes long to import, and many tables have one column

    ranks = np.stack([ranks_of(column) for column in varied.T], axis=1)
    tree = cKDTree(ranks)
    _, nearest = tree.query(ranks, k=3)  # itself, in most cases, and two others
    others = np.array([[j for j in row if j != i][:2] for i, row in enumerate(np.asarray(nearest))])
    return np.asarray((every * (every[:, others[:, 0]] + every[:, others[:, 1]])).mean(axis=1) / 2)
