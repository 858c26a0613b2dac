"""`neuro-divergent dashboard`: a local web page of run directories."""

from __future__ import annotations

import secrets
import webbrowser
from typing import Annotated

from cyclopts import Parameter

from neuro_divergent.cli.io.terminal import harmless, note, say
from neuro_divergent.dashboard.launch import Settings, checked, serve


def dashboard(
    *runs: str,
    host: str = "127.0.0.1",
    port: int | None = None,
    token: str | None = None,
    open: Annotated[bool, Parameter(negative="--no-open")] = True,  # noqa: A002  # the flag's name
) -> int:
    """Show run directories in a browser: trainings while they run, forecasts, searches, comparisons. Offline.

    Parameters
    ----------
    runs
        Directories of runs, or s3:// addresses. Every run below them is shown.
    host
        Where it listens. The default is reached from this machine only; 0.0.0.0 is reached from others.
    port
        The port; by default the first free one from 8188 on.
    token
        What a browser must know; by default a random one, in the printed address.
    open
        Open the page in the browser of this machine.
    """
    settings = checked(Settings(runs or ("runs",), host, port, token or secrets.token_urlsafe(24)))

    def tell(url: str, notes: list[str]) -> None:
        for sentence in notes:
            note(harmless(sentence))
        say(f"Dashboard of {harmless(', '.join(settings.runs))}: {url}")
        say("Stop it with Ctrl+C.")
        if open:
            webbrowser.open(url)

    try:
        serve(settings, tell)
    except KeyboardInterrupt:
        return 0
    return 0
