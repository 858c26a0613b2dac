"""Saves and loads fitted models: safetensors and JSON in a bundle; classes come only from the registry."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, TypeVar, Unpack

import numpy as np
import numpy.typing as npt
import safetensors.numpy
import torch
from torch import Tensor, nn

from neuro_divergent._version import __version__
from neuro_divergent.core import bundle, files
from neuro_divergent.core.devices import resolve_device
from neuro_divergent.core.errors import ConfigError, CorruptFileError, NeuroDivergentError, StorageError
from neuro_divergent.core.json import check_format, dump_json, from_plain, to_plain
from neuro_divergent.core.plain_files import settled
from neuro_divergent.core.runs.names import MODEL, MODEL_DOCUMENT, STUDY, is_remote
from neuro_divergent.core.tensor_files import read_tensors, write_tensors
from neuro_divergent.data.schema.bounds import Bounds
from neuro_divergent.data.schema.load_report import DataReport
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.files import anchor_fits
from neuro_divergent.data.store.fills import wrong_fills
from neuro_divergent.data.store.store import ROW_ARRAYS, SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.distributed.group import main_process
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.bounded_build import build_bounded, check_shapes, check_sizes
from neuro_divergent.forecasting.predict.ahead import context_rows
from neuro_divergent.forecasting.predict.conformal import Calibration
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.kept import KeptForecasts
from neuro_divergent.forecasting.predict.lineage import Lineage
from neuro_divergent.forecasting.predict.local_scaling import LocalScaling
from neuro_divergent.forecasting.predict.quantile_calibration import QuantileCalibration
from neuro_divergent.forecasting.storage.check_saved import (
    check_calibration,
    check_corrections,
    check_events,
    check_limits,
    check_rows,
    check_scaling,
    checked_anchor,
    checked_library,
    checked_spec,
)
from neuro_divergent.forecasting.storage.fetched import fetched
from neuro_divergent.forecasting.storage.of_checkpoint import WHOLE_TABLE, Found, find_checkpoint
from neuro_divergent.forecasting.storage.several import is_many, load_many, load_study
from neuro_divergent.losses import Loss
from neuro_divergent.losses.distribution import as_written
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.state.history import History

if TYPE_CHECKING:
    from neuro_divergent.forecasting.several.ensemble import Ensemble
    from neuro_divergent.forecasting.several.neural_forecast import NeuralForecast

Kind = TypeVar("Kind")

_BLOCKS = (*ROW_ARRAYS, "static", "static_categorical")
MODEL_FORMAT = 1
"""Version of model.json. This version and older ones can be read; a key that older files lack has a default."""

_HISTORY = "history.safetensors"
_EXTRAS = "extras.safetensors"
_PER_STEP = ("step_loss", "gradient_norm")
"""The columns of the history that are too long for JSON: a run may have millions of steps."""


def save(
    forecaster: Forecaster, path: str | os.PathLike[str], *, context: bool = True, overwrite: bool = False
) -> None:
    """Write a forecaster; see `Forecaster.save`. Of several processes that train together, the main one writes."""
    if main_process():
        bundle.write(path, contents_of(forecaster, context=context), overwrite=overwrite)


def contents_of(forecaster: Forecaster, *, context: bool = True) -> dict[str, bytes]:
    """The files of a saved forecaster, by name."""
    weights = plain_tensors(forecaster.module)
    contents = context_files(forecaster, context=context, history=forecaster.history, weights=weights)
    return contents | {"weights.safetensors": write_tensors(weights)}


def context_files(
    forecaster: Forecaster,
    *,
    context: bool = True,
    whole: bool = False,
    history: History | None = None,
    weights: Mapping[str, Tensor] | None = None,
) -> dict[str, bytes]:
    """The files of a saved forecaster without its weights: its description, its last rows (or all), and its extras."""
    data = forecaster.data
    if not whole:
        data = data.tail(context_rows(forecaster.model, data.schema))
    if not context:
        data = data.head(1)  # keeps the names and the schema, not the values
    check_limits(
        forecaster.model,
        int(data.store.lengths.max(initial=0)),
        _widest(forecaster.module.state_dict() if weights is None else weights),
    )  # or it could not be read again
    arrays, facts = _pack(data.store, values=context)
    extras, extra_facts = _pack_extras(forecaster, values=context)
    told = (history or History()).to_dict()
    steps = {name: np.array(told.pop(name), dtype=np.float64) for name in _PER_STEP}
    document = {
        "schema": MODEL_FORMAT,
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
        "history": to_plain(told, "history"),
        "extras": extra_facts,
    }
    if forecaster.bounds is not None:
        document["bounds"] = forecaster.bounds.to_dict()
    if whole:
        document[WHOLE_TABLE] = True
    if forecaster.lineage is not None:
        document["lineage"] = asdict(forecaster.lineage)
    return {
        MODEL_DOCUMENT: dump_json(document, MODEL_DOCUMENT),
        "context.safetensors": safetensors.numpy.save(arrays),
        _HISTORY: safetensors.numpy.save(steps),
    } | extras


class ReadOptions(TypedDict, total=False):
    """The keyword arguments of `load`."""

    device: str
    using: Mapping[str, Callable[..., Any]] | None


def load_one(path: str | os.PathLike[str], kind: type[Kind], **options: Unpack[ReadOptions]) -> Kind:
    """The object that `load` reads, if it is of this kind; anything else is refused."""
    found = load(path, **options)
    if not isinstance(found, kind):
        raise StorageError(
            f"{kind.__name__}.load reads a saved {kind.__name__}, but {path} is a {type(found).__name__}. Write "
            f"nd.{type(found).__name__}.load({str(path)!r}), or nd.load for either"
        )
    return found


def load(
    path: str | os.PathLike[str], *, device: str = "auto", using: Mapping[str, Callable[..., Any]] | None = None
) -> Forecaster[Any] | NeuralForecast | Ensemble:
    """Read a saved Forecaster, NeuralForecast, Ensemble or AutoResult, or the Forecaster of a run or a checkpoint.

    The directory of a search gives its SearchResult.

    Nothing in the directory is executed. For a run, the model that it saved is read, else its newest checkpoint, with
    the weights that the run would have returned if it had ended there.

    The `config` of the result is that of the training, without callbacks and checkpoints: those belong to the run.

    Args:
        path: the directory of `save`, of a run, or of a checkpoint (of a run, or of `save_checkpoint`), or the
            address of one (s3://..., any that fsspec knows), which is copied to this machine first and verified.
        device: the device of the weights; a model saved on one device loads on another.
        using: your own callables and scalers that the file names only by reference, such as {"my_loss": my_loss}.
    """
    if is_remote(path):
        with fetched(str(path)) as place:
            return load(place, device=device, using=using)
    if (files.present(Path(path)) / STUDY).is_file():
        return load_study(path, using=using)  # type: ignore[no-any-return]  # a SearchResult, of a room above
    inside = Path(path) / MODEL
    if files.present(inside).is_dir() and not (Path(path) / bundle.MANIFEST).exists():
        path = inside
    found = find_checkpoint(Path(path))
    if found is not None:
        return _of_checkpoint(found, device=device, using=using)
    if settled(Path(path), lambda: is_many(path)):
        several: NeuralForecast | Ensemble = load_many(
            path, lambda part, contents: forecaster_of(part, contents, device=device, using=using)
        )
        return several
    return forecaster_of(path, bundle.read(path), device=device, using=using)


def _of_checkpoint(found: Found, *, device: str, using: Mapping[str, Callable[..., Any]] | None) -> Forecaster:
    """The forecaster of a checkpoint: the model that its run described, with the checkpoint's weights and history."""
    contents = dict(found.context) | {"weights.safetensors": write_tensors(found.weights())}
    forecaster = forecaster_of(found.place, contents, device=device, using=using)
    found.finish(forecaster)
    check_events(forecaster.history, forecaster.data.store)
    return forecaster


def forecaster_of(
    path: str | os.PathLike[str],
    contents: Mapping[str, bytes],
    *,
    device: str,
    using: Mapping[str, Callable[..., Any]] | None,
) -> Forecaster:
    """The forecaster of some files by name; the path is for messages."""
    from neuro_divergent.forecasting.network.module import build_module

    missing = {MODEL_DOCUMENT, "weights.safetensors", "context.safetensors"} - contents.keys()
    if missing:
        raise CorruptFileError(f"{path} must be a saved forecaster, but lacks {', '.join(sorted(missing))}")
    document = bundle.parse_json(contents[MODEL_DOCUMENT], MODEL_DOCUMENT)
    check_format(document, MODEL_FORMAT, f"{path}/{MODEL_DOCUMENT}")
    tensors = _tensors(contents["weights.safetensors"], "weights.safetensors")
    try:
        check_sizes({name: document[name] for name in ("model", "spec", "anchor")}, MODEL_DOCUMENT)
        model = Model.from_saved(document["model"], using=using)
        config = _config(document["config"], using)
        schema = DataSchema.from_dict(document["data"])
        spec = checked_spec(document["spec"])
        loss = config.loss
        if not isinstance(loss, Loss):
            raise ConfigError("the configuration of a saved model names its loss, but this one does not")
        if (spec.horizon, spec.lookback) != (model.h, model.input_size):
            raise CorruptFileError(f"{path}: {MODEL_DOCUMENT} gives two horizons or two input sizes")
        store = _unpack(contents["context.safetensors"], document["context"])
        history = _history(document["history"], contents.get(_HISTORY))
        check_rows(store, schema, model, spec, f"{path}/context.safetensors")
        check_events(history, store)
        anchor = checked_anchor(document["anchor"], model.input_size)
        shapes = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
        check_limits(model, int(store.lengths.max()), _widest(tensors))
        module = build_bounded(lambda: build_module(model, spec, loss, anchor, config.seed), shapes)
        take_tensors(module, tensors)
        library = checked_library(document.get("library", "polars"))
        bounds = None if document.get("bounds") is None else Bounds.from_dict(document["bounds"])
        data = TimeSeriesDataFrame(store, schema, DataReport(), library=library)
    except NeuroDivergentError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, OverflowError, RecursionError) as error:
        raise CorruptFileError(f"{path}: {MODEL_DOCUMENT} has a missing or wrong entry: {error!r}") from error
    module.to(resolve_device(device)).eval()
    forecaster = Forecaster(
        model=model,
        config=config,
        module=module,
        data=data,
        history=history,
        anchor=anchor,
        lineage=_lineage(document.get("lineage")),
        bounds=bounds,
    )
    forecaster.has_context = document["context"].get("values") is not False
    try:
        return _unpack_extras(forecaster, contents, document.get("extras") or {}, using)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        if isinstance(error, NeuroDivergentError):
            raise
        raise CorruptFileError(f"{path}: extras have a wrong form: {error!r}") from error


