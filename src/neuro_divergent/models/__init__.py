"""The models: one file per model, with its description and its network.

Each name is imported from its file on first use. core/kinds.py lists the files.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.kinds import KINDS

if TYPE_CHECKING:
    from neuro_divergent.models.autoformer import Autoformer
    from neuro_divergent.models.bitcn import BiTCN
    from neuro_divergent.models.deepar import DeepAR
    from neuro_divergent.models.deepnpts import DeepNPTS
    from neuro_divergent.models.dilated_rnn import DilatedRNN
    from neuro_divergent.models.dlinear import DLinear
    from neuro_divergent.models.fedformer import FEDformer
    from neuro_divergent.models.gru import GRU
    from neuro_divergent.models.hint import HINT
    from neuro_divergent.models.informer import Informer
    from neuro_divergent.models.itransformer import iTransformer
    from neuro_divergent.models.kan import KAN
    from neuro_divergent.models.lstm import LSTM
    from neuro_divergent.models.mlp import MLP
    from neuro_divergent.models.mlp_multivariate import MLPMultivariate
    from neuro_divergent.models.nbeats import NBEATS
    from neuro_divergent.models.nbeatsx import NBEATSx
    from neuro_divergent.models.nhits import NHITS
    from neuro_divergent.models.nlinear import NLinear
    from neuro_divergent.models.patchtst import PatchTST
    from neuro_divergent.models.rlinear import RLinear
    from neuro_divergent.models.rmok import RMoK
    from neuro_divergent.models.rnn import RNN
    from neuro_divergent.models.softs import SOFTS
    from neuro_divergent.models.stemgnn import StemGNN
    from neuro_divergent.models.tcn import TCN
    from neuro_divergent.models.tft import TFT
    from neuro_divergent.models.tide import TiDE
    from neuro_divergent.models.timellm import TimeLLM
    from neuro_divergent.models.timemixer import TimeMixer
    from neuro_divergent.models.timesnet import TimesNet
    from neuro_divergent.models.timexer import TimeXer
    from neuro_divergent.models.tsmixer import TSMixer
    from neuro_divergent.models.tsmixerx import TSMixerx
    from neuro_divergent.models.vanilla_transformer import VanillaTransformer
    from neuro_divergent.models.xlinear import XLinear
    from neuro_divergent.models.xlstm import xLSTM

__all__ = [
    "GRU",
    "HINT",
    "KAN",
    "LSTM",
    "MLP",
    "NBEATS",
    "NHITS",
    "RNN",
    "SOFTS",
    "TCN",
    "TFT",
    "Autoformer",
    "BiTCN",
    "DLinear",
    "DeepAR",
    "DeepNPTS",
    "DilatedRNN",
    "FEDformer",
    "Informer",
    "MLPMultivariate",
    "NBEATSx",
    "NLinear",
    "PatchTST",
    "RLinear",
    "RMoK",
    "StemGNN",
    "TSMixer",
    "TSMixerx",
    "TiDE",
    "TimeLLM",
    "TimeMixer",
    "TimeXer",
    "TimesNet",
    "VanillaTransformer",
    "XLinear",
    "iTransformer",
    "xLSTM",
]


def __getattr__(name: str) -> Any:
    home = KINDS["model"].get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    value = getattr(importlib.import_module(f"neuro_divergent.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
