from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from neuro_divergent.core.errors import ConfigError, DataError, NotFittedError, UnknownNameError
from neuro_divergent.data.scaling.per_series import MAD_OF_STANDARD
from neuro_divergent.data.scaling.per_window import SERIES_SCALERS, series_scaler


@st.composite
def panels(draw: st.DrawFn, positive: bool = False):
    lengths = draw(st.lists(st.integers(0, 12), min_size=1, max_size=4))
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    numbers = st.floats(0.25 if positive else -4, 4, width=32, allow_subnormal=False)
    y = draw(hnp.arrays(np.float32, int(offsets[-1]), elements=numbers))
    y = y * np.float32(draw(st.sampled_from([1e-30, 1.0, 1e30])))
    mask = draw(hnp.arrays(np.bool_, len(y)))
    return y, offsets, mask


@settings(max_examples=150, deadline=None)
@given(data=st.data(), name=st.sampled_from(SERIES_SCALERS))
def test_inverse_gives_back_what_transform_was_given(data, name):
    y, offsets, mask = data.draw(panels(positive=name == "boxcox"))
    scaler = series_scaler(name).fit(y, offsets, mask)
    series = np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))
    scaled = scaler.transform(y[mask], series[mask])
    assert scaled.dtype == np.float32
    assert np.isfinite(scaled).all()
    np.testing.assert_allclose(
        scaler.inverse(scaled, series[mask]), y[mask], rtol=1e-4, atol=4e-6 * np.abs(y).max(initial=0)
    )


@settings(max_examples=100, deadline=None)
@given(data=st.data(), name=st.sampled_from(SERIES_SCALERS))
def test_only_observed_training_rows_are_measured(data, name):
    y, offsets, mask = data.draw(panels(positive=name == "boxcox"))
    until = np.array([data.draw(st.integers(0, int(length))) for length in np.diff(offsets)])
    changed = y.copy()
    for series, rows in enumerate(until):
        changed[offsets[series] + rows : offsets[series + 1]] = 77
    changed[~mask] = -5
    expected = series_scaler(name).fit(y, offsets, mask, until).to_arrays()
    found = series_scaler(name).fit(changed, offsets, mask, until).to_arrays()
    for field, array in expected.items():
        np.testing.assert_array_equal(found[field], array)


def fitted(name: str, values: list[float]) -> dict[str, float]:
    y = np.array(values, dtype=np.float32)
    state = series_scaler(name).fit(y, np.array([0, len(y)])).to_arrays()
    return {field: float(array[0]) for field, array in state.items()}


def test_statistics_by_hand():
    # Mean 5, population standard deviation 2 (scikit-learn's StandardScaler divides by n too).
    assert fitted("standard", [2, 4, 4, 4, 5, 5, 7, 9]) == pytest.approx({"location": 5, "scale": 2})
    assert fitted("robust", [1, 2, 3, 4, 100]) == pytest.approx({"location": 3, "scale": 1})
    # Quartiles with linear interpolation, as in scikit-learn's RobustScaler: 2 and 4.
    assert fitted("robust-iqr", [1, 2, 3, 4, 100]) == pytest.approx({"location": 3, "scale": 2})
    assert fitted("minmax", [-3, 1, 5]) == pytest.approx({"location": -3, "scale": 8})


def test_degenerate_series_keep_a_usable_scale():
    for name in ("standard", "robust", "robust-iqr", "minmax"):
        assert fitted(name, [7, 7, 7])["scale"] == 1
        assert fitted(name, []) == {"location": 0, "scale": 1}
    # Standard deviation 4, brought to the unit of the statistic that was 0.
    assert fitted("robust", [0, 0, 0, 0, 10])["scale"] == pytest.approx(4 * MAD_OF_STANDARD)
    assert fitted("robust-iqr", [0, 0, 0, 0, 10])["scale"] == pytest.approx(8 * MAD_OF_STANDARD)


