from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.core.batch import Batch
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.windows.augmentation import (
    Augmentation,
    Compose,
    Jitter,
    MagnitudeWarp,
    Masking,
    Mixup,
    Scaling,
    WindowSlice,
    WindowWarp,
)

B, L, H = 12, 20, 5
KINDS = [Jitter, Scaling, MagnitudeWarp, WindowSlice, WindowWarp, Mixup, Masking]
ALL = [kind(probability=1.0) for kind in KINDS]


def batch(seed: int = 0, channels: int = 1, masked: bool = True) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    normal = lambda *shape: torch.randn(shape, generator=generator)  # noqa: E731
    y = normal(B, L + H, channels) * 3 + 10
    mask = torch.rand(B, L + H, channels, generator=generator) > 0.2
    y = torch.where(mask, y, torch.zeros_like(y)) if masked else y
    wide = (channels,) if channels > 1 else ()
    return Batch(
        y=y[:, :L],
        mask=mask[:, :L] if masked else None,
        future=normal(B, L + H, *wide, 2),
        historical=normal(B, L, *wide, 3),
        static=normal(B, *wide, 2),
        categorical=torch.randint(0, 4, (B, L + H, *wide, 1), generator=generator),
        target=y[:, L:],
        target_mask=mask[:, L:] if masked else None,
        weight=torch.rand(B, H, channels, generator=generator),
        series=torch.arange(channels if channels > 1 else B),
        time=torch.arange(B) + L,
    )


def same(left: Batch, right: Batch) -> bool:
    return all(
        (a is None and b is None) or (a is not None and b is not None and torch.equal(a, b))
        for a, b in zip(left, right, strict=True)
    )


def clone(given: Batch) -> Batch:
    return Batch(*(None if tensor is None else tensor.clone() for tensor in given))


@pytest.mark.parametrize("augmentation", [*ALL, Compose(steps=ALL)], ids=lambda item: item.kind)
@pytest.mark.parametrize("channels", [1, 3])
@pytest.mark.parametrize("masked", [False, True])
def test_the_same_seed_and_step_give_the_same_batch_and_the_input_stays(augmentation, channels, masked):
    given = batch(channels=channels, masked=masked)
    before = clone(given)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = augmentation.apply(given, seed=7, step=3)
    assert torch.equal(torch.get_rng_state(), state)
    torch.manual_seed(2)
    assert same(first, augmentation.apply(given, seed=7, step=3))
    assert same(given, before)
    assert not same(first, given)
    assert not same(first, augmentation.apply(given, seed=7, step=4))
    assert not same(first, augmentation.apply(given, seed=8, step=3))
    for old, new in zip(given, first, strict=True):
        assert old is None or (new is not None and new.shape == old.shape and new.dtype == old.dtype)
    assert all(torch.isfinite(tensor).all() for tensor in first if tensor is not None)
    if first.mask is not None:
        assert (first.y[~first.mask] == 0).all()


@pytest.mark.parametrize("kind", KINDS)
def test_probability_0_changes_nothing_and_in_between_only_some_windows(kind):
    given = batch()
    assert kind(probability=0.0).apply(given, seed=0, step=0) is given
    changed = kind(probability=0.5).apply(given, seed=0, step=0)
    touched = torch.tensor(
        [
            any(a is not None and not torch.equal(a[i], b[i]) for a, b in zip(given, changed, strict=True))
            for i in range(B)
        ]
    )
    assert 0 < touched.sum() < B


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**63 - 1), step=st.integers(0, 10**9), which=st.sampled_from(ALL))
def test_any_seed_and_step_give_finite_windows(seed, step, which):
    given = batch(seed=step % 5)
    found = which.apply(given, seed, step)
    assert all(torch.isfinite(tensor).all() for tensor in found if tensor is not None)


def test_jitter_is_a_share_of_each_windows_spread():
    torch.manual_seed(0)
    y = torch.randn(50, 2000, 1) * torch.tensor([1.0, 1e6]).repeat(25).reshape(50, 1, 1)
    changed = Jitter(sigma=0.1, probability=1.0).apply(Batch(y=y), 0, 0)
    share = (changed.y - y).std(dim=1) / y.std(dim=1)
    assert share.flatten().tolist() == pytest.approx([0.1] * 50, rel=0.1)
    constant = torch.full((2, 9, 1), 5.0)
    assert torch.equal(Jitter(probability=1.0).apply(Batch(y=constant), 0, 0).y, constant)


@pytest.mark.parametrize("kind", [Jitter, Scaling, MagnitudeWarp, Masking])
def test_changes_of_the_target_leave_the_other_columns(kind):
    given = batch()
    changed = kind(probability=1.0).apply(given, 0, 0)
    for name in ("future", "historical", "static", "categorical", "target_mask", "weight", "series", "time"):
        assert getattr(changed, name) is getattr(given, name)


def test_scaling_multiplies_past_and_horizon_by_one_positive_number():
    given = batch(masked=False)
    changed = Scaling(sigma=0.5, probability=1.0).apply(given, 0, 0)
    ratios = torch.cat([changed.y / given.y, changed.target / given.target], dim=1)[..., 0]
    assert (ratios > 0).all()
    torch.testing.assert_close(ratios, ratios[:, :1].expand_as(ratios), rtol=1e-4, atol=1e-5)
    assert ratios[:, 0].unique().numel() == B


