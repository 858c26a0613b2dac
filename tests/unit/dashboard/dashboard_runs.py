"""Run directories for tests of the dashboard, written as a training writes them."""

import json
import time
from pathlib import Path

CONFIG = {"kind": "TrainingConfig", "seed": 1, "early_stopping": None}


def line(event, step, epoch=0, **values):
    return json.dumps(
        {"event": event, "time": values.pop("time", 1_700_000_000.0 + step), "step": step, "epoch": epoch} | values
    )


def steps_line(first, last, **values):
    numbers = list(range(first, last + 1))
    columns = {
        "loss": [1 / n for n in numbers],
        "gradient_norm": [1.0] * len(numbers),
        "learning_rate": [0.1] * len(numbers),
    }
    return line("steps", last, steps=numbers, **columns, **values)


def write_run(folder: Path, *, epochs=3, per_epoch=4, end="fit_end", best=0.5, about=None, extra=(), config=None):
    """A finished run: losses 1/n by step, validation losses best + distance to the middle epoch."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(CONFIG | (config or {})))
    if about is not None:
        (folder / "about.json").write_text(json.dumps(about))
    lines = [line("fit_start", 0, total_steps=epochs * per_epoch, steps_per_epoch=per_epoch)]
    for epoch in range(1, epochs + 1):
        done = epoch * per_epoch
        lines.append(steps_line(done - per_epoch + 1, done, memory=100 * 2**20))
        scores = {
            "train_loss": 1 / epoch,
            "validation_loss": best + abs(epoch - (epochs + 1) // 2),
            "validation_mae": 2.0,
        }
        lines.append(line("epoch", done, epoch, **scores))
    lines += list(extra)
    if end == "fit_end":
        lines.append(line("fit_end", epochs * per_epoch, epochs, why="all epochs were done"))
    elif end is not None:
        lines.append(line("error", epochs * per_epoch, epochs, error=end))
    (folder / "events.jsonl").write_text("\n".join(lines) + "\n")
    return folder


def scored(rows="rows-a", table="table-a", h=12, loss="MAE", naive=1.0):
    """What a run says of its data and its scores."""
    return {
        "schema": 1,
        "model": {"kind": "NHITS", "h": h},
        "data": {"fingerprint": table, "series": 1, "rows": 100, "freq": "1d"},
        "scored": {"rows": rows, "h": h, "loss": {"kind": loss}},
        "naive": {"season": 7, "validation_loss": naive, "validation_mae": 4.0},
    }


def until(check, seconds=10.0):
    """Wait until a check gives something true; the last answer if it never does."""
    end = time.monotonic() + seconds
    while not (found := check()) and time.monotonic() < end:
        time.sleep(0.02)
    return found
