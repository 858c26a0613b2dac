"""`predict_array`: windows as arrays give the numbers that frames of the same rows give."""

import numpy as np
import polars as pl
import pytest
import torch

import neuro_divergent as nd

FAST = nd.TrainingConfig(max_steps=3, progress=False, validation_split=None)
L, H = 12, 4


def panel(rows=60):
    frame = nd.samples.hourly_panel(3, rows).filter(pl.col("unique_id") != "series-00")
    return frame.upsample("ds", every="1h", group_by="unique_id", maintain_order=True).fill_null(strategy="forward")


def last(frame, column="y", rows=L):
    return np.stack([part[column].to_numpy()[-rows:] for part in frame.partition_by("unique_id", maintain_order=True)])


def as_arrays(frame, names):
    return np.stack([frame[name].to_numpy().reshape(2, H) for name in names], axis=2)


def model(**fields):
    return nd.MLP(h=H, input_size=L, hidden_size=8, **fields)


@pytest.mark.parametrize(
    "loss",
    [nd.MAE(), nd.MQLoss(level=[80]), nd.DistributionLoss(distribution="Normal", level=[80]), nd.ImplicitQuantile()],
)
def test_windows_give_what_the_context_gives(loss):
    fitted = model().fit(panel(), FAST.replace(loss=loss))
    predictor = fitted.predictor()
    options = [{}] if isinstance(loss, nd.MAE) else [{}, {"level": [50]}, {"quantiles": [0.3]}]
    for asked in options:
        names = predictor.columns(**asked).names
        found, expected = predictor.predict_array(last(panel()), **asked), as_arrays(fitted.predict(**asked), names)
        assert np.array_equal(found, expected[:, :, 0] if len(names) == 1 else expected)


def test_the_numbers_are_those_of_forward_and_in_the_type_of_the_frame():
    fitted = model(scaler="robust", anchor="last").fit(panel(), FAST)
    x = last(panel()).astype(np.float32)
    found = fitted.predictor().predict_array(torch.from_numpy(x))
    assert found.dtype == np.float32
    assert found == pytest.approx(fitted.forward(torch.from_numpy(x)).numpy(), rel=1e-6)


def test_nan_is_a_value_that_was_not_observed():
    frame = panel().with_columns(y=pl.when(pl.int_range(pl.len()).over("unique_id") == 55).then(None).otherwise("y"))
    fitted = model().fit(panel(), FAST)
    expected = as_arrays(fitted.predict(frame), ["MLP"])[:, :, 0]
    x = last(frame)
    assert np.isnan(x).sum() == 2
    predictor = fitted.predictor()
    assert np.array_equal(predictor.predict_array(x), expected)
    for wrong in (np.inf, 1e300):
        with pytest.raises(nd.DataError, match="x must be finite numbers, or NaN for missing values"):
            predictor.predict_array(np.where(np.isnan(x), wrong, x))


def test_a_short_series_is_a_window_that_begins_with_nan():
    fitted = model().fit(panel(), FAST)
    short = panel().group_by("unique_id", maintain_order=True).tail(5)
    x = np.concatenate([np.full((2, L - 5), np.nan), last(short, rows=5)], axis=1)
    assert np.array_equal(fitted.predictor().predict_array(x), as_arrays(fitted.predict(short), ["MLP"])[:, :, 0])


def with_columns():
    return panel(70).with_columns(
        price=pl.col("ds").dt.hour().cast(pl.Float64),
        load=pl.col("y") * 0.5,
        day=pl.col("ds").dt.weekday().cast(pl.String),
        size=pl.when(pl.col("unique_id") == "series-01").then(1.0).otherwise(2.0),
    )


@pytest.mark.parametrize("kind", [nd.MLP, nd.TSMixerx])
def test_exogenous_columns_come_as_arrays_in_the_shapes_of_a_batch(kind):
    roles = {"future": ["price"], "historical": ["load"], "static": ["size"]}
    if kind is nd.MLP:
        roles["categorical"] = ["day"]
    frame = with_columns()
    past = frame.group_by("unique_id", maintain_order=True).head(66)
    ahead = frame.group_by("unique_id", maintain_order=True).tail(4).drop("y", "load")
    small = {"hidden_size": 8}
    predictor = kind(h=H, input_size=L, **small).fit(past, FAST, **roles).predictor()
    expected = as_arrays(predictor.predict(future=ahead), [kind.__name__])[:, :, 0]
    x, price, load = last(past), last(frame, "price", L + H)[..., None], last(past, "load")[..., None]
    arrays = {"future": price, "historical": load, "static": np.array([[1.0], [2.0]])}
    if kind is nd.MLP:
        codes = {value: code for code, value in enumerate(predictor.data.schema.categories["day"], 1)}
        day = np.vectorize(codes.get)(last(frame, "day", L + H))
        arrays["categorical"] = day[..., None]
    else:  # all series at once: the series are the axis before the last one
        x = x.T[None]
        arrays = {name: (array if name == "static" else array.swapaxes(0, 1))[None] for name, array in arrays.items()}
        expected = expected.T[None]
    assert np.array_equal(predictor.predict_array(x, **arrays), expected)
    with pytest.raises(nd.DataError, match=r"the model takes 1 future column, so future= must be an array of shape"):
        predictor.predict_array(x, **(arrays | {"future": None}))
    with pytest.raises(nd.DataError, match=r"historical= must be an array of shape .*, but got \[2, 3\]"):
        predictor.predict_array(x, **(arrays | {"historical": np.zeros((2, 3))}))
    with pytest.raises(nd.DataError, match="future= must be finite numbers"):
        predictor.predict_array(x, **(arrays | {"future": arrays["future"] * np.nan}))
    if kind is nd.MLP:
        with pytest.raises(nd.DataError, match="categorical= must be codes"):
            predictor.predict_array(x, **(arrays | {"categorical": arrays["categorical"] + 9}))


