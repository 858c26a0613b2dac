"""Nothing after a cut may change a bit of what is decided before it.

Every case trains twice: on a table, and on the same table with everything after the cut poisoned. The poison changes
the target (values, and which rows are missing), the columns known ahead, the historical columns, the categories (new
ones too), and the weights. Training must give the same losses and weights, and a fold that ends before the cut the
same forecasts.
"""

from __future__ import annotations

import hashlib
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.conformance.examples import model_examples
from neuro_divergent.core import registry

ROWS, CUT, H = 96, 72, 4
"""Rows of a series, the first poisoned row, and the horizon of the models that are not examples."""
MODELS = {
    kind: cls
    for kind, cls in registry.members("model").items()
    if cls.__module__.startswith("neuro_divergent.models") and kind != "TimeLLM"  # it needs a language model on disk
}
FILLS = ["mask", "zero", "forward", "backward", "linear", "mean"]
ANCHORS = [None, "auto", "last", "seasonal"]
ROLES: dict[str, Any] = {
    "future": ["price", "day"],
    "historical": ["load", "kind"],
    "categorical": ["day", "kind"],
    "weight": "weight",
    "static": ["size"],
}
PANELS = {"even": (0, 0, 0), "uneven": (0, 5, 31)}
"""Rows that each series lacks at its end. The last one of the uneven panel is over before the cut."""


def rows(panel: str = "even", *, poisoned: bool = False, cut: int = CUT) -> pl.DataFrame:
    """Three hourly series with gaps in the target; `poisoned` changes all columns from row `cut` on."""
    parts = [_series(number, ROWS - less, poisoned, cut) for number, less in enumerate(PANELS[panel])]
    return pl.concat(parts)


def _series(number: int, count: int, poisoned: bool, cut: int) -> pl.DataFrame:
    draw = np.random.default_rng(number)
    step = np.arange(count)
    y = 10 + 3 * number + np.sin(2 * np.pi * step / 6) + draw.normal(0, 0.3, count)
    missing = draw.random(count) < 0.15
    missing[:3] = [False, True, True]
    missing[cut - 2 : cut] = True  # a gap that is open where the cut is
    frame = pl.DataFrame(
        {
            "unique_id": [f"series-{number}"] * count,
            "ds": np.datetime64("2024-01-01", "us") + step * np.timedelta64(1, "h"),
            "y": np.where(missing, np.nan, y),
            "price": draw.random(count),
            "load": y * 0.5 + draw.random(count),
            "day": [f"day-{at // 24 % 2}" for at in step],
            "kind": [f"kind-{at % 3}" for at in step],
            "weight": 0.5 + draw.random(count),
            "size": [float(number)] * count,
        }
    ).with_columns(pl.col("y").fill_nan(None))
    if not poisoned:
        return frame
    late = pl.int_range(pl.len()) >= cut
    other = draw.permutation(count).astype(np.float64)
    wrong = {
        "y": pl.when(pl.col("y").is_null()).then(1e4).when(pl.Series(other) % 5 != 0).then(pl.Series(other * 77 + 1)),
        "price": pl.lit(1e5),
        "load": pl.Series(other * 1e4),
        "day": pl.lit("a day that nobody knew"),
        "kind": pl.lit("a kind that nobody knew"),
        "weight": pl.Series(other + 100),
    }
    return frame.with_columns(
        pl.when(late).then(value).otherwise(pl.col(name)).alias(name) for name, value in wrong.items()
    )


@cache
def table(panel: str, fill: str, poisoned: bool, cut: int = CUT) -> nd.TimeSeriesDataFrame:
    """The rows as a table; missing targets are filled or masked."""
    return nd.TimeSeriesDataFrame.from_frame(
        rows(panel, poisoned=poisoned, cut=cut), freq="1h", missing=fill, gaps=fill, **ROLES
    )


def config(**fields: Any) -> nd.TrainingConfig:
    """Few steps in which no figure of a validation decides anything."""
    given = {"max_steps": 3, "steps_per_epoch": 2, "batch_size": 16, "progress": False, "seed": 3, "threads": 1}
    fixed = {"early_stopping": None, "schedule": None, "validation_split": 1 - CUT / ROWS}
    return nd.TrainingConfig(**given | fixed | fields)


def learned(model: nd.Model, data: Any, settings: nd.TrainingConfig, **options: Any) -> tuple[list[float], str]:
    """The losses of the steps and a digest of the weights, which must not know of rows after the cut."""
    fitted = model.fit(data, settings, short="pad", **options)
    digest = hashlib.sha256()
    for name, parameter in sorted(fitted.network.named_parameters()):
        digest.update(name.encode() + parameter.detach().contiguous().numpy().tobytes())
    return fitted.history.step_loss, digest.hexdigest()


def assert_same_training(model: nd.Model, panel: str, fill: str, settings: nd.TrainingConfig, **options: Any) -> None:
    clean, poisoned = (learned(model, table(panel, fill, bad), settings, **options) for bad in (False, True))
    assert clean == poisoned


