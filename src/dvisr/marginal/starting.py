"""Where the optimiser starts: the same for a tree whichever trees are fitted beside it."""

from __future__ import annotations

import numpy as np

from dvisr.library.compiling import compiled


@compiled
def random(state):
    """splitmix64: the next of a sequence, uniform between 0 and 1."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    z = state[0]
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z = z ^ (z >> np.uint64(31))
    return float(z >> np.uint64(11)) * (1.0 / 9007199254740992.0)


@compiled
def seed(tokens, num_nodes, state):
    """From the tree itself, so that it does not matter which trees are fitted before it."""
    state[0] = np.uint64(0x243F6A8885A308D3)
    for position in range(num_nodes):
        state[0] = (state[0] ^ np.uint64(tokens[position] + 1)) * np.uint64(0x100000001B3)
        random(state)


@compiled
def start(number, shape, constants, law, work, units, state):
    """Starting values: ones, then sizes over some decades in units of the data, and now and then a
    value of the data themselves."""
    for j in range(shape.num_constants):
        if number == 0:
            constants[j] = 1.0
            continue
        if random(state) < 0.25:
            position = int(random(state) * shape.num_nodes)
            point = int(random(state) * len(law.y))
            value = work.values[position, point]
            if work.state[position] != 0 or random(state) < 0.2:
                value = law.y[point]
            constants[j] = value if abs(value) < 1e100 else 1.0
            continue
        spread = 1.0 if number < 4 else 1.7
        size = 10.0 ** (spread * (2.0 * random(state) - 1.0))
        unit = units[int(random(state) * len(units))]
        constants[j] = size * unit * (1.0 if random(state) < 0.5 else -1.0)
