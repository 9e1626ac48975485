"""Names that other packages have for what is a parameter here: they are answered with ours."""

from __future__ import annotations

import difflib
import inspect
from typing import Any, Self

# Of PySR, gplearn, PySIPS, PyOperon, Operon and SciPy's optimisers: their word, and ours.
OURS = {
    "binary_operators": 'operators=("+", "*", ...), which takes operators of every arity',
    "unary_operators": 'operators=("sin", "exp", ...), which takes operators of every arity',
    "function_set": 'operators=("+", "*", "sin", ...)',
    "allowed_symbols": 'operators=("+", "*", "sin", ...)',
    "extra_sympy_mappings": "operators, with operators of your own made by new_operator",
    "niterations": "num_steps, or max_time for a limit in seconds",
    "generations": "num_steps, or max_time for a limit in seconds",
    "max_iter": "num_steps, or max_time for a limit in seconds",
    "n_iter": "num_steps, or max_time for a limit in seconds",
    "max_evals": "num_steps, or max_time for a limit in seconds",
    "max_equation_evals": "num_steps, or max_time for a limit in seconds",
    "num_mcmc_samples": "num_steps, or max_time for a limit in seconds",
    "timeout_in_seconds": "max_time",
    "time_limit": "max_time",
    "population_size": "num_samples, the trees of each kind that a step tries",
    "num_particles": "num_samples, the trees of each kind that a step tries",
    "populations": "num_samples, the trees of each kind that a step tries",
    "ncycles_per_iteration": "num_samples, the trees of each kind that a step tries",
    "maxsize": "max_tokens",
    "max_size": "max_tokens",
    "max_length": "max_tokens",
    "max_complexity": "max_tokens",
    "maxdepth": 'constraints="default,max-depth=N"',
    "max_depth": 'constraints="default,max-depth=N"',
    "init_depth": 'constraints="default,max-depth=N"',
    "parsimony": "tree_prior, which says how probable a formula is before the data",
    "parsimony_coefficient": "tree_prior, which says how probable a formula is before the data",
    "complexity_of_operators": 'tree_prior={"sin": 0.5, ...}, the weights of tokens',
    "nested_constraints": 'constraints, such as "no-nested-trig"',
    "const_range": 'constant_prior, such as "normal:0,10" or "decades:0.01,100"',
    "elementwise_loss": 'noise, such as "student" for outliers or "relative"',
    "loss": 'noise, such as "student" for outliers or "relative"',
    "loss_function": 'noise, such as "student" for outliers or "relative"',
    "metric": 'noise, such as "student" for outliers or "relative"',
    "model_selection": "predict(X, index=0) for one formula; all of them are averaged else",
    "procs": "n_jobs",
    "parallelism": "n_jobs",
    "n_threads": "n_jobs",
    "num_threads": "n_jobs",
    "deterministic": "random_state, which alone gives the same answer again",
    "seed": "random_state",
    "random_seed": "random_state",
    "verbosity": "verbose",
    "progress": "verbose=1",
    "output_directory": "run_dir",
    "checkpoint_file": "run_dir, and DVISRRegressor.resume to go on",
    "output_torch_format": "nothing: model.jax(0) and model.numpy(0) are there after a fit",
    "select_k_features": "nothing: model.inclusion_ has the probability of every column",
    "denoise": "nothing: the noise is inferred, see noise",
}


class KnownParametersMixin:
    """Answers a parameter that there is none of before `__init__` sees it, so that the signature
    stays what it is."""

    def __new__(cls, *given: Any, **named: Any) -> Self:
        known = list(inspect.signature(cls.__init__).parameters)[1:]
        unknown = [name for name in named if name not in known]
        if unknown:
            raise TypeError(unknown_parameter(cls.__name__, unknown[0], known))
        return super().__new__(cls)

    def set_params(self, **named: Any) -> Self:
        """As scikit-learn's, with our word for a parameter of another package."""
        known = list(inspect.signature(type(self).__init__).parameters)[1:]
        for name in named:
            if name in OURS and name not in known:
                raise ValueError(unknown_parameter(type(self).__name__, name, known))
        changed: Self = super().set_params(**named)  # type: ignore[misc]
        return changed


def unknown_parameter(owner: str, name: str, known: list[str]) -> str:
    """One sentence: there is none of this name, and what to write instead."""
    if name in OURS:
        return f"{owner} has no parameter {name!r}: use {OURS[name]}"
    close = difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {close[0]!r}?" if close else f"it has {', '.join(known)}"
    return f"{owner} has no parameter {name!r}: {hint}"
