"""Scalers of the user's: a subclass is known by name wherever a scaler is named."""

import json

import numpy as np
import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.core.errors import ConfigError, RegistryError, UnknownNameError
from neuro_divergent.data.scaling.per_series import SeriesScaler, series_scaler
from neuro_divergent.data.scaling.per_window import Statistics, WindowScaler, window_scaler


class LastOfTests(WindowScaler):
    """The last value becomes 0; the scale stays."""

    kind = "last-of-tests"

    def measure(self, y, mask):
        return Statistics(y[:, -1:], torch.ones_like(y[:, -1:]))


class FirstOfTests(SeriesScaler):
    """The first value becomes 0."""

    name = "first-of-tests"

    def measure(self, values, series):
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


class TimesOfTests(WindowScaler):
    """Divides by a number."""

    def __init__(self, by: float) -> None:
        super().__init__()
        self.by = by

    def measure(self, y, mask):
        return torch.zeros_like(y[:, :1]), torch.full_like(y[:, :1], self.by)


class ShiftOfTests(SeriesScaler):
    """Takes a number off."""

    def __init__(self, by: float = 0.0) -> None:
        super().__init__()
        self.by = by

    def measure(self, values, series):
        return self.by, 1.0


QUICK = nd.TrainingConfig(max_steps=2, seed=3)


def test_a_model_takes_a_class_or_an_object():
    """Divided by 1, the windows are those of the identity."""
    frame = nd.samples.air_passengers()
    assert nd.MLP(h=2, input_size=6, scaler=LastOfTests).scaler == "last-of-tests"
    forecasts = [
        nd.MLP(h=2, input_size=6, hidden_size=4, scaler=scaler).fit(frame, QUICK).predict()
        for scaler in (TimesOfTests(1.0), "identity", TimesOfTests(50.0))
    ]
    assert forecasts[0].equals(forecasts[1])
    assert not forecasts[0].equals(forecasts[2])


def test_an_object_is_saved_by_reference_and_given_back(tmp_path):
    scaler = TimesOfTests(50.0)
    fitted = nd.MLP(h=2, input_size=6, hidden_size=4, scaler=scaler).fit(nd.samples.air_passengers(), QUICK)
    fitted.save(tmp_path / "model")
    with pytest.raises(ConfigError, match=r"your own callable .*TimesOfTests.* using={'TimesOfTests': ...}"):
        nd.load(tmp_path / "model")
    loaded = nd.load(tmp_path / "model", using={"TimesOfTests": scaler})
    assert loaded.predict().equals(fitted.predict())


def test_a_series_scaler_as_an_object_is_saved_and_given_back(tmp_path):
    models = [nd.MLP(h=2, input_size=6, hidden_size=4)]
    shift = ShiftOfTests(100.0)
    fitted = nd.NeuralForecast(models, freq="1mo", local_scaler_type=shift).fit(nd.samples.air_passengers(), QUICK)
    assert fitted.forecasters["MLP"].local.scaler.to_arrays()["location"].tolist() == [100.0]
    fitted.save(tmp_path / "models")
    with pytest.raises(ConfigError, match=r"using=.'ShiftOfTests'"):
        nd.load(tmp_path / "models")
    again = nd.load(tmp_path / "models", using={"ShiftOfTests": shift})
    assert again.predict().equals(fitted.predict())
    assert nd.NeuralForecast(models, local_scaler_type=ShiftOfTests).local_scaler_type == "ShiftOfTests"


def test_other_processes_cannot_be_told_of_an_object():
    model = nd.MLP(h=2, input_size=6, hidden_size=4, scaler=TimesOfTests(2.0))
    with pytest.raises(ConfigError, match=r"cannot contain your own callables.*TimesOfTests.*n_jobs=1"):
        nd.cross_validation([model], nd.samples.air_passengers(), config=QUICK, n_windows=2, refit=True, n_jobs=2)


def test_wrong_measures_end_in_a_sentence():
    class FlatOfTests(WindowScaler):
        def measure(self, y, mask):
            return y.mean(1), y.std(1)

    class ZeroOfTests(WindowScaler):
        def measure(self, y, mask):
            return torch.zeros_like(y[:, :1]), torch.zeros_like(y[:, :1])

    class NothingOfTests(SeriesScaler):
        def measure(self, values, series):
            return 0.0, 0.0

    y = torch.rand(3, 6, 1)
    with pytest.raises(ConfigError, match=r"location of shape \(3, 1, 1\).*FlatOfTests returned \(3, 1\)"):
        FlatOfTests()(y)
    with pytest.raises(ConfigError, match=r"scales above 0.*ZeroOfTests returned the location 0 and the scale 0"):
        ZeroOfTests()(y)
    with pytest.raises(ConfigError, match=r"scale above 0, but NothingOfTests gave \(0.0, 0.0\) for series 0"):
        NothingOfTests().fit(np.ones(4), np.array([0, 4]))
    with pytest.raises(ConfigError, match="scaler must be a name, a WindowScaler or a subclass"):
        nd.MLP(h=2, input_size=6, scaler=3)
    with pytest.raises(ConfigError, match="a series scaler must be a name, a SeriesScaler or a subclass"):
        nd.NeuralForecast([nd.MLP(h=2, input_size=6)], local_scaler_type=3)


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
