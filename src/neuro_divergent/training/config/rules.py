"""Refuses options that cannot work together, each with one sentence.

Rules about a single field are declared at the field: see facts.py.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.core.registry import normalise
from neuro_divergent.losses import Loss, Weighted
from neuro_divergent.metrics.base import Metric, metric_name
from neuro_divergent.metrics.training import training_metric
from neuro_divergent.optim import SGD, Constant, Lion, ReduceOnPlateau, ScheduleFreeAdamW
from neuro_divergent.training.config.curriculum import EasySeriesFirst
from neuro_divergent.training.config.facts import Check, refusals

if TYPE_CHECKING:
    from neuro_divergent.training.config.checkpoints import FaultTolerance
    from neuro_divergent.training.config.training_config import EarlyStopping, TrainingConfig

Monitor = TypeVar("Monitor", "EarlyStopping", ReduceOnPlateau)


def check(config: TrainingConfig) -> None:
    """Refuse contradictions that do not depend on what is trained."""
    _gradients(config)
    _weights(config)
    _order(config)
    _metrics(config)
    _monitors(config)
    if config.strategy is not None and config.distributed is not None:
        raise ConfigError(
            f"a training takes its steps in one way, but got strategy={config.strategy.kind} and "
            f"distributed={config.distributed.kind}. Leave one of them out"
        )


def check_arrays(config: TrainingConfig) -> None:
    """Refuse what needs a table or a described model, if a module is trained on plain arrays."""
    for _, reason in refusals(config, "arrays", ARRAY_CHECKS, _not_on_arrays):
        raise ConfigError(reason)


def _not_on_arrays(name: str, value: Any, possible: tuple[Any, ...]) -> str:
    wanted = " or ".join(f"{name}={one!r}" for one in possible)
    return f"a Trainer on plain arrays takes {wanted}, but got {name}={value!r}"


def _weighs_without_time(loss: Any) -> str | None:
    if not (isinstance(loss, Loss) and any(_by_time(part) for part in _parts(loss))):
        return None
    return (
        "Weighted by recency or by a function needs windows of series, but a Trainer has plain arrays. Give "
        "the weights as the third array: fit(module, (x, y, w))"
    )


def _needs_no_table(loss: Any) -> str | None:
    if isinstance(loss, Loss) and loss.head() is not None:
        return (
            f"{loss.kind} has its own layer, which only a model on a table can contain. Use MQLoss for quantiles of "
            "plain arrays"
        )
    return _weighs_without_time(loss)


def _stays_in_this_process(tolerance: FaultTolerance | None) -> str | None:
    """A user's module cannot be described to another process."""
    if tolerance is None or tolerance.retries == 0:
        return None
    return (
        "a restarted Trainer builds its module in another process: give fit a function of an importable "
        "Python module that builds it, or set fault_tolerance=FaultTolerance(retries=0)"
    )


ARRAY_CHECKS: dict[str, Check] = {
    "needs_no_table": _needs_no_table,
    "weighs_without_time": _weighs_without_time,
    "stays_in_this_process": _stays_in_this_process,
}
"""The checks of the fact `arrays`, by name."""


def _by_time(loss: Loss) -> bool:
    """Whether a loss weights rows by recency or by a function: plain arrays have no time."""
    return isinstance(loss, Weighted) and loss.by not in ("column", "horizon")


def _parts(loss: Loss) -> Iterator[Loss]:
    """A loss and all losses inside it."""
    yield loss
    for name in type(loss).model_fields:
        value = getattr(loss, name)
        for part in value if isinstance(value, tuple | list) else (value,):
            if isinstance(part, Loss):
                yield from _parts(part)


def _gradients(config: TrainingConfig) -> None:
    method = config.gradient_method
    if method != "autograd" and config.precision.startswith(("bf16", "fp16")):
        raise ConfigError(
            f"numerical gradients need float32 or float64, but got precision={config.precision!r} with "
            f"gradient_method={method!r}"
        )
    if method != "autograd" and config.activation_checkpointing is not None:
        raise ConfigError(
            f"activation_checkpointing saves memory of the backward pass, but gradient_method={method!r} has none. "
            "Leave one of them out"
        )
    if config.loss_scale != "dynamic" and config.precision != "fp16":
        raise ConfigError(
            f"loss_scale is for precision='fp16', but got loss_scale={config.loss_scale} with "
            f"precision={config.precision!r}",
            advice=[Advice("training.precision", "fp16")],
        )
    _half_weights(config)
    if config.compile is True and config.activation_checkpointing is not None:
        raise ConfigError(
            "compile=True decides which activations to store, so it cannot be combined with "
            "activation_checkpointing. Leave one of them out"
        )


