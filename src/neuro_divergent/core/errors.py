"""Every error that the library raises on purpose.

NeuroDivergentError
├── ConfigError              a description was given a wrong, unknown or contradictory field   (also a ValueError)
│   └── UnknownNameError     a name that no registry knows                                     (also a LookupError)
├── DataError                a table that cannot be used as it is                              (also a ValueError)
│   └── DataFileError        a file that is missing, unreadable or not what its name says      (also an OSError)
├── NotFittedError           something was asked of a model before it was trained
├── TrainingError            training could not go on
│   ├── NonFiniteError       a loss or a gradient stopped being a number
│   ├── CallbackError        a callback of the user's raised
│   └── MembersFailedError   some of several trainings failed; it holds the forecasters of the others
├── StorageError             a run, checkpoint or model on disk cannot be written or trusted
│   ├── CorruptFileError     the bytes are not the bytes that were written
│   └── NoCheckpointError    there is nothing to resume from yet
├── DeviceError              the device cannot do what was asked of it
├── MissingExtraError        an optional dependency is not installed                           (also an ImportError)
└── RegistryError            two classes want the same name, or a plugin cannot be loaded

A message says the rule, then what it got, then what to do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any


class NeuroDivergentError(Exception):
    """Root of every error that the library raises on purpose."""


class ConfigError(NeuroDivergentError, ValueError):
    """A description was given a wrong, unknown or contradictory field."""


class UnknownNameError(ConfigError, LookupError):
    """A name that no registry knows; the message lists the closest ones."""


class DataError(NeuroDivergentError, ValueError):
    """A table that cannot be used as it is; the message names column, series and row."""


class DataFileError(DataError, OSError):
    """A data file that is missing, unreadable, or not what its name says."""


class NotFittedError(NeuroDivergentError):
    """Something was asked of a model before it was trained."""


class TrainingError(NeuroDivergentError):
    """Training could not go on."""


class NonFiniteError(TrainingError):
    """A loss or a gradient stopped being a finite number."""


class CallbackError(TrainingError):
    """A callback raised; the original error is the cause."""


class MembersFailedError(TrainingError):
    """Some of several trainings failed.

    `forecasters` has an entry for each training, None for a failed one; `failures` has the errors by number.
    """

    def __init__(
        self, message: str, *, forecasters: Sequence[Any], failures: Mapping[int, NeuroDivergentError]
    ) -> None:
        super().__init__(message)
        self.forecasters, self.failures = list(forecasters), dict(failures)


class StorageError(NeuroDivergentError):
    """A run, checkpoint or model on disk cannot be written or trusted."""


class CorruptFileError(StorageError):
    """The bytes on disk are not the bytes that were written."""


class NoCheckpointError(StorageError):
    """There is no checkpoint to resume from yet."""


class DeviceError(NeuroDivergentError):
    """The device cannot do what was asked of it."""


class MissingExtraError(NeuroDivergentError, ImportError):
    """An optional dependency is not installed; the message has the install line."""


class RegistryError(NeuroDivergentError):
    """Two classes want the same name, or a plugin cannot be loaded."""


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or the name of its class when it has none."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
