"""The network that reads the data, in a fit: it was trained once, on laws drawn from the prior, and
goes on learning on the table at hand.

Its draws come first: they are weighed, and each of the search's islands has draws of its own as
parents. At the end it is taught the posterior over what was visited (`lessons`), and draws afresh.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jax
import numpy as np

from dvisr.diagnostics import log_total
from dvisr.fitting import streams
from dvisr.fitting.beside import beside, is_done_in_time
from dvisr.fitting.lessons import make_lesson, teach
from dvisr.fitting.network import AbstractNetwork, PlainNetwork, trees_only_writer
from dvisr.library.program_cache import kept_programs
from dvisr.policy.conditioned import Adapter, DataNetwork, DataPolicy
from dvisr.policy.reading import make_table
from dvisr.policy.vocabulary import MOST_COLUMNS, why_unknown
from dvisr.pretraining.weights import digest, load_network, named_arrays
from dvisr.problem import Problem
from dvisr.sampling.programs import bounded_jit
from dvisr.sampling.unfolding import Unfolded
from dvisr.search.screening import leading_columns
from dvisr.search.visited import ALL_ISLANDS, NUM_ISLANDS
from dvisr.settings import SearchSettings

if TYPE_CHECKING:
    from dvisr.fitting.limits import Limit
    from dvisr.fitting.search import Search
    from dvisr.search.matching import Tell

_PREFIXES_A_TREE = 4  # of the trees of a lesson: so many are their own, at the most
_LEAST = 1e-6  # the share of the posterior or of q from which a lesson has a tree


def network_of(name: str) -> DataNetwork:
    """Of a file, or "pretrained": the weights that come with the package. Read once, and again
    where the file was written anew."""
    return _network(*_version(name))


def digest_of(name: str) -> str:
    """Of the weights of `network_of`."""
    return _digest(*_version(name))


def _version(name: str) -> tuple[str, int, int]:
    """The name, and what tells a file from one that was there before."""
    if name == "pretrained":
        return name, 0, 0
    try:
        status = Path(name).stat()
    except OSError:  # reading it says what is wrong
        return name, 0, 0
    return name, status.st_mtime_ns, status.st_size


@functools.lru_cache(maxsize=2)
def _network(name: str, written: int, size: int) -> DataNetwork:
    if name != "pretrained":
        return load_network(Path(name))[0]
    with resources.as_file(resources.files("dvisr.pretraining") / "network.safetensors") as path:
        return load_network(Path(path))[0]


@functools.lru_cache(maxsize=2)
def _digest(name: str, written: int, size: int) -> str:
    return digest(named_arrays(_network(name, written, size)))


def why_not(problem: Problem) -> str:
    """Why a fit can't have the network that reads data, or an empty text."""
    if trees_only_writer(problem.grammar, problem.tree_prior).walk is None:
        return "the count rules give a tree too many distinct costs"
    return why_unknown(problem.grammar.library)


def make_network(
    problem: Problem, settings: SearchSettings, num_samples: int, *, seed: int
) -> tuple[AbstractNetwork, str]:
    """The network of a search, and why it is not the one that reads the data, if it is not."""
    reason = why_not(problem) if settings.network != "plain" else "it was asked for"
    if not reason:
        return PretrainedNetwork(problem, settings, num_samples, seed=seed), ""
    plain = PlainNetwork(
        problem.grammar,
        problem.tree_prior,
        max(16, int(settings.of_network * num_samples)),
        max(16, int(2 * settings.of_network * num_samples)),
        hidden_size=settings.hidden_size,
        seed=seed,
    )
    return plain, reason


