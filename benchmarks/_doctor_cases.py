"""Seeded faults and healthy runs for the doctor: each is a table, a model and a configuration with one thing wrong."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

import neuro_divergent as nd
from neuro_divergent.diagnostics.doctor import gather
from neuro_divergent.diagnostics.doctor.evidence import Evidence, ForecastFacts, NetworkFacts, TableFacts, TrainingFacts
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare

TUNED_ON = ("gefcom2012", "tourism", "vic_elec", "classics")
"""The thresholds were set on these data sets."""
REPORTED_ON = ("etth1", "m4_hourly", "bike_sharing", "ettm1")
"""These data sets have decided nothing."""
FAULTS_TUNED, FAULTS_REPORTED = ("gefcom2012", "tourism"), ("etth1", "m4_hourly")


@dataclass(frozen=True)
class Case:
    """One training: what `fit` gets, and the fault in it."""

    frame: pl.DataFrame
    model: nd.Model
    config: dict[str, Any]
    columns: dict[str, Any]
    begin_with: Callable[[Any], None] | None = None
    cause: str = "healthy"


def _wide(path: Path, rows: int) -> pl.DataFrame:
    frame = pl.read_parquet(path).head(rows)
    time = frame.columns[0]
    return frame.unpivot(index=time, variable_name="unique_id", value_name="y").rename({time: "ds"})


def _some(frame: pl.DataFrame, series: int, rows: int) -> pl.DataFrame:
    ids = frame["unique_id"].unique(maintain_order=True).to_list()[:series]
    kept = frame.filter(pl.col("unique_id").is_in(ids)).group_by("unique_id", maintain_order=True)
    return kept.tail(rows).select("unique_id", "ds", "y")


def table(name: str, folder: Path) -> tuple[pl.DataFrame, int, int]:
    """Rows of a data set, its horizon and its lookback."""
    if name == "hourly_panel":
        return nd.samples.hourly_panel(series=12, hours=480), 12, 48
    if name == "air_passengers":
        return nd.samples.air_passengers(), 12, 24
    if name == "etth1":
        return _wide(folder / "etth1.parquet", 700), 12, 48
    if name == "ettm1":
        return _wide(folder / "ettm1.parquet", 900), 12, 96
    if name == "m4_hourly":
        return _some(pl.read_parquet(folder / "m4_hourly_train.parquet"), 15, 500), 12, 48
    if name == "gefcom2012":
        frame = pl.read_parquet(folder / "gefcom2012_load_hourly.parquet")
        return _long(frame, 15, 500), 12, 48
    if name == "tourism":
        return _tourism(pl.read_parquet(folder / "australia_tourism_quarterly.parquet")), 4, 12
    if name == "vic_elec":
        return _long(pl.read_parquet(folder / "vic_elec_30min.parquet"), 1, 3000), 12, 96
    if name == "bike_sharing":
        return _long(pl.read_parquet(folder / "bike_sharing_hourly.parquet"), 1, 3000), 12, 48
    frame = pl.read_parquet(folder / "classics_small.parquet").filter(pl.col("unique_id") == "AirPassengers")
    return frame.select("unique_id", "ds", "y"), 12, 24


def models(h: int, lookback: int, **fields: Any) -> dict[str, nd.Model]:
    """The two models that every fault is tried on."""
    return {
        "MLP": nd.MLP(h=h, input_size=lookback, hidden_size=64, **fields),
        "NHITS": nd.NHITS(h=h, input_size=lookback, hidden_sizes=(64, 64), **fields),
    }


def base(model: nd.Model, frame: pl.DataFrame, seed: int) -> Case:
    """The healthy training that faults are put into."""
    config = {
        "max_steps": 400,
        "steps_per_epoch": 20,
        "batch_size": 64,
        "learning_rate": 2e-3,
        "seed": seed,
        "progress": False,
        "compile": False,
        "refit": None,
        "validation_split": 0.2,
    }
    return Case(frame, model, config, {})


def _long(frame: pl.DataFrame, series: int, rows: int) -> pl.DataFrame:
    ids = frame["unique_id"].unique(maintain_order=True).to_list()[:series]
    kept = frame.filter(pl.col("unique_id").is_in(ids)).group_by("unique_id", maintain_order=True)
    return kept.head(rows).select("unique_id", "ds", "y").drop_nulls()


def _tourism(frame: pl.DataFrame) -> pl.DataFrame:
    large = frame.group_by("unique_id").agg(pl.col("y").mean()).sort("y", descending=True)["unique_id"].head(30)
    return (
        frame.filter(pl.col("unique_id").is_in(large.to_list())).select("unique_id", "ds", "y").sort("unique_id", "ds")
    )


def _per_series(case: Case, change: Callable[[np.ndarray, int], np.ndarray]) -> pl.DataFrame:
    """The table with a function of the values and the number of each series applied."""
    parts = []
    for number, (_, part) in enumerate(case.frame.group_by("unique_id", maintain_order=True)):
        values = change(part["y"].to_numpy().astype(np.float64), number)
        parts.append(part.with_columns(pl.Series("y", values)))
    return pl.concat(parts)


def _with(case: Case, cause: str, **config: Any) -> Case:
    return replace(case, config=case.config | config, cause=cause)


def _future(case: Case, cause: str, values: Callable[[pl.DataFrame], pl.Series], role: str = "future") -> Case:
    parts = [
        part.with_columns(values(part).alias("column"))
        for _, part in case.frame.group_by("unique_id", maintain_order=True)
    ]
    return replace(case, frame=pl.concat(parts), columns=case.columns | {role: ("column",)}, cause=cause)


def _huge(case: Case) -> Case:
    def change(y: np.ndarray, number: int) -> np.ndarray:
        return np.where((number == 0) & (np.arange(len(y)) // 4 == len(y) // 8), 1e25, y)

    return replace(case, frame=_per_series(case, change), cause="nonfinite_data")


def log_of_error(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss that is NaN where the forecast is too low."""
    return torch.log(output - target)


