"""Quantile losses against hand calculations, and the quantiles they forecast."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import (
    MAE,
    HuberImplicitQuantile,
    HuberMQLoss,
    HuberQuantile,
    ImplicitQuantile,
    MQLoss,
    Quantile,
)
from neuro_divergent.losses.probability_levels import check_percentages


def test_pinball_by_hand() -> None:
    output, target = torch.tensor([[1.0], [1.0]], dtype=torch.float64), torch.tensor([3.0, 0.0], dtype=torch.float64)
    assert Quantile(q=0.8).values(output, target).tolist() == pytest.approx([1.6, 0.2])
    assert (2 * Quantile(q=0.5).values(output, target)).tolist() == MAE().values(output, target).tolist()


def test_the_best_constant_is_the_quantile() -> None:
    sample = torch.arange(1.0, 101.0)
    guesses = torch.linspace(0, 101, 1011)
    losses = [Quantile(q=0.9).values(torch.full((100, 1), float(g)), sample).mean().item() for g in guesses]
    assert guesses[int(torch.tensor(losses).argmin())].item() == pytest.approx(90.0, abs=1.0)


def test_rounded_pinball_by_hand_and_in_the_limit() -> None:
    output, target = torch.zeros(3, 1, dtype=torch.float64), torch.tensor([0.25, 3.0, -1.0], dtype=torch.float64)
    # delta 0.5: huber = 0.03125, 1.375, 0.375; times |q - 1{u<0}| / delta
    assert HuberQuantile(q=0.8, delta=0.5).values(output, target).tolist() == pytest.approx([0.05, 2.2, 0.15])
    nearly = HuberQuantile(q=0.8, delta=1e-9).values(output, target)
    torch.testing.assert_close(nearly, Quantile(q=0.8).values(output, target), atol=1e-8, rtol=0)


def test_levels_become_quantiles_with_the_median() -> None:
    assert MQLoss(level=[80, 90]).levels == (0.05, 0.1, 0.5, 0.9, 0.95)
    assert MQLoss(level=[95]).levels == (0.025, 0.5, 0.975)
    assert MQLoss(quantiles=[0.9, 0.2]).levels == (0.2, 0.9)
    assert MQLoss(level=[]).levels == (0.5,)
    assert MQLoss().outputs == 5


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"level": [80], "quantiles": [0.1]}, "either level or quantiles"),
        ({"level": [100]}, "between 0 and 100"),
        ({"level": [0.8]}, r"in percent, such as 80, but got level=0.8. Did you mean 80\?"),
        ({"level": [80, 0.95]}, r"Did you mean 95\?"),
        ({"quantiles": [0.0]}, "between 0 and 1"),
        ({"quantiles": [0.1, 0.1]}, "differ"),
        ({"quantiles": []}, "at least one"),
        ({"level": [80], "weights": [1, 1]}, "for each of the 3 quantiles"),
        ({"level": [80], "weights": [0, 0, 0]}, "not all 0"),
    ],
)
def test_contradictory_levels_are_refused(fields: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MQLoss(**fields)


def test_several_quantiles_by_hand_and_weighted() -> None:
    output, target = torch.tensor([[0.0, 1.0, 4.0]], dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64)
    # pinball: 0.1·2 = 0.2, 0.5·1 = 0.5, 0.1·2 = 0.2
    assert MQLoss(level=[80]).values(output, target).item() == pytest.approx(0.3)
    assert MQLoss(level=[80], weights=[1, 0, 3]).values(output, target).item() == pytest.approx(0.2)
    assert HuberMQLoss(level=[80], delta=1e-9).values(output, target).item() == pytest.approx(0.3)


def test_a_weight_stays_with_its_quantile_whatever_the_order() -> None:
    """By hand: pinball 0.2, 0.5, 0.2 at 0.1, 0.5, 0.9 as above; weights 2, 3, 1 → (0.4 + 1.5 + 0.2) / 6."""
    output, target = torch.tensor([[0.0, 1.0, 4.0]], dtype=torch.float64), torch.tensor([2.0], dtype=torch.float64)
    given = MQLoss(quantiles=[0.9, 0.1, 0.5], weights=[1, 2, 3])
    assert given.values(output, target).item() == pytest.approx(2.1 / 6)
    assert MQLoss(quantiles=[0.1, 0.5, 0.9], weights=[2, 3, 1]).values(output, target).item() == pytest.approx(2.1 / 6)
    again = MQLoss.from_json(given.to_json())
    assert again.values(output, target).item() == pytest.approx(2.1 / 6)


def test_forecasts_are_sorted_interpolated_and_not_extrapolated() -> None:
    loss = MQLoss(quantiles=[0.1, 0.5, 0.9])
    crossed = torch.tensor([[3.0, 1.0, 2.0]])
    assert loss.point(crossed).item() == 2.0
    found = loss.quantiles(crossed, torch.tensor([0.1, 0.3, 0.5, 0.9]))
    assert found[0].tolist() == pytest.approx([1.0, 1.5, 2.0, 3.0])
    with pytest.raises(ConfigError, match=r"trained on quantiles from 0.1 to 0.9"):
        loss.quantiles(crossed, torch.tensor([0.95]))
    assert MQLoss(quantiles=[0.7, 0.9]).point(torch.tensor([1.0, 2.0])).item() == 1.0


def test_draws_follow_the_quantiles() -> None:
    draws = MQLoss(quantiles=[0.1, 0.5, 0.9]).sample(
        torch.tensor([0.0, 10.0, 30.0]), 20_000, torch.Generator().manual_seed(0)
    )
    assert draws.min() == 0.0
    assert draws.max() == 30.0
    assert (draws <= 10).double().mean().item() == pytest.approx(0.5, abs=0.02)
    assert (draws <= 20).double().mean().item() == pytest.approx(0.7, abs=0.02)


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.floats(-1e6, 1e6, width=32), min_size=5, max_size=5),
    st.lists(st.floats(0.05, 0.95), min_size=1, max_size=8),
)
def test_quantiles_never_cross(output: list[float], levels: list[float]) -> None:
    found = MQLoss().quantiles(torch.tensor(output), torch.tensor(sorted(levels), dtype=torch.float64))
    assert (found.diff() >= 0).all()


def test_implicit_head_trains_on_one_level_per_window() -> None:
    loss = ImplicitQuantile(width=6)
    head = loss.head()
    raw = torch.randn(5, 4, 2, 6)
    torch.manual_seed(3)
    output = head(raw)
    assert output.shape == (5, 4, 2, 2)
    levels = output[..., 1].reshape(5, -1)
    assert (levels == levels[:, :1]).all()
    assert levels[:, 0].unique().numel() == 5
    torch.manual_seed(3)
    assert torch.equal(head(raw), output)
    # the value at the drawn level is the value asked for at that level
    asked = head(raw[2:3], levels[2, :1])
    torch.testing.assert_close(asked[..., 0], output[2:3, ..., 0])
    loss.values(output, torch.zeros(5, 4, 2)).mean().backward()
    assert all(torch.isfinite(p.grad).all() for p in head.parameters() if p.grad is not None)


def test_implicit_head_answers_with_the_median_outside_training() -> None:
    head = ImplicitQuantile(width=6).head().eval()
    output = head(torch.randn(5, 4, 2, 6))
    assert (output[..., 1] == 0.5).all()


def test_a_change_of_units_moves_implicit_values_and_not_their_levels() -> None:
    output = torch.tensor([[[[1.0, 2.0, 0.1, 0.5]]]])
    moved = ImplicitQuantile().unscale(output, torch.tensor(10.0), torch.tensor(3.0))
    assert moved.flatten().tolist() == pytest.approx([13, 16, 0.1, 0.5])
    assert ImplicitQuantile().point(moved).item() == 16.0


def test_implicit_quantiles_are_sorted_by_level() -> None:
    loss = ImplicitQuantile(width=3)
    torch.manual_seed(0)
    head = loss.head()
    raw, levels = torch.randn(7, 2, 1, 3), torch.tensor([0.9, 0.1, 0.5])
    output = head(raw, levels)
    assert output.shape == (7, 2, 1, 6)
    found = loss.quantiles(output, levels)
    torch.testing.assert_close(loss.point(output), found[..., 2])
    assert (found[..., 1] <= found[..., 2]).all()
    assert (found[..., 2] <= found[..., 0]).all()
    with pytest.raises(ConfigError, match="Call the head with these levels first"):
        loss.quantiles(head(raw, levels), torch.tensor([0.5]))


def test_implicit_quantiles_learn_a_distribution() -> None:
    torch.manual_seed(0)
    loss = ImplicitQuantile(width=8)
    head = loss.head()
    optimizer = torch.optim.Adam(head.parameters(), lr=0.02)
    raw = torch.ones(512, 1, 1, 8)
    for _ in range(250):
        target = torch.rand(512, 1, 1)  # uniform: the q-quantile is q
        optimizer.zero_grad()
        loss.values(head(raw), target).mean().backward()
        optimizer.step()
    levels = torch.tensor([0.1, 0.5, 0.9])
    found = loss.quantiles(head(raw[:1], levels), levels).flatten()
    torch.testing.assert_close(found, torch.tensor([0.1, 0.5, 0.9]), atol=0.08, rtol=0)


def test_implicit_draws_invert_the_grid() -> None:
    loss = HuberImplicitQuantile()
    grid = loss.grid(100)
    assert grid[[0, -1]].tolist() == pytest.approx([0.005, 0.995])
    draws = loss.sample(torch.cat([grid * 10, grid]), 10_000, torch.Generator().manual_seed(0))
    assert draws.mean().item() == pytest.approx(5.0, abs=0.1)


def test_the_median_does_not_depend_on_what_else_is_asked() -> None:
    """An untrained head crosses its quantiles; whatever is asked beside it, the median is the head's at 0.5."""
    torch.manual_seed(0)
    head = ImplicitQuantile(width=8).head().eval()
    raw = torch.randn(50, 3, 8)
    median = head(raw)[..., 0]
    for levels in ([0.5], [0.1, 0.5, 0.9], [0.9, 0.5, 0.05, 0.95], [0.45, 0.5]):
        values = head(raw, torch.tensor(levels))[..., : len(levels)]
        torch.testing.assert_close(values[..., levels.index(0.5)], median)
        ordered = values[..., torch.tensor(levels).argsort()]
        assert (ordered.diff(dim=-1) >= 0).all()


def test_a_level_in_quotes_is_refused_in_a_sentence() -> None:
    with pytest.raises(ConfigError, match="level is a number in percent, such as 80, but got the text '80'"):
        check_percentages(["80"])
