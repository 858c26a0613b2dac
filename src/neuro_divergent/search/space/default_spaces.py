"""The default search space of every model: what to vary, and over which values.

The ranges come from the models' papers and from the ranges that other libraries search by default. A model that is not
named here (one of a plugin) is searched over the fields that it shares with the others.
"""

from __future__ import annotations

from collections.abc import Mapping

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.space.dimensions import Dimension, choice, integers, loguniform, uniform
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.model.recipes import RATES
from neuro_divergent.search.space.apply import inner
from neuro_divergent.search.space.search_space import SearchSpace
from neuro_divergent.training.config.training_config import TrainingConfig

MULTIPLES = (1, 2, 3, 5, 7)
"""Lookback windows, in horizons."""

SHARED: Mapping[str, Dimension] = {
    "hidden_size": choice(64, 128, 256),
    "layers": integers(1, 3),
    "dropout": uniform(0.0, 0.5),
}
"""Fields of many models. A model without a line of its own is searched over those that it has."""

_RECURRENT: Mapping[str, Dimension] = {
    "hidden_size": choice(32, 64, 128, 200),
    "layers": integers(1, 3),
    "context_size": choice(8, 16, 32),
    "decoder_size": choice(32, 64, 128),
    "dropout": uniform(0.0, 0.5),
}
_ENCODER_DECODER: Mapping[str, Dimension] = {
    "hidden_size": choice(64, 128, 256),
    "encoder_layers": integers(1, 3),
    "ff_size": choice(32, 64, 128),
    "dropout": uniform(0.0, 0.3),
}
_TOKENS: Mapping[str, Dimension] = {
    "hidden_size": choice(128, 256, 512),
    "layers": integers(1, 3),
    "heads": choice(4, 8),
    "ff_size": choice(256, 512, 2048),
    "dropout": uniform(0.0, 0.3),
}
_HEADS: Mapping[str, Dimension] = {"heads": choice(4, 8)}
_BASIS: Mapping[str, Dimension] = {
    "hidden_sizes": choice([128, 128], [256, 256], [512, 512], [512, 512, 512, 512]),
    "dropout": uniform(0.0, 0.5),
}

