"""One model of the drop-in without a NeuralForecast: its file and its network; and what a saved table brings back."""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from neuro_divergent.compat.neuralforecast import NeuralForecast, register_loss
from neuro_divergent.compat.neuralforecast.common import _modules
from neuro_divergent.compat.neuralforecast.common._scalers import TemporalNorm
from neuro_divergent.compat.neuralforecast.losses.pytorch import MAE, DistributionLoss, MQLoss
from neuro_divergent.compat.neuralforecast.models import (
    HINT,
    LSTM,
    MLP,
    NHITS,
    Autoformer,
    NLinear,
    TimeLLM,
    TSMixerx,
)
from neuro_divergent.compat.neuralforecast.tsdataset import TimeSeriesDataset
from neuro_divergent.compat.neuralforecast.utils import AirPassengersDF, AirPassengersPanel

SMALL = {"h": 4, "input_size": 8, "max_steps": 2}
PANEL = AirPassengersPanel[["unique_id", "ds", "y"]]


def _weights(model):
    return [tensor.clone() for tensor in model.state_dict().values()]


def _same(one, other):
    assert len(one) == len(other) > 0
    assert all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.filterwarnings("ignore:.*another trainer")
def test_an_untrained_model_comes_back_with_its_arguments_and_first_weights(tmp_path):
    model = NLinear(**SMALL, loss=MQLoss(level=[80, 90]), optimizer=torch.optim.AdamW, accelerator="cpu")
    model.save(tmp_path / "model")
    loaded = NLinear.load(tmp_path / "model")
    _same(_weights(model), _weights(loaded))
    assert isinstance(loaded.loss, MQLoss)
    assert loaded.loss.output_names == model.loss.output_names
    assert loaded.valid_loss is loaded.loss
    assert loaded.optimizer is torch.optim.AdamW
    assert loaded.trainer_kwargs == {"accelerator": "cpu"}
    assert loaded.hparams.h == 4


def test_a_trained_model_forecasts_the_same_after_loading(tmp_path):
    dataset = TimeSeriesDataset.from_df(AirPassengersDF)[0]
    model = NHITS(
        **SMALL, mlp_units=3 * [[8, 8]], scaler_type="robust", loss=MAE(horizon_weight=np.array([1, 2, 1, 1]))
    )
    model.fit(dataset)
    model.save(tmp_path / "model")
    loaded = NHITS.load(tmp_path / "model")
    np.testing.assert_array_equal(loaded.predict(dataset), model.predict(dataset))
    np.testing.assert_array_equal(loaded.predict(dataset, h=10)[:4], model.predict(dataset))
    assert loaded.predict(dataset, h=10).shape == (10, 1)
    with pytest.raises(ValueError, match="at least the horizon"):
        loaded.predict(dataset, h=0)


def test_changed_quantiles_survive_a_file(tmp_path):
    model = NHITS(**SMALL, mlp_units=3 * [[8, 8]], loss=DistributionLoss("Normal"))
    model.loss.update_quantile([0.8])
    model.save(tmp_path / "model")
    assert torch.equal(NHITS.load(tmp_path / "model").loss.quantiles, torch.tensor([0.5, 0.8]))


class Scaled(torch.nn.Module):
    def __init__(self, factor: float = 1.0):
        super().__init__()
        self.factor = factor

    def forward(self, y, y_hat, mask=None):
        return (self.factor * (y - y_hat)).abs().mean()


def test_an_own_loss_needs_its_class_registered(tmp_path):
    model = NLinear(**SMALL, loss=Scaled(2.0))
    with pytest.raises(ValueError, match="Call register_loss"):
        model.save(tmp_path / "model")
    assert not (tmp_path / "model").exists()
    register_loss(Scaled)
    model.save(tmp_path / "model")
    assert NLinear.load(tmp_path / "model").loss.factor == 2.0


def test_arguments_can_be_replaced_when_loading(tmp_path):
    NLinear(**SMALL).save(tmp_path / "model")
    assert NLinear.load(tmp_path / "model", learning_rate=0.5).learning_rate == 0.5
    with pytest.raises(ValueError, match="do not fit the model built with"):
        NLinear.load(tmp_path / "model", loss=MQLoss(level=[80]))
    with pytest.raises(TypeError, match="Unexpected keyword arguments"):
        NLinear.load(tmp_path / "model", nonsense=1)
    with pytest.raises(ValueError, match="holds a NLinear checkpoint"):
        MLP.load(tmp_path / "model")
    with pytest.raises(ValueError, match="pickle"):
        NLinear.load(tmp_path / "model", allow_pickle=True)
    with pytest.raises(ValueError, match="cannot be saved or loaded"):
        TimeLLM.load(tmp_path / "model")
    with pytest.raises(ValueError, match="Refusing to load from the remote path"):
        NLinear.load("s3://bucket/model")


