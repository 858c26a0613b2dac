"""Samplers: every number once per epoch, any position answerable without the ones before it."""

from __future__ import annotations

import hashlib

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import stats

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.data.windows.samplers import (
    EasyFirst,
    Sampler,
    Sequential,
    Shuffled,
    permuted,
    steps_per_epoch,
)

BOUNDARIES = np.array([0, 5, 5, 105, 130])  # four series, the second of them without windows

GOLDEN = [
    (1, "d78ab62443a1f8c7"),
    (100, "85caa8e12c2eb485"),
    (4_096, "d2715b6075525612"),
    (4_097, "8d19a76ec30f46d5"),
    (5_003, "4613f6cf97cfd413"),
    (68_099, "8fc8f7ce1e422fc8"),
    (68_100, "1cff5dfbb856ed0c"),
    (131_072, "22e77c22bffaab14"),
    (272_400, "62684a53374cd1f6"),
    (6_810_000, "5d897a122254d94d"),
    (80_000_000, "3a11f0fa9d44804f"),
    (2_147_483_643, "9dfa09f87277ce8f"),
    (2_147_483_659, "06b43c32bb2c6900"),
    (1_000_000_000_000_000, "c1884992740a5b58"),
]
"""Of shuffles of so many numbers, a digest of some steps. None may change: a resumed run would see other windows."""


def epoch_of(sampler: Sampler, epoch: int = 0) -> np.ndarray:
    return np.concatenate([sampler.numbers(epoch, step) for step in range(sampler.steps_per_epoch)])


def all_kinds(batch_size: int = 7, seed: int = 3) -> list[Sampler]:
    return [
        Shuffled(130, batch_size, seed=seed),
        Sequential(130, batch_size, seed=seed),
        EasyFirst(BOUNDARIES, batch_size, order=[3, 1, 0, 2], share=lambda epoch: 0.5, seed=seed),
    ]


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5000), st.integers(0, 2**63), st.integers(1, 300), st.integers(0, 9))
def test_an_epoch_is_a_permutation_and_epochs_differ(n: int, seed: int, batch_size: int, epoch: int) -> None:
    sampler = Shuffled(n, batch_size, seed=seed)
    order = epoch_of(sampler, epoch)
    assert order.dtype == np.int64
    np.testing.assert_array_equal(np.sort(order), np.arange(n))
    if n > 20:
        assert not np.array_equal(order, epoch_of(sampler, epoch + 1))
        assert not np.array_equal(order, epoch_of(Shuffled(n, batch_size, seed=seed + 1), epoch))


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 18)), min_size=1, max_size=12))
def test_any_position_can_be_asked_for_in_any_order(asked: list[tuple[int, int]]) -> None:
    for used, position in zip(all_kinds(), range(3), strict=True):
        for epoch, step in asked:
            fresh = all_kinds()[position]  # a run that was resumed right here
            np.testing.assert_array_equal(used.numbers(epoch, step), fresh.numbers(epoch, step))


@settings(max_examples=150, deadline=None)
@given(
    st.one_of(st.integers(1, 20_000), st.integers(1, 3_000_000), st.integers(2**31 - 9, 2**31 + 9), st.just(10**15)),
    st.integers(0, 2**64 - 1),
    st.floats(0, 1),
    st.integers(0, 20_000),
)
@example(11_254, 0, 0.0, 128)  # exactly one row of digits
def test_neighbours_go_where_each_of_them_goes_alone(n: int, secret: int, begin: float, count: int) -> None:
    first = int(begin * n)
    for last in (min(first + count, n), n if n - first < 200_000 else first):
        alone = permuted(np.arange(first, last), n, secret)
        np.testing.assert_array_equal(permuted(range(first, last), n, secret), alone)


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 400_000), st.integers(1, 3000), st.integers(0, 2**63), st.data())
def test_a_step_is_its_part_of_the_shuffle(n: int, batch_size: int, seed: int, data: st.DataObject) -> None:
    sampler = Shuffled(n, batch_size, seed=seed)
    for _ in range(3):
        epoch, step = data.draw(st.integers(0, 3)), data.draw(st.integers(0, sampler.steps_per_epoch - 1))
        wanted = sampler.at(epoch, np.arange(step * batch_size, min((step + 1) * batch_size, n)))
        np.testing.assert_array_equal(sampler.numbers(epoch, step), wanted)


@pytest.mark.parametrize(("n", "digest"), GOLDEN)
def test_the_order_is_what_it_always_was(n: int, digest: str) -> None:
    order = hashlib.blake2b(digest_size=8)
    for seed, batch_size in ((0, 1024), (7, 32)):
        sampler = Shuffled(n, batch_size, seed=seed)
        for epoch in (0, 5):
            for step in np.linspace(0, sampler.steps_per_epoch - 1, 9).astype(int).tolist():
                order.update(sampler.numbers(epoch, step).astype("<i8").tobytes())
    assert order.hexdigest() == digest


