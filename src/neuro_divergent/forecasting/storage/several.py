"""Several fitted models in one directory: a bundle for each, and an index that says what they are together.

saved/
  index/       kind, names and order, and the sha256 of each model's manifest
  model-00/    what `Forecaster.save` writes
  model-01/
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from neuro_divergent._version import __version__
from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import CorruptFileError, NeuroDivergentError, RegistryError, StorageError
from neuro_divergent.core.json import dump_json
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.storage.formats import check_format

INDEX = "index"
INDEX_FORMAT = 1
"""Version of index.json. A reader takes this one and older ones."""
MAX_MODELS = 1000

Loader = Callable[[Path], Forecaster]

_MAKERS = {
    "NeuralForecast": "neuro_divergent.forecasting.several.neural_forecast:from_saved",
    "Ensemble": "neuro_divergent.forecasting.several.ensemble:from_saved",
}
"""By kind, what makes the whole of its forecasters and the facts of the index. Names, so that nothing is imported here.
A file gives the kind only: it cannot name a module."""


def save_many(
    forecasters: Sequence[Forecaster],
    facts: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    context: bool = True,
    overwrite: bool = False,
) -> None:
    """Write models and what they are together, whole or not at all."""
    document = {"schema": INDEX_FORMAT, "version": __version__, "count": len(forecasters)} | dict(facts)
    with files.new_directory(path, overwrite=overwrite, mark=INDEX) as folder:
        members = [folder / member_name(number) for number in range(len(forecasters))]
        for forecaster, member in zip(forecasters, members, strict=True):
            forecaster.save(member, context=context)
        document["manifests"] = [_manifest_digest(member) for member in members]
        bundle.write(folder / INDEX, {"index.json": dump_json(document, "index.json")})


def member_name(number: int) -> str:
    """The directory of one of several models."""
    return f"model-{number:02d}"


def _manifest_digest(member: Path) -> str:
    return hashlib.sha256(bundle.plain_bytes(member / bundle.MANIFEST, bundle.MAX_MANIFEST_BYTES)).hexdigest()


def is_many(path: str | os.PathLike[str]) -> bool:
    """Whether a directory holds several models."""
    return (files.present(Path(path)) / INDEX).is_dir()


def read_index(path: str | os.PathLike[str]) -> tuple[dict[str, Any], list[Path]]:
    """What several models are together, and their directories: those that were saved, and nothing else beside them."""
    folder = files.present(Path(path))
    if folder.is_symlink():
        raise StorageError(f"{folder} must be a directory that save() made, but it is not one")
    contents = bundle.read(folder / INDEX)
    if "index.json" not in contents:
        raise CorruptFileError(f"{folder / INDEX} must hold index.json, but does not")
    facts = bundle.parse_json(contents["index.json"], "index.json")
    check_format(facts, INDEX_FORMAT, f"{folder / INDEX}/index.json")
    count = facts.get("count")
    if not isinstance(count, int) or isinstance(count, bool) or not 1 <= count <= MAX_MODELS:
        raise CorruptFileError(f"{folder / INDEX} must say how many models there are, but says {count!r}")
    members = [folder / member_name(number) for number in range(count)]
    odd = sorted({INDEX, *(member.name for member in members)} ^ set(os.listdir(folder)))
    if odd:
        raise CorruptFileError(f"{folder} must hold its index and {count} models, but differs in: {', '.join(odd[:6])}")
    # Files of the first version say nothing about their models' manifests.
    if "manifests" in facts and facts["manifests"] != [_manifest_digest(member) for member in members]:
        raise CorruptFileError(f"{folder} must hold the models that were saved together, but some are others")
    return facts, members


def register_kind(kind: str, maker: str) -> None:
    """Let `load` read another kind of several models.

    Args:
        kind: what `save_many` was given as facts["kind"].
        maker: "module:function" of a function that takes the forecasters and the facts.
    """
    if _MAKERS.setdefault(kind, maker) != maker:
        raise RegistryError(f"a kind of saved models has one loader, but {kind!r} has {_MAKERS[kind]} and {maker}")


def load_many(path: str | os.PathLike[str], loader: Loader) -> Any:
    """What `save_many` wrote, such as a NeuralForecast or an Ensemble."""
    facts, members = read_index(path)
    kind = facts.get("kind")
    if not isinstance(kind, str) or kind not in _MAKERS:
        raise CorruptFileError(f"{path} must name what was saved, but names {kind!r}")
    forecasters = [loader(member) for member in members]
    module, _, function = _MAKERS[kind].partition(":")
    try:
        return getattr(import_module(module), function)(forecasters, facts)
    except NeuroDivergentError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as error:
        raise CorruptFileError(f"{path}: index.json lacks something or has it in a wrong form: {error!r}") from error
