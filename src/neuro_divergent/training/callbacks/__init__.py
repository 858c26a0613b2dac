"""Callbacks: the base with its hooks, and the built-in ones."""

from neuro_divergent.training.callbacks.base import HOOKS, Callback, CallbackList, CallbackSettings
from neuro_divergent.training.callbacks.functions import CustomCallback
from neuro_divergent.training.callbacks.monitors import GradientNormMonitor, LearningRateMonitor, Timer
from neuro_divergent.training.callbacks.pictures import Monitor, Visualizer
from neuro_divergent.training.callbacks.progress import ProgressLine
from neuro_divergent.training.callbacks.tensorboard import TensorBoard
from neuro_divergent.training.callbacks.writers import CsvLog, JsonLines, LossPlot

__all__ = [
    "HOOKS",
    "Callback",
    "CallbackList",
    "CallbackSettings",
    "CsvLog",
    "CustomCallback",
    "GradientNormMonitor",
    "JsonLines",
    "LearningRateMonitor",
    "LossPlot",
    "Monitor",
    "ProgressLine",
    "TensorBoard",
    "Timer",
    "Visualizer",
]
