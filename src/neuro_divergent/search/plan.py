"""The plan of a study: which rows its trials see, the folds that score them, and the last rows that no trial sees.

├──────── rows of the trials ────────┤ nested ┤
├── fold 1: train ──┤ test ┤
├──────── fold 2: train ────┤  test  ┤
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, CorruptFileError, StorageError
from neuro_divergent.core.json import MAX_JSON_BYTES, parse_json
from neuro_divergent.core.plain_files import plain_bytes
from neuro_divergent.core.runs.names import STUDY, STUDY_ROWS, STUDY_TABLE
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.fold_job import part_of
from neuro_divergent.forecasting.evaluate.fold_processes import fold_facts, fold_from
from neuro_divergent.forecasting.evaluate.folds import Fold, TimeSeriesSplit, user_folds
from neuro_divergent.forecasting.fit.job import read_table, write_table
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.metrics.base import AnyMetric, Metric
from neuro_divergent.search.scoring import FoldScores
from neuro_divergent.search.settings import Search
from neuro_divergent.search.storage import without_password
from neuro_divergent.training.runs.resume import differences

FORMAT = 1
TESTED = 0.15
"""Share of the rows that the test parts of `cv_folds` have together."""
FREE = frozenset(
    (
        *(
            "n_trials",
            "n_calls",
            "generations",
            "timeout",
            "trial_timeout",
            "n_jobs",
            "callbacks",
            "progress",
            "storage",
        ),
        *("max_disk", "early_stopping", "checkpoint_every", "directory", "sampler", "pruner", "stacked", "seed"),
    )
)
"""Fields of a search that may differ when it is resumed. The others change what a trial is or how it is scored."""

PARTS = {
    "search": {"space", "model", "config"},
    "plan": {"folds", "seeds", "metrics", "level"},
    "table": {"schema", "library"},
    "directions": set[str](),
}
"""The parts of study.json without which it cannot be read, and their fields."""


@dataclass(frozen=True)
class Plan:
    """What every process that trains trials of a study must know."""

    table: TimeSeriesDataFrame
    """The rows that trials may see."""
    folds: tuple[Fold, ...]
    seeds: tuple[int, ...]
    metrics: tuple[AnyMetric, ...]
    level: tuple[float, ...] | None = None

    @cached_property
    def scores(self) -> list[FoldScores]:
        """What scores each fold."""
        return [FoldScores(self.table, fold, self.metrics, self.level) for fold in self.folds]

    @property
    def parts(self) -> list[tuple[int, int]]:
        """(fold, seed) of each training of a trial. The last fold comes last: it has seen the most rows."""
        return [(fold, seed) for fold in range(len(self.folds)) for seed in self.seeds]

    def facts(self) -> dict[str, Any]:
        """The plan as plain data, without the table."""
        return {
            "folds": [fold_facts(fold) for fold in self.folds],
            "seeds": list(self.seeds),
            "metrics": [one.to_dict() if isinstance(one, Metric) else one for one in self.metrics],
            "level": None if self.level is None else list(self.level),
        }

    @classmethod
    def from_facts(
        cls, facts: Mapping[str, Any], table: TimeSeriesDataFrame, *, using: Mapping[str, Any] | None = None
    ) -> Plan:
        """The plan from the result of `facts`; `using` has the callables that it names only by reference."""
        return cls(
            table=table,
            folds=tuple(fold_from(fold) for fold in facts["folds"]),
            seeds=tuple(facts["seeds"]),
            metrics=tuple(
                Metric.from_dict(one, using=using) if isinstance(one, Mapping) else one for one in facts["metrics"]
            ),
            level=None if facts["level"] is None else tuple(facts["level"]),
        )


def make_plan(search: Search, model: Model, table: TimeSeriesDataFrame) -> tuple[Plan, Fold | None]:
    """The plan of a search on a table, and the fold of the last rows, which no trial sees."""
    align: Literal["auto", "date"] = "date" if model.together else "auto"
    nested, seen = None, table
    given = search.splitter
    if search.nested is not False:
        rows = model.h if search.nested is True else search.nested
        kept = {"gap": given.gap, "purge": given.purge} if isinstance(given, TimeSeriesSplit) else {}
        nested = TimeSeriesSplit(n_splits=1, test_size=rows, align=align, **kept).folds(table, model.h)[0]
        seen = part_of(table, *nested.train)
    if given is None:
        given = TimeSeriesSplit(n_splits=search.cv_folds, test_size=TESTED, align=align)
    folds = given.folds(seen, model.h) if isinstance(given, TimeSeriesSplit) else user_folds(given, seen)
    metrics: list[AnyMetric] = [search.scoring, *(name for name in search.directions if _is_metric(name, search))]
    plan = Plan(seen, tuple(folds), search.seed_list, tuple(dict.fromkeys(metrics)), search.level)
    return plan, nested


def _is_metric(name: str, search: Search) -> bool:
    from neuro_divergent.search.searches import COSTS

    return name not in (*COSTS, "accuracy", search.metric)


def document_of(search: Search, plan: Plan, whole: TimeSeriesDataFrame) -> dict[str, Any]:
    """The contents of study.json, without the facts of the table that is written beside it."""
    assert search.space is not None
    return {
        "format": FORMAT,
        "id": uuid4().hex,
        "search": search.to_dict() | {"directory": None, "storage": without_password(search.storage)},
        "metric": search.metric,
        "space": search.space.fingerprint(),
        "data": whole.store.fingerprint(),
        "library": whole.library,
        "directions": search.directions,
        "plan": plan.facts(),
    }


def write_plan(directory: Path, document: Mapping[str, Any], plan: Plan, whole: TimeSeriesDataFrame) -> None:
    """Write the tables, then study.json: a directory with that file has all that its trials need.

    Trials read only their own rows. The whole table is for the winner, which is trained on all rows at the end.
    """
    facts = write_table(plan.table, directory / STUDY_TABLE)
    if whole is not plan.table:
        write_table(whole, directory / STUDY_ROWS)
    files.write_json(directory / STUDY, dict(document) | {"table": facts})


def _has(part: Any, keys: set[str]) -> bool:
    return isinstance(part, dict) and bool(part) and keys <= part.keys()


def read_document(directory: Path) -> dict[str, Any] | None:
    """The contents of study.json; None if there is none."""
    if not (directory / STUDY).exists():
        return None
    found = parse_json(plain_bytes(directory / STUDY, MAX_JSON_BYTES), STUDY)
    if not isinstance(found, dict) or not all(_has(found.get(name), keys) for name, keys in PARTS.items()):
        raise CorruptFileError(f"{directory / STUDY} must describe a study, but does not")
    if found.get("format") != FORMAT:
        got = found.get("format")
        raise StorageError(f"this version reads studies of format {FORMAT}, but {directory} has {got!r}")
    return found


def read_plan(directory: Path) -> Plan:
    """The plan that a study's directory has, for another process."""
    document = read_document(directory)
    if document is None:
        raise StorageError(f"{directory} must be a study, but has no {STUDY}")
    return Plan.from_facts(document["plan"], read_table(directory / STUDY_TABLE, document["table"]))


