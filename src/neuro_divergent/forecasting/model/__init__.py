"""The base of a model's description, recipes, and the list of models."""

from neuro_divergent.forecasting.model.model import Capabilities as Capabilities
from neuro_divergent.forecasting.model.model import Model as Model
