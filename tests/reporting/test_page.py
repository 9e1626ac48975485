"""What is in a report, and that names stay text in it."""

from __future__ import annotations

import base64
import dataclasses
import gzip
import hashlib
import json
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dvisr.estimator import DVISRRegressor
from dvisr.fitting.front import FRONT_COLUMNS
from dvisr.reporting import numbers
from dvisr.reporting.page import report
from dvisr.reporting.subject import Subject, constants_of
from dvisr.reporting.words import digits_of, share, with_interval
from tests.reporting.fits import HOSTILE, TARGET, TEX, one_column, several_columns


class Read(HTMLParser):
    """Tags, what is in scripts, and the text a reader sees."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self._inside = ""
        self.feed(page)
        self.text = "".join(self.words)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script":
            self.scripts.append(data)
        elif self._inside != "style":
            self.words.append(data)


@pytest.fixture(scope="module", params=[one_column, several_columns], ids=["one", "several"])
def model(request: pytest.FixtureRequest) -> DVISRRegressor:
    found: DVISRRegressor = request.param()
    return found


@pytest.fixture(scope="module")
def page(model: DVISRRegressor) -> str:
    return report(model._subject())


@pytest.fixture(scope="module")
def read(page: str) -> Read:
    return Read(page)


def test_it_holds_what_was_found(model: DVISRRegressor, read: Read) -> None:
    for function in model._posterior.functions[:5]:
        assert share(function.probability) in read.text
        for constant in constants_of(function):
            assert with_interval(constant, digits_of(function)) in read.text
    for check in model.verdict_.checks:
        assert check.sentence in read.text
    assert f"Verdict: {model.verdict_.word}." in read.text
    assert f"{model.log_evidence_:.4f}" in read.text
    for name in ("size-balanced", "uniform"):
        assert name in model.diagnostics_["other_priors"]
        assert name in read.text
    assert "DVISRRegressor(" in read.text
    for name in model.get_params():
        assert name in read.text


def test_names_stay_text(model: DVISRRegressor, read: Read) -> None:
    used = {tag for tag, _ in read.tags}
    assert not used & {"img", "b", "iframe", "object", "embed", "base", "form"}
    for _, attributes in read.tags:
        assert not [name for name in attributes if name.startswith("on")]
    for name in (TARGET, *model.feature_names_in_):
        assert name in read.text
    assert len(read.scripts) == 4


def test_nothing_comes_from_elsewhere(page: str, read: Read) -> None:
    for _, attributes in read.tags:
        assert "src" not in attributes
        assert (attributes.get("href") or "data:").startswith("data:")
    own = page.replace(read.scripts[2], "")  # all but Bokeh's own script
    assert "://" not in own.replace("http://www.w3.org", "")
    assert "url(" not in own
    assert len(page.encode()) < 3_000_000


def test_only_its_own_scripts_may_run(read: Read) -> None:
    (policy,) = [str(a["content"]) for tag, a in read.tags if a.get("http-equiv") and tag == "meta"]
    directives = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert directives["default-src"] == "'none'"
    allowed = set(directives["script-src"].split())
    digests = [
        base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
        for script in read.scripts[2:]
    ]
    assert allowed == {f"'sha256-{digest}'" for digest in digests}


def test_every_figure_has_a_place(read: Read) -> None:
    placed = [a["id"] for _, a in read.tags if a.get("class") == "plot"]
    drawn = [item["target_id"] for item in json.loads(read.scripts[0])]
    assert sorted(placed) == sorted(drawn)  # type: ignore[type-var]
    assert {"data-figure", "fit-0", "residuals-0", "calibration", "quantiles"} <= set(drawn)
    names = [a["id"] for _, a in read.tags if a.get("id")]
    assert len(names) == len(set(names))


def test_formulas_are_mathml(model: DVISRRegressor, page: str) -> None:
    formulas = re.findall(r"<math>.*?</math>", page)
    assert len(formulas) >= 2 * min(5, len(model.functions_))
    for formula in formulas:
        ElementTree.fromstring(formula)


def test_rows_that_are_drawn_are_those_of_the_data(model: DVISRRegressor, read: Read) -> None:
    """Bokeh's own encoding of an array: base64 of its bytes, compressed."""
    (item,) = [one for one in json.loads(read.scripts[0]) if one["target_id"] == "residuals-0"]
    found = re.findall(r'"data":"([A-Za-z0-9+/=]+)"', json.dumps(item, separators=(",", ":")))
    kinds = [base64.b64decode(text) for text in found]
    plain = [gzip.decompress(one) if one[:2] == b"\x1f\x8b" else one for one in kinds]
    arrays = [np.frombuffer(one, dtype=np.float32) for one in plain]
    wanted = numbers.residuals_of(model._subject(), model._posterior.functions[0])
    assert any(
        len(array) == len(wanted) and np.allclose(array, wanted, rtol=1e-6) for array in arrays
    )


