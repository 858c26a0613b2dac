"""Exported files: the numbers of `predict_array`, read by ONNX Runtime, which is an independent engine."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.cli.main import main
from neuro_divergent.core.kinds import KINDS
from neuro_divergent.export.program import neighbours

LOOKBACK, H = 12, 4
NOT_HERE = {"HINT", "TimeLLM"}
"""HINT is refused; TimeLLM needs a language model on disk."""


def trained(model: nd.Model, data: Any = None, **fields: Any) -> nd.Forecaster:
    config = {"max_steps": 3, "batch_size": 8, "refit": None, "early_stopping": None, "progress": False} | fields
    return model.fit(nd.samples.hourly_panel(3, 80) if data is None else data, nd.TrainingConfig(**config))


def run(path: Path, **inputs: np.ndarray) -> np.ndarray:
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    return session.run(["forecast"], inputs)[0]


def windows(count: int, *, missing: bool = True) -> np.ndarray:
    x = np.random.default_rng(3).normal(10, 3, (count, LOOKBACK)).astype(np.float32)
    if missing:
        x[0, [2, 3, 7]] = np.nan
    return x


@pytest.fixture(scope="module")
def quantiles(tmp_path_factory: pytest.TempPathFactory) -> tuple[nd.Forecaster, Path]:
    """A model whose quantiles were corrected on held-out rows, and whose forecasts are whole numbers from 0 on."""
    frame = nd.samples.hourly_panel(3, 200).with_columns(pl.col("y").abs().round())
    data = nd.TimeSeriesDataFrame.from_frame(frame, lower=0, integer=True)
    loss = nd.MQLoss(level=[50, 90])
    fitted = trained(nd.MLP(h=H, input_size=LOOKBACK, hidden_size=8), data, loss=loss, calibrate=True)
    assert fitted.calibration is not None
    path = tmp_path_factory.mktemp("onnx") / "model.onnx"
    fitted.export(path, level=[80], quantiles=[0.5, 0.3])
    return fitted, path


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_corrected_quantiles_in_range_are_those_of_the_predictor(
    quantiles: tuple[nd.Forecaster, Path], count: int
) -> None:
    fitted, path = quantiles
    x = windows(count)
    wanted = fitted.predictor().predict_array(x, level=[80], quantiles=[0.5, 0.3])
    found = run(path, x=x)
    assert np.array_equal(found, np.round(found))
    # A value beside a half may be rounded to either side; hardly any is.
    assert np.mean(found == wanted) > 0.99
    assert np.abs(found - wanted).max() <= 1


def test_the_file_says_what_it_is(quantiles: tuple[nd.Forecaster, Path]) -> None:
    _, path = quantiles
    beside = json.loads(path.with_suffix(".onnx.json").read_text())
    assert beside["output"]["columns"] == ["MLP", "MLP-lo-80", "MLP-hi-80", "MLP_ql0.5", "MLP_ql0.3"]
    assert beside["inputs"]["x"]["shape"] == ["windows", LOOKBACK]
    (entry,) = [one for one in onnx.load(path).metadata_props if one.key == "neuro_divergent"]
    assert json.loads(entry.value)["frequency"] == beside["frequency"]


def test_intervals_around_a_point_are_those_of_a_new_series(tmp_path: Path) -> None:
    model = nd.DLinear(h=H, input_size=LOOKBACK)
    config = nd.TrainingConfig(max_steps=3, batch_size=8, progress=False)
    fitted = model.fit(
        nd.samples.hourly_panel(3, 200), config, prediction_intervals=nd.PredictionIntervals(n_windows=10)
    )
    fitted.export(tmp_path / "m.onnx", level=[80])
    x = windows(5)
    assert np.allclose(run(tmp_path / "m.onnx", x=x), fitted.predictor().predict_array(x, level=[80]), atol=2e-3)


def test_columns_and_an_lstm(tmp_path: Path) -> None:
    frame = nd.samples.hourly_panel(3, 80).with_columns(
        price=pl.int_range(pl.len()).sin(), past=pl.int_range(pl.len()).cos()
    )
    data = nd.TimeSeriesDataFrame.from_frame(frame, future=["price"], historical=["past"])
    model = nd.LSTM(h=H, input_size=LOOKBACK, hidden_size=8, layers=1, calendar=None)
    done = trained(model, data).export(tmp_path / "m.onnx")
    assert done.difference < 1e-5
    assert done.interface["inputs"]["future"]["columns"] == ["price"]
    assert done.interface["inputs"]["historical"]["columns"] == ["past"]


@pytest.mark.parametrize(("quantize", "share"), [("int8", 0.45), ("float16", 0.65)])
def test_quantized_files_are_smaller_and_near(tmp_path: Path, quantize: Any, share: float) -> None:
    fitted = trained(nd.MLP(h=H, input_size=LOOKBACK, hidden_size=256))
    whole = fitted.export(tmp_path / "whole.onnx")
    small = fitted.export(tmp_path / "small.onnx", quantize=quantize)
    assert small.bytes < share * whole.bytes
    assert 0 < small.difference < 0.1


def test_what_cannot_be_exported_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "m.onnx"
    deep = trained(
        nd.DeepAR(h=H, input_size=LOOKBACK, hidden_size=4, layers=1, calendar=None), loss=nd.DistributionLoss()
    )
    with pytest.raises(nd.ConfigError, match="draws sample paths"):
        deep.export(path, level=[80])
    local = nd.MLP(h=H, input_size=LOOKBACK, hidden_size=4).fit(
        nd.samples.hourly_panel(2, 80), nd.TrainingConfig(max_steps=1, progress=False), local_scaler="standard"
    )
    with pytest.raises(nd.ConfigError, match="local_scaler"):
        local.export(path)
    fitted = trained(nd.NLinear(h=H, input_size=LOOKBACK))
    with pytest.raises(nd.ConfigError, match="must be 'onnx'"):
        fitted.export(path, format="pickle")  # type: ignore[arg-type]
    path.write_text("mine")
    with pytest.raises(nd.StorageError, match="exists already"):
        fitted.export(path)
    assert path.read_text() == "mine"


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trained(nd.NLinear(h=H, input_size=LOOKBACK)).save(tmp_path / "model")
    assert main(["export", str(tmp_path / "model"), "--out", str(tmp_path / "m.onnx")]) == 0
    assert "forecast: NLinear" in capsys.readouterr().out
    assert run(tmp_path / "m.onnx", x=windows(2)).shape == (2, H, 1)
    assert main(["export", str(tmp_path / "model"), "--out", str(tmp_path / "m.onnx")]) == 1


def test_levels_between_trained_ones_are_found_by_hand() -> None:
    assert neighbours((0.1, 0.5, 0.9), 0.5) == (1, 1, 0.0)
    assert neighbours((0.1, 0.5, 0.9), 0.7) == (1, 2, 0.5)
    with pytest.raises(nd.ConfigError, match=r"from 0\.1 to 0\.9, but got 0\.95"):
        neighbours((0.1, 0.5, 0.9), 0.95)


@pytest.mark.stress
@pytest.mark.parametrize("kind", sorted(set(KINDS["model"]) - NOT_HERE))
def test_every_model_is_exported(tmp_path: Path, kind: str) -> None:
    cls = getattr(nd, kind)
    small = {"hidden_size": 8, "layers": 1, "heads": 2, "calendar": None}
    fields = {name: value for name, value in small.items() if name in cls.model_fields}
    done = trained(cls(h=H, input_size=24, **fields)).export(tmp_path / "m.onnx")
    assert done.difference <= 1e-4
