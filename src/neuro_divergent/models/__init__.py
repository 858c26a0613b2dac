"""The model zoo: one file per model, its description and its network together."""

from neuro_divergent.models.deepar import DeepAR
from neuro_divergent.models.deepnpts import DeepNPTS
from neuro_divergent.models.dilated_rnn import DilatedRNN
from neuro_divergent.models.dlinear import DLinear
from neuro_divergent.models.gru import GRU
from neuro_divergent.models.kan import KAN
from neuro_divergent.models.lstm import LSTM
from neuro_divergent.models.mlp import MLP
from neuro_divergent.models.mlp_multivariate import MLPMultivariate
from neuro_divergent.models.nbeats import NBEATS
from neuro_divergent.models.nbeatsx import NBEATSx
from neuro_divergent.models.nhits import NHITS
from neuro_divergent.models.nlinear import NLinear
from neuro_divergent.models.rlinear import RLinear
from neuro_divergent.models.rmok import RMoK
from neuro_divergent.models.rnn import RNN
from neuro_divergent.models.tide import TiDE
from neuro_divergent.models.tsmixer import TSMixer
from neuro_divergent.models.tsmixerx import TSMixerx
from neuro_divergent.models.xlinear import XLinear
from neuro_divergent.models.xlstm import xLSTM

__all__ = [
    "GRU",
    "KAN",
    "LSTM",
    "MLP",
    "NBEATS",
    "NHITS",
    "RNN",
    "DLinear",
    "DeepAR",
    "DeepNPTS",
    "DilatedRNN",
    "MLPMultivariate",
    "NBEATSx",
    "NLinear",
    "RLinear",
    "RMoK",
    "TSMixer",
    "TSMixerx",
    "TiDE",
    "XLinear",
    "xLSTM",
]
