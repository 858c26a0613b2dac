"""Converts their training arguments to a TrainingConfig."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Mapping
from typing import Any

import torch
from pydantic import Field

from neuro_divergent.compat.neuralforecast.losses.pytorch import Accuracy, as_loss
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import Loss, Weighted
from neuro_divergent.losses.distribution import Distributional
from neuro_divergent.optim import (
    SGD,
    Adam,
    ClipByNorm,
    ClipByValue,
    CustomSchedule,
    Optimizer,
    ReduceOnPlateau,
    Schedule,
    ScheduleContext,
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
    "enable_progress_bar": "switches the progress line, which only a terminal shows",
    "enable_model_summary": "has no effect: nothing is printed",
    "enable_checkpointing": "has no effect: use neuro_divergent.Checkpoints for checkpoints",
    "default_root_dir": "has no effect: nothing is written while training",
    "callbacks": "has no effect: callbacks of another trainer cannot be called; see neuro_divergent.Callback",
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
"""Arguments that are accepted with a warning, and their effect."""

MONITORS = {"ptl/val_loss": "validation_loss", "valid_loss": "validation_loss", "train_loss": "train_loss"}
_DEVICES = {"cpu": "cpu", "gpu": "cuda", "cuda": "cuda", "mps": "mps"}
_PRECISIONS = {"32": "float32", "64": "float64", "16": "fp16", "bf16": "bf16"}


def warn_of(model: str, names: Mapping[str, str]) -> None:
    """Warn once about all arguments whose effect differs here."""
    if names:
        said = "; ".join(f"{name} {what}" for name, what in names.items())
        warnings.warn(f"{model} got arguments of another trainer: {said}.", UserWarning, stacklevel=4)


def training_config(given: Mapping[str, Any], trainer: Mapping[str, Any]) -> TrainingConfig:
    """The training of a model, from all its shared arguments and those of the trainer."""
    _refuse(given)
    loss = _with_floor(as_loss(given["loss"]), given["scaler_type"])
    validation = _validation(given, loss)
    fields: dict[str, Any] = {
        "max_epochs": None,
        "max_steps": given["max_steps"] or 1,
        "batch_size": given["windows_batch_size"] or given["batch_size"],
        "validation_split": None,
        "seed": given["random_seed"],
        "loss": loss,
        "validation_loss": validation if isinstance(validation, Loss) else None,
        "metrics": tuple(dict.fromkeys(name for name in (validation, _in_units(given, loss)) if isinstance(name, str))),
        "optimizer": _optimizer(given),
        "schedule": _schedule(given),
        "gradient_clipping": _clipping(trainer),
        "early_stopping": _early_stopping(given, validation),
        "steps_per_epoch": None,
        "accumulate_gradients": trainer.get("accumulate_grad_batches") or 1,
        "deterministic": bool(trainer.get("deterministic", False)),
        "progress": False if trainer.get("enable_progress_bar") is False else "auto",
        "calibrate": False,  # neuralforecast gives the intervals as they were learned
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
    if given["training_data_availability_threshold"] not in (0.0, [0.0, 0.0], (0.0, 0.0)):
        raise ConfigError(
            "training_data_availability_threshold has no counterpart: missing values are masked and windows without a "
            f"target are left out, but got {given['training_data_availability_threshold']!r}. Leave it out"
        )
    if given["early_stop_patience_steps"] > 0 and given["val_monitor"] not in MONITORS:
        raise ConfigError(f"val_monitor must be one of {', '.join(MONITORS)}, but got {given['val_monitor']!r}")


def _validation(given: Mapping[str, Any], loss: Loss) -> Loss | str | None:
    """What validations compute: a loss of the network's outputs, or a metric of the point if the loss does not fit."""
    if given["valid_loss"] is None or isinstance(given["valid_loss"], Accuracy) or given["valid_loss"] is Accuracy:
        return None
    wanted = as_loss(given["valid_loss"])
    if wanted.outputs == loss.outputs:
        return wanted
    name = wanted.kind.removeprefix("Fraction").lower()  # our metric is in percent; the best validation is the same
    return name if name in ("mae", "mse", "rmse", "mape", "smape") else None


def _in_units(given: Mapping[str, Any], loss: Loss) -> str | None:
    """The metric that is the validation's loss in the units of the target, if windows are scaled."""
    wanted = as_loss(given["valid_loss"] if given["valid_loss"] is not None else loss)
    name = wanted.kind.lower()
    return name if name in ("mae", "mse", "rmse") and given["scaler_type"] not in (None, "identity") else None


def _with_floor(loss: Loss, scaler: str | None) -> Loss:
    """A distribution with at least their minimum scale: a fifth of a scaled window's, a tenth for Student's t."""
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


