"""Limits of time: a trial that hangs is ended, and the search ends on time."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from small_search import CONFIG

import neuro_divergent as nd

SLEEPS = """
import time
from pathlib import Path
import torch
import neuro_divergent as nd

class Network(torch.nn.Module):
    calls = 0

    def __init__(self, spec):
        super().__init__()
        self.layer = torch.nn.Linear(spec.lookback, spec.horizon)

    def forward(self, batch):
        self.calls += 1
        if self.calls > 5:
            Path(__file__).with_name("asleep").touch()
            time.sleep(3600)
        return self.layer(batch.y[:, :, 0])[:, :, None, None]

class Sleeps(nd.Model):
    '''Sleeps from its sixth step on.'''
    def build(self, spec):
        return Network(spec)
"""

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


@pytest.mark.stress  # the next test has own modules, the first one has time limits
def test_a_model_of_the_users_own_module_that_sleeps_is_ended(
    random_search: Make, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker imports the module. The forward pass sleeps in the middle of the training."""
    (tmp_path / "sleeping_model.py").write_text(SLEEPS)
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("sleeping_model")
    search = random_search(model=own.Sleeps(h=4, input_size=8), n_trials=1, trial_timeout="2s", stacked=False)
    with pytest.raises(nd.TrainingError, match="all 1 failed: it took longer than trial_timeout, 2 s"):
        search.fit(table)
    assert (tmp_path / "asleep").exists()


def test_a_trial_whose_process_is_killed_goes_on(
    random_search: Make, table: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first process kills itself in the middle of the training, as the system does when memory is short."""
    killed = SLEEPS.replace("time.sleep(3600)", "os.kill(os.getpid(), 9)").replace("import time", "import os")
    killed = killed.replace("self.calls > 5", 'self.calls > 5 and not Path(__file__).with_name("asleep").exists()')
    (tmp_path / "killed_model.py").write_text(killed.replace("Sleeps", "Killed"))
    monkeypatch.syspath_prepend(tmp_path)
    own = importlib.import_module("killed_model")
    search = random_search(model=own.Killed(h=4, input_size=8), n_trials=1, trial_timeout="500s", stacked=False)
    assert search.fit(table).trials["state"].to_list() == ["complete"]
    assert (tmp_path / "asleep").exists()


def test_a_search_ends_on_time_with_a_trial_that_hangs(random_search: Make, table: Any) -> None:
    search = random_search(config=CONFIG.replace(max_steps=50_000_000), timeout="1s")
    begun = time.monotonic()
    with pytest.raises(nd.TrainingError, match=r"none did within timeout, 1 s\. Go on with resume='auto'"):
        search.fit(table)
    assert time.monotonic() - begun < 600  # it ends at all
