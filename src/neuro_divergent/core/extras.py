"""Optional dependencies: imported on first use, with a clear error if one is missing."""

from __future__ import annotations

import importlib
from types import ModuleType

from neuro_divergent.core.errors import MissingExtraError


def require(module: str, *, extra: str, purpose: str) -> ModuleType:
    """Import and return an optional dependency. If it is missing, the error shows how to install it.

    Args:
        module: the module to import, such as "matplotlib.pyplot".
        extra: the extra of this distribution that installs it.
        purpose: what needs it, as the subject of the message ("Plots").
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        package = module.split(".")[0]
        if error.name is not None and error.name.split(".")[0] != package:
            raise  # a dependency of the dependency is missing: the original error names it
        raise MissingExtraError(
            f"{purpose} needs {package}, which is not installed. "
            f"Install it with: pip install 'neuro-divergent[{extra}]'"
        ) from None
