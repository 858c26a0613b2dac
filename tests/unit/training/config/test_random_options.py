"""Random combinations of options, models and ways to train: each trains to finite numbers, or is refused in a sentence.

The values are those of `test_pairs`, and the edges of what the fields allow.
"""

from __future__ import annotations

import json
import os
import random
import time
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
import torch
from test_pairs import SHARED, WINDOWS, X, Y
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core import registry

SIZE: dict[str, Any] = {"h": 3, "input_size": 6}
MODELS: dict[str, Callable[[], nd.Model]] = {
    "mlp": lambda: nd.MLP(**SIZE, hidden_size=4, layers=1, dropout=0.1),
    "revin": lambda: nd.MLP(**SIZE, hidden_size=4, layers=1, scaler="revin", anchor=[1, 3]),
    "dlinear": lambda: nd.DLinear(**SIZE),
    "nlinear": lambda: nd.NLinear(**SIZE, anchor="auto", scaler="robust"),
    "nhits": lambda: nd.NHITS(**SIZE, hidden_sizes=[[4], [4], [4]], scaler=None),
    "gru": lambda: nd.GRU(**SIZE, hidden_size=4, decoder_size=4),
    "deepar": lambda: nd.DeepAR(**SIZE, hidden_size=4, samples=10),
    "tcn": lambda: nd.TCN(**SIZE, hidden_size=4),
    "tide": lambda: nd.TiDE(**SIZE, hidden_size=4, decoder_size=2, temporal_width=2),
    "tsmixer": lambda: nd.TSMixer(**SIZE, blocks=1, hidden_size=4),
}


def every(family: str) -> list[Any]:
    """Every description of a family that needs no fields."""
    found = []
    for name in registry.members(family):
        with suppress(nd.ConfigError):
            found.append(registry.resolve(family, name)())
    return found


EDGES: dict[str, tuple[Any, ...]] = {
    "max_epochs": (1, 2, None),
    "max_steps": (1, 3),
    "batch_size": (1, 2, 7, 1000),
    "validation_split": (0.01, 0.3, 0.5, 0.9, None),
    "seed": (0, 2**31, 2**63, -1),
    "accumulate_gradients": (1, 3, 50),
    "metrics": ((), ("mae", "smape", "mase"), ("rmse",), ("nothing",)),
    "validate_every": (1, 2, 100),
    "steps_per_epoch": (1, 2, None),
    "log_every": (1, 1000),
    "num_workers": (0, 1, 3),
    "freeze": ((), ("*",), ("nothing.*",), ("*bias",)),
    "teacher_forcing": (nd.TeacherForcing(), None),
    "validation_loss": (nd.MAE(), nd.RMSE(), None),
    "loss": (*every("loss"), nd.DistributionLoss(distribution="Poisson"), nd.MQLoss(quantiles=[0.1, 0.5])),
    "optimizer": (*every("optimizer"), nd.SGD(learning_rate=1e-300), nd.AdamW(learning_rate=10.0)),
    "schedule": (*every("schedule"), nd.WarmupCosine(warmup=0.5), nd.StepDecay(every=1), None),
    "gradient_clipping": (nd.ClipByNorm(1e-9), nd.ClipByValue(1e-3), None),
    "early_stopping": (nd.EarlyStopping(patience=1, min_delta=1e9), nd.EarlyStopping(monitor="mae", patience=1), None),
    "augmentation": (*every("augmentation"), None),
    "averaging": (nd.EMA(), nd.SWA(start=0.0), None),
    "regularization": (nd.Regularization(l1=1e30), nd.Regularization(l2=1e-30), None),
    "nonfinite": ("stop", "skip"),
    "callbacks": ((nd.LearningRateMonitor(), nd.GradientNormMonitor()), (nd.Timer(),), ()),
}  # fmt: skip
LEFT_OUT = {"differences", "fp16"}
"""A difference quotient for every weight takes too long here; fp16 on a processor depends on the processor."""
SECONDS = 20.0


def chosen(number: int) -> tuple[str, str, dict[str, Any]]:
    """The way, the model and the options of a number."""
    chance = random.Random(f"options-{number}")
    shared = {name: fields for name, fields in (SHARED | WINDOWS).items() if name not in LEFT_OUT}
    fields: dict[str, Any] = {}
    for name in chance.sample(sorted(shared), chance.choice((0, 1, 2, 3))):
        fields |= shared[name]
    for name in chance.sample(sorted(EDGES), chance.choice((1, 2, 3, 5))):
        fields[name] = chance.choice(EDGES[name])
    short = {"max_epochs": 1, "max_steps": 3, "batch_size": 8, "progress": False}
    if fields.get("max_epochs", 1) is None:
        fields["max_steps"] = 3
    return chance.choice(sorted(WAYS)), chance.choice(sorted(MODELS)), short | fields


