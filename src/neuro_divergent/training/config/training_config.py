"""The settings of a training, and how "auto" becomes a value.

A field is "auto" (the model's recipe decides, then the plain defaults below), None (off) or a value.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Never, Self

from pydantic import Field, model_validator

from neuro_divergent.core.config import Function
from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.core.field_types import Takes, default
from neuro_divergent.losses import MSE
from neuro_divergent.optim import (
    AdamW,
    AnySchedule,
    Averaging,
    ClipByNorm,
    CosineAnnealing,
    GradientNoise,
    Optimizer,
    ReduceOnPlateau,
    ScheduleFreeAdamW,
)
from neuro_divergent.training.config import misplaced, rules
from neuro_divergent.training.config import shorthands as short
from neuro_divergent.training.config.checkpoints import Checkpoints, FaultTolerance
from neuro_divergent.training.config.curriculum import Curriculum, TeacherForcing
from neuro_divergent.training.config.early_stopping import Auto, Count, EarlyStopping, GivenStopping, StoppingField
from neuro_divergent.training.config.facts import (
    ANY,
    OFF,
    SAME,
    DeclaredFields,
    Limit,
    Refused,
    checked,
    off,
    only,
    option,
)
from neuro_divergent.training.config.network_settings import ActivationCheckpointing, Regularization
from neuro_divergent.training.config.strategy import StrategySettings

MOST_THREADS = 1024
"""Maximum number of threads: each one needs memory, and the math library ends the process if there is none left."""
Share = Annotated[float, Field(gt=0.0, lt=1.0)]

PrecisionName = Literal["float32", "float64", "bf16", "fp16", "bf16-true", "fp16-true", "accumulate64"]
"""float32; float64; bf16 or fp16 autocast over float32 weights; weights and optimizer in bf16 or fp16 (-true); float32
with sums and gradients accumulated in float64."""


_FOR_WINDOWS = (
    "{name} needs windows of time series, but a Trainer has plain arrays. Set {name}=None, or train a model on a table"
)
_NO_REFIT = (
    "refit trains a model on a table again, but a Trainer has only your module and plain arrays. Fit a new module with "
    "validation_split=None and max_epochs=history.best_epoch"
)
_NO_DATES = (
    "split_by='date' cuts series at one time, but a Trainer has plain arrays, of which it holds out the last rows. "
    "Leave split_by out"
)
_NO_INTERVALS = (
    "calibrate corrects the intervals of a forecast, but a Trainer has plain arrays. Leave calibrate out, or train a "
    "model on a table"
)
_ONE_PROCESS_WATCHED = "a supervisor restarts one process, and out-of-memory handling is local to a process"
_ONE_LOSS = "numerical gradients are differences of the reduced loss of one process"


class TrainingConfig(DeclaredFields):
    """All settings of a training. Each field is "auto", None (off) or a value."""

    if TYPE_CHECKING:  # short names, stored in `precision`, `progress`, `metrics` and `refit`
        mixed_precision: Takes[Never, bool] = default(False)
        verbose: Takes[Never, bool] = default(False)
        accuracy: Takes[Never, bool] = default(False)
        refit_on_all: Takes[Never, bool] = default(False)

    max_epochs: Count | Auto | None = option(
        "auto", resume="changeable", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Maximum number of epochs. An epoch is all windows once, or steps_per_epoch steps."""
    max_steps: Count | None = option(
        None, resume="changeable", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Maximum number of optimizer steps."""
    batch_size: Count | Auto = option(
        "auto", resume="fixed", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Windows (rows, for arrays) per micro-batch."""
    validation_split: Share | Auto | None = option(
        "auto", resume="fixed", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Share of the rows, the latest ones, that is held out for validation."""
    split_by: Literal["auto", "date", "series"] = option(
        "auto",
        resume="fixed",
        compile=ANY,
        stack=ANY,
        arrays=only("auto", "series", why=_NO_DATES),
        process="json",
        distributed="same",
    )
    """Where validation begins: at one time for all series ("date"), so that no series is trained on a time on which
    another one is validated, or at the end of each series separately ("series"). "auto" uses one time if several series
    have time stamps, and each series separately if their time column has whole numbers."""
    shuffle: bool = option(True, resume="fixed", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same")
    """Draw windows in a random order that depends on the seed; False uses time order."""
    drop_last: bool = option(
        False, resume="fixed", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Leave out the last, smaller batch of an epoch."""
    seed: int = option(1, resume="fixed", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same")
    """Seed of every random draw."""
    device: str = option("auto", resume="free", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same")
    """auto, cpu, cuda, cuda:N or mps."""
    precision: PrecisionName = option(
        "float32",
        resume="fixed",
        compile=only("float32", "float64"),
        stack=only("float32", "float64", members="same"),
        arrays=ANY,
        process="json",
        distributed="same",
    )
    """float32, float64, bf16 or fp16 (autocast), accumulate64 (float32 with float64 sums), or, for a Trainer on arrays,
    bf16-true or fp16-true (half-precision weights)."""
    loss_scale: Literal["dynamic"] | Annotated[float, Field(gt=0)] = option(
        "dynamic", resume="changeable", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Factor on the loss under fp16; "dynamic" raises it until a gradient overflows."""
    accumulate_gradients: Count = option(
        1,
        resume="fixed",
        compile=only(1, why="gradients are accumulated"),
        stack=only(1),
        arrays=ANY,
        process="json",
        distributed="same",
    )
    """Micro-batches per optimizer step; the result equals one batch of that many times batch_size."""
    loss: Takes[short.LossField | Auto, short.GivenLoss] = option(
        "auto",
        resume="fixed",
        compile=checked("loss_is_known"),
        stack=Limit(members="formula"),
        arrays=checked("needs_no_table"),
        process="json",
        distributed="same",
    )
    """The loss to minimise: a loss, its name, or a function (output, target) -> unreduced values."""
    validation_loss: Takes[short.LossField | None, short.GivenLoss | None] = option(
        None,
        resume="fixed",
        compile=ANY,
        stack=ANY,
        arrays=checked("weighs_without_time"),
        process="json",
        distributed="same",
    )
    """The loss on the validation set; None for the training loss."""
    metrics: Takes[short.MetricsField, short.GivenMetrics] = option(
        (), resume="changeable", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Further metrics on the validation set, as validation_<name>: names, `Metric` objects, or functions
    (actual, forecast) that return one number per target. Without held-out rows they are computed on the training rows,
    as train_<name>. `accuracy=True` adds accuracy."""
    optimizer: Takes[short.OptimizerField, short.GivenOptimizer] = option(
        "auto",
        resume="changeable",
        compile=checked("optimizer_has_formula"),
        stack=checked("optimizer_has_rows", members="formula"),
        arrays=ANY,
        process="json",
        distributed="same",
    )
    """The optimizer: an object, its class or its name, or a class of torch.optim."""
    learning_rate: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = option(
        None, resume="changeable", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """The learning rate of the optimizer, whether given or from the recipe. As soon as the optimizer is known, it
    becomes the optimizer's `learning_rate`, and this field becomes None."""
    schedule: Takes[AnySchedule | Auto | None, short.GivenSchedule] = option(
        "auto", resume="changeable", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """The learning-rate schedule: an object, its class or its name, or a function of the step."""
    gradient_clipping: Takes[short.ClippingField, short.GivenClipping] = option(
        "auto",
        resume="changeable",
        compile=checked("clipping_has_formula"),
        stack=checked("clipping_has_rows", members="same"),
        arrays=ANY,
        process="json",
        distributed="same",
    )
    """Limit on the gradients; a number is the largest norm. Several are applied in order, by value before by norm."""
    gradient_noise: GradientNoise | None = option(
        None, resume="changeable", compile=OFF, stack=OFF, arrays=ANY, process="json", distributed="same"
    )
    """Random noise on the gradients, decreasing over the run."""
    regularization: Regularization | None = option(
        None, resume="changeable", compile=OFF, stack=OFF, arrays=ANY, process="json", distributed="same"
    )
    """L1 and L2 penalties on the weights."""
    early_stopping: Takes[StoppingField, GivenStopping] = option(
        "auto", resume="changeable", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """When to stop before the last epoch; a number is the patience."""
    checkpoints: Takes[short.CheckpointsField, Checkpoints | str | Path | None] = option(
        None, resume="free", compile=ANY, stack=OFF, arrays=ANY, process="json", distributed="main"
    )
    """Where and when the run is saved; a path is the run's directory."""
    callbacks: Takes[short.CallbacksField, Sequence[short.GivenCallback] | short.GivenCallback] = option(
        (),
        resume="free",
        compile=checked("nobody_reads_gradients", at_start=True),
        stack=only(()),
        arrays=ANY,
        process="live",
        distributed="main",
    )
    """Callbacks, their settings, or functions of the state or of (epoch, logs), called in this order."""
    log_every: Count = option(10, resume="free", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="main")
    """Write every n-th epoch to the log (Python's logging, at level INFO, under "neuro_divergent.training")."""
    validate_every: Count = option(
        1, resume="changeable", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Validate after every n-th epoch."""
    steps_per_epoch: Count | Auto | None = option(
        "auto", resume="fixed", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Maximum number of optimizer steps per epoch, for large panels."""
    refit: Literal["auto", "all", "fine_tune"] | None = option(
        "auto",
        resume="free",
        compile=ANY,
        stack=only("auto", None),
        arrays=only("auto", None, why=_NO_REFIT),
        process="json",
        distributed="same",
    )
    """What happens after validation has chosen the best weights, so that the newest rows are learned, too. "fine_tune":
    a short training on all rows from these weights, at a lower rate. "all": a new training on all rows, for the number
    of epochs found. "auto": the recipe decides, if validation ends the training (neither max_epochs nor max_steps is
    given, or early_stopping is) and the validation rows are a part of the table. `refit_on_all=True` is "all"."""
    calibrate: bool | Auto = option(
        "auto",
        resume="free",
        compile=ANY,
        stack=ANY,
        arrays=only("auto", False, why=_NO_INTERVALS),
        process="json",
        distributed="same",
    )
    """Correct the intervals of a quantile loss or a distribution by their errors on the held-out rows (conformalised
    quantiles): "auto" if their coverage differs from the nominal one by more than 3 points and forecasts are not
    reconciled (HINT), True always, False never. A loss that forecasts a point gets intervals by
    `prediction_intervals` instead."""
    progress: bool | Literal["auto", "plain"] = option(
        "auto", resume="free", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="main"
    )
    """A progress line; "auto" shows it on a terminal only. "plain" prints a line per epoch, for containers and logs."""
    num_workers: Annotated[int, Field(ge=0)] = option(
        0, resume="free", compile=ANY, stack=ANY, arrays=ANY, process="json", distributed="same"
    )
    """Threads that prepare batches ahead; the results are the same bits for any number."""
    compile: bool | Auto = option(
        "auto",
        resume="changeable",
        compile=ANY,
        stack=only("auto", False),
        arrays=ANY,
        process="json",
        distributed="same",
    )
    """Compile the full optimizer step with torch.compile, or only the network if an option does not allow that. "auto"
    compiles long trainings of small perceptrons, which gain most. A machine without a compiler stays eager, and the log
    says so. Decided at the start of a run; a resumed run keeps it."""
    threads: Annotated[Count, Field(le=MOST_THREADS)] | Auto = option(
        "auto", resume="changeable", compile=ANY, stack=SAME, arrays=ANY, process="json", distributed="same"
    )
    """Threads of the math library while training; "auto" uses one for steps that are too small to share, else does not
    change them. Decided at the start of a run; a resumed run keeps it."""
    deterministic: bool = option(
        False, resume="changeable", compile=ANY, stack=SAME, arrays=ANY, process="json", distributed="same"
    )
    """Refuse operations without a deterministic implementation (matters on GPUs)."""
    augmentation: Takes[short.AugmentationField, short.GivenAugmentation] = option(
        None, resume="fixed", compile=ANY, stack=ANY, arrays=off(_FOR_WINDOWS), process="json", distributed="same"
    )
    """Random changes to the training windows; True is noise and a smooth change of the amplitude."""
    averaging: Averaging | None = option(
        None, resume="fixed", compile=ANY, stack=OFF, arrays=ANY, process="json", distributed="same"
    )
    """Moving or stochastic average of the weights, used for validation and for the result."""
    curriculum: Curriculum | None = option(
        None, resume="fixed", compile=OFF, stack=OFF, arrays=off(_FOR_WINDOWS), process="json", distributed="same"
    )
    """Easy before hard: a growing horizon, or easy series first."""
    teacher_forcing: Takes[short.ForcingField, TeacherForcing | type[TeacherForcing] | float | None] = option(
        None, resume="changeable", compile=OFF, stack=OFF, arrays=ANY, process="json", distributed="same"
    )
    """Share of true values that a recursive decoder (a network with an attribute `teacher_forcing`) gets in training; a
    number is the same share throughout."""
    nonfinite: Literal["stop", "skip"] = option(
        "stop", resume="changeable", compile=ANY, stack=only("stop"), arrays=ANY, process="json", distributed="same"
    )
    """What to do with a step whose loss or gradient is not finite: stop with an error, or skip it and count."""
    freeze: Takes[short.Names, Sequence[str]] = option(
        (), resume="fixed", compile=ANY, stack=SAME, arrays=ANY, process="json", distributed="same"
    )
    """Parameters that are not trained: patterns of their names ("encoder.*"), or names of layers ("encoder")."""
    activation_checkpointing: Takes[
        Annotated[ActivationCheckpointing | None, short.switch(ActivationCheckpointing)],
        ActivationCheckpointing | bool | None,
    ] = option(None, resume="fixed", compile=OFF, stack=OFF, arrays=ANY, process="json", distributed="same")
    """Recompute activations instead of storing them."""
    fault_tolerance: Takes[
        Annotated[FaultTolerance | None, short.switch(FaultTolerance)], FaultTolerance | bool | None
    ] = option(
        None,
        resume="free",
        compile=off(at_start=True),
        stack=OFF,
        arrays=checked("stays_in_this_process"),
        process="json",
        distributed=Refused(_ONE_PROCESS_WATCHED),
    )
    """What the run survives by itself: a crash or a hang of its process, too little memory."""
    gradient_method: Literal["autograd", "central", "one_sided"] = option(
        "autograd",
        resume="fixed",
        compile=only("autograd"),
        stack=only("autograd"),
        arrays=ANY,
        process="json",
        distributed=Refused(_ONE_LOSS),
    )
    """How gradients are computed; numerical ones are for checks and teaching."""
    strategy: StrategySettings | None = option(
        None, resume="fixed", compile=OFF, stack=OFF, arrays=ANY, process="json", distributed="same"
    )
    """How steps are taken; None is this process: eager, compiled or stacked as the other fields say."""
    distributed: StrategySettings | None = option(
        None, resume="free", compile=OFF, stack=OFF, arrays=ANY, process="json", distributed="same"
    )
    """Several processes that train together: `Distributed(processes=2)`; None for this process alone."""

    @model_validator(mode="after")
    def _contradictions(self) -> Self:
        rules.check(self)
        return self

    @model_validator(mode="before")
    @classmethod
    def _short_names(cls, fields: Any) -> Any:
        return short.written_out(fields) if isinstance(fields, dict) else fields

    @classmethod
    def elsewhere(cls, name: str, value: Any) -> tuple[str, Sequence[Advice]] | None:
        """Where a setting belongs that is not a field of a training: in the model, or in the call of fit."""
        return misplaced.answer(name, value, "training", cls.model_fields, cls.model_fields)

    def replace(self, **fields: Any) -> Self:
        """A copy with some fields changed; `learning_rate` changes the rate of the present optimizer."""
        rate = fields.get("learning_rate")
        if rate is not None and "optimizer" not in fields and isinstance(self.optimizer, Optimizer):
            known = {name: value for name, value in fields.items() if name != "learning_rate"}
            return super().replace(**known, optimizer=short.at_rate(self.optimizer, rate))
        given = set(short.FIELD_OF) & fields.keys()
        # Short names are applied again, and a new optimizer has its own learning rate.
        forgotten = {short.FIELD_OF[name] for name in given} | ({"learning_rate"} if "optimizer" in fields else set())
        kept = {name: getattr(self, name) for name in self.model_fields_set - forgotten}
        return type(self)(**kept | fields)

    @classmethod
    def quick(cls, **fields: Any) -> Self:
        """A first try: 10 epochs, batch 32, rate 1e-3."""
        return cls(**{"max_epochs": 10, "batch_size": 32, "optimizer": AdamW(learning_rate=1e-3)} | fields)

    @classmethod
    def best(cls, **fields: Any) -> Self:
        """A thorough training: 50 epochs, batch 64, decay 1e-4, cosine from 1e-3 to 1e-6, clipping, patience 10."""
        preset = {
            "max_epochs": 50,
            "batch_size": 64,
            "optimizer": AdamW(learning_rate=1e-3, weight_decay=1e-4),
            "schedule": CosineAnnealing(min_lr=1e-6),
            "gradient_clipping": ClipByNorm(max_norm=1.0),
            "early_stopping": EarlyStopping(patience=10, min_delta=1e-5),
        }
        return cls(**preset | fields)

    @classmethod
    def low_memory(cls, **fields: Any) -> Self:
        """For little memory: 20 epochs, batch 16 × 4 accumulated, rate 5e-4, clipping."""
        preset = {
            "max_epochs": 20,
            "batch_size": 16,
            "accumulate_gradients": 4,
            "optimizer": AdamW(learning_rate=5e-4),
            "gradient_clipping": ClipByNorm(max_norm=1.0),
        }
        return cls(**preset | fields)

    def unsaved(self) -> Self:
        """The same training without files: no checkpoints, and so no restarts."""
        tolerance = None if self.fault_tolerance is None else self.fault_tolerance.replace(retries=0)
        return self.replace(checkpoints=None, fault_tolerance=tolerance)

    def resolved(self, recipe: TrainingConfig | None = None) -> Self:
        """The configuration without "auto": from the recipe first, then the plain defaults."""
        recipe = recipe or TrainingConfig()
        fields: dict[str, Any] = {}
        for name in type(self).model_fields:
            value = getattr(self, name)
            if isinstance(value, str) and value == "auto" and name in PLAIN_DEFAULTS:
                value = getattr(recipe, name)
                value = PLAIN_DEFAULTS[name] if isinstance(value, str) and value == "auto" else value
            fields[name] = value
        if self.learning_rate is not None:
            fields |= {"optimizer": short.at_rate(fields["optimizer"], self.learning_rate), "learning_rate": None}
        if self.schedule == "auto" and isinstance(fields["optimizer"], ScheduleFreeAdamW):
            fields["schedule"] = None  # it needs no schedule, and would be worse with one
        loss, clipping = fields["loss"], fields["gradient_clipping"]
        if self.gradient_clipping == "auto" and isinstance(clipping, ClipByNorm) and loss.size != 1.0:
            fields["gradient_clipping"] = clipping.replace(max_norm=clipping.max_norm * loss.size)
        for name in ("early_stopping", "schedule"):
            if isinstance(fields[name], EarlyStopping | ReduceOnPlateau):
                fields[name] = rules.followed(fields[name], self.metrics)
        if self.refit == "auto" and not self._ended_by_validation(fields):
            fields["refit"] = None
        if self.max_steps is not None and self.max_epochs == "auto":
            fields["max_epochs"] = None
        if fields["max_epochs"] is None and self.max_steps is None:
            raise ConfigError("a training needs an end: give max_epochs or max_steps")
        return type(self)(**fields)

    def _ended_by_validation(self, resolved: dict[str, Any]) -> bool:
        """Whether validation decides when the training ends: a length that the user gave is not extended."""
        stopping = resolved["early_stopping"]
        if resolved["validation_split"] is None or not isinstance(stopping, EarlyStopping):
            return False
        validated = not stopping.monitor.startswith("train_")
        own_length = self.max_epochs == "auto" and self.max_steps is None
        return validated and stopping.restore_best_weights and (own_length or self.early_stopping != "auto")


PLAIN_DEFAULTS: dict[str, Any] = {
    "max_epochs": 100,
    "batch_size": 32,
    "validation_split": 0.2,
    "loss": MSE(),
    "optimizer": AdamW(),
    "schedule": None,
    "gradient_clipping": ClipByNorm(max_norm=1.0),
    "early_stopping": EarlyStopping(),
    "steps_per_epoch": None,
    "refit": None,
}
"""The value of "auto" for fields that the recipe does not set."""

__all__ = [
    "PLAIN_DEFAULTS",
    "ActivationCheckpointing",
    "Checkpoints",
    "EarlyStopping",
    "Function",
    "PrecisionName",
    "Regularization",
    "StrategySettings",
    "TrainingConfig",
]
