"""What an AutoForecaster found, in sentences: what the data are like, why the winner won, and what is against it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import numpy.typing as npt

from neuro_divergent.search.amounts import in_words
from neuro_divergent.search.auto.board import ENSEMBLE, AutoLeaderboard, Row
from neuro_divergent.search.auto.engine import Engine, Member
from neuro_divergent.search.auto.weights import Chosen

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Found:
    """What the sentences are about."""

    engine: Engine
    members: list[Member]
    weights: dict[str, float]
    chosen: Chosen
    board: AutoLeaderboard
    first: Floats | None
    last: Floats | None
    seconds: float


def reasons(found: Found) -> list[str]:
    """The sentences, in the order in which they are read."""
    return [*_tried(found), *_result(found), *_weights(found), *_guard(found), *_against(found)]


def _tried(found: Found) -> Iterator[str]:
    engine = found.engine
    yield f"The data: {engine.profile.words()}."
    trained = [one for one in found.members if one.fitted is None]
    searched = sum(one.wanted.source == "search" for one in trained)
    more = f", {searched} of them by search" if searched else ""
    count = f"{len(trained)} model{'' if len(trained) == 1 else 's'}"
    spent = f"{in_words(found.seconds)} of {in_words(engine.limit)}"
    yield f"{count} trained{more}, beside the naive forecasts, in {spent}."
    if not trained:
        yield "No model could be trained in this time or on this table, so the forecast is the best naive one."
        notes = sorted({row.note for row in found.board.rows if row.note and row.source not in (ENSEMBLE, "naive")})
        yield from (f"Why: {note}." for note in notes[:3])
    remaining = len([one for one in engine.members if one.fitted is None])
    if engine.left_out and remaining:
        yield f"Left out: {'; '.join(f'{name} ({why})' for name, why in list(engine.left_out.items())[:4])}."


def _result(found: Found) -> Iterator[str]:
    row, naive = found.board.row(ENSEMBLE), _naive(found)
    metric, windows = found.board.metric, len(found.engine.held.final)
    if row.score is None:
        if row.selection is not None:
            yield (
                f"The series are too short for windows that decide nothing: its {metric} of {row.selection:.4g} is of "
                "the windows that chose it, and is too good."
            )
        return
    versus = "" if naive is None or naive.score is None else f"; {naive.model} has {naive.score:.4g}"
    share = _better(found, row, naive)
    yield f"On {_windows(windows)} that decided nothing the forecast has {metric} {row.score:.4g}{versus}{share}."


def _better(found: Found, row: Row, naive: Row | None) -> str:
    if naive is None or not naive.score or row.score is None:
        return ""
    gain = 1 - found.engine.judging.worse(row.score) / found.engine.judging.worse(naive.score)
    return f", {100 * abs(gain):.0f} % {'better' if gain >= 0 else 'WORSE'}"


def _naive(found: Found) -> Row | None:
    naive = [row for row in found.board.rows if row.source == "naive" and row.selection is not None]
    return min(naive, key=lambda row: found.engine.choosing.worse(row.selection or 0.0), default=None)


def _weights(found: Found) -> Iterator[str]:
    ordered = sorted(found.weights.items(), key=lambda one: -one[1])
    if not found.members or found.first is None:
        return
    best = min(found.members, key=lambda one: one.badness)
    assert best.selection is not None
    value = found.engine.choosing.value(best.selection)
    if not np.isfinite(value):
        yield f"The {found.board.metric} of the held-out windows is not defined: their series may not change at all."
        return
    yield (
        f"{best.name} is the best single model on the {_windows(len(found.engine.held.selection))} that chose, with "
        f"{found.board.metric} {value:.4g}{_behind(found, best)}."
    )
    if len(ordered) == 1:
        return
    yield f"The forecast is {' + '.join(f'{weight:.2f} {name}' for name, weight in ordered)}."
    yield from _differ(found, [name for name, _ in ordered[:4]])


def _windows(count: int) -> str:
    """A number of windows in words.

    >>> _windows(1), _windows(4096)
    ('1 window', '4,096 windows')
    """
    return f"{count:,} window{'' if count == 1 else 's'}"


def _behind(found: Found, best: Member) -> str:
    others = sorted((one for one in found.members if one is not best), key=lambda one: one.badness)
    if not others or not best.badness > 0:
        return ""
    return f", {100 * (others[0].badness / best.badness - 1):.1f} % before {others[0].name}"


def _differ(found: Found, names: list[str]) -> Iterator[str]:
    """How alike the errors of the heaviest members are: what an ensemble gains from."""
    actual = found.engine.choosing.truth.actual
    scale = np.nanmean(np.abs(actual), axis=1, keepdims=True) + 1e-12
    errors = {}
    for one in found.members:
        if one.name in names and one.selection is not None:
            errors[one.name] = ((one.selection[:, :, 0] - actual) / scale)[np.isfinite(actual)]
    pairs = [(float(np.corrcoef(errors[a], errors[b])[0, 1]), a, b) for a, b in combinations(errors, 2)]
    pairs = [pair for pair in pairs if np.isfinite(pair[0])]
    if pairs:
        least, first, other = min(pairs)
        yield (
            f"It gains from errors that differ: those of {first} and {other} have a correlation of {least:.2f}, so "
            "they partly cancel in the mean."
        )


def _guard(found: Found) -> Iterator[str]:
    chosen, metric = found.chosen, found.board.metric
    if chosen.ensemble is None or chosen.single is None or not np.isfinite([chosen.ensemble, chosen.single]).all():
        return
    pair = f"{abs(chosen.ensemble):.4g} against {abs(chosen.single):.4g} of the best single model"
    if chosen.guarded:
        yield (
            f"An ensemble was not better on windows that did not choose its weights ({metric} {pair}): one model is "
            "taken."
        )
    else:
        yield f"Weights chosen on one half of the windows held on the other half: {metric} {pair}."


def _against(found: Found) -> Iterator[str]:
    """What speaks against the choice."""
    row = found.board.row(ENSEMBLE)
    single = [one for one in found.board.rows if one.source != ENSEMBLE and one.score is not None]
    worse = found.engine.judging.worse
    best = min(single, key=lambda one: worse(one.score or 0.0), default=None)
    if best is not None and row.score is not None and best.score is not None and worse(best.score) < worse(row.score):
        yield (
            f"On the last windows {best.model} alone was better ({best.score:.4g}). That was not known when the choice "
            "was made, and may be chance."
        )
    short = [one.name for one in found.members if one.outcome is not None and "time" in one.outcome.stopped]
    if short:
        yield f"Trained for less than planned, because the time was used up: {', '.join(short[:5])}."
