"""What a fitted model is asked for: predictions, one formula in other forms, draws for ArviZ."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dvisr.estimator import input as checked
from dvisr.estimator.exports import jax_function, numpy_function
from dvisr.estimator.fitted import check_is_fitted
from dvisr.expression import Expression, latex, to_sympy
from dvisr.fitting.prior_predictive import prior_observations
from dvisr.marginal import Engine, Weighed, weigh
from dvisr.posterior import predictive
from dvisr.posterior.arviz import tree_datatree, whole_datatree
from dvisr.posterior.loo import loo_of_draws, loo_of_posterior
from dvisr.posterior.of_function import function_draws
from dvisr.posterior.posterior import Function, Posterior
from dvisr.problem import Problem, seed_of, whole_number

if TYPE_CHECKING:
    import xarray


class PredictingMixin:
    """Reads what `fit` left: the problem and the posterior."""

    _problem: Problem
    _posterior: Posterior

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        index: int | None = None,
        y_err: Any = None,
    ) -> Any:
        """Averaged over the posterior, robust to single trees that explode; with `index`, that row
        of `functions_` at its modal constants. `return_std` adds the standard deviation of a new
        observation, noise included; with `index`, as if that function were the right one."""
        rows = self._rows(X)
        if index is not None:
            function = self._function(index)
            values = numpy_function(function.modal)(rows)
            if not return_std:
                if y_err is not None:
                    raise ValueError("y_err is for standard deviations: add return_std=True")
                return values
            own = function_draws(self._problem, self._posterior, function)
            return values, predictive.moments(own, rows, self._bars(y_err, len(rows)))[1]
        bars = self._bars(y_err, len(rows)) if return_std or y_err is not None else None
        mean, std, undefined = predictive.moments(self._posterior.draws, rows, bars)
        count = int(((undefined > 0.5) & np.isfinite(mean)).sum())  # where all is, the mean is NaN
        if count:
            warnings.warn(
                f"at {count} of {len(rows)} rows most of the posterior is undefined and was left "
                f"out: predict_undefined says how much of it",
                UserWarning,
                stacklevel=2,
            )
        return (mean, std) if return_std else mean

    def predict_quantiles(
        self, X: Any, alpha: Sequence[float] = (0.05, 0.95), *, kind: str = "observation",
        y_err: Any = None,
    ) -> np.ndarray:  # fmt: skip
        """Quantiles (rows, levels) of a new noisy observation, or, with kind="function", of the
        curve alone."""
        levels = np.atleast_1d(np.asarray(alpha, dtype=np.float64))
        if levels.ndim != 1 or not ((levels > 0.0) & (levels < 1.0)).all():
            raise ValueError(f"alpha must be levels between 0 and 1, not {alpha!r}")
        if kind not in ("observation", "function"):
            raise ValueError(f"kind must be 'observation' or 'function', not {kind!r}")
        if kind == "function" and y_err is not None:
            raise ValueError("y_err is for observations: leave it out, or leave out kind")
        rows = self._rows(X)
        return predictive.quantiles(
            self._posterior.draws,
            rows,
            levels.tolist(),
            with_noise=kind == "observation",
            bars=self._bars(y_err, len(rows)) if kind == "observation" else None,
        )

    def predict_interval(
        self, X: Any, coverage: float = 0.9, *, kind: str = "observation", y_err: Any = None
    ) -> np.ndarray:
        """The central interval (rows, 2) for a new noisy observation, or for the curve alone."""
        if not 0.0 < coverage < 1.0:
            raise ValueError(f"coverage must be between 0 and 1, not {coverage!r}")
        tail = 0.5 * (1.0 - coverage)
        return self.predict_quantiles(X, (tail, 1.0 - tail), kind=kind, y_err=y_err)

    def predict_undefined(self, X: Any) -> np.ndarray:
        """The share of the posterior that is undefined at each row, and was left out there."""
        return predictive.moments(self._posterior.draws, self._rows(X))[2]

    def sample_y(
        self, X: Any, n_samples: int = 100, random_state: Any = 0, y_err: Any = None
    ) -> np.ndarray:
        """(rows, n_samples): whole data sets from the posterior predictive, noise included."""
        rows = self._rows(X)
        count = whole_number(n_samples, "n_samples", 1) or 1
        rng = np.random.default_rng(seed_of(random_state))
        bars = self._bars(y_err, len(rows))
        return predictive.observations(self._posterior.draws, rows, count, rng, bars)

    def sample_prior_y(self, X: Any, n_samples: int = 100, random_state: Any = 0) -> np.ndarray:
        """(rows, n_samples): whole data sets from the prior predictive: what was thought possible
        before the data. A tree that is undefined at a row has NaN there."""
        rows = self._rows(X)
        count = whole_number(n_samples, "n_samples", 1) or 1
        rng = np.random.default_rng(seed_of(random_state))
        return prior_observations(self._problem, rows, count, rng)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return checked.checked_rows(self, X, self._problem.data.feature_names)

    def _bars(self, y_err: Any, num_rows: int) -> np.ndarray | None:
        """Where the noise was given by row, new rows should have theirs: without, the median error
        bar of the fitted rows is used, and a warning says so."""
        bars = checked.checked_bars(y_err, num_rows)
        of_fit = self._problem.data.y_err
        if of_fit is None:
            if bars is not None:
                raise ValueError("y_err is for a model that was fitted with y_err: leave it out")
            return None
        if bars is None:
            warnings.warn(
                f"the model was fitted with error bars and the new rows have none: their median, "
                f"{float(np.median(of_fit)):.3g}, is used; give y_err",
                UserWarning,
                stacklevel=3,
            )
            bars = np.full(num_rows, float(np.median(of_fit)))
        _, factor = self._problem.likelihood.noise_unit
        return bars * factor

    def _function(self, index: int) -> Function:
        check_is_fitted(self)
        functions = self._posterior.functions
        if not isinstance(index, (int, np.integer)) or not -len(functions) <= index < len(
            functions
        ):
            raise ValueError(
                f"index must be a row of functions_, from 0 to {len(functions) - 1}, not {index!r}"
            )
        return functions[int(index)]

    def expression(self, index: int = 0) -> Expression:
        """The tree itself, at its modal constants."""
        return self._function(index).modal

    def sympy(self, index: int = 0) -> Any:
        """A SymPy expression in the columns' names, at the modal constants."""
        return to_sympy(self._function(index).modal)

    def latex(self, index: int = 0, digits: int = 4) -> str:
        """LaTeX, at the modal constants, with so many significant digits."""
        return latex(self._function(index).modal, digits=digits)

    def jax(self, index: int = 0) -> Callable[[Any], Any]:
        """A function of rows for JAX; float64 needs JAX's x64 mode."""
        return jax_function(self._function(index).modal)

    def numpy(self, index: int = 0) -> Callable[[Any], np.ndarray]:
        """A function of rows for NumPy."""
        return numpy_function(self._function(index).modal)

    def to_datatree(
        self, tree: int | None = None, *, function: int | None = None
    ) -> xarray.DataTree:
        """Draws for ArviZ: of the whole posterior, or of the constants and the noise of one row of
        `posterior_` (`tree`) or of `functions_` (`function`)."""
        check_is_fitted(self)
        if tree is not None and function is not None:
            raise ValueError("draws are of one tree or of one function: leave out the other")
        if function is not None:
            chosen = self._function(function)
            expression, weighed = self._with_draws(chosen.expression, chosen.weighed)
        elif tree is not None:
            expression, weighed = self._tree(tree)
        else:
            return whole_datatree(self._problem, self._posterior)
        return tree_datatree(Engine.of(self._problem), expression, weighed, seed=0)

    def loo(self, tree: int | None = None) -> Any:
        """Leave-one-out prediction: ArviZ's `ELPDData`, of the whole posterior or of one tree."""
        if tree is not None:
            expression, weighed = self._tree(tree)
            return loo_of_draws(Engine.of(self._problem), expression, weighed, seed=0)
        density = np.asarray(self.to_datatree()["log_likelihood"]["y"])[0]
        return loo_of_posterior(density, self._problem.likelihood.weights)

    def _tree(self, index: int) -> tuple[Expression, Weighed]:
        check_is_fitted(self)
        trees = self._posterior.trees
        if not isinstance(index, (int, np.integer)) or not -len(trees) <= index < len(trees):
            raise ValueError(
                f"tree must be a row of posterior_, from 0 to {len(trees) - 1}, not {index!r}"
            )
        chosen = trees[int(index)]
        return self._with_draws(chosen.expression, chosen.weighed)

    def _with_draws(
        self, expression: Expression, known: Weighed | None
    ) -> tuple[Expression, Weighed]:
        """Weighed now, where it was too unlikely to have been."""
        if known is not None and len(known.log_weights) > 1 and np.isfinite(known.log_marginal):
            return expression, known
        tokens = np.full(self._problem.grammar.max_tokens, -1, dtype=np.int8)
        tokens[: len(expression.tokens)] = expression.tokens
        return expression, weigh(Engine.of(self._problem), tokens, np.random.default_rng(0))
