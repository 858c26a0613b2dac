"""How tables are cut for cross-validation. Expected folds are counted by hand."""

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import neuro_divergent as nd
from neuro_divergent.forecasting.evaluate.folds import Fold, TimeSeriesSplit, user_folds


def lists(split, rows, h=1):
    return [(train.tolist(), test.tolist()) for train, test in split.split(rows, h)]


def table(*lengths):
    parts = [
        pl.DataFrame({"unique_id": f"s{i}", "ds": range(n), "y": np.arange(n) * 1.0}) for i, n in enumerate(lengths)
    ]
    return nd.TimeSeriesDataFrame.from_frame(pl.concat(parts))


def test_expanding_folds_by_hand():
    assert lists(TimeSeriesSplit(n_splits=3, test_size=2), 8) == [
        ([0, 1], [2, 3]),
        ([0, 1, 2, 3], [4, 5]),
        ([0, 1, 2, 3, 4, 5], [6, 7]),
    ]


def test_a_sliding_window_with_gap_and_purge_by_hand():
    """Test rows 8-9; the gap hides 7; the purge leaves 6 untrained; 3 rows before that are 3, 4, 5."""
    assert lists(TimeSeriesSplit(n_splits=1, test_size=2, gap=1, purge=1, window=3), 10) == [([3, 4, 5], [8, 9])]


def test_overlapping_test_parts():
    assert lists(TimeSeriesSplit(n_splits=2, test_size=3, step_size=1), 6) == [
        ([0, 1], [2, 3, 4]),
        ([0, 1, 2], [3, 4, 5]),
    ]


def test_sizes_as_shares_of_the_longest_series():
    assert lists(TimeSeriesSplit(n_splits=1, test_size=0.2, window=0.3), 10) == [([5, 6, 7], [8, 9])]


def test_the_horizon_is_the_default_size():
    assert lists(TimeSeriesSplit(n_splits=1), 6, h=4) == [([0, 1], [2, 3, 4, 5])]


def test_whole_blocks():
    assert [len(test) for _, test in TimeSeriesSplit(n_splits=2, test_size=5, block_size=7).split(30)] == [7, 7]
    with pytest.raises(nd.ConfigError, match="whole blocks of block_size=7"):
        TimeSeriesSplit(block_size=7, gap=3)


def test_the_same_as_scikit_learn_documents():
    """The example of its TimeSeriesSplit with test_size=2, gap=2, n_splits=3 on 12 rows, as printed in its manual."""
    assert lists(TimeSeriesSplit(n_splits=3, test_size=2, gap=2), 12) == [
        (list(range(4)), [6, 7]),
        (list(range(6)), [8, 9]),
        (list(range(8)), [10, 11]),
    ]


def test_folds_that_take_everything_are_refused():
    with pytest.raises(nd.DataError, match="5 folds of 2 steps, 2 apart, with gap=0 and purge=0 take 10 rows"):
        list(TimeSeriesSplit(n_splits=5, test_size=2).split(10))


def test_one_date_for_all_series_or_the_end_of_each():
    data = table(10, 7)
    by_date = TimeSeriesSplit(n_splits=1, test_size=2).folds(data, 2)[0]
    assert [side.tolist() for side in by_date.train] == [[0, 0], [8, 7]]
    assert [side.tolist() for side in by_date.test] == [[8, 7], [10, 7]], "the short series is over before the test"
    by_series = TimeSeriesSplit(n_splits=1, test_size=2, align="series").folds(data, 2)[0]
    assert [side.tolist() for side in by_series.test] == [[8, 5], [10, 7]]


def test_groups_of_series_are_tested_by_models_of_the_others():
    folds = TimeSeriesSplit(n_splits=2, test_size=2, series_splits=2).folds(table(10, 10, 10, 10), 2)
    assert [(fold.number, fold.group) for fold in folds] == [(0, 0), (0, 1), (1, 0), (1, 1)]
    trained = folds[0].train[1] > folds[0].train[0]
    tested = folds[0].test[1] > folds[0].test[0]
    assert trained.tolist() == [False, False, True, True]
    assert tested.tolist() == [True, True, False, False]
    with pytest.raises(nd.DataError, match="series_splits=5 needs as many series"):
        TimeSeriesSplit(n_splits=1, test_size=2, series_splits=5).folds(table(10, 10), 2)


@pytest.mark.parametrize(
    "splitter",
    [
        [(range(6), range(6, 8)), (range(8), range(8, 10))],
        lambda steps: [(range(steps - 4), range(steps - 4, steps - 2)), (range(steps - 2), range(steps - 2, steps))],
    ],
    ids=["pairs", "function"],
)
def test_anything_that_yields_pairs(splitter):
    folds = user_folds(splitter, table(10, 10))
    assert [fold.test[0].tolist() for fold in folds] == [[6, 6], [8, 8]]


