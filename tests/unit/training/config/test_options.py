"""Every option of a training does what its sentence says, or is refused with one."""

from __future__ import annotations

import logging
import os
import subprocess
import sys

import numpy as np
import polars as pl
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.data import samples
from neuro_divergent.training.compiled.network import compiled

X = np.random.default_rng(0).normal(size=(100, 3)).astype(np.float32)
Y = X[:, :1] * 2 - X[:, 1:2]
RECENT = nd.Weighted(loss=nd.MAE(), by="recency", half_life=12)


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 1))


def fit(module=None, data=(X, Y), **fields):
    module = module or net()
    defaults = {"max_epochs": 2, "validation_split": None, "progress": False}
    return module, nd.Trainer(nd.TrainingConfig(**defaults | fields)).fit(module, data)


def weights(module):
    return torch.cat([parameter.detach().flatten() for parameter in module.parameters()])


@pytest.mark.parametrize(
    ("fields", "steps"),
    [
        ({"batch_size": 32}, 2 * 4),
        ({"batch_size": 32, "drop_last": True}, 2 * 3),
        ({"batch_size": 16, "accumulate_gradients": 2}, 2 * 4),
        ({"batch_size": 10, "steps_per_epoch": 3}, 2 * 3),
        ({"batch_size": 32, "max_steps": 5}, 5),
        ({"batch_size": 32, "max_epochs": None, "max_steps": 7}, 7),
    ],
)
def test_how_many_steps(fields, steps):
    _, history = fit(**fields)
    assert len(history.step_loss) == steps


def test_plain_defaults_are_the_promised_ones():
    resolved = nd.TrainingConfig().resolved()
    assert (resolved.max_epochs, resolved.batch_size, resolved.validation_split) == (100, 32, 0.2)
    assert (resolved.shuffle, resolved.log_every) == (True, 10)
    expected = nd.EarlyStopping(patience=10, min_delta=1e-4, restore_best_weights=True, mode="min")
    assert resolved.early_stopping == expected
    assert resolved.gradient_clipping == nd.ClipByNorm(1.0)
    assert resolved.optimizer == nd.AdamW(learning_rate=1e-3, weight_decay=0.01)


def test_presets_are_the_promised_ones():
    quick, best, low = nd.TrainingConfig.quick(), nd.TrainingConfig.best(), nd.TrainingConfig.low_memory()
    assert (quick.max_epochs, quick.batch_size, quick.optimizer.learning_rate) == (10, 32, 1e-3)
    assert (best.max_epochs, best.batch_size, best.optimizer.weight_decay) == (50, 64, 1e-4)
    assert (best.schedule, best.early_stopping.min_delta) == (nd.CosineAnnealing(min_lr=1e-6), 1e-5)
    assert (low.max_epochs, low.batch_size, low.accumulate_gradients, low.optimizer.learning_rate) == (20, 16, 4, 5e-4)
    assert nd.TrainingConfig.quick(max_epochs=3).max_epochs == 3


def test_frozen_parameters_stay():
    module = net()
    before = module[0].weight.clone()
    fit(module, freeze=("0.*",))
    assert torch.equal(module[0].weight, before)
    with pytest.raises(nd.ConfigError, match="at least one parameter that is not frozen"):
        fit(freeze=("*",))


def test_the_lowest_rate_is_a_share_of_the_optimizers_own_rate():
    # 1e-3 is a tenth of the optimizer's 1e-2, so both groups fall to a tenth, whichever of them comes first.
    seen = []

    class Look(nd.Callback):
        def on_batch_end(self, state):
            seen.append([group["lr"] for group in state.optimizer.param_groups])

    group = nd.ParameterGroup(pattern="0.*", learning_rate=1e-3)
    optimizer = nd.SGD(learning_rate=1e-2, groups=(group,))
    schedule = nd.ExponentialDecay(factor=0.01, unit="step", min_lr=1e-3)
    fit(max_epochs=1, batch_size=50, optimizer=optimizer, schedule=schedule, callbacks=(Look(),))
    assert seen[0] == pytest.approx([1e-3, 1e-2])
    assert seen[1] == pytest.approx([1e-4, 1e-3])


def test_penalties_by_hand():
    # Gradient of 0.5·|w| + 0.25·w² at w = 2 is 0.5 + 1 = 1.5; data adds nothing (x = 0). SGD with rate 0.1: 2 - 0.15.
    module = nn.Linear(1, 1)
    nn.init.constant_(module.weight, 2.0)
    nn.init.zeros_(module.bias)
    penalty = nd.Regularization(l1=0.5, l2=0.25)
    sgd = nd.SGD(learning_rate=0.1, momentum=0.0)
    zeros = np.zeros((4, 1))
    fit(module, (zeros, zeros), max_epochs=1, regularization=penalty, optimizer=sgd, gradient_clipping=None)
    assert module.weight.item() == pytest.approx(1.85)
    assert module.bias.item() == 0.0


