"""Several fitted models in one directory: a bundle for each, and an index that says what they are together.

saved/
  index/       kind, names and order, and the sha256 of each model's manifest
  model-00/    what `Forecaster.save` writes
  model-01/
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import safetensors.numpy

from neuro_divergent._version import __version__
from neuro_divergent.core import bundle, files
from neuro_divergent.core.config import SCHEMA_VERSION
from neuro_divergent.core.errors import CorruptFileError, NeuroDivergentError
from neuro_divergent.core.json import dump_json
from neuro_divergent.core.runs.names import INDEX, INDEX_DOCUMENT, member_name
from neuro_divergent.core.runs.saved import is_many as is_many
from neuro_divergent.core.runs.saved import manifest_digest
from neuro_divergent.core.runs.saved import read_index as read_index
from neuro_divergent.forecasting.predict.conformal import Calibration
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.local_scaling import LocalScaling

EXTRAS = "extras.safetensors"

Loader = Callable[[Path], Forecaster]


def save_many(
    forecasters: Sequence[Forecaster],
    facts: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    context: bool = True,
    overwrite: bool = False,
) -> None:
    """Write models and what they are together, whole or not at all."""
    document = {"schema": SCHEMA_VERSION, "version": __version__, "count": len(forecasters)} | dict(facts)
    with files.new_directory(path, overwrite=overwrite, mark=INDEX) as folder:
        members = [folder / member_name(number) for number in range(len(forecasters))]
        for forecaster, member in zip(forecasters, members, strict=True):
            forecaster.save(member, context=context)
        document["manifests"] = [manifest_digest(member) for member in members]
        bundle.write(folder / INDEX, {INDEX_DOCUMENT: dump_json(document, INDEX_DOCUMENT)})


def load_many(path: str | os.PathLike[str], loader: Loader) -> Any:
    """What `save_many` wrote: a NeuralForecast or an Ensemble."""
    facts, members = read_index(path)
    forecasters = [loader(member) for member in members]
    try:
        if facts.get("kind") == "NeuralForecast":
            from neuro_divergent.forecasting.several.neural_forecast import NeuralForecast

            return NeuralForecast.from_forecasters(forecasters)
        if facts.get("kind") == "Ensemble":
            from neuro_divergent.forecasting.several.ensemble import Ensemble

            return Ensemble(forecasters, weights=facts["weights"], method=facts["method"], name=facts["name"])
    except NeuroDivergentError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptFileError(
            f"{path}: {INDEX_DOCUMENT} lacks something or has it in a wrong form: {error!r}"
        ) from error
    raise CorruptFileError(f"{path} must name what was saved, but names {facts.get('kind')!r}")


def pack_extras(forecaster: Forecaster) -> tuple[dict[str, bytes], dict[str, Any]]:
    """What a forecaster has besides weights and rows: files, and facts for its document; both empty when nothing."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    facts: dict[str, Any] = {}
    if forecaster.intervals is not None:
        facts["intervals"] = forecaster.intervals.facts()
        arrays |= {f"intervals.{name}": array for name, array in forecaster.intervals.to_arrays().items()}
    if forecaster.local is not None:
        facts["local"] = forecaster.local.facts()
        arrays |= {f"local.{name}": array for name, array in forecaster.local.scaler.to_arrays().items()}
    if not arrays:
        return {}, {}
    return {
        EXTRAS: safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    }, facts


def unpack_extras(forecaster: Forecaster, contents: Mapping[str, bytes], facts: Mapping[str, Any]) -> Forecaster:
    """Give a loaded forecaster what `pack_extras` kept."""
    if not facts:
        return forecaster
    if EXTRAS not in contents:
        raise CorruptFileError(
            f"a model with prediction intervals or series scaling has {EXTRAS}, but this one has not"
        )
    bundle.check_safetensors(contents[EXTRAS], EXTRAS)
    try:
        arrays = safetensors.numpy.load(contents[EXTRAS])
    except Exception as error:
        raise CorruptFileError(f"{EXTRAS} must be a safetensors file, but is not: {error}") from None

    def part(prefix: str) -> dict[str, npt.NDArray[Any]]:
        return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}

    if "intervals" in facts:
        forecaster.intervals = Calibration.from_parts(facts["intervals"], part("intervals."))
    if "local" in facts:
        forecaster.local = LocalScaling.from_parts(facts["local"], part("local."))
    return forecaster
