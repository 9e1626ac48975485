"""Training the network that reads tables: it learns, and goes on from a file bit for bit."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from dvisr.policy.conditioned import DataNetwork, Sizes
from dvisr.pretraining.laws import LawMaker, LawSettings
from dvisr.pretraining.training import Trainer, TrainingSettings, draw_good, held_out
from dvisr.pretraining.weights import load_network, named_arrays, read_arrays, save_network
from dvisr.prior.named import tree_prior

SIZES = Sizes(width=16, reader_layers=1, decoder_layers=1, num_heads=2)
QUICK = TrainingSettings(batch=16, steps_at_once=2, warmup=4, rate=2e-3)


@pytest.fixture(autouse=True)
def standard_promotion() -> Iterator[None]:
    """Optax promotes numbers of steps to floats."""
    with jax.numpy_dtype_promotion("standard"), jax.numpy_rank_promotion("allow"):
        yield


@pytest.fixture(scope="module")
def maker() -> LawMaker:
    return LawMaker.create(lambda g: tree_prior("science", g), LawSettings(), max_tokens=5)


def leaves(trainer: Trainer) -> list[np.ndarray]:
    return list(named_arrays(trainer.state).values())


@pytest.mark.slow
def test_going_on_from_a_file_is_going_on(maker: LawMaker, tmp_path: Path) -> None:
    through = Trainer(maker, SIZES, QUICK)
    through.train(8, cool=4)
    first = Trainer(maker, SIZES, QUICK)
    first.train(4)
    first.save(tmp_path / "state")
    second = Trainer(maker, SIZES, QUICK)
    second.resume(tmp_path / "state")
    assert second.step == 4
    second.train(8, cool=4)
    for one, two in zip(leaves(through), leaves(second), strict=True):
        np.testing.assert_array_equal(one, two)


def test_begins_with_the_weights_of_a_file(maker: LawMaker, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    save_network(path, network(), SIZES, {})
    trainer = Trainer(maker, SIZES, TrainingSettings(seed=5))
    trainer.begin_with(path)
    assert trainer.step == 0
    for name, own in named_arrays(trainer.state.network).items():
        np.testing.assert_array_equal(own, named_arrays(load_network(path)[0])[name])
    other = Trainer(maker, SIZES._replace(width=32), TrainingSettings())
    with pytest.raises(ValueError, match="of other sizes"):
        other.begin_with(path)


@pytest.mark.slow
@pytest.mark.parametrize("optimiser", ["adamw", "muon"])
def test_it_learns_to_read(maker: LawMaker, optimiser: str) -> None:
    """Half a nat better than the prior on laws it has not seen, after a minute."""
    settings = TrainingSettings(
        batch=256, steps_at_once=5, warmup=20, rate=3e-3, optimiser=optimiser
    )
    trainer = Trainer(maker, Sizes(32, 2, 1, 4), settings)
    laws = draw_good(maker, jax.random.key(9), 1000, 4.0)
    trainer.train(300, cool=100)
    by_network, by_prior = held_out(trainer.state.network, maker, laws)
    assert by_network.mean() < by_prior.mean() - 0.5


def network() -> DataNetwork:
    return DataNetwork.create(SIZES, key=jax.random.key(0))


def test_weights_come_back_in_half_precision(tmp_path: Path) -> None:
    path = tmp_path / "weights"
    save_network(path, network(), SIZES, {"laws": 12})
    read, about = load_network(path)
    assert about["laws"] == 12
    for one, two in zip(jax.tree.leaves(network()), jax.tree.leaves(read), strict=True):
        assert two.dtype == one.dtype
        np.testing.assert_allclose(one, two, rtol=1e-3, atol=1e-6)


def broken(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "flipped":
        path.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    elif how == "short":
        path.write_bytes(content[: len(content) // 2])
    elif how == "text":
        path.write_text("not weights at all")
    else:
        path.unlink()


@pytest.mark.parametrize("how", ["flipped", "short", "text", "missing"])
def test_a_damaged_file_is_refused_with_a_sentence(how: str, tmp_path: Path) -> None:
    path = tmp_path / "weights"
    save_network(path, network(), SIZES, {})
    broken(path, how)
    with pytest.raises(ValueError, match="weights"):
        load_network(path)


def test_weights_of_another_network(tmp_path: Path, maker: LawMaker) -> None:
    path = tmp_path / "weights"
    save_network(path, network(), Sizes(16, 2, 1, 2), {})
    with pytest.raises(ValueError, match="another network"):
        load_network(path)
    save_network(path, network(), SIZES, {})
    trainer: Any = Trainer(maker, SIZES, QUICK)
    with pytest.raises(ValueError, match="another network"):
        trainer.resume(path)
    assert read_arrays(path)[1]["sizes"] == SIZES._asdict()
