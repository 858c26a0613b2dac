"""Every shipped scaler passes the suite, and the suite refuses broken ones."""

import numpy as np
import pytest
import torch

from neuro_divergent.conformance import SCALER_CHECKS, ConformanceFailure, check_scaler
from neuro_divergent.data.scaling.per_series import SERIES_SCALERS, SeriesScaler, series_scaler
from neuro_divergent.data.scaling.per_window import WINDOW_SCALERS, WindowScaler, window_scaler

SHIPPED = [window_scaler(name) for name in WINDOW_SCALERS] + [series_scaler(name) for name in SERIES_SCALERS]


@pytest.mark.parametrize("name", SCALER_CHECKS)
def test_the_shipped_ones_pass(name):
    for scaler in SHIPPED:
        check_scaler(scaler, name)


class _BlindToMasks(WindowScaler):
    def measure(self, y, mask):
        return y.mean(1, keepdim=True), torch.ones_like(y[:, :1])


class _OneScaleForAll(WindowScaler):
    def measure(self, y, mask):
        scale = y.abs().amax().clamp(min=1.0)
        return torch.zeros_like(y[:, :1]), scale.expand(y.shape[0], 1, y.shape[2])


class _OneWay(WindowScaler):
    def bend(self, scaled):
        return scaled.tanh()


class _LargestFirst(WindowScaler):
    def transform(self, values, stats, mask=None):
        return -values

    def inverse(self, values, stats):
        return -values


class _Forgets(SeriesScaler):
    name = "forgets"

    def measure(self, values, series):
        return (float(values.mean()) if len(values) else 0.0), 1.0

    def from_arrays(self, arrays):
        return super().from_arrays({name: np.ones_like(array) for name, array in arrays.items()})


BROKEN = [
    (_BlindToMasks(), "unobserved_values_do_not_count", "must not change the location"),
    (_OneScaleForAll(), "neighbours_do_not_count", "other windows must not change the scale"),
    (_OneWay(), "values_come_back", "inverse must restore"),
    (_LargestFirst(), "larger_stays_larger", "keep the order of values"),
    (_LargestFirst(), "affine_map_agrees", "affine = False"),
    (_Forgets(), "state_round_trips", "must scale the same"),
]


@pytest.mark.parametrize(("scaler", "name", "words"), BROKEN)
def test_broken_ones_are_refused(scaler, name, words):
    with pytest.raises(ConformanceFailure, match=words):
        check_scaler(scaler, name)
