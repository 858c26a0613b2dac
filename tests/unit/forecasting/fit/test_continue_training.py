"""Updates: later rows joined to the table of a model, which may have kept only its end."""

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.data.store.fills import shown_rows

FAST = nd.TrainingConfig(max_steps=3, progress=False, validation_split=None)
MODEL = nd.DLinear(h=6, input_size=24)


def wave(name="a", rows=210):
    return pl.DataFrame({"unique_id": [name] * rows, "ds": range(rows), "y": np.sin(np.arange(rows) / 3) + 2})


def flat_since(row, name="flat", rows=210):
    return wave(name, rows).with_columns(y=pl.when(pl.col("ds") >= row).then(7.0).otherwise(pl.col("y")))


def early(rows):
    return rows.filter(pl.col("ds") < 200)


def late(rows):
    return rows.filter(pl.col("ds") >= 200)


@pytest.fixture(params=["in memory", "loaded"])
def fit(request, tmp_path):
    """Fit on the early rows; the loaded model has kept the last 24 of them."""

    def fitted(rows, **options):
        model = MODEL.fit(nd.TimeSeriesDataFrame.from_frame(rows, freq=1, **options), FAST)
        if request.param == "in memory":
            return model
        model.save(tmp_path / "m")
        return nd.load(tmp_path / "m")

    return fitted


def test_a_table_of_which_the_end_was_kept_is_not_too_short(fit):
    fitted = fit(early(wave()), min_length=100).update(late(wave()))
    assert fitted.predict()["ds"].to_list() == [210, 211, 212, 213, 214, 215]
    assert fitted.data.schema.min_length == 100


@pytest.mark.parametrize("policy", ["drop", "error"])
def test_a_series_that_was_kept_stays_although_its_end_is_flat(fit, policy):
    rows = pl.concat([wave(), flat_since(150)])
    fitted = fit(early(rows), constant=policy).update(late(rows))
    assert fitted.data.ids.tolist() == ["a", "flat"]
    assert fitted.predict()["unique_id"].unique().sort().to_list() == ["a", "flat"]
    assert fitted.data.schema.constant == policy


def test_a_series_that_was_kept_stays_although_its_end_was_not_observed(fit):
    rows = pl.concat([wave(), wave("silent").with_columns(y=pl.when(pl.col("ds") < 170).then(pl.col("y")))])
    fitted = fit(early(rows), all_missing="drop").update(late(rows))
    assert fitted.data.ids.tolist() == ["a", "silent"]


def test_empty_targets_are_filled_as_asked_and_masked_gaps_stay_masked(fit):
    """Row 190 is absent and masked, rows 195 and 205 are empty and become 0: in the fit, in the update, and in what
    is read after it."""
    rows = wave().with_columns(y=pl.when(~pl.col("ds").is_in([195, 205])).then(pl.col("y")))
    rows = rows.filter(pl.col("ds") != 190)
    fitted = fit(early(rows), missing="zero").update(late(rows))
    store, last = fitted.data.store, len(fitted.data)
    assert np.flatnonzero(~shown_rows(store)).tolist() == [last - 20]  # row 190 of 210
    assert np.flatnonzero(~store.mask).tolist() == [last - 20, last - 15, last - 5]
    assert np.flatnonzero(store.y == 0).tolist() == [last - 20, last - 15, last - 5]
    assert fitted.data.schema.missing == "zero"
    again = fitted.table(wave().with_columns(y=pl.when(pl.col("ds") != 7).then(pl.col("y"))))
    assert shown_rows(again.store) is None
    assert again.store.y[7] == 0


def test_a_gap_at_the_end_is_filled_from_both_sides_once_an_update_closes_it(fit):
    """By hand: row 197 is 197, rows 198 to 201 are empty, row 202 is 202; between them lies a line."""
    empty = pl.col("ds").is_between(198, 201)
    rows = wave().with_columns(y=pl.when(~empty).then(pl.col("ds").cast(pl.Float64)))
    fitted = fit(early(rows), missing="linear")
    assert fitted.data.to_polars(filled=True)["y"][-3:].to_list() == [197, 197, 197]
    fitted.update(late(rows))
    assert fitted.data.to_polars(filled=True)["y"][-13:].to_list() == list(range(197, 210))
    assert fitted.data.to_polars()["y"][-13:].null_count() == 4


def test_a_gap_is_no_missing_target_in_an_update(fit):
    fitted = fit(early(wave()).filter(pl.col("ds") != 190), missing="error").update(late(wave()))
    assert fitted.predict()["ds"].to_list() == [210, 211, 212, 213, 214, 215]
    assert fitted.data.schema.missing == "error"


def test_new_series_are_judged_as_the_fit_judged_its_own(fit):
    known, brief = wave(), late(wave("brief"))
    fitted = fit(early(known), constant="drop", min_length=100, short="drop")
    fitted.update(pl.concat([late(known), flat_since(0), brief, wave("new", 120)]))
    assert fitted.data.ids.tolist() == ["a", "new"]
    assert fitted.data.report().dropped_series == ("flat", "brief")
    assert fitted.data.report().n_series == 2


def test_new_series_that_the_fit_would_refuse_are_refused(fit):
    fitted = fit(early(wave()), constant="error", min_length=100)
    with pytest.raises(nd.DataError, match="at least 100 rows, but 1 is shorter: 'brief'"):
        fitted.update(pl.concat([late(wave()), late(wave("brief"))]))
    with pytest.raises(nd.DataError, match="got 1 that do not: 'flat'"):
        fitted.update(pl.concat([late(wave()), flat_since(0)]))


def test_new_series_that_are_short_are_padded_if_asked(fit):
    """By hand: 10 rows of the new series get 40 masked ones in front; the known one is not padded."""
    fitted = fit(early(wave()), min_length=50, short="pad")
    before = len(fitted.data)
    fitted.update(pl.concat([late(wave()), late(wave("brief"))]))
    assert fitted.data.store.lengths.tolist() == [before + 10, 50]
    assert np.flatnonzero(~fitted.data.store.mask).tolist() == [before + 10 + row for row in range(40)]
