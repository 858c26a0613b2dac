"""A model of neuralforecast: its arguments become a description and a training configuration of this library."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self

from torch import nn

from neuro_divergent.compat.neuralforecast.arguments import Checked, Entry, Field, Only, Unused
from neuro_divergent.compat.neuralforecast.errors import ArgumentError
from neuro_divergent.compat.neuralforecast.losses.pytorch import Accuracy, DistributionLoss, as_peer_loss
from neuro_divergent.compat.neuralforecast.members import Facts, Member
from neuro_divergent.compat.neuralforecast.single.network import NetworkFace
from neuro_divergent.compat.neuralforecast.table import MODELS, SHARED
from neuro_divergent.compat.neuralforecast.training import TRAINER, training_config, unused_arguments, warn_of
from neuro_divergent.core import registry
from neuro_divergent.core.errors import ConfigError, NotFittedError
from neuro_divergent.forecasting.model.model import Capabilities, Model
from neuro_divergent.training.config.training_config import TrainingConfig

if TYPE_CHECKING:
    from neuro_divergent.compat.neuralforecast.tsdataset import TimeSeriesDataset
    from neuro_divergent.forecasting.predict.forecaster import Forecaster

_LISTS = {"futr_exog_list": "future", "hist_exog_list": "historical", "stat_exog_list": "static"}
_KINDS = _LISTS | {"cat_exog_list": "categorical"}


class Arguments(dict[str, Any]):
    """Arguments by name, which are also attributes."""

    def __getattr__(self, name: str) -> Any:
        if name not in self:
            raise AttributeError(f"there is no argument named {name!r}")
        return self[name]


def refuse_unknown(method: str, given: Mapping[str, Any], known: tuple[str, ...]) -> None:
    """Refuse unknown arguments of a method. Known ones have no effect here."""
    for name in given:
        if name not in known:
            raise ConfigError(f"{method} has no argument {name!r}")


class PeerModel(NetworkFace):
    """A model with the arguments of neuralforecast. All arguments are attributes under their names."""

    entry: ClassVar[Entry]

    h: int
    input_size: int
    alias: str | None
    fitted: Forecaster | None = None
    """The result of the last fit."""
    test_size: int = 0

    def __init__(self, *positional: Any, **arguments: Any) -> None:
        name, entry = type(self).__name__, self.entry
        given, trainer = _read(name, entry, positional, arguments)
        own, given["loss"] = given["loss"], _loss(name, given["loss"])
        if isinstance(given["loss"], Accuracy):
            raise ConfigError(
                "a training loss needs a gradient, but Accuracy has none. Use it as valid_loss, or for evaluation"
            )
        self.__dict__.update(given)
        if isinstance(own, nn.Module):
            self.__dict__["loss"] = own
        self.trainer_kwargs = trainer
        self.arguments: dict[str, Any] = given | trainer | {"loss": self.__dict__["loss"]}
        """The arguments that the model was made with, shared ones and those of the trainer included."""
        if given.get("recurrent"):
            self.__dict__["RECURRENT"] = True
        cls = registry.resolve("model", name)
        assert issubclass(cls, Model)
        _check_lists(name, given, cls.capabilities, trainer)
        sizes = dict(given["categorical_cardinalities"] or {})
        for theirs in _LISTS:
            self.__dict__[theirs] = list(given[theirs] or ())
            self.__dict__[f"{theirs.removesuffix('_list')}_size"] = _size(given, theirs)
        if given["valid_loss"] is None:
            self.__dict__["valid_loss"] = self.__dict__["loss"]
        fields = _fields(name, entry, given)
        warn_of(name, _without_effect(entry, given, trainer))
        self.description: Model = cls(**fields)
        config = training_config(given, trainer)
        lists = {ours: tuple(given[theirs] or ()) for theirs, ours in _KINDS.items()}
        # A column known ahead is known for the past, too.
        lists["historical"] = tuple(column for column in lists["historical"] if column not in lists["future"])
        self._unused = unused_arguments(given)
        facts = Facts(
            given["loss"].outputs(), **lists, check_steps=given["val_check_steps"],
            pad=given["start_padding_enabled"], n_series=given.get("n_series"),
            cardinalities=tuple((name, sizes[name]) for name in given["cat_exog_list"] or ()),
            parameters=bool(getattr(given["loss"], "return_params", False)), untrained=given["max_steps"] == 0,
        )  # fmt: skip
        self.member = Member(self.description, config, facts)

    @property
    def hparams(self) -> Arguments:
        """The arguments with their values, by name or as attributes."""
        return Arguments({name: self.__dict__[name] for name in _defaults(self.entry) if name in self.__dict__})

    @property
    def train_trajectories(self) -> list[tuple[int, float]]:
        """(step, loss) of every training step of the last fit."""
        return [] if self.fitted is None else list(enumerate(self.fitted.history.step_loss))

    @property
    def valid_trajectories(self) -> list[tuple[int, float]]:
        """(step, loss) of every validation of the last fit, the steps counted from 1."""
        if self.fitted is None:
            return []
        history, each = self.fitted.history, self.fitted.config.steps_per_epoch
        total = len(history.step_loss)
        each = each if isinstance(each, int) else -(-total // max(1, len(history.epochs)))
        return [
            (min(int(record["epoch"]) * each, total), self._in_units(record))
            for record in history.epochs
            if "validation_loss" in record
        ]

    def warn(self) -> None:
        """Say which arguments of the optimizer and the scheduler have no effect."""
        for text in self.__dict__.get("_unused", ()):
            warnings.warn(text, UserWarning, stacklevel=3)

    def _in_units(self, record: Mapping[str, Any]) -> float:
        """The validation's loss in the units of the target where there is such a metric."""
        loss = self.__dict__.get("valid_loss")
        kind = getattr(getattr(loss, "description", None), "kind", "")
        return float(record.get(f"validation_{kind.lower()}", record["validation_loss"]))

    def fit(self, dataset: TimeSeriesDataset, val_size: int = 0, test_size: int = 0, **ignored: Any) -> PeerModel:
        """Train on a dataset without its last `test_size` rows; return the model itself."""
        from neuro_divergent.compat.neuralforecast.tsdataset import fit_on

        refuse_unknown("fit", ignored, ("random_seed", "distributed_config"))
        self.warn()
        self.fitted, self.test_size = fit_on(self.member, dataset, val_size, test_size), test_size
        return self

    def predict(
        self,
        dataset: TimeSeriesDataset,
        test_size: int | None = None,
        step_size: int = 1,
        h: int | None = None,
        **ignored: Any,
    ) -> Any:
        """Forecasts [series · windows · h, outputs]: after the dataset, or inside its last `test_size` rows."""
        from neuro_divergent.compat.neuralforecast.tsdataset import predict_on

        refuse_unknown("predict", ignored, ("random_seed", "quantiles", "explainer_config"))
        if self.fitted is None:
            raise NotFittedError(f"{self!r} is not trained yet. Call fit(dataset) first")
        rows = self.test_size if test_size is None else test_size
        return predict_on(self.fitted, self.member, dataset, rows, step_size, h)

    def decompose(self, dataset: TimeSeriesDataset, **ignored: Any) -> Any:
        """[series, parts, h] the parts that add up to the forecasts after a dataset; the window's level comes first."""
        from neuro_divergent.compat.neuralforecast.tsdataset import decompose_on

        refuse_unknown("decompose", ignored, ("step_size", "random_seed"))
        if self.fitted is None:
            raise NotFittedError(f"{self!r} is not trained yet. Call fit(dataset) first")
        return decompose_on(self.fitted, self.member, dataset)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model, trained or not, as one file; `load` of its class reads it."""
        from neuro_divergent.compat.neuralforecast.single.file import save

        save(self, path)

    def serialize(self) -> bytes:
        """The bytes that `save` writes."""
        from neuro_divergent.compat.neuralforecast.single.file import serialize

        return serialize(self)

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        *,
        map_location: Any = None,
        allow_pickle: bool = False,
        trust_remote: bool = False,
        **changes: Any,
    ) -> Self:
        """Read what `save` wrote; `changes` are arguments to replace. Pickles of another library are refused."""
        from neuro_divergent.compat.neuralforecast.single.file import load

        if allow_pickle:
            raise ConfigError("a pickle can run any code, so none is read, but got allow_pickle=True. Leave it out")
        model: Self = load(cls, path, changes, trust_remote=trust_remote, device=map_location)
        return model

    @classmethod
    def argument_names(cls) -> tuple[str, ...]:
        """The arguments that the model takes."""
        return (*_defaults(cls.entry), *TRAINER)

    def set_test_size(self, test_size: int) -> None:
        """How many rows at the end `predict` forecasts inside; 0 for the steps after the end."""
        self.test_size = test_size

    def get_test_size(self) -> int:
        """How many rows at the end `predict` forecasts inside."""
        return self.test_size

    def __repr__(self) -> str:
        return self.alias or type(self).__name__


def as_member(model: Any) -> Member:
    """A model of theirs, or a description of ours, with its training."""
    if isinstance(model, PeerModel) or isinstance(getattr(model, "member", None), Member):  # an Auto class
        return model.member  # type: ignore[no-any-return]
    if isinstance(model, Member):
        return model
    if isinstance(model, Model):
        loss = TrainingConfig().resolved(model.recipe(1000)).loss
        config = TrainingConfig(validation_split=None, early_stopping=None, loss=loss)
        return Member(model, config, Facts(as_peer_loss(loss).outputs()))
    raise ConfigError(f"models must be models such as NHITS(h=..., input_size=...), but got {model!r}")


def restored(
    cls: type[PeerModel], member: Member, fitted: Forecaster, arguments: Mapping[str, Any] | None = None
) -> PeerModel:
    """A model that was read from a file with its fitted state; without arguments it has only its lists and sizes."""
    if arguments is not None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = cls(**arguments)
        model.description, model.member, model.fitted = member.description, member, fitted
        return model
    model = cls.__new__(cls)
    description, facts = member.description, member.facts
    model.description, model.member, model.fitted = description, member, fitted
    model.__dict__ |= {name: getattr(description, name) for name in ("h", "input_size", "alias")}
    model.__dict__ |= {theirs: list(getattr(facts, ours)) for theirs, ours in _KINDS.items()}
    model.__dict__ |= {f"{name.removesuffix('_list')}_size": len(model.__dict__[name]) for name in _LISTS}
    return model


def model_class(name: str) -> type[PeerModel]:
    """The class of a model in the table."""
    entry, cls = MODELS[name], registry.resolve("model", name)
    can = cls.capabilities
    facts = {
        "MULTIVARIATE": can.multivariate, "RECURRENT": entry.recurrent and name == "DeepAR",
        "EXOGENOUS_FUTR": can.future, "EXOGENOUS_HIST": can.historical, "EXOGENOUS_STAT": can.static,
    }  # fmt: skip
    taken = ", ".join(entry.arguments) or "none"
    doc = f"{name}, as described in the table. Arguments besides the shared ones: {taken}."
    return type(name, (PeerModel,), {"entry": entry, "__doc__": doc, "__module__": MODELS_MODULE} | facts)


MODELS_MODULE = "neuro_divergent.compat.neuralforecast.models"


def _defaults(entry: Entry) -> dict[str, Any]:
    needed: dict[str, Any] = {"h": ..., "input_size": -1 if entry.recurrent else ...}
    if entry.multivariate:
        needed["n_series"] = ...
    return needed | SHARED | entry.shared | {name: item.default for name, item in entry.arguments.items()}


def _read(
    name: str, entry: Entry, positional: tuple[Any, ...], arguments: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """All arguments of the model with their values, and those of the trainer."""
    defaults = _defaults(entry)
    places = ("h", "input_size", *(("n_series",) if entry.multivariate else ()))
    if len(positional) > len(places):
        raise ConfigError(f"{name} takes {', '.join(places)} by position and everything else by name")
    given = dict(zip(places, positional, strict=False)) | dict(arguments)
    if "max_epochs" in given:
        raise ConfigError(f"a training is counted in steps, but got max_epochs={given['max_epochs']}. Use max_steps")
    trainer = {key: value for key, value in given.items() if key not in defaults and key in TRAINER}
    for key in given:
        if key not in defaults and key not in trainer:
            near = registry.closest(key, [*defaults, *TRAINER])
            hint = f"did you mean {' or '.join(near)}?" if near else f"it takes: {', '.join(defaults)}"
            raise ConfigError(f"{name} has no argument {key!r}; {hint}")
    values = defaults | {key: value for key, value in given.items() if key in defaults}
    missing = [key for key, value in values.items() if value is ...]
    if missing:
        raise ArgumentError(f"{name} needs {' and '.join(missing)}, but got no value")
    if values["input_size"] == -1 and entry.recurrent:
        values["input_size"] = 3 * values["h"]
    return values, trainer


def _loss(name: str, loss: Any) -> Any:
    return DistributionLoss("StudentT") if loss is None and name == "DeepAR" else as_peer_loss(loss)


def _fields(name: str, entry: Entry, given: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of our description."""
    fields: dict[str, Any] = {"h": given["h"], "input_size": given["input_size"], "alias": given["alias"]}
    fields["scaler"] = given["scaler_type"] or "identity"
    fields["sees_target"] = not given["exclude_insample_y"]
    # Their networks read no lags and no calendar, and forecast no difference to a naive forecast.
    fields |= {
        own: None for own in ("anchor", "lags", "calendar") if own in registry.resolve("model", name).model_fields
    }
    for key, argument in entry.arguments.items():
        value = given[key]
        if isinstance(argument, Only):
            argument.check(name, key, value)
        elif isinstance(argument, Checked):
            argument.check(given)
        elif isinstance(argument, Field):
            converted = argument.convert(value)
            if converted is not None:  # None: the model decides
                fields[argument.name] = converted
    return fields | {key: rule(given) for key, rule in entry.combined.items()}


