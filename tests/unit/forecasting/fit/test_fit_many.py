"""fit_many, and who uses it: the forecasters are those that each training gives by itself, but for rounding."""

import logging

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd

CONFIG = nd.TrainingConfig(max_steps=40, batch_size=16, progress=False)
MODEL = nd.MLP(h=4, input_size=12, hidden_size=8)


def panel(series=2, hours=90):
    return nd.samples.hourly_panel(series, hours)


def assert_alike(one, other):
    """Two forecasters of the same training."""
    assert len(one.history.step_loss) == len(other.history.step_loss)
    np.testing.assert_allclose(other.history.step_loss, one.history.step_loss, rtol=1e-4)
    assert other.history.best_epoch == one.history.best_epoch
    assert other.history.stopped == one.history.stopped
    assert other.config == one.config
    left, right = (item.predict() for item in (one, other))
    assert left.columns == right.columns
    for name in left.columns[2:]:
        np.testing.assert_allclose(right[name], left[name], rtol=1e-4, err_msg=name)


def test_seeds_give_the_forecasters_of_single_fits():
    together = nd.fit_many(MODEL, panel(), CONFIG, seeds=3, stacked=True, freq="1h")
    assert [item.config.seed for item in together] == [1, 2, 3]
    for seed, fitted in zip((1, 2, 3), together, strict=True):
        assert_alike(MODEL.fit(panel(), CONFIG.replace(seed=seed), freq="1h"), fitted)
    assert together[0].history.step_loss != together[1].history.step_loss


def test_the_recipe_with_early_stopping_and_metrics():
    config = nd.TrainingConfig(progress=False, metrics=("mae", "rmse"), max_epochs=12)
    together = nd.fit_many(MODEL, panel(), config, seeds=[4, 7], stacked=True)
    for seed, fitted in zip((4, 7), together, strict=True):
        alone = MODEL.fit(panel(), config.replace(seed=seed))
        assert_alike(alone, fitted)
        for name in ("validation_loss", "validation_mae", "validation_rmse", "learning_rate"):
            np.testing.assert_allclose(fitted.history[name], alone.history[name], rtol=1e-4)


def test_a_stacked_forecaster_saves_loads_predicts_and_goes_on(tmp_path):
    fitted = nd.fit_many(MODEL, panel(), CONFIG, seeds=2, stacked=True)[1]
    fitted.save(tmp_path / "model")
    again = nd.load(tmp_path / "model")
    assert again.predict().equals(fitted.predict())
    assert again.config.callbacks == ()
    assert len(fitted.update(panel(), CONFIG).history.step_loss) > 0


def test_quantile_models_of_one_architecture():
    levels = (0.1, 0.5, 0.9)
    configs = [CONFIG.replace(loss=nd.Quantile(q=level), max_steps=60) for level in levels]
    together = nd.fit_many(MODEL, panel(), configs, stacked=True)
    for config, fitted in zip(configs, together, strict=True):
        assert fitted.loss == config.loss
        assert_alike(MODEL.fit(panel(), config), fitted)
    low, _, high = (fitted.predict()["MLP"].mean() for fitted in together)
    assert low < high


def test_trials_with_rates_of_their_own():
    configs = [CONFIG.replace(optimizer=nd.AdamW(learning_rate=rate)) for rate in (1e-4, 1e-3, 1e-2)]
    for config, fitted in zip(configs, nd.fit_many(MODEL, panel(), configs, stacked=True), strict=True):
        assert_alike(MODEL.fit(panel(), config), fitted)


def test_tables_of_their_own_with_columns_gaps_and_different_lengths():
    """Columns are standardised by each table's own figures; masked rows and unequal batches are in it too."""
    tables = []
    for hours in (80, 97, 110):
        frame = panel(2, hours).with_columns(
            pl.when(pl.int_range(pl.len()) % 17 == 5).then(None).otherwise("y").alias("y")
        )
        frame = frame.with_columns(price=pl.int_range(pl.len()).cast(pl.Float64) % hours)
        tables.append(nd.TimeSeriesDataFrame.from_frame(frame, historical=["price"], features=["hour"]))
    together = nd.fit_many(MODEL, tables, CONFIG, stacked=True)
    for table, fitted in zip(tables, together, strict=True):
        assert_alike(MODEL.fit(table, CONFIG), fitted)


