"""Recurrent networks that forecast the whole horizon at once, or step by step from their own forecasts.

Letters: B windows, L lookback, H horizon, C channels, D width, Q outputs, W columns of a step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.nn.inputs import CategoryEmbedding, StepInputs
from neuro_divergent.nn.lags import steps_read
from neuro_divergent.nn.perceptron import ActivationName, perceptron

EncoderMaker = Callable[[int], nn.RNNBase]
"""Function that makes a batch-first recurrent encoder for a number of input columns."""

Feedback = Callable[[Tensor], Tensor]
"""Function that maps the outputs of a step to a point forecast in scaled units, [B, 1, Q] → [B, 1]."""


class DirectRecurrent(nn.Module):
    """An encoder reads the window; a perceptron decodes its states for each horizon step.

    The decoder has two inputs for each horizon step. The first is a context vector computed from the state after the
    whole window, which contains the newest value. The second is the state of one of the last H steps of the window, in
    the same order: this carries over the recent shape of the series, which need not be learned for each step. With lags
    it is the state at the same place of the last season, and the decoder also reads the lags of its step.
    """

    mirrored: Tensor

    def __init__(self, spec: InputSpec, encoder: EncoderMaker, *, context_size: int, decoder_size: int) -> None:
        super().__init__()
        self.spec = spec
        self.inputs = StepInputs(spec)
        self.encoder = encoder(self.inputs.past_width)
        width = self.encoder.hidden_size
        self.context = nn.Linear(width, spec.horizon * context_size)
        self.decoder = perceptron([width + context_size + self.inputs.ahead_width, decoder_size, spec.outputs])
        # A horizon longer than the season, or than the steps that are read, repeats them.
        R = self.inputs.steps
        season = min((lag for lag in spec.lags if 1 < lag <= R), default=0)
        first = R - (season or min(spec.horizon, R))
        self.register_buffer("mirrored", first + torch.arange(spec.horizon) % (season or R), persistent=False)

    def forward(self, batch: Batch) -> Tensor:
        """[B, H, 1, Q]"""
        past, ahead = self.inputs(batch)
        states, _ = self.encoder(past)
        context = torch.relu(self.context(states[:, -1])).view(past.shape[0], self.spec.horizon, -1)
        features = [states[:, self.mirrored], context]
        output: Tensor = self.decoder(torch.cat(features if ahead is None else [*features, ahead], dim=-1))
        return output.unsqueeze(2)


class RecursiveRecurrent(nn.Module):
    """An encoder that reads the previous value and the columns of the next step, and forecasts step by step.

    In training it reads the true previous values of the horizon (teacher forcing), all steps in one call. With
    `teacher_forcing` below 1, each true value is replaced at random by the network's forecast. In forecasting it reads
    its own forecasts, also where a lag reaches into the horizon. Historical columns are 0, their mean, in the horizon.
    """

    lagged: Tensor

    def __init__(self, spec: InputSpec, encoder: EncoderMaker, head: Callable[[int], nn.Module]) -> None:
        super().__init__()
        self.spec = spec
        self.teacher_forcing = 1.0
        """Share of true previous values in training; the training loop sets it."""
        self.feedback: Feedback | None = None
        """Maps outputs [..., Q] to a point forecast in scaled units, such as a loss's `point`; None: first output."""
        self.embedding = CategoryEmbedding(spec.categories) if spec.categories else None
        embedded = 0 if self.embedding is None else self.embedding.width
        self.reads = steps_read(spec)
        """Number of last steps of the window that the encoder reads."""
        self.encoder = encoder(1 + len(spec.lags) + spec.historical + spec.future + embedded + spec.static)
        # A state is bounded. Beside it the head reads the last value and the lags, which it often has to repeat.
        self.skipped = 1 + len(spec.lags) if spec.lags else 0
        self.head = head(self.encoder.hidden_size + self.skipped)
        if spec.lags:
            # Beside the value of step t the encoder reads the lags of step t + 1, which it forecasts.
            step = torch.arange(spec.lookback - self.reads + 1, spec.lookback + spec.horizon).unsqueeze(1)
            self.register_buffer("lagged", max(spec.lags) + step - torch.tensor(spec.lags), persistent=False)

    def forward(self, batch: Batch, feedback: Feedback | None = None) -> Tensor:
        """[B, H, 1, Q]; each step reads the forecast of the step before. `feedback` replaces `self.feedback`."""
        return self._unroll(batch, lambda output, _: self._forecast(output, feedback))

    def train_forward(self, batch: Batch, feedback: Feedback | None = None) -> Tensor:
        """[B, H, 1, Q]; each step reads the scaled target of the step before (teacher forcing)."""
        target = batch.target
        assert target is not None
        if self.teacher_forcing < 1.0:
            return self._unroll(
                batch, lambda output, step: self._scheduled(output, target[:, step : step + 1], feedback)
            )
        known = torch.cat([batch.y, target[:, :-1]], dim=1)
        inputs = self._inputs(known, self.columns(batch))
        states, _ = self.encoder(inputs)
        return self._outputs(states[:, self.reads - 1 :], inputs[:, self.reads - 1 :]).unsqueeze(2)

    def columns(self, batch: Batch) -> Tensor | None:
        """The input columns of each step beside the previous value, [B, L+H-1, W]; None if there are none."""
        L, H = self.spec.lookback, self.spec.horizon
        known: list[Tensor] = [] if batch.future is None else [batch.future]
        if self.embedding is not None and batch.categorical is not None:
            known.append(self.embedding(batch.categorical))
        if batch.static is not None:
            known.append(batch.static.unsqueeze(1).expand(-1, L + H, -1))
        parts = [part[:, 1:] for part in known]
        if batch.historical is not None:
            parts.append(nn.functional.pad(batch.historical, (0, 0, 0, H - 1)))
        return torch.cat(parts, dim=-1) if parts else None

    def start(self, batch: Batch, columns: Tensor | None) -> tuple[Tensor, Any]:
        """Read the window; return the outputs of the first horizon step, [B, 1, Q], and the state after it."""
        inputs = self._inputs(batch.y, columns)
        states, state = self.encoder(inputs)
        return self._outputs(states[:, -1:], inputs[:, -1:]), state

    def advance(self, known: Tensor, state: Any, columns: Tensor | None, step: int) -> tuple[Tensor, Any]:
        """Return the outputs of horizon step `step` (from 1) and the state.

        Args:
            known: [B, L + step, 1] the window and the values of the steps before.
            state: the state after the step before.
            columns: the result of `columns`.
            step: number of the step.
        """
        L = self.spec.lookback
        parts = [known[:, -1:], *(known[:, L + step - lag : L + step - lag + 1] for lag in self.spec.lags)]
        if columns is not None:
            parts.append(columns[:, L - 1 + step : L + step])
        inputs = torch.cat(parts, dim=-1)
        states, state = self.encoder(inputs, state)
        return self._outputs(states, inputs), state

    def _outputs(self, states: Tensor, inputs: Tensor) -> Tensor:
        """[B, T, D], [B, T, W] → [B, T, Q]"""
        read = torch.cat([states, inputs[..., : self.skipped]], dim=-1) if self.skipped else states
        return self.head(read)  # type: ignore[no-any-return]

    def _inputs(self, known: Tensor, columns: Tensor | None) -> Tensor:
        """All inputs of the encoder, from the first step that it reads to the last known value [B, T, 1]."""
        first = self.spec.lookback - self.reads
        read = known[:, first:]
        parts = [read]
        if self.spec.lags:
            padded = nn.functional.pad(known.squeeze(-1), (max(self.spec.lags), 0))
            parts.append(padded[:, self.lagged[: read.shape[1]]])
        if columns is not None:
            parts.append(columns[:, first : first + read.shape[1]])
        return torch.cat(parts, dim=-1)

    def _unroll(self, batch: Batch, previous: Callable[[Tensor, int], Tensor]) -> Tensor:
        columns = self.columns(batch)
        output, state = self.start(batch, columns)
        outputs, known = [output], batch.y
        for step in range(1, self.spec.horizon):
            known = torch.cat([known, previous(output, step - 1)], dim=1)
            output, state = self.advance(known, state, columns, step)
            outputs.append(output)
        return torch.cat(outputs, dim=1).unsqueeze(2)

    def _scheduled(self, output: Tensor, truth: Tensor, feedback: Feedback | None) -> Tensor:
        teach = torch.rand(truth.shape, device=truth.device) < self.teacher_forcing
        return torch.where(teach, truth, self._forecast(output, feedback))

    def _forecast(self, output: Tensor, feedback: Feedback | None) -> Tensor:
        """[B, 1, Q] → [B, 1, 1]"""
        point = feedback or self.feedback
        return output[..., :1] if point is None else point(output).unsqueeze(-1)


def dense_head(sizes: tuple[int, ...], outputs: int, act: ActivationName = "relu") -> Callable[[int], nn.Module]:
    """Return a function of the state width that makes a perceptron to the outputs of a step; linear without sizes."""
    return lambda width: perceptron([width, *sizes, outputs], act=act)