def test_a_line_in_the_log_every_n_epochs(caplog):
    with caplog.at_level(logging.INFO, logger="neuro_divergent.training"):
        fit(max_epochs=7, log_every=3)
    lines = [record for record in caplog.records if record.name == "neuro_divergent.training"]
    assert [line.message.split()[0] for line in lines] == ["epoch=3", "epoch=6", "trained"]
    assert lines[0].figures["epoch"] == 3
    assert "7" not in lines[1].message.split()[0]


def test_threads_and_determinism_are_given_back():
    seen = []

    class Look(nd.Callback):
        def on_batch_end(self, state):
            seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))

    before = torch.get_num_threads()
    fit(threads=before + 1, deterministic=True, callbacks=(Look(),))
    assert set(seen) == {(before + 1, True)}
    assert torch.get_num_threads() == before
    assert not torch.are_deterministic_algorithms_enabled()


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.teacher_forcing, self.told = nn.Linear(3, 1), 0.0, []

    def forward(self, x):
        if self.training:
            self.told.append(self.teacher_forcing)
        return self.inner(x)


def test_the_teacher_forcing_ratio_falls_step_by_step():
    # 4 steps: 1 - step / 4.
    module = nn.Sequential(Decoder())
    fit(module, max_epochs=1, batch_size=25, teacher_forcing=nd.TeacherForcing(start=1.0, end=0.0))
    assert module[0].told == pytest.approx([1.0, 0.75, 0.5, 0.25])
    with pytest.raises(nd.ConfigError, match="this network has none"):
        fit(teacher_forcing=nd.TeacherForcing())


def test_a_growing_horizon_counts_more_steps_with_time():
    curriculum = nd.GrowingHorizon(share=0.5, start=1)
    assert [curriculum.horizon(step, 100, 12) for step in (0, 25, 49, 50, 99)] == [1, 6, 11, 12, 12]
    settings = nd.TrainingConfig(max_epochs=2, curriculum=curriculum, progress=False)
    fitted = nd.MLP(h=6, input_size=12, hidden_size=8).fit(samples.air_passengers(), settings, freq="1mo")
    assert np.isfinite(fitted.history.train_loss).all()


def test_easy_series_first_draws_them_first():
    curriculum = nd.EasySeriesFirst(start=0.25, share=0.5)
    assert [curriculum.series_share(epoch, 8) for epoch in (0, 2, 4, 7)] == [0.25, 0.625, 1.0, 1.0]
    settings = nd.TrainingConfig(max_epochs=2, curriculum=curriculum, progress=False, steps_per_epoch=5)
    fitted = nd.MLP(h=6, input_size=12, hidden_size=8).fit(samples.hourly_panel(5, 150), settings, freq="1h")
    assert np.isfinite(fitted.history.train_loss).all()
    with pytest.raises(nd.ConfigError, match="multivariate"):
        nd.TSMixer(h=6, input_size=12).fit(samples.hourly_panel(3, 150), settings, freq="1h")


def test_compiling_changes_nothing_but_rounding(caplog):
    caplog.set_level(logging.INFO, logger="neuro_divergent")

    def with_dropout():
        torch.manual_seed(0)
        return nn.Sequential(nn.Linear(3, 8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 1))

    plain, _ = fit(with_dropout(), max_epochs=None, max_steps=3)
    assert "compiled" not in caplog.text
    module, _ = fit(with_dropout(), max_epochs=None, max_steps=3, compile=True)
    assert "the step was compiled in" in caplog.text
    assert torch.allclose(weights(plain), weights(module), atol=1e-6)
    assert module._compiled_call_impl is None
    assert list(module.state_dict()) == list(plain.state_dict())


ALONE = """
import logging, numpy as np, torch
from torch import nn
import neuro_divergent as nd

logging.basicConfig()
x = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
config = nd.TrainingConfig(max_epochs=2, validation_split=None, progress=False)

def run(**fields):
    torch.manual_seed(0)
    module = nn.Sequential(nn.Linear(1, 4), nn.Tanh(), nn.Linear(4, 1))
    return nd.Trainer(config.replace(**fields)).fit(module, (x, x)).step_loss

assert run(compile=True) == run()
"""


