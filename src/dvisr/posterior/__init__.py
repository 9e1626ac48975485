"""The answer: trees, functions, constants, noise, evidence and predictive draws."""
