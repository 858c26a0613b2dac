"""The settings of a training."""
