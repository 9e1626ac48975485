"""Writing trees with a policy: draws, and the probability of what is given."""

from dvisr.sampling.draws import (
    AbstractDraws,
    ExploringDraws,
    IndependentDraws,
    StratifiedDraws,
    draw,
    refill,
    sample,
)
from dvisr.sampling.writing import (
    Choices,
    Sample,
    Step,
    Writer,
    log_densities,
    log_prob,
    make_writer,
    write,
)

__all__ = [
    "AbstractDraws",
    "Choices",
    "ExploringDraws",
    "IndependentDraws",
    "Sample",
    "Step",
    "StratifiedDraws",
    "Writer",
    "draw",
    "log_densities",
    "log_prob",
    "make_writer",
    "refill",
    "sample",
    "write",
]
