"""Checks the content of a saved model, so that a loaded model can also forecast.

A foreign file may have correct checksums and still name an anchor of text, rows of another table, or a million draws.
Such a file is refused when it is loaded, not later.
"""

from __future__ import annotations

from typing import Any, get_args

import numpy as np
import numpy.typing as npt

from neuro_divergent.core.batch import InputSpec
from neuro_divergent.core.errors import CorruptFileError
from neuro_divergent.data.features.features import parse_features
from neuro_divergent.data.schema.schema import DataSchema
from neuro_divergent.data.store.files import check_store
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.time.frequency import Frequency, to_local
from neuro_divergent.forecasting.model.model import Model
from neuro_divergent.forecasting.network.columns_taken import taken_columns
from neuro_divergent.forecasting.predict.conformal import Calibration
from neuro_divergent.forecasting.predict.local_scaling import LocalScaling
from neuro_divergent.forecasting.predict.quantile_calibration import QuantileCalibration
from neuro_divergent.forecasting.predict.validated import TRAINED_BEFORE, How, held_out_events
from neuro_divergent.training.state.history import History

MAX_DRAWS = 100_000
"""Maximum number of draws of a saved model behind each forecast."""
MAX_HORIZON = 10_000
"""Maximum horizon of a model whose weights do not grow with it: it computes one step after the other."""
MAX_LOOKBACK = 10_000
"""Maximum lookback of a model without rows or weights of that length."""
_FIRST, _LAST = np.datetime64("0001-01-01", "us"), np.datetime64("9999-12-31", "us")


def demand(holds: bool, rule: str, got: Any) -> None:
    """Refuse a file that breaks a rule."""
    if not holds:
        raise CorruptFileError(f"{rule}, but the file has {str(got)[:80]!r}")


def checked_anchor(anchor: Any, lookback: int) -> tuple[int, ...]:
    """The season lengths of an anchor, each at most the lookback."""
    lengths = isinstance(anchor, list) and all(type(item) is int and 1 <= item <= lookback for item in anchor)
    demand(lengths, f"an anchor is a list of whole numbers from 1 to the input_size of {lookback}", anchor)
    return tuple(anchor)


def checked_spec(spec: Any) -> InputSpec:
    """The sizes that a network is built for."""
    demand(isinstance(spec, dict), "spec is an object of sizes", spec)
    several = {name: spec.get(name, []) for name in ("categories", "lags")}
    for name, items in several.items():
        demand(isinstance(items, list), f"the {name} of spec are a list of whole numbers", items)
    sizes = [item for name, item in spec.items() if name not in ("categories", "lags", "anchored")]
    sizes += [*several["categories"], *several["lags"]]
    whole = all(type(item) is int and item >= 0 for item in sizes) and type(spec.get("anchored", False)) is bool
    demand(whole, "spec holds whole numbers", spec)
    inside = all(1 <= lag <= spec.get("lookback", 0) for lag in several["lags"])
    demand(inside, "the lags of spec are at least 1 and at most its lookback", several["lags"])
    return InputSpec(**spec | {name: tuple(items) for name, items in several.items()})


def check_limits(model: Model, rows: int, widest: int) -> None:
    """Refuse a small file whose description needs too much computation.

    Args:
        model: the description; one inside of it is checked, too.
        rows: number of rows of its longest series.
        widest: the longest side of its weights.
    """
    horizon, lookback = max(MAX_HORIZON, widest), max(MAX_LOOKBACK, 2 * rows, widest)
    draws = getattr(model, "samples", 0)
    demand(model.h <= horizon, f"h is at most {horizon} for weights of this size", model.h)
    demand(model.input_size <= lookback, f"input_size is at most {lookback} for rows of this number", model.input_size)
    demand(draws <= MAX_DRAWS, f"a saved model has at most {MAX_DRAWS} samples", draws)
    inner = getattr(model, "model", None)
    if isinstance(inner, Model):
        check_limits(inner, rows, widest)


