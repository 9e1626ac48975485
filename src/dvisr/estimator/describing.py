"""A fitted model shown: as text, in a notebook, as a figure, as a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from sklearn import get_config
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from dvisr.fitting.fitters import Outcome
from dvisr.library import Token
from dvisr.posterior.posterior import Posterior
from dvisr.problem import Problem, whole_number
from dvisr.reporting import Subject, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SHOWN = 3  # functions below a fitted model's repr


class DescribingMixin:
    """Reads what `fit` left."""

    _problem: Problem
    _posterior: Posterior

    def summary(self, top: int = 5) -> str:
        """Functions with their probabilities and constants, noise, evidence and the verdict.

        Parameters
        ----------
        top : int, default=5
            How many functions.

        Returns
        -------
        str
        """
        return summary(self._subject(), whole_number(top, "top", 1) or 1)

    def plot(self, figure: Figure | None = None) -> Figure:
        """Data and band, functions, residuals.

        Parameters
        ----------
        figure : matplotlib Figure, optional
            To draw in; a new one, which no window belongs to, if not given.

        Returns
        -------
        matplotlib Figure
            `figure.savefig("fit.png")` writes it; a notebook shows it.
        """
        subject = self._subject()
        from dvisr.reporting.drawing import draw_fit

        return draw_fit(subject, figure)

    def report(self, path: Any, top: int = 5) -> Path:
        """Write a report: one HTML file that needs no network.

        Parameters
        ----------
        path : str or Path
            The file to write.
        top : int, default=5
            How many functions are shown one by one.

        Returns
        -------
        Path
            The file.
        """
        subject = self._subject()
        if not isinstance(path, (str, Path)):
            raise ValueError(f"a report is a file: give its path, not {path!r}")
        from dvisr.reporting.page import write_report

        return write_report(subject, Path(path), whole_number(top, "top", 1) or 1)

    def _subject(self) -> Subject:
        check_is_fitted(self)
        model: Any = self
        own = ("verdict", "reasons", "checks")
        outcome = Outcome(
            posterior=self._posterior,
            verdict=model.verdict_,
            diagnostics={k: v for k, v in model.diagnostics_.items() if k not in own},
            elbo=model.elbo_,
            history=model.history_,
            front=model.front_,
            is_interrupted=model.interrupted_,
        )
        return Subject(
            problem=self._problem,
            outcome=outcome,
            target=getattr(self, "_target", "y"),
            call=BaseEstimator.__repr__(model, N_CHAR_MAX=100_000),
            command=getattr(self, "_command", None),
            settings={name: _as_text(value) for name, value in model.get_params(False).items()},
            noise=model.noise_,
        )

    def __repr__(self, N_CHAR_MAX: int = 700) -> str:
        """As scikit-learn has it; of a fitted model, with the verdict and the first functions."""
        text: str = BaseEstimator.__repr__(self, N_CHAR_MAX)
        if not hasattr(self, "_posterior"):
            return text
        shown = [
            f"  {function.probability:.3f}  {function.modal}"
            for function in self._posterior.functions[:_SHOWN]
        ]
        verdict = self.verdict_.word  # type: ignore[attr-defined]
        return "\n".join([text, f"fitted, verdict {verdict}; functions, likeliest first:", *shown])

    def _repr_html_inner(self) -> str:
        """What scikit-learn's `_repr_html_` gives."""
        if hasattr(self, "_posterior"):
            from dvisr.reporting.notebook import as_html

            return as_html(self._subject())
        found: str = super()._repr_html_inner()  # type: ignore[misc]
        return found

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        output = {"text/plain": repr(self)}
        if get_config()["display"] == "diagram":
            output["text/html"] = self._repr_html_inner()
        return output


def _as_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_as_text(part) for part in value)
    return value.name if isinstance(value, Token) else str(value)
