"""A store on disk: one plain .npy file per array and one JSON file, never pickle."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import CorruptFileError, DataError, StorageError
from neuro_divergent.core.files import new_directory
from neuro_divergent.data.store.store import ROW_ARRAYS, SERIES_ARRAYS, SeriesStore

FORMAT = 1
"""Version of the directory's layout. A reader refuses what is newer than itself."""

HEADER = "store.json"
_CHUNK = 1 << 24
_FLOATS = ("float32", "float64")
# For each array: the dtypes that it may have, and its number of axes.
_KINDS: dict[str, tuple[tuple[str, ...], int]] = {
    "offsets": (("int64",), 1),
    "start": (("datetime64[us]", "int64"), 1),
    "y": (_FLOATS, 1),
    "mask": (("bool",), 1),
    "future": (_FLOATS, 2),
    "historical": (_FLOATS, 2),
    "static": (_FLOATS, 2),
    "categorical": (("int32",), 2),
    "static_categorical": (("int32",), 2),
    "weight": (_FLOATS, 1),
}


def describe(store: SeriesStore) -> dict[str, Any]:
    """Everything about a store that is no array, as plain data."""
    return {
        "freq": store.freq,
        "time_zone": store.time_zone,
        "future_names": list(store.future_names),
        "historical_names": list(store.historical_names),
        "static_names": list(store.static_names),
        "categories": {name: list(values) for name, values in store.categories.items()},
    }


def header(description: dict[str, Any], arrays: dict[str, tuple[str, tuple[int, ...]]]) -> str:
    """The text of the JSON file: format, description, dtype and shape of each array."""
    sizes = {name: {"dtype": dtype, "shape": list(shape)} for name, (dtype, shape) in arrays.items()}
    return json.dumps({"format": FORMAT} | description | {"arrays": sizes}, indent=2, ensure_ascii=False)


def fingerprint(store: SeriesStore) -> str:
    """sha256 over the description and the bytes of every array."""
    digest = hashlib.sha256(json.dumps(describe(store), sort_keys=True).encode())
    for name, array in store.arrays().items():
        exact = _shrunk(array) if array.dtype.kind == "U" else array
        digest.update(f"{name} {exact.dtype.str} {exact.shape}".encode())
        flat = exact.reshape(-1).view(np.uint8) if exact.size else np.zeros(0, np.uint8)
        for begin in range(0, len(flat), _CHUNK):
            digest.update(flat[begin : begin + _CHUNK].data)
    return digest.hexdigest()


