"""The cases of benchmarks/accuracy.py: which model, trained how, on what, against which figure."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol

import polars as pl

import neuro_divergent as nd
from _accuracy_data import Etth1, Panel, m4_hourly, m4_yearly, m5_tail, rmsse, smape, without_last

SEED = 1


@dataclass
class Figure:
    """One measured number."""

    group: str
    data: str
    model: str
    measure: str
    ours: float
    published: float | None = None
    low: float | None = None
    high: float | None = None
    note: str = ""
    seconds: float | None = None
    """CPU seconds of training and scoring."""

    @property
    def key(self) -> tuple[str, str, str]:
        """What makes it the same figure of another run."""
        return self.data, self.model, self.measure

    @property
    def ratio(self) -> float | None:
        """Ours over the published one."""
        return None if self.published is None else self.ours / self.published

    @property
    def passed(self) -> bool | None:
        """Whether the bound is met; None without one."""
        if self.low is None and self.high is None:
            return None
        return (self.low is None or self.ours >= self.low) and (self.high is None or self.ours <= self.high)

    @property
    def bound_text(self) -> str:
        """The bound for a person."""
        if self.high is None:
            return "" if self.low is None else f">= {self.low:.4g}"
        return f"<= {self.high:.4g}" if self.low is None else f"{self.low:.4g} - {self.high:.4g}"

    def to_dict(self) -> dict[str, Any]:
        """The fields, for a file."""
        return asdict(self)


class Runner(Protocol):
    """Trains and scores."""

    def __call__(self, data: Path, *, quick: bool, validation: bool) -> list[Figure]: ...


@dataclass(frozen=True)
class Case:
    """One line of `--list`."""

    group: str
    name: str
    run: Runner
    quick: bool = False


def steps(number: int, batch: int, loss: nd.Loss, rate: float = 1e-3, **fields: Any) -> nd.TrainingConfig:
    """So many steps on everything that is known, the rate falling to 0 as half a cosine."""
    given: dict[str, Any] = {
        "max_steps": number,
        "batch_size": batch,
        "loss": loss,
        "optimizer": nd.AdamW(learning_rate=rate),
        "schedule": nd.CosineAnnealing(),
        "validation_split": None,
        "early_stopping": None,
        "seed": SEED,
        "progress": False,
    }
    return nd.TrainingConfig(**given | fields)


# ETTh1: MSE and MAE on the scaled test part, h = 96


class SquaredError(nd.MSE):
    """Squared error after a window's scaling is undone, as the papers train; `nd.MSE` weighs all windows alike."""

    units: ClassVar[Literal["scaled", "original"]] = "original"


def watched(batch: int, rate: float, epochs: int, per_epoch: int, **fields: Any) -> nd.TrainingConfig:
    """Squared error, validated after every epoch, stopped after three without a gain."""
    given: dict[str, Any] = {
        "max_epochs": epochs,
        "steps_per_epoch": per_epoch,
        "batch_size": batch,
        "loss": nd.MSE(),
        "optimizer": nd.AdamW(learning_rate=rate),
        "schedule": nd.CosineAnnealing(),
        "early_stopping": nd.EarlyStopping(patience=3, min_delta=0.0),
        "seed": SEED,
        "progress": False,
    }
    return nd.TrainingConfig(**given | fields)


def etth1(
    model: nd.Model,
    config: nd.TrainingConfig,
    mse: float | None,
    mae: float | None,
    judged: bool,
    *,
    joined: bool = False,
) -> Runner:
    """A model on ETTh1; its MSE may be 3 % above the published one.

    Args:
        model: what is trained.
        config: how.
        mse: the published one, if there is one.
        mae: the same.
        judged: whether there is a bound.
        joined: whether the validation part is trained on, as for the published figure; else it watches the training.
    """

    def run(data: Path, *, quick: bool, validation: bool) -> list[Figure]:  # noqa: ARG001
        case = Etth1(data)
        if joined:
            known = case.train if validation else pl.concat([case.train, case.validation])
            fitted = model.fit(known, config, freq="1h")
        else:
            fitted = model.fit(case.train, config, validation=case.validation, freq="1h")
        found = case.errors(fitted, validation=validation)
        high = 1.03 * mse if judged and mse is not None and not validation else None
        name, note = f"ETTh1, {model.input_size}", f"{fitted.num_parameters:,} parameters"
        return [
            Figure("etth1", name, model.name, "MSE", found[0], mse, high=high, note=note),
            Figure("etth1", name, model.name, "MAE", found[1], mae),
        ]

    return run


def wide(kind: Callable[..., nd.Model], **fields: Any) -> nd.Model:
    """A model with the lookback of the linear models' paper."""
    return kind(**{"h": 96, "input_size": 336} | fields)


