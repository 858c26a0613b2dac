"""Frames come back in the library of the table that came in, from every public method that gives some."""

import inspect

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import neuro_divergent as nd
from neuro_divergent.compat import neuralforecast as compat
from neuro_divergent.compat.neuralforecast import models as compat_models

H, ROWS = 2, 30
CONFIG = nd.TrainingConfig(max_steps=1, progress=False)
LIBRARIES = {
    "polars": (lambda frame: frame, pl.DataFrame),
    "lazy": (lambda frame: frame.lazy(), pl.DataFrame),
    "pandas": (lambda frame: frame.to_pandas(), pd.DataFrame),
    "pandas index": (lambda frame: frame.to_pandas().set_index("unique_id"), pd.DataFrame),
    "pyarrow": (lambda frame: frame.to_arrow(), pa.Table),
    "dict": (lambda frame: frame.to_dict(as_series=False), dict),
}


def rows(first=0, count=ROWS):
    steps = np.arange(first, first + count)
    ids = ["a"] * count + ["b"] * count
    values = np.concatenate([np.sin(steps), 2 + np.cos(steps)]).astype(np.float32)
    return pl.DataFrame({"unique_id": ids, "ds": [*steps, *steps], "price": np.ones(2 * count), "y": values})


@pytest.fixture(params=LIBRARIES)
def library(request):
    return LIBRARIES[request.param]


def columns_of(frame):
    return list(frame) if isinstance(frame, dict) else list(getattr(frame, "column_names", None) or frame.columns)


def of_forecaster(fitted, give):
    """What each method of a Forecaster gives that is a frame."""
    table, ahead = give(rows()), give(rows(ROWS, H).drop("y"))
    options = {"future": ahead}
    checked, folds = fitted.evaluate(table), fitted.cross_validation(table, n_windows=1)
    explained = fitted.explain(table, **options)
    yield "predict", fitted.predict(**options), fitted.predict(table, **options, level=[80])
    yield "predict_insample", fitted.predict_insample(step_size=4)
    yield "evaluate", checked.overall, checked.by_series, checked.by_step, checked.frame
    yield "cross_validation", folds.frame, folds.scores, folds.by_fold, folds.evaluation.overall
    yield "simulate", fitted.simulate(n_paths=2, **options), fitted.simulate(table, n_paths=2, **options)
    yield "explain", explained.frame, explained.importance()
    yield "make_future_dataframe", fitted.make_future_dataframe(), fitted.make_future_dataframe(table)
    yield "get_missing_future", fitted.get_missing_future(ahead), fitted.get_missing_future(ahead, table)


NO_FRAMES = {
    *("fit", "fitted", "save", "load", "plot", "h", "data", "table", "from_forecasters", "models", "config"),
    *("calibrate", "columns", "finished", "forecast_values", "forward", "in_own_codes", "load_weights", "loss"),
    *("begin_lineage", "fine_tune", "lineage", "long_frame", "network", "network_columns", "outputs", "point"),
    *("num_parameters", "num_trainable_parameters", "num_frozen_parameters", "predictor"),
    *("forecast_frame", "mean_change", "output_dtype", "reader", "scaling", "seed"),
    *("architecture", "export", "gradient_report"),
    *("prepared", "save_weights", "say_unknown", "update", "warn_once", "windows"),
}
"""Public names of a Forecaster and of a NeuralForecast that give no frame, or one for the library itself."""


@pytest.fixture(scope="module")
def trained():
    """A forecaster for each library, with a column known ahead and intervals."""
    loss = nd.MQLoss(level=[80])
    model = nd.MLP(h=H, input_size=4, hidden_size=4)
    return {
        name: model.fit(give(rows()), CONFIG.replace(loss=loss), future=["price"])
        for name, (give, _) in LIBRARIES.items()
    }


def check(kind, found):
    assert found
    for name, *frames in found:
        for frame in frames:
            assert type(frame) is kind, name
            if kind is pd.DataFrame:  # everything is a column, rows are counted
                assert frame.index.equals(pd.RangeIndex(len(frame))), name
                assert frame.columns.dtype == pd.Index(["a"]).dtype, name


