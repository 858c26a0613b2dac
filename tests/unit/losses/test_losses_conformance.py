"""What holds for every loss in the registry."""

from __future__ import annotations

import pytest
import torch
from loss_examples import ALL, EXAMPLES, PROBABILISTIC, data_for, name_of, quartic, width_of

from neuro_divergent import losses
from neuro_divergent.core import registry
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.losses import Loss


def test_every_registered_loss_has_an_example() -> None:
    shipped = {
        kind for kind, cls in registry.members("loss").items() if cls.__module__.startswith("neuro_divergent.losses.")
    }
    assert shipped == set(EXAMPLES)


def test_every_registered_loss_is_exported() -> None:
    assert set(EXAMPLES) <= set(losses.__all__)


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_gradient_agrees_with_finite_differences(loss: Loss) -> None:
    output, target, window = data_for(loss, windows=2, horizon=3)
    moving = output[..., :1] if "Implicit" in loss.kind else output  # the level of an implicit quantile is an input

    def total(free: torch.Tensor) -> torch.Tensor:
        whole = torch.cat([free, output[..., free.shape[-1] :]], dim=-1)
        return loss.finish(loss.values(whole, target, window).mean())

    assert torch.autograd.gradcheck(total, moving.clone().requires_grad_())


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_values_are_one_finite_number_per_target(loss: Loss) -> None:
    output, target, window = data_for(loss, dtype=torch.float32)
    values = loss.values(output, target, window)
    assert values.shape == target.shape
    assert values.dtype == torch.float32
    assert torch.isfinite(values).all()


@pytest.mark.parametrize("loss", ALL, ids=name_of)
@pytest.mark.parametrize("junk", [0.0, -7.0, 1e6, -1e6])
@pytest.mark.parametrize("size", [0.0, 1.0, 60.0])
def test_junk_behind_the_mask_leaves_gradients_finite(loss: Loss, junk: float, size: float) -> None:
    output, target, window = data_for(loss, dtype=torch.float32)
    mask = window.target_mask
    assert mask is not None
    if target.is_floating_point():
        target = torch.where(mask, target, junk)
        window = window._replace(y=torch.where(window.mask, window.y, junk), target=target)
    free = (output * size).requires_grad_()
    loss.finish(torch.where(mask, loss.values(free, target, window), 0.0).mean()).backward()
    assert free.grad is not None
    assert torch.isfinite(free.grad).all()


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_nothing_behind_the_mask_changes_the_result(loss: Loss) -> None:
    output, target, window = data_for(loss)
    mask = window.target_mask
    assert mask is not None
    if not target.is_floating_point():
        other = torch.where(mask, target, 1)
    else:
        other = torch.where(mask, target, 1.0)
    first = loss.values(output, target, window)
    second = loss.values(output, other, window._replace(target=other))
    torch.testing.assert_close(first[mask], second[mask], rtol=0, atol=0)


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_where_forecast_and_target_are_zero_gradients_are_finite(loss: Loss) -> None:
    _, target, window = data_for(loss)
    free = torch.zeros(*target.shape, width_of(loss), dtype=torch.float64, requires_grad=True)
    window = window._replace(y=torch.zeros_like(window.y), target=torch.zeros_like(target))
    loss.finish(loss.values(free, torch.zeros_like(target), window).mean()).backward()
    assert free.grad is not None
    assert torch.isfinite(free.grad).all()


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_json_and_yaml_round_trip(loss: Loss) -> None:
    loss.values(*data_for(loss))  # whatever is remembered while working must not reach the file
    again = Loss.from_json(loss.to_json(), using={"quartic": quartic})
    assert again == loss
    assert hash(again) == hash(loss)
    assert Loss.from_yaml(loss.to_yaml(), using={"quartic": quartic}) == loss


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_shapes_that_would_broadcast_are_refused(loss: Loss) -> None:
    output, target, window = data_for(loss)
    with pytest.raises(ConfigError, match="needs outputs of shape"):
        loss.values(output[:, :1], target, window)


@pytest.mark.parametrize("loss", ALL, ids=name_of)
def test_point_forecast_has_the_targets_shape(loss: Loss) -> None:
    output, target, _ = data_for(loss)
    assert loss.point(output).shape == target.shape


@pytest.mark.parametrize("loss", [loss for loss in ALL if not loss.probabilistic], ids=name_of)
def test_point_losses_refuse_quantiles_and_samples(loss: Loss) -> None:
    output, _, _ = data_for(loss)
    with pytest.raises(ConfigError, match="no quantiles"):
        loss.quantiles(output, torch.tensor([0.1]))
    with pytest.raises(ConfigError, match="cannot be sampled"):
        loss.sample(output, 3)


@pytest.mark.parametrize("loss", PROBABILISTIC, ids=name_of)
def test_quantiles_do_not_depend_on_the_order_asked_and_match_samples_shapes(loss: Loss) -> None:
    output, target, _ = data_for(loss)
    levels = torch.tensor(loss.levels, dtype=torch.float64)
    forward = loss.quantiles(output, levels)
    assert forward.shape == (*target.shape, len(levels))
    assert (forward.diff(dim=-1) >= 0).all()
    torch.testing.assert_close(loss.quantiles(output, levels.flip(0)).flip(-1), forward, rtol=0, atol=0)
    draws = loss.sample(output, 5, torch.Generator().manual_seed(1))
    assert draws.shape == (5, *target.shape)
    torch.testing.assert_close(draws, loss.sample(output, 5, torch.Generator().manual_seed(1)), rtol=0, atol=0)