def check_rows(store: SeriesStore, schema: DataSchema, model: Model, spec: InputSpec, place: str) -> None:
    """Check that rows, schema and the columns that the model takes fit together."""
    check_store(store, place)
    demand(len(store.ids) > 0, "a saved model has the names of its series", store.ids)
    demand(bool(np.isfinite(store.y).all()), "y holds finite numbers", "others")
    taken = taken_columns(model, store)
    sizes = {name: 0 if (block := getattr(taken, name)) is None else block.shape[1] for name in _BLOCKS}
    categories = tuple(len(values) + 1 for values in taken.categories.values())
    found = (*sizes.values(), categories, spec.series if not model.capabilities.multivariate else len(store.ids))
    wanted = (spec.future, spec.historical, spec.static, spec.categories, spec.series)
    demand(found == wanted, f"the columns of the rows are those of the network, {wanted}", found)
    _check_schema(store, schema)
    _check_times(store, schema, model.h)


_BLOCKS = ("future", "historical", "static")


def _check_schema(store: SeriesStore, schema: DataSchema) -> None:
    named = (
        len(schema.time_varying_categorical) == (0 if store.categorical is None else store.categorical.shape[1])
        and tuple(store.categories) == (*schema.time_varying_categorical, *schema.static_categorical)
        and dict(schema.categories) == store.categories
    )
    demand(named, "the schema names the categories of the rows", tuple(schema.categories))
    features = parse_features(schema.features)
    for role, names in (("future", store.future_names), ("historical", store.historical_names)):
        columns = [column for feature in features if feature.role == role for column in feature.columns]
        demand(set(columns) <= set(names), f"the {role} columns hold the schema's features", names)
    known = {"none", "integer"} if store.ids.dtype.kind in "iu" else {"none", "text"}
    demand(schema.id_type in (*known, None), "the schema says what names the series have", schema.id_type)


def _check_times(store: SeriesStore, schema: DataSchema, horizon: int) -> None:
    """Check that time stamps from the first row to the last forecast are dates of the calendar."""
    freq, integer = Frequency.parse(store.freq), store.start.dtype.kind == "i"
    demand(freq.integer == integer, "the frequency is one of the kind of time that the rows have", store.freq)
    demand(store.time_zone is None or not integer, "only dates have a time zone", store.time_zone)
    kinds = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64") if integer else ()
    label = schema.time_type
    dates = label == "date" or (label or "").startswith(("datetime[us", "datetime[ms", "datetime[ns"))
    demand(label is None or label in kinds or (dates and not integer), "the schema says what type time has", label)
    steps = store.lengths + horizon
    if integer:
        ends = store.start.astype(np.float64) + steps * float(freq.count)
        demand(bool((np.abs(ends) < 2**62).all()), "times stay below 2^62", store.start)
        return
    demand(bool(((store.start >= _FIRST) & (store.start <= _LAST)).all()), "rows are of the years 1 to 9999", "others")
    years = store.start.astype("datetime64[Y]").astype(np.int64) + 1970 + steps * _years(freq)
    demand(bool((years < 9999).all()), "forecasts end before the year 9999", f"{store.freq} after {store.start[0]}")
    if label is not None and label.startswith("datetime[ns"):
        demand(bool((years < 2262).all()), "nanoseconds end in the year 2262", store.start[0])
    if store.time_zone is not None:
        try:
            to_local(store.start[:1], store.time_zone)
        except Exception:
            demand(False, "the time zone is one that is known", store.time_zone)


def check_events(history: History, store: SeriesStore) -> None:
    """Check the records of held-out rows: evaluation and `repr` read them."""
    integer = store.start.dtype.kind == "i"
    for event in held_out_events(history):
        rows: Any = event.get("rows")
        how, time = event["how"], event["time"]
        demand(_whole(rows) and min(rows, default=0) >= 0, "held-out rows are counted for each series", rows)
        demand(how in get_args(How), "held-out rows are chosen in a known way", how)
        if how == "date":
            known = _whole([time]) if integer else isinstance(time, str) and _is_date(time)
            demand(known, "held-out rows begin at a time", time)
        if len(rows) == len(store.ids):
            _check_reach(store, np.array(rows, dtype=np.float64))
    for event in (event for event in history.events if event.get("event") == TRAINED_BEFORE):
        ids: Any = event.get("ids")
        until: Any = event.get("until")
        named = isinstance(ids, list) and all(isinstance(name, str | int) for name in ids)
        demand(
            named and _whole(until) and len(ids) == len(until), "a model that came before has an end per series", ids
        )
        demand(isinstance(event.get("dates"), bool), "it is said whether these are dates", event.get("dates"))


