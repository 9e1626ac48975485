"""Reports in a real browser: from disk, without a network. Debian's `chromium` is enough."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.reporting.fits import HOSTILE, TARGET, TEX, one_column, several_columns

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
IS_NEEDED = os.environ.get("DVISR_NEEDS_BROWSER") == "1"  # as .ci/run says

pytestmark = pytest.mark.skipif(
    CHROMIUM is None and not IS_NEEDED,
    reason="reports were not tested in a browser: there is no Chromium here, install `chromium`",
)


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    options = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
    with sync_playwright() as play:
        started = play.chromium.launch(executable_path=CHROMIUM, args=options)
        yield started
        started.close()


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    made = {"one": one_column(), "several": several_columns()}
    return {name: model.report(folder / f"{name}.html") for name, model in made.items()}


class Opened:
    """A page, and everything that went wrong on it."""

    def __init__(self, browser: Any, path: Path, **options: Any) -> None:
        chosen = {"viewport": {"width": 1280, "height": 900}, **options}
        self.context = browser.new_context(offline=True, **chosen)
        self.page = self.context.new_page()
        self.wrong: list[str] = []
        self.asked: list[str] = []
        page = self.page
        page.on("console", self._note)
        page.on("pageerror", lambda error: self.wrong.append(str(error)))
        page.on("dialog", self._refuse)
        page.on("request", lambda request: self.asked.append(request.url))
        page.goto(path.as_uri())
        page.wait_for_selector("html[data-drawn]")

    def _note(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.wrong.append(message.text)

    def _refuse(self, dialog: Any) -> None:
        self.wrong.append("a dialog")
        dialog.dismiss()

    def find(self, script: str) -> Any:
        return self.page.evaluate(script)


@pytest.fixture
def opened(browser: Any, files: dict[str, Path]) -> Iterator[Any]:
    made: list[Opened] = []

    def opening(name: str, path: Path | None = None, **options: Any) -> Opened:
        made.append(Opened(browser, files[name] if path is None else path, **options))
        return made[-1]

    yield opening
    for one in made:
        one.context.close()


ROWS = """(place) => {
    const all = Bokeh.documents.map((doc) => [doc.roots()[0].id, doc]);
    const items = JSON.parse(document.getElementById("figures").textContent);
    const root = items.find((item) => item.target_id === place).root_id;
    const doc = all.find(([id, _]) => id === root)[1];
    const diagonal = doc.get_model_by_name("diagonal");
    const x = Array.from(doc.get_model_by_name("rows").data.x);
    return {x: x, diagonal: diagonal && diagonal.visible};
}"""


@pytest.mark.parametrize("name", ["one", "several"])
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 420])
def test_it_opens_from_disk(
    opened: Any, files: dict[str, Path], name: str, scheme: str, width: int
) -> None:
    view = opened(name, viewport={"width": width, "height": 900}, color_scheme=scheme)
    assert view.wrong == []
    assert view.asked == [files[name].as_uri()]
    places = view.find("document.querySelectorAll('.plot').length")
    assert int(view.find("document.documentElement.dataset.drawn")) == places >= 9
    empty = "[...document.querySelectorAll('.plot')].filter((p) => p.offsetHeight < 200).length"
    assert view.find(empty) == 0
    assert view.find("document.documentElement.scrollWidth") <= width
    colour = view.find("getComputedStyle(document.body).backgroundColor")
    assert (colour == "rgb(255, 255, 255)") is (scheme == "light")


@pytest.mark.parametrize("name", ["one", "several"])
def test_a_hostile_name_stays_text(opened: Any, name: str) -> None:
    view = opened(name)
    assert view.find("document.images.length") == 0
    assert view.find("document.querySelectorAll('b').length") == 0
    heading = view.find("document.querySelector('h1').textContent")
    used = [TEX] if name == "one" else [HOSTILE, "mass", TEX]
    assert heading == f"{TARGET} as a function of {', '.join(used)}"
    view.page.hover("#data-figure")
    view.page.mouse.wheel(0, 600)
    assert view.wrong == []
    assert len(view.asked) == 1


def test_no_other_script_runs(opened: Any, files: dict[str, Path], tmp_path: Path) -> None:
    page = files["one"].read_text("utf-8")
    broken = tmp_path / "broken.html"
    bad = "<script>window.ran = 1</script><img src='data:,' onerror='window.ran = 2'>"
    broken.write_text(page.replace("</main>", f"{bad}</main>"), "utf-8")
    view = opened("one", path=broken)
    assert view.find("window.ran") is None
    assert view.wrong  # and the browser says so


def shown(view: Opened) -> list[str]:
    found: list[str] = view.find(
        """[...document.querySelectorAll('.panel')]
           .filter((p) => getComputedStyle(p).visibility === 'visible' && p.offsetHeight > 100)
           .map((p) => p.dataset.place)"""
    )
    return found


def test_buttons_choose_a_function(opened: Any) -> None:
    view = opened("one")
    assert shown(view) == ["0"]
    view.page.click("#each [data-choose='1']")
    assert shown(view) == ["1"]
    pressed = "[...document.querySelectorAll('[aria-pressed=true]')].map((b) => b.dataset.choose)"
    assert view.find(pressed) == ["1", "1"]  # in the list and above the panel
    view.page.click("#functions [data-choose='0']")
    assert shown(view) == ["0"]
    assert view.find("document.getElementById('each').getBoundingClientRect().top") < 900
    assert view.wrong == []


def test_the_horizontal_axis_can_be_chosen(opened: Any) -> None:
    view = opened("several")
    model = several_columns()
    before = view.page.evaluate(ROWS, "data-figure")
    assert before["x"] == pytest.approx(model.predict(model_rows()).tolist(), rel=1e-5)
    assert before["diagonal"] is True
    view.page.select_option("#data select.axis", label="mass")
    after = view.page.evaluate(ROWS, "data-figure")
    assert after["x"] == pytest.approx(model_rows()["mass"].tolist(), rel=1e-5)
    assert after["diagonal"] is False
    end = "Bokeh.documents[0].roots()[0].x_range.end"
    assert view.find(end) < 1.2 * max(after["x"])  # what is hidden takes no room
    assert view.page.evaluate(ROWS, "fit-0")["x"] != after["x"]  # a section of its own
    view.page.select_option("#data select.axis", index=0)
    assert view.page.evaluate(ROWS, "data-figure") == before
    view.page.select_option("#each select.axis", label="mass")
    for place in ("fit-0", "residuals-0", "fit-1"):
        assert view.page.evaluate(ROWS, place)["x"] == after["x"]
    names = "[...document.querySelectorAll('.axis-name')].map((n) => n.textContent)"
    assert set(view.find(names)) == {"mass"}
    assert view.wrong == []


def model_rows() -> Any:
    import pandas as pd

    model = several_columns()
    return pd.DataFrame(model._problem.X, columns=model.feature_names_in_)


def test_the_call_can_be_copied(opened: Any) -> None:
    view = opened("one")
    view.page.click("[data-copy='call']")
    view.page.wait_for_selector("[data-copy='call']:text-matches('copied|selected')")
    assert view.find("window.getSelection().toString()").startswith("DVISRRegressor(")


def test_a_figure_can_be_moved(opened: Any) -> None:
    view = opened("one")
    start = "Bokeh.documents[0].roots()[0].x_range.start"
    before = view.find(start)
    box = view.page.locator("#data-figure").bounding_box()
    view.page.mouse.move(box["x"] + 400, box["y"] + 200)
    view.page.mouse.down()
    view.page.mouse.move(box["x"] + 500, box["y"] + 200, steps=4)
    view.page.mouse.up()
    assert view.find(start) < before
    assert view.wrong == []


def test_a_row_is_told_on_hovering(opened: Any) -> None:
    view = opened("one")
    model = one_column()
    row = model._problem.data.y.argmax()
    frame = """(at) => {
        const doc = Bokeh.documents[0], plot = Bokeh.index.get_by_id(doc.roots()[0].id);
        const box = plot.el.getBoundingClientRect();
        const x = plot.frame.x_scale.compute(at[0]), y = plot.frame.y_scale.compute(at[1]);
        return [box.left + x, box.top + y];
    }"""
    at = [float(model._problem.X[row, 0]), float(model._problem.data.y[row])]
    view.page.mouse.move(*view.page.evaluate(frame, at))
    tip = view.page.locator(".bk-Tooltip").first
    tip.wait_for()
    told = tip.evaluate("(tip) => tip.shadowRoot.textContent")
    assert f"{at[1]:.4g}" in told
    assert "predicted" in told
    assert view.wrong == []


def test_on_paper_all_functions_are_shown_and_controls_are_not(opened: Any) -> None:
    view = opened("one", color_scheme="dark")
    view.page.emulate_media(media="print")
    assert len(shown(view)) == view.find("document.querySelectorAll('.panel').length") >= 2
    assert view.find("getComputedStyle(document.querySelector('.choices')).display") == "none"
    assert view.find("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
