from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neuro_divergent.core.errors import ConfigError, UnknownNameError
from neuro_divergent.data.scaling.per_window import MAD_OF_STANDARD, WINDOW_SCALERS, window_scaler

NAMES = st.sampled_from(WINDOW_SCALERS)
MAGNITUDES = st.sampled_from([1e-30, 1e-6, 1.0, 1e6, 1e30])


@st.composite
def windows(draw: st.DrawFn) -> tuple[torch.Tensor, torch.Tensor]:
    shape = (draw(st.integers(1, 4)), draw(st.integers(1, 12)), draw(st.integers(1, 3)))
    numbers = st.floats(-4, 4, width=32, allow_subnormal=False)
    if draw(st.booleans()):
        values = np.broadcast_to(draw(hnp.arrays(np.float32, (shape[0], 1, shape[2]), elements=numbers)), shape)
    else:
        values = draw(hnp.arrays(np.float32, shape, elements=numbers))
    mask = draw(hnp.arrays(np.bool_, shape))
    return torch.tensor(values * np.float32(draw(MAGNITUDES))), torch.tensor(mask)


def column(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float32).reshape(1, -1, 1)


@settings(max_examples=300, deadline=None)
@given(name=NAMES, window=windows(), masked=st.booleans())
def test_inverse_gives_back_what_transform_was_given(name, window, masked):
    y, mask = window
    scaler = window_scaler(name)
    stats = scaler.statistics(y, mask if masked else None)
    assert torch.isfinite(stats.location).all()
    assert torch.isfinite(stats.scale).all()
    assert (stats.scale > 0).all()
    scaled = scaler.transform(y, stats)
    back = scaler.inverse(scaled, stats)
    seen = torch.ones_like(mask) if not masked else mask
    assert torch.isfinite(scaled[seen]).all()
    tolerance = 3e-6 * y.abs().amax(1, keepdim=True).expand_as(y) + 1e-37
    assert ((back - y).abs()[seen] <= tolerance[seen]).all()


@settings(max_examples=150, deadline=None)
@given(name=NAMES, window=windows(), noise=st.floats(-(2.0**99), 2.0**99, width=32))
def test_masked_positions_do_not_influence_the_statistics(name, window, noise):
    y, mask = window
    scaler = window_scaler(name)
    garbage = torch.where(mask, y, torch.full_like(y, noise))
    missing = torch.where(mask, y, torch.full_like(y, torch.nan))
    expected = scaler.statistics(y, mask)
    for other in (garbage, missing):
        found = scaler.statistics(other, mask)
        assert torch.equal(found.location, expected.location)
        assert torch.equal(found.scale, expected.scale)


@settings(max_examples=100, deadline=None)
@given(name=NAMES, window=windows())
def test_a_mask_of_ones_is_no_mask(name, window):
    y, _ = window
    scaler = window_scaler(name)
    with_mask, without = scaler.statistics(y, torch.ones_like(y, dtype=torch.bool)), scaler.statistics(y)
    size = y.abs().amax(1, keepdim=True)
    assert ((with_mask.location - without.location).abs() <= 1e-6 * size).all()
    assert torch.allclose(with_mask.scale, without.scale, rtol=1e-3)


def test_standard_by_hand():
    # 2, 4, 4, 4, 5, 5, 7, 9 is the textbook example: mean 5, population standard deviation 2.
    stats = window_scaler("standard").statistics(column(2, 4, 4, 4, 5, 5, 7, 9))
    assert stats.location.item() == pytest.approx(5)
    assert stats.scale.item() == pytest.approx(2)


def test_robust_by_hand():
    # Median 3; absolute deviations 2, 1, 0, 1, 97, whose median is 1.
    stats = window_scaler("robust").statistics(column(1, 2, 3, 4, 100))
    assert (stats.location.item(), stats.scale.item()) == (3, 1)


def test_robust_takes_the_lower_median_of_an_even_count():
    # torch.median's rule, which neuralforecast follows too: 2 of 1, 2, 3, 4; deviations 1, 0, 1, 2.
    stats = window_scaler("robust").statistics(column(1, 2, 3, 4))
    assert (stats.location.item(), stats.scale.item()) == (2, 1)


def test_robust_falls_back_to_the_standard_deviation():
    # More than half are 0, so the MAD is 0; the standard deviation of 0, 0, 0, 0, 10 is 4.
    stats = window_scaler("robust").statistics(column(0, 0, 0, 0, 10))
    assert stats.scale.item() == pytest.approx(4 * MAD_OF_STANDARD)


def test_minmax_by_hand():
    y, mask = column(-3, 1, 5, 100), torch.tensor([True, True, True, False]).reshape(1, 4, 1)
    for name, expected in (("minmax", [0, 0.5, 1, 0]), ("minmax1", [-1, 0, 1, 0])):
        scaled, _ = window_scaler(name)(y, mask)
        assert scaled.flatten().tolist() == pytest.approx(expected)


def test_invariant_is_the_inverse_hyperbolic_sine_of_the_robust():
    y = column(1, 2, 3, 4, 100)
    scaled, _ = window_scaler("invariant")(y)
    assert scaled.flatten().tolist() == pytest.approx(np.arcsinh([-2, -1, 0, 1, 97]).tolist())