@pytest.mark.parametrize(
    "model",
    [
        nd.DLinear(h=4, input_size=12),
        nd.MLP(h=4, input_size=24, hidden_size=8, anchor=(24, 12)),
        nd.NBEATS(h=4, input_size=12, hidden_sizes=(8, 8)),
        nd.NHITS(h=4, input_size=12, hidden_sizes=(8, 8)),
    ],
    ids=["DLinear", "a learned anchor", "NBEATS", "NHITS"],
)
def test_other_small_models_are_stacked_too(model):
    together = nd.fit_many(model, panel(), CONFIG, seeds=2, stacked=True)
    assert_alike(model.fit(panel(), CONFIG.replace(seed=2)), together[1])


FALLBACKS = {
    "dropout": (nd.MLP(h=4, input_size=12, hidden_size=8, dropout=0.3), {}, "random numbers"),
    "recurrent": (nd.LSTM(h=4, input_size=12, hidden_size=4), {}, "one after the other"),
    "a callback": (MODEL, {"callbacks": (nd.Timer(),)}, "callbacks"),
    "few steps": (MODEL, {"max_steps": 5}, "5 steps are too few"),
    "large": (nd.MLP(h=4, input_size=12, hidden_size=600), {}, "too much work to gain"),
}


@pytest.mark.parametrize(("model", "fields", "why"), FALLBACKS.values(), ids=FALLBACKS)
def test_what_is_not_stacked_comes_out_to_the_same_bits_and_the_log_says_why(model, fields, why, caplog):
    config = CONFIG.replace(**{"max_steps": 20} | fields)
    with caplog.at_level(logging.INFO):
        together = nd.fit_many(model, panel(), config, seeds=2)
    assert why in caplog.text
    for seed, fitted in zip((1, 2), together, strict=True):
        alone = model.fit(panel(), config.replace(seed=seed))
        assert fitted.history.step_loss == alone.history.step_loss
        assert fitted.predict().equals(alone.predict())


def test_what_contradicts_itself_is_refused():
    with pytest.raises(nd.ConfigError, match=r"one entry for each training, but got \{'configs': 2, 'seeds': 3\}"):
        nd.fit_many(MODEL, panel(), [CONFIG, CONFIG], seeds=[1, 2, 3])
    with pytest.raises(nd.ConfigError, match="a number of seeds needs one configuration"):
        nd.fit_many(MODEL, panel(), [CONFIG, CONFIG], seeds=2)
    with pytest.raises(nd.ConfigError, match="stacked must be"):
        nd.fit_many(MODEL, panel(), CONFIG, seeds=2, stacked="yes")
    with pytest.raises(nd.ConfigError, match=r"stacked=True .* prediction_intervals train each model twice"):
        nd.fit_many(MODEL, panel(), CONFIG, seeds=2, stacked=True, prediction_intervals=nd.PredictionIntervals())
    with pytest.raises(nd.ConfigError, match=r"stacked=True .* differ in shapes"):
        nd.fit_many([MODEL, nd.DLinear(h=4, input_size=12)], panel(), CONFIG, stacked=True)


def test_an_ensemble_of_seeds_is_stacked_unless_told_otherwise(caplog):
    with caplog.at_level(logging.INFO):
        stacked = nd.seed_ensemble(MODEL, panel(), CONFIG, seeds=3)
        assert "3 trainings run as one" in caplog.text
        caplog.clear()
        single = nd.seed_ensemble(MODEL, panel(), CONFIG, seeds=3, stacked=False)
        assert "run as one" not in caplog.text
    np.testing.assert_allclose(stacked.predict()["MLP"], single.predict()["MLP"], rtol=1e-4)


def test_cross_validation_trains_its_folds_together(caplog):
    models = [MODEL, nd.DLinear(h=4, input_size=12)]
    options = {"config": CONFIG, "n_windows": 3, "refit": True}
    with caplog.at_level(logging.INFO):
        stacked = nd.cross_validation(models, panel(), **options)
    assert caplog.text.count("3 trainings run as one") == 2
    single = nd.cross_validation(models, panel(), **options, stacked=False)
    for name in ("MLP", "DLinear"):
        np.testing.assert_allclose(stacked.frame[name], single.frame[name], rtol=1e-4)
        assert_alike(single.forecasters[name], stacked.forecasters[name])
    with pytest.raises(nd.ConfigError, match=r"stacked=True .* only one training"):
        nd.cross_validation(models, panel(), config=CONFIG, n_windows=3, stacked=True)


