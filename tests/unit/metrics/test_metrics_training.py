"""Training figures agree with the evaluation figures, however the data is cut into batches."""

from __future__ import annotations

import math

import pytest
import torch

from neuro_divergent.core.errors import ConfigError, UnknownNameError
from neuro_divergent.metrics import METRICS, training_metric
from neuro_divergent.metrics.training import _TRAINING


@pytest.mark.parametrize("name", [name for name in _TRAINING if name != "accuracy"])
def test_sums_over_batches_give_the_figure_of_the_whole(name: str) -> None:
    generator = torch.Generator().manual_seed(0)
    target = torch.randn(50, 3, generator=generator)
    target[::7] = 0
    output = target[..., None] + torch.randn(50, 3, 1, generator=generator)
    mask = torch.rand(50, 3, generator=generator) > 0.3
    metric = training_metric(name)
    parts = [metric.sums(output[i : i + 9], target[i : i + 9], mask[i : i + 9]) for i in range(0, 50, 9)]
    expected = METRICS[name](target, output[..., 0], mask=mask)
    assert metric.result(torch.stack(parts).sum(dim=0)) == pytest.approx(expected, rel=1e-9)


def test_weights_weigh() -> None:
    output, target = torch.tensor([1.0, 5.0]), torch.zeros(2)
    assert training_metric("mae")(output, target, torch.tensor([3.0, 1.0])) == pytest.approx(2.0)
    assert training_metric("rmse")(output, target) == pytest.approx(math.sqrt(13))
    assert math.isnan(training_metric("mae")(output, target, torch.zeros(2)))


def test_accuracy_from_logits_of_several_classes_and_of_one() -> None:
    metric = training_metric("accuracy")
    assert metric.goal == "max"
    assert metric(torch.tensor([[2.0, 1.0], [0.0, 3.0]]), torch.tensor([0, 0])) == 0.5
    assert metric(torch.tensor([[2.0], [-1.0], [0.5]]), torch.tensor([1, 0, 0])) == pytest.approx(2 / 3)
    assert metric(torch.tensor([1, 0, 2]), torch.tensor([1, 0, 1])) == pytest.approx(2 / 3)


def test_junk_that_does_not_count_does_not_matter() -> None:
    output, target = torch.tensor([1.0, float("nan")]), torch.tensor([0.0, 1.0])
    assert training_metric("mae")(output, target, torch.tensor([1.0, 0.0])) == 1.0


def test_mistakes_get_a_sentence() -> None:
    with pytest.raises(UnknownNameError, match="did you mean accuracy"):
        training_metric("acuracy")
    with pytest.raises(ConfigError, match="one forecast per target value"):
        training_metric("mae")(torch.zeros(4, 3), torch.zeros(4))
