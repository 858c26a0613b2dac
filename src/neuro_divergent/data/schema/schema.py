"""The roles of a table's columns and the rules for repairing it. A saved model contains this description."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Literal, TypedDict

from pydantic import field_validator, model_validator

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Several, Takes, default
from neuro_divergent.data.schema.bounds import Bounds
from neuro_divergent.data.schema.file_format import FileFormat
from neuro_divergent.data.time.frequency import Frequency

TIE = "/"
"""Text between the parts of an id that is made of several columns."""

Fill = Literal["forward", "backward", "linear", "mean", "zero"]
MaskOrFill = Literal["mask", "error", Fill]
ErrorOrFill = Literal["error", Fill]
Keep = Literal["keep", "drop", "error"]
Names = Takes[tuple[str, ...], Sequence[str] | str]
"""Names of columns. A single name may be given as a text."""


class DataSchema(Description):
    """Column names, roles, frequency and repair policies of a table. Loading adds the time type and the categories.

    >>> import neuro_divergent as nd
    >>> nd.DataSchema(target_col="sales", future=("price",), freq="1d").future
    ('price',)
    """

    id_col: str = "unique_id"
    """The column with the names of the series, or a list of columns that form the name together. A table without it
    is one series."""
    time_col: str = "ds"
    """The column of time stamps: datetimes, dates, text in a date format, or whole numbers. A list of columns, such as
    year and month or date and hour, is joined to the column "ds"."""
    target_col: str = "y"
    """The column to forecast."""
    freq: Takes[str | None, str | int | None] = default(None)
    """The time between two rows in pandas or polars spelling; None infers it."""
    time_zone: str | None = None
    """The time zone. Time stamps without a zone are read as local time of this zone."""
    time_format: str | None = None
    """Format of the time stamps, such as "%d.%m.%Y %H:%M", "%Y Q%q" or "epoch:s"; None detects it from all rows."""
    wide: bool = False
    """Whether the table has one column per series instead of one row per series and time."""
    future: Names = default(())
    """Columns known ahead of time."""
    historical: Names = default(())
    """Columns known only up to the forecast origin."""
    static: Names = default(())
    """Columns with one value per series."""
    categorical: Names = default(())
    """Columns whose values are categories instead of numbers."""
    features: Several[str] = default(())
    """Columns to compute from the calendar or the target, such as "hour", "fourier:24:3" or "lag:24"."""
    weight: str | None = None
    """The column with the sample weight of each row."""
    available_mask: str | None = None
    """The column that is 0 where the target must not be used."""
    duplicates: Literal["error", "last", "mean"] = "error"
    """What to do with several rows of one series and time."""
    gaps: MaskOrFill = "mask"
    """What to do with time stamps that are missing inside a series. Imputed rows are read in the lookback, but are
    never training targets and are never scored."""
    missing: MaskOrFill = "mask"
    """What to do with rows whose target is empty. Imputed rows are read in the lookback, but are never training targets
    and are never scored."""
    missing_exogenous: ErrorOrFill = "error"
    """What to do with empty cells of other columns. With "error", rows added for gaps repeat the row before."""
    infinities: Literal["error", "mask"] = "error"
    """What to do with infinite targets."""
    unknown_categories: Literal["keep", "error"] = "keep"
    """What to do with empty categories, and with categories of later tables that the first table did not have. Kept
    ones count as one further category, "unknown"."""
    constant: Keep = "keep"
    """What to do with series that never change."""
    all_missing: Keep = "keep"
    """What to do with series that have no observed target."""
    min_length: int | None = None
    """Smallest number of rows of a series."""
    short: Literal["error", "drop", "pad"] = "error"
    """What to do with series shorter than min_length. "pad" adds masked rows in front."""
    dtype: Literal["float32", "float64"] = "float32"
    """The precision of stored numbers."""
    lower: Literal["auto"] | float | None = "auto"
    """The smallest value of the target: forecasts, intervals and sample paths are never below it, and a smaller target
    is refused. "auto" is 0 if the training rows are counts (whole numbers, none negative, some 0), else no limit; None
    is no limit."""
    upper: float | None = None
    """The largest value of the target, as `lower`; None is no limit."""
    integer: bool = False
    """Whether the target has whole numbers: points are rounded to the nearest one, edges of intervals outwards."""
    span: tuple[int, int] | None = None
    """Found when loading: first and last time of the data, for the feature "time"."""
    id_parts: tuple[str, ...] = ()
    """Found when loading: the columns that form the names of the series together."""
    integer_parts: tuple[str, ...] = ()
    """Found when loading: the columns of `id_parts` with whole numbers."""
    time_parts: tuple[str, ...] = ()
    """Found when loading: the columns that form the time together."""
    file: FileFormat | None = None
    """Found when loading: the format of the file."""
    id_type: Literal["none", "text", "integer"] | None = None
    """Found when loading: "none" when the table has no id column."""
    time_type: str | None = None
    """Found when loading: the type in which time stamps are returned, such as "date" or "datetime[us]"."""
    future_categorical: tuple[str, ...] = ()
    """Found when loading: categorical columns known ahead."""
    historical_categorical: tuple[str, ...] = ()
    """Found when loading: categorical columns known only up to the forecast origin. Their code is 0 in the horizon."""
    static_categorical: tuple[str, ...] = ()
    """Found when loading: categorical columns with one value per series."""
    static_table: tuple[str, ...] = ()
    """Found when loading: the static columns that were given as a separate table."""
    categories: dict[str, tuple[str, ...]] = {}
    """Found when loading: for each categorical column its known values; the code of values[i] is i + 1."""

    @model_validator(mode="before")
    @classmethod
    def _several_keys(cls, value: Any) -> Any:
        """A list of id columns is one id with parts, and a list of time columns one time."""
        times = value.get("time_col") if isinstance(value, dict) else None
        if isinstance(times, list | tuple):
            if not times or not all(isinstance(name, str) for name in times) or len(set(times)) != len(times):
                raise ConfigError(
                    f"time_col must be a column or a list of different columns, but got time_col={times!r}"
                )
            joined = {"time_col": "ds", "time_parts": tuple(times)}
            value = value | (joined if len(times) > 1 else {"time_col": times[0]})
        keys = value.get("id_col") if isinstance(value, dict) else None
        if not isinstance(keys, list | tuple):
            return value
        if not keys or not all(isinstance(key, str) for key in keys) or len(set(keys)) != len(keys):
            raise ConfigError(f"id_col must be a column or a list of different columns, but got id_col={keys!r}")
        several = {"id_parts": tuple(keys)} if len(keys) > 1 else {}
        return value | {"id_col": TIE.join(keys)} | several

    @field_validator("freq", mode="before")
    @classmethod
    def _readable(cls, value: Any) -> Any:
        if value is None:
            return None
        Frequency.parse(value)
        return f"{value}i" if isinstance(value, int) else str(value)

    @field_validator("future", "historical", "static", "categorical", mode="before")
    @classmethod
    def _one_name(cls, value: Any) -> Any:
        return (value,) if isinstance(value, str) else value

    @field_validator("min_length")
    @classmethod
    def _positive(cls, value: int | None) -> int | None:
        if value is not None and value < 1:
            raise ConfigError(f"min_length must be at least 1, but got min_length={value!r}")
        return value

    @model_validator(mode="after")
    def _range(self) -> DataSchema:
        _ = self.bounds
        return self

    @property
    def bounds(self) -> Bounds | None:
        """The range that was given for the target; "auto" counts as no limit."""
        return Bounds.of(None if self.lower == "auto" else self.lower, self.upper, self.integer)

    @model_validator(mode="after")
    def _one_role_each(self) -> DataSchema:
        single = {"id_col": self.id_col, "time_col": self.time_col, "target_col": self.target_col}
        single |= {"weight": self.weight, "available_mask": self.available_mask}  # type: ignore[dict-item]
        seen: dict[str, str] = {}
        pairs = [(role, name) for role, name in single.items() if name is not None]
        pairs += [(role, name) for role in ("future", "historical", "static") for name in getattr(self, role)]
        varying = {self.time_col, self.target_col, self.weight, self.available_mask, *self.future, *self.historical}
        clash = [part for part in self.id_parts if part in varying]
        if clash:
            raise ConfigError(
                f"a column of id_col has one value per series, but {clash[0]!r} has another role as well. Name it once."
            )
        for role, name in pairs:
            if name in seen:
                raise ConfigError(f"a column has one role, but {name!r} is both {seen[name]} and {role}. Name it once.")
            seen[name] = role
        for name in self.categorical:
            if seen.get(name) in single:
                raise ConfigError(f"{name!r} is the {seen[name]}, so it cannot be categorical as well.")
        if len(set(self.categorical)) != len(self.categorical):
            raise ConfigError(f"a column is categorical once, but got categorical={self.categorical!r}")
        return self

    found_when_loading: ClassVar[tuple[str, ...]] = (
        *("span", "id_type", "time_type", "static_table", "categories"),
        *("future_categorical", "historical_categorical", "static_categorical"),
    )
    """Fields that loading sets; a user does not."""

    @property
    def resolved(self) -> bool:
        """Whether a table was loaded with this schema, so that its roles and categories are known."""
        return self.id_type is not None

    @property
    def id_columns(self) -> tuple[str, ...]:
        """The columns with the names of the series in returned frames; empty if the table has no ids."""
        return () if self.id_type == "none" else self.id_parts or (self.id_col,)

    @property
    def time_varying_categorical(self) -> tuple[str, ...]:
        """The columns of `store.categorical`, known-ahead ones first."""
        return self.future_categorical + self.historical_categorical


class LoadOptions(TypedDict, total=False):
    """The keyword arguments that every loader takes; the fields of `DataSchema` describe them."""

    id_col: str | list[str] | tuple[str, ...]
    time_col: str | list[str] | tuple[str, ...]
    target_col: str
    freq: str | int | None
    time_zone: str | None
    time_format: str | None
    wide: bool
    static: Any
    future: tuple[str, ...] | list[str] | str
    historical: tuple[str, ...] | list[str] | str
    categorical: tuple[str, ...] | list[str] | str
    features: tuple[str, ...] | list[str]
    weight: str | None
    available_mask: str | None
    duplicates: Literal["error", "last", "mean"]
    gaps: MaskOrFill
    missing: MaskOrFill
    missing_exogenous: ErrorOrFill
    infinities: Literal["error", "mask"]
    unknown_categories: Literal["keep", "error"]
    constant: Keep
    all_missing: Keep
    min_length: int | None
    short: Literal["error", "drop", "pad"]
    dtype: Literal["float32", "float64"]
    lower: Literal["auto"] | float | None
    upper: float | None
    integer: bool
