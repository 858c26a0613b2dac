"""Neuro-Divergent trains neural networks that forecast time series.

    import neuro_divergent as nd

    data = nd.TimeSeriesDataFrame.from_csv("sales.csv", freq="1d")
    fitted = nd.NHITS(h=28, input_size=112).fit(data)
    forecast = fitted.predict()

Everything public is a name of this module. Each is imported when it is first used, so that importing the package
costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from neuro_divergent._version import __version__

if TYPE_CHECKING:
    from neuro_divergent import metrics as metrics
    from neuro_divergent import search as search
    from neuro_divergent.core.batch import Batch as Batch
    from neuro_divergent.core.batch import InputSpec as InputSpec
    from neuro_divergent.core.config import Description as Description
    from neuro_divergent.core.errors import CallbackError as CallbackError
    from neuro_divergent.core.errors import ConfigError as ConfigError
    from neuro_divergent.core.errors import CorruptFileError as CorruptFileError
    from neuro_divergent.core.errors import DataError as DataError
    from neuro_divergent.core.errors import DataFileError as DataFileError
    from neuro_divergent.core.errors import DeviceError as DeviceError
    from neuro_divergent.core.errors import DistributedError as DistributedError
    from neuro_divergent.core.errors import MembersFailedError as MembersFailedError
    from neuro_divergent.core.errors import MissingExtraError as MissingExtraError
    from neuro_divergent.core.errors import NeuroDivergentError as NeuroDivergentError
    from neuro_divergent.core.errors import NoCheckpointError as NoCheckpointError
    from neuro_divergent.core.errors import NonFiniteError as NonFiniteError
    from neuro_divergent.core.errors import NotFittedError as NotFittedError
    from neuro_divergent.core.errors import RegistryError as RegistryError
    from neuro_divergent.core.errors import StorageError as StorageError
    from neuro_divergent.core.errors import TrainingError as TrainingError
    from neuro_divergent.core.errors import UnknownNameError as UnknownNameError
    from neuro_divergent.core.executors.ray_executor import RayExecutor as RayExecutor
    from neuro_divergent.core.runs.read import read_run as read_run
    from neuro_divergent.core.runs.record import RunRecord as RunRecord
    from neuro_divergent.core.space.dimensions import choice as choice
    from neuro_divergent.core.space.dimensions import integers as integers
    from neuro_divergent.core.space.dimensions import loguniform as loguniform
    from neuro_divergent.core.space.dimensions import uniform as uniform
    from neuro_divergent.dashboard.dashboard import Dashboard as Dashboard
    from neuro_divergent.data import samples as samples
    from neuro_divergent.data.hierarchy.aggregate import Aggregated as Aggregated
    from neuro_divergent.data.hierarchy.aggregate import aggregate as aggregate
    from neuro_divergent.data.hierarchy.hierarchy import Hierarchy as Hierarchy
    from neuro_divergent.data.scaling.per_series import SeriesScaler as SeriesScaler
    from neuro_divergent.data.scaling.per_window import WindowScaler as WindowScaler
    from neuro_divergent.data.schema.file_format import FileFormat as FileFormat
    from neuro_divergent.data.schema.load_report import DataReport as DataReport
    from neuro_divergent.data.schema.schema import DataSchema as DataSchema
    from neuro_divergent.data.store.store import SeriesStore as SeriesStore
    from neuro_divergent.data.table import TimeSeriesDataFrame as TimeSeriesDataFrame
    from neuro_divergent.data.windows.augmentation import Augmentation as Augmentation
    from neuro_divergent.data.windows.augmentation import Compose as Compose
    from neuro_divergent.data.windows.augmentation import Jitter as Jitter
    from neuro_divergent.data.windows.augmentation import MagnitudeWarp as MagnitudeWarp
    from neuro_divergent.data.windows.augmentation import Masking as Masking
    from neuro_divergent.data.windows.augmentation import Mixup as Mixup
    from neuro_divergent.data.windows.augmentation import Scaling as Scaling
    from neuro_divergent.data.windows.augmentation import WindowSlice as WindowSlice
    from neuro_divergent.data.windows.augmentation import WindowWarp as WindowWarp
    from neuro_divergent.data.windows.loader import DataLoader as DataLoader
    from neuro_divergent.data.windows.windows import Windows as Windows
    from neuro_divergent.diagnostics.architecture import Architecture as Architecture
    from neuro_divergent.diagnostics.architecture import architecture as architecture
    from neuro_divergent.diagnostics.doctor.callback import Doctor as Doctor
    from neuro_divergent.diagnostics.doctor.catalogue import Check as Check
    from neuro_divergent.diagnostics.doctor.diagnose import diagnose as diagnose
    from neuro_divergent.diagnostics.doctor.evidence import Evidence as Evidence
    from neuro_divergent.diagnostics.doctor.treat import treat as treat
    from neuro_divergent.diagnostics.doctor.verdict import Diagnosis as Diagnosis
    from neuro_divergent.diagnostics.doctor.verdict import Verdict as Verdict
    from neuro_divergent.diagnostics.first_nonfinite import FirstNonfinite as FirstNonfinite
    from neuro_divergent.diagnostics.gradient_report import GradientReport as GradientReport
    from neuro_divergent.diagnostics.gradient_report import gradient_report as gradient_report
    from neuro_divergent.diagnostics.gradients import GradientAnalyzer as GradientAnalyzer
    from neuro_divergent.diagnostics.learning_curve_result import LearningCurveResult as LearningCurveResult
    from neuro_divergent.diagnostics.learning_curves import LearningCurves as LearningCurves
    from neuro_divergent.diagnostics.weights import WeightAnalyzer as WeightAnalyzer
    from neuro_divergent.diagnostics.weights import WeightReport as WeightReport
    from neuro_divergent.distributed.cluster import Cluster as Cluster
    from neuro_divergent.distributed.cluster import Node as Node
    from neuro_divergent.distributed.group import main_process as main_process
    from neuro_divergent.distributed.settings import Distributed as Distributed
    from neuro_divergent.export.export import Exported as Exported
    from neuro_divergent.forecasting.evaluate.backtest import Backtest as Backtest
    from neuro_divergent.forecasting.evaluate.backtest import backtest as backtest
    from neuro_divergent.forecasting.evaluate.cross_validation import CrossValidation as CrossValidation
    from neuro_divergent.forecasting.evaluate.cross_validation import cross_validation as cross_validation
    from neuro_divergent.forecasting.evaluate.errors import ForecastErrors as ForecastErrors
    from neuro_divergent.forecasting.evaluate.folds import TimeSeriesSplit as TimeSeriesSplit
    from neuro_divergent.forecasting.evaluate.leaderboard import Leaderboard as Leaderboard
    from neuro_divergent.forecasting.evaluate.scores import Evaluation as Evaluation
    from neuro_divergent.forecasting.fit.continue_training import resume_training as resume_training
    from neuro_divergent.forecasting.fit.distillation import distill as distill
    from neuro_divergent.forecasting.fit.fit_many import fit_many as fit_many
    from neuro_divergent.forecasting.fit.shown.snapshots import ForecastSnapshots as ForecastSnapshots
    from neuro_divergent.forecasting.model.model import Capabilities as Capabilities
    from neuro_divergent.forecasting.model.model import Model as Model
    from neuro_divergent.forecasting.predict.conformal import PredictionIntervals as PredictionIntervals
    from neuro_divergent.forecasting.predict.explain import Explanation as Explanation
    from neuro_divergent.forecasting.predict.forecaster import Forecaster as Forecaster
    from neuro_divergent.forecasting.predict.predictor import Predictor as Predictor
    from neuro_divergent.forecasting.several.ensemble import Ensemble as Ensemble
    from neuro_divergent.forecasting.several.ensemble import ensemble as ensemble
    from neuro_divergent.forecasting.several.ensemble import seed_ensemble as seed_ensemble
    from neuro_divergent.forecasting.several.neural_forecast import NeuralForecast as NeuralForecast
    from neuro_divergent.forecasting.several.neural_forecast import train_from_csv as train_from_csv
    from neuro_divergent.forecasting.several.neural_forecast import train_from_parquet as train_from_parquet
    from neuro_divergent.forecasting.several.predictors import Predictors as Predictors
    from neuro_divergent.forecasting.storage.save_load import load as load
    from neuro_divergent.losses import CRPS as CRPS
    from neuro_divergent.losses import GMM as GMM
    from neuro_divergent.losses import MAE as MAE
    from neuro_divergent.losses import MAPE as MAPE
    from neuro_divergent.losses import MASE as MASE
    from neuro_divergent.losses import MSE as MSE
    from neuro_divergent.losses import NBMM as NBMM
    from neuro_divergent.losses import PMM as PMM
    from neuro_divergent.losses import RMSE as RMSE
    from neuro_divergent.losses import SMAPE as SMAPE
    from neuro_divergent.losses import BinaryCrossEntropy as BinaryCrossEntropy
    from neuro_divergent.losses import CrossEntropy as CrossEntropy
    from neuro_divergent.losses import CustomLoss as CustomLoss
    from neuro_divergent.losses import DistributionLoss as DistributionLoss
    from neuro_divergent.losses import FreDF as FreDF
    from neuro_divergent.losses import Huber as Huber
    from neuro_divergent.losses import HuberImplicitQuantile as HuberImplicitQuantile
    from neuro_divergent.losses import HuberMQLoss as HuberMQLoss
    from neuro_divergent.losses import HuberQuantile as HuberQuantile
    from neuro_divergent.losses import ImplicitQuantile as ImplicitQuantile
    from neuro_divergent.losses import LogCosh as LogCosh
    from neuro_divergent.losses import Loss as Loss
    from neuro_divergent.losses import MQLoss as MQLoss
    from neuro_divergent.losses import NegativeBinomialMixture as NegativeBinomialMixture
    from neuro_divergent.losses import NormalMixture as NormalMixture
    from neuro_divergent.losses import PoissonMixture as PoissonMixture
    from neuro_divergent.losses import Quantile as Quantile
    from neuro_divergent.losses import RelativeMSE as RelativeMSE
    from neuro_divergent.losses import Tukey as Tukey
    from neuro_divergent.losses import Weighted as Weighted
    from neuro_divergent.models import GRU as GRU
    from neuro_divergent.models import HINT as HINT
    from neuro_divergent.models import KAN as KAN
    from neuro_divergent.models import LSTM as LSTM
    from neuro_divergent.models import MLP as MLP
    from neuro_divergent.models import NBEATS as NBEATS
    from neuro_divergent.models import NHITS as NHITS
    from neuro_divergent.models import RNN as RNN
    from neuro_divergent.models import SOFTS as SOFTS
    from neuro_divergent.models import TCN as TCN
    from neuro_divergent.models import TFT as TFT
    from neuro_divergent.models import Autoformer as Autoformer
    from neuro_divergent.models import BiTCN as BiTCN
    from neuro_divergent.models import DeepAR as DeepAR
    from neuro_divergent.models import DeepNPTS as DeepNPTS
    from neuro_divergent.models import DilatedRNN as DilatedRNN
    from neuro_divergent.models import DLinear as DLinear
    from neuro_divergent.models import FEDformer as FEDformer
    from neuro_divergent.models import Informer as Informer
    from neuro_divergent.models import MLPMultivariate as MLPMultivariate
    from neuro_divergent.models import NBEATSx as NBEATSx
    from neuro_divergent.models import NLinear as NLinear
    from neuro_divergent.models import PatchTST as PatchTST
    from neuro_divergent.models import RLinear as RLinear
    from neuro_divergent.models import RMoK as RMoK
    from neuro_divergent.models import StemGNN as StemGNN
    from neuro_divergent.models import TiDE as TiDE
    from neuro_divergent.models import TimeLLM as TimeLLM
    from neuro_divergent.models import TimeMixer as TimeMixer
    from neuro_divergent.models import TimesNet as TimesNet
    from neuro_divergent.models import TimeXer as TimeXer
    from neuro_divergent.models import TSMixer as TSMixer
    from neuro_divergent.models import TSMixerx as TSMixerx
    from neuro_divergent.models import VanillaTransformer as VanillaTransformer
    from neuro_divergent.models import XLinear as XLinear
    from neuro_divergent.models import iTransformer as iTransformer
    from neuro_divergent.models import xLSTM as xLSTM
    from neuro_divergent.optim import EMA as EMA
    from neuro_divergent.optim import LAMB as LAMB
    from neuro_divergent.optim import SGD as SGD
    from neuro_divergent.optim import SWA as SWA
    from neuro_divergent.optim import AdaBound as AdaBound
    from neuro_divergent.optim import Adafactor as Adafactor
    from neuro_divergent.optim import Adagrad as Adagrad
    from neuro_divergent.optim import Adam as Adam
    from neuro_divergent.optim import AdamW as AdamW
    from neuro_divergent.optim import AdaptiveClip as AdaptiveClip
    from neuro_divergent.optim import Averaging as Averaging
    from neuro_divergent.optim import ClipBoth as ClipBoth
    from neuro_divergent.optim import ClipByNorm as ClipByNorm
    from neuro_divergent.optim import ClipByValue as ClipByValue
    from neuro_divergent.optim import Clipping as Clipping
    from neuro_divergent.optim import Constant as Constant
    from neuro_divergent.optim import CosineAnnealing as CosineAnnealing
    from neuro_divergent.optim import CosineWarmRestarts as CosineWarmRestarts
    from neuro_divergent.optim import CustomSchedule as CustomSchedule
    from neuro_divergent.optim import ExponentialDecay as ExponentialDecay
    from neuro_divergent.optim import GradientNoise as GradientNoise
    from neuro_divergent.optim import Joined as Joined
    from neuro_divergent.optim import LinearDecay as LinearDecay
    from neuro_divergent.optim import Lion as Lion
    from neuro_divergent.optim import Lookahead as Lookahead
    from neuro_divergent.optim import MultiStepDecay as MultiStepDecay
    from neuro_divergent.optim import Muon as Muon
    from neuro_divergent.optim import NAdam as NAdam
    from neuro_divergent.optim import OneCycle as OneCycle
    from neuro_divergent.optim import Optimizer as Optimizer
    from neuro_divergent.optim import Optimizers as Optimizers
    from neuro_divergent.optim import ParameterGroup as ParameterGroup
    from neuro_divergent.optim import PolynomialDecay as PolynomialDecay
    from neuro_divergent.optim import RAdam as RAdam
    from neuro_divergent.optim import ReduceOnPlateau as ReduceOnPlateau
    from neuro_divergent.optim import RMSprop as RMSprop
    from neuro_divergent.optim import Schedule as Schedule
    from neuro_divergent.optim import ScheduleFreeAdamW as ScheduleFreeAdamW
    from neuro_divergent.optim import StepDecay as StepDecay
    from neuro_divergent.optim import TorchOptimizer as TorchOptimizer
    from neuro_divergent.optim import WarmupCosine as WarmupCosine
    from neuro_divergent.optim import WarmupLinear as WarmupLinear
    from neuro_divergent.search.auto.auto_forecaster import AutoForecaster as AutoForecaster
    from neuro_divergent.search.auto.board import AutoLeaderboard as AutoLeaderboard
    from neuro_divergent.search.auto.result import AutoResult as AutoResult
    from neuro_divergent.search.result import SearchResult as SearchResult
    from neuro_divergent.search.searches import BayesianOptimization as BayesianOptimization
    from neuro_divergent.search.searches import GridSearch as GridSearch
    from neuro_divergent.search.searches import MultiObjectiveSearch as MultiObjectiveSearch
    from neuro_divergent.search.searches import RandomSearch as RandomSearch
    from neuro_divergent.search.searches import TPESearch as TPESearch
    from neuro_divergent.search.space import SearchSpace as SearchSpace
    from neuro_divergent.training import ActivationCheckpointing as ActivationCheckpointing
    from neuro_divergent.training import Callback as Callback
    from neuro_divergent.training import CallbackSettings as CallbackSettings
    from neuro_divergent.training import Checkpoints as Checkpoints
    from neuro_divergent.training import CsvLog as CsvLog
    from neuro_divergent.training import CustomCallback as CustomCallback
    from neuro_divergent.training import EarlyStopping as EarlyStopping
    from neuro_divergent.training import EasySeriesFirst as EasySeriesFirst
    from neuro_divergent.training import GradientNormMonitor as GradientNormMonitor
    from neuro_divergent.training import GradientTape as GradientTape
    from neuro_divergent.training import GrowingHorizon as GrowingHorizon
    from neuro_divergent.training import History as History
    from neuro_divergent.training import JsonLines as JsonLines
    from neuro_divergent.training import LearningRateMonitor as LearningRateMonitor
    from neuro_divergent.training import LossPlot as LossPlot
    from neuro_divergent.training import Monitor as Monitor
    from neuro_divergent.training import RangeTest as RangeTest
    from neuro_divergent.training import Regularization as Regularization
    from neuro_divergent.training import TeacherForcing as TeacherForcing
    from neuro_divergent.training import TensorBoard as TensorBoard
    from neuro_divergent.training import Timer as Timer
    from neuro_divergent.training import Trainer as Trainer
    from neuro_divergent.training import TrainingConfig as TrainingConfig
    from neuro_divergent.training import Visualizer as Visualizer
    from neuro_divergent.training import check_gradients as check_gradients
    from neuro_divergent.training import find_learning_rate as find_learning_rate
    from neuro_divergent.training.compute_gradients import compute_gradients as compute_gradients
    from neuro_divergent.training.config.checkpoints import FaultTolerance as FaultTolerance
    from neuro_divergent.training.config.strategy import StrategySettings as StrategySettings
    from neuro_divergent.training.state.task import Source as Source

_HOMES = {
    "ActivationCheckpointing": "training",
    "AdaBound": "optim",
    "Adafactor": "optim",
    "Adagrad": "optim",
    "Adam": "optim",
    "AdamW": "optim",
    "AdaptiveClip": "optim",
    "Aggregated": "data.hierarchy.aggregate",
    "Architecture": "diagnostics.architecture",
    "Augmentation": "data.windows.augmentation",
    "AutoForecaster": "search.auto.auto_forecaster",
    "AutoLeaderboard": "search.auto.board",
    "AutoResult": "search.auto.result",
    "Autoformer": "models",
    "Averaging": "optim",
    "Backtest": "forecasting.evaluate.backtest",
    "Batch": "core.batch",
    "BayesianOptimization": "search.searches",
    "BiTCN": "models",
    "BinaryCrossEntropy": "losses",
    "CRPS": "losses",
    "Callback": "training",
    "CallbackError": "core.errors",
    "CallbackSettings": "training",
    "Capabilities": "forecasting.model.model",
    "Check": "diagnostics.doctor.catalogue",
    "Checkpoints": "training",
    "ClipBoth": "optim",
    "ClipByNorm": "optim",
    "ClipByValue": "optim",
    "Clipping": "optim",
    "Cluster": "distributed.cluster",
    "Compose": "data.windows.augmentation",
    "ConfigError": "core.errors",
    "Constant": "optim",
    "CorruptFileError": "core.errors",
    "CosineAnnealing": "optim",
    "CosineWarmRestarts": "optim",
    "CrossEntropy": "losses",
    "CrossValidation": "forecasting.evaluate.cross_validation",
    "CsvLog": "training",
    "CustomCallback": "training",
    "CustomLoss": "losses",
    "CustomSchedule": "optim",
    "DLinear": "models",
    "Dashboard": "dashboard.dashboard",
    "DataError": "core.errors",
    "DataFileError": "core.errors",
    "DataLoader": "data.windows.loader",
    "DataReport": "data.schema.load_report",
    "DataSchema": "data.schema.schema",
    "DeepAR": "models",
    "DeepNPTS": "models",
    "Description": "core.config",
    "DeviceError": "core.errors",
    "Diagnosis": "diagnostics.doctor.verdict",
    "DilatedRNN": "models",
    "Distributed": "distributed.settings",
    "DistributedError": "core.errors",
    "DistributionLoss": "losses",
    "Doctor": "diagnostics.doctor.callback",
    "EMA": "optim",
    "EarlyStopping": "training",
    "EasySeriesFirst": "training",
    "Ensemble": "forecasting.several.ensemble",
    "Evaluation": "forecasting.evaluate.scores",
    "Evidence": "diagnostics.doctor.evidence",
    "Explanation": "forecasting.predict.explain",
    "ExponentialDecay": "optim",
    "Exported": "export.export",
    "FEDformer": "models",
    "FaultTolerance": "training.config.checkpoints",
    "FileFormat": "data.schema.file_format",
    "FirstNonfinite": "diagnostics.first_nonfinite",
    "ForecastErrors": "forecasting.evaluate.errors",
    "ForecastSnapshots": "forecasting.fit.shown.snapshots",
    "Forecaster": "forecasting.predict.forecaster",
    "FreDF": "losses",
    "GMM": "losses",
    "GRU": "models",
    "GradientAnalyzer": "diagnostics.gradients",
    "GradientNoise": "optim",
    "GradientNormMonitor": "training",
    "GradientReport": "diagnostics.gradient_report",
    "GradientTape": "training",
    "GridSearch": "search.searches",
    "GrowingHorizon": "training",
    "HINT": "models",
    "Hierarchy": "data.hierarchy.hierarchy",
    "History": "training",
    "Huber": "losses",
    "HuberImplicitQuantile": "losses",
    "HuberMQLoss": "losses",
    "HuberQuantile": "losses",
    "ImplicitQuantile": "losses",
    "Informer": "models",
    "InputSpec": "core.batch",
    "Jitter": "data.windows.augmentation",
    "Joined": "optim",
    "JsonLines": "training",
    "KAN": "models",
    "LAMB": "optim",
    "LSTM": "models",
    "Leaderboard": "forecasting.evaluate.leaderboard",
    "LearningCurveResult": "diagnostics.learning_curve_result",
    "LearningCurves": "diagnostics.learning_curves",
    "LearningRateMonitor": "training",
    "LinearDecay": "optim",
    "Lion": "optim",
    "LogCosh": "losses",
    "Lookahead": "optim",
    "Loss": "losses",
    "LossPlot": "training",
    "MAE": "losses",
    "MAPE": "losses",
    "MASE": "losses",
    "MLP": "models",
    "MLPMultivariate": "models",
    "MQLoss": "losses",
    "MSE": "losses",
    "MagnitudeWarp": "data.windows.augmentation",
    "Masking": "data.windows.augmentation",
    "MembersFailedError": "core.errors",
    "MissingExtraError": "core.errors",
    "Mixup": "data.windows.augmentation",
    "Model": "forecasting.model.model",
    "Monitor": "training",
    "MultiObjectiveSearch": "search.searches",
    "MultiStepDecay": "optim",
    "Muon": "optim",
    "NAdam": "optim",
    "NBEATS": "models",
    "NBEATSx": "models",
    "NBMM": "losses",
    "NHITS": "models",
    "NLinear": "models",
    "NegativeBinomialMixture": "losses",
    "NeuralForecast": "forecasting.several.neural_forecast",
    "NeuroDivergentError": "core.errors",
    "NoCheckpointError": "core.errors",
    "Node": "distributed.cluster",
    "NonFiniteError": "core.errors",
    "NormalMixture": "losses",
    "NotFittedError": "core.errors",
    "OneCycle": "optim",
    "Optimizer": "optim",
    "Optimizers": "optim",
    "PMM": "losses",
    "ParameterGroup": "optim",
    "PatchTST": "models",
    "PoissonMixture": "losses",
    "PolynomialDecay": "optim",
    "PredictionIntervals": "forecasting.predict.conformal",
    "Predictor": "forecasting.predict.predictor",
    "Predictors": "forecasting.several.predictors",
    "Quantile": "losses",
    "RAdam": "optim",
    "RLinear": "models",
    "RMSE": "losses",
    "RMSprop": "optim",
    "RMoK": "models",
    "RNN": "models",
    "RandomSearch": "search.searches",
    "RangeTest": "training",
    "RayExecutor": "core.executors.ray_executor",
    "ReduceOnPlateau": "optim",
    "RegistryError": "core.errors",
    "Regularization": "training",
    "RelativeMSE": "losses",
    "RunRecord": "core.runs.record",
    "SGD": "optim",
    "SMAPE": "losses",
    "SOFTS": "models",
    "SWA": "optim",
    "Scaling": "data.windows.augmentation",
    "Schedule": "optim",
    "ScheduleFreeAdamW": "optim",
    "SearchResult": "search.result",
    "SearchSpace": "search.space",
    "SeriesScaler": "data.scaling.per_series",
    "SeriesStore": "data.store.store",
    "Source": "training.state.task",
    "StemGNN": "models",
    "StepDecay": "optim",
    "StorageError": "core.errors",
    "StrategySettings": "training.config.strategy",
    "TCN": "models",
    "TFT": "models",
    "TPESearch": "search.searches",
    "TSMixer": "models",
    "TSMixerx": "models",
    "TeacherForcing": "training",
    "TensorBoard": "training",
    "TiDE": "models",
    "TimeLLM": "models",
    "TimeMixer": "models",
    "TimeSeriesDataFrame": "data.table",
    "TimeSeriesSplit": "forecasting.evaluate.folds",
    "TimeXer": "models",
    "Timer": "training",
    "TimesNet": "models",
    "TorchOptimizer": "optim",
    "Trainer": "training",
    "TrainingConfig": "training",
    "TrainingError": "core.errors",
    "Tukey": "losses",
    "UnknownNameError": "core.errors",
    "VanillaTransformer": "models",
    "Verdict": "diagnostics.doctor.verdict",
    "Visualizer": "training",
    "WarmupCosine": "optim",
    "WarmupLinear": "optim",
    "WeightAnalyzer": "diagnostics.weights",
    "WeightReport": "diagnostics.weights",
    "Weighted": "losses",
    "WindowScaler": "data.scaling.per_window",
    "WindowSlice": "data.windows.augmentation",
    "WindowWarp": "data.windows.augmentation",
    "Windows": "data.windows.windows",
    "XLinear": "models",
    "aggregate": "data.hierarchy.aggregate",
    "architecture": "diagnostics.architecture",
    "backtest": "forecasting.evaluate.backtest",
    "check_gradients": "training",
    "choice": "core.space.dimensions",
    "compute_gradients": "training.compute_gradients",
    "cross_validation": "forecasting.evaluate.cross_validation",
    "diagnose": "diagnostics.doctor.diagnose",
    "distill": "forecasting.fit.distillation",
    "ensemble": "forecasting.several.ensemble",
    "find_learning_rate": "training",
    "fit_many": "forecasting.fit.fit_many",
    "gradient_report": "diagnostics.gradient_report",
    "iTransformer": "models",
    "integers": "core.space.dimensions",
    "load": "forecasting.storage.save_load",
    "loguniform": "core.space.dimensions",
    "main_process": "distributed.group",
    "read_run": "core.runs.read",
    "resume_training": "forecasting.fit.continue_training",
    "seed_ensemble": "forecasting.several.ensemble",
    "train_from_csv": "forecasting.several.neural_forecast",
    "train_from_parquet": "forecasting.several.neural_forecast",
    "treat": "diagnostics.doctor.treat",
    "uniform": "core.space.dimensions",
    "xLSTM": "models",
}
"""Where each public name lives; read by `__getattr__` on first use."""

_MODULES = {"metrics": "metrics", "samples": "data.samples", "search": "search"}

__all__ = [
    "__version__",
    *sorted([*_HOMES, *_MODULES]),
]


if not TYPE_CHECKING:  # a type checker sees the imports above: for it, any other name is an error

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            value: Any = importlib.import_module(f"neuro_divergent.{_MODULES[name]}")
        elif name in _HOMES:
            value = getattr(importlib.import_module(f"neuro_divergent.{_HOMES[name]}"), name)
        else:
            from neuro_divergent.core.other_words import NAMES
            from neuro_divergent.core.registry import closest

            near = closest(name, [*_HOMES, *_MODULES])
            guess = f"; did you mean {' or '.join(near)}?" if near else ""
            hint = f"; write {NAMES[name]}" if name in NAMES else guess
            raise AttributeError(f"neuro_divergent has no name {name!r}{hint}", name=name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