@pytest.mark.parametrize("seed", range(5))
def test_boxcox_against_scipy(seed):
    random = np.random.default_rng(seed)
    y = (random.gamma(2.0 + seed, 30.0, size=200) + 1).astype(np.float64)
    scaler = series_scaler("boxcox").fit(y, np.array([0, 200]))
    state = scaler.to_arrays()
    _, lmbda = scipy.stats.boxcox(y)
    assert state["lmbda"][0] == pytest.approx(lmbda, abs=1e-4)
    assert state["geometric_mean"][0] == pytest.approx(scipy.stats.gmean(y))
    expected = scipy.stats.boxcox(y / scipy.stats.gmean(y), state["lmbda"][0])
    np.testing.assert_allclose(scaler.transform(y, np.asarray(0)), expected, rtol=1e-9, atol=1e-12)


def test_boxcox_of_lognormal_data_is_about_the_logarithm():
    y = np.exp(np.random.default_rng(0).normal(size=3000))
    assert series_scaler("boxcox").fit(y, np.array([0, 3000])).to_arrays()["lmbda"][0] == pytest.approx(0, abs=0.06)


def test_boxcox_refuses_series_that_are_not_positive_by_name():
    y, offsets = np.array([1, 2, 3, 0, 5], dtype=np.float32), np.array([0, 2, 5])
    with pytest.raises(DataError, match=r"series 'shop-b' has 0\.0 at observed row 1"):
        series_scaler("boxcox").fit(y, offsets, ids=["shop-a", "shop-b"])
    series_scaler("boxcox").fit(y, offsets, mask=y > 0)


def test_boxcox_forecasts_outside_its_range_stay_finite():
    scaler = series_scaler("boxcox").from_arrays({"lmbda": np.array([0.5, -0.5, 0.0]), "geometric_mean": np.ones(3)})
    found = scaler.inverse(np.array([[-9.0], [9.0], [0.0]]), np.arange(3))
    assert np.isfinite(found).all()
    assert found[0, 0] == pytest.approx(0, abs=1e-6)
    assert found[2, 0] == 1


def test_forecasts_of_several_series_and_outputs():
    y, offsets = np.array([0, 10, 100, 300], dtype=np.float32), np.array([0, 2, 4])
    scaler = series_scaler("minmax").fit(y, offsets)
    forecasts = np.full((3, 2, 5), 0.5, dtype=np.float32)
    found = scaler.inverse(forecasts, np.array([0, 1, 0]))
    assert found.shape == (3, 2, 5)
    assert found[:, 0, 0].tolist() == [5, 200, 5]


def test_transform_flat_keeps_zeros_where_nothing_was_observed():
    y, offsets = np.array([2, 0, 4, 10, 30], dtype=np.float32), np.array([0, 3, 5])
    mask = np.array([True, False, True, True, True])
    for name in ("minmax", "boxcox"):
        scaler = series_scaler(name).fit(y, offsets, mask)
        found = scaler.transform_flat(y, offsets, mask)
        assert found[1] == 0
        series = np.array([0, 0, 1, 1])
        np.testing.assert_array_equal(found[mask], scaler.transform(y[mask], series))
    assert y.tolist() == [2, 0, 4, 10, 30]


@pytest.mark.parametrize("name", SERIES_SCALERS)
def test_the_state_round_trips(name):
    y, offsets = np.array([1, 5, 2, 8, 3], dtype=np.float32), np.array([0, 3, 5])
    scaler = series_scaler(name).fit(y, offsets)
    copy = series_scaler(name).from_arrays(scaler.to_arrays())
    np.testing.assert_array_equal(copy.transform_flat(y, offsets), scaler.transform_flat(y, offsets))


def test_mistakes_get_a_sentence():
    with pytest.raises(UnknownNameError, match="did you mean robust-iqr"):
        series_scaler("robustiqr_")
    with pytest.raises(NotFittedError, match="Call fit first"):
        series_scaler("standard").to_arrays()
    with pytest.raises(ConfigError, match="location, scale"):
        series_scaler("standard").from_arrays({"mean": np.zeros(1)})
