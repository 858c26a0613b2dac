"""What a search does, from the outside: its trials, its best settings, its honesty."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import optuna
import polars as pl
import pytest
from small_search import CONFIG, MODEL, SPACE

import neuro_divergent as nd
from neuro_divergent.search.plan import make_plan

Make = Callable[..., Any]


def test_a_random_search_finds_the_best_of_its_trials(random_search: Make, table: Any) -> None:
    result = random_search().fit(table)
    frame = result.trials
    assert frame["state"].to_list() == ["complete"] * 4
    assert frame["learning_rate"][0] == 1e-3  # the default is tried first
    assert frame["learning_rate"].n_unique() == 4
    assert result.best.value == frame["mae"].min()
    assert result.best.config.learning_rate == frame["learning_rate"][int(frame["mae"].arg_min())]
    assert result.best_forecaster().predict(table).height == 12


def test_the_score_of_a_trial_is_that_of_cross_validation(random_search: Make, table: Any) -> None:
    """The independent way: nd.cross_validation on the rows that the trials may see."""
    search = random_search(n_trials=1, cv_folds=2, stacked=False)
    result = search.fit(table)
    plan, _ = make_plan(search, MODEL, table)
    splitter = nd.TimeSeriesSplit(n_splits=2, test_size=0.15, align="auto")
    config = result.best.config.replace(compile=False)
    cv = nd.cross_validation(MODEL, plan.table, config, splitter=splitter, refit=True, stacked=False)
    assert result.best.value == pytest.approx(cv.mean("mae"), rel=1e-12)


def test_the_winner_equals_a_training_with_its_settings(random_search: Make, table: Any) -> None:
    search = random_search(stacked=False)
    result = search.fit(table)
    plan, _ = make_plan(search, MODEL, table)
    again = result.best.model.fit(plan.scores[0].past, result.best.config.replace(compile=False))
    kept = result.best_forecaster(refit=False).network.state_dict()
    assert all(bool((kept[name] == value).all()) for name, value in again.network.state_dict().items())


@pytest.mark.parametrize("config", [CONFIG, nd.TrainingConfig(max_epochs=3, batch_size=16)])
def test_the_best_forecaster_is_continued_on_all_rows(random_search: Make, table: Any, config: Any) -> None:
    """By hand: the weights of the trial, three tenths of the steps to its best epoch, half of its rate."""
    result = random_search(n_trials=2, config=config).fit(table)
    plain, ready = result.best_forecaster(refit=False), nd.SearchResult.load(result.directory).best_forecaster()
    history = plain.history
    steps = len(history.step_loss) * (history.best_epoch or len(history)) / len(history)
    event = next(one for one in ready.history.events if one["event"] == "refit")
    assert event["steps"] == max(1, round(0.3 * steps))
    assert event["learning_rate"] == pytest.approx(result.best.config.learning_rate / 2)
    assert ready.predict()["ds"].min() > table.to_polars()["ds"].max() > plain.predict()["ds"].max()
    by_hand = plain.fine_tune(
        table,
        plain.config.replace(
            optimizer=plain.config.optimizer.at_rate(result.best.config.learning_rate / 2),
            schedule=nd.CosineAnnealing(),
            max_epochs=None,
            max_steps=event["steps"],
            validation_split=None,
            early_stopping=None,
        ),
    )
    assert by_hand.predict().equals(ready.predict())
    # Its score is that of the forecasts before it saw the rows.
    scores = [one.evaluate(table, metrics=["mae"])["NLinear", "mae"] for one in (plain, ready)]
    assert scores[1] == pytest.approx(scores[0], rel=1e-5)
    ready.save(result.directory / "ready")
    assert nd.load(result.directory / "ready").predict().equals(ready.predict())


def test_rows_after_the_training_decide_nothing(random_search: Make, table: Any) -> None:
    """Poison: the last rows, which no trial sees, are replaced. Choice and scores stay the same to the last bit."""
    result = random_search(n_trials=3, stacked=False).fit(table)
    frame = table.to_polars()
    last = frame["ds"].max()
    poisoned = frame.with_columns(
        pl.when(pl.col("ds") > pl.lit(last).dt.offset_by("-4d")).then(1e6).otherwise(pl.col("y")).alias("y")
    )
    other = random_search(n_trials=3, stacked=False, directory=result.directory.parent / "poisoned").fit(poisoned)
    assert other.trials["mae"].to_list() == result.trials["mae"].to_list()
    assert other.best.point == result.best.point
    assert other.nested.nested > 1000 > result.nested.nested


def test_a_fold_is_trained_without_its_test_rows(random_search: Make, table: Any) -> None:
    """Poison of the second test part changes nothing in the first fold's score."""
    search = random_search(n_trials=2, cv_folds=2, stacked=False)
    result = search.fit(table)
    plan, _ = make_plan(search, MODEL, table)
    begin = int(plan.folds[1].test[0][0])
    frame = table.to_polars().with_columns(pl.int_range(pl.len()).over("unique_id").alias("row"))
    poisoned = frame.with_columns(pl.when(pl.col("row") >= begin).then(-77.0).otherwise(pl.col("y")).alias("y"))
    other = search.replace(directory=result.directory.parent / "poisoned").fit(poisoned.drop("row"))

    def parts(found: Any) -> list[list[float]]:
        trials = found.study.get_trials(deepcopy=False)
        return [[part["mae"] for part in one.user_attrs["facts"]["by_part"]] for one in trials]

    mine, others = np.array(parts(result)), np.array(parts(other))
    assert (mine[:, 0] == others[:, 0]).all()
    assert (mine[:, 1] != others[:, 1]).all()