def test_a_huge_range_needs_no_permutation_array() -> None:
    n = 10**15
    sampler = Shuffled(n, 1024, seed=1)
    numbers = sampler.numbers(5, sampler.steps_per_epoch // 2)
    assert len(np.unique(numbers)) == 1024
    assert 0 <= numbers.min() < n / 50
    assert n > numbers.max() > n - n / 50


def test_neighbours_go_anywhere_in_a_large_range() -> None:
    """Chi-square (scipy) over 5,000 keys: where two neighbours go, in a 5 by 5 grid of fifths."""
    n, keys = 5_000, 5_000
    for begin in (0, 3333):
        places = np.array([permuted(np.array([begin, begin + 1]), n, secret) for secret in range(keys)]) // 1000
        assert stats.chisquare(np.bincount(places[:, 0] * 5 + places[:, 1], minlength=25)).pvalue > 1e-3


def test_first_and_second_places_are_uniform() -> None:
    """Chi-square (scipy) over 10,000 keys: where 0 and 1 go, and both together."""
    n, keys = 7, 10_000
    places = np.array([permuted(np.array([0, 1]), n, secret) for secret in range(keys)])
    for column in (0, 1):
        assert stats.chisquare(np.bincount(places[:, column], minlength=n)).pvalue > 1e-3
    pairs = np.bincount(places[:, 0] * n + places[:, 1], minlength=n * n)
    apart = np.array([first != second for first in range(n) for second in range(n)])
    assert pairs[~apart].sum() == 0
    assert stats.chisquare(pairs[apart]).pvalue > 1e-3


def test_neighbours_are_not_kept_together() -> None:
    order = epoch_of(Shuffled(100_000, 1000, seed=0))
    assert abs(stats.spearmanr(np.arange(100_000), order).statistic) < 0.02
    assert abs(stats.spearmanr(order[1:], order[:-1]).statistic) < 0.02
    assert (np.abs(np.diff(order)) == 1).sum() < 20  # two are expected


def test_sequential_keeps_the_order() -> None:
    np.testing.assert_array_equal(epoch_of(Sequential(23, 5)), np.arange(23))


def test_the_last_batch_is_short_or_dropped() -> None:
    assert steps_per_epoch(23, 5) == 5
    assert steps_per_epoch(23, 5, drop_last=True) == 4
    assert len(Shuffled(23, 5).numbers(0, 4)) == 3
    sampler = Shuffled(23, 5, drop_last=True)
    assert sampler.steps_per_epoch == 4
    with pytest.raises(ConfigError, match="steps 0 to 3, but got step=4"):
        sampler.numbers(0, 4)


def test_a_curriculum_widens_from_easy_to_hard() -> None:
    sampler = EasyFirst(BOUNDARIES, 10, order=[3, 1, 0, 2], share=lambda epoch: min(1.0, 0.33 * (epoch + 1)), seed=1)
    first = epoch_of(sampler, 0)[:25]
    np.testing.assert_array_equal(np.sort(first), np.arange(105, 130))  # series 3 alone, each window once per turn
    assert set(epoch_of(sampler, 1).tolist()) == {*range(105, 130), *range(5)}
    np.testing.assert_array_equal(np.sort(epoch_of(sampler, 5)), np.arange(130))


def test_wrong_arguments_are_refused() -> None:
    with pytest.raises(ConfigError, match="batch_size at least 1"):
        Shuffled(5, 0)
    with pytest.raises(ConfigError, match="each of the 4 series once"):
        EasyFirst(BOUNDARIES, 1, order=[0, 0, 1, 2], share=lambda epoch: 1.0)


def test_numbers_cannot_be_changed_by_their_user() -> None:
    with pytest.raises(ValueError, match="read-only"):
        Shuffled(10, 5).numbers(0, 0)[0] = 3


def test_a_batch_is_spread_like_a_random_draw() -> None:
    """Over 200 batches, the counts in 100 equal parts of the range have the mean and the variance of random draws:
    the statistic sum((count - mean)² / mean) of a batch has mean 99 and variance 198 (chi-square, nearly)."""
    n, batch = 277_000, 1024
    sampler = Shuffled(n, batch, seed=3)
    counts = np.array([np.bincount(sampler.numbers(0, step) * 100 // n, minlength=100) for step in range(200)])
    statistic = ((counts - batch / 100) ** 2 / (batch / 100)).sum(axis=1)
    assert abs(statistic.mean() - 99) < 4 * np.sqrt(198 / 200)
    assert 0.6 < statistic.var() / 198 < 1.5
