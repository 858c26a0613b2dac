"""From their training arguments to a TrainingConfig."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

from neuro_divergent.compat.neuralforecast.losses.pytorch import as_loss
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import Loss, Weighted
from neuro_divergent.losses.distribution import Distributional
from neuro_divergent.optim import (
    Adam,
    ClipByNorm,
    ClipByValue,
    CosineAnnealing,
    CosineWarmRestarts,
    CustomSchedule,
    ExponentialDecay,
    MultiStepDecay,
    OneCycle,
    Optimizer,
    Schedule,
    StepDecay,
    TorchOptimizer,
)
from neuro_divergent.training.config.training_config import EarlyStopping, TrainingConfig

TRAINER: dict[str, str] = {
    "accelerator": "chooses the device",
    "devices": "has no effect: a training runs on one device",
    "strategy": "has no effect: a training runs on one device",
    "num_nodes": "has no effect: a training runs on one device",
    "use_distributed_sampler": "has no effect: a training runs on one device",
    "sync_batchnorm": "has no effect: a training runs on one device",
    "logger": "has no effect: losses are in .history of the fitted models",
    "log_every_n_steps": "has no effect: losses are in .history of the fitted models",
    "enable_progress_bar": "decides about the progress line, which only a terminal shows",
    "enable_model_summary": "has no effect: nothing is printed",
    "enable_checkpointing": "has no effect: use neuro_divergent.Checkpoints for checkpoints",
    "default_root_dir": "has no effect: nothing is written while training",
    "callbacks": "has no effect: those of another trainer cannot be called; see neuro_divergent.Callback",
    "gradient_clip_val": "clips the gradients",
    "gradient_clip_algorithm": "clips the gradients",
    "accumulate_grad_batches": "accumulates gradients",
    "precision": "sets the precision",
    "deterministic": "asks for deterministic operations",
    "benchmark": "has no effect",
    "inference_mode": "has no effect",
    "profiler": "has no effect",
    "detect_anomaly": "has no effect: a loss that is not finite always stops the training",
    "barebones": "has no effect",
    "plugins": "has no effect",
    "fast_dev_run": "has no effect: set max_steps",
    "overfit_batches": "has no effect",
    "max_time": "has no effect: set max_steps",
    "min_steps": "has no effect",
    "min_epochs": "has no effect",
    "limit_train_batches": "has no effect: set max_steps",
    "limit_val_batches": "has no effect",
    "limit_test_batches": "has no effect",
    "limit_predict_batches": "has no effect",
    "num_sanity_val_steps": "has no effect",
    "val_check_interval": "has no effect: set val_check_steps",
    "check_val_every_n_epoch": "has no effect: set val_check_steps",
    "reload_dataloaders_every_n_epochs": "has no effect: there are no data loaders",
    "dataloader_kwargs": "has no effect: there are no data loaders",
    "step_size": "has no effect: every window is trained on",
    "cat_emb_dim": "has no effect: the width of an embedding follows from the number of values",
}
"""Arguments that are taken with a warning, and what happens to them."""

MONITORS = {"ptl/val_loss": "validation_loss", "valid_loss": "validation_loss", "train_loss": "train_loss"}
_DEVICES = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "mps": "mps"}
_PRECISIONS = {"32": "float32", "64": "float64", "16": "fp16", "bf16": "bf16"}


def warn_of(model: str, names: Mapping[str, str]) -> None:
    """One warning for all arguments that do not do here what they did there."""
    if names:
        said = "; ".join(f"{name} {what}" for name, what in names.items())
        warnings.warn(f"{model} was given arguments of another trainer: {said}.", UserWarning, stacklevel=4)


def training_config(given: Mapping[str, Any], trainer: Mapping[str, Any]) -> TrainingConfig:
    """The training of a model, from all its shared arguments and those of the trainer."""
    _refuse(given)
    loss = _with_floor(as_loss(given["loss"]), given["scaler_type"])
    validation = _validation(given, loss)
    fields: dict[str, Any] = {
        "max_epochs": None,
        "max_steps": given["max_steps"],
        "batch_size": given["windows_batch_size"] or given["batch_size"],
        "validation_split": None,
        "seed": given["random_seed"],
        "loss": loss,
        "validation_loss": validation if isinstance(validation, Loss) else None,
        "metrics": (validation,) if isinstance(validation, str) else (),
        "optimizer": _optimizer(given),
        "schedule": _schedule(given),
        "gradient_clipping": _clipping(trainer),
        "early_stopping": _early_stopping(given, validation),
        "steps_per_epoch": None,
        "accumulate_gradients": trainer.get("accumulate_grad_batches") or 1,
        "deterministic": bool(trainer.get("deterministic", False)),
        "progress": False if trainer.get("enable_progress_bar") is False else "auto",
    }
    accelerator = str(trainer.get("accelerator", "auto"))
    if accelerator != "auto":
        fields["device"] = _known(accelerator, _DEVICES, "accelerator")
    if trainer.get("precision") is not None:
        fields["precision"] = _known(str(trainer["precision"]).split("-")[0], _PRECISIONS, "precision")
    return TrainingConfig(**fields)


def _known(value: str, names: Mapping[str, str], argument: str) -> str:
    if value not in names:
        raise ConfigError(f"{argument} must be one of {', '.join(names)}, but got {argument}={value!r}")
    return names[value]


def _refuse(given: Mapping[str, Any]) -> None:
    if given["exclude_insample_y"]:
        raise ConfigError(
            "a model always sees the past of its target, but got exclude_insample_y=True. Leave it out, and give the "
            "columns that explain the target as futr_exog_list or hist_exog_list"
        )
    if given["training_data_availability_threshold"] not in (0.0, [0.0, 0.0], (0.0, 0.0)):
        raise ConfigError(
            "training_data_availability_threshold has no counterpart: missing values are masked and windows without a "
            f"target are left out, but got {given['training_data_availability_threshold']!r}. Leave it out"
        )
    if given["early_stop_patience_steps"] > 0 and given["val_monitor"] not in MONITORS:
        raise ConfigError(f"val_monitor must be one of {', '.join(MONITORS)}, but got {given['val_monitor']!r}")


def _validation(given: Mapping[str, Any], loss: Loss) -> Loss | str | None:
    """What validations compute: a loss of the network's outputs, or a metric of the point when the two do not fit."""
    if given["valid_loss"] is None:
        return None
    wanted = as_loss(given["valid_loss"])
    if wanted.outputs == loss.outputs:
        return wanted
    name = wanted.kind.removeprefix(
        "Fraction"
    ).lower()  # our figure is in percent; which validation is best is the same
    return name if name in ("mae", "mse", "rmse", "mape", "smape") else None