def root_of_zero(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A finite loss whose gradient is NaN."""
    return (output - target).abs() + torch.sqrt((output - target) * 0.0)


def _overfit(case: Case) -> Case:
    ids = case.frame["unique_id"].unique(maintain_order=True).to_list()[:3]
    rows = max(6 * case.model.h, 2 * (case.model.input_size + case.model.h))
    frame = case.frame.filter(pl.col("unique_id").is_in(ids)).group_by("unique_id", maintain_order=True).tail(rows)
    wide = {"hidden_size": 256} if isinstance(case.model, nd.MLP) else {"hidden_sizes": (256, 256)}
    case = replace(case, frame=frame, model=case.model.replace(**wide))
    return _with(case, "overfitting", early_stopping=None, max_steps=500, schedule=None, validation_split=0.3)


def _narrow(case: Case) -> Case:
    narrow = {"hidden_size": 1} if isinstance(case.model, nd.MLP) else {"hidden_sizes": (1, 1)}
    return replace(case, model=case.model.replace(**narrow), cause="underfitting")


def _dropped(case: Case) -> Case:
    return replace(case, model=case.model.replace(dropout=0.95), cause="underfitting")


def kill_units(module: Any) -> None:
    """Biases that keep most units of every hidden layer at 0."""
    with torch.no_grad():
        for layer in module.network.modules():
            if isinstance(layer, torch.nn.Linear) and layer.out_features == 64:
                layer.bias[:56] = -100.0


def inflate(module: Any) -> None:
    """Initial weights that are far too large."""
    with torch.no_grad():
        for parameter in module.network.parameters():
            if parameter.ndim > 1:
                parameter.mul_(12.0)


def _deep(case: Case) -> Case:
    deep: dict[str, Any] = {"layers": 10} if isinstance(case.model, nd.MLP) else {"hidden_sizes": (64,) * 10}
    return replace(case, model=case.model.replace(**deep, activation="sigmoid"), cause="vanishing_gradients")


def _one_large(case: Case) -> Case:
    frame = _per_series(case, lambda y, number: y / y.std() * (1000.0 if number == 0 else 1.0))
    return replace(case, frame=frame, model=case.model.replace(scaler="identity"), cause="dominating_series")


def _unscaled(case: Case) -> Case:
    frame = _per_series(case, lambda y, _: 1e4 * (3 + y / y.std()))
    return replace(case, frame=frame, model=case.model.replace(scaler="identity"), cause="unscaled_inputs")


def _shifted(case: Case) -> Case:
    def change(y: np.ndarray, _: int) -> np.ndarray:
        return y + 6 * y.std() * (np.arange(len(y)) >= 0.9 * len(y))

    return replace(case, frame=_per_series(case, change), cause="level_shift")


def _ignored(case: Case) -> Case:
    """Every fifth series has weight 0, and one peak in each season instead of a smooth course."""
    season = 24 if case.model.h == 12 else 4
    draw = np.random.default_rng(0)

    def change(y: np.ndarray, number: int) -> np.ndarray:
        peaks = (np.arange(len(y)) % season == 1) * 4.0 + 0.05 * draw.normal(size=len(y))
        return y.mean() + y.std() * peaks if number % 5 == 0 else y

    ids = case.frame["unique_id"].unique(maintain_order=True).to_list()
    weights = pl.col("unique_id").is_in(ids[::5]).not_().cast(pl.Float64).alias("w")
    frame = _per_series(case, change).with_columns(weights)
    return replace(case, frame=frame, columns={"weight": "w"}, cause="worse_for_series")


def last_half_reversed(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss with a mistake: it compares the last steps in the wrong order."""
    half = target.shape[1] // 2
    return (output - torch.cat([target[:, :half], target[:, half:].flip(1)], dim=1)).abs()


def _late_noise(case: Case) -> Case:
    """Noise in the held-out rows, without a scaler: the scaling of each window would widen its intervals with it."""
    draw = np.random.default_rng(0)

    def change(y: np.ndarray, _: int) -> np.ndarray:
        cut = int(0.8 * len(y))
        noise = np.where(np.arange(len(y)) >= cut, 1.5, 0.02)
        return (y - y[:cut].mean()) / y[:cut].std() + noise * draw.normal(size=len(y))

    case = replace(case, frame=_per_series(case, change), model=case.model.replace(scaler="identity"))
    return _with(case, "intervals_off", loss=nd.MQLoss(level=[80]), calibrate=False)


def _copies(case: Case) -> Case:
    frames = [case.frame.with_columns(pl.col("unique_id").cast(pl.String) + f"-{copy}") for copy in range(3)]
    return replace(case, frame=pl.concat(frames), cause="duplicated_windows")


def _counts(case: Case) -> Case:
    draw = np.random.default_rng(0)

    def change(y: np.ndarray, _: int) -> np.ndarray:
        return draw.poisson(np.maximum(0.0, 1.2 * (y - y.min()) / (y.mean() - y.min() + 1e-9))).astype(np.float64)

    return replace(case, frame=_per_series(case, change))


def _half_weights(case: Case) -> Case:
    steps = (1.0,) * (case.model.h // 2) + (0.0,) * (case.model.h - case.model.h // 2)
    return _with(case, "idle_steps_ahead", loss=nd.Weighted(loss="MAE", by="horizon", weights=steps))


def _frozen(case: Case) -> Case:
    first = "network.perceptron.0" if isinstance(case.model, nd.MLP) else "network.blocks.0"
    return _with(case, "frozen_weights", freeze=(first,))


FAULTS: dict[str, Callable[[Case], Case]] = {
    "huge values": _huge,
    "loss of a logarithm": lambda case: _with(case, "nonfinite_loss", loss=log_of_error),
    "root of zero": lambda case: _with(case, "nonfinite_gradient", loss=root_of_zero),
    "rate 1.0": lambda case: _with(case, "learning_rate_too_high", learning_rate=1.0),
    "rate 0.2": lambda case: _with(case, "learning_rate_too_high", learning_rate=0.2),
    "rate 1e-6": lambda case: _with(case, "learning_rate_too_low", learning_rate=1e-6),
    "decay too early": lambda case: _with(case, "plateau", schedule=nd.StepDecay(every=15, factor=0.1, unit="step")),
    "few rows, wide network": _overfit,
    "one unit": _narrow,
    "dropout 0.95": _dropped,
    "20 steps": lambda case: _with(case, "stopped_too_early", max_steps=20, learning_rate=1e-3, steps_per_epoch=5),
    "dead units": lambda case: replace(case, begin_with=kill_units, cause="dead_units"),
    "ten sigmoid layers": _deep,
    "large initial weights": lambda case: replace(
        _with(case, "exploding_gradients", gradient_clipping=None), begin_with=inflate
    ),
    "one large series": _one_large,
    "no scaler": _unscaled,
    "constant column": lambda case: _future(case, "constant_inputs", lambda part: pl.Series([3.0] * len(part))),
    "level shift": _shifted,
    "future leak": lambda case: _future(case, "leak", lambda part: 2.0 * part["y"] + 1.0),
    "next value": lambda case: _future(case, "leak", lambda part: part["y"].shift(-1).forward_fill(), "historical"),
    "hidden target": lambda case: replace(case, model=case.model.replace(sees_target=False), cause="worse_than_naive"),
    "last steps reversed": lambda case: _with(case, "worse_at_steps", loss=last_half_reversed),
    "series of weight 0": _ignored,
    "steps of weight 0": _half_weights,
    "late noise": _late_noise,
    "batches of 1": lambda case: _with(case, "batch_too_small", batch_size=1, learning_rate=1e-2),
    "batches of everything": lambda case: _with(
        case, "batch_too_large", batch_size=1_000_000, steps_per_epoch=None, max_steps=15
    ),
    "series three times": _copies,
    "frozen layers": _frozen,
    "zeros and MAPE": lambda case: _with(_counts(case), "wrong_loss", loss="MAPE"),
    "counts and MSE": lambda case: _with(_counts(case), "wrong_loss", loss="MSE"),
}
"""Every fault: how a healthy training becomes a faulty one."""


PARTS = {"training": TrainingFacts, "table": TableFacts, "network": NetworkFacts, "forecasts": ForecastFacts}


def kept(name: str, folder: Path | None, make: Callable[[], Any]) -> Any:
    """What `make` returns; from the file of an earlier run if a folder is given: a long benchmark runs in pieces."""
    if folder is None:
        return make()
    path = folder / f"{name.replace('/', '_')}.json"
    if not path.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(make(), default=_plain), encoding="utf-8")
    return json.loads(path.read_text(encoding="utf-8"))


def kept_evidence(name: str, case: Case, folder: Path | None) -> Evidence:
    """The evidence of a case, kept in a folder if one is given."""
    found = kept(name, folder, lambda: asdict(evidence_of(case)))
    parts = {part: found[part] and kind(**found[part]) for part, kind in PARTS.items()}
    return Evidence(**found | parts | {"missing": tuple(found["missing"])})


def _plain(value: Any) -> Any:
    """A numpy number as one of Python."""
    return value.item()


def evidence_of(case: Case) -> Evidence:
    """Train a case in a temporary directory and gather its evidence. A training that fails leaves its directory."""
    with tempfile.TemporaryDirectory() as folder:
        config = nd.TrainingConfig(**case.config)
        failing = case.cause.startswith("nonfinite")
        if failing:
            config = config.replace(checkpoints=folder)
        job = job_of(case.model, case.frame, config, begin_with=case.begin_with, **case.columns)
        run = prepare(job)
        with suppress(nd.NeuroDivergentError):
            return gather.from_forecaster(run.finish())
        run.close()
        if failing:
            return gather.from_run(nd.read_run(folder), job.table)
        return gather.from_history(run.training.state.history)


def faulty(names: tuple[str, ...], folder: Path, seeds: int = 3) -> Iterator[tuple[str, Case]]:
    """Every fault on two models, some data sets and seeds, with a name."""
    for name in names:
        frame, h, lookback = table(name, folder)
        for kind, model in models(h, lookback).items():
            for seed in range(1, seeds + 1):
                for fault, make in FAULTS.items():
                    yield f"{fault} · {name} · {kind} · {seed}", make(base(model, frame, seed))


def healthy(names: tuple[str, ...], folder: Path, count: int) -> Iterator[tuple[str, Case]]:
    """Ordinary trainings: several models with their own recipes."""
    seeds = -(-count // (6 * len(names))) + 1
    for seed in range(1, seeds + 1):
        for name in names:
            frame, h, lookback = table(name, folder)
            fields: dict[str, Any] = {"h": h, "input_size": lookback, "anchor": "auto"}
            ordinary = (
                nd.MLP(**fields, hidden_size=64),
                nd.NHITS(**fields, hidden_sizes=(64, 64)),
                nd.DLinear(h=h, input_size=lookback, anchor="auto"),
                nd.NLinear(h=h, input_size=lookback, anchor="auto"),
                nd.TiDE(**fields),
                nd.MLP(**fields, hidden_size=128, alias="MLP80"),
            )
            for model in ordinary:
                loss = {"loss": nd.MQLoss(level=[80])} if model.alias else {}
                case = base(model, frame, seed)
                yield f"{model.name} · {name} · {seed}", replace(case, config=case.config | loss)
