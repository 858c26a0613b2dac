"""Verdicts about evidence that was written by hand: what each check says at both sides of its limit."""

from __future__ import annotations

import json
from dataclasses import replace

import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.diagnostics.doctor.diagnose import judged
from neuro_divergent.diagnostics.doctor.evidence import ForecastFacts, NetworkFacts, TableFacts, TrainingFacts

CALM = TrainingFacts(
    train_loss=[1.0, 0.7, 0.6, 0.55, 0.52],
    validation_loss=[1.1, 0.8, 0.7, 0.68, 0.66],
    learning_rate=[1e-3] * 5,
    step_loss=[1.0 - 0.005 * step for step in range(100)],
    gradient_norm=[0.5] * 100,
)
GOOD = NetworkFacts(
    start=1.0,
    final=0.5,
    from_start={"0.01": 0.98, "0.1": 0.9, "1.0": 0.6, "10.0": 0.7, "100.0": 2.0},
    probe_steps=60,
    go_on=0.52,
    go_on_slow=0.5,
    go_on_validation=0.7,
    final_validation=0.66,
)
WELL = nd.Evidence(
    config={"loss": {"kind": "MAE"}, "optimizer": {"learning_rate": 1e-3}, "batch_size": 32},
    model={"scaler": "standard", "anchor": None, "activation": "relu"},
    training=CALM,
    table=TableFacts(n_series=10, windows=5000),
    network=GOOD,
    forecasts=ForecastFacts(mae=0.8, naive=1.0, by_step=[0.8] * 6, by_series={str(i): 0.8 for i in range(9)}),
)


def with_network(**facts: object) -> nd.Evidence:
    return replace(WELL, network=replace(GOOD, **facts))


def with_training(**facts: object) -> nd.Evidence:
    return replace(WELL, training=replace(CALM, **facts))


def with_table(**facts: object) -> nd.Evidence:
    return replace(WELL, table=replace(WELL.table, **facts))


def with_forecasts(**facts: object) -> nd.Evidence:
    return replace(WELL, forecasts=replace(WELL.forecasts, **facts))


def test_nothing_wrong_is_a_verdict_with_figures() -> None:
    found = judged(WELL)
    assert [verdict.cause for verdict in found] == ["healthy"]
    assert found.healthy
    assert found.verdicts[0].evidence["error over that of the naive forecast"] == pytest.approx(0.8)


CASES = {
    "nonfinite_data": with_table(bad_columns={"price": 3}),
    "nonfinite_loss": with_training(skipped=["loss", "loss"]),
    "nonfinite_gradient": with_training(error="NonFiniteError: the gradient must be finite, but at step 3 it was nan."),
    # 60 steps at a hundredth of the rate reach 0.5, the run itself 0.95 of the first 1.0
    "learning_rate_too_high": replace(
        with_network(final=0.95, from_start={"0.01": 0.5, "1.0": 1.4, "10.0": 9.0}, go_on=1.2),
        training=replace(CALM, train_loss=[1.2, 1.0, 0.97, 0.96, 0.95]),
    ),
    "learning_rate_too_low": replace(
        with_network(final=0.97, from_start={"0.1": 1.0, "1.0": 0.99, "100.0": 0.5}, go_on=0.96),
        training=replace(CALM, train_loss=[1.0, 0.99, 0.98, 0.975, 0.97]),
    ),
    "plateau": replace(
        with_network(final=0.6, go_on=0.5),
        training=replace(CALM, train_loss=[1.0, 0.6, 0.6, 0.6, 0.6], learning_rate=[1e-3, 1e-5, 1e-6, 1e-7, 1e-8]),
    ),
    "stopped_too_early": replace(
        with_network(final=0.9, from_start={"0.1": 0.97, "1.0": 0.55, "10.0": 0.6}, go_on=0.5, go_on_validation=0.6),
        training=replace(CALM, train_loss=[1.0, 0.97, 0.93, 0.9], validation_loss=[1.1, 1.0, 0.95, 0.93]),
    ),
    "overfitting": with_training(train_loss=[1.0, 0.5, 0.2, 0.1, 0.05], validation_loss=[1.0, 0.8, 0.9, 1.0, 1.1]),
    "underfitting": with_network(linear=[0.4, 0.5], own=[0.6, 0.7]),
    "dead_units": with_network(dead={"layer": 0.9}),
    "exploding_gradients": with_training(gradient_norm=[500.0] * 40 + [1.0] * 60),
    "dominating_series": with_network(top_share=0.95, top_series=["a"]),
    "unscaled_inputs": replace(with_network(input_size=4000.0), model={"scaler": "identity"}),
    "constant_inputs": with_table(constant_columns=("price",)),
    "level_shift": with_table(shift=5.0),
    "leak": with_table(leaks={"price": 0.999}),
    "worse_than_naive": with_forecasts(mae=1.5),
    "worse_at_steps": with_forecasts(by_step=[0.5, 0.5, 0.5, 0.5, 1.4, 1.5]),
    "worse_for_series": with_forecasts(by_series={**WELL.forecasts.by_series, "odd": 4.0}, origins=100),
    "idle_steps_ahead": with_network(step_start=[1.0] * 6, step_final=[0.5, 0.5, 0.5, 0.5, 0.99, 1.0]),
    "intervals_off": with_forecasts(coverage=[(0.8, 0.4, 1200)]),
    "batch_too_small": replace(
        with_network(go_on=0.8, large_batches=0.5), config=dict(WELL.config) | {"batch_size": 1}
    ),
    "batch_too_large": replace(
        with_network(final=0.9, small_batches=0.5, small_size=64),
        config=dict(WELL.config) | {"batch_size": 4096},
        training=replace(CALM, step_loss=[1.0] * 12, train_loss=[1.0, 0.95, 0.93, 0.9]),
    ),
    "duplicated_windows": with_table(duplicated=0.6, duplicated_series=4),
    "frozen_weights": with_network(
        layers=[{"name": "a", "matrix": True, "changed": False, "values": 50, "trainable": True}
                | {"gradient_start": 0.1, "gradient_end": 0.1}]
    ),
    "vanishing_gradients": with_network(
        layers=[
            {"name": name, "matrix": True, "changed": True, "values": 50, "trainable": True}
            | {"gradient_start": size, "gradient_end": size}
            for name, size in (("first", 1e-9), ("second", 1e-4), ("last", 1e-1))
        ]
    ),
    "wrong_loss": replace(with_table(zeros=0.3), config=dict(WELL.config) | {"loss": {"kind": "MAPE"}}),
}  # fmt: skip


