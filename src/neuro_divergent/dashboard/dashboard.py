"""`nd.Dashboard`: the page from Python, in a process of its own, so that a training never waits for it."""

from __future__ import annotations

import html
import json
import os
import secrets
import subprocess
import sys
from typing import Any, Self

from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.core.extras import require

Runs = str | os.PathLike[str]
SECONDS_TO_END = 5.0


class Dashboard:
    """A local web page that shows run directories: trainings while they run, forecasts, searches, comparisons.

        board = nd.Dashboard("runs").start()
        print(board.url)
        board.stop()

    It reads files and sends nothing anywhere. In a notebook, the object shows the page below the cell. The server is a
    process of its own and ends with the process that started it. It needs the extra `dashboard`.

    Args:
        runs: a directory of runs, or several; also s3://.
        host: where it listens. The default is reached from this machine only.
        port: None for the first free port from 8188 on.
        token: what a browser must know; None draws one.
        height: the height in a notebook, in pixels.
    """

    def __init__(
        self,
        runs: Runs | list[Runs] | tuple[Runs, ...],
        *,
        host: str = "127.0.0.1",
        port: int | None = None,
        token: str | None = None,
        height: int = 720,
    ) -> None:
        given = list(runs) if isinstance(runs, list | tuple) else [runs]
        if not given or not all(isinstance(one, str | os.PathLike) for one in given):
            raise ConfigError(f"runs must be a directory of runs, or several, but got {runs!r}")
        if height < 100:
            raise ConfigError(f"height must be at least 100 pixels, but got height={height}")
        self.runs = [os.fspath(one) for one in given]
        self.host, self.port, self.height = host, port, height
        self.token = token or secrets.token_urlsafe(24)
        self._process: subprocess.Popen[str] | None = None
        self._url = ""
        self._framed = False
        self.notes: list[str] = []
        """What the server said when it started: another port, or that there are no runs yet."""

    def start(self) -> Self:
        """Start the server, if it does not run yet, and return the dashboard. `url` is what to open."""
        if self.running:
            return self
        for module in ("starlette", "uvicorn"):
            require(module, extra="dashboard", purpose="The dashboard")
        settings = {"host": self.host, "port": self.port, "token": self.token, "framed": self._framed}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "neuro_divergent.dashboard"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        found = self._told(json.dumps(settings | {"runs": [_absolute(one) for one in self.runs]}))
        if "url" not in found:
            self.stop()
            raise StorageError(f"the dashboard could not start: {found.get('error', 'its process ended')}")
        self._url, self.notes = found["url"], found["notes"]
        return self

    def _told(self, settings: str) -> dict[str, Any]:
        assert self._process is not None
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(settings + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            return {}
        return dict(json.loads(line)) if line.strip() else {}

    @property
    def running(self) -> bool:
        """Whether the server runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def url(self) -> str:
        """The address to open, with the token; empty if it does not run."""
        return self._url if self.running else ""

    def stop(self) -> None:
        """End the server."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout is not None:
            process.stdout.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def __repr__(self) -> str:
        return f"Dashboard({', '.join(self.runs)}: {self.url or 'not started'})"

    def _repr_html_(self) -> str:
        """The page below the cell of a notebook."""
        if self.running and not self._framed:
            self.stop()  # a server that a notebook may show says so in every answer
        self._framed = True
        url = html.escape(self.start().url, quote=True)
        return f'<iframe src="{url}" width="100%" height="{int(self.height)}" style="border:0"></iframe>'


def _absolute(path: str) -> str:
    return path if "://" in path else os.path.abspath(path)
