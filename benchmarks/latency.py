"""Latency of one forecast: p50 and p99 of `forecaster.forward` on one prepared window, for every model.

    python benchmarks/latency.py [--models MLP,NHITS] [--calls 2000]

Lookback 96, horizon 24, one window of raw values in, forecasts in original units out, on one thread. For MLP, NHITS and
LSTM also compiled with torch.compile, and exported with torch.export and compiled ahead of time, which has nothing to
check before a call; the fastest way is the one that the target is about.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch._inductor
from torch import Tensor, nn

import neuro_divergent as nd
from harness import Line, line, print_table, write
from neuro_divergent.core.batch import Batch
from neuro_divergent.forecasting.model.catalogue import catalogue

TARGETS = {"MLP": 210.0, "NHITS": 210.0}
COMPILED = ("MLP", "NHITS", "LSTM")


def quantiles(call: Callable[[], object], calls: int) -> tuple[float, float]:
    """p50 and p99 in microseconds."""
    for _ in range(50):
        call()
    times = np.empty(calls)
    for number in range(calls):
        begin = time.perf_counter()
        call()
        times[number] = time.perf_counter() - begin
    return float(np.quantile(times, 0.5) * 1e6), float(np.quantile(times, 0.99) * 1e6)


def measure(name: str, calls: int) -> dict[str, tuple[float, float]]:
    """Way of calling → p50 and p99."""
    panel = nd.samples.hourly_panel(4, 400)
    config = nd.TrainingConfig(max_steps=1, max_epochs=None, batch_size=8, progress=False, validation_split=None)
    fitted = getattr(nd, name)(h=24, input_size=96).fit(panel, config)
    channels = fitted.module.spec.series if fitted.model.capabilities.multivariate else 1
    window = torch.randn(1, 96) if channels == 1 else Batch(torch.randn(1, 96, channels))
    found = {"eager": quantiles(lambda: fitted.forward(window), calls)}
    if name in COMPILED:
        compiled = torch.compile(fitted.module, dynamic=False)
        batch, values = Batch(torch.randn(1, 96, 1)), torch.randn(1, 96, 1)
        with torch.inference_mode(), tempfile.TemporaryDirectory() as folder:
            found["compiled"] = quantiles(lambda: compiled(batch), calls)
            exported = ahead_of_time(fitted.module, values, Path(folder))
            found["exported"] = quantiles(lambda: exported(values), calls)
    return found


class Plain(nn.Module):
    """A forecaster's network with a tensor as its argument."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, values: Tensor) -> Any:
        """The forecast of a window [1, L, 1]."""
        return self.network(Batch(values))


def ahead_of_time(network: nn.Module, values: Tensor, folder: Path) -> Callable[[Tensor], Any]:
    """The network as a library of machine code, which must give what the network gives."""
    plain = Plain(network).eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch's compiler uses what torch calls deprecated
        program = torch.export.export(plain, (values,))
        path = torch._inductor.aoti_compile_and_package(program, package_path=str(folder / "network.pt2"))
        call: Callable[[Tensor], Any] = torch._inductor.aoti_load_package(path)
        torch.testing.assert_close(call(values), plain(values))
    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", help="names with commas; all unless given")
    parser.add_argument("--calls", type=int, default=1000)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/latency.json")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    lines: list[Line] = []
    known = [entry.name for entry in catalogue() if entry.name not in ("TimeLLM", "HINT")]
    for name in arguments.models.split(",") if arguments.models else known:
        found = measure(name, arguments.calls)
        best = min(found, key=lambda way: found[way][0])
        for way, (middle, tail) in found.items():
            target = TARGETS.get(name) if way == best else None
            lines.append(line(f"{name}, {way}: p50", middle, at_most=target, unit="µs", note=f"p99 {tail:.0f} µs"))
    print_table(lines)
    if arguments.write:
        write("latency", lines, command="python benchmarks/latency.py")


if __name__ == "__main__":
    main()
