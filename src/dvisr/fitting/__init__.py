"""A fit: the search over trees, the network that learns from it, and what they end in."""
