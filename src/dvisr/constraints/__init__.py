"""Which trees are legal: rules as declarations, the grammar they make, its exact mask."""

from dvisr.constraints.grammar import Grammar
from dvisr.constraints.presets import NAMED, SETS, Constraints
from dvisr.constraints.rules import (
    CountRule,
    ForbidAllConstantChildren,
    ForbidAllNumberChildren,
    ForbidChild,
    ForbidDescendant,
    MaxDepth,
    Rule,
    ScopeRule,
    max_constants,
    max_repeats,
    max_tokens,
    min_tokens,
)

__all__ = [
    "NAMED",
    "SETS",
    "Constraints",
    "CountRule",
    "ForbidAllConstantChildren",
    "ForbidAllNumberChildren",
    "ForbidChild",
    "ForbidDescendant",
    "Grammar",
    "MaxDepth",
    "Rule",
    "ScopeRule",
    "max_constants",
    "max_repeats",
    "max_tokens",
    "min_tokens",
]