def test_a_multivariate_model_takes_a_channel_for_each_series():
    fitted = nd.TSMixer(h=H, input_size=L, hidden_size=8).fit(panel(), FAST)
    predictor = fitted.predictor()
    x = last(panel()).T
    found = predictor.predict_array(np.stack([x, x + 1.0]))
    assert found.shape == (2, H, 2)
    assert found[0] == pytest.approx(as_arrays(fitted.predict(), ["TSMixer"])[:, :, 0].T, rel=1e-5)
    assert np.array_equal(predictor.predict_array(x[None]), as_arrays(fitted.predict(), ["TSMixer"])[:, :, 0].T[None])
    with pytest.raises(nd.DataError, match=r"x must be windows of shape \[B, 12, 2\], but got \[2, 12\]"):
        predictor.predict_array(last(panel()))
    with pytest.raises(nd.DataError, match="sees all of its series at once"):
        predictor.predict_array(x[None], ids=["series-01"])


def scaled_and_measured():
    options = {"prediction_intervals": nd.PredictionIntervals(n_windows=2)}
    models = nd.NeuralForecast([model(scaler="identity")], local_scaler_type="standard")
    return models.fit(panel(), FAST, **options)["MLP"]


def test_named_windows_have_the_scale_and_the_errors_of_their_series():
    fitted = scaled_and_measured()
    predictor, x = fitted.predictor(), last(panel())
    names = predictor.columns(level=[80]).names
    known = predictor.predict_array(x, ids=["series-01", "series-02"], level=[80])
    assert np.array_equal(known, as_arrays(fitted.predict(level=[80]), names))
    unknown = panel().group_by("unique_id", maintain_order=True).tail(L)
    unknown = unknown.with_columns(unique_id="new " + pl.col("unique_id"))
    assert np.array_equal(predictor.predict_array(x, level=[80]), as_arrays(fitted.predict(unknown, level=[80]), names))
    with pytest.raises(nd.DataError, match="ids= must name each of the 2 windows"):
        predictor.predict_array(x, ids=["series-01"])


def test_more_windows_than_a_batch_holds(monkeypatch):
    predictor = model().fit(panel(), FAST).predictor()
    x = np.random.default_rng(0).normal(size=(7, L))
    whole = predictor.predict_array(x)
    monkeypatch.setattr("neuro_divergent.forecasting.predict.raw_windows.SERIES_PER_BATCH", 3)
    assert predictor.predict_array(x) == pytest.approx(whole, rel=1e-5)


@pytest.mark.parametrize("x", [np.zeros(12), np.zeros((2, 11)), np.zeros((0, 12)), np.zeros((1, 12, 1))])
def test_other_shapes_are_refused(x):
    predictor = model().fit(panel(), FAST).predictor()
    with pytest.raises(nd.DataError, match=r"x must be windows of shape \[B, 12\], but got"):
        predictor.predict_array(x)


def test_what_is_no_number_and_what_the_model_does_not_take_is_refused():
    predictor = model().fit(panel(), FAST).predictor()
    with pytest.raises(nd.DataError, match="x must be an array of numbers"):
        predictor.predict_array([["a"] * L])
    with pytest.raises(nd.DataError, match="future= must be left out, because the model takes no such columns"):
        predictor.predict_array(np.zeros((1, L)), future=np.zeros((1, L + H, 1)))


def test_masked_values_bfloat16_and_lists_of_different_lengths():
    predictor = model().fit(panel(), FAST).predictor()
    x = np.round(last(panel()))
    with_nan = np.where(np.arange(L) < 3, np.nan, x)
    masked = np.ma.masked_array(x, mask=np.isnan(with_nan))
    assert predictor.predict_array(masked).tolist() == predictor.predict_array(with_nan).tolist()
    brain = torch.from_numpy(x).bfloat16()
    assert predictor.predict_array(brain).tolist() == predictor.predict_array(brain.double()).tolist()
    with pytest.raises(nd.DataError, match="x must be an array of numbers, but its rows have different lengths"):
        predictor.predict_array([[1.0, 2.0], [3.0]])
