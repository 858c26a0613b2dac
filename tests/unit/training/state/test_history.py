"""The history: figures, files and pictures."""

from __future__ import annotations

import json

import numpy as np
import pytest
from torch import nn

import neuro_divergent as nd


@pytest.fixture(scope="module")
def history():
    x = np.linspace(-1, 1, 50, dtype=np.float32)[:, None]
    settings = nd.TrainingConfig(max_epochs=6, validate_every=2, metrics=("mae",), progress=False, batch_size=10)
    return nd.Trainer(settings).fit(nn.Linear(1, 1), (x, 2 * x))


def test_columns_and_lengths(history):
    assert len(history) == 6
    assert history["epoch"] == [1, 2, 3, 4, 5, 6]
    assert len(history.train_loss) == 6
    assert len(history.validation_loss) == len(history["validation_mae"]) == 3
    assert len(history.step_loss) == len(history.gradient_norm) == 6 * 4
    assert all(value > 0 for value in history["seconds"])
    assert history.train_loss[0] == pytest.approx(np.mean(history.step_loss[:4]))
    with pytest.raises(nd.ConfigError, match="train_loss"):
        history["loss"]


def test_json_there_and_back(history):
    data = json.loads(history.to_json())
    assert data["epochs"][0]["train_loss"] == history.train_loss[0]
    assert nd.History.from_json(history.to_json()) == history


def test_figures_that_are_not_finite_survive_json():
    odd = nd.History(epochs=[{"epoch": 1, "train_loss": float("inf")}], step_loss=[1.0])
    assert nd.History.from_json(odd.to_json()).train_loss == [float("inf")]


def test_polars_has_one_row_per_epoch_and_gaps_where_nothing_was_validated(history):
    frame = history.to_polars()
    assert frame.height == 6
    assert frame["validation_loss"].is_null().to_list() == [True, False] * 3


def test_the_picture_is_a_picture(history, tmp_path):
    history.plot(tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")
    history.plot(tmp_path / "loss.svg")
    assert b"validation loss" in (tmp_path / "loss.svg").read_bytes() or b"<svg" in (tmp_path / "loss.svg").read_bytes()


def test_how_it_looks(history):
    assert repr(history).startswith("History(6 epochs, 24 steps, train_loss=")
    assert repr(nd.History()) == "History(no finished epoch)"
