"""Callbacks: when they are called, in which order, what they may do, and what the built-in ones write."""

from __future__ import annotations

import copy
import csv
import json
import re
import resource
import sys
import time
import types
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core.errors import CallbackError
from neuro_divergent.training.callbacks import HOOKS, CallbackList, ProgressLine

X = np.linspace(-1, 1, 20, dtype=np.float32)[:, None]


def fit(*callbacks, **fields):
    defaults = {"max_epochs": 2, "batch_size": 8, "progress": False}
    return nd.Trainer(nd.TrainingConfig(**defaults | fields, callbacks=callbacks)).fit(nn.Linear(1, 1), (X, 2 * X))


def recorder(name, seen, *, engine=False):
    def hook_of(hook):
        return lambda self, state: seen.append((name, hook))

    members = {hook: hook_of(hook) for hook in HOOKS} | {"engine": engine}
    return type(name, (nd.Callback,), members)()


def test_the_order_of_the_hooks():
    seen = []
    fit(recorder("a", seen), max_epochs=1)  # 16 rows train: two batches
    batch = ["on_batch_start", "on_gradients", "on_batch_end"]
    validation = ["on_validation_start", "on_validation_end"]
    expected = ["on_fit_start", "on_epoch_start", *batch, *batch, *validation, "on_epoch_end", "on_fit_end"]
    assert [hook for _, hook in seen] == expected


def test_users_callbacks_come_in_their_order_and_the_engines_own_around_them():
    seen = []
    listed = CallbackList([recorder("a", seen), recorder("own", seen, engine=True), recorder("b", seen)])
    listed("on_epoch_start", None)
    listed("on_epoch_end", None)
    assert [name for name, _ in seen] == ["own", "a", "b", "a", "b", "own"]


class Broken(nd.Callback):
    def on_batch_end(self, state):
        raise ValueError("no luck")


class Wrong(nd.Callback):
    def on_batch_end(self, state):
        raise nd.DataError("this column is odd")


class BadLoser(nd.Callback):
    def on_exception(self, state):
        raise RuntimeError("and now this")


def test_an_error_in_a_callback_is_raised_with_its_name():
    seen = []
    with pytest.raises(nd.CallbackError, match=r"Broken\.on_batch_end raised ValueError: no luck") as caught:
        fit(Broken(), recorder("after", seen))
    assert isinstance(caught.value.__cause__, ValueError)
    assert seen[-1] == ("after", "on_exception")


def test_an_error_of_ours_keeps_its_type_and_notes_the_place():
    with pytest.raises(nd.DataError, match="this column is odd") as caught:
        fit(Wrong())
    assert "Wrong.on_batch_end" in caught.value.__notes__[0]


def test_an_error_while_an_error_is_reported_hides_nothing(caplog):
    seen = []
    with pytest.raises(nd.CallbackError, match="no luck"):
        fit(Broken(), BadLoser(), recorder("after", seen))
    assert "BadLoser.on_exception raised RuntimeError: and now this" in caplog.text
    assert seen[-1] == ("after", "on_exception")


class Conductor(nd.Callback):
    def on_batch_end(self, state):
        state.rate_factor = 0.5
        state.log(seen=state.loss)
        if state.step == 3:
            state.stop("enough")


def test_a_callback_may_stop_change_the_rate_and_log():
    history = fit(Conductor(), nd.LearningRateMonitor(), max_epochs=9, optimizer=nd.SGD(learning_rate=0.1))
    assert history.stopped == "enough"
    assert len(history.step_loss) == 3
    assert [event["seen"] for event in history.events if "seen" in event] == history.step_loss
    rates = [event["learning_rates"][0] for event in history.events if "learning_rates" in event]
    assert rates == pytest.approx([0.1, 0.05, 0.05])


def test_monitors_log_into_the_history():
    history = fit(nd.GradientNormMonitor(every=1), nd.Timer())
    norms = [event["gradient_norms"] for event in history.events if "gradient_norms" in event]
    assert len(norms) == 4
    assert set(norms[0]) == {"weight", "bias"}
    assert history.events[-1]["training_seconds"] > 0


def test_the_timer_stops():
    history = fit(nd.Timer(max_minutes=1e-9), max_epochs=50)
    assert len(history.step_loss) == 1
    assert "minutes was reached" in history.stopped


def test_json_lines_say_what_happened(tmp_path):
    fit(nd.JsonLines(path=tmp_path / "log" / "run.jsonl"), Conductor())
    lines = [json.loads(line) for line in (tmp_path / "log" / "run.jsonl").read_text().splitlines()]
    kinds = [line["event"] for line in lines]
    assert kinds[0] == "fit_start"
    assert kinds[-1] == "fit_end"
    assert lines[-1]["why"] == "enough"
    assert kinds.count("epoch") == 1
    assert kinds.count("log") == 3


def test_json_lines_say_what_went_wrong(tmp_path):
    with pytest.raises(nd.CallbackError):
        fit(nd.JsonLines(path=tmp_path / "run.jsonl"), Broken())
    last = json.loads((tmp_path / "run.jsonl").read_text().splitlines()[-1])
    assert last["event"] == "error"
    assert "no luck" in last["error"]