def save_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Write a module's weights as one safetensors file with a checksum of its content."""
    if main_process():
        files.write_bytes(path, write_tensors(plain_tensors(module), checksum=True))


def load_weights(module: nn.Module, path: str | os.PathLike[str]) -> None:
    """Load the weights of a safetensors file. Names and shapes must match."""
    if not Path(path).exists():
        raise StorageError(f"{path} does not exist. Give the file that save_weights() made")
    take_tensors(module, _tensors(bundle.plain_bytes(Path(path), bundle.MAX_BYTES), str(path)))


def plain_tensors(module: nn.Module) -> dict[str, Tensor]:
    """The weights of a module as a file has them: on the CPU, without shared memory, all finite."""
    tensors: dict[str, Tensor] = {}
    places: set[int] = set()
    for name, tensor in module.state_dict().items():
        plain = tensor.detach().cpu().contiguous()
        # Weights that two layers share are written under both names: the format has no shared tensors.
        tensors[name] = plain.clone() if plain.numel() and plain.data_ptr() in places else plain
        places.add(plain.data_ptr())
    for name, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise StorageError(f"weights must be finite to be saved, but {name} is not")
    return tensors


def _widest(tensors: Mapping[str, Tensor]) -> int:
    return max((side for tensor in tensors.values() for side in tensor.shape), default=0)


