"""Curricula (easy before hard) and teacher forcing: both are pure functions of the progress."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from neuro_divergent.core.config import Description


class Curriculum(Description):
    """Base class of curricula. Progress goes from 0 at the first step to 1 at the end of the curriculum's share."""

    family: ClassVar[str] = "curriculum"

    share: Annotated[float, Field(gt=0.0, le=1.0)] = 0.5
    """The share of the run after which the curriculum is complete."""

    def progress(self, step: int, total: int) -> float:
        """The progress of the curriculum, 0 to 1."""
        return min(1.0, step / max(1.0, self.share * total))


class GrowingHorizon(Curriculum):
    """Count only the first steps of the horizon, and more of them as training proceeds."""

    start: Annotated[int, Field(ge=1)] = 1
    """How many steps of the horizon count at first."""

    def horizon(self, step: int, total: int, h: int) -> int:
        """The number of horizon steps that count now: start + (h − start) · progress, rounded down."""
        first = min(self.start, h)
        return first + int((h - first) * self.progress(step, total))


class EasySeriesFirst(Curriculum):
    """Draw from the smoothest series at first, and from more series as training proceeds.

    A series is easy if its mean absolute difference between neighbours is small relative to its mean absolute
    deviation, both over its training rows.
    """

    start: Annotated[float, Field(gt=0.0, le=1.0)] = 0.25
    """The share of series that is used at first."""

    def series_share(self, step: int, total: int) -> float:
        """The share of series that is used now."""
        return self.start + (1.0 - self.start) * self.progress(step, total)


class TeacherForcing(Description):
    """The probability that a recursive decoder gets the true previous value in training. It falls linearly."""

    start: Annotated[float, Field(ge=0.0, le=1.0)] = 1.0
    """Probability at the first step."""
    end: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Probability at the last step."""

    def ratio(self, step: int, total: int) -> float:
        """The probability now: start + (end − start) · step / total."""
        return self.start + (self.end - self.start) * min(1.0, step / max(1, total))
