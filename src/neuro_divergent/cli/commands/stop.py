"""`neuro-divergent stop`: stop a training that runs in another process, with a checkpoint to resume from."""

from __future__ import annotations

from typing import Annotated, Any

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import harmless, say, say_json
from neuro_divergent.cli.request.hints import resume_hint
from neuro_divergent.core.errors import ConfigError
from neuro_divergent.core.runs.names import STOPPED_ON_REQUEST
from neuro_divergent.core.runs.read import read_run
from neuro_divergent.core.runs.record import RunRecord


def stop(
    run: str,
    /,
    *,
    wait: bool = True,
    timeout: float = 60.0,
    json: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Stop a training: it finishes its step, saves a checkpoint and ends. A resumed run gives the same bits.

    Parameters
    ----------
    run
        The run's directory.
    wait
        Wait until the training has ended. --no-wait only leaves the request; it is seen within about a second.
    timeout
        How many seconds to wait.
    json
        Print JSON.
    """
    if not timeout > 0:
        raise ConfigError(f"timeout must be above 0 seconds, but got {timeout:g}")
    record = read_run(run).stop(wait=wait, timeout=timeout)
    facts = _facts(record, wait)
    if json:
        say_json(facts)
        return
    for line in _lines(facts):
        say(harmless(line))


def _facts(record: RunRecord, waited: bool) -> dict[str, Any]:
    refit = record.refit
    inner = refit is not None and refit.stopped == STOPPED_ON_REQUEST and record.stopped != STOPPED_ON_REQUEST
    ended = refit if refit is not None and inner else record
    newest = ended.newest if waited else None
    return {
        "run": record.path,
        "ended": waited,
        "why": ended.stopped if waited else None,
        "finished": record.finished if waited else None,
        "checkpoint": None if newest is None else newest.path,
        "step": None if newest is None else newest.step,
    }


def _lines(facts: dict[str, Any]) -> list[str]:
    """The state of the run, and how to resume it.

    >>> _lines({"run": "r", "ended": False})
    ['r is asked to stop: it will finish its step, save a checkpoint and end']
    """
    run = facts["run"]
    if not facts["ended"]:
        return [f"{run} is asked to stop: it will finish its step, save a checkpoint and end"]
    saved = f"{facts['checkpoint']} is saved" if facts["checkpoint"] else "no checkpoint is saved"
    if facts["why"] in ("", STOPPED_ON_REQUEST):
        first = f"{run} is stopped after step {facts['step']}; {saved}"
    else:
        first = f"{run} had ended before it saw the request: {facts['why']}; {saved}"
    if facts["finished"] or not facts["checkpoint"]:
        return [first]
    return [first, f"resume: {resume_hint(run)}"]
