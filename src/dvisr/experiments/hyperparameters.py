"""The paper's three tables of hyperparameters, row by row."""

from __future__ import annotations

Value = int | float | str

_COMMON: dict[str, Value] = {
    "RNN type": "Gated Recurrent Unit",
    "Number of hidden layers": 1,
    "Optimiser": "RMSprop",
    "RMSprop α": 0.9,
    "RMSprop ε": 1e-6,
    "Learning rate annealer (LRA)": "ReduceLROnPlateau",
    "LRA metric": "-ELBO",
    "LRA mode": "min",
    "LRA factor": 0.5,
    "Likelihood standard deviation": 1.0,
}
_MOVING_AVERAGE: dict[str, Value] = {
    "Baseline": "Exponential weighted moving average",
    "Baseline (EWMA) α": 0.25,
}

HYPERPARAMETERS: dict[str, dict[str, Value]] = {
    "simple": {
        "Epochs": 250,
        "Samples per epoch": 100,
        "Runs": 10,
        "Max number of tokens per expression": 3,
        "Hidden layer size": 32,
        "RMSprop learning rate": 1e-2,
        "LRA patience": 15,
        "LRA min_lr": 1e-6,
        **_COMMON,
        **_MOVING_AVERAGE,
    },
    "scaling": {
        "Epochs": 2000,
        "Samples per epoch": 1000,
        "Runs": 1,
        "Hidden layer size": 64,
        "RMSprop learning rate": 5e-3,
        "LRA patience": 50,
        "LRA min_lr": 5e-6,
        **_COMMON,
        **_MOVING_AVERAGE,
    },
    "constants": {
        "Epochs": 1000,
        "Samples per epoch": 500,
        "Runs": 10,
        "Max number of tokens per expression": 3,
        "Hidden layer size": 64,
        "RMSprop learning rate": 5e-3,
        "LRA patience": 25,
        "LRA min_lr": 1e-6,
        **_COMMON,
        "Baseline": "Mean",
        "c prior mean": 0.0,
        "c prior standard deviation": 10.0,
    },
}
