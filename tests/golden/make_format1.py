"""Write tests/golden/format1: models and an interrupted run in format 1, and what they gave when they were saved.

    python tests/golden/make_format1.py DIRECTORY

The committed files were written by the code of release 0.1. Never write them again: that they were written by old code
is what test_format1.py needs.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import polars as pl

import neuro_divergent as nd

SMALL = {"h": 4, "input_size": 8}
FAST = nd.TrainingConfig(max_steps=6, batch_size=16, steps_per_epoch=4, progress=False, seed=5, threads=1)


def table() -> pl.DataFrame:
    """Two hourly series with a column known ahead."""
    hours = nd.samples.hourly_panel(2, 60)
    return hours.select("unique_id", "ds", "y").with_columns(pl.col("ds").dt.hour().cast(pl.Float32).alias("hour"))


def future() -> pl.DataFrame:
    """The column known ahead, after the table."""
    last = table()["ds"].max()
    stamps = [last + pl.duration(hours=step) for step in range(1, 5)]
    frame = pl.select(pl.concat_list(stamps).explode().alias("ds"))
    ids = pl.DataFrame({"unique_id": table()["unique_id"].unique(maintain_order=True)})
    return ids.join(frame, how="cross").with_columns(pl.col("ds").dt.hour().cast(pl.Float32).alias("hour"))


class _Stop(nd.Callback):
    def on_batch_end(self, state: nd.TrainState) -> None:
        if state.step == 6:
            state.stop("as planned")


def interrupted(where: Path, **fields: object) -> nd.TrainingConfig:
    """Ten steps with checkpoints, the last one written in the middle of an epoch."""
    saved = nd.Checkpoints(str(where), every_n_steps=3, keep_last=1)
    return FAST.replace(max_steps=10, checkpoints=saved, **fields)


def main(where: Path) -> None:
    """Write everything."""
    rows = table()
    plain = rows.drop("hour")
    expected: dict[str, list[float]] = {}
    quantiles = nd.MLP(**SMALL, hidden_size=4, layers=1).fit(
        rows, FAST.replace(loss=nd.MQLoss(level=[80])), future=["hour"]
    )
    quantiles.save(where / "quantiles")
    expected["quantiles"] = quantiles.predict(future=future()).drop("unique_id", "ds").to_numpy().ravel().tolist()
    recurrent = nd.LSTM(**SMALL, hidden_size=4, layers=1, anchor="last").fit(plain, FAST)
    recurrent.save(where / "recurrent")
    expected["recurrent"] = recurrent.predict().drop("unique_id", "ds").to_numpy().ravel().tolist()
    several = nd.NeuralForecast([nd.DLinear(**SMALL), nd.MLP(**SMALL, hidden_size=4, layers=1)], freq="1h")
    several.fit(plain, FAST)
    several.save(where / "several")
    expected["several"] = several.predict().drop("unique_id", "ds").to_numpy().ravel().tolist()
    members = nd.seed_ensemble(nd.DLinear(**SMALL), plain, FAST, seeds=2)
    members.save(where / "ensemble")
    expected["ensemble"] = members.predict().drop("unique_id", "ds").to_numpy().ravel().tolist()
    model = nd.MLP(**SMALL, hidden_size=4, layers=1)
    model.fit(plain, interrupted(where / "run", callbacks=(_Stop(),)))
    whole = model.fit(plain, FAST.replace(max_steps=10))
    expected["run"] = whole.history.step_loss
    (where / "expected.json").write_text(json.dumps(expected, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
