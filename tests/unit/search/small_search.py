"""A search that takes little time."""

import neuro_divergent as nd

MODEL = nd.NLinear(h=4, input_size=8)
CONFIG = nd.TrainingConfig(max_steps=27, batch_size=16, early_stopping=None, validation_split=None)
SPACE = nd.SearchSpace(learning_rate=nd.loguniform(1e-4, 1e-1))
