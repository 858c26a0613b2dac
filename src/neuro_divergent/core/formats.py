"""Numbers of file formats: each file says its own, and a reader takes that number and older ones."""

from __future__ import annotations

from typing import Any

from neuro_divergent.core.errors import CorruptFileError, StorageError


def check_format(document: Any, newest: int, place: str) -> int:
    """The format number of a JSON document, from its key "schema"; a document without one is of format 1.

    Args:
        document: what was read.
        newest: the number that this version writes.
        place: where the document came from, for the message.
    """
    if not isinstance(document, dict):
        raise CorruptFileError(f"{place} must hold one JSON object, but holds a {type(document).__name__}")
    number = document.get("schema", 1)
    if type(number) is not int or number < 1:
        raise CorruptFileError(f"{place} must say its format as a whole number from 1, but says {number!r}")
    if number > newest:
        raise StorageError(
            f"this version reads the formats 1 to {newest}, but {place} has format {number}. "
            "Update neuro-divergent to read it"
        )
    return number