@pytest.mark.parametrize("cause", CASES)
def test_every_cause_is_named_first_with_its_figures(cause: str) -> None:
    found = judged(CASES[cause])
    assert found.verdicts[0].cause == cause
    assert found.verdicts[0].evidence
    assert found.verdicts[0].change()


@pytest.mark.parametrize("cause", CASES)
def test_remedies_are_changes_of_a_configuration_and_of_a_model(cause: str) -> None:
    verdict = judged(CASES[cause])[cause]
    config = nd.TrainingConfig(optimizer=nd.AdamW(), schedule=None).replace(**verdict.remedy)
    model = nd.MLP(h=6, input_size=12).replace(**verdict.model_remedy)
    for name in verdict.remedy.keys() - {"learning_rate", "max_steps", "freeze", "curriculum"}:
        assert getattr(config, name) != getattr(nd.TrainingConfig(), name)
    if "learning_rate" in verdict.remedy:
        assert config.optimizer.learning_rate == pytest.approx(verdict.remedy["learning_rate"])
    for name, value in verdict.model_remedy.items():
        assert getattr(model, name) == value


def test_every_check_has_a_case_here() -> None:
    from neuro_divergent.diagnostics.doctor.catalogue import CHECKS

    assert set(CHECKS) == set(CASES)


def test_a_symptom_stands_behind_its_cause() -> None:
    both = replace(CASES["learning_rate_too_high"], forecasts=replace(WELL.forecasts, mae=3.0))
    assert [verdict.cause for verdict in judged(both)] == ["learning_rate_too_high", "worse_than_naive"]


def test_one_idle_step_may_be_chance() -> None:
    one = with_network(step_start=[1.0] * 6, step_final=[0.5, 0.5, 0.5, 0.5, 0.5, 1.0])
    assert "idle_steps_ahead" not in judged(one)


def test_without_the_probes_nothing_found_is_not_called_healthy_as_a_whole() -> None:
    (whole,) = judged(WELL)
    (part,) = judged(replace(WELL, missing=("other learning rates",)))
    assert (whole.what, part.what) == ("nothing is wrong", "nothing is wrong in what was examined")


def test_nothing_is_said_without_evidence() -> None:
    assert judged(nd.Evidence()).healthy


def test_own_checks_are_functions_or_descriptions() -> None:
    class Slow(nd.Check):
        steps: int = 10

        def look(self, evidence: nd.Evidence) -> nd.Verdict | None:
            assert evidence.training is not None
            if len(evidence.training.step_loss) < self.steps:
                return None
            return nd.Verdict(cause="slow", what="many steps", certainty=0.9, evidence={"steps": 100})

    assert "slow" in judged(WELL, [Slow()])
    assert "slow" not in judged(WELL, [Slow(steps=1000)])
    assert judged(WELL, [lambda _: nd.Verdict(cause="mine", what="so", certainty=0.5)]).verdicts[0].cause == "mine"
    with pytest.raises(nd.ConfigError, match="a check returns a Verdict or None"):
        judged(WELL, [lambda _: "bad"])  # type: ignore[list-item, return-value]


def test_a_diagnosis_is_a_description_a_frame_a_page_and_a_picture(tmp_path) -> None:
    found = judged(CASES["overfitting"])
    assert json.loads(found.to_json())["verdicts"][0]["cause"] == "overfitting"
    assert isinstance(found.to_polars(), pl.DataFrame)
    assert found.to_polars()["cause"].to_list() == ["overfitting"]
    assert "<td>overfitting</td>" in found._repr_html_()
    assert "config.replace(" in repr(found)
    found.plot(tmp_path / "evidence.png")
    assert (tmp_path / "evidence.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(KeyError):
        found["leak"]
