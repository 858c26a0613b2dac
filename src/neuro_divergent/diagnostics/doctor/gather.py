"""Gathers the evidence of a diagnosis from a fitted model, a run directory or a history."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from neuro_divergent.core.errors import ConfigError, NeuroDivergentError
from neuro_divergent.core.runs.record import RunRecord
from neuro_divergent.data.read.series_checks import cut_rows
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.diagnostics.doctor import training_facts
from neuro_divergent.diagnostics.doctor.evidence import Evidence, TableFacts
from neuro_divergent.diagnostics.doctor.forecast_facts import forecast_facts
from neuro_divergent.diagnostics.doctor.network_facts import network_facts
from neuro_divergent.diagnostics.doctor.table_facts import OVERFLOWS, table_facts
from neuro_divergent.forecasting.evaluate.held_out import HeldOut
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.fit.training_rows import note_held_out, selection_rows
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.predict.validated import held_out_event
from neuro_divergent.forecasting.storage.save_load import load
from neuro_divergent.optim import Optimizer
from neuro_divergent.training.state.history import History

NEEDS_PROBES = "other learning rates and batch sizes: they need short trainings of copies. Set probes=True"
OWN_OPTIMIZER = "other learning rates and batch sizes: they need one optimizer of neuro_divergent"
NEEDS_TABLE = "table, network and forecasts: they need the training table. Give data=..."


def from_history(history: History) -> Evidence:
    """What a history alone says."""
    return Evidence(training=training_facts.of_history(history), missing=(NEEDS_TABLE,))


def from_forecaster(
    fitted: Forecaster, data: Any = None, *, probes: bool = True, held: HeldOut | None = None
) -> Evidence:
    """What a fitted model and its training table say; `held` are its forecasts of the held-out rows, if known."""
    evidence = Evidence(
        config=fitted.config.to_dict(), model=fitted.model.to_dict(), training=training_facts.of_history(fitted.history)
    )
    table, evidence = _table(evidence, fitted.data if data is None else data, fitted)
    if table is None:
        return evidence
    event = held_out_event(fitted.history)
    if data is None and event is not None and int(table.store.lengths.max()) <= max(event["rows"]):
        return replace(evidence, missing=(NEEDS_TABLE,))  # a loaded model keeps only its last rows
    try:
        run = _prepared(fitted, table)
    except NeuroDivergentError as error:
        return replace(evidence, missing=(f"table, network and forecasts: {error}",))
    windows = len(run.training.state.source.windows)  # type: ignore[attr-defined]  # a source of windows
    sizes = {"lookback": fitted.model.input_size, "h": fitted.model.h, "windows": windows}
    evidence = replace(evidence, table=table_facts(table.store, selection_rows(fitted, table), **sizes))
    return _with_forecasts(_with_network(evidence, fitted, run, probes=probes), fitted, table, held)


def _with_network(evidence: Evidence, fitted: Forecaster, run: Run, *, probes: bool) -> Evidence:
    optimizer = run.training.state.config.optimizer
    base = optimizer.learning_rate if isinstance(optimizer, Optimizer) else None
    factor = (evidence.rate or 1.0) / base if base else 1.0
    if not probes or base is None:
        evidence = replace(evidence, missing=(*evidence.missing, NEEDS_PROBES if base else OWN_OPTIMIZER))
    try:
        return replace(evidence, network=network_facts(run, fitted.module, factor, probes=probes and base is not None))
    except NeuroDivergentError as error:
        return replace(evidence, missing=(*evidence.missing, f"network: {error}"))


def _with_forecasts(
    evidence: Evidence, fitted: Forecaster, table: TimeSeriesDataFrame, held: HeldOut | None
) -> Evidence:
    try:
        found = forecast_facts(fitted, table, held)
    except NeuroDivergentError as error:
        return replace(evidence, missing=(*evidence.missing, f"forecasts: {error}"))
    if found is None:
        return replace(evidence, missing=(*evidence.missing, "forecasts: no rows were held out"))
    return replace(evidence, forecasts=found)


def from_run(record: RunRecord, data: Any = None, *, probes: bool = True) -> Evidence:
    """What a run directory says; with its table, what the model in it says, too."""
    plain = Evidence(config=record.config or {}, training=training_facts.of_run(record), missing=(NEEDS_TABLE,))
    if data is None:
        return plain
    saved = record.models[-1] if record.models else record.newest
    if saved is None:
        _, plain = _table(replace(plain, missing=("network and forecasts: the run has no model",)), data, None)
        return plain
    fitted = load(saved.path)
    if not isinstance(fitted, Forecaster):
        raise ConfigError(f"one model is diagnosed at a time, but {saved.path} has several. Give the path of one")
    table, evidence = _table(plain, data, fitted)
    if table is None:
        return evidence
    if saved.kind == "checkpoint":  # written before the end of a run, which records the held-out rows
        fitted.history = noted(fitted.history, _prepared(fitted, table))
    evidence = from_forecaster(fitted, table, probes=probes)
    # The log of a run goes on after the last checkpoint; a saved model has its own history.
    return replace(evidence, training=plain.training) if record.what == "run" else evidence


def _prepared(fitted: Forecaster, table: TimeSeriesDataFrame) -> Run:
    """The training of a model, prepared again. Its module has the initial weights."""
    config = fitted.config.unsaved().replace(callbacks=(), progress=False, compile=False)
    later = None
    held = held_out_event(fitted.history)
    if held is not None and held["how"] == "given":
        table, later = _divided(table, selection_rows(fitted, table))
    job = Job(fitted.model, table, config, later, scaling=fitted.local, may_refit=False)
    return prepare(job)


def noted(history: History, run: Run) -> History:
    """A copy of a history with the record of the held-out rows that a finished run has."""
    copy = replace(history, epochs=[*history.epochs], events=[*history.events])
    if run.held_out_rows is not None:
        note_held_out(copy, run.held_out_rows, "series" if run.job.validation is None else "given")
    return copy


def _divided(table: TimeSeriesDataFrame, rows: Any) -> tuple[TimeSeriesDataFrame, TimeSeriesDataFrame]:
    """The first rows[s] rows of each series, and the rows after them."""
    store = table.store
    first, numbers = store.offsets[:-1], range(table.n_series)
    parts = ((first, first + rows), (first + rows, store.offsets[1:]))
    one, other = (
        TimeSeriesDataFrame(cut_rows(store, list(numbers), begin, end), table.schema, table.report())  # type: ignore[arg-type]
        for begin, end in parts
    )
    return one, other


def _table(evidence: Evidence, data: Any, fitted: Forecaster | None) -> tuple[TimeSeriesDataFrame | None, Evidence]:
    """The table, and the evidence with what keeps it from being read."""
    if isinstance(data, TimeSeriesDataFrame):
        return data, evidence
    bad = _bad_numbers(data)
    try:
        if fitted is None:
            return TimeSeriesDataFrame.from_frame(data), evidence
        return TimeSeriesDataFrame.from_frame(data, schema=fitted.data.schema), evidence
    except NeuroDivergentError as error:
        facts = TableFacts(bad_columns=bad) if bad else None
        return None, replace(evidence, table=facts, missing=(f"table, network and forecasts: {error}",))


def _bad_numbers(data: Any) -> dict[str, int]:
    """Infinite and very large numbers in the columns of a plain frame. NaN is a missing value."""
    frame = (
        data if isinstance(data, pl.DataFrame) else pl.from_dataframe(data) if hasattr(data, "__dataframe__") else None
    )
    if frame is None:
        return {}
    numeric = [name for name, kind in frame.schema.items() if kind.is_float()]
    counts = {name: int((frame[name].drop_nans().drop_nulls().abs() >= OVERFLOWS).sum()) for name in numeric}
    return {name: count for name, count in counts.items() if count}
