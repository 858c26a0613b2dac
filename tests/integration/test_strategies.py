"""A strategy takes every step of a training: it is asked exactly once per step, whichever way the training runs."""

import os
import signal
import sys

import pytest
import torch

import neuro_divergent as nd
from neuro_divergent.training.compiled.full_step import Compiled
from neuro_divergent.training.stacked.strategy import StackedSteps
from neuro_divergent.training.step.eager import Eager

STEPS = 24
CONFIG = nd.TrainingConfig(max_steps=STEPS, batch_size=16, steps_per_epoch=10, progress=False, threads=1)
MODEL = nd.MLP(h=4, input_size=8, hidden_size=8, layers=1)

PLUGIN = '''
import os
from typing import Any
import neuro_divergent as nd
from neuro_divergent.training.step.eager import Eager

class Counted(Eager):
    def step(self, task, state, batch):
        with open(os.environ["COUNTS"], "a") as file:
            file.write(f"{os.getpid()} {state.step}\\n")
        return super().step(task, state, batch)

class Counting(nd.StrategySettings):
    """Counts the steps it takes."""
    def build(self) -> Any:
        return Counted()
'''


@pytest.fixture
def counted(tmp_path, monkeypatch):
    """The configuration with a strategy of a plugin that every process finds, and what it has counted."""
    home = tmp_path / "site"
    information = home / "counting_steps-1.0.dist-info"
    information.mkdir(parents=True)
    (home / "counting_steps.py").write_text(PLUGIN)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: counting-steps\nVersion: 1.0\n")
    (information / "entry_points.txt").write_text("[neuro_divergent.plugins]\ncounting = counting_steps\n")
    monkeypatch.syspath_prepend(home)
    paths = [str(home), os.environ.get("PYTHONPATH", "")]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in paths if path))
    counts = tmp_path / "counts"
    counts.touch()
    monkeypatch.setenv("COUNTS", str(counts))
    import counting_steps

    yield CONFIG.replace(strategy=counting_steps.Counting()), lambda: counts.read_text().splitlines()
    sys.modules.pop("counting_steps")


def frame():
    return nd.samples.hourly_panel(2, 80)


def test_eager(counted):
    config, steps = counted
    MODEL.fit(frame(), config)
    assert [int(line.split()[1]) for line in steps()] == list(range(STEPS))


def test_compile_is_left_to_the_network_when_a_strategy_takes_the_steps(counted):
    config, steps = counted
    MODEL.fit(frame(), config.replace(compile=True))
    assert len(steps()) == STEPS


def test_several_trainings(counted):
    config, steps = counted
    nd.fit_many(MODEL, frame(), config, seeds=3)
    assert len(steps()) == 3 * STEPS


def test_folds_in_processes_of_their_own(counted):
    config, steps = counted
    nd.cross_validation([MODEL], frame(), config=config, n_windows=2, refit=True, n_jobs=2)
    assert len(steps()) == 2 * STEPS
    assert str(os.getpid()) not in {line.split()[0] for line in steps()}


def test_a_supervised_training(counted, tmp_path):
    config, steps = counted
    saved = config.replace(
        checkpoints=nd.Checkpoints(str(tmp_path / "run")), fault_tolerance=nd.FaultTolerance(retries=1)
    )
    MODEL.fit(frame(), saved)
    assert [int(line.split()[1]) for line in steps()] == list(range(STEPS))


def test_plain_arrays(counted):
    config, steps = counted
    x = torch.linspace(-1, 1, 64)[:, None]
    nd.Trainer(config.replace(steps_per_epoch=None)).fit(torch.nn.Linear(1, 1), (x, 3 * x))
    assert len(steps()) == STEPS


def test_the_engines_own_strategies_are_asked_once_per_step(monkeypatch):
    """Without a strategy in the configuration, compiled and stacked steps are one call of theirs each."""
    calls = []
    for kind in (Eager, Compiled, StackedSteps):
        real = kind.step

        def step(self, *given, real=real, kind=kind, **named):
            calls.append((kind, type(self)))
            return real(self, *given, **named)

        monkeypatch.setattr(kind, "step", step)
    MODEL.fit(frame(), CONFIG)
    assert calls == [(Eager, Eager)] * STEPS
    calls.clear()
    MODEL.fit(frame(), CONFIG.replace(compile=True))
    assert [kind for kind, _ in calls].count(Compiled) == STEPS
    assert {own for _, own in calls} == {Compiled}
    calls.clear()
    nd.fit_many(MODEL, frame(), CONFIG, seeds=3, stacked=True)
    assert calls == [(StackedSteps, StackedSteps)] * STEPS


