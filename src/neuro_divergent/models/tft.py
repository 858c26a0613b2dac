"""TFT: the temporal fusion transformer, which reports the importance of columns and past steps.

Letters: B windows, R steps that are read (all without lags), H horizon, Q outputs, N variables, D width, A heads.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, NamedTuple, Self

import torch
from pydantic import Field, model_validator
from torch import Tensor, nn
from torch.nn import functional as F

from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.data.scaling.per_window import WindowScalerName
from neuro_divergent.forecasting.model.lagged import LaggedModel
from neuro_divergent.forecasting.model.model import Capabilities
from neuro_divergent.forecasting.model.recipes import ModelFamily, recipe_for
from neuro_divergent.nn.attention import causal_bias, check_heads, split_heads
from neuro_divergent.nn.gating import Gate, GatedResidual, ScalarEmbedding, VariableSelection
from neuro_divergent.nn.lags import TargetLags, steps_read
from neuro_divergent.training.config.training_config import TrainingConfig

RECIPE_STEPS = 500
"""About the maximum number of steps of the recipe; each takes several times as long as an LSTM's."""


class TFT(LaggedModel):
    """Selects variables step by step, reads them with an LSTM, and attends from each horizon step to the whole past.

    Lags of the target are columns known ahead. Without any such column, the last value of the window is used as one.
    Unused weights are left out (a context for the selection of static columns, any context without static columns, the
    selection among a single variable). Other implementations have them, and therefore more parameters.
    """

    group: ClassVar[ModelFamily] = "transformer"
    capabilities: ClassVar[Capabilities] = Capabilities(future=True, historical=True, static=True)
    paper: ClassVar[str] = (
        "Lim, Arik, Loeff & Pfister (2021), "
        "Temporal fusion transformers for interpretable multi-horizon time series forecasting"
    )

    scaler: WindowScalerName = "robust"
    """The scaler that is applied to each window."""
    hidden_size: Annotated[int, Field(ge=1)] = 32
    """Width of every vector in the network."""
    heads: Annotated[int, Field(ge=1)] = 4
    """Number of attention heads. They share their values, so that the mean of the heads can be interpreted."""
    layers: Annotated[int, Field(ge=1)] = 1
    """Layers of each LSTM."""
    dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.1
    """Dropout rate."""
    attention_dropout: Annotated[float, Field(ge=0.0, lt=1.0)] = 0.0
    """Dropout rate of attention weights."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        check_heads(self.hidden_size, self.heads)
        return self

    def recipe(self, windows: int) -> TrainingConfig:
        """The recommended training for this many windows: that of a recurrent model, which it is for the most part."""
        return recipe_for("recurrent", windows, steps=RECIPE_STEPS)

    def build(self, spec: InputSpec) -> nn.Module:
        """Return the network for these input sizes."""
        return _Network(self, spec)


class _Context(NamedTuple):
    """Context vectors of the static columns for the parts of the network, each [B, D]."""

    selection: Tensor | None = None
    enrichment: Tensor | None = None
    hidden: Tensor | None = None
    cell: Tensor | None = None


class _Network(nn.Module):
    def __init__(self, model: TFT, spec: InputSpec) -> None:
        super().__init__()
        self.spec = spec
        D, rate = model.hidden_size, model.dropout
        context = D if spec.static else 0
        self.steps = steps_read(spec)
        self.lags = TargetLags(spec) if spec.lags else None
        self.known = max(1, spec.future + len(spec.lags))
        self.static = _Static(spec.static, D, rate) if spec.static else None
        self.embed_target = ScalarEmbedding(1, D)
        self.embed_historical = ScalarEmbedding(spec.historical, D) if spec.historical else None
        self.embed_known = ScalarEmbedding(self.known, D)
        past = 1 + spec.historical + self.known
        self.select_past = VariableSelection(past, D, context=context, dropout=rate)
        self.select_ahead = VariableSelection(self.known, D, context=context, dropout=rate)
        self.encoder = nn.LSTM(D, D, model.layers, batch_first=True)
        self.decoder = nn.LSTM(D, D, model.layers, batch_first=True)
        self.gate_recurrent = Gate(D, D)
        self.enrich = GatedResidual(D, D, context=context, dropout=rate)
        self.attention = _InterpretableAttention(model, spec)
        self.gate_attention = Gate(D, D)
        self.position_wise = GatedResidual(D, D, dropout=rate)
        self.gate_output = Gate(D, D)
        self.dropout = nn.Dropout(rate)
        self.output = nn.Linear(D, spec.outputs)

    def forward(self, batch: Batch) -> Tensor:
        return self._run(batch)[0]

    def explain(self, batch: Batch) -> dict[str, Tensor]:
        """Return importance weights. Every row of every entry sums to 1.

        - "attention" [B, H, R+H]: from each step ahead to each step that is read and of the horizon.
        - "past_importance" [B, R, N]: of the target, the historical columns, the columns known ahead, then the lags.
        - "ahead_importance" [B, H, N]: of the columns known ahead, then the lags.
        - "static_importance" [B, N]: of the static columns, if there are any.
        """
        _, importances, enriched = self._run(batch)
        return importances | {"attention": self.attention.weights(enriched)}

    def _run(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        R, H = self.steps, self.spec.horizon
        context, importances = self._static(batch)
        past, ahead = self._variables(batch)
        selection = None if context.selection is None else context.selection.unsqueeze(1)
        past, importances["past_importance"] = self.select_past(past, selection)
        ahead, importances["ahead_importance"] = self.select_ahead(ahead, selection)
        temporal = self.gate_recurrent(self.dropout(self._recur(past, ahead, context)), torch.cat([past, ahead], dim=1))
        enriched = self.enrich(temporal, None if context.enrichment is None else context.enrichment.unsqueeze(1))
        attended = self.gate_attention(self.dropout(self.attention(enriched)), enriched[:, R:])
        decoded = self.gate_output(self.position_wise(attended), temporal[:, R:])
        return self.output(decoded).view(-1, H, 1, self.spec.outputs), importances, enriched

    def _static(self, batch: Batch) -> tuple[_Context, dict[str, Tensor]]:
        if self.static is None or batch.static is None:
            return _Context(), {}
        context, weights = self.static(batch.static)
        return context, {"static_importance": weights}

    def _variables(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """The vectors of all variables of the steps that are read [B, R, N, D] and of the horizon [B, H, N, D]."""
        R, first = self.steps, self.spec.lookback - self.steps
        columns = [] if batch.future is None else [batch.future[:, first:]]
        if self.lags is not None:
            columns.append(torch.cat(self.lags(batch.y), dim=1))
        if not columns:
            columns.append(batch.y[:, -1:].expand(-1, R + self.spec.horizon, -1))
        known = self.embed_known(torch.cat(columns, dim=-1))
        past = [self.embed_target(batch.y[:, first:])]
        if self.embed_historical is not None and batch.historical is not None:
            past.append(self.embed_historical(batch.historical[:, first:]))
        return torch.cat([*past, known[:, :R]], dim=2), known[:, R:]

    def _recur(self, past: Tensor, ahead: Tensor, context: _Context) -> Tensor:
        """An LSTM over the past, whose state initialises another LSTM over the horizon: [B, R+H, D]."""
        state = None
        if context.hidden is not None and context.cell is not None:
            layers = self.encoder.num_layers
            state = tuple(x.expand(layers, -1, -1).contiguous() for x in (context.hidden, context.cell))
        encoded, state = self.encoder(past, state)
        return torch.cat([encoded, self.decoder(ahead, state)[0]], dim=1)


class _Static(nn.Module):
    def __init__(self, columns: int, width: int, dropout: float) -> None:
        super().__init__()
        self.embed = ScalarEmbedding(columns, width)
        self.select = VariableSelection(columns, width, dropout=dropout)
        self.contexts = nn.ModuleList(GatedResidual(width, width, dropout=dropout) for _ in _Context._fields)

    def forward(self, static: Tensor) -> tuple[_Context, Tensor]:
        chosen, weights = self.select(self.embed(static))
        return _Context(*(context(chosen) for context in self.contexts)), weights


class _InterpretableAttention(nn.Module):
    """Heads with separate queries and keys but the same values, so that the mean of the heads can be interpreted.

    Only horizon steps have queries. Each attends to itself and to earlier steps.
    """

    bias: Tensor

    def __init__(self, model: TFT, spec: InputSpec) -> None:
        super().__init__()
        D = model.hidden_size
        self.heads = model.heads
        self.steps = steps_read(spec)
        self.dropout = model.attention_dropout
        self.query = nn.Linear(D, D, bias=False)
        self.key = nn.Linear(D, D, bias=False)
        self.value = nn.Linear(D, D // model.heads, bias=False)
        self.output = nn.Linear(D // model.heads, D, bias=False)
        bias = causal_bias(self.steps + spec.horizon)[self.steps :]
        self.register_buffer("bias", bias, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        """[B, R+H, D] → [B, H, D]"""
        query, key = self._project(x)
        value = self.value(x).unsqueeze(1).expand(-1, self.heads, -1, -1)
        dropout = self.dropout if self.training else 0.0
        mixed = F.scaled_dot_product_attention(query, key, value, attn_mask=self.bias, dropout_p=dropout)
        return self.output(mixed.mean(dim=1))  # type: ignore[no-any-return]

    def weights(self, x: Tensor) -> Tensor:
        """The mean attention of the heads, [B, H, R+H]."""
        query, key = self._project(x)
        scores: Tensor = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5 + self.bias
        return scores.softmax(dim=-1).mean(dim=1)

    def _project(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """[B, A, H, E] queries and [B, A, R+H, E] keys."""
        return split_heads(self.query(x[:, self.steps :]), self.heads), split_heads(self.key(x), self.heads)
