"""A trainable for Ray Tune, which brings its own schedulers, searchers and checkpoints."""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.core.extras import require
from neuro_divergent.core.runs.names import trial_run_name
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.fit.fit import check_arguments
from neuro_divergent.forecasting.fit.job import Job
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.forecasting.fit.rows_task import RowsForecastTask
from neuro_divergent.forecasting.fit.run import Run
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.metrics.base import AnyMetric
from neuro_divergent.search.plan import FORMAT, Plan, make_plan, read_plan, write_plan
from neuro_divergent.search.scoring import mean_scores
from neuro_divergent.search.searches import RandomSearch
from neuro_divergent.search.space import apply as space_apply
from neuro_divergent.search.space.fields import PARENTS, Target, candidates, canonical, refuse_unsearchable
from neuro_divergent.search.space.fields import unknown_name as unknown
from neuro_divergent.training.config.other_process import own_modules, refuse_to_leave
from neuro_divergent.training.config.training_config import TrainingConfig
from neuro_divergent.training.runs.resume import CHANGEABLE, Resume

if TYPE_CHECKING:
    from ray.tune import Trainable


def ray_trainable(
    model: Model,
    data: Any,
    config: TrainingConfig | None = None,
    *,
    scoring: AnyMetric = "mae",
    cv_folds: int = 1,
    splitter: Any = None,
    seeds: int | Sequence[int] = 1,
    level: Sequence[float] | None = None,
    directory: str | os.PathLike[str] | None = None,
    **columns: Any,
) -> type[Trainable]:
    """A class for `ray.tune.Tuner`, whose trials train a model one epoch per iteration.

        trainable = nd.search.ray_trainable(nd.NHITS(h=24, input_size=72), data)
        tuner = tune.Tuner(
            trainable,
            param_space={"learning_rate": tune.loguniform(1e-4, 1e-2), "dropout": tune.uniform(0, 0.5)},
            tune_config=tune.TuneConfig(metric="mae", mode="min", scheduler=ASHAScheduler()),
        )

    The names of the parameters are those of a `SearchSpace`. Each iteration reports the score under the name of the
    metric, `epoch`, and `done` at the end of the training. Checkpoints are exact: a paused trial goes on with the same
    bits. `nd.load` reads the folder `run-00` of a checkpoint.

    Args:
        model: the description whose fields are varied.
        data: a TimeSeriesDataFrame, or any frame that `from_frame` takes. All its rows are seen by the trials: keep
            back the rows for a last comparison.
        config: how every trial is trained, except for what is varied.
        scoring: the metric of `evaluate` that is reported.
        cv_folds: number of folds; see `RandomSearch`.
        splitter: a `TimeSeriesSplit` instead of `cv_folds`.
        seeds: how many seeds, or which. The scores are averaged.
        level: central intervals in percent, for a metric of intervals or quantiles.
        directory: where the table is written for the workers; on a cluster a disk that all machines share. None uses a
            temporary directory, which is deleted with the class.
        columns: arguments of `from_frame` when `data` is a plain frame.
    """
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    tune = require("ray.tune", extra="ray", purpose="ray_trainable")
    check_arguments(columns, RandomSearch)
    table = TimeSeriesDataFrame.from_frame(data, **columns)
    config = config or TrainingConfig()
    given = {} if splitter is not None else {"cv_folds": cv_folds}
    search = RandomSearch(
        model=model, config=config, scoring=scoring, splitter=splitter, seeds=seeds, level=level, nested=False, **given
    )
    refuse_to_leave(config, model, search.scoring, instead="Put plain settings into model and config")
    plan, _ = make_plan(search, model, table)
    folder = Path(tempfile.mkdtemp(prefix="neuro-divergent-tune-") if directory is None else directory).resolve()
    document = {"format": FORMAT, "search": search.to_dict(), "directions": search.directions, "plan": plan.facts()}
    write_plan(folder, document, plan, table)
    cls: type[Trainable] = _class(
        tune.Trainable, str(folder), model.to_json(), config.to_json(), own_modules([model, config])
    )
    if directory is None:
        weakref.finalize(cls, shutil.rmtree, folder, ignore_errors=True)
    return cls


def _class(base: Any, folder: str, model: str, config: str, modules: set[str]) -> Any:
    """The class. Ray carries it to its workers: it holds texts only, and does its work by `Trial`."""

    class NeuroDivergent(base):  # type: ignore[misc]
        """A training of Neuro-Divergent, one epoch per iteration."""

        def setup(self, config_of_trial: Mapping[str, Any]) -> None:
            """Prepare the training of these parameters."""
            import importlib

            for name in sorted(modules):
                importlib.import_module(name)
            ray_tune = importlib.import_module(own)
            self._trial = ray_tune.Trial(folder, model, config, config_of_trial, self.trial_resources)

        def step(self) -> dict[str, Any]:
            """Train one epoch and score it."""
            return self._trial.step()  # type: ignore[no-any-return]

        def save_checkpoint(self, checkpoint_dir: str) -> None:
            """Write the state of the training."""
            self._trial.save(checkpoint_dir)

        def load_checkpoint(self, checkpoint_dir: str) -> None:
            """Go on from a state, also with another learning rate."""
            self._trial.load(checkpoint_dir)

        def cleanup(self) -> None:
            """Close the training."""
            self._trial.close()

    own = __name__
    return NeuroDivergent


