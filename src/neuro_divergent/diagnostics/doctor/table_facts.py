"""Facts about the training rows. At most MOST_SERIES series and MOST_ROWS rows of each are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.seeding import numpy_generator
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.time import seasonality
from neuro_divergent.diagnostics.doctor.evidence import TableFacts

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

MOST_SERIES, MOST_ROWS = 200, 2000
OVERFLOWS = 1e18
"""The square of a larger value does not fit into float32."""


def table_facts(
    store: SeriesStore, rows: Ints, *, lookback: int, h: int, windows: int = 0, most: int = MOST_SERIES
) -> TableFacts:
    """The facts about the first rows[s] rows of each series, and about the level of the rows after them."""
    picked = np.unique(np.linspace(0, len(store.ids) - 1, min(len(store.ids), most)).astype(np.int64))
    parts = [part for part in _parts(store, rows, picked) if len(part[0])]
    targets = [train for train, _ in parts]
    pooled = np.concatenate(targets) if targets else np.zeros(1)
    spreads = np.array([float(np.std(train)) for train in targets] or [0.0])
    middle = float(np.median(spreads))
    seasons = seasonality.detect(store.y, store.offsets, store.mask, store.freq, max_series=20, rows=rows)
    moves = np.array([_shift(train, later, h, seasons) for train, later in parts if len(later) and len(train) > 4 * h])
    known = np.isfinite(pooled)
    whole = bool(known.any()) and bool((pooled[known] >= 0).all() and (pooled[known] == np.round(pooled[known])).all())
    return TableFacts(
        n_series=len(store.ids),
        windows=windows,
        bad_columns=_bad_columns(store),
        constant_columns=_constant_columns(store),
        constant_series=float((spreads == 0).mean()),
        duplicated=_duplicated(targets, lookback + h),
        duplicated_series=_duplicated_series(targets),
        leaks=_leaks(store, rows, picked, h),
        shift=float(np.median(moves[:, 0])) if len(moves) else 0.0,
        spread=float(np.median(moves[:, 1])) if len(moves) else 1.0,
        zeros=float((pooled[known] == 0).mean()) if known.any() else 0.0,
        counts=whole and float(np.median(pooled[known])) <= 10,
        mean=float(pooled[known].mean()) if known.any() else 0.0,
        scale_ratio=float(spreads.max() / middle) if middle > 0 else 1.0,
    )


def _parts(store: SeriesStore, rows: Ints, picked: Ints) -> Iterator[tuple[Floats, Floats]]:
    """For each picked series the newest training rows and the rows after them, without missing values."""
    for number in picked.tolist():
        first, last = int(store.offsets[number]), int(store.offsets[number + 1])
        cut = first + int(rows[number])
        yield _observed(store, max(first, cut - MOST_ROWS), cut), _observed(store, cut, min(last, cut + MOST_ROWS))


def _observed(store: SeriesStore, first: int, last: int) -> Floats:
    values = np.asarray(store.y[first:last], dtype=np.float64)
    return values if store.mask is None else values[np.asarray(store.mask[first:last])]


def _columns(store: SeriesStore) -> Iterator[tuple[str, npt.NDArray[np.floating]]]:
    for names, values in ((store.future_names, store.future), (store.historical_names, store.historical)):
        for place, name in enumerate(names):
            if values is not None:
                yield name, values[:, place]


def _bad_columns(store: SeriesStore) -> dict[str, int]:
    seen = store.y if store.mask is None else store.y[np.asarray(store.mask)]
    found = {}
    for name, values in (("the target", seen), *_columns(store)):
        with np.errstate(invalid="ignore"):
            bad = int((~(np.abs(values) < OVERFLOWS)).sum())
        if bad:
            found[name] = bad
    return found


def _constant_columns(store: SeriesStore) -> tuple[str, ...]:
    return tuple(name for name, values in _columns(store) if len(values) > 1 and bool((values == values[0]).all()))


def _duplicated(targets: list[Floats], length: int) -> float:
    """The share of windows that repeat another one: windows with the same random projection are equal."""
    weights = numpy_generator(0, "duplicated windows").normal(size=length)
    found = [
        np.round(np.lib.stride_tricks.sliding_window_view(train, length) @ weights / (np.abs(train).max() + 1e-9), 9)
        for train in targets
        if len(train) >= length and np.ptp(train) > 0
    ]
    if not found:
        return 0.0
    values = np.concatenate(found)
    _, counts = np.unique(values, return_counts=True)
    # A window that is constant (a closed shop) repeats without being a copy.
    return float(1.0 - len(counts) / len(values)) if counts.max() < len(values) else 1.0


def _duplicated_series(targets: list[Floats]) -> int:
    varied = [train.tobytes() for train in targets if np.ptp(train) > 0]
    return len(varied) - len(set(varied))


def _shift(train: Floats, later: Floats, h: int, seasons: Sequence[int]) -> tuple[float, float]:
    """The largest change of level in the later rows over the largest one before, and the ratio of the noise.

    Levels are means of whole seasons, where the rows suffice: the swing within a season is no change of level.
    """
    size = _block(len(train), len(later), h, seasons)
    both = np.concatenate([train, later])
    summed = np.concatenate([[0.0], np.cumsum(both)])
    means = (summed[size:] - summed[:-size]) / size
    moves = np.abs(means[size:] - means[:-size])
    cut = max(1, len(moves) - len(later))
    before = moves[:cut].max() if cut else 0.0
    noise = (
        float(np.median(np.abs(np.diff(train)))),
        float(np.median(np.abs(np.diff(later)))) if len(later) > 1 else 0.0,
    )
    scale = before + 1e-9 + 1e-3 * float(np.abs(train).mean())
    return float(moves[cut:].max(initial=0.0) / scale), noise[1] / noise[0] if noise[0] > 0 else 1.0


def _block(train: int, later: int, h: int, seasons: Sequence[int]) -> int:
    """How many rows make a level: the strongest season that half of the later rows hold, often enough for 8 rows."""
    most = max(4, min(train // 4, later // 2))
    whole = [-(-8 // season) * season for season in seasons]
    return next((rows for rows in whole if rows <= most), min(max(h, 8), most))


def _leaks(store: SeriesStore, rows: Ints, picked: Ints, h: int) -> Mapping[str, float]:
    """Columns whose changes are those of the target at a time that is not known at the forecast origin."""
    found = {}
    ahead = set(store.future_names)
    for name, values in _columns(store):
        worst = [_leak(store, values, int(rows[s]), int(s), 0 if name in ahead else 1, h) for s in picked[:20].tolist()]
        known = [value for value in worst if np.isfinite(value)]
        if known:
            found[name] = float(np.median(known))
    return {name: value for name, value in found.items() if value > 0.5}


def _leak(store: SeriesStore, column: npt.NDArray[np.floating], rows: int, series: int, first: int, h: int) -> float:
    """The largest correlation of changes of a column with later changes of the target, beyond what the target's own
    past explains."""
    begin = int(store.offsets[series])
    x = np.diff(np.asarray(column[begin : begin + rows], dtype=np.float64))
    y = np.diff(np.asarray(store.y[begin : begin + rows], dtype=np.float64))
    best = float("nan")
    for ahead in range(first, h + 1):
        one, other = x[: len(x) - ahead], y[ahead:]
        if len(one) < 20 or one.std() == 0 or other.std() == 0:
            continue
        value = abs(float(np.corrcoef(one, other)[0, 1]))
        past = y[: len(y) - ahead]
        own = abs(float(np.corrcoef(past, other)[0, 1])) if ahead and past.std() > 0 else 0.0
        if own < 0.95:  # a series that repeats itself makes every copy of its past look like its future
            best = value if np.isnan(best) else max(best, value)
    return best