OWN: Mapping[str, Mapping[str, Dimension]] = {
    "Autoformer": {**_ENCODER_DECODER, "factor": integers(1, 5), "moving_average": choice(11, 25, 51)},
    "BiTCN": {"hidden_size": choice(16, 32, 64), "dropout": uniform(0.0, 0.6)},
    "DLinear": {"moving_average": choice(11, 25, 51)},
    "DeepAR": {
        "hidden_size": choice(32, 64, 128, 256),
        "layers": integers(1, 3),
        "dropout": uniform(0.0, 0.5),
    },
    "DeepNPTS": {"hidden_size": choice(16, 32, 64), "layers": integers(1, 4), "dropout": uniform(0.0, 0.5)},
    "DilatedRNN": {
        "cell": choice("lstm", "gru"),
        "dilations": choice([[1, 2], [4, 8]], [[1, 2, 4, 8]]),
        "hidden_size": choice(32, 64, 128),
        "decoder_size": choice(32, 64, 128),
    },
    "FEDformer": {**_ENCODER_DECODER, "frequencies": choice(16, 32, 64), "moving_average": choice(11, 25, 51)},
    "GRU": _RECURRENT,
    "Informer": {**_ENCODER_DECODER, **_HEADS, "factor": integers(1, 5)},
    "KAN": {
        "hidden_size": choice(64, 128, 256, 512),
        "grid_size": choice(5, 10, 15),
        "spline_order": choice(2, 3, 4),
    },
    "LSTM": _RECURRENT,
    "MLP": {
        "hidden_size": choice(128, 256, 512, 1024),
        "layers": integers(1, 4),
        "dropout": uniform(0.0, 0.5),
    },
    "MLPMultivariate": {
        "hidden_size": choice(256, 512, 1024),
        "layers": integers(1, 4),
        "dropout": uniform(0.0, 0.5),
    },
    "NBEATS": {**_BASIS, "share_weights": choice(False, True)},
    "NBEATSx": {**_BASIS, "share_weights": choice(False, True)},
    "NHITS": {
        **_BASIS,
        "pooling": choice([2, 2, 1], [1, 1, 1], [2, 2, 2], [4, 4, 4], [8, 4, 1], [16, 8, 1]),
        "downsample": choice([4, 2, 1], [24, 12, 1], [60, 8, 1], [168, 24, 1], [1, 1, 1]),
        "pooling_mode": choice("max", "average"),
    },
    "NLinear": {},
    "PatchTST": {
        "hidden_size": choice(16, 64, 128, 256),
        "heads": choice(4, 8, 16),
        "layers": integers(1, 3),
        "patch_len": choice(8, 16, 24),
        "ff_size": choice(128, 256, 512),
        "dropout": uniform(0.0, 0.3),
    },
    "RLinear": {"dropout": uniform(0.0, 0.5)},
    "RMoK": {
        "taylor_order": integers(3, 5),
        "jacobi_degree": integers(4, 6),
        "wavelet": choice("mexican_hat", "morlet", "dog"),
        "dropout": uniform(0.0, 0.5),
    },
    "RNN": _RECURRENT,
    "SOFTS": {
        "hidden_size": choice(64, 128, 256, 512),
        "core_size": choice(64, 128, 256, 512),
        "layers": integers(1, 3),
        "ff_size": choice(256, 512, 2048),
        "dropout": uniform(0.0, 0.3),
    },
    "StemGNN": {"widening": choice(3, 5, 7), "dropout": uniform(0.0, 0.6)},
    "TCN": {
        "hidden_size": choice(32, 64, 128),
        "kernel_size": choice(2, 3, 5),
        "dilations": choice([1, 2, 4, 8], [1, 2, 4, 8, 16], [1, 2, 4, 8, 16, 32]),
        "decoder_size": choice(32, 64, 128),
    },
    "TFT": {
        "hidden_size": choice(32, 64, 128, 256),
        "heads": choice(4, 8),
        "dropout": uniform(0.0, 0.5),
    },
    "TSMixer": {"blocks": choice(1, 2, 4, 6), "hidden_size": choice(32, 64, 128), "dropout": uniform(0.0, 0.95)},
    "TSMixerx": {"blocks": choice(1, 2, 4, 6), "hidden_size": choice(32, 64, 128), "dropout": uniform(0.0, 0.9)},
    "TiDE": {
        "hidden_size": choice(256, 512, 1024),
        "encoder_layers": integers(1, 3),
        "decoder_layers": integers(1, 3),
        "decoder_size": choice(8, 16, 32),
        "step_size": choice(32, 64, 128),
        "temporal_width": choice(4, 8, 16),
        "dropout": uniform(0.0, 0.5),
        "layer_norm": choice(True, False),
    },
    "TimeLLM": {
        "patch_len": choice(8, 16, 24),
        "hidden_size": choice(16, 32, 64),
        "dropout": uniform(0.0, 0.3),
    },
    "TimeMixer": {
        "hidden_size": choice(16, 32, 64),
        "ff_size": choice(16, 32, 64),
        "layers": integers(2, 4),
        "coarser": integers(1, 2),
        "dropout": uniform(0.0, 0.3),
    },
    "TimeXer": {**_TOKENS, "patch_len": choice(8, 16, 24)},
    "TimesNet": {
        "hidden_size": choice(16, 32, 64),
        "conv_size": choice(32, 64, 128),
        "periods": integers(2, 5),
        "layers": integers(1, 3),
        "dropout": uniform(0.0, 0.3),
    },
    "VanillaTransformer": {**_ENCODER_DECODER, **_HEADS},
    "XLinear": {
        "hidden_size": choice(64, 128, 256),
        "temporal_size": choice(128, 256, 512),
        "channel_size": choice(8, 16, 32),
        "temporal_dropout": uniform(0.0, 0.3),
    },
    "iTransformer": _TOKENS,
    "xLSTM": {
        "hidden_size": choice(32, 64, 128),
        "blocks": integers(1, 3),
        "dropout": uniform(0.0, 0.5),
        "decoder_size": choice(32, 64, 128),
    },
}
"""What each model is searched over, beside its lookback, its scaler, its anchor and its training."""


def default_space(model: Model, config: TrainingConfig | None = None) -> SearchSpace:
    """The default space of a model, made wide enough for the fields that model and training have.

    Every space has the learning rate (from a tenth to ten times that of the recipe), the batch size, the lookback, the
    scaler and the anchor. Then come the model's own fields.
    """
    network = inner(model)
    rate = RATES.get(network.group, 1e-3)
    common: dict[str, Dimension] = {
        "learning_rate": loguniform(rate / 10, rate * 10),
        "batch_size": choice("auto", 32, 64, 128, 256),
        "input_size": choice(*(multiple * network.h for multiple in MULTIPLES)),
        "scaler": choice("identity", "standard", "robust"),
    }
    if _can_be_anchored(network):
        common["anchor"] = choice(None, "last", "auto")
    shared = {name: dimension for name, dimension in SHARED.items() if name in type(network).model_fields}
    own = OWN.get(network.kind, shared)
    return SearchSpace(**common, **own).including(model, config)


def _can_be_anchored(model: Model) -> bool:
    try:
        model.replace(anchor="last")
    except ConfigError:  # it feeds its forecasts back, or does not see the target
        return False
    return True
