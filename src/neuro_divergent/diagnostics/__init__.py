"""Diagnostics of a training: gradients, weights, learning curves, architecture. They only look: no weight changes."""