def _with_floor(loss: Loss, scaler: str | None) -> Loss:
    """A distribution whose spread is at least theirs: a fifth of a scaled window's, a tenth for Student's t."""
    if isinstance(loss, Weighted):
        return loss.replace(loss=_with_floor(loss.loss, scaler))
    if not isinstance(loss, Distributional) or scaler in (None, "identity"):
        return loss
    return loss.replace(floor=0.1 if getattr(loss, "distribution", None) == "StudentT" else 0.2)


def _early_stopping(given: Mapping[str, Any], validation: Loss | str | None) -> EarlyStopping | None:
    patience = given["early_stop_patience_steps"]
    if patience <= 0:
        return None
    monitor = MONITORS[given["val_monitor"]]
    if monitor == "validation_loss" and isinstance(validation, str):
        monitor = f"validation_{validation}"
    return EarlyStopping(patience=patience, min_delta=0.0, monitor=monitor)


def _clipping(trainer: Mapping[str, Any]) -> Any:
    bound = trainer.get("gradient_clip_val")
    if not bound:
        return None
    by_value = trainer.get("gradient_clip_algorithm") == "value"
    return ClipByValue(bound) if by_value else ClipByNorm(max_norm=bound)


def _optimizer(given: Mapping[str, Any]) -> Optimizer:
    arguments = dict(given["optimizer_kwargs"] or {})
    arguments.pop("lr", None)  # theirs ignores it too: learning_rate decides
    cls = given["optimizer"]
    if cls is None:
        return Adam(learning_rate=given["learning_rate"])
    decay = arguments.pop("weight_decay", _own_decay(cls))
    # Theirs hands all parameters to the class as they are: biases and norms are decayed too.
    return TorchOptimizer(
        cls=cls, learning_rate=given["learning_rate"], weight_decay=decay, decay_all=True, arguments=arguments
    )


