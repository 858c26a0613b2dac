"""Behaviour that scripts written for neuralforecast 3.3 rely on; values by hand, or as that library gave them."""

import warnings

import numpy as np
import pandas as pd
import pytest
import torch

from neuro_divergent.compat.neuralforecast import NeuralForecast
from neuro_divergent.compat.neuralforecast.common._model_checks import check_model
from neuro_divergent.compat.neuralforecast.losses.pytorch import (
    GMM,
    MAE,
    DistributionLoss,
    IQLoss,
    MQLoss,
)
from neuro_divergent.compat.neuralforecast.models import LSTM, MLP, NHITS, Autoformer, TSMixer
from neuro_divergent.compat.neuralforecast.tsdataset import TimeSeriesDataModule, TimeSeriesDataset
from neuro_divergent.compat.neuralforecast.utils import AirPassengersDF, AirPassengersPanel, PredictionIntervals

OTHERS = pytest.mark.filterwarnings("ignore:.*(unused rows|another trainer)")
SMALL = {"h": 4, "input_size": 8, "max_steps": 2, "mlp_units": 3 * [[8, 8]]}
TRAIN = AirPassengersPanel.groupby("unique_id").head(132).reset_index(drop=True)
LATER = AirPassengersPanel.groupby("unique_id").tail(12).assign(y=np.nan).reset_index(drop=True)


def _fitted(data=TRAIN, freq="ME", options=None, **arguments):
    nf = NeuralForecast([NHITS(**SMALL | arguments)], freq=freq)
    nf.fit(data, **(options or {}))
    return nf


@pytest.fixture(scope="module")
def other_stamps():
    """Month ends, described by month starts."""
    with pytest.warns(UserWarning, match="rows are counted"):
        return _fitted(AirPassengersDF, "MS", loss=DistributionLoss("Normal"))


def test_stamps_that_do_not_follow_freq_are_counted_and_freq_goes_on_from_the_last(other_stamps, tmp_path):
    expected = pd.date_range("1961-01-01", periods=4, freq="MS")  # neuralforecast adds the offset to 1960-12-31
    assert list(other_stamps.predict().ds) == list(expected)
    assert list(other_stamps.make_future_dataframe().ds) == list(expected)
    paths = other_stamps.simulate(n_paths=3, seed=0)
    assert list(paths[paths.sample_id == 0].ds) == list(expected)
    inside = other_stamps.predict_insample(step_size=4)
    assert set(inside.ds) <= set(AirPassengersDF.ds)
    assert inside.merge(AirPassengersDF, on="ds", suffixes=("", "_true")).eval("y == y_true").all()
    other_stamps.save(tmp_path / "saved")
    pd.testing.assert_frame_equal(NeuralForecast.load(tmp_path / "saved").predict(), other_stamps.predict())


def test_counted_rows_give_the_forecasts_of_the_right_frequency(other_stamps):
    right = _fitted(AirPassengersDF, "ME", loss=DistributionLoss("Normal"))
    np.testing.assert_array_equal(right.predict().NHITS, other_stamps.predict().NHITS)


def test_counted_rows_take_future_columns_at_the_stamps_of_the_forecast():
    data = AirPassengersDF.assign(trend=range(144))
    with pytest.warns(UserWarning, match="rows are counted"):
        nf = _fitted(data, "MS", futr_exog_list=["trend"])
    later = nf.make_future_dataframe().assign(trend=range(144, 148))
    assert np.isfinite(nf.predict(futr_df=later).NHITS).all()
    with pytest.raises(ValueError, match="missing combinations"):
        nf.predict(futr_df=later.head(3))


@OTHERS
def test_future_columns_are_checked_before_a_forecast():
    nf = _fitted(futr_exog_list=["trend"])
    with pytest.warns(UserWarning, match="Dropped 16 unused rows"):
        nf.predict(futr_df=LATER)
    with pytest.raises(ValueError, match=r"future exogenous features: \{'trend'\}"):
        nf.predict()
    with pytest.raises(ValueError, match=r"missing from `futr_df`: \{'trend'\}"):
        nf.predict(futr_df=LATER.drop(columns="trend"))
    with pytest.raises(ValueError, match="Found null values"):
        nf.predict(futr_df=LATER.assign(trend=np.nan))


def test_missing_values_are_refused_only_in_available_rows():
    data = TRAIN.assign(available_mask=1.0)
    data.loc[3, "trend"] = np.nan
    with pytest.raises(ValueError, match=r"Found missing values in \['trend'\]"):
        _fitted(data)
    data.loc[3, "available_mask"] = 0.0
    _fitted(data)
    with pytest.raises(ValueError, match="non-negative"):
        _fitted(TRAIN.assign(sample_weight=-1.0))


