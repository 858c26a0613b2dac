"""Limits of time: a trial that hangs is ended, and the search ends on time."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest
from small_search import CONFIG

import neuro_divergent as nd

Make = Callable[..., Any]


def test_a_trial_that_takes_too_long_fails_and_the_others_go_on(random_search: Make, table: Any) -> None:
    """The second point needs hours; both run in another process, which is ended."""
    space = nd.SearchSpace(max_steps=nd.choice(20, 50_000_000))
    config = CONFIG.replace(max_steps=20)
    search = random_search(nd.GridSearch, space=space, config=config, trial_timeout="3s", stacked=False)
    result = search.fit(table)
    assert result.trials["state"].to_list() == ["complete", "failed"]
    assert result.trials["error"][1] == "it took longer than trial_timeout, 3 s"
    assert nd.read_run(result.directory).what == "runs"


def test_a_search_ends_on_time_with_a_trial_that_hangs(random_search: Make, table: Any) -> None:
    search = random_search(config=CONFIG.replace(max_steps=50_000_000), timeout="1s")
    begun = time.monotonic()
    with pytest.raises(nd.TrainingError, match=r"none did within timeout, 1 s\. Go on with resume='auto'"):
        search.fit(table)
    assert time.monotonic() - begun < 600  # it ends at all
