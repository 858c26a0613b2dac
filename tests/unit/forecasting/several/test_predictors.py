"""`NeuralForecast.predictor()` and `Ensemble.predictor()`: the numbers of `predict`, new rows, several threads."""

from concurrent.futures import ThreadPoolExecutor

import polars as pl
import pytest

import neuro_divergent as nd

FAST = nd.TrainingConfig(max_steps=3, progress=False, validation_split=None, loss=nd.MQLoss(level=80))
MODELS = [nd.MLP(h=4, input_size=12, hidden_size=8), nd.DLinear(h=5, input_size=24)]


def panel(rows):
    frame = nd.samples.hourly_panel(3, 200)
    frame = frame.upsample("ds", every="1h", group_by="unique_id", maintain_order=True).fill_null(strategy="forward")
    return frame.group_by("unique_id", maintain_order=True).head(rows)


def later(first, count=1):
    return panel(first + count).group_by("unique_id", maintain_order=True).tail(count)


@pytest.fixture(scope="module")
def nf():
    return nd.NeuralForecast(MODELS).fit(panel(60), FAST)


def ensembles(nf):
    members = list(nf.forecasters.values())
    return [nd.Ensemble(members, weights=[3, 1]), nd.Ensemble(members, method="median")]


def test_the_numbers_are_those_of_predict(nf):
    for several in (nf, *ensembles(nf)):
        predictor = several.predictor()
        assert predictor.h == 4
        for frame in (None, panel(40), panel(50).to_pandas()):
            for asked in ({}, {"level": 80}, {"quantiles": [0.2]}, {"h": 9}):
                expected, found = several.predict(frame, **asked), predictor.predict(frame, **asked)
                assert type(found) is type(expected)
                assert found.equals(expected)


def test_observed_rows_are_forecast_after_by_all_models_or_none(nf):
    for several in (nf, *ensembles(nf)):
        predictor = several.predictor()
        before = predictor.predict()
        rows = later(60, 3)
        for hour in rows["ds"].unique().sort():
            predictor.observe(rows.filter(pl.col("ds") == hour))
        assert predictor.predict().equals(several.predict(panel(63)))
        assert several.predict().equals(before)
        now = predictor.predict()
        with pytest.raises(nd.DataError, match="must come after the known rows"):
            predictor.observe(later(60))
        assert predictor.predict().equals(now)


def test_threads_never_see_one_model_before_and_another_after_new_rows(nf):
    """A frame of models with different ends would be refused, or be none of the frames that one thread sees."""
    predictor = nf.predictor()
    expected = [nf.predict(panel(60 + count)) for count in range(6)]

    def forecasts():
        return [predictor.predict() for _ in range(30)]

    with ThreadPoolExecutor(4) as pool:
        seen = [pool.submit(forecasts) for _ in range(3)]
        for count in range(5):
            predictor.observe(later(60 + count))
        found = [frame for work in seen for frame in work.result()]
    assert all(any(frame.equals(known) for known in expected) for frame in found)
    assert predictor.predict().equals(expected[-1])


def test_what_a_predictor_of_several_says_of_itself(nf):
    predictor = ensembles(nf)[0].predictor()
    assert predictor.num_bytes == sum(member.num_bytes for member in predictor.members)
    assert "MLP, DLinear: h=4" in repr(predictor)
    assert predictor.make_future_dataframe().height == 3 * 4


def test_a_cross_validation_is_trained_as_fit_was(nf):
    found = nf.cross_validation(panel(60), level=80)
    assert "coverage-80" in set(found.table["metric"])  # the recipe's MAE has no intervals
