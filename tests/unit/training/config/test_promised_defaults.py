"""The numbers that users have been promised, table by table.

Where a shipped recipe departs from a starting point of the tables, docs/training.md gives the measurement.
"""

import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.model.recipes import batch_size_for
from neuro_divergent.training.state import early_stopping

PLAIN = nd.TrainingConfig().resolved()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_epochs", 100),
        ("batch_size", 32),
        ("shuffle", True),
        ("validation_split", 0.2),
        ("early_stopping", nd.EarlyStopping(patience=10, min_delta=1e-4, mode="min", restore_best_weights=True)),
        ("gradient_clipping", nd.ClipByNorm(1.0)),
        ("optimizer", nd.AdamW()),
        ("loss", nd.MSE()),
        ("log_every", 10),
    ],
)
def test_a_plain_trainer(field, value):
    assert getattr(PLAIN, field) == value


def test_a_directory_gets_a_checkpoint_every_ten_epochs():
    assert nd.Checkpoints("run").every_n_epochs == 10


@pytest.mark.parametrize(
    ("optimizer", "promised"),
    [
        (nd.AdamW(), {"learning_rate": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0.01}),
        (nd.Adam(), {"learning_rate": 1e-3, "weight_decay": 0.0, "amsgrad": False}),
        (nd.SGD(), {"learning_rate": 1e-2, "momentum": 0.9, "nesterov": False}),
        (nd.RMSprop(), {"learning_rate": 1e-3, "alpha": 0.9, "eps": 1e-8}),
    ],
)
def test_optimizers(optimizer, promised):
    assert {name: getattr(optimizer, name) for name in promised} == promised


SMALL = 500
"""Windows of a small table."""


@pytest.mark.parametrize(
    ("model", "schedule", "rate"),
    [
        (nd.PatchTST, nd.WarmupCosine(warmup=0.1, min_lr=1e-6), 1e-4),
        (nd.MLP, nd.CosineAnnealing(), 1e-3),
        # Departures, measured in docs/training.md: the tables start from a plateau at 1e-3 and from steps of 30 epochs.
        (nd.LSTM, nd.WarmupCosine(warmup=0.1, min_lr=1e-6), 3e-3),
        (nd.TCN, nd.WarmupCosine(warmup=0.1, min_lr=1e-6), 3e-3),
    ],
)
def test_recipes_of_families(model, schedule, rate):
    recipe = model(h=12, input_size=24).recipe(SMALL)
    assert recipe.schedule == schedule
    assert recipe.optimizer.learning_rate == rate
    assert recipe.gradient_clipping == nd.ClipByNorm(1.0)
    assert recipe.batch_size == 32


def test_recurrent_recipes_end_at_200_epochs_and_transformers_take_batches_of_64():
    assert nd.LSTM(h=12, input_size=24).recipe(1).max_epochs == 200
    assert nd.PatchTST(h=12, input_size=24).recipe(1_000_000).batch_size == 64


def test_the_starting_points_of_the_tables_can_be_written_as_they_are_said():
    assert nd.WarmupCosine(warmup_steps=4000, min_lr=1e-6).warmup == 4000
    plateau = nd.ReduceOnPlateau(patience=5, factor=0.5)
    assert (plateau.patience, plateau.factor) == (5, 0.5)
    step = nd.StepDecay(every=30, factor=0.1)
    assert (step.every, step.factor) == (30, 0.1)
    assert nd.VanillaTransformer(h=2, input_size=4, attention_dropout=0.1).attention_dropout == 0.1


@pytest.mark.parametrize(("windows", "size"), [(100, 32), (10_000_000, 1024)])
def test_batch_sizes_follow_the_number_of_windows(windows, size):
    assert batch_size_for(windows) == size


@pytest.mark.parametrize(
    ("preset", "promised"),
    [
        (nd.TrainingConfig.quick, {"max_epochs": 10, "batch_size": 32, "optimizer": nd.AdamW(learning_rate=1e-3)}),
        (
            nd.TrainingConfig.best,
            {
                "max_epochs": 50,
                "batch_size": 64,
                "optimizer": nd.AdamW(learning_rate=1e-3, weight_decay=1e-4),
                "schedule": nd.CosineAnnealing(min_lr=1e-6),
                "gradient_clipping": nd.ClipByNorm(1.0),
                "early_stopping": nd.EarlyStopping(patience=10, min_delta=1e-5),
            },
        ),
        (
            nd.TrainingConfig.low_memory,
            {
                "max_epochs": 20,
                "batch_size": 16,
                "accumulate_gradients": 4,
                "optimizer": nd.AdamW(learning_rate=5e-4),
                "gradient_clipping": nd.ClipByNorm(1.0),
                "device": "auto",  # a CPU is allowed
            },
        ),
    ],
)
def test_presets(preset, promised):
    config = preset()
    assert {name: getattr(config, name) for name in promised} == promised


def test_early_stopping_exactly():
    rule, state, stopped = nd.EarlyStopping(patience=3), early_stopping.Patience(), []
    for epoch, value in enumerate((1.0, 0.8, 0.9, 0.9, 0.9), 1):
        state, _, stop = early_stopping.update(rule, state, value, epoch)
        stopped.append(stop)
    assert stopped == [False, False, False, False, True]


def test_clipping_by_value_takes_a_bound_or_a_range_and_comes_before_the_norm():
    assert nd.ClipByValue(1.0) != nd.ClipByValue((-1.0, 0.5))
    both = nd.TrainingConfig(gradient_clipping=[nd.ClipByNorm(1.0), nd.ClipByValue((-1.0, 1.0))]).gradient_clipping
    import torch

    weight = torch.nn.Parameter(torch.zeros(2))
    weight.grad = torch.tensor([3.0, 4.0])
    both.apply([weight])
    assert weight.grad.tolist() == pytest.approx([0.5**0.5, 0.5**0.5])  # (1, 1) by value, then to the norm 1


def test_probabilistic_recurrent_models_draw_100_paths_and_report_the_deciles_they_are_asked_for():
    assert nd.DeepAR(h=2, input_size=4).samples == 100
    deciles = [number / 10 for number in range(1, 10)]
    assert nd.DistributionLoss(distribution="StudentT", quantiles=deciles).levels == pytest.approx(deciles)


def test_cross_validation_sizes_are_steps_or_shares():
    assert nd.TimeSeriesSplit(test_size=12, gap=1, purge=2, block_size=1, series_splits=2).test_size == 12
    assert nd.TimeSeriesSplit(test_size=0.2).test_size == 0.2


def test_fields_of_a_model_are_no_fields_of_a_training():
    for name in ("dropout", "batch_norm", "lookback"):
        with pytest.raises(nd.ConfigError, match="a field of the model"):
            nd.TrainingConfig(**{name: 1})
