"""Measures the time per training step of one side. This script also runs under a Python without this package.

    python peer_steps.py SIDE PEER MODEL STEPS THREADS

SIDE is "ours" or the name of the peer. Both sides train the same architecture with the same sizes and the same number
of windows per step on 400 series of 800 points, lookback 96, horizon 24. The script measures from the start of a step
to the start of the step STEPS later, in the middle of a training, so that fixed costs do not count. THREADS is 0 if
the math library decides. Prints one line of JSON.
"""

from __future__ import annotations

import json
import logging
import sys
import time
import warnings
from collections.abc import Callable
from importlib import import_module
from typing import Any

SERIES, LENGTH, LOOKBACK, HORIZON = 400, 800, 96, 24
WINDOWS = {"MLP": 1024, "NHITS": 1024, "NBEATS": 1024, "DeepAR": 128, "TFT": 128}
MODELS = {
    "neuralforecast": ("MLP", "NHITS"),
    "darts": ("NBEATS", "NHITS"),
    "gluonts": ("MLP", "DeepAR"),
    "pytorch-forecasting": ("NHITS", "TFT"),
}
"""Peer → its models that have the same architecture as ours."""

QUIET = {"enable_progress_bar": False, "logger": False, "enable_model_summary": False}
SKIPPED = 3
"""Steps at the start of a training that are not counted."""


class Clock:
    """Records when each step began, and the number of trained parameters."""

    def __init__(self) -> None:
        self.marks: list[float] = []
        self.parameters = 0

    def mark(self, module: Any) -> None:
        """Record that a step begins."""
        if not self.marks:
            self.parameters = sum(parameter.numel() for parameter in module.parameters() if parameter.requires_grad)
        self.marks.append(time.perf_counter())

    def milliseconds(self) -> float:
        """Milliseconds per step, without the first steps."""
        marks = self.marks[SKIPPED:]
        return 1000 * (marks[-1] - marks[0]) / (len(marks) - 1)


Training = Callable[[int, Clock], object]
"""Trains this many steps and marks each in the clock."""


def panel() -> Any:
    """[series, time]: a daily wave, noise, and a different level for each series."""
    np = import_module("numpy")
    rng = np.random.default_rng(0)
    wave = np.sin(np.arange(LENGTH) * 2 * np.pi / 24)
    noise = 0.3 * rng.standard_normal((SERIES, LENGTH))
    return (wave + noise + 5 * rng.random((SERIES, 1))).astype(np.float32)


def columns() -> dict[str, Any]:
    """The panel as one long table."""
    np = import_module("numpy")
    ids, places = np.repeat(np.arange(SERIES), LENGTH), np.tile(np.arange(LENGTH), SERIES)
    return {"unique_id": [f"s{number:03}" for number in ids], "ds": places, "y": panel().reshape(-1)}


def ours(peer: str, model: str) -> Training:
    """A training of this package, with the sizes of the peer's model."""
    nd, pl = import_module("neuro_divergent"), import_module("polars")
    shapes: dict[str, dict[str, Any]] = {
        "MLP": {"hidden_size": 256, "layers": 2},
        "NHITS": {"hidden_sizes": (512,) * (4 if peer == "neuralforecast" else 2)},
        "NBEATS": {
            "stacks": ("trend", "seasonality"),
            "blocks": (3, 3),
            "hidden_sizes": (256,) * 4,
            "harmonics": 1,
            "share_weights": True,
        },
        "DeepAR": {"hidden_size": 64, "layers": 2, "lags": None},
        "TFT": {"hidden_size": 32, "lags": None, "anchor": None},
    }
    description = getattr(nd, model)(h=HORIZON, input_size=LOOKBACK, **shapes[model])
    loss = nd.DistributionLoss(distribution="StudentT") if peer == "gluonts" else nd.MAE()
    data = nd.TimeSeriesDataFrame.from_frame(pl.DataFrame(columns()), freq=1)

    base: Any = nd.Callback

    class Marks(base):  # type: ignore[misc]  # only known when it runs
        def __init__(self, clock: Clock) -> None:
            self.clock = clock

        def on_batch_start(self, state: Any) -> None:
            self.clock.mark(state.module)

    def train(steps: int, clock: Clock) -> object:
        config = nd.TrainingConfig(
            max_steps=steps,
            batch_size=WINDOWS[model],
            validation_split=None,
            optimizer=nd.Adam(learning_rate=1e-3),
            loss=loss,
            callbacks=[Marks(clock)],
            progress=False,
        )
        return description.fit(data, config)

    return train


def lightning_marks(package: str, clock: Clock) -> Any:
    """A callback for the Lightning version that the peer uses."""

    base: Any = import_module(package).Callback

    class Marks(base):  # type: ignore[misc]  # only known when it runs
        def on_train_batch_start(self, trainer: Any, module: Any, *rest: Any) -> None:  # noqa: ARG002
            clock.mark(module)

    return Marks()


def neuralforecast(model: str) -> Training:
    """neuralforecast: shuffled windows of 32 series."""
    pandas, models = import_module("pandas"), import_module("neuralforecast.models")
    table = pandas.DataFrame(columns())
    shapes = {"MLP": {"hidden_size": 256, "num_layers": 2}, "NHITS": {}}

    def train(steps: int, clock: Clock) -> object:
        built = getattr(models, model)(
            h=HORIZON,
            input_size=LOOKBACK,
            max_steps=steps,
            windows_batch_size=WINDOWS[model],
            val_check_steps=10**6,
            enable_checkpointing=False,
            callbacks=[lightning_marks("pytorch_lightning", clock)],
            **shapes[model],
            **QUIET,
        )
        return import_module("neuralforecast").NeuralForecast(models=[built], freq=1).fit(table)

    return train


