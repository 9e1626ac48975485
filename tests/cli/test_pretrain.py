"""`dvisr pretrain`: a network of one's own, from a corpus to a fit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import jax
import numpy as np
import pytest
from click.testing import CliRunner

from dvisr import DVISRRegressor
from dvisr.cli import cli
from dvisr.fitting.data_network import digest_of
from dvisr.pretraining.weights import digest, load_network, named_arrays
from tests.fitting.problems import searching

SMALL = ["--batch", "8", "--width", "16", "--reader-layers", "1", "--decoder-layers", "1"]


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Optax promotes numbers of steps to floats."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


def test_sizes_that_no_network_has(tmp_path: Path) -> None:
    arguments = ["pretrain", str(tmp_path / "out"), "--width", "17"]
    found = CliRunner().invoke(cli, arguments)
    assert isinstance(found.exception, ValueError)
    assert "divisible by its 8 heads" in str(found.exception)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::dvisr.estimator.FitWarning")
def test_a_network_of_ones_own(tmp_path: Path) -> None:
    corpus, out, state = tmp_path / "formulas.txt", tmp_path / "out", tmp_path / "state"
    corpus.write_text("x * y\nx / y\nexp(x) + 2\n")
    arguments = ["pretrain", str(out), "--tree-prior", f"science:{corpus}", "--cool", "0"]
    arguments += ["--checkpoint", str(state), *SMALL]
    first = CliRunner().invoke(cli, [*arguments, "--steps", "8"], catch_exceptions=False)
    assert first.exit_code == 0
    assert "8 steps" in first.output
    second = CliRunner().invoke(cli, [*arguments, "--steps", "16"], catch_exceptions=False)
    assert "going on from step 8" in second.output
    assert load_network(out)[1]["steps"] == 16

    x = np.linspace(1.0, 2.0, 12)
    settings = searching(network=str(out), first_batches=2, lesson_updates=5)
    model = DVISRRegressor(operators=("*", "exp", "+"), settings=settings, random_state=0)
    model.fit(x[:, None], 1.5 * x)
    assert model.diagnostics_["network"] == "pretrained"

    before = digest_of(str(out))
    more = CliRunner().invoke(cli, [*arguments, "--steps", "24"], catch_exceptions=False)
    assert more.exit_code == 0
    assert digest_of(str(out)) != before, "weights that were written anew are read again"
    assert digest_of(str(out)) == digest(named_arrays(load_network(out)[0]))
