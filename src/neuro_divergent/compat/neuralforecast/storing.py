"""Saves and loads the models of a NeuralForecast."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from neuro_divergent.compat.neuralforecast.adapter import PeerModel, restored
from neuro_divergent.compat.neuralforecast.errors import NoModelError
from neuro_divergent.compat.neuralforecast.members import Facts, Member
from neuro_divergent.compat.neuralforecast.single.arguments_file import from_plain, to_plain
from neuro_divergent.compat.neuralforecast.single.registered import REGISTERED, local_path
from neuro_divergent.compat.neuralforecast.tables.clock import Clock
from neuro_divergent.compat.neuralforecast.tables.frames import Columns, Source, Types, use_empty
from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, CorruptFileError
from neuro_divergent.core.plain_files import settled
from neuro_divergent.core.runs.names import INDEX, INDEX_DOCUMENT, is_remote
from neuro_divergent.forecasting.network.bounded_build import check_sizes
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.several.neural_forecast import NeuralForecast as Ours
from neuro_divergent.forecasting.storage.fetched import fetched
from neuro_divergent.forecasting.storage.several import read_index, save_many


@dataclass(frozen=True)
class Saved:
    """What a file has besides our own models."""

    members: list[Member]
    freq: Any
    columns: Columns
    types: Types
    vocabulary: dict[str, dict[Any, int]]
    clock: Clock | None
    source: Source | None = None
    """The training table; None if it was not saved."""
    arguments: Sequence[dict[str, Any] | None] = ()
    """What each model was made with, as plain data; None if a file cannot contain it."""


def save(saved: Saved, fitted: Sequence[Forecaster], path: Any, *, context: bool, overwrite: bool) -> None:
    """Write fitted models."""
    told: dict[str, Any] = {
        "members": [member.facts.to_dict() for member in saved.members],
        "freq": saved.freq,
        "columns": asdict(saved.columns),
        "types": asdict(saved.types),
        "vocabulary": {name: list(values) for name, values in saved.vocabulary.items()},
        "arguments": list(saved.arguments),
    }
    if saved.clock is not None:
        told["clock"] = saved.clock.to_dict()
    use_empty(path)
    names = [member.name for member in saved.members]
    facts = {"kind": "NeuralForecast", "models": names, "neuralforecast": told}
    tables = saved.source.files() if context and saved.source is not None else {}
    save_many(list(fitted), facts, path, context=context, overwrite=overwrite, more=tables)


def load(path: Any, *, trust_remote: bool, using: Mapping[str, Any] | None) -> tuple[Ours, Saved]:
    """Read what `save` wrote."""
    from neuro_divergent.forecasting.storage.save_load import load as read

    path = local_path(path, trust_remote=trust_remote)
    if is_remote(path):
        with fetched(path) as place:
            return load(place, trust_remote=False, using=using)
    if not files.present(Path(path)).exists():
        raise NoModelError(f"{path} must be a directory that save() made, but does not exist. Check the path")
    ours = read(path, using=REGISTERED | dict(using or {}))
    if not isinstance(ours, Ours):
        raise ConfigError(f"{path} is a {type(ours).__name__}. Read it with neuro_divergent.load")
    index, _ = read_index(path)
    facts = index.get("neuralforecast")
    if facts is None:
        raise ConfigError(f"{path} was saved by neuro_divergent.NeuralForecast. Read it with neuro_divergent.load")
    try:
        saved = _read(ours, facts)
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptFileError(f"{path}: {INDEX_DOCUMENT} has a missing or wrong entry: {error!r}") from error
    place, told = Path(path), (saved.columns, saved.types, saved.freq)
    source = settled(place, lambda: Source.from_files(files.present(place) / INDEX, *told))
    return ours, replace(saved, source=source)


def _read(ours: Ours, facts: Mapping[str, Any]) -> Saved:
    members = [
        Member(forecaster.model, forecaster.config, Facts.from_dict(own))
        for forecaster, own in zip(ours.forecasters.values(), facts["members"], strict=True)
    ]
    columns, freq = Columns(**facts["columns"]), facts["freq"]
    vocabulary = {
        name: {value: number for number, value in enumerate(values, start=1)}
        for name, values in facts.get("vocabulary", {}).items()
    }
    clock = None
    if "clock" in facts:
        clock = Clock.from_dict(facts["clock"], columns.id_col, columns.time_col, freq)
    types, made = Types(**facts["types"]), facts.get("arguments") or [None] * len(members)
    return Saved(members, freq, columns, types, vocabulary, clock, arguments=made)


def restored_models(saved: Saved, fitted: Sequence[Forecaster]) -> list[PeerModel]:
    """The models of a file, by the classes of their kinds."""
    from neuro_divergent.compat.neuralforecast import models

    classes = [getattr(models, member.description.kind, PeerModel) for member in saved.members]
    try:
        check_sizes({"arguments": list(saved.arguments)}, INDEX_DOCUMENT)
        return [
            restored(cls, member, own, None if made is None else from_plain(made))
            for cls, member, own, made in zip(classes, saved.members, fitted, saved.arguments, strict=True)
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise CorruptFileError(f"{INDEX_DOCUMENT} has a missing or wrong argument of a model: {error!r}") from error


def plain_arguments(model: Any) -> dict[str, Any] | None:
    """The arguments of a model as plain data; None if a file cannot contain them."""
    if not isinstance(model, PeerModel) or not hasattr(model, "arguments"):
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return to_plain(model.arguments)
    except ConfigError:
        return None
