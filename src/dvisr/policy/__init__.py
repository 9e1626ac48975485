"""q: the network that writes trees and draws constants, token by token."""

from dvisr.policy.base import AbstractPolicy, Observation, Outputs, Place, observe
from dvisr.policy.cell import GRUCell
from dvisr.policy.encoding import AbstractEncoder, PaperInputs, PlaceInputs, TreeInputs
from dvisr.policy.filling import Filler, PlaceConstant
from dvisr.policy.gru import GRUPolicy
from dvisr.policy.transformer import TransformerPolicy

__all__ = [
    "AbstractEncoder",
    "AbstractPolicy",
    "Filler",
    "GRUCell",
    "GRUPolicy",
    "Observation",
    "Outputs",
    "PaperInputs",
    "Place",
    "PlaceConstant",
    "PlaceInputs",
    "TransformerPolicy",
    "TreeInputs",
    "observe",
]
