"""Every model of the zoo with its recipe, beside the seasonal naive forecast, on four sets.

    python benchmarks/zoo.py --data DIRECTORY [--validation] [--sets panel,tourism] [--models LSTM,GRU] [--write]

Each model is trained on the known rows with its defaults and forecasts the rows after them. The score is MASE: the mean
absolute error over that of the seasonal naive forecast inside the known rows, averaged over all series. The bound is
the score of the seasonal naive forecast. `--validation` hides one more stretch and scores that. Choices are made there;
the last stretch is only reported. Each training has a process and a thread of its own.

So that the whole table costs about an hour: 100 series of M4 hourly and 150 of tourism, evenly spaced; the last 460
days of vic_elec, of which the last 28 are forecast day by day; and a training has so many steps that it takes about
`--seconds`, if the recipe has more ("capped" in the note).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

import neuro_divergent as nd
from _accuracy_data import KEYS, Floats, m4_hourly, without_last
from harness import Line, line, print_table, write
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.predict.historical import Origins

LOOKBACK = {"panel": 336, "vic_elec": 336, "m4_hourly": 336, "tourism": 16}
SERIES = {"m4_hourly": 100, "tourism": 150}
DAYS, SCORED_DAYS = 460, 28
MEASURED_STEPS, LEAST_EPOCHS = 8, 5
LEFT_OUT = {
    "HINT": "a wrapper around another model",
    "TimeLLM": "needs the weights of a language model",
}


@dataclass(frozen=True)
class Part:
    """A table, of which the last `windows` horizons are hidden and forecast one after the other."""

    table: pl.DataFrame
    freq: str
    h: int
    season: int
    windows: int = 1

    @property
    def hidden(self) -> int:
        """How many rows of each series are hidden."""
        return self.h * self.windows


def load(name: str, folder: Path, *, validation: bool) -> Part:
    """A set; with `validation` without the stretch that is only reported. The naive season is the week or the year."""
    if name == "m4_hourly":
        panel = m4_hourly(folder)
        part = Part(_some(pl.concat([panel.known, panel.held]).sort(KEYS), SERIES[name]), "1i", 48, 168)
    elif name == "panel":
        part = Part(_without_gaps(nd.samples.hourly_panel()), "1h", 24, 168)
    elif name == "vic_elec":
        found = pl.read_parquet(folder / "vic_elec_30min.parquet").tail(48 * DAYS)
        clock = next(column for column in found.columns if found[column].dtype.is_temporal())
        value = next(column for column in found.columns if column.lower() in ("y", "demand"))
        columns = pl.lit("vic").alias("unique_id"), pl.col(clock).alias("ds"), pl.col(value).alias("y")
        part = Part(found.select(columns), "30min", 48, 336, SCORED_DAYS)
    else:
        found = pl.read_parquet(folder / "australia_tourism_quarterly.parquet")
        part = Part(_some(found.select(_tourism(found)).sort(KEYS), SERIES[name]), "1q", 8, 4)
    return replace(part, table=without_last(part.table, part.hidden)) if validation else part


def _some(table: pl.DataFrame, count: int) -> pl.DataFrame:
    """Evenly spaced series."""
    ids = table["unique_id"].unique().sort()
    chosen = ids[np.linspace(0, len(ids) - 1, count).round().astype(int).tolist()]
    return table.filter(pl.col("unique_id").is_in(chosen.implode()))


def _without_gaps(table: pl.DataFrame) -> pl.DataFrame:
    """Missing hours with the value of a week before, so that the naive forecast is plain arithmetic."""
    filled = table.sort(KEYS).upsample("ds", every="1h", group_by="unique_id", maintain_order=True)
    week = pl.col("y").shift(168).over("unique_id")
    return filled.with_columns(pl.col("unique_id").forward_fill(), pl.col("y").fill_null(week)).drop_nulls()


def _tourism(found: pl.DataFrame) -> list[pl.Expr]:
    key = [column for column in found.columns if found[column].dtype in (pl.String, pl.Categorical)]
    clock = next(column for column in found.columns if found[column].dtype.is_temporal())
    value = next(column for column in found.columns if found[column].dtype.is_numeric())
    return [
        pl.concat_str([pl.col(column).cast(pl.String) for column in key], separator="/").alias("unique_id"),
        pl.col(clock).alias("ds"),
        pl.col(value).cast(pl.Float64).alias("y"),
    ]


def one(
    name: str, which: str, folder: Path, *, validation: bool, options: dict[str, Any], seed: int, seconds: float
) -> dict[str, Any]:
    """Train one model and score its forecasts. Runs in a process of its own."""
    torch.set_num_threads(1)
    part = load(which, folder, validation=validation)
    data = nd.TimeSeriesDataFrame.from_frame(part.table, freq=part.freq)
    known = data.drop_last(part.hidden)
    model = getattr(nd, name)(h=part.h, input_size=LOOKBACK[which], **options)
    config = nd.TrainingConfig(seed=seed, progress=False)
    capped = _capped(model, known, config, seconds)
    start = time.process_time()
    fitted = model.fit(known, capped or config)
    spent = time.process_time() - start
    origins = Origins.windows(
        data, data.store.lengths - part.hidden, steps=part.h, step_size=part.h, together=model.together
    )
    actual = origins.actual()
    return {
        "mase": _mase(part, origins, actual, origins.points(fitted)),
        "naive": _mase(part, origins, actual, _naive(part, origins)),
        "seconds": round(spent, 1),
        "steps": len(fitted.history.step_loss),
        "capped": capped is not None,
    }


def _capped(
    model: nd.Model, known: nd.TimeSeriesDataFrame, config: nd.TrainingConfig, seconds: float
) -> nd.TrainingConfig | None:
    """A configuration with fewer steps, if the recipe's would take longer than `seconds`; else None."""
    run = prepare(job_of(model, known, config))
    run.advance(1)
    begin = time.process_time()
    run.advance(1 + MEASURED_STEPS)
    each = (time.process_time() - begin) / MEASURED_STEPS
    steps = int(seconds / (1.5 * each))  # validation and the refit take about half as long again
    run.close()
    batch, per_epoch, epochs = (getattr(run.config, name) for name in ("batch_size", "steps_per_epoch", "max_epochs"))
    assert isinstance(batch, int)
    assert isinstance(per_epoch, int)
    assert isinstance(epochs, int)
    windows = len(run.problem.windows((np.zeros_like(run.problem.rows), run.problem.rows)))
    per_epoch = min(per_epoch, -(-windows // batch))
    if steps >= epochs * per_epoch:
        return None
    per_epoch = min(per_epoch, max(1, steps // LEAST_EPOCHS))
    return config.replace(steps_per_epoch=per_epoch, max_epochs=max(1, steps // per_epoch), refit="fine_tune")


def _mase(part: Part, origins: Origins, actual: Floats, said: Floats) -> float:
    """The mean over the series of the absolute error over that of the seasonal naive forecast in the known rows."""
    store, found = origins.table.store, []
    for series in np.unique(origins.series):
        y = store.y[store.offsets[series] : store.offsets[series + 1] - part.hidden].astype(np.float64)
        scale = np.nanmean(np.abs(y[part.season :] - y[: -part.season]))
        rows = origins.series == series
        if scale > 0:
            found.append(np.nanmean(np.abs(actual[rows] - said[rows])) / scale)
    return float(np.mean(found))


def _naive(part: Part, origins: Origins) -> Floats:
    """[N, H] the last season before each origin."""
    store = origins.table.store
    back = np.arange(part.h) % part.season - part.season
    rows = (store.offsets[:-1][origins.series] + origins.time)[:, None] + back
    return store.y[rows].astype(np.float64)


def names() -> list[str]:
    """The models of the zoo."""
    from neuro_divergent import models

    return [name for name in models.__all__ if name not in LEFT_OUT]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="where the real data sets are")
    parser.add_argument("--sets", default=",".join(LOOKBACK), help="which sets, with commas between")
    parser.add_argument("--models", default="", help="which models, with commas between; all without it")
    parser.add_argument("--options", type=json.loads, default={}, help="fields of the models, as JSON")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=20, help="about how long a training may take, in core seconds")
    parser.add_argument("--validation", action="store_true", help="score the stretch before the last one")
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/zoo.json")
    arguments = parser.parse_args()
    options = {name: getattr(arguments, name) for name in ("validation", "options", "seed", "seconds")}
    lines: list[Line] = []
    for which in arguments.sets.split(","):
        for name in arguments.models.split(",") if arguments.models else names():
            lines.append(_line(name, which, _in_process(name, which, arguments.data, **options)))
            item = lines[-1]
            print(f"{item['what']:32} {item['figure']}  {item['note']}", file=sys.stderr, flush=True)
    print_table(lines)
    if arguments.write:
        partial = bool(arguments.models) or arguments.sets != ",".join(LOOKBACK)
        write("zoo", lines, command="python benchmarks/zoo.py", partial=partial)
    if any(item["ok"] is False for item in lines):
        sys.exit("a model is no better than the seasonal naive forecast")


def _line(name: str, which: str, found: dict[str, Any]) -> Line:
    what = f"{which}, {name}"
    if "error" in found:
        return line(what, float("nan"), unit="MASE", note=found["error"])
    capped = ", capped" if found["capped"] else ""
    note = f"seasonal naive {found['naive']:.3f}, {found['steps']} steps in {found['seconds']:.0f} core seconds{capped}"
    return line(what, found["mase"], at_most=found["naive"], unit="MASE", note=note)


def _in_process(name: str, which: str, folder: Path, **options: Any) -> dict[str, Any]:
    """The result of `one` in a new process, which has imported the library already."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "neuro_divergent", "zoo"])
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        found: Future[dict[str, Any]] = pool.submit(one, name, which, folder, **options)
        try:
            return found.result()
        except Exception as error:  # one model's failure is a line of the table
            return {"error": f"{type(error).__name__}: {str(error)[:200]}"}


if __name__ == "__main__":
    main()