@pytest.mark.parametrize("name", WINDOW_SCALERS)
@pytest.mark.parametrize("value", [0.0, 0.1, -7.3, 1e30, 1e-30])
def test_constant_windows_become_small_numbers(name, value):
    y = torch.full((2, 7, 1), value)
    scaled, _ = window_scaler(name)(y)
    assert torch.isfinite(scaled).all()
    assert name == "identity" or (scaled.abs() < 1).all()


def test_windows_without_observation_have_location_0_and_scale_1():
    y, mask = torch.zeros(2, 5, 1), torch.zeros(2, 5, 1, dtype=torch.bool)
    for name in WINDOW_SCALERS:
        stats = window_scaler(name).statistics(y, mask)
        assert stats.location.flatten().tolist() == [0, 0]
        assert stats.scale.flatten().tolist() == [1, 1]


def test_transform_with_a_mask_leaves_zeros_where_nothing_was_observed():
    y, mask = column(1, 0, 5), torch.tensor([True, False, True]).reshape(1, 3, 1)
    scaled, _ = window_scaler("standard")(y, mask)
    assert scaled.flatten().tolist() == pytest.approx([-1, 0, 1])


def test_huge_windows_do_not_overflow():
    y = torch.tensor([1e30, -1e30, 3e30, 2e30]).reshape(1, 4, 1)
    scaled, stats = window_scaler("standard")(y)
    expected = np.array([1, -1, 3, 2.0])  # scaling does not depend on the unit
    assert scaled.flatten().tolist() == pytest.approx(((expected - expected.mean()) / expected.std()).tolist())
    assert torch.isfinite(stats.scale).all()


def test_revin_learns_an_affine_map_per_channel_and_folds_it():
    torch.manual_seed(0)
    scaler = window_scaler("revin", channels=3)
    for parameter in scaler.parameters():
        torch.nn.init.normal_(parameter)
    y = torch.randn(4, 9, 3) * 50 + 100
    stats = scaler.statistics(y)
    scaled = scaler.transform(y, stats)
    location, scale = scaler.affine_map(stats)
    torch.testing.assert_close(scaled * scale + location, y, rtol=1e-4, atol=1e-3)
    torch.testing.assert_close(scaler.inverse(scaled, stats), y, rtol=1e-4, atol=1e-3)
    assert (scale > 0).all()
    assert {name for name, _ in scaler.named_parameters()} == {"log_weight", "bias"}
    scaled.sum().backward()
    assert all(parameter.grad is not None for parameter in scaler.parameters())


@pytest.mark.parametrize("name", WINDOW_SCALERS)
def test_outputs_with_a_trailing_dimension_are_unscaled_one_by_one(name):
    y = torch.randn(3, 8, 2, generator=torch.Generator().manual_seed(1)) * 10
    scaler = window_scaler(name)
    stats = scaler.statistics(y)
    output = torch.linspace(-1, 1, 3 * 4 * 2 * 5).reshape(3, 4, 2, 5)
    whole = scaler.inverse(output, stats)
    for q in range(5):
        torch.testing.assert_close(whole[..., q], scaler.inverse(output[..., q], stats))


@pytest.mark.parametrize("name", [name for name in WINDOW_SCALERS if name != "invariant"])
def test_affine_map_is_the_way_back(name):
    y = torch.randn(3, 8, 1, generator=torch.Generator().manual_seed(2))
    scaler = window_scaler(name)
    scaled, stats = scaler(y)
    location, scale = scaler.affine_map(stats)
    assert scaler.affine
    torch.testing.assert_close(scaled * scale + location, y)


def test_invariant_has_no_affine_map():
    scaler = window_scaler("invariant")
    assert not scaler.affine
    with pytest.raises(ConfigError, match="needs an affine scaler"):
        scaler.affine_map(scaler.statistics(torch.randn(1, 4, 1)))


@pytest.mark.parametrize("name", WINDOW_SCALERS)
@pytest.mark.parametrize("masked", [False, True])
def test_scalers_can_be_exported(name, masked):
    generator = torch.Generator().manual_seed(3)
    y = torch.randn(4, 10, 2, generator=generator)
    mask = torch.rand(4, 10, 2, generator=generator) > 0.3 if masked else None
    scaler = window_scaler(name)
    arguments = (y,) if mask is None else (y, mask)
    batch = torch.export.Dim("batch")
    exported = torch.export.export(scaler, arguments, dynamic_shapes=tuple({0: batch} for _ in arguments))
    # Other numbers and another batch size than the export saw.
    y = torch.randn(7, 10, 2, generator=generator)
    mask = torch.rand(7, 10, 2, generator=generator) > 0.5 if masked else None
    arguments = (y,) if mask is None else (y, mask)
    torch.testing.assert_close(exported.module()(*arguments), scaler(*arguments))


def test_half_precision_windows_are_measured_in_float32():
    y = (torch.arange(300, dtype=torch.float32).reshape(1, 300, 1) + 1).to(torch.float16)
    stats = window_scaler("standard").statistics(y)
    assert stats.scale.dtype == torch.float32
    assert window_scaler("standard").transform(y, stats).dtype == torch.float16
    assert stats.scale.item() == pytest.approx(np.arange(300).std(), rel=1e-4)


def test_unknown_names_are_answered_with_the_closest():
    with pytest.raises(UnknownNameError, match=r"no window scaler named 'standart'; did you mean standard"):
        window_scaler("standart")
    with pytest.raises(ConfigError, match="channels=0"):
        window_scaler("revin", channels=0)
