"""Strict by default: float64, no silent broadcasting or promotion, warnings are errors."""

from __future__ import annotations

import os

# Two thirds of the suite's time is compiling, which this halves. Read when JAX starts its backend.
os.environ.setdefault("XLA_FLAGS", "--xla_cpu_use_fusion_emitters=false")

import jax
from hypothesis import HealthCheck, settings

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_rank_promotion", "raise")
jax.config.update("jax_numpy_dtype_promotion", "strict")

# The same examples each time and no clock: a failure is a failure on every machine.
settings.register_profile(
    "dvisr",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
settings.load_profile("dvisr")
