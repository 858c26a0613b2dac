"""What the lines of a run's events mean together; expected values by hand."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from neuro_divergent.core.runs.log import read_log


def line(event: Any, number: int = 0, **values: Any) -> bytes:
    return json.dumps({"event": event, "time": 100.0 + number, "step": number, "epoch": 0} | values).encode() + b"\n"


def steps(first: int, *losses: Any, **values: Any) -> bytes:
    numbers = list(range(first, first + len(losses)))
    columns = {"steps": numbers, "loss": losses, "gradient_norm": losses, "learning_rate": [0.1] * len(losses)}
    return line("steps", numbers[-1], **columns | values)


def test_lines_of_steps_become_columns():
    log = read_log(line("fit_start") + steps(1, 4.0, 3.0) + steps(3, 2.0) + line("fit_end", 3, why="enough"))
    assert log.steps == {
        "step": [1, 2, 3],
        "loss": [4.0, 3.0, 2.0],
        "gradient_norm": [4.0, 3.0, 2.0],
        "learning_rate": [0.1, 0.1, 0.1],
    }
    assert [event["event"] for event in log.events] == ["fit_start", "fit_end"]
    assert (log.time, log.step, log.damaged, log.complete) == (103.0, 3, 0, True)


def test_a_resumed_training_replaces_the_steps_and_epochs_that_it_did_again():
    """Killed after step 5, with a checkpoint of step 3; of epoch 2 a record was written that is not true any more."""
    log = read_log(
        line("fit_start")
        + steps(1, 9.0, 8.0, 7.0)
        + line("epoch", 2, epoch=1, train_loss=8.5)
        + steps(4, 6.0, 5.0)
        + line("skipped", 2)
        + line("skipped", 3)
        + line("log", 3, seen=1)
        + line("log", 4, seen=2)
        + line("epoch", 5, epoch=2, train_loss=6.0)
        + line("fit_start", 3, epoch=1)
        + steps(4, 0.5)
    )
    assert log.steps["step"] == [1, 2, 3, 4]
    assert log.steps["loss"] == [9.0, 8.0, 7.0, 0.5]
    assert log.epochs == [{"epoch": 1, "time": 102.0, "train_loss": 8.5}]
    kept = [(event["event"], event["step"]) for event in log.events]
    assert kept == [("fit_start", 0), ("skipped", 2), ("log", 3), ("fit_start", 3)]


def test_a_new_run_in_a_used_directory_is_read_alone():
    log = read_log(line("fit_start") + steps(1, 9.0) + line("fit_end", 1) + line("fit_start") + steps(1, 1.0))
    assert log.steps["loss"] == [1.0]
    assert len(log.events) == 1


def test_the_latest_line_of_a_step_or_an_epoch_counts():
    """Lines that overlap without a start between them: nobody writes such, but a file may hold them."""
    epochs = line("epoch", 2, epoch=1, train_loss=5.0) + line("epoch", 2, epoch=1, train_loss=4.0)
    log = read_log(steps(1, 1.0, 2.0, 3.0) + steps(2, 20.0) + steps(7, 7.0) + steps(5, 5.0) + epochs)
    assert log.steps["step"] == [1, 2, 3, 5, 7]
    assert log.steps["loss"] == [1.0, 20.0, 3.0, 5.0, 7.0]
    assert log.epochs == [{"epoch": 1, "time": 102.0, "train_loss": 4.0}]


def test_numbers_without_a_word_in_json_come_back():
    log = read_log(steps(1, {"float": "nan"}, {"float": "inf"}) + line("epoch", 2, epoch=1, train_loss="nan"))
    assert math.isnan(log.steps["loss"][0])
    assert log.steps["loss"][1] == math.inf
    assert math.isnan(log.epochs[0]["train_loss"])


@pytest.mark.parametrize(
    "bad",
    [
        b'{"event": "steps", "ti\n',
        b"\x00\xff\xfe\n",
        b"[1]\n",
        b"5\n",
        b"{}\n",
        b"[" * 5000 + b"\n",
        line("steps", 5),
        steps(4, 1.0, loss=[]),
        steps(4, 1.0, loss=[[1.0]]),
        steps(4, 1.0, loss=None),
        steps(4, 1.0, steps=[]),
        steps(4, 1.0, steps=[True]),
        steps(4, 1.0, steps=["4"]),
        steps(4, 1.0, loss=[10**400]),
        line("epoch", 5, epoch="x", train_loss=1.0),
        line("epoch", 5, train_loss={}),
        line("fit_start", step="0"),
        line(5),
        b'{"event": "fit_end", "time": NaN, "step": 5, "epoch": 0}\n',
        b'{"event": "log", "time": 1, "step": 5, "epoch": 0, "text": "' + b"a" * 2**22 + b'"}\n',
    ],
    ids=lambda value: repr(value)[:50],
)
def test_a_line_that_makes_no_sense_is_counted_and_left_out(bad: bytes):
    log = read_log(line("fit_start") + steps(1, 3.0, 2.0) + bad + steps(3, 1.0))
    assert log.damaged == 1
    assert log.steps["loss"] == [3.0, 2.0, 1.0]
    assert len(log.events) == 1


def test_a_logged_value_may_be_called_time():
    log = read_log(line("log", 3, time="noon"))
    assert [event["time"] for event in log.events] == [None]
    assert log.damaged == 0


@pytest.mark.parametrize("number", ["1e400", "-5", "1" + 400 * "0"])
def test_a_time_that_no_clock_shows_is_none(number):
    """A stranger's file: `datetime.fromtimestamp` would raise OverflowError."""
    log = read_log(b'{"event": "log", "time": ' + number.encode() + b', "step": 1, "epoch": 0}\n')
    assert (log.time, log.damaged) == (None, 0)