def test_optimism_is_the_difference_of_two_scores(random_search: Make, table: Any) -> None:
    result = random_search(n_trials=2).fit(table)
    fitted = result.best_forecaster(refit=False)
    evaluation = fitted.evaluate(table, metrics=["mae"])  # one window at the end: the nested rows
    assert result.nested.nested == pytest.approx(evaluation["NLinear", "mae"], rel=1e-6)
    assert result.nested.naive == pytest.approx(evaluation.table["mae"][1], rel=1e-6)
    assert result.optimism == pytest.approx(evaluation["NLinear", "mae"] - result.best.value, rel=1e-6)
    assert random_search(n_trials=1, nested=False, directory=result.directory.parent / "b").fit(table).optimism is None


def test_stacked_trials_equal_solo_ones(random_search: Make, table: Any) -> None:
    stacked = random_search().fit(table).trials
    solo = random_search(stacked=False, directory=random_search().directory.parent / "solo").fit(table).trials
    assert stacked["learning_rate"].to_list() == solo["learning_rate"].to_list()
    np.testing.assert_allclose(stacked["mae"], solo["mae"], rtol=1e-5)


def test_one_failing_member_of_a_stack_does_not_fail_the_others(random_search: Make, table: Any) -> None:
    space = nd.SearchSpace(input_size=nd.choice(8, 500))  # 500 rows are more than there are
    result = random_search(nd.GridSearch, space=space).fit(table)
    assert result.trials["state"].to_list() == ["complete", "failed"]
    assert "a series needs 504 rows" in result.trials["error"][1]
    assert result.best.model.input_size == 8


def test_all_trials_failed_says_why(random_search: Make, table: Any) -> None:
    space = nd.SearchSpace(input_size=nd.choice(500, 600))
    with pytest.raises(
        nd.TrainingError, match=r"all 2 failed: a series needs 504 rows .* \(1 trial\); a series needs 604"
    ):
        random_search(nd.GridSearch, space=space).fit(table)


