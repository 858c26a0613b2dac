"""Clipping against torch.nn.utils and by hand; gradient noise by its formula."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from neuro_divergent.core import registry
from neuro_divergent.core.config import Description
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.optim import (
    AdaptiveClip,
    AnyClipping,
    ClipBoth,
    ClipByNorm,
    ClipByValue,
    Clipping,
    GradientNoise,
    gradient_norm,
)


def parameters(*gradients: list) -> list[Tensor]:
    found = []
    for gradient in gradients:
        values = torch.tensor(gradient)
        parameter = torch.ones_like(values, requires_grad=True)
        parameter.grad = values
        found.append(parameter)
    return found


def gradients(found: list[Tensor]) -> list[list[float]]:
    return [parameter.grad.tolist() for parameter in found]


def test_by_norm_scales_everything_together() -> None:
    found = parameters([3.0, 0.0], [[4.0]])  # norm 5
    total = ClipByNorm(1.0).apply(found)
    assert total.item() == 5.0
    assert total.ndim == 0
    assert gradients(found)[0] == pytest.approx([0.6, 0.0], rel=1e-6)
    assert gradients(found)[1][0] == pytest.approx([0.8], rel=1e-6)


@pytest.mark.parametrize("norm", [1.0, 2.0, 3.0, float("inf")])
@pytest.mark.parametrize("max_norm", [0.1, 1.0, 100.0])
def test_by_norm_gives_torchs_bits(norm: float, max_norm: float) -> None:
    generator = torch.Generator().manual_seed(0)
    values = [torch.randn(shape, generator=generator).tolist() for shape in [(5, 3), (3,), (2, 2, 2)]]
    ours, theirs = parameters(*values), parameters(*values)
    total = ClipByNorm(max_norm=max_norm, norm=norm).apply(ours)
    expected = torch.nn.utils.clip_grad_norm_(theirs, max_norm, norm)
    assert torch.equal(total, expected)
    assert gradients(ours) == gradients(theirs)


def test_by_norm_leaves_small_gradients_and_spreads_what_is_not_a_number() -> None:
    small = parameters([0.3, 0.4])
    before = gradients(small)
    ClipByNorm(1.0).apply(small)
    assert gradients(small) == before
    broken = parameters([float("nan"), 1.0])
    assert ClipByNorm(1.0).apply(broken).isnan()


def test_parameters_without_gradients_are_passed_over() -> None:
    frozen = torch.ones(3, requires_grad=True)
    for clipping in (ClipByNorm(1.0), ClipByValue(1.0), ClipBoth(), AdaptiveClip()):
        assert clipping.apply([frozen]).item() == 0.0
        assert frozen.grad is None
    found = [frozen, *parameters([6.0, 8.0])]
    assert ClipByNorm(5.0).apply(iter(found)).item() == 10.0
    assert found[1].grad.tolist() == pytest.approx([3.0, 4.0], rel=1e-6)


def test_by_value_cuts_each_value() -> None:
    found = parameters([-3.0, 0.5, 2.0])
    assert ClipByValue(1.0).apply(found).item() == pytest.approx(13.25**0.5)
    assert gradients(found) == [[-1.0, 0.5, 1.0]]
    lopsided = parameters([-3.0, 0.5, 2.0])
    ClipByValue((-0.5, 1.5)).apply(lopsided)
    assert gradients(lopsided) == [[-0.5, 0.5, 1.5]]


def test_both_is_by_value_first_then_by_norm() -> None:
    found = parameters([30.0, 4.0])
    total = ClipBoth(value=ClipByValue(3.0), norm=ClipByNorm(1.0)).apply(found)
    assert total.item() == pytest.approx(916**0.5)
    # By value: (3, 3), norm √18; then each 3 / √18. The other order would give (1.0, 0.13).
    assert gradients(found)[0] == pytest.approx([0.5**0.5, 0.5**0.5], rel=1e-5)


def test_adaptive_clips_units_by_their_weights() -> None:
    weight = torch.tensor([[3.0, 4.0], [0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    weight.grad = torch.tensor([[6.0, 8.0], [3.0, 4.0], [0.003, 0.004]])
    bias = torch.tensor([3.0, 4.0], requires_grad=True)
    bias.grad = torch.tensor([0.0, 1.0])
    AdaptiveClip(clipping=0.01, eps=1e-3).apply([weight, bias])
    # Row 1: weight norm 5, gradient norm 10 → 0.01 · 5 / 10. Row 2: eps in place of 0. Row 3: small enough.
    expected = torch.tensor([[0.03, 0.04], [6e-6, 8e-6], [0.003, 0.004]])
    torch.testing.assert_close(weight.grad, expected)
    torch.testing.assert_close(bias.grad, torch.tensor([0.0, 0.05]))


def test_adaptive_treats_a_kernel_as_one_unit_per_output() -> None:
    weight = torch.ones(2, 3, 4, requires_grad=True)  # ‖W_i‖ = √12 for each output
    weight.grad = torch.stack([torch.ones(3, 4), torch.zeros(3, 4)])
    AdaptiveClip(clipping=0.5).apply([weight])
    torch.testing.assert_close(weight.grad[0], torch.full((3, 4), 0.5))
    assert weight.grad[1].abs().max() == 0


def test_gradient_norm_is_of_all_gradients_as_one_vector() -> None:
    assert gradient_norm(parameters([1.0, 2.0], [2.0])).item() == 3.0
    assert gradient_norm(parameters([1.0, -2.0], [2.0]), norm=1).item() == 5.0
    assert gradient_norm([]).item() == 0.0


class Holder(Description):
    clipping: AnyClipping


def test_a_list_means_both() -> None:
    both = ClipBoth(value=ClipByValue(0.5), norm=ClipByNorm(2.0))
    assert Holder(clipping=[ClipByNorm(2.0), ClipByValue(0.5)]).clipping == both
    assert Holder(clipping=({"kind": "ClipByValue", "bound": 0.5}, ClipByNorm(2.0))).clipping == both
    assert Holder(clipping="clip_by_norm").clipping == ClipByNorm(1.0)
    with pytest.raises(ConfigError, match="one ClipByValue and one ClipByNorm"):
        Holder(clipping=[ClipByNorm(1.0), ClipByNorm(2.0)])


@pytest.mark.parametrize("kind", list(registry.members("clipping")))
def test_json_gives_the_same_clipping_back(kind: str) -> None:
    clipping = registry.resolve("clipping", kind)()
    assert Clipping.from_json(clipping.to_json()) == clipping
    assert clipping.replace() == clipping


def test_ranges_and_infinite_norms_survive_json() -> None:
    for clipping in (ClipByValue((-1.0, 2.0)), ClipByNorm(1.0, norm=float("inf"))):
        assert Clipping.from_json(clipping.to_json()) == clipping


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: ClipByNorm(0.0), "max_norm must be greater than 0"),
        (lambda: ClipByNorm(1.0, 2.0), "takes its fields by name, .* but got 2.0"),
        (lambda: ClipByNorm(1.0, max_norm=2.0), "max_norm must be given once, but got 1.0 and max_norm=2.0"),
        (lambda: ClipByValue(-1, 1, 2), "takes one bound, or low and high"),
        (lambda: ClipByNorm(1.0, norm=0.5), "norm must be at least 1"),
        (lambda: ClipByValue((1.0, 2.0)), "must contain zero"),
        (lambda: ClipByValue((1.0, -1.0)), "must contain zero"),
        (lambda: ClipByNorm(max_nrom=1.0), "did you mean max_norm"),
    ],
)
def test_wrong_fields_are_refused_with_a_sentence(build: Callable, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build()


def noise_of(step: int, seed: int, *, size: int = 20_000) -> Tensor:
    parameter = torch.zeros(size, requires_grad=True)
    parameter.grad = torch.zeros(size)
    GradientNoise(eta=0.3, gamma=0.55).apply([parameter], step, seed)
    return parameter.grad


def test_noise_has_the_papers_variance() -> None:
    # σ² = eta / (1 + t)^gamma (Neelakantan et al. 2015); 20 000 draws give the variance to about 1 %.
    for step in (0, 10, 1000):
        noise = noise_of(step, seed=1)
        assert noise.var().item() == pytest.approx(0.3 / (1 + step) ** 0.55, rel=0.05)
        assert abs(noise.mean().item()) < 0.02


def test_noise_is_keyed_by_seed_and_step() -> None:
    assert torch.equal(noise_of(3, seed=1), noise_of(3, seed=1))
    assert not torch.equal(noise_of(3, seed=1), noise_of(4, seed=1))
    assert not torch.equal(noise_of(3, seed=1), noise_of(3, seed=2))
    state = torch.random.get_rng_state()
    noise_of(3, seed=1)
    assert torch.equal(torch.random.get_rng_state(), state)


def test_noise_differs_between_parameters_and_adds_to_the_gradient() -> None:
    found = parameters([1.0] * 50, [1.0] * 50)
    GradientNoise(eta=1e-6, gamma=0.0).apply(found, 0, 0)
    assert gradients(found)[0] != gradients(found)[1]
    assert gradients(found)[0] == pytest.approx([1.0] * 50, abs=0.01)
    noise = GradientNoise(eta=0.2)
    assert GradientNoise.from_json(noise.to_json()) == noise
