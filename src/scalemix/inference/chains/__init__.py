"""Markov chains: samplers, what they sample, and the loop that runs them."""
