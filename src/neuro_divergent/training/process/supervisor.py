"""Supervise a training in its own process: restart it after a crash or a hang, then list all reasons."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import FrameType

from neuro_divergent.core import files
from neuro_divergent.core.errors import Advice, ConfigError, TrainingError
from neuro_divergent.core.runs.names import ATTEMPTS, HEARTBEAT
from neuro_divergent.core.runs.process import stop_requested, withdraw_stop
from neuro_divergent.training.config.checkpoints import Checkpoints, FaultTolerance, is_remote
from neuro_divergent.training.process.heartbeat import SUPERVISOR, VARIABLE
from neuro_divergent.training.process.signals import give_back, raise_as, take_over

log = logging.getLogger(__name__)

POINTLESS = 2
"""The exit code of a training that would fail again in the same way; there is no retry."""

GRACE_SECONDS = 25.0
"""How long a training may take to save after a signal."""

SLOWER_THAN_EVER = 10.0
"""A step counts as a hang if it takes this many times as long as the slowest step so far."""

_POLL_SECONDS = 0.05


def checkpoints_to_restart_from(settings: Checkpoints | None, resume: object) -> Checkpoints:
    """The checkpoints of a supervised training; raises unless they are local and the training resumes from them."""
    if settings is None or is_remote(settings.directory):
        raise ConfigError(
            "fault_tolerance restarts from the last checkpoint, so it needs checkpoints=Checkpoints(...) with a local "
            f"directory, but got checkpoints={settings!r}"
        )
    if resume not in (None, "auto"):
        raise ConfigError(f"a supervised training is resumed from its own directory: use resume='auto', not {resume!r}")
    return settings


def supervise(command: Sequence[str], settings: FaultTolerance, directory: str | os.PathLike[str]) -> list[str]:
    """Run a training command until it succeeds; return the reasons of failed attempts, one sentence each.

    The command must resume from its last checkpoint when it is started again (`resume="auto"`).

    Args:
        command: the program and its arguments, such as [sys.executable, "train.py"].
        settings: the number of retries, and when a training counts as hung.
        directory: the run directory, for the output of the attempts and the heartbeats.
    """
    folder = Path(directory).resolve() / ATTEMPTS  # absolute, because the training may change its working directory
    reasons: list[str] = []
    withdraw_stop(folder.parent)  # an existing request belongs to an earlier training
    for attempt in range(1, settings.retries + 2):
        code, reason = _attempt(command, settings, folder, attempt)
        if code == 0:
            return reasons
        reasons.append(f"attempt {attempt}: {reason}")
        log.warning("the training failed, %s", reasons[-1])
        if code == POINTLESS:
            raise ConfigError(reason)
        if stop_requested(folder.parent):  # the attempt ended before it saw the request
            withdraw_stop(folder.parent)
            raise TrainingError(
                f"the training was not started again, because a stop was requested. {'; '.join(reasons)}. "
                "Continue with resume='auto'",
                advice=[Advice("resume", "auto")],
            )
    raise TrainingError(
        f"the training failed {settings.retries + 1} times and is not started again. {'; '.join(reasons)}. "
        f"The output of all attempts is in {folder}"
    )


def _attempt(command: Sequence[str], settings: FaultTolerance, folder: Path, attempt: int) -> tuple[int, str]:
    """Run one process to its end; return its exit code, and what went wrong as a sentence."""
    beat, output = folder / HEARTBEAT, folder / f"attempt-{attempt}.log"
    try:
        files.make_directories(folder)
        for file in (
            beat,
            output,
        ):  # of an earlier training; also removes a link, so that nothing is written through it
            file.unlink(missing_ok=True)
        beat.write_text("starting 0", encoding="utf-8")
        log_file = open(output, "wb")  # noqa: SIM115  # closed below
    except OSError as error:
        raise files.not_written(error.filename or beat, error) from error
    with log_file, _signals_kept() as received:
        # Its own session: a Ctrl-C in the terminal reaches it once, through this process, not twice.
        process = subprocess.Popen(
            list(command),
            stdout=log_file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=os.environ | {VARIABLE: str(beat), SUPERVISOR: str(os.getpid())},
            start_new_session=True,
        )
        try:
            hung = _watch(process, settings, beat, received)
        finally:
            if process.poll() != 0:
                _end(process, beat, received)
    place = f"at {' '.join(_read(beat).split()[:2])}"
    if hung:
        return 1, f"no sign of life for {hung:g} s {place}"
    code = process.returncode
    last = _last_line(output)
    said = f": {last}" if last else ""
    if code < 0:
        return code, f"killed by {_signal_name(-code)} {place}{said}"
    return code, last if code == POINTLESS else f"exit code {code} {place}{said}"


def _watch(process: subprocess.Popen[bytes], settings: FaultTolerance, beat: Path, received: Sequence[int]) -> float:
    """Wait for the end or a signal. Kill a process without heartbeats, and return the seconds without one; else 0."""
    seen, since = "", time.monotonic()
    while process.poll() is None and not received:
        sign = _sign(beat)
        # Monotonic clock. The time of the file is compared only with its earlier value.
        if sign != seen or not sign:
            seen, since = sign, time.monotonic()
        least = 0.0 if sign.startswith("step") else settings.startup_seconds
        allowed = max(settings.health_check_interval, least, SLOWER_THAN_EVER * _slowest_step(sign))
        if time.monotonic() - since > allowed:
            _kill(process)
            return allowed
        time.sleep(_POLL_SECONDS)
    return 0.0


@contextmanager
def _signals_kept() -> Iterator[list[int]]:
    """Context that collects SIGINT and SIGTERM to forward them; at its end it raises the first one here."""
    received: list[int] = []

    def handle(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        received.append(number)

    in_main = threading.current_thread() is threading.main_thread()
    previous = take_over(handle) if in_main else {}
    try:
        yield received
    finally:
        give_back(previous)
        if received:
            raise_as(received[0])


def _end(process: subprocess.Popen[bytes], beat: Path, received: Sequence[int]) -> None:
    """Forward the received signals, else SIGTERM, and wait until all child processes have saved and ended.

    After `GRACE_SECONDS` they are killed, because another attempt would use the same files.
    """
    numbers = received or [signal.SIGTERM]
    sent, deadline = 0, time.monotonic() + GRACE_SECONDS
    while _lives(process):
        if time.monotonic() > deadline:
            _kill(process)
            return
        for number in numbers[sent:]:
            _send(process, beat, number)
            sent += 1
        time.sleep(_POLL_SECONDS)


def _send(process: subprocess.Popen[bytes], beat: Path, number: int) -> None:
    """Send a signal to the process and to the training, which may be its child (`sh -c "python train.py"`).

    If the training process is unknown, all processes get it. Otherwise not, because an interrupted linker leaves half a
    library.
    """
    training = _training(process, beat)
    with suppress(OSError):  # it has already ended
        if training is None:
            os.killpg(process.pid, number)
        elif training != process.pid:
            os.kill(training, number)
    if training is not None:
        process.send_signal(number)


def _training(process: subprocess.Popen[bytes], beat: Path) -> int | None:
    """The process id of the training, from its heartbeat; None if unknown."""
    if os.name == "nt":
        return process.pid
    words = _read(beat).split()
    number = int(words[2]) if len(words) >= 3 and words[2].isdecimal() else 0
    with suppress(OSError, OverflowError):
        return number if number and os.getpgid(number) == process.pid else None
    return None


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the process and all that it started."""
    if os.name == "nt":
        process.kill()
    else:
        with suppress(OSError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _lives(process: subprocess.Popen[bytes]) -> bool:
    """Whether the process, or a process that it started, is still running."""
    if process.poll() is None:
        return True
    if os.name == "nt":
        return False
    try:
        os.killpg(process.pid, 0)
    except OSError:
        return False
    return True


def _sign(beat: Path) -> str:
    """The heartbeat and the time of its file, to detect changes; empty if it cannot be read."""
    try:
        return f"{_read(beat)} {beat.stat().st_mtime_ns}"
    except OSError:
        return ""


def _slowest_step(sign: str) -> float:
    """The seconds of the slowest step, from the heartbeat; 0 if unknown.

    At least 0.2: heartbeats are half a second apart, and on a busy machine a short step may take a second.
    """
    words = sign.split()
    try:
        return max(float(words[3]), 0.2) if len(words) == 5 else 0.0  # the last word is the time of the file
    except ValueError:  # a half-written number
        return 0.0


def _read(beat: Path) -> str:
    try:
        return beat.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"


def _last_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