def darts(model: str) -> Training:
    """darts: interpretable N-BEATS, or N-HiTS with the paper's sizes."""
    models, torch = import_module("darts.models"), import_module("torch")
    series = [import_module("darts").TimeSeries.from_values(row) for row in panel()]
    shapes: dict[str, tuple[str, dict[str, Any]]] = {
        "NBEATS": (
            "NBEATSModel",
            {"generic_architecture": False, "num_blocks": 3, "num_layers": 4, "layer_widths": 256},
        ),
        "NHITS": (
            "NHiTSModel",
            {"pooling_kernel_sizes": ((2,), (2,), (1,)), "n_freq_downsample": ((4,), (2,), (1,)), "dropout": 0.0},
        ),
    }
    kind, shape = shapes[model]

    def train(steps: int, clock: Clock) -> object:
        trainer = {
            "max_steps": steps,
            "accelerator": "cpu",
            "enable_checkpointing": False,
            "callbacks": [lightning_marks("pytorch_lightning", clock)],
            **QUIET,
        }
        return getattr(models, kind)(
            input_chunk_length=LOOKBACK,
            output_chunk_length=HORIZON,
            batch_size=WINDOWS[model],
            n_epochs=10**6,
            loss_fn=torch.nn.L1Loss(),
            pl_trainer_kwargs=trainer,
            **shape,
        ).fit(series)

    return train


def gluonts(model: str) -> Training:
    """gluonts: a perceptron, or DeepAR that reads the previous value, both for a Student's t distribution."""
    pandas, torch_models = import_module("pandas"), import_module("gluonts.torch")
    rows = [{"start": pandas.Period("2024-01-01", "h"), "target": row} for row in panel()]
    data = import_module("gluonts.dataset.common").ListDataset(rows, freq="h")

    def train(steps: int, clock: Clock) -> object:
        trainer = {"max_epochs": 1, "callbacks": [lightning_marks("lightning.pytorch", clock)], **QUIET}
        shared = {
            "prediction_length": HORIZON,
            "context_length": LOOKBACK,
            "batch_size": WINDOWS[model],
            "num_batches_per_epoch": steps,
            "trainer_kwargs": trainer,
        }
        if model == "MLP":  # the last size is the vector of each step, from which the distribution is computed
            return torch_models.SimpleFeedForwardEstimator(hidden_dimensions=[256, 256, 3], **shared).train(data)
        return torch_models.DeepAREstimator(freq="h", hidden_size=64, lags_seq=[1], time_features=[], **shared).train(
            data
        )

    return train


def pytorch_forecasting(model: str) -> Training:
    """pytorch-forecasting: N-HiTS or TFT on windows of its dataset."""
    pandas, lightning = import_module("pandas"), import_module("lightning.pytorch")
    package, nn = import_module("pytorch_forecasting"), import_module("torch").nn
    data = package.TimeSeriesDataSet(
        pandas.DataFrame(columns()),
        time_idx="ds",
        target="y",
        group_ids=["unique_id"],
        min_encoder_length=LOOKBACK,
        max_encoder_length=LOOKBACK,
        max_prediction_length=HORIZON,
        time_varying_unknown_reals=["y"],
        add_relative_time_idx=model == "TFT",
    )
    loader = data.to_dataloader(train=True, batch_size=WINDOWS[model], num_workers=0)
    shapes: dict[str, tuple[str, dict[str, Any]]] = {
        "NHITS": ("NHiTS", {"pooling_sizes": [2, 2, 1], "downsample_frequencies": [4, 2, 1]}),
        "TFT": ("TemporalFusionTransformer", {"hidden_size": 32, "hidden_continuous_size": 32, "output_size": 1}),
    }
    kind, shape = shapes[model]

    def train(steps: int, clock: Clock) -> object:
        network = getattr(package, kind).from_dataset(
            data, learning_rate=1e-3, loss=package.MAE(), logging_metrics=nn.ModuleList([]), **shape
        )
        trainer = lightning.Trainer(
            max_steps=steps,
            accelerator="cpu",
            enable_checkpointing=False,
            callbacks=[lightning_marks("lightning.pytorch", clock)],
            **QUIET,
        )
        return trainer.fit(network, train_dataloaders=loader)

    return train


PEERS: dict[str, Callable[[str], Training]] = {
    "neuralforecast": neuralforecast,
    "darts": darts,
    "gluonts": gluonts,
    "pytorch-forecasting": pytorch_forecasting,
}


def measured(train: Training, steps: int) -> dict[str, float]:
    """Milliseconds per step, the best of two trainings, and the number of trained parameters."""
    clocks = [Clock(), Clock()]
    for clock in clocks:
        train(SKIPPED + 1 + steps, clock)
    return {"milliseconds": min(clock.milliseconds() for clock in clocks), "parameters": clocks[0].parameters}


def main(arguments: list[str]) -> None:
    """Measure the side that the arguments name."""
    side, peer, model, steps, threads = arguments
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch = import_module("torch")
    torch.manual_seed(1)
    if int(threads):
        torch.set_num_threads(int(threads))
    train = ours(peer, model) if side == "ours" else PEERS[peer](model)
    package = "neuro_divergent" if side == "ours" else peer.replace("-", "_")
    facts = {"version": str(import_module(package).__version__), "torch": str(torch.__version__)}
    sys.stdout.write("\n" + json.dumps(measured(train, int(steps)) | facts) + "\n")


if __name__ == "__main__":
    main(sys.argv[1:])
