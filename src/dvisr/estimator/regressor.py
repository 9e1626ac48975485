"""`DVISRRegressor`: the posterior over formulas behind scikit-learn's interface."""

from __future__ import annotations

from typing import Any

from sklearn import get_config
from sklearn.base import BaseEstimator, RegressorMixin

from dvisr.estimator import input as checked
from dvisr.estimator.neighbours import KnownParametersMixin
from dvisr.estimator.progress import progress_for
from dvisr.estimator.resuming import ResumingMixin
from dvisr.estimator.table import TableRegressor

_SHOWN = 3  # functions below a fitted model's repr


class DVISRRegressor(
    TableRegressor,
    ResumingMixin,
    KnownParametersMixin,
    RegressorMixin,  # type: ignore[misc]
    BaseEstimator,  # type: ignore[misc]
):
    """Symbolic regression with a posterior: which formulas, with what probability.

    Parameters
    ----------
    operators : sequence of str or Token, default=("+", "-", "*", "/", "^", "square", "sqrt", \
            "exp", "log", "sin", "cos", "neg", "1", "2", "3", "4", "pi")
        Names of operators and numbers, or operators made by `new_operator`.
    constants : bool, default=True
        Whether formulas may hold constants; their values are integrated out.
    max_tokens : int, default=20
        The size of the largest formula: operators, variables and constants together.
    max_constants : int or None, default=4
        The most constants in a formula; None for no limit but the size. A constraint
        `max-constants=N` takes the place of the default.
    constraints : str, rule or list of these, default="default"
        "default", "paper", "none", names of rules, or rules.
    tree_prior : str, mapping, TreePrior or callable, default="science"
        "science" for how formulas are written, "science:FILE" for one's own formulas;
        "size-balanced", "uniform", "allowed", "weights", weights by token, or a function that makes
        a `TreePrior` for a `Grammar`.
    constant_prior : str or AbstractConstantPrior, default="decades"
        "decades", "decades:LOW,HIGH" or "normal:MEAN,STD", as text or as `Decades` and `Normal`.
    noise : float, str or AbstractNoise, default="infer"
        "infer" for Gaussian noise of unknown size; its standard deviation (with `y_err`, a factor
        of it); "student" or "student:NU" for outliers; "relative" for noise in proportion to a
        positive target. "gaussian:SCALE", "student:NU,SCALE" and "relative:SCALE" where the scale
        is known. (The command's default with --err is 1: error bars as they are.)
    recipe : str or Recipe, default="default"
        "default" for the search; "paper", "network", others by name and a `Recipe` of one's own
        train a network that samples constants.
    num_steps : int or None, default=None
        Steps of the search, or of the training; None for the recipe's own, here until it settles: 3
        to 8, and 5 more at a time while two independent searches disagree or the evidence grows.
    num_samples : int or None, default=None
        Trees of each kind that a step tries; None for the recipe's own, here 256.
    max_time : float or None, default=None
        Seconds after which to stop, a first compilation aside; None for 60, or for no limit where
        `num_steps` is given.
    n_jobs : int or None, default=None
        Threads; None or -1 for all cores.
    random_state : int, generator or None, default=None
        A seed, for the same answer again; None for another one each time.
    warm_start : bool, default=False
        Whether a second `fit` on the same data goes on where the first ended.
    run_dir : path or None, default=None
        A folder to keep the fit in while it is made, and the fitted model; None for nowhere.
    verbose : int, default=0
        0 for silence, 1 for progress on standard error.
    settings : FitSettings or None, default=None
        Settings of search, weighing and checks; None for the usual ones.

    Attributes
    ----------
    functions_ : DataFrame
        One row a function, likeliest first: trees that are the same function merged.
    posterior_ : DataFrame
        One row a tree.
    log_evidence_, log_evidence_stderr_ : float
        The log evidence and its standard error, as far as the integrals over constants go.
    elbo_ : float
        Of the network's draws at the end.
    noise_ : dict
        "mean" and "std" of the noise's scale: in the units of y, of its logarithm for relative
        noise, or a factor of the error bars.
    inclusion_ : Series
        The probability that each variable appears.
    verdict_ : Verdict
        The checks, each with what was measured, its limit, its grade and a sentence.
    diagnostics_ : dict
        "verdict", "reasons", "checks", and what else was measured; docs/fits.md explains each key.
    history_, front_ : DataFrame
        One row a step; accuracy against complexity.
    interrupted_ : bool
    n_iter_ : int
    n_features_in_, feature_names_in_

    Examples
    --------
    >>> import numpy as np
    >>> from dvisr import DVISRRegressor
    >>> x = np.linspace(1, 3, 12)
    >>> y = 2.5 * x + 0.05 * np.random.default_rng(0).standard_normal(12)
    >>> model = DVISRRegressor(operators=("+", "*"), max_tokens=3, random_state=0)
    >>> model.fit(x[:, None], y).functions_["expression"][0]
    'x0 * c'
    """

    def fit(self, X: Any, y: Any, sample_weight: Any = None, y_err: Any = None) -> DVISRRegressor:
        """Fit the posterior. Ctrl-C ends the search and leaves what was found so far.

        Parameters
        ----------
        X : array-like or data frame of shape (rows, columns)
        y : array-like of shape (rows,)
        sample_weight : array-like of shape (rows,), optional
            How often each row was seen.
        y_err : float or array-like of shape (rows,), optional
            Each row's error bar, or one for all: with a number for `noise`, the noise's scale is
            that times it; else a common factor of the error bars is inferred.

        Returns
        -------
        DVISRRegressor
            Itself.
        """
        with progress_for(self.verbose) as progress:
            data, target = checked.checked_table(self, X, y, y_err), checked.name_of(y)
            return self.fit_table(
                data, progress, sample_weight=sample_weight, has_names=None, target=target
            )

    def __getstate__(self) -> dict[str, Any]:
        """The search itself, with its compiled code, stays behind: a copy that was sent elsewhere
        predicts, and starts a new search should it be fitted again."""
        state: dict[str, Any] = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_fitter"}

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """As scikit-learn has it; of a fitted model, with the verdict and the first functions."""
        text: str = BaseEstimator.__repr__(self, N_CHAR_MAX)
        if not self.__sklearn_is_fitted__():
            return text
        shown = [
            f"  {function.probability:.3f}  {function.modal}"
            for function in self._posterior.functions[:_SHOWN]
        ]
        verdict = self.verdict_.word
        return "\n".join([text, f"fitted, verdict {verdict}; functions, likeliest first:", *shown])

    def _repr_html_inner(self) -> str:
        """What scikit-learn's `_repr_html_` gives."""
        if self.__sklearn_is_fitted__():
            from dvisr.reporting.notebook import as_html

            return as_html(self._subject())
        found: str = super()._repr_html_inner()
        return found

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        output = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            output["text/html"] = self._repr_html_inner()
        return output
