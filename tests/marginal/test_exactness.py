"""Spaces whose trees are all listed: what is said of them is as exact as it is called.

The oracle is quadrature, tree by tree. `python -m benchmarks.exactness` prints the same as a table.
"""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from benchmarks.exactness import Measured, make_space, measure, truths_of
from scipy.special import logsumexp

from dvisr.constants import AbstractConstantPrior, Decades, Normal
from dvisr.exact import log_marginal
from dvisr.expression import parse
from dvisr.library import Library
from dvisr.likelihood import make_likelihood
from dvisr.marginal import Engine, weigh

X = np.linspace(0.1, 4.0, 20)
LIBRARY = Library.create(["+", "-", "*", "/", "sin"], ["x0"], constants=True)


def look(text: str, y: np.ndarray, noise: float | str, prior: AbstractConstantPrior) -> Engine:
    return Engine(LIBRARY, X[:, None], make_likelihood(y, noise), prior, num_threads=1)
