"""Wrong settings are refused with one sentence, before anything is trained."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from small_search import CONFIG, MODEL, SPACE

import neuro_divergent as nd

Make = Callable[..., Any]


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"pruner": "meadian"}, "but got pruner='meadian'. Did you mean median"),
        ({"timeout": "soon"}, "timeout must be a time above 0: .* but got timeout='soon'"),
        ({"max_disk": "much"}, "max_disk must be a size above 0: .* but got max_disk='much'"),
        ({"n_jobs": 0}, "n_jobs must be -1 or at least 1, but got n_jobs=0"),
        ({"scoring": "maee"}, "mae"),
        ({"seeds": (1, 1)}, "seeds must be different whole numbers"),
        ({"cv_folds": 2, "splitter": nd.TimeSeriesSplit()}, "give cv_folds, or a splitter, but not both"),
        ({"sampler": "tpe"}, "sampler must be None or a sampler of Optuna, but got 'tpe'"),
        ({"storage": "study.db"}, "storage must be the URL of a database"),
        ({"model": None}, "a search needs a model whose fields it varies"),
        ({"space": nd.SearchSpace()}, "a search space needs a dimension"),
        ({"config": CONFIG.replace(checkpoints="runs")}, "are saved in its directory"),
        ({"config": nd.TrainingConfig(refit_on_all=True)}, "never trained on its test rows"),
    ],
)
def test_wrong_settings_are_refused(random_search: Make, fields: Any, sentence: str) -> None:
    with pytest.raises(nd.ConfigError, match=sentence):
        random_search(**fields)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: nd.BayesianOptimization(SPACE, model=MODEL, kernel="rbf"), "kernel must be 'matern52'.*kernel='rbf'"),
        (lambda: nd.BayesianOptimization(SPACE, model=MODEL, acquisition="ucb"), "acquisition must be .*'ucb'"),
        (lambda: nd.GridSearch(SPACE, model=MODEL, points=1001), "may have 1000 points .* this one has 1001"),
        (lambda: nd.MultiObjectiveSearch(SPACE, model=MODEL, pruner="median"), "no single score to prune by"),
        (lambda: nd.MultiObjectiveSearch(SPACE, model=MODEL, objectives={"mae": 1}), "must be two or more"),
        (
            lambda: nd.MultiObjectiveSearch(SPACE, model=MODEL, objectives={"mae": "maximize 1", "model_size": 1}),
            "mae gets better when it is minimized",
        ),
    ],
)
def test_wrong_searches_are_refused(make: Any, sentence: str) -> None:
    with pytest.raises(nd.ConfigError, match=sentence):
        make()


def test_an_unknown_field_is_refused_before_the_first_trial(random_search: Make, table: Any) -> None:
    with pytest.raises(nd.ConfigError, match="learning_rate"):
        random_search(space=nd.SearchSpace(learning_rat=nd.loguniform(1e-4, 1e-1))).fit(table)


def test_a_metric_that_the_loss_cannot_give_is_refused_before_the_first_trial(random_search: Make, table: Any) -> None:
    search = random_search(n_trials=1, scoring="scaled_crps")
    with pytest.raises(nd.ConfigError, match="scaled_crps needs intervals or quantiles, but MAE forecasts a point"):
        search.fit(table)
    assert not search.directory.exists()


def test_other_spellings_of_names_are_understood() -> None:
    search = nd.BayesianOptimization(SPACE, model=MODEL, acquisition="EI", kernel="Matern")
    assert (search.acquisition, search.kernel) == ("expected_improvement", "matern52")
    objectives = {"accuracy": {"maximize": 0.7}, "model_size": "minimize 0.3"}
    trade_off = nd.MultiObjectiveSearch(SPACE, model=MODEL, algorithm="NSGA-II", objectives=objectives)
    assert trade_off.algorithm == "nsga2"
    assert trade_off.objectives == {"accuracy": ("maximize", 0.7), "model_size": ("minimize", 0.3)}


def test_own_callables_stay_in_this_process(random_search: Make, table: Any) -> None:
    def own_loss(output: Any, target: Any) -> Any:
        return (output - target).abs()

    config = CONFIG.replace(loss=own_loss)
    assert random_search(n_trials=1, config=config, timeout="60s").fit(table).trials.height == 1
    with pytest.raises(nd.ConfigError, match=r"cannot contain your own callables .*own_loss.*\. Use n_jobs=1"):
        random_search(config=config, n_jobs=2, directory=None).fit(table)


def test_classes_of_a_script_stay_in_this_process(random_search: Make, table: Any) -> None:
    """Also if only the space has them: other processes could not read the trials."""

    class Own(nd.NLinear):
        """A model of a script."""

        kind = "OwnOfAScript"

    Own.__module__ = "__main__"
    space = nd.SearchSpace(model=nd.choice(MODEL, Own(h=4, input_size=8)))
    with pytest.raises(nd.ConfigError, match=r"cannot contain the classes of your script\. Use n_jobs=1"):
        random_search(space=space, n_jobs=2).fit(table)


def test_a_search_is_a_description() -> None:
    search = nd.TPESearch(SPACE, model=MODEL, config=CONFIG, timeout="1h30m", max_disk="2GB", pruner="hyperband")
    assert search.timeout == 5400.0
    assert nd.TPESearch.from_json(search.to_json()) == search
    plan = nd.MultiObjectiveSearch(SPACE, model=MODEL, objectives={"accuracy": 0.7, "training_time": ("minimize", 0.3)})
    assert plan.budget == 5000
    assert nd.MultiObjectiveSearch.from_dict(plan.to_dict()) == plan


def test_many_trainings_are_announced(random_search: Make, table: Any, caplog: pytest.LogCaptureFixture) -> None:
    search = random_search(nd.MultiObjectiveSearch, callbacks=lambda *_: True)
    search.fit(table)
    assert "5,000 trainings are coming" in caplog.text
