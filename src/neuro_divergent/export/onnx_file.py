"""Writes a fitted model as one ONNX file, and checks it against the model before anybody uses it."""

from __future__ import annotations

import json
import logging
import tempfile
import warnings
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import torch

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.extras import require
from neuro_divergent.export.program import Program

if TYPE_CHECKING:
    from collections.abc import Iterator

Arrays = dict[str, npt.NDArray[Any]]
OPSET = 20
KEY = "neuro_divergent"
"""The metadata entry of a file with its interface as JSON."""


def write_onnx(program: Program, example: Arrays, metadata: Mapping[str, Any], quantize: str | None) -> bytes:
    """The file as bytes. `example` has at least two windows, so that the number of windows stays free."""
    onnx = require("onnx", extra="export", purpose="Export to ONNX")
    require("onnxscript", extra="export", purpose="Export to ONNX")
    windows = torch.export.Dim("windows", min=1)
    inputs = {name: torch.from_numpy(array) for name, array in example.items()}
    with _quiet(), torch.no_grad():
        try:
            exported = torch.onnx.export(
                program.eval(),
                (),
                kwargs=inputs,
                dynamo=True,
                dynamic_shapes={name: {0: windows} for name in inputs},
                opset_version=OPSET,
                input_names=list(inputs),
                output_names=["forecast"],
                external_data=False,
                optimize=True,
                verbose=False,
            )
        except Exception as error:
            raise ConfigError(
                f"this model cannot be written as ONNX: {_cause(error)}. Use fitted.predictor()"
            ) from error
        assert exported is not None
        model = exported.model_proto
    data = model.SerializeToString()
    if quantize is not None:
        data = quantized(data, quantize)
    model = onnx.load_from_string(data)
    entry = model.metadata_props.add()
    entry.key, entry.value = KEY, json.dumps(metadata)
    result: bytes = model.SerializeToString()
    return result


def _cause(error: BaseException) -> str:
    """The first error behind those that torch's exporter wraps around it, as one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    lines = str(error).strip().splitlines()
    return f"{type(error).__name__}: {lines[0][:300] if lines else ''}"


def quantized(data: bytes, how: str) -> bytes:
    """The file with weights in another format: "int8" (computed in int8) or "float16" (weights only)."""
    if how == "int8":
        require("onnxruntime", extra="export", purpose="Quantization")
        from onnxruntime.quantization import QuantType, quantize_dynamic

        onnx = require("onnx", extra="export", purpose="Quantization")
        model = onnx.load_from_string(data)
        del model.graph.value_info[:]  # shapes between the layers: transposed weights contradict them
        data = model.SerializeToString()
        with tempfile.TemporaryDirectory(prefix="neuro-divergent-") as folder, _quiet():
            before, after = Path(folder) / "before.onnx", Path(folder) / "after.onnx"
            before.write_bytes(data)
            # Seven bits: processors without VNNI add pairs of products in 16 bits, which eight bits overflow.
            quantize_dynamic(before, after, weight_type=QuantType.QInt8, per_channel=True, reduce_range=True)
            return after.read_bytes()
    return _half_weights(data)


def _half_weights(data: bytes) -> bytes:
    """Large weights stored in float16, with a cast to float32 in front of what uses them."""
    onnx = require("onnx", extra="export", purpose="Export to ONNX")
    model = onnx.load_from_string(data)
    casts = []
    for weight in model.graph.initializer:
        values = onnx.numpy_helper.to_array(weight)
        if values.dtype != np.float32 or values.size < 64 or np.abs(values).max() > 6e4:
            continue
        name = weight.name
        stored = f"{name}.float16"
        weight.CopyFrom(onnx.numpy_helper.from_array(values.astype(np.float16), stored))
        casts.append(onnx.helper.make_node("Cast", [stored], [name], to=onnx.TensorProto.FLOAT))
    nodes = list(model.graph.node)
    del model.graph.node[:]
    model.graph.node.extend([*casts, *nodes])
    result: bytes = model.SerializeToString()
    return result


def session(data: bytes) -> Callable[[Arrays], npt.NDArray[Any]]:
    """A function that computes the forecast of a file, one thread, on the CPU."""
    ort = require("onnxruntime", extra="export", purpose="ONNX Runtime")
    options = ort.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    try:
        live = ort.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    except Exception as error:
        raise ConfigError(f"ONNX Runtime cannot load the file: {str(error).splitlines()[0][:300]}") from error
    names = [one.name for one in live.get_inputs()]

    def run(arrays: Arrays) -> npt.NDArray[Any]:
        given = {name: arrays[name] for name in names if name in arrays}
        return np.asarray(live.run(["forecast"], given)[0])

    return run


@contextmanager
def _quiet() -> Iterator[None]:
    """Context without the messages of torch's exporter."""
    names = ("torch.onnx", "onnxscript", "onnx_ir", "torch.export", "root")
    loggers = [logging.getLogger(name if name != "root" else None) for name in names]
    levels = [log.level for log in loggers]
    for log in loggers:
        log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for log, level in zip(loggers, levels, strict=True):
            log.setLevel(level)
