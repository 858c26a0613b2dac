"""The base class of model descriptions, the training recipes, and the list of models."""

from neuro_divergent.forecasting.model.model import Capabilities as Capabilities
from neuro_divergent.forecasting.model.model import Model as Model
