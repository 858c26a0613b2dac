"""`Forecaster.export`: one file, raw windows in, forecasts out; checked against the model on real windows."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from neuro_divergent._version import __version__
from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.core.json import dump_json
from neuro_divergent.export import onnx_file
from neuro_divergent.export.program import Program
from neuro_divergent.losses.probability_levels import Levels

if TYPE_CHECKING:
    from neuro_divergent.forecasting.network.output_columns import Columns
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.forecasting.predict.predictor import Predictor

Quantize = Literal["int8", "float16"]
TOLERANCE = 1e-4
"""Largest accepted difference of a file from the model, in units of the spread of the windows, without quantization."""
CHECKED = (1, 2, 7)
"""Numbers of windows with which a file is checked."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """A written file, and how far its forecasts are from those of the model."""

    path: Path
    format: str
    quantize: str | None
    opset: int
    bytes: int
    difference: float
    """The largest difference of a forecast on the checked windows, in units of the spread of the windows."""
    interface: Mapping[str, Any]
    """Inputs with shapes, names of the output columns, and facts about the model: the contents of the JSON file."""

    def __str__(self) -> str:
        kind = self.format.upper() + (f", {self.quantize}" if self.quantize else "")
        return (
            f"{self.path}: {kind}, opset {self.opset}, {self.bytes / 1e6:.2f} MB, largest difference from the model "
            f"{self.difference:.1e} of the spread of a window"
        )


def export(
    fitted: Forecaster,
    path: str | os.PathLike[str],
    *,
    format: Literal["onnx"] = "onnx",  # noqa: A002
    quantize: Quantize | None = None,
    level: Levels = None,
    quantiles: Levels = None,
    overwrite: bool = False,
) -> Exported:
    """Write a fitted model as one file; see `Forecaster.export`."""
    if format != "onnx":
        raise ConfigError(f"format must be 'onnx', but got format={format!r}")
    if quantize not in (None, "int8", "float16"):
        raise ConfigError(f"quantize must be None, 'int8' or 'float16', but got quantize={quantize!r}")
    target = Path(path)
    if target.exists() and not overwrite:
        raise StorageError(f"{target} exists already. Choose another path, or say overwrite=True")
    predictor = fitted.predictor()
    columns = predictor.columns(level, quantiles)
    program = Program(predictor, columns)
    windows = example_windows(predictor, max(CHECKED))
    interface = interface_of(predictor, columns, windows, quantize)
    data = onnx_file.write_onnx(program, windows, interface, quantize)
    difference = checked(data, predictor, windows, level, quantiles)
    if quantize is None and not difference <= TOLERANCE:
        raise ConfigError(
            f"the file must forecast what the model does, but on its own windows it differs by {difference:.2g} of "
            "their spread, so it was not written"
        )
    interface = {**interface, "sha256": hashlib.sha256(data).hexdigest(), "difference": difference}
    files.write_bytes(target, data)
    files.write_bytes(target.with_suffix(target.suffix + ".json"), dump_json(interface, "the interface"))
    return Exported(
        path=target,
        format=format,
        quantize=quantize,
        opset=onnx_file.OPSET,
        bytes=len(data),
        difference=difference,
        interface=interface,
    )


def example_windows(predictor: Predictor, count: int) -> onnx_file.Arrays:
    """Windows of the model's own rows, repeated if there are fewer, with a missing value in the second."""
    spec, many = predictor.module.spec, predictor.model.capabilities.multivariate
    store, lookback = predictor.data.store, predictor.model.input_size
    rows = [np.asarray(store.y[first:last], dtype=np.float32) for first, last in zip(*_bounds(store), strict=True)]
    long = [row[-lookback:] for row in rows if len(row) >= lookback] or [np.resize(rows[0], lookback)]
    if many:
        one = np.stack([np.resize(row[-lookback:], lookback) for row in rows], axis=1)
        x = np.stack([one * (1 + 0.1 * number) for number in range(count)])
    else:
        x = np.stack([long[number % len(long)] * (1 + 0.1 * (number // len(long))) for number in range(count)])
    x = x.astype(np.float32)
    if lookback > 2:
        x[1, lookback // 2] = np.nan
    arrays: onnx_file.Arrays = {"x": x}
    draw = np.random.default_rng(0)
    channels = (spec.series,) if many else ()
    shapes = {
        "future": (lookback + spec.horizon, *channels, spec.future),
        "historical": (lookback, *channels, spec.historical),
        "static": (*channels, spec.static),
    }
    for name, shape in shapes.items():
        if shape[-1]:
            mean, scale = (predictor.module.get_buffer(f"{name}_{part}").numpy() for part in ("mean", "scale"))
            arrays[name] = (mean + scale * draw.normal(size=(count, *shape))).astype(np.float32)
    if spec.categories:
        shape = (count, lookback + spec.horizon, *channels)
        arrays["categorical"] = np.stack([draw.integers(0, size, shape) for size in spec.categories], axis=-1)
    return arrays


def _bounds(store: Any) -> tuple[Any, Any]:
    return store.offsets[:-1], store.offsets[1:]


def checked(data: bytes, predictor: Predictor, windows: onnx_file.Arrays, level: Levels, quantiles: Levels) -> float:
    """The largest difference from `predict_array` for some numbers of windows, relative to the spread of a window."""
    run = onnx_file.session(data)
    worst = 0.0
    for count in CHECKED:
        given = {name: array[:count] for name, array in windows.items()}
        wanted = predictor.predict_array(**given, level=level, quantiles=quantiles).astype(np.float64)
        got = run(given).astype(np.float64).reshape(wanted.shape)
        spread = max(float(np.nanstd(given["x"])), 1e-3 * float(np.nanmax(np.abs(given["x"]))), 1e-12)
        worst = max(worst, float(np.abs(got - wanted).max()) / spread)
    return worst


def interface_of(
    predictor: Predictor, columns: Columns, windows: onnx_file.Arrays, quantize: str | None
) -> dict[str, Any]:
    """Inputs, outputs and facts of a file as plain data."""
    store, schema = predictor.data.store, predictor.data.schema
    named = {
        "x": [schema.target_col],
        "future": list(store.future_names),
        "historical": list(store.historical_names),
        "static": list(store.static_names),
        "categorical": list(store.categories),
    }
    axes = ["windows", "rows of the lookback"] + ["series"] * predictor.model.capabilities.multivariate
    return {
        "format": "neuro-divergent export 1",
        "version": __version__,
        "model": predictor.model.to_dict(),
        "frequency": str(store.freq),
        "lookback": predictor.model.input_size,
        "horizon": predictor.model.h,
        "quantize": quantize,
        "inputs": {
            name: {
                "shape": ["windows", *array.shape[1:]],
                "type": str(array.dtype),
                "columns": named[name],
                **({"axes": axes, "missing": "NaN"} if name == "x" else {}),
            }
            for name, array in windows.items()
        },
        "output": {"name": "forecast", "columns": list(columns.names), "units": "those of the target"},
        "intervals": "for series whose errors were not measured" if columns.probabilities else None,
        "series": [str(name) for name in store.ids[:1000]] if predictor.model.capabilities.multivariate else None,
        "range": None if predictor.bounds is None else asdict(predictor.bounds),
    }
