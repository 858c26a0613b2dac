"""The order of the training windows: pure functions of (seed, epoch, step).

There is no state, and no permutation is stored. Step n of epoch e has the same window numbers in an uninterrupted
run, in a resumed run, and on every machine.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.seeding import key
from neuro_divergent.data.store.store import SeriesStore

Ints = npt.NDArray[np.int64]
Words = npt.NDArray[np.uint64]
Digits = npt.NDArray[Any]

BLOCK = 1 << 17
"""About how many numbers are computed at once. This spreads the call overhead over many batches."""

STEPS = 128
"""Largest number of batches computed at once. More would be wasted in a short run with small batches."""

SMALL = 4096
"""Up to this size a shuffle sorts hashes, which is exactly uniform."""

_ROUNDS = 3
_HALF = np.uint64(32)
_LOW = np.uint64(0xFFFFFFFF)
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)  # odd, so that multiplying by it is a bijection of 64-bit numbers


def steps_per_epoch(n: int, batch_size: int, drop_last: bool = False) -> int:
    """Number of batches in an epoch over n numbers."""
    return n // batch_size if drop_last else -(-n // batch_size)


def hashed(values: Words, secret: int) -> Words:
    """64 well-mixed bits for each number under a key."""
    with np.errstate(over="ignore"):
        mixed = (values + np.uint64(secret)) * _MULTIPLIER
        mixed ^= mixed >> _HALF
        mixed *= _MULTIPLIER
        mixed ^= mixed >> _HALF
        mixed *= _MULTIPLIER
        mixed ^= mixed >> _HALF
    return mixed


def permuted(positions: Ints | range, n: int, secret: int) -> Ints:
    """Return the values of a keyed shuffle of range(n) at some positions, without building the shuffle.

    A position is written as two digits (left, right), with left in range(a), right in range(b) and a * b >= n. The
    digits pass through a Feistel network: each round adds a keyed hash of one digit to the other. Each round is
    invertible, so the network is a bijection of range(a * b). A result outside of range(n) passes through the network
    again until it is inside.
    """
    if n <= SMALL:
        # Small digits mix poorly, and an array this small costs nothing: sort the positions by their hashes.
        order = np.argsort(hashed(np.arange(n, dtype=np.uint64), secret), kind="stable").astype(np.int64)
        return order[positions.start : positions.stop] if isinstance(positions, range) else order[positions]
    if n >= 1 << 62:
        raise ConfigError(f"at most 2**62 windows can be shuffled, but got n={n}")
    a, b = _digits(n)
    # 32-bit words are multiplied eight at a time, and are wide enough for two billion windows.
    network = _Feistel(a, b, secret, np.uint32 if a * b < 1 << 31 else np.uint64)
    if isinstance(positions, range) and len(positions) >= b:
        # The positions outside of range(n) follow the end of an epoch, and are computed together with it.
        values = network.between(positions.start, a * b if positions.stop == n else positions.stop)
    else:
        values = network(np.asarray(positions).astype(network.kind))
    result, beyond = values[: len(positions)], values[len(positions) :]
    outside = np.flatnonzero(result >= n)
    if outside.size and not beyond.size:
        beyond = network(np.arange(n, a * b, dtype=network.kind))
    while outside.size:
        again = beyond[result[outside] - n]
        result[outside] = again
        outside = outside[again >= n]
    return result.astype(np.int64)


@lru_cache(maxsize=64)
def _digits(n: int) -> tuple[int, int]:
    """Sizes a and b of two digits, about equal, with the smallest a * b >= n."""
    root = math.isqrt(n - 1) + 1
    b = np.arange(root, root + min(root // 4, 4096) + 1)
    a = -(-n // b)
    best = int(np.argmin(a * b))
    return int(a[best]), int(b[best])


class _Feistel:
    """A keyed bijection of range(a * b), for digits that fit into half a word.

    Every operation writes into an existing array. Allocating new arrays would cost as much as the arithmetic.
    """

    def __init__(self, a: int, b: int, secret: int, kind: Any) -> None:
        bits = np.dtype(kind).itemsize * 8
        self.kind, self._sizes, self._half = kind, (kind(a), kind(b)), kind(bits // 2)
        self._odd = kind(int(_MULTIPLIER) >> (64 - bits) | 1)
        self._keys = [kind(key(secret, "round", number) >> (64 - bits)) for number in range(_ROUNDS)]
        # The upper bits of a product are well mixed. Keep as many as can be multiplied by the size without overflow.
        self._room = [kind(size.bit_length()) for size in (a, b)]
        self._rest = [kind(bits - size.bit_length()) for size in (a, b)]

    def __call__(self, values: Digits) -> Digits:
        """The image of each value."""
        left: Digits = values // self._sizes[1]
        right: Digits = values - left * self._sizes[1]
        return self._rounds(left, right, 0)

    def between(self, first: int, last: int) -> Digits:
        """The image of range(first, last).

        The right digits repeat with period b, and so does what the first round adds to the left digits.
        """
        b = int(self._sizes[1])
        top, bottom = first // b, -(-last // b)
        row = np.arange(b, dtype=self.kind)
        added = np.empty_like(row)
        self._hash(row, 0, added, np.empty_like(row))
        inside = slice(first - top * b, last - top * b)
        left = np.add.outer(np.arange(top, bottom, dtype=self.kind), added).reshape(-1)[inside]
        right = np.tile(row, bottom - top)[inside]
        self._wrap(left, 0, np.empty_like(left))
        return self._rounds(left, right, 1)

    def _rounds(self, left: Digits, right: Digits, begin: int) -> Digits:
        """Run the rounds from `begin` on, and return the numbers that the digits form."""
        added, spare = np.empty_like(left), np.empty_like(left)
        for number in range(begin, _ROUNDS):
            digit, other = (right, left) if number % 2 else (left, right)
            self._hash(other, number, added, spare)
            digit += added
            self._wrap(digit, number % 2, spare)
        left *= self._sizes[1]
        left += right
        return left

    def _hash(self, other: Digits, number: int, mixed: Digits, spare: Digits) -> None:
        """Write into `mixed` what a round adds to a digit: a hash of the other digit, below this digit's size."""
        side = number % 2
        np.add(other, self._keys[number], out=mixed)
        mixed *= self._odd
        np.right_shift(mixed, self._half, out=spare)
        mixed ^= spare
        mixed *= self._odd
        mixed >>= self._room[side]
        mixed *= self._sizes[side]
        mixed >>= self._rest[side]

    def _wrap(self, digit: Digits, side: int, spare: Digits) -> None:
        """Reduce a sum of two digits modulo their size."""
        # If the sum is below the size, the unsigned subtraction wraps to a huge number, and the minimum is the sum.
        np.subtract(digit, self._sizes[side], out=spare)
        np.minimum(digit, spare, out=digit)


