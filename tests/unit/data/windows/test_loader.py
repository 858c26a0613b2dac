"""Batches for a loop of one's own."""

import numpy as np
import pandas as pd
import pytest
import torch

import neuro_divergent as nd


def test_every_row_comes_once_per_epoch_and_orders_repeat_by_epoch():
    x, y = np.arange(10.0)[:, None], np.arange(10)
    loader = nd.DataLoader(x, y, batch_size=4, seed=3)
    first, second = [list(loader) for _ in range(2)]
    assert len(loader) == 3
    assert [len(batch[0]) for batch in first] == [4, 4, 2]
    orders = [torch.cat([b[1] for b in epoch]).tolist() for epoch in (first, second)]
    assert sorted(orders[0]) == sorted(orders[1]) == list(range(10))
    assert orders[0] != orders[1]
    again = nd.DataLoader(pd.DataFrame(x), pd.Series(y), batch_size=4, seed=3)
    assert torch.cat([b[1] for b in again.batches(1)]).tolist() == orders[1]
    assert len(nd.DataLoader(x, batch_size=4, drop_last=True)) == 2


def test_windows_of_a_table_are_the_rows_of_its_series():
    table = nd.TimeSeriesDataFrame.from_frame(pd.DataFrame({"unique_id": "a", "ds": range(8), "y": np.arange(8.0)}))
    (batch,) = nd.DataLoader(table, lookback=3, horizon=2, batch_size=99, shuffle=False)
    assert batch.y[:, :, 0].tolist() == [[0, 1, 2], [1, 2, 3], [2, 3, 4], [3, 4, 5]]
    assert batch.target[:, :, 0].tolist() == [[3, 4], [4, 5], [5, 6], [6, 7]]
    windows = nd.Windows(table.store, lookback=3, horizon=2)
    assert sum(len(found.y) for found in nd.DataLoader(windows, batch_size=3)) == 4


@pytest.mark.parametrize(
    ("data", "options", "match"),
    [
        ((), {}, "something to load"),
        (([1.0, 2.0], [1.0]), {}, "same number of rows"),
        ((["a"],), {}, "arrays of numbers"),
        (([1.0],), {"lookback": 2}, "cut windows from a TimeSeriesDataFrame"),
    ],
)
def test_misuse_is_refused_in_words(data, options, match):
    with pytest.raises(nd.NeuroDivergentError, match=match):
        nd.DataLoader(*data, **options)
    with pytest.raises(nd.ConfigError, match="need their sizes"):
        nd.DataLoader(nd.TimeSeriesDataFrame.from_frame(nd.samples.hourly_panel(1, 60)), lookback=3)