@pytest.mark.parametrize("damage", [b"", b"not a model", "half", "flip"])
def test_a_damaged_file_is_refused(tmp_path, damage):
    path = tmp_path / "model"
    NLinear(**SMALL).save(path)
    whole = path.read_bytes()
    middle = len(whole) // 2
    spoilt = {"half": whole[:middle], "flip": whole[:middle] + bytes([whole[middle] ^ 1]) + whole[middle + 1 :]}
    path.write_bytes(spoilt[damage] if isinstance(damage, str) else damage)
    with pytest.raises(ValueError, match="is not a neuralforecast checkpoint"):
        NLinear.load(path)


def test_a_model_is_called_like_a_torch_module():
    model = Autoformer(**SMALL, hidden_size=8, conv_hidden_size=4).eval()
    assert sum(1 for _ in model.parameters()) == len(dict(model.named_parameters())) > 0
    window = {"insample_y": torch.randn(3, 8, 1), "futr_exog": torch.randn(3, 12, 0)}
    assert model.forward(window).shape == model(window).shape == (3, 4, 1)
    several = TSMixerx(**SMALL, n_series=2, futr_exog_list=["trend"], stat_exog_list=["size"]).eval()
    parts = {"insample_y": torch.randn(3, 8, 2), "futr_exog": torch.randn(3, 1, 12, 2), "stat_exog": torch.randn(2, 1)}
    assert several(parts).shape == (3, 4, 2)


def test_the_first_weights_are_those_that_a_training_starts_from():
    model = NLinear(**SMALL | {"max_steps": 0})
    before = _weights(model)
    model.fit(TimeSeriesDataset.from_df(AirPassengersDF)[0])
    _same(before, _weights(model))


def test_a_saved_table_comes_back_whole(tmp_path):
    nf = NeuralForecast([NLinear(**SMALL, scaler_type="standard")], freq="ME")
    nf.fit(PANEL)
    nf.save(tmp_path / "saved")
    loaded = NeuralForecast.load(tmp_path / "saved")
    np.testing.assert_array_equal(loaded.ds, nf.ds)
    assert loaded.uids.equals(nf.uids)
    assert loaded.last_dates.equals(nf.last_dates)
    assert loaded.models[0].hparams.scaler_type == "standard"
    pd.testing.assert_frame_equal(loaded.predict_insample(), nf.predict_insample())
    loaded.fit()  # goes on from the weights, on the stored table
    nf.save(tmp_path / "bare", save_dataset=False)
    assert not list((tmp_path / "bare").glob("**/*.parquet"))


def test_categorical_ids_keep_their_order_and_type():
    order = ["Airline2", "Airline1"]
    table = PANEL.assign(unique_id=pd.Categorical(PANEL.unique_id, categories=order))
    nf = NeuralForecast([NLinear(**SMALL)], freq="ME")
    nf.fit(table)
    forecast = nf.predict()
    assert list(forecast.unique_id.unique()) == list(nf.uids) == order
    assert list(forecast.unique_id.dtype.categories) == order
    plain = NeuralForecast([NLinear(**SMALL)], freq="ME")
    plain.fit(PANEL)
    expected = plain.predict().set_index(["unique_id", "ds"]).NLinear
    found = forecast.astype({"unique_id": str}).set_index(["unique_id", "ds"]).NLinear
    pd.testing.assert_series_equal(found.sort_index(), expected.sort_index())


def test_the_rows_of_a_hierarchy_follow_the_categories():
    names = ["total", "b", "a"]
    values = {"b": PANEL.y[:144].to_numpy(), "a": PANEL.y[144:].to_numpy()}
    values["total"] = values["a"] + values["b"]
    times = PANEL.ds[:144].to_numpy()
    table = pd.concat([pd.DataFrame({"unique_id": name, "ds": times, "y": values[name]}) for name in names])
    table["unique_id"] = pd.Categorical(table.unique_id, categories=names)
    summing = np.array([[1.0, 1.0], [1.0, 0.0], [0.0, 1.0]])
    nf = NeuralForecast([HINT(h=4, S=summing, model=NLinear(**SMALL), reconciliation="BottomUp")], freq="ME")
    nf.fit(table)
    for _, rows in nf.predict().groupby("ds"):
        total, b, a = rows.HINT
        assert list(rows.unique_id) == names
        assert total == pytest.approx(a + b)


def _with_city():
    city = np.where(AirPassengersPanel.unique_id == "Airline1", "paris", "rome")
    dow = AirPassengersPanel.ds.dt.month.map("m{}".format)
    return AirPassengersPanel.assign(city=city, dow=dow)[["unique_id", "ds", "y", "trend", "city", "dow"]]


