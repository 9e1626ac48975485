"""The notebooks run, what they claim holds, and what is stored of them is whole and small."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

from tests.marks import quick_only

FOLDER = Path(__file__).parent.parent / "docs" / "notebooks"

# What is asserted at the end of each, in the notebook's own names.
CLAIMS = {
    "table_to_answer": """
law = model.functions_.iloc[0]
assert law["expression"] == "s / (s + c) * c"
for mean, std, made_with in zip(law["constants"], law["constants_std"], (1.7, 3.4), strict=True):
    assert abs(mean - made_with) < 4.0 * std
assert abs(model.noise_["mean"] - 0.15) < 4.0 * model.noise_["std"]
assert 0.0 < 1.0 - model.functions_["probability"].sum() < 0.01
widths = np.diff(model.predict_interval(new), axis=1)[:, 0]
assert widths[3] > 1.5 * widths[2]  # beyond the data
assert found.table["equation"][0].endswith("+ s)")
assert set(found.constants["constant"]) == {"vmax", "k", "a", "b"}
assert not report.exists()
""",
    "against_exact_truth": """
assert abs(distance - missed) < 1e-9
assert 0.0 < missed < 0.1
assert abs(np.exp(log_q).sum() - 1.0) < 1e-9
assert 0.0 < kl[-1] < 0.01 * kl[0]
assert len(elbo) == steps[-1] == 600
assert 2.0 * total_variation(log_q, log_posterior) ** 2 <= kl[-1]  # Pinsker's inequality
assert abs(exact.log_evidence - model.log_evidence_) < 4.5 * model.log_evidence_stderr_
assert 0.5 * (found.reindex(truth.index, fill_value=0.0) - truth).abs().sum() < 0.01
""",
}


def test_every_notebook_has_claims() -> None:
    assert {path.stem for path in FOLDER.glob("*.ipynb")} == set(CLAIMS)


@pytest.mark.parametrize("name", quick_only(CLAIMS, "table_to_answer"))
def test_it_runs_and_its_claims_hold(name: str, tmp_path: Path) -> None:
    notebook: Any = nbformat.read(FOLDER / f"{name}.ipynb", as_version=4)
    notebook.cells.append(nbformat.v4.new_code_cell(CLAIMS[name]))
    resources = {"metadata": {"path": str(tmp_path)}}
    NotebookClient(notebook, timeout=600, resources=resources).execute()
    assert list(tmp_path.iterdir()) == []  # nothing is left behind


@pytest.mark.parametrize("name", CLAIMS)
def test_what_is_stored_is_whole_small_and_of_no_machine(name: str) -> None:
    text = (FOLDER / f"{name}.ipynb").read_text()
    assert len(text) < 500_000
    assert "/home" not in text
    assert "/tmp" not in text
    notebook = json.loads(text)
    nbformat.validate(notebook)
    code = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    outputs = [output for cell in code for output in cell["outputs"]]
    assert all(output["output_type"] != "error" for output in outputs)
    assert all(output.get("name") != "stderr" for output in outputs)
    assert sum("image/png" in output.get("data", {}) for output in outputs) >= 2
