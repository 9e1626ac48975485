"""Policy, objective, optimiser and schedule: one object."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np

from dvisr import training
from dvisr.constraints import Grammar
from dvisr.counting import count_trees
from dvisr.objective import AbstractObjective
from dvisr.optim import AbstractOptimiser, AbstractSchedule
from dvisr.recipes.specs import PolicySpec
from dvisr.sampling import make_writer
from dvisr.target import Target
from dvisr.training import Training, TrainState


@dataclasses.dataclass(frozen=True)
class Recipe:
    num_steps: int
    policy: PolicySpec
    objective: AbstractObjective
    optimiser: AbstractOptimiser
    schedule: AbstractSchedule
    from_prior: bool = False  # the policy's logits are added to the tree prior's

    def check(self, grammar: Grammar) -> None:
        """Whether it can be trained on such trees: a ValueError says why not."""
        jax.eval_shape(
            lambda key: self.objective.start(
                self.policy.create(grammar, np.float32, key=key), make_writer(grammar)
            ),
            jax.random.key(0),
        )

    def training(self, grammar: Grammar, target: Target) -> Training:
        prior = target.tree_prior if self.from_prior else None
        return Training(
            writer=make_writer(grammar, prior, target.X.dtype),
            target=target,
            objective=self.objective.within(_num_trees(grammar)),
            optimiser=self.optimiser,
            schedule=self.schedule,
        )

    def start(
        self, made: Training, grammar: Grammar, dtype: Any, *, seed: int, num_runs: int
    ) -> TrainState:
        """Freshly initialised runs, each from a key of its own."""

        slots = made.target.tree_prior.slots(grammar)[0] if self.from_prior else grammar

        def one(key: Any) -> TrainState:
            policy_key, train_key = jax.random.split(key)
            policy = self.policy.create(slots, dtype, key=policy_key)
            return training.init(made, policy, key=train_key)

        states: TrainState = eqx.filter_jit(jax.vmap(one))(training.run_keys(seed, num_runs))
        return states

    def with_budget(self, num_steps: int, num_samples: int) -> Recipe:
        """The same with more steps or fewer, and samples a step."""
        return dataclasses.replace(
            self,
            num_steps=num_steps,
            objective=self.objective.with_budget(num_steps, num_samples),
            schedule=self.schedule.with_steps(num_steps),
        )


def _num_trees(grammar: Grammar) -> int | None:
    """With constants there is no end of them."""
    return None if grammar.library.has_constants else count_trees(grammar)
