"""From a module, a task and sources to a finished run."""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn

from neuro_divergent.core.errors import Advice, ConfigError, DeviceError
from neuro_divergent.data.windows.samplers import Sequential, Shuffled
from neuro_divergent.metrics.base import metric_name
from neuro_divergent.optim import (
    CustomSchedule,
    Optimizer,
    ReduceOnPlateau,
    Schedule,
    ScheduleContext,
    ScheduleFreeAdamW,
    freeze,
)
from neuro_divergent.optim.schedules import checked_factor
from neuro_divergent.training.arrays import Rows
from neuro_divergent.training.callbacks.base import Callback
from neuro_divergent.training.config.training_config import EarlyStopping, TrainingConfig
from neuro_divergent.training.runs.resume import Resume
from neuro_divergent.training.state.precision import Precision
from neuro_divergent.training.state.state import TrainState
from neuro_divergent.training.state.task import Source, Task
from neuro_divergent.training.step.eager import Eager
from neuro_divergent.training.step.strategy import Strategy
from neuro_divergent.training.training_run import TrainingRun

log = logging.getLogger(__name__)


def rows_identity(parts: Mapping[str, Rows | None]) -> dict[str, Any]:
    """The number of rows of each part, and a hash of all values. A resume compares them."""
    digest = hashlib.sha256()
    facts: dict[str, Any] = {}
    for name, rows in parts.items():
        facts[f"{name}_rows"] = 0 if rows is None else rows.size
        for tensor in _tensors(rows):
            if tensor is not None:
                digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
                digest.update(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().data)
    return facts | {"fingerprint": digest.hexdigest()}


def _tensors(rows: Rows | None) -> Iterator[Tensor | None]:
    for part in rows or ():
        if isinstance(part, dict):
            yield from (part[name] for name in sorted(part))
        else:
            yield part


def module_identity(module: nn.Module) -> dict[str, str]:
    """Class and settings of each submodule by name; "" is the module itself. A resume compares them, because
    parameters alone do not distinguish ReLU from Tanh.

    >>> module_identity(nn.Sequential(nn.ReLU(), nn.Dropout(0.5)))
    {'': 'Sequential()', '0': 'ReLU()', '1': 'Dropout(p=0.5, inplace=False)'}
    """
    texts = {name: f"{type(part).__name__}({part.extra_repr()})" for name, part in module.named_modules()}
    # The memory address of a function differs between processes.
    return {name: re.sub(r" at 0x[0-9a-fA-F]+", "", text) for name, text in texts.items()}


def effective_batch(config: TrainingConfig) -> int:
    """Windows or rows per optimizer step."""
    assert config.batch_size != "auto"
    return config.batch_size * config.accumulate_gradients


def training_sampler(config: TrainingConfig, count: int) -> Shuffled | Sequential:
    """The sampler that sets the order of windows or rows."""
    size = effective_batch(config)
    if config.shuffle:
        return Shuffled(n=count, batch_size=size, seed=config.seed, drop_last=config.drop_last)
    return Sequential(n=count, batch_size=size, drop_last=config.drop_last)


def prepare(
    module: nn.Module,
    config: TrainingConfig,
    source: Source,
    validation_source: Source | None,
    precision: Precision,
) -> TrainState:
    """The state of a run before its first step."""
    config = _settled(config, validation_source is not None)
    module = precision.place(module)
    _check_half_precision(module, precision)
    freeze(module, config.freeze)
    if not any(parameter.requires_grad for parameter in module.parameters()):
        raise ConfigError(
            "a training needs at least one parameter that is not frozen, but the module has none. Unfreeze some"
        )
    assert isinstance(config.optimizer, Optimizer)
    chosen = config.strategy or config.distributed
    strategy: Strategy = Eager() if chosen is None else chosen.build()
    refused = strategy.refuses(config, module)
    if refused is not None:
        raise ConfigError(
            f"the strategy must fit the training, but {type(strategy).__name__} cannot be used here: {refused}"
        )
    module, optimizer = strategy.prepare(module, config.optimizer.build)
    by_epochs = None if config.max_epochs is None else int(config.max_epochs) * source.steps_per_epoch
    total = min(count for count in (by_epochs, config.max_steps) if count is not None)
    schedule = config.schedule
    _warn_of_warmup(config, total, source.steps_per_epoch)
    return TrainState(
        config=config,
        module=module,
        optimizer=optimizer,
        precision=precision,
        source=strategy.source(source, config),
        validation_source=validation_source,
        total_steps=total,
        strategy=strategy,
        averager=None if config.averaging is None else config.averaging.build(module, total_steps=total),
        plateau=schedule.initial() if isinstance(schedule, ReduceOnPlateau) else None,
    )


