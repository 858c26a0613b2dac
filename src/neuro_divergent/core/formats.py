"""File format numbers. Each file has one; a reader accepts its own number and older ones."""

from __future__ import annotations

from typing import Any

from neuro_divergent.core.errors import CorruptFileError, StorageError


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
