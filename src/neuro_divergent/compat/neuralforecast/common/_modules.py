"""Stands in for neuralforecast's building blocks, which only its own plugins import."""

from neuro_divergent.compat.neuralforecast.common._base_model import __getattr__ as __getattr__
