"""The input columns of a network: flattened for window networks, step by step for sequence networks.

Letters: B windows, L lookback, H horizon, R steps that are read, C channels, D width.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.nn.lags import TargetLags, steps_read


def embedding_width(categories: int) -> int:
    """A common rule of thumb: 1.6 · n^0.56, at most 50.

    >>> embedding_width(2), embedding_width(8), embedding_width(10_000)
    (2, 5, 50)
    """
    width: int = round(1.6 * float(categories) ** 0.56)
    return min(50, width)


class CategoryEmbedding(nn.Module):
    """Codes [..., K] → [..., D], one table per column; code 0 is the unknown value.

    Explanations give real numbers, 2 · code + presence: the embedding goes in a straight line from the mean of the
    known values (presence 0) to that of the code (presence 1). An unknown value stays what it is.
    """

    def __init__(self, categories: tuple[int, ...]) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(count, embedding_width(count)) for count in categories)
        self.width = sum(embedding_width(count) for count in categories)

    def forward(self, codes: Tensor) -> Tensor:
        """The embeddings of all columns side by side."""
        found = _partly if codes.is_floating_point() else _embedded
        return torch.cat([found(table, codes[..., column]) for column, table in enumerate(self.tables)], dim=-1)


def _embedded(table: nn.Module, codes: Tensor) -> Tensor:
    known: Tensor = table(codes)
    return known


def _partly(table: nn.Module, numbers: Tensor) -> Tensor:
    """[...] → [..., D] for numbers 2 · code + presence."""
    codes = (numbers.detach() / 2).floor().long()
    own = _embedded(table, codes)
    neutral = torch.where((codes == 0).unsqueeze(-1), own, table.get_parameter("weight")[1:].mean(0))
    return neutral + (numbers - 2 * codes).unsqueeze(-1) * (own - neutral)


class FlatInputs(nn.Module):
    """All inputs of a univariate window concatenated, [B, width]: target, historical, future and static columns."""

    def __init__(self, spec: InputSpec) -> None:
        super().__init__()
        self.embedding = CategoryEmbedding(spec.categories) if spec.categories else None
        embedded = 0 if self.embedding is None else self.embedding.width
        steps = spec.lookback + spec.horizon
        self.width = spec.lookback * (1 + spec.historical) + steps * (spec.future + embedded) + spec.static

    def forward(self, batch: Batch) -> Tensor:
        """[B, width]"""
        if self.width == batch.y.shape[1]:
            return batch.y.flatten(1)
        parts = [batch.y.flatten(1)]
        parts += [part.flatten(1) for part in (batch.historical, batch.future, batch.static) if part is not None]
        if self.embedding is not None and batch.categorical is not None:
            parts.append(self.embedding(batch.categorical).flatten(1))
        return torch.cat(parts, dim=1)


class StepInputs(nn.Module):
    """The columns of each step of a univariate window: past [B, R, past_width], ahead [B, H, ahead_width].

    R is the whole lookback L, or fewer last steps if there are lags; see `steps_read`.
    """

    def __init__(self, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        self.steps = steps_read(spec)
        self.embedding = CategoryEmbedding(spec.categories) if spec.categories else None
        self.lags = TargetLags(spec) if spec.lags else None
        embedded = 0 if self.embedding is None else self.embedding.width
        self.ahead_width = spec.future + embedded + spec.static + len(spec.lags)
        self.past_width = 1 + spec.historical + self.ahead_width

    def forward(self, batch: Batch) -> tuple[Tensor, Tensor | None]:
        """Return the columns of each step that is read, and of each horizon step (None if there are none)."""
        L, H = self.spec.lookback, self.spec.horizon
        known: list[Tensor] = [] if batch.future is None else [batch.future]
        if self.embedding is not None and batch.categorical is not None:
            known.append(self.embedding(batch.categorical))
        if batch.static is not None:
            known.append(batch.static.unsqueeze(1).expand(-1, L + H, -1))
        past = [batch.y] + ([] if batch.historical is None else [batch.historical]) + [part[:, :L] for part in known]
        ahead = [part[:, L:] for part in known]
        if self.lags is not None:
            lagged, lagged_ahead = self.lags(batch.y)
            past, ahead = [*(part[:, L - self.steps :] for part in past), lagged], [*ahead, lagged_ahead]
        return _beside(past), _beside(ahead) if ahead else None


def _beside(parts: list[Tensor]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, dim=-1)
