"""Scores: folds, cross-validation, evaluation, the naive forecast."""
