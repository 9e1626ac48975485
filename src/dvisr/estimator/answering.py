"""What a fitted model answers: predictions, one formula in other forms, draws for ArviZ."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from dvisr.estimator import preparing
from dvisr.estimator.exports import jax_function, numpy_function
from dvisr.expression import Expression, latex, to_sympy
from dvisr.fitting.prior_predictive import prior_observations
from dvisr.fitting.problem import Problem
from dvisr.marginal import Weighed, weigh
from dvisr.posterior import predictive
from dvisr.posterior.answer import Function, Posterior
from dvisr.posterior.datatree import loo_of_draws, loo_of_posterior, tree_datatree
from dvisr.posterior.whole import whole_datatree

if TYPE_CHECKING:
    import xarray


class Answering:
    """Reads what `fit` left: the problem and the posterior."""

    _problem: Problem
    _answer: Posterior

    def predict(
        self,
        X: Any,
        return_std: bool = False,
        index: int | None = None,
        y_err: Any = None,
    ) -> Any:
        """Averaged over the posterior, robust to single trees that explode; with `index`, that row
        of `functions_` at its modal constants. `return_std` adds the standard deviation of a new
        observation, noise included."""
        rows = self._rows(X)
        if index is not None:
            if return_std:
                raise ValueError("return_std goes with the whole posterior: leave out index")
            return numpy_function(self._function(index).modal)(rows)
        mean, std, _ = predictive.moments(self._answer.draws, rows, self._bars(y_err, len(rows)))
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
        rows = self._rows(X)
        return predictive.quantiles(
            self._answer.draws,
            rows,
            levels.tolist(),
            with_noise=kind == "observation",
            bars=self._bars(y_err, len(rows)),
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
        return predictive.moments(self._answer.draws, self._rows(X))[2]

    def sample_y(
        self, X: Any, n_samples: int = 100, random_state: Any = 0, y_err: Any = None
    ) -> np.ndarray:
        """(rows, n_samples): whole data sets from the posterior predictive, noise included."""
        rows = self._rows(X)
        count = preparing.checked_number(n_samples, "n_samples", 1) or 1
        rng = np.random.default_rng(preparing.checked_seed(random_state))
        bars = self._bars(y_err, len(rows))
        return predictive.observations(self._answer.draws, rows, count, rng, bars)

    def sample_prior_y(self, X: Any, n_samples: int = 100, random_state: Any = 0) -> np.ndarray:
        """(rows, n_samples): whole data sets from the prior predictive: what was thought possible
        before the data. A tree that is undefined at a row has NaN there."""
        rows = self._rows(X)
        count = preparing.checked_number(n_samples, "n_samples", 1) or 1
        rng = np.random.default_rng(preparing.checked_seed(random_state))
        return prior_observations(self._problem, rows, count, rng)

    def _rows(self, X: Any) -> np.ndarray:
        check_is_fitted(self)
        return preparing.checked_rows(self, X, self._problem.data.feature_names)

    def _bars(self, y_err: Any, num_rows: int) -> np.ndarray | None:
        """Where the noise was given by row, the new rows need theirs."""
        bars = preparing.checked_bars(y_err, num_rows)
        if self._problem.data.y_err is None:
            if bars is not None:
                raise ValueError("y_err is for a model that was fitted with y_err: leave it out")
            return None
        if bars is None:
            return None
        factor = self._problem.likelihood.scale / self._problem.data.y_err
        return bars * float(factor[0])

    def _function(self, index: int) -> Function:
        check_is_fitted(self)
        functions = self._answer.functions
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
        return latex(self._function(index).modal, digits=digits)

    def jax(self, index: int = 0) -> Callable[[Any], Any]:
        """A function of rows for JAX; float64 needs JAX's x64 mode."""
        return jax_function(self._function(index).modal)

    def numpy(self, index: int = 0) -> Callable[[Any], np.ndarray]:
        """A function of rows for NumPy."""
        return numpy_function(self._function(index).modal)

    def to_datatree(self, tree: int | None = None) -> xarray.DataTree:
        """Draws for ArviZ: of the whole posterior, or, with `tree`, of the constants and the noise
        of that row of `posterior_`."""
        check_is_fitted(self)
        if tree is None:
            return whole_datatree(self._problem.likelihood, self._problem.data, self._answer)
        expression, weighed = self._tree(tree)
        return tree_datatree(self._problem.engine(), expression, weighed, seed=0)

    def loo(self, tree: int | None = None) -> Any:
        """Leave-one-out prediction: ArviZ's `ELPDData`, of the whole posterior or of one tree."""
        if tree is not None:
            expression, weighed = self._tree(tree)
            return loo_of_draws(self._problem.engine(), expression, weighed, seed=0)
        density = np.asarray(self.to_datatree()["log_likelihood"]["y"])[0]
        return loo_of_posterior(density, self._problem.likelihood.weights)

    def _tree(self, index: int) -> tuple[Expression, Weighed]:
        check_is_fitted(self)
        trees = self._answer.trees
        if not isinstance(index, (int, np.integer)) or not -len(trees) <= index < len(trees):
            raise ValueError(
                f"tree must be a row of posterior_, from 0 to {len(trees) - 1}, not {index!r}"
            )
        chosen = trees[int(index)]
        if chosen.weighed is not None and len(chosen.weighed.log_weights) > 1:
            return chosen.expression, chosen.weighed
        tokens = np.full(self._problem.grammar.max_tokens, -1, dtype=np.int8)
        tokens[: len(chosen.expression.tokens)] = chosen.expression.tokens
        return chosen.expression, weigh(self._problem.engine(), tokens, np.random.default_rng(0))
