"""Mistakes of somebody who comes from another library: each ends in one sentence that says what to write."""

import logging

import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.predict.conformal import PredictionIntervals

FAST = nd.TrainingConfig(max_steps=2, progress=False)
MODEL = nd.DLinear(h=4, input_size=12)


@pytest.fixture(scope="module")
def panel():
    return nd.samples.hourly_panel(2, 120)


@pytest.fixture(scope="module")
def fitted(panel):
    return MODEL.fit(panel, FAST)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"max_epochs": 3}, r"no argument 'max_epochs'; write fit\(data, nd.TrainingConfig\(max_epochs=3\)\)"),
        ({"val_size": 3}, r"no argument 'val_size'; write fit\(data, nd.TrainingConfig\(validation_split=0\.2\)\)"),
        ({"dropout": 0.1}, r"it is a field of the model: write nd.MLP\(h=12, input_size=24, dropout=0.1\)"),
        ({"futr_exog_list": ["price"]}, r"write future=\['price'\]"),
        ({"target": "y"}, "no argument 'target'; did you mean target_col"),
        ({"prediction_intervals": True}, r"settings such as PredictionIntervals\(n_windows=20\)"),
        ({"config": {"max_steps": 3, "lr": 0.1}}, r"got dict. Write fit\(data, nd.TrainingConfig\(max_steps=3, lea"),
        ({"config": 5}, r"config must be a TrainingConfig, but got int. Write fit\(data, nd.TrainingConfig\(max_ep"),
        ({"resume": True}, 'resume must be "auto", a path or None, but got resume=True'),
        ({"missing": "ffill"}, "missing must be 'mask', 'error', 'forward', .* or 'zero', but got missing='ffill'$"),
    ],
)
def test_arguments_of_fit(panel, arguments, sentence):
    with pytest.raises(nd.ConfigError, match=sentence):
        MODEL.fit(panel, **arguments)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: nd.DLinear(h=4, input_size=12, max_steps=9),
            r"write model.fit\(data, nd.TrainingConfig\(max_steps=9",
        ),
        (lambda: nd.TrainingConfig(checkpoints=3), "checkpoints must be an object of the class Checkpoints"),
        (lambda: nd.MAE(point="mean"), "MAE has no field 'point'; it has no fields"),
        (lambda: nd.TimeSeriesSplit(test_size=1.0), "steps, a share between 0 and 1, or None, but got test_size=1.0"),
        (lambda: nd.TimeSeriesSplit(window="sliding"), "or \"expanding\", but got window='sliding'$"),
    ],
)
def test_fields(make, sentence):
    with pytest.raises(nd.ConfigError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"n_splits": 3}, r"it is a field: TimeSeriesSplit\(n_splits=3\)"),
        ({"refit": "yes"}, "refit must be True, False or a number"),
        ({"splitter": [range(50)]}, r"pairs \(training positions, test positions\)"),
        ({"splitter": [(range(100), range(110, 130))]}, "positions go from 0 to 119 .* fold 0 has 110 to 129"),
    ],
)
def test_arguments_of_cross_validation(panel, arguments, sentence):
    with pytest.raises(nd.ConfigError, match=sentence):
        nd.cross_validation(MODEL, panel, config=FAST, **arguments)


def test_one_model_and_one_metric_need_no_list(panel):
    found = nd.cross_validation(MODEL, panel, config=FAST, metrics="mae")
    assert found.scores["metric"].unique().to_list() == ["mae"]
    assert repr(found).startswith("CrossValidation(1 fold)\n")


def test_members_and_teachers_are_fitted(panel, fitted):
    with pytest.raises(nd.ConfigError, match=r"members of an ensemble must be fitted models.* got DLinear"):
        nd.ensemble([MODEL, fitted])
    for teacher, student in ((MODEL, MODEL), (MODEL, fitted), (nd.ensemble([fitted]), MODEL)):
        with pytest.raises(nd.ConfigError, match="the teacher must be one fitted model"):
            nd.distill(teacher, student, panel, FAST)


def test_intervals_of_a_quantile_loss_are_not_measured(panel, caplog):
    config = FAST.replace(loss=nd.MQLoss(level=[80]))
    with caplog.at_level(logging.WARNING):
        learned = MODEL.fit(panel, config, prediction_intervals=PredictionIntervals())
    assert "prediction_intervals are not used: MQLoss already has intervals" in caplog.text
    assert learned.predict().equals(MODEL.fit(panel, config).predict())
    with pytest.raises(nd.ConfigError, match=r"MQLoss has intervals of its own.*calibrate\(data\)"):
        learned.calibrate(panel, PredictionIntervals())
    with pytest.raises(nd.ConfigError, match=r"point must be .*, but got point='avg'"):
        learned.point = "avg"


