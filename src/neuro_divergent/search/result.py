"""The result of a search: the best settings, its forecaster, all trials, and how optimistic the validation was."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import polars as pl

from neuro_divergent.core.errors import Advice, ConfigError, NotFittedError, StorageError
from neuro_divergent.core.runs.names import MODEL, STUDY, TRIALS, trial_name
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.forecasting.evaluate.folds import Fold
from neuro_divergent.forecasting.fit.continue_training import refit_on
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.predict.forecaster import Forecaster
from neuro_divergent.forecasting.storage.save_load import load
from neuro_divergent.plotting import save
from neuro_divergent.search import plots
from neuro_divergent.search.plan import Plan, read_all_rows, read_document
from neuro_divergent.search.scoring import FoldScores
from neuro_divergent.search.space import SearchSpace
from neuro_divergent.search.space.points import every_name
from neuro_divergent.search.storage import quiet, storage_of
from neuro_divergent.search.study import ERROR, EXCLUDED, FACTS, NESTED, best_of, study_name
from neuro_divergent.training.config.training_config import TrainingConfig

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from optuna.study import Study
    from optuna.trial import FrozenTrial

STATES = {"COMPLETE": "complete", "PRUNED": "pruned", "FAIL": "failed", "RUNNING": "paused", "WAITING": "waiting"}


class Best(NamedTuple):
    """The best settings of a search."""

    model: Model
    config: TrainingConfig
    number: int
    """The number of the trial."""
    value: float
    """Its score; with several objectives the first one."""
    point: dict[str, Any]
    """The values of the space."""


class Nested(NamedTuple):
    """The score of the winner on the last rows, which no trial saw."""

    trial: int
    metric: str
    validation: float
    """The score by which the winner was chosen."""
    nested: float
    """Its score on the last rows."""
    naive: float | None
    """The score of the seasonal naive forecast on the same rows; None for a metric of intervals."""


@dataclass(frozen=True, eq=False)
class SearchResult:
    """What a search found. It is read from the directory of the study, also while the search runs."""

    directory: Path
    study: Study = field(repr=False)
    """Optuna's own object."""
    document: dict[str, Any] = field(repr=False)
    """The contents of study.json."""
    using: Mapping[str, Callable[..., Any]] = field(repr=False, default_factory=dict)
    """The callables that the study names only by reference."""

    @classmethod
    def load(
        cls,
        directory: str | os.PathLike[str],
        *,
        storage: str | None = None,
        using: Mapping[str, Callable[..., Any]] | None = None,
    ) -> SearchResult:
        """The result of the study in a directory.

        Args:
            directory: the directory of the search.
            storage: the URL of its database, if the search had one. The file is not trusted to name it.
            using: your own callables that the study names only by reference, such as {"my_loss": my_loss}.
        """
        folder = Path(directory)
        document = read_document(folder)
        if document is None:
            raise StorageError(f"{folder} must be the directory of a search, but has no {STUDY}")
        known = document["search"].get("storage")
        if known is not None and storage is None:
            raise StorageError(
                f"the study of {folder} is in a database, {known}. Give its URL: storage=...",
                advice=[Advice("storage", "...")],
            )
        import optuna

        with quiet():
            where = storage_of(folder, storage, create=False)
            try:
                study = optuna.load_study(study_name=study_name(folder, storage), storage=where)
            except KeyError as error:
                raise StorageError(f"the database must have the study of {folder}, but has not") from error
        return cls(folder, study, document, using or {})

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the study to another directory, without its checkpoints; `nd.load` and `SearchResult.load` read it.

        It has the trials, the tables, and the trained models that were kept. It can be loaded and looked at, and gives
        its best forecaster; trials that were not finished begin again if the search is resumed there.
        """
        from neuro_divergent.search.copy_study import copy_study

        copy_study(self.directory, self.study, self.document, path, overwrite=overwrite)

    @cached_property
    def directions(self) -> dict[str, str]:
        """Name and direction of each objective."""
        return dict(self.document["directions"])

    @cached_property
    def space(self) -> SearchSpace:
        """What was varied. Constraints, functions of the user's, are left out."""
        return SearchSpace.from_dict(self.document["search"]["space"] | {"constraints": [], "first": []})

    @property
    def metric(self) -> str:
        """The metric that decided."""
        return str(self.document["metric"])

    def _trials(self) -> list[FrozenTrial]:
        self.study._thread_local.cached_all_trials = None
        found = self.study.get_trials(deepcopy=False)
        return [one for one in found if EXCLUDED not in one.user_attrs]

    @property
    def has_best(self) -> bool:
        """Whether a trial has ended, so that there is a best one."""
        return any(one.state.name == "COMPLETE" for one in self._trials())

    @property
    def _winner(self) -> FrozenTrial:
        trials = self._trials()
        sign = 1.0 if next(iter(self.directions.values())) == "minimize" else -1.0
        winner = best_of(trials, sign) if len(self.directions) == 1 else self._recommended()
        if winner is None:
            raise NotFittedError(
                f"a search has a best trial when one has ended, but none of the {len(trials)} in {self.directory} has"
            )
        return winner

    def _recommended(self) -> FrozenTrial | None:
        """The point of the Pareto front with the best weighted sum, each objective scaled to 0 to 1 on the front."""
        front = self.study.best_trials
        weights = {name: float(weight) for name, (_, weight) in self.document["search"]["objectives"].items()}
        totals = [0.0] * len(front)
        for place, (name, direction) in enumerate(self.directions.items()):
            values = [one.values[place] for one in front]
            low, high = min(values, default=0.0), max(values, default=0.0)
            for index, value in enumerate(values):
                share = (value - low) / (high - low) if high > low else 0.0
                totals[index] += weights[name] * (1 - share if direction == "maximize" and high > low else share)
        best = min(zip(totals, front, strict=True), key=lambda one: (one[0], one[1].number), default=None)
        return None if best is None else best[1]

    @property
    def best(self) -> Best:
        """The best settings: model, config, number of the trial, score, and the values of the space."""
        return self._described(self._winner)

    def _described(self, trial: FrozenTrial) -> Best:
        model, config = self.settings(trial.params)
        return Best(model, config, trial.number, float(trial.values[0]), dict(trial.params))

    def settings(self, point: dict[str, Any]) -> tuple[Model, TrainingConfig]:
        """The model and the training of a point of the space."""
        search = self.document["search"]
        model = None if search["model"] is None else Model.from_dict(search["model"], using=self.using)
        return self.space.apply(point, model, TrainingConfig.from_dict(search["config"], using=self.using))

    def best_forecaster(self, *, refit: bool = True) -> Forecaster:
        """The forecaster of the best trial, ready for use.

        Args:
            refit: True continues the model of the trial on all rows of the table, with three tenths of its steps and
                half of its learning rate, as `refit="fine_tune"` of a training does. `evaluate` still scores the
                forecasts that it made before. False gives the model as the trial trained it, on the rows before its
                last test part.
        """
        folder = self.directory / TRIALS / trial_name(self._winner.number) / MODEL
        found = load(folder, using=self.using)
        assert isinstance(found, Forecaster)
        return refit_on(found, read_all_rows(self.directory, self.document)) if refit else found

    @property
    def trials(self) -> Any:
        """A frame with a row per trial: number, state, scores, the values of the space, seconds, steps, error."""
        return self._in_library(self.table)

    @property
    def table(self) -> pl.DataFrame:
        """`trials` as a polars frame."""
        names = list(dict.fromkeys(name for one in self._trials() for name in one.params))
        rows = [self._row(one, names) for one in self._trials()]
        return pl.DataFrame(rows, infer_schema_length=None, strict=False)

    def _row(self, trial: FrozenTrial, names: Sequence[str]) -> dict[str, Any]:
        facts = trial.user_attrs.get(FACTS, {})
        values = (
            trial.values
            if trial.values is not None and trial.state.name == "COMPLETE"
            else [None] * len(self.directions)
        )
        last = [trial.intermediate_values[trial.last_step]] if trial.last_step is not None else [None]
        if trial.state.name != "COMPLETE" and len(self.directions) == 1:
            values = last
        return {
            "number": trial.number,
            "state": STATES[trial.state.name],
            **dict(zip(self.directions, values, strict=True)),
            **{name: trial.params.get(name) for name in names},
            "seconds": facts.get("seconds"),
            "steps": facts.get("steps"),
            "parameters": facts.get("parameters"),
            "error": trial.user_attrs.get(ERROR),
        }

    def _in_library(self, table: pl.DataFrame) -> Any:
        library = self.document.get("library")
        if library == "pandas":
            return table.to_pandas()
        if library == "pyarrow":
            return table.to_arrow()
        return table.to_dict(as_series=False) if library == "dict" else table

    @property
    def pareto(self) -> Any:
        """The rows of `trials` that no other trial beats in all objectives; with one objective the best trial."""
        numbers = [self._winner.number] if len(self.directions) == 1 else [one.number for one in self.study.best_trials]
        return self._in_library(self.table.filter(pl.col("number").is_in(numbers)))

    def importance(self) -> dict[str, float]:
        """How much each value of the space matters for the score, from Optuna's importance evaluator (fANOVA)."""
        import optuna

        complete = [one for one in self._trials() if one.state.name == "COMPLETE"]
        if len(complete) < 2:
            raise ConfigError(f"importances need two trials that ended, but there are {len(complete)}")
        target = None if len(self.directions) == 1 else (lambda trial: trial.values[0])
        with quiet():
            found = optuna.importance.get_param_importances(self.study, target=target)
        return {name: float(value) for name, value in found.items()}

    def _tried(self, purpose: str) -> tuple[list[dict[str, Any]], list[float]]:
        """The points and the first scores of the trials that ended. Fewer than four are refused."""
        ended = [one for one in self._trials() if one.state.name == "COMPLETE"]
        if len(ended) < 4:
            raise ConfigError(f"{purpose} needs 4 trials that ended, but the search has {len(ended)}")
        return [dict(one.params) for one in ended], [float(one.values[0]) for one in ended]

    def plot_convergence(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot the score of each trial and the best score so far, to a file if a path is given.

        With several objectives it is the first one.
        """
        metric, direction = next(iter(self.directions.items()))
        return save(plots.convergence_figure(self.table, metric, direction), path)

    def plot_partial_dependence(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot how the score depends on each value of the space, the most important one first.

        Each panel has the score of every trial, and the mean score of a Gaussian process when this value is changed and
        the others stay as the trials have them. The band has eight in ten trials. The share in the title is the
        importance.
        """
        points, scores = self._tried("a partial dependence plot")
        names = every_name(self.space.dimensions)
        metric = next(iter(self.directions))
        return save(plots.dependence_figure(points, scores, names, metric, self.importance()), path)

    def plot_pareto(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot every pair of objectives: all trials, the Pareto front, and the trial that the weights recommend."""
        front = [one.number for one in self.study.best_trials] if len(self.directions) > 1 else []
        chosen = self._winner.number
        return save(plots.pareto_figure(self.table, self.directions, front, chosen), path)

    def plot_parallel(self, path: str | os.PathLike[str] | None = None) -> Figure:
        """Plot a line per trial over the values of the space, coloured by its score."""
        points, scores = self._tried("a parallel plot")
        metric, direction = next(iter(self.directions.items()))
        names = every_name(self.space.dimensions)
        return save(plots.parallel_figure(points, scores, names, metric, direction), path)

    @property
    def nested(self) -> Nested | None:
        """The score of the winner on the last rows, which no trial saw; None if there were none."""
        kept = self.study.user_attrs.get(NESTED)
        return None if kept is None else Nested(**kept)

    @property
    def optimism(self) -> float | None:
        """How much better the winner looked in the search than on rows that no trial saw.

        It is the nested score minus the validation score, with the opposite sign for a metric to maximise: above 0, the
        validation score was too good.
        """
        found = self.nested
        if found is None:
            return None
        from neuro_divergent.search.scoring import direction_of

        difference = found.nested - found.validation
        return difference if direction_of(found.metric) == "minimize" else -difference

    def __repr__(self) -> str:
        trials = self._trials()
        counts = {word: sum(STATES[one.state.name] == word for one in trials) for word in STATES.values()}
        told = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
        try:
            best = self.best
            found = f"\nbest: trial {best.number}, {next(iter(self.directions))} {best.value:.4g}, {best.point}"
        except NotFittedError:
            found = ""
        return f"SearchResult({self.directory}: {told}){found}"


def score_winner(result: SearchResult, table: TimeSeriesDataFrame, fold: Fold) -> None:
    """Score the winner on the rows that no trial saw, once for each winner, and store it with the study."""
    winner = result._winner
    known = result.nested
    if known is not None and known.trial == winner.number:
        return
    plan = Plan.from_facts(result.document["plan"], table, using=result.using)
    metric = result.metric
    scores = FoldScores(table, fold, plan.metrics, plan.level)
    fitted = result.best_forecaster(refit=False)
    validation = winner.user_attrs[FACTS]["scores"][metric]
    naive = scores.naive(fitted).get(metric)
    found = Nested(winner.number, metric, float(validation), scores.of(fitted)[metric], naive)
    result.study.set_user_attr(NESTED, found._asdict())
