"""Trials through an executor: those of a search in this process; what is refused; a search that runs out of time."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import neuro_divergent as nd

CONFIG = nd.TrainingConfig(max_epochs=2, compile=False, progress=False, batch_size=32)
SPACE = nd.SearchSpace(learning_rate=nd.choice(1e-3, 1e-2), hidden_size=nd.choice(4, 8))
MODEL = nd.MLP(h=4, input_size=12)


@pytest.fixture(scope="module")
def executor() -> Any:
    with ThreadPoolExecutor(1) as pool:
        yield pool


def test_a_grid_is_that_of_this_process(executor: Any) -> None:
    data = nd.samples.air_passengers()
    grid = nd.GridSearch(SPACE, model=MODEL, config=CONFIG, stacked=False)
    here, there = grid.fit(data), grid.replace(executor=executor).fit(data)
    columns = [name for name in here.trials.columns if name != "seconds"]
    assert here.trials.select(columns).sort("number").equals(there.trials.select(columns).sort("number"))
    assert here.best_forecaster().predict().equals(there.best_forecaster().predict())


def test_a_pruned_trial_pauses_on_any_worker(executor: Any) -> None:
    search = nd.RandomSearch(
        SPACE, model=MODEL, config=CONFIG.replace(max_epochs=8), n_trials=4, pruner="successive_halving",
        executor=executor,
    )  # fmt: skip
    found = search.fit(nd.samples.air_passengers())
    assert found.trials.height == 4
    assert "complete" in found.trials["state"].to_list()


@pytest.mark.stress
def test_a_search_that_runs_out_of_time_can_go_on(executor: Any, tmp_path: Path) -> None:
    """A worker ends by itself and saves its trial; the second search goes on from there."""
    search = nd.RandomSearch(
        SPACE, model=MODEL, config=CONFIG.replace(max_epochs=None, max_steps=20_000, early_stopping=None), n_trials=1,
        directory=tmp_path / "study", executor=executor, timeout="4s", stacked=False,
    )  # fmt: skip
    data = nd.samples.air_passengers()
    with pytest.raises(nd.TrainingError, match="none did within timeout"):
        search.fit(data)
    assert list((tmp_path / "study").glob("trials/*/run-00/checkpoints/step-*"))
    short = search.replace(timeout=None, trial_timeout="1s")
    with pytest.raises(nd.TrainingError, match="it took longer than trial_timeout"):
        short.fit(data, resume="auto")


def test_what_cannot_be_combined_is_refused(executor: Any) -> None:
    with pytest.raises(nd.ConfigError, match="has no submit"):
        nd.RandomSearch(SPACE, model=MODEL, executor="dask")
    with pytest.raises(nd.ConfigError, match="Leave one of them out"):
        nd.RandomSearch(SPACE, model=MODEL, executor=executor, n_jobs=2)
    own = CONFIG.replace(loss=lambda output, target: (output - target).abs())
    with pytest.raises(nd.ConfigError, match=r"cannot contain your own callables.* and no executor"):
        nd.RandomSearch(SPACE, model=MODEL, config=own, executor=executor).fit(nd.samples.air_passengers())
