"""A store on disk: one plain .npy file per array and one JSON file, never pickle."""

from __future__ import annotations

import hashlib
import json
import math
import os
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import CorruptFileError, DataError, StorageError
from neuro_divergent.core.files import new_directory, present
from neuro_divergent.core.json import MAX_JSON_BYTES, parse_json
from neuro_divergent.core.plain_files import open_plain, plain_bytes, settled
from neuro_divergent.data.store.fills import FILLED, wrong_fills
from neuro_divergent.data.store.store import ROW_ARRAYS, SERIES_ARRAYS, SeriesStore

FORMAT = 2
"""Version of the directory's layout. A reader refuses newer versions. Format 2 may have a grid_anchor and fills. A
store without them is written as format 1, which older readers can read."""

HEADER = "store.json"
_CHUNK = 1 << 24
_FLOATS = ("float32", "float64")
# For each array: the dtypes that it may have, and its number of axes.
_KINDS: dict[str, tuple[tuple[str, ...], int]] = {
    "offsets": (("int64",), 1),
    "start": (("datetime64[us]", "int64"), 1),
    "grid_anchor": (("datetime64[us]", "int64"), 1),
    "y": (_FLOATS, 1),
    "mask": (("bool",), 1),
    "fills": (("int8",), 1),
    "future": (_FLOATS, 2),
    "future_fills": (("int8",), 2),
    "historical": (_FLOATS, 2),
    "historical_fills": (("int8",), 2),
    "static": (_FLOATS, 2),
    "categorical": (("int32",), 2),
    "static_categorical": (("int32",), 2),
    "weight": (_FLOATS, 1),
}


def describe(store: SeriesStore) -> dict[str, Any]:
    """The fields of a store that are not arrays, as plain data."""
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
    number = FORMAT if {"grid_anchor", *FILLED} & set(arrays) else 1
    return json.dumps({"format": number} | description | {"arrays": sizes}, indent=2, ensure_ascii=False)


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
    """The same texts in the narrowest text type, so that equal contents have equal bytes."""
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
    """Return the store of a directory, with memory-mapped rows. The header is checked against the files."""
    return settled(Path(directory), lambda: _open(present(Path(directory))))


def _open(folder: Path) -> SeriesStore:
    if folder.is_symlink() or not os.path.lexists(folder / HEADER):
        why = "is a link" if folder.is_symlink() else f"has no {HEADER}"
        raise StorageError(f"{folder} must be the directory of a saved store, but {why}. Check the path.")
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
        raise CorruptFileError(f"{folder} must be a store as it was written, but was changed: {error}") from None
    check_store(store, folder)
    return store


def _read_header(path: Path) -> dict[str, Any]:
    facts = parse_json(plain_bytes(path, MAX_JSON_BYTES), str(path))
    if not isinstance(facts, dict) or type(facts.get("format")) is not int or facts["format"] < 1:
        raise CorruptFileError(f"{path} must have a format number, but has none")
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
        raise CorruptFileError(f"{path} must have the names, categories and arrays of a store, but does not")
    return facts


def _load(folder: Path, name: str, size: object) -> npt.NDArray[Any]:
    path = folder / f"{name}.npy"
    try:
        with open_plain(path) as file:
            array = _mapped(file)
    except FileNotFoundError:
        raise CorruptFileError(f"{path} is missing, although {HEADER} names it") from None
    except CorruptFileError:
        raise
    except Exception as error:  # numpy tokenises damaged headers, which raises any error of Python's tokeniser
        raise CorruptFileError(f"{path} must be an array as it was written, but was changed: {error}") from None
    found = {"dtype": str(array.dtype), "shape": list(array.shape)}
    if found != size:
        raise CorruptFileError(f"{path} must have {size}, as in {HEADER}, but got {found}")
    if not array.flags.c_contiguous or array.ndim == 0:
        raise CorruptFileError(f"{path} must have its rows in C order, but does not")
    # A plain array over the map: slicing a memmap costs microseconds, and the array also keeps the map alive.
    return array.view(np.ndarray) if name in ROW_ARRAYS else np.array(array)


def _mapped(file: IO[bytes]) -> npt.NDArray[Any]:
    """The memory-mapped array of an open .npy file. A false header cannot allocate memory."""
    version = np.lib.format.read_magic(file)
    readers = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    if version not in readers:
        raise ValueError(f"version {version} of the .npy format")
    shape, fortran, dtype = readers[version](file)
    if dtype.hasobject:
        raise ValueError("an array of Python objects")
    size, held = math.prod(shape) * dtype.itemsize, os.fstat(file.fileno()).st_size - file.tell()
    if size != held:
        raise ValueError(f"the header needs {size} bytes of values, but the file has {held}")
    if not size:
        return np.empty(shape, dtype)
    return np.memmap(file, dtype, "r", file.tell(), shape, "F" if fortran else "C")


def check_store(store: SeriesStore, folder: object) -> None:
    """Check what the sizes alone do not show: dtypes, column names, sorted ids, valid codes, masks of 0 and 1."""

    def demand(holds: bool, rule: str) -> None:
        if not holds:
            raise CorruptFileError(f"{folder} must be a store as it was written, but was changed: {rule}")

    for name, array in store.arrays().items():
        dtypes, axes = _KINDS.get(name, ((str(array.dtype),) if array.dtype.kind in "Uiu" else (), 1))
        fits = str(array.dtype) in dtypes and array.ndim == axes
        demand(fits, f"{name} cannot be {array.dtype} with {array.ndim} axes")
    for block, names in (("future", "future_names"), ("historical", "historical_names"), ("static", "static_names")):
        array = getattr(store, block)
        demand((0 if array is None else array.shape[1]) == len(getattr(store, names)), f"{names} must name its columns")
        demand(all(isinstance(name, str) for name in getattr(store, names)), f"{names} must be texts")
    texts = (value for values in store.categories.values() for value in values)
    demand(all(isinstance(value, str) for value in texts), "categories must be texts")
    ids: npt.NDArray[Any] = store.ids
    demand(bool((ids[1:] > ids[:-1]).all()), "ids must be sorted and unique")
    demand(len(store.ids) == 0 or int(store.lengths.min()) > 0, "every series must have rows")
    demand(anchor_fits(store), "grid_anchor must be a time whose grid holds the start")
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
    broken = wrong_fills(store)
    demand(broken is None, broken or "")


def anchor_fits(store: SeriesStore) -> bool:
    """Whether every series starts on the grid of its anchor."""
    if store.grid_anchor is None:
        return True
    if store.grid_anchor.dtype != store.start.dtype or store.start.dtype.kind != "M":  # whole numbers need no anchor
        return False
    years = np.stack((store.grid_anchor, store.start)).astype("datetime64[Y]").astype(np.int64) + 1970
    if bool(((years < 1) | (years > 9999)).any()):
        return False
    try:
        return bool((store.times(0) == store.start).all())
    except pl.exceptions.PolarsError:  # no such time zone
        return False


def _parts(array: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    return [array[begin : begin + _CHUNK] for begin in range(0, len(array), _CHUNK)]


assert set(_KINDS) | {"ids"} == {"offsets", *ROW_ARRAYS, *SERIES_ARRAYS}
