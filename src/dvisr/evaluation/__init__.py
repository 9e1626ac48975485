"""What trees compute: values at the points, and where they are defined."""

from dvisr.evaluation.batch import evaluate_batch
from dvisr.evaluation.host import apply_operator, evaluate
from dvisr.evaluation.tree import leaf_values

__all__ = ["apply_operator", "evaluate", "evaluate_batch", "leaf_values"]
