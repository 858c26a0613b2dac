"""Classification losses against hand calculations and torch's own classes."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.losses import BinaryCrossEntropy, CrossEntropy


def test_cross_entropy_by_hand() -> None:
    output, target = torch.tensor([[math.log(3.0), 0.0], [0.0, 0.0]]), torch.tensor([0, 1])
    assert CrossEntropy().values(output, target).tolist() == pytest.approx([-math.log(0.75), math.log(2)])
    # smoothing 0.2: 0.9 on the class, 0.1 on the other
    smooth = CrossEntropy(label_smoothing=0.2).values(output, target)[0].item()
    assert smooth == pytest.approx(-0.9 * math.log(0.75) - 0.1 * math.log(0.25))
    assert CrossEntropy(class_weights=[1, 5]).values(output, target).tolist() == pytest.approx(
        [-math.log(0.75), 5 * math.log(2)]
    )


def test_cross_entropy_over_sequences_agrees_with_torch() -> None:
    output, target = torch.randn(6, 5, 3), torch.randint(0, 3, (6, 5))
    reference = nn.CrossEntropyLoss(reduction="none", label_smoothing=0.1)(output.movedim(-1, 1), target)
    torch.testing.assert_close(CrossEntropy(label_smoothing=0.1).values(output, target), reference)


def test_classes_and_probabilities() -> None:
    output = torch.tensor([[0.1, 3.0, -1.0]])
    assert CrossEntropy().point(output).tolist() == [1]
    assert CrossEntropy().probabilities(output).sum().item() == pytest.approx(1)
    assert CrossEntropy().outputs == 0
    assert CrossEntropy(classes=7).outputs == 7
    assert CrossEntropy(class_weights=[1, 2]).outputs == 2
    logits = torch.tensor([[-2.0], [2.0]])
    assert BinaryCrossEntropy().point(logits).tolist() == [0, 1]
    assert BinaryCrossEntropy().probabilities(logits).tolist() == pytest.approx(
        [1 / (1 + math.e**2), 1 / (1 + math.e**-2)]
    )
    assert torch.equal(BinaryCrossEntropy().unscale(logits, torch.tensor(5.0), torch.tensor(2.0)), logits)


def test_binary_cross_entropy_by_hand() -> None:
    output, target = torch.tensor([[math.log(4.0)], [math.log(4.0)]]), torch.tensor([1, 0])
    assert BinaryCrossEntropy().values(output, target).tolist() == pytest.approx([-math.log(0.8), -math.log(0.2)])
    # smoothing 0.2: targets 0.9 and 0.1
    smooth = BinaryCrossEntropy(label_smoothing=0.2).values(output, target)[0].item()
    assert smooth == pytest.approx(-0.9 * math.log(0.8) - 0.1 * math.log(0.2))
    heavy = BinaryCrossEntropy(positive_weight=3).values(output, target).tolist()
    assert heavy == pytest.approx([-3 * math.log(0.8), -math.log(0.2)])
    assert torch.isfinite(BinaryCrossEntropy().values(torch.tensor([[1e4]]), torch.tensor([0]))).all()


def test_wrong_targets_and_weights_get_a_sentence() -> None:
    with pytest.raises(DataError, match="from 0 to 2, but got targets from 0 to 3"):
        CrossEntropy().values(torch.zeros(2, 3), torch.tensor([0, 3]))
    with pytest.raises(DataError, match="whole numbers"):
        CrossEntropy().values(torch.zeros(2, 3), torch.tensor([0.0, 1.0]))
    with pytest.raises(ConfigError, match="for each of 3 classes"):
        CrossEntropy(classes=3, class_weights=[1, 2])
    with pytest.raises(ConfigError, match="needs outputs of shape"):
        CrossEntropy(classes=3).values(torch.zeros(2, 4), torch.tensor([0, 1]))
    with pytest.raises(ConfigError, match="label_smoothing must be less than 1"):
        CrossEntropy(label_smoothing=1.0)
