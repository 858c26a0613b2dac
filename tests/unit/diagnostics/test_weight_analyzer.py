"""Weights and units: every count is known by construction."""

import numpy as np
import pytest
import torch
from nonfinite_cases import MODELS, table
from torch import nn

import neuro_divergent as nd
from neuro_divergent.diagnostics.layer_stats import effective_rank, layers_of, spectrum


def test_the_effective_rank_of_equal_singular_values_is_their_number():
    """exp of the entropy of n equal shares is n; with shares 1/2, 1/4, 1/4 it is exp(1.5 ln 2) = 2.828."""
    found = spectrum(torch.eye(5))
    assert found is not None
    assert (found.rank, found.condition) == (5, 1.0)
    assert found.effective_rank == pytest.approx(5.0)
    assert effective_rank(torch.tensor([2.0, 1.0, 1.0])) == pytest.approx(2**1.5)


def test_the_condition_of_a_diagonal_matrix_is_a_quotient():
    found = spectrum(torch.diag(torch.tensor([8.0, 4.0, 2.0])))
    assert found is not None
    assert found.condition == pytest.approx(4.0)
    singular = spectrum(torch.ones(3, 4))
    assert singular is not None
    assert singular.condition == float("inf")
    assert singular.effective_rank == pytest.approx(1.0, abs=1e-4)
    assert spectrum(torch.ones(3)) is None


def test_a_shared_weight_belongs_to_one_layer():
    module = nn.ModuleDict({"one": nn.Linear(3, 3), "two": nn.Linear(3, 3)})
    module["two"].weight = module["one"].weight
    assert [len(item) for item in layers_of(module).values()] == [2, 1]


def module_of_known_units() -> nn.Module:
    """Input x in {-1, 1}. Of six units two follow x, one follows -x, two are always off, and one is not read."""
    module = nn.Sequential(nn.Linear(1, 6), nn.ReLU(), nn.Linear(6, 1))
    with torch.no_grad():
        module[0].weight.copy_(torch.tensor([[1.0], [1.0], [-1.0], [1.0], [1.0], [1.0]]))
        module[0].bias.copy_(torch.tensor([0.0, 0.0, 0.0, -9.0, -9.0, 9.0]))
        module[2].weight.copy_(torch.tensor([[1.0, 1.0, 1.0, 1.0, 1.0, 0.0]]))
        module[2].bias.zero_()
    return module


def test_dead_units_and_utilization_are_counted():
    """On three windows with x = 1 and one with x = -1: units 0 and 1 are used on 3 of 4, unit 2 on 1 of 4."""
    batch = torch.tensor([[1.0], [1.0], [1.0], [-1.0]])
    report = nd.WeightAnalyzer().analyze_module(module_of_known_units(), [batch])
    first, last = report.by_layer
    assert (first.units, first.dead) == (6, 3)
    assert first.utilization == pytest.approx((0.75 + 0.75 + 0.25) / 6)
    assert (last.units, last.dead, last.utilization) == (1, 0, 1.0)
    assert report.dead_neuron_count() == 3
    assert report.avg_utilization() == pytest.approx((6 * first.utilization + 1) / 7)
    assert report.windows == 4
    assert first.output_mean == pytest.approx((0.5 + 0.5 - 0.5 - 8.5 - 8.5 + 9.5) / 6)


def test_a_rectifier_that_works_in_place_is_seen_before_it_works():
    module = nn.Sequential(nn.Linear(1, 6), nn.ReLU(inplace=True), nn.Linear(6, 1))
    module.load_state_dict(module_of_known_units().state_dict())
    batch = torch.tensor([[1.0], [1.0], [1.0], [-1.0]])
    inside, outside = (nd.WeightAnalyzer().analyze_module(m, [batch]) for m in (module, module_of_known_units()))
    assert inside == outside


def test_nothing_in_the_model_changes():
    fitted = MODELS["LSTM"].fit(table(), nd.TrainingConfig(max_steps=3, refit=None))
    for parameter in list(fitted.module.parameters())[:2]:
        parameter.requires_grad_(False)
    before = {name: tensor.clone() for name, tensor in fitted.module.state_dict().items()}
    frozen, forecast = [p.requires_grad for p in fitted.module.parameters()], fitted.predict()
    nd.WeightAnalyzer().analyze(fitted)
    assert all(torch.equal(before[name], tensor) for name, tensor in fitted.module.state_dict().items())
    assert [p.requires_grad for p in fitted.module.parameters()] == frozen
    assert fitted.predict().equals(forecast)


def test_dead_units_of_a_forecaster_are_found_also_after_loading(tmp_path):
    fitted = nd.MLP(h=4, input_size=12, hidden_size=16).fit(table(), nd.TrainingConfig(max_steps=30, refit=None))
    layer = next(part for part in fitted.module.modules() if isinstance(part, nn.Linear))
    with torch.no_grad():
        layer.bias[:5] = -1000.0
    report = nd.WeightAnalyzer().analyze(fitted)
    assert report.by_layer[0].dead >= 5
    fitted.save(tmp_path / "model")
    loaded = nd.WeightAnalyzer().analyze(nd.load(tmp_path / "model"))
    assert loaded.by_layer[0].dead >= 5
    assert loaded.windows < report.windows  # a saved model has its last rows only
    assert nd.WeightAnalyzer().analyze(nd.load(tmp_path / "model"), table()).windows > loaded.windows


def test_what_is_switched_off_is_not_measured_and_says_so():
    report = nd.WeightAnalyzer(dead_neurons=False, utilization=False, distributions=False).analyze_module(
        nn.Linear(2, 2)
    )
    with pytest.raises(nd.ConfigError, match="dead_neurons=True"):
        report.dead_neuron_count()
    with pytest.raises(nd.ConfigError, match="distributions=True"):
        report.plot_weight_distributions()


def test_the_report_is_json_and_a_frame(tmp_path):
    pytest.importorskip("matplotlib")
    report = nd.WeightAnalyzer().analyze_module(module_of_known_units(), [torch.ones(2, 1)])
    assert nd.WeightReport.from_json(report.to_json()) == report
    assert report.layers["dead"].to_list()[1] == 0
    assert report.layers["mean"][0] == pytest.approx(np.mean([1, 1, -1, 1, 1, 1, 0, 0, 0, -9, -9, 9]))
    report.plot_weight_distributions(tmp_path / "weights.png")
    assert (tmp_path / "weights.png").stat().st_size > 2000
