"""The search for likely trees, on the host: which were visited, and which to visit next."""
