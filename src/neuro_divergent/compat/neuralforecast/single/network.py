"""What scripts call on a model because neuralforecast's are torch modules: weights, modes, and the network itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Self

import torch
from torch import Tensor, nn

from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.core.batch import Batch, InputSpec
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.forecasting.network.module import ForecastModule, build_module
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.losses import Loss


class NetworkFace:
    """Methods of a torch module. Before a training they are those of the weights that it starts from."""

    member: Member
    fitted: Forecaster | None
    _untrained: ForecastModule | None = None

    @property
    def module(self) -> ForecastModule:
        """The network with its scaling: the trained one, or that of the first weights."""
        if self.fitted is not None:
            return self.fitted.module
        if self._untrained is None:
            self._untrained = untrained(self.member)
        return self._untrained

    def parameters(self) -> Iterator[nn.Parameter]:
        """The parameters of the network."""
        return self.module.network.parameters()

    def named_parameters(self) -> Iterator[tuple[str, nn.Parameter]]:
        """The parameters of the network with their names."""
        return self.module.network.named_parameters()

    def state_dict(self) -> dict[str, Tensor]:
        """The weights of the network and of its scaling."""
        return dict(self.module.state_dict())

    def load_state_dict(self, weights: Mapping[str, Tensor]) -> None:
        """Take over weights of the same network; a later `fit` starts anew."""
        self.module.load_state_dict(weights)

    def train(self, mode: bool = True) -> Self:
        """Training mode: dropout is on."""
        self.module.train(mode)
        return self

    def eval(self) -> Self:
        """Evaluation mode: dropout is off."""
        return self.train(mode=False)

    def to(self, device: Any) -> Self:
        """Move the weights."""
        self.module.to(device)
        return self

    def forward(self, windows_batch: Mapping[str, Tensor]) -> Tensor:
        """The outputs [B, H, O] of the network for windows that are scaled already; of several series [B, H, N · O].

        Args:
            windows_batch: insample_y [B, L, N]; optionally insample_mask, futr_exog, hist_exog and stat_exog. With one
                series those are [B, L + H, F], [B, L, F] and [B, F]; with several [B, F, L + H, N], [B, F, L, N] and
                [N, F].
        """
        if self.member.facts.categorical:
            raise ConfigError(
                "forward takes numbers that are scaled already, but the model embeds categorical columns. Use predict"
            )
        output: Tensor = self.module.network(_batch(windows_batch))
        return output.flatten(2)

    __call__ = forward


def untrained(member: Member) -> ForecastModule:
    """The module of a model with the weights that a training starts from."""
    model, config = member.description, member.config
    assert isinstance(config.loss, Loss)
    return build_module(model, spec_of(member), config.loss, (), config.seed)


def spec_of(member: Member) -> InputSpec:
    """The sizes that the arguments of a model ask for."""
    model, facts = member.description, member.facts
    numeric = {
        name: len([column for column in getattr(facts, name) if column not in facts.categorical])
        for name in ("future", "historical", "static")
    }
    counts = dict(facts.cardinalities)
    return InputSpec(
        horizon=model.h, lookback=model.input_size, series=facts.n_series or 1, future=numeric["future"],
        historical=numeric["historical"], static=numeric["static"],
        categories=tuple(counts[name] + 1 for name in facts.categorical),
    )  # fmt: skip


def _batch(given: Mapping[str, Tensor]) -> Batch:
    y, several = given["insample_y"], given["insample_y"].shape[2] > 1
    parts = {name: given.get(theirs) for name, theirs in _NAMES.items()}
    kept = {name: part for name, part in parts.items() if part is not None and part.numel()}
    if several:
        kept = {name: part if name == "static" else part.permute(0, 2, 3, 1) for name, part in kept.items()}
        if "static" in kept:
            kept["static"] = kept["static"].expand(len(y), -1, -1)
    mask = given.get("insample_mask")
    return Batch(y, None if mask is None else mask.to(torch.bool), **kept)


_NAMES = {"future": "futr_exog", "historical": "hist_exog", "static": "stat_exog"}
