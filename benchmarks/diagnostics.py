"""What diagnostics cost: processor time of a step with each of them, against the same training without.

One training per side. They advance in turns, by as many steps as lie between two observations, so that each turn of a
side has one. A share is the median over turns of (with - without) / without, both of the same turn: what else the
machine does meets all sides. Beside our analyzer stand histograms of weights and gradients in TensorBoard, and
wandb.watch offline, at the same interval of 50 steps. wandb is looked for in the folder that ND_WANDB names, too.
Fully compiled steps are observed every 400th step.

python benchmarks/diagnostics.py --steps 600
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import neuro_divergent as nd
from harness import line, print_table, write
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare

EVERY, COMPILED_EVERY = 50, 400
USUAL, WHOLE = 0.03, 0.15
"""Limits of the default and of everything."""


class TensorBoardHistograms(nd.Callback):
    """Histograms of all weights and gradients."""

    looks_at: ClassVar[frozenset[str]] = frozenset({"gradients"})

    def __init__(self, folder: Path) -> None:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))

    def on_gradients(self, state: Any) -> None:
        """Write the histograms of an observed step."""
        if state.step % EVERY == 0:
            for name, parameter in state.module.named_parameters():
                self.writer.add_histogram(f"weights/{name}", parameter, state.step)
                if parameter.grad is not None:
                    self.writer.add_histogram(f"gradients/{name}", parameter.grad, state.step)

    def on_fit_end(self, state: Any) -> None:  # noqa: ARG002
        """Close the file."""
        self.writer.close()


class WandbWatch(nd.Callback):
    """wandb.watch with gradients and weights, offline."""

    looks_at: ClassVar[frozenset[str]] = frozenset({"gradients"})

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def on_fit_start(self, state: Any) -> None:
        """Begin to watch."""
        import wandb

        self.run = wandb.init(mode="offline", dir=str(self.folder), settings=wandb.Settings(silent=True))
        self.run.watch(state.module, log="all", log_freq=EVERY)

    def on_batch_end(self, state: Any) -> None:
        """wandb keeps what it watched until the next call of log."""
        if state.step % EVERY == 0:
            self.run.log({"loss": state.loss})

    def on_fit_end(self, state: Any) -> None:
        """End the run."""
        self.run.unwatch(state.module)
        self.run.finish()


def sides(folder: Path) -> dict[str, Callable[[], list[Any]]]:
    """The callbacks of every side, by name."""
    found: dict[str, Callable[[], list[Any]]] = {
        "bare": list,
        "GradientAnalyzer, defaults": lambda: [nd.GradientAnalyzer()],
        "GradientAnalyzer, everything, every 10 steps": lambda: [nd.GradientAnalyzer(every_n_steps=10)],
    }
    if find_spec("tensorboard") is not None:
        found["TensorBoard histograms, every 50 steps"] = lambda: [TensorBoardHistograms(folder / "tensorboard")]
    if "ND_WANDB" in os.environ:
        sys.path.append(os.environ["ND_WANDB"])
    if find_spec("wandb") is not None:
        found["wandb.watch offline, every 50 steps"] = lambda: [WandbWatch(folder)]
    return found


def shares(
    model: nd.Model, data: Any, turns: int, every: Mapping[str, Callable[[], list[Any]]], *, compiled: bool = False
) -> dict[str, float]:
    """How much longer a step takes with each side than bare."""
    size = COMPILED_EVERY if compiled else EVERY
    steps = size * (turns + 1)
    config = nd.TrainingConfig(
        max_steps=steps,
        steps_per_epoch=steps,
        validation_split=None,
        early_stopping=None,
        refit=None,
        compile=compiled,
        progress=False,
    )
    runs = {side: prepare(job_of(model, data, config.replace(callbacks=made()))) for side, made in every.items()}
    found: dict[str, list[float]] = {side: [] for side in every}
    for turn in range(turns + 1):
        for side, run in runs.items():
            begun = time.process_time()
            run.advance(until=size * (turn + 1))
            found[side].append(time.process_time() - begun)
    for run in runs.values():
        run.finish()
    # The first turn imports and allocates.
    pairs = {side: zip(times[1:], found["bare"][1:], strict=True) for side, times in found.items()}
    return {side: median(own / bare - 1 for own, bare in pairs[side]) for side in list(every)[1:]}


def limit_of(side: str) -> dict[str, float]:
    """The limit of one of our sides; none for another package."""
    if not side.startswith("Gradient"):
        return {}
    return {"at_most": 100 * (USUAL if side.endswith("defaults") else WHOLE)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.hourly_panel(20))
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        every = sides(Path(name))
        for title, model in {"NHITS": nd.NHITS(h=24, input_size=96), "LSTM": nd.LSTM(h=24, input_size=48)}.items():
            found |= {f"{title}: {k}": v for k, v in shares(model, data, given.steps // EVERY, every).items()}
    ours = {"bare": list, "GradientAnalyzer, defaults": lambda: [nd.GradientAnalyzer()]}
    small = nd.MLP(h=24, input_size=48, hidden_size=64)
    compiled = shares(small, data, 4, ours, compiled=True)
    found |= {f"MLP, fully compiled: {side}": share for side, share in compiled.items()}
    lines = [
        line(f"{what}, share of a step", 100 * v, **limit_of(what.split(": ")[1]), unit="%")
        for what, v in found.items()
    ]
    print_table(lines)
    if given.write:
        write("diagnostics", lines, command=f"python benchmarks/diagnostics.py --steps {given.steps}",
              packages=("tensorboard", "wandb"))  # fmt: skip


if __name__ == "__main__":
    main()
