"""Hyperparameter search: the space, the searches and their results."""
