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

A message says the rule, then what it got, then what to do. What a program needs of it is in fields beside the text
(`rule`, `got`, `advice`): nothing may search a message for words.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

Rule = Literal["one row per time", "same run", "has intervals", "writable", "belongs elsewhere"]
"""Rules that a program asks for. An error about any other rule has the rule in its text only."""


class Advice(NamedTuple):
    """A setting that would mend an error. Python writes `gaps="mask"`, the command line `--set data.gaps=mask`.

    Args:
        field: its place in a run file ("data.gaps"), or the name of an argument ("overwrite").
        value: plain data; "..." if the user has to choose it.
    """

    field: str
    value: str | bool | None = "..."


class NeuroDivergentError(Exception):
    """Root of every error that the library raises on purpose.

    Args:
        message: the whole sentence, in the words of Python.
        rule: the broken rule, if a program asks for it.
        got: what broke it, as text.
        advice: the settings that would mend it.
    """

    def __init__(
        self, *message: object, rule: Rule | None = None, got: str | None = None, advice: Iterable[Advice] = ()
    ) -> None:
        super().__init__(*message)
        self.rule, self.got, self.advice = rule, got, tuple(Advice(*one) for one in advice)

    @property
    def facts(self) -> dict[str, Any]:
        """The fields, for an error that stands for this one: `TrainingError(text, **error.facts)`."""
        return {"rule": self.rule, "got": self.got, "advice": self.advice}


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
        self,
        *message: object,
        forecasters: Sequence[Any] = (),
        failures: Mapping[int, NeuroDivergentError] | None = None,
        **facts: Any,
    ) -> None:
        super().__init__(*message, **facts)
        self.forecasters, self.failures = list(forecasters), dict(failures or {})


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
