"""The names of what a run's directory holds. No other module spells them; a test holds this.

run/
  config.json            the resolved configuration
  events.jsonl           one line per fact; in a remote directory the folder events/ with numbered parts
  checkpoints/step-N/    state.json, weights, optimizer and a manifest each
  checkpoints-earlier/   checkpoints of an earlier run in the same directory
  context/               what a checkpoint lacks to be a forecaster: the model's description and its last rows
  model/                 the trained model (model.json), or several of them (index/, model-00/, ...)
  report.html            the report
  refit/                 the run that trains on all rows, for refit_on_all
  lock                   the process that trains here, while it does
  stop                   the request to stop, until the training takes it
  attempts/heartbeat     signs of life of a supervised training
"""

from __future__ import annotations

import re

CONFIG = "config.json"
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
REPORT = "report.html"
REFIT = "refit"
LOCK = "lock"
STOP = "stop"
ATTEMPTS = "attempts"
HEARTBEAT = "heartbeat"

STOPPED_ON_REQUEST = "a stop was requested"
"""What `history.stopped` says of a training that took a request to stop."""

_STEP = re.compile(r"step-(\d{8,})")
_PART = re.compile(r"(\d{8,})\.jsonl")


def step_name(step: int) -> str:
    """The name of a step's checkpoint."""
    return f"step-{step:08d}"


def step_of(name: str) -> int:
    """The step in a checkpoint's name; -1 if it is not one.

    >>> step_of("step-00000120"), step_of("notes.txt")
    (120, -1)
    """
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else -1


def member_name(number: int) -> str:
    """The directory of one of several models that were saved together."""
    return f"model-{number:02d}"


def part_name(number: int) -> str:
    """The name of a part of a remote run's events, inside of EVENT_PARTS."""
    return f"{number:08d}.jsonl"


def part_of(name: str) -> int:
    """The number of a part of a remote run's events; 0 if the name is not that of one."""
    match = _PART.fullmatch(name)
    return int(match[1]) if match else 0


def is_remote(place: object) -> bool:
    """Whether a directory is named by an address such as s3://bucket/run."""
    return isinstance(place, str) and "://" in place
