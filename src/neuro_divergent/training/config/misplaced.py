"""Explains settings that were given in the wrong place, or by their name in another library.

One table, `WORDS`, has the names of other libraries. A field of ours that was given to the wrong object needs no
entry: `answer` finds its owner.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from neuro_divergent.core import registry
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import Advice, ConfigError
from neuro_divergent.data.schema.schema import LoadOptions

Owner = Literal["training", "model", "fit"]
"""The owner of a setting: the TrainingConfig, the model's description, or the call of fit."""


class Home(NamedTuple):
    """The owner of a setting, and what to write there."""

    owner: Owner
    write: str
    """An argument of the owner; {} is the given value as Python code."""
    note: str = ""
    """What else a user of the other library should know, as the end of the sentence."""


def _named(owner: Owner, **words: str) -> dict[str, Home]:
    """Names of other libraries for our fields: `max_epochs="n_epochs epochs"`. The value does not change."""
    return {word: Home(owner, f"{field}={{}}") for field, others in words.items() for word in others.split()}


_OF_TRAINING = _named(
    "training",
    learning_rate="lr base_lr max_lr initial_lr",
    max_epochs="epochs n_epochs num_epochs nb_epochs",
    max_steps="steps n_steps num_steps train_steps num_train_steps max_train_steps",
    early_stopping="patience early_stop_patience_steps early_stopping_patience early_stopping_rounds",
    seed="random_seed random_state",
    batch_size="windows_batch_size train_batch_size valid_batch_size inference_windows_batch_size",
    steps_per_epoch="num_batches_per_epoch limit_train_batches",
    gradient_clipping="gradient_clip_val grad_clip clip_grad_norm clip_norm clipnorm max_grad_norm",
    accumulate_gradients="accumulate_grad_batches gradient_accumulation_steps",
    num_workers="num_workers_loader n_workers",
    validation_loss="valid_loss val_loss",
    validation_split="val_split validation_size",
    metrics="torch_metrics logging_metrics",
    checkpoints="checkpoint_dir save_dir work_dir default_root_dir",
    progress="enable_progress_bar progress_bar show_progress",
    log_every="log_every_n_steps log_interval",
    loss="loss_fn loss_function criterion",
    optimizer="optimizer_cls optimizer_class",
    mixed_precision="amp use_amp",
) | {
    name: Home("training", write)
    for name, write in {
        "val_size": "validation_split=0.2",
        "val_check_steps": "validate_every=1",
        "weight_decay": "optimizer=nd.AdamW(weight_decay={})",
        "betas": "optimizer=nd.AdamW(betas={})",
        "momentum": "optimizer=nd.SGD(momentum={})",
        "optimizer_kwargs": "optimizer=nd.AdamW(weight_decay=0.01)",
        "lr_scheduler": "schedule=nd.CosineAnnealing()",
        "lr_scheduler_cls": "schedule=nd.CosineAnnealing()",
        "lr_schedule": "schedule=nd.CosineAnnealing()",
        "scheduler": "schedule=nd.CosineAnnealing()",
        "clipvalue": "gradient_clipping=nd.ClipByValue({})",
        "min_delta": "early_stopping=nd.EarlyStopping(min_delta={})",
        "likelihood": 'loss=nd.DistributionLoss(distribution="StudentT")',
        "distribution": "loss=nd.DistributionLoss(distribution={})",
        "distr_output": 'loss=nd.DistributionLoss(distribution="StudentT")',
        "level": "loss=nd.MQLoss(level={})",
        "quantiles": "loss=nd.MQLoss(quantiles={})",
        "quantile_levels": "loss=nd.MQLoss(quantiles={})",
        "teacher_forcing_ratio": "teacher_forcing={}",
        "point": "loss=nd.MQLoss(point={})",
        "fp16": 'precision="fp16"',
        "warmup_steps": "schedule=nd.WarmupCosine(warmup_steps={})",
        "label_smoothing": "loss=nd.CrossEntropy(label_smoothing={})",
        "bf16": 'precision="bf16"',
        "accelerator": "device={}",
        "devices": 'device="auto"',
        "gpus": 'device="cuda"',
        "pl_trainer_kwargs": "max_epochs=100",
        "trainer_kwargs": "max_epochs=100",
    }.items()
}
_OF_TRAINING["fp16_opt_level"] = Home(
    "training", 'precision="fp16"', ', which is O1 (autocast); precision="fp16-true" has half-precision weights'
)

_OF_MODEL = _named(
    "model",
    h="horizon prediction_length output_chunk_length max_prediction_length forecast_length pred_len fh",
    input_size="context_length input_chunk_length max_encoder_length backcast_length lookback window_size "
    "seq_len sequence_length lags",
    alias="model_name",
    scaler="scaler_type",
    dropout="dropout_rate dropout_prob_theta dropout_prob",
    hidden_size="hidden_dim hidden_units encoder_hidden_size num_cells d_model",
    layers="n_layers num_layers n_rnn_layers encoder_n_layers e_layers",
    heads="n_heads n_head num_heads num_attention_heads nhead",
) | {name: Home("model", 'scaler="revin"') for name in ("revin", "use_reversible_instance_norm")}

