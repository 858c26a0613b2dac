"""Runs an AutoForecaster: plans it, trains the portfolio, searches, chooses, and trains the chosen on all rows."""

from __future__ import annotations

import hashlib
import json
import logging
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from neuro_divergent.core import files
from neuro_divergent.core.errors import DataError, StorageError
from neuro_divergent.core.json import MAX_JSON_BYTES, parse_json
from neuro_divergent.core.plain_files import plain_bytes
from neuro_divergent.core.runs.names import AUTO, AUTO_TABLE
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.fit import check_arguments
from neuro_divergent.forecasting.fit.job import write_table
from neuro_divergent.search.auto.auto_forecaster import AutoForecaster
from neuro_divergent.search.auto.engine import Engine
from neuro_divergent.search.auto.finish import finished
from neuro_divergent.search.auto.held_out import HeldOut, window_counts
from neuro_divergent.search.auto.member import forget
from neuro_divergent.search.auto.portfolio import asked_levels, portfolio
from neuro_divergent.search.auto.profile import profile_of, with_calendar
from neuro_divergent.search.auto.result import AutoResult
from neuro_divergent.search.plan import check_resume

log = logging.getLogger(__name__)

FORMAT = 1
FREE = frozenset(("time_limit", "n_jobs", "callbacks", "progress", "directory", "search"))
"""Fields that may differ when the work is resumed. The others change what is trained or how it is scored."""


def run_auto(
    settings: AutoForecaster, data: Any, resume: str | None, columns: Mapping[str, Any], begun: float
) -> AutoResult:
    """Fit an AutoForecaster whose time began at a moment of `time.perf_counter`; see `AutoForecaster.fit`."""
    check_arguments(columns, AutoForecaster)
    table = TimeSeriesDataFrame.from_frame(data, **columns)
    table.check_range()
    whole = with_calendar(table) if settings.calendar else table
    held = held_out(settings, whole)
    profile = profile_of(whole, settings.h, held.train)
    wanted, left_out = portfolio(
        profile, settings.preset, settings.metric_name, settings.level, settings.seed, settings.include,
        settings.exclude,
    )  # fmt: skip
    temporary = settings.directory is None
    prefix = "neuro-divergent-auto-"
    directory = Path(tempfile.mkdtemp(prefix=prefix)) if settings.directory is None else settings.directory
    try:
        spent = _opened(settings, held, directory, resume)
        engine = Engine(settings, held, profile, wanted, left_out, directory, begun - spent)
        try:
            engine.run()
            return finished(engine)
        finally:
            engine.close()
    finally:
        forget(directory)
        if temporary:
            shutil.rmtree(directory, ignore_errors=True)


def held_out(settings: AutoForecaster, table: TimeSeriesDataFrame) -> HeldOut:
    """The held-out rows of a table for an AutoForecaster."""
    lengths = table.store.lengths
    if not len(table) or int(lengths.max()) < 2:
        raise DataError(f"an AutoForecaster needs series of at least 2 rows, but the longest has {int(max(lengths))}")
    wanted = None if settings.n_windows == "auto" else settings.n_windows
    select, judge = window_counts(lengths, settings.h, wanted)
    if wanted is not None and select + judge < wanted:
        log.warning("n_windows=%d asked for, but the series have rows for %d held-out windows", wanted, select + judge)
    return HeldOut.of(table, settings.h, select, judge)


def _opened(settings: AutoForecaster, held: HeldOut, directory: Path, resume: str | None) -> float:
    """Write the plan to the directory, or compare it with the one that is there. Returns the seconds used before."""
    if resume not in (None, "auto"):
        check_resume(resume, directory)
    table, identity = held.table, _identity(settings, held)
    if (directory / AUTO).exists():
        known = parse_json(plain_bytes(directory / AUTO, MAX_JSON_BYTES), AUTO)
        if resume is None:
            raise StorageError(
                f"{directory} has the work of an AutoForecaster already. Go on with it by resume='auto', or choose "
                "another directory"
            )
        odd = sorted(name for name, value in identity.items() if known.get("identity", {}).get(name) != value)
        if odd:
            raise StorageError(
                f"a resumed AutoForecaster must have the same data and settings, but these differ: {', '.join(odd)}. "
                f"Restore them, or choose another directory than {directory}",
                rule="same run",
                got=", ".join(odd),
            )
        return float(known["spent"])
    facts = write_table(table, directory / AUTO_TABLE)
    document = {"format": FORMAT, "identity": identity, "held_out": held.facts(), "table": facts, "spent": 0.0}
    document["level"] = list(asked_levels(settings))
    files.write_json(directory / AUTO, document)
    return 0.0


def _identity(settings: AutoForecaster, held: HeldOut) -> dict[str, Any]:
    """What must be the same to resume."""
    own = {name: value for name, value in settings.to_dict().items() if name not in FREE}
    rows = hashlib.sha256(np.concatenate([held.train, held.judge]).tobytes()).hexdigest()
    return json.loads(json.dumps(own | {"data": held.table.store.fingerprint(), "rows": rows}))  # type: ignore[no-any-return]
