"""Several models together: one frame, one directory, ensembles, one-call forms."""

import hashlib
import json
import subprocess
import sys

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals
from neuro_divergent.forecasting.several.ensemble import (
    Ensemble,
    ensemble,
    greedy_weights,
    seed_ensemble,
    validation_forecasts,
)
from neuro_divergent.forecasting.several.neural_forecast import NeuralForecast, train_from_csv, train_from_parquet

FAST = nd.TrainingConfig(max_steps=5, progress=False)


def panel(series=3, hours=120):
    return nd.samples.hourly_panel(series, hours)


@pytest.fixture(scope="module")
def fitted():
    models = [nd.DLinear(h=6, input_size=24), nd.MLP(h=6, input_size=36, hidden_size=8)]
    return NeuralForecast(models, freq="1h").fit(panel(), FAST)


def test_one_column_per_model_each_as_if_alone(fitted):
    forecast = fitted.predict()
    assert forecast.columns == ["unique_id", "ds", "DLinear", "MLP"]
    alone = nd.MLP(h=6, input_size=36, hidden_size=8).fit(panel(), FAST, freq="1h").predict()
    assert forecast["MLP"].to_list() == alone["MLP"].to_list()
    assert fitted["MLP"].predict().equals(alone)


def test_two_models_of_one_name_get_numbers():
    models = [nd.DLinear(h=2, input_size=4), nd.DLinear(h=2, input_size=6), nd.DLinear(h=2, input_size=8)]
    assert [model.name for model in NeuralForecast(models).models] == ["DLinear", "DLinear1", "DLinear2"]
    with pytest.raises(nd.ConfigError, match="two are named DLinear1"):
        NeuralForecast([*models[:2], nd.DLinear(h=2, input_size=8, alias="DLinear1")])


def test_a_configuration_for_each_model():
    models = [nd.DLinear(h=2, input_size=4), nd.MLP(h=2, input_size=4, hidden_size=4)]
    fitted = NeuralForecast(models).fit(panel(), {"DLinear": FAST, "MLP": FAST.replace(max_steps=3)})
    assert [len(item.history.step_loss) for item in fitted.forecasters.values()] == [5, 3]


def test_levels_of_every_model():
    models = [nd.DLinear(h=4, input_size=8), nd.MLP(h=4, input_size=8, hidden_size=4)]
    config = {"DLinear": FAST.replace(loss=nd.MQLoss(level=[80])), "MLP": FAST}
    nf = NeuralForecast(models).fit(panel(), config, prediction_intervals=PredictionIntervals(n_windows=10))
    assert nf.predict(level=[80]).columns[2:] == [
        "DLinear", "DLinear-lo-80", "DLinear-hi-80", "MLP", "MLP-lo-80", "MLP-hi-80",
    ]  # fmt: skip
    assert nf.predict().columns[2:] == ["DLinear", "DLinear-median", "DLinear-lo-80", "DLinear-hi-80", "MLP"]


@pytest.mark.parametrize("scaler", ["standard", "robust", "robust-iqr", "minmax", "boxcox"])
def test_series_scaled_one_by_one_are_forecast_in_their_own_units(scaler, tmp_path):
    """A hundredfold series and the series itself: their forecasts differ by the same factor."""
    one = panel(2).filter(pl.col("unique_id") == "series-01")
    big = one.with_columns(unique_id=pl.lit("big"), y=pl.col("y") * 128)
    models = [nd.DLinear(h=4, input_size=8, scaler="identity")]
    nf = NeuralForecast(models, local_scaler_type=scaler).fit(pl.concat([one, big]), FAST)
    forecast = nf.predict()
    large, small = (forecast.filter(pl.col("unique_id") == name)["DLinear"].to_numpy() for name in ("big", "series-01"))
    assert large == pytest.approx(128 * small, rel=1e-3)
    assert small == pytest.approx(one["y"].to_numpy()[-8:].mean(), rel=0.8)
    nf.save(tmp_path / "m")
    assert nd.load(tmp_path / "m").predict().equals(forecast)


def test_the_series_scaler_does_not_see_what_is_held_back():
    frame = panel(2, 200)
    cut = frame["ds"].unique().sort()[160]
    poisoned = frame.with_columns(y=pl.when(pl.col("ds") >= cut).then(1e6).otherwise(pl.col("y")))
    models = [nd.DLinear(h=6, input_size=24)]
    losses = [
        NeuralForecast(models, local_scaler_type="standard").fit(table, FAST)["DLinear"].history.step_loss
        for table in (frame, poisoned)
    ]
    assert losses[0] == losses[1]


