"""The `Auto*` classes: models whose arguments are searched. neuralforecast's `auto` has the models themselves, too."""

from __future__ import annotations

from typing import Any

from neuro_divergent.compat.neuralforecast import models
from neuro_divergent.compat.neuralforecast.common._auto_spaces import SPACES
from neuro_divergent.compat.neuralforecast.common._base_auto import BaseAuto, OptunaOptions, RayOptions, space_of
from neuro_divergent.core.errors import ConfigError, UnknownNameError
from neuro_divergent.core.registry import closest


class AutoModel(BaseAuto):
    """The base of the classes of the table: one model each."""

    _model: str
    default_config: dict[str, Any]

    def __init__(self, h: int, *arguments: Any, **options: Any) -> None:
        cls, together = getattr(models, self._model), "n_series" in self.default_config
        names = (*(("n_series",) if together else ()), *_ORDER)
        given = dict(zip(names, arguments, strict=False))
        twice = given.keys() & options.keys()
        if twice or len(arguments) > len(names):
            raise TypeError(f"{type(self).__name__} got an argument twice, or too many: {sorted(twice)}")
        given |= options
        count = given.pop("n_series", None)
        backend = given.get("backend", "ray")
        if together and count is None and given.get("config") is None:
            raise ConfigError(f"{type(self).__name__} needs n_series, the number of series, but got no value")
        if given.get("config") is None:
            given["config"] = self.get_default_config(h, backend, count)
        if count is not None:
            given["config"] = _with(given["config"], n_series=count)
        super().__init__(cls, h, **given)

    @classmethod
    def get_default_config(cls, h: int, backend: str, n_series: int | None = None) -> Any:
        """The default search space: a dictionary of domains for "ray", a function of a trial for "optuna"."""
        return space_of(cls._model, h, backend, n_series)


_ORDER = (
    "loss", "valid_loss", "config", "search_alg", "num_samples", "time_budget", "refit_with_val", "cpus", "gpus",
    "verbose", "alias", "backend", "callbacks", "ray_options", "optuna_options",
)  # fmt: skip
"""The arguments by position, after the horizon."""


def _with(config: Any, **more: Any) -> Any:
    """A configuration with further values."""
    return (lambda trial: config(trial) | more) if callable(config) else dict(config) | more


class AutoHINT(BaseAuto):
    """Searches the arguments of a model of a hierarchy, and its reconciliation, which `config` must have.

    Args:
        cls_model: the class of the model, such as NHITS.
        h: the horizon.
        loss: the loss of every trial.
        valid_loss: what scores a trial.
        S: the summing matrix.
        config: the configuration, with `reconciliation`.
        options: the arguments of the other `Auto*` classes.
    """

    def __init__(self, cls_model: Any, h: int, loss: Any, valid_loss: Any, S: Any, config: Any, **options: Any) -> None:
        def made(*, reconciliation: str, **arguments: Any) -> Any:
            return models.HINT(h=h, S=S, model=cls_model(**arguments), reconciliation=reconciliation)

        super().__init__(made, h, loss, valid_loss, config, **options)


def _class(model: str) -> type[AutoModel]:
    doc = f"Searches the arguments of {model}; see `BaseAuto`."
    facts = {"_model": model, "default_config": dict(SPACES[model]), "__doc__": doc, "__module__": __name__}
    return type(f"Auto{model}", (AutoModel,), facts)


_CLASSES: dict[str, type[BaseAuto]] = {f"Auto{model}": _class(model) for model in SPACES} | {"AutoHINT": AutoHINT}
globals().update(_CLASSES)

__all__ = [*sorted(_CLASSES), "BaseAuto", "OptunaOptions", "RayOptions"]


def __getattr__(name: str) -> Any:
    if name in models.__all__:
        return getattr(models, name)
    if name.startswith("__"):
        raise AttributeError(name)
    if name == "AutoSOFTSSharp":
        raise UnknownNameError(
            "there is no AutoSOFTSSharp: its model has no counterpart here; AutoSOFTS is the nearest"
        )
    near = closest(name, __all__)
    raise UnknownNameError(f"there is no {name!r}; did you mean {' or '.join(near or ['AutoNHITS'])}?")
