"""Which field of a model or of a training a name of a search space reaches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, NamedTuple

from pydantic import ConfigDict, TypeAdapter, ValidationError

from neuro_divergent.core import registry
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.space.options import Option
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.training.config.misplaced import WORDS
from neuro_divergent.training.config.training_config import Regularization, TrainingConfig

PARENTS = (
    "optimizer", "schedule", "loss", "gradient_clipping", "early_stopping", "regularization", "averaging",
    "augmentation", "curriculum", "teacher_forcing", "gradient_noise",
)  # fmt: skip
"""Fields of a training that hold a description, whose own fields a space may vary."""

SWITCHED_ON: Mapping[str, type[Description]] = {"regularization": Regularization}
"""Descriptions that are off by default, and are made when a space varies one of their fields."""

MODEL_WORDS = {"transformer": "VanillaTransformer", "temporalfusiontransformer": "TFT"}
"""Other names of models, in the form that `registry.normalise` returns."""

_WORDS = {
    "model_type": "model",
    "model_name": "model",
    "architecture": "model",
    "scheduler": "schedule",
    "lr_scheduler": "schedule",
    "max_learning_rate": "learning_rate",
    "optimizer_name": "optimizer",
}

_TASK = "it decides what is forecast or scored, and scores of different tasks cannot be compared"
_RUNNING = "it does not change what a network learns"
NOT_SEARCHED = (
    {"seed": "the seed is averaged, not searched: a lucky seed is not a better model"}
    | dict.fromkeys(
        ("h", "validation_split", "split_by", "validation_loss", "metrics", "refit", "refit_on_all", "sees_target"),
        _TASK,
    )
    | dict.fromkeys(
        (
            "alias", "device", "checkpoints", "callbacks", "log_every", "progress", "num_workers", "threads",
            "deterministic", "fault_tolerance", "strategy", "compile", "activation_checkpointing", "gradient_method",
        ),
        _RUNNING,
    )
)  # fmt: skip
"""Fields that a space cannot vary, and why."""


class Target(NamedTuple):
    """A field: `owner` is "model", "training", or the field of the training that holds its description."""

    owner: str
    field: str

    def __str__(self) -> str:
        return f"{self.owner}.{self.field}"


def canonical(name: str) -> str:
    """Our word for a name, such as learning_rate for lr. A path keeps its parts.

    >>> canonical("lr"), canonical("model_type"), canonical("optimizer.lr")
    ('learning_rate', 'model', 'optimizer.learning_rate')
    """
    *path, last = name.split(".")
    path = [_word(part) for part in path]
    ours = _word(last)
    return ".".join([*path, last if ours in path else ours])  # early_stopping.patience: patience alone means both


def _word(name: str) -> str:
    home = WORDS.get(name)
    field = None if home is None or not home.write.endswith("={}") else home.write.removesuffix("={}")
    return _WORDS.get(name) or (field if field is not None and field.isidentifier() else name)


def model_class(kind: str) -> type[Model]:
    """The class of a model by its name, also by the common name of a paper ("Transformer")."""
    found: type[Model] = registry.resolve("model", MODEL_WORDS.get(registry.normalise(kind), kind))
    return found


def field_of(cls: type[Description] | None, name: str) -> str | None:
    """The field that a name means in this class; None if the class lacks it. `layers` also means encoder_layers."""
    if cls is None:
        return None
    if name == "layers" and "layers" not in cls.model_fields and "encoder_layers" in cls.model_fields:
        return "encoder_layers"
    return name if name in cls.model_fields else None


def candidates(
    name: str, model: type[Description] | None, parents: Mapping[str, type[Description] | None]
) -> list[Target]:
    """The fields that a name reaches: several if it is ambiguous, none if it is unknown.

    Args:
        name: a short name or a path.
        model: the class of the model.
        parents: the classes of the training's descriptions, by field.
    """
    *path, last = canonical(name).split(".")
    path = path[1:] if path[:1] == ["training"] and len(path) > 1 else path
    if path:
        owner = ".".join(path)
        cls = {"model": model, "training": TrainingConfig, **parents}.get(owner)
        found = field_of(cls, last)
        return [] if found is None else [_same_rate(Target(owner, found))]
    own = [("model", model), ("training", TrainingConfig)]
    direct = [Target(owner, found) for owner, cls in own if (found := field_of(cls, last)) is not None]
    return direct or [Target(owner, last) for owner, cls in parents.items() if field_of(cls, last) is not None]


def _same_rate(target: Target) -> Target:
    return Target("training", "learning_rate") if target == ("optimizer", "learning_rate") else target


def class_of_option(owner: str, value: Any) -> type[Description] | None:
    """The class of an option of a choice of models, optimizers, schedules, ...; None if it is no description."""
    if isinstance(value, Description) and not isinstance(value, Option):
        return type(value)
    if owner == "model":
        return model_class(value.of if isinstance(value, Option) else str(value))
    if isinstance(value, Option):
        first = {name: item.grid(2)[0] if hasattr(item, "grid") else item for name, item in value.fields.items()}
        value = {"kind": value.of} | first
    built = getattr(TrainingConfig(**{owner: value}), owner)
    return type(built) if isinstance(built, Description) else None


@cache
def _reader(cls: type[Description], field: str) -> TypeAdapter[Any]:
    annotation: Any = cls.model_fields[field].rebuild_annotation()
    lenient = ConfigDict(arbitrary_types_allowed=True)
    return TypeAdapter(annotation, config=lenient)


def check_value(cls: type[Description], field: str, value: Any, name: str) -> None:
    """Refuse a value that the field can never have."""
    try:
        _reader(cls, field).validate_python(value)
    except (ValidationError, ConfigError) as error:
        reason = error.errors(include_url=False)[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise ConfigError(f"{name} varies {field} of {cls.kind}, which does not take {value!r}: {reason}") from None


def unknown_name(name: str, known: Iterable[str], what: str) -> ConfigError:
    """The error for a name that reaches nothing."""
    near = registry.closest(canonical(name).split(".")[-1], sorted(set(known)))
    hint = f"did you mean {' or '.join(near)}?" if near else f"it may vary: {', '.join(sorted(set(known)))}."
    return ConfigError(f"the space varies {name!r}, which is no field of {what}; {hint}")


def refuse_unsearchable(name: str) -> None:
    """Refuse a field that a search must not vary."""
    reason = NOT_SEARCHED.get(canonical(name).split(".")[-1])
    if reason is not None:
        raise ConfigError(f"a space cannot vary {name!r}: {reason}")
