"""Optimizer steps and clipping as formulas, against torch.optim and torch.nn.utils themselves.

The comparisons run in float64, where rounding is around 1e-16 and a wrong formula is far off.
"""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor

from neuro_divergent.optim import (
    LAMB,
    SGD,
    Adam,
    AdamW,
    AdaptiveClip,
    ClipBoth,
    ClipByNorm,
    ClipByValue,
    Clipping,
    Optimizer,
    RMSprop,
)
from neuro_divergent.optim import formulas as f

STEPS, MEMBERS, SHAPE = 6, 3, (5, 4)
RATES, DECAYS = (1e-2, 3e-3, 5e-2), (0.1, 0.0, 0.4)
"""Of each member."""

ADAMS = [
    kind(betas=betas, eps=eps)
    for kind, betas, eps in itertools.product((Adam, AdamW), [(0.9, 0.999), (0.3, 0.4), (0.0, 0.9)], [1e-8, 1e-2])
]
SGDS = [
    SGD(momentum=momentum, dampening=dampening, nesterov=nesterov)
    for momentum, dampening, nesterov in itertools.product([0.0, 0.9], [0.0, 0.3], [False, True])
    if not nesterov or (momentum and not dampening)  # torch refuses the others
]
SETTINGS = [pytest.param(item, id=repr(item)) for item in (*ADAMS, *SGDS)]


