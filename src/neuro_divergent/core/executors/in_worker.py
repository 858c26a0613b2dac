"""What a worker does: a named function of strings, with its own number of threads."""

from __future__ import annotations

import importlib
import json
import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from neuro_divergent._version import __version__
from neuro_divergent.core.errors import ConfigError, StorageError, first_line
from neuro_divergent.core.executors.processes import THREAD_LIMITS, ProcessExecutor, named, told_of

PERFORM = f"{__name__}:perform"
TOKEN = "shared-disk"
"""In the folder of the tasks: a file that every worker must be able to read."""


class _Child:
    """The process of a thread. It ends with the thread."""

    def __init__(self, threads: int) -> None:
        self.process = ProcessExecutor(threads)

    def __del__(self) -> None:
        self.process.kill()


_OWN = threading.local()


def perform(settings: str, function: str, *arguments: str) -> str:
    """Run a named function of strings with the threads of the settings; return its answer as JSON.

    Two trainings in one process would share its random state and its number of threads. So a thread that is not the
    main one of its process has a process of its own, which runs its tasks.
    """
    threads = int(json.loads(settings)["threads"])
    if threading.current_thread() is not threading.main_thread():
        if not hasattr(_OWN, "child"):
            _OWN.child = _Child(threads)
        answer: str = _OWN.child.process.submit(PERFORM, settings, function, *arguments).result()
        return answer
    with _limited_to(threads):
        try:
            return json.dumps([True, named(function)(*arguments), None])
        except Exception as error:
            return json.dumps([False, f"{type(error).__name__}: {error}", told_of(error)])


@contextmanager
def _limited_to(threads: int) -> Iterator[None]:
    """Context with so many threads for the math libraries, whether they are loaded already or in it."""
    torch = sys.modules.get("torch")
    loaded = None if torch is None else torch.get_num_threads()
    before = {name: os.environ.get(name) for name in THREAD_LIMITS}
    if torch is None:  # it will read these
        os.environ.update(dict.fromkeys(THREAD_LIMITS, str(threads)))
    else:
        torch.set_num_threads(threads)
    try:
        yield
    finally:
        if torch is not None:
            torch.set_num_threads(loaded)
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def look_around(folder: str, token: str, version: str, modules: str) -> str:
    """Refuse what this worker cannot do: read the folder, or import the modules."""
    if version != __version__:
        raise ConfigError(
            f"workers need the same version of neuro_divergent, {version}, but one has {__version__}. Install it there"
        )
    try:
        same = (Path(folder) / TOKEN).read_text() == token
    except OSError:
        same = False
    if not same:
        raise StorageError(
            f"workers get their work as files, but one of them does not see {folder}. Use a folder on a disk that all "
            "machines share: directory=... of a search, or the environment variable TMPDIR for everything else"
        )
    for name in json.loads(modules):
        try:
            importlib.import_module(name)
        except ImportError as error:
            raise ConfigError(
                f"workers must be able to import your module {name}, but one of them cannot: {first_line(error)}. "
                "Install it there, or put its folder on PYTHONPATH"
            ) from None
    return sys.version
