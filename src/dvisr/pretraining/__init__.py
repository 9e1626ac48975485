"""Training the network that reads data, once, on laws drawn from the prior."""
