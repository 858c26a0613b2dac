"""Errors that are both ours and those that neuralforecast raises for the same mistake."""

from __future__ import annotations

from neuro_divergent.core.errors import ConfigError, CorruptFileError, DataError, StorageError


class MissingColumnError(DataError, KeyError):
    """A table lacks a column."""

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class NoIntervalsError(ConfigError, AttributeError):
    """Levels were requested from a model that forecasts a point."""


class NoModelFileError(CorruptFileError, ValueError):
    """A file is not one that a model's `save` wrote, or not of this model."""


class ArgumentError(ConfigError, TypeError):
    """A call has an argument too many or too few."""


class NoModelError(StorageError, FileNotFoundError):
    """There is no saved model at a path."""

    __str__ = Exception.__str__
