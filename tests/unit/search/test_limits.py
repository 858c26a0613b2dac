"""Limits of time: a trial that hangs is ended, and the search ends on time."""

from __future__ import annotations

import importlib
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
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
    search = random_search(nd.GridSearch, space=space, config=config, trial_timeout="1s", stacked=False)
    result = search.fit(table)
    assert result.trials["state"].to_list() == ["complete", "failed"]
    assert result.trials["error"][1] == "it took longer than trial_timeout, 1 s"
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


def absolute(output: Any, target: Any) -> Any:
    """A loss of one's own: no file has it, so its trials stay in this process."""
    return (output - target).abs()


class Disturbed(nd.Model):
    """Does something in the middle of its tenth step."""

    def build(self, spec: Any) -> torch.nn.Module:
        """The network for these sizes."""
        return _Disturbed(spec)


class _Disturbed(torch.nn.Module):
    what: ClassVar[Callable[[], Any] | None] = None

    def __init__(self, spec: Any) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(spec.lookback, spec.horizon)
        self.calls = 0

    def forward(self, batch: Any) -> Any:
        self.calls += 1
        if self.calls == 10 and self.what is not None:
            type(self).what, what = None, type(self).what
            what()
        return self.layer(batch.y[:, :, 0])[:, :, None, None]


def hang() -> None:
    """Sleep, and go on sleeping when something is raised."""
    while True:
        with suppress(Exception):
            time.sleep(3600)


@pytest.mark.parametrize("limit", ["timeout", "trial_timeout"])
def test_a_trial_that_hangs_in_this_process_is_interrupted(
    random_search: Make, table: Any, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(_Disturbed, "what", staticmethod(hang))
    search = random_search(
        model=Disturbed(h=4, input_size=8), config=CONFIG.replace(loss=absolute), n_trials=2, stacked=False
    )
    if limit == "timeout":
        with pytest.raises(nd.TrainingError, match="none did within timeout"):
            search.replace(timeout=1.0).fit(table)
    else:
        found = search.replace(trial_timeout=1.0).fit(table)
        assert "it took longer than trial_timeout, 1 s" in found.trials["error"].to_list()
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0.0
    monkeypatch.setattr(_Disturbed, "what", None)  # a busy machine may not have come so far
    result = search.fit(table, resume="auto")
    straight = search.replace(directory=search.directory.parent / "straight").fit(table)
    done = result.trials["mae"].drop_nulls().to_list()
    assert done == straight.trials["mae"].to_list()[2 - len(done) :]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("stacked", [False, True])
def test_ctrl_c_in_the_middle_of_a_step_loses_no_bit(
    random_search: Make, table: Any, monkeypatch: pytest.MonkeyPatch, count: int, stacked: bool
) -> None:
    """Once: the trials are saved after the step. Twice: it stops at once, and the step is taken again."""

    def interrupt() -> None:
        for _ in range(count):
            signal.raise_signal(signal.SIGINT)

    search = random_search(model=Disturbed(h=4, input_size=8), n_trials=2, stacked=stacked, checkpoint_every=0.001)
    straight = search.replace(directory=search.directory.parent / "straight").fit(table)
    monkeypatch.setattr(_Disturbed, "what", staticmethod(interrupt))
    with pytest.raises(KeyboardInterrupt):
        search.fit(table)
    assert list((search.directory / "trials").rglob("step-*")) or count == 2
    result = search.fit(table, resume="auto")
    assert result.trials["mae"].to_list() == straight.trials["mae"].to_list()


def test_a_search_ends_on_time_with_a_trial_that_hangs(random_search: Make, table: Any) -> None:
    search = random_search(config=CONFIG.replace(max_steps=50_000_000), timeout="1s")
    begun = time.monotonic()
    with pytest.raises(nd.TrainingError, match=r"none did within timeout, 1 s\. Go on with resume='auto'"):
        search.fit(table)
    assert time.monotonic() - begun < 600  # it ends at all
