"""Flags that several commands share, and how flags, run file and --set become descriptions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from neuro_divergent.cli.request.completers import (
    complete_device,
    complete_loss,
    complete_metric,
    complete_model,
    complete_setting,
)
from neuro_divergent.core.errors import ConfigError

if TYPE_CHECKING:
    from neuro_divergent.forecasting.model.model import Model
    from neuro_divergent.training.config.training_config import TrainingConfig

Names = Annotated[tuple[str, ...], Parameter(negative="", show_default=False)]
Settings = Annotated[tuple[str, ...], Parameter(negative="", show_default=False, completer=complete_setting)]
ModelName = Annotated[str | None, Parameter(completer=complete_model)]
ModelNames = Annotated[str, Parameter(completer=complete_model)]
MetricNames = Annotated[str | None, Parameter(completer=complete_metric)]
MetricName = MetricNames
Sections = dict[str, dict[str, Any]]
PLAIN_TEXT = ("separator", "thousands", "time_format")
"""Data fields whose value is a single character: it is used as typed, not parsed as YAML."""


@Parameter(name="*", group="Table")
@dataclass(frozen=True, kw_only=True)
class Columns:
    """The roles of columns."""

    time: str | None = None
    """The column of time stamps, or several such as year,month or date,hour. Default: `ds`."""
    target: str | None = None
    """The column to forecast. Default: `y`."""
    id: str | None = None
    """The column that names the series, or several such as store,product. Default: `unique_id`; a table without it is
    one series."""
    wide: Annotated[bool, Parameter(negative="")] = False
    """Each column except the time is a series."""
    freq: str | None = None
    """The time between two rows, such as 1h, 1d, 1bd, 1mo. Default: inferred."""
    future: Names = ()
    """Columns known ahead, such as price,holiday."""
    historical: Names = ()
    """Columns that are known only for the past."""
    static: Names = ()
    """Columns with one value per series."""
    categorical: Names = ()
    """Columns whose values are categories instead of numbers."""
    features: Names = ()
    """Columns to compute, such as dayofweek,lag:7,fourier:24:3."""
    lower: str | None = None
    """The smallest value of the target: no forecast is below it. Default: 0 if the target is a count; none for no
    limit."""
    upper: str | None = None
    """The largest value of the target: no forecast is above it. Default: none."""
    integer: Annotated[bool, Parameter(negative="")] = False
    """The target has whole numbers: forecasts are rounded."""

    def fields(self) -> dict[str, Any]:
        """The given columns, under the field names of `DataSchema`."""
        keys, times = split((self.id or "",)), split((self.time or "",))
        named: dict[str, Any] = {"time_col": self.time, "target_col": self.target, "freq": self.freq, "wide": self.wide}
        named["time_col"] = list(times) if len(times) > 1 else self.time
        named["id_col"] = list(keys) if len(keys) > 1 else self.id
        lists = ("future", "historical", "static", "categorical", "features")
        several = {name: list(split(getattr(self, name))) for name in lists}
        named["integer"] = self.integer
        limits = {name: _limit(name, getattr(self, name)) for name in ("lower", "upper") if getattr(self, name)}
        return {name: value for name, value in (named | several).items() if value} | limits


def _limit(name: str, text: str) -> float | str | None:
    """A limit of the target: a number, or none for no limit."""
    if text.lower() in ("none", "null", "auto"):
        return "auto" if text.lower() == "auto" else None
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--{name} takes a number or none, but got {text!r}") from None


@Parameter(name="*", group="Training")
@dataclass(frozen=True, kw_only=True)
class Training:
    """The most used fields of a training. --set reaches all of them."""

    max_epochs: int | None = None
    """Maximum number of epochs. Default: from the model's recipe."""
    learning_rate: float | None = None
    """The learning rate. Default: from the model's recipe."""
    batch_size: int | None = None
    """Windows per step. Default: from the model's recipe."""
    loss: Annotated[str | None, Parameter(completer=complete_loss)] = None
    """The loss to minimise; `neuro-divergent losses` lists them."""
    level: str | None = None
    """Prediction intervals in percent, such as 80,95. Trains with MQLoss unless the loss already has intervals."""
    point: Literal["mean", "median"] | None = None
    """The point forecast: the mean or the median of the forecast distribution. Default: the median with --level, the
    mean of a distribution."""
    seed: int | None = None
    """Seed of every random draw. The same seed gives the same bits."""
    device: Annotated[str | None, Parameter(completer=complete_device)] = None
    """auto, cpu, cuda, cuda:N or mps."""
    processes: int | None = None
    """Train in so many processes. --set training.distributed.exact=true gives the same bits for 1, 2, 4 or 8."""

    def fields(self) -> dict[str, Any]:
        """The given settings, under the field names of `TrainingConfig`."""
        plain = ("max_epochs", "batch_size", "loss", "seed", "device")
        given = {name: getattr(self, name) for name in plain if getattr(self, name) is not None}
        if self.processes is not None:
            given["distributed"] = {"kind": "Distributed", "processes": self.processes}
        if self.learning_rate is not None:
            given["optimizer"] = {"learning_rate": self.learning_rate}
        if self.point is not None:
            given["loss"] = ({} if self.loss is None else {"kind": self.loss}) | {"point": self.point}
        return given