def test_attributes_of_a_fitted_model():
    nf = _fitted()
    assert list(nf.uids) == ["Airline1", "Airline2"]
    assert list(nf.last_dates) == [pd.Timestamp("1959-12-31")] * 2
    assert len(nf.ds) == 264
    assert nf.dataset.n_groups == 2
    scaled = NeuralForecast([NHITS(**SMALL)], freq="ME", local_scaler_type="standard")
    scaled.fit(TRAIN)
    means = TRAIN.groupby("unique_id").y.mean()
    np.testing.assert_allclose(scaled.scalers_["y"].stats_[:, 0], means, rtol=1e-5)


def test_insample_forecasts_end_before_the_test_rows():
    nf = NeuralForecast([NHITS(**SMALL)], freq="ME")
    nf.cross_validation(TRAIN, n_windows=None, test_size=12)
    assert len(nf.predict_insample()) == 2 * 4 * (132 - 12 - 4 + 1)
    nf.models[0].set_test_size(0)
    assert len(nf.predict_insample()) == 2 * 4 * (132 - 4 + 1)


def test_validation_losses_are_in_the_units_of_the_target():
    nf = NeuralForecast([NHITS(**SMALL | {"max_steps": 4, "scaler_type": "robust", "val_check_steps": 2})], freq="ME")
    nf.fit(TRAIN, val_size=12)
    # A year of air passengers is missed by tens of them; in units of the scaled window by less than 3.
    assert nf.models[0].valid_trajectories[-1][1] > 10


@OTHERS
def test_explanations_of_more_steps_add_up_to_the_forecast():
    nf = NeuralForecast([NHITS(**SMALL, scaler_type="robust", futr_exog_list=["trend"])], freq="ME")
    nf.fit(TRAIN)
    forecasts, told = nf.explain(horizons=[0, 5], futr_df=LATER, h=8)
    parts = told["NHITS"]
    assert parts["insample"].shape == (2, 2, 1, 1, 8, 2)
    total = parts["baseline_predictions"].sum((-1, -2)) + parts["insample"].sum((-1, -2, -3, -4))
    total = total + parts["futr_exog"].sum((-1, -2, -3, -4))
    np.testing.assert_allclose(total, forecasts.NHITS.to_numpy().reshape(2, 8)[:, [0, 5]], rtol=1e-3)
    assert nf.explain(futr_df=LATER, explainer="InputXGradient")[1]["NHITS"]["baseline_predictions"] is None


def test_arguments_without_effect_are_named_when_the_model_is_trained():
    nf = NeuralForecast([NHITS(**SMALL, optimizer_kwargs={"lr": 0.8})], freq="ME")
    with pytest.warns(UserWarning, match="ignoring optimizer_kwargs"):
        nf.fit(TRAIN)
    with pytest.raises(ValueError, match="not a valid subclass"):
        NHITS(**SMALL, optimizer=torch.nn.Module)


@OTHERS
def test_a_multivariate_model_refuses_several_devices():
    with pytest.raises(ValueError, match="Single-device execution"):
        TSMixer(h=2, input_size=4, n_series=3, accelerator="cpu", devices=2)
    TSMixer(h=2, input_size=4, n_series=3, accelerator="cpu", devices=[0])


@OTHERS
def test_categorical_columns_are_declared_and_counted():
    arguments = {"h": 4, "input_size": 8, "max_steps": 1, "hist_exog_list": ["city"], "cat_exog_list": ["city"]}
    data = TRAIN.assign(city=TRAIN.unique_id.str.lower())
    with pytest.raises(ValueError, match="cardinalities"):
        MLP(**arguments)
    assert MLP(**arguments, categorical_cardinalities={"city": 2}, cat_emb_dim=5).__dict__["hist_exog_size"] == 5
    with pytest.raises(ValueError, match="2 distinct values"):
        NeuralForecast([MLP(**arguments, categorical_cardinalities={"city": 1})], freq="ME").fit(data)


def test_levels_are_deduplicated_and_quantiles_can_change():
    with pytest.warns(UserWarning, match="Duplicate levels"):
        assert len(MQLoss(level=[80, 80]).quantiles) == 3
    loss = IQLoss()
    loss.update_quantile([0.7])
    assert loss.q == 0.7
    assert loss.output_names == ["_ql0.7"]


def test_a_likelihood_of_parameters_by_hand():
    loss = DistributionLoss("Normal")
    mean, spread = torch.zeros(1, 2, 1), torch.full((1, 2, 1), float(np.log(np.e - 1)))  # softplus is 1
    arguments = loss.scale_decouple((mean, spread), torch.full((1, 1, 1), 3.0), torch.full((1, 1, 1), 2.0))
    value = loss(torch.full((1, 2, 1), 5.0), arguments)
    expected = 0.5 + np.log(2.0) + 0.5 * np.log(2 * np.pi)  # one deviation of 2 from the mean 3
    assert float(value) == pytest.approx(expected, rel=1e-3)  # the floor widens the spread by 0.01 %