class Trial:
    """The trainings of one trial in its worker: one per fold and seed, advanced together.

    Args:
        folder: where the plan is.
        model: the description, as JSON.
        config: its training, as JSON.
        point: the parameters of the trial.
        resources: the resources that Ray gives to the trial.
    """

    def __init__(self, folder: str, model: str, config: str, point: Mapping[str, Any], resources: Any = None) -> None:
        import torch

        if not Path(folder).is_dir():
            raise StorageError(
                f"workers read the table from {folder}, but one of them does not see it. Use a folder on a disk that "
                "all machines share: ray_trainable(..., directory=...)"
            )
        torch.set_num_threads(max(1, int(getattr(resources, "required_resources", {}).get("CPU", 1))))
        self.plan: Plan = read_plan(Path(folder))
        self.model, self.config = changed(Model.from_json(model), TrainingConfig.from_json(config), point)
        if self.config.compile == "auto":
            self.config = self.config.replace(compile=False)
        self.runs = [self._run(position, Resume()) for position in range(len(self.plan.parts))]

    def _run(self, position: int, resume: Resume) -> Run:
        fold, seed = self.plan.parts[position]
        config = self.config.replace(seed=seed, progress=False)
        past = self.plan.scores[fold].past
        run = prepare(Job(self.model, past, config, task=RowsForecastTask, resume=resume, may_refit=False))
        run.training.begin()
        return run

    def step(self) -> dict[str, Any]:
        """Train every run for an epoch. Returns the scores, and whether all have ended."""
        for run in self.runs:
            state = run.training.state
            if not _ended(run):
                epoch = state.step // state.steps_per_epoch + 1
                run.advance(min(epoch * state.steps_per_epoch, state.total_steps))
        done = all(_ended(run) for run in self.runs)
        scores = []
        for (fold, _), run in zip(self.plan.parts, self.runs, strict=True):
            with run.so_far() as fitted:  # with the weights that the run would return
                scores.append(self.plan.scores[fold].of(fitted))
        state = self.runs[0].training.state
        epoch = -(-state.step // state.steps_per_epoch)
        return mean_scores(scores) | {"epoch": epoch, "steps": state.step, "done": done}

    def save(self, folder: str) -> None:
        """Write a checkpoint of every run."""
        for position, run in enumerate(self.runs):
            run.save_checkpoint(Path(folder) / trial_run_name(position))

    def load(self, folder: str) -> None:
        """Go on from a checkpoint, of this trial or of another one of the same model."""
        changes = {name: getattr(self.config, name) for name in CHANGEABLE if name in self.config.model_fields_set}
        self.close()
        self.runs = [
            self._run(position, Resume(str(Path(folder) / trial_run_name(position)), changes))
            for position in range(len(self.plan.parts))
        ]

    def close(self) -> None:
        """Abandon the runs."""
        for run in self.runs:
            run.close()


def _ended(run: Run) -> bool:
    state = run.training.state
    return bool(state.stopping) or bool(state.history.stopped) or state.step >= state.total_steps


def changed(model: Model, config: TrainingConfig, point: Mapping[str, Any]) -> tuple[Model, TrainingConfig]:
    """Model and training with these values, whose names are those of a search space."""
    values = {canonical(name): value for name, value in point.items()}
    for name in values:
        refuse_unsearchable(name)
    model = space_apply.chosen_model(model, values.pop("model", None))
    for owner in [name for name in values if name in PARENTS]:
        config = space_apply.with_description(model, config, owner, values.pop(owner))
    cls, parents = type(space_apply.inner(model)), space_apply.parent_classes(model, config)
    return space_apply.with_values(
        model, config, {_target(name, cls, parents): _plain(value) for name, value in values.items()}
    )


def _target(name: str, cls: type[Description], parents: Mapping[str, type[Description] | None]) -> Target:
    found = candidates(name, cls, parents)
    if len(found) > 1:
        raise ConfigError(f"{name!r} means several fields ({', '.join(map(str, found))}): write one of them")
    if not found:
        raise unknown(name, [*cls.model_fields, *TrainingConfig.model_fields], cls.__name__)
    return found[0]


def _plain(value: Any) -> Any:
    """A value of Ray as one of Python: its numbers may be numpy's."""
    item: Callable[[], Any] | None = getattr(value, "item", None)
    return item() if item is not None and not isinstance(value, Description) else value
