"""The models, under the names and with the arguments of neuralforecast."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from neuro_divergent.compat.neuralforecast.adapter import model_class
from neuro_divergent.compat.neuralforecast.hint import HINT
from neuro_divergent.core.errors import UnknownNameError
from neuro_divergent.core.registry import closest

Autoformer = model_class("Autoformer")
BiTCN = model_class("BiTCN")
DLinear = model_class("DLinear")
DeepAR = model_class("DeepAR")
DeepNPTS = model_class("DeepNPTS")
DilatedRNN = model_class("DilatedRNN")
FEDformer = model_class("FEDformer")
GRU = model_class("GRU")
Informer = model_class("Informer")
KAN = model_class("KAN")
LSTM = model_class("LSTM")
MLP = model_class("MLP")
MLPMultivariate = model_class("MLPMultivariate")
NBEATS = model_class("NBEATS")
NBEATSx = model_class("NBEATSx")
NHITS = model_class("NHITS")
NLinear = model_class("NLinear")
PatchTST = model_class("PatchTST")
RMoK = model_class("RMoK")
RNN = model_class("RNN")
SOFTS = model_class("SOFTS")
StemGNN = model_class("StemGNN")
TCN = model_class("TCN")
TFT = model_class("TFT")
TSMixer = model_class("TSMixer")
TSMixerx = model_class("TSMixerx")
TiDE = model_class("TiDE")
TimeLLM = model_class("TimeLLM")
TimeMixer = model_class("TimeMixer")
TimeXer = model_class("TimeXer")
TimesNet = model_class("TimesNet")
VanillaTransformer = model_class("VanillaTransformer")
XLinear = model_class("XLinear")
iTransformer = model_class("iTransformer")  # noqa: N816
xLSTM = model_class("xLSTM")  # noqa: N816

_FILES = {"DilatedRNN": "dilated_rnn"}


def _add_module_paths() -> None:
    """Let `from ...models.mlp import MLP` work: one module per model, as neuralforecast has."""
    for name in __all__:
        module = ModuleType(f"{__name__}.{_FILES.get(name, name.lower())}", f"The module of {name}.")
        module.__dict__[name] = globals()[name]
        sys.modules[module.__name__] = module
        globals()[module.__name__.rpartition(".")[2]] = module


_ELSEWHERE = {
    "SOFTSSharp": "it has no counterpart here; SOFTS is the nearest",
}


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _ELSEWHERE:
        raise UnknownNameError(f"there is no model named {name!r}: {_ELSEWHERE[name]}")
    near = closest(name, __all__)
    hint = f"did you mean {' or '.join(near)}?" if near else f"known are: {', '.join(__all__)}"
    raise UnknownNameError(f"there is no model named {name!r}; {hint}")


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

_add_module_paths()
