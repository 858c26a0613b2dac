"""Builds a store from a checked table: every column is converted once, moved once, and then freed."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.features.attach import span_in
from neuro_divergent.data.read.columns import Numbers, Stamps, exact_values, first_true, is_text, read_numbers
from neuro_divergent.data.read.exogenous import read_exogenous
from neuro_divergent.data.read.guard import guarded
from neuro_divergent.data.read.keys import static_per_series, with_joined_keys
from neuro_divergent.data.read.roles import check_columns, has_id, wide_to_long
from neuro_divergent.data.read.row_layout import Layout, Runs, lay_out
from neuro_divergent.data.read.series_checks import check_series
from neuro_divergent.data.read.timestamps import check_zone, localise, read_stamps
from neuro_divergent.data.schema.file_format import FileFormat
from neuro_divergent.data.schema.load_report import DataReport, listing
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.fills import CODES, fill
from neuro_divergent.data.store.rounding import SETTINGS, described, merged_by_rounding
from neuro_divergent.data.store.store import SeriesStore

log = logging.getLogger(__name__)

Built = tuple[SeriesStore, DataSchema, DataReport]
Target = tuple[npt.NDArray[Any], npt.NDArray[np.bool_] | None, npt.NDArray[np.int8] | None]
"""Values, the mask of observed ones (None for all), and the fill codes of the others (None for none)."""


CHUNK = 1 << 20
"""Number of rows whose ids are in memory at once when a file is read."""


def build(
    lazy: pl.LazyFrame, schema: DataSchema, static_table: pl.DataFrame | None = None, *, from_file: bool = False
) -> Built:
    """The store of a table, after checks. A file is read piece by piece if that saves memory."""
    report = DataReport()
    with guarded("the table"):
        lazy, schema = with_joined_keys(lazy, schema)
        columns = lazy.collect_schema()
    if static_table is not None:
        static_table = static_per_series(static_table, lazy, schema, report)
    schema, static_table = _static_source(columns, schema, static_table)
    wide = schema.wide and not (schema.resolved and schema.id_col in columns and schema.target_col in columns)
    check_columns(columns, schema, wide=wide)
    named = wide or has_id(columns, schema)
    if wide:
        lazy = wide_to_long(lazy, columns, schema)
    wanted = _wanted(schema)
    _refuse_objects(columns, columns if wide else {*wanted, schema.id_col})
    if not wide:
        keys = {schema.id_col, *schema.id_parts} if named else set()
        keys |= {*schema.time_parts}
        spare = [name for name in columns if name not in wanted and name not in keys]
        report.ignored_columns = tuple(spare)
    runs = _runs(lazy, schema, from_file) if named else None
    with guarded("the table"):
        table = lazy.select(wanted).collect()
    report.rows_read = len(table)
    if not len(table):
        raise DataError("a table needs rows, but got only a header. Add at least one row for each series.")
    if runs is None:
        runs = Runs(pl.Series(schema.id_col, [schema.target_col]), np.array([len(table)]))
    return _Builder(table, runs, schema, report, named, static_table).run()


def _static_source(
    columns: pl.Schema, schema: DataSchema, static_table: pl.DataFrame | None
) -> tuple[DataSchema, pl.DataFrame | None]:
    """The source of the static columns. Those of an earlier static table may now be in the main one, but must exist."""
    taken = {schema.time_col, schema.target_col, schema.weight, schema.available_mask}
    clash = [name for name in schema.static_table if name in taken | {*schema.future, *schema.historical}]
    if clash:
        raise DataError(
            f"a column has one role, but {listing(clash)} of the static table is also a column of the data with "
            f"another role. Rename it; the static table names the series in {schema.id_col!r}."
        )
    found = columns if static_table is None else static_table.columns
    absent = [name for name in schema.static_table if name not in found]
    if absent:
        raise DataError(
            f"the static columns {listing(schema.static_table)} must come with the data, but got none of the name "
            f"{listing(absent)}. Give their table: static=...",
            advice=[Advice("data.static")],
        )
    if static_table is None:
        return schema.replace(static_table=()), None
    if schema.resolved:
        static_table = static_table.select(
            name for name in static_table.columns if name in (schema.id_col, *schema.static_table)
        )
    return schema, static_table


def _refuse_objects(columns: pl.Schema, wanted: Iterable[str]) -> None:
    for name in wanted:
        if columns.get(name) == pl.Object:
            raise DataError(
                f"column {name!r} must hold numbers, text or time stamps, but got Python objects of mixed types. "
                "Convert the column to one type."
            )


def _wanted(schema: DataSchema) -> list[str]:
    names = [schema.time_col, schema.target_col, *schema.future, *schema.historical, *schema.static]
    names += [*schema.categorical, *(name for name in (schema.weight, schema.available_mask) if name is not None)]
    return [name for name in dict.fromkeys(names) if name not in schema.static_table]


def _runs(lazy: pl.LazyFrame, schema: DataSchema, from_file: bool) -> Runs:
    """The runs of equal ids. Only this column is read, so that a long text column is never in memory as a whole."""
    kind = lazy.collect_schema()[schema.id_col]
    if not (kind.is_integer() or isinstance(kind, pl.String | pl.Categorical | pl.Enum)):
        whole = " Cast it to whole numbers." if kind.is_float() else ""
        raise DataError(
            f"column {schema.id_col!r} must hold text or whole numbers, but got {kind}.{whole} "
            "Name another one with id_col=...",
            advice=[Advice("data.id_col")],
        )
    with guarded("the table"):
        ids, lengths = _run_lengths(lazy.select(schema.id_col), from_file)
    if not len(ids):
        raise DataError("a table needs rows, but got only a header. Add at least one row for each series.")
    ids = ids.cast(pl.String) if is_text(ids) else ids.cast(pl.Int64, strict=False)
    runs = Runs(ids.alias(schema.id_col), lengths)
    _check_ids(runs, schema)
    return runs


def _run_lengths(column: pl.LazyFrame, from_file: bool) -> tuple[pl.Series, npt.NDArray[np.int64]]:
    """The runs, piece by piece. Runs that cross the border of two pieces are joined."""
    if from_file:
        rows = int(column.select(pl.len()).collect().item())
        pieces = (column.slice(begin, CHUNK).collect().to_series() for begin in range(0, rows, CHUNK))
    else:
        pieces = (piece for piece in column.collect().to_series().get_chunks())
    found = [piece.rechunk().rle().struct.unnest() for piece in pieces if len(piece)]
    if not found:
        return pl.Series([], dtype=pl.String), np.zeros(0, dtype=np.int64)
    runs = pl.concat(found)
    lengths = runs["len"].to_numpy().astype(np.int64)
    values = runs["value"].rechunk()
    if len(found) == 1:
        return values, lengths
    again = values.rle().struct.unnest()
    first = np.concatenate(([0], np.cumsum(again["len"].to_numpy().astype(np.int64))[:-1]))
    return again["value"], np.add.reduceat(lengths, first)


def _check_ids(runs: Runs, schema: DataSchema) -> None:
    bad = runs.ids.is_null()
    if runs.ids.dtype == pl.String:
        bad = bad | (runs.ids.str.len_chars() > 1000) | runs.ids.str.contains("\0", literal=True)
    place = first_true(bad.fill_null(True))
    if place is None:
        return
    row = int(runs.ends[place] - runs.lengths[place])
    got = "an empty cell" if runs.ids[place] is None else "one with a zero byte or longer than 1,000 characters"
    raise DataError(
        f"column {schema.id_col!r} must name a series in every row, but got {got} at row {row}. "
        "Fill it in or remove the row."
    )


class _Builder:
    """Converts the columns of one table one by one and frees each when it is done."""

    def __init__(
        self,
        table: pl.DataFrame,
        runs: Runs,
        schema: DataSchema,
        report: DataReport,
        named: bool,
        static_table: pl.DataFrame | None,
    ) -> None:
        self.table, self.runs, self.schema, self.report = table, runs, schema, report
        self.named, self.static_table = named, static_table

    def run(self) -> Built:
        stamps = self._stamps()
        layout = lay_out(self.runs, stamps, self.schema, self.report)
        label, zone = stamps.label, stamps.zone
        del stamps
        y, mask, fills = self._target(layout)
        blocks = read_exogenous(self.table, self.runs, layout, self.schema, self.report, self.static_table)
        weight = self._weight(layout)
        text = self.runs.ids.dtype == pl.String
        ids = layout.ids.to_numpy() if not text else np.array(layout.ids.to_list(), dtype=np.str_)
        store = SeriesStore(
            ids=ids,
            offsets=layout.offsets,
            y=y,
            start=layout.start,
            grid_anchor=layout.grid_anchor,
            freq=str(layout.freq),
            time_zone=zone,
            mask=mask,
            fills=fills,
            weight=weight,
            **blocks.arrays,
        )
        schema = self.schema.replace(
            freq=str(layout.freq),
            time_zone=zone,
            time_type=label,
            span=span_in(self.schema, label),
            id_type=("text" if text else "integer") if self.named else "none",
            **blocks.roles,
        )
        store = check_series(store, schema, self.report)
        self.report.freq, self.report.time_zone = store.freq, zone
        return store, schema, self.report

    def _column(self, name: str) -> pl.Series:
        """Remove a column from the table, so that it is freed after its conversion."""
        return self.table.drop_in_place(name)

    def _stamps(self) -> Stamps:
        if self.schema.time_zone is not None:
            check_zone(self.schema.time_zone)
        column = self._column(self.schema.time_col)
        zone = self.schema.time_zone
        file = self.schema.file
        known = None if file is None else file.time_format
        form, counted = self.schema.time_format, str(self.schema.freq).endswith("i")
        stamps = read_stamps(column, self.runs.where, zone=zone, form=form, known=known, counted=counted)
        if stamps.assumption is not None:
            self.report.assumptions.append(stamps.assumption)
        if stamps.form is not None:
            self.schema = self.schema.replace(file=(file or FileFormat()).replace(time_format=stamps.form))
        if zone is not None and stamps.zone is None:
            return localise(stamps, zone, self.runs.codes, self.schema.time_col, self.runs.where)
        if self.schema.resolved and stamps.zone != zone:
            raise DataError(
                f"column {self.schema.time_col!r} must have no time zone, as in the data of the schema, but got "
                f"{stamps.zone}. Remove it, or load both with time_zone=...",
                advice=[Advice("data.time_zone")],
            )
        return stamps

    def _numbers(self, name: str, infinities: str = "error") -> Numbers:
        return read_numbers(
            self._column(name), self.runs.where, self.report, dtype=self.schema.dtype, infinities=infinities
        )

    def _target(self, layout: Layout) -> Target:
        schema, report = self.schema, self.report
        column = self._column(schema.target_col)
        numbers = read_numbers(column, self.runs.where, report, dtype=schema.dtype, infinities=schema.infinities)
        if schema.dtype == "float32":
            self._count_merged(column)
        del column
        if numbers.observed is not None and not numbers.observed.any() and schema.all_missing != "keep":
            raise DataError(f"column {schema.target_col!r} must hold targets, but got only empty cells.")
        usable = self._available()
        observed = numbers.observed
        if usable is not None:
            observed = usable if observed is None else observed & usable
        y, seen = layout.merged_numbers(numbers.values, observed)
        available = None if usable is None else layout.merged_flags(usable)
        missing = None if seen is None else ~seen
        if missing is not None and available is not None:
            missing &= available
            report.unavailable = int(np.count_nonzero(~available))
        if missing is not None and numbers.infinite is not None:
            report.infinite = int(np.count_nonzero(numbers.infinite))
            infinite = (
                layout.merged_flags(numbers.infinite) & missing
            )  # always masked, however empty targets are handled
            missing &= ~infinite
            available = ~infinite if available is None else available & ~infinite
        if missing is not None and missing.any():
            self._count_missing(layout, missing)
        y = layout.place(y)
        if layout.slot is None and missing is None and available is None:
            return y, None, None
        return self._masked(layout, y, missing, available)

    def _count_merged(self, column: pl.Series) -> None:
        """Count the targets that are equal in float32, and warn."""
        exact = exact_values(column)
        if exact is None:
            return
        runs = self.runs
        ids, codes = runs.dictionary
        merged = merged_by_rounding(exact, runs.ends - runs.lengths, codes.astype(np.int64), len(ids))
        self.report.merged_targets = {ids[int(s)]: int(merged[s]) for s in np.flatnonzero(merged)}
        if self.report.merged_targets:
            log.warning("%s", described(self.report.merged_targets), extra=SETTINGS)

    def _masked(
        self,
        layout: Layout,
        y: npt.NDArray[Any],
        missing: npt.NDArray[np.bool_] | None,
        available: npt.NDArray[np.bool_] | None,
    ) -> Target:
        rows = len(y) if layout.slot is None else len(layout.slot)
        present = layout.place(np.ones(rows, dtype=bool), False)
        absent = np.zeros(len(y), dtype=bool) if missing is None else layout.place(missing, False)
        mask = present & ~absent
        if available is not None:
            mask &= layout.place(available, False)
        y = y if y.flags.writeable else y.copy()
        y[~mask] = 0
        codes = np.zeros(len(y), dtype=np.int8)
        for rows_to_fill, method in ((~present, self.schema.gaps), (absent, self.schema.missing)):
            codes[rows_to_fill] = CODES.get(method, 0)
        if not codes.any():
            return y, None if mask.all() else mask, None
        fill(y, mask, codes, layout.offsets)
        self.report.filled = int(np.count_nonzero(codes > 0))
        return y, mask, codes

    def _available(self) -> npt.NDArray[np.bool_] | None:
        """[input rows] where the target may be used; None for everywhere."""
        name = self.schema.available_mask
        if name is None:
            return None
        numbers = self._numbers(name)
        odd = ~np.isin(numbers.values, (0, 1))
        odd |= False if numbers.observed is None else ~numbers.observed
        row = first_true(odd)
        if row is not None:
            raise DataError(
                f"column {name!r} (available_mask) must hold 0 and 1, but got another value at {self.runs.where(row)}. "
                "Write 1 where the target may be used."
            )
        return np.asarray(numbers.values != 0)

    def _weight(self, layout: Layout) -> npt.NDArray[Any] | None:
        """[N] the weight of each row; rows that were added for gaps have weight 0, because they are no targets."""
        name = self.schema.weight
        if name is None:
            return None
        numbers = self._numbers(name)
        bad = numbers.values < 0
        bad |= False if numbers.observed is None else ~numbers.observed
        row = first_true(bad)
        if row is not None:
            raise DataError(
                f"column {name!r} (weight) must hold numbers of at least 0, but got an empty or negative one at "
                f"{self.runs.where(row)}. Write 1 for the usual weight."
            )
        return layout.place(layout.merged_numbers(numbers.values, None)[0])

    def _count_missing(self, layout: Layout, missing: npt.NDArray[np.bool_]) -> None:
        schema, report = self.schema, self.report
        counts = np.add.reduceat(missing.astype(np.int64), layout.kept_offsets[:-1])
        report.missing = int(counts.sum())
        report.missing_by_series = {layout.ids[int(s)]: int(counts[s]) for s in np.flatnonzero(counts)}
        if schema.missing == "error":
            row = layout.input_row(int(np.argmax(missing)))
            raise DataError(
                f"column {schema.target_col!r} must have a value in every row, but got {report.missing:,} empty ones, "
                f'the first at {self.runs.where(row)}. Say missing="mask" (or a fill method), or fill them in.',
                advice=[Advice("data.missing", "mask")],
            )
