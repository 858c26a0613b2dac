"""The training engine: configuration, loop, history, callbacks and checkpoints."""

from neuro_divergent.training.callbacks import (
    Callback,
    CallbackSettings,
    CsvLog,
    CustomCallback,
    GradientNormMonitor,
    JsonLines,
    LearningRateMonitor,
    LossPlot,
    Monitor,
    TensorBoard,
    Timer,
    Visualizer,
)
from neuro_divergent.training.config.checkpoints import FaultTolerance
from neuro_divergent.training.config.curriculum import EasySeriesFirst, GrowingHorizon, TeacherForcing
from neuro_divergent.training.config.training_config import (
    ActivationCheckpointing,
    Checkpoints,
    EarlyStopping,
    Regularization,
    TrainingConfig,
)
from neuro_divergent.training.gradient_tape import GradientTape
from neuro_divergent.training.lr_range import RangeTest, find_learning_rate
from neuro_divergent.training.module_trainer import Trainer
from neuro_divergent.training.state.history import History
from neuro_divergent.training.step.gradients import check_gradients

__all__ = [
    "ActivationCheckpointing",
    "Callback",
    "CallbackSettings",
    "Checkpoints",
    "CsvLog",
    "CustomCallback",
    "EarlyStopping",
    "EasySeriesFirst",
    "FaultTolerance",
    "GradientNormMonitor",
    "GradientTape",
    "GrowingHorizon",
    "History",
    "JsonLines",
    "LearningRateMonitor",
    "LossPlot",
    "Monitor",
    "RangeTest",
    "Regularization",
    "TeacherForcing",
    "TensorBoard",
    "Timer",
    "Trainer",
    "TrainingConfig",
    "Visualizer",
    "check_gradients",
    "find_learning_rate",
]
