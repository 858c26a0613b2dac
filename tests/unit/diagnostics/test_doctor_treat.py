"""`nd.treat` on small trainings: remedies help, the better branch is kept, and a healthy training does not change."""

from __future__ import annotations

import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.diagnostics.doctor.attempts import attempts
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare

TABLE = nd.samples.hourly_panel(series=3, hours=240)
MODEL = nd.MLP(h=6, input_size=24, hidden_size=16, anchor="auto")
CONFIG = nd.TrainingConfig(
    max_steps=120, steps_per_epoch=20, batch_size=32, learning_rate=2e-3, progress=False, compile=False
)


def branches_of(fitted: nd.Forecaster) -> list[dict]:
    (told,) = [event["branches"] for event in fitted.history.events if event.get("event") == "treated"]
    return told


def inflate(module: torch.nn.Module) -> None:
    """Starting weights that are far too large."""
    with torch.no_grad():
        for parameter in module.network.parameters():
            parameter.mul_(30.0 if parameter.ndim > 1 else 1.0)


def test_treat_mends_a_rate_and_tells_all_branches(tmp_path) -> None:
    healthy = MODEL.fit(TABLE, CONFIG)
    fitted = nd.treat(MODEL, TABLE, CONFIG.replace(learning_rate=3.0, checkpoints=tmp_path / "run"), rounds=2)
    told = branches_of(fitted)
    assert [branch["cause"] for branch in told] == ["", "learning_rate_too_high", "learning_rate_too_high"]
    rates = [branch["remedy"]["learning_rate"] for branch in told[1:]]
    assert rates[1] == pytest.approx(rates[0] / 3, rel=1e-2)
    (kept,) = [branch for branch in told if branch["kept"]]
    assert kept["validation_loss"] == min(branch["validation_loss"] for branch in told)
    assert min(fitted.history.validation_loss) < 1.05 * min(healthy.history.validation_loss)
    (branch,) = (tmp_path / "run" / "branches").glob("01-*")
    assert nd.read_run(branch).epochs


def test_weights_that_were_given_too_large_are_drawn_anew() -> None:
    healthy = MODEL.fit(TABLE, CONFIG)
    config = CONFIG.replace(gradient_clipping=None)
    fitted = nd.treat(MODEL, TABLE, config, begin_with=inflate, rounds=1)
    assert branches_of(fitted)[1]["cause"] == "exploding_gradients"
    assert branches_of(fitted)[1]["kept"]
    assert fitted.history.step_loss[0] == healthy.history.step_loss[0]
    assert min(fitted.history.validation_loss) < 1.05 * min(healthy.history.validation_loss)


def test_an_overfitted_training_ends_with_its_best_weights() -> None:
    # The last weights are far worse than the best ones: a branch counts by the loss of the weights that it returns.
    model = nd.MLP(h=6, input_size=24, hidden_size=128)
    small = TABLE.group_by("unique_id", maintain_order=True).tail(80)
    config = CONFIG.replace(
        max_steps=100, learning_rate=1e-2, schedule=None, early_stopping=None, validation_split=0.4, refit=None
    )
    bare = model.fit(small, config)
    fitted = nd.treat(model, small, config, rounds=1)
    told = branches_of(fitted)
    assert [branch["cause"] for branch in told][:2] == ["", "overfitting"]
    (kept,) = [branch for branch in told if branch["kept"]]
    assert kept["validation_loss"] <= min(bare.history.validation_loss)
    assert kept["validation_loss"] < told[0]["validation_loss"]


def test_overfitting_is_answered_by_stronger_and_stronger_changes() -> None:
    model = nd.NHITS(h=6, input_size=24, hidden_sizes=(64, 32))
    run = prepare(job_of(model, TABLE, CONFIG))
    verdict = nd.Verdict(cause="overfitting", what="", certainty=0.9, remedy={"early_stopping": 5})
    first, second, third = attempts(verdict, run)
    assert first.remedy == {"early_stopping": 5}
    assert second.remedy["optimizer"].weight_decay == 0.1
    assert second.remedy["optimizer"].learning_rate == 2e-3
    assert third.model_remedy["hidden_sizes"] == [16, 8]
    assert third.begins == "afresh"
    run.close()


def test_treat_returns_a_healthy_training_unchanged() -> None:
    config = CONFIG.replace(max_steps=240)
    bare, treated = MODEL.fit(TABLE, config), nd.treat(MODEL, TABLE, config)
    assert len(branches_of(treated)) == 1
    one, other = (fitted.network.state_dict().values() for fitted in (bare, treated))
    assert all(torch.equal(left, right) for left, right in zip(one, other, strict=True))


def test_a_branch_that_fails_as_well_helps_nothing(caplog) -> None:
    def logarithm(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return torch.log(output - target)

    with pytest.raises(nd.NonFiniteError, match="no branch could be trained to its end"):
        nd.treat(MODEL, TABLE, CONFIG.replace(loss=logarithm), rounds=1)
    assert "nonfinite_loss: the remedy does not help" in caplog.text


@pytest.mark.parametrize(
    "field", [{"distributed": nd.Distributed(processes=2)}, {"fault_tolerance": nd.FaultTolerance()}]
)
def test_treat_trains_in_one_process(field: dict) -> None:
    with pytest.raises(nd.ConfigError, match=r"treat trains step by step in one process, but \w+ starts others"):
        nd.treat(MODEL, TABLE, CONFIG.replace(**field))


def test_treat_needs_held_out_rows() -> None:
    with pytest.raises(nd.ConfigError, match="treat compares branches on held-out rows"):
        nd.treat(MODEL, TABLE, CONFIG.replace(validation_split=None))
