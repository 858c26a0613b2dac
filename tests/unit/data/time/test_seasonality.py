from __future__ import annotations

import numpy as np
import pytest

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.time.seasonality import detect, suggest

# Box and Jenkins' airline passengers, 1949 to 1954, in thousands per month.
PASSENGERS = """
112 118 132 129 121 135 148 148 136 119 104 118 115 126 141 135 125 149 170 170 158 133 114 140
145 150 178 163 172 178 199 199 184 162 146 166 171 180 193 181 183 218 230 242 209 191 172 194
196 196 236 235 229 243 264 272 237 211 180 201 204 188 235 227 234 264 302 293 259 229 203 229
"""


def panel(series: list[np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    offsets = np.concatenate([[0], np.cumsum([len(one) for one in series])]).astype(np.int64)
    return np.concatenate(series).astype(np.float32), offsets


def hourly(number: int = 30, length: int = 700, seed: int = 0) -> list[np.ndarray]:
    random = np.random.default_rng(seed)
    steps = np.arange(length)
    day = np.exp(-(((steps % 24) - 14) ** 2) / 20) * 10
    week = np.where(steps // 24 % 7 >= 5, -4.0, 0.0)
    walks = random.normal(size=(number, length)).cumsum(axis=1) * 0.2
    return list(
        random.uniform(1, 100, size=(number, 1)) * (50 + day + week + walks + random.normal(size=(number, length)))
    )


@pytest.mark.parametrize(
    ("freq", "expected"),
    [
        ("1h", (24, 168)),
        ("2h", (12, 84)),
        ("15m", (96, 672)),
        ("30m", (48, 336)),
        ("1m", (60, 1440, 10080)),
        ("1s", (60, 3600, 86400)),
        ("1d", (7, 365)),
        ("1bd", (5,)),
        ("1w", (52,)),
        ("7d", (52,)),
        ("1mo", (12,)),
        ("1q", (4,)),
        ("3mo", (4,)),
        ("1y", ()),
        ("1i", ()),
    ],
)
def test_suggestions_are_the_clocks_and_the_calendars_cycles(freq, expected):
    assert suggest(freq) == expected


def test_a_frequency_that_does_not_exist_is_refused():
    with pytest.raises(ConfigError, match="freq"):
        suggest("1fortnight")


@pytest.mark.parametrize("freq", ["1h", "1i", None])
def test_day_and_week_are_found_in_hourly_data(freq):
    assert set(detect(*panel(hourly()), freq=freq)) == {24, 168}


def test_a_day_alone_is_no_week():
    random = np.random.default_rng(0)
    steps = np.arange(800)
    series = [5 * np.sin(2 * np.pi * steps / 24) + random.normal(size=800) for _ in range(20)]
    for freq in ("1h", None):
        assert detect(*panel(series), freq=freq) == (24,)


@pytest.mark.parametrize("freq", ["1mo", "1i"])
def test_the_year_is_found_in_the_airline_passengers(freq):
    y = np.array(PASSENGERS.split(), dtype=np.float64)
    assert detect(y, np.array([0, len(y)]), freq=freq) == (12,)


def test_the_week_is_found_in_sparse_daily_sales():
    random = np.random.default_rng(1)
    rate = np.tile([0.3, 0.3, 0.3, 0.4, 0.6, 1.2, 1.0], 60)
    assert detect(*panel([random.poisson(rate) for _ in range(100)]), freq="1d") == (7,)


def test_a_smooth_year_under_noise_is_found_beside_the_week():
    random = np.random.default_rng(2)
    steps = np.arange(4 * 365)
    week = np.where(steps % 7 >= 5, 3.0, 0.0)
    y = 4 * np.sin(2 * np.pi * steps / 365.25) + week + random.normal(size=len(steps))
    assert detect(y, np.array([0, len(y)]), freq="1d") == (7, 365)


@pytest.mark.parametrize("freq", ["1h", "1d", "1mo", "1i"])
@pytest.mark.parametrize("kind", ["noise", "walk", "trend"])
def test_nothing_is_found_where_nothing_is(freq, kind):
    random = np.random.default_rng(5)
    noise = [random.normal(size=length) for length in (800, 500, 650)]
    series = {
        "noise": noise,
        "walk": [one.cumsum() for one in noise],
        "trend": [one + 0.5 * np.arange(len(one)) for one in noise],
    }[kind]
    assert detect(*panel(series), freq=freq) == ()


def test_a_slow_cycle_is_not_taken_for_the_week():
    # Neighbouring days are alike, so the autocorrelation at 7 is high, but it is no peak.
    y = np.sin(2 * np.pi * np.arange(600) / 61)
    assert detect(y, np.array([0, 600]), freq="1d") == ()


def test_missing_values_do_not_hide_the_season():
    y, offsets = panel(hourly())
    mask = np.random.default_rng(0).random(len(y)) > 0.2
    y = np.where(mask, y, 0.0)
    assert set(detect(y, offsets, mask, freq="1h")) == {24, 168}
    assert detect(y, offsets, np.zeros(len(y), dtype=bool), freq="1h") == ()


def test_short_constant_and_extreme_series():
    assert detect(np.zeros(0), np.array([0])) == ()
    assert detect(np.ones(3), np.array([0, 3]), freq="1d") == ()
    assert detect(np.full(500, 7.0), np.array([0, 500]), freq="1d") == ()
    assert detect(np.arange(20.0), np.array([0, 20]), freq="1h") == ()
    for size in (1e30, 1e-30):
        y, offsets = panel([one * size for one in hourly(5)])
        assert set(detect(y, offsets, freq="1h")) == {24, 168}


def test_many_series_are_sampled_always_the_same_way():
    y, offsets = panel(hourly(400, 400))
    assert detect(y, offsets, max_series=20) == detect(y, offsets, max_series=20)
    assert 24 in detect(y, offsets, max_series=20)
