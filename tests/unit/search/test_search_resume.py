"""Pruning, pausing, resuming: nothing is lost, and a trial that paused gives the same bits as one that did not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from small_search import CONFIG, MODEL, SPACE

import neuro_divergent as nd
from neuro_divergent.search.engine.rungs import Halving, rule_of
from neuro_divergent.search.engine.work import Order, Wanted, Workshop
from neuro_divergent.search.plan import make_plan

Make = Callable[..., Any]


@pytest.mark.parametrize("model", [MODEL, nd.MLP(h=4, input_size=8, hidden_size=8, layers=1)])
def test_pause_and_continue_give_the_same_bits(random_search: Make, table: Any, tmp_path: Path, model: Any) -> None:
    """A third, saved, read by another workshop, the rest; and all at once."""
    plan, _ = make_plan(random_search(model=model), model, table)
    wanted = Wanted(3, model, CONFIG.replace(compile=False, early_stopping=2, validation_split=0.2))
    straight = Workshop(tmp_path / "a", plan)
    whole = straight.do(Order(trials=(wanted,), stacked=False))[3]
    first = Workshop(tmp_path / "b", plan).do(Order(trials=(wanted,), share=1 / 3, save=True, stacked=False))[3]
    rest = Workshop(tmp_path / "b", plan).do(Order(trials=(wanted,), stacked=False))[3]
    assert not first.finished
    assert first.steps == 9
    assert rest.finished
    assert rest.scores == whole.scores
    one, other = (nd.load(tmp_path / name / "trials" / "00003" / "model").network.state_dict() for name in "ab")
    assert all(bool((one[name] == value).all()) for name, value in other.items())


def test_a_stack_can_pause_and_go_on(random_search: Make, table: Any, tmp_path: Path) -> None:
    """In another process the stack goes on from checkpoints, with the state of its optimizer."""
    plan, _ = make_plan(random_search(), MODEL, table)
    trials = tuple(Wanted(n, MODEL, CONFIG.replace(compile=False, learning_rate=0.01 * n)) for n in (1, 2, 3))
    solo = Workshop(tmp_path / "a", plan).do(Order(trials=trials, stacked=False))
    Workshop(tmp_path / "b", plan).do(Order(trials=trials, share=1 / 3, save=True))
    stacked = Workshop(tmp_path / "b", plan).do(Order(trials=trials))
    alone = Workshop(tmp_path / "c", plan)
    alone.do(Order(trials=trials, share=1 / 3))
    mixed = alone.do(Order(trials=trials, stacked=False))  # began in a stack, ends alone
    for number in (1, 2, 3):
        assert stacked[number].scores["mae"] == pytest.approx(solo[number].scores["mae"], rel=1e-5)
        assert mixed[number].scores["mae"] == pytest.approx(solo[number].scores["mae"], rel=1e-5)


@pytest.mark.parametrize("pruner", ["successive_halving", "hyperband"])
def test_halving_promotes_the_best_by_resuming_them(random_search: Make, table: Any, pruner: str) -> None:
    search = random_search(n_trials=9, pruner=pruner, stacked=False)
    result = search.fit(table)
    frame = result.trials
    assert set(frame["state"]) == {"complete", "pruned"}
    assert 1 <= (frame["state"] == "complete").sum() < 9
    trials = result.study.get_trials(deepcopy=False)
    if pruner == "successive_halving":
        first = [one.intermediate_values[1] for one in trials]
        on = {one.number for one in trials if 3 in one.intermediate_values}
        assert on <= set(np.argsort(first)[:5].tolist())  # a third of those that had come, not of all
        assert int(np.argmin(first)) in on
    winner = trials[result.best.number]
    plan, _ = make_plan(search, MODEL, table)
    again = result.best.model.fit(plan.scores[0].past, result.best.config.replace(compile=False))
    kept = result.best_forecaster(refit=False).network.state_dict()
    assert all(bool((kept[name] == value).all()) for name, value in again.network.state_dict().items())
    assert winner.user_attrs["facts"]["steps"] == 27  # continued: all steps were taken once
    assert [path.name for path in (result.directory / "trials").iterdir()] == [f"{result.best.number:05d}"]


def test_the_brackets_of_hyperband_share_the_trials_as_in_the_paper() -> None:
    """Li et al. 2018, Algorithm 1, with R/r = 9 and eta = 3: 9, 5 and 3 trials begin at 1/9, 1/3 and 1."""
    rule = Halving(brackets=3)
    counts = np.bincount([rule.bracket(number) for number in range(17)])
    assert counts.tolist() == [9, 5, 3]
    assert [round(rule.stages(number)[0].share * 9) for number in (0, 2, 4)] == [1, 9, 3]


@pytest.mark.parametrize(("pruner", "fields"), [("median", {}), ("patient", {}), ("wilcoxon", {"cv_folds": 3})])
def test_pruners_end_bad_trials_early(random_search: Make, table: Any, pruner: str, fields: Any) -> None:
    rates = (0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 1e-7, 2e-7)
    good = {"learning_rate": nd.choice(*(rates[5:] if pruner == "wilcoxon" else rates))}
    search = random_search(nd.GridSearch, space=nd.SearchSpace(**good), pruner=pruner, stacked=False, **fields)
    result = search.fit(table)
    states = result.trials["state"].to_list()
    if pruner == "wilcoxon":  # three folds are too few for a small p-value
        assert set(states) == {"complete"}
        assert len(result.study.trials[0].intermediate_values) == 3
    else:
        assert states[:5] == ["complete"] * 5  # the median of five is needed first
        # The last two get better by very little: the patient pruner waits as long as they do.
        assert states[6:] == ["pruned" if pruner == "median" else "complete"] * 2
        assert (max(result.study.trials[7].intermediate_values) < 7) == (pruner == "median")
    assert result.best.value == result.trials.filter(result.trials["state"] == "complete")["mae"].min()


def test_an_interrupted_search_goes_on(random_search: Make, table: Any) -> None:
    def interrupt(study: Any, trial: Any) -> None:
        if trial.number == 1:
            raise KeyboardInterrupt

    search = random_search(n_trials=4, stacked=False)
    with pytest.raises(KeyboardInterrupt):
        search.replace(callbacks=interrupt).fit(table)
    with pytest.raises(nd.StorageError, match=r"has a study already.*resume='auto'"):
        search.fit(table)
    result = search.fit(table, resume="auto")
    straight = search.replace(directory=search.directory.parent / "straight").fit(table)
    assert result.trials.drop("seconds").equals(straight.trials.drop("seconds"))
    before = result.trials["mae"].to_list()
    more = search.replace(n_trials=5).fit(table, resume="auto")
    assert more.trials.height == 5
    assert more.trials["mae"][:4].to_list() == before


def test_a_study_of_something_else_is_not_resumed(random_search: Make, table: Any) -> None:
    search = random_search(n_trials=1)
    search.fit(table)
    with pytest.raises(nd.StorageError, match="the space is another one"):
        search.replace(space=SPACE.add(batch_size=nd.choice(8, 16))).fit(table, resume="auto")
    with pytest.raises(nd.StorageError, match="the data are other data"):
        search.fit(table.to_polars().head(200), resume="auto")
    with pytest.raises(nd.StorageError, match="scoring was 'mae', but is 'rmse'"):
        search.replace(scoring="rmse").fit(table, resume="auto")
    with pytest.raises(nd.ConfigError, match='resume must be "auto" or None'):
        search.fit(table, resume="yes")


def test_a_deterministic_search_does_not_depend_on_the_processes(random_search: Make, table: Any) -> None:
    fields: Any = {"n_trials": 5, "deterministic": True, "pruner": "median"}
    one = random_search(nd.TPESearch, n_initial_points=2, **fields).fit(table)
    two = random_search(
        nd.TPESearch, n_initial_points=2, n_jobs=2, directory=one.directory.parent / "two", **fields
    ).fit(table)
    assert one.trials.drop("seconds").equals(two.trials.drop("seconds"))
    assert one.study.trials[0].user_attrs["stack"] == [0, 1, 2, 3]


def test_disk_is_bounded(random_search: Make, table: Any, caplog: pytest.LogCaptureFixture) -> None:
    """The checkpoints of all paused trials would need more than 20 kB."""
    search = random_search(n_trials=6, pruner="successive_halving", stacked=False, max_disk="20kB")
    result = search.fit(table)
    assert "may use 20000 bytes of disk" in caplog.text
    assert (result.trials["state"] == "complete").sum() >= 1


def test_wilcoxon_needs_folds(random_search: Make) -> None:
    with pytest.raises(nd.ConfigError, match="compares folds, so it needs several, but there is 1"):
        rule_of(random_search(pruner="wilcoxon"), 1)
