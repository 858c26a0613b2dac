"""Every model of the zoo: trained, saved, loaded in a new process, and the same bits; cut at any row, the same too."""

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.conformance.examples import model_examples
from neuro_divergent.core import registry
from neuro_divergent.forecasting.predict.historical import Origins

FAST = nd.TrainingConfig(max_steps=2, progress=False, validation_split=None)
MODELS = {
    kind: cls
    for kind, cls in registry.members("model").items()
    if cls.__module__.startswith("neuro_divergent.models") and kind != "TimeLLM"  # it needs a language model on disk
}
CODE = """
import sys
from pathlib import Path
import neuro_divergent as nd
for place in sorted(Path(sys.argv[1]).iterdir()):
    nd.load(place).predict().write_parquet(place.with_suffix(".parquet"))
"""


def frame():
    hours = nd.samples.hourly_panel(3, 90)
    return hours.filter(pl.col("unique_id") != "series-00")


def example(cls):
    model = model_examples(cls)[0]
    if "calendar" in cls.model_fields:  # these tests give raw windows, which have no dates
        model = model.replace(calendar=None)
    # A hierarchy is one of the table's own series: here the first is the only part of the second.
    return model.replace(S={"series-02": [1], "series-01": [1]}) if isinstance(model, nd.HINT) else model


@pytest.fixture(scope="module")
def zoo():
    return {kind: example(cls).fit(frame(), FAST, short="pad") for kind, cls in MODELS.items()}


def test_forecasts_are_bit_identical_after_a_new_process(zoo, tmp_path):
    for kind, fitted in zoo.items():
        fitted.save(tmp_path / "zoo" / kind)
    subprocess.run([sys.executable, "-c", CODE, str(tmp_path / "zoo")], check=True)
    for kind, fitted in zoo.items():
        there = pl.read_parquet(tmp_path / "zoo" / f"{kind}.parquet")
        assert there.equals(fitted.predict()), kind


def test_predictors_give_the_bits_of_their_forecasters_from_several_threads(zoo):
    """From the context, from a frame of another library, and from raw windows; alone, and four threads at once."""
    rows = frame()
    pandas_rows = rows.to_pandas()
    for kind, fitted in zoo.items():
        predictor, length = fitted.predictor(), fitted.model.input_size
        expected, from_pandas = fitted.predict(), fitted.predict(pandas_rows)
        past = np.stack([part["y"].to_numpy() for part in last_rows(rows, length)])
        windows = past.T[None] if fitted.model.capabilities.multivariate else past

        def everything(_, predictor=predictor, windows=windows):
            alone = predictor.model.joint is None
            arrays = predictor.predict_array(windows) if alone else np.zeros(1)
            return predictor.predict(), predictor.predict(pandas_rows), arrays

        first = everything(0)
        assert first[0].equals(expected), kind
        assert first[1].equals(from_pandas), kind
        if fitted.model.joint is None:
            points = expected[fitted.model.name].to_numpy().reshape(2, -1)
            points = points.T[None] if fitted.model.capabilities.multivariate else points
            # A distribution, DeepAR's default, gives its quantiles behind the point.
            shown = first[2].reshape(*points.shape, -1)[..., 0]
            assert shown == pytest.approx(points, rel=1e-5, abs=1e-5), kind
        with ThreadPoolExecutor(4) as pool:
            for found in pool.map(everything, range(8)):
                assert found[0].equals(expected), kind
                assert found[1].equals(from_pandas), kind
                assert np.array_equal(found[2], first[2]), kind


def last_rows(rows, count):
    """The end of each series on its grid: rows that lack are null."""
    parts = rows.partition_by("unique_id", maintain_order=True)
    return [part.upsample("ds", every="1h").tail(count) for part in parts]


def test_a_forecast_from_inside_the_table_is_that_of_the_table_cut_there(zoo):
    """`Origins.forecasts` looks at all series and origins at once; by hand, each is the forecast of a shorter table."""
    table = nd.TimeSeriesDataFrame.from_frame(frame())
    lengths = table.store.lengths
    for kind, fitted in zoo.items():
        h = fitted.model.h
        cut = table.drop_last(7)
        by_hand = fitted.forecast_values(cut)
        series = np.arange(table.n_series)
        found = Origins.at(table, series, lengths - 7, h).forecasts(fitted, fitted.columns((), ()))
        assert found == pytest.approx(by_hand, rel=1e-4, abs=1e-4), kind


def test_future_historical_static_and_categorical_columns_inside_the_table():
    """The columns known ahead are those of the rows after the cut; the others must not be looked at."""
    rows = frame().with_columns(
        price=pl.col("ds").dt.hour().cast(pl.Float64),
        load=pl.col("y") * 0.5,
        day=pl.col("ds").dt.weekday().cast(pl.String),
        size=pl.when(pl.col("unique_id") == "series-01").then(1.0).otherwise(2.0),
    )
    roles = {"future": ["price"], "historical": ["load"], "static": ["size"], "categorical": ["day"]}
    table = nd.TimeSeriesDataFrame.from_frame(rows, **roles)
    fitted = nd.MLP(h=4, input_size=12, hidden_size=8).fit(table, FAST)
    lengths, series = table.store.lengths, np.arange(table.n_series)
    found = Origins.at(table, series, lengths - 4, 4).points(fitted)
    stamps = rows["ds"].unique().sort()
    past, ahead = rows.filter(pl.col("ds") < stamps[-4]), rows.filter(pl.col("ds") >= stamps[-4])
    by_hand = fitted.predict(past, future=ahead.drop("y", "load"))["MLP"].to_numpy()
    assert found.ravel() == pytest.approx(by_hand, rel=1e-4)
    poisoned = rows.with_columns(
        pl.when(pl.col("ds") >= stamps[-4]).then(1e6).otherwise(pl.col(name)).alias(name) for name in ("y", "load")
    )
    dark = nd.TimeSeriesDataFrame.from_frame(poisoned, **roles)
    assert np.array_equal(Origins.at(dark, series, lengths - 4, 4).points(fitted), found)
