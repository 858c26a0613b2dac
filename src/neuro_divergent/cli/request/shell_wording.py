"""Rewrites errors of the library for the command line: `time_col='day'` becomes `--time day`.

The flags come from the fields of the error. Its text is searched only for the places of the arguments. Flags that are
not in the text are added at its end.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable

from neuro_divergent.core.errors import Advice, CorruptFileError, NeuroDivergentError

FLAGS = {
    "data.time_col": "--time",
    "data.target_col": "--target",
    "data.id_col": "--id",
    "data.freq": "--freq",
    "data.categorical": "--categorical",
    "data.future": "--future",
    "data.historical": "--historical",
    "data.static": "--static",
    "data.features": "--features",
    "data.lower": "--lower",
    "data.upper": "--upper",
}
"""Fields of a run file that have their own flag; every other field is given by --set."""

_SWITCHES = {"data.integer": "--integer"}
"""Flags without a value, for fields that are true."""

_ARGUMENTS = {"future": "--future FILE", "overwrite": "--overwrite", "resume": "--resume", "storage": "--storage URL"}
"""Flags for arguments of Python calls."""

_CHOICES = {"data.separator": "MARK", "data.header_line": "NUMBER", "data.time_format": "FORM"}
"""What stands for a value that the user has to choose, where it is no name."""

_SENTENCES = {
    "same run": (
        "a run is resumed with the same data, model and configuration, but {got}. Restore what it had, change by flags "
        "only what does not invalidate finished steps (--max-epochs, --learning-rate, --set training.schedule=... and "
        "similar), or start a new run with another --out, or with --overwrite"
    ),
    "has intervals": (
        "{got} forecasts a point, so it has no intervals. Train again with --level 80,95 (which trains with "
        "MQLoss), or with --loss DistributionLoss"
    ),
}
"""Rules for which the command line knows a remedy that Python does not have."""


def on_the_shell(error: NeuroDivergentError) -> str:
    """The sentence of an error, with flags instead of Python arguments.

    >>> from neuro_divergent.core.errors import DataError
    >>> on_the_shell(DataError("no gaps, but got 3. Say gaps='mask'", advice=[Advice("data.gaps", "mask")]))
    'no gaps, but got 3. Say --set data.gaps=mask'
    >>> on_the_shell(DataError("no gaps, but got 3.", advice=[Advice("data.gaps", "mask")]))
    'no gaps, but got 3. Say --set data.gaps=mask'
    """
    if error.rule in _SENTENCES:
        return _SENTENCES[error.rule].format(got=error.got)
    # Python code is of no use here: only the setting is named.
    text = str(error.got) if error.rule == "belongs elsewhere" and error.advice else str(error)
    sentence = in_shell_words(text, error.advice)
    if error.rule == "writable":
        sentence += ". Choose a path that you may write to"
    if isinstance(error, CorruptFileError):
        sentence += ". The file is damaged or was not written by Neuro-Divergent: copy it again, or train again"
    return sentence


def spelled(advice: Advice) -> str:
    """A setting as a person types it: its own flag, or --set."""
    return _flag(advice)


def in_shell_words(sentence: str, advice: Iterable[Advice]) -> str:
    """A sentence with flags instead of the settings that it advises.

    >>> in_shell_words("it is slow. Use precision='bf16'", [Advice("training.precision", "bf16")])
    'it is slow. Use --set training.precision=bf16'
    """
    left = []
    for one in advice:
        flag = _flag(one)
        sentence, found = _python(one).subn(flag.replace("\\", r"\\"), sentence)
        left += [] if found else [flag]
    return f"{sentence.rstrip('.')}. Say {' or '.join(left)}" if left else sentence


def _flag(advice: Advice) -> str:
    """The flag to type.

    >>> _flag(Advice("data.time_col", "day")), _flag(Advice("data.time_zone")), _flag(Advice("resume", "auto"))
    ('--time day', '--set data.time_zone=NAME', '--resume')
    >>> _flag(Advice("data.separator")), _flag(Advice("data.time_format"))
    ('--set data.separator=MARK', '--set data.time_format=FORM')
    """
    if advice.field in _ARGUMENTS:
        return _ARGUMENTS[advice.field]
    if advice.field in _SWITCHES and advice.value is True:
        return _SWITCHES[advice.field]
    flag = FLAGS.get(advice.field)
    plain = {"...": _CHOICES.get(advice.field, "NAME"), "None": "none" if flag else "null"}
    value = plain.get(str(advice.value)) or shlex.quote(str(advice.value))
    return f"{flag} {value}" if flag else f"--set {advice.field}={value}"


def _python(advice: Advice) -> re.Pattern[str]:
    """A pattern for a setting as messages spell it: time_zone=..., gaps="mask" or 'mask', predict(future=...)."""
    name, value = re.escape(advice.field.rpartition(".")[2]), str(advice.value)
    spellings = (re.escape(text) for text in (value, repr(advice.value), f'"{value}"'))
    setting = f"{name}=(?:{'|'.join(spellings)})"
    return re.compile(rf"\b\w+\({setting}\)|(?<![\w.]){setting}")