def test_simulation_says_what_it_needs(other_stamps):
    with pytest.raises(ValueError, match="positive integer"):
        other_stamps.simulate(n_paths=0)
    with pytest.raises(ValueError, match="Unknown simulation method"):
        other_stamps.simulate(method="bogus")
    with pytest.raises(ValueError, match="prediction_intervals"):
        _fitted(loss=MAE()).simulate(n_paths=2)


def test_a_loaded_model_knows_its_intervals_and_remote_paths_need_trust(tmp_path):
    nf = _fitted(options={"prediction_intervals": PredictionIntervals(n_windows=3)})
    nf.save(tmp_path / "saved")
    assert NeuralForecast.load(f"file://{tmp_path / 'saved'}").prediction_intervals.n_windows == 3
    with pytest.raises(ValueError, match="Refusing to load"):
        NeuralForecast.load("s3://bucket/model")


def test_batches_of_whole_series():
    dataset, *_ = TimeSeriesDataset.from_df(TRAIN)
    batches = list(TimeSeriesDataModule(dataset, batch_size=2, drop_last=True).train_dataloader())
    assert [tuple(batch["temporal"].shape) for batch in batches] == [(2, 4, 132)]


def test_validation_rows_follow_the_table_whatever_their_stamps():
    early = TRAIN.groupby("unique_id").head(12)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _fitted(options={"val_df": early})


def test_model_checks_run_a_class_on_the_air_passengers():
    check_model(LSTM, ["airpassengers"])


def test_weighted_and_correlated_mixtures_train():
    for loss in (GMM(2), GMM(2, weighted=True), GMM(2, horizon_correlation=True)):
        forecasts = _fitted(loss=loss).predict()
        assert (forecasts["NHITS-lo-90"] < forecasts["NHITS-hi-90"]).all()
    assert GMM(2).describe().outputs == 4
    assert GMM(2, weighted=True).describe().outputs == 6


@pytest.mark.parametrize(
    ("model", "options"), [(NHITS, {"mlp_units": 3 * [[32, 32]]}), (Autoformer, {"hidden_size": 8})]
)
def test_integrated_gradients_and_the_baseline_sum_to_the_forecast(model, options):
    # Autoformer selects its strongest lags: its output jumps, and no gradient sees that.
    nf = NeuralForecast([model(h=4, input_size=24, max_steps=10, scaler_type="robust", **options)], freq="ME")
    nf.fit(TRAIN)
    forecasts, told = nf.explain(horizons=[0, 3])
    parts = told[model.__name__]
    total = parts["insample"].flatten(4).sum(-1) + parts["baseline_predictions"]
    expected = forecasts[model.__name__].to_numpy().reshape(2, 4)[:, [0, 3]]
    np.testing.assert_allclose(total[:, :, 0, 0].numpy(), expected, rtol=1e-3)


@pytest.mark.parametrize(
    ("loss", "endings", "mean"),
    [
        (DistributionLoss("Normal", return_params=True), ["-loc", "-scale"], lambda loc, scale: loc),
        (DistributionLoss("StudentT", return_params=True), ["-df", "-loc", "-scale"], lambda df, loc, scale: loc),
        (
            DistributionLoss("NegativeBinomial", return_params=True),
            ["-total_count", "-logits"],
            lambda count, logits: torch.distributions.NegativeBinomial(count, logits=logits).mean,
        ),
        (
            GMM(n_components=2, weighted=True, return_params=True),
            ["-mu-1", "-std-1", "-weight-1", "-mu-2", "-std-2", "-weight-2"],
            lambda m1, s1, w1, m2, s2, w2: w1 * m1 + w2 * m2,
        ),
    ],
)
def test_the_parameters_of_a_distribution_are_its_last_columns(loss, endings, mean, tmp_path):
    nf = _fitted(loss=loss)
    names = [f"NHITS{ending}" for ending in endings]
    for frame in (nf.predict(), nf.cross_validation(TRAIN, n_windows=1)):
        kept = [name for name in frame.columns if name.startswith("NHITS")]
        assert kept[-len(names) :] == names
        parts = [torch.from_numpy(frame[name].to_numpy().astype(float)) for name in names]
        np.testing.assert_allclose(mean(*parts).numpy(), frame["NHITS"], rtol=1e-4)
    expected = nf.predict()
    if "-scale" in endings and len(endings) == 2:  # the 90 % point of a normal distribution is 1.2816 deviations away
        spread = (expected["NHITS-hi-80"] - expected["NHITS-loc"]) / 1.2815516
        np.testing.assert_allclose(spread, expected["NHITS-scale"], rtol=1e-4)
    nf.save(tmp_path / "saved")
    pd.testing.assert_frame_equal(NeuralForecast.load(tmp_path / "saved").predict(), expected)
