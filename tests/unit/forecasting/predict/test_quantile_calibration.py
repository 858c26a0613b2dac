"""Intervals that are corrected by their errors on held-out rows (Romano, Patterson & Candès 2019)."""

import logging

import numpy as np
import polars as pl
import pytest

import neuro_divergent as nd
from neuro_divergent.forecasting.evaluate.held_out import held_out_forecasts
from neuro_divergent.forecasting.network.output_columns import named_columns
from neuro_divergent.forecasting.predict.quantile_calibration import (
    CoverageCheck,
    HeldIntervals,
    QuantileCalibration,
    checks_of,
    half_offsets,
    offsets_of,
)

FAST = nd.TrainingConfig(max_steps=3, progress=False)
SIZES = {"h": 4, "input_size": 8}
COLUMNS = named_columns("M", (80.0,), (0.5,))


def noise(series=4, rows=400, seed=0):
    """White noise: the 80 % interval of every step is the same, ±1.28."""
    y = np.random.default_rng(seed).normal(size=series * rows) * np.repeat([1.0, 5.0, 20.0, 100.0][:series], rows)
    names = np.repeat(list("abcd"), rows)
    return pl.DataFrame({"unique_id": names, "ds": np.tile(np.arange(rows), series), "y": y})


@pytest.fixture(scope="module")
def past():
    return noise().filter(pl.col("ds") < 300)


@pytest.fixture(scope="module")
def fitted(past):
    return nd.NLinear(**SIZES).fit(past, FAST.replace(loss=nd.MQLoss(level=[80, 95])))


def calibration(offset, scale=1.0, h=2):
    offsets = np.full((3, 1, h), offset)
    facts = {"ids": np.array(["a"]), "scale": np.array([scale]), "late_rows": np.array([0])}
    return QuantileCalibration(coverages=np.array([0.8]), offsets=offsets, **facts)


def inside(fitted, table, first):
    """The share of rows from `first` on inside of the 80 % interval, each forecast from the rows before it."""
    found = [
        fitted.predict(table.filter(pl.col("ds") < cut), level=[80]).join(table, on=["unique_id", "ds"])
        for cut in range(first, int(table["ds"].max()) - 2, 4)
    ]
    low, high = pl.col(f"{fitted.model.name}-lo-80"), pl.col(f"{fitted.model.name}-hi-80")
    return float(pl.concat(found).select(((pl.col("y") >= low) & (pl.col("y") <= high)).mean()).item())