def _tensors(data: bytes, name: str) -> dict[str, Tensor]:
    tensors = read_tensors(data, name)
    for key, tensor in tensors.items():
        if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
            raise CorruptFileError(f"weights must be finite, but {key} in {name} is not")
    return tensors


def take_tensors(module: nn.Module, tensors: dict[str, Tensor]) -> None:
    """Copy the tensors of a file to a module, in the file's precision."""
    check_shapes(module, {name: tuple(tensor.shape) for name, tensor in tensors.items()})
    own = module.state_dict()
    formats = {tensor.dtype for name, tensor in tensors.items() if own[name].is_floating_point()}
    foreign = [name for name, tensor in tensors.items() if tensor.is_floating_point() != own[name].is_floating_point()]
    if foreign or len(formats) > 1 or not formats <= {torch.float32, torch.float64}:
        raise StorageError(f"weights must be float32 or float64, all alike, but got {sorted(map(str, formats))}")
    if formats:
        module.to(formats.pop())
    module.load_state_dict(tensors)


def _config(data: Any, using: Mapping[str, Callable[..., Any]] | None) -> TrainingConfig:
    """The configuration of the training without its directories: resuming would write there."""
    if isinstance(data, dict):  # versions without this field split series by series
        data = {"split_by": "series"} | data
        data |= {name: as_written(data[name]) for name in ("loss", "validation_loss") if name in data}
    config = TrainingConfig.from_dict(data, using=using)
    if config.callbacks:
        raise CorruptFileError(
            f"a saved model has no callbacks (they write files), but {MODEL_DOCUMENT} has {config.callbacks[0]!r}"
        )
    return config.unsaved()


