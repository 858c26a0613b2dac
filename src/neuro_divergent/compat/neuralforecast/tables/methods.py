"""The tables of a NeuralForecast: taken, checked and counted on their way in, and given back as they came."""

from __future__ import annotations

import warnings
from dataclasses import asdict
from typing import Any

import polars as pl

from neuro_divergent.compat.neuralforecast.adapter import PeerModel
from neuro_divergent.compat.neuralforecast.attributes import FittedAttributes
from neuro_divergent.compat.neuralforecast.members import Member, with_names
from neuro_divergent.compat.neuralforecast.tables.checks import (
    check_categories,
    check_future,
    check_values,
    needed_future,
)
from neuro_divergent.compat.neuralforecast.tables.clock import NUMBER, Clock
from neuro_divergent.compat.neuralforecast.tables.frames import (
    MASK,
    WEIGHT,
    Columns,
    Source,
    Types,
    plain_frame,
    require_columns,
    static_part,
)
from neuro_divergent.core.errors import DataError, NotFittedError
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.network.column_names import check_column_names
from neuro_divergent.forecasting.predict.forecaster import Forecaster


class TableMethods(FittedAttributes):
    """What the methods of a NeuralForecast share: reading tables and giving frames back."""

    members: list[Member]
    freq: str | int
    models: list[Any]
    categorical_vocab_: dict[str, dict[Any, int]]
    _types: Types

    def _take(self, df: Any, static_df: Any, columns: Columns) -> Source:
        if df is None:
            if self._source is None:
                raise NotFittedError("there is no table yet. Give one: fit(df=...)")
            return self._source
        check_column_names([member.name for member in self.members], DataSchema(**asdict(columns)))
        source = Source.of(df, static_df, columns, self.freq)
        check_values(source)
        check_categories(self.members, source)
        self._source, self._columns, self._types = source, columns, source.types
        if source.types.categories is not None:  # the rows of an S without names have the order of the series
            self.members = [with_names(member, source.types.categories) for member in self.members]
        return source

    def _take_back(self, source: Source | None) -> None:
        """Go on with the training table of a file, of which the models have only the last rows."""
        if source is None:
            return
        self._source = source
        for member in self.members:
            forecaster = self.forecasters[member.name]
            library = forecaster.data.library
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the table was warned of when it was given
                forecaster.data = forecaster.in_own_codes(source.table(member))
            source.library = forecaster.data.library = library
        if self._clock is not None and source.clock is not None:
            self._clock = source.clock

    def _later(self, frame: pl.DataFrame, source: Source) -> pl.DataFrame:
        """Validation rows with the stamps after those of the table: as in neuralforecast, only their order matters."""
        table, columns = source.table(self.members[0]), source.columns
        ordered = frame.sort(columns.id_col, columns.time_col, maintain_order=True)
        most = max(ordered.group_by(columns.id_col).len()["len"].to_list(), default=0)
        ahead = self._ahead(table, max(1, most)).with_columns(
            pl.int_range(pl.len()).over(columns.id_col).alias(NUMBER),
            pl.col(columns.id_col).cast(frame.schema[columns.id_col]),
        )
        numbered = ordered.with_columns(pl.int_range(pl.len()).over(columns.id_col).alias(NUMBER)).drop(
            columns.time_col
        )
        return numbered.join(ahead, on=[columns.id_col, NUMBER], how="inner", maintain_order="left").drop(NUMBER)

    def _note(self, source: Source, tested: int = 0) -> None:
        """Give the models their fitted state, and number the values of the categorical columns."""
        self._clock = source.clock
        for model, member in zip(self.models, self.members, strict=True):
            if isinstance(model, PeerModel):
                model.fitted, model.test_size = self.forecasters[member.name], tested
        names = sorted({name for member in self.members for name in member.facts.categorical})
        self.categorical_vocab_ = {name: source.values_of(name) for name in names}

    def _future(self, futr_df: Any, df: Any, steps: int) -> pl.DataFrame | None:
        """The future columns of the models at the steps to forecast."""
        frame, wanted = needed_future(self.members, futr_df, self._columns.id_col)
        if frame is None:
            return None
        require_columns(frame.columns, (self._columns.id_col, self._columns.time_col), "futr_df")
        table, clock = self._first(df)
        numbers = self._ahead(table, steps)
        expected = self._give_stamps(numbers, clock)
        kept = check_future(frame, expected, wanted)
        if clock is None:
            return kept
        both = numbers.rename({self._columns.time_col: NUMBER}).hstack([expected[self._columns.time_col]])
        joined = kept.join(both, on=[self._columns.id_col, self._columns.time_col], how="inner")
        return joined.with_columns(pl.col(NUMBER).alias(self._columns.time_col)).drop(NUMBER)

    def _table(
        self, forecaster: Forecaster, member: Member, df: Any, static_df: Any = None
    ) -> tuple[TimeSeriesDataFrame, Clock | None]:
        if df is None:
            return forecaster.table(None), self._clock
        frame, library = plain_frame(df, self._columns.id_col)
        frame, clock = self._counted(frame)
        names = member.facts.static
        options: dict[str, Any] = {}
        if names:
            known = None if self._source is None else self._source.static
            static = known if static_df is None else plain_frame(static_df, self._columns.id_col)[0]
            part = static_part(static, names, self._columns.id_col, member.name)
            if set(names) <= set(forecaster.data.schema.static_table):
                options["static"] = part
            else:  # a table that was joined with its validation rows has the statics in its own columns
                frame = frame.drop(names, strict=False).join(part, on=self._columns.id_col, how="left")
        schema = forecaster.data.schema
        for name, used in ((WEIGHT, schema.weight), (MASK, schema.available_mask)):
            if used == name and name not in frame.columns:
                frame = frame.with_columns(pl.lit(1.0).alias(name))
        table = TimeSeriesDataFrame.from_frame(frame, schema=schema, **options)
        table.library = library
        return table, clock

    def _counted(self, frame: pl.DataFrame) -> tuple[pl.DataFrame, Clock | None]:
        """A table to forecast after, with counted rows if those of the training table were counted."""
        require_columns(frame.columns, asdict(self._columns).values(), "df")
        if self._clock is None:
            return frame, None
        clock = Clock.of(frame, self._columns.id_col, self._columns.time_col, self.freq)
        if clock is None:
            raise DataError(
                "every row must have a time stamp of its own in its series, but some have none or share one"
            )
        return clock.counted(frame), clock

    def _ahead(self, table: TimeSeriesDataFrame, steps: int) -> pl.DataFrame:
        """The id and time of every step to forecast."""
        return pl.DataFrame(
            [
                table.id_column(steps).alias(self._columns.id_col),
                table.future_times(steps).alias(self._columns.time_col),
            ]
        )

    def _first(self, df: Any) -> tuple[TimeSeriesDataFrame, Clock | None]:
        """The ids, times and targets of the table to forecast after."""
        forecaster = self._fitted()[self.members[0].name]
        if df is None:
            return forecaster.table(None), self._clock
        frame, library = plain_frame(df, self._columns.id_col)
        frame, clock = self._counted(frame)
        schema = forecaster.data.schema
        plain = {"id_col": schema.id_col, "time_col": schema.time_col, "target_col": schema.target_col}
        table = TimeSeriesDataFrame.from_frame(frame, freq=forecaster.data.freq, **plain)  # type: ignore[arg-type]
        table.library = library
        return table, clock

    def _fitted(self) -> dict[str, Forecaster]:
        if not self.forecasters:
            raise NotFittedError("the models are not trained yet. Call fit(df) first")
        return self.forecasters

    def _sorted(self, frame: pl.DataFrame | None) -> pl.DataFrame:
        assert frame is not None
        names = self._columns
        frame = frame.sort(names.id_col, "cutoff", names.time_col, maintain_order=True)
        return frame.select(pl.exclude(names.target_col), names.target_col)

    def _give_stamps(self, frame: pl.DataFrame, clock: Clock | None) -> pl.DataFrame:
        return frame if clock is None else clock.told(frame)

    def _give(self, frame: pl.DataFrame | None, table: TimeSeriesDataFrame, clock: Clock | None = None) -> Any:
        assert frame is not None
        found = table.as_input_library(self._types.give_back(self._give_stamps(frame, clock), self._columns))
        if self._types.categories is not None and table.library == "pandas":
            found[self._columns.id_col] = self._types.as_category(found[self._columns.id_col])
        return found