def draws(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def of_torch(settings: Optimizer, value: Tensor, gradients: Tensor, rate: float, decay: float) -> list[Tensor]:
    """The parameter and its state after torch.optim's own steps."""
    parameter = value.clone().requires_grad_()
    options = {"lr": rate, "weight_decay": decay, "foreach": False, "fused": False}
    if isinstance(settings, SGD):
        options |= {"momentum": settings.momentum, "dampening": settings.dampening, "nesterov": settings.nesterov}
        optimizer: torch.optim.Optimizer = torch.optim.SGD([parameter], **options)
    else:
        kind = torch.optim.AdamW if isinstance(settings, AdamW) else torch.optim.Adam
        optimizer = kind([parameter], betas=settings.betas, eps=settings.eps, **options)
    for gradient in gradients:
        parameter.grad = gradient.clone()
        optimizer.step()
    return [parameter.detach(), *(optimizer.state[parameter][name] for name in f.memory_names(settings))]


def of_formulas(
    settings: Optimizer, value: Tensor, gradients: Tensor, rate: float | Tensor, decay, in_place: bool, late: int = 0
) -> list[Tensor]:
    """The same by `update`; `late` counts the steps wrongly."""
    after = [value.clone(), *(torch.zeros_like(value) for _ in f.memory_names(settings))]
    for count, gradient in enumerate(gradients, 1):
        scalars = f.step_scalars(settings, rate, count + late)
        own = gradient.clone()
        after = list(f.update(settings, after[0], tuple(after[1:]), own, scalars, decay=decay, in_place=in_place))
    return after


def assert_close(found: list[Tensor], expected: list[Tensor]) -> None:
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("settings", SETTINGS)
def test_a_parameter_takes_the_steps_of_torch(settings: Optimizer, decay: float, in_place: bool) -> None:
    value, gradients = draws(*SHAPE), draws(STEPS, *SHAPE, seed=1)
    found = of_formulas(settings, value, gradients, 1e-2, decay or None, in_place)
    assert_close(found, of_torch(settings, value, gradients, 1e-2, decay))


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("shape", [SHAPE, (7,)])
@pytest.mark.parametrize("settings", SETTINGS)
def test_each_member_takes_the_steps_of_torch_at_its_own_rate(
    settings: Optimizer, shape: tuple[int, ...], in_place: bool
) -> None:
    values, gradients = draws(MEMBERS, *shape), draws(STEPS, MEMBERS, *shape, seed=1)
    rate, decay = (torch.tensor(own, dtype=torch.float64).view(-1, *[1] * len(shape)) for own in (RATES, DECAYS))
    found = of_formulas(settings, values, gradients, rate, decay, in_place)
    for row in range(MEMBERS):
        expected = of_torch(settings, values[row], gradients[:, row], RATES[row], DECAYS[row])
        assert_close([tensor[row] for tensor in found], expected)


@pytest.mark.parametrize("settings", ADAMS[:1] + ADAMS[6:7], ids=["Adam", "AdamW"])
@pytest.mark.parametrize("in_place", [False, True])
def test_a_wrong_bias_correction_is_noticed(settings: Optimizer, in_place: bool) -> None:
    """Counted one step late, t + 1 instead of t, or left out: the comparison above must fail."""
    value, gradients = draws(*SHAPE), draws(STEPS, *SHAPE, seed=1)
    expected = of_torch(settings, value, gradients, 1e-2, 0.0)
    for late in (1, 10**6):
        with pytest.raises(AssertionError, match="not close"):
            assert_close(of_formulas(settings, value, gradients, 1e-2, None, in_place, late=late), expected)


def test_the_first_momentum_is_the_whole_gradient_and_later_ones_are_dampened() -> None:
    """By hand: m₁ = g, m₂ = 0.5 m₁ + (1 − 0.25) g, with g = 2."""
    settings, gradient = SGD(momentum=0.5, dampening=0.25), torch.tensor([2.0])
    memory: tuple[Tensor, ...] = (torch.zeros(1),)
    for count, expected in ((1, 2.0), (2, 2.5)):
        _, *rest = f.update(settings, torch.zeros(1), memory, gradient, f.step_scalars(settings, 0.1, count))
        memory = tuple(rest)
        assert memory[0].item() == expected


@pytest.mark.parametrize("settings", SETTINGS)
def test_the_in_place_form_agrees_to_rounding_in_float32(settings: Optimizer) -> None:
    value, gradients = draws(64, dtype=torch.float32), draws(STEPS, 64, seed=1, dtype=torch.float32)
    plain = of_formulas(settings, value, gradients, 1e-2, 0.1, in_place=False)
    in_place = of_formulas(settings, value, gradients, 1e-2, 0.1, in_place=True)
    for one, other in zip(plain, in_place, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("settings", SETTINGS)
def test_only_the_in_place_form_changes_its_arguments(settings: Optimizer) -> None:
    for in_place in (False, True):
        value, gradient = draws(*SHAPE), draws(*SHAPE, seed=1)
        memory = tuple(torch.zeros_like(value) for _ in f.memory_names(settings))
        before = [tensor.clone() for tensor in (value, *memory)]
        scalars = f.step_scalars(settings, 1e-2, 1)
        after = f.update(settings, value, memory, gradient, scalars, decay=0.1, in_place=in_place)
        for given, kept, new in zip((value, *memory), before, after, strict=True):
            assert torch.equal(given, kept) != in_place
            assert (new is given) == in_place
        assert in_place or torch.equal(gradient, draws(*SHAPE, seed=1))


CLIPPINGS = [
    None,
    *(ClipByNorm(max_norm=bound, norm=norm) for bound in (0.5, 100.0) for norm in (1.0, 2.0, 3.0, float("inf"))),
    ClipByValue(0.3),
    ClipByValue((-0.1, 0.4)),
    ClipBoth(value=ClipByValue(0.3), norm=ClipByNorm(0.5)),
    ClipBoth(value=ClipByValue((-0.1, 0.4)), norm=ClipByNorm(max_norm=0.2, norm=float("inf"))),
]


def clipped_by_torch(clipping: Clipping | None, gradients: list[Tensor]) -> tuple[list[Tensor], Tensor]:
    """torch.nn.utils on each part; the norm is of all gradients as one vector, from before."""
    kind = clipping.norm if isinstance(clipping, ClipByNorm) else 2.0
    total = torch.linalg.vector_norm(torch.cat([gradient.flatten() for gradient in gradients]), kind)
    parameters = [torch.zeros_like(gradient).requires_grad_() for gradient in gradients]
    for parameter, gradient in zip(parameters, gradients, strict=True):
        parameter.grad = gradient.clone()
    for part in (clipping.value, clipping.norm) if isinstance(clipping, ClipBoth) else (clipping,):
        if isinstance(part, ClipByValue):
            for parameter in parameters:
                parameter.grad.clamp_(*part.range)  # clip_grad_value_ knows symmetric bounds only
        elif isinstance(part, ClipByNorm):
            torch.nn.utils.clip_grad_norm_(parameters, part.max_norm, part.norm)
    return [parameter.grad for parameter in parameters], total


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("clipping", CLIPPINGS, ids=repr)
def test_clipping_as_by_torch(clipping: Clipping | None, in_place: bool) -> None:
    gradients = [draws(5, 3), draws(3, seed=1), draws(2, 2, 2, seed=2)]
    expected, norm = clipped_by_torch(clipping, gradients)
    found, total = f.clip(clipping, [gradient.clone() for gradient in gradients], in_place=in_place)
    assert_close([*found, total], [*expected, norm])


@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("shapes", [[(7,)], [(5, 3), (3,), (2, 2, 2)]])
@pytest.mark.parametrize("clipping", CLIPPINGS, ids=repr)
def test_each_member_is_clipped_by_itself(
    clipping: Clipping | None, shapes: list[tuple[int, ...]], in_place: bool
) -> None:
    """One member's gradients are a thousand times larger, and one's a thousand times smaller."""
    sizes = torch.tensor([1.0, 1e3, 1e-3], dtype=torch.float64)
    gradients = [
        draws(MEMBERS, *shape, seed=seed) * sizes.view(-1, *[1] * len(shape)) for seed, shape in enumerate(shapes)
    ]
    given = [gradient.clone() for gradient in gradients]
    found, norms = f.clip(clipping, given, members=True, in_place=in_place)
    assert norms.shape == (MEMBERS,)
    for row in range(MEMBERS):
        expected, norm = clipped_by_torch(clipping, [gradient[row] for gradient in gradients])
        assert_close([*(gradient[row] for gradient in found), norms[row]], [*expected, norm])
    for one, new, old in zip(given, found, gradients, strict=True):
        assert torch.equal(one, new if in_place else old)


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        (RMSprop(), "RMSprop is not Adam, AdamW or SGD"),
        (LAMB(), "LAMB is not"),
        (Adam(amsgrad=True), "Adam has amsgrad=True"),
        (AdamW(amsgrad=True), "AdamW has amsgrad=True"),
        ("auto", "auto is not"),
    ],
)
def test_an_optimizer_without_a_formula_is_refused_in_words(settings: object, words: str) -> None:
    assert words in (f.optimizer_obstacle(settings) or "")
    assert not f.has_formula(settings)


def test_a_subclass_may_compute_something_else() -> None:
    class Own(SGD): ...

    class OwnClip(ClipByNorm): ...

    assert "Own is not" in (f.optimizer_obstacle(Own()) or "")
    assert "OwnClip is not" in (f.clipping_obstacle(OwnClip(1.0)) or "")


def test_clippings_with_and_without_a_formula() -> None:
    assert all(f.clipping_has_formula(clipping) for clipping in CLIPPINGS)
    assert "AdaptiveClip is not ClipByNorm or ClipByValue" in (f.clipping_obstacle(AdaptiveClip()) or "")
    assert all(f.has_formula(settings) for settings in (*ADAMS, *SGDS))