def _history(data: Any, steps: bytes | None) -> History:
    """The history of the training. The oldest files also have the losses of the steps in their JSON."""
    data = from_plain(data)
    if steps is not None:
        found = read_tensors(steps, _HISTORY)
        if found.keys() != set(_PER_STEP) or any(
            item.dtype != torch.float64 or item.ndim != 1 for item in found.values()
        ):
            raise CorruptFileError(f"{_HISTORY} must hold {' and '.join(_PER_STEP)}, a number a step, but does not")
        data |= {name: values.tolist() for name, values in found.items()}
    history = History.from_dict(data)
    records = [*history.epochs, *history.events]
    numbers = [*history.step_loss, *history.gradient_norm]
    if not all(isinstance(record, dict) for record in records) or not all(isinstance(n, int | float) for n in numbers):
        raise CorruptFileError(f"{MODEL_DOCUMENT} must hold a history of numbers, but does not")
    return history


def _lineage(data: Any) -> Lineage | None:
    """The lineage of a model; None for files of versions without it."""
    if data is None:
        return None
    known = {field.name for field in fields(Lineage)}
    texts = isinstance(data, dict) and all(isinstance(value, str | None) for value in data.values())
    if not texts or not isinstance(data.get("run_id"), str) or data.keys() - known:
        raise CorruptFileError(f"{MODEL_DOCUMENT} must hold a lineage of {', '.join(sorted(known))}, but has {data!r}")
    return Lineage(**data)


