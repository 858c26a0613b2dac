"""Scalers of the user's: a subclass is known by name wherever a scaler is named."""

import json

import numpy as np
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.errors import RegistryError, UnknownNameError
from neuro_divergent.data.scaling.per_series import SeriesScaler, series_scaler
from neuro_divergent.data.scaling.per_window import Statistics, WindowScaler, window_scaler


class LastOfTests(WindowScaler):
    """The last value becomes 0; the scale stays."""

    kind = "last-of-tests"

    def _measure(self, y, mask):
        return Statistics(y[:, -1:], torch.ones_like(y[:, -1:]))


class FirstOfTests(SeriesScaler):
    """The first value becomes 0."""

    name = "first-of-tests"

    def _fit_one(self, values, series):
        return float(values[0]), 2.0


def test_a_window_scaler_by_name():
    scaled, stats = window_scaler("last_of_tests")(torch.tensor([[[3.0], [5.0]]]))
    assert scaled.flatten().tolist() == [-2.0, 0.0]
    assert stats.location.item() == 5.0


def test_a_model_keeps_the_name_through_a_file(tmp_path):
    model = nd.MLP(h=2, input_size=6, hidden_size=4, scaler="LAST_of_tests")
    assert model.scaler == "last-of-tests"
    fitted = model.fit(nd.samples.air_passengers(), nd.TrainingConfig(max_steps=2))
    fitted.save(tmp_path / "model")
    loaded = nd.load(tmp_path / "model")
    assert loaded.model == model
    assert isinstance(loaded.module.scaler, LastOfTests)
    assert json.loads(model.to_json())["scaler"] == "last-of-tests"
    assert loaded.predict().equals(fitted.predict())


def test_a_series_scaler_by_name():
    scaler = series_scaler("first-of-tests").fit(np.array([4.0, 8.0]), np.array([0, 2]))
    assert scaler.transform(np.array([8.0]), np.array([0])).tolist() == [2.0]
    forecasts = nd.NeuralForecast(
        [nd.MLP(h=2, input_size=6, hidden_size=4)], freq="1mo", local_scaler_type="first-of-tests"
    ).fit(nd.samples.air_passengers(), nd.TrainingConfig(max_steps=2))
    assert forecasts.predict().height == 2


def test_names_of_the_library_cannot_be_taken():
    with pytest.raises(
        RegistryError, match="each window scaler needs a different name, but 'Standard' is both built in"
    ):

        class Standard(WindowScaler):
            pass

    assert type(window_scaler("standard")).__module__ == "neuro_divergent.data.scaling.per_window"


def test_a_misspelt_scaler_is_answered_with_the_closest():
    with pytest.raises(UnknownNameError, match="no window scaler named 'lastoftest'; did you mean last-of-tests"):
        nd.MLP(h=2, input_size=6, scaler="lastoftest")
    with pytest.raises(UnknownNameError, match="no series scaler named 'robustt'; did you mean robust"):
        series_scaler("robustt")
