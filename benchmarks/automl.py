"""AutoForecaster beside AutoGluon-TimeSeries and our own NHITS recipe, in the same time on the same rows.

    python benchmarks/automl.py [--sets m4_hourly,m4_yearly,tourism,vic_elec] [--sides ours,nhits] [--write]
    python benchmarks/automl.py --choose --seconds 60        # before the test part: settings are chosen there
    AUTOGLUON_PYTHON=/path/to/python python benchmarks/automl.py --sides autogluon --write

Each set has known rows and a test part, which only scores. AutoGluon (`medium_quality`, without the pre-trained Chronos
models) runs in a Python of its own, which AUTOGLUON_PYTHON names; without one it is skipped. Both use all cores that
the process may use. The seconds are those of fit, imports left out.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from harness import RESULTS, Line, line, print_table, write

Floats = npt.NDArray[np.float64]
DATA = Path("../shared/data")
KEYS = ["unique_id", "ds"]
SEASON = "season"
PEER = Path(__file__).with_name("_autogluon.py")


@dataclass(frozen=True)
class Set:
    """Rows of a set: the last h · windows of each series are the test part."""

    name: str
    rows: pl.DataFrame
    h: int
    season: int
    freq: str
    windows: int = 1

    def known(self, window: int = 0) -> pl.DataFrame:
        """The rows before a test window, counted from the first."""
        held = self.h * (self.windows - window)
        return self.rows.filter(pl.int_range(pl.len()).over("unique_id") < pl.len().over("unique_id") - held)

    def earlier(self) -> Set:
        """The set without its test part: the stretch before it becomes the test part."""
        return replace(self, rows=self.known())


def m4(folder: Path, name: str, h: int, season: int, series: int | None) -> Set:
    """A set of the M4 competition; so many series, evenly spread over the sorted names."""
    columns = pl.col("unique_id"), pl.col("ds").cast(pl.Int64), pl.col("y").cast(pl.Float64)
    both = pl.concat([pl.read_parquet(folder / f"{name}_{part}.parquet").select(columns) for part in ("train", "test")])
    if series is not None:
        ids = both["unique_id"].unique().sort()
        ids = ids.gather(np.linspace(0, len(ids) - 1, series).astype(int))
        both = both.filter(pl.col("unique_id").is_in(ids.to_list()))
    return Set(name, both.sort(KEYS), h, season, "1i")


def tourism(folder: Path) -> Set:
    """304 quarterly series of tourism in Australia; the last two years are the test part."""
    table = pl.read_parquet(folder / "australia_tourism_quarterly.parquet").select([*KEYS, "y"]).sort(KEYS)
    return Set("tourism", table, 8, 4, "1q")


def vic_elec(folder: Path) -> Set:
    """Half-hourly demand of Victoria; the last fourteen days, one day at a time."""
    table = pl.read_parquet(folder / "vic_elec_30min.parquet").select([*KEYS, "y"]).sort(KEYS)
    return Set("vic_elec", table, 48, 48, "30m", windows=14)


SETS: dict[str, Callable[[Path], Set]] = {
    "m4_hourly": lambda folder: m4(folder, "m4_hourly", 48, 24, None),
    "m4_yearly": lambda folder: m4(folder, "m4_yearly", 6, 1, 2000),
    "tourism": tourism,
    "vic_elec": vic_elec,
}


# forecasts are [N, H]: the windows of the first test origin, then those of the next


def truth(data: Set) -> Floats:
    """[N, H] what happened."""
    return _windows(data, data.rows, "y")


def _windows(data: Set, frame: pl.DataFrame, column: str) -> Floats:
    total = data.h * data.windows
    last = frame.filter(pl.int_range(pl.len()).over("unique_id") >= pl.len().over("unique_id") - total).sort(KEYS)
    values = last[column].to_numpy().astype(np.float64).reshape(-1, data.windows, data.h)
    return values.transpose(1, 0, 2).reshape(-1, data.h)


def scores(data: Set, forecast: Floats) -> dict[str, float]:
    """sMAPE in percent and MASE, means over series and windows."""
    actual = truth(data)
    size = np.abs(actual) + np.abs(forecast)
    smape = 200 * np.mean(np.abs(actual - forecast) / np.where(size > 0, size, 1))
    known = data.known()
    lagged = (pl.col("y") - pl.col("y").shift(data.season).over("unique_id")).abs()
    scales = known.with_columns(lagged.alias("d")).group_by("unique_id").agg(pl.col("d").mean()).sort("unique_id")
    scale = np.tile(scales["d"].fill_null(np.nan).to_numpy(), data.windows)
    each = np.abs(actual - forecast).mean(axis=1) / np.where(scale > 0, scale, np.nan)
    return {"smape": float(smape), "mase": float(np.nanmean(each))}


def naive(data: Set) -> Floats:
    """[N, H] the seasonal naive forecast."""
    found = []
    for window in range(data.windows):
        known = data.known(window)
        last = known.group_by("unique_id", maintain_order=True).agg(pl.col("y").tail(data.season)).sort("unique_id")
        found.append(np.array([np.resize(np.asarray(values, dtype=np.float64), data.h) for values in last["y"]]))
    return np.concatenate(found)


@dataclass
class Outcome:
    """What one side did on one set."""

    scores: dict[str, float]
    seconds: float
    note: str = ""
    members: dict[str, dict[str, float]] | None = None
    """The scores of the single models of the portfolio."""


def forecasts(fitted: Any, data: Set, name: str, options: dict[str, Any]) -> Floats:
    """[N, H] the forecasts of a fitted object after the known rows of each test window."""
    import neuro_divergent as nd

    found = []
    for window in range(data.windows):
        table = None if window == 0 else nd.TimeSeriesDataFrame.from_frame(data.known(window), **options)
        frame = fitted.predict(table).sort(KEYS)
        found.append(frame[name].to_numpy().astype(np.float64).reshape(-1, data.h))
    return np.concatenate(found)


def ours(data: Set, seconds: float, jobs: int, preset: str, singles: bool) -> Outcome:
    """AutoForecaster, and every single model of its portfolio on the test part."""
    import neuro_divergent as nd

    options = {"freq": data.freq}
    table = nd.TimeSeriesDataFrame.from_frame(data.known(), **options)
    with tempfile.TemporaryDirectory() as folder:
        auto = nd.AutoForecaster(
            h=data.h, preset=preset, time_limit=seconds, n_jobs=jobs, directory=Path(folder) / "work"
        )  # type: ignore[arg-type]
        begun = time.perf_counter()
        result = auto.fit(table)
        spent = time.perf_counter() - begun
        print(result, result.leaderboard, sep="\n", flush=True)
        found = scores(data, forecasts(result, data, "AutoForecaster", options))
        members = _singles(result, Path(folder) / "work", data, options) if singles else None
    return Outcome(
        found,
        spent,
        " + ".join(f"{w:.2f} {m.model.name}" for w, m in zip(result.weights, result.members, strict=True)),
        members,
    )


def _singles(result: Any, directory: Path, data: Set, options: dict[str, Any]) -> dict[str, dict[str, float]]:
    """The scores of every model that was trained, after it was trained on all rows, and of those of the ensemble.

    Models without weight had no such training in the time limit: they get it here, as long as it takes.
    """
    import neuro_divergent as nd
    from neuro_divergent.core.runs.names import FINAL, MEMBERS, MODEL
    from neuro_divergent.search.auto.member import final

    found = {
        f"{one.model.name} of the ensemble {number}": scores(data, forecasts(one, data, one.model.name, options))
        for number, one in enumerate(result.members)
    }
    for place in sorted((directory / MEMBERS).iterdir()):
        if (place / MODEL).exists() and not (place / FINAL).exists():
            final(str(directory), json.dumps({"number": int(place.name), "steps": 10**9}))
            one = nd.load(place / FINAL)
            found[f"{one.model.name} {place.name}"] = scores(data, forecasts(one, data, one.model.name, options))
    return found


def nhits(data: Set) -> Outcome:
    """Our NHITS recipe, with the lookback of the shell."""
    import neuro_divergent as nd
    from neuro_divergent.cli.request.horizon import lookback

    options = {"freq": data.freq}
    table = nd.TimeSeriesDataFrame.from_frame(data.known(), **options)
    size = lookback(table, data.h, table.store.lengths - data.h)
    begun = time.perf_counter()
    fitted = nd.NHITS(h=data.h, input_size=size).fit(table, nd.TrainingConfig(progress=False), short="pad")
    spent = time.perf_counter() - begun
    return Outcome(scores(data, forecasts(fitted, data, "NHITS", options)), spent, f"lookback {size}")


def autogluon(data: Set, seconds: float, python: str) -> Outcome | None:
    """AutoGluon in its own Python; None, with a message, if there is none."""
    if not python or not Path(python).exists():
        print("AutoGluon is skipped: AUTOGLUON_PYTHON names no Python that has autogluon.timeseries")
        return None
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for window in range(data.windows):
            data.known(window).write_parquet(place / f"known{window}.parquet")
        order = {"h": data.h, "freq": data.freq, "windows": data.windows, "seconds": seconds, "season": data.season}
        (place / "order.json").write_text(json.dumps(order))
        done = subprocess.run([python, str(PEER), folder], capture_output=True, text=True)
        if done.returncode:
            print(f"AutoGluon failed: {done.stderr.strip().splitlines()[-1:]}")
            return None
        facts = json.loads((place / "facts.json").read_text())
        return Outcome(scores(data, np.load(place / "forecast.npy")), facts["seconds"], facts["note"])


def run(data: Set, sides: list[str], seconds: float, jobs: int, preset: str) -> dict[str, Outcome]:
    """Every side on one set."""
    found: dict[str, Outcome] = {"seasonal naive": Outcome(scores(data, naive(data)), 0.0)}
    if "ours" in sides:
        found["AutoForecaster"] = ours(data, seconds, jobs, preset, singles=True)
    if "nhits" in sides:
        found["NHITS"] = nhits(data)
    if "autogluon" in sides:
        peer = autogluon(data, seconds, os.environ.get("AUTOGLUON_PYTHON", ""))
        if peer is not None:
            found["AutoGluon"] = peer
    return found


def lines_of(name: str, found: dict[str, Outcome], seconds: float) -> list[Line]:
    """The figures of one set."""
    result: list[Line] = []
    own = found.get("AutoForecaster")
    for side, outcome in found.items():
        note = outcome.note[:120]
        result += [line(f"{name}, {side}: {metric}", outcome.scores[metric], note=note) for metric in ("smape", "mase")]
        if side != "seasonal naive":
            limit = 1.05 * seconds if side == "AutoForecaster" else None
            result.append(line(f"{name}, {side}: seconds", outcome.seconds, at_most=limit, unit="s"))
    if own is not None and own.members:
        best = min(own.members, key=lambda one: own.members[one]["mase"])  # type: ignore[index]
        ratio = own.scores["mase"] / own.members[best]["mase"]
        result.append(
            line(f"{name}, MASE over the best single model of the portfolio", ratio, at_most=1.02, unit="x", note=best)
        )
    return result


def ratios(lines: list[Line]) -> list[Line]:
    """Ours over AutoGluon's, of every set whose two sides were measured, now or in an earlier run."""
    figures: dict[str, float | None] = {}
    if (RESULTS / "automl.json").is_file():
        known = json.loads((RESULTS / "automl.json").read_text(encoding="utf-8"))["lines"]
        figures |= {one["what"]: one["figure"] for one in known}
    figures |= {one["what"]: one["figure"] for one in lines}
    found, better = [], []
    for name in SETS:
        for metric in ("smape", "mase"):
            ours, peer = (figures.get(f"{name}, {side}: {metric}") for side in ("AutoForecaster", "AutoGluon"))
            if ours and peer:
                found.append(line(f"{name}, {metric} over AutoGluon's", ours / peer, unit="x"))
                better += [ours <= peer] if metric == "mase" else []
    if len(better) == len(SETS):
        found.append(line("sets with a MASE no worse than AutoGluon's", sum(better), at_least=3))
    return found


def main() -> None:
    """Run the sets."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", default=",".join(SETS))
    parser.add_argument("--sides", default="ours,nhits,autogluon")
    parser.add_argument("--seconds", type=float, default=180.0)
    parser.add_argument("--jobs", type=int, default=-1)
    parser.add_argument("--preset", default="medium")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--choose", action="store_true", help="score the stretch before the test part")
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines: list[Line] = []
    for name in given.sets.split(","):
        data = SETS[name](given.data)
        found = run(
            data.earlier() if given.choose else data, given.sides.split(","), given.seconds, given.jobs, given.preset
        )
        lines += lines_of(name, found, given.seconds)
        print_table(lines_of(name, found, given.seconds))
        sys.stdout.flush()
    if given.write and not given.choose:
        command = "python benchmarks/automl.py"
        lines += ratios(lines)
        print_table(ratios(lines))
        write("automl", lines, command, partial=True, more_versions={"autogluon.timeseries": "1.6.3"})


if __name__ == "__main__":
    main()
