"""The default search spaces of the `Auto*` classes: one table."""

from __future__ import annotations

from typing import Any

from neuro_divergent.compat.ray.tune import choice, loguniform, quniform, randint, uniform

_DEPTHS = [1, 2, 3, 4, 5]
_SHORT = choice([500, 1000])
_LONG = choice([500, 1000, 2000])
_ANY = quniform(500, 1500, 100)
_WIDE = choice([256, 512, 1024])
_MIDDLE = choice([64, 128, 256])
_BATCH = choice([32, 64, 128, 256])
_SCALER = choice([None, "robust", "standard"])
_NAMED_SCALER = choice([None, "robust", "standard", "identity"])

_BASE: dict[str, Any] = {
    "h": None,
    "learning_rate": loguniform(1e-4, 1e-1),
    "loss": None,
    "random_seed": randint(1, 20),
}
_WINDOWS: dict[str, Any] = _BASE | {
    "input_size_multiplier": _DEPTHS,
    "scaler_type": _SCALER,
    "batch_size": _BATCH,
    "windows_batch_size": choice([128, 256, 512, 1024]),
}
_TOGETHER: dict[str, Any] = _BASE | {
    "input_size_multiplier": _DEPTHS,
    "n_series": None,
    "scaler_type": _SCALER,
    "batch_size": _BATCH,
}
_UNROLLED: dict[str, Any] = _BASE | {
    "input_size_multiplier": [-1, 4, 16, 64],
    "inference_input_size_multiplier": [-1],
    "context_size": choice([5, 10, 50]),
    "decoder_hidden_size": choice([16, 32, 64, 128]),
    "encoder_hidden_size": choice([16, 32, 64, 128]),
    "max_steps": _SHORT,
    "batch_size": choice([16, 32]),
}
_RNN = _UNROLLED | {"encoder_n_layers": randint(1, 4)}
_ATTENTION = _WINDOWS | {"hidden_size": _MIDDLE, "n_head": choice([4, 8]), "max_steps": _LONG}
_INVERTED = _TOGETHER | {"hidden_size": _MIDDLE, "n_heads": choice([4, 8]), "max_steps": _LONG}
_MIXER = _TOGETHER | {
    "input_size_multiplier": [1, 2, 3, 4],
    "n_block": choice([1, 2, 4, 6, 8]),
    "learning_rate": loguniform(1e-4, 1e-2),
    "ff_dim": choice([32, 64, 128]),
    "scaler_type": choice(["identity", "robust", "standard"]),
    "max_steps": _LONG,
    "dropout": uniform(0.0, 0.99),
}

