"""The common settings of all searches."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from neuro_divergent.core.config import Description, encode, reference
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.executors.workers import check_executor
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.core.registry import closest
from neuro_divergent.forecasting.evaluate.folds import TimeSeriesSplit
from neuro_divergent.forecasting.evaluate.scores import check_names
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.metrics.base import MetricField, metric_name
from neuro_divergent.search.amounts import Duration, Size
from neuro_divergent.search.space import SearchSpace
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.stacked.train_many import Stacked

if TYPE_CHECKING:
    from optuna.samplers import BaseSampler

    from neuro_divergent.search.result import SearchResult

Count = Annotated[int, Field(ge=1)]
PRUNERS = ("median", "successive_halving", "hyperband", "patient", "wilcoxon")
"""The pruners by name."""


def _pruner(value: Any) -> Any:
    if value is None or (isinstance(value, str) and value in PRUNERS):
        return value
    if isinstance(value, str):
        near = closest(value, list(PRUNERS))
        hint = f"Did you mean {' or '.join(near)}?" if near else f"Known are: {', '.join(PRUNERS)}"
        raise ConfigError(f"pruner must be a name, None or a pruner of Optuna, but got pruner={value!r}. {hint}")
    if not (hasattr(value, "prune") and callable(value.prune)):
        raise ConfigError(f"pruner must be a name, None or a pruner of Optuna, but got {type(value).__name__}")
    return value


def _sampler(value: Any) -> Any:
    if value is not None and not hasattr(value, "sample_relative"):
        raise ConfigError(f"sampler must be None or a sampler of Optuna, but got {value!r}")
    return value


def _executor(value: Any) -> Any:
    check_executor(value)
    return value


def _callbacks(value: Any) -> Any:
    given = (value,) if callable(value) else tuple(value)
    for one in given:
        if not callable(one):
            raise ConfigError(f"callbacks must be functions of (study, trial), but got {one!r}")
    return given


def _seeds(value: Any) -> Any:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    return tuple(value) if isinstance(value, Sequence) and not isinstance(value, str) else value


class Search(Description):
    """The base of all searches. `fit(data)` runs the trials and returns a `SearchResult`."""

    family: ClassVar[str] = "search"
    writes: ClassVar[tuple[str, ...]] = ("directory",)
    adaptive: ClassVar[bool] = False
    """Whether a trial is chosen by the results of earlier ones."""

    space: SearchSpace | None = Field(None, kw_only=False)
    """What is varied; None for the default space of the model."""
    model: Model | None = None
    """The model whose fields are varied. It may be left out if the space chooses the model."""
    config: TrainingConfig = Field(default_factory=TrainingConfig)
    """How every trial is trained, except for what the space varies."""
    directory: Takes[Path | None, str | os.PathLike[str] | None] = default(None)
    """Where the study is stored. None uses a temporary directory, which is deleted with the result."""
    scoring: Takes[MetricField, Any] = default("mae")
    """The metric of `evaluate` that decides: its name, a `Metric`, or a function."""
    level: Takes[tuple[float, ...] | None, Sequence[float] | None] = default(None)
    """Central intervals in percent, for a metric of intervals or quantiles."""
    cv_folds: Count = 1
    """Number of folds. Each fold trains on the rows before its test part. The test parts are the last 15 % of the rows
    together, each at least one horizon long."""
    splitter: Any = None
    """A `TimeSeriesSplit`, or anything that `cross_validation` takes as a splitter, instead of `cv_folds`."""
    nested: bool | Count = True
    """Rows at the end of the table that no trial sees. They score the winner once. True is one horizon."""
    pruner: Annotated[Any, BeforeValidator(_pruner)] = None
    """Which trials end early: median, successive_halving, hyperband, patient, wilcoxon, a pruner of Optuna, or None."""
    sampler: Annotated[Any, BeforeValidator(_sampler)] = None
    """A sampler of Optuna that is used instead of the search's own."""
    timeout: Takes[Duration | None, str | float | None] = default(None)
    """Time for the whole search: seconds, or a text such as "6h". Trials that still run are stopped, and can go on
    later."""
    trial_timeout: Takes[Duration | None, str | float | None] = default(None)
    """Time for one trial. A longer one fails."""
    n_jobs: int = 1
    """Processes that train at the same time; -1 for one per core. Each uses one thread."""
    executor: Annotated[Any, BeforeValidator(_executor)] = None
    """Where trials are trained instead of here: anything with the interface of `concurrent.futures`, such as
    `nd.RayExecutor()` or dask's `client.get_executor()`. Its workers must see the directory of the study."""
    seeds: Annotated[Count | tuple[int, ...], BeforeValidator(_seeds)] = 1
    """Seeds of each training: how many from the configuration's seed on, or a list. The scores are averaged. The seed
    is never searched."""
    seed: int = 1
    """Seed of the search's own draws."""
    deterministic: bool = False
    """Ask for trials in batches and use their results in the order of their numbers. Then a result does not depend on
    which trial ended first."""
    early_stopping: Count | None = None
    """Stop after this many trials in a row without a better score."""
    stacked: Stacked = "auto"
    """Whether trials whose networks agree are trained as one computation."""
    callbacks: Annotated[tuple[Any, ...], BeforeValidator(_callbacks)] = ()
    """Functions of (study, trial), called after each trial. A function that returns True ends the search."""
    storage: str | None = None
    """URL of a database for the study, for several machines; None for an SQLite file in the directory."""
    checkpoint_every: Takes[Duration, str | float] = default(30.0)
    """Time between two checkpoints of a running trial."""
    max_disk: Takes[Size, str | int] = default(2 * 10**9)
    """Most disk space for checkpoints and models of trials, in bytes or as a text such as "2GB"."""
    progress: bool | Literal["auto"] = "auto"
    """A progress line; "auto" shows it on a terminal only."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        check_executor(self.executor, self.n_jobs)
        if self.space is not None and not self.space.dimensions:
            raise ConfigError("a search space needs a dimension, such as learning_rate=nd.loguniform(1e-5, 1e-1)")
        if self.model is None and (self.space is None or not self.space.chooses_model):
            raise ConfigError(
                "a search needs a model whose fields it varies: give model=..., or let the space choose it with "
                "model=nd.choice(...)"
            )
        if isinstance(self.seeds, tuple) and (not self.seeds or len(set(self.seeds)) < len(self.seeds)):
            raise ConfigError(f"seeds must be different whole numbers, but got seeds={self.seeds}")
        if self.splitter is not None and "cv_folds" in self.model_fields_set:
            raise ConfigError("give cv_folds, or a splitter, but not both")
        if self.config.refit not in ("auto", None):
            raise ConfigError(
                f"a trial is never trained on its test rows, but got refit={self.config.refit!r} in config. Leave it "
                "out"
            )
        if self.config.checkpoints is not None:
            raise ConfigError(
                "the trials of a search are saved in its directory: give directory=..., and no checkpoints in config"
            )
        check_names([self.scoring])
        self._check_storage()
        return self

    def _check_storage(self) -> None:
        if self.storage is None:
            return
        if "://" not in self.storage:
            raise ConfigError(
                f"storage must be the URL of a database, such as postgresql://host/name, but got {self.storage!r}. "
                "To choose where the SQLite file lies, set directory"
            )
        if self.directory is None:
            raise ConfigError("a search with a storage needs a directory for its checkpoints: set directory")

    @property
    def metric(self) -> str:
        """The name of the metric that decides."""
        return metric_name(self.scoring)

    @property
    def seed_list(self) -> tuple[int, ...]:
        """The seeds of each training."""
        if isinstance(self.seeds, tuple):
            return self.seeds
        return tuple(range(self.config.seed, self.config.seed + self.seeds))

    @property
    @abstractmethod
    def budget(self) -> int:
        """How many trials the search has at most."""

    @abstractmethod
    def own_sampler(self, seed: int) -> BaseSampler:
        """The sampler of the search, for one draw: it is made again for each trial with another seed."""

    @property
    def directions(self) -> dict[str, str]:
        """Name and direction ("minimize", "maximize") of each objective."""
        from neuro_divergent.search.scoring import direction_of

        return {self.metric: direction_of(self.metric)}

    def fit(self, data: Any, *, resume: str | None = None, **columns: Any) -> SearchResult:
        """Run the trials on a table and return the result.

        Args:
            data: a TimeSeriesDataFrame, or any frame that `from_frame` takes.
            resume: "auto" goes on with the study in the directory, or begins it if there is none.
            columns: arguments of `from_frame` when `data` is a plain frame.
        """
        from neuro_divergent.search.engine.run import run_search

        return run_search(self, data, resume, columns)

    @model_serializer(mode="plain")
    def to_dict(self) -> dict[str, Any]:
        """The plain-data form. Objects of Optuna and functions are written as a reference."""
        fields = {name: _plain(getattr(self, name)) for name in type(self).model_fields if name != "executor"}
        return {"kind": self.kind} | fields


def _plain(value: Any) -> Any:
    if hasattr(value, "sample_relative") or (hasattr(value, "prune") and not isinstance(value, Description)):
        return {"reference": reference(value)}
    if isinstance(value, TimeSeriesSplit) or value is None or isinstance(value, Description):
        return encode(value)
    if hasattr(value, "split") and not isinstance(value, str):  # a splitter of another library
        return {"reference": reference(value)}
    return encode(value)
