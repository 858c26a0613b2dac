"""Where a study is stored: an SQLite file in its directory, another database, or a proxy of one."""

from __future__ import annotations

import sqlite3
import warnings
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from neuro_divergent.core.errors import Advice, ConfigError, StorageError, first_line
from neuro_divergent.core.extras import require
from neuro_divergent.core.runs.names import STUDY_DATABASE

if TYPE_CHECKING:
    from optuna.storages import BaseStorage

PROXY = "grpc://"
"""How the URL of a gRPC proxy of Optuna begins."""
LATER = "Finished trials are kept: go on with resume='auto'"
"""What to do when a study could not be written."""
RESUME = Advice("resume", "auto")
"""The same as data."""


@contextmanager
def quiet() -> Iterator[None]:
    """Context in which Optuna logs no information and does not warn of its experimental parts."""
    import optuna

    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", module="optuna")
            warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
            yield
    finally:
        optuna.logging.set_verbosity(before)


@contextmanager
def database_errors() -> Iterator[None]:
    """Context in which an error of the database is one sentence, such as that its disk is full."""
    from optuna.exceptions import StorageInternalError
    from sqlalchemy.exc import SQLAlchemyError

    try:
        yield
    except (StorageInternalError, SQLAlchemyError) as error:
        cause: Exception = error
        while isinstance(cause.__cause__, Exception):
            cause = cause.__cause__
        message = f"the database of the study could not be used: {first_line(cause)}. {LATER}"
        raise StorageError(message, advice=[RESUME]) from error


def storage_of(directory: Path, url: str | None, *, create: bool = True) -> BaseStorage:
    """The storage of a study: the one of the given URL, or an SQLite file in the directory.

    A URL names a database, or the server of `optuna.storages.run_grpc_proxy_server`: grpc://host:port.
    """
    require("optuna", extra="search", purpose="A search")
    from optuna.storages import RDBStorage
    from sqlalchemy import event

    file = (directory / STUDY_DATABASE).resolve()
    if url is None and not create and not file.exists():
        raise StorageError(f"{directory} must be a study, but has no {STUDY_DATABASE}")
    try:
        if url is not None:
            return _proxy(url) if url.startswith(PROXY) else RDBStorage(url)
        if create:
            _prepare_file(file)
        # Several processes may write: each waits for its turn.
        storage = RDBStorage(f"sqlite:///{file}", engine_kwargs={"connect_args": {"timeout": 100}})
        storage.engine.dispose()
        event.listen(storage.engine, "connect", _set_up)
        return storage
    except ConfigError:
        raise
    except Exception as error:
        raise StorageError(f"the database of the study could not be opened: {first_line(error)}") from error


def _proxy(url: str) -> BaseStorage:
    """The client of a gRPC proxy, whose server must answer."""
    from optuna.storages import GrpcStorageProxy

    host, _, port = url.removeprefix(PROXY).rstrip("/").rpartition(":")
    if not host or not port.isdecimal():
        raise ConfigError(f"a proxy must be written as grpc://host:port, but got {url!r}")
    found = GrpcStorageProxy(host=host, port=int(port))
    found.wait_server_ready(timeout=10)
    return found


def without_password(url: str | None) -> str | None:
    """The URL of a database as it may be written to a file."""
    if url is None or url.startswith(PROXY):
        return url
    from sqlalchemy.engine import make_url

    return make_url(url)._replace(password=None).render_as_string()


def _prepare_file(file: Path) -> None:
    """Let SQLite append changes to a log of its own (WAL): a killed process loses none, and a commit is cheap."""
    with closing(sqlite3.connect(file, timeout=100)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")


def _set_up(connection: Any, _: Any) -> None:
    """Settings of each connection. The log is flushed when it is written back, not at each commit."""
    connection.execute("PRAGMA synchronous=NORMAL")
