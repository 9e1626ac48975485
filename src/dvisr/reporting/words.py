"""A fit in words: numbers with as many digits as are known, and the lines of a summary."""

from __future__ import annotations

import math
from typing import Any

from dvisr.checks import QUESTIONS, Verdict
from dvisr.expression import infix
from dvisr.posterior import Function
from dvisr.reporting.subject import Constant, Subject, constants_of
from dvisr.text import printable

_PLAIN = (1e-4, 1e7)  # sizes that are written without a power of ten
_LEAST, _MOST = 4, 8  # significant digits of a constant
CONSTANTS_LABEL = "constants at their most probable values, with central 90 % intervals"


def number(value: float, uncertainty: float) -> str:
    """With two digits of what is uncertain of it."""
    if not math.isfinite(value):
        return f"{value}"
    if not (math.isfinite(uncertainty) and uncertainty > 0.0):
        return f"{value:.6g}"
    size = max(abs(value), uncertainty)
    decimals = 1 - math.floor(math.log10(uncertainty))
    if _PLAIN[0] <= size < _PLAIN[1] and decimals <= 8:
        text = f"{value:.{max(0, decimals)}f}"
    else:
        digits = math.floor(math.log10(size)) - math.floor(math.log10(uncertainty)) + 1
        text = f"{value:.{max(1, min(digits, 15))}e}"
    return text if float(text) else text.removeprefix("-")


def with_spread(mean: float, std: float) -> str:
    """A mean and its standard deviation; a dash where there is none."""
    if math.isnan(mean):
        return "-"
    if not (math.isfinite(std) and std > 0.0):
        return f"{mean:.6g}"
    return f"{number(mean, std)} ± {number(std, std)}"


def digits_of(function: Function) -> int:
    """Significant digits of a function's constants, in its formula and beside it, so that they are
    the same numbers: two of what is uncertain of the one that is known best."""
    needed = [
        math.floor(math.log10(abs(one.mode))) - math.floor(math.log10(_width(one))) + 2
        for one in constants_of(function)
        if one.mode and 0.0 < _width(one) < math.inf
    ]
    return min(max([_LEAST, *needed]), _MOST)


def with_interval(constant: Constant, digits: int) -> str:
    """The most probable value, and from where to where."""
    low, high = ends(constant)
    return f"{constant.mode:.{digits}g} ({low} to {high})"


def ends(constant: Constant) -> tuple[str, str]:
    """Of the interval."""
    width = _width(constant)
    return number(constant.low, width), number(constant.high, width)


def _width(constant: Constant) -> float:
    """About a standard deviation."""
    return 0.3 * (constant.high - constant.low)


def share(probability: float) -> str:
    """Three decimals, and no "0.000" or "1.000" for what is neither."""
    if 0.0 < probability < 0.0005:
        return "< 0.001"
    if 0.9995 <= probability < 1.0 - 1e-12:
        return "> 0.999"
    return f"{probability:.3f}"


def function_lines(subject: Subject, top: int) -> list[str]:
    """Each function with its probability and, below, its constants."""
    lines = [f"Functions of {printable(subject.target)}, likeliest first"]
    for rank, function in enumerate(subject.posterior.functions[:top], 1):
        digits = digits_of(function)
        formula = printable(infix(function.modal, digits=digits))
        lines.append(f"{rank:>4}  {share(function.probability):>7}  {formula}")
        found = "; ".join(with_interval(one, digits) for one in constants_of(function))
        if found:
            lines.append(f"{'':15}{found}")
    others = len(subject.posterior.functions) - top
    if others > 0:
        rest = sum(function.probability for function in subject.posterior.functions[top:])
        lines.append(f"{'':6}{share(rest):>7}  {others} more")
    if any(function.weighed.constants.shape[1] for function in subject.posterior.functions[:top]):
        lines.append(f"({CONSTANTS_LABEL})")
    return lines


def verdict_lines(verdict: Verdict) -> list[str]:
    """The verdict, a line for each of its two questions, and the reasons below."""
    lines = [f"verdict: {verdict.word}"]
    for group, question in QUESTIONS.items():
        lines.append(f"  {question} {verdict.group_word(group)}")
        lines += [
            f"    {check.name}: {printable(check.sentence)}" for check in verdict.doubts(group)
        ]
    return lines


def evidence_line(subject: Subject) -> str:
    posterior = subject.posterior
    kind = "exact: every tree was weighed" if posterior.is_exact else "of what was visited"
    value, error = posterior.log_evidence, posterior.log_evidence_stderr
    known = f" ± {error:.2g}" if math.isfinite(error) and error > 0.0 else ""
    return f"log evidence {value:.4f}{known} ({kind})"


def noise_name(subject: Subject) -> str:
    likelihood = subject.problem.likelihood
    if likelihood.y_err is not None:
        return "noise, as a factor of the error bars"
    return "relative noise" if likelihood.noise.link == "log" else "noise"


def noise_line(subject: Subject) -> str:
    text = f"{noise_name(subject)} {with_spread(subject.noise['mean'], subject.noise['std'])}"
    if not subject.problem.likelihood.is_inferred:
        return f"{noise_name(subject)} {subject.noise['mean']:.6g}, as given"
    return f"{text} (mean and standard deviation)"


def visited_line(found: dict[str, Any]) -> str:
    count = large(int(found["num_allowed"]))
    if found.get("exact"):
        return f"all {count} trees weighed"
    visited = int(found["num_trees_visited"])
    if visited == int(found["num_allowed"]):
        return f"all {count} trees visited"
    text = f"{visited:,} trees visited of {count}"
    listed = int(found.get("num_listed", 0))
    return f"{text}; the {listed:,} likeliest of the prior among them" if listed else text


def inclusion_line(subject: Subject) -> str:
    """Columns that are next to certain not to appear are counted."""
    each = subject.posterior.inclusion
    shown = [f"{printable(str(name))} {share(p)}" for name, p in each.items() if p >= 0.0005]
    others = len(each) - len(shown)
    rest = [f"{others} other{'s' if others > 1 else ''} less than 0.001"] if others else []
    return f"probability that a column appears: {', '.join([*shown, *rest])}"


def large(count: int) -> str:
    return f"{count:,}" if count < 10**12 else f"about 10^{len(str(count)) - 1}"


def fact_lines(subject: Subject) -> list[str]:
    """What else is known of a fit: noise, evidence, R², what was visited, which columns appear."""
    found = subject.outcome.diagnostics
    lines = [noise_line(subject), evidence_line(subject)]
    r2 = found.get("r2", math.nan)
    if math.isfinite(r2):
        lines.append(f"R² {r2:.4f} of the posterior mean, {found['num_rows']:g} observations")
    lines.append(visited_line(found))
    if len(subject.columns) > 1:
        lines.append(inclusion_line(subject))
    if subject.outcome.is_interrupted:
        count = len(subject.outcome.history)
        steps = "1 step" if count == 1 else f"{count} steps"
        lines.append(f"stopped early, after {steps}: this is what was found by then")
    return lines


def summary(subject: Subject, top: int = 5) -> str:
    """Functions with probabilities and constants, noise, evidence, and the verdict with what is
    doubtful."""
    facts, verdict = fact_lines(subject), verdict_lines(subject.outcome.verdict)
    return "\n".join([*function_lines(subject, top), "", *facts, "", *verdict])
