"""What was visited: the best trees so far, each once, and draws from them."""

from dvisr.search.visited import Visited, replayed, visit

__all__ = ["Visited", "replayed", "visit"]
