"""Categories that a model was not trained on: said, or refused by the policy, in whatever form a table comes."""

import logging
from datetime import datetime, timedelta

import polars as pl
import pytest

import neuro_divergent as nd

FAST = nd.TrainingConfig(max_steps=2, progress=False)
MODEL = nd.NHITS(h=4, input_size=8, hidden_sizes=(8,))


def shop(last, rows=60, begin=0):
    days = [datetime(2024, 1, 1) + timedelta(days=begin + day) for day in range(rows)]
    kinds = ["none", "sale"] * (rows // 2 - 1) + ["none", last]
    return pl.DataFrame({"unique_id": "a", "ds": days, "y": [float(day % 7) for day in range(rows)], "kind": kinds})


def columns(policy):
    return {"historical": ["kind"], "categorical": ["kind"], "unknown_categories": policy}


@pytest.mark.parametrize("read", [False, True], ids=["frame", "table"])
def test_a_category_that_the_model_does_not_know_is_said(read, caplog):
    fitted = MODEL.fit(shop("sale"), FAST, **columns("keep"))
    new = nd.TimeSeriesDataFrame.from_frame(shop("SALE"), **columns("keep")) if read else shop("SALE")
    with caplog.at_level(logging.WARNING):
        fitted.predict(new)
    assert "column 'kind' must hold" in caplog.text
    assert "'SALE'" in caplog.text
    caplog.clear()
    if read:
        plain = nd.NLinear(h=4, input_size=8).fit(shop("sale"), FAST, **columns("keep"))  # which takes no categories
        caplog.clear()
        plain.predict(new)
        assert not caplog.records
        fitted.fine_tune(new, FAST)
        assert "'SALE'" in caplog.text


@pytest.mark.parametrize("read", [False, True], ids=["frame", "table"])
def test_a_category_that_the_model_does_not_know_is_refused_by_the_policy(read):
    fitted = MODEL.fit(shop("sale"), FAST, **columns("error"))
    new = nd.TimeSeriesDataFrame.from_frame(shop("SALE"), **columns("error")) if read else shop("SALE")
    with pytest.raises(nd.DataError, match=r"column 'kind' must hold .* but got 'SALE'"):
        fitted.predict(new)


def test_a_category_after_the_training_rows_does_not_forbid_an_update():
    """It is in the first table, so the policy lets it in; what the model does not know of it is no empty cell."""
    fitted = MODEL.fit(shop("SALE"), FAST, **columns("error"))
    fitted.update(shop("sale", rows=10, begin=60))
    assert len(fitted.data) == 70
    assert fitted.data.schema.unknown_categories == "error"
