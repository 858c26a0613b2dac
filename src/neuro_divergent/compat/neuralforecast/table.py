"""The arguments of every model of neuralforecast 3, with their defaults and their meaning here."""

from __future__ import annotations

from typing import Any

from neuro_divergent.compat.neuralforecast.arguments import Argument, Checked, Entry, Field, Only, Part, Unused
from neuro_divergent.compat.neuralforecast.conversions import (
    activation,
    activation_or,
    decoder_share,
    decoder_sizes,
    groups,
    identity_stacks,
    mixing,
    named,
    numbers,
    patch_anchor,
    patch_scaler,
    scaler_when,
    stacks,
    transformer_activation,
    widths,
)

SHARED: dict[str, Any] = {
    "futr_exog_list": None,
    "hist_exog_list": None,
    "stat_exog_list": None,
    "cat_exog_list": None,
    "categorical_cardinalities": None,
    "cat_emb_dim": "fastai",
    "exclude_insample_y": False,
    "loss": None,
    "valid_loss": None,
    "max_steps": 1000,
    "learning_rate": 1e-3,
    "num_lr_decays": -1,
    "early_stop_patience_steps": -1,
    "val_monitor": "ptl/val_loss",
    "val_check_steps": 100,
    "batch_size": 32,
    "valid_batch_size": None,
    "windows_batch_size": 1024,
    "inference_windows_batch_size": 1024,
    "start_padding_enabled": False,
    "training_data_availability_threshold": 0.0,
    "step_size": 1,
    "scaler_type": "identity",
    "random_seed": 1,
    "drop_last_loader": False,
    "alias": None,
    "optimizer": None,
    "optimizer_kwargs": None,
    "lr_scheduler": None,
    "lr_scheduler_kwargs": None,
    "dataloader_kwargs": None,
}
"""Arguments that every model takes, and their defaults. A loss of None is MAE(); a loss may be given by name."""

_SLOW: dict[str, Any] = {"max_steps": 5000, "learning_rate": 1e-4}
_RECURRENT: dict[str, Any] = {"windows_batch_size": 128, "scaler_type": "robust"}
_TOGETHER: dict[str, Any] = {"windows_batch_size": 32, "inference_windows_batch_size": 32}
_WHOLE: dict[str, Any] = {"inference_windows_batch_size": -1}
_DECAYS: dict[str, Any] = {"num_lr_decays": 3}

_UNROLLED: dict[str, Argument] = {"inference_input_size": Unused(None), "h_train": Unused(1)}
_RNN: dict[str, Argument] = _UNROLLED | {
    "encoder_n_layers": Field("layers", 2),
    "encoder_hidden_size": Field("hidden_size", 128),
    "encoder_bias": Only(True),
    "encoder_dropout": Field("dropout", 0.0),
    "context_size": Unused(None),
    "decoder_hidden_size": Field("decoder_size", 128),
    "decoder_layers": Only(2, reason="The decoder has one hidden layer of width decoder_hidden_size"),
    "decoder_activation": Only(None, ("ReLU",)),
    "recurrent": Field("recursive", False),
}
_DECODER: dict[str, Argument] = {
    "context_size": Unused(10),
    "decoder_hidden_size": Field("decoder_size", 128),
    "decoder_layers": Field("decoder_layers", 2),
}
_MLP: dict[str, Argument] = {"num_layers": Field("layers", 2), "hidden_size": Field("hidden_size", 1024)}
_STACKED: dict[str, Argument] = {
    "n_blocks": Field("blocks", [1, 1, 1], numbers),
    "mlp_units": Field("hidden_sizes", 3 * [[512, 512]], widths),
    "dropout_prob_theta": Field("dropout", 0.0),
    "activation": Field("activation", "ReLU", activation),
}
_BASES: dict[str, Argument] = _STACKED | {
    "stack_types": Field("stacks", ["identity", "trend", "seasonality"], stacks),
    "n_harmonics": Field("harmonics", 2),
    "shared_weights": Field("share_weights", False),
}
_ENCODER_DECODER: dict[str, Argument] = {
    "decoder_input_size_multiplier": Field("context_share", 0.5, decoder_share),
    "hidden_size": Field("hidden_size", 128),
    "dropout": Field("dropout", 0.05),
    "conv_hidden_size": Field("ff_size", 32),
    "activation": Field("activation", "gelu", transformer_activation),
    "encoder_layers": Field("encoder_layers", 2),
    "decoder_layers": Field("decoder_layers", 1),
}
_MIXER: dict[str, Argument] = {
    "n_block": Field("blocks", 2),
    "ff_dim": Field("hidden_size", 64),
    "revin": Part(True),
}
_INVERTED: dict[str, Argument] = {
    "hidden_size": Field("hidden_size", 512),
    "e_layers": Field("layers", 2),
    "d_ff": Field("ff_size", 2048),
    "dropout": Field("dropout", 0.1),
    "use_norm": Part(True),
}
_STANDARD = {"scaler": scaler_when("use_norm", "standard")}
_REVERSIBLE = {"scaler": scaler_when("use_norm", "revin")}
_MIXED = {"scaler": scaler_when("revin", "revin")}

