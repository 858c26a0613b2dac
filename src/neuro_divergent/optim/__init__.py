"""Optimizers, parameter groups, schedules, clipping, noise and averaging."""

from neuro_divergent.optim.annealing import CosineAnnealing, CosineWarmRestarts, OneCycle, WarmupCosine, WarmupLinear
from neuro_divergent.optim.averaging import EMA, SWA, Averager, Averaging
from neuro_divergent.optim.clipping import (
    AdaptiveClip,
    AnyClipping,
    ClipBoth,
    ClipByNorm,
    ClipByValue,
    Clipping,
    gradient_norm,
)
from neuro_divergent.optim.composed import AnySchedule, CustomSchedule, Joined
from neuro_divergent.optim.freezing import freeze, unfreeze
from neuro_divergent.optim.groups import ParameterGroup
from neuro_divergent.optim.library_optimizers import LAMB, AdaBound, Lion, Lookahead, ScheduleFreeAdamW
from neuro_divergent.optim.noise import GradientNoise
from neuro_divergent.optim.optimizers import (
    SGD,
    Adafactor,
    Adagrad,
    Adam,
    AdamW,
    NAdam,
    Optimizer,
    RAdam,
    RMSprop,
    forget_gradients,
    set_rate,
)
from neuro_divergent.optim.plateau import ReduceOnPlateau
from neuro_divergent.optim.schedules import (
    Constant,
    ExponentialDecay,
    LinearDecay,
    MultiStepDecay,
    PlateauState,
    PolynomialDecay,
    Schedule,
    ScheduleContext,
    StepDecay,
)
from neuro_divergent.optim.several import Muon, Optimizers, set_own_rates
from neuro_divergent.optim.state import load_state, state_tensors
from neuro_divergent.optim.torch_optimizer import TorchOptimizer
from neuro_divergent.optim.train_eval_weights import in_eval, to_eval, to_train

__all__ = [
    "EMA",
    "LAMB",
    "SGD",
    "SWA",
    "AdaBound",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "AdaptiveClip",
    "AnyClipping",
    "AnySchedule",
    "Averager",
    "Averaging",
    "ClipBoth",
    "ClipByNorm",
    "ClipByValue",
    "Clipping",
    "Constant",
    "CosineAnnealing",
    "CosineWarmRestarts",
    "CustomSchedule",
    "ExponentialDecay",
    "GradientNoise",
    "Joined",
    "LinearDecay",
    "Lion",
    "Lookahead",
    "MultiStepDecay",
    "Muon",
    "NAdam",
    "OneCycle",
    "Optimizer",
    "Optimizers",
    "ParameterGroup",
    "PlateauState",
    "PolynomialDecay",
    "RAdam",
    "RMSprop",
    "ReduceOnPlateau",
    "Schedule",
    "ScheduleContext",
    "ScheduleFreeAdamW",
    "StepDecay",
    "TorchOptimizer",
    "WarmupCosine",
    "WarmupLinear",
    "forget_gradients",
    "freeze",
    "gradient_norm",
    "in_eval",
    "load_state",
    "set_own_rates",
    "set_rate",
    "state_tensors",
    "to_eval",
    "to_train",
    "unfreeze",
]