def test_intervals_with_too_few_windows_are_said_once(panel, caplog):
    """Four scores have none at rank 5·c for c of 85 % and more."""
    data = nd.TimeSeriesDataFrame.from_frame(panel)
    measured = MODEL.fit(data.drop_last(8), FAST, prediction_intervals=PredictionIntervals(n_windows=2))
    with caplog.at_level(logging.WARNING):
        measured.predict(level=[50, 85, 90, 95])
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == 1
    assert said[0].startswith("4 windows are too few for intervals of 85 % and more")


def test_one_answer_for_short_series_holds_for_both_lengths(panel):
    brief = panel.filter(pl.col("unique_id") == "series-00").head(8).with_columns(unique_id=pl.lit("brief"))
    both = pl.concat([panel, brief])
    with pytest.raises(nd.DataError, match="at least 30 rows, but 1 is shorter: 'brief'"):
        MODEL.fit(both, FAST, min_length=30)
    assert MODEL.fit(both, FAST, min_length=30, short="drop").data.n_series == 2
    assert MODEL.fit(both, FAST, min_length=30, short="pad").data.n_series == 3


def test_validation_rows_that_hold_no_window_are_said(panel, caplog):
    data = nd.TimeSeriesDataFrame.from_frame(panel)
    with caplog.at_level(logging.WARNING):
        MODEL.fit(data.drop_last(3), FAST, validation=data.tail(3))
    assert "no series has the 4 held-out rows" in caplog.text


def test_filled_targets_come_to_pandas_too():
    gap = pl.DataFrame({"ds": range(4), "y": [1.0, None, 3.0, 4.0]})
    filled = nd.TimeSeriesDataFrame.from_frame(gap, missing="linear")
    assert filled.to_pandas(filled=True)["y"].tolist() == [1.0, 2.0, 3.0, 4.0]


@pytest.mark.parametrize("name", ["predict", "save", "evaluate", "cross_validation", "history", "plot"])
def test_what_only_a_fitted_model_has_is_answered_with_fit(name):
    model = nd.MLP(h=2, input_size=4)
    assert not hasattr(model, name)  # tools that ask are not misled
    assert getattr(model, name, None) is None
    with pytest.raises(nd.NotFittedError, match=r"fitted = model\.fit\(data\), then fitted\." + name):
        getattr(model, name)
    with pytest.raises(AttributeError, match="has no attribute 'predicts'"):
        model.predicts  # noqa: B018


def test_a_description_answers_for_what_its_forecaster_has():
    missing = {name for name in vars(nd.Forecaster) if not name.startswith("_") and callable(vars(nd.Forecaster)[name])}
    for name in missing - {"begin_lineage", "get_missing_future", "load"}:
        with pytest.raises(nd.NotFittedError):
            getattr(nd.MLP(h=2, input_size=4), name)


DAILY = nd.TrainingConfig(max_steps=2, loss=nd.MQLoss(level=80), progress=False)


def test_one_level_needs_no_list(tmp_path):
    assert nd.MQLoss(level=80) == nd.MQLoss(level=[80])
    assert nd.MQLoss(quantiles=0.5) == nd.MQLoss(quantiles=[0.5])
    assert nd.MultiStepDecay(milestones=5) == nd.MultiStepDecay(milestones=[5])
    group = nd.ParameterGroup(pattern="*.bias")
    assert nd.AdamW(groups=group) == nd.AdamW(groups=[group])
    data, model = nd.samples.air_passengers(), nd.MLP(h=2, input_size=4, hidden_size=4)
    fitted = model.fit(data, DAILY)
    ensemble = nd.Ensemble([fitted])
    for predict in (fitted.predict, fitted.predictor().predict, ensemble.predict):
        assert predict(level=80).equals(predict(level=[80]))
        assert predict(quantiles=0.5).equals(predict(quantiles=[0.5]))
    one = nd.cross_validation(model, data, DAILY, level=80)
    assert one.table.equals(nd.cross_validation(model, data, DAILY, level=[80]).table)
    assert fitted.plot(level=80) is not None
    with pytest.raises(nd.ConfigError, match="Did you mean 80"):
        nd.MQLoss(level=0.8)
