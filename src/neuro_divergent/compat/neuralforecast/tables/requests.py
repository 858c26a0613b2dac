"""Checks of what a NeuralForecast is asked for, before anything is computed."""

from __future__ import annotations

from typing import Any

from neuro_divergent.compat.neuralforecast.common._base_auto import BaseAuto
from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.core.errors import ConfigError


class RequestChecks:
    """Checks that several methods of a NeuralForecast share."""

    models: list[Any]
    members: list[Member]
    h: int

    def _check_validation(self, held_out: int, val_df: Any) -> None:
        if held_out and val_df is not None:
            raise ConfigError(f"give val_size or val_df, one of the two, but got val_size={held_out} and a val_df")
        if held_out < 0 or 0 < held_out < self.h:
            raise ConfigError(f"val_size must be 0 or at least the horizon h={self.h}, but got val_size={held_out}")
        stopping = [
            member.name
            for model, member in zip(self.models, self.members, strict=True)
            if member.config.early_stopping is not None and not isinstance(model, BaseAuto)  # a search holds rows out
        ]
        if stopping and not held_out and val_df is None:
            raise ConfigError(
                f"early stopping ({', '.join(stopping)}) needs validation rows, but got none. Set val_size>0 if early "
                f"stopping is enabled, at least h={self.h}, or give val_df"
            )

    def _horizon(self, h: int | None) -> int:
        if h is not None and h < self.h:
            raise ConfigError(f"h must be at least the horizon of the models, {self.h}, but got h={h}")
        return self.h if h is None else h

    def _refuse(self, **arguments: Any) -> None:
        given = [name for name, value in arguments.items() if value is not None]
        if given:
            raise ConfigError(f"tables and models must be in this process, but got {', '.join(given)}. Leave it out")

    def _one_quantile(self, quantile: float | None, quantiles: Any) -> Any:
        """A single quantile, which neuralforecast passes on to models with an implicit quantile loss."""
        if quantile is None or quantiles is not None:
            return quantiles
        implicit = all(member.facts.outputs[0][0].startswith("_ql") for member in self.members)
        return [quantile] if implicit else None
