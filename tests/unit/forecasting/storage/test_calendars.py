"""Saved, updated and judged models keep the time grid of their table.

The expected stamps are those of the uncut table, counted by pandas from its first stamp (`Timestamp + DateOffset`).
"""

import numpy as np
import pandas as pd
import polars as pl
import pytest
import safetensors.numpy
from polars.testing import assert_series_equal

import neuro_divergent as nd
from neuro_divergent.core import bundle

CONFIG = nd.TrainingConfig(max_steps=1, seed=0, validation_split=None)
ROWS, H = 26, 3
# freq, step, first stamp, zone, and an input_size with which the rows that a model keeps begin with a moved stamp
GRIDS = {
    "the 30th, from February": ("1mo", pd.DateOffset(months=1), "2023-01-30", None, 1),
    "midnight in Santiago": ("1d", pd.DateOffset(days=1), "2024-08-20", "America/Santiago", 7),
    "23:00 in Nuuk": ("1d", pd.DateOffset(days=1), "2024-03-10 23:00", "America/Nuuk", 6),
    "the 30th, every 2 months": ("2mo", pd.DateOffset(months=2), "2021-12-30", None, 7),
}


def case(name):
    """A table, all stamps of it and of what follows, and a model fitted on it."""
    freq, step, first, zone, input_size = GRIDS[name]
    begin = pd.Timestamp(first, tz=zone)
    counted = pd.DatetimeIndex([begin] + [begin + step * k for k in range(1, ROWS + 10)])
    stamps = pl.from_pandas(counted).dt.cast_time_unit("us").alias("ds")
    rows = pl.DataFrame({"unique_id": "a", "ds": stamps, "y": np.sin(np.arange(float(len(stamps))))})
    table = nd.TimeSeriesDataFrame.from_frame(rows[:ROWS], freq=freq)
    return rows, stamps, nd.MLP(h=H, input_size=input_size, hidden_size=4, layers=1).fit(table, CONFIG)


def equal(found, wanted):
    assert_series_equal(found, wanted, check_names=False)


@pytest.mark.parametrize("name", GRIDS)
def test_a_loaded_model_forecasts_the_stamps_of_the_whole_table(name, tmp_path):
    rows, stamps, fitted = case(name)
    fitted.save(tmp_path / "model")
    loaded = nd.load(tmp_path / "model")
    assert loaded.data.store.grid_anchor is not None, "the kept rows must begin with a moved stamp to show something"
    for model in (fitted, loaded):
        equal(model.predict()["ds"], stamps[ROWS : ROWS + H])
        equal(model.make_future_dataframe(h=8)["ds"], stamps[ROWS : ROWS + 8])
    loaded.update(rows[ROWS : ROWS + H], CONFIG)
    equal(loaded.predict()["ds"], stamps[ROWS + H : ROWS + 2 * H])
    # One row alone does not say which grid it is on; the model knows.
    fitted.save(tmp_path / "bare", context=False)
    equal(nd.load(tmp_path / "bare").predict(rows[ROWS - 1 : ROWS])["ds"], stamps[ROWS : ROWS + H])


@pytest.mark.parametrize("name", ["the 30th, from February", "midnight in Santiago"])
def test_past_forecasts_of_a_cut_table_have_its_stamps(name):
    _, stamps, fitted = case(name)
    moved = {"the 30th, from February": 13, "midnight in Santiago": 19}[name]
    cut = fitted.data.tail(ROWS - moved)
    equal(cut.times(0), stamps[moved:ROWS])
    model = nd.MLP(h=H, input_size=1, hidden_size=4, layers=1)
    frame = nd.NeuralForecast([model], freq=cut.freq).cross_validation(cut, n_windows=1, config=CONFIG).frame
    equal(frame["ds"], stamps[ROWS - H : ROWS])
    equal(frame["cutoff"], stamps[[ROWS - H - 1] * H])


def context_of(source, target, **arrays):
    """A copy of a saved model with other arrays in its rows; None takes one out."""
    contents = bundle.read(source)
    kept = safetensors.numpy.load(contents["context.safetensors"]) | arrays
    kept = {name: array for name, array in kept.items() if array is not None}
    bundle.write(target, contents | {"context.safetensors": safetensors.numpy.save(kept)})


def test_a_model_saved_without_the_anchor_counts_from_its_first_row(tmp_path):
    """As format 1 was written and read: the 28th of February, 2025 is followed by the 28th."""
    _, _, fitted = case("the 30th, from February")
    fitted.save(tmp_path / "model")
    context_of(tmp_path / "model", tmp_path / "old", grid_anchor=None)
    found = nd.load(tmp_path / "old").predict()["ds"]
    assert [str(day)[:10] for day in found] == ["2025-03-28", "2025-04-28", "2025-05-28"]


@pytest.mark.parametrize("anchor", [[17], [-(2**62)], [0, 0], [1.5]])
def test_an_anchor_that_does_not_fit_the_rows_is_refused(anchor, tmp_path):
    _, _, fitted = case("the 30th, from February")
    fitted.save(tmp_path / "model")
    context_of(tmp_path / "model", tmp_path / "odd", grid_anchor=np.array(anchor))
    with pytest.raises(nd.CorruptFileError, match=r"anchor|whole numbers|per series"):
        nd.load(tmp_path / "odd")