SPACES: dict[str, dict[str, Any]] = {
    "Autoformer": _ATTENTION,
    "BiTCN": _WINDOWS | {"hidden_size": choice([16, 32]), "dropout": uniform(0.0, 0.99), "max_steps": _LONG},
    "DLinear": _WINDOWS | {"moving_avg_window": choice([11, 25, 51]), "max_steps": _ANY},
    "DeepAR": _WINDOWS
    | {
        "lstm_hidden_size": choice([32, 64, 128, 256]),
        "lstm_n_layers": randint(1, 4),
        "lstm_dropout": uniform(0.0, 0.5),
        "scaler_type": choice(["robust", "minmax1"]),
        "max_steps": _LONG,
    },
    "DeepNPTS": _WINDOWS
    | {
        "hidden_size": choice([16, 32, 64]),
        "dropout": uniform(0.0, 0.99),
        "n_layers": choice([1, 2, 4]),
        "max_steps": _ANY,
    },
    "DilatedRNN": _UNROLLED
    | {"cell_type": choice(["LSTM", "GRU"]), "dilations": choice([[[1, 2], [4, 8]], [[1, 2, 4, 8]]])},
    "FEDformer": {name: value for name, value in _ATTENTION.items() if name != "n_head"},
    "GRU": _RNN,
    "Informer": _ATTENTION,
    "KAN": _WINDOWS
    | {
        "grid_size": choice([5, 10, 15]),
        "spline_order": choice([2, 3, 4]),
        "hidden_size": choice([64, 128, 256, 512]),
        "max_steps": _ANY,
    },
    "LSTM": _RNN,
    "MLP": _WINDOWS | {"hidden_size": _WIDE, "num_layers": randint(2, 6), "max_steps": _SHORT},
    "MLPMultivariate": _TOGETHER | {"hidden_size": _WIDE, "num_layers": randint(2, 6), "max_steps": _SHORT},
    "NBEATS": _WINDOWS | {"max_steps": _SHORT},
    "NBEATSx": _WINDOWS | {"max_steps": _SHORT},
    "NHITS": _WINDOWS
    | {
        "n_pool_kernel_size": choice([[2, 2, 1], [1, 1, 1], [2, 2, 2], [4, 4, 4], [8, 4, 1], [16, 8, 1]]),
        "n_freq_downsample": choice([[168, 24, 1], [24, 12, 1], [180, 60, 1], [60, 8, 1], [40, 20, 1], [1, 1, 1]]),
        "max_steps": _ANY,
    },
    "NLinear": _WINDOWS | {"max_steps": _ANY},
    "PatchTST": _WINDOWS
    | {
        "input_size_multiplier": [1, 2, 3],
        "hidden_size": choice([16, 128, 256]),
        "n_heads": choice([4, 16]),
        "patch_len": choice([16, 24]),
        "revin": choice([False, True]),
        "max_steps": choice([500, 1000, 5000]),
    },
    "RMoK": _TOGETHER
    | {
        "taylor_order": choice([3, 4, 5]),
        "jacobi_degree": choice([4, 5, 6]),
        "wavelet_function": choice(["mexican_hat", "morlet", "dog", "meyer", "shannon"]),
        "scaler_type": _NAMED_SCALER,
        "max_steps": _LONG,
    },
    "RNN": _RNN,
    "SOFTS": _TOGETHER
    | {
        "hidden_size": choice([64, 128, 256, 512]),
        "d_core": choice([64, 128, 256, 512]),
        "scaler_type": _NAMED_SCALER,
        "max_steps": _LONG,
    },
    "StemGNN": _TOGETHER
    | {
        "input_size_multiplier": [1, 2, 3, 4],
        "n_stacks": choice([2]),
        "multi_layer": choice([3, 5, 7]),
        "max_steps": _LONG,
    },
    "TCN": _UNROLLED | {"decoder_hidden_size": choice([32, 64])},
    "TFT": _ATTENTION,
    "TSMixer": _MIXER,
    "TSMixerx": _MIXER,
    "TiDE": _WINDOWS
    | {
        "hidden_size": _WIDE,
        "decoder_output_dim": choice([8, 16, 32]),
        "temporal_decoder_dim": choice([32, 64, 128]),
        "num_encoder_layers": choice([1, 2, 3]),
        "num_decoder_layers": choice([1, 2, 3]),
        "temporal_width": choice([4, 8, 16]),
        "dropout": choice([0.0, 0.1, 0.2, 0.3, 0.5]),
        "layernorm": choice([True, False]),
        "learning_rate": loguniform(1e-5, 1e-2),
        "max_steps": _ANY,
    },
    "TimeMixer": _TOGETHER
    | {
        "d_model": choice([16, 32, 64]),
        "d_ff": choice([16, 32, 64]),
        "down_sampling_layers": choice([1, 2]),
        "scaler_type": _NAMED_SCALER,
        "max_steps": _LONG,
    },
    "TimeXer": _INVERTED | {"hidden_size": choice([128, 256, 512])},
    "TimesNet": _WINDOWS
    | {
        "hidden_size": choice([32, 64, 128]),
        "conv_hidden_size": choice([32, 64, 128]),
        "scaler_type": choice(["robust", "standard"]),
        "batch_size": choice([32, 64, 128]),
        "windows_batch_size": choice([32, 64, 128, 256]),
        "max_steps": _LONG,
    },
    "VanillaTransformer": _ATTENTION,
    "XLinear": _TOGETHER | {"hidden_size": _MIDDLE, "use_norm": choice([True, False]), "max_steps": _SHORT},
    "iTransformer": _INVERTED,
    "xLSTM": _WINDOWS
    | {
        "encoder_hidden_size": choice([16, 32, 64, 128]),
        "encoder_n_blocks": randint(1, 4),
        "encoder_dropout": uniform(0.0, 0.99),
        "decoder_hidden_size": choice([16, 32, 64, 128]),
        "max_steps": _LONG,
    },
}
"""By model: the arguments that are searched, and those that come from the call (None). An input size is a multiple of
the horizon."""


def default_config(model: str, h: int) -> dict[str, Any]:
    """The default search space of a model for a horizon."""
    config = with_sizes(SPACES[model], h)
    if "inference_input_size" not in config:
        config["step_size"] = choice([1, h])
    return config


def with_sizes(config: dict[str, Any], h: int) -> dict[str, Any]:
    """The configuration with sizes instead of multiples of the horizon."""
    config = dict(config)
    for name in ("input_size", "inference_input_size"):
        multiples = config.pop(f"{name}_multiplier", None)
        if multiples is not None and name not in config:
            several = isinstance(multiples, list | tuple)
            config[name] = choice([h * one for one in multiples]) if several else h * multiples
    return config
