"""A training in a process of its own, watched: restarted after a crash or a hang, given up with the reasons listed."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from neuro_divergent.core import files
from neuro_divergent.core.errors import ConfigError, StorageError, TrainingError
from neuro_divergent.training.checkpointing import FaultTolerance
from neuro_divergent.training.heartbeat import SUPERVISOR, VARIABLE

log = logging.getLogger(__name__)

POINTLESS = 2
"""The exit code of a training that would fail in the same way again."""

GRACE_SECONDS = 25.0
"""How long a training may take to save after a signal."""

_POLL_SECONDS = 0.05


def supervise(command: Sequence[str], settings: FaultTolerance, directory: str | os.PathLike[str]) -> list[str]:
    """Run a training command until it succeeds; give what went wrong on the way, one sentence per failed attempt.

    The command must go on from its last checkpoint when it is started again (`resume="auto"`).

    Args:
        command: the program and its arguments, such as [sys.executable, "train.py"].
        settings: how often to try again, and when a training counts as hung.
        directory: where the attempts' output and the signs of life are kept.
    """
    folder = Path(directory).resolve() / "attempts"  # the training may change its directory
    reasons: list[str] = []
    for attempt in range(1, settings.retries + 2):
        try:
            files.make_directories(folder)
        except OSError as error:
            raise StorageError(f"{folder} could not be made: {error.strerror or error}") from error
        code, reason = _attempt(command, settings, folder, attempt)
        if code == 0:
            return reasons
        reasons.append(f"attempt {attempt}: {reason}")
        log.warning("the training failed, %s", reasons[-1])
        if code == POINTLESS:
            raise ConfigError(reason)
    raise TrainingError(
        f"the training was given up after {settings.retries + 1} attempts. {'; '.join(reasons)}. "
        f"Their output is in {folder}"
    )


def _attempt(command: Sequence[str], settings: FaultTolerance, folder: Path, attempt: int) -> tuple[int, str]:
    """One process from start to end: its exit code, and what went wrong in words."""
    beat, output = folder / "heartbeat", folder / f"attempt-{attempt}.log"
    beat.write_text("starting 0", encoding="utf-8")
    with open(output, "wb") as log_file:
        # A session of its own: a Ctrl-C in the terminal reaches it once, through us, not twice.
        process = subprocess.Popen(
            list(command),
            stdout=log_file,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=os.environ | {VARIABLE: str(beat), SUPERVISOR: str(os.getpid())},
            start_new_session=True,
        )
        with _signals_forwarded(process):
            hung = _watch(process, settings, beat)
    place = f"at {_read(beat)}"
    if hung:
        return 1, f"no sign of life for {hung:g} s {place}"
    code = process.returncode
    last = _last_line(output)
    said = f": {last}" if last else ""
    if code < 0:
        return code, f"killed by {signal.Signals(-code).name} {place}{said}"
    return code, last if code == POINTLESS else f"exit code {code} {place}{said}"


def _watch(process: subprocess.Popen[bytes], settings: FaultTolerance, beat: Path) -> float:
    """Wait for the end; a process without signs of life is killed, and for how long it had none is given."""
    seen, since = "", time.monotonic()
    while process.poll() is None:
        sign = _sign(beat)
        # By the clock that nobody sets: the time of the file is only compared with itself.
        if sign != seen or not sign:
            seen, since = sign, time.monotonic()
        working = sign.startswith("step")
        allowed = (
            settings.health_check_interval if working else max(settings.startup_seconds, settings.health_check_interval)
        )
        if time.monotonic() - since > allowed:
            process.kill()
            process.wait()
            return allowed
        time.sleep(_POLL_SECONDS)
    return 0.0


@contextmanager
def _signals_forwarded(process: subprocess.Popen[bytes]) -> Iterator[None]:
    """Hand SIGINT and SIGTERM on, give the training its time to save, then let them have their way here."""
    if threading.current_thread() is not threading.main_thread():
        try:
            yield
        finally:
            _end(process, signal.SIGTERM)
        return

    def handle(number: int, frame: Any) -> None:  # noqa: ARG001
        _end(process, number)
        if number == signal.SIGINT:
            raise KeyboardInterrupt
        raise SystemExit(128 + number)

    previous = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
        _end(process, signal.SIGTERM)


def _end(process: subprocess.Popen[bytes], number: int) -> None:
    if process.poll() is not None:
        return
    process.send_signal(number)
    try:
        process.wait(GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def _sign(beat: Path) -> str:
    """What the training wrote, and when; it is only asked whether that has changed. Empty if it cannot be read."""
    try:
        return f"{_read(beat)} {beat.stat().st_mtime_ns}"
    except OSError:
        return ""


def _read(beat: Path) -> str:
    try:
        return beat.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _last_line(path: Path) -> str:
    text = path.read_text(encoding="utf-8", errors="replace") if path.exists() else ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else ""
