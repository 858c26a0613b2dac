"""Real servers for tests of studies in databases: PostgreSQL on loopback, and Optuna's gRPC proxy."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    """A port of loopback that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def postgres_programs() -> Path | None:
    """The folder of initdb and postgres; None if PostgreSQL is not installed."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "initdb").exists()), None)


@contextmanager
def postgres(folder: Path, programs: Path) -> Iterator[str]:
    """Context with a PostgreSQL server whose data are in a folder: the URL of its database."""
    port, data = free_port(), folder / "data"
    as_user = {}
    if os.geteuid() == 0:  # the server refuses to run as root
        as_user = {"user": "postgres"}
        shutil.chown(folder, "postgres")
    password = folder / "password"
    password.write_text("secret\n")
    password.chmod(0o644)
    command = [programs / "initdb", "-D", data, "-U", "searcher", "-A", "scram-sha-256", "--pwfile", password, "-N"]
    subprocess.run(command, check=True, capture_output=True, cwd="/", **as_user)
    settings = ["-c", "listen_addresses=127.0.0.1", "-c", f"unix_socket_directories={folder}", "-c", "fsync=off"]
    server = subprocess.Popen(
        [programs / "postgres", "-D", data, "-p", str(port), *settings],
        stderr=subprocess.DEVNULL, cwd="/", **as_user,
    )  # fmt: skip
    try:
        _wait_for(port, server)
        yield f"postgresql+psycopg://searcher:secret@127.0.0.1:{port}/postgres"
    finally:
        server.send_signal(signal.SIGINT)  # ends open connections; SIGTERM would wait for them
        server.wait(30)


@contextmanager
def grpc_proxy(storage: str) -> Iterator[str]:
    """Context with Optuna's proxy of a storage: its URL."""
    port = free_port()
    code = (
        "import optuna\n"
        f"storage = optuna.storages.RDBStorage({storage!r})\n"
        f"optuna.storages.run_grpc_proxy_server(storage, host='127.0.0.1', port={port})\n"
    )
    server = subprocess.Popen([sys.executable, "-W", "ignore", "-c", code], stderr=subprocess.DEVNULL)
    try:
        _wait_for(port, server)
        yield f"grpc://127.0.0.1:{port}"
    finally:
        server.kill()
        server.wait()


def _wait_for(port: int, server: subprocess.Popen[bytes]) -> None:
    for _ in range(600):
        assert server.poll() is None, "the server has ended"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.05)
    raise AssertionError("the server does not answer")