def test_the_series_scaler_does_not_see_the_horizon_that_is_held_back_where_it_is_longer_than_the_split():
    """A fifth of 100 rows is shorter than h=30, so rows 70 to 99 are held back: what is in them is not trained on."""
    y = np.random.default_rng(0).normal(size=100)
    losses = []
    for held_back in (0.0, 1e3):
        y[70:80] = held_back
        rows = pl.DataFrame({"unique_id": ["a"] * 100, "ds": range(100), "y": y})
        models = [nd.DLinear(h=30, input_size=20, scaler="identity")]
        fitted = NeuralForecast(models, local_scaler_type="standard").fit(rows, FAST.replace(validation_split=0.2))
        losses.append(fitted["DLinear"].history.step_loss)
    assert losses[0] == losses[1]


class TestSavedTogether:
    def test_forecasts_are_bit_identical_in_a_new_process(self, fitted, tmp_path):
        fitted.save(tmp_path / "m")
        code = "import sys, neuro_divergent as nd; nd.load(sys.argv[1]).predict().write_parquet(sys.argv[2])"
        out = tmp_path / "f.parquet"
        subprocess.run([sys.executable, "-c", code, str(tmp_path / "m"), str(out)], check=True)
        assert pl.read_parquet(out).equals(fitted.predict())

    def test_only_safetensors_and_json(self, fitted, tmp_path):
        fitted.save(tmp_path / "m")
        files = [path for path in (tmp_path / "m").rglob("*") if path.is_file()]
        assert {path.suffix for path in files} == {".json", ".safetensors"}

    def test_saving_over_is_asked_for_and_keeps_the_old_until_then(self, fitted, tmp_path):
        fitted.save(tmp_path / "m")
        with pytest.raises(nd.StorageError, match="overwrite=True"):
            fitted.save(tmp_path / "m")
        fitted.save(tmp_path / "m", overwrite=True)
        assert isinstance(NeuralForecast.load(tmp_path / "m"), NeuralForecast)

    @pytest.mark.parametrize(
        ("file", "change"),
        [
            ("index/index.json", b"NeuralForecast"),
            ("model-01/model.json", b"MLP"),
            ("model-00/weights.safetensors", b"e"),
        ],
    )
    def test_damage_is_found(self, fitted, tmp_path, file, change):
        fitted.save(tmp_path / "m")
        path = tmp_path / "m" / file
        path.write_bytes(path.read_bytes().replace(change, change[:-1] + b"X", 1))
        with pytest.raises(nd.CorruptFileError):
            nd.load(tmp_path / "m")

    def test_an_unknown_model_is_named(self, fitted, tmp_path):
        from neuro_divergent.core import bundle

        fitted.save(tmp_path / "m")
        folder = tmp_path / "m" / "model-01"
        contents = bundle.read(folder)
        contents["model.json"] = contents["model.json"].replace(b'"kind": "MLP"', b'"kind": "MLQ"')
        bundle.write(folder, contents, overwrite=True)
        index = json.loads(bundle.read(tmp_path / "m" / "index")["index.json"])
        index["manifests"][1] = hashlib.sha256((folder / "manifest.json").read_bytes()).hexdigest()
        bundle.write(tmp_path / "m" / "index", {"index.json": json.dumps(index).encode()}, overwrite=True)
        with pytest.raises(nd.UnknownNameError, match="there is no model named 'MLQ'; did you mean MLP"):
            nd.load(tmp_path / "m")


def test_asked_before_fit():
    nf = NeuralForecast([nd.DLinear(h=2, input_size=4)])
    for call in (
        nf.predict,
        nf.predict_insample,
        nf.make_future_dataframe,
        lambda: nf.save("x"),
        lambda: nf["DLinear"],
    ):
        with pytest.raises(nd.NotFittedError, match=r"Call fit\(data\) first"):
            call()


def test_what_is_no_model_is_refused(fitted):
    with pytest.raises(nd.ConfigError, match=r"at least one model, but got models=\[\]"):
        NeuralForecast([])
    with pytest.raises(nd.ConfigError, match="models must be descriptions"):
        NeuralForecast(["NHITS"])
    with pytest.raises(nd.UnknownNameError, match="known are: DLinear, MLP"):
        fitted["NHITS"]
    with pytest.raises(nd.UnknownNameError, match="standard"):
        NeuralForecast([nd.DLinear(h=2, input_size=4)], local_scaler_type="standart")