def test_nothing_after_a_cutoff_changes_a_stacked_fold():
    """The folds stand in one stack, and still: poison after the middle cutoff, and the first windows are the same bits.

    Early stopping is on: the poisoned fold leaves the stack at another time.
    """
    frame = panel(2, 100)
    config = CONFIG.replace(max_steps=None, max_epochs=30, early_stopping=nd.EarlyStopping(patience=2))
    options = {"config": config, "n_windows": 3, "refit": True, "stacked": True}
    clean = nd.cross_validation([MODEL], frame, **options).frame
    middle = clean["cutoff"].unique().sort()[1]
    poisoned = frame.with_columns(y=pl.when(pl.col("ds") > middle).then(1e3).otherwise(pl.col("y")))
    again = nd.cross_validation([MODEL], poisoned, **options).frame
    seen, same = (part.filter(pl.col("cutoff") <= middle)["MLP"].to_list() for part in (clean, again))
    assert seen == same
    assert clean["MLP"].to_list() != again["MLP"].to_list()


def test_several_trainings_in_one_directory_are_refused(tmp_path):
    saved = CONFIG.replace(checkpoints=nd.Checkpoints(tmp_path / "run"))
    with pytest.raises(nd.ConfigError, match="a run directory is used by one run"):
        nd.fit_many(MODEL, panel(), saved, seeds=2)
    with pytest.raises(nd.ConfigError, match="a run directory is used by one run"):
        nd.seed_ensemble(MODEL, panel(), saved, seeds=2)
    assert not (tmp_path / "run").exists()
    apart = [CONFIG.replace(checkpoints=nd.Checkpoints(tmp_path / name)) for name in ("a", "b")]
    nd.fit_many(MODEL, panel(), apart)
    assert all(list((tmp_path / name / "checkpoints").iterdir()) for name in ("a", "b"))


@pytest.mark.parametrize("turned", [False, True])
def test_members_with_different_metrics_are_validated_one_by_one(turned):
    configs = [CONFIG.replace(validation_split=0.2), CONFIG.replace(validation_split=0.2, metrics=("mae",))]
    configs = configs[::-1] if turned else configs
    together = nd.fit_many(MODEL, panel(), configs, stacked=True, freq="1h")
    for config, fitted in zip(configs, together, strict=True):
        assert_alike(MODEL.fit(panel(), config, freq="1h"), fitted)
        assert ("validation_mae" in fitted.history.epochs[-1]) == bool(config.metrics)


@pytest.mark.parametrize("stacked", [True, False])
def test_a_training_that_fails_leaves_the_others(stacked):
    sgd = CONFIG.replace(loss=nd.MSE(), gradient_clipping=None, validation_split=None, schedule=None)
    configs = [sgd.replace(optimizer=nd.SGD(learning_rate=rate, momentum=0.9)) for rate in (1e-3, 900.0, 1e-2)]
    with pytest.raises(nd.MembersFailedError, match="training 2 of 3 failed: the loss must be finite") as failed:
        nd.fit_many(MODEL, panel(), configs, stacked=stacked)
    first, none, last = failed.value.forecasters
    assert none is None
    assert isinstance(failed.value.failures[1], nd.NonFiniteError)
    assert_alike(MODEL.fit(panel(), configs[0]), first)
    assert_alike(MODEL.fit(panel(), configs[2]), last)


@pytest.mark.parametrize("stacked", ["auto", True, False])
@pytest.mark.parametrize("short", [0, 1])
def test_a_training_that_cannot_begin_leaves_the_others(stacked, short):
    tables = [panel(), panel(), panel()]
    tables[short] = panel(hours=10)
    with pytest.raises(nd.MembersFailedError, match="a series needs 16 rows") as failed:
        nd.fit_many(MODEL, tables, CONFIG, stacked=stacked)
    assert list(failed.value.failures) == [short]
    assert [fitted is None for fitted in failed.value.forecasters] == [number == short for number in range(3)]


def test_when_all_trainings_fail_their_own_error_is_raised():
    with pytest.raises(nd.DataError, match="a series needs 16 rows"):
        nd.fit_many(MODEL, panel(hours=10), CONFIG, seeds=3)
