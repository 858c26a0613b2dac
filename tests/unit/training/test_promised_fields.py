"""Metrics without held-out rows, names in any case, accuracy=True, timestamps, warm-up in steps, model fields."""

from datetime import UTC, datetime

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd

X = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]


def config(**fields):
    return nd.TrainingConfig(**{"max_epochs": 3, "progress": False} | fields)


def test_metrics_are_of_the_training_rows_where_nothing_is_held_out():
    module = nn.Linear(1, 1)
    settings = config(validation_split=None, metrics=("MAE",), averaging=None)
    history = nd.Trainer(settings).fit(module, (X, 3 * X))
    error = (module(torch.from_numpy(X)) - torch.from_numpy(3 * X)).abs().mean().item()
    assert history["train_mae"][-1] == pytest.approx(error, rel=1e-6)  # by hand, with the weights of the end
    assert "validation_mae" not in history.epochs[0]
    fitted = nd.MLP(h=3, input_size=6, hidden_size=4).fit(nd.samples.hourly_panel(2, 60), settings)
    assert len(fitted.history["train_mae"]) == 3


def test_a_metric_of_the_training_rows_can_be_watched():
    rule = nd.EarlyStopping(monitor="train_MAE", patience=1, min_delta=1e9)
    history = nd.Trainer(config(validation_split=None, metrics=("mae",), early_stopping=rule)).fit(
        nn.Linear(1, 1), (X, X)
    )
    assert len(history) == 2
    with pytest.raises(nd.ConfigError, match="validation_mae"):  # it is there only where nothing is held out
        nd.Trainer(config(metrics=("mae",), early_stopping=rule)).fit(nn.Linear(1, 1), (X, X))


def test_metric_names_take_any_case():
    assert config(metrics=("sMAPE", "R2")).metrics == ("smape", "r2")
    assert nd.EarlyStopping(monitor="validation_RMSE").monitor == "validation_rmse"
    fitted = nd.NLinear(h=3, input_size=6).fit(nd.samples.hourly_panel(1, 60), config(max_epochs=1))
    scores = fitted.evaluate(nd.samples.hourly_panel(1, 60), metrics=["MAE", "mase"])
    assert scores["NLinear", "mae"] > 0


def test_accuracy_is_a_word_for_its_metric():
    y = (X[:, 0] > 0).astype(np.int64)
    settings = config(accuracy=True, loss=nd.CrossEntropy(label_smoothing=0.1), validation_split=None)
    assert settings.metrics == ("accuracy",)
    assert config(accuracy=False).metrics == ()
    history = nd.Trainer(settings).fit(nn.Linear(1, 2), (X, y))
    assert 0 <= history["train_accuracy"][-1] <= 1


def test_every_epoch_has_its_time():
    before = datetime.now(UTC)
    history = nd.Trainer(config()).fit(nn.Linear(1, 1), (X, X))
    times = history.timestamps
    assert before <= times[0] <= times[1] <= times[2] <= datetime.now(UTC)
    assert nd.History.from_json(history.to_json()).timestamps == times


def test_metrics_are_in_the_plot(tmp_path):
    pytest.importorskip("matplotlib")
    history = nd.Trainer(config(metrics=("mae", "r2"))).fit(nn.Linear(1, 1), (X, X))
    figure = history.plot(tmp_path / "curves.png")
    labels = [axes.get_ylabel() for axes in figure.axes]
    assert labels[1:3] == ["validation\nmae", "validation\nr2"]


@pytest.mark.parametrize("schedule", [nd.WarmupCosine, nd.WarmupLinear])
def test_a_warm_up_in_steps_is_spelt_as_it_is_said(schedule):
    assert schedule(warmup_steps=4000) == schedule(warmup=4000)
    assert schedule.from_dict(schedule(warmup_steps=10).to_dict()).warmup == 10
    with pytest.raises(nd.ConfigError, match="got both"):
        schedule(warmup_steps=4000, warmup=0.1)
    with pytest.raises(nd.ConfigError, match="whole number of steps"):
        schedule(warmup_steps=0.5)


@pytest.mark.parametrize("name", ["warmup_steps", "label_smoothing", "dropout", "batch_norm", "sequence_length"])
def test_what_belongs_elsewhere_is_told_where(name):
    with pytest.raises(nd.ConfigError, match=f"no field '{name}'; .*write nd\\."):
        nd.TrainingConfig(**{name: 1})


TRANSFORMERS = [
    "VanillaTransformer",
    "Informer",
    "Autoformer",
    "FEDformer",
    "iTransformer",
    "TimeXer",
    "PatchTST",
    "TFT",
]


@pytest.mark.parametrize("name", TRANSFORMERS)
def test_attention_dropout_is_a_field_of_every_transformer(name):
    """With all other dropout off, only a training with attention dropout differs from one without."""
    sizes = {"h": 4, "input_size": 16, "dropout": 0.0, "hidden_size": 16}
    sizes |= {"patch_len": 4, "stride": 4} if name in ("TimeXer", "PatchTST") else {}
    known = getattr(nd, name).model_fields
    sizes = {key: value for key, value in sizes.items() if key in known}
    data = nd.samples.hourly_panel(2, 80)

    def losses(**fields):
        model = getattr(nd, name)(**sizes | fields)
        return model.fit(data, config(max_epochs=None, max_steps=3, batch_size=8)).history.step_loss

    without = losses()
    assert losses(attention_dropout=0.0) == without
    assert losses(attention_dropout=0.6) != without


@pytest.mark.parametrize("name", ["MLP", "MLPMultivariate", "NBEATS", "NBEATSx", "NHITS"])
def test_batch_norm_is_a_field_where_a_model_has_hidden_layers(name):
    small = {"h": 4, "input_size": 8, "batch_norm": True}
    fitted = getattr(nd, name)(**small).fit(nd.samples.hourly_panel(2, 60), config(max_epochs=None, max_steps=2))
    norms = [part for part in fitted.network.modules() if isinstance(part, nn.BatchNorm1d)]
    assert norms
    assert all(int(norm.num_batches_tracked) == 2 for norm in norms)
    assert not getattr(nd, name)(h=4, input_size=8).batch_norm


@pytest.mark.parametrize(
    ("address", "extra"), [("gs://b/run", "gcs"), ("az://b/run", "azure"), ("abfs://b/r", "azure")]
)
def test_a_store_names_the_extra_that_brings_it(address, extra):
    with pytest.raises(nd.NeuroDivergentError, match=rf"neuro-divergent\[{extra}\]"):
        nd.read_run(address)


def test_an_unknown_protocol_is_answered_with_the_known_ones():
    with pytest.raises(nd.StorageError, match="begin with s3://, gs://"):
        nd.read_run("nowhere://b/run")
