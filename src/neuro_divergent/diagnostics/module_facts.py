"""What is known of one module of a network, and how it is written."""

from __future__ import annotations

from typing import Any

from neuro_divergent.core.config import Description


class ModuleFacts(Description):
    """One module of a network."""

    name: str
    """Its name in the network; empty for the whole network."""
    type: str
    """Its class."""
    depth: int
    """0 for the whole network, 1 for its parts, ..."""
    parameters: int
    """Number of parameters of the module and its parts; shared ones count once."""
    frozen: int = 0
    """How many of them do not require a gradient."""
    input: tuple[tuple[int, ...], ...] = ()
    """Shapes of the input tensors of the first call; empty if it was not called as a module."""
    output: tuple[tuple[int, ...], ...] = ()
    """Shapes of its output tensors."""
    calls: int = 0
    """How often one pass calls it."""
    multiply_adds: int = 0
    """Of matrix products, convolutions and attention, for one row of the batch; element-wise work does not count."""
    share: float | None = None
    """Share of the time of a forward pass, its parts included; None if it was not called."""


def str_of(shapes: Any) -> str:
    """Shapes as text.

    >>> str_of([[32, 24], [8]])
    '32×24, 8'
    """
    return ", ".join("×".join(map(str, shape)) for shape in shapes)


def short_count(value: float) -> str:
    """A large number in few characters.

    >>> short_count(1234), short_count(56_700_000)
    ('1.23k', '56.7M')
    """
    for unit in ("", "k", "M", "G", "T"):
        if value < 1000:
            return f"{value:.3g}{unit}"
        value /= 1000
    return f"{value:.3g}P"


def cut(text: str, length: int) -> str:
    """The text in at most `length` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
