"""Every error that the library raises on purpose.

NeuroDivergentError
├── ConfigError              wrong, unknown or contradictory settings                          (also a ValueError)
│   └── UnknownNameError     a name that is not registered                                     (also a LookupError)
├── DataError                a table that cannot be used as it is                              (also a ValueError)
│   └── DataFileError        a data file that is missing, unreadable or of another format      (also an OSError)
├── NotFittedError           a model or scaler was used before it was trained                  (also an AttributeError)
├── TrainingError            training could not continue
│   ├── NonFiniteError       a loss or a gradient became infinite or NaN
│   ├── CallbackError        a user's callback raised
│   ├── DistributedError     a process of a run in several processes lost the others, or differs from them
│   └── MembersFailedError   some of several trainings failed; it has the forecasters of the others
├── StorageError             a run, checkpoint or model on disk cannot be written or read
│   ├── CorruptFileError     the bytes are not the bytes that were written
│   └── NoCheckpointError    there is no checkpoint to resume from yet
├── DeviceError              the device does not support an operation
├── MissingExtraError        an optional dependency is not installed                           (also an ImportError)
└── RegistryError            two classes have the same name, or a plugin cannot be loaded

A message states the rule, then what it got, then what to do. Programs read the fields `rule`, `got` and `advice`; no
code may search the text of a message.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

Rule = Literal["one row per time", "same run", "has intervals", "writable", "belongs elsewhere"]
"""Rules that programs check for. All other rules are only in the text of the message."""


class Advice(NamedTuple):
    """A setting that would fix an error. Python shows `gaps="mask"`, the command line `--set data.gaps=mask`.

    Args:
        field: its path in a run file ("data.gaps"), or the name of an argument ("overwrite").
        value: plain data; "..." if the user has to choose it.
    """

    field: str
    value: str | bool | float | None = "..."


class NeuroDivergentError(Exception):
    """Base class of every error that the library raises on purpose.

    Args:
        message: the full text, with settings in Python spelling.
        rule: the broken rule, if programs check for it.
        got: the value that broke the rule, as text.
        advice: the settings that would fix the error.

    >>> import neuro_divergent as nd
    >>> try:
    ...     nd.TrainingConfig(max_epochs=-1)
    ... except nd.NeuroDivergentError as error:
    ...     print(type(error).__name__)
    ConfigError
    """

    def __init__(
        self, *message: object, rule: Rule | None = None, got: str | None = None, advice: Iterable[Advice] = ()
    ) -> None:
        super().__init__(*message)
        self.rule, self.got, self.advice = rule, got, tuple(Advice(*one) for one in advice)

    @property
    def facts(self) -> dict[str, Any]:
        """The fields as keyword arguments, to raise another error with them: `TrainingError(text, **error.facts)`."""
        return {"rule": self.rule, "got": self.got, "advice": self.advice}


class ConfigError(NeuroDivergentError, ValueError):
    """A setting or argument is wrong, unknown or contradicts another one."""


class UnknownNameError(ConfigError, LookupError):
    """A name is not registered. The message lists the closest names."""


class DataError(NeuroDivergentError, ValueError):
    """A table cannot be used as it is. The message names column, series and row."""


class DataFileError(DataError, OSError):
    """A data file is missing, unreadable, or in another format than its name shows."""


class NotFittedError(NeuroDivergentError, AttributeError):
    """A model or scaler was used before it was trained. It is an AttributeError, so that `hasattr` gives False."""


class TrainingError(NeuroDivergentError):
    """Training could not continue."""


class NonFiniteError(TrainingError):
    """A loss or a gradient became infinite or NaN."""


class DistributedError(TrainingError):
    """A process of a run in several processes lost the others, or does not train the same."""


class CallbackError(TrainingError):
    """A callback raised. The original error is `__cause__`."""


class MembersFailedError(TrainingError):
    """Some of several trainings failed.

    `forecasters` has an entry for each training: None if it failed. `failures` has the errors by the number of the
    training.
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
    """A run, checkpoint or model on disk cannot be written, or its files cannot be trusted."""


class CorruptFileError(StorageError):
    """The bytes on disk are not the bytes that were written."""


class NoCheckpointError(StorageError):
    """There is no checkpoint to resume from yet."""


class DeviceError(NeuroDivergentError):
    """The device does not support an operation."""


class MissingExtraError(NeuroDivergentError, ImportError):
    """An optional dependency is not installed. The message shows the install command."""


class RegistryError(NeuroDivergentError):
    """Two classes have the same name, or a plugin cannot be loaded."""


def first_line(error: BaseException) -> str:
    """Return the first line of an error's text, or the name of its class if the text is empty."""
    text = str(error).strip()
    return text.splitlines()[0] if text else type(error).__name__
