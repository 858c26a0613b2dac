"""`neuro-divergent export`: write a saved model as one file that other programs run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import harmless, say, say_json
from neuro_divergent.cli.request.run_file import levels
from neuro_divergent.core.errors import ConfigError


def export(
    model: Path,
    /,
    *,
    out: Path | None = None,
    format: Literal["onnx"] = "onnx",  # noqa: A002
    quantize: Literal["int8", "float16"] | None = None,
    level: str | None = None,
    overwrite: Annotated[bool, Parameter(negative="")] = False,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write a saved model as one file: raw windows in, forecasts in original units out.

    Parameters
    ----------
    model
        A run's directory or a saved model.
    out
        The file. Default: MODEL.onnx beside it. A JSON file with the inputs is written beside the file.
    format
        onnx runs everywhere where ONNX Runtime does: servers, browsers, phones.
    quantize
        int8 computes matrices in int8; float16 stores weights in half the space.
    level
        Prediction intervals in percent, such as 80,95.
    overwrite
        Replace the file if it exists.
    json
        Print JSON.
    """
    import neuro_divergent as nd

    fitted: Any = nd.load(model)
    if not isinstance(fitted, nd.Forecaster):
        raise ConfigError(
            f"export writes one model, but {model} is a {type(fitted).__name__}. Export its models one by one"
        )
    target = out or model.parent / f"{model.name}.onnx"
    done = fitted.export(target, format=format, quantize=quantize, level=levels(level), overwrite=overwrite)
    if json:
        say_json({"path": str(done.path), "bytes": done.bytes, "opset": done.opset, "difference": done.difference})
        return
    say(harmless(str(done)))
    for name, facts in done.interface["inputs"].items():
        say(harmless(f"  {name}: {facts['shape']} {facts['type']} ({', '.join(facts['columns'])})"))
    say(harmless(f"  → forecast: {', '.join(done.interface['output']['columns'])}"))