def _check_half_precision(module: nn.Module, precision: Precision) -> None:
    """Raise if fp16 on a CPU has no kernel for a layer; otherwise warn that it is slow."""
    if not precision.name.startswith("fp16") or precision.device.type != "cpu":
        return
    if any(isinstance(part, nn.LSTM) for part in module.modules()):
        raise DeviceError(
            f"precision={precision.name!r} on a CPU cannot compute LSTM layers (oneDNN has none in fp16), but the "
            "model has some. Use precision='bf16' or 'float32', or a GPU",
            advice=[Advice("training.precision", "bf16")],
        )
    log.warning(
        "precision=%r is slower than float32 on a CPU, often ten times. Use precision='bf16' or precision='float32'",
        precision.name,
        extra={"advice": [Advice("training.precision", "bf16"), Advice("training.precision", "float32")]},
    )


def _warn_of_warmup(config: TrainingConfig, total: int, steps_per_epoch: int) -> None:
    """Warn if the run ends before its warm-up ends."""
    optimizer, schedule = config.optimizer, config.schedule
    if isinstance(optimizer, ScheduleFreeAdamW) and optimizer.warmup_steps > total:
        log.warning(
            "the warm-up of ScheduleFreeAdamW takes %d steps, but the run has %d and never reaches the full learning "
            "rate. Shorten warmup_steps, or train longer", optimizer.warmup_steps, total,
        )  # fmt: skip
    if not isinstance(schedule, Schedule) or isinstance(schedule, ReduceOnPlateau | CustomSchedule) or total < 2:
        return
    assert isinstance(optimizer, Optimizer)
    context = ScheduleContext(
        total_steps=total, steps_per_epoch=steps_per_epoch, base_rate=float(optimizer.learning_rate)
    )
    looked_at = sorted({round(share * (total - 1) / 50) for share in range(51)})
    factors = [checked_factor(schedule, step, context) for step in looked_at]
    if factors[0] < factors[-1] < 1 and all(a <= b for a, b in pairwise(factors)):
        rate = float(optimizer.learning_rate)
        log.warning(
            "the warm-up of %s is longer than the run of %d steps: the learning rate ends at %.3g, %.2g of the "
            "configured %.3g. Shorten the warm-up (a share such as warmup=0.1), or train longer",
            schedule.kind, total, factors[-1] * rate, factors[-1], rate,
            extra={"advice": [Advice("training.schedule.warmup", "0.1")]},
        )  # fmt: skip


def train(
    task: Task,
    state: TrainState,
    *,
    title: str = "training",
    extra: tuple[Callback, ...] = (),
    resume: Resume = Resume(),  # noqa: B008  # frozen
    identity: Callable[[], Mapping[str, Any]] = dict,
) -> TrainState:
    """Train a prepared state to its end, with the configured callbacks, and return it; see `TrainingRun`."""
    return TrainingRun(task, state, title=title, extra=extra, resume=resume, identity=identity).complete()


def _settled(config: TrainingConfig, has_validation: bool) -> TrainingConfig:
    """The configuration with a valid early-stopping rule. Without held-out rows the default rule is off."""
    rule = config.early_stopping
    if rule is None or rule == "auto":
        return config.replace(early_stopping=None)
    if not has_validation and rule.monitor.startswith("validation_"):
        if rule.replace(mode="auto") == EarlyStopping():
            return config.replace(early_stopping=None)
        raise ConfigError(
            f"early_stopping monitors {rule.monitor}, but there are no held-out rows. Set validation_split or "
            "validation=, or monitor='train_loss'"
        )
    side = "validation" if has_validation else "train"
    known = {"train_loss", f"{side}_loss", *(f"{side}_{metric_name(item)}" for item in config.metrics)}
    if rule.monitor not in known:
        raise ConfigError(f"early_stopping.monitor must be one of {', '.join(sorted(known))}, but got {rule.monitor!r}")
    return config


def steps_cap(config: TrainingConfig) -> int | None:
    """At most so many steps make an epoch; None for all."""
    return None if config.steps_per_epoch in (None, "auto") else int(config.steps_per_epoch)