MODELS: dict[str, Entry] = {
    "Autoformer": Entry(
        _ENCODER_DECODER
        | {
            "factor": Field("factor", 3),
            "n_head": Unused(4),
            "MovingAvg_window": Field("moving_average", 25),
        },
        _SLOW,
    ),
    "BiTCN": Entry({"hidden_size": Field("hidden_size", 16), "dropout": Field("dropout", 0.5)}),
    "DeepAR": Entry(
        {
            "h_train": Unused(1),
            "lstm_n_layers": Field("layers", 2),
            "lstm_hidden_size": Field("hidden_size", 128),
            "lstm_dropout": Field("dropout", 0.1),
            "decoder_hidden_layers": Part(0),
            "decoder_hidden_size": Part(0),
            "decoder_activation": Field("activation", None, activation_or("relu")),
            "trajectory_samples": Field("samples", 100),
        },
        _DECAYS | _WHOLE | {"valid_loss": "MAE"},
        combined={"decoder_sizes": decoder_sizes},
        recurrent=True,
    ),
    "DeepNPTS": Entry(
        {
            "hidden_size": Field("hidden_size", 32),
            "batch_norm": Field("batch_norm", True),
            "dropout": Field("dropout", 0.1),
            "n_layers": Field("layers", 2),
        },
        _DECAYS | {"scaler_type": "standard", "valid_loss": "MAE"},
    ),
    "DilatedRNN": Entry(
        _DECODER
        | {
            "inference_input_size": Unused(None),
            "cell_type": Field("cell", "LSTM", activation),
            "dilations": Field("dilations", [[1, 2], [4, 8]], groups),
            "encoder_hidden_size": Field("hidden_size", 128),
            "decoder_activation": Field("activation", None, activation_or("relu")),
        },
        _RECURRENT | _DECAYS,
        recurrent=True,
    ),
    "DLinear": Entry({"moving_avg_window": Field("moving_average", 25)}, _SLOW),
    "FEDformer": Entry(
        _ENCODER_DECODER
        | {
            "version": Only("Fourier"),
            "modes": Field("frequencies", 64),
            "mode_select": Field("choice", "random"),
            "n_head": Field("heads", 8),
            "MovingAvg_window": Field("moving_average", 25),
        },
        _SLOW,
    ),
    "GRU": Entry(
        _RNN | {"encoder_hidden_size": Field("hidden_size", 200), "encoder_activation": Unused(None)},
        _RECURRENT,
        recurrent=True,
    ),
    "Informer": Entry(
        _ENCODER_DECODER | {"factor": Field("factor", 3), "n_head": Field("heads", 4), "distil": Field("distil", True)},
        _SLOW,
    ),
    "iTransformer": Entry(
        _INVERTED | {"n_heads": Field("heads", 8), "d_layers": Unused(1), "factor": Unused(1)},
        _TOGETHER,
        combined=_STANDARD,
        multivariate=True,
    ),
    "KAN": Entry(
        {
            "grid_size": Field("grid_size", 5),
            "spline_order": Field("spline_order", 3),
            "scale_noise": Field("noise", 0.1),
            "scale_base": Unused(1.0),
            "scale_spline": Unused(1.0),
            "enable_standalone_scale_spline": Unused(True),
            "grid_eps": Unused(0.02),
            "grid_range": Field("grid_range", [-1, 1], numbers),
            "n_hidden_layers": Field("layers", 1),
            "hidden_size": Field("hidden_size", 512),
        },
        _WHOLE,
    ),
    "LSTM": Entry(_RNN, _RECURRENT, recurrent=True),
    "MLP": Entry(_MLP, _WHOLE),
    "MLPMultivariate": Entry(_MLP, _TOGETHER, multivariate=True),
    "NBEATS": Entry(
        _BASES
        | {
            "n_basis": Field("degree", 2),
            "n_polynomials": Field("degree", None),
            "basis": Field("trend_basis", "polynomial"),
        },
        _DECAYS | _WHOLE,
    ),
    "NBEATSx": Entry(_BASES | {"n_polynomials": Field("degree", 2)}, _DECAYS | _WHOLE),
    "NHITS": Entry(
        _STACKED
        | {
            "stack_types": Checked(3 * ["identity"], identity_stacks),
            "n_pool_kernel_size": Field("pooling", [2, 2, 1], numbers),
            "n_freq_downsample": Field("downsample", [4, 2, 1], numbers),
            "pooling_mode": Field("pooling_mode", "MaxPool1d", named(MaxPool1d="max", AvgPool1d="average")),
            "interpolation_mode": Field("interpolation", "linear"),
        },
        _DECAYS | _WHOLE,
    ),
    "NLinear": Entry({}, _SLOW),
    "PatchTST": Entry(
        {
            "encoder_layers": Field("layers", 3),
            "n_heads": Field("heads", 16),
            "hidden_size": Field("hidden_size", 128),
            "linear_hidden_size": Field("ff_size", 256),
            "dropout": Field("dropout", 0.2),
            "fc_dropout": Unused(0.2),
            "head_dropout": Field("head_dropout", 0.0),
            "attn_dropout": Field("attention_dropout", 0.0),
            "patch_len": Field("patch_len", 16),
            "stride": Field("stride", 8),
            "revin": Part(True),
            "revin_affine": Part(False),
            "revin_subtract_last": Part(True),
            "activation": Field("activation", "gelu", activation),
            "res_attention": Field("residual_attention", True),
            "batch_normalization": Unused(False),
            "learn_pos_embed": Only(True),
        },
        _SLOW,
        combined={"scaler": patch_scaler, "anchor": patch_anchor},
    ),
    "RMoK": Entry(
        {
            "taylor_order": Field("taylor_order", 3),
            "jacobi_degree": Field("jacobi_degree", 6),
            "wavelet_function": Field("wavelet", "mexican_hat"),
            "dropout": Field("dropout", 0.1),
            "revin_affine": Unused(True),
        },
        _TOGETHER,
        combined={
            "scaler": lambda given: "revin" if given["scaler_type"] in (None, "identity") else given["scaler_type"]
        },
        multivariate=True,
    ),
    "RNN": Entry(_RNN | {"encoder_activation": Field("activation", "tanh", activation)}, _RECURRENT, recurrent=True),
    "SOFTS": Entry(_INVERTED | {"d_core": Field("core_size", 512)}, _TOGETHER, combined=_STANDARD, multivariate=True),
    "StemGNN": Entry(
        {
            "n_stacks": Field("blocks", 2),
            "multi_layer": Field("widening", 5),
            "dropout_rate": Field("dropout", 0.5),
            "leaky_rate": Field("leak", 0.2),
        },
        _TOGETHER | _DECAYS | {"scaler_type": "robust"},
        multivariate=True,
    ),
    "TCN": Entry(
        _DECODER
        | {
            "inference_input_size": Unused(None),
            "kernel_size": Field("kernel_size", 2),
            "dilations": Field("dilations", [1, 2, 4, 8, 16], numbers),
            "encoder_hidden_size": Field("hidden_size", 128),
            "encoder_activation": Field("activation", "ReLU", activation),
            "decoder_activation": Unused(None),
        },
        _RECURRENT,
        recurrent=True,
    ),
    "TFT": Entry(
        {
            "tgt_size": Only(1),
            "hidden_size": Field("hidden_size", 128),
            "n_head": Field("heads", 4),
            "attn_dropout": Field("attention_dropout", 0.0),
            "grn_activation": Only("ELU"),
            "n_rnn_layers": Field("layers", 1),
            "rnn_type": Only("lstm"),
            "one_rnn_initial_state": Only(False),
            "dropout": Field("dropout", 0.1),
        },
        {"scaler_type": "robust"},
    ),
    "TiDE": Entry(
        {
            "hidden_size": Field("hidden_size", 512),
            "decoder_output_dim": Field("decoder_size", 32),
            "temporal_decoder_dim": Field("step_size", 128),
            "dropout": Field("dropout", 0.3),
            "layernorm": Field("layer_norm", True),
            "num_encoder_layers": Field("encoder_layers", 1),
            "num_decoder_layers": Field("decoder_layers", 1),
            "temporal_width": Field("temporal_width", 4),
        }
    ),
    "TimeLLM": Entry(
        {
            "patch_len": Field("patch_len", 16),
            "stride": Field("stride", 8),
            "d_ff": Field("read_size", 128),
            "top_k": Unused(5),
            "d_llm": Unused(768),
            "d_model": Field("hidden_size", 32),
            "n_heads": Field("heads", 8),
            "enc_in": Unused(7),
            "dec_in": Unused(7),
            "llm": Field("llm", None),
            "llm_config": Unused(None),
            "llm_tokenizer": Unused(None),
            "llm_num_hidden_layers": Field("llm_layers", 32),
            "llm_output_attention": Unused(True),
            "llm_output_hidden_states": Unused(True),
            "prompt_prefix": Field("prompt", None),
            "dropout": Field("dropout", 0.1),
        },
        {"max_steps": 5, "learning_rate": 1e-4, "num_lr_decays": 0},
    ),
    "TimeMixer": Entry(
        {
            "d_model": Field("hidden_size", 32),
            "d_ff": Field("ff_size", 32),
            "dropout": Field("dropout", 0.1),
            "e_layers": Field("layers", 4),
            "top_k": Unused(5),
            "decomp_method": Only("moving_avg"),
            "moving_avg": Field("moving_average", 25),
            "channel_independence": Field("channel_mixing", 0, mixing),
            "down_sampling_layers": Field("coarser", 1),
            "down_sampling_window": Field("coarsening", 2),
            "down_sampling_method": Only("avg"),
            "use_norm": Part(True),
            "decoder_input_size_multiplier": Unused(0.5),
        },
        _TOGETHER,
        combined=_REVERSIBLE,
        multivariate=True,
    ),
    "TimesNet": Entry(
        {
            "hidden_size": Field("hidden_size", 64),
            "dropout": Field("dropout", 0.1),
            "conv_hidden_size": Field("conv_size", 64),
            "top_k": Field("periods", 5),
            "num_kernels": Field("kernels", 6),
            "encoder_layers": Field("layers", 2),
        },
        {
            "learning_rate": 1e-4,
            "windows_batch_size": 64,
            "inference_windows_batch_size": 256,
            "scaler_type": "standard",
        },
    ),
    "TimeXer": Entry(
        _INVERTED | {"patch_len": Field("patch_len", 16), "n_heads": Field("heads", 8), "factor": Unused(1)},
        _TOGETHER,
        combined=_STANDARD,
        multivariate=True,
    ),
    "TSMixer": Entry(_MIXER | {"dropout": Field("dropout", 0.9)}, _TOGETHER, combined=_MIXED, multivariate=True),
    "TSMixerx": Entry(_MIXER | {"dropout": Field("dropout", 0.0)}, _TOGETHER, combined=_MIXED, multivariate=True),
    "VanillaTransformer": Entry(_ENCODER_DECODER | {"n_head": Field("heads", 4)}, _SLOW),
    "XLinear": Entry(
        {
            "hidden_size": Field("hidden_size", 128),
            "temporal_ff": Field("temporal_size", 256),
            "channel_ff": Field("channel_size", 8),
            "temporal_dropout": Field("temporal_dropout", 0.0),
            "channel_dropout": Field("channel_dropout", 0.0),
            "embed_dropout": Field("embedding_dropout", 0.0),
            "head_dropout": Field("head_dropout", 0.0),
            "use_norm": Part(True),
        },
        _TOGETHER,
        combined=_REVERSIBLE,
        multivariate=True,
    ),
    "xLSTM": Entry(
        _UNROLLED
        | {
            "encoder_n_blocks": Field("blocks", 2),
            "encoder_hidden_size": Field("hidden_size", 128),
            "encoder_bias": Field("bias", True),
            "encoder_dropout": Field("dropout", 0.1),
            "decoder_hidden_size": Field("decoder_size", 128),
            "decoder_layers": Field("decoder_layers", 2),
            "decoder_dropout": Field("decoder_dropout", 0.0),
            "decoder_activation": Field("activation", None, activation_or("gelu")),
            "backbone": Only("mLSTM"),
            "recurrent": Only(False),
        },
        _RECURRENT,
        recurrent=True,
    ),
}
"""Every model that has a counterpart here."""