LINEAR = watched(256, 1e-3, 10, 225)
ETTH1 = [
    Case("etth1", "DLinear", etth1(wide(nd.DLinear, scaler="identity"), LINEAR, 0.375, 0.399, True), quick=True),
    Case("etth1", "NLinear", etth1(wide(nd.NLinear), LINEAR, 0.374, 0.394, True), quick=True),
    Case("etth1", "RLinear", etth1(wide(nd.RLinear), LINEAR, None, None, False), quick=True),
    Case(
        "etth1",
        "NHITS",
        etth1(
            wide(nd.NHITS, pooling=(2, 2, 2), downsample=(84, 12, 1), dropout=0.5, scaler="identity"),
            steps(1000, 256, nd.Huber(delta=0.5)),
            0.378,
            0.393,
            True,
            joined=True,
        ),
        quick=True,
    ),
    Case("etth1", "TiDE", etth1(wide(nd.TiDE, hidden_size=256), watched(128, 3e-4, 8, 200), 0.375, 0.398, False)),
    Case("etth1", "TSMixer", etth1(wide(nd.TSMixer), watched(32, 5e-4, 6, 250), None, None, False)),
    Case("etth1", "XLinear", etth1(wide(nd.XLinear), watched(32, 2e-4, 5, 250), None, None, False)),
    Case(
        "etth1",
        "PatchTST",
        etth1(
            wide(
                nd.PatchTST, hidden_size=16, heads=4, ff_size=128, dropout=0.3, scaler="revin", patch_len=16, stride=8
            ),
            watched(128, 1e-3, 6, 120),
            0.375,
            0.399,
            True,
        ),
    ),
    Case(
        "etth1",
        "iTransformer",
        etth1(
            nd.iTransformer(h=96, input_size=96, hidden_size=256, ff_size=256, layers=2, dropout=0.1),
            watched(32, 1e-4, 10, 264),
            0.386,
            0.405,
            True,
        ),
        quick=True,
    ),
    Case(
        "etth1",
        "TimesNet",
        etth1(
            nd.TimesNet(h=96, input_size=96, hidden_size=16, conv_size=32, kernels=3, periods=3),
            watched(128, 1e-3, 8, 100, loss=SquaredError()),
            0.384,
            0.402,
            True,
        ),
    ),
]


# M4: sMAPE as in the competition


def m4(
    group: str,
    panel: Callable[..., Panel],
    model: nd.Model,
    config: nd.TrainingConfig,
    high: float,
    published: float | None = None,
    short: str = "error",
) -> Runner:
    """One model as it comes out of one training."""

    def run(data: Path, *, quick: bool, validation: bool) -> list[Figure]:  # noqa: ARG001
        case = panel(data, validation=validation)
        fitted = model.fit(case.table, config, short=short)
        score = smape(*case.pairs(fitted.predict(), model.name))
        naive = smape(*case.pairs(case.naive(), "naive"))
        note = f"seasonal naive {naive:.2f}, {fitted.num_parameters:,} parameters"
        bound = None if validation else high
        return [Figure(group, group.replace("_", " "), model.name, "sMAPE", score, published, high=bound, note=note)]

    return run


def hourly(kind: Callable[..., nd.Model], lookback: int = 336, anchor: Any = "auto", **fields: Any) -> nd.Model:
    """A model of M4's hourly series, forecasting the difference to the last two weeks."""
    return kind(**{"h": 48, "input_size": lookback, "anchor": anchor, "scaler": "robust"} | fields)


HOURLY = steps(4000, 128, nd.SMAPE())
MEMBERS = (
    hourly(nd.MLP),
    hourly(nd.MLP),
    hourly(nd.MLP, 336, (168, 336)),
    hourly(nd.MLP, 504, (168, 336, 504)),
    hourly(nd.MLP, 504),
    hourly(nd.MLP, 336, (168, 336), scaler="standard"),
    hourly(nd.MLP, scaler="standard"),
    hourly(nd.MLP, 504, scaler="standard"),
)
"""Perceptrons that differ in their lookback, anchor, scaler and seed."""


def m4_ensemble(data: Path, *, quick: bool, validation: bool) -> list[Figure]:  # noqa: ARG001
    """Several trainings, and the median of their forecasts."""
    case = m4_hourly(data, validation=validation)
    table = case.table
    begin = time.process_time()
    fitted = [model.fit(table, HOURLY.replace(seed=SEED + number)) for number, model in enumerate(MEMBERS)]
    spent = time.process_time() - begin
    score = smape(*case.pairs(nd.Ensemble(fitted, method="median", name="Ensemble").predict(), "Ensemble"))
    bound = None if validation else 9.33
    note = "the competition's winner"
    found = Figure("m4_hourly", "m4 hourly", f"median of {len(fitted)}", "sMAPE", score, 9.328, high=bound, note=note)
    cost = Figure("m4_hourly", "m4 hourly", f"median of {len(fitted)}", "core seconds", spent, high=600.0)
    return [found, cost]


M4 = [
    Case("m4_hourly", "MLP", m4("m4_hourly", m4_hourly, hourly(nd.MLP), HOURLY, 9.8)),
    Case("m4_hourly", "NHITS", m4("m4_hourly", m4_hourly, hourly(nd.NHITS), HOURLY, 9.8), quick=True),
    Case("m4_hourly", "ensemble", m4_ensemble),
    Case(
        "m4_yearly",
        "NBEATS",
        m4(
            "m4_yearly",
            m4_yearly,
            nd.NBEATS(h=6, input_size=12, stacks=("trend", "generic"), blocks=(2, 2), hidden_sizes=(256, 256)),
            steps(1500, 256, nd.SMAPE()),
            13.8,
            None,
            "pad",
        ),
    ),
]


