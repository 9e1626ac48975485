"""The tables of docs/fits.json in docs/fits.md, docs/prior.md and the README, for `fits.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def show(held: dict[str, Any]) -> None:
    for path in (Path("docs/fits.md"), Path("docs/prior.md"), Path("README.md")):
        path.write_text(with_fits(path.read_text(), held))


def with_fits(text: str, held: dict[str, Any]) -> str:
    """The text with each table between its marks."""
    tables = {
        "in short": in_short(held),
        "laws": laws(held.get("laws", [])),
        "coverage": coverage(held.get("coverage")),
        "data": data([row for row in held.get("data", []) if row["prior"] == "science"]),
        "before": side_by_side(held.get("data", [])),
        "kernel": kernel(held.get("kernel", [])),
        "nist": nist(held.get("nist", [])),
    }
    for name, table in tables.items():
        start, end = f"<!-- fits: {name} -->\n", "<!-- end of fits -->"
        before, mark, after = text.partition(start)
        if mark:
            text = before + mark + table + end + after.partition(end)[2]
    return text


def in_short(held: dict[str, Any]) -> str:
    """The laws and the coverage in two sentences."""
    found, row = held.get("laws", []), held.get("coverage")
    if not found or row is None:
        return ""
    fits = sum(law["seeds"] for law in found)
    first = sum(law["recovered"] for law in found)
    rounded = sum(law.get("rounded", 0) for law in found)
    seconds = [law["seconds"] for law in found]
    return (
        f"Of {fits} fits of {len(found)} known laws with noise, the law is first in {first}, and "
        f"in {rounded} more it is first with a number such as 3 in the place of 3.02; a fit took "
        f"{min(seconds):.0f} to {max(seconds):.0f} seconds on two cores (medians by law). On "
        f"{row['laws']} laws drawn from the prior, 90 % intervals hold {row['coverage']:.1%} "
        f"± {row['stderr']:.1%} of new rows.\n"
    )


def laws(rows: list[dict[str, Any]]) -> str:
    head = (
        "| law | first | listed | probability | R² outside, median (least) | seconds (longest) | "
        "verdicts |\n| --- | --- | --- | --- | --- | --- | --- |\n"
    )
    lines = []
    for row in rows:
        verdicts = ", ".join(
            f"{word} {row['verdicts'].count(word)}" for word in sorted(set(row["verdicts"]))
        )
        lines.append(
            f"| {row['law']} | {_first(row)} of {row['seeds']} | {row['listed']} | "
            f"{row['probability']:.3f} | {row['median_r2']:.4f} ({row['least_r2']:.4f}) | "
            f"{row['seconds']:.1f} ({row['longest']:.1f}) | {verdicts} |\n"
        )
    return head + "".join(lines)


def _first(row: dict[str, Any]) -> str:
    rounded = row.get("rounded", 0)
    return f"{row['recovered']} + {rounded}" if rounded else str(row["recovered"])


def coverage(row: dict[str, Any] | None) -> str:
    if row is None:
        return ""
    return (
        "| laws | coverage of 90 % intervals | standard error | ok | caution | do-not-trust |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
        f"| {row['laws']} | {row['coverage']:.1%} | {row['stderr']:.1%} | {row['ok']} | "
        f"{row['caution']} | {row['do-not-trust']} |\n"
    )


def data(rows: list[dict[str, Any]]) -> str:
    head = (
        "| data | # | function | probability | constants: mean, 90 % interval | verdict |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
    )
    lines = []
    for row in rows:
        constants = "; ".join(f"{m:.4g} ({lo:.4g}, {hi:.4g})" for m, lo, hi in row["constants"])
        lines.append(
            f"| {row['data']} | {row['rank']} | `{row['expression']}` | {row['probability']:.3f} | "
            f"{constants} | {row['verdict']} |\n"
        )
    return head + "".join(lines)


def side_by_side(rows: list[dict[str, Any]]) -> str:
    """First rows under both priors, side by side."""
    head = (
        "| data | # | now | probability | before | probability |\n"
        "| --- | --- | --- | --- | --- | --- |\n"
    )
    lines = []
    for name in dict.fromkeys(row["data"] for row in rows):
        own = [row for row in rows if row["data"] == name]
        for rank in range(1, 1 + max(row["rank"] for row in own)):
            line = f"| {name} | {rank} "
            for prior in ("science", "size-balanced"):
                found = [row for row in own if (row["prior"], row["rank"]) == (prior, rank)]
                line += "".join(f"| `{r['expression']}` | {r['probability']:.3f} " for r in found)
                line += "" if found else "| | "
            lines.append(line + "|\n")
    return head + "".join(lines)


def kernel(rows: list[dict[str, Any]]) -> str:
    head = "| points | trees a second | of them with constants |\n| --- | --- | --- |\n"
    return head + "".join(
        f"| {row['points']:,} | {row['trees_a_second']:,.0f} | {row['with_constants']:.0%} |\n"
        for row in rows
    )


def nist(rows: list[dict[str, Any]]) -> str:
    """What `benchmarks.nist --nuts` found, the worst parameter of each set."""
    head = (
        "| set | mode | curvature's sd | formula | prior sd | mean off, in sd | sd off |\n"
        "| --- | --- | --- | --- | --- | --- | --- |\n"
    )
    return head + "".join(
        f"| {row['set']} | {row['mode_off']:.1e} | {row['curvature_std_off']:.1e} | "
        f"`{row['formula']}` | {row['prior_std']:g} | {row['mean_off']:.3f} | "
        f"{row['std_off']:.1%} |\n"
        for row in rows
    )
