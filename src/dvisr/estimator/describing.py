"""A fitted model shown: as text, in a notebook, as a figure, as a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from dvisr.estimator.fitted import check_is_fitted
from dvisr.estimator.parameters import changed, parameters_of
from dvisr.fitting.fitters import Outcome
from dvisr.library import Token
from dvisr.posterior.posterior import Posterior
from dvisr.problem import Problem, whole_number
from dvisr.reporting import Subject, summary

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 80  # of a line of code that is shown


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
            call=_call(changed(model)),
            command=getattr(self, "_command", None),
            settings={name: _as_text(value) for name, value in parameters_of(model).items()},
            noise=model.noise_,
        )


def _call(named: dict[str, Any]) -> str:
    """As it would be written, in lines between the parameters."""
    lines = ["DVISRRegressor("]
    indent = " " * len(lines[0])
    for number, (name, value) in enumerate(named.items()):
        word = f"{name}={value!r}" + ("," if number < len(named) - 1 else "")
        if number and len(lines[-1]) + 1 + len(word) > _WIDTH:
            lines.append(indent + word)
        else:
            lines[-1] += f" {word}" if number else word
    return "\n".join(lines) + ")"


def _as_text(value: Any) -> str:
    if isinstance(value, (list, tuple)):
        return ", ".join(_as_text(part) for part in value)
    return value.name if isinstance(value, Token) else str(value)
