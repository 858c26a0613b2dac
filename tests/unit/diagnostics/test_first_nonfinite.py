"""The module and the step of the first NaN or infinity are named, in the run and from its directory."""

from typing import Any, ClassVar

import numpy as np
import polars as pl
import pytest
import torch
from nonfinite_cases import MODELS, Case, Fault, cases, named, table
from torch import nn

import neuro_divergent as nd

SAMPLE = [*cases()[::9]]


@pytest.mark.parametrize("case", SAMPLE, ids=lambda case: "-".join(map(str, case)))
def test_layer_and_step_of_an_injected_fault_are_named(case: Case):
    right, said = named(case)
    assert right, said


@pytest.mark.stress
def test_all_hundred_injected_faults_are_named():
    wrong = [said for right, said in map(named, cases()) if not right]
    assert len(cases()) == 100
    assert not wrong


def config(**fields: Any) -> nd.TrainingConfig:
    return nd.TrainingConfig(**{"max_steps": 12, "batch_size": 16, "refit": None, "early_stopping": None} | fields)


def test_the_error_says_where_and_the_run_directory_keeps_it(tmp_path):
    callbacks = [Fault(layer=2, step=5, way="nan"), nd.GradientAnalyzer()]
    with pytest.raises(nd.NonFiniteError) as raised:
        MODELS["MLP"].fit(table(), config(callbacks=callbacks, checkpoints=nd.Checkpoints(tmp_path / "run")))
    report = nd.gradient_report(tmp_path / "run")
    assert report.first_nonfinite is not None
    assert report.first_nonfinite.step == 6
    assert str(report.first_nonfinite) in raised.value.__notes__
    assert report.has_exploding_gradients()


def overflowing(**fields: Any) -> nd.TrainingConfig:
    """SGD whose rate is so high that the weights overflow within a few steps."""
    sgd = nd.SGD(learning_rate=1e6)
    return config(optimizer=sgd, schedule=None, gradient_clipping=None, loss=nd.MSE(), **fields)


@pytest.mark.parametrize("every", [2, 100], ids=["from a checkpoint", "from the first step"])
def test_a_run_without_the_analyzer_is_repeated_to_the_failed_step(tmp_path, every):
    run = tmp_path / "run"
    with pytest.raises(nd.NonFiniteError) as raised:
        MODELS["MLP"].fit(table(), overflowing(checkpoints=nd.Checkpoints(run, every_n_steps=every)))
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    found = nd.gradient_report(run, table()).first_nonfinite
    assert found is not None
    assert f"step {found.step} " in str(raised.value)
    assert before == {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def test_skipped_steps_are_explained_once_and_the_training_goes_on():
    callbacks = [Fault(layer=0, step=3, way="inf"), nd.GradientAnalyzer()]
    fitted = MODELS["MLP"].fit(table(), config(callbacks=callbacks, nonfinite="skip", refit=None))
    report = fitted.gradient_report()
    assert report.skipped == 1
    assert report.first_nonfinite is not None
    assert report.first_nonfinite.step == 4


class Odd(nn.Module):
    """Code of its own between two layers: log of a negative number, or a square root with an infinite slope at 0."""

    def __init__(self, way: str) -> None:
        super().__init__()
        self.one, self.two, self.way = nn.Linear(3, 4), nn.Linear(4, 1), way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.one(x)
        if self.way == "log":
            hidden = torch.log(-hidden.abs())
        if self.way == "root":
            hidden = torch.sqrt((hidden * 0.0).abs())
        return self.two(hidden)


def found_in(module: nn.Module, x: np.ndarray) -> nd.FirstNonfinite:
    seen = []

    class Keep(nd.Callback):
        looks_at: ClassVar[frozenset[str]] = frozenset()

        def on_exception(self, state: Any) -> None:
            seen.extend(event["first_nonfinite"] for event in state.history.events if "first_nonfinite" in event)

    settings = nd.TrainingConfig(
        max_steps=3, batch_size=8, loss=nd.MSE(), callbacks=[nd.GradientAnalyzer(noise=False), Keep()],
        validation_split=None, early_stopping=None,
    )  # fmt: skip
    with pytest.raises(nd.NonFiniteError):
        nd.Trainer(settings).fit(module, (x, np.ones((len(x), 1), dtype=np.float32)))
    return nd.FirstNonfinite.from_dict(seen[0])


def test_code_between_two_layers_is_code_of_the_outer_module():
    x = np.ones((16, 3), dtype=np.float32)
    assert (found_in(Odd("log"), x).module, found_in(Odd("log"), x).what) == ("Odd", "output")


def test_a_gradient_that_is_not_finite_is_told_from_an_output():
    """The slope of a square root is infinite at 0: the outputs are finite, and the gradient is not."""
    found = found_in(Odd("root"), np.ones((16, 3), dtype=np.float32))
    assert found.what == "gradient"
    assert found.module in ("Odd", "one")


def test_an_infinite_weight_is_named():
    module = nn.Sequential(nn.Linear(3, 4), nn.Linear(4, 1))
    with torch.no_grad():
        module[1].bias[0] = torch.inf
    found = found_in(module, np.ones((16, 3), dtype=np.float32))
    assert (found.module, found.what, found.detail) == ("1", "weight", "bias")


def test_a_healthy_run_is_not_repeated(tmp_path, monkeypatch):
    MODELS["MLP"].fit(table(), config(checkpoints=nd.Checkpoints(tmp_path / "run"), callbacks=[nd.GradientAnalyzer()]))
    monkeypatch.setattr("neuro_divergent.diagnostics.replay.prepare", None)
    assert nd.gradient_report(tmp_path / "run", table()).first_nonfinite is None


def test_a_skipped_step_of_a_finished_run_is_found_from_the_checkpoint_before_it(tmp_path):
    """Values near the largest float32: their square overflows, in the first step that draws such a window."""
    rows = table().with_columns(
        y=pl.when((pl.col("unique_id") == "c") & (pl.col("ds") == 30)).then(3e38).otherwise("y")
    )
    model = MODELS["MLP"].replace(scaler="identity", anchor=None)
    settings = config(loss=nd.MSE(), nonfinite="skip", checkpoints=nd.Checkpoints(tmp_path / "run", every_n_steps=1))
    fitted = model.fit(rows, settings)
    skipped = [event["step"] for event in fitted.history.events if event.get("event") == "skipped"]
    found = nd.gradient_report(tmp_path / "run", rows).first_nonfinite
    assert found is not None
    assert found.step == skipped[0] + 1
