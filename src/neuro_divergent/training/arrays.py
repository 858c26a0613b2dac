"""Tasks on plain arrays: regression, binary and multi-class classification with any torch module."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError, DataError, first_line
from neuro_divergent.data.windows.samplers import Sampler
from neuro_divergent.losses import Loss
from neuro_divergent.losses.base import outside_support, support_rule
from neuro_divergent.training.state.task import ScoredTask, epoch_steps, loss_sums


class Rows(NamedTuple):
    """A batch of rows."""

    x: Tensor
    y: Tensor
    weight: Tensor | None


def as_rows(data: Any, loss: Loss, device: torch.device, dtype: torch.dtype) -> Rows:
    """The data, (x, y) or (x, y, weight) as numpy arrays, tensors or lists, checked and on the device."""
    if not isinstance(data, tuple | list) or len(data) not in (2, 3):
        raise DataError(f"data must be (x, y) or (x, y, weight), but got {type(data).__name__}")
    x, y = _tensor(data[0], "x"), _tensor(data[1], "y")
    weight = _tensor(data[2], "weight").to(device=device, dtype=dtype) if len(data) == 3 else None
    if x.shape[0] != y.shape[0] or (weight is not None and weight.shape[0] != x.shape[0]):
        raise DataError(f"x and y must have the same number of rows, but got {x.shape[0]} and {y.shape[0]}")
    if x.shape[0] == 0:
        raise DataError("data must have at least one row, but x and y are empty")
    for name, part in (("x", x), ("y", y)):
        if part.is_floating_point() and not bool(torch.isfinite(part).all()):
            row = int((~torch.isfinite(part.reshape(part.shape[0], -1)).all(dim=1)).nonzero()[0])
            raise DataError(f"{name} must be finite, but row {row} has a NaN or an infinity. Remove or fill it")
    x = x.to(device=device, dtype=dtype) if x.is_floating_point() or x.dtype == torch.bool else x.to(device)
    if takes_class_numbers(loss):
        y = _class_numbers(y)
    else:
        y = y.to(dtype)
        _check_targets(loss, y)
    return Rows(x.contiguous(), y.to(device).contiguous(), weight)


def _check_targets(loss: Loss, y: Tensor) -> None:
    """Raise if a target is outside the support of the loss's distribution."""
    wrong = outside_support(loss, y)
    if wrong is not None and bool(wrong.any()):
        raise DataError(
            f"{support_rule(loss)}, but row {int(wrong.nonzero()[0][0])} of y has {float(y[wrong][0]):g} "
            f"({int(wrong.sum())} such values). Check them, or use a distribution over all numbers such as StudentT"
        )


def _tensor(part: Any, name: str) -> Tensor:
    try:
        tensor = torch.as_tensor(part)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{name} must be an array of numbers, but got {type(part).__name__}: {error}") from None
    if tensor.ndim == 0:
        raise DataError(f"{name} must have rows, but got the single number {tensor.item()}")
    if name == "weight" and (bool((tensor < 0).any()) or not bool(torch.isfinite(tensor).all())):
        raise DataError("weight must be finite and at least 0 in every row, but is not. Use 0 to ignore a row")
    return tensor


def takes_class_numbers(loss: Loss) -> bool:
    """Whether each target is one class number, and the output has one logit per class."""
    return loss.task == "classification" and loss.outputs != 1


def _class_numbers(y: Tensor) -> Tensor:
    if y.ndim != 1:
        raise DataError(f"class labels must be one whole number per row, but y has shape {tuple(y.shape)}")
    numbers = y.long()
    if y.is_floating_point() and not bool((numbers == y).all()):
        raise DataError("class labels must be whole numbers from 0 up, but y has fractions. For regression use MSE")
    if int(numbers.min()) < 0:
        raise DataError(f"class labels must be whole numbers from 0 up, but the smallest is {int(numbers.min())}")
    return numbers


def split_rows(rows: Rows, share: float) -> tuple[Rows, Rows]:
    """(training rows, held-out rows); the last rows are held out."""
    count = rows.x.shape[0]
    held = max(1, round(count * share))
    if held >= count:
        raise DataError(
            f"a training needs at least one row, but validation_split={share} of {count} rows leaves none. Set "
            "validation=... or validation_split=None"
        )
    cut = count - held
    first, last = (
        Rows(rows.x[a:b], rows.y[a:b], None if rows.weight is None else rows.weight[a:b])
        for a, b in ((0, cut), (cut, count))
    )
    return first, last


class ArraySource:
    """Batches of rows in the order of a sampler.

    With `reuse` a full batch overwrites the one before it, which saves a memory allocation at every step. To keep a
    batch, copy it. Do not use it for batches that are prepared ahead.
    """

    def __init__(
        self, rows: Rows, sampler: Sampler, steps_per_epoch: int | None = None, *, reuse: bool = False
    ) -> None:
        self.rows, self.sampler = rows, sampler
        size = sampler.batch_size
        size = min(size, rows.x.shape[0])  # a batch never has more than all rows
        self._buffers = (_buffer(rows.x, size), _buffer(rows.y, size)) if reuse else (None, None)
        self._elsewhere = rows.x.device.type != "cpu"
        self.steps_per_epoch = epoch_steps(sampler.steps_per_epoch, steps_per_epoch, sampler.batch_size, sampler.n)

    def batch(self, epoch: int, step: int) -> Rows:
        """The rows of one optimizer step."""
        numbers = torch.from_numpy(self.sampler.numbers(epoch, step).copy())
        if self._elsewhere:
            numbers = numbers.to(self.rows.x.device)
        x, y, weight = self.rows
        into_x, into_y = self._buffers
        return Rows(
            _selected(x, numbers, into_x),
            _selected(y, numbers, into_y),
            None if weight is None else weight.index_select(0, numbers),
        )