def _half_weights(config: TrainingConfig) -> None:
    """Refuse options that half-precision weights cannot use: sums of small numbers vanish in them."""
    if not config.precision.endswith("-true"):
        return
    if config.averaging is not None:
        raise ConfigError(
            f"averaging adds small changes to the weights, which half precision rounds to zero, but got it with "
            f"precision={config.precision!r}. Use precision='bf16', which keeps float32 weights",
            advice=[Advice("training.precision", "bf16")],
        )
    if config.precision == "fp16-true" and not isinstance(config.optimizer, SGD | Lion):
        kind = getattr(config.optimizer, "kind", "AdamW")
        raise ConfigError(
            f"fp16-true trains with SGD or Lion: {kind} squares gradients, which fp16 rounds to zero. Set "
            "optimizer=SGD(...), or use precision='bf16-true', or 'fp16', which keeps float32 weights",
            advice=[Advice("training.precision", "bf16-true")],
        )


def _weights(config: TrainingConfig) -> None:
    if not isinstance(config.optimizer, ScheduleFreeAdamW):
        return
    if config.averaging is not None:
        raise ConfigError(
            f"ScheduleFreeAdamW averages the weights itself, but got averaging={config.averaging.kind}. "
            "Set averaging=None"
        )
    if config.schedule not in (None, "auto") and not isinstance(config.schedule, Constant):
        kind = getattr(config.schedule, "kind", config.schedule)
        raise ConfigError(
            f"ScheduleFreeAdamW replaces a schedule, but got schedule={kind}. Set schedule=None; it has its own "
            "warmup_steps"
        )


def _order(config: TrainingConfig) -> None:
    if isinstance(config.curriculum, EasySeriesFirst) and not config.shuffle:
        raise ConfigError("EasySeriesFirst draws windows in its own order, but got shuffle=False")
    if config.validation_split is None and config.refit not in (None, "auto"):
        raise ConfigError(
            f"refit={config.refit!r} needs validation, which chooses the weights to refit, but got "
            "validation_split=None. Set refit=None: without validation all rows are trained on anyway",
            advice=[Advice("training.refit", None)],
        )


def _metrics(config: TrainingConfig) -> None:
    names = [metric_name(item) for item in config.metrics]
    for number, name in enumerate(names):
        if name in ("loss", "seconds"):
            raise ConfigError(f"a metric becomes validation_{name} in the history, but that name is taken: rename it")
        if name in names[:number]:
            raise ConfigError(f"metrics must have different names, but got {name!r} twice. Leave one out or rename it")


def _monitors(config: TrainingConfig) -> None:
    names = [metric_name(item) for item in config.metrics]
    known = {f"{side}_{name}" for side in ("train", "validation") for name in ("loss", *names)}
    for field in ("schedule", "early_stopping"):
        monitor = getattr(getattr(config, field), "monitor", "train_loss")
        if normalise(monitor) not in {normalise(name) for name in (*known, *names)}:
            raise ConfigError(
                f"{field}.monitor must be one of {', '.join(sorted(known))}, but got {monitor!r}. To monitor a metric, "
                "name it in metrics"
            )


def followed(rule: Monitor, metrics: Sequence[str | Metric]) -> Monitor:
    """The rule with its column, and with "min" or "max" (from the metric) instead of "auto"."""
    by_name = {metric_name(item): item for item in metrics}
    meant = {normalise(f"{side}_{name}"): f"{side}_{name}" for side in ("train", "validation") for name in by_name}
    meant |= {normalise(name): f"validation_{name}" for name in by_name}
    monitor = meant.get(normalise(rule.monitor), rule.monitor)
    name = monitor.removeprefix("validation_")
    mode = rule.mode
    if mode == "auto":
        mode = training_metric(by_name[name]).goal if name in by_name else "min"
    return rule if (monitor, mode) == (rule.monitor, rule.mode) else rule.replace(monitor=monitor, mode=mode)