def _without_effect(entry: Entry, given: Mapping[str, Any], trainer: Mapping[str, Any]) -> dict[str, str]:
    """Arguments whose effect differs here, and what they do."""
    found = {key: TRAINER[key] for key in trainer}
    found |= {
        key: TRAINER[key] for key in ("dataloader_kwargs", "step_size", "cat_emb_dim") if given[key] != SHARED[key]
    }
    for key, argument in entry.arguments.items():
        if isinstance(argument, Unused) and given[key] != argument.default:
            found[key] = "has no effect"
    return found


def _check_lists(name: str, given: Mapping[str, Any], can: Capabilities, trainer: Mapping[str, Any]) -> None:
    for theirs, ours in _KINDS.items():
        if given[theirs] and not getattr(can, ours):
            raise ConfigError(f"{name} takes no {ours} columns, but got {theirs}={list(given[theirs])}. Leave them out")
    if given["exclude_insample_y"] and not (can.future or can.historical or can.static):
        raise ConfigError(f"{name} uses only the target's past, but got exclude_insample_y=True. Leave it out")
    if can.multivariate and (given_devices(trainer) > 1 or (trainer.get("num_nodes") or 1) > 1):
        raise ConfigError(
            f"{name} needs all series in every batch, which a split over devices would not have. Single-device "
            "execution is the supported configuration: set devices=1 and num_nodes=1"
        )
    listed = {column for theirs in _LISTS for column in given[theirs] or ()}
    unknown = [column for column in given["cat_exog_list"] or () if column not in listed]
    if unknown:
        raise ConfigError(
            f"a column of cat_exog_list has another role too and must also be listed there, but {unknown} is not"
        )
    undeclared = [column for column in given["cat_exog_list"] or () if column not in (given[_SIZES] or {})]
    if undeclared:
        raise ConfigError(f"{_SIZES} must give the number of values of each categorical column, but lacks {undeclared}")


_SIZES = "categorical_cardinalities"


def given_devices(trainer: Mapping[str, Any]) -> int:
    """How many devices the arguments of a trainer ask for, if they name a number."""
    devices = trainer.get("devices")
    if isinstance(devices, list | tuple):
        return len(devices)
    return int(str(devices)) if str(devices).isdigit() else 1


def _size(given: Mapping[str, Any], theirs: str) -> int:
    """The numbers that a list of columns becomes: one for a column, those of its embedding for a categorical one."""
    return sum(_width(given, name) if name in (given["cat_exog_list"] or ()) else 1 for name in given[theirs] or ())


def _width(given: Mapping[str, Any], name: str) -> int:
    """The numbers that a category becomes: cat_emb_dim, or what its rule says; at most 50."""
    asked, count = given["cat_emb_dim"], int(given[_SIZES][name])
    if isinstance(asked, int):
        return asked
    rules = {"fastai": math.ceil(1.6 * count**0.56), "sqrt": math.ceil(count**0.5), "half": (count + 1) // 2}
    if asked not in rules:
        raise ConfigError(f"cat_emb_dim must be a whole number or one of {', '.join(rules)}, but got {asked!r}")
    return int(min(50, rules[asked]))
