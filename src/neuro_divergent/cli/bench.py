"""`neuro-divergent bench`: how fast this machine trains and forecasts, model by model."""

from __future__ import annotations

import time
from typing import Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.options import split
from neuro_divergent.cli.output import note, say, say_json, table
from neuro_divergent.core.errors import ConfigError

HORIZON, LOOKBACK, BATCH = 24, 168, 256


def bench(
    *,
    models: str = "nhits,dlinear,mlp,lstm",
    steps: int = 50,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Measure training and forecasting on this machine, on a generated panel of 50 hourly series.

    Parameters
    ----------
    models
        Names of models, such as nhits,lstm,patchtst.
    steps
        Optimizer steps that are timed.
    json
        Print JSON for machines.
    """
    import torch

    from neuro_divergent.data import samples
    from neuro_divergent.data.frame import TimeSeriesDataFrame

    if steps < 1:
        raise ConfigError(f"--steps must be at least 1, but got {steps}")
    data = TimeSeriesDataFrame.from_frame(samples.hourly_panel())
    facts = {
        "torch": torch.__version__,
        "threads": torch.get_num_threads(),
        "device": "cuda" if torch.cuda.is_available() else "cpu",
        "batch_size": BATCH,
        "h": HORIZON,
        "input_size": LOOKBACK,
    }
    results = []
    for name in split((models,)):
        results.append(_measure(name, data, steps))
        note(f"{results[-1]['model']} measured")
    if json:
        say_json({"machine": facts, "results": results})
        return
    rows = [
        [
            str(item["model"]),
            f"{item['parameters']:,}",
            f"{item['steps_per_second']:.1f}",
            f"{item['windows_per_second']:,.0f}",
            f"{item['forecast_ms']:.1f}",
        ]
        for item in results
    ]
    say(table(["model", "parameters", "steps/s", "windows/s", "forecast of 50 series, ms"], rows))
    say(f"batch {BATCH}, h {HORIZON}, input_size {LOOKBACK}, {facts['threads']} threads, torch {facts['torch']}")


def _measure(name: str, data: Any, steps: int) -> dict[str, Any]:
    from neuro_divergent.core import registry
    from neuro_divergent.forecasting.model import Model
    from neuro_divergent.training.config import TrainingConfig

    registry.resolve("model", name)
    model = Model.from_dict({"kind": name, "h": HORIZON, "input_size": LOOKBACK})
    settings = TrainingConfig(max_steps=steps, batch_size=BATCH, validation_split=None, progress=False)
    model.fit(data, settings.replace(max_steps=2))  # what is done only once is not measured
    begun = time.perf_counter()
    fitted = model.fit(data, settings)
    seconds = time.perf_counter() - begun
    times = []
    for _ in range(5):
        begun = time.perf_counter()
        fitted.predict()
        times.append(time.perf_counter() - begun)
    return {
        "model": model.name,
        "parameters": fitted.num_parameters,
        "steps_per_second": steps / seconds,
        "windows_per_second": steps * BATCH / seconds,
        "forecast_ms": 1000 * sorted(times)[len(times) // 2],
    }