class TestByHand:
    def test_the_correction_is_the_eighth_of_nine_scores(self):
        """⌈(9 + 1) · 0.8⌉ = 8; all steps of few windows are one pool."""
        scores = np.arange(1.0, 10.0).reshape(9, 1, 1)
        assert offsets_of(scores, np.array([0.8])).tolist() == [[8.0]]
        two = np.array([[1.0, 6.0], [2.0, 7.0], [3.0, 8.0], [4.0, 9.0]])[:, :, None]
        assert offsets_of(two, np.array([0.5])).tolist() == [[6.0, 6.0]]  # ⌈9 · 0.5⌉ = 5

    def test_a_score_is_the_distance_to_the_nearer_edge(self):
        one = np.array([True])
        held = HeldIntervals(
            actual=np.array([[-1.0, 2.0, 14.0]]),
            lower=np.zeros((1, 3, 1)),
            upper=np.full((1, 3, 1), 10.0),
            scale=np.array([2.0]),
            early=one,
            late=~one,
            part=np.zeros(1, dtype=np.int64),
        )
        assert held.scores().tolist() == [[[0.5], [-1.0], [2.0]]]
        assert np.isnan(half_offsets(held, np.array([0.8]))[1:]).all()  # there is no later half
        check = checks_of(held, np.array([0.8]), half_offsets(held, np.array([0.8])))[0]
        assert (check.values, round(check.inside, 1), check.corrected) == (3, 33.3, None)

    def test_the_stretch_that_asks_for_most_decides(self):
        """Twenty scores of 0, then 1 to 9. All: ⌈30 · 0.8⌉ = 24, a score of 4, which holds 4 of the last 9. Those nine
        alone: ⌈10 · 0.8⌉ = 8. Where the stretches do not differ, the score of all windows stays."""
        actual = np.array([0.0] * 20 + list(range(1, 10)))[:, None]
        flags = np.zeros(29, dtype=bool)
        late = np.arange(29) // 20

        def offset(part):
            edges = np.zeros((29, 1, 1))
            held = HeldIntervals(
                actual=actual, lower=edges, upper=edges, scale=np.ones(29), early=flags, late=flags, part=part
            )
            return half_offsets(held, np.array([0.8]))[0].tolist()

        assert offset(np.zeros(29, dtype=np.int64)) == [[4.0]]
        assert offset(late) == [[8.0]]
        assert offset(np.arange(29) % 2) == [[4.0]]

    def test_edges_move_by_the_scale_of_their_series_and_points_stay(self):
        values = np.array([[[5.0, 4.0, 7.0, 5.5]] * 2])
        moved = calibration(2.0, scale=10.0).correct(values, np.array(["a"]), np.array([np.nan]), COLUMNS)
        assert moved[0, 0].tolist() == [5.0, -16.0, 27.0, 5.5]
        new = calibration(2.0, scale=10.0).correct(values, np.array(["new"]), np.array([1.0]), COLUMNS)
        assert new[0, 0].tolist() == [5.0, 2.0, 9.0, 5.5]

    def test_a_level_between_is_interpolated_and_no_edge_passes_the_point(self):
        columns = named_columns("M", (40.0,), ())
        values = np.array([[[5.0, 4.0, 7.0]]])
        wider = calibration(2.0).correct(values, np.array(["a"]), np.array([np.nan]), columns)
        assert wider[0, 0] == pytest.approx([5.0, 3.0, 8.0])  # half of the way from the median to 80 %
        narrow = calibration(-9.0).correct(values, np.array(["a"]), np.array([np.nan]), columns)
        assert narrow[0, 0].tolist() == [5.0, 5.0, 5.0]

    def test_quantiles_do_not_cross(self):
        columns = named_columns("M", (80.0, 95.0), ())
        values = np.array([[[0.0, -2.0, 2.0, -3.0, 3.0]]])
        both = QuantileCalibration(
            coverages=np.array([0.8, 0.95]),
            offsets=np.broadcast_to(np.array([4.0, 0.5])[None, :, None], (3, 2, 1)),
            ids=np.array(["a"]),
            scale=np.ones(1),
            late_rows=np.zeros(1, dtype=np.int64),
        )
        assert both.correct(values, np.array(["a"]), np.ones(1), columns)[0, 0].tolist() == [0.0, -6.0, 6.0, -6.0, 6.0]

    def test_values_on_an_edge_are_no_reason_to_narrow_an_interval(self):
        """An interval of counts, [0, 3], holds 92 % of them, of which 70 % are 0: it cannot hold 80 %."""
        assert CoverageCheck(level=80.0, values=100, inside=92.0, between=22.0).off == 0.0
        assert CoverageCheck(level=80.0, values=100, inside=92.0, between=88.0).off == 8.0
        assert CoverageCheck(level=80.0, values=100, inside=71.0, between=71.0).off == 9.0


