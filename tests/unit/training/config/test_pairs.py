"""Every option works with every other, or the pair is refused with a sentence."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.data import samples

X = np.random.default_rng(0).normal(size=(30, 3)).astype(np.float32)
Y = X[:, :1] - X[:, 1:2]
PASSENGERS = samples.air_passengers().tail(72)

SHARED = {
    "accumulation": {"accumulate_gradients": 2},
    "max_steps": {"max_steps": 5},
    "steps_per_epoch": {"steps_per_epoch": 2},
    "in order": {"shuffle": False},
    "drop_last": {"drop_last": True},
    "float64": {"precision": "float64"},
    "bf16": {"precision": "bf16"},
    "fp16": {"precision": "fp16", "loss_scale": 4.0},
    "accumulate64": {"precision": "accumulate64"},
    "no validation": {"validation_split": None},
    "rare validation": {"validate_every": 2},
    "metrics": {"metrics": ("mae", "r2")},
    "rmse": {"loss": nd.RMSE()},
    "quantiles": {"loss": nd.MQLoss(level=[80])},
    "own loss": {"loss": lambda output, target: (output - target).square()},
    "sgd": {"optimizer": nd.SGD(nesterov=True)},
    "lookahead": {"optimizer": nd.Lookahead()},
    "schedule-free": {"optimizer": nd.ScheduleFreeAdamW()},
    "lamb": {"optimizer": nd.LAMB()},
    "one-cycle": {"schedule": nd.OneCycle()},
    "plateau": {"schedule": nd.ReduceOnPlateau(patience=0)},
    "clip both": {"gradient_clipping": [nd.ClipByValue(0.5), nd.ClipByNorm(1.0)]},
    "no clipping": {"gradient_clipping": None},
    "noise": {"gradient_noise": nd.GradientNoise()},
    "penalties": {"regularization": nd.Regularization(l1=1e-4, l2=1e-4)},
    "early stopping": {"early_stopping": nd.EarlyStopping(monitor="train_loss", patience=1)},
    "workers": {"num_workers": 2},
    "ema": {"averaging": nd.EMA()},
    "swa": {"averaging": nd.SWA(start=0.5)},
    "skip": {"nonfinite": "skip"},
    "checkpointed": {"activation_checkpointing": nd.ActivationCheckpointing()},
    "differences": {"gradient_method": "one_sided"},
    "deterministic": {"deterministic": True},
}
WINDOWS = {
    "refit": {"refit_on_all": True},
    "horizon": {"curriculum": nd.GrowingHorizon()},
    "easy first": {"curriculum": nd.EasySeriesFirst()},
    "jitter": {"augmentation": nd.Jitter()},
    "mixup": {"augmentation": nd.Mixup()},
    "weights": {"loss": nd.Weighted(loss=nd.MAE(), by="recency", half_life=12)},
    "distribution": {"loss": nd.DistributionLoss()},
    "implicit": {"loss": nd.ImplicitQuantile()},
}


def trained_on_arrays(fields):
    torch.manual_seed(0)
    outputs = fields["loss"].outputs if isinstance(fields.get("loss"), nd.Loss) else 1
    last = [nn.Linear(4, outputs)] + ([nn.Unflatten(1, (1, outputs))] if outputs > 1 else [])
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), nn.Dropout(0.1), *last)
    config = nd.TrainingConfig(**{"max_epochs": 2, "batch_size": 4, "progress": False} | fields)
    history = nd.Trainer(config).fit(module, (X, Y))
    return history, module


def trained_on_a_table(fields):
    model = nd.MLP(h=4, input_size=6, hidden_size=4, layers=2, dropout=0.1)
    defaults = {"max_epochs": 2, "batch_size": 16, "steps_per_epoch": 2, "progress": False}
    fitted = model.fit(PASSENGERS, nd.TrainingConfig(**defaults | fields), freq="1mo")
    return fitted.history, fitted.module


def refused(train, first, options):
    """The other options that are refused beside the first one, each with a sentence; all others must train."""
    found = {}
    for name, other in options.items():
        if set(other) & set(options_of(first)):
            continue
        try:
            history, module = train(options_of(first) | other)
        except nd.ConfigError as refusal:
            found[name] = str(refusal)
            continue
        assert np.isfinite(history.step_loss).all(), (first, name)
        assert all(bool(torch.isfinite(tensor).all()) for tensor in module.state_dict().values()), (first, name)
    assert all(len(sentence) < 300 for sentence in found.values())
    return set(found)


def options_of(name):
    return (SHARED | WINDOWS)[name]


REFUSED_ON_ARRAYS = {
    "bf16": {"differences"},
    "fp16": {"differences"},
    "schedule-free": {"one-cycle", "plateau", "ema", "swa"},
    "checkpointed": {"differences"},
}
REFUSED_ON_A_TABLE = {"refit": {"no validation"}, "easy first": {"in order"}}


@pytest.mark.parametrize("first", SHARED)
def test_pairs_on_arrays(first):
    later = dict(list(SHARED.items())[list(SHARED).index(first) + 1 :])
    assert refused(trained_on_arrays, first, later) == REFUSED_ON_ARRAYS.get(first, set())


@pytest.mark.parametrize("first", WINDOWS)
def test_pairs_on_a_table(first):
    slow = "differences" if first == "implicit" else None  # its head has thousands of weights
    others = {name: fields for name, fields in (SHARED | WINDOWS).items() if name != slow}
    assert refused(trained_on_a_table, first, others) == REFUSED_ON_A_TABLE.get(first, set())
