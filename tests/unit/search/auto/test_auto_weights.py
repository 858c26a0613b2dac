"""Weights of the ensemble, held-out rows and the time of a training, against hand calculations."""

import numpy as np

import neuro_divergent as nd
from neuro_divergent.search.auto.budget import Pace
from neuro_divergent.search.auto.held_out import HeldOut, window_counts
from neuro_divergent.search.auto.weights import chosen_weights, greedy


def scored(truth):
    return lambda values, some: float(np.abs(values[..., 0] - truth[some]).mean())


def constant(*values, windows=8):
    """[M, N, H, K] members that always forecast one value."""
    return np.stack([np.full((windows, 1, 1), value) for value in values])


def test_greedy_selection_by_hand():
    """Truth 1, members 0, 3, 10. Means of the rounds: 0 (error 1), (0 + 3) / 2 (0.5), (0 + 3 + 0) / 3 (0): 2 to 1."""
    weights = greedy(constant(0.0, 3.0, 10.0), scored(np.ones((8, 1))), np.arange(8), rounds=3)
    assert np.allclose(weights, [2 / 3, 1 / 3, 0.0])


def test_an_ensemble_that_is_better_on_one_half_only_is_refused():
    """Member 0 errs by 1 everywhere; member 1 by -1 on the even windows and by 20 on the odd ones."""
    truth, windows = np.zeros((40, 1)), np.arange(40)
    forecasts = np.zeros((2, 40, 1, 1))
    forecasts[0], forecasts[1, 0::2], forecasts[1, 1::2] = 1.0, -1.0, 20.0
    found = chosen_weights(forecasts, scored(truth), windows, 40)
    assert found.guarded
    assert found.weights.tolist() == [1.0, 0.0]


def test_an_ensemble_that_holds_on_other_windows_is_taken():
    draw = np.random.default_rng(0)
    truth = np.zeros((200, 4))
    forecasts = draw.normal(size=(3, 200, 4, 1))
    found = chosen_weights(forecasts, scored(truth), np.arange(200), 200)
    assert not found.guarded
    assert found.ensemble < found.single
    assert found.weights.min() > 0.15
    assert np.isclose(found.weights.sum(), 1.0)


def test_few_windows_do_not_make_one_of_many_members_the_winner():
    """Twelve members that are equally good but for chance, two windows: no weight is larger than a half."""
    forecasts = np.random.default_rng(1).normal(size=(12, 2, 3, 1))
    found = chosen_weights(forecasts, scored(np.zeros((2, 3))), np.arange(2), 2)
    assert found.weights.max() < 0.5
    assert np.count_nonzero(found.weights) >= 4


def test_window_counts():
    assert window_counts(np.full(400, 900), 48) == (2, 1)
    assert window_counts(np.array([52_608]), 48) == (40, 20)
    assert window_counts(np.array([144]), 12, wanted=6) == (4, 2)
    assert window_counts(np.array([20]), 12) == (0, 0)
    assert window_counts(np.array([30]), 12) == (1, 0)


def test_held_out_rows_of_whole_numbers_are_those_of_each_series():
    """h=2, one window each: of 20 rows 16 are trained on; a series of 6 rows is too short and is trained on wholly."""
    frame = {"unique_id": ["a"] * 20 + ["b"] * 6, "ds": [*range(20), *range(6)], "y": np.arange(26.0)}
    held = HeldOut.of(nd.TimeSeriesDataFrame.from_frame(frame), 2, 1, 1)
    assert held.train.tolist() == [16, 6]
    assert held.judge.tolist() == [18, 6]
    assert held.selection.time.tolist() == [16]
    assert held.final.time.tolist() == [18]
    assert held.past.store.lengths.tolist() == [16, 6]
    assert held.validation.store.y.tolist() == [16.0, 17.0]


def test_held_out_rows_of_dates_begin_at_one_moment():
    """A series that ended two days earlier has two rows less in the windows."""
    days = [f"2024-01-{day:02d}" for day in range(1, 21)]
    frame = {"unique_id": ["a"] * 20 + ["b"] * 18, "ds": days + days[:18], "y": np.arange(38.0)}
    held = HeldOut.of(nd.TimeSeriesDataFrame.from_frame(frame, freq="1d"), 2, 1, 1)
    assert held.train.tolist() == [16, 16]
    assert held.judge.tolist() == [18, 18]


def test_steps_that_fit_into_a_time():
    """A step takes 0.01 s, a validation every 100 steps 0.1 s: 0.011 s per step, with the margin of 1.1 0.0121 s."""
    pace = Pace(step=0.01, validation=0.1, per_epoch=100)
    assert pace.steps_in(12.1) == 1000
    steps, per_epoch = pace.shortened(2.2)  # 2 s, eight validations of 0.1 s: 1.2 s of steps
    assert (steps, per_epoch) == (120, 15)
