"""q: the network that writes trees and draws constants, token by token."""

from dvisr.policy.base import AbstractPolicy, Observation, Outputs, observe
from dvisr.policy.gru import GRUCell, GRUPolicy

__all__ = ["AbstractPolicy", "GRUCell", "GRUPolicy", "Observation", "Outputs", "observe"]
