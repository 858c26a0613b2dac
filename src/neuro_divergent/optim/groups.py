"""Parameter groups: learning rate and weight decay by parameter name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple

from pydantic import Field, model_validator
from torch import nn

from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.field_types import Takes
from neuro_divergent.optim.patterns import matching, patterns_of

_SPARED = (
    nn.LayerNorm,
    nn.GroupNorm,
    nn.RMSNorm,
    nn.modules.batchnorm._NormBase,
    nn.Embedding,
    nn.EmbeddingBag,
)


class ParameterGroup(Description):
    """Learning rate and weight decay of parameters whose names match a pattern. The first matching group applies."""

    kind: ClassVar[str] = "ParameterGroup"

    pattern: Takes[str | tuple[str, ...], str | Sequence[str]]
    """Shell-style pattern, or several, of parameter names such as "encoder.*"."""
    learning_rate: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Learning rate of these parameters; None uses the optimizer's."""
    rate_factor: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    """Multiplier of the optimizer's learning rate for these parameters; instead of `learning_rate`."""
    weight_decay: float | None = Field(default=None, ge=0, allow_inf_nan=False)
    """Weight decay of these parameters; None uses the optimizer's."""
    decay_all: bool = False
    """Whether matching biases, normalisations and embeddings are decayed, too. The optimizer's `decay_all` does so in
    every group."""

    @model_validator(mode="after")
    def _one_rate(self) -> ParameterGroup:
        if self.learning_rate is not None and self.rate_factor is not None:
            raise ConfigError(
                f"a group takes either learning_rate or rate_factor, but got learning_rate={self.learning_rate} and "
                f"rate_factor={self.rate_factor}. Leave one out."
            )
        return self

    def rate(self, base: float) -> float:
        """The learning rate of these parameters if the optimizer's is `base`."""
        if self.learning_rate is not None:
            return self.learning_rate
        return base * self.rate_factor if self.rate_factor is not None else base


class _Setting(NamedTuple):
    rate: float
    decay: float


def undecayed_names(module: nn.Module) -> set[str]:
    """Names of the parameters without weight decay by default: biases, normalisations, embeddings, 1-D parameters.

    >>> sorted(undecayed_names(nn.Sequential(nn.Linear(2, 3), nn.LayerNorm(3))))
    ['0.bias', '1.bias', '1.weight']
    """
    exempt = set()
    for prefix, owner in module.named_modules(remove_duplicate=False):
        whole = isinstance(owner, _SPARED) or type(owner).__name__.endswith("Norm")
        for name, parameter in owner.named_parameters(recurse=False):
            if whole or parameter.ndim < 2 or name == "bias" or name.startswith("bias_"):
                exempt.add(f"{prefix}.{name}" if prefix else name)
    return exempt


def parameter_groups(
    module: nn.Module,
    learning_rate: float,
    weight_decay: float,
    groups: tuple[ParameterGroup, ...] = (),
    decay_all: bool = False,
) -> list[dict[str, Any]]:
    """The trainable parameters as torch's groups, each with "names" beside "params" and its "initial_lr"."""
    everything = dict(module.named_parameters())
    trainable = {name: parameter for name, parameter in everything.items() if parameter.requires_grad}
    if not trainable:
        raise ConfigError(
            f"an optimizer needs a trainable parameter, but got {len(everything)} parameters, none of them trainable. "
            "Unfreeze some, or train a module that has parameters."
        )
    exempt = set() if decay_all else undecayed_names(module)
    settings = {name: _Setting(learning_rate, 0.0 if name in exempt else weight_decay) for name in trainable}
    for group in reversed(groups):
        spared = set() if group.decay_all else exempt
        base = {name: _Setting(learning_rate, 0.0 if name in spared else weight_decay) for name in trainable}
        settings |= _settings_of(group, list(everything), spared, base)
    return _collect(trainable, settings)


def _settings_of(
    group: ParameterGroup,
    names: list[str],
    spared: set[str],
    base: dict[str, _Setting],
) -> dict[str, _Setting]:
    """The settings of a group for its trainable parameters; `base` has the optimizer's values for unset fields."""
    found = [name for pattern in patterns_of(group.pattern) for name in matching(names, pattern)]
    if group.weight_decay and spared.issuperset(found):
        raise ConfigError(
            f"biases, normalisations and embeddings are not decayed by default, but got a group with "
            f"pattern={group.pattern!r} and weight_decay={group.weight_decay} that matches only such parameters. "
            "Set decay_all=True in the group to decay them."
        )
    chosen = {}
    for name in (name for name in found if name in base):
        rate, decay = base[name]
        if group.weight_decay is not None:
            decay = 0.0 if name in spared else group.weight_decay
        chosen[name] = _Setting(group.rate(rate), decay)
    return chosen


def _collect(trainable: dict[str, nn.Parameter], settings: dict[str, _Setting]) -> list[dict[str, Any]]:
    collected: dict[_Setting, dict[str, Any]] = {}
    for name, parameter in trainable.items():
        setting = settings[name]
        fresh = {"params": [], "names": [], "lr": setting.rate, "weight_decay": setting.decay}
        group = collected.setdefault(setting, fresh | {"initial_lr": setting.rate})
        group["params"].append(parameter)
        group["names"].append(name)
    return list(collected.values())
