"""The trials of a search, in the form of Ray's results."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import ConfigError, TrainingError
from neuro_divergent.core.extras import require

if TYPE_CHECKING:
    from optuna.study import Study

    from neuro_divergent.compat.neuralforecast.adapter import PeerModel


def of_trial(model: PeerModel) -> dict[str, float]:
    """The losses of a trained model: of the last validation, and of the last step."""
    if not model.valid_trajectories:
        raise TrainingError("a trial is scored by its validation, but there was none. Set val_size or val_check_steps")
    return {"loss": float(model.valid_trajectories[-1][1]), "train_loss": float(model.train_trajectories[-1][1])}


@dataclass(frozen=True)
class RayResult:
    """One trial."""

    config: dict[str, Any]
    """Its arguments."""
    metrics: dict[str, Any]
    """`loss` of the validation and `train_loss`; empty if it failed."""
    error: str | None = None


class RayResults:
    """All trials, with the methods of Ray's `ResultGrid`. `study` is the study of Optuna."""

    def __init__(self, study: Study, configs: Mapping[int, dict[str, Any]]) -> None:
        self.study = study
        self._found = [
            RayResult(
                configs.get(trial.number, {}),
                dict(trial.user_attrs.get("METRICS", {})) | _seconds(trial),
                None if trial.state.name == "COMPLETE" else trial.state.name.lower(),
            )
            for trial in study.trials
        ]

    def get_best_result(self, metric: str = "loss", mode: str = "min") -> RayResult:
        """The best trial."""
        if mode not in ("min", "max"):
            raise ConfigError(f"mode must be 'min' or 'max', but got mode={mode!r}")
        good = [one for one in self._found if metric in one.metrics]
        if not good:
            raise ConfigError(f"the trials have the metrics loss and train_loss, but got metric={metric!r}")
        return (min if mode == "min" else max)(good, key=lambda one: one.metrics[metric])

    def get_dataframe(self, *_: Any, **__: Any) -> Any:
        """One row per trial, as a pandas frame: losses, and the arguments as config/..."""
        pandas = require("pandas", extra="pandas", purpose="get_dataframe")
        rows = [one.metrics | {f"config/{name}": value for name, value in one.config.items()} for one in self._found]
        return pandas.DataFrame(rows)

    @property
    def errors(self) -> list[str]:
        """What became of the trials that failed."""
        return [one.error for one in self._found if one.error is not None]

    @property
    def num_errors(self) -> int:
        """How many trials failed."""
        return len(self.errors)

    def __len__(self) -> int:
        return len(self._found)

    def __getitem__(self, number: int) -> RayResult:
        return self._found[number]

    def __iter__(self) -> Iterator[RayResult]:
        return iter(self._found)


def _seconds(trial: Any) -> dict[str, Any]:
    took = trial.duration
    return {"trial_id": f"{trial.number:05d}"} | ({} if took is None else {"time_total_s": took.total_seconds()})
