"""Runs a search: checks it, plans it, runs its trials, and scores the winner."""

from __future__ import annotations

import logging
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from neuro_divergent.core.config import Description, reference
from neuro_divergent.core.extras import require
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.fit import check_arguments
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.search.claims import Claims
from neuro_divergent.search.engine.loop import Engine
from neuro_divergent.search.plan import (
    Plan,
    check_resume,
    document_of,
    make_plan,
    read_document,
    refuse_other_study,
    write_plan,
)
from neuro_divergent.search.result import SearchResult, score_winner
from neuro_divergent.search.scoring import refuse_without_quantiles
from neuro_divergent.search.settings import Search
from neuro_divergent.search.space.apply import parent_object
from neuro_divergent.search.space.fields import canonical
from neuro_divergent.search.storage import database_errors, quiet

log = logging.getLogger(__name__)

MANY_TRAININGS = 1000
"""More trainings than this are announced as a warning, so that they are seen."""


def run_search(search: Search, data: Any, resume: str | None, columns: Mapping[str, Any]) -> SearchResult:
    """Run a search, or go on with it, and return its result."""
    require("optuna", extra="search", purpose="A search")
    check_arguments(columns, Search)
    table = TimeSeriesDataFrame.from_frame(data, **columns)
    search, model = _completed(search)
    plan, nested = make_plan(search, model, table)
    _announce(search, plan)
    temporary = search.directory is None
    directory = (
        Path(tempfile.mkdtemp(prefix="neuro-divergent-search-")) if search.directory is None else search.directory
    )
    try:
        with database_errors():
            _run_in(directory, search, plan, table, resume)
            result = SearchResult.load(directory, storage=search.storage, using=_callables(search))
            if nested is not None and result.has_best:
                score_winner(result, table, nested)
    except BaseException:
        if temporary:
            shutil.rmtree(directory, ignore_errors=True)
        raise
    if temporary:
        weakref.finalize(result, shutil.rmtree, directory, ignore_errors=True)
    return result


def _run_in(directory: Path, search: Search, plan: Plan, table: TimeSeriesDataFrame, resume: str | None) -> None:
    """Run the trials of a search in the directory of its study."""
    document = document_of(search, plan, table)
    with Claims(directory).asking():  # two searches that begin at once do not overwrite each other's plan
        check_resume(resume, directory)
        kept = read_document(directory)
        if kept is not None:
            refuse_other_study(kept, document, directory)
        else:
            write_plan(directory, document, plan, table)
    with quiet():
        engine = Engine(search, plan, directory)
        try:
            engine.run()
        finally:
            engine.close()


def _callables(value: Any) -> dict[str, Callable[..., Any]]:
    """The user's callables in a description, by the reference that stands for them in a file."""
    if isinstance(value, Description):
        value = [getattr(value, name) for name in type(value).model_fields]
    if isinstance(value, Mapping):
        value = list(value.values())
    if isinstance(value, list | tuple):
        return {name: one for item in value for name, one in _callables(item).items()}
    return {reference(value): value} if callable(value) else {}


def _completed(search: Search) -> tuple[Search, Model]:
    """The search with its space, checked, and a model that shows the horizon."""
    if search.space is None:
        assert search.model is not None
        search = search.replace(space=search.model.search_space(search.config))
    space = search.space
    assert space is not None
    space.check(search.model, search.config)
    model = search.model or space.apply(next(space.grid(1, most=None)), None, search.config)[0]
    if not any(canonical(name) in ("model", "loss") for name in space.dimensions):
        refuse_without_quantiles((search.metric, *search.directions), parent_object(model, search.config, "loss"))
    return search, model


def _announce(search: Search, plan: Plan) -> None:
    """Say how many trainings are coming, before they start."""
    count = search.budget * len(plan.parts)
    level = logging.WARNING if count > MANY_TRAININGS else logging.INFO
    more = f": {search.budget:,} trials × {len(plan.parts)} folds and seeds" if len(plan.parts) > 1 else ""
    log.log(
        level, "%s trainings are coming%s; the study may use %.1f GB of disk", f"{count:,}", more, search.max_disk / 1e9
    )