@pytest.mark.parametrize("explainer", ["IntegratedGradients", "InputXGradient", "ShapleyValueSampling"])
def test_a_categorical_column_has_one_attribution_per_step(explainer):
    table = _with_city()
    cut = table.groupby("unique_id").cumcount() >= 140
    model = MLP(
        **SMALL, hidden_size=8, hist_exog_list=["city"], futr_exog_list=["trend", "dow"], cat_exog_list=["city", "dow"],
        categorical_cardinalities={"city": 2, "dow": 12}, scaler_type="standard",
    )  # fmt: skip
    nf = NeuralForecast([model], freq="ME")
    nf.fit(table[~cut])
    forecast, told = nf.explain(futr_df=table[cut].drop(columns="y"), explainer=explainer, horizons=[0, 2])
    parts = told["MLP"]
    assert parts["hist_exog"].shape == (2, 2, 1, 1, 1, 8)
    assert parts["futr_exog"].shape == (2, 2, 1, 1, 2, 12)
    if explainer == "IntegratedGradients":
        total = sum(parts[name].sum((-1, -2, -3, -4)) for name in ("insample", "hist_exog", "futr_exog"))
        total = total + parts["baseline_predictions"].sum((-1, -2))
        np.testing.assert_allclose(total, forecast.MLP.to_numpy().reshape(2, 4)[:, [0, 2]], rtol=1e-3)


def test_the_first_output_of_a_quantile_loss_is_explained_as_the_median():
    nf = NeuralForecast([MLP(**SMALL, hidden_size=8, loss=MQLoss(level=[80]), scaler_type="standard")], freq="ME")
    nf.fit(PANEL)
    forecast, told = nf.explain(outputs=[0, 1])
    sums = told["MLP"]["insample"].sum((-1, -2)) + told["MLP"]["baseline_predictions"]
    for number, column in enumerate(["MLP-median", "MLP-lo-80"]):
        expected = forecast[column].to_numpy().reshape(2, 4)
        np.testing.assert_allclose(sums[:, :, 0, number], expected, rtol=1e-3)


def test_steps_beyond_the_horizon_are_explained_with_static_columns():
    static = pd.DataFrame({"unique_id": ["Airline1", "Airline2"], "size": [0.0, 1.0]})
    nf = NeuralForecast([MLP(**SMALL, hidden_size=8, stat_exog_list=["size"])], freq="ME")
    nf.fit(PANEL, static_df=static)
    assert nf.explain(h=8, static_df=static)[1]["MLP"]["stat_exog"].shape == (2, 8, 1, 1, 1)


def test_an_untrained_model_is_cross_validated_on_series_of_the_windows_length():
    table = pd.DataFrame({"unique_id": np.repeat([0, 1], [10, 15]), "ds": np.arange(25), "y": np.arange(25.0)})
    nf = NeuralForecast([MLP(h=5, input_size=5, max_steps=0, hidden_size=4)], freq=1)
    found = nf.cross_validation(table, n_windows=3, step_size=5)
    # Series 0 has rows 0-9, series 1 rows 10-24; a window without any row before it is left out.
    assert found.groupby(["unique_id", "cutoff"]).ds.min().to_dict() == {(0, 4): 5, (1, 14): 15, (1, 19): 20}


def test_small_parts_of_common():
    x = torch.arange(12.0).reshape(1, 12, 1)
    norm = TemporalNorm("standard", dim=1)
    scaled = norm(x)
    assert float(scaled.mean()) == pytest.approx(0, abs=1e-6)
    assert torch.allclose(norm.inverse_transform(scaled), x, atol=1e-5)
    assert _modules.MLP(3, 2, "Tanh", 4, 3, 0.0)(torch.randn(2, 5, 3)).shape == (2, 5, 2)
    with pytest.raises(ValueError, match="hidden_size must be positive"):
        _modules.MLP(3, 2, "Tanh", 0, 2, 0.0)
    with pytest.raises(ValueError, match="activation must be one of"):
        _modules.MLP(3, 2, "Linear", 4, 2, 0.0)
    assert LSTM(**SMALL, recurrent=True).RECURRENT
    assert not LSTM(**SMALL).RECURRENT
    with pytest.raises(ValueError, match="Check decoder_input_size_multiplier"):
        Autoformer(**SMALL, decoder_input_size_multiplier=0.0)


def test_polars_enums_keep_their_order():
    table = pl.from_pandas(PANEL).with_columns(pl.col("unique_id").cast(pl.Enum(["Airline2", "Airline1"])))
    nf = NeuralForecast([NLinear(**SMALL)], freq="1mo")
    nf.fit(table)
    assert nf.predict()["unique_id"].unique(maintain_order=True).to_list() == ["Airline2", "Airline1"]


def test_lazy_frames_are_taken():
    table = pl.from_pandas(PANEL).lazy()
    nf = NeuralForecast([NLinear(**SMALL)], freq="1mo")
    nf.fit(table)
    assert nf.predict().height == 8


def test_errors_have_the_types_that_scripts_catch(tmp_path):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        NeuralForecast.load(tmp_path / "nothing")
    with pytest.raises(TypeError, match="needs h"):
        NLinear(input_size=4)
    nf = NeuralForecast([NLinear(**SMALL)], freq="ME")
    nf.fit(PANEL)
    with pytest.raises(KeyError, match="must have the columns y"):
        nf.predict(df=PANEL.drop(columns="y"))
