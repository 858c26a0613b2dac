"""Tasks on plain arrays: regression, binary and multi-class classification with any torch module."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import Advice, ConfigError, DataError, DeviceError, first_line
from neuro_divergent.data.windows.samplers import Sampler
from neuro_divergent.losses import Loss
from neuro_divergent.losses.base import check_values, outside_support, support_rule
from neuro_divergent.metrics.base import Metric
from neuro_divergent.training.state.task import ScoredTask, epoch_steps, loss_sums

Inputs = Tensor | dict[str, Tensor]
"""What a module is given: one tensor, or several by the names of its forward's arguments."""


class Rows(NamedTuple):
    """A batch of rows."""

    x: Inputs
    y: Tensor
    weight: Tensor | None

    @property
    def size(self) -> int:
        """How many rows there are."""
        return self.y.shape[0]

    def part(self, first: int, last: int) -> Rows:
        """The rows from first to last (excluded), as views."""
        weight = None if self.weight is None else self.weight[first:last]
        return Rows(each(self.x, lambda part: part[first:last]), self.y[first:last], weight)


def each(x: Inputs, function: Callable[[Tensor], Tensor]) -> Inputs:
    """The function of the inputs, or of each of several named ones."""
    return {name: function(part) for name, part in x.items()} if isinstance(x, dict) else function(x)


def as_rows(data: Any, loss: Loss, device: torch.device, dtype: torch.dtype) -> Rows:
    """(x, y) or (x, y, weight) of arrays, frames, tensors or lists, checked and on the device; x may be a dict."""
    if not isinstance(data, tuple | list) or len(data) not in (2, 3):
        raise DataError(
            f"data must be (x, y) or (x, y, weight), but got {type(data).__name__}. Of a frame give the columns: "
            "(frame[['a', 'b']], frame['y'])"
        )
    x = as_inputs(data[0], device, dtype)
    y = _tensor(data[1], "y")
    weight = _tensor(data[2], "weight").to(device=device, dtype=dtype) if len(data) == 3 else None
    counts = {part.shape[0] for part in (x.values() if isinstance(x, dict) else (x,))}
    if counts != {y.shape[0]} or (weight is not None and weight.shape[0] != y.shape[0]):
        found = " and ".join(map(str, sorted(counts)))
        raise DataError(f"x and y must have the same number of rows, but got {found} and {y.shape[0]}")
    if y.shape[0] == 0:
        raise DataError("data must have at least one row, but x and y are empty")
    _refuse_nonfinite(y, "y")
    if takes_class_numbers(loss):
        y = _class_numbers(y)
    else:
        y = y.to(dtype)
        _check_targets(loss, y)
    return Rows(x, y.to(device).contiguous(), weight)


def as_inputs(given: Any, device: torch.device, dtype: torch.dtype) -> Inputs:
    """What a module is given, checked, on the device, in the run's number format: one tensor or a dict of them."""
    if isinstance(given, Mapping):
        if not given or not all(isinstance(name, str) and name.isidentifier() for name in given):
            raise DataError(
                "a dict of inputs has the names of the arguments of the module's forward as its keys, but got "
                f"{', '.join(map(repr, given)) or 'none'}"
            )
        return {name: _input(part, name, device, dtype) for name, part in given.items()}
    return _input(given, "x", device, dtype)


def _input(given: Any, name: str, device: torch.device, dtype: torch.dtype) -> Tensor:
    x = _tensor(given, name)
    _refuse_nonfinite(x, name)
    x = x.to(device=device, dtype=dtype) if x.is_floating_point() or x.dtype == torch.bool else x.to(device)
    return x.contiguous()


def _refuse_nonfinite(part: Tensor, name: str) -> None:
    if part.is_floating_point() and not bool(torch.isfinite(part).all()):
        row = int((~torch.isfinite(part.reshape(part.shape[0], -1)).all(dim=1)).nonzero()[0])
        raise DataError(f"{name} must be finite, but row {row} has a NaN or an infinity. Remove or fill it")


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
        if hasattr(part, "to_numpy"):  # a frame or a column, of pandas or polars
            part = _numbers(part, name)
        tensor = torch.as_tensor(part)
    except (TypeError, ValueError, RuntimeError) as error:
        raise DataError(f"{name} must be an array of numbers, but got {type(part).__name__}: {error}") from None
    if tensor.ndim == 0:
        raise DataError(f"{name} must have rows, but got the single number {tensor.item()}")
    if name == "weight" and (bool((tensor < 0).any()) or not bool(torch.isfinite(tensor).all())):
        raise DataError("weight must be finite and at least 0 in every row, but is not. Use 0 to ignore a row")
    return tensor


