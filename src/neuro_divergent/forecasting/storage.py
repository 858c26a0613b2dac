"""Saving and loading fitted models: safetensors and JSON in a bundle, classes through the registry only."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import safetensors.numpy
import safetensors.torch
import torch
from torch import Tensor, nn

from neuro_divergent._version import __version__
from neuro_divergent.core import bundle, files
from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.config import SCHEMA_VERSION
from neuro_divergent.core.devices import resolve_device
from neuro_divergent.core.errors import ConfigError, CorruptFileError, StorageError
from neuro_divergent.data.frame import TimeSeriesDataFrame
from neuro_divergent.data.report import DataReport
from neuro_divergent.data.schema import DataSchema
from neuro_divergent.data.store import SeriesStore
from neuro_divergent.forecasting.forecaster import Forecaster
from neuro_divergent.forecasting.model import Model
from neuro_divergent.losses import Loss
from neuro_divergent.training.config import TrainingConfig
from neuro_divergent.training.history import History

_BLOCKS = ("y", "mask", "future", "historical", "static", "categorical", "static_categorical", "weight")


def save(forecaster: Forecaster, path: str | os.PathLike[str], *, context: bool = True, overwrite: bool = False) -> None:
    """Write a forecaster; see `Forecaster.save`."""
    data = forecaster.data.tail(forecaster.model.input_size)
    if not context:
        data = data.head(1)  # the names and the schema stay, the values do not
    arrays, facts = _pack(data.store, values=context)
    document = {
        "schema": SCHEMA_VERSION,
        "kind": "Forecaster",
        "version": __version__,
        "torch": torch.__version__.split("+")[0],
        "python": platform.python_version(),
        "model": forecaster.model.to_dict(),
        "config": forecaster.config.replace(callbacks=()).to_dict(),
        "spec": asdict(forecaster.module.spec),
        "anchor": list(forecaster.anchor),
        "data": forecaster.data.schema.to_dict(),
        "library": forecaster.data.library,
        "context": facts,
        "history": forecaster.history.to_dict(),
    }
    contents = {
        "model.json": json.dumps(document, indent=2, allow_nan=False).encode(),
        "weights.safetensors": safetensors.torch.save(_plain_tensors(forecaster.module)),
        "context.safetensors": safetensors.numpy.save(arrays),
    }
    bundle.write(path, contents, overwrite=overwrite)


def load(
    path: str | os.PathLike[str], *, device: str = "auto", using: Mapping[str, Callable[..., Any]] | None = None
) -> Forecaster:
    """Read a saved model. Nothing in the directory is executed.

    Args:
        path: the directory that `save` made.
        device: where to put the weights; a model saved on one device loads on another.
        using: your own callables that the file knows only by reference, such as {"my_loss": my_loss}.
    """
    from neuro_divergent.forecasting.fit import build_module

    contents = bundle.read(path)
    missing = {"model.json", "weights.safetensors", "context.safetensors"} - contents.keys()
    if missing:
        raise CorruptFileError(f"{path} is not a saved forecaster: it lacks {', '.join(sorted(missing))}")
    document = bundle.parse_json(contents["model.json"], "model.json")
    try:
        model = Model.from_dict(document["model"])
        config = TrainingConfig.from_dict(document["config"], using=using)
        schema = DataSchema.from_dict(document["data"])
        spec = document["spec"] | {"categories": tuple(document["spec"]["categories"])}
        loss = config.loss
        if not isinstance(loss, Loss):
            raise ConfigError("the configuration of a saved model names its loss, but this one does not")
        module = build_module(model, InputSpec(**spec), loss, tuple(document["anchor"]), config.seed)
        store = _unpack(contents["context.safetensors"], document["context"])
        history = History.from_dict(document["history"])
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{path}: model.json lacks something or has it in a wrong form: {error!r}") from error
    _take(module, _tensors(contents["weights.safetensors"], "weights.safetensors"))
    data = TimeSeriesDataFrame(store, schema, DataReport(), library=document.get("library", "polars"))
    module.to(resolve_device(device)).eval()
    return Forecaster(
        model=model, config=config, module=module, data=data, history=history, anchor=tuple(document["anchor"])
    )


def save_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write a module's weights as one safetensors file."""
    files.write_bytes(path, safetensors.torch.save(_plain_tensors(module)))