def _shrunk(texts: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The width of a text array depends on how it was made; its content does not."""
    return texts.astype(f"<U{max(1, int(np.strings.str_len(texts).max(initial=1)))}")


def save_store(store: SeriesStore, directory: str | os.PathLike[str], *, overwrite: bool) -> None:
    """Write every array and the header, atomically."""
    with new_directory(directory, overwrite=overwrite, mark=HEADER) as folder:
        arrays = store.arrays()
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array, allow_pickle=False)
        sizes = {name: (str(array.dtype), array.shape) for name, array in arrays.items()}
        (folder / HEADER).write_text(header(describe(store), sizes), encoding="utf-8")


def open_store(directory: str | os.PathLike[str]) -> SeriesStore:
    """Check the header against the files and map the rows."""
    folder = Path(directory)
    if not (folder / HEADER).is_file():
        raise StorageError(f"{folder} must be the directory of a saved store, but has no {HEADER}. Check the path.")
    facts = _read_header(folder / HEADER)
    arrays = {name: _load(folder, name, size) for name, size in facts["arrays"].items()}
    try:
        store = SeriesStore(
            **arrays,
            freq=facts["freq"],
            time_zone=facts["time_zone"],
            future_names=tuple(facts["future_names"]),
            historical_names=tuple(facts["historical_names"]),
            static_names=tuple(facts["static_names"]),
            categories={name: tuple(values) for name, values in facts["categories"].items()},
        )
    except (DataError, TypeError) as error:
        raise CorruptFileError(f"{folder} is not a store as it was written: {error}") from None
    _check(store, folder)
    return store


def _read_header(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, OSError, RecursionError) as error:
        raise CorruptFileError(f"{path} must be valid JSON, but got: {error}") from None
    if not isinstance(facts, dict) or type(facts.get("format")) is not int or facts["format"] < 1:
        raise CorruptFileError(f"{path} must say its format, but does not")
    if facts["format"] > FORMAT:
        raise StorageError(
            f"this version reads the formats 1 to {FORMAT}, but {path} has format {facts['format']}. "
            "Update neuro-divergent to read it."
        )
    names = all(
        isinstance(facts.get(key), list) and all(isinstance(name, str) for name in facts[key])
        for key in ("future_names", "historical_names", "static_names")
    )
    categories = facts.get("categories")
    known = isinstance(categories, dict) and all(
        isinstance(values, list) and all(isinstance(value, str) for value in values) for values in categories.values()
    )
    texts = isinstance(facts.get("freq"), str) and isinstance(facts.get("time_zone"), str | None)
    arrays = facts.get("arrays")
    needed = isinstance(arrays, dict) and {"ids", "offsets", "y", "start"} <= set(arrays) <= {*_KINDS, "ids"}
    if not (names and known and texts and needed):
        raise CorruptFileError(f"{path} must hold the names, categories and arrays of a store, but does not")
    return facts


def _load(folder: Path, name: str, size: object) -> npt.NDArray[Any]:
    path = folder / f"{name}.npy"
    mapped = name in ROW_ARRAYS
    try:
        array: npt.NDArray[Any] = np.load(path, mmap_mode="r" if mapped else None, allow_pickle=False)
    except FileNotFoundError:
        raise CorruptFileError(f"{path} is missing, although {HEADER} names it") from None
    except Exception as error:  # numpy tokenises damaged headers, which raises whatever Python's tokeniser does
        raise CorruptFileError(f"{path} is not an array as it was written: {error}") from None
    found = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if found != size:
        raise CorruptFileError(f"{path} must hold {size}, as {HEADER} says, but got {found}")
    fits = (
        array.dtype.kind in "Uiu" and array.ndim == 1
        if name == "ids"
        else str(array.dtype) in _KINDS[name][0] and array.ndim == _KINDS[name][1]
    )
    if not fits or not array.flags.c_contiguous:
        raise CorruptFileError(f"{path} holds {array.dtype} with {array.ndim} axes, which is no {name} of a store")
    # A plain array over the map: a memmap costs microseconds at every slice, and it keeps the map alive all the same.
    return array.view(np.ndarray)


def _check(store: SeriesStore, folder: Path) -> None:
    """What the sizes alone do not say: names for every column, sorted ids, codes that exist, masks of 0 and 1."""

    def demand(holds: bool, rule: str) -> None:
        if not holds:
            raise CorruptFileError(f"{folder} is not a store as it was written: {rule}")

    for block, names in (("future", "future_names"), ("historical", "historical_names"), ("static", "static_names")):
        array = getattr(store, block)
        demand((0 if array is None else array.shape[1]) == len(getattr(store, names)), f"{names} must name its columns")
    ids: npt.NDArray[Any] = store.ids
    demand(bool((ids[1:] > ids[:-1]).all()), "ids must be sorted, each of them once")
    demand(len(store.ids) == 0 or int(store.lengths.min()) > 0, "every series must have rows")
    floats = [getattr(store, name) for name in ("y", "future", "historical", "static", "weight")]
    demand(len({array.dtype for array in floats if array is not None}) == 1, "all columns must have one precision")
    codes = [array for array in (store.categorical, store.static_categorical) if array is not None]
    demand(sum(array.shape[1] for array in codes) == len(store.categories), "categories must name their columns")
    sizes = np.array([len(values) for values in store.categories.values()])
    for array in codes:
        limits, sizes = sizes[: array.shape[1]], sizes[array.shape[1] :]
        for part in _parts(array):
            demand(bool(((part >= 0) & (part <= limits)).all()), "codes must be those of known categories")
    if store.mask is not None:
        for part in _parts(store.mask.view(np.uint8)):
            demand(int(part.max(initial=0)) <= 1, "a mask holds 0 and 1 only")


def _parts(array: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    return [array[begin : begin + _CHUNK] for begin in range(0, len(array), _CHUNK)]


assert set(_KINDS) | {"ids"} == {"offsets", *ROW_ARRAYS, *SERIES_ARRAYS}
