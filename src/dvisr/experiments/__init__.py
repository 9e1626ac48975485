"""The paper's experiments: run them, hold them against the paper, write them down."""

from dvisr.experiments.checks import failures, kl_limit
from dvisr.experiments.paper import LARGEST_SIZE, SCALING_SIZES, Experiment, experiments
from dvisr.experiments.reproducing import Reproduction, everything_in, reproduce
from dvisr.experiments.results import Result, Row
from dvisr.experiments.writing import write_pages

__all__ = [
    "LARGEST_SIZE",
    "SCALING_SIZES",
    "Experiment",
    "Reproduction",
    "Result",
    "Row",
    "everything_in",
    "experiments",
    "failures",
    "kl_limit",
    "reproduce",
    "write_pages",
]