def test_a_grid_is_visited_exactly_once(random_search: Make, table: Any) -> None:
    space = nd.SearchSpace(learning_rate=nd.loguniform(1e-3, 1e-1), batch_size=nd.choice(8, 16))
    result = random_search(nd.GridSearch, space=space, points=3).fit(table)
    found = sorted(zip(result.trials["learning_rate"].to_list(), result.trials["batch_size"].to_list(), strict=True))
    rates = [1e-3, 1e-2, 1e-1]
    assert [size for _, size in found] == [8, 16] * 3
    np.testing.assert_allclose([rate for rate, _ in found], np.repeat(rates, 2))


def test_constraints_exclude_points(random_search: Make, table: Any) -> None:
    space = SPACE.where(lambda point: point["learning_rate"] > 1e-3)
    result = random_search(space=space, n_trials=5).fit(table)
    assert result.trials.height == 5
    assert result.trials["learning_rate"].min() > 1e-3


def test_a_grid_ends_with_its_last_allowed_point(random_search: Make, table: Any) -> None:
    """By hand: of 3 rates and 2 batch sizes, five points are allowed. No other point is tried instead."""
    space = nd.SearchSpace(learning_rate=nd.loguniform(1e-3, 1e-1), batch_size=nd.choice(8, 16))
    allowed = space.where(lambda point: point["learning_rate"] > 1e-3 or point["batch_size"] == 8)
    found = random_search(nd.GridSearch, space=allowed, points=3).fit(table).trials
    points = sorted(zip(found["learning_rate"].to_list(), found["batch_size"].to_list(), strict=True))
    assert [size for _, size in points] == [8, 8, 16, 8, 16]
    np.testing.assert_allclose([rate for rate, _ in points], [1e-3, 1e-2, 1e-2, 1e-1, 1e-1])
    with pytest.raises(nd.ConfigError, match="exclude the whole grid"):
        random_search(nd.GridSearch, space=space.where(lambda _: False), directory=None).fit(table)


def test_a_large_grid_may_be_limited(random_search: Make, table: Any) -> None:
    result = random_search(nd.GridSearch, points=20_000, n_trials=2).fit(table)
    np.testing.assert_allclose(result.trials["learning_rate"], [1e-4, 1e-4], rtol=1e-3)


def test_a_metric_of_the_user_decides(random_search: Make, table: Any) -> None:
    """Twice the mean absolute error, by another name."""

    def doubled(actual: Any, forecast: Any) -> Any:
        return 2 * (actual - forecast).abs()

    result = random_search(n_trials=2, scoring=doubled, stacked=False).fit(table)
    usual = random_search(n_trials=2, stacked=False, directory=None).fit(table)
    assert result.best.value == pytest.approx(2 * usual.best.value)
    assert result.nested.nested == pytest.approx(2 * usual.nested.nested)


@pytest.mark.parametrize(
    ("cls", "fields"),
    [
        (nd.RandomSearch, {"n_trials": 2, "sampler": optuna.samplers.GridSampler({"learning_rate": [0.01, 0.05]})}),
        (nd.TPESearch, {"n_trials": 5, "n_initial_points": 2}),
        (nd.BayesianOptimization, {"n_calls": 5, "n_initial_points": 3}),
        (nd.RandomSearch, {"n_trials": 4, "sampler": optuna.samplers.TPESampler(seed=1)}),
    ],
)
def test_adaptive_searches_run_their_budget(random_search: Make, table: Any, cls: Any, fields: Any) -> None:
    result = random_search(cls, **fields).fit(table)
    assert result.trials["state"].to_list() == ["complete"] * next(iter(fields.values()))
    assert result.best.value == result.trials["mae"].min()