def table() -> pl.DataFrame:
    days = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 2, 9), "1d", eager=True)
    y = 10 + np.sin(np.arange(len(days)) / 3)
    frames = [pl.DataFrame({"unique_id": name, "ds": days, "y": y * n}) for n, name in enumerate("abc", 1)]
    return pl.concat(frames)


TABLE = table()


def _fit(model: nd.Model, config: nd.TrainingConfig, folder: Path) -> list[Any]:
    fitted = model.fit(TABLE, config, freq="1d")
    return [fitted.predict(), fitted.history.step_loss]


def _fit_many(model: nd.Model, config: nd.TrainingConfig, folder: Path) -> list[Any]:
    return [fitted.predict() for fitted in nd.fit_many(model, TABLE, config, seeds=2, freq="1d")]


def _resume(model: nd.Model, config: nd.TrainingConfig, folder: Path) -> list[Any]:
    """Two trainings, the second of which goes on from the first one's last checkpoint."""
    config = config.replace(checkpoints=nd.Checkpoints(folder / "run", every_n_steps=1, asynchronous=False))
    model.fit(TABLE, config, freq="1d")
    longer = {"max_steps": 5, "max_epochs": 3}
    fitted = model.fit(TABLE, config.replace(**longer), freq="1d", resume="auto", resume_with=longer)
    return [fitted.predict(), fitted.history.step_loss]


def _cross_validation(model: nd.Model, config: nd.TrainingConfig, folder: Path) -> list[Any]:
    found = nd.cross_validation([model], TABLE, config=config, n_windows=2, freq="1d", refit=True)
    return [found.frame.drop("y")]


def _saved(model: nd.Model, config: nd.TrainingConfig, folder: Path) -> list[Any]:
    model.fit(TABLE, config, freq="1d").save(folder / "model")
    return [nd.load(folder / "model").predict()]


def _arrays(model: nd.Model, config: nd.TrainingConfig, folder: Path) -> list[Any]:
    outputs = max(1, config.loss.outputs) if isinstance(config.loss, nd.Loss) else 1
    last = [nn.Linear(4, outputs)] + ([nn.Unflatten(1, (1, outputs))] if outputs > 1 else [])
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Tanh(), *last)
    return [nd.Trainer(config).fit(module, (X, Y)).step_loss]


WAYS = {
    "fit": _fit,
    "fit_many": _fit_many,
    "resume": _resume,
    "cross_validation": _cross_validation,
    "saved": _saved,
    "arrays": _arrays,
}


def trained(number: int, folder: Path) -> str:
    """What is wrong with the training of a number; empty if it is finite or refused in a sentence."""
    way, model, fields = chosen(number)
    torch.manual_seed(0)
    begun = time.monotonic()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            results = WAYS[way](MODELS[model](), nd.TrainingConfig(**fields), folder)
    except nd.NeuroDivergentError as refusal:
        wrong = "" if 20 < len(str(refusal)) < 800 else f"is refused by {str(refusal)!r}"
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "neuro_divergent" in frame.filename]
        at = frames[-1] if frames else traceback.extract_tb(error.__traceback__)[-1]
        wrong = f"{type(error).__name__}: {str(error)[:200]} at {Path(at.filename).name}:{at.lineno}"
    else:
        wrong = "" if all(_finite(result) for result in results) else "gives numbers that are not finite"
    if time.monotonic() - begun > SECONDS:
        wrong = f"{wrong} takes {time.monotonic() - begun:.1f} s".strip()
    return wrong and f"{number} {wrong}: {way} {model} {fields}"


def _finite(result: Any) -> bool:
    if isinstance(result, pl.DataFrame):
        return all(bool(result[name].is_finite().all()) for name in result.columns if result[name].dtype.is_float())
    return bool(np.isfinite(result).all())


def _record(good: int, tried: int) -> None:
    """A figure for the table of `make stress`."""
    if path := os.environ.get("ND_FAULT_FIGURES"):
        with open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(["random trainings right", good, tried]) + "\n")


def assert_right(numbers: range, folder: Path) -> None:
    wrong = [found for number in numbers if (found := trained(number, folder / str(number)))]
    _record(len(numbers) - len(wrong), len(numbers))
    assert not wrong, "\n".join(wrong)


def test_random_options_train_or_are_refused(tmp_path: Path) -> None:
    assert_right(range(60), tmp_path)


@pytest.mark.stress
@pytest.mark.parametrize("part", range(20))
def test_thousands_of_random_options_train_or_are_refused(part: int, tmp_path: Path) -> None:
    assert_right(range(1000 + 250 * part, 1250 + 250 * part), tmp_path)
