"""Strict by default: float64, no silent broadcasting or promotion, warnings are errors."""

from __future__ import annotations

import os

# Two thirds of the quick tests' time is compiling, which this divides by three; `make slow`, which
# computes for longer than it compiles, has flags of its own. Read when JAX starts its backend.
os.environ.setdefault(
    "XLA_FLAGS",
    "--xla_cpu_use_fusion_emitters=false --xla_backend_optimization_level=0 "
    "--xla_cpu_parallel_codegen_split_count=1",
)

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
