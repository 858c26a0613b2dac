"""The base of the `Auto*` classes: a model whose arguments are searched, each trial scored on the validation rows."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from neuro_divergent.compat.neuralforecast.adapter import PeerModel, refuse_unknown
from neuro_divergent.compat.neuralforecast.common._auto_results import RayResults, of_trial
from neuro_divergent.compat.neuralforecast.common._auto_spaces import default_config, with_sizes
from neuro_divergent.compat.neuralforecast.fitting import train
from neuro_divergent.compat.neuralforecast.losses.pytorch import MAE
from neuro_divergent.compat.neuralforecast.members import Member
from neuro_divergent.compat.neuralforecast.tsdataset import TimeSeriesDataset, fit_on, table_of
from neuro_divergent.compat.ray import tune
from neuro_divergent.core.errors import ConfigError, NeuroDivergentError, NotFittedError
from neuro_divergent.core.extras import require
from neuro_divergent.search.storage import quiet

if TYPE_CHECKING:
    from optuna.trial import Trial

    from neuro_divergent.forecasting.predict.forecaster import Forecaster

BACKENDS = ("ray", "optuna")


@dataclass
class RayOptions:
    """Settings that neuralforecast hands to Ray. Trials run in this process, so they have no effect."""

    run_config: Any = None
    scheduler: Any = None
    cpus: int | None = None
    gpus: float | None = None


@dataclass
class OptunaOptions:
    """Arguments of `optuna.create_study` and `Study.optimize`."""

    study_kwargs: dict[str, Any] | None = None
    create_study_kwargs: dict[str, Any] | None = None


class BaseAuto:
    """A model whose arguments are searched.

    Args:
        cls_model: the class of the model.
        h: the horizon.
        loss: the loss of every trial; None for MAE.
        valid_loss: what scores a trial on the validation rows; None for the loss.
        config: with backend="ray" a dictionary with domains such as `tune.choice([...])`, of Ray or of
            `neuro_divergent.compat.ray.tune`; with backend="optuna" a function of a trial that returns a dictionary.
        search_alg: a sampler of Optuna. None, or anything of Ray, is random search with backend="ray" (TPE for a model
            based algorithm of Ray), and TPE with backend="optuna".
        num_samples: number of trials; with `tune.grid_search`, of every combination.
        time_budget: no trial begins after this many seconds.
        refit_with_val: whether the best model is trained with the validation rows held out, too.
        cpus: has no effect: trials run one after the other in this process.
        gpus: has no effect.
        verbose: whether Optuna shows a progress bar.
        alias: name of the forecast's column.
        backend: "ray" or "optuna": which of the two forms `config` has. Optuna runs the trials of both; Ray is not
            needed.
        callbacks: functions of (study, trial), with backend="optuna".
        ray_options: has no effect.
        optuna_options: arguments for Optuna.
    """

    EXOGENOUS_FUTR = EXOGENOUS_HIST = EXOGENOUS_STAT = MULTIVARIATE = RECURRENT = False

    def __init__(
        self,
        cls_model: Any,
        h: int,
        loss: Any = None,
        valid_loss: Any = None,
        config: Any = None,
        search_alg: Any = None,
        num_samples: int = 10,
        time_budget: float | None = None,
        refit_with_val: bool = False,
        verbose: bool = False,
        alias: str | None = None,
        backend: str = "ray",
        callbacks: Any = None,
        ray_options: RayOptions | None = None,
        optuna_options: OptunaOptions | None = None,
        cpus: int | None = None,
        gpus: float | None = None,
    ) -> None:
        require("optuna", extra="search", purpose=f"{type(self).__name__}")
        self.cls_model, self.h, self.alias, self.backend = cls_model, h, alias, backend
        self.loss = MAE() if loss is None else loss
        self.valid_loss = self.loss if valid_loss is None else valid_loss
        self.num_samples, self.time_budget, self.verbose = num_samples, time_budget, verbose
        self.search_alg, self.callbacks = search_alg, callbacks
        self.ray_options, self.optuna_options = ray_options or RayOptions(), optuna_options or OptunaOptions()
        self.cpus, self.gpus = cpus or self.ray_options.cpus, gpus or self.ray_options.gpus
        self.config = self._checked(config)
        first = self._config_of(_FirstValues())
        self._refuse_injected(first)
        self.early_stop_patience_steps = 1 if "early_stop_patience_steps" in first else -1
        self.refit_with_val = bool(refit_with_val) or self.early_stop_patience_steps > 0
        for name in ("EXOGENOUS_FUTR", "EXOGENOUS_HIST", "EXOGENOUS_STAT", "MULTIVARIATE", "RECURRENT"):
            setattr(self, name, getattr(cls_model, name, False))
        self._warn_unused()
        self._preview = self._made(first).member
        self.model: PeerModel | None = None
        """The best model, after `fit`."""
        self.results: Any = None
        """After `fit`: the study of Optuna, or what Ray's `Tuner.fit` returns with backend="ray"."""

    def _checked(self, config: Any) -> Any:
        if self.backend not in BACKENDS:
            raise ConfigError(f"backend must be 'ray' or 'optuna', but got backend={self.backend!r}")
        if not isinstance(self.num_samples, int) or self.num_samples < 1:
            raise ConfigError(f"num_samples must be at least 1, but got num_samples={self.num_samples!r}")
        if self.backend == "ray" and not isinstance(config, Mapping):
            raise ConfigError(
                f"with backend='ray', config is a dictionary of values and domains, but got {config!r}. For a function "
                "of a trial use backend='optuna'"
            )
        if self.backend == "optuna" and not callable(config):
            raise ConfigError(
                f"with backend='optuna', config is a function of a trial that returns a dictionary, but got {config!r}."
                " For a dictionary of domains use backend='ray'"
            )
        return with_sizes(dict(config), self.h) if self.backend == "ray" else config

    def _refuse_injected(self, config: Mapping[str, Any]) -> None:
        for name in ("h", "loss", "valid_loss"):
            if config.get(name) is not None:
                raise ConfigError(f"{name} is an argument of {type(self).__name__}, but config has {name}. Move it")

    def _warn_unused(self) -> None:
        unused = [name for name in ("run_config", "scheduler") if getattr(self.ray_options, name) is not None]
        if self.backend == "ray":
            unused += ["callbacks"] if self.callbacks else []
        elif self.search_alg is not None and not hasattr(self.search_alg, "sample_relative"):
            unused += ["search_alg"]
        if unused:
            warnings.warn(
                f"{type(self).__name__}: {', '.join(unused)} have no effect: trials run by Optuna in this process.",
                UserWarning,
                stacklevel=4,
            )

    def _config_of(self, trial: Any) -> dict[str, Any]:
        """The arguments of one trial."""
        found = tune.sampled(self.config, trial) if self.backend == "ray" else with_sizes(self.config(trial), self.h)
        if isinstance(found.get("input_size"), int) and found["input_size"] < 0:
            found["input_size"] = -1  # recurrent models choose it
        return found

    def _made(self, config: Mapping[str, Any]) -> Any:
        """The model of these arguments."""
        own = {name: value for name, value in config.items() if name not in ("h", "loss", "valid_loss")}
        for name in ("batch_size", "windows_batch_size", "max_steps"):
            if isinstance(own.get(name), float):
                own[name] = int(own[name])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # the same for every trial
            return self.cls_model(**own | {"h": self.h, "loss": self.loss, "valid_loss": self.valid_loss})

    @property
    def member(self) -> Member:
        """The model as far as it is known: the best one, or before the search one with the first values."""
        found = self._preview if self.model is None else self.model.member
        return found.renamed(found.description.replace(alias=repr(self)))

    def choose(self, fit: Callable[[Member, int], Forecaster], held_out: int) -> tuple[PeerModel, int]:
        """Search. Returns the best model, untrained, and how many rows its training holds out.

        Args:
            fit: trains a member with so many validation rows.
            held_out: validation rows of a trial; 0 for a horizon.
        """
        import optuna

        rows = held_out or self.h
        options = {"sampler": self._sampler(), "direction": "minimize"} | (
            self.optuna_options.create_study_kwargs or {}
        )
        asked: dict[str, Any] = {
            "n_trials": self.num_samples * (tune.combinations(self.config) if self.backend == "ray" else 1),
            "timeout": self.time_budget,
            "callbacks": self.callbacks if self.backend == "optuna" else None,
            "show_progress_bar": bool(self.verbose),
            "catch": (NeuroDivergentError,),
        } | (self.optuna_options.study_kwargs or {})
        errors: list[NeuroDivergentError] = []
        configs: dict[int, dict[str, Any]] = {}
        with quiet():
            study = optuna.create_study(**options)
            study.optimize(lambda trial: self._score(trial, fit, rows, configs, errors), **asked)
        if not any(one.state == optuna.trial.TrialState.COMPLETE for one in study.trials):
            raise errors[0] if errors else ConfigError(f"{self!r} ended without a trial: give it more time")
        self.results = RayResults(study, configs) if self.backend == "ray" else study
        self.model = self._made(configs[study.best_trial.number])
        return self.model, rows if self.refit_with_val else 0

    def _score(
        self,
        trial: Trial,
        fit: Callable[[Member, int], Forecaster],
        rows: int,
        configs: dict[int, dict[str, Any]],
        errors: list[NeuroDivergentError],
    ) -> float:
        """Train the model of a trial, and return its loss on the validation rows."""
        try:
            configs[trial.number] = self._config_of(trial)
            model = self._made(configs[trial.number])
            model.fitted = fit(model.member, rows)
            own = of_trial(model)
        except NeuroDivergentError as error:
            errors.append(error)
            raise
        trial.set_user_attr("METRICS", own)
        plain = {name: value for name, value in configs[trial.number].items() if name not in ("loss", "valid_loss")}
        trial.set_user_attr("ALL_PARAMS", plain)
        return own["loss"]

    def _sampler(self) -> Any:
        """The sampler of Optuna for the search algorithm."""
        import optuna

        given, name = self.search_alg, type(self.search_alg).__name__
        if hasattr(given, "sample_relative"):
            return given
        if self.backend == "optuna":
            return optuna.samplers.TPESampler(seed=1)
        if given is None or name == "BasicVariantGenerator":
            return optuna.samplers.RandomSampler(seed=1)
        return optuna.samplers.TPESampler(seed=1)

    # On a dataset, as a model.

    def fit(self, dataset: TimeSeriesDataset, val_size: int = 0, test_size: int = 0, **ignored: Any) -> BaseAuto:
        """Search on a dataset without its last `test_size` rows, then train the best model on it."""
        refuse_unknown("fit", ignored, ("random_seed", "distributed_config"))
        seen = TimeSeriesDataset.trim_dataset(dataset, right_trim=test_size) if test_size else dataset
        model, rows = self.choose(lambda member, held: train(member, table_of(seen, member), held_out=held), val_size)
        model.fitted, model.test_size = fit_on(model.member, dataset, rows, test_size), test_size
        return self

    def predict(self, dataset: TimeSeriesDataset, **options: Any) -> Any:
        """The forecasts of the best model."""
        return self._best().predict(dataset, **options)

    def set_test_size(self, test_size: int) -> None:
        """How many rows at the end `predict` forecasts inside."""
        self._best().set_test_size(test_size)

    def get_test_size(self) -> int:
        """How many rows at the end `predict` forecasts inside."""
        return self._best().get_test_size()

    def _best(self) -> PeerModel:
        if self.model is None:
            raise NotFittedError(f"{self!r} has not searched yet. Call fit first")
        return self.model

    def __getattr__(self, name: str) -> Any:
        model = self.__dict__.get("model")
        if name.startswith("_") or model is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}", name=name, obj=self)
        return getattr(model, name)

    def __repr__(self) -> str:
        return self.alias or type(self).__name__


