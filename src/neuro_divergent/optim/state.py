"""An optimizer's state as tensors by parameter name. A checkpoint stays valid when parameter groups change.

Keys: "<parameter>/<entry>" for tensors, "<parameter>/<entry>#int" (or #float, #bool) for Python numbers as 0-d
tensors, "<parameter>/@<entry>#int" for numbers of the parameter's group, "<parameter>/slow.<entry>" for the entries of
Lookahead. The learning rate is not part of the state: it follows from configuration and schedule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from neuro_divergent.core.errors import StorageError, TrainingError
from neuro_divergent.optim.train_eval_weights import in_eval

_DTYPES = {"bool": torch.bool, "int": torch.int64, "float": torch.float64}
_NUMBERS: dict[str, Callable[[Any], Any]] = {"bool": bool, "int": int, "float": float}
_CONFIGURED = {"lr", "initial_lr", "train_mode"}


def state_tensors(optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """The live state by name. The next step changes these tensors: clone them to keep them."""
    if in_eval(optimizer):
        raise TrainingError(
            "an optimizer must be in training mode to read its state, but got one in evaluation mode. Call "
            "to_train(optimizer) first"
        )
    found: dict[str, Tensor] = {}
    for prefix, layer in _layers(optimizer):
        for name, parameter, group in _named(layer):
            for entry, value in layer.state.get(parameter, {}).items():
                found |= _packed(f"{name}/{prefix}{entry}", value)
            if not prefix:
                for entry, value in _changed(group).items():
                    found |= _packed(f"{name}/@{entry}", value)
    return found


def load_state(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]) -> None:
    """Replace the state of an optimizer by the tensors that `state_tensors` returned."""
    places = {name: (parameter, group) for name, parameter, group in _named(optimizer)}
    layers = dict(_layers(optimizer))
    fresh = _unpacked(tensors, places, slow="slow." in layers)
    for group in optimizer.param_groups:
        for entry in _changed(group):
            del group[entry]
        group.update({key: value for key, value in group["began_with"].items() if key not in _CONFIGURED})
    for layer in layers.values():
        layer.state.clear()
    for name, prefix, entry, value in fresh:
        parameter, group = places[name]
        if prefix == "@":
            group[entry] = value
        else:
            layers[prefix].state[parameter][entry] = _placed(value, parameter, group)
    for group in optimizer.param_groups if "slow." in layers else ():
        layers["slow."].init_group(group)  # type: ignore[attr-defined]  # for parameters unfrozen since the save


def _layers(optimizer: torch.optim.Optimizer) -> list[tuple[str, torch.optim.Optimizer]]:
    """The optimizer that steps, and the Lookahead around it if there is one."""
    inner = getattr(optimizer, "optimizer", None)
    return [("", inner), ("slow.", optimizer)] if isinstance(inner, torch.optim.Optimizer) else [("", optimizer)]


def _named(optimizer: torch.optim.Optimizer) -> Iterator[tuple[str, Tensor, dict[str, Any]]]:
    for group in optimizer.param_groups:
        for name, parameter in zip(group["names"], group["params"], strict=True):
            yield name, parameter, group


def _changed(group: dict[str, Any]) -> dict[str, Any]:
    """Numbers of a group that training added or changed, such as a step count."""
    first = group["began_with"]
    return {
        entry: value
        for entry, value in group.items()
        if isinstance(value, int | float) and entry not in _CONFIGURED and (entry not in first or first[entry] != value)
    }


def _packed(key: str, value: Any) -> dict[str, Tensor]:
    if value is None:
        return {}
    if isinstance(value, Tensor):
        # A view of a larger storage would be saved with all of it, or refused by the file format.
        whole = value.untyped_storage().nbytes() == value.nbytes and value.is_contiguous()
        return {key: value.detach() if whole else value.detach().clone(memory_format=torch.contiguous_format)}
    kind = type(value).__name__
    if kind not in _DTYPES:
        raise TrainingError(f"an optimizer's state must be tensors and numbers to be saved, but got {key}={value!r}")
    return {f"{key}#{kind}": torch.tensor(value, dtype=_DTYPES[kind])}


def _unpacked(
    tensors: Mapping[str, Tensor], places: Mapping[str, tuple[Tensor, dict[str, Any]]], slow: bool
) -> list[tuple[str, str, str, Any]]:
    """(parameter, layer, entry, value) of each tensor. Everything is checked before anything changes."""
    found = []
    for key, tensor in tensors.items():
        name, _, entry = key.rpartition("/")
        if name not in places:
            raise StorageError(
                f"the optimizer's state must fit the module, but it has {key!r} and the module has no trainable "
                f"parameter {name!r}. Resume with the model and the frozen parameters of the run."
            )
        prefix = "@" if entry.startswith("@") else "slow." if entry.startswith("slow.") else ""
        entry, _, kind = entry.removeprefix(prefix).partition("#")
        group = places[name][1]
        foreign = entry in _CONFIGURED or not isinstance(group.get(entry, 0), int | float)
        if (prefix == "slow." and not slow) or (prefix == "@" and foreign) or kind not in ("", *_NUMBERS):
            raise StorageError(f"the state must come from the same optimizer, but this one has no entry {key!r}")
        found.append((name, prefix, entry, _NUMBERS[kind](tensor.item()) if kind else tensor))
    return found


def _placed(value: Any, parameter: Tensor, group: dict[str, Any]) -> Any:
    """A copy on the device where the optimizer expects it; counts stay on the CPU unless a kernel reads them."""
    if not isinstance(value, Tensor):
        return value
    on_device = value.ndim > 0 or group.get("fused") or group.get("capturable")
    return value.detach().clone().to(parameter.device if on_device else "cpu")