def _own_decay(cls: Any) -> float:
    """The decay that an optimizer class has when nobody names one."""
    parameter = inspect.signature(cls).parameters.get("weight_decay") if callable(cls) else None
    return float(parameter.default) if parameter and isinstance(parameter.default, int | float) else 0.0


def _schedule(given: Mapping[str, Any]) -> Schedule | None:
    cls, arguments = given["lr_scheduler"], dict(given["lr_scheduler_kwargs"] or {})
    steps = given["max_steps"]
    if cls is None:
        decays = given["num_lr_decays"]
        return StepDecay(every=max(1, steps // decays), factor=0.5, unit="step") if decays > 0 else None
    name = getattr(cls, "__name__", str(cls))
    if name not in _SCHEDULES:
        raise ConfigError(
            f"lr_scheduler must be one of {', '.join(_SCHEDULES)} of torch.optim.lr_scheduler, but got {name}. "
            "Another shape is a function: lr_scheduler=LambdaLR, lr_scheduler_kwargs={'lr_lambda': ...}"
        )
    arguments.pop("optimizer", None)
    try:
        schedule: Schedule = _SCHEDULES[name](arguments, steps, given["learning_rate"])
    except KeyError as error:
        raise ConfigError(f"{name} needs {error} in lr_scheduler_kwargs, but got {sorted(arguments)}") from None
    return schedule


def _cosine(arguments: dict[str, Any], steps: int, _: float) -> Schedule:
    if arguments["T_max"] != steps:
        raise ConfigError(f"CosineAnnealingLR falls over the whole run: T_max must be max_steps={steps}, but got "
                          f"T_max={arguments['T_max']}. For shorter waves use CosineAnnealingWarmRestarts")  # fmt: skip
    return CosineAnnealing(min_lr=arguments.get("eta_min", 0.0))


def _one_cycle(arguments: dict[str, Any], steps: int, rate: float) -> Schedule:
    if arguments.get("total_steps", steps) != steps or arguments.get("max_lr", rate) != rate:
        raise ConfigError(
            f"OneCycleLR spans the run up to learning_rate: total_steps must be max_steps={steps} and max_lr must be "
            f"learning_rate={rate}, but got {arguments}"
        )
    shape = {"cos": "cosine"}.get(arguments.get("anneal_strategy", "cos"), "linear")
    return OneCycle(
        share_rising=arguments.get("pct_start", 0.3),
        start_divisor=arguments.get("div_factor", 25.0),
        end_divisor=arguments.get("final_div_factor", 1e4),
        shape=shape,
    )


_SCHEDULES: dict[str, Any] = {
    "StepLR": lambda a, *_: StepDecay(every=a["step_size"], factor=a.get("gamma", 0.1), unit="step"),
    "MultiStepLR": lambda a, *_: MultiStepDecay(
        milestones=tuple(a["milestones"]), factor=a.get("gamma", 0.1), unit="step"
    ),
    "ExponentialLR": lambda a, *_: ExponentialDecay(factor=a["gamma"], unit="step"),
    "CosineAnnealingLR": _cosine,
    "CosineAnnealingWarmRestarts": lambda a, *_: CosineWarmRestarts(
        period=a["T_0"], growth=a.get("T_mult", 1), min_lr=a.get("eta_min", 0.0), unit="step"
    ),
    "OneCycleLR": _one_cycle,
    "LambdaLR": lambda a, *_: CustomSchedule(function=a["lr_lambda"]),
}
