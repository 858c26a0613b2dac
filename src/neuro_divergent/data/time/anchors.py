"""Find the time stamp from which the grid of a series is counted, if the calendar moved its first time stamp."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from neuro_divergent.data.time.frequency import Frequency, Times

Ints = npt.NDArray[np.int64]

MOST_MOVES = 6
"""How often a later row may correct the anchor: from the 28th to the 29th, 30th and 31st, and one for the hour."""


def find_anchors(
    freq: Frequency, times: Times, first: Ints, zone: str | None = None
) -> tuple[npt.NDArray[Any], Ints] | None:
    """[S] an anchor per series, on whose grid all its rows lie, and [N] steps after the anchor; None if there is none.

    The first row usually is the anchor. It is not if the calendar moved it: a grid of the 30th that begins in February,
    or of a midnight that a clock change skipped. Then the first row off its grid is tried.

    Args:
        freq: the time between two rows.
        times: sorted time stamps, series after series.
        first: [S + 1] the row in which each series starts.
        zone: the time zone whose wall clock days and longer steps follow.
    """
    lengths = np.diff(first)
    anchor = times[first[:-1]].copy()
    steps, good = freq.positions(np.repeat(anchor, lengths), times, zone)
    if not good.all() and not freq.moves(zone):
        return None
    for _ in range(MOST_MOVES):
        if good.all():
            return anchor if freq.integer else anchor.astype("datetime64[us]"), steps
        odd = np.flatnonzero(~good)
        series, place = np.unique(np.searchsorted(first, odd, side="right") - 1, return_index=True)
        anchor[series] = times[odd[place]]
        rows = np.concatenate([np.arange(first[number], first[number + 1]) for number in series])
        steps[rows], good[rows] = freq.positions(np.repeat(anchor[series], lengths[series]), times[rows], zone)
    return None
