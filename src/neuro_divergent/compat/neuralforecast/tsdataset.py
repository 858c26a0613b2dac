"""Datasets in memory, for scripts that train a model on one without a NeuralForecast."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import torch

from neuro_divergent.compat.neuralforecast.fitting import train
from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.compat.neuralforecast.outputs import forecast_columns
from neuro_divergent.compat.neuralforecast.tables.folds import historical_frame, origins
from neuro_divergent.compat.neuralforecast.tables.frames import MASK, Columns, Source, plain_frame, require_columns
from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.core.extras import require
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.predict.forecaster import Forecaster

Array = Any


class TimeSeriesDataset(torch.utils.data.Dataset[dict[str, Any]]):
    """Concatenated series: rows `indptr[i]` to `indptr[i + 1]` of `temporal` are those of series i.

    Args:
        temporal: [rows, columns] values.
        temporal_cols: the columns' names.
        indptr: where each series begins, and the number of rows.
        y_idx: which column is the target.
        static: [series, columns] values that do not change.
        static_cols: their names.
    """

    def __init__(
        self,
        temporal: Any,
        temporal_cols: Any,
        indptr: Any,
        y_idx: int = 0,
        static: Any = None,
        static_cols: Any = None,
    ) -> None:
        self.temporal = torch.tensor(np.asarray(temporal), dtype=torch.float32)
        self.temporal_cols, self.indptr, self.y_idx = temporal_cols, np.asarray(indptr), y_idx
        self.static = None if static is None else torch.tensor(np.asarray(static), dtype=torch.float32)
        self.static_cols = static_cols
        self.n_groups = len(self.indptr) - 1
        sizes = np.diff(self.indptr)
        self.max_size, self.min_size = int(sizes.max()), int(sizes.min())

    @staticmethod
    def from_df(
        df: Any, static_df: Any = None, id_col: str = "unique_id", time_col: str = "ds", target_col: str = "y"
    ) -> tuple[TimeSeriesDataset, Any, Any, Any]:
        """The dataset of a table, the ids, the last time of each series, and the time of every row."""
        frame, library = plain_frame(df, id_col)
        require_columns(frame.columns, (id_col, time_col, target_col), "df")
        frame = frame.sort(id_col, time_col, maintain_order=True)
        names = [target_col, *(name for name in frame.columns if name not in (id_col, time_col, target_col))]
        values = frame.select(pl.col(names).cast(pl.Float64)).to_numpy().astype(np.float32)
        if MASK not in names:
            names, values = [*names, MASK], np.hstack([values, np.ones((len(values), 1), np.float32)])
        counts = frame.group_by(id_col, maintain_order=True).agg(pl.len(), pl.col(time_col).last())
        static, static_cols = None, None
        if static_df is not None:
            given = plain_frame(static_df, id_col)[0].sort(id_col)
            static_cols = [name for name in given.columns if name != id_col]
            static = given.select(pl.col(static_cols).cast(pl.Float64)).to_numpy()
        dataset = TimeSeriesDataset(
            values, _index(names), np.append(0, counts["len"].cum_sum().to_numpy()).astype(np.int32),
            static=static, static_cols=None if static_cols is None else _index(static_cols),
        )  # fmt: skip
        ids, last, times = counts[id_col], counts[time_col], frame[time_col].to_numpy()
        if library != "pandas":
            return dataset, ids, last, times
        pd = require("pandas", extra="pandas", purpose="This table")
        return dataset, ids.to_pandas(), pd.Index(last.to_pandas(), name=time_col), times

    def __len__(self) -> int:
        return self.n_groups

    def __repr__(self) -> str:
        return f"TimeSeriesDataset(n_data={len(self.temporal):,}, n_groups={self.n_groups:,})"

    def __getitem__(self, idx: int) -> dict[str, Any]:
        if not isinstance(idx, int):
            raise ConfigError(f"a series must be selected by its number, but got {idx!r}")
        own = self.temporal[self.indptr[idx] : self.indptr[idx + 1]].T
        padded = torch.zeros(len(self.temporal_cols), self.max_size)
        padded[:, self.max_size - own.shape[1] :] = own
        return {
            "temporal": padded, "temporal_cols": self.temporal_cols, "y_idx": self.y_idx,
            "static": None if self.static is None else self.static[idx], "static_cols": self.static_cols,
        }  # fmt: skip

    def align(
        self, df: Any, id_col: str = "unique_id", time_col: str = "ds", target_col: str = "y"
    ) -> TimeSeriesDataset:
        """Another table with the columns of this dataset; missing ones are empty."""
        frame = plain_frame(df, id_col)[0]
        for name in self.temporal_cols:
            if name == MASK or name not in frame.columns:
                frame = frame.with_columns(pl.lit(1.0 if name == MASK else None, dtype=pl.Float64).alias(name))
        kept = frame.select(id_col, time_col, *self.temporal_cols)
        return TimeSeriesDataset.from_df(kept, id_col=id_col, time_col=time_col, target_col=target_col)[0]

    def append(self, futr_dataset: TimeSeriesDataset) -> TimeSeriesDataset:
        """Every series followed by its rows in the other dataset."""
        if self.n_groups != futr_dataset.n_groups:
            raise DataError(
                f"both datasets must have the same series, but got {self.n_groups} and {futr_dataset.n_groups}"
            )
        parts = [part for i in range(self.n_groups) for part in (self._rows(i), futr_dataset._rows(i))]
        return self._with(torch.cat(parts), self.indptr + futr_dataset.indptr)

    @staticmethod
    def update_dataset(
        dataset: TimeSeriesDataset, futr_df: Any, id_col: str = "unique_id", time_col: str = "ds", target_col: str = "y"
    ) -> TimeSeriesDataset:
        """The dataset with later rows."""
        return dataset.append(dataset.align(futr_df, id_col, time_col, target_col))

    @staticmethod
    def trim_dataset(dataset: TimeSeriesDataset, left_trim: int = 0, right_trim: int = 0) -> TimeSeriesDataset:
        """The dataset without the first and the last rows of every series."""
        if dataset.min_size <= left_trim + right_trim:
            raise DataError(
                f"left_trim + right_trim must be less than the shortest series, {dataset.min_size} rows, but got "
                f"{left_trim} + {right_trim}"
            )
        parts = [dataset._rows(i)[left_trim:] for i in range(dataset.n_groups)]
        parts = [part[: len(part) - right_trim] for part in parts]
        return dataset._with(torch.cat(parts), np.append(0, np.cumsum([len(part) for part in parts])))

    def _rows(self, number: int) -> torch.Tensor:
        return self.temporal[self.indptr[number] : self.indptr[number + 1]]

    def _with(self, temporal: torch.Tensor, indptr: Any) -> TimeSeriesDataset:
        starts = np.asarray(indptr, dtype=np.int32)
        return TimeSeriesDataset(temporal, self.temporal_cols, starts, self.y_idx, self.static, self.static_cols)


class TimeSeriesDataModule:
    """Batches of whole series of a dataset, padded at the front to the length of the longest.

    Args:
        dataset: the series.
        batch_size: series per batch of a training.
        valid_batch_size: series per batch of a forecast.
        drop_last: whether a last batch that is not full is left out of a training.
        shuffle_train: whether a training goes through the series in a random order.
        dataloader_kwargs: further arguments of torch's DataLoader.
    """

    def __init__(
        self,
        dataset: TimeSeriesDataset,
        batch_size: int = 32,
        valid_batch_size: int = 1024,
        drop_last: bool = False,
        shuffle_train: bool = True,
        **dataloader_kwargs: Any,
    ) -> None:
        self.dataset, self.batch_size, self.valid_batch_size = dataset, batch_size, valid_batch_size
        self.drop_last, self.shuffle_train, self.dataloader_kwargs = drop_last, shuffle_train, dataloader_kwargs

    def train_dataloader(self) -> Any:
        """Batches for a training."""
        return self._loader(self.batch_size, shuffle=self.shuffle_train, drop_last=self.drop_last)

    def val_dataloader(self) -> Any:
        """All series in order."""
        return self._loader(self.valid_batch_size, shuffle=False, drop_last=False)

    predict_dataloader = val_dataloader

    def _loader(self, size: int, **options: Any) -> Any:
        return torch.utils.data.DataLoader(
            self.dataset, batch_size=size, collate_fn=_together, **options | self.dataloader_kwargs
        )


def _together(items: list[dict[str, Any]]) -> dict[str, Any]:
    """One batch of several series."""
    batch = dict(items[0])
    batch["temporal"] = torch.stack([item["temporal"] for item in items])
    if batch["static"] is not None:
        batch["static"] = torch.stack([item["static"] for item in items])
    return batch


def _index(names: list[str]) -> Any:
    """The names as a pandas index, as scripts expect it; a list if pandas is not installed."""
    try:
        import pandas as pd
    except ImportError:
        return names
    return pd.Index(names)


def table_of(dataset: TimeSeriesDataset, member: Member) -> TimeSeriesDataFrame:
    """The dataset as a table with whole numbers for ids and times."""
    numbers = np.repeat(np.arange(dataset.n_groups), np.diff(dataset.indptr))
    steps = np.arange(len(numbers)) - np.asarray(dataset.indptr)[numbers]
    columns = {"unique_id": numbers, "ds": steps}
    values = {name: dataset.temporal[:, i].numpy() for i, name in enumerate(dataset.temporal_cols)}
    values["y"] = values.pop(dataset.temporal_cols[dataset.y_idx])
    static = None
    if dataset.static is not None:
        known = {name: dataset.static[:, i].numpy() for i, name in enumerate(dataset.static_cols)}
        static = pl.DataFrame({"unique_id": np.arange(dataset.n_groups)} | known)
    return Source.of(pl.DataFrame(columns | values), static, Columns(), 1).table(member)


def fit_on(member: Member, dataset: TimeSeriesDataset, val_size: int, test_size: int) -> Forecaster:
    """A model trained on a dataset without its last rows."""
    seen = TimeSeriesDataset.trim_dataset(dataset, right_trim=test_size) if test_size else dataset
    return train(member, table_of(seen, member), held_out=val_size)


def predict_on(
    forecaster: Forecaster,
    member: Member,
    dataset: TimeSeriesDataset,
    test_size: int,
    step_size: int,
    steps: int | None = None,
) -> Array:
    """[series · windows · h, outputs] float32: forecasts after the dataset, or from every origin in its last rows."""
    table, h = table_of(dataset, member), forecaster.model.h if steps is None else steps
    if h < forecaster.model.h:
        raise ConfigError(f"h must be at least the horizon of the model, {forecaster.model.h}, but got h={h}")
    columns = forecast_columns(forecaster, member.facts, None, None)
    if not test_size:
        if member.facts.future:
            raise DataError(
                "a dataset ends where its columns end, so a model with future columns can only forecast inside it: set "
                f"test_size={h} and append the future rows first"
            )
        values = forecaster.forecast_values(table, columns, h=h)
        return values.reshape(-1, len(columns.names)).astype(np.float32)
    ahead = list(range(test_size, h - 1, -step_size))
    if not ahead:
        raise ConfigError(f"test_size must be 0 or at least h={h}, but got test_size={test_size}")
    frame = historical_frame(forecaster, origins(forecaster, table, ahead, h), columns)
    frame = frame.sort("unique_id", "cutoff", "ds", maintain_order=True)
    return frame.select(columns.names).to_numpy().astype(np.float32)


def decompose_on(forecaster: Forecaster, member: Member, dataset: TimeSeriesDataset) -> Array:
    """[series, parts, h] the parts that a model reports for its forecasts after a dataset."""
    told = dict(forecaster.explain(table_of(dataset, member), method="decomposition").values)
    if {"window_level", "level"} <= told.keys():  # what the scaler removed and where the network starts
        told["level"] = told.pop("window_level") + told["level"]
    return np.stack(list(told.values()), axis=1).astype(np.float32)