class PretrainedNetwork(AbstractNetwork):
    """Draws are made in batches of `num_samples`."""

    name = "pretrained"
    learns_in_steps = False

    def __init__(
        self, problem: Problem, settings: SearchSettings, num_samples: int, *, seed: int
    ) -> None:
        self.num_samples = num_samples
        self._problem, self._settings = problem, settings
        self._rng = np.random.default_rng([seed, streams.NETWORK_DRAWS])
        self._seed = seed
        self._unfolded: Unfolded | None = None
        self._drawn: dict[bytes, np.ndarray] = {}  # each tree once
        self._num_batches = 0
        self._first: Future[list[np.ndarray]] | None = None
        self._left: list[tuple[int, np.ndarray]] = []  # first batches that were not visited yet
        self._compiling: Future[None] | None = None
        self._is_given_up = False
        self._is_restored = False

    @property
    def unfolded(self) -> Unfolded:
        assert self._unfolded is not None, "it has not read the data yet"
        return self._unfolded

    def compile(self) -> None:
        """Beside the search, which has enough to do until the first draws are there."""
        self._first, self._compiling = beside(
            kept_programs()(self._read_and_draw), kept_programs()(self._compile_lessons)
        )

    def _read_and_draw(self) -> list[np.ndarray]:
        """Until enough prefixes were looked at; a batch for each island at the least."""
        own, problem = self._settings, self._problem
        network = network_of(own.network)
        columns = leading_columns(problem.X, problem.data.y, MOST_COLUMNS)
        rng = np.random.default_rng([self._seed, streams.READ_ROWS])
        table = make_table(problem.X[:, columns], problem.data.y, rng)
        policy = DataPolicy.create(
            network,
            _read(network, table),
            problem.grammar.library,
            problem.grammar.max_tokens,
            key=jax.random.key(self._seed),
            adapter_width=own.adapter_width,
            columns=columns.tolist(),
        )
        writer = trees_only_writer(problem.grammar, problem.tree_prior)
        self._unfolded = Unfolded(policy, writer)
        batches: list[np.ndarray] = []
        while len(batches) < own.first_batches and not self._is_given_up:
            if len(self._unfolded) > own.first_prefixes:
                break
            # One for each island at first, then as many again: what is drawn together is quicker.
            more = min(max(NUM_ISLANDS, len(batches)), own.first_batches - len(batches))
            batches += np.split(self.draw(more)[0], more)
            self._num_batches = len(batches)
        return batches

    def _read(self) -> float:
        """The share of the first draws that were made; it is done sooner if prefixes are many."""
        return self._num_batches / self._settings.first_batches

    def give_up(self) -> None:
        self._is_given_up = True
        for work in (self._first, self._compiling):
            if work is not None:
                work.cancel()

    def _compile_lessons(self) -> None:
        """A lesson of nothing."""
        if self._is_given_up:
            return
        trees = np.full((0, self._problem.grammar.max_tokens), -1, dtype=np.int8)
        self._taught(trees, np.zeros(0), self.unfolded.adapter, 0)

    def wait_for_draws(self, seconds: float, is_late: Callable[[], bool]) -> None:
        end = time.perf_counter() + seconds
        if self._first is not None:
            is_done_in_time(self._first, lambda: is_late() or time.perf_counter() >= end)

    def begin(self, search: Search, is_late: Callable[[], bool]) -> None:
        """Each island has draws of its own, so that their agreement still means something. A search
        that was stopped before its first step begins again, and has what it had not visited."""
        if self._first is not None:
            name = "reading the data with the network, and its first draws"
            with search.teller.phase(name) as tell:

                def is_late_now() -> bool:
                    tell(self._read())
                    return is_late()

                if not is_done_in_time(self._first, is_late_now):
                    return
            self._left, self._first = list(enumerate(self._first.result())), None
        count = len(self._left)
        with search.teller.phase("fitting the network's draws") as tell:
            while self._left and not is_late():
                number, trees = self._left.pop(0)
                search.visited.visit(trees, [ALL_ISLANDS[number % len(ALL_ISLANDS)]])
                search.teller.look(search.visited, search.engine)
                tell(1.0 - len(self._left) / count)

    def is_ready(self) -> bool:
        return self._first is None

    def step(self, search: Search, done: float) -> float:
        return float("nan")

    def finish(self, search: Search, limit: Limit, tell: Tell = lambda done: None) -> None:
        """Lessons until q is the posterior, with draws in between, which show what it still has
        wrong."""
        own = self._settings
        if self._compiling is not None:
            if not is_done_in_time(self._compiling, limit.is_over):
                return
            self._compiling.result()
            self._compiling = None
        for number in range(own.lesson_rounds):
            if limit.is_over() or (number > 0 and self._gap(search) < own.lesson_goal):
                return
            tell(number / own.lesson_rounds)
            trees = self._trees_to_teach(search)
            numbers = search.visited.visit(trees, islands=())
            joint = search.visited.tree_joint_estimate[numbers]
            unfolded = self.unfolded
            unfolded.adapter = self._taught(trees, joint, unfolded.adapter, own.lesson_updates)

    def _gap(self, search: Search) -> float:
        """Of new draws: nats from their ELBO to the log evidence of what was visited."""
        trees, log_q = self.draw()
        visited = search.visited
        numbers = visited.visit(trees, islands=())
        floor = search.floor + visited.tree_log_prior[numbers]
        joint = np.maximum(visited.tree_joint_estimate[numbers], floor)
        return log_total(visited.form_log_joint) - float((joint - log_q).mean())

    def _trees_to_teach(self, search: Search) -> np.ndarray:
        """The likeliest that were visited and the network's own draws, those first that have most
        of the posterior or of q, and none that have next to nothing of either."""
        likeliest = foremost(search, self._settings.most_looked_at, _LEAST)
        trees = {tree.tobytes(): tree for tree in likeliest} | self._drawn
        rows = np.array(list(trees.values()), dtype=np.int8)
        numbers = search.visited.visit(rows, islands=())
        joint = search.visited.tree_joint_estimate[numbers]
        importance = np.maximum(joint - log_total(joint), self.unfolded.log_q(rows))
        order = np.argsort(-importance, kind="stable")[: self._settings.most_taught]
        chosen: np.ndarray = order[importance[order] > np.log(_LEAST)]
        return np.asarray(rows[chosen])

    def _taught(
        self, trees: np.ndarray, log_joint: np.ndarray, adapter: Adapter, updates: int
    ) -> Adapter:
        most = self._settings.most_taught
        lesson = make_lesson(self.unfolded, trees, log_joint, most, _PREFIXES_A_TREE * most)
        taught: Adapter = teach(adapter, lesson, np.int32(updates))
        return taught

    def draw(self, num_batches: int = 1) -> tuple[np.ndarray, np.ndarray]:
        trees, log_q = self.unfolded.draw(self.num_samples, self._rng, num_batches)
        self._drawn.update((tree.tobytes(), tree) for tree in trees)
        return trees, log_q

    def log_prob(self, trees: np.ndarray) -> np.ndarray:
        return self.unfolded.log_q(trees)

    def state(self) -> dict[str, np.ndarray]:
        """It learns and draws at the end alone: until then it is what its seed makes of it. What
        it was trained to before must be the same, then."""
        return {"weights": self._digest()}

    def learnt(self) -> dict[str, np.ndarray]:
        """The adapter, with a digest of the weights that it was made for."""
        return {**named_arrays(self.unfolded.adapter), "weights": self._digest()}

    def _digest(self) -> np.ndarray:
        return np.frombuffer(bytes.fromhex(digest_of(self._settings.network)), dtype=np.uint8)

    def restore(self, state: Mapping[str, np.ndarray]) -> None:
        if not np.array_equal(state["weights"], self._digest()):
            raise ValueError("the network's weights are not those that the run began with")
        self._is_restored = True

    def catch_up(self, is_late: Callable[[], bool]) -> None:
        """A search that goes on has visited the first draws already, but they must be there."""
        if self._is_restored and self._first is not None and is_done_in_time(self._first, is_late):
            self._first.result()
            self._first = None


def foremost(search: Search, most: int, least: float = 0.0) -> np.ndarray:
    """The visited trees of the largest joint, so many, with that share of the posterior each."""
    joint = search.visited.tree_joint_estimate
    count = min(most, len(joint))
    order = np.argpartition(-joint, count - 1)[:count]
    order = order[np.isfinite(joint[order])]
    if least > 0.0:
        order = order[joint[order] > log_total(joint) + np.log(least)]
    trees: np.ndarray = search.visited.trees[order[np.argsort(-joint[order], kind="stable")]]
    return trees


@bounded_jit
def _read(network: DataNetwork, table: Any) -> Any:
    return network.read(table)