def _selected(part: Tensor, numbers: Tensor, buffer: Tensor | None) -> Tensor:
    if buffer is None or len(numbers) != len(buffer):
        return part.index_select(0, numbers)
    return torch.index_select(part, 0, numbers, out=buffer)


def _buffer(part: Tensor, size: int) -> Tensor | None:
    """A buffer for a batch, or None for a small batch, whose allocation costs almost nothing."""
    buffer = part.new_empty((size, *part.shape[1:]))
    return buffer if buffer.nbytes >= 1 << 16 else None


class ArrayTask(ScoredTask):
    """Compares module(x) with y, elementwise."""

    def __init__(self, loss: Loss, validation_loss: Loss | None = None, metrics: Sequence[str] = ()) -> None:
        super().__init__(loss, validation_loss, metrics)
        self._classes, self._outputs = takes_class_numbers(loss), loss.outputs

    def __call__(self, module: nn.Module, batch: Rows) -> tuple[Tensor, Tensor | None]:
        """Unreduced loss and weights of a batch of rows."""
        output, target = self._aligned(_output(module, batch.x), batch.y)
        values = self.loss.values(output, target)
        return values, _loss_weights(self.loss, batch, values)

    def score(self, module: nn.Module, batch: Rows) -> dict[str, Tensor]:
        """Sums of the validation loss and of the metrics."""
        output, target = self._aligned(_output(module, batch.x), batch.y)
        loss = self.validation_loss
        values = loss.values(output, target)
        sums = {"loss": loss_sums(values, _loss_weights(loss, batch, values))}
        return sums | self.metric_sums(output, target, _weights(loss, batch, values))

    def split(self, batch: Rows, parts: int) -> list[Rows]:
        """Micro-batches of equal size, the last one smaller if it does not divide."""
        count = batch.x.shape[0]
        size = -(-count // parts)
        return [
            Rows(
                batch.x[a : a + size],
                batch.y[a : a + size],
                None if batch.weight is None else batch.weight[a : a + size],
            )
            for a in range(0, count, size)
        ]

    def blame(self, batch: Rows, values: Tensor | None) -> str:  # noqa: ARG002
        """A sentence about the rows of the batch whose loss is not finite; empty if there are none."""
        if values is None:
            return ""
        per_row = torch.isfinite(values.reshape(values.shape[0], -1)).all(dim=1)
        bad = (~per_row).nonzero().flatten().tolist()
        return f"{len(bad)} of {len(per_row)} rows of the batch have a loss that is not finite." if bad else ""

    def _aligned(self, output: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
        """Output with the trailing [Q] that a loss expects, and the target; raises if the shapes could broadcast."""
        if self._classes:
            return output, target
        if output.dtype != target.dtype:  # the network may compute in half precision; the loss uses the target's format
            output = output.to(torch.promote_types(output.dtype, target.dtype))
        if output.shape == target.shape and self._outputs == 1:
            return output.unsqueeze(-1), target
        if output.shape == (*target.shape, self._outputs):
            return output, target
        if self._outputs == 1 and target.ndim == output.ndim + 1 and target.shape[-1] == 1:
            return output.unsqueeze(-1), target.squeeze(-1)
        wanted = tuple(target.shape) if self._outputs == 1 else (*target.shape, self._outputs)
        raise ConfigError(
            f"the module's output must have the shape {wanted} for targets of shape {tuple(target.shape)} and the loss "
            f"{self.loss.kind}, but got {tuple(output.shape)}"
        )


def _output(module: nn.Module, x: Tensor) -> Tensor:
    """The module's output for a batch, one tensor."""
    try:
        output = module(x)
    except RuntimeError as error:
        if x.is_floating_point() or not _takes_floats(module, x):
            raise
        raise DataError(
            f"x must have floats for this module, but has whole numbers ({str(x.dtype).removeprefix('torch.')}), which "
            f"only layers such as Embedding take: {first_line(error)}. Use x.astype('float32')"
        ) from error
    if not isinstance(output, Tensor):
        raise ConfigError(
            f"the module must return one tensor, but its forward returned a {type(output).__name__}. Wrap it in a "
            "module that returns only the forecast, such as output[0] of an LSTM"
        )
    return output


def _takes_floats(module: nn.Module, x: Tensor) -> bool:
    """Whether the module accepts the same numbers as floats."""
    kinds = (parameter.dtype for parameter in module.parameters() if parameter.is_floating_point())
    try:
        with torch.no_grad():
            module(x.to(next(kinds, torch.float32)))
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    return True


def _loss_weights(loss: Loss, batch: Rows, values: Tensor) -> Tensor | None:
    """`_weights`, but 0 where the loss does not count a target."""
    weights, counted = _weights(loss, batch, values), loss.counted(batch.y)
    if counted is None:
        return weights
    counted = counted.reshape(values.shape).to(values.dtype)
    return counted if weights is None else weights * counted


def _weights(loss: Loss, batch: Rows, values: Tensor) -> Tensor | None:
    """The weights of the rows, times the importance that the loss gives to each value."""
    if batch.weight is None:
        own = loss.importance(batch.y, None)
        return None if own is None else own.expand_as(values)
    rows = batch.weight.reshape(-1, *[1] * (values.ndim - 1)).expand_as(values)
    # A loss that needs weights must see that they exist. It gets ones; the weights of the rows are multiplied here.
    ones = torch.ones((), dtype=rows.dtype, device=rows.device)
    own = loss.importance(batch.y, Batch(y=batch.y, weight=ones))
    return rows if own is None or own is ones else rows * own.expand_as(values)
