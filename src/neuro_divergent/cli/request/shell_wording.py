"""Sentences of the library in the spelling of the command line: `time_col='day'` becomes `--time day`."""

from __future__ import annotations

import re
import shlex

_FLAGS = {
    "time_col": "--time",
    "target_col": "--target",
    "id_col": "--id",
    "freq": "--freq",
    "categorical": "--categorical",
    "historical": "--historical",
    "static": "--static",
    "features": "--features",
}
_DATA_FIELDS = (
    "duplicates",
    "gaps",
    "missing",
    "missing_exogenous",
    "infinities",
    "constant",
    "all_missing",
    "min_length",
    "short",
    "time_zone",
    "time_format",
    "separator",
    "encoding",
    "decimal_comma",
    "dtype",
    "wide",
    "weight",
    "available_mask",
)
_TRAINING_FIELDS = ("validation_split", "max_epochs", "max_steps", "early_stopping", "batch_size", "checkpoints")
_VALUE = r"""("[^"]*"|'[^']*'|\.\.\.|[\w.]+)"""
_ROLE = re.compile(rf"\(({'|'.join(_FLAGS)})\)")
_FLAG = re.compile(rf"\b({'|'.join(_FLAGS)})={_VALUE}")
_DATA = re.compile(rf"\b({'|'.join(_DATA_FIELDS)})={_VALUE}")
_TRAINING = re.compile(rf"\b({'|'.join(_TRAINING_FIELDS)})={_VALUE}")
# What a request was is quoted as it was understood; only what to do about it is respelt.
_GOT = re.compile(r"but got [^.;]*")

_NO_INTERVALS = (
    "Train with MQLoss(level=[...]) or DistributionLoss(...), or add them: "
    "fit(..., prediction_intervals=PredictionIntervals())"
)
_CHANGES = (
    "change by flags only what leaves the steps done meaningful (--max-epochs, --learning-rate, --set "
    "training.schedule=... and their like), or start a new run with another --out, or with --overwrite"
)
_SENTENCES = (
    ("predict(future=...)", "--future FILE"),
    ("overwrite=True", "--overwrite"),
    ("resume='auto'", "--resume"),
    ("name a change in resume_with={...}, or start a new run", _CHANGES),
    (_NO_INTERVALS, "Train again with --level 80,95 (which trains with MQLoss), or with --loss DistributionLoss"),
)


def on_the_shell(sentence: str) -> str:
    """The sentence with flags in place of Python arguments.

    >>> on_the_shell("the table must have the column 'ds' (time_col). Say time_col='day' if that is it.")
    "the table must have the column 'ds' (--time). Say --time day if that is it."
    """
    for python, shell in _SENTENCES:
        sentence = sentence.replace(python, shell)
    sentence = _ROLE.sub(lambda match: f"({_FLAGS[match[1]]})", sentence)
    for pattern, prefix in ((_FLAG, ""), (_DATA, "data"), (_TRAINING, "training")):
        sentence = _respelt(sentence, pattern, prefix)
    return sentence


def _respelt(sentence: str, pattern: re.Pattern[str], section: str) -> str:
    quoted = [match.span() for match in _GOT.finditer(sentence)]

    def flag(match: re.Match[str]) -> str:
        if any(first <= match.start() < last for first, last in quoted):
            return match[0]
        name, value = match[1], _shell_value(match[2])
        return f"--set {section}.{name}={value}" if section else f"{_FLAGS[name]} {value}"

    return pattern.sub(flag, sentence)


def _shell_value(text: str) -> str:
    plain = {"...": "NAME", "None": "null", "True": "true", "False": "false"}
    return plain.get(text) or shlex.quote(text[1:-1] if text[0] in "\"'" else text)
