"""Windows against a brute-force reading of the rules: one loop over series, one over positions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.core.errors import ConfigError, DataError
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.windows import index as window_index
from neuro_divergent.data.windows.samplers import Shuffled
from neuro_divergent.data.windows.windows import Windows


def make_store(
    lengths: list[int], *, rich: bool = False, masked: float = 0.0, seed: int = 0, **fields: Any
) -> SeriesStore:
    rng = np.random.default_rng(seed)
    count, rows = len(lengths), sum(lengths)
    y = np.arange(1, rows + 1, dtype=np.float32)
    if masked:
        mask = rng.random(rows) >= masked
        fields |= {"mask": mask}
        y[~mask] = 0
    if rich:
        fields |= {
            "future": rng.random((rows, 2), dtype=np.float32),
            "historical": rng.random((rows, 3), dtype=np.float32),
            "static": rng.random((count, 2), dtype=np.float32),
            "categorical": rng.integers(1, 4, (rows, 2)).astype(np.int32),
            "static_categorical": rng.integers(1, 3, (count, 1)).astype(np.int32),
            "weight": rng.random(rows, dtype=np.float32),
            "future_names": ("f0", "f1"),
            "historical_names": ("x0", "x1", "x2"),
            "static_names": ("s0", "s1"),
            "categories": {"event": ("a", "b", "c"), "promo": ("a", "b", "c"), "shop": ("p", "q")},
        }
    return SeriesStore(
        ids=np.array([f"id{number:04d}" for number in range(count)]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        y=y,
        **({"start": np.zeros(count, np.int64), "freq": "1i"} | fields),
    )


def expected_positions(
    store: SeriesStore, L: int, H: int, step: int, padding: bool, share: float, ranges: Any
) -> list[tuple[int, int]]:
    """The definition, spelt out: every step-th position from the newest back, if the window is allowed."""
    found = []
    for s, length in enumerate(store.lengths):
        first, last = (0, length) if ranges is None else (ranges[0][s], min(ranges[1][s], length))
        seen = np.ones(length, bool) if store.mask is None else store.mask[store.offsets[s] : store.offsets[s + 1]]
        mine = []
        for position in range(last - H, max(first, 0) - 1, -step):
            past = seen[max(position - L, 0) : position].sum()
            ahead = seen[position : position + H].sum()
            whole = position >= L or (padding and position >= 1)
            if whole and past >= max(1, share * L - 1e-9) and ahead >= max(1, share * H - 1e-9):
                mine.append((s, position))
        found += mine[::-1]
    return found


@st.composite
def cases(draw: st.DrawFn) -> dict[str, Any]:
    lengths = draw(st.lists(st.integers(1, 30), min_size=1, max_size=6))
    ranges = None
    if draw(st.booleans()):
        cut = [draw(st.integers(0, length)) for length in lengths]
        ranges = (np.array(cut), np.array(lengths)) if draw(st.booleans()) else (np.zeros(len(cut), int), np.array(cut))
    return {
        "lengths": lengths,
        "L": draw(st.integers(1, 8)),
        "H": draw(st.integers(1, 4)),
        "step": draw(st.integers(1, 5)),
        "padding": draw(st.booleans()),
        "share": draw(st.sampled_from([0.0, 0.3, 0.5, 1.0])),
        "masked": draw(st.sampled_from([0.0, 0.0, 0.2, 0.7])),
        "ranges": ranges,
        "seed": draw(st.integers(0, 99)),
    }


@settings(max_examples=150, deadline=None)
@given(cases())
def test_numbers_cover_every_valid_window_once_and_batches_hold_the_right_rows(case: dict[str, Any]) -> None:
    L, H = case["L"], case["H"]
    store = make_store(case["lengths"], rich=True, masked=case["masked"], seed=case["seed"])
    windows = Windows(
        store,
        lookback=L,
        horizon=H,
        step=case["step"],
        start_padding=case["padding"],
        min_available=case["share"],
        target_range=case["ranges"],
        short="drop",
        historical_categorical=("promo",),
    )
    wanted = expected_positions(store, L, H, case["step"], case["padding"], case["share"], case["ranges"])
    series, time = windows.locate(np.arange(len(windows)))
    assert list(zip(series.tolist(), time.tolist(), strict=True)) == wanted
    numbers = np.random.default_rng(1).permutation(len(windows))
    batch = windows.gather(numbers)
    for row, number in enumerate(numbers):
        check_window(store, batch, row, *wanted[number], L, H)


def check_window(store: SeriesStore, batch: Any, row: int, s: int, position: int, L: int, H: int) -> None:
    begin = int(store.offsets[s])
    pad = max(L - position, 0)
    past, ahead = slice(begin + position - L + pad, begin + position), slice(begin + position, begin + position + H)
    both = slice(past.start, ahead.stop)

    def padded(array: Any) -> np.ndarray:
        return np.concatenate([np.zeros((pad, *array.shape[1:]), array.dtype), array])

    assert (batch.series[row], batch.time[row]) == (s, position)
    np.testing.assert_array_equal(batch.y[row, :, 0], padded(store.y[past]))
    np.testing.assert_array_equal(batch.target[row, :, 0], store.y[ahead])
    seen = np.ones(len(store.y), bool) if store.mask is None else store.mask
    if batch.mask is None:
        assert pad == 0
        assert store.mask is None
    else:
        np.testing.assert_array_equal(batch.mask[row, :, 0], padded(seen[past]))
    assert (batch.target_mask is None) == (store.mask is None)
    if store.mask is not None:
        np.testing.assert_array_equal(batch.target_mask[row, :, 0], seen[ahead])
    assert store.future is not None
    assert store.historical is not None
    assert store.static is not None
    assert store.weight is not None
    assert store.categorical is not None
    assert store.static_categorical is not None
    np.testing.assert_array_equal(batch.future[row], padded(store.future[both]))
    np.testing.assert_array_equal(batch.historical[row], padded(store.historical[past]))
    np.testing.assert_array_equal(batch.static[row], store.static[s])
    np.testing.assert_array_equal(batch.weight[row, :, 0], store.weight[ahead])
    codes = padded(store.categorical[both]).astype(np.int64)
    codes[L:, 1] = 0  # "promo" is historical: hidden in the horizon
    np.testing.assert_array_equal(batch.categorical[row, :, :2], codes)
    assert (batch.categorical[row, :, 2] == int(store.static_categorical[s, 0])).all()
    assert batch.categorical.dtype == torch.int64


def test_window_numbers_of_a_small_table_by_hand() -> None:
    windows = Windows(make_store([6, 5]), lookback=3, horizon=2)
    # series 0: positions 3 and 4; series 1: position 3, which is row 6 + 3 and holds the value 10
    batch = windows.gather(np.array([2, 0]))
    assert len(windows) == 3
    assert batch.y.squeeze(2).tolist() == [[7, 8, 9], [1, 2, 3]]
    assert batch.target is not None
    assert batch.target.squeeze(2).tolist() == [[10, 11], [4, 5]]
    assert batch.mask is None
    assert batch.target_mask is None
    assert windows.boundaries.tolist() == [0, 2, 3]
    assert torch.equal(windows.gather(torch.tensor([2, 0])).y, batch.y)


def test_step_counts_from_the_end() -> None:
    windows = Windows(make_store([10]), lookback=2, horizon=2, step=3)
    assert windows.locate(np.arange(len(windows)))[1].tolist() == [2, 5, 8]
    windows = Windows(make_store([11]), lookback=2, horizon=2, step=3)
    assert windows.locate(np.arange(len(windows)))[1].tolist() == [3, 6, 9]


@pytest.mark.parametrize("span", [1, 2, 7, 1 << 22])
def test_the_search_for_observed_windows_may_go_in_pieces_of_any_size(
    span: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = make_store([40, 3, 25, 60], masked=0.6, seed=3)
    monkeypatch.setattr(window_index, "SPAN", span)
    windows = Windows(store, lookback=6, horizon=3, step=2, min_available=0.4, short="drop")
    series, time = windows.locate(np.arange(len(windows)))
    wanted = expected_positions(store, 6, 3, 2, False, 0.4, None)
    assert len(wanted) > 3
    assert list(zip(series.tolist(), time.tolist(), strict=True)) == wanted


LENGTHS = [
    [5] * 400,
    [900],
    [30_000, 4, 5, 70_000],  # a guide that knows runs for certain
    [4] * 3000 + [200_000],
    [4] * 3000 + [900_000],  # buckets of several runs
    list(range(4, 900)),
    [10_000] + [4] * 20_000,
    [4, 5] * 20_000,  # more runs than a small word can name
]


@pytest.mark.parametrize("lengths", LENGTHS)
def test_numbers_are_found_whatever_the_lengths_are(lengths: list[int]) -> None:
    store = make_store(lengths)
    windows = Windows(store, lookback=2, horizon=2)
    numbers = np.arange(len(windows))
    series, time = windows.locate(numbers)
    counts = np.array(lengths) - 3
    np.testing.assert_array_equal(series, np.repeat(np.arange(len(lengths)), counts))
    np.testing.assert_array_equal(time, 2 + numbers - np.repeat(np.cumsum(counts) - counts, counts))


@pytest.mark.parametrize("many", [0, 100])
@pytest.mark.parametrize("gap", [0, 2**29, 2**40])
@pytest.mark.parametrize("step", [1, 3])
def test_runs_that_are_alike_are_computed_as_they_would_be_looked_up(
    gap: int, step: int, many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(window_index, "_MANY", many)
    offsets = np.arange(6) * (20 + gap)
    index = window_index.WindowIndex.of(np.arange(5), np.full(5, 4), np.full(5, 6), step=step, offsets=offsets).shifted(
        -7
    )
    assert index.even == 6
    series, time, row = index.locate(np.arange(30))
    np.testing.assert_array_equal(series, np.repeat(np.arange(5), 6))
    np.testing.assert_array_equal(time, np.tile(4 + np.arange(6) * step, 5))
    np.testing.assert_array_equal(row, offsets[series] + time - 7)
    assert {column.dtype for column in (series, time, row)} == {np.dtype(np.int64)}


def test_the_only_series_that_has_windows_need_not_be_the_first() -> None:
    windows = Windows(make_store([3, 20, 2]), lookback=5, horizon=2, step=3, short="drop")
    series, time = windows.locate(np.arange(len(windows)))
    assert (series.tolist(), time.tolist()) == ([1] * 5, [6, 9, 12, 15, 18])
    assert windows.gather(np.array([1])).y.squeeze().tolist() == [8, 9, 10, 11, 12]  # rows 7 to 11 of the store


@pytest.mark.parametrize("bad", [-1, 3, 2**40, -(2**40)])
def test_numbers_outside_are_refused(bad: int) -> None:
    for lengths in ([6, 5], [5, 5, 5], [7]):  # with runs of different and of equal lengths, and with one
        with pytest.raises(ConfigError, match="window numbers go from 0 to 2"):
            Windows(make_store(lengths), lookback=3, horizon=2).gather(np.array([0, bad]))


def test_short_series_are_refused_dropped_or_padded() -> None:
    store = make_store([20, 4, 2])
    with pytest.raises(DataError, match=r"needs 7 rows .* 2 series are shorter: id0001 \(4\), id0002 \(2\)"):
        Windows(store, lookback=5, horizon=2)
    dropped = Windows(store, lookback=5, horizon=2, short="drop")
    assert len(dropped) == 14
    padded = Windows(store, lookback=5, horizon=2, short="pad")
    # series 1 has the positions 1 and 2; series 2 cannot hold a row and a horizon; series 0 stays unpadded
    assert np.diff(padded.boundaries).tolist() == [14, 2, 0]
    batch = padded.gather(np.array([15]))
    assert batch.y.squeeze().tolist() == [0, 0, 0, 21, 22]
    assert batch.mask is not None
    assert batch.mask.squeeze().tolist() == [False, False, False, True, True]


def test_wrong_arguments_are_refused() -> None:
    store = make_store([20])
    for wrong in ({"lookback": 0}, {"horizon": 0}, {"step": 0}, {"min_available": 1.5}, {"short": "what"}):
        with pytest.raises(ConfigError, match=f"{next(iter(wrong))} must be"):
            Windows(store, **({"lookback": 3, "horizon": 2} | wrong))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="one first and one last row for each of the 1 series"):
        Windows(store, lookback=3, horizon=2, target_range=([0, 0], [5, 5]))
    with pytest.raises(ConfigError, match="historical_categorical"):
        Windows(store, lookback=3, horizon=2, historical_categorical=("promo",))


def test_forecasts_start_after_the_last_row_with_the_given_future() -> None:
    store = make_store([8, 2], rich=True)
    windows = Windows(store, lookback=4, horizon=3, short="drop", historical_categorical=("promo",))
    future = np.arange(12, dtype=np.float64).reshape(2, 3, 2)
    codes = np.full((2, 3, 2), 2)
    batch = windows.last(future, codes)
    assert batch.target is None
    assert batch.target_mask is None
    assert batch.weight is None
    assert batch.y.squeeze(2).tolist() == [[5, 6, 7, 8], [0, 0, 9, 10]]
    assert batch.mask is not None
    assert batch.mask.squeeze(2).tolist() == [[True] * 4, [False, False, True, True]]
    assert batch.time is not None
    assert batch.time.tolist() == [8, 2]
    assert batch.future is not None
    assert batch.categorical is not None
    np.testing.assert_array_equal(batch.future[:, 4:], future)
    np.testing.assert_array_equal(batch.future[0, :4], store.future[4:8])  # type: ignore[index]
    assert batch.categorical[:, 4:, 0].unique().tolist() == [2]
    assert batch.categorical[:, 4:, 1].unique().tolist() == [0]
    one = windows.forecast_batch([1], future[1:], codes[1:])
    assert torch.equal(one.y, batch.y[1:])
    with pytest.raises(DataError, match="f0, f1 are known ahead"):
        windows.last()
    with pytest.raises(DataError, match=r"future must be \[series, horizon, columns\] = \(2, 3, 2\)"):
        windows.last(future[:, :2], codes)
    with pytest.raises(ConfigError, match="series numbers go from 0 to 1"):
        windows.forecast_batch([2], future[:1], codes[:1])


def test_forecasts_of_a_complete_table_have_no_mask() -> None:
    windows = Windows(make_store([8, 9]), lookback=4, horizon=3)
    assert windows.last().mask is None


def test_the_store_is_never_written_to() -> None:
    store = make_store([12, 9], rich=True, masked=0.3)
    before = store.fingerprint()
    windows = Windows(store, lookback=4, horizon=2, start_padding=True)
    batch = windows.gather(np.arange(len(windows)))
    for tensor in batch:
        if tensor is not None:
            tensor.zero_()
    windows.last(np.ones((2, 2, 2)), np.ones((2, 2, 2)))
    assert store.replace().fingerprint() == before


def test_multivariate_windows_hold_all_series_at_one_time() -> None:
    store = make_store([7, 7, 7], rich=True)
    windows = Windows(store, lookback=3, horizon=2, multivariate=True)
    batch = windows.gather(np.array([2, 0]))
    grid = store.y.reshape(3, 7)
    assert len(windows) == 3
    assert batch.time is not None
    assert batch.series is not None
    assert batch.time.tolist() == [5, 3]
    assert batch.series.tolist() == [0, 1, 2]
    np.testing.assert_array_equal(batch.y, [grid[:, 2:5].T, grid[:, 0:3].T])
    np.testing.assert_array_equal(batch.target, [grid[:, 5:7].T, grid[:, 3:5].T])  # type: ignore[arg-type]
    assert batch.mask is None
    future = store.future.reshape(3, 7, 2)  # type: ignore[union-attr]
    np.testing.assert_array_equal(batch.future[1], future[:, 0:5].transpose(1, 0, 2))  # type: ignore[index]
    shapes = {name: None if part is None else tuple(part.shape) for name, part in batch._asdict().items()}
    assert shapes["historical"] == (2, 3, 3, 3)
    assert shapes["static"] == (2, 3, 2)
    assert shapes["categorical"] == (2, 5, 3, 3)
    assert shapes["weight"] == (2, 2, 3)
    last = windows.last(np.arange(12.0).reshape(3, 2, 2), np.ones((3, 2, 2)))
    np.testing.assert_array_equal(last.y[0], grid[:, 4:].T)
    np.testing.assert_array_equal(last.future[0, 3:], np.arange(12.0).reshape(3, 2, 2).transpose(1, 0, 2))  # type: ignore[index]


def test_series_with_other_starts_are_masked_on_the_shared_grid() -> None:
    start = np.array(["2024-01-01", "2024-01-03"], dtype="datetime64[us]")
    store = make_store([6, 3], start=start, freq="1d")  # days 1 to 6, and days 3 to 5
    windows = Windows(store, lookback=2, horizon=2, multivariate=True)
    batch = windows.gather(np.arange(len(windows)))
    assert len(windows) == 3
    assert batch.y[..., 1].tolist() == [[0, 0], [0, 7], [7, 8]]
    assert batch.mask is not None
    assert batch.mask[..., 1].tolist() == [[False, False], [False, True], [True, True]]
    assert batch.target is not None
    assert batch.target[..., 1].tolist() == [[7, 8], [8, 9], [9, 0]]
    assert batch.target_mask is not None
    assert batch.target_mask[..., 1].tolist() == [[True, True], [True, True], [True, False]]
    assert batch.target_mask[..., 0].all()


def test_multivariate_refuses_what_has_no_shared_grid() -> None:
    start = np.array(["2024-01-01", "2024-01-03T01:00"], dtype="datetime64[us]")
    with pytest.raises(DataError, match="'id0001' starts at 2024-01-03T01:00"):
        Windows(make_store([9, 9], start=start, freq="1d"), lookback=2, horizon=2, multivariate=True)
    with pytest.raises(ConfigError, match="Split by time or by date"):
        Windows(make_store([9, 9]), lookback=2, horizon=2, multivariate=True, target_range=([0, 0], [9, 0]))
    with pytest.raises(DataError, match="the shared time grid has 3 rows"):
        Windows(make_store([3, 3]), lookback=2, horizon=2, multivariate=True)


def test_the_sizes_for_a_network() -> None:
    spec = Windows(make_store([9, 9], rich=True), lookback=4, horizon=2).spec(outputs=3)
    assert (spec.lookback, spec.horizon, spec.series, spec.outputs) == (4, 2, 2, 3)
    assert (spec.future, spec.historical, spec.static, spec.categories) == (2, 3, 2, (4, 4, 3))


@pytest.mark.parametrize("multivariate", [False, True])
def test_batches_of_a_sampler_are_the_gathered_numbers(multivariate: bool) -> None:
    """The look-up by blocks must give what the look-up of each step gives, in any order of asking."""
    windows = Windows(
        make_store([200, 200, 200], rich=True, masked=0.2), lookback=5, horizon=3, multivariate=multivariate
    )
    sampler = Shuffled(len(windows), 16, seed=3)
    batch = windows.batches(sampler)
    for epoch, step in [(0, 3), (0, 0), (1, 2), (0, 3)]:
        one, other = batch(epoch, step), windows.gather(sampler.numbers(epoch, step))
        for a, b in zip(one, other, strict=True):
            assert (a is None and b is None) or torch.equal(a, b)