def test_the_csv_log_is_the_history(tmp_path):
    history = fit(nd.CsvLog(path=tmp_path / "history.csv"))
    with open(tmp_path / "history.csv", newline="") as file:
        rows = list(csv.DictReader(file))
    assert [float(row["train_loss"]) for row in rows] == history.train_loss
    assert [float(row["validation_loss"]) for row in rows] == history.validation_loss


def test_tensorboard_reads_its_file(tmp_path):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    history = fit(nd.TensorBoard(directory=tmp_path / "board", every=1))
    board = EventAccumulator(str(tmp_path / "board"))
    board.Reload()
    assert [event.value for event in board.Scalars("epoch/train_loss")] == pytest.approx(history.train_loss)
    assert [event.value for event in board.Scalars("step/loss")] == pytest.approx(history.step_loss)
    assert len(board.Scalars("step/gradient_norm")) == 4


def test_the_loss_plot_is_redrawn(tmp_path):
    path = tmp_path / "loss.png"
    sizes = []

    class Look(nd.Callback):
        def on_epoch_end(self, state):
            sizes.append(path.exists())

    fit(nd.LossPlot(path=path, every=2), Look(), max_epochs=3)
    assert sizes == [False, True, True]
    assert path.read_bytes().startswith(b"\x89PNG")


def test_the_progress_line_says_where_it_is():
    class Keep(nd.Callback):
        def on_batch_end(self, state):
            self.text = ProgressLine("MLP").line(state).plain

    keep = Keep()
    fit(keep, max_epochs=3)
    assert keep.text.startswith("MLP ━")
    assert "epoch 3/3" in keep.text
    assert "validation" in keep.text


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("title", ["MLP", "TemporalFusionTransformer, fold 12"])
def test_the_progress_line_fits_and_says_how_long_it_takes(width, title):
    class Keep(nd.Callback):
        lines = ()

        def on_fit_start(self, state):
            self.line = ProgressLine(title)
            self.line._begun = time.perf_counter()

        def on_batch_end(self, state):
            long = copy.copy(state)  # as long as figures get: four digits with an exponent, thousands of epochs
            long.loss, long.validation = -1.2345e-05, {"validation_loss": -1.2345e-05}
            long.total_steps = 10_000 * state.steps_per_epoch
            self.lines = (*self.lines, self.line.line(state, width), self.line.line(long, width))

    keep = Keep()
    fit(keep, max_epochs=3)
    assert max(line.cell_len for line in keep.lines) <= width
    assert all(re.search(r"epoch \d+/\d+.* loss \S+.* [\d:]+ left$", line.plain) for line in keep.lines)
    if width >= 80 and title == "MLP":
        assert all("━" in line.plain for line in keep.lines)
        assert all("validation" in line.plain for line in keep.lines[1::2])


class Handle:
    """A cell's output in IPython: shown once, then replaced."""

    shown: ClassVar[list[str]] = []
    replaced: ClassVar[list[str]] = []

    def display(self, value):
        self.shown.append(value._repr_html_())

    def update(self, value):
        self.replaced.append(value._repr_html_())


def test_the_progress_in_a_notebook_is_one_output_that_is_replaced(monkeypatch, capsys):
    """With the three names of IPython that are used; the test below has a real kernel where one is installed."""
    display = types.SimpleNamespace(DisplayHandle=Handle)
    shell = types.SimpleNamespace(kernel=object(), execution_count=1)
    monkeypatch.setitem(sys.modules, "IPython", types.SimpleNamespace(get_ipython=lambda: shell, display=display))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    history = fit(progress="auto", max_epochs=40, early_stopping=None)
    assert len(history) == 40
    assert len(Handle.shown) == 1
    assert len(Handle.replaced) < 10  # at most two a second, not one a step
    assert "epoch 40/40" in Handle.replaced[-1]
    fit(progress="auto")
    assert len(Handle.shown) == 1
    shell.execution_count = 2  # the next cell
    fit(progress="auto")
    assert len(Handle.shown) == 2
    captured = capsys.readouterr()
    assert captured.out == captured.err == ""


def test_the_progress_in_a_real_notebook_is_one_output():
    import nbclient
    import nbformat

    cell = (
        "import neuro_divergent as nd\n"
        "config = nd.TrainingConfig(max_epochs=30, batch_size=4)\n"
        "model = nd.MLP(h=2, input_size=4, hidden_size=4)\n"
        "fitted = model.fit(nd.samples.air_passengers(), config)\n"
        "found = nd.cross_validation([model], nd.samples.air_passengers(), config=config, n_windows=3)"
    )
    book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell)])
    nbclient.NotebookClient(book, timeout=120, kernel_name="python3").execute()
    (output,) = book.cells[0].outputs
    assert output.output_type == "display_data"
    assert re.search(r"MLP .*epoch \d+/30  loss .* left", output.data["text/plain"])


def test_the_progress_line_goes_to_the_error_stream_and_away(capsys):
    fit(progress=True)
    captured = capsys.readouterr()
    assert captured.out == ""