def unused_arguments(given: Mapping[str, Any]) -> list[str]:
    """Warnings about keyword arguments of the optimizer and the scheduler that have no effect."""
    optimizer, scheduler = given["optimizer_kwargs"] or {}, given["lr_scheduler_kwargs"] or {}
    found = []
    if given["optimizer"] is None and optimizer:
        found.append("ignoring optimizer_kwargs as the optimizer is not specified: set optimizer, or leave them out")
    if given["optimizer"] is not None and "lr" in optimizer:
        found.append("ignoring learning rate passed in optimizer_kwargs, using the model's learning rate: set that")
    if given["lr_scheduler"] is None and scheduler:
        found.append("ignoring lr_scheduler_kwargs as the lr_scheduler is not specified: set it, or leave them out")
    if given["lr_scheduler"] is not None and "optimizer" in scheduler:
        found.append("ignoring optimizer passed in lr_scheduler_kwargs, using the model's optimizer: leave it out")
    return found


def _optimizer(given: Mapping[str, Any]) -> Optimizer:
    arguments = dict(given["optimizer_kwargs"] or {})
    arguments.pop("lr", None)  # neuralforecast ignores it, too: learning_rate decides
    cls = given["optimizer"]
    if given["max_steps"] == 0:
        return SGD(learning_rate=1e-30)  # one step that changes no weight: the networks keep their initial weights
    if cls is None:
        return Adam(learning_rate=given["learning_rate"])
    if isinstance(cls, type) and not issubclass(cls, torch.optim.Optimizer):
        raise ConfigError(
            f"optimizer is not a valid subclass of torch.optim.Optimizer, which it must be, but got {cls.__name__}"
        )
    decay = arguments.pop("weight_decay", _own_decay(cls))
    # neuralforecast passes all parameters to the class: biases and norms are decayed, too.
    return TorchOptimizer(
        cls=cls, learning_rate=given["learning_rate"], weight_decay=decay, decay_all=True, arguments=arguments
    )


def _own_decay(cls: Any) -> float:
    """The default decay of an optimizer class."""
    parameter = inspect.signature(cls).parameters.get("weight_decay") if callable(cls) else None
    return float(parameter.default) if parameter and isinstance(parameter.default, int | float) else 0.0


def _schedule(given: Mapping[str, Any]) -> Schedule | None:
    cls, arguments = given["lr_scheduler"], dict(given["lr_scheduler_kwargs"] or {})
    steps = given["max_steps"]
    if cls is None:
        decays = given["num_lr_decays"]
        return StepDecay(every=max(1, steps // decays), factor=0.5, unit="step") if decays > 0 else None
    if isinstance(cls, type) and not issubclass(cls, torch.optim.lr_scheduler.LRScheduler):
        raise ConfigError(
            "lr_scheduler is not a valid subclass of torch.optim.lr_scheduler.LRScheduler, which it must be, but got "
            f"{cls.__name__}"
        )
    name = getattr(cls, "__name__", str(cls))
    arguments.pop("optimizer", None)
    if name == "ReduceLROnPlateau":
        return _plateau(arguments)
    if name == "LambdaLR" and callable(arguments.get("lr_lambda")):
        return CustomSchedule(function=arguments["lr_lambda"])
    return RateTable(factors=_measured(cls, arguments, max(1, steps), given["learning_rate"]))


class RateTable(Schedule):
    """The learning rates of a torch scheduler, one factor for each step; the last one is repeated."""

    factors: tuple[float, ...] = Field(min_length=1)
    """The multiplier of each step's rate."""

    def factor_at(self, step: int, context: ScheduleContext) -> float:  # noqa: ARG002
        """The measured factors."""
        return self.factors[min(step, len(self.factors) - 1)]


def _measured(cls: Any, arguments: dict[str, Any], steps: int, rate: float) -> tuple[float, ...]:
    """The learning rates that a scheduler gives to a dummy optimizer, as multiples of the first one."""
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=rate, momentum=0.9)
    try:
        scheduler, factors = cls(optimizer, **arguments), []
        for _ in range(steps):
            factors.append(float(optimizer.param_groups[0]["lr"]) / rate)
            optimizer.step()
            scheduler.step()
    except (TypeError, ValueError, AttributeError) as error:
        name = getattr(cls, "__name__", str(cls))
        raise ConfigError(
            f"lr_scheduler must be a scheduler of torch with its lr_scheduler_kwargs, but got {name} with "
            f"{sorted(arguments)}, which failed: {error}"
        ) from error
    return tuple(factors)


def _plateau(arguments: dict[str, Any]) -> Schedule:
    """ReduceLROnPlateau monitors the validations: its patience counts them."""
    known = {"mode": "mode", "factor": "factor", "patience": "patience", "threshold": "min_delta",
             "cooldown": "cooldown", "min_lr": "min_lr"}  # fmt: skip
    given = {"factor": 0.1, "patience": 10} | arguments
    return ReduceOnPlateau(**{ours: given[theirs] for theirs, ours in known.items() if theirs in given})