class Sampler(ABC):
    """The order of range(n) in batches. A subclass implements `at`: the number at each position of an epoch.

    Args:
        n: number of items (windows, or rows of an array).
        batch_size: items per step.
        seed: the seed of the run.
        drop_last: leave out the last batch of an epoch if it is not full.
    """

    def __init__(self, n: int, batch_size: int, *, seed: int = 0, drop_last: bool = False) -> None:
        if n < 0 or batch_size < 1:
            raise ConfigError(f"n must be at least 0 and batch_size at least 1, but got n={n}, batch_size={batch_size}")
        self.n, self.batch_size, self.seed, self.drop_last = n, batch_size, seed, drop_last
        self._steps_per_block = max(1, min(STEPS, BLOCK // batch_size))
        self._block: tuple[int, int, Ints] = (-1, -1, np.zeros(0, np.int64))

    @abstractmethod
    def at(self, epoch: int, positions: Ints) -> Ints:
        """Return the numbers at some positions of an epoch: a pure function of both."""

    def between(self, epoch: int, first: int, last: int) -> Ints:
        """Return the numbers at the positions first to last (excluded) of an epoch, equal to those of `at`."""
        return self.at(epoch, np.arange(first, last))

    @property
    def steps_per_epoch(self) -> int:
        """Number of batches in an epoch."""
        return steps_per_epoch(self.n, self.batch_size, self.drop_last)

    def numbers(self, epoch: int, step: int) -> Ints:
        """Return the numbers of one step."""
        if not 0 <= step < self.steps_per_epoch:
            raise ConfigError(f"an epoch has the steps 0 to {self.steps_per_epoch - 1}, but got step={step}")
        block, inside = self.block(epoch, step)
        return block[inside * self.batch_size : (inside + 1) * self.batch_size]

    def block(self, epoch: int, step: int) -> tuple[Ints, int]:
        """Return the numbers of several steps that are computed together, and the index of `step` among these steps."""
        index, inside = divmod(step, self._steps_per_block)
        return self._computed(epoch, index), inside

    def _computed(self, epoch: int, index: int) -> Ints:
        # One attribute, replaced as a whole: threads that read different blocks see one or the other, never a mix.
        known = self._block
        if known[0] == epoch and known[1] == index:
            return known[2]
        size = self._steps_per_block * self.batch_size
        numbers = self.between(epoch, index * size, min((index + 1) * size, self.n))
        numbers.flags.writeable = False
        self._block = (epoch, index, numbers)
        return numbers


class Shuffled(Sampler):
    """Every number once per epoch, in a new random order each epoch."""

    def at(self, epoch: int, positions: Ints) -> Ints:
        """The keyed shuffle of the epoch."""
        return permuted(positions, self.n, key(self.seed, "order", epoch))

    def between(self, epoch: int, first: int, last: int) -> Ints:
        """The same, at neighbouring positions."""
        return permuted(range(first, last), self.n, key(self.seed, "order", epoch))


class Sequential(Sampler):
    """Every number once per epoch, in order."""

    def at(self, epoch: int, positions: Ints) -> Ints:  # noqa: ARG002
        """The positions themselves."""
        return positions


class RowsOfBatches(Sampler):
    """The rows first : first + count of each batch of another sampler, for one of several processes.

    Args:
        whole: the sampler of all rows.
        first: the first row of this process in each batch; below the batch size.
        count: how many rows it has; fewer where the batch ends before, or none in a last batch that is not full.
    """

    def __init__(self, whole: Sampler, first: int, count: int) -> None:
        count = min(count, whole.batch_size - first)
        full, rest = divmod(whole.n, whole.batch_size)
        last = 0 if whole.drop_last else min(max(rest - first, 0), count)
        super().__init__(full * count + last, count, seed=whole.seed)
        self._whole, self._first = whole, first

    def at(self, epoch: int, positions: Ints) -> Ints:
        """What the other sampler has at these rows of its batches."""
        step, row = np.divmod(positions, self.batch_size)
        return self._whole.at(epoch, step * self._whole.batch_size + self._first + row)


class EasyFirst(Sampler):
    """Easy series first: an epoch draws only from the windows of the easiest series.

    Every epoch has the same number of steps. The windows are shuffled, and repeated as often as the epoch needs.

    Args:
        boundaries: [S + 1] the windows of series s are boundaries[s] : boundaries[s + 1], as `Windows.boundaries`.
        batch_size: windows per step.
        order: [S] series numbers from easy to hard.
        share: function of the epoch that returns the share of the series to use, in (0, 1].
        seed: the seed of the run.
        drop_last: leave out the last batch of an epoch if it is not full.
    """

    def __init__(
        self,
        boundaries: Ints,
        batch_size: int,
        *,
        order: npt.ArrayLike,
        share: Callable[[int], float],
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        super().__init__(int(boundaries[-1]), batch_size, seed=seed, drop_last=drop_last)
        chosen = np.asarray(order, dtype=np.int64)
        if not np.array_equal(np.sort(chosen), np.arange(len(boundaries) - 1)):
            raise ConfigError(
                f"order must name each of the {len(boundaries) - 1} series once, but got {chosen.tolist()}"
            )
        chosen = chosen[np.diff(boundaries)[chosen] > 0]
        self._share = share
        self._first = boundaries[chosen]
        self._edges = np.concatenate([np.zeros(1, np.int64), np.cumsum(np.diff(boundaries)[chosen])])

    def at(self, epoch: int, positions: Ints) -> Ints:
        """A shuffle of the easy windows, and a new shuffle whenever all of them have been used."""
        share = self._share(epoch)
        if not 0 < share <= 1:
            raise ConfigError(f"the share of a curriculum must be in (0, 1], but got {share} for {epoch=}")
        allowed = int(self._edges[max(1, int(np.ceil(share * len(self._first))))])
        turn, inside = np.divmod(positions, allowed)
        place = np.empty_like(positions)
        for number in np.unique(turn):
            here = turn == number
            place[here] = permuted(inside[here], allowed, key(self.seed, "order", epoch, int(number)))
        series = np.searchsorted(self._edges, place, side="right") - 1
        return np.asarray(self._first[series] + place - self._edges[series], dtype=np.int64)


def easy_first(store: SeriesStore, rows: Ints) -> np.ndarray:
    """Return the series numbers from smooth to rough.

    Roughness is the mean absolute difference of neighbours over the mean absolute deviation, in the first rows[s]
    rows of series s. Only observed values count, because imputed ones may depend on later rows.
    """
    roughness = np.empty(len(store.ids))
    for number, (first, count) in enumerate(zip(store.offsets[:-1], rows, strict=True)):
        y = np.asarray(store.y[first : first + count], dtype=np.float64)
        steps = np.abs(np.diff(y))
        if store.mask is not None:
            seen = store.mask[first : first + count]
            y, steps = y[seen], steps[seen[1:] & seen[:-1]]
        spread = np.abs(y - y.mean()).mean() if len(y) else 0.0
        roughness[number] = steps.mean() / spread if spread > 0 and len(steps) else 0.0
    return np.argsort(roughness, kind="stable")
