"""The state of a training: weights, history, early stopping, precision."""