def test_rest_of_the_methods_speak_for_all_models(fitted, tmp_path):
    assert fitted.predict_insample(step_size=20).columns[-2:] == ["DLinear", "MLP"]
    assert fitted.make_future_dataframe().height == 18
    assert fitted.get_missing_future(fitted.make_future_dataframe().head(17)).height == 1
    assert fitted.predict(h=8).height == 24
    assert set(fitted.explain(steps=[1], points=2)) == {"DLinear", "MLP"}
    fitted.plot(tmp_path / "x.png")
    assert (tmp_path / "x.png").exists()
    assert repr(fitted) == "NeuralForecast(DLinear, MLP; fitted on 3 series)"


def test_updating_all_models():
    frame = panel(2, 200)
    cut = frame["ds"].unique().sort()[160]
    models = [nd.DLinear(h=6, input_size=12), nd.MLP(h=6, input_size=24, hidden_size=4)]
    nf = NeuralForecast(models).fit(frame.filter(pl.col("ds") < cut), FAST)
    nf.update(frame.filter(pl.col("ds") >= cut), FAST)
    assert nf.predict()["ds"].min() > frame["ds"].max()


def test_one_call_from_files(tmp_path):
    frame = panel(2).rename({"y": "sales"})
    frame.write_csv(tmp_path / "x.csv")
    frame.write_parquet(tmp_path / "x.parquet")
    one = train_from_csv(tmp_path / "x.csv", "sales", nd.DLinear(h=3, input_size=6), FAST)
    many = train_from_parquet(tmp_path / "x.parquet", "sales", [nd.DLinear(h=3, input_size=6)], FAST)
    assert isinstance(one, nd.Forecaster)
    assert one.predict()["DLinear"].to_list() == many.predict()["DLinear"].to_list()
    with pytest.raises(nd.DataError, match="'profit'"):
        train_from_csv(tmp_path / "x.csv", "profit", nd.DLinear(h=3, input_size=6), FAST)


@pytest.fixture(scope="module")
def members():
    config = FAST.replace(max_steps=30, loss=nd.MQLoss(level=[80]))
    models = [nd.DLinear(h=6, input_size=24), nd.MLP(h=6, input_size=12, hidden_size=8), nd.NHITS(h=6, input_size=24)]
    return [model.fit(panel(3, 200), config) for model in models]


