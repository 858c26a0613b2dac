"""The gradients of a module on one batch, by autograd or by differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, cast

import torch
from torch import Tensor, nn

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import MSE, Loss
from neuro_divergent.training.arrays import ArrayTask, as_rows
from neuro_divergent.training.state.batch_norm_stats import frozen_statistics
from neuro_divergent.training.step.gradients import numerical_gradient
from neuro_divergent.training.step.reduction import weighted_mean

GradientMethod = Literal["autograd", "central", "one_sided"]
_ALIASES = {"numerical": "central", "numerical_batch": "central"}


def compute_gradients(
    model: Any,
    batch: Any,
    method: str = "autograd",
    *,
    loss: Loss | Callable[[Tensor, Tensor], Tensor] | None = None,
) -> dict[str, Tensor]:
    """The gradient of the mean loss of a batch, by the names of the parameters. Nothing of the model changes.

    Dropout draws the same mask in every pass, batch norms leave their running statistics alone, and frozen parameters
    have no gradient.

    Args:
        model: any torch module, or a forecaster.
        batch: (x, y) or (x, y, weight) for a module; for a forecaster a Batch with targets (of `nd.DataLoader`).
        method: "autograd" (one pass back), "central" ((f(w+d) - f(w-d)) / 2d, two passes per number) or "one_sided"
            ((f(w+d) - f(w)) / d, one pass per number and one more). "numerical" is another word for "central".
        loss: what is differentiated, unreduced; None for MSE, or for the loss that the forecaster was trained with.
    """
    method = _ALIASES.get(method, method)
    if method not in ("autograd", "central", "one_sided"):
        raise ConfigError(f"method must be autograd, central or one_sided, but got method={method!r}")
    module, mean = _loss_of(model, batch, loss)
    parameters = {name: one for name, one in module.named_parameters() if one.requires_grad}
    if not parameters:
        raise ConfigError("a gradient needs at least one parameter that is not frozen, but the module has none")
    half = sorted({str(one.dtype) for one in parameters.values() if one.dtype in (torch.float16, torch.bfloat16)})
    if half and method != "autograd":
        raise ConfigError(f"differences need float32 or float64 parameters, but got {half[0]}. Use method='autograd'")
    generator = torch.get_rng_state()

    def value() -> Tensor:
        torch.set_rng_state(generator)
        return mean()

    try:
        with frozen_statistics([module]):
            if method == "autograd":
                found = torch.autograd.grad(value(), list(parameters.values()), allow_unused=True)
                pairs = zip(parameters.items(), found, strict=True)
                return {name: torch.zeros_like(one) if g is None else g.detach() for (name, one), g in pairs}
            differences = cast(Literal["central", "one_sided"], method)
            with torch.no_grad():
                here = None if method == "central" else float(value())
                return {
                    name: numerical_gradient(lambda: float(value()), one, differences, here)
                    for name, one in parameters.items()
                }
    finally:
        torch.set_rng_state(generator)


def _loss_of(model: Any, batch: Any, loss: Any) -> tuple[nn.Module, Callable[[], Tensor]]:
    """The module, and its mean loss on the batch as a function of its weights."""
    if loss is not None and not isinstance(loss, Loss):
        from neuro_divergent.losses import CustomLoss

        loss = CustomLoss(function=loss)
    module = getattr(model, "module", model)
    if not isinstance(module, nn.Module):
        raise ConfigError(f"compute_gradients takes a torch module or a forecaster, but got {type(model).__name__}")
    wide = all(one.dtype == torch.float64 for one in module.parameters())
    if hasattr(module, "loss_values"):
        chosen: Loss = loss or module.loss  # type: ignore[assignment]  # torch says Tensor | Module
        if getattr(batch, "target", None) is None:
            raise ConfigError("the batch of a forecaster must have targets. Take it from nd.DataLoader(table, ...)")

        def windows() -> Tensor:
            values: Tensor = module.loss_values(batch, chosen)  # type: ignore[operator]  # torch says Tensor | Module
            mask = None if batch.target_mask is None else batch.target_mask.to(values.dtype)
            return chosen.finish(weighted_mean(values, mask, in_float64=True))

        return module, windows
    first = next(module.parameters())
    half = first.dtype if first.dtype in (torch.float16, torch.bfloat16) else None
    task, device = ArrayTask(loss or MSE(), weights=half), first.device
    rows = as_rows(batch, task.loss, device, torch.float64 if wide else torch.float32)

    def arrays() -> Tensor:
        values, weights = task(module, rows)
        return task.loss.finish(weighted_mean(values, weights, in_float64=True))

    return module, arrays