class _FirstValues:
    """A trial that suggests the first value of everything. It shows which arguments a configuration has."""

    number = 0
    params: Mapping[str, Any] = {}

    def suggest_categorical(self, name: str, choices: Any) -> Any:  # noqa: ARG002
        return list(choices)[0]  # noqa: RUF015

    def suggest_int(self, name: str, low: int, high: int, **_: Any) -> int:  # noqa: ARG002
        return low

    def suggest_float(self, name: str, low: float, high: float, **_: Any) -> float:  # noqa: ARG002
        return low

    suggest_uniform = suggest_loguniform = suggest_discrete_uniform = suggest_float

    def set_user_attr(self, key: str, value: Any) -> None:
        """Nothing is stored."""

    def should_prune(self) -> bool:
        return False


def optuna_config(config: Mapping[str, Any]) -> Callable[[Any], dict[str, Any]]:
    """A dictionary of domains as a function of a trial."""
    return lambda trial: tune.sampled(config, trial)


def space_of(model: str, h: int, backend: str, n_series: int | None) -> Any:
    """The default configuration of a model, in the form of the backend."""
    if backend not in BACKENDS:
        raise ConfigError(f"backend must be 'ray' or 'optuna', but got backend={backend!r}")
    config = default_config(model, h)
    return config if backend == "ray" else optuna_config(config | ({} if n_series is None else {"n_series": n_series}))
