"""Posteriors that can be drawn exactly, in the form that the checks of the data take.

Linear regression on some functions of the columns: Gaussian and relative noise in closed form, with
the package's prior of the noise; Student noise by a Gibbs sampler; several such regressions as
rivals.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import stats

from dvisr.checks import Replication
from dvisr.noise import Gaussian, Relative, Student

Rng = np.random.Generator
DRAWS = 600
FREEDOM = 4.0
PRIOR_FRACTION = 1e-3
NOISE = {"gaussian": Gaussian(), "student": Student(freedom=FREEDOM), "relative": Relative()}


@dataclass(frozen=True)
class Table:
    """A user's table, and the functions of its columns that are fitted to it."""

    X: np.ndarray
    basis: np.ndarray
    y: np.ndarray
    noise: str = "gaussian"  # of the fit
    sigma: float | None = None  # as given to the fit
    rivals: tuple[np.ndarray, ...] = ()  # other functions, weighed against `basis`


def fit(table: Table, rng: Rng, draws: int = DRAWS) -> Replication:
    """The exact posterior of a table, as the checks want it."""
    both = np.column_stack([table.X, table.y])
    _, position, counts = np.unique(both, axis=0, return_index=True, return_counts=True)
    X, y = table.X[position], table.y[position]
    target = np.log(y) if table.noise == "relative" else y
    weights = counts.astype(float)
    rate = 0.5 * (PRIOR_FRACTION * spread_of(target, weights)) ** 2
    mean, s, constants = np.empty((0, len(y))), np.empty(0), np.empty(0)
    bases = [basis[position] for basis in (table.basis, *table.rivals)]
    for basis, share in zip(bases, _shares(bases, target, weights, rng, draws), strict=True):
        if table.noise == "student":
            beta, own = _gibbs(basis, target, rate, table.sigma, rng, share)
        else:
            beta, own = _conjugate(basis, target, weights, rate, table.sigma, rng, share)
        mean, s = np.vstack([mean, beta @ basis.T]), np.append(s, own)
        constants = np.append(constants, np.full(share, basis.shape[1]))
    law = stats.t(FREEDOM) if table.noise == "student" else stats.norm()
    residuals = (target - mean) / s[:, None]
    log_density = law.logpdf(residuals) - np.log(s)[:, None]
    prior = None if table.sigma else float(2.0 * stats.norm.sf((2 * rate) ** 0.5 / np.median(s)))
    return Replication(
        X=X,
        column_names=tuple(f"x{j}" for j in range(X.shape[1])),
        y=y,
        counts=weights,
        position=position,
        curves=np.exp(mean) if table.noise == "relative" else mean,
        residuals=residuals,
        replicated=np.asarray(law.rvs(size=mean.shape, random_state=rng)),
        log_density=log_density - (target if table.noise == "relative" else 0.0),
        cdf=law.cdf(residuals),
        num_constants=constants,
        noise=NOISE[table.noise],
        noise_is_inferred=table.sigma is None,
        scale_prior=prior,
    )


def _shares(
    bases: list[np.ndarray], y: np.ndarray, weights: np.ndarray, rng: Rng, draws: int
) -> np.ndarray:
    """How many draws each of several regressions has, by Schwarz's approximate evidence."""
    if len(bases) == 1:
        return np.array([draws])
    scores = []
    for basis in bases:
        root = np.sqrt(weights)
        best = np.linalg.lstsq(basis * root[:, None], y * root, rcond=None)[0]
        left = float((weights * (y - basis @ best) ** 2).sum())
        count = weights.sum()
        scores.append(-0.5 * count * np.log(left) - 0.5 * basis.shape[1] * np.log(count))
    shares = np.exp(np.array(scores) - max(scores))
    return np.asarray(rng.multinomial(draws, shares / shares.sum()))


def spread_of(y: np.ndarray, weights: np.ndarray) -> float:
    centred = y - np.average(y, weights=weights)
    return float(np.sqrt(np.average(centred**2, weights=weights))) or 1.0


def _conjugate(
    basis: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray,
    rate: float,
    sigma: float | None,
    rng: Rng,
    draws: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Coefficients (flat prior) and noise, draws of the posterior."""
    k = basis.shape[1]
    root = np.linalg.cholesky((basis.T * weights) @ basis + 1e-9 * np.eye(k))
    best = np.linalg.solve(root.T, np.linalg.solve(root, (basis.T * weights) @ y))
    left = float((weights * (y - basis @ best) ** 2).sum())
    if sigma is None:
        shape = 0.5 + 0.5 * (weights.sum() - k)
        s = np.sqrt((rate + 0.5 * left) / rng.gamma(max(shape, 0.25), size=draws))
    else:
        s = np.full(draws, sigma)
    noise = np.linalg.solve(root.T, rng.standard_normal((k, draws))).T
    return best + s[:, None] * noise, s


def _gibbs(
    basis: np.ndarray, y: np.ndarray, rate: float, sigma: float | None, rng: Rng, draws: int
) -> tuple[np.ndarray, np.ndarray]:
    """Student noise: chains side by side, two draws of each."""
    n, k = basis.shape
    chains, kept = -(-draws // 2), []  # draws / 2, rounded up
    latent = np.ones((chains, n))
    s = np.full(chains, sigma or 1.0)
    for sweep in range(60):
        gram = np.einsum("cn,ni,nj->cij", latent, basis, basis) + 1e-9 * np.eye(k)
        best = np.linalg.solve(gram, ((latent * y) @ basis)[..., None])[..., 0]
        if sigma is None:
            left = (latent * (y - best @ basis.T) ** 2).sum(axis=1)
            s = np.sqrt((rate + 0.5 * left) / rng.gamma(0.5 + 0.5 * (n - k), size=chains))
        root = np.linalg.cholesky(np.linalg.inv(gram))
        beta = best + s[:, None] * np.einsum("cij,cj->ci", root, rng.standard_normal((chains, k)))
        off = ((y - beta @ basis.T) / s[:, None]) ** 2
        latent = rng.gamma(0.5 * (FREEDOM + 1.0), size=off.shape) / (0.5 * (FREEDOM + off))
        if sweep in (39, 59):
            kept.append((beta, s.copy()))
    beta = np.concatenate([one for one, _ in kept])[:draws]
    return beta, np.concatenate([one for _, one in kept])[:draws]
