"""Mixtures with equal weights, and mixtures whose component is the same at all steps; values by hand with scipy."""

import numpy as np
import pytest
import torch
from scipy.special import logsumexp
from scipy.stats import norm

import neuro_divergent as nd
from neuro_divergent.core.batch import Batch


def _raw(spread):
    return float(np.log(np.expm1(spread)))  # softplus of it is the spread


MEANS, SPREADS = np.array([[0.0, 4.0], [1.0, 5.0]]), np.array([[1.0, 2.0], [0.5, 1.0]])  # [step, component]
TARGET = torch.tensor([[[0.5], [4.0]]])
RAW = torch.tensor([[[[*mean, *map(_raw, spread)]] for mean, spread in zip(MEANS, SPREADS, strict=True)]])
LOGS = norm.logpdf(TARGET.numpy()[0], MEANS, SPREADS)  # [step, component]


def test_without_weights_every_component_counts_the_same():
    loss = nd.NormalMixture(components=2, weighted=False)
    assert loss.outputs == 4
    expected = -logsumexp(LOGS + np.log(0.5), axis=1)
    np.testing.assert_allclose(loss.values(RAW, TARGET)[0, :, 0], expected, rtol=1e-5)
    np.testing.assert_allclose(loss.mean(RAW)[0, :, 0], MEANS.mean(axis=1), rtol=1e-5)


def test_units_change_without_weights_too():
    loss = nd.NormalMixture(components=2, weighted=False)
    original = loss.unscale(RAW, torch.tensor(10.0).expand(1, 2, 1, 1), torch.tensor(3.0).expand(1, 2, 1, 1))
    np.testing.assert_allclose(loss.mean(original)[0, :, 0], 10 + 3 * MEANS.mean(axis=1), rtol=1e-5)


def test_one_component_for_the_whole_horizon():
    loss = nd.NormalMixture(components=2, weighted=False, horizon_correlation=True)
    expected = -logsumexp(LOGS.sum(axis=0) + np.log(0.5)) / 2
    np.testing.assert_allclose(loss.values(RAW, TARGET)[0, :, 0], [expected, expected], rtol=1e-5)


def test_a_hidden_step_does_not_count_in_the_horizon():
    loss = nd.NormalMixture(components=2, weighted=False, horizon_correlation=True)
    batch = Batch(torch.zeros(1, 3, 1), target_mask=torch.tensor([[[True], [False]]]))
    expected = -logsumexp(LOGS[0] + np.log(0.5))
    assert float(loss.values(RAW, TARGET, batch)[0, 0, 0]) == pytest.approx(expected, rel=1e-5)
