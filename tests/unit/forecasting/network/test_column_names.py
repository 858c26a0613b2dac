"""Columns of one name in a frame of forecasts or scores: refused before anything is trained, with the name."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.compat.neuralforecast import NeuralForecast as Peer
from neuro_divergent.compat.neuralforecast import models as peers
from neuro_divergent.forecasting.several.ensemble import Ensemble

FAST = nd.TrainingConfig(max_steps=1, progress=False, loss=nd.MQLoss(level=[80]))
SHAPE = {"h": 2, "input_size": 4}

COLLISIONS = [
    ({"alias": "ds"}, {}, "'ds' is both the time_col and a forecast of the model 'ds'"),
    ({"alias": "y"}, {}, "'y' is both the target_col"),
    ({"alias": "unique_id"}, {}, "'unique_id' is both the id_col"),
    ({"alias": "cutoff"}, {}, "a column 'cutoff'"),
    ({"alias": "sample_id"}, {}, "a column 'sample_id'"),
    ({"alias": "seasonal naive (7)"}, {}, "'seasonal naive .7.' .the naive forecast"),
    ({}, {"id_col": "MLP"}, "'MLP' is both the id_col and a forecast of the model 'MLP'"),
    ({}, {"id_col": "sample_id"}, "'sample_id' is both the id_col and the number of a sample path"),
    ({}, {"id_col": "mae"}, "'mae' is both the id_col and a metric"),
    ({}, {"id_col": "coverage-80"}, "'coverage-80' is both the id_col and a metric"),
    ({}, {"time_col": "cutoff"}, "'cutoff' is both the time_col and the last row that a forecast saw"),
    ({}, {"target_col": "cutoff"}, "'cutoff' is both the target_col and the last row that a forecast saw"),
    ({}, {"target_col": "MLP-lo-80"}, "'MLP-lo-80' is both the target_col and a forecast of the model 'MLP'"),
    ({}, {"target_col": "MLP_ql0.1"}, "'MLP_ql0.1' is both the target_col"),
    ({}, {"target_col": "MLP-median"}, "'MLP-median' is both the target_col"),
]


def table(id_col="unique_id", time_col="ds", target_col="y", rows=30):
    y = np.random.default_rng(0).normal(size=2 * rows)
    return pl.DataFrame({id_col: ["a"] * rows + ["b"] * rows, time_col: [*range(rows)] * 2, target_col: y})


def perceptron(**fields):
    return nd.MLP(hidden_size=4, **SHAPE, **fields)


@pytest.mark.parametrize(("fields", "names", "words"), COLLISIONS)
def test_collisions_are_refused_wherever_a_training_begins(fields, names, words):
    model, rows = perceptron(**fields), table(**names)
    with pytest.raises(nd.ConfigError, match=words):
        model.fit(rows, FAST, **names)
    with pytest.raises(nd.ConfigError, match=words):
        nd.NeuralForecast([nd.DLinear(**SHAPE), model]).fit(rows, FAST, **names)
    with pytest.raises(nd.ConfigError, match=words):
        nd.cross_validation([nd.DLinear(**SHAPE), model], rows, config=FAST, **names)
    with pytest.raises(nd.ConfigError, match=words):
        Peer([peers.MLP(max_steps=1, **SHAPE, **fields)], freq=1).fit(rows, **names)


@pytest.mark.parametrize(
    "names",
    [{"id_col": "model"}, {"id_col": "step"}, {"id_col": "series"}, {"target_col": "mae"}, {"time_col": "mae"},
     {"target_col": "sales-lo-80"}, {"id_col": "id", "time_col": "unique_id"}],
)  # fmt: skip
def test_other_names_are_carried_through_every_frame(names):
    rows, known = table(**names), {"id_col": "unique_id", "time_col": "ds", "target_col": "y"} | names
    fitted = perceptron().fit(rows, FAST, **names)
    keys, point = [known["id_col"], known["time_col"]], ["MLP", "MLP-lo-80", "MLP-hi-80"]
    assert fitted.predict(level=[80]).columns == keys + point
    past = [*keys, "cutoff", known["target_col"]]
    assert fitted.predict_insample(level=[80]).columns == past + point
    assert fitted.cross_validation(rows, level=[80]).frame.columns == past + point
    assert fitted.simulate(n_paths=2).columns == [*keys, "sample_id", "MLP"]
    scores = fitted.evaluate(rows, metrics=["mae"]).by_series
    assert scores[known["id_col"]].to_list() == ["a", "b"] * 2
    assert scores["mae"].dtype.is_float()


def test_a_column_of_one_model_is_no_name_for_another():
    with pytest.raises(nd.ConfigError, match="'MLP-lo-80' is a column of the forecasts of 'MLP'"):
        nd.NeuralForecast([perceptron(), perceptron(alias="MLP-lo-80")])
    with pytest.raises(nd.ConfigError, match="'MLP-median' is a column of the forecasts of 'MLP'"):
        nd.cross_validation([perceptron(), perceptron(alias="MLP-median")], table(), config=FAST)


def test_names_that_are_given_after_the_training_are_checked_too():
    fitted = [perceptron().fit(table("MLP1"), FAST, id_col="MLP1") for _ in range(2)]
    with pytest.raises(nd.ConfigError, match="'MLP1' is both the id_col and a forecast of the model 'MLP1'"):
        nd.NeuralForecast.from_forecasters(fitted)
    with pytest.raises(nd.ConfigError, match="'ds' is both the time_col"):
        Ensemble(fitted, name="ds")

    def size(actual, forecast):
        return (actual - forecast).abs()

    sized = perceptron().fit(table("size"), FAST, id_col="size")
    with pytest.raises(nd.ConfigError, match="'size' is both"):
        sized.evaluate(table("size"), metrics=[size])