def test_a_strategy_refuses_before_anything_is_trained():
    class Refusing(nd.StrategySettings):
        """Takes nothing."""

        def build(self):
            strategy = Eager()
            strategy.refuses = lambda config, module: "it takes no steps"
            return strategy

    with pytest.raises(nd.ConfigError, match="it takes no steps"):
        MODEL.fit(frame(), CONFIG.replace(strategy=Refusing()))


def test_a_wrapper_around_a_models_module_is_refused_in_a_sentence():
    class Wrapping(Eager):
        def prepare(self, module, build_optimizer):
            wrapper = torch.nn.Sequential(module)
            return wrapper, build_optimizer(wrapper)

    class Wraps(nd.StrategySettings):
        """Wraps."""

        def build(self):
            return Wrapping()

    with pytest.raises(nd.ConfigError, match=r"Wrapping.prepare returned a Sequential around it"):
        MODEL.fit(frame(), CONFIG.replace(strategy=Wraps()))
    x = torch.linspace(-1, 1, 64)[:, None]
    nd.Trainer(CONFIG.replace(strategy=Wraps(), steps_per_epoch=None)).fit(torch.nn.Linear(1, 1), (x, 3 * x))


def test_what_a_strategy_keeps_is_in_the_checkpoint(tmp_path):
    seen = []

    class Keeping(Eager):
        count = 0

        def step(self, task, state, batch):
            self.count += 1
            return super().step(task, state, batch)

        def state_dict(self):
            return {"count": self.count}

        def load_state_dict(self, data):
            seen.append(data)
            self.count = data["count"]

    class KeepsCount(nd.StrategySettings):
        """Counts over a resume."""

        def build(self):
            return Keeping()

    class Stop(nd.Callback):
        looks_at = frozenset()

        def on_batch_end(self, state):
            if state.step == 7:
                state.stop("enough")

    run = CONFIG.replace(strategy=KeepsCount(), checkpoints=nd.Checkpoints(str(tmp_path / "run")))
    MODEL.fit(frame(), run.replace(callbacks=(Stop(),)))
    MODEL.fit(frame(), run, resume="auto")
    assert seen == [{"count": 7}]


class OtherProcess(Eager):
    """Agrees with another process, which has set every flag since some moment."""

    def __init__(self, since):
        super().__init__()
        self.since, self.state = since, None

    def agree(self, flag):
        return flag or (self.state is not None and self.since(self.state))

    def step(self, task, state, batch):
        taken = super().step(task, state, batch)
        self.state = state
        return taken


def with_other(since, main=True):
    class Other(nd.StrategySettings):
        """Two processes."""

        def build(self):
            strategy = OtherProcess(since)
            strategy.main = main
            return strategy

    return CONFIG.replace(strategy=Other())


def test_a_stop_in_another_process_stops_this_one():
    fitted = MODEL.fit(frame(), with_other(lambda state: state.step == 5))
    assert len(fitted.history.step_loss) == 5
    assert "another process" in fitted.history.stopped


def test_a_stop_between_two_epochs_of_another_process_stops_this_one():
    """Before the first step of the next epoch: the other process would not take part in it."""
    fitted = MODEL.fit(frame(), with_other(lambda state: (state.epoch, state.position) == (1, 0)))
    assert len(fitted.history) == 1
    assert len(fitted.history.step_loss) == 6  # an epoch
    assert "another process" in fitted.history.stopped


def test_a_signal_of_another_process_saves_the_run_and_ends_this_process_too(tmp_path):
    place = tmp_path / "run"
    config = with_other(lambda state: state.step == 7).replace(checkpoints=nd.Checkpoints(str(place), on_stop=False))
    with pytest.raises(SystemExit) as ended:
        MODEL.fit(frame(), config)
    assert ended.value.code == 143
    assert nd.read_run(place).newest.step == 7


def test_a_process_that_saves_nothing_finishes_its_step_when_a_signal_comes(tmp_path):
    """The other processes of the run must hear of it, and the main one must save."""
    steps = []

    class Interrupt(nd.Callback):
        looks_at = frozenset()

        def on_batch_start(self, state):
            if state.step == 4:
                signal.raise_signal(signal.SIGINT)

        def on_batch_end(self, state):
            steps.append(state.step)

    config = with_other(lambda state: False, main=False).replace(
        checkpoints=nd.Checkpoints(str(tmp_path / "run")), callbacks=(Interrupt(),)
    )
    with pytest.raises(KeyboardInterrupt):
        MODEL.fit(frame(), config)
    assert steps == [1, 2, 3, 4, 5]
    assert not (tmp_path / "run").exists()
