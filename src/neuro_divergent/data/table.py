"""The table of time series: checked once, stored as a SeriesStore, and returned in the library of its input."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from typing import Any, Self, Unpack

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import Advice, ConfigError, DataError
from neuro_divergent.core.extras import require
from neuro_divergent.data.features.attach import add_features, horizon_features
from neuro_divergent.data.read.build import build
from neuro_divergent.data.read.files import scan_parquet, take_over
from neuro_divergent.data.read.future_values import FutureValues, read_future
from neuro_divergent.data.read.keys import with_joined_keys, with_parts
from neuro_divergent.data.read.load_file import assumed_roles, load_file, raise_all
from neuro_divergent.data.read.request import named_roles, schema_and_static, schema_of, without_keys
from neuro_divergent.data.read.series_checks import cut_rows, ensure_length, select_series
from neuro_divergent.data.read.sniff.roles import Roles
from neuro_divergent.data.read.sniff.unpack import PathLike, Source
from neuro_divergent.data.read.target_range import check_range, propose_range
from neuro_divergent.data.schema.load_report import Assumption, DataReport, listing
from neuro_divergent.data.schema.schema import DataSchema, LoadOptions
from neuro_divergent.data.store.fills import hidden_count, shown_rows
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.time.frequency import Frequency


class TimeSeriesDataFrame:
    """Time series of one target with its exogenous columns, checked and ready for training.

    Create one with `from_csv`, `from_parquet` or `from_frame`. `report()` lists what loading found and repaired.

    >>> data = TimeSeriesDataFrame.from_frame({"ds": [1, 2, 3], "y": [1.0, 2.0, 4.0]})
    >>> data
    TimeSeriesDataFrame: 1 series, 3 rows, freq 1i
    """

    def __init__(self, store: SeriesStore, schema: DataSchema, report: DataReport, *, library: str = "polars") -> None:
        self.store = store
        self.schema = schema
        self.library = library
        self._report = report

    @classmethod
    def from_csv(
        cls,
        path: Source,
        *,
        separator: str | None = None,
        encoding: str | None = None,
        decimal_comma: bool | None = None,
        thousands: str | None = None,
        header_line: int | None = None,
        sheet: str | None = None,
        schema: DataSchema | None = None,
        **options: Unpack[LoadOptions],
    ) -> Self:
        """Return the table of a text file (CSV with any separator, also compressed) or of an .xlsx sheet.

        Settings that are not given are detected in the file and listed as
        assumptions in `report()`. If the file leaves some of them open, one error lists all of them.

        Args:
            path: the file (.csv, .tsv, .txt, also .gz, .zip, .zst; .xlsx needs the extra `excel`), or a binary stream.
            separator: the character between two cells.
            encoding: the text encoding of the file.
            decimal_comma: whether 3,5 is a number.
            thousands: the mark between thousands: "," or "." or " " or "'", "" for none.
            header_line: the line of the column names, counted from 1; 0 if there is none. The columns are then named
                column_1, column_2 and so on.
            sheet: the sheet of a workbook.
            schema: the schema of a table that was loaded before, to read new data in the same way. It replaces all
                options but `static`.
            **options: the fields of `DataSchema`: id_col, time_col, target_col, freq, wide, static, future,
                historical, ...
        """
        request, static = schema_and_static(schema, options)
        given = {
            "separator": separator, "encoding": encoding, "decimal_comma": decimal_comma, "thousands": thousands,
            "header_line": header_line, "sheet": sheet,
        }  # fmt: skip
        loaded = load_file(path, given, options if schema is None else named_roles(schema), request.file)
        request = without_keys(request.replace(**loaded.roles, file=loaded.file), static)
        parts = request.time_parts  # load_file has joined them
        store, built, report = build(loaded.frame.lazy(), request.replace(time_parts=()) if parts else request, static)
        built = built.replace(time_parts=parts) if parts else built
        report.ignored_columns = tuple(name for name in report.ignored_columns if name not in parts)
        return cls._checked(store, built, report, assumptions=loaded.assumptions, new=schema is None)

    @classmethod
    def from_parquet(cls, path: PathLike, *, schema: DataSchema | None = None, **options: Unpack[LoadOptions]) -> Self:
        """Return the table of a Parquet file, of files that match a pattern ("sales/*.parquet"), or of a directory.

        Only columns with a role are read.

        Args:
            path: a file, a glob pattern, or a directory of partitions.
            schema: as in `from_csv`.
            **options: as in `from_csv`.
        """
        request, static = schema_and_static(schema, options)
        lazy, found = scan_parquet(path), Roles()
        if schema is None:
            found = assumed_roles(lazy, options)
            raise_all(found.problems)
            request = without_keys(request.replace(**found.fields), static)
        built = build(lazy, request, static, from_file=True)
        return cls._checked(*built, assumptions=found.assumptions, new=schema is None)

    @classmethod
    def from_frame(cls, frame: Any, *, schema: DataSchema | None = None, **options: Unpack[LoadOptions]) -> Self:
        """Return the table of a frame. A TimeSeriesDataFrame is returned unchanged.

        Args:
            frame: a polars DataFrame or LazyFrame, a pandas or pyarrow table, or a dict of arrays.
            schema: as in `from_csv`.
            **options: as in `from_csv`.
        """
        if isinstance(frame, cls):
            if options or schema is not None:
                raise ConfigError("a TimeSeriesDataFrame has its roles already, but got roles again. Leave them out.")
            return frame
        request, static = schema_and_static(schema, options)
        lazy, library = take_over(frame)
        return cls._checked(*build(lazy, request, static), library=library, new=schema is None)

    @classmethod
    def from_store(cls, store: SeriesStore, schema: DataSchema | None = None) -> Self:
        """Return the table of a checked store, such as one that `SeriesStore.open` returns.

        Args:
            store: the series.
            schema: names and roles of the columns; None uses the default names.
        """
        return cls(store, schema or schema_of(store), _fresh_report(store, len(store.y)))

    @classmethod
    def _checked(
        cls,
        store: SeriesStore,
        schema: DataSchema,
        report: DataReport,
        *,
        library: str = "polars",
        assumptions: Sequence[Assumption] = (),
        new: bool = True,
    ) -> Self:
        """The table of a checked store, with the features of its schema.

        The range of the target is checked if the table is `new`. Later rows that are read with its schema are inputs.
        """
        report.assumptions[:0] = assumptions
        data = cls(store, schema, report, library=library)
        if new:
            data.check_range()
            propose_range(store, schema, report)
        if schema.features:
            data.store, data.schema = add_features(store, schema, data.all_times())
        return data

    def report(self) -> DataReport:
        """Return what loading found, with a count of every repair."""
        if self._report.first_time is None:
            self._report.first_time, self._report.last_time = self._span()
        return self._report

    def check_range(self) -> None:
        """Refuse targets outside of the range that the schema gives: lower, upper and integer."""
        check_range(self.store, self.schema, lambda series, row: self.times(series, row, 1)[0])

    @property
    def freq(self) -> str:
        """The time between two rows, in polars spelling."""
        return self.store.freq

    @property
    def ids(self) -> npt.NDArray[np.generic]:
        """[S] the names of the series, sorted."""
        return self.store.ids

    @property
    def n_series(self) -> int:
        """Number of series."""
        return len(self.store.ids)

    def __len__(self) -> int:
        return len(self.store.y)

    @property
    def frequency(self) -> Frequency:
        """The parsed frequency."""
        return self.store.frequency

    @property
    def fingerprint(self) -> str:
        """A hash of the store's contents. Two tables have equal fingerprints only if their data are equal."""
        return self.store.fingerprint()

    def times(self, series: int, start: int = 0, count: int | None = None) -> pl.Series:
        """Return time stamps of one series. Rows after its end give the time stamps of the horizon.

        Args:
            series: number of the series.
            start: first row.
            count: number of rows; None for all rows up to the end.
        """
        length = int(self.store.lengths[series])
        steps = np.arange(start, start + (length - start if count is None else count))
        return self._stamps(self.store.times(steps, np.full(len(steps), series)))

    def future_times(self, h: int) -> pl.Series:
        """Return the h time stamps after the end of every series, concatenated."""
        return self._stamps(self.horizon_times(h))

    def horizon_times(self, h: int) -> npt.NDArray[Any]:
        """Return `future_times` in the type of the store: datetime64 (UTC if there is a time zone) or integers."""
        steps = self.store.lengths[:, None] + np.arange(h)
        return self.store.times(steps, np.arange(self.n_series)[:, None]).reshape(-1)

    def future_values(self, frame: Any, h: int, *, given: int | None = None) -> FutureValues:
        """Return the columns known ahead for the h steps after every series. Calendar features are computed.

        Rows of other times and other series are ignored. A missing step raises an error that names it.

        Args:
            frame: any table with the columns known ahead; None if calendar features are the only ones.
            h: number of steps.
            given: number of steps for which the table must have rows; None for all. Further steps are read until the
                first step that is missing in a series. The last step that was read is repeated for the steps after it.
        """
        own_values = FutureValues(None, None)
        own = (*self.schema.future, *self.schema.future_categorical)
        own = tuple(name for name in own if name in self.store.future_names or name in self.store.categories)
        least = h if given is None else min(h, given)
        if own and frame is None:
            raise DataError(
                f"the columns {listing(own)} are known ahead, but got no values for the {least} steps after the last "
                "row. Pass them: predict(future=...).",
                advice=[Advice("future")],
            )
        if own:
            future = with_joined_keys(take_over(frame)[0], self.schema)[0].collect()
            own_values = read_future(future, self.store, self.schema, self._horizon(h), least)
        if not self.schema.features:
            return own_values
        added = horizon_features(self.store, self.schema, self.future_times(h)).reshape(self.n_series, h, -1)
        if not added.shape[2]:
            return own_values
        known_ahead = added if own_values.future is None else np.concatenate([own_values.future, added], axis=2)
        return own_values._replace(future=known_ahead)

    def _horizon(self, h: int) -> pl.DataFrame:
        stamps = self.horizon_times(_count(h, 1))
        return pl.DataFrame(
            {
                "series": np.repeat(np.arange(self.n_series), h),
                "ticks": stamps.astype(np.int64),
                "time": self._stamps(stamps),
            }
        )

    def all_times(self) -> pl.Series:
        """Return the time stamp of every row of the store."""
        lengths = self.store.lengths
        rows = np.arange(len(self)) - np.repeat(self.store.offsets[:-1], lengths)
        return self._stamps(self.store.times(rows, np.repeat(np.arange(self.n_series), lengths)))

    def _stamps(self, times: npt.NDArray[Any]) -> pl.Series:
        """The time stamps in the type of the input's time column."""
        series = pl.Series(self.schema.time_col, times)
        label = self.schema.time_type or "datetime[us]"
        if self.frequency.integer:
            wanted = getattr(pl, label.replace("uint", "UInt").replace("int", "Int"), pl.Int64)
            fits = (
                not len(series) or pl.Series([series.min(), series.max()]).cast(wanted, strict=False).null_count() == 0
            )
            return series.cast(wanted) if fits else series
        if self.store.time_zone is not None:
            series = series.dt.replace_time_zone("UTC").dt.convert_time_zone(self.store.time_zone)
        if label == "date":
            whole = not self.frequency.microseconds or self.frequency.on_wall_clock
            return series.cast(pl.Date) if whole else series
        return series.dt.cast_time_unit(label[9:11])  # type: ignore[arg-type]

    def _span(self) -> tuple[Any, Any]:
        ends = self.store.times(self.store.lengths - 1)
        both = self._stamps(np.stack((self.store.start.min(), ends.max())))
        return both[0], both[1]

    def id_column(self, counts: npt.NDArray[np.int64] | int) -> pl.Series:
        """Return the ids as a column, each repeated `counts` times.

        Args:
            counts: [S] repetitions of each id, or one number for all.
        """
        numbers = np.repeat(np.arange(self.n_series), counts)
        return pl.Series(self.schema.id_col, self.store.ids.tolist())[numbers] if self.n_series else pl.Series([])

    def to_polars(self, *, filled: bool = False) -> pl.DataFrame:
        """Return the table in long form. Rows of gaps are included, and missing targets are null.

        Args:
            filled: return imputed targets (of the options `missing` and `gaps`) instead of null.
        """
        store, schema = self.store, self.schema
        columns = [] if schema.id_type == "none" else [self.id_column(store.lengths)]
        seen = shown_rows(store) if filled else store.mask
        columns += [self.all_times(), _nullable(schema.target_col, store.y, seen)]
        for names, block in ((store.future_names, store.future), (store.historical_names, store.historical)):
            columns += [pl.Series(name, block[:, i]) for i, name in enumerate(names) if block is not None]
        columns += self._categories(schema.time_varying_categorical, store.categorical, None)
        for position, name in enumerate(store.static_names if store.static is not None else ()):
            columns.append(pl.Series(name, np.repeat(store.static[:, position], store.lengths)))  # type: ignore[index]
        columns += self._categories(schema.static_categorical, store.static_categorical, store.lengths)
        if schema.weight is not None and store.weight is not None:
            columns.append(pl.Series(schema.weight, store.weight))
        if schema.available_mask is not None:
            seen = np.ones(len(self), dtype=bool) if store.mask is None else store.mask
            columns.append(pl.Series(schema.available_mask, seen.astype(np.int8)))
        return with_parts(pl.DataFrame(columns), schema)

    def _categories(
        self, names: tuple[str, ...], block: npt.NDArray[np.int32] | None, repeats: npt.NDArray[np.int64] | None
    ) -> list[pl.Series]:
        if block is None:
            return []
        columns = []
        for position, name in enumerate(names):
            codes = block[:, position] if repeats is None else np.repeat(block[:, position], repeats)
            values = pl.Series([None, *self.store.categories[name]], dtype=pl.String)
            columns.append(values[codes.astype(np.int64)].alias(name))
        return columns

    def to_pandas(self, *, filled: bool = False) -> Any:
        """Return the table in long form as a pandas DataFrame; see `to_polars`."""
        require("pandas", extra="pandas", purpose="A pandas table")
        require("pyarrow", extra="pandas", purpose="A pandas table")
        return self.to_polars(filled=filled).to_pandas()

    def as_input_library(self, table: pl.DataFrame) -> Any:
        """Return a polars table in the library of the input (polars, pandas, pyarrow or dict), with its id columns."""
        table = with_parts(table, self.schema)
        if self.library == "pandas":
            return table.to_pandas()
        if self.library == "pyarrow":
            return table.to_arrow()
        return table.to_dict(as_series=False) if self.library == "dict" else table

    def select(self, ids: Iterable[Any]) -> TimeSeriesDataFrame:
        """Return a table of the named series, in sorted order.

        Args:
            ids: names of series, in any order.
        """
        numbers = {name: number for number, name in enumerate(self.store.ids.tolist())}
        wanted = list(dict.fromkeys(ids))
        absent = [name for name in wanted if name not in numbers]
        if absent:
            raise DataError(f"select needs names of series of the table, but it has no {listing(absent)}.")
        return self._with(select_series(self.store, np.array(sorted(numbers[name] for name in wanted), dtype=np.int64)))

    def tail(self, n: int) -> TimeSeriesDataFrame:
        """Return a table of the last n rows of each series."""
        begin = np.maximum(self.store.offsets[1:] - _count(n, 1), self.store.offsets[:-1])
        return self._with(cut_rows(self.store, np.arange(self.n_series), begin, self.store.offsets[1:]))

    def head(self, n: int) -> TimeSeriesDataFrame:
        """Return a table of the first n rows of each series."""
        stop = np.minimum(self.store.offsets[:-1] + _count(n, 1), self.store.offsets[1:])
        return self._with(cut_rows(self.store, np.arange(self.n_series), self.store.offsets[:-1], stop))

    def drop_last(self, n: int) -> TimeSeriesDataFrame:
        """Return the table without the last n rows of each series, for backtests. Every series must keep a row."""
        left = self.store.lengths - _count(n, 0)
        if (left < 1).any():
            names = listing(self.store.ids[left < 1].tolist())
            raise DataError(f"every series must keep a row after the last {n} are dropped, but these do not: {names}.")
        return self._with(
            cut_rows(self.store, np.arange(self.n_series), self.store.offsets[:-1], self.store.offsets[1:] - n)
        )

    def with_min_length(self, n: int, short: str = "error") -> TimeSeriesDataFrame:
        """Return a table whose series have at least n rows.

        Args:
            n: smallest number of rows.
            short: "error" refuses shorter series, "drop" leaves them out, "pad" adds masked rows in front.
        """
        if short not in ("error", "drop", "pad"):
            raise ConfigError(f"short must be 'error', 'drop' or 'pad', but got short={short!r}")
        report = DataReport()
        result = self._with(ensure_length(self.store, n, short, report))
        for name in ("short_series", "dropped_series", "padded_rows"):
            setattr(result._report, name, getattr(report, name))
        return result

    def _with(self, store: SeriesStore) -> TimeSeriesDataFrame:
        """The same table with another store and a new report."""
        return TimeSeriesDataFrame(store, self.schema, _fresh_report(store, len(self)), library=self.library)

    def __repr__(self) -> str:
        return f"TimeSeriesDataFrame: {self._facts()}"

    def _facts(self) -> str:
        store = self.store
        zone = f" {store.time_zone}" if store.time_zone else ""
        facts = [f"{self.n_series:,} series", f"{len(self):,} rows", f"freq {store.freq}{zone}"]
        for what, names in (("future", store.future_names), ("historical", store.historical_names)):
            facts += [f"{what}: {', '.join(names)}"] if names else []
        facts += [f"static: {', '.join(store.static_names)}"] if store.static_names else []
        facts += [f"categorical: {', '.join(store.categories)}"] if store.categories else []
        facts += [f"{self._report.masked:,} rows masked"] if self._report.masked else []
        return ", ".join(facts)

    def _repr_html_(self) -> str:
        head = self.head(3).select(self.ids[:2].tolist()).to_polars() if self.n_series else pl.DataFrame()
        return f"<b>TimeSeriesDataFrame</b>: {html.escape(self._facts())}{head._repr_html_()}"


def _fresh_report(store: SeriesStore, rows_read: int) -> DataReport:
    return DataReport(
        rows_read=rows_read,
        rows_stored=len(store.y),
        n_series=len(store.ids),
        masked=hidden_count(store),
        freq=store.freq,
        time_zone=store.time_zone,
    )


def _count(n: int, least: int) -> int:
    if isinstance(n, bool) or not isinstance(n, int | np.integer) or n < least:
        raise ConfigError(f"n must be a whole number of at least {least}, but got n={n!r}")
    return int(n)


def _nullable(name: str, values: npt.NDArray[Any], mask: npt.NDArray[np.bool_] | None) -> pl.Series:
    series = pl.Series(name, values)
    return series if mask is None else series.set(pl.Series(~mask), None)