def _pack(store: SeriesStore, *, values: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    arrays = {"offsets": store.offsets, "start": _as_integers(store.start)}
    if store.grid_anchor is not None:
        arrays["grid_anchor"] = _as_integers(store.grid_anchor)
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
    anchor = arrays.pop("grid_anchor", start)  # older models count from their first row
    offsets = arrays.pop("offsets")
    ids = np.array(facts["ids"])
    rows = len(arrays["y"])
    whole = all(times.dtype == np.int64 for times in (start, anchor))
    if not whole or offsets.dtype.kind != "i" or offsets.ndim != 1:
        raise CorruptFileError("context.safetensors must hold its times and offsets as whole numbers, but does not")
    if (
        len(offsets) != len(ids) + 1
        or start.shape != ids.shape
        or anchor.shape != ids.shape
        or int(offsets[-1]) != rows
        or (np.diff(offsets) < 0).any()
    ):
        raise CorruptFileError("context.safetensors must hold one start and one offset per series, but does not")
    store = SeriesStore(
        ids=ids,
        offsets=offsets,
        start=start if facts["integer_time"] else start.view("datetime64[us]"),
        grid_anchor=anchor if facts["integer_time"] else anchor.view("datetime64[us]"),
        freq=facts["freq"],
        time_zone=facts["time_zone"],
        future_names=tuple(facts["future_names"]),
        historical_names=tuple(facts["historical_names"]),
        static_names=tuple(facts["static_names"]),
        categories={name: tuple(values) for name, values in facts["categories"].items()},
        **{name: arrays[name] for name in _BLOCKS if name in arrays},
    )
    broken = wrong_fills(store)
    if broken is not None:
        raise CorruptFileError(f"context.safetensors must hold rows as they were written, but does not: {broken}")
    if not anchor_fits(store):
        raise CorruptFileError("context.safetensors must hold a grid_anchor whose grid holds the start, but does not")
    if facts.get("values") is False:  # values that were left out are zeros: they must not be used
        return store.replace(mask=np.zeros(rows, dtype=bool))
    return store


def _as_integers(start: np.ndarray) -> np.ndarray:
    return start if start.dtype.kind == "i" else start.astype("datetime64[us]").view(np.int64)


def _pack_extras(forecaster: Forecaster, *, values: bool) -> tuple[dict[str, bytes], dict[str, Any]]:
    """Files and document entries for what a forecaster has besides weights and rows; both may be empty.

    Without `values`, nothing that holds values of the table is written.
    """
    arrays: dict[str, npt.NDArray[Any]] = {}
    facts: dict[str, Any] = {}
    if forecaster.intervals is not None:
        facts["intervals"] = forecaster.intervals.facts()
        arrays |= {f"intervals.{name}": array for name, array in forecaster.intervals.to_arrays().items()}
    if forecaster.calibration is not None:
        facts["calibration"] = forecaster.calibration.facts()
        arrays |= {f"calibration.{name}": array for name, array in forecaster.calibration.to_arrays().items()}
    if forecaster.local is not None:
        # The file has only the last rows: scale a series that was not trained on now, by all of its rows.
        local = forecaster.local.including(forecaster.data, forecaster.data.store.lengths)
        facts["local"] = local.facts()
        arrays |= {f"local.{name}": array for name, array in local.scaler.to_arrays().items()}
    if forecaster.kept is not None and values:
        facts["kept"] = forecaster.kept.facts()
        arrays |= {f"kept.{name}": array for name, array in forecaster.kept.to_arrays().items()}
    if not arrays:
        return {}, {}
    return {
        _EXTRAS: safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    }, facts


def _unpack_extras(
    forecaster: Forecaster, contents: Mapping[str, bytes], facts: Mapping[str, Any], using: Mapping[str, Any] | None
) -> Forecaster:
    """Restore what `_pack_extras` saved."""
    if not facts:
        return forecaster
    if _EXTRAS not in contents:
        raise CorruptFileError(
            f"a model with prediction intervals, series scaling or kept forecasts must have {_EXTRAS}, but this one "
            "does not"
        )
    bundle.check_safetensors(contents[_EXTRAS], _EXTRAS)
    try:
        arrays = safetensors.numpy.load(contents[_EXTRAS])
    except Exception as error:
        raise CorruptFileError(f"{_EXTRAS} must be a safetensors file, but is not: {error}") from None

    def part(prefix: str) -> dict[str, npt.NDArray[Any]]:
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

    if "intervals" in facts:
        forecaster.intervals = Calibration.from_parts(facts["intervals"], part("intervals."))
        check_calibration(forecaster.intervals, forecaster.model.h)
    if "calibration" in facts:
        forecaster.calibration = QuantileCalibration.from_parts(facts["calibration"], part("calibration."))
        check_corrections(forecaster.calibration, forecaster.model.h)
    if "local" in facts:
        forecaster.local = LocalScaling.from_parts(facts["local"], part("local."), using)
        check_scaling(forecaster.local)
    if "kept" in facts:
        forecaster.kept = KeptForecasts.from_parts(facts["kept"], part("kept."))
    return forecaster
