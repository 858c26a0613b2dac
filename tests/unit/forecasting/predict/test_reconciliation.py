"""Reconciliation against hand calculations and the closed form, and draws that go together."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

import neuro_divergent as nd
from neuro_divergent.data.hierarchy.hierarchy import Hierarchy
from neuro_divergent.forecasting.predict.error_factors import FACTORS, factors, mixed, with_factors
from neuro_divergent.forecasting.predict.reconciliation import Projection, drawn, located

FAMILY = Hierarchy.read({"total": [1, 1], "a": [1, 0], "b": [0, 1]})
METHODS = ("BottomUp", "MinTraceOLS", "MinTraceWLS")


@pytest.mark.parametrize(
    ("method", "wanted"),
    [
        # By hand: the total says 10, the children 3 + 5. OLS gives a third of the missing 2 to each child and takes a
        # third from the total; with variances 2, 1, 1 each child gets a quarter of it, the total gives a half.
        ("BottomUp", [8, 3, 5]),
        ("MinTraceOLS", [28 / 3, 11 / 3, 17 / 3]),
        ("MinTraceWLS", [9, 3.5, 5.5]),
    ],
)
def test_three_series_by_hand(method, wanted):
    assert Projection(FAMILY, method)(np.array([[10.0], [3.0], [5.0]]))[:, 0] == pytest.approx(wanted)


def deep(draw: np.random.Generator, weighted: bool) -> Hierarchy:
    """A random matrix over five bottom series, its rows shuffled, with a parent of a single child."""
    above = np.vstack([np.ones(5), (draw.random((3, 5)) < 0.5) * 1.0, [0, 0, 1, 0, 0]])
    above[1:4, 0] = 1
    if weighted:
        above[1:4] *= draw.choice([-1.0, 0.5, 2.0], (3, 5))
    S = np.vstack([above, np.eye(5)])
    names = [f"s{number}" for number in range(len(S))]
    mixed_up = draw.permutation(len(S))
    return Hierarchy.from_matrix(S[mixed_up], [names[row] for row in mixed_up], names[-5:])


def closed_form(S: np.ndarray, weight: np.ndarray) -> np.ndarray:
    """S (Sᵀ W S)⁻¹ Sᵀ W, where W is the inverse of the variances (Wickramasuriya et al. 2019, equation 9)."""
    W = np.diag(weight)
    return S @ np.linalg.inv(S.T @ W @ S) @ S.T @ W


@pytest.mark.parametrize("weighted", [False, True])
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_projections_are_those_of_the_closed_form(weighted, seed):
    draw = np.random.default_rng(seed)
    family = deep(draw, weighted)
    S, values = family.matrix, draw.normal(size=(len(family.rows), 3, 2))
    for method, weight in (("MinTraceOLS", np.ones(len(S))), ("MinTraceWLS", 1 / np.abs(S).sum(axis=1))):
        wanted = np.einsum("ij,jkl->ikl", closed_form(S, weight), values)
        assert np.allclose(Projection(family, method)(values), wanted, atol=1e-9)


@pytest.mark.parametrize("method", METHODS)
@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32))
def test_the_result_is_coherent_and_coherent_forecasts_stay(method, seed):
    draw = np.random.default_rng(seed)
    family = deep(draw, True)
    project, S = Projection(family, method), family.matrix
    once = project(draw.normal(size=(len(S), 4)))
    assert np.allclose(S @ once[list(family.bottom)], once, atol=1e-9)
    assert np.allclose(project(once), once, atol=1e-9)
    coherent = S @ draw.normal(size=(5, 4))
    assert np.allclose(project(coherent), coherent, atol=1e-9)


def test_bottom_up_leaves_the_bottom_alone():
    family = deep(np.random.default_rng(0), False)
    values = np.random.default_rng(1).normal(size=(len(family.rows), 3))
    assert (Projection(family, "BottomUp")(values)[list(family.bottom)] == values[list(family.bottom)]).all()


def test_series_that_nothing_sums_stay_as_they_are():
    values = np.random.default_rng(1).normal(size=(2, 3))
    assert (Projection(Hierarchy.read(np.eye(2)), "MinTraceOLS")(values) == values).all()


def test_normal_quantiles_are_drawn_from_exactly():
    """Of three quantiles of N(5, 2²) the whole distribution is known, its tails too."""
    grid = np.array([0.1, 0.5, 0.9])
    quantiles = stats.norm.ppf(grid, 5, 2)[None]
    scores = np.array([[-3.0, -0.3, 0.0, 1.0, 4.0]])
    assert drawn(quantiles, *located(grid, scores))[0] == pytest.approx(5 + 2 * scores[0])
    assert drawn(quantiles[:, :1], *located(grid[:1], scores)).tolist() == [[quantiles[0, 0]] * 5]


def correlated(moments: int, strength: float) -> np.ndarray:
    """Errors [6, M, 2] of two groups of three series, each with a movement of its own."""
    draw = np.random.default_rng(3)
    common = np.repeat(draw.normal(size=(2, moments, 2)), 3, axis=0)
    own = draw.normal(size=(6, moments, 2))
    return (np.sqrt(strength) * common + np.sqrt(1 - strength) * own) * np.arange(1, 7)[:, None, None]


def test_factors_are_the_correlation_of_the_errors():
    """Against numpy's correlation: 0.8 within a group, none between them."""
    errors = correlated(400, 0.8)
    loading = factors(errors)
    assert loading.shape == (FACTORS, 6)
    found, wanted = loading.T @ loading, np.corrcoef(errors.reshape(6, -1))
    off = ~np.eye(6, dtype=bool)
    assert found[off] == pytest.approx(wanted[off], abs=0.05)
    assert found[0, 1] == pytest.approx(0.8, abs=0.06)
    assert (np.diag(found) <= 1 + 1e-9).all()


def test_few_moments_of_unrelated_series_say_little():
    loading = factors(correlated(12, 0.0))
    certain = factors(correlated(12, 0.95))
    off = ~np.eye(6, dtype=bool)
    assert np.abs((loading.T @ loading)[off]).mean() < 0.5 * np.abs((certain.T @ certain)[off]).mean()


def test_draws_keep_their_spread_and_go_together():
    draw = np.random.default_rng(0)
    network = with_factors(torch.nn.Linear(1, 1), 6)
    network.error_factors.copy_(torch.from_numpy(factors(correlated(400, 0.8))))
    found = mixed(network, draw.normal(size=(6, 20_000)), draw.normal(size=(FACTORS, 20_000)))
    assert found.std(axis=1) == pytest.approx(np.ones(6), abs=0.03)
    assert np.corrcoef(found)[0, 1] == pytest.approx(0.8, abs=0.06)
    assert np.corrcoef(found)[0, 5] == pytest.approx(0.0, abs=0.06)


def test_an_unknown_method_is_refused():
    with pytest.raises(nd.ConfigError, match="reconciliation must be 'BottomUp'"):
        nd.HINT(model=nd.MLP(h=1, input_size=1), S=FAMILY, reconciliation="TopDown")
