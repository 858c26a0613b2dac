"""Studies in a database: PostgreSQL and Optuna's gRPC proxy, with several processes; hostile and damaged studies."""

from __future__ import annotations

import gc
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from database_servers import grpc_proxy, postgres, postgres_programs
from search_faults import search, table
from test_faults_disk import Disk
from test_faults_search import faults

import neuro_divergent as nd


@contextmanager
def server(kind: str, folder: Path) -> Iterator[str]:
    """Context with the URL of a server."""
    if kind == "grpc":
        with grpc_proxy(f"sqlite:///{folder}/proxied.db") as url:
            yield url
        return
    programs = postgres_programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed: initdb is neither on the path nor in /usr/lib/postgresql")
    pytest.importorskip("psycopg", reason="psycopg, the driver of PostgreSQL, is not installed")
    with postgres(folder, programs) as url:
        yield url


@pytest.mark.parametrize("kind", ["postgresql", pytest.param("grpc", marks=pytest.mark.stress)])
def test_processes_share_a_study_in_a_database(kind: str) -> None:
    """Two processes on one grid, one of them killed: each point once. Another study may be in the same database."""
    with TemporaryDirectory() as name, server(kind, Path(name)) as url:  # the server's user cannot read pytest's folder
        assert faults("database", url, name)["survived"] == 8
        study = Path(name) / "study"
        assert "secret" not in (study / "study.json").read_text()
        with pytest.raises(nd.StorageError, match=r"is in a database, .*\. Give its URL"):
            nd.SearchResult.load(study)


def test_a_database_that_does_not_answer_is_one_sentence(tmp_path: Path) -> None:
    url = "postgresql+psycopg://nobody@127.0.0.1:1/none"
    with pytest.raises(nd.StorageError, match="the database of the study could not be opened"):
        search(tmp_path / "study", 1, storage=url).fit(table())
    with pytest.raises(nd.ConfigError, match="a proxy must be written as grpc://host:port"):
        search(tmp_path / "other", 1, storage="grpc://host").fit(table())


@pytest.mark.parametrize(
    ("room", "message"),
    [(0, r"the database of the study could not be used: .*"), (100_000, r"step-\d+ could not be written: No space.*")],
)
def test_a_full_disk_ends_the_search_and_fails_no_trial(tmp_path: Path, room: int, message: str) -> None:
    """The disk is full after the second trial; with some room the database can grow, but not the checkpoints."""
    disk = Disk(tmp_path, "8m")
    if not disk.mounted:
        pytest.skip("no file system may be mounted")

    def fill(_: Any, trial: Any) -> None:
        if trial.number == 1:
            disk.fill()
            file = tmp_path / "filler"
            os.truncate(file, file.stat().st_size - room)

    fields = {"model": nd.MLP(h=2, input_size=4, hidden_size=256), "checkpoint_every": 0.0001}
    try:
        with pytest.raises(nd.StorageError, match=f"{message}Finished trials are kept: go on with resume='auto'"):
            search(tmp_path / "study", 4, callbacks=[fill], **fields).fit(table())
        disk.empty()
        states = nd.SearchResult.load(tmp_path / "study").table["state"].to_list()
        assert states[:2] == ["complete", "complete"]
        assert "failed" not in states
        assert search(tmp_path / "study", 4, **fields).fit(table(), resume="auto").table["state"].to_list() == (
            ["complete"] * 4
        )
    finally:
        gc.collect()  # connections of the database
        disk.close()


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A study of two trials."""
    folder = tmp_path_factory.mktemp("studies") / "study"
    search(folder, 2).fit(table())
    return folder


@pytest.mark.parametrize("damage", ["truncate", "overwrite", "empty"])
def test_a_damaged_database_is_one_sentence(study: Path, tmp_path: Path, damage: str) -> None:
    shutil.copytree(study, tmp_path / "study")
    file = tmp_path / "study" / "study.db"
    content = file.read_bytes()
    changed = {"truncate": content[: len(content) // 2], "overwrite": b"x" * 4096 + content[4096:], "empty": b""}
    file.write_bytes(changed[damage])
    with pytest.raises(nd.StorageError, match="database"):
        nd.SearchResult.load(tmp_path / "study").trials  # noqa: B018
    if damage != "empty":  # a study without a trial begins again
        with pytest.raises(nd.StorageError, match="database"):
            search(tmp_path / "study", 3).fit(table(), resume="auto")


@pytest.mark.parametrize("name", ["search", "plan", "table", "directions", "metric", "format", "library"])
@pytest.mark.parametrize("value", [None, 7, "../../etc/passwd", [], {}, {"reference": "os:system"}])
def test_a_hostile_study_can_fail_and_not_act(study: Path, tmp_path: Path, name: str, value: Any) -> None:
    shutil.copytree(study, tmp_path / "study")
    document = json.loads((study / "study.json").read_text())
    (tmp_path / "study" / "study.json").write_text(json.dumps(document | {name: value}))
    try:
        found = nd.SearchResult.load(tmp_path / "study")
        assert found.best.value > 0
        found.best_forecaster()
    except nd.NeuroDivergentError:
        pass
    with pytest.raises(nd.NeuroDivergentError):  # the same settings are not those of the changed document
        search(tmp_path / "study", 2).fit(table())