_OF_FIT = (
    _named(
        "fit",
        freq="frequency",
        future="futr_exog_list future_covariates time_varying_known_reals known_covariates_names",
        historical="hist_exog_list past_covariates time_varying_unknown_reals",
        static="stat_exog_list static_covariates static_reals static_df",
        validation="val_series validation_data val_data eval_set",
        id_col="group_ids group_id",
        time_col="time_idx date_col",
    )
    | {name: Home("fit", f"{name}={{}}") for name in LoadOptions.__annotations__}
    | {name: Home("fit", f"{name}={{}}") for name in ("validation", "resume", "resume_with")}
    | {"prediction_intervals": Home("fit", "prediction_intervals=nd.PredictionIntervals()")}
)

WORDS: Mapping[str, Home] = _OF_TRAINING | _OF_MODEL | _OF_FIT
"""Names that users write → the owner of the setting."""

_ACCELERATORS = {"gpu": "cuda", "cuda": "cuda", "cpu": "cpu", "mps": "mps"}


class Answer(NamedTuple):
    """The answer to a misplaced setting."""

    sentence: str
    """What to write, as the end of a sentence."""
    advice: tuple[Advice, ...]


def answer(name: str, value: Any, here: Owner, fields: Mapping[str, Any], training: Mapping[str, Any]) -> Answer | None:
    """Where a setting belongs that was given to `here`; None if it is unknown.

    Args:
        name: the given name.
        value: the given value.
        here: the object that got the setting and does not have it.
        fields: the fields of that object.
        training: the fields of TrainingConfig.
    """
    home = Home("training", f"{name}={{}}") if name in training and here != "training" else WORDS.get(name)
    if home is None and here != "model":
        home = Home("model", f"{name}={{}}")
    if home is None:
        return None
    if name == "accelerator":
        value = _ACCELERATORS.get(str(value), "auto")
    write = home.write.format(as_code(value))
    field, given = write.split("=", 1)
    if home.owner == here:
        known = field in fields or here == "fit" or field in ("mixed_precision",)
        own = f"nd.TrainingConfig({write})" if here == "training" else write
        return Answer(f"write {own}{home.note}", _advice(here, field, given)) if known else None
    if home.owner == "model":
        example = _model_with(field, write)
        sentence = f"it is a field of the model: write {example}"
        return None if example is None else Answer(sentence, _advice("model", field, given))
    call = f"nd.TrainingConfig({write})" if home.owner == "training" else write
    method = "fit" if here == "fit" else "model.fit"
    return Answer(f"write {method}(data, {call}){home.note}", _advice(home.owner, field, given))


def _advice(owner: Owner, field: str, given: str) -> tuple[Advice, ...]:
    """The same setting in a run file, if it is a plain value there."""
    if given.startswith("nd.") or (owner == "fit" and field not in LoadOptions.__annotations__):
        return ()
    place = {"training": "training", "model": "model", "fit": "data"}[owner]
    return (Advice(f"{place}.{field}", given.strip("'\"")),)


def _model_with(field: str, write: str) -> str | None:
    """Python code of a model that has the field: MLP, or else the first one in alphabetical order."""
    having = [kind for kind, cls in registry.members("model").items() if field in cls.model_fields and kind != "HINT"]
    if not having:
        return None
    kind = "MLP" if "MLP" in having else having[0]
    sizes = {"h": "h=12", "input_size": "input_size=24"} | {field: write}
    return f"nd.{kind}({', '.join(sizes.values())})"


def as_code(value: Any) -> str:
    """A value as Python code: `nd.MAE()`, `[80, 95]`; "..." if it cannot be written.

    >>> as_code([80, 95]), as_code(lambda: 0)
    ('[80, 95]', '...')
    """
    if isinstance(value, Description):
        names = [name for name in type(value).model_fields if name in value.model_fields_set]
        return f"nd.{value.kind}({', '.join(f'{name}={as_code(getattr(value, name))}' for name in names)})"
    if isinstance(value, type) and issubclass(value, Description):
        return f"nd.{value.kind}"
    if isinstance(value, list | tuple) and value:
        inner = ", ".join(as_code(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner},)"
    plain = value is None or isinstance(value, str | bool | int | float | list | tuple)
    return repr(value) if plain and len(repr(value)) <= 60 else "..."


def not_a_config(given: Any, training: Mapping[str, Any]) -> ConfigError:
    """The error for fit(data, {...}): it shows the same settings as a TrainingConfig, as far as they exist."""
    settings = given if isinstance(given, Mapping) else {}
    homes = {name: WORDS.get(str(name), Home("training", f"{name}={{}}")) for name in settings}
    write = [home.write.format(as_code(settings[name])) for name, home in homes.items()]
    known = [one for one in write if one.split("=", 1)[0] in training]
    return ConfigError(
        f"config must be a TrainingConfig, but got {type(given).__name__}. Write fit(data, "
        f"nd.TrainingConfig({', '.join(known) or 'max_epochs=50'}))"
    )