def split(names: Sequence[str]) -> tuple[str, ...]:
    """Names that were given separately or with commas.

    >>> split(("price,holiday", "promo"))
    ('price', 'holiday', 'promo')
    """
    return tuple(part.strip() for name in names for part in name.split(",") if part.strip())


def levels(text: str | None) -> list[float] | None:
    """Percentages from text such as 80,95."""
    if text is None:
        return None
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError:
        raise ConfigError(f"--level takes percentages such as 80,95, but got {text!r}") from None
    if all(0 < level < 1 for level in found):
        meant = ",".join(f"{100 * level:g}" for level in found)
        raise ConfigError(
            f"--level takes percentages such as 80,95, but got {text!r}. Use --level {meant} if you meant that"
        )
    return found


def sections(config: Path | None, flags: Sections, settings: Sequence[str], more: Sequence[str] = ()) -> Sections:
    """The fields of the run file, overridden by flags, overridden by --set. `more` are further sections."""
    from neuro_divergent.core.yaml import parse_yaml

    fields: Sections = {name: {} for name in ("data", "model", "training", *more)}
    if config is not None:
        for section, content in _run_file(config).items():
            if section == "search" and section not in more:
                continue  # of another command
            if section not in fields or not isinstance(content, dict | None):
                raise ConfigError(f"a run file has the sections data, model and training, but {config} has {section!r}")
            fields[section] = dict(content or {})
    for section, given in flags.items():
        for name, value in given.items():
            _put(fields[section], [name], value)
    for setting in settings:
        path, equals, value = setting.partition("=")
        section, *names = path.strip().split(".")
        if not equals or not names or section not in fields:
            raise ConfigError(
                f"--set takes model.FIELD=VALUE or training.FIELD=VALUE (or data.FIELD=VALUE), but got {setting!r}"
            )
        if section == "data" and names[0] in PLAIN_TEXT and not (len(value) > 1 and value[0] == value[-1] == '"'):
            _put(fields[section], names, {"tab": "\t", "\\t": "\t", "space": " "}.get(value, value))
            continue
        try:
            _put(fields[section], names, parse_yaml(value))
        except ConfigError:
            _put(fields[section], names, value)
    return fields


def _run_file(config: Path) -> Mapping[str, Any]:
    return yaml_file(config, "the run file")


def yaml_file(config: Path, what: str) -> Mapping[str, Any]:
    """The object in a YAML or JSON file of the user's."""
    from neuro_divergent.core.yaml import MAX_YAML_BYTES, parse_yaml

    try:
        with open(config, encoding="utf-8") as file:  # it may be a pipe
            read = parse_yaml(file.read(MAX_YAML_BYTES + 1), f"{what} {config}")
    except OSError as error:
        raise ConfigError(f"{what} {config} could not be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{what} {config} must be YAML or JSON, but is not: {error}") from None
    if not isinstance(read or {}, dict):
        raise ConfigError(f"{what} {config} must have the sections data, model and training, but has none")
    return read or {}


