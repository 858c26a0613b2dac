"""One model in one file: a safetensors file of plain parts. No pickle, and no class is imported by name."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from neuro_divergent.compat.neuralforecast.errors import ArgumentError, NoModelFileError
from neuro_divergent.compat.neuralforecast.single.arguments_file import from_plain, to_plain
from neuro_divergent.compat.neuralforecast.single.registered import REGISTERED, local_path
from neuro_divergent.core import bundle, files
from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.errors import ConfigError, CorruptFileError, StorageError
from neuro_divergent.core.json import check_format, dump_json, parse_json
from neuro_divergent.core.runs.names import MODEL_DOCUMENT
from neuro_divergent.core.tensor_files import read_tensors, write_tensors
from neuro_divergent.forecasting.network.bounded_build import build_bounded, check_sizes
from neuro_divergent.forecasting.network.module import ForecastModule, build_module
from neuro_divergent.forecasting.storage.save_load import contents_of, forecaster_of, plain_tensors, take_tensors

FORMAT = 1
ARGUMENTS, WEIGHTS = "arguments.json", "weights.safetensors"
ALONE = ("HINT", "TimeLLM")
"""Models that need parts which are not in their file."""


def serialize(model: Any) -> bytes:
    """The file of a model: its arguments and weights, and if it is trained, all that forecasting needs."""
    _check_kind(type(model).__name__)
    parts = {} if model.fitted is None else contents_of(model.fitted)
    parts.setdefault(WEIGHTS, write_tensors(plain_tensors(model.module)))
    document = {
        "format": FORMAT,
        "model": type(model).__name__,
        "arguments": to_plain(model.arguments),
        "spec": asdict(model.module.spec),
        "test_size": model.test_size,
    }
    parts[ARGUMENTS] = dump_json(document, ARGUMENTS)
    blocks = {name: torch.frombuffer(bytearray(data), dtype=torch.uint8) for name, data in parts.items()}
    return write_tensors(blocks, checksum=True)


def save(model: Any, path: str | os.PathLike[str]) -> None:
    """Write the file of a model, whole or not at all."""
    files.write_bytes(path, serialize(model))


def load(
    cls: type, path: str | os.PathLike[str], changes: Mapping[str, Any], *, trust_remote: bool = False, device: Any
) -> Any:
    """The model of a file.

    Args:
        cls: its class; the file of another one is refused.
        path: the file.
        changes: arguments that replace those of the file; those that change the network do not fit its weights.
        trust_remote: accepted for a sentence: a single file is read from this machine.
        device: where the weights go; None leaves them on the CPU.
    """
    _check_kind(cls.__name__)
    _check_changes(cls, changes)
    parts = _parts(local_path(path, trust_remote=trust_remote))
    document = _document(parts, path)
    if document["model"] != cls.__name__:
        raise NoModelFileError(f"{path} holds a {document['model']} checkpoint, but {cls.__name__} was to be loaded")
    try:
        kept = {name: value for name, value in document["arguments"].items() if name not in changes}
        arguments = from_plain(kept) | dict(changes)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the arguments were warned of when the model was made
            model = cls(**arguments)
        _give_weights(model, parts, InputSpec(**_spec(document["spec"])), path)
        model.test_size = int(document["test_size"])
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{path}: {ARGUMENTS} has a missing or wrong entry: {error!r}") from error
    return model if device is None else model.to(device)


def _give_weights(model: Any, parts: dict[str, bytes], spec: InputSpec, path: Any) -> None:
    tensors = read_tensors(parts[WEIGHTS], WEIGHTS)
    shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    config = model.member.config

    def build() -> ForecastModule:
        return build_module(model.description, spec, config.loss, (), config.seed)

    try:
        module = build_bounded(build, shapes)
        take_tensors(module, tensors)
    except StorageError as error:
        given = ", ".join(f"{name}={model.arguments[name]!r}" for name in ("h", "input_size", "loss"))
        raise ConfigError(f"the weights of {path} do not fit the model built with {given}: {error}") from None
    module.eval()
    if MODEL_DOCUMENT not in parts:
        model._untrained = module
        return
    contents = {name: data for name, data in parts.items() if name != ARGUMENTS}
    using = REGISTERED | {type(model.loss).__qualname__: model.loss}
    fitted = forecaster_of(path, contents, device="cpu", using=using)
    fitted.module, fitted.config = module, fitted.config.replace(loss=config.loss)
    model.fitted = fitted


def _parts(path: str) -> dict[str, bytes]:
    try:
        blocks = read_tensors(bundle.plain_bytes(Path(path), bundle.MAX_BYTES), path)
    except CorruptFileError as error:
        raise NoModelFileError(f"{path} is not a neuralforecast checkpoint that save() wrote here: {error}") from None
    if not {ARGUMENTS, WEIGHTS} <= blocks.keys():
        raise NoModelFileError(f"{path} is not a neuralforecast checkpoint that save() wrote here: parts are missing")
    return {name: block.numpy().tobytes() for name, block in blocks.items()}


def _document(parts: Mapping[str, bytes], path: Any) -> dict[str, Any]:
    document: dict[str, Any] = parse_json(parts[ARGUMENTS], ARGUMENTS)
    check_format(document, FORMAT, f"{path}: {ARGUMENTS}")
    if not isinstance(document.get("arguments"), dict) or not isinstance(document.get("spec"), dict):
        raise CorruptFileError(f"{path}: {ARGUMENTS} must have the arguments and sizes of the model")
    check_sizes(document, ARGUMENTS)
    return document


def _spec(facts: Mapping[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in facts.items()}


def _check_kind(name: str) -> None:
    if name in ALONE:
        raise ConfigError(f"a {name} cannot be saved or loaded by itself: use NeuralForecast.save and load")


def _check_changes(cls: Any, changes: Mapping[str, Any]) -> None:
    unknown = [name for name in changes if name not in cls.argument_names()]
    if unknown:
        raise ArgumentError(f"Unexpected keyword arguments of load: {', '.join(unknown)}. Leave them out")