def test_magnitude_warp_is_smooth_and_continues_into_the_horizon():
    given = Batch(y=torch.ones(B, 100, 1), target=torch.ones(B, 20, 1))
    changed = MagnitudeWarp(sigma=0.3, knots=4, probability=1.0).apply(given, 0, 0)
    curve = torch.cat([changed.y, changed.target], dim=1)[..., 0]
    assert (curve > 0).all()
    assert curve.std() > 0.1
    assert curve.diff(dim=1).abs().max() < 0.1


def test_slicing_and_warping_keep_a_straight_line_straight():
    # A line read at increasing steps rises; read over one stretch at one speed, it stays a line of the share's slope.
    line = torch.arange(float(L + H)).reshape(1, -1, 1).expand(B, -1, -1)
    given = Batch(y=line[:, :L], target=line[:, L:], future=line.clone(), historical=line[:, :L].clone())
    sliced = WindowSlice(share=0.5, probability=1.0).apply(given, 0, 0)
    joined = torch.cat([sliced.y, sliced.target], dim=1)
    torch.testing.assert_close(joined.diff(dim=1), torch.full((B, L + H - 1, 1), 0.5))
    torch.testing.assert_close(sliced.future, joined)
    torch.testing.assert_close(sliced.historical, sliced.y.clamp(max=L - 1))
    warped = WindowWarp(share=0.4, scales=(0.5, 2.0), probability=1.0).apply(given, 0, 0)
    joined = torch.cat([warped.y, warped.target], dim=1)[..., 0]
    assert (joined.diff(dim=1) > 0).all()
    torch.testing.assert_close(joined[:, 0], torch.zeros(B))
    torch.testing.assert_close(joined[:, -1], torch.full((B,), float(L + H - 1)))


def test_slicing_never_shows_a_masked_value():
    y = torch.full((B, L, 1), 1.0)
    mask = torch.ones(B, L, 1, dtype=torch.bool)
    mask[:, 5:9] = False
    given = Batch(y=torch.where(mask, y, torch.tensor(1e9)), mask=mask, target=torch.ones(B, H, 1))
    changed = WindowSlice(share=0.7, probability=1.0).apply(given, 0, 0)
    assert (changed.y <= 1).all()
    assert not changed.mask.all()


def test_mixup_mixes_windows_of_one_level_by_one_weight():
    generator = torch.Generator().manual_seed(0)
    y = torch.randn(B, L + H, 1, generator=generator)
    y[:, :L] = (y[:, :L] - y[:, :L].mean(1, keepdim=True)) / y[:, :L].std(1, keepdim=True, correction=0)
    given = Batch(y=y[:, :L], target=y[:, L:], static=torch.eye(B))
    changed = Mixup(alpha=1.0, probability=1.0).apply(given, 0, 0)
    # The mixed identity matrix shows the weights; levels and spreads are equal, so the same mix holds everywhere.
    weights = changed.static
    torch.testing.assert_close(weights.sum(1), torch.ones(B))
    assert (weights.diagonal() >= 0.5).all()
    torch.testing.assert_close(changed.y[..., 0], weights @ given.y[..., 0], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(changed.target[..., 0], weights @ given.target[..., 0], atol=1e-4, rtol=1e-4)


def test_mixup_keeps_each_windows_level():
    y = torch.randn(B, 200, 1, generator=torch.Generator().manual_seed(0)) * 0.1 + 1
    y = y * torch.logspace(-30, 30, B).reshape(B, 1, 1)
    changed = Mixup(alpha=1.0, probability=1.0).apply(Batch(y=y), 0, 0)
    torch.testing.assert_close(changed.y.mean(1) / y.mean(1), torch.ones(B, 1), rtol=1e-3, atol=1e-3)


def test_mixup_observes_only_what_both_windows_observed():
    given = batch()
    changed = Mixup(probability=1.0).apply(given, 0, 0)
    assert (changed.mask <= given.mask).all()
    assert (changed.target_mask <= given.target_mask).all()
    assert changed.mask.sum() < given.mask.sum()
    assert torch.equal(changed.categorical, given.categorical)


def test_masking_hides_a_share_of_the_past_but_never_the_last_step():
    given = Batch(y=torch.ones(200, 50, 1), target=torch.ones(200, H, 1))
    changed = Masking(share=0.3, probability=1.0).apply(given, 0, 0)
    assert (~changed.mask).float().mean().item() == pytest.approx(0.3 * 49 / 50, abs=0.02)
    assert changed.mask[:, -1].all()
    assert torch.equal(changed.y, changed.mask.float())
    assert changed.target is given.target
    assert changed.target_mask is None


def test_compose_draws_anew_at_each_place():
    given = Batch(y=torch.ones(B, L, 1))
    once = Scaling(probability=1.0)
    twice = Compose(steps=[once, once]).apply(given, 0, 0).y[:, 0, 0].log()
    first = Compose(steps=[once]).apply(given, 0, 0).y[:, 0, 0].log()
    assert not torch.allclose(twice, 2 * first)
    assert Compose(steps=[once], probability=0.0).apply(given, 0, 0) is given


def test_descriptions_round_trip_and_refuse_nonsense():
    recipe = Compose(steps=[Jitter(sigma=0.1), "mixup", WindowWarp(scales=(0.8, 1.25))])
    assert Augmentation.from_json(recipe.to_json()) == recipe
    for wrong in (
        lambda: Jitter(sigma=-1),
        lambda: Jitter(sigma=math.nan),
        lambda: WindowSlice(share=1.5),
        lambda: MagnitudeWarp(knots=1),
        lambda: Mixup(probability=2),
        lambda: Compose(steps=[]),
        lambda: WindowWarp(scales=()),
    ):
        with pytest.raises(ConfigError, match="but got"):
            wrong()
