"""The search space: what it is, what a point of it means, and the default space of every model."""

from neuro_divergent.search.space.points import Point
from neuro_divergent.search.space.search_space import SearchSpace

__all__ = ["Point", "SearchSpace"]