def test_without_a_compiler_the_training_goes_on_and_says_so(tmp_path):
    # In a process of its own: the compiler that was found is remembered for the life of a process.
    alone = os.environ | {"CXX": "no-such-compiler", "TORCHINDUCTOR_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", ALONE], env=alone, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("could not be compiled, so it runs eagerly") == 1


def test_auto_does_not_compile():
    with compiled(net(), "auto") as on:
        assert on is False


def test_a_function_is_a_loss_and_a_class_of_losses_too():
    def cubic(output, target):
        return (output - target).abs() ** 3

    _, history = fit(loss=cubic)
    assert history.train_loss[1] < history.train_loss[0]
    assert nd.TrainingConfig(loss=nd.MAE).loss == nd.MAE()
    with pytest.raises(nd.ConfigError, match=r'Do not take the mean \(a loss of torch takes reduction="none"'):
        fit(loss=lambda output, target: (output - target).mean())


def test_noise_and_clipping_do_what_they_say():
    quiet, _ = fit(max_epochs=1)
    noisy, _ = fit(max_epochs=1, gradient_noise=nd.GradientNoise(eta=1.0))
    assert not torch.equal(weights(quiet), weights(noisy))
    still, _ = fit(max_epochs=1, gradient_clipping=nd.ClipByNorm(1e-12), optimizer=nd.SGD(learning_rate=0.1))
    assert torch.allclose(weights(still), weights(net()), atol=1e-9)


def test_a_validation_loss_of_its_own():
    _, history = fit(validation_split=0.2, loss=nd.MSE(), validation_loss=nd.RMSE(), metrics=("rmse",))
    assert history.validation_loss == pytest.approx(history["validation_rmse"], rel=1e-6)
    with pytest.raises(nd.ConfigError, match="same network outputs"):
        fit(loss=nd.MSE(), validation_loss=nd.MQLoss(level=[80]))


def test_schedule_free_needs_no_schedule_and_gives_back_the_average():
    free = nd.ScheduleFreeAdamW()
    recipe = nd.TrainingConfig(schedule=nd.CosineAnnealing())
    assert nd.TrainingConfig(optimizer=free).resolved(recipe).schedule is None
    _, history = fit(max_epochs=20, optimizer=free, validation_split=0.2)
    assert history.validation_loss[-1] < history.validation_loss[0]


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"optimizer": nd.ScheduleFreeAdamW(), "averaging": nd.EMA()}, "averages the weights itself"),
        ({"optimizer": nd.ScheduleFreeAdamW(), "schedule": nd.OneCycle()}, "replaces a schedule"),
        ({"curriculum": nd.EasySeriesFirst(), "shuffle": False}, "draws windows in its own order"),
        ({"gradient_method": "central", "activation_checkpointing": nd.ActivationCheckpointing()}, "backward pass"),
        ({"compile": True, "activation_checkpointing": nd.ActivationCheckpointing()}, "Leave one of them out"),
        ({"refit_on_all": True, "validation_split": None}, "needs validation"),
        ({"early_stopping": nd.EarlyStopping(monitor="validation_mae")}, "name it in metrics"),
        ({"schedule": nd.ReduceOnPlateau(monitor="accuracy")}, "schedule.monitor must be one of"),
        ({"callbacks": ("csv",)}, "there is no callback named 'csv'; did you mean CsvLog"),
        ({"callbacks": (3,)}, "callbacks must be .* functions, but got 3"),
        ({"max_epochs": 0}, "max_epochs"),
        ({"batch_sise": 32}, "batch_size"),
    ],
)
def test_what_contradicts_itself_is_refused_when_it_is_written(fields, words):
    with pytest.raises(nd.ConfigError, match=words):
        nd.TrainingConfig(**fields)


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"augmentation": nd.Jitter()}, "windows of time series"),
        ({"curriculum": nd.GrowingHorizon()}, "windows of time series"),
        ({"refit_on_all": True, "validation_split": 0.2}, "has only your module"),
        ({"drop_last": True, "batch_size": 101}, "100 windows or rows do not fill one batch of 101"),
        ({"metrics": ("accuracy",)}, "accuracy needs a classification loss"),
        ({"loss": nd.ImplicitQuantile()}, "has its own layer"),
        ({"loss": RECENT}, "needs windows of series"),
        ({"loss": nd.Weighted(loss=RECENT, by="horizon", decay=0.5)}, "needs windows of series"),
        ({"loss": nd.Weighted(loss=nd.MAE(), by=lambda time, value: value)}, "as the third array"),
        ({"validation_loss": RECENT}, "needs windows of"),
        ({"loss": nd.Weighted(loss=nd.MAE(), by="column")}, "as the third array"),
        ({"max_epochs": None}, "needs an end"),
    ],
)
def test_what_arrays_cannot_do_is_refused(fields, words):
    with pytest.raises(nd.ConfigError, match=words):
        fit(**fields)