def test_a_sampler_that_ends_the_study_ends_the_search(random_search: Make, table: Any) -> None:
    """Optuna's brute force stops when all three points are tried."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
        sampler = optuna.samplers.BruteForceSampler(seed=1)
    space = nd.SearchSpace(batch_size=nd.choice(8, 16, 32))
    result = random_search(space=space, n_trials=9, sampler=sampler, stacked=False).fit(table)
    assert sorted(result.trials["batch_size"]) == [8, 16, 32]


def test_several_objectives_give_a_front_and_a_point_by_weights(random_search: Make, table: Any) -> None:
    space = nd.SearchSpace(input_size=nd.choice(8, 12, 16), learning_rate=nd.loguniform(1e-3, 1e-1))
    objectives = {"accuracy": 0.0, "model_size": "minimize 1.0"}
    search = random_search(
        nd.MultiObjectiveSearch, space=space, population_size=3, generations=2, objectives=objectives
    )
    result = search.fit(table)
    assert search.budget == result.trials.height == 6
    front = result.pareto
    for row in front.iter_rows(named=True):  # by hand: nothing is better in both
        better = (pl.col("accuracy") >= row["accuracy"]) & (pl.col("model_size") <= row["model_size"])
        strictly = (pl.col("accuracy") > row["accuracy"]) | (pl.col("model_size") < row["model_size"])
        assert result.trials.filter(better & strictly).is_empty()
    assert result.best_forecaster().num_parameters == front["model_size"].min()


def test_the_seed_is_averaged(random_search: Make, table: Any) -> None:
    model = nd.MLP(h=4, input_size=8, hidden_size=8, layers=1)
    one, two, both = (
        random_search(model=model, n_trials=1, seeds=seeds, stacked=False, directory=random_search().directory / name)
        .fit(table)
        .best.value
        for name, seeds in (("a", (1,)), ("b", (2,)), ("c", (1, 2)))
    )
    assert one != two
    assert both == pytest.approx((one + two) / 2, rel=1e-12)


def test_patience_and_callbacks_end_a_search(random_search: Make, table: Any) -> None:
    """The space has one good point, which comes first: two trials without gain follow it."""
    space = nd.SearchSpace(learning_rate=nd.loguniform(1e-7, 1e-1)).enqueue({"learning_rate": 0.05})
    worse = nd.SearchSpace(learning_rate=nd.choice(0.05, 1e-6, 2e-6, 3e-6, 4e-6, 5e-6, 6e-6, 7e-6))
    result = random_search(nd.GridSearch, space=worse, early_stopping=2, stacked=False).fit(table)
    assert result.trials.height == 3
    seen = []

    def stop(study: Any, trial: Any) -> bool:
        seen.append(trial.number)
        return trial.number == 1

    again = random_search(space=space, callbacks=stop, stacked=False, directory=result.directory / "b").fit(table)
    assert seen == [0, 1]
    assert again.trials.height == 2


def test_the_study_is_a_plain_file_of_optuna(random_search: Make, table: Any) -> None:
    result = random_search(n_trials=2).fit(table)
    study = optuna.load_study(study_name="search", storage=f"sqlite:///{result.directory / 'study.db'}")
    assert study.best_value == result.best.value
    assert study.metric_names == ["mae"]
    with sqlite3.connect(result.directory / "study.db") as database:
        assert database.execute("pragma integrity_check").fetchone() == ("ok",)
    assert nd.SearchResult.load(result.directory).trials.equals(result.trials)


def test_a_temporary_study_goes_with_its_result(random_search: Make, table: Any) -> None:
    result = random_search(n_trials=1, directory=None).fit(table)
    directory = result.directory
    assert directory.is_dir()
    del result
    assert not directory.exists()


def test_frames_have_the_library_of_the_input(random_search: Make, table: Any) -> None:
    result = random_search(n_trials=1).fit(table.to_pandas())
    assert type(result.trials).__module__.startswith("pandas")


def test_probabilistic_metrics_need_levels(random_search: Make, table: Any) -> None:
    config = CONFIG.replace(loss=nd.MQLoss(level=[80]))
    result = random_search(n_trials=2, config=config, scoring="scaled_crps", level=[80]).fit(table)
    assert result.trials["scaled_crps"].min() > 0
