"""A Trainer in a watched process: arrays and configuration go there as files, the module by the name of its factory."""

from __future__ import annotations

import importlib
import json
import logging
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.core import files
from neuro_divergent.core.config import reference
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.json import MAX_JSON_BYTES, parse_json
from neuro_divergent.core.plain_files import plain_bytes
from neuro_divergent.core.seeding import isolated
from neuro_divergent.core.tensor_files import read_tensors, write_tensors
from neuro_divergent.losses import Loss
from neuro_divergent.training.arrays import Rows, as_rows
from neuro_divergent.training.config.other_process import not_in_files
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.loader_source import is_loader
from neuro_divergent.training.own_source import is_source
from neuro_divergent.training.process.supervisor import checkpoints_to_restart_from, supervise
from neuro_divergent.training.process.worker import error_of
from neuro_divergent.training.runs.checkpoint_store import forget
from neuro_divergent.training.runs.resume import Resume

FOLDER = "job"
"""In the run's directory: the job of the watched process, while it runs."""
WORKER = "neuro_divergent.training.module_worker"
_JOB, _ARRAYS = "job.json", "arrays.safetensors"
_LARGEST = 1 << 40


def built(factory: Any, seed: int) -> nn.Module:
    """The module that a function builds, its weights drawn under the seed."""
    if not callable(factory) or isinstance(factory, type):
        raise ConfigError(
            "a Trainer trains a torch.nn.Module, or what a function without arguments builds, but got "
            f"{factory.__name__ if isinstance(factory, type) else type(factory).__name__}"
        )
    with isolated(seed, "weights"):
        module = factory()
    if not isinstance(module, nn.Module):
        raise ConfigError(f"a factory builds a torch.nn.Module, but {reference(factory)} gave {type(module).__name__}")
    return module


def reference_of(factory: Any) -> str:
    """The name by which another process imports a factory, such as "my_package.models:build"."""
    wanted = (
        "a training that is restarted in another process builds its module there, so it needs a function of an "
        "importable Python module instead of the module: Trainer(config).fit(my_models.build, data)"
    )
    if isinstance(factory, nn.Module) or not callable(factory):
        raise ConfigError(
            f"{wanted}. But got {type(factory).__name__}; or set fault_tolerance=FaultTolerance(retries=0)"
        )
    name = reference(factory)
    home, _, function = name.partition(":")
    if home == "__main__" or not function.isidentifier():
        raise ConfigError(f"{wanted}. But {name} is defined where no other process can import it: move it to a file")
    return name


def train_in_process(factory: str, config: TrainingConfig, data: Any, validation: Any, resume: Resume) -> Resume:
    """Train in a watched process; the result says how this process takes over the finished run."""
    config = resume.applied(config)
    settings, tolerance = checkpoints_to_restart_from(config.checkpoints, resume.source), config.fault_tolerance
    assert tolerance is not None
    if any(is_loader(given) or is_source(given) for given in (data, validation)):
        raise ConfigError(
            "a supervised training reads its rows from a file, but a DataLoader or a source exists in this process "
            "only. Give arrays, or set fault_tolerance=FaultTolerance(retries=0)"
        )
    own = config.replace(
        fault_tolerance=tolerance.replace(retries=0), progress=False, checkpoints=settings.replace(on_stop=True)
    )
    if found := not_in_files(own):
        raise ConfigError(
            "a supervised training gets its settings as files, which cannot contain your own callables, but got "
            f"{', '.join(found)}. Use fault_tolerance=FaultTolerance(retries=0)"
        )
    folder = Path(settings.directory) / FOLDER
    try:
        _write(folder, own, {"training": data, "validation": validation}, sorted(resume.changes or {}))
        if resume.source is None:
            forget(settings)
        # The factory is named on the command line: no file says what is to be imported.
        command = [
            sys.executable,
            "-m",
            WORKER,
            str(folder),
            factory,
            json.dumps([place for place in sys.path if place]),
        ]
        for sentence in supervise(command, tolerance, settings.directory):
            logging.getLogger(__name__).warning("the training was restarted: %s", sentence)
    except ConfigError as error:
        raise error_of(folder) or error from None
    finally:  # however it ended: this is a copy of all rows
        files.remove_directory(folder)
    return Resume("auto", resume.changes, finished=True)


def imported(name: str) -> Any:
    """The factory of a name that `reference_of` gave."""
    home, _, function = name.partition(":")
    try:
        return getattr(importlib.import_module(home), function)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"the process of the training must be able to import {name}, but cannot: {error}") from error


def read_job(folder: Path) -> tuple[TrainingConfig, Any, Any, Resume]:
    """Configuration, data, validation and where to begin, of the folder of a supervised training."""
    document = parse_json(plain_bytes(folder / _JOB, MAX_JSON_BYTES), _JOB)
    config = TrainingConfig.from_dict(document["config"])
    tensors = read_tensors(plain_bytes(folder / _ARRAYS, _LARGEST), _ARRAYS)
    changes = {name: getattr(config, name) for name in document["resume_with"]}
    return config, _rows(tensors, "training"), _rows(tensors, "validation"), Resume("auto", changes)


def _write(folder: Path, config: TrainingConfig, parts: dict[str, Any], changes: list[str]) -> None:
    loss = config.resolved().loss
    assert isinstance(loss, Loss)
    dtype = torch.float64 if config.precision == "float64" else torch.float32
    tensors: dict[str, Tensor] = {}
    for name, data in parts.items():
        if data is not None:
            tensors |= _named(as_rows(data, loss, torch.device("cpu"), dtype), name)
    files.make_directories(folder)
    files.write_bytes(folder / _ARRAYS, write_tensors(tensors))
    files.write_json(folder / _JOB, {"config": config.to_dict(), "resume_with": changes})


def _named(rows: Rows, part: str) -> dict[str, Tensor]:
    inputs = rows.x if isinstance(rows.x, dict) else {"": rows.x}
    found = {f"{part}/x/{name}": tensor for name, tensor in inputs.items()} | {f"{part}/y": rows.y}
    return found if rows.weight is None else found | {f"{part}/weight": rows.weight}


def _rows(tensors: dict[str, Tensor], part: str) -> Any:
    if f"{part}/y" not in tensors:
        return None
    inputs = {name.removeprefix(f"{part}/x/"): x for name, x in tensors.items() if name.startswith(f"{part}/x/")}
    rows = (inputs.get("", inputs), tensors[f"{part}/y"])
    return (*rows, tensors[f"{part}/weight"]) if f"{part}/weight" in tensors else rows