class TestTraining:
    def test_wrong_intervals_are_corrected_on_rows_that_nobody_saw(self, past, fitted):
        """Three steps of training give no useful interval; 4 · 100 hidden values have a standard error of 2 points."""
        plain = nd.NLinear(**SIZES).fit(past, FAST.replace(loss=nd.MQLoss(level=[80, 95]), calibrate=False))
        assert plain.calibration is None
        assert abs(inside(plain, noise(), 300) - 0.8) > 0.1
        assert abs(inside(fitted, noise(), 300) - 0.8) < 0.06
        assert fitted.predict()["NLinear"].equals(plain.predict()["NLinear"])

    def test_the_log_says_what_was_measured(self, past, caplog):
        with caplog.at_level(logging.INFO, logger="neuro_divergent"):
            nd.NLinear(**SIZES).fit(past, FAST.replace(loss=nd.MQLoss(level=[80])))
        assert "80 % intervals held" in caplog.text
        assert "by conformal calibration, after which they hold" in caplog.text

    def test_a_saved_model_and_a_predictor_correct_alike(self, fitted, tmp_path):
        wanted = fitted.predict(level=[70, 90])
        fitted.save(tmp_path / "model")
        loaded = nd.load(tmp_path / "model")
        assert loaded.predict(level=[70, 90]).equals(wanted)
        assert loaded.calibration.checks == fitted.calibration.checks
        assert fitted.predictor().predict(level=[70, 90]).equals(wanted)

    def test_the_reported_coverage_is_of_rows_that_did_not_decide_the_correction(self, fitted):
        """Corrections that would make every interval infinite: the later half is judged by the earlier half's."""
        offsets = fitted.calibration.offsets.copy()
        offsets[0] = 1e6
        fooled = fitted._without()
        fooled.calibration = QuantileCalibration(
            **{name: getattr(fitted.calibration, name) for name in ("coverages", "ids", "scale", "late_rows")},
            offsets=offsets,
        )
        own, other = (held_out_forecasts(one).evaluation.coverage for one in (fitted, fooled))
        assert own == other
        assert all(70 < item.percent < 99.9 for item in own)

    def test_intervals_that_hold_are_left_alone(self, past):
        """A well-trained network: the 80 % interval of white noise is learned within a few hundred steps."""
        config = nd.TrainingConfig(max_steps=400, progress=False, loss=nd.DistributionLoss(distribution="Normal"))
        assert nd.NLinear(**SIZES).fit(past, config.replace(calibrate=False)).calibration is None
        forced = nd.NLinear(**SIZES).fit(past, config.replace(calibrate=True))
        off = max(check.off for check in forced.calibration.checks)
        auto = nd.NLinear(**SIZES).fit(past, config)
        assert (auto.calibration is not None) == (off > 3)

    def test_few_held_out_windows_decide_nothing(self):
        few = noise().filter((pl.col("unique_id") == "a") & (pl.col("ds") < 100))
        assert nd.NLinear(**SIZES).fit(few, FAST.replace(loss=nd.MQLoss(level=[80]))).calibration is None

    def test_paths_are_corrected_like_the_quantiles(self, fitted):
        drawn = fitted.simulate(n_paths=2000)["NLinear"].to_numpy().reshape(4, 2000, 4)
        asked = fitted.predict(level=[80]).select("NLinear-lo-80", "NLinear-hi-80").to_numpy().reshape(4, 4, 2)
        found = np.quantile(drawn, (0.1, 0.9), axis=1).transpose(1, 2, 0)
        assert (np.abs(found - asked) < 0.15 * (asked[..., 1:] - asked[..., :1])).all()

    def test_later_rows_can_correct_a_model(self, past):
        plain = nd.NLinear(**SIZES).fit(past, FAST.replace(loss=nd.MQLoss(level=[80]), validation_split=None))
        assert plain.calibration is None
        plain.calibrate(noise().filter(pl.col("ds") < 350))
        assert abs(inside(plain, noise(), 350) - 0.8) < 0.1
        with pytest.raises(nd.DataError, match="after the training rows"):
            plain.calibrate(past)

    def test_what_cannot_be_corrected_is_refused(self, past):
        model = nd.NLinear(**SIZES)
        with pytest.raises(nd.ConfigError, match=r"MAE forecasts a point.*PredictionIntervals"):
            model.fit(past, FAST.replace(loss=nd.MAE(), calibrate=True))
        with pytest.raises(nd.ConfigError, match="validation_split=None holds out none"):
            model.fit(past, FAST.replace(loss=nd.MQLoss(level=[80]), calibrate=True, validation_split=None))
        with pytest.raises(nd.ConfigError, match="calibrate corrects the intervals of a forecast"):
            nd.Trainer(nd.TrainingConfig(calibrate=True)).fit(None, (np.zeros((4, 1)), np.zeros(4)))