def _check_reach(store: SeriesStore, rows: npt.NDArray[np.float64]) -> None:
    """Check that held-out rows begin after the year 1. They may begin before the saved rows."""
    freq = store.frequency
    if freq.integer:
        begin = np.abs(store.start.astype(np.float64) - rows * freq.count)
        demand(bool((begin < 2**62).all()), "times stay below 2^62", rows)
        return
    years = store.start.astype("datetime64[Y]").astype(np.int64) + 1970 - rows * _years(freq)
    demand(bool((years > 1).all()), "held-out rows begin after the year 1", rows)


def _whole(numbers: Any) -> bool:
    return isinstance(numbers, list) and all(type(item) is int and abs(item) < 2**62 for item in numbers)


def _is_date(text: str) -> bool:
    try:
        return bool(_FIRST <= np.datetime64(text, "us") <= _LAST)
    except ValueError:
        return False


def _years(freq: Frequency) -> float:
    days = freq.microseconds / 86_400e6 + (1.5 * freq.count if freq.unit == "bd" else 0)
    return freq.months / 12 + days / 365


def check_calibration(found: Calibration, horizon: int) -> None:
    """Check the errors of each window and step: not negative; NaN where a value is missing."""
    scores, scale = found.scores, found.scale
    demand(scores.shape[2] == horizon and scores.shape[1] > 0, f"scores have {horizon} steps", scores.shape)
    good = not np.isinf(scores).any() and not (scores < 0).any()
    demand(good, "scores are errors of at least 0", "others")
    demand(bool((np.isfinite(scale) & (scale > 0)).all()), "the scale of a series is greater than 0", "others")


def check_corrections(found: QuantileCalibration, horizon: int) -> None:
    """Check the corrections of each coverage and step."""
    coverages, checks = found.coverages, found.checks
    rising = len(coverages) > 0 and bool((np.diff(coverages, prepend=0.0) > 0).all()) and coverages[-1] < 1
    demand(rising, "coverages rise between 0 and 1", coverages)
    demand(found.offsets.shape[2] == horizon, f"corrections have {horizon} steps", found.offsets.shape)
    good = bool(np.isfinite(found.offsets[0]).all()) and not bool(np.isinf(found.offsets).any())
    demand(good, "corrections are finite numbers", "others")
    demand(
        bool((np.isfinite(found.scale) & (found.scale > 0)).all()), "the scale of a series is greater than 0", "others"
    )
    demand(bool((found.late_rows >= 0).all()), "held-out rows are counted", "others")
    numbers = [number for check in checks for number in (check.level, check.values, check.inside, check.between)]
    numbers += [check.corrected for check in checks if check.corrected is not None]
    plain = all(type(number) in (int, float) and 0 <= number < 2**62 for number in numbers)
    demand(plain, "a check of coverage holds shares in percent", "others")


def check_scaling(found: LocalScaling) -> None:
    """Check that each series has a finite state."""
    arrays = found.scaler.to_arrays()
    demand(all(isinstance(name, str | int) for name in found.ids), "series are named by texts or numbers", found.ids)
    for name, array in arrays.items():
        demand(array.shape == (len(found.ids),), f"{name} has a number for each series", array.shape)
        demand(bool(np.isfinite(array).all()), f"{name} holds finite numbers", "others")
        demand(name != "scale" or bool((array > 0).all()), "scale is greater than 0", "others")


def checked_library(name: Any) -> str:
    """The name of the library in which forecasts are returned."""
    demand(isinstance(name, str), "the name of a library is text", name)
    return str(name)
