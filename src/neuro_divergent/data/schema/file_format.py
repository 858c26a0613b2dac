"""The format of a text file, as detected when loading. A saved model contains it."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import field_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError

THOUSANDS = ("", ",", ".", " ", "'")


class FileFormat(Description):
    """Separator, decimal and thousands marks, header line, encoding and date format of a text file.

    `TimeSeriesDataFrame.schema.file` is the detected format. New files for a trained model are read in the same format
    if it fits them.
    """

    separator: str = ","
    """The character between two cells."""
    encoding: str = "utf-8"
    """The text encoding of the file."""
    decimal: Literal[".", ","] = "."
    """The mark before the decimals of a number."""
    thousands: str = ""
    """The mark between the thousands of a number: a comma, a point, a space, an apostrophe, or nothing."""
    header_line: int = 1
    """The line with the names of the columns, counted from 1; 0 if there are none and the columns are numbered."""
    time_format: str | None = None
    """Format of the time column; None for ISO formats and whole numbers."""
    first_hour: Literal[0, 1] = 0
    """The number of the first hour of a day, where hours are a column: 1 if they are numbered from 1 to 24."""

    @field_validator("thousands", mode="before")
    @classmethod
    def _known_mark(cls, value: Any) -> Any:
        if value not in THOUSANDS:
            raise ConfigError(
                f'thousands must be one of ",", ".", " ", "\'" or "" for none, but got thousands={value!r}'
            )
        return value
