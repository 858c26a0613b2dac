"""The file names in a run directory. No other module spells them; a test checks this.

run/
  config.json            the resolved configuration
  command.json           the train command of the shell, if one began or resumed the run
  events.jsonl           one line per fact; in a remote directory the folder events/ with numbered parts
  checkpoints/step-N/    state.json, weights, optimizer and a manifest each
  checkpoints-earlier/   checkpoints of an earlier run in the same directory
  context/               the model's description and its last rows; with a checkpoint they make a forecaster
  model/                 the trained model (model.json), or several of them (index/, model-00/, ...)
  report.html            the report
  about.json             the model, the table, and what the scores are compared with
  details.json           the layers of the network and the series of the table
  forecasts/epoch-N.json forecasts of held-out rows after a validation
  notes.json             tags and a note of the user
  refit/                 the run that trains on all rows, for refit_on_all
  lock                   the id of the process that trains here
  branches/01-CAUSE/     a run that `nd.treat` began with the remedy of a cause
  stop                   a request to stop, until the training reads it
  attempts/heartbeat     the heartbeat of a supervised training

A study is a directory of many runs:

study/
  study.json             the search, its folds, and what it must be resumed with
  study.db               the trials, a database of Optuna
  table/                 the rows that trials may see
  trials/00012/run-00/   a run of a trial; several for several folds and seeds
  trials/00012/model/    the trained model of a trial that may be the best
  best.yaml              the settings of the best trial, a run file
  claims/00012           a file that the process which works on the trial has locked

The directory of an AutoForecaster:

auto/
  auto.json              its settings, the held-out rows, and how much of the time is used up
  table/                 all rows
  members/00003/         a model of the portfolio or of the search: member.json (model, training, steps), checkpoints/,
                         model/ (trained without the held-out rows), held_out.safetensors (its forecasts of them),
                         outcome.json; and final/ (trained on all rows), if the ensemble has it
"""

from __future__ import annotations

import re

CONFIG = "config.json"
COMMAND = "command.json"
EVENTS = "events.jsonl"
EVENT_PARTS = "events"
CHECKPOINTS = "checkpoints"
EARLIER = "checkpoints-earlier"
STATE = "state.json"
CONTEXT = "context"
MODEL = "model"
MODEL_DOCUMENT = "model.json"
INDEX = "index"
INDEX_DOCUMENT = "index.json"
INDEX_ARRAYS = "arrays.safetensors"
REPORT = "report.html"
ABOUT = "about.json"
DETAILS = "details.json"
NOTES = "notes.json"
SNAPSHOTS = "forecasts"
REFIT = "refit"
BRANCHES = "branches"
LOCK = "lock"
STOP = "stop"
ATTEMPTS = "attempts"
HEARTBEAT = "heartbeat"
STUDY = "study.json"
STUDY_DATABASE = "study.db"
BEST = "best.yaml"
STUDY_TABLE = "table"
STUDY_ROWS = "all_rows"
TRIALS = "trials"
CLAIMS = "claims"
AUTO = "auto.json"
AUTO_TABLE = "table"
MEMBERS = "members"
MEMBER = "member.json"
OUTCOME = "outcome.json"
HELD_OUT_FORECASTS = "held_out.safetensors"
FINAL = "final"

STOPPED_ON_REQUEST = "a stop was requested"
"""The value of `history.stopped` after a request to stop."""

_STEP = re.compile(r"step-(\d{8,})")
_SNAPSHOT = re.compile(r"epoch-(\d{5,})\.json")
_PART = re.compile(r"(\d{8,})\.jsonl")


def step_name(step: int) -> str:
    """Return the name of a step's checkpoint."""
    return f"step-{step:08d}"


def step_of(name: str) -> int:
    """Return the step in a checkpoint's name; -1 if it is not such a name.

    >>> step_of("step-00000120"), step_of("notes.txt")
    (120, -1)
    """
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else -1


def member_name(number: int) -> str:
    """Return the directory name of one of several models that were saved together."""
    return f"model-{number:02d}"


def trial_name(number: int) -> str:
    """Return the directory name of a trial of a study."""
    return f"{number:05d}"


def trial_run_name(number: int) -> str:
    """Return the directory name of a run of a trial."""
    return f"run-{number:02d}"


def snapshot_name(epoch: int) -> str:
    """Return the file name of the forecasts after an epoch, inside of SNAPSHOTS."""
    return f"epoch-{epoch:05d}.json"


def snapshot_of(name: str) -> int:
    """Return the epoch in the file name of a snapshot; -1 if it is not such a name."""
    match = _SNAPSHOT.fullmatch(name)
    return int(match[1]) if match else -1


def part_name(number: int) -> str:
    """Return the name of a part of a remote run's event log, inside of EVENT_PARTS."""
    return f"{number:08d}.jsonl"


def part_of(name: str) -> int:
    """Return the number of a part of a remote run's event log; 0 if it is not such a name."""
    match = _PART.fullmatch(name)
    return int(match[1]) if match else 0


def is_remote(place: object) -> bool:
    """Return whether a path is a remote address such as s3://bucket/run."""
    return isinstance(place, str) and "://" in place
