"""Optional dependencies: imported when first needed, missed with one sentence."""

from __future__ import annotations

import importlib
from types import ModuleType

from neuro_divergent.core.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import an optional dependency, or say in one sentence how to install it.

    Args:
        module: what to import, such as "matplotlib.pyplot".
        extra: the extra of this distribution that brings it.
        purpose: what needs it, as the subject of the sentence ("Plots").
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if error.name is not None and error.name.split(".")[0] != package:
            raise  # something the dependency itself needs is broken: hiding that would mislead
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with: pip install 'neuro-divergent[{extra}]'"
        ) from None