def test_settings_survive_a_file_and_unknown_ones_are_refused(tmp_path):
    settings = nd.TrainingConfig(callbacks=(nd.CsvLog(path=tmp_path / "a.csv"), nd.LossPlot(path=tmp_path / "a.png")))
    assert nd.TrainingConfig.from_json(settings.to_json()) == settings
    with pytest.raises(nd.ConfigError, match="CsvLog"):
        nd.TrainingConfig(callbacks=({"kind": "CsvLogg", "path": "x"},))


def test_the_json_log_takes_what_the_engine_logs_on_its_own(tmp_path):
    """A skipped step is an event of its own in the log, with its step."""

    class Poison(nd.Callback):
        def on_batch_start(self, state):
            if state.step == 1:
                with torch.no_grad():
                    next(state.module.parameters()).fill_(float("nan"))

        def on_batch_end(self, state):
            with torch.no_grad():
                next(state.module.parameters()).fill_(0.5)

    config = nd.TrainingConfig(
        max_epochs=1, batch_size=4, validation_split=None, nonfinite="skip", early_stopping=None,
        callbacks=(Poison(), nd.JsonLines(path=tmp_path / "log.jsonl")),
    )  # fmt: skip
    x = np.linspace(-1, 1, 16, dtype=np.float32)[:, None]
    nd.Trainer(config).fit(torch.nn.Linear(1, 1), (x, x))
    events = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    skipped = [event for event in events if event["event"] == "skipped"]
    assert [event["step"] for event in skipped] == [1]


class Says(nd.Callback):
    def on_batch_end(self, state):
        if state.step == 1:
            number, row = np.float32(0.5), np.array([1.0, np.inf])
            state.log(number=number, bad=np.float64("nan"), row=row, tensor=torch.tensor(2), path=complex(1, 2))


def test_what_is_logged_may_be_a_number_of_numpy_and_never_ends_a_training(tmp_path):
    """The run's own log of events and a JSON log beside it hold the same line; values by hand."""
    own = nd.JsonLines(path=tmp_path / "log.jsonl")
    run = nd.Checkpoints(tmp_path / "run", every_n_epochs=None, on_stop=False)
    history = fit(Says(), own, checkpoints=run)
    assert len(history) == 2
    for path in (own.path, tmp_path / "run" / "events.jsonl"):
        events = [json.loads(line) for line in path.read_text().splitlines()]
        logged = next(event for event in events if event["event"] == "log")
        values = {"number": 0.5, "bad": "nan", "row": [1.0, {"float": "inf"}], "tensor": 2, "path": "(1+2j)"}
        assert {name: logged[name] for name in values} == values
        assert [event["event"] for event in events].count("epoch") == 2


def test_a_number_of_numpy_is_saved_and_resumed(tmp_path):
    class Logs(nd.Callback):
        def on_batch_end(self, state):
            state.log(number=np.float32(state.step) / 2)

    fit(Logs(), checkpoints=nd.Checkpoints(tmp_path), max_epochs=1)
    config = nd.TrainingConfig(
        max_epochs=1, batch_size=8, progress=False, callbacks=(Logs(),), checkpoints=nd.Checkpoints(tmp_path)
    )
    history = nd.Trainer(config).fit(nn.Linear(1, 1), (X, 2 * X), resume="auto")
    assert [event["number"] for event in history.events] == [0.5, 1.0]


def test_a_disk_that_is_full_for_a_while_costs_the_log_one_line_at_most(tmp_path, caplog):
    """A limit on the size of files stands for the disk: a write is cut short there as well."""
    path, limit = tmp_path / "events.jsonl", resource.getrlimit(resource.RLIMIT_FSIZE)

    class Full(nd.Callback):
        def on_epoch_start(self, state):
            if state.epoch == 1:
                resource.setrlimit(resource.RLIMIT_FSIZE, (path.stat().st_size + 20, limit[1]))
            if state.epoch == 3:
                resource.setrlimit(resource.RLIMIT_FSIZE, limit)

    try:
        saved = nd.Checkpoints(tmp_path, every_n_epochs=None, on_stop=False)
        assert len(fit(Full(), checkpoints=saved, max_epochs=5)) == 5
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limit)
    assert caplog.text.count("event log could not be written") == 1
    lines = path.read_text().splitlines()
    good = [json.loads(line) for line in lines if line.endswith("}")]
    assert len(lines) == len(good) + 1
    assert [event["epoch"] for event in good if event["event"] == "epoch"] == [1, 4, 5]


def test_a_misspelt_hook_is_answered_with_the_closest():
    with pytest.raises(CallbackError, match=r"Careless\.on_epoch_edn is none.*did you mean on_epoch_end\?"):

        class Careless(nd.Callback):
            def on_epoch_edn(self, state):
                pass

    with pytest.raises(CallbackError, match="the hooks are on_fit_start, on_fit_end"):

        class Foreign(nd.Callback):
            def on_xyz(self, state):
                pass

    class Fine(nd.Callback):
        on_what = ("a", "constant")

        def _on_epoch(self, state):
            pass

    assert fit(Fine()).stopped == "all epochs were done"
