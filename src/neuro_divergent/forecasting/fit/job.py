"""A training as data: the model, the rows, the configuration, and the starting point.

A job can be written to a folder and read in another process: descriptions as JSON, tables as stores, never a pickle.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.core import files
from neuro_divergent.core.json import MAX_JSON_BYTES, parse_json
from neuro_divergent.core.plain_files import plain_bytes
from neuro_divergent.data.scaling.per_series import SeriesScaler
from neuro_divergent.data.schema.load_report import DataReport
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.windows import Short
from neuro_divergent.forecasting.fit.task import ForecastTask
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import Resume

if TYPE_CHECKING:
    from neuro_divergent.forecasting.network.module import ForecastModule
    from neuro_divergent.forecasting.predict.forecaster import Forecaster
    from neuro_divergent.forecasting.predict.local_scaling import LocalScaling

JOB = "job.json"


@dataclass(frozen=True)
class Job:
    """One training: model, configuration, tables, and starting point. It writes to `config.checkpoints`."""

    model: Model
    table: TimeSeriesDataFrame
    config: TrainingConfig = field(default_factory=TrainingConfig)
    validation: TimeSeriesDataFrame | None = None
    """Later rows of the same series for validation, instead of the last part of the table."""
    short: Short = "error"
    """What to do with series shorter than input_size + h."""
    local_scaler: str | SeriesScaler | None = None
    """How each series is scaled before training; None does not scale. In a file it can only be a name."""
    resume: Resume = Resume()  # noqa: RUF009  # frozen
    """Whether to resume from a checkpoint."""
    may_refit: bool = True
    """False for a training whose model is only scored or compared, such as a fold or a trial: `refit` is not used."""
    task: Callable[..., ForecastTask] = ForecastTask
    """How a batch of windows becomes loss values. Not written to files: it exists only in this process."""
    begin_with: Callable[[ForecastModule], None] | None = None
    """Gives a new module its starting weights. Not written to files: it exists only in this process."""
    scaling: LocalScaling | None = None
    """A fitted scaling of the series, instead of `local_scaler`. Not written to files."""
    learned_from: tuple[Forecaster, ...] = ()
    """Models whose weights or forecasts it starts from: held-out rows that one of them was trained on are not used to
    measure errors. Not written to files."""

    def write(self, folder: Path) -> None:
        """Write the job with its tables for another process; `read` reads it."""
        tables = {name: write_table(table, folder / name) for name, table in self.tables.items()}
        files.write_json(folder / JOB, self.facts() | {"tables": tables})

    @classmethod
    def read(cls, folder: Path) -> Job:
        """The job that `write` wrote to a folder. It resumes from the newest checkpoint of its directory."""
        document = parse_json(plain_bytes(folder / JOB, MAX_JSON_BYTES), JOB)
        tables = {name: read_table(folder / name, facts) for name, facts in document["tables"].items()}
        return cls.from_facts(document, tables)

    @property
    def tables(self) -> dict[str, TimeSeriesDataFrame]:
        """The tables by name."""
        return {"data": self.table} | ({} if self.validation is None else {"validation": self.validation})

    def facts(self) -> dict[str, Any]:
        """The job as plain data, without its tables."""
        return {
            "model": self.model.to_dict(),
            "config": self.config.to_dict(),
            "short": self.short,
            "local_scaler": self.local_scaler,
            "may_refit": self.may_refit,
            "resume_with": sorted(self.resume.changes or {}),
        }

    @classmethod
    def from_facts(cls, document: Mapping[str, Any], tables: Mapping[str, TimeSeriesDataFrame]) -> Job:
        """The job from the result of `facts`. It resumes from the newest checkpoint of its directory."""
        config = TrainingConfig.from_dict(document["config"])
        changes = {name: getattr(config, name) for name in document["resume_with"]}
        return cls(
            model=Model.from_dict(document["model"]),
            table=tables["data"],
            config=config,
            validation=tables.get("validation"),
            short=document["short"],
            local_scaler=document["local_scaler"],
            may_refit=document["may_refit"],
            resume=Resume("auto", changes),
        )


def write_table(table: TimeSeriesDataFrame, folder: Path) -> dict[str, Any]:
    """Write the rows of a table to a folder. Returns the rest of the table as plain data."""
    table.store.save(folder, overwrite=True)
    return {"schema": table.schema.to_dict(), "library": table.library}


def read_table(folder: Path, facts: Mapping[str, Any]) -> TimeSeriesDataFrame:
    """The table from a folder and from the facts that `write_table` returned."""
    schema = DataSchema.from_dict(facts["schema"])
    return TimeSeriesDataFrame(SeriesStore.open(folder), schema, DataReport(), library=facts["library"])
