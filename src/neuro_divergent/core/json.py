"""JSON with exact numbers, and safe reading of untrusted JSON.

Python writes a float so that reading it gives the same bits. Numbers that JSON cannot express are written as an
object: {"float": "nan"}, {"float": "inf"}, {"float": "-inf"}.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from neuro_divergent.core.errors import CorruptFileError, StorageError

MAX_JSON_BYTES = 256 * 2**20
MAX_JSON_DEPTH = 64

_TEXTS = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_NOT_BRACKETS = bytes(set(range(256)) - set(b"[]{}"))
_WORDS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}


def to_plain(value: Any, place: str = "value") -> Any:
    """Return numbers, texts, lists and mappings as plain JSON data.

    >>> to_plain({"loss": float("nan"), "steps": (1, 2)})
    {'loss': {'float': 'nan'}, 'steps': [1, 2]}
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": str(value)}
    if isinstance(value, Mapping):
        return {str(key): to_plain(item, f"{place}.{key}") for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(item, place) for item in value]
    if hasattr(value, "tolist"):  # a numpy or torch number or array
        return to_plain(value.tolist(), place)
    raise StorageError(
        f"only numbers, texts, lists and mappings can be saved, but {place} is a {type(value).__name__}. "
        "Convert it to plain data"
    )


def from_plain(value: Any) -> Any:
    """Return the original value of `to_plain`. Tuples have become lists.

    >>> from_plain([1.5, {"float": "-inf"}])
    [1.5, -inf]
    """
    if isinstance(value, dict):
        if value.keys() == {"float"} and value["float"] in _WORDS:
            return _WORDS[value["float"]]
        return {key: from_plain(item) for key, item in value.items()}
    if isinstance(value, list):
        return [from_plain(item) for item in value]
    return value


def dump_json(value: Any, name: str, *, indent: int | None = 2) -> bytes:
    """Return JSON for a file that `parse_json` can read. A value beyond its limits is refused before writing."""
    data = json.dumps(value, indent=indent, allow_nan=False).encode()
    try:
        _check_limits(data, name)
    except CorruptFileError as error:
        raise StorageError(f"{error}, and could not be read again. Nothing was written") from None
    return data


def parse_json(data: bytes, name: str) -> Any:
    """Return the data of untrusted JSON, limited in size and depth."""
    _check_limits(data, name)
    try:
        # Decode first: from bytes, the parser would guess the encoding, and the brackets counted above could be wrong.
        return json.loads(data.decode(), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CorruptFileError(f"{name} must be JSON, but is not: {error}") from None


def _check_limits(data: bytes, name: str) -> None:
    if len(data) > MAX_JSON_BYTES:
        raise CorruptFileError(f"{name} must be at most {MAX_JSON_BYTES} bytes, but has {len(data)}")
    # Up to the first syntax error, this pattern finds the same strings as the parser.
    depth = deepest = 0
    for byte in _TEXTS.sub(b"", data).translate(None, _NOT_BRACKETS):
        depth += 1 if byte in b"[{" else -1
        deepest = max(deepest, depth)
    if deepest > MAX_JSON_DEPTH:
        raise CorruptFileError(f"{name} must be nested at most {MAX_JSON_DEPTH} deep, but is {deepest} deep")


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not JSON")


def check_format(document: Any, newest: int, place: str) -> int:
    """Return the format number of a JSON document, from its key "schema". A document without it has format 1.

    Args:
        document: the parsed document.
        newest: the number that this version writes.
        place: path of the document, for the message.
    """
    if not isinstance(document, dict):
        raise CorruptFileError(f"{place} must be a JSON object, but is a {type(document).__name__}")
    number = document.get("schema", 1)
    if type(number) is not int or number < 1:
        raise CorruptFileError(f"the format of {place} must be a whole number from 1, but got {number!r}")
    if number > newest:
        raise StorageError(
            f"this version reads the formats 1 to {newest}, but {place} has format {number}. "
            "Update neuro-divergent to read it"
        )
    return number
