"""Starts the server of a dashboard: token, port, and the sentences that it prints."""

from __future__ import annotations

import ipaddress
import os
import secrets
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field

from neuro_divergent.core.errors import ConfigError, StorageError
from neuro_divergent.core.extras import require
from neuro_divergent.dashboard.places import check_root, find_places

PORT = 8188
PORTS_TO_TRY = 50
PURPOSE = "The dashboard"


@dataclass(frozen=True)
class Settings:
    """What a server is started with."""

    runs: tuple[str, ...]
    host: str = "127.0.0.1"
    port: int | None = None
    """None for the first free port from 8188 on."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))
    framed: bool = False
    """Whether a notebook may show the page."""


def checked(settings: Settings) -> Settings:
    """Return the settings with real directories; raise if a dashboard cannot be started with them."""
    require("starlette", extra="dashboard", purpose=PURPOSE)
    require("uvicorn", extra="dashboard", purpose=PURPOSE)
    if len(settings.token) < 8 or not all(c.isascii() and (c.isalnum() or c in "-_") for c in settings.token):
        raise ConfigError("a token must have at least 8 letters, digits, - or _, because who knows it sees the runs")
    if settings.port is not None and not 0 <= settings.port <= 65535:
        raise ConfigError(f"port must be between 0 and 65535, but got {settings.port}")
    if not settings.runs:
        raise ConfigError("a dashboard needs a directory of runs, but got none")
    roots = tuple(dict.fromkeys(check_root(root) for root in settings.runs))
    return Settings(roots, settings.host, settings.port, settings.token, settings.framed)


def listening(settings: Settings) -> tuple[socket.socket, str | None]:
    """A socket that listens at the host and port, and a sentence if it is another port than the wanted one."""
    wanted = PORT if settings.port is None else settings.port
    tries = range(wanted, min(wanted + PORTS_TO_TRY, 65536)) if wanted else [0]
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    for port in tries:
        listener = socket.socket(family, socket.SOCK_STREAM)
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name != "nt")
        try:
            listener.bind((settings.host, port))
            listener.listen(128)
        except OSError as error:
            listener.close()
            if not _in_use(error):
                raise ConfigError(f"host={settings.host!r} cannot be listened at: {error.strerror or error}") from error
            continue
        found = int(listener.getsockname()[1])
        moved = f"port {wanted} is in use: the dashboard uses {found}" if wanted not in (0, found) else None
        return listener, moved
    raise StorageError(f"the ports {wanted} to {tries[-1]} are all in use. Choose another one with port=")


def _in_use(error: OSError) -> bool:
    import errno

    return error.errno in (errno.EADDRINUSE, errno.EACCES)


def address(settings: Settings, port: int) -> str:
    """The address to open, with the token."""
    host = settings.host
    with suppress(ValueError):
        number = ipaddress.ip_address(host)
        if number.is_unspecified:
            host = socket.gethostname()
        elif number.version == 6:
            host = f"[{host}]"
    return f"http://{host}:{port}/?token={settings.token}"


def serve(settings: Settings, tell: Callable[[str, list[str]], None]) -> None:
    """Serve until the process is interrupted.

    Args:
        settings: what `checked` returned.
        tell: called once the server listens, with the address and with notes for its user.
    """
    import uvicorn

    from neuro_divergent.dashboard.server import make_app
    from neuro_divergent.dashboard.watch import Watch

    listener, moved = listening(settings)
    port = int(listener.getsockname()[1])
    hosts = frozenset({settings.host.lower(), socket.gethostname().lower(), socket.getfqdn().lower()})
    own = hosts if not _is_loopback(settings.host) else frozenset({"localhost"})
    watch = Watch(list(settings.runs))
    app = make_app(watch, token=settings.token, cookie=f"nd_dashboard_{port}", hosts=own, framed=settings.framed)
    config = uvicorn.Config(
        app, log_level="error", access_log=False, lifespan="on", timeout_graceful_shutdown=1, server_header=False
    )
    with suppress(OSError, AttributeError):
        os.nice(5)  # a training on this machine comes first
    notes = [moved] if moved else []
    if not find_places([root for root in settings.runs if "://" not in root]) and "://" not in "".join(settings.runs):
        notes.append(NO_RUNS.format(", ".join(settings.runs)))
    tell(address(settings, port), notes)
    uvicorn.Server(config).run(sockets=[listener])


NO_RUNS = (
    "there is no run in {} yet. A training with checkpoints makes one: neuro-divergent train table.csv --h 12 --out "
    "runs/first, or nd.TrainingConfig(checkpoints=nd.Checkpoints(directory='runs/first')). The page shows it when it "
    "is there"
)


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def serve_child() -> None:
    """Serve with settings from the standard input, until it ends. `nd.Dashboard` starts this as a process."""
    import json
    import threading

    settings = Settings(**json.loads(sys.stdin.readline()))

    def tell(url: str, notes: list[str]) -> None:
        sys.stdout.write(json.dumps({"url": url, "notes": notes}) + "\n")
        sys.stdout.flush()

    def follow_parent() -> None:
        sys.stdin.read()
        os._exit(0)

    threading.Thread(target=follow_parent, daemon=True).start()
    try:
        serve(checked(Settings(**{**vars(settings), "runs": tuple(settings.runs)})), tell)
    except Exception as error:
        sys.stdout.write(json.dumps({"error": str(error)}) + "\n")
        sys.stdout.flush()