def read_all_rows(directory: Path, document: Mapping[str, Any]) -> TimeSeriesDataFrame:
    """The table that the search was given."""
    nested = (directory / STUDY_ROWS).exists()
    return read_table(directory / (STUDY_ROWS if nested else STUDY_TABLE), document["table"])


def refuse_other_study(kept: Mapping[str, Any], given: Mapping[str, Any], directory: Path) -> None:
    """Refuse to go on with a study of another space, other data, or another search."""
    found = []
    if kept.get("space") != given["space"]:
        found.append("the space is another one")
    if kept.get("data") != given["data"]:
        found.append("the data are other data")
    old, new = dict(kept["search"]), dict(given["search"])
    names = (old.keys() | new.keys()) - FREE - {"space"}
    found += [line for name in sorted(names) for line in differences(old.get(name), new.get(name), name)]
    if not found and differences(kept["plan"], given["plan"]):
        found.append("the folds differ")
    if found:
        got = "; ".join(found[:4])
        raise StorageError(
            f"a resumed study must have the same space, data and settings, but {got}. Restore them, or choose another "
            f"directory than {directory}",
            rule="same run",
            got=got,
        )


def check_resume(resume: str | None, directory: Path) -> None:
    """Refuse a wrong `resume`, or a directory with a study that was not meant."""
    if resume not in (None, "auto"):
        raise ConfigError(f'resume must be "auto" or None, but got resume={resume!r}')
    if resume is None and (directory / STUDY).exists():
        raise StorageError(
            f"{directory} has a study already. Go on with it by resume='auto', or choose another directory"
        )
