"""Network blocks that several models use."""

from neuro_divergent.nn.inputs import CategoryEmbedding, FlatInputs, StepInputs
from neuro_divergent.nn.perceptron import ActivationName, activation, perceptron

__all__ = ["ActivationName", "CategoryEmbedding", "FlatInputs", "StepInputs", "activation", "perceptron"]