def _numbers(frame: Any, name: str) -> Any:
    """The values of a frame or a column as one array; a column that holds no numbers is named."""
    array = frame.to_numpy()
    if array.dtype != object:
        return np.array(array)  # a frame may hand out memory that must not be written
    columns = getattr(frame, "columns", None)
    odd = [] if columns is None else [str(one) for one in columns if frame[one].to_numpy().dtype.kind not in "biuf"]
    if odd or columns is None:
        raise DataError(
            f"the columns of {name} must hold numbers, but {', '.join(odd) or 'the column'} holds something else. "
            "Leave it out, or encode it as numbers"
        )
    return array.astype(np.float64)


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
    count = rows.size
    held = max(1, round(count * share))
    if held >= count:
        raise DataError(
            f"a training needs at least one row, but validation_split={share} of {count} rows leaves none. Set "
            "validation=... or validation_split=None"
        )
    return rows.part(0, count - held), rows.part(count - held, count)


class ArraySource:
    """Batches of rows in the order of a sampler.

    With `reuse` a full batch overwrites the one before it, which saves a memory allocation at every step. To keep a
    batch, copy it. Do not use it for batches that are prepared ahead.
    """

    def __init__(
        self, rows: Rows, sampler: Sampler, steps_per_epoch: int | None = None, *, reuse: bool = False
    ) -> None:
        self.rows, self.sampler = rows, sampler
        size = min(sampler.batch_size, rows.size)  # a batch never has more than all rows
        self._buffers: tuple[Tensor | None, Tensor | None] = (None, None)
        if reuse and isinstance(rows.x, Tensor):
            self._buffers = (_buffer(rows.x, size), _buffer(rows.y, size))
        self._elsewhere = rows.y.device.type != "cpu"
        self.steps_per_epoch = epoch_steps(sampler.steps_per_epoch, steps_per_epoch, sampler.batch_size, sampler.n)

    def batch(self, epoch: int, step: int) -> Rows:
        """The rows of one optimizer step."""
        numbers = torch.from_numpy(self.sampler.numbers(epoch, step).copy())
        if self._elsewhere:
            numbers = numbers.to(self.rows.y.device)
        x, y, weight = self.rows
        into_x, into_y = self._buffers
        return Rows(
            each(x, lambda part: _selected(part, numbers, into_x)),
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
    """Compares module(x) with y, elementwise; `weights` is the number format of a module in half precision."""

    def __init__(
        self,
        loss: Loss,
        validation_loss: Loss | None = None,
        metrics: Sequence[str | Metric] = (),
        *,
        weights: torch.dtype | None = None,
    ) -> None:
        super().__init__(loss, validation_loss, metrics)
        self._classes, self._outputs, self._weights = takes_class_numbers(loss), loss.outputs, weights

    def __call__(self, module: nn.Module, batch: Rows) -> tuple[Tensor, Tensor | None]:
        """Unreduced loss and weights of a batch of rows."""
        output, target = self._aligned(output_of(module, batch.x, self._weights), batch.y)
        values = check_values(self.loss.values(output, target), target, self.loss.kind)
        return values, _loss_weights(self.loss, batch, values)

    def score(self, module: nn.Module, batch: Rows) -> dict[str, Tensor]:
        """Sums of the validation loss and of the metrics."""
        output, target = self._aligned(output_of(module, batch.x, self._weights), batch.y)
        loss = self.validation_loss
        values = check_values(loss.values(output, target), target, loss.kind)
        sums = {"loss": loss_sums(values, _loss_weights(loss, batch, values))}
        return sums | self.metric_sums(output, target, _weights(loss, batch, values))

    def split(self, batch: Rows, parts: int) -> list[Rows]:
        """Micro-batches of equal size, the last one smaller if it does not divide."""
        size = -(-batch.size // parts)
        return [batch.part(first, first + size) for first in range(0, batch.size, size)]

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


def output_of(module: nn.Module, x: Inputs, weights: torch.dtype | None = None) -> Tensor:
    """What the module makes of a batch: one tensor; in float32 where its weights are in half precision."""
    if weights is not None:
        x = each(x, lambda part: part.to(weights) if part.is_floating_point() else part)
    try:
        output = module(**x) if isinstance(x, dict) else module(x)
    except RuntimeError as error:
        if weights is not None and isinstance(error, NotImplementedError):
            raise DeviceError(
                f"the module has a layer that cannot compute in {str(weights).removeprefix('torch.')} on this device: "
                f"{first_line(error)}. Use precision='bf16', which keeps float32 weights, or 'float32'",
                advice=[Advice("training.precision", "bf16")],
            ) from error
        if isinstance(x, dict) or x.is_floating_point() or not _takes_floats(module, x):
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
    return output if weights is None else output.float()


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