def test_a_batch_of_one_row_under_a_batch_norm_is_explained():
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Linear(4, 1))
    with pytest.raises(nd.ConfigError, match="at least two rows"):
        fit(module, (X[:9], Y[:9]), batch_size=8)
    fit(module, (X[:9], Y[:9]), batch_size=8, drop_last=True)


def test_what_tables_cannot_do_is_refused():
    model, table = nd.MLP(h=6, input_size=12, hidden_size=8), samples.air_passengers()
    with pytest.raises(nd.ConfigError, match="is for classes"):
        model.fit(table, nd.TrainingConfig(loss=nd.CrossEntropy(), max_epochs=1), freq="1mo")
    with pytest.raises(nd.ConfigError, match="do not fill one batch"):
        model.fit(table, nd.TrainingConfig(drop_last=True, batch_size=4096, max_epochs=1), freq="1mo")


def test_refitting_uses_everything_for_the_epochs_found():
    settings = nd.TrainingConfig(max_epochs=3, refit_on_all=True, progress=False)
    fitted = nd.MLP(h=6, input_size=12, hidden_size=8).fit(samples.air_passengers(), settings, freq="1mo")
    event = fitted.history.events[-1]
    assert (event["event"], event["how"]) == ("refit", "all")
    assert event["epochs"] == fitted.history.best_epoch
    assert len(fitted.history.validation_loss) == 3


def test_refitting_goes_on_without_the_metric_that_a_schedule_follows():
    schedule = nd.ReduceOnPlateau(monitor="validation_r2", mode="max", patience=0)
    settings = nd.TrainingConfig(max_epochs=2, refit_on_all=True, metrics=("r2",), schedule=schedule, progress=False)
    fitted = nd.MLP(h=6, input_size=12, hidden_size=8).fit(samples.air_passengers(), settings, freq="1mo")
    assert fitted.history.events[-1]["event"] == "refit"


def test_a_configuration_survives_its_file():
    settings = nd.TrainingConfig.best(
        loss=nd.MQLoss(level=[80]),
        callbacks=(nd.Timer(max_minutes=5),),
        gradient_clipping=nd.ClipByNorm(0.5),
        averaging=nd.EMA(),
        curriculum=nd.GrowingHorizon(),
        teacher_forcing=nd.TeacherForcing(),
        activation_checkpointing=nd.ActivationCheckpointing(every=2),
    )
    assert nd.TrainingConfig.from_json(settings.to_json()) == settings
    assert nd.TrainingConfig.from_yaml(settings.to_yaml()) == settings


def frozen_validation(**losses):
    """The validation loss of an untrained linear model, whose weights a rate of 1e-12 leaves as they are."""
    table = pl.DataFrame({"ds": list(range(60)), "y": np.linspace(0.0, 1.0, 60) ** 2 * 100})
    slow = nd.TrainingConfig(
        max_epochs=1, optimizer=nd.SGD(learning_rate=1e-12), validation_split=0.3, progress=False, **losses
    )
    return nd.DLinear(h=2, input_size=6).fit(table, slow, freq=1).history.validation_loss[0]


def test_the_rows_are_weighted_by_each_loss_for_itself():
    recent = nd.Weighted(loss=nd.MAE(), by="recency", half_life=3)
    by_function = nd.Weighted(loss=nd.MAE(), by=lambda time, value: np.where(time < 55, 0.0, 1.0))
    plain = frozen_validation(loss=nd.MAE())
    weighted = frozen_validation(loss=recent)
    assert weighted != pytest.approx(plain, rel=1e-3)
    assert frozen_validation(loss=recent, validation_loss=nd.MAE()) == pytest.approx(plain)
    assert frozen_validation(loss=nd.MAE(), validation_loss=recent) == pytest.approx(weighted)
    assert frozen_validation(loss=recent, validation_loss=by_function) == pytest.approx(
        frozen_validation(loss=nd.MAE(), validation_loss=by_function)
    )


def test_a_function_weights_the_rows_once_for_training_and_validation():
    """Of 60 rows, 42 are trained on: the function is asked for them, and apart from them for the 18 held-out rows."""
    asked = []

    def by(time, value):
        asked.append(len(value))
        return np.ones(len(value))

    frozen_validation(loss=nd.Weighted(loss=nd.MAE(), by=by))
    assert asked == [42, 18]
    frozen_validation(loss=nd.MAE(), validation_loss=nd.Weighted(loss=nd.MAE(), by=by))
    assert asked == [42, 18, 42, 18]