def test_an_object_with_a_split_method():
    class Halves:
        def split(self, x):
            middle = len(x) // 2
            yield np.arange(middle), np.arange(middle, len(x))

    (fold,) = user_folds(Halves(), table(10))
    assert (fold.train[1].tolist(), fold.test[0].tolist(), fold.test[1].tolist()) == ([5], [5], [10])


@pytest.mark.parametrize(
    ("pairs", "message"),
    [
        ([(range(5, 10), range(5))], "must not be trained on later rows"),
        ([([0, 1, 4], [5, 6])], "training positions of fold 0 must be consecutive"),
        ([([], [5, 6])], "needs training and test positions"),
        ([], "at least one pair"),
        (3, "splitter must be a TimeSeriesSplit"),
    ],
)
def test_splitters_that_would_leak_or_say_nothing_are_refused(pairs, message):
    with pytest.raises(nd.ConfigError, match=message):
        user_folds(pairs, table(10))


def test_a_fold_cannot_train_on_what_it_tests():
    side = np.array([0]), np.array([6])
    with pytest.raises(nd.ConfigError, match="before its test rows"):
        Fold(0, side, (np.array([5]), np.array([8])))


@settings(max_examples=60, deadline=None)
@given(
    rows=st.integers(20, 80), splits=st.integers(1, 3), size=st.integers(1, 4), gap=st.integers(0, 2),
    purge=st.integers(0, 2), step=st.integers(1, 4), window=st.one_of(st.just("expanding"), st.integers(1, 9)),
)  # fmt: skip
def test_training_always_ends_before_the_gap(rows, splits, size, gap, purge, step, window):
    split = TimeSeriesSplit(n_splits=splits, test_size=size, gap=gap, purge=purge, step_size=step, window=window)
    found = list(split.split(rows))
    assert len(found) == splits
    assert found[-1][1][-1] == rows - 1
    for train, test in found:
        assert len(test) == size
        assert train[-1] + gap + purge + 1 == test[0]
        assert window == "expanding" or len(train) <= window


def test_a_splitters_folds_are_numbered_in_the_order_of_time():
    newest_first = [(range(8), [8, 9]), (range(6), [6, 7]), (range(2, 4), [6, 7])]
    folds = user_folds(newest_first, table(10))
    assert [(fold.number, fold.test[0].tolist(), fold.train[1].tolist()) for fold in folds] == [
        (0, [6], [4]),
        (1, [6], [6]),
        (2, [8], [8]),
    ]


def test_one_training_for_all_folds_sees_no_test_row_of_a_splitter_that_yields_the_newest_first():
    def forecasts(changed):
        rows = table(40).to_polars().with_columns(y=pl.when(pl.col("ds") < 36).then(pl.col("y")).otherwise(changed))
        pairs = [(range(38), [38, 39]), (range(36), [36, 37])]
        config = nd.TrainingConfig(max_steps=20, validation_split=None, progress=False)
        found = nd.cross_validation(
            [nd.DLinear(h=2, input_size=4)], rows, config=config, splitter=pairs, refit=False
        ).frame
        return found.filter(pl.col("ds") < 38)["DLinear"].to_list()

    assert forecasts(0.0) == forecasts(1000.0)


def test_a_share_is_that_of_all_test_parts_together():
    """Five parts of the last fifth of 100 rows: 4 rows each. A part is never shorter than the horizon."""
    folds = lists(TimeSeriesSplit(n_splits=5, test_size=0.2), 100)
    assert [(len(train), test[0], test[-1]) for train, test in folds] == [
        (80, 80, 83), (84, 84, 87), (88, 88, 91), (92, 92, 95), (96, 96, 99)
    ]  # fmt: skip
    assert [len(test) for _, test in lists(TimeSeriesSplit(n_splits=5, test_size=0.2), 100, h=12)] == [12] * 5


def test_true_splits_by_series():
    """Five groups, or one for each series where there are fewer; False and 1 do not split."""
    split = TimeSeriesSplit(n_splits=1, test_size=2, series_splits=True)
    folds = split.folds(table(10, 10, 10), 2)
    assert [fold.group for fold in folds] == [0, 1, 2]
    assert [fold.train[1].tolist() for fold in folds] == [[0, 8, 8], [8, 0, 8], [8, 8, 0]]
    assert len(split.folds(table(*[10] * 11), 2)) == 5
    assert len(TimeSeriesSplit(n_splits=1, test_size=2, series_splits=False).folds(table(10, 10), 2)) == 1
    assert TimeSeriesSplit.from_dict(split.to_dict()).series_splits is True
    with pytest.raises(nd.DataError, match="series_splits=True needs at least 2 series, but the table has 1"):
        split.folds(table(10), 2)
    with pytest.raises(nd.ConfigError, match="series_splits"):
        TimeSeriesSplit(series_splits=0)
