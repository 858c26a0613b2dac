"""The number format of a training, and loss scaling, so that small gradients do not underflow."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any, Literal

import torch
from torch import Tensor, nn

from neuro_divergent.core.errors import Advice, DeviceError, NonFiniteError
from neuro_divergent.training.config.training_config import PrecisionName

HIGHEST_UNGUARDED_RATE = 1e3
"""Above this learning rate the weights are checked after every step."""


class Precision:
    """The number format of a run: casting of module and batches, autocast, loss scaling."""

    def __init__(self, name: PrecisionName, device: torch.device, loss_scale: float | Literal["dynamic"]) -> None:
        self.name = name
        self.device = device
        self.dtype = torch.float64 if name == "float64" else torch.float32
        if name == "float64" and device.type == "mps":
            raise DeviceError(
                "precision='float64' needs a device that supports it, but mps does not. Use precision='float32' or "
                "device='cpu'",
                advice=[Advice("training.precision", "float32"), Advice("training.device", "cpu")],
            )
        if name.startswith("bf16") and device.type == "cuda" and not torch.cuda.is_bf16_supported():
            raise DeviceError(
                f"precision={name!r} is not supported by {torch.cuda.get_device_name(device)}. Use 'fp16'",
                advice=[Advice("training.precision", "fp16")],
            )
        self.weights_dtype = {"bf16-true": torch.bfloat16, "fp16-true": torch.float16}.get(name)
        """The number format of the weights where they have less than the data; None where they do not."""
        self.autocast_dtype = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(name)
        self.scaler = _scaler(device, loss_scale) if name == "fp16" else None
        self.searching = self.scaler is not None and loss_scale == "dynamic"
        """Whether overflowing gradients may only mean that the dynamic loss scale is still too large."""
        self.sums_in_float64 = name == "accumulate64"

    def autocast(self) -> AbstractContextManager[Any]:
        """The autocast context for forward passes."""
        if self.autocast_dtype is None:
            return nullcontext()
        return torch.autocast(self.device.type, dtype=self.autocast_dtype)

    def place(self, module: nn.Module) -> nn.Module:
        """The module on the run's device, in the run's number format."""
        return module.to(device=self.device, dtype=self.weights_dtype or self.dtype)

    def scale(self, loss: Tensor) -> Tensor:
        """The loss times the loss scale, for the backward pass."""
        return loss if self.scaler is None else self.scaler.scale(loss)

    def unscale(self, optimizer: torch.optim.Optimizer) -> None:
        """Divide the gradients by the loss scale, before clipping and callbacks read them."""
        if self.scaler is not None:
            self.scaler.unscale_(optimizer)

    def step(self, optimizer: torch.optim.Optimizer, finite: bool) -> None:
        """Take the optimizer step if loss and gradients are finite, and update the loss scale in both cases."""
        if finite:
            self._guarded_step(optimizer)
        if self.scaler is not None:
            self.scaler.update()

    def _guarded_step(self, optimizer: torch.optim.Optimizer) -> None:
        # With finite gradients, weights overflow only at an extreme learning rate. Only then copy the weights first.
        rate = max(float(group["lr"]) for group in optimizer.param_groups)
        if rate <= HIGHEST_UNGUARDED_RATE:
            self._step(optimizer)
            return
        parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
        before = [parameter.detach().clone() for parameter in parameters]
        self._step(optimizer)
        if all(bool(torch.isfinite(parameter).all()) for parameter in parameters):
            return
        with torch.no_grad():
            for parameter, kept in zip(parameters, before, strict=True):
                parameter.copy_(kept)
        raise NonFiniteError(
            f"the weights must be finite after a step, but with a learning rate of {rate:g} they were not. The module "
            "has the weights of the last good step. Lower the learning rate"
        )

    def _step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.scaler is None:
            optimizer.step()
        else:
            self.scaler.step(optimizer)

    def state_dict(self) -> dict[str, Any]:
        """The loss scale and its counters, for a checkpoint."""
        return {} if self.scaler is None else self.scaler.state_dict()

    def load_state_dict(self, data: dict[str, Any]) -> None:
        """Restore what `state_dict` returned."""
        if self.scaler is not None and data:
            self.scaler.load_state_dict(data)


def _scaler(device: torch.device, loss_scale: float | Literal["dynamic"]) -> torch.amp.GradScaler:
    if loss_scale == "dynamic":
        return torch.amp.GradScaler(device.type)
    # A static scale is a dynamic one that never grows or shrinks.
    return torch.amp.GradScaler(
        device.type,
        init_scale=loss_scale,
        growth_factor=1.0 + 1e-9,
        backoff_factor=1.0 - 1e-9,
        growth_interval=2**31 - 1,
    )
