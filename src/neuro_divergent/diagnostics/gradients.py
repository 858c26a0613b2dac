"""A callback that records the gradients of each layer at some steps: norms, zeros, updates, noise scale."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

import torch
from pydantic import Field
from torch import Tensor

from neuro_divergent.core.batch import rows
from neuro_divergent.core.errors import NonFiniteError
from neuro_divergent.diagnostics.aside import aside, reduced_loss
from neuro_divergent.diagnostics.first_nonfinite import first_nonfinite
from neuro_divergent.diagnostics.layer_stats import (
    as_floats,
    copied,
    gradient_figures,
    layers_of,
    sum_of_squares,
    update_norms,
    weight_norms,
)
from neuro_divergent.losses import Loss
from neuro_divergent.training.callbacks.base import Callback, CallbackSettings
from neuro_divergent.training.compiled.full_step import Compiled

if TYPE_CHECKING:
    from neuro_divergent.training.state.state import TrainState

LAYERS, FIGURES, NONFINITE = "gradient_layers", "gradients", "first_nonfinite"
"""Names of the events that the callback logs."""

USUAL_EVERY, COMPILED_EVERY, MOST_OBSERVED = 50, 400, 200
"""With every_n_steps="auto", every 50th step is observed, and about 200 steps at most. A fully compiled step of a small
network takes a fourth of the time of an eager one, and an observed step is two eager ones more: every 400th there."""


class GradientAnalyzer(CallbackSettings):
    """Records the gradients of each layer at some steps. `fitted.gradient_report()` summarises them.

    It changes no weight. Fully compiled steps stay compiled: the gradient of an observed step is computed once more for
    it. If a loss or gradient is not finite, that step is repeated to find the module in which it arose.
    """

    layers: bool = True
    """Record every layer; False records only the network as a whole."""
    flow: bool = True
    """Keep the figures of every observed step, which `plot_flow` draws; False keeps the first and the last ones."""
    noise: bool = True
    """Also estimate the gradient noise scale (McCandlish et al. 2018): the batch size above which larger batches give
    hardly better steps. At an observed step it computes the gradient of half of the batch once more."""
    every_n_steps: Annotated[int, Field(ge=1)] | Literal["auto"] = "auto"
    """Observe every n-th step, from the first one. "auto": every 50th (of fully compiled steps every 400th), and about
    200 steps at most."""

    def build(self) -> Callback:
        """The live callback."""
        return _GradientAnalyzer(self)


class _GradientAnalyzer(Callback):
    looks_at: ClassVar[frozenset[str]] = frozenset({"gradients"})
    reads_only: ClassVar[bool] = True

    def __init__(self, settings: GradientAnalyzer) -> None:
        self.settings = settings
        self._every = 0
        self._skipped = 0
        self._seen: dict[str, Any] | None = None
        self._before: list[list[Tensor]] = []
        self._kept: dict[str, Any] | None = None
        self._explained = False

    def on_fit_start(self, state: TrainState) -> None:
        given = self.settings.every_n_steps
        usual = COMPILED_EVERY if isinstance(state.strategy, Compiled) else USUAL_EVERY
        every = max(usual, -(-state.total_steps // MOST_OBSERVED)) if given == "auto" else given
        self._every, self._skipped = every, state.skipped
        found = layers_of(state.module)
        if not self.settings.layers:
            found = {type(state.module).__name__: [p for parameters in found.values() for p in parameters]}
        self._layers = found
        if not any(LAYERS in event for event in state.history.events):
            state.log(**{LAYERS: list(found), "sizes": [sum(p.numel() for p in item) for item in found.values()]})

    def observes(self, state: TrainState) -> bool:
        return state.step % self._every == 0

    def on_gradients(self, state: TrainState) -> None:
        if not self.observes(state) or not math.isfinite(state.loss):
            return
        figures = gradient_figures(self._layers)
        self._seen = {
            "loss": _short(state.loss),
            "norm": _shortened(figures.norm),
            "zeros": _shortened(figures.zeros),
        }
        if self.settings.noise:
            self._seen |= self._noise(state) or {}
        self._before = copied(self._layers)

    def on_batch_end(self, state: TrainState) -> None:
        if self._seen is not None:
            self._record(state, self._seen)
            self._seen, self._before = None, []
        if state.skipped > self._skipped:
            self._skipped = state.skipped
            if not state.precision.searching:
                self._explain(state, state.step - 1)

    def on_fit_end(self, state: TrainState) -> None:
        if self._kept is not None:
            state.log(**{FIGURES: self._kept})
            self._kept = None
        state.working = None

    def on_exception(self, state: TrainState) -> None:
        if isinstance(state.error, NonFiniteError):
            self._explain(state, state.step)

    def _record(self, state: TrainState, seen: dict[str, Any]) -> None:
        weights = weight_norms(self._layers)
        updates = update_norms(self._layers, self._before)
        ratios = [update / weight if weight > 0 else math.nan for update, weight in zip(updates, weights, strict=True)]
        seen = {"at": state.step} | seen | {"weight": _shortened(weights), "update_ratio": _shortened(ratios)}
        first = not any(FIGURES in event for event in state.history.events)
        if self.settings.flow or first:
            state.log(**{FIGURES: seen})
        else:
            self._kept = seen

    def _explain(self, state: TrainState, step: int) -> None:
        """Log where the first value arose that is not finite; only once in a training."""
        if self._explained or state.working is None or any(NONFINITE in event for event in state.history.events):
            return
        self._explained = True
        task, batch = state.working
        found = first_nonfinite(task, state, batch, step)
        state.log(**{NONFINITE: found.to_dict()})
        if state.error is not None:
            state.error.add_note(str(found))

    @torch.no_grad()
    def _noise(self, state: TrainState) -> dict[str, Any] | None:
        """For each layer tr(Σ), the variance of one window's gradient, and the square of the mean gradient.

        With the means g₁ and g₂ of two parts of n₁ and n₂ windows, tr(Σ) = |g₁ - g₂|² / (1/n₁ + 1/n₂) and
        |G|² = g₁·g₂ are unbiased. The noise scale is tr(Σ) / |G|².
        """
        assert state.working is not None
        task, batch = state.working
        parts = 2 * state.config.accumulate_gradients * state.micro_batches
        count = rows(batch)
        if count < 2 * parts or type(task.loss).finish is not Loss.finish:
            return None
        part = task.split(batch, parts)[0]
        one = _gradients_of(state, part)
        if one is None:
            return None
        n1 = rows(part)
        n2 = count - n1
        trace, square = [], []
        for parameters in self._layers.values():
            whole = [p.grad for p in parameters if p.grad is not None and id(p) in one]
            g1 = [one[id(p)] for p in parameters if p.grad is not None and id(p) in one]
            if not g1:
                trace.append(torch.zeros((), dtype=torch.float64))
                square.append(torch.zeros((), dtype=torch.float64))
                continue
            pairs = zip(g1, whole, strict=True)
            # g₂ = (n·g - n₁·g₁) / n₂, so g₁ - g₂ = (g₁ - g)·n / n₂ and g₁·g₂ = (n·g₁·g - n₁·|g₁|²) / n₂.
            apart = sum_of_squares(torch._foreach_sub(g1, whole)) * (count / n2) ** 2
            product = torch.stack([torch.dot(a.flatten(), b.flatten()).double() for a, b in pairs]).sum()
            trace.append(apart / (1 / n1 + 1 / n2))
            square.append((count * product - n1 * sum_of_squares(g1)) / n2)
        return {
            "trace": _shortened(as_floats(trace)),
            "square": _shortened(as_floats(square)),
            "batch": count,
        }

    def state_dict(self) -> dict[str, Any]:
        return {} if self._kept is None else {"kept": self._kept}

    def load_state_dict(self, data: dict[str, Any]) -> None:
        self._kept = data.get("kept")


def _gradients_of(state: TrainState, batch: Any) -> dict[int, Tensor] | None:
    """The gradients of a part of the batch, by the id of their parameter; None if they cannot be computed."""
    assert state.working is not None
    task, _ = state.working
    parameters = [parameter for parameter in state.module.parameters() if parameter.requires_grad]
    try:
        with aside(state):
            found = torch.autograd.grad(reduced_loss(task, state, batch), parameters, allow_unused=True)
    except (RuntimeError, ValueError, MemoryError):  # too little memory, or a batch norm with a single row
        return None
    return {id(p): grad for p, grad in zip(parameters, found, strict=True) if grad is not None}


def _short(value: float) -> float | None:
    """Six digits, which is all that a report shows; None if it is not finite, which JSON does not know."""
    return float(f"{value:.6g}") if math.isfinite(value) else None


def _shortened(values: list[float]) -> list[float | None]:
    return [_short(value) for value in values]
