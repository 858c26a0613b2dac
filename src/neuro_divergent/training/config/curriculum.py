"""Easy before hard, and how much truth a recursive decoder is fed: both pure functions of the progress."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from neuro_divergent.core.config import Description


class Curriculum(Description):
    """Base of the curricula. Progress runs from 0 at the first step to 1 at the end of the curriculum's share."""

    family: ClassVar[str] = "curriculum"

    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """The part of the run after which everything is in play."""

    def progress(self, step: int, total: int) -> float:
        """How far the curriculum has come, 0 to 1."""
        return min(1.0, step / max(1.0, self.share * total))


class GrowingHorizon(Curriculum):
    """Count only the first steps of the horizon, and more of them as training goes on."""

    start: Annotated[int, Field(ge=1)] = 1
    """How many steps of the horizon count at first."""

    def horizon(self, step: int, total: int, h: int) -> int:
        """How many steps of the horizon count now: start + (h − start) · progress, rounded down."""
        first = min(self.start, h)
        return first + int((h - first) * self.progress(step, total))


class EasySeriesFirst(Curriculum):
    """Draw from the smoothest series at first, and from more of them as training goes on.

    A series is easy when the mean absolute difference of neighbours is small against its mean absolute deviation, both
    over its training rows.
    """

    start: Annotated[float, Field(gt=0.0, le=1.0)] = 0.25
    """The share of series in play at first."""

    def series_share(self, step: int, total: int) -> float:
        """The share of series in play now."""
        return self.start + (1.0 - self.start) * self.progress(step, total)


class TeacherForcing(Description):
    """The probability that a recursive decoder is fed the true previous value while training, falling linearly."""

    start: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0
    """Probability at the first step."""
    end: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Probability at the last step."""

    def ratio(self, step: int, total: int) -> float:
        """The probability now: start + (end − start) · step / total."""
        return self.start + (self.end - self.start) * min(1.0, step / max(1, total))