def folds(model: nd.Model, panel: str, fill: str, poisoned: bool, **options: Any) -> pl.DataFrame:
    """The forecasts of the first of two folds; its horizon ends where the poison begins."""
    cut = ROWS - model.h
    found = nd.cross_validation(
        [model],
        table(panel, fill, poisoned, cut),
        config=config(validation_split=0.2),
        n_windows=2,
        short="pad",
        **options,
    ).frame
    first = found["cutoff"].min()
    return found.filter(pl.col("cutoff") == first).drop("y")


def assert_same_fold(model: nd.Model, panel: str, fill: str, **options: Any) -> None:
    clean, poisoned = (folds(model, panel, fill, bad, **options) for bad in (False, True))
    assert clean.height
    assert clean.equals(poisoned)


def mlp(**fields: Any) -> nd.Model:
    return nd.MLP(h=H, input_size=24, hidden_size=8, **fields)


def example(kind: str) -> nd.Model:
    model = model_examples(MODELS[kind])[0]
    # A hierarchy is one of the table's own series: here the others are the parts of the first.
    parts = {"series-0": [1, 1], "series-1": [1, 0], "series-2": [0, 1]}
    return model.replace(S=parts) if isinstance(model, nd.HINT) else model


@pytest.mark.parametrize("kind", MODELS)
def test_no_model_sees_what_comes_after_the_cut(kind):
    model = example(kind)
    assert_same_training(model, "even", "mask", config())
    assert_same_fold(model, "even", "linear")


@pytest.mark.parametrize("panel", PANELS)
@pytest.mark.parametrize("fill", FILLS)
def test_no_fill_reaches_across_the_cut(fill, panel):
    assert_same_training(mlp(), panel, fill, config())
    assert_same_fold(mlp(), panel, fill)


@pytest.mark.parametrize("anchor", ANCHORS)
def test_no_anchor_is_chosen_by_later_rows(anchor):
    assert_same_training(mlp(anchor=anchor), "even", "mask", config())
    assert_same_fold(mlp(anchor=anchor), "uneven", "linear")


@pytest.mark.parametrize("curriculum", [nd.GrowingHorizon(), nd.EasySeriesFirst(start=0.4)], ids=lambda item: item.kind)
@pytest.mark.parametrize("panel", PANELS)
def test_no_curriculum_is_ordered_by_later_rows(curriculum, panel):
    for fill in ("mask", "linear"):
        assert_same_training(mlp(), panel, fill, config(curriculum=curriculum))


def heavy(time: Any, value: Any) -> Any:
    """A weight that depends on the value of the row."""
    return 1.0 + np.abs(np.nan_to_num(value))


@pytest.mark.parametrize(
    "loss",
    [
        nd.Weighted(loss=nd.MAE(), by="column"),
        nd.Weighted(loss=nd.MAE(), by="recency", half_life=9),
        nd.Weighted(loss=nd.MAE(), by=heavy),
    ],
    ids=["column", "recency", "function"],
)
@pytest.mark.parametrize("panel", PANELS)
def test_no_weight_is_computed_from_later_rows(loss, panel):
    assert_same_training(mlp(), panel, "mask", config(loss=loss))


@pytest.mark.parametrize("scaler", ["standard", "robust", "minmax", "boxcox"])
def test_no_local_scaler_measures_later_rows(scaler):
    assert_same_training(mlp(), "even", "mask", config(), local_scaler=scaler)
    assert_same_fold(mlp(), "uneven", "linear", local_scaler=scaler)


@pytest.mark.parametrize("method", ["conformal_error", "conformal_distribution"])
def test_no_interval_is_measured_on_later_rows(method):
    intervals = nd.PredictionIntervals(n_windows=2, method=method)
    assert_same_fold(mlp(), "even", "mean", prediction_intervals=intervals, level=[80])


@pytest.mark.parametrize("method", ["weighted", "greedy"])
def test_no_ensemble_is_weighted_by_later_rows(method):
    """The members end before the cut, and so do the rows that decide their weights."""

    def weights(poisoned: bool) -> tuple[float, ...]:
        known = table("even", "linear", poisoned).head(CUT)
        members = [
            model.fit(known, config(validation_split=0.2)) for model in (mlp(), mlp(alias="other", anchor="last"))
        ]
        return tuple(nd.ensemble(members, method).weights)

    assert weights(False) == weights(True)


@pytest.mark.stress
def test_leaks_in_all_combinations():
    """Every fill × anchor × curriculum × local scaler × panel."""
    curricula = (None, nd.GrowingHorizon(), nd.EasySeriesFirst(start=0.4))
    for fill, anchor, curriculum, scaler, panel in product(FILLS, ANCHORS, curricula, (None, "standard"), PANELS):
        options = {} if scaler is None else {"local_scaler": scaler}
        assert_same_training(mlp(anchor=anchor), panel, fill, config(curriculum=curriculum), **options)


@pytest.mark.stress
@pytest.mark.parametrize("kind", MODELS)
def test_leaks_of_every_model_with_every_fill(kind):
    model = example(kind)
    for fill in FILLS:
        assert_same_training(model, "even", fill, config())
        assert_same_fold(model, "even", fill)
