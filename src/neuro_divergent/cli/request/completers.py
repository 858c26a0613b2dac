"""Values that a shell can complete: names of models, losses, metrics and devices, and fields for --set.

The shell asks for them at every press of TAB, so nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Iterable

from cyclopts.completion import CompletionContext

DEVICES = ("auto", "cpu", "cuda", "mps")
SECTIONS = {"training.optimizer": "optimizer", "training.schedule": "schedule", "training.loss": "loss"}
"""Fields of a run file whose values are names."""


def complete_model(context: CompletionContext) -> list[str]:
    """Names of models."""
    return _after_comma(context.incomplete, _names("model"))


def complete_loss(context: CompletionContext) -> list[str]:
    """Names of losses."""
    return _after_comma(context.incomplete, _names("loss"))


def complete_metric(context: CompletionContext) -> list[str]:
    """Names of metrics, with commas between them."""
    from neuro_divergent.metrics.by_name import POINT, PROBABILISTIC

    return _after_comma(context.incomplete, (*POINT, *PROBABILISTIC))


def complete_device(context: CompletionContext) -> list[str]:
    """Kinds of devices."""
    return _after_comma(context.incomplete, DEVICES)


def complete_setting(context: CompletionContext) -> list[str]:
    """Fields of a run file, with their values if these are names."""
    found = [f"{field}={name}" for field, family in SECTIONS.items() for name in _names(family)]
    found += [f"training.device={name}" for name in DEVICES]
    return [setting for setting in found if setting.startswith(context.incomplete)]


def _names(family: str) -> list[str]:
    from neuro_divergent.core.registry import names

    return names(family)


def _after_comma(incomplete: str, known: Iterable[str]) -> list[str]:
    """Completions of the last item of a comma-separated list; in lower case if it was begun in lower case.

    >>> _after_comma("nhits,dl", ["DLinear", "LSTM"]), _after_comma("L", ["DLinear", "LSTM"])
    (['nhits,dlinear'], ['LSTM'])
    """
    before, comma, begun = incomplete.rpartition(",")
    words = [word.lower() if begun.islower() else word for word in known]
    return [f"{before}{comma}{word}" for word in words if word.startswith(begun)]