class TestEnsembles:
    def test_mean_and_median_by_hand(self, members):
        each = np.stack([member.predict(level=[80]).to_numpy()[:, 2:].astype(float) for member in members])
        for method, expected in (("mean", each.mean(axis=0)), ("median", np.median(each, axis=0))):
            forecast = ensemble(members, method).predict(level=[80])
            assert forecast.columns[2:] == ["Ensemble", "Ensemble-lo-80", "Ensemble-hi-80"]
            assert forecast.to_numpy()[:, 2:].astype(float) == pytest.approx(expected, rel=1e-5)

    def test_weights_are_one_over_the_validation_error(self, members):
        forecasts, truth = validation_forecasts(members)
        errors = np.nanmean(np.abs(forecasts - truth), axis=(1, 2))
        expected = (1 / errors) / (1 / errors).sum()
        assert ensemble(members, "weighted").weights == pytest.approx(expected)

    def test_greedy_selection_is_at_least_as_good_as_the_best_member(self, members):
        forecasts, truth = validation_forecasts(members)
        chosen = ensemble(members, "greedy")
        error = np.nanmean(np.abs(np.tensordot(chosen.weights, forecasts, 1) - truth))
        assert error <= np.nanmin(np.nanmean(np.abs(forecasts - truth), axis=(1, 2))) + 1e-9

    def test_greedy_by_hand(self):
        """Truth 1; members 0, 2 and 9: first 0 (error 1), then 2 makes the mean exactly 1."""
        counts = greedy_weights(np.array([[0.0], [2.0], [9.0]]), lambda mean: abs(float(mean[0]) - 1), 5)
        assert counts.tolist() == [1.0, 1.0, 0.0]

    def test_validation_rows_are_those_nobody_was_trained_on(self, members):
        table = members[0].data
        _, truth = validation_forecasts(members)
        held = int(0.2 * 200)
        assert truth.shape[0] == 3 * ((held - 6) // 3 + 1)
        assert np.nanmax(truth) <= table.store.y.max()
        trained_on_all = [nd.DLinear(h=2, input_size=4).fit(panel(), FAST.replace(validation_split=None))]
        with pytest.raises(nd.ConfigError, match="held out no rows"):
            ensemble(trained_on_all, "weighted")

    def test_validation_rows_that_were_given_are_those_nobody_was_trained_on(self, tmp_path):
        """12 and 15 given rows of 200: windows of h=6, 3 apart, so 3 and 4 of them, counted from the end."""
        y = np.random.default_rng(0).normal(size=(2, 200)).round(3)
        frame = pl.DataFrame({"unique_id": ["a"] * 200 + ["b"] * 200, "ds": [*range(200)] * 2, "y": y.ravel()})
        is_late = pl.col("ds") >= pl.when(pl.col("unique_id") == "a").then(188).otherwise(185)
        early, late = frame.filter(~is_late), frame.filter(is_late)
        models = [nd.DLinear(h=6, input_size=24), nd.MLP(h=6, input_size=12, hidden_size=8)]
        given = [model.fit(early, FAST, validation=late) for model in models]
        _, truth = validation_forecasts(given)
        starts = [(0, 188), (0, 191), (0, 194), (1, 185), (1, 188), (1, 191), (1, 194)]
        assert truth == pytest.approx(np.stack([y[series, row : row + 6] for series, row in starts]), rel=1e-5)
        for number in (0, 1):
            given[number].save(tmp_path / str(number))
        _, again = validation_forecasts([given[0], nd.load(tmp_path / "1")])
        assert again == pytest.approx(truth)
        # The table of the longest lookback says where windows begin: it must have the rows before them, too.
        with pytest.raises(nd.DataError, match="after 24 rows of lookback"):
            validation_forecasts([nd.load(tmp_path / "0"), given[1]])
        # Together with a member that held back a fifth, the rows that neither was trained on are still these.
        _, both = validation_forecasts([given[0], models[1].fit(frame, FAST)])
        assert both == pytest.approx(truth)
        together = nd.fit_many(models[1], early, FAST, seeds=2, stacked=True, validation=late)
        assert validation_forecasts(together)[1] == pytest.approx(truth)

    def test_saved_and_loaded(self, members, tmp_path):
        chosen = ensemble(members, "weighted", name="mine")
        chosen.save(tmp_path / "e")
        loaded = nd.load(tmp_path / "e")
        assert isinstance(loaded, Ensemble)
        assert loaded.predict().equals(chosen.predict())
        assert "mine" in loaded.predict().columns

    def test_seeds_of_one_model(self):
        model = nd.MLP(h=3, input_size=6, hidden_size=4)
        together = seed_ensemble(model, panel(), FAST, seeds=3)
        alone = [model.fit(panel(), FAST.replace(seed=seed)).predict()["MLP"].to_numpy() for seed in (1, 2, 3)]
        assert together.predict()["MLP"].to_numpy() == pytest.approx(np.mean(alone, axis=0), rel=1e-5)

    def test_contradictions(self, members):
        with pytest.raises(nd.ConfigError, match="at least one fitted model"):
            Ensemble([])
        with pytest.raises(nd.ConfigError, match="one number of at least 0 for each of 3"):
            Ensemble(members, weights=[1.0, -1.0, 1.0])
        with pytest.raises(nd.ConfigError, match="weights need method='mean'"):
            Ensemble(members, weights=[1, 1, 1], method="median")
        with pytest.raises(nd.ConfigError, match="mean, median, weighted or greedy"):
            ensemble(members, "best")


def test_models_that_are_saved_in_one_directory_have_a_folder_each(tmp_path):
    table, models = nd.samples.hourly_panel(2, 90), [nd.DLinear(h=4, input_size=12), nd.NLinear(h=4, input_size=12)]
    config = nd.TrainingConfig(max_steps=4, progress=False, checkpoints=nd.Checkpoints(tmp_path / "run"))
    together = nd.NeuralForecast(models).fit(table, config)
    for model in models:
        again = model.fit(table, together.forecasters[model.name].config, resume="auto")
        assert again.predict().equals(together.forecasters[model.name].predict())
    assert sorted(path.name for path in (tmp_path / "run").iterdir()) == ["DLinear", "NLinear"]


def test_a_watched_training_may_also_be_measured(tmp_path):
    """The trainings that only measure errors are not saved, and so not watched either."""
    table, model = nd.samples.hourly_panel(2, 90), nd.DLinear(h=4, input_size=12)
    config = nd.TrainingConfig(
        max_steps=4, progress=False, checkpoints=nd.Checkpoints(tmp_path), fault_tolerance=nd.FaultTolerance(retries=1)
    )
    intervals = nd.PredictionIntervals(n_windows=2)
    assert "DLinear-lo-80" in model.fit(table, config, prediction_intervals=intervals).predict(level=[80]).columns
    assert nd.cross_validation([model], table, config=config, n_windows=2).frame.height == 16
    (saved,) = (tmp_path / "checkpoints").iterdir()
    inside = json.loads((saved / "state.json").read_text())["config"]["fault_tolerance"]
    assert inside["retries"] == 0
    assert inside["halve_on_out_of_memory"]  # the process that is watched makes do with little memory itself
