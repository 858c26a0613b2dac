"""What a saved model notes of the rows that it was trained on: read back, or refused when it is loaded."""

from datetime import datetime, timedelta

import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.fit.training_rows import trained_rows

DAYS = [datetime(2024, 1, 1) + timedelta(days=day) for day in range(40)]
FRAME = pl.concat(
    [pl.DataFrame({"unique_id": name, "ds": DAYS, "y": [float(d % 7) for d in range(40)]}) for name in "ab"]
)


@pytest.fixture(scope="module")
def fitted():
    config = nd.TrainingConfig(max_steps=2, progress=False, validation_split=0.2)
    return nd.NLinear(h=4, input_size=8).fit(FRAME, config)


@pytest.mark.parametrize(
    "event",
    [
        {"event": "held_out"},
        {"event": "validation_given", "rows": 3},
        {"event": "held_out", "rows": ["x", "y"], "how": "series", "time": None},
        {"event": "held_out", "rows": [8, -8], "how": "series", "time": None},
        {"event": "held_out", "rows": [8, 10**9], "how": "series", "time": None},
        {"event": "held_out", "rows": [8, 8], "how": [], "time": None},
        {"event": "held_out", "rows": [8, 8], "how": "date", "time": "foo"},
        {"event": "held_out", "rows": [8, 8], "how": "date", "time": "NaT"},
        {"event": "held_out", "rows": [8, 8], "how": "date", "time": None},
        {"event": "trained_before"},
        {"event": "trained_before", "ids": [["a"]], "until": [1], "dates": True},
        {"event": "trained_before", "ids": ["a"], "until": ["x"], "dates": True},
        {"event": "trained_before", "ids": ["a"], "until": [], "dates": True},
        {"event": "trained_before", "ids": ["a"], "until": [10**30], "dates": True},
    ],
    ids=str,
)
def test_a_note_that_cannot_be_read_is_refused_when_the_model_is_loaded(fitted, event, tmp_path):
    kept = list(fitted.history.events)
    fitted.history.events[:] = [event]
    try:
        fitted.save(tmp_path / "model")
    finally:
        fitted.history.events[:] = kept
    with pytest.raises(nd.CorruptFileError):
        nd.load(tmp_path / "model")


def test_a_model_that_was_saved_still_says_what_it_was_validated_on(fitted, tmp_path):
    """A fifth of 40 days are the last 8: from the 2nd of February on (31 days of January and 1)."""
    tuned = fitted.fine_tune(FRAME)
    for number, model in enumerate((fitted, tuned)):
        model.save(tmp_path / str(number))
        assert "validated on the rows from 2024-02-02 00:00:00 on" in repr(nd.load(tmp_path / str(number)))


def test_an_update_says_what_it_was_validated_on(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    later = FRAME.with_columns(pl.col("ds") + timedelta(days=40))
    config = nd.TrainingConfig(max_steps=2, progress=False, validation_split=0.2)
    updated = nd.load(tmp_path / "model").update(later, config)
    assert "validated on the last rows of the update" in repr(updated)


def test_the_rows_of_an_update_count_as_trained_on_without_a_context_too(fitted, tmp_path):
    """Days 0 to 39 were the first table, 40 to 79 those of the update: all 80 are known."""
    fitted.save(tmp_path / "model", context=False)
    later = FRAME.with_columns(pl.col("ds") + timedelta(days=40))
    model = nd.load(tmp_path / "model")
    whole = nd.TimeSeriesDataFrame.from_frame(pl.concat([FRAME, later]))
    assert model.data.to_polars()["y"].to_list() == [None, None]  # no value was kept, and none is made up
    assert trained_rows(model, whole).tolist() == [40, 40]
    assert trained_rows(model.update(later), whole).tolist() == [80, 80]
