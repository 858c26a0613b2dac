"""Counter-based randomness: every draw has a key, so there is no generator state to save.

A key is a pure function of (seed, purpose, numbers). Two draws with the same key give the same bits. A run that is
resumed at step n uses the keys of step n, and gets the same bits as an uninterrupted run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import torch

_MASK = (1 << 64) - 1


def mix(value: int) -> int:
    """The splitmix64 finaliser: a bijection of 64-bit numbers. Every output bit depends on every input bit."""
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & _MASK
    return value ^ (value >> 31)


@cache
def purpose_key(purpose: str) -> int:
    """Return a fixed 64-bit number for a purpose such as "dropout" or "order"."""
    return int.from_bytes(hashlib.blake2b(purpose.encode(), digest_size=8).digest(), "little")


def key(seed: int, purpose: str, *numbers: int) -> int:
    """Return the 64-bit key of one draw, such as key(seed, "dropout", step).

    >>> key(1, "dropout", 7) == key(1, "dropout", 7)
    True
    >>> key(1, "dropout", 7) == key(1, "dropout", 8)
    False
    """
    state = mix((seed & _MASK) ^ purpose_key(purpose))
    for number in numbers:
        state = mix((state + 0x9E3779B97F4A7C15 + (number & _MASK)) & _MASK)
    return state


def torch_generator(seed: int, purpose: str, *numbers: int) -> torch.Generator:
    """Return a CPU generator for one draw."""
    import torch

    return torch.Generator().manual_seed(key(seed, purpose, *numbers) >> 1)


def numpy_generator(seed: int, purpose: str, *numbers: int) -> np.random.Generator:
    """Return a numpy generator for one draw."""
    import numpy as np

    return np.random.Generator(np.random.Philox(key(seed, purpose, *numbers)))


@contextmanager
def isolated(seed: int, purpose: str, *numbers: int) -> Iterator[None]:
    """Seed torch's global generators by a key inside the block, and restore their state after it."""
    import torch

    with torch.random.fork_rng():
        number = key(seed, purpose, *numbers) >> 1
        # torch.manual_seed would queue a call, with a formatted stack, for each type of device that is absent.
        torch.default_generator.manual_seed(number)
        if torch.cuda.is_available():
            torch.cuda.manual_seed_all(number)
        if torch.backends.mps.is_available():
            torch.mps.manual_seed(number)
        yield
