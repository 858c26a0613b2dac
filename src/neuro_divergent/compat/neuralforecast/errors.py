"""Errors that are both ours and those that neuralforecast raises for the same mistake."""

from __future__ import annotations

from neuro_divergent.core.errors import ConfigError, DataError


class MissingColumnError(DataError, KeyError):
    """A table lacks a column."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NoIntervalsError(ConfigError, AttributeError):
    """Levels were requested from a model that forecasts a point."""
