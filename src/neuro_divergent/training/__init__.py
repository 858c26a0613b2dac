"""The training engine: configuration, loop, history, callbacks."""

from neuro_divergent.training.callbacks import (
    Callback,
    CallbackSettings,
    CsvLog,
    GradientNormMonitor,
    JsonLines,
    LearningRateMonitor,
    LossPlot,
    TensorBoard,
    Timer,
)
from neuro_divergent.training.checkpointing import FaultTolerance
from neuro_divergent.training.config import (
    ActivationCheckpointing,
    Checkpoints,
    EarlyStopping,
    Regularization,
    TrainingConfig,
)
from neuro_divergent.training.curriculum import EasySeriesFirst, GrowingHorizon, TeacherForcing
from neuro_divergent.training.gradients import check_gradients
from neuro_divergent.training.history import History
from neuro_divergent.training.lr_range import RangeTest, find_learning_rate
from neuro_divergent.training.tape import GradientTape
from neuro_divergent.training.trainer import Trainer

__all__ = [
    "ActivationCheckpointing",
    "Callback",
    "CallbackSettings",
    "Checkpoints",
    "CsvLog",
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
    "RangeTest",
    "Regularization",
    "TeacherForcing",
    "TensorBoard",
    "Timer",
    "Trainer",
    "TrainingConfig",
    "check_gradients",
    "find_learning_rate",
]
