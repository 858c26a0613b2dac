"""Runs into which a NaN or infinity is injected: at a known layer, step and pass."""

from typing import Any, ClassVar, NamedTuple

import numpy as np
import polars as pl
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.conformance.examples import model_examples

H, L = 4, 12
NAMES = ("MLP", "NHITS", "NBEATS", "LSTM", "TCN", "TFT", "TiDE", "PatchTST", "TSMixer", "DLinear")
MODELS = {name: model_examples(getattr(nd, name))[0].replace(h=H, input_size=L) for name in NAMES}


def table() -> pl.DataFrame:
    """Three noisy waves."""
    draw, rows = np.random.default_rng(0), 60
    return pl.DataFrame(
        {
            "unique_id": np.repeat(["a", "b", "c"], rows),
            "ds": np.tile(np.arange(rows), 3),
            "y": 5 + np.sin(np.arange(3 * rows) / 3) + 0.1 * draw.normal(size=3 * rows),
        }
    )


class _BadBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
        return value.clone()

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
        return torch.full_like(gradient, torch.nan)


class Fault(nd.Callback):
    """Makes the output of a layer, or the gradient behind it, NaN or infinite in one step."""

    looks_at: ClassVar[frozenset[str]] = frozenset()

    def __init__(self, layer: int, step: int, way: str) -> None:
        self.layer, self.step, self.way, self.on, self.name = layer, step, way, False, ""

    def on_fit_start(self, state: Any) -> None:
        layers = called_layers(state)
        self.name, part = layers[self.layer % len(layers)]
        part.register_forward_hook(self._hook)

    def on_batch_start(self, state: Any) -> None:
        self.on = state.step == self.step

    def _hook(self, _: nn.Module, __: Any, output: Any) -> Any:
        if not self.on:
            return None
        if isinstance(output, tuple):
            return (self._bad(output[0]), *output[1:])
        return self._bad(output)

    def _bad(self, output: torch.Tensor) -> torch.Tensor:
        if self.way == "gradient":
            return _BadBackward.apply(output)
        return output * (torch.nan if self.way == "nan" else torch.inf)


def called_layers(state: Any) -> list[tuple[str, nn.Module]]:
    """The layers with weights, in the order in which a step calls them."""
    found: dict[str, nn.Module] = {}
    hooks = [
        part.register_forward_hook(lambda part, _, __, name=name: found.update({name: found.get(name, part)}))
        for name, part in state.module.named_modules()
        if next(part.parameters(recurse=False), None) is not None and next(part.children(), None) is None
    ]
    with torch.no_grad():
        state.module.loss_values(state.source.batch(0, 0))
    for hook in hooks:
        hook.remove()
    return list(found.items())


class Case(NamedTuple):
    """One injected fault."""

    model: str
    layer: int
    step: int
    way: str


def cases() -> list[Case]:
    """100 cases: ten models, each with ten layers, steps and ways."""
    draw = np.random.default_rng(1)
    ways = ["nan", "inf", "gradient"]
    return [
        Case(name, int(draw.integers(0, 50)), int(draw.integers(0, 8)), ways[number % 3])
        for name in MODELS
        for number in range(10)
    ]


def named(case: Case) -> tuple[bool, str]:
    """Whether the analyzer names layer and step of a case, and what it says."""
    fault = Fault(case.layer, case.step, case.way)
    analyzer = nd.GradientAnalyzer(noise=False, every_n_steps=1000).build()
    seen = []

    class Keep(nd.Callback):
        looks_at: ClassVar[frozenset[str]] = frozenset()

        def on_exception(self, state: Any) -> None:
            seen.extend(event["first_nonfinite"] for event in state.history.events if "first_nonfinite" in event)

    config = nd.TrainingConfig(
        max_steps=9, batch_size=16, callbacks=[fault, analyzer, Keep()], refit=None, validation_split=None,
        early_stopping=None, steps_per_epoch=None, compile=False,
    )  # fmt: skip
    try:
        MODELS[case.model].fit(table(), config)
    except nd.NonFiniteError:
        pass
    else:
        return False, "the training did not fail"
    if not seen:
        return False, "nothing was found"
    found = nd.FirstNonfinite.from_dict(seen[0])
    what = "gradient" if case.way == "gradient" else "output"
    right = (found.module, found.step, found.what) == (fault.name, case.step + 1, what)
    return right, f"{found} (injected: {fault.name}, step {case.step + 1})"
