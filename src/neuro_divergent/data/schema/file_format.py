"""How a file is written: the description that sniffing gives and that a saved model keeps."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError

THOUSANDS = ("", ",", ".", " ", "'")


class FileFormat(Description):
    """Separator, marks, header line, encoding and date form of a text file.

    `TimeSeriesDataFrame.schema.file` holds the one that was found. New files for a trained model are read with it where
    it fits them.
    """

    separator: str = ","
    """The character between two cells."""
    encoding: str = "utf-8"
    """How the bytes are to be read."""
    decimal: Literal[".", ","] = "."
    """The mark before the decimals of a number."""
    thousands: str = ""
    """The mark between the thousands of a number: a comma, a point, a space, an apostrophe, or nothing."""
    header_line: int = 1
    """The line with the names of the columns, counted from 1."""
    time_format: str | None = None
    """How the time column is written; None for ISO forms and plain whole numbers."""

    @field_validator("thousands", mode="before")
    @classmethod
    def _known_mark(cls, value: Any) -> Any:
        if value not in THOUSANDS:
            raise ConfigError(
                f'thousands must be one of ",", ".", " ", "\'" or "" for none, but got thousands={value!r}'
            )
        return value