def load_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Take the weights of a safetensors file; names and shapes must fit."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise StorageError(f"{path} could not be read: {error.strerror or error}") from None
    _take(module, _tensors(data, str(path)))


def _plain_tensors(module: nn.Module) -> dict[str, Tensor]:
    tensors = {name: tensor.detach().cpu().contiguous() for name, tensor in module.state_dict().items()}
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise StorageError(f"weights must be finite to be saved, but {name} is not")
    return tensors


def _tensors(data: bytes, name: str) -> dict[str, Tensor]:
    bundle.check_safetensors(data, name)
    try:
        tensors: dict[str, Tensor] = safetensors.torch.load(data)
    except Exception as error:
        raise CorruptFileError(f"{name} must be a safetensors file, but is not: {error}") from None
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise CorruptFileError(f"weights must be finite, but {key} in {name} is not")
    return tensors


def _take(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    own = module.state_dict()
    if own.keys() != tensors.keys():
        odd = sorted(own.keys() ^ tensors.keys())
        raise StorageError(f"the weights must be those of this model, but differ in: {', '.join(odd[:6])}")
    for name, tensor in tensors.items():
        if own[name].shape != tensor.shape:
            raise StorageError(f"{name} must have the shape {tuple(own[name].shape)}, but got {tuple(tensor.shape)}")
    module.to(next(iter(tensors.values())).dtype)
    module.load_state_dict(tensors)


def _pack(store: SeriesStore, *, values: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays = {"offsets": store.offsets, "start": _as_integers(store.start)}
    for name in _BLOCKS:
        block = getattr(store, name)
        if block is not None:
            arrays[name] = np.ascontiguousarray(block if values else np.zeros_like(block))
    facts = {
        "ids": store.ids.tolist(),
        "integer_time": store.start.dtype.kind == "i",
        "freq": store.freq,
        "time_zone": store.time_zone,
        "future_names": store.future_names,
        "historical_names": store.historical_names,
        "static_names": store.static_names,
        "categories": store.categories,
        "values": values,
    }
    return {name: np.ascontiguousarray(array) for name, array in arrays.items()}, facts


def _unpack(data: bytes, facts: dict[str, Any]) -> SeriesStore:
    bundle.check_safetensors(data, "context.safetensors")
    try:
        arrays = safetensors.numpy.load(data)
    except Exception as error:
        raise CorruptFileError(f"context.safetensors must be a safetensors file, but is not: {error}") from None
    start = arrays.pop("start")
    offsets = arrays.pop("offsets")
    ids = np.array(facts["ids"])
    rows = len(arrays["y"])
    if len(offsets) != len(ids) + 1 or len(start) != len(ids) or int(offsets[-1]) != rows or (np.diff(offsets) < 0).any():
        raise CorruptFileError("context.safetensors must hold one start and one offset per series, but does not")
    return SeriesStore(
        ids=ids,
        offsets=offsets,
        start=start if facts["integer_time"] else start.view("datetime64[us]"),
        freq=facts["freq"],
        time_zone=facts["time_zone"],
        future_names=tuple(facts["future_names"]),
        historical_names=tuple(facts["historical_names"]),
        static_names=tuple(facts["static_names"]),
        categories={name: tuple(values) for name, values in facts["categories"].items()},
        **{name: arrays[name] for name in _BLOCKS if name in arrays},
    )


def _as_integers(start: np.ndarray) -> np.ndarray:
    return start if start.dtype.kind == "i" else start.astype("datetime64[us]").view(np.int64)
