"""The dimensions of a search space. Nothing here imports torch."""