def _put(place: dict[str, Any], names: list[str], value: Any) -> None:
    """Set a field by its path. A description given by its kind ("adamw") is combined with fields that have no kind."""
    for name in names[:-1]:
        inner = _opened(place.get(name))
        if inner is None or inner == "auto":
            inner = {}
        if not isinstance(inner, dict):
            got = f"{'.'.join(names)} is set inside of {name!r}, a plain value"
            raise ConfigError(f"only a description has fields, but {got}")
        place[name] = inner
        place = inner
    known = place.get(names[-1])
    if isinstance(value, dict) and "kind" not in value:
        known = _opened(known)
    elif isinstance(known, dict) and "kind" not in known:
        value = _opened(value)
    if isinstance(value, dict) and isinstance(known, dict):
        place[names[-1]] = known | value
    else:
        place[names[-1]] = value


def _opened(value: Any) -> Any:
    """A description given only by its name ("adamw") as a dictionary; any other value unchanged."""
    return {"kind": value} if isinstance(value, str) and value != "auto" else value


def describe(fields: Sections) -> Model:
    """The model that the fields describe. Horizon and lookback window must be among them."""
    from neuro_divergent.core import registry
    from neuro_divergent.forecasting.model.model import Model

    wanted = {"kind": "nhits"} | fields["model"]
    registry.resolve("model", str(wanted["kind"]))
    return Model.from_dict(wanted)


def train_config(fields: Sections, model: Model, level: str | None, directory: Path | None) -> TrainingConfig:
    """The training configuration of the fields. A value without a kind gets the kind of the model's recipe."""
    from neuro_divergent.losses import Loss
    from neuro_divergent.training.config.training_config import TrainingConfig

    given = dict(fields["training"])
    recipe = model.recipe(1)
    for name in ("optimizer", "schedule"):
        if isinstance(given.get(name), dict) and "kind" not in given[name]:
            given[name] = getattr(recipe, name).to_dict() | given[name]
    loss = given.get("loss")
    if isinstance(loss, dict) and "kind" not in loss and level is None:
        own = recipe.loss
        if not (isinstance(own, Loss) and own.probabilistic):
            raise ConfigError(
                f"--point chooses the mean or the median of a distribution, but {model.kind} is trained for a point. "
                "Give --level 80,95, or --loss DistributionLoss"
            )
        given["loss"] = own.to_dict() | loss
    if level is not None:
        given["loss"] = _loss_with_intervals(given.get("loss"), levels(level) or [])
    if directory is not None:
        kept = given.get("checkpoints", {})
        if isinstance(kept, dict):
            given["checkpoints"] = {"kind": "Checkpoints", "directory": str(directory)} | kept
    return TrainingConfig.from_dict(given)


def changes(config: TrainingConfig, flags: Sections, settings: Sequence[str]) -> dict[str, Any]:
    """Changes to a resumed run, from flags and --set: there a person makes them on purpose.

    The run file does not count: it stays beside the run and may have been edited for the next run.
    """
    from neuro_divergent.training.runs.resume import CHANGEABLE

    typed = sections(None, flags, settings)["training"]
    return {name: getattr(config, name) for name in typed if name in CHANGEABLE}


def _loss_with_intervals(loss: Any, level: list[float]) -> Any:
    """MQLoss with these levels, or the given loss if it has intervals."""
    from neuro_divergent.losses import Loss
    from neuro_divergent.losses.probability_levels import Levelled

    if loss in (None, "auto"):
        return {"kind": "MQLoss", "level": level}
    if isinstance(loss, dict) and "kind" not in loss:
        return {"kind": "MQLoss", "level": level} | loss
    described = Loss.from_dict({"kind": loss} if isinstance(loss, str) else loss)
    if isinstance(described, Levelled):
        return described.to_dict() | {"level": level, "quantiles": None}
    if not described.probabilistic:
        raise ConfigError(
            f"--level needs a loss with intervals, but the loss {described.kind} forecasts a point. "
            "Leave --loss out (MQLoss is used then), or take --loss DistributionLoss"
        )
    return described.to_dict()