@pytest.mark.parametrize("name", LIBRARIES)
def test_every_method_of_a_forecaster(trained, name, tmp_path):
    give, kind = LIBRARIES[name]
    found = list(of_forecaster(trained[name], give))
    check(kind, found)
    assert columns_of(found[0][1])[:2] == ["unique_id", "ds"]
    public = {n for n, _ in inspect.getmembers(nd.Forecaster) if not n.startswith("_")}
    assert public - NO_FRAMES == {name for name, *_ in found}
    trained[name].save(tmp_path / "model")
    ahead = give(rows(ROWS, H).drop("y"))
    check(kind, [("after loading", nd.load(tmp_path / "model").predict(future=ahead))])


def test_the_table_of_a_call_decides_over_the_one_of_the_training(trained, library):
    give, kind = library
    fitted, ahead = trained["polars"], rows(ROWS, H)
    check(kind, [("predict", fitted.predict(give(rows()), future=ahead))])
    check(kind, [("evaluate", fitted.evaluate(give(rows())).frame)])


def test_every_method_of_several_models(library):
    give, kind = library
    table = give(rows().drop("price"))
    several = nd.NeuralForecast([nd.MLP(h=H, input_size=4, hidden_size=4), nd.DLinear(h=H, input_size=4)])
    config = CONFIG.replace(loss=nd.MQLoss(level=[80]))
    several.fit(table, config)
    ahead = give(rows(ROWS, H).select("unique_id", "ds"))
    checked, folds = several.evaluate(table), several.cross_validation(table, config, n_windows=1)
    found = [
        ("predict", several.predict(), several.predict(table)),
        ("predict_insample", several.predict_insample(step_size=4)),
        ("evaluate", checked.overall, checked.by_series, checked.by_step, checked.frame),
        ("cross_validation", folds.frame, folds.scores, folds.by_fold),
        ("simulate", several.simulate(n_paths=2)),
        ("explain", *(one.frame for one in several.explain().values())),
        ("make_future_dataframe", several.make_future_dataframe()),
        ("get_missing_future", several.get_missing_future(ahead)),
    ]
    check(kind, found)
    public = {n for n, _ in inspect.getmembers(nd.NeuralForecast) if not n.startswith("_")}
    assert public - NO_FRAMES == {name for name, *_ in found}
    joined = nd.ensemble([several["MLP"], several["DLinear"]])
    check(kind, [("ensemble", joined.predict(), joined.predict(table))])
    updated = several["MLP"].update(give(rows(ROWS, 4).drop("price")))
    tuned = updated.fine_tune(table, config)
    check(kind, [("update", updated.predict()), ("fine_tune", tuned.predict())])


def test_categories_that_the_training_did_not_have(library):
    give, kind = library
    colour = pl.when(pl.col("ds") >= ROWS - 4).then(pl.lit("blue")).when(pl.col("ds") % 2 == 0).then(pl.lit("red"))
    named = rows().with_columns(colour.otherwise(pl.lit("green")).alias("c"))
    model = nd.TFT(h=H, input_size=4, hidden_size=4)
    fitted = model.fit(give(named.drop("price").filter(pl.col("ds") < ROWS - 4)), CONFIG, categorical=["c"])
    ahead = rows(ROWS, H).select("unique_id", "ds", pl.lit("blue").alias("c"))
    check(kind, [("predict", fitted.predict(give(named.drop("price")), future=give(ahead)))])


def test_parts_of_a_forecast(library):
    give, kind = library
    fitted = nd.NBEATS(h=H, input_size=6, stacks=["trend"], blocks=[1], hidden_sizes=[4]).fit(
        give(rows().drop("price")), CONFIG
    )
    check(kind, [("decomposition", fitted.explain(method="decomposition").frame)])


def test_the_hierarchy_and_the_other_interface(library):
    give, kind = library
    if kind is not dict:
        parts = rows().drop("price").rename({"unique_id": "shop"})
        frame = nd.aggregate(give(parts) if kind is not pd.DataFrame else parts.to_pandas(), [[], ["shop"]])[0]
        check(kind, [("aggregate", frame)])
    if kind not in (dict, pa.Table) and not isinstance(give(rows()), pl.LazyFrame):
        theirs = compat.NeuralForecast([compat_models.MLP(h=H, input_size=4, max_steps=1, hidden_size=4)], freq=1)
        theirs.fit(give(rows().drop("price")))
        check(kind, [("compat", theirs.predict(), theirs.cross_validation(n_windows=1, refit=True))])
