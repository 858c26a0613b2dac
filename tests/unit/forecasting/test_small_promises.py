"""Small cases that once gave a wrong number or a puzzling sentence."""

import os
from datetime import date, timedelta

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd

FAST = nd.TrainingConfig(max_steps=3, progress=False, validation_split=None)
MODEL = nd.DLinear(h=2, input_size=4)


def daily(rows, first=0, level=10.0):
    days = [date(2024, 1, 1) + timedelta(days=first + day) for day in range(rows)]
    return pl.DataFrame({"unique_id": "a", "ds": days, "y": [level + day % 7 for day in range(first, first + rows)]})


@pytest.fixture(scope="module")
def fitted():
    return MODEL.fit(daily(60), FAST)


def test_a_link_to_a_model_is_named_with_its_target(fitted, tmp_path):
    fitted.save(tmp_path / "model")
    (tmp_path / "current").symlink_to("model")
    with pytest.raises(nd.StorageError, match=r"current must be .* but is a link to ") as refused:
        nd.load(tmp_path / "current")
    assert os.path.realpath(tmp_path / "model") in str(refused.value)


def test_a_splitter_that_repeats_positions_is_refused():
    """Position 7 twice: a bootstrap sample, sorted, looks like consecutive positions."""
    pairs = [(np.arange(40), [40, 41, 41])]
    with pytest.raises(nd.ConfigError, match="the test positions of fold 0 repeat 41"):
        nd.cross_validation(MODEL, daily(60), FAST, splitter=pairs)
    with pytest.raises(nd.ConfigError, match="the training positions of fold 0 repeat 7"):
        nd.cross_validation(MODEL, daily(60), FAST, splitter=[([5, 6, 7, 7, 8], [9, 10])])


def test_a_model_without_context_is_updated_with_the_new_rows_alone(fitted, tmp_path):
    """The rows of the update are the table; the name that was kept of each series has no value to learn from."""
    fitted.save(tmp_path / "bare", context=False)
    bare = nd.load(tmp_path / "bare")
    bare.update(daily(20, first=60))
    assert len(bare.data) == 20
    assert bare.data.times(0, 0, 1)[0] == date(2024, 3, 1)  # day 60 of a leap year
    assert bare.predict()["ds"][0] == date(2024, 3, 21)
    other = nd.load(tmp_path / "bare").fine_tune(daily(20, first=60), fitted.config.replace(max_steps=3))
    assert other.predict()["DLinear"].is_finite().all()


def test_a_table_to_fine_tune_on_keeps_the_scale_of_the_feature_time():
    """Read with the model's span: as a frame and as a table it is the same training."""
    read = {"features": ["time"]}
    model = nd.MLP(h=2, input_size=4, hidden_size=4)
    own = model.fit(daily(60), FAST, **read)
    frame = daily(40, first=100, level=20.0)
    by_frame, by_table = own.fine_tune(frame), own.fine_tune(nd.TimeSeriesDataFrame.from_frame(frame, **read))
    assert by_frame.history.step_loss == by_table.history.step_loss
    assert by_frame.predict().equals(by_table.predict())


def test_the_share_that_was_held_out_is_the_one_that_is_named():
    """A tenth of 30 rows is 3, but a horizon of 12 needs 12: 40 %."""
    frame = daily(30).with_columns(ds=pl.int_range(30))  # whole numbers: each series is split at its own end
    config = FAST.replace(validation_split=0.1, split_by="series")
    long = nd.DLinear(h=12, input_size=4).fit(frame, config)
    assert "the last 40 % of the rows" in repr(long)