# M5: root mean squared scaled error beside the seasonal naive forecast


def m5(model: nd.Model, config: nd.TrainingConfig) -> Runner:
    """At most 0.85 of the error of the seasonal naive forecast."""

    def run(data: Path, *, quick: bool, validation: bool) -> list[Figure]:
        series = 2000 if quick else None
        case = m5_tail(data, series=series, validation=validation)
        fitted = model.fit(case.table, config)
        naive = rmsse(case, case.naive(), "naive")
        score = rmsse(case, fitted.predict(), model.name)
        high = None if validation else 0.85 * naive
        count = case.known["unique_id"].n_unique()
        note = f"seasonal naive {naive:.4f}, {count:,} series"
        return [Figure("m5", "m5 tail", model.name, "RMSSE", score, None, high=high, note=note)]

    return run


M5 = [
    Case("m5", "NHITS", m5(nd.NHITS(h=28, input_size=56, hidden_sizes=(128, 128)), steps(1000, 128, nd.MSE()))),
    Case("m5", "TFT", m5(nd.TFT(h=28, input_size=56, hidden_size=16), steps(300, 64, nd.MSE(), 2e-3))),
]


# Coverage of intervals


def cover_panel(data: Path, validation: bool) -> tuple[pl.DataFrame, str, int, int, int]:  # noqa: ARG001
    """The library's generated panel: seven days of 50 series."""
    table = nd.samples.hourly_panel()
    return (without_last(table, 7 * 24) if validation else table), "1h", 24, 168, 7


def cover_m4(data: Path, validation: bool) -> tuple[pl.DataFrame, str, int, int, int]:
    """M4 hourly: the test part of 414 series."""
    case = m4_hourly(data, validation=validation)
    return pl.concat([case.known, case.held]).sort("unique_id", "ds"), "1i", 48, 168, 1


def cover_vic(data: Path, validation: bool) -> tuple[pl.DataFrame, str, int, int, int]:
    """Half-hourly demand of Victoria: the last 56 days, one day at a time."""
    table = pl.read_parquet(data / "vic_elec_30min.parquet").select("unique_id", "ds", "y")
    return (without_last(table, 56 * 48) if validation else table), "30m", 48, 336, 56


SETS = {"panel": cover_panel, "m4_hourly": cover_m4, "vic_elec": cover_vic}
ALLOWED = {"panel": ((77, 83), (93, 97)), "m4_hourly": ((74, 86), (91, 98)), "vic_elec": ((74, 86), (91, 98))}


TOLD = {("panel", "DeepAR"): ["hour", "dayofweek"]}
"""Calendar columns that a model is given on a set; without them DeepAR's intervals of the panel were too narrow."""


def coverage(name: str, kind: Callable[..., nd.Model], config: nd.TrainingConfig) -> Runner:
    """Which share of what happened lies inside the 80 % and the 95 % interval."""

    def run(data: Path, *, quick: bool, validation: bool) -> list[Figure]:  # noqa: ARG001
        table, freq, h, lookback, windows = SETS[name](data, validation)
        model = kind(**{"h": h} | ({} if isinstance(kind, partial) else {"input_size": lookback}))
        told: dict[str, Any] = {"freq": freq, "features": TOLD.get((name, model.name), [])}
        fitted = model.fit(without_last(table, h * windows), config, **told)
        whole = nd.TimeSeriesDataFrame.from_frame(table, **told)
        result = fitted.evaluate(whole, level=[80, 95], n_windows=windows)
        mase, season = result[model.name, "mase"], result.season
        found = []
        for level, (low, high) in zip((80, 95), ALLOWED[name], strict=True):
            share = 100 * result[model.name, f"coverage-{level}"]
            note = f"MASE {mase:.3f} (season {season})"
            found.append(Figure("coverage", name, model.name, f"in {level} %", share, level, low, high, note))
        return found

    return run


NORMAL, STUDENT = (nd.DistributionLoss(distribution=name) for name in ("Normal", "StudentT"))
QUANTILES = nd.MQLoss(level=[80, 95])
PROBABILISTIC: dict[str, tuple[Callable[..., nd.Model], nd.TrainingConfig]] = {
    "DeepNPTS": (nd.DeepNPTS, steps(1500, 64, STUDENT, 5e-3)),
    "DeepAR": (partial(nd.DeepAR, input_size=96, hidden_size=48), steps(500, 64, NORMAL, 2e-3)),
    "TFT": (partial(nd.TFT, input_size=96, hidden_size=16), steps(600, 64, QUANTILES, 2e-3)),
}
COVERAGE = [
    Case("coverage", f"{name}-{kind}", coverage(name, model, config))
    for name in SETS
    for kind, (model, config) in PROBABILISTIC.items()
]

CASES: Sequence[Case] = (*ETTH1, *M4, *M5, *COVERAGE)

__all__ = ["CASES", "Case", "Figure"]
