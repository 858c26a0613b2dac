"""Arguments of a model as plain data and back. A file names classes of this package and of torch.optim, no others."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch

from neuro_divergent.compat.neuralforecast.losses import pytorch as losses
from neuro_divergent.compat.neuralforecast.single.registered import CLASSES
from neuro_divergent.core.errors import ConfigError, CorruptFileError

RUNTIME = ("dataloader_kwargs", "callbacks", "logger", "profiler", "default_root_dir")
"""Arguments that a file may lose: they do not change a model."""

_TORCH = {"optimizer": torch.optim, "lr_scheduler": torch.optim.lr_scheduler}


def to_plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments as plain data. What a file cannot contain is left out with a warning if the model stays the same."""
    found = {}
    for name, value in arguments.items():
        try:
            found[name] = _plain(name, value)
        except ConfigError:
            if name not in RUNTIME:
                raise
            warnings.warn(f"{name} is not saved: {_unknown(value)} cannot be in a file.", UserWarning, stacklevel=4)
            kept = {key: item for key, item in value.items() if _is_plain(item)} if isinstance(value, dict) else None
            found[name] = kept or None
    return found


def from_plain(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `to_plain`."""
    return {name: _value(name, value) for name, value in arguments.items()}


def _is_plain(value: Any) -> bool:
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(isinstance(key, str) and _is_plain(item) for key, item in value.items())
    return value is None or isinstance(value, bool | int | float | str)


def _plain(name: str, value: Any) -> Any:
    if isinstance(value, np.ndarray | torch.Tensor):
        return value.tolist()
    if isinstance(value, np.generic):
        return value.item()
    if name in ("loss", "valid_loss") and value is not None and not isinstance(value, str):
        return _plain_loss(name, value)
    if name in _TORCH and inspect.isclass(value):
        kind: type = value
        if getattr(_TORCH[name], kind.__name__, None) is kind:
            return kind.__name__
    if isinstance(value, list | tuple):
        return [_plain("", item) for item in value]
    if not _is_plain(value):
        raise ConfigError(f"{name}: a file has numbers, texts and lists of them, but got {_unknown(value)}")
    return value


def _unknown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(str(key) for key, item in value.items() if not _is_plain(item))
    return type(value).__name__


def _plain_loss(name: str, loss: Any) -> dict[str, Any]:
    kind = type(loss)
    own = kind.__name__ if getattr(losses, kind.__name__, None) is kind and kind.__name__ in losses.__all__ else None
    known = own or next((key for key, cls in CLASSES.items() if cls is kind), None)
    if known is None:
        raise ConfigError(
            f"{name}: a file can name a loss of this package, or one that register_loss was given, but got "
            f"{kind.__qualname__}. Call register_loss({kind.__name__}) first"
        )
    told: dict[str, Any] = {"loss": known, "arguments": {}}
    if isinstance(loss, losses.BasePointLoss):
        positional, named = loss.__dict__["constructed_with"]
        told["positional"] = [_plain("", value) for value in positional]
    else:
        named = {key: getattr(loss, key) for key in inspect.signature(kind).parameters if hasattr(loss, key)}
    told["arguments"] = {key: _plain("", value) for key, value in named.items()}
    if getattr(loss, "updated", None) is not None:
        told["updated"] = [float(share) for share in loss.updated]
    return told


def _value(name: str, value: Any) -> Any:
    if name in _TORCH and isinstance(value, str):
        cls = getattr(_TORCH[name], value, None)
        if not inspect.isclass(cls):
            raise CorruptFileError(f"{name} must be a class of torch, but the file names {value!r}")
        return cls
    if name not in ("loss", "valid_loss") or value is None or isinstance(value, str):
        return value
    if not isinstance(value, dict) or value.get("loss") not in {*losses.__all__, *CLASSES}:
        got = value.get("loss") if isinstance(value, dict) else value
        raise CorruptFileError(
            f"{name}: {got!r} is not registered. Call register_loss with its class, or give load({name}=...)"
        )
    kind: Any = CLASSES.get(value["loss"]) or getattr(losses, value["loss"])
    loss = kind(*value.get("positional", ()), **value["arguments"])
    if "updated" in value:
        loss.update_quantile(value["updated"])
    return loss
