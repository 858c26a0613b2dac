"""Several fitted models in one directory: a bundle for each, and an index with their kind and order.

saved/
  index/       kind, names and order, and the sha256 of each model's manifest
  model-00/    what `Forecaster.save` writes
  model-01/
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy.typing as npt
import safetensors.numpy

from neuro_divergent._version import __version__
from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import CorruptFileError, NeuroDivergentError, RegistryError
from neuro_divergent.core.json import dump_json
from neuro_divergent.core.plain_files import settled
from neuro_divergent.core.runs.names import INDEX, INDEX_ARRAYS, INDEX_DOCUMENT, member_name
from neuro_divergent.core.runs.saved import INDEX_FORMAT, manifest_digest
from neuro_divergent.core.runs.saved import is_many as is_many
from neuro_divergent.core.runs.saved import read_index as read_index
from neuro_divergent.core.tensor_files import check_safetensors
from neuro_divergent.distributed.group import main_process
from neuro_divergent.forecasting.predict.forecaster import Forecaster

Loader = Callable[[Path, Mapping[str, bytes]], Forecaster]
"""Makes a forecaster from the files of its bundle. The path is for messages."""

_MAKERS = {
    "NeuralForecast": "neuro_divergent.forecasting.several.neural_forecast:from_saved",
    "Ensemble": "neuro_divergent.forecasting.several.ensemble:from_saved",
    "AutoResult": "neuro_divergent.search.auto.result:from_saved",
}
"""By kind, the function that makes the object from its forecasters and the facts of the index. Names, so that nothing
is imported here. A file gives only the kind: it cannot name a module."""


def save_many(
    forecasters: Sequence[Forecaster],
    facts: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    context: bool = True,
    overwrite: bool = False,
    more: Mapping[str, bytes] | None = None,
    arrays: Mapping[str, npt.NDArray[Any]] | None = None,
) -> None:
    """Write several models and their index: all of it or nothing.

    `more` are further files of the index, by name; `arrays` of the whole lie beside it, and are given to its loader.
    """
    if not main_process():
        return
    document = {"schema": INDEX_FORMAT, "version": __version__, "count": len(forecasters)} | dict(facts)
    with files.new_directory(path, overwrite=overwrite, mark=INDEX) as folder:
        members = [folder / member_name(number) for number in range(len(forecasters))]
        for forecaster, member in zip(forecasters, members, strict=True):
            forecaster.save(member, context=context)
        document["manifests"] = [manifest_digest(member) for member in members]
        own = {} if arrays is None else {INDEX_ARRAYS: safetensors.numpy.save(dict(arrays))}
        bundle.write(folder / INDEX, {INDEX_DOCUMENT: dump_json(document, INDEX_DOCUMENT), **own, **(more or {})})


def register_kind(kind: str, maker: str) -> None:
    """Let `load` read another kind of several models.

    Args:
        kind: the value of facts["kind"] in `save_many`.
        maker: "module:function" of a function that takes the forecasters and the facts.
    """
    if _MAKERS.setdefault(kind, maker) != maker:
        raise RegistryError(f"a kind of saved model must have one loader, but {kind!r} has {_MAKERS[kind]} and {maker}")


def _read(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[Path, dict[str, bytes]]]:
    facts, members = read_index(path)
    contents = bundle.read(files.present(Path(path)) / INDEX)
    if INDEX_ARRAYS in contents:
        check_safetensors(contents[INDEX_ARRAYS], INDEX_ARRAYS)
        facts = facts | {"arrays": safetensors.numpy.load(contents[INDEX_ARRAYS])}
    return facts, {member: bundle.read(member) for member in members}


def load_many(path: str | os.PathLike[str], loader: Loader) -> Any:
    """The object that `save_many` wrote, such as a NeuralForecast or an Ensemble."""
    facts, members = settled(Path(path), lambda: _read(path))
    kind = facts.get("kind")
    if not isinstance(kind, str) or kind not in _MAKERS:
        raise CorruptFileError(f"{path} must name what was saved, but names {kind!r}")
    if not isinstance(facts.get("name", ""), str):
        raise CorruptFileError(f"{path} must have a text as its name, but has {facts['name']!r}")
    forecasters = [loader(member, contents) for member, contents in members.items()]
    module, _, function = _MAKERS[kind].partition(":")
    try:
        return getattr(import_module(module), function)(forecasters, facts)
    except NeuroDivergentError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptFileError(f"{path}: {INDEX_DOCUMENT} has a missing or wrong entry: {error!r}") from error


STUDY_READER = "neuro_divergent.search.result:SearchResult"
"""The class that reads the directory of a search. A name, so that nothing is imported here."""


def load_study(path: str | os.PathLike[str], *, using: Mapping[str, Callable[..., Any]] | None = None) -> Any:
    """The result of the search in a directory."""
    module, _, name = STUDY_READER.partition(":")
    return getattr(import_module(module), name).load(path, using=using)