def test_columns_can_be_chosen_where_there_are_several() -> None:
    several = several_columns()
    read = Read(report(several._subject()))
    columns = json.loads(read.scripts[1])
    order = several.inclusion_.sort_values(ascending=False, kind="stable").index
    data = pd.DataFrame(several._problem.X, columns=several.feature_names_in_)
    np.testing.assert_allclose(columns[0], data[order[0]], rtol=1e-5)
    assert order[0] == HOSTILE
    assert sum(tag == "select" for tag, _ in read.tags) == 2
    assert not [tag for tag, _ in Read(report(one_column()._subject())).tags if tag == "select"]
    assert json.loads(Read(report(one_column()._subject())).scripts[1]) == []


def test_doubts_come_with_cures() -> None:
    read = Read(report(several_columns()._subject()))
    assert "Verdict: ok" not in read.text
    assert read.text.count("noise 'student'") >= 2  # at the top, and among the checks


def with_outcome(subject: Subject, **changes: object) -> Subject:
    outcome = dataclasses.replace(subject.outcome, **changes)  # type: ignore[arg-type]
    return dataclasses.replace(subject, outcome=outcome)


def test_a_search_shows_its_evidence_over_time() -> None:
    history = pd.DataFrame({"step": [1, 2], "seconds": [0.5, 1.0], "log_evidence": [-3.0, -1.0]})
    subject = with_outcome(one_column()._subject(), history=history)
    assert "evidence" in Read(report(subject)).scripts[0]
    assert 'target_id":"evidence"' not in Read(report(one_column()._subject())).scripts[0]


def test_what_a_trained_network_leaves_is_enough() -> None:
    """It has no front, no other priors, and another history."""
    subject = one_column()._subject()
    kept = {k: v for k, v in subject.outcome.diagnostics.items() if k != "other_priors"}
    history = pd.DataFrame({"step": [1, 2], "elbo": [-3.0, -2.0], "invalid_share": [0.0, 0.0]})
    front = pd.DataFrame(columns=FRONT_COLUMNS)
    bare = with_outcome(subject, diagnostics=kept, history=history, front=front)
    page = Read(report(bare))
    assert "ELBO" in page.scripts[0]
    assert "Under other priors" not in page.text


def test_steps_without_a_number_are_not_drawn() -> None:
    history = pd.DataFrame({"step": [1, 2, 3], "log_evidence": [-np.inf, np.nan, -1.0]})
    page = Read(report(with_outcome(one_column()._subject(), history=history)))
    assert 'target_id":"evidence"' not in page.scripts[0]


def test_the_command_that_made_it() -> None:
    subject = dataclasses.replace(one_column()._subject(), command="dvisr fit '<a>.csv' --seed 1")
    assert "dvisr fit '<a>.csv' --seed 1" in Read(report(subject)).text


def test_many_rows_are_thinned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numbers, "MOST_ROWS", 10)
    assert "Of 20 rows, 10 are drawn" in Read(report(one_column()._subject())).text


def test_an_interrupted_fit_says_so() -> None:
    subject = with_outcome(one_column()._subject(), is_interrupted=True)
    assert "stopped before its end" in Read(report(subject)).text


def test_the_file_is_written_whole(tmp_path: Path) -> None:
    path = one_column().report(tmp_path / "new" / "report.html", top=1)
    assert path.read_text("utf-8") == report(one_column()._subject(), top=1)
    assert [file.name for file in path.parent.iterdir()] == ["report.html"]
    with pytest.raises(ValueError, match="a report is a file"):
        one_column().report(3)
    with pytest.raises(ValueError, match="top must be"):
        one_column().report(tmp_path / "a.html", top=0)


def test_a_name_in_tex_is_plain_text_to_bokeh() -> None:
    items = json.loads(Read(report(one_column()._subject())).scripts[0])
    text = json.dumps(items)
    assert json.dumps(TEX)[1:-1] in text
    labels = re.findall(r'"axis_label": \{"type": "object", "name": "(\w+)"', text)
    assert set(labels) == {"PlainText"}
    assert not re.findall(r'"axis_label": "', text)
