"""What diagnostics cost: processor time of a training with each of them, against the same training without.

The sides alternate, and each has the same steps. A share is the median over rounds of (with - without) / without, both
of the same round. Beside our analyzer stand histograms of weights and gradients in TensorBoard, and wandb.watch
offline, at the same interval of 50 steps. wandb is looked for in the folder that ND_WANDB names, too.

python benchmarks/diagnostics.py --steps 300 --rounds 5
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any, ClassVar

import neuro_divergent as nd
from harness import line, print_table, write

EVERY = 50
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


def seconds(model: nd.Model, data: nd.TimeSeriesDataFrame, steps: int, callbacks: list[Any]) -> float:
    """Processor time of a training."""
    config = nd.TrainingConfig(
        max_steps=steps,
        steps_per_epoch=steps,
        validation_split=None,
        early_stopping=None,
        compile=False,
        progress=False,
        callbacks=callbacks,
    )
    begun = time.process_time()
    model.fit(data, config)
    return time.process_time() - begun


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    data = nd.TimeSeriesDataFrame.from_frame(nd.samples.hourly_panel(20))
    models = {"NHITS": nd.NHITS(h=24, input_size=96), "LSTM": nd.LSTM(h=24, input_size=48)}
    lines = []
    with tempfile.TemporaryDirectory() as name:
        every = sides(Path(name))
        for title, model in models.items():
            seconds(model, data, 20, [])  # the first training imports and allocates
            rounds = [
                {side: seconds(model, data, given.steps, made()) for side, made in every.items()}
                for _ in range(given.rounds)
            ]
            for side in list(every)[1:]:
                share = median(one[side] / one["bare"] - 1 for one in rounds)
                limit = USUAL if side.endswith("defaults") else WHOLE if side.startswith("Gradient") else None
                what = f"{title}: {side}, share of a step"
                lines.append(line(what, 100 * share, **({} if limit is None else {"at_most": 100 * limit}), unit="%"))
    print_table(lines)
    if given.write:
        write("diagnostics", lines, command=f"python benchmarks/diagnostics.py --steps {given.steps}")


if __name__ == "__main__":
    main()
