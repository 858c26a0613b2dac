"""neuralforecast's API, module by module, implemented with this library: change only the import prefix.

`from neuro_divergent.compat.neuralforecast import NeuralForecast`
"""

from neuro_divergent.compat.neuralforecast.common._base_model import DistributedConfig
from neuro_divergent.compat.neuralforecast.core import NeuralForecast, register_loss

__all__ = ["DistributedConfig", "NeuralForecast", "register_loss"]
