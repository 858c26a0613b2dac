"""`neuro-divergent bench`: measure how fast this machine trains and forecasts, alone or beside other packages."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import note, say, say_json, table
from neuro_divergent.cli.request.run_file import ModelName, Names, split
from neuro_divergent.core.errors import ConfigError

HORIZON, LOOKBACK, BATCH = 24, 168, 256
MODELS = "nhits,dlinear,mlp,lstm"
STEPS, STEPS_AGAINST = 50, 20


def bench(
    *,
    models: ModelName = None,
    steps: int | None = None,
    against: Names = (),
    peer_python: Names = (),
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Measure training and forecasting on this machine, on a generated panel of 50 hourly series.

    With --against, compare the time of a training step with other packages. Every package trains the same
    architecture with the same sizes and the same number of windows per step, on 400 series of 800 points. Each package
    runs in its own process, and the processes take turns.

    Parameters
    ----------
    models
        Names of models, such as nhits,lstm,patchtst. Default: nhits,dlinear,mlp,lstm. With --against, the default is
        every model that the other package has too.
    steps
        Optimizer steps to time. Default: 50, or 20 with --against.
    against
        Packages to compare with: neuralforecast,darts,gluonts,pytorch-forecasting. Packages that are not installed are
        skipped with a message.
    peer_python
        Where a package is installed, if not here: NAME=PATH of a Python, such as darts=envs/darts/bin/python. May be
        repeated.
    json
        Print JSON.
    """
    if steps is not None and steps < 1:
        raise ConfigError(f"--steps must be at least 1, but got {steps}")
    if against:
        _against(split(against), peer_python, split((models,) if models else ()), steps or STEPS_AGAINST, json)
        return
    if peer_python:
        raise ConfigError("--peer-python needs --against, but --against was not given. Add --against with the package")
    _alone(split((models or MODELS,)), steps or STEPS, json)


def _against(names: Sequence[str], pythons: Sequence[str], models: Sequence[str], steps: int, json: bool) -> None:
    from neuro_divergent.cli.peers import registry as peers

    chosen = {peer: peers.models_of(peer, models) for peer in peers.known(names)}
    found, sentences = peers.present(list(chosen), peers.interpreters(pythons))
    for sentence in sentences:
        note(f"neuro-divergent: {sentence}")
    results = []
    for peer, compared in chosen.items():
        for model in compared:
            results.append(peers.compare(peer, model, found[peer], steps=steps))
            note(f"{model} of {peer} measured" if found[peer] else f"{model} measured, without {peer}")
    if json:
        say_json({"results": [item.facts() for item in results], "skipped": sentences})
        return
    rows = [
        [
            item.peer,
            item.model,
            str(item.windows),
            f"{item.ours.milliseconds:.1f}",
            "-" if item.theirs is None else f"{item.theirs.milliseconds:.1f}",
            "-" if item.ratio is None else f"{item.ratio:.2f}",
        ]
        for item in results
    ]
    say(table(["against", "model", "windows", "ours, ms", "theirs, ms", "times faster"], rows, left=2))
    say(f"a training step: h 24, input_size 96, 400 series of 800 points, best of two trainings, {steps} steps each")
    versions = {item.peer: item.theirs.version for item in results if item.theirs is not None}
    say(", ".join(f"{name} {version}" for name, version in versions.items()) or "no other package was measured")


def _alone(models: Sequence[str], steps: int, json: bool) -> None:
    import torch

    from neuro_divergent.data import samples
    from neuro_divergent.data.table import TimeSeriesDataFrame

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
    for name in models:
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
    from neuro_divergent.forecasting.model.model import Model
    from neuro_divergent.training.config.training_config import TrainingConfig

    registry.resolve("model", name)
    model = Model.from_dict({"kind": name, "h": HORIZON, "input_size": LOOKBACK})
    settings = TrainingConfig(max_steps=steps, batch_size=BATCH, validation_split=None, progress=False)
    model.fit(data, settings.replace(max_steps=2))  # a warm-up, so that one-time costs are not measured
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
