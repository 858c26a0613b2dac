"""`nd.Visualizer`, `nd.Monitor`, `progress="plain"`, and what TensorBoard and a run directory get."""

import logging
import re

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd

X = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)


def trained(*callbacks, **fields):
    settings = {"max_epochs": 4, "batch_size": 16, "progress": False, "metrics": ("mae",), "validation_split": 0.25}
    config = nd.TrainingConfig(callbacks=callbacks, **settings | fields)
    torch.manual_seed(0)
    return nd.Trainer(config).fit(nn.Linear(2, 1), (X, X[:, :1]))


def test_pictures_are_written_while_it_trains_and_at_the_end(tmp_path):
    seen = []

    def look(state):
        if state.epoch == 2:
            seen.append((tmp_path / "metrics.png").read_bytes()[:4])
            seen.append("refresh" in (tmp_path / "index.html").read_text())

    trained(nd.Visualizer(directory=tmp_path, every_n_epochs=2), look)
    assert seen == [b"\x89PNG", True]
    page = (tmp_path / "index.html").read_text()
    assert "refresh" not in page
    assert "all epochs were done" in page
    assert (tmp_path / "architecture.png").read_bytes()[:4] == b"\x89PNG"


def test_a_metric_that_is_not_there_is_left_out_and_said(tmp_path, caplog):
    with caplog.at_level(logging.WARNING):
        trained(nd.Visualizer(directory=tmp_path, metrics=("train_loss", "mape"), architecture=False))
    assert "without mape" in caplog.text
    assert not (tmp_path / "architecture.png").exists()


def test_a_place_that_cannot_be_written_ends_no_training(tmp_path, caplog):
    (tmp_path / "file").write_text("in the way")
    history = trained(nd.Visualizer(directory=tmp_path / "file" / "plots"))
    assert history.stopped == "all epochs were done"
    assert "could not be written" in caplog.text


def test_a_monitor_prints_every_few_epochs_and_the_last(capsys, tmp_path):
    history = trained(nd.Monitor(["train_loss", "mae"], log_every=3, plot_every=2, directory=tmp_path))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[1] for line in lines] == ["3/4", "4/4"]
    assert f"validation_mae {history['validation_mae'][2]:.5g}" in lines[0]
    assert (tmp_path / "metrics.png").exists()


@pytest.mark.parametrize("metrics", [(), ("mae", "mae")])
def test_metrics_are_one_or_more_names(metrics):
    with pytest.raises(nd.ConfigError, match="one or more"):
        nd.Monitor(metrics)


def test_plain_progress_is_a_line_per_epoch_without_a_terminal(capsys):
    trained(progress="plain")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 5
    assert re.match(r"\S+: epoch 1/4, loss \S+, rate \S+, validation \S+,", lines[0])
    assert lines[-1].endswith("ended after 12 steps: all epochs were done")


def test_pictures_change_no_weight(tmp_path):
    plain, drawn = trained(), trained(nd.Visualizer(directory=tmp_path, every_n_epochs=1), nd.Monitor(save_plots=False))
    assert plain.step_loss == drawn.step_loss


def test_tensorboard_gets_histograms_settings_and_forecasts(tmp_path):
    """Read by TensorBoard's own reader."""
    loader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    config = nd.TrainingConfig(
        max_epochs=2,
        loss=nd.MQLoss(level=[80]),
        progress=False,
        callbacks=[nd.ForecastSnapshots(), nd.TensorBoard(directory=tmp_path, histograms=1)],
    )
    nd.DLinear(h=6, input_size=24).fit(nd.samples.air_passengers(), config)
    found = loader.EventAccumulator(str(tmp_path), size_guidance={})
    found.Reload()
    tags = found.Tags()
    assert tags["images"] == ["forecasts"]
    assert any(tag.startswith("weights/") for tag in tags["histograms"])
    assert "best/validation_loss" in tags["scalars"]
    assert "_hparams_/experiment" in found.summary_metadata


def test_what_is_logged_and_the_memory_are_events_of_the_run(tmp_path):
    def warn(state):
        logging.getLogger("neuro_divergent.test").warning("careful at step %d", state.step)

    trained(warn, checkpoints=nd.Checkpoints(directory=tmp_path))
    record = nd.read_run(tmp_path)
    assert next(one["text"] for one in record.log.events if one["event"] == "console") == "careful at step 3"
    layer = record.details["layers"][0]
    assert (layer["type"], layer["size"], layer["parameters"]) == (
        "Linear",
        "in_features=2, out_features=1, bias=True",
        3,
    )
    memory = record.log.memory["memory"]
    assert not memory or all(2**20 < value < 2**40 for value in memory)  # only Linux tells it
