"""Reads the columns beside the target: known ahead, historical, static, categorical."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from neuro_divergent.core.errors import Advice, DataError
from neuro_divergent.data.read.columns import Where, encode, is_text, read_numbers, warn_unknown
from neuro_divergent.data.read.row_layout import Layout, Runs
from neuro_divergent.data.schema.load_report import Assumption, DataReport, listing
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.fills import CODES, LOOKS_AHEAD, Codes, fill


@dataclass
class Blocks:
    """Arrays for the store and roles for the schema."""

    arrays: dict[str, Any] = field(default_factory=dict)
    roles: dict[str, Any] = field(default_factory=dict)


def read_exogenous(
    table: pl.DataFrame,
    runs: Runs,
    layout: Layout,
    schema: DataSchema,
    report: DataReport,
    static_table: pl.DataFrame | None,
) -> Blocks:
    """Convert, check and lay out every column that has a role beside the target."""
    return _Reader(table, runs, layout, schema, report, static_table).run()


class _Reader:
    def __init__(
        self,
        table: pl.DataFrame,
        runs: Runs,
        layout: Layout,
        schema: DataSchema,
        report: DataReport,
        static_table: pl.DataFrame | None,
    ) -> None:
        self.table, self.runs, self.layout, self.schema, self.report = table, runs, layout, schema, report
        self.statics = None if static_table is None else self._aligned(static_table)
        self.vocabularies: dict[str, tuple[str, ...]] = {}

    def run(self) -> Blocks:
        schema, blocks = self.schema, Blocks()
        if not (schema.future or schema.historical or schema.categorical or schema.static or self.statics is not None):
            return blocks
        future_cat, past_cat, static_cat, codes = self._categorical()
        for role in ("future", "historical"):
            names = tuple(name for name in getattr(schema, role) if name not in schema.categorical)
            if names:
                blocks.arrays[role], blocks.arrays[f"{role}_fills"] = self._block(names)
                blocks.arrays[f"{role}_names"] = names
        numeric = tuple(name for name in self._static_names() if name not in schema.categorical)
        if numeric:
            blocks.arrays["static"] = np.stack([self._static_number(name) for name in numeric], axis=1)
            blocks.arrays["static_names"] = numeric
        varying = future_cat + past_cat
        if varying:
            blocks.arrays["categorical"] = np.stack([self._placed_codes(codes[name]) for name in varying], axis=1)
        if static_cat:
            blocks.arrays["static_categorical"] = np.stack([codes[name] for name in static_cat], axis=1)
        blocks.arrays["categories"] = {name: self.vocabularies[name] for name in varying + static_cat}
        blocks.roles = {
            "static": tuple(self._static_names()),
            "static_table": () if self.statics is None else tuple(self.statics.columns),
            "future_categorical": future_cat,
            "historical_categorical": past_cat,
            "static_categorical": static_cat,
            "categories": blocks.arrays["categories"],
        }
        return blocks

    def _static_names(self) -> list[str]:
        own = [] if self.statics is None else self.statics.columns
        return list(dict.fromkeys([*self.schema.static, *own]))

    def _aligned(self, static: pl.DataFrame) -> pl.DataFrame:
        """The rows of the static table in the order of the series."""
        name = self.schema.id_col
        if name not in static.columns:
            raise DataError(
                f"the static table must have the column {name!r}, but got {listing(static.columns)}. "
                "It must name the series like the main table."
            )
        ids = self.layout.ids
        keys = static[name]
        both_text = is_text(keys) and ids.dtype == pl.String
        if not (both_text or (keys.dtype.is_integer() and ids.dtype.is_integer())):
            raise DataError(
                f"column {name!r} of the static table must have the type of the main table ({ids.dtype}), "
                f"but got {keys.dtype}. Cast one of them."
            )
        keys = keys.cast(ids.dtype)
        twice = keys.filter(keys.is_duplicated())
        if len(twice):
            raise DataError(
                f"the static table has one row per series, but got several for {listing(twice.unique().sort())}."
            )
        absent = ids.filter(~ids.is_in(keys.implode()))
        if len(absent):
            raise DataError(
                f"the static table must have a row for every series, but got none for {listing(absent)}. Add them."
            )
        spare = len(keys) - len(ids)
        if spare:
            self.report.notes.append(f"{spare:,} rows of the static table match no series and were left out")
        order = pl.DataFrame({"key": ids}).join(
            pl.DataFrame({"key": keys, "row": pl.int_range(len(keys), eager=True)}),
            on="key",
            how="left",
            maintain_order="left",
        )
        return static.drop(name)[order["row"].to_list()]

    def _first_rows(self) -> npt.NDArray[np.int64]:
        return self.layout.kept_offsets[:-1]

    def _constant(self, values: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
        """[S] whether merged values never change within each series."""
        first = self._first_rows()
        return np.asarray(np.minimum.reduceat(values, first) == np.maximum.reduceat(values, first))

    def _changing(self, name: str, merged: npt.NDArray[Any], constant: npt.NDArray[np.bool_]) -> DataError:
        series = int(np.argmin(constant))
        first, last = self.layout.kept_offsets[series], self.layout.kept_offsets[series + 1]
        row = int(first + np.argmax(merged[first:last] != merged[first]))
        place = self.runs.where(self.layout.input_row(row))
        return DataError(
            f"column {name!r} (static) must have one value per series, but it changes at {place}. "
            "Correct the row, or make it future=... or historical=...",
            advice=[Advice("data.future"), Advice("data.historical")],
        )

    def _static_row(self, row: int) -> str:
        return f"series {self.layout.ids[row]!r} of the static table"

    def _static_number(self, name: str) -> npt.NDArray[Any]:
        if self.statics is not None and name in self.statics.columns:
            series, where = self.statics[name], self._static_row
        else:
            series, where = self.table[name], self.runs.where
        if is_text(series):
            self._refuse_names(series)
        numbers = read_numbers(series, where, self.report, dtype=self.schema.dtype)
        if numbers.observed is not None:
            raise DataError(
                f"column {name!r} (static) must have a value for every series, but got an empty cell at "
                f"{where(int(np.argmin(numbers.observed)))}. Fill it in."
            )
        if self.statics is not None and name in self.statics.columns:
            return numbers.values
        merged = self.layout.merged(numbers.values)
        constant = self._constant(merged)
        if not constant.all():
            raise self._changing(name, merged, constant)
        return np.asarray(merged[self._first_rows()])

    def _refuse_names(self, series: pl.Series) -> None:
        """Refuse text that is not a number, with a hint at `categorical`."""
        text = series.cast(pl.String).drop_nulls()
        if len(text) and text.cast(pl.Float64, strict=False).null_count() == len(text):
            raise DataError(
                f"column {series.name!r} must hold numbers, but got text such as {text[0][:60]!r}. "
                f"Say categorical={series.name!r} as well.",
                advice=[Advice("data.categorical", series.name)],
            )

    def _block(self, names: tuple[str, ...]) -> tuple[npt.NDArray[Any], Codes | None]:
        """The columns as one block, and the fill codes of their cells if filling may have used later values."""
        block = np.empty((self.layout.rows, len(names)), dtype=self.schema.dtype)
        ahead = CODES.get(self.schema.missing_exogenous, 0) >= LOOKS_AHEAD
        fills = np.zeros(block.shape, dtype=np.int8) if ahead else None
        for position, name in enumerate(names):
            block[:, position], codes = self._varying(name)
            if fills is not None and codes is not None:
                fills[:, position] = codes
        return block, fills if fills is not None and fills.any() else None

    def _varying(self, name: str) -> tuple[npt.NDArray[Any], Codes | None]:
        layout, schema = self.layout, self.schema
        series = self.table.drop_in_place(name)
        if is_text(series):
            self._refuse_names(series)
        numbers = read_numbers(series, self.runs.where, self.report, dtype=schema.dtype)
        values, seen = layout.merged_numbers(numbers.values, numbers.observed)
        if seen is not None and schema.missing_exogenous == "error":
            raise DataError(
                f"column {name!r} must have a value in every row, but got {int((~seen).sum()):,} empty ones, "
                f"the first at {self.runs.where(layout.input_row(int(np.argmin(seen))))}. "
                'Fill them in, or say missing_exogenous="forward" (or "linear", "mean", "zero").',
                advice=[Advice("data.missing_exogenous", "forward")],
            )
        if seen is None and layout.slot is None:
            return values, None
        if seen is None:
            seen = np.ones(len(values), dtype=bool)
        return self._filled(name, layout.place(values), layout.place(seen, False))

    def _filled(
        self, name: str, values: npt.NDArray[Any], seen: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[Any], Codes]:
        method = self.schema.missing_exogenous
        values = values if values.flags.writeable else values.copy()
        codes = np.where(seen, 0, CODES["forward" if method == "error" else method]).astype(np.int8)
        fill(values, seen, codes, self.layout.offsets)
        left = codes < 0
        if left.any():
            series = int(np.searchsorted(self.layout.offsets, int(np.argmax(left)), side="right")) - 1
            raise DataError(
                f"column {name!r} must have a value in every row, but series {self.layout.ids[series]!r} has nothing "
                f'to fill its empty cells with by missing_exogenous="{method}". Fill them in, or say "zero".',
                advice=[Advice("data.missing_exogenous", "zero")],
            )
        if codes.any():
            self.report.exogenous_filled[name] = int(np.count_nonzero(codes))
        return values, codes

    def _codes(self, series: pl.Series, where: Where) -> npt.NDArray[np.int32]:
        known = self.schema.categories.get(series.name) if self.schema.resolved else None
        policy = self.schema.unknown_categories
        codes, self.vocabularies[series.name] = encode(series, where, self.report, policy, known)
        if known is not None:
            warn_unknown(series, codes, where, empty=False)  # empty ones were also in the training table
        return codes

    def _categorical(self) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], dict[str, Any]]:
        schema = self.schema
        roles: dict[str, list[str]] = {"future": [], "historical": [], "static": []}
        codes: dict[str, Any] = {}
        for name in schema.categorical:
            if self.statics is not None and name in self.statics.columns:
                roles["static"].append(name)
                codes[name] = self._codes(self.statics[name], self._static_row)
                continue
            merged = self.layout.merged(self._codes(self.table[name], self.runs.where))
            role = self._role(name, merged)
            roles[role].append(name)
            codes[name] = merged[self._first_rows()] if role == "static" else merged
        return tuple(roles["future"]), tuple(roles["historical"]), tuple(roles["static"]), codes

    def _role(self, name: str, merged: npt.NDArray[np.int32]) -> str:
        schema = self.schema
        constant = self._constant(merged)
        if name in schema.static or name in schema.static_categorical:
            if not constant.all():
                raise self._changing(name, merged, constant)
            return "static"
        for role in ("future", "historical"):
            if name in getattr(schema, role) or name in getattr(schema, f"{role}_categorical"):
                return role
        role = "static" if constant.all() else "future"
        why = "constant within each series" if role == "static" else "changes within a series"
        taken = f"categorical column {name!r} {why}: taken as {'static' if role == 'static' else 'known ahead'}"
        if role == "static":
            self.report.notes.append(taken)
        else:
            self.report.assumptions.append(Assumption(taken, Advice("data.historical", name)))
        return role

    def _placed_codes(self, merged: npt.NDArray[np.int32]) -> npt.NDArray[np.int32]:
        """Codes for the rows of the store; a row that was added for a gap repeats the code of the row before."""
        layout = self.layout
        placed = layout.place(merged)
        if layout.slot is not None:
            seen = layout.place(np.ones(len(merged), dtype=bool), False)
            fill(placed, seen, np.where(seen, 0, CODES["forward"]).astype(np.int8), layout.offsets)
        return placed
