"""Checkpoints on S3, against a real server: killed and resumed to the same bits, kept as asked, damage and mistakes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import fsspec
import pytest
from fault_runs import MODELS, config_of, fingerprint, table
from fault_tools import HERE, environment

import neuro_divergent as nd
from neuro_divergent.core.errors import NoCheckpointError, StorageError
from neuro_divergent.forecasting.fit.fit import job_of
from neuro_divergent.forecasting.fit.prepare import prepare
from neuro_divergent.training.runs.checkpoint_store import place_of

WORKER = """
import sys
import torch
from fault_runs import MODELS, config_of, table
from neuro_divergent.training.config.checkpoints import Checkpoints

torch.set_num_threads(1)
fields = {"max_epochs": 200, "early_stopping": None, "schedule": None}
place = Checkpoints(sys.argv[1], every_n_steps=1, keep_last=2)
MODELS["mlp"][0].fit(table(), config_of("mlp", None, checkpoints=place, **fields))
"""


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """The address of a server with an empty bucket named `bucket`."""
    process = subprocess.Popen(
        [sys.executable, str(HERE / "s3_server.py")], stdout=subprocess.PIPE, text=True, env=environment()
    )
    assert process.stdout is not None
    try:
        address = f"http://127.0.0.1:{int(process.stdout.readline())}"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_ENDPOINT_URL", address)
            patch.setenv("AWS_ACCESS_KEY_ID", "somebody")
            patch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
            patch.setenv("AWS_DEFAULT_REGION", "us-east-1")
            patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
            fsspec.filesystem("s3").mkdir("bucket")
            yield address
    finally:
        process.terminate()
        process.wait(timeout=30)
        process.stdout.close()
        type(fsspec.filesystem("s3")).clear_instance_cache()


def checkpoints(address: str) -> nd.Checkpoints:
    return nd.Checkpoints(address, every_n_steps=1, keep_last=2)


def fit(address: str | None, resume: str | None = None, **fields: Any) -> nd.Forecaster:
    place = None if address is None else checkpoints(address)
    # A cosine falls over all epochs of the configuration: only with a constant rate are more of them the same run.
    fields = {"early_stopping": None, "schedule": None, "checkpoints": place} | fields
    more = {"resume_with": {"max_epochs": fields["max_epochs"]}} if resume else {}
    return MODELS["mlp"][0].fit(table(), config_of("mlp", None, **fields), resume=resume, **more)


def result(fitted: nd.Forecaster) -> str:
    """The weights and the history, without the event that tells of an ignored checkpoint."""
    return fingerprint(fitted.module, replace(fitted.history, events=[]))


def test_a_killed_run_goes_on_from_the_bucket_to_the_same_bits(server: str) -> None:
    address = "s3://bucket/killed"
    process = subprocess.Popen([sys.executable, "-c", WORKER, address], env=environment())
    try:
        deadline = time.monotonic() + 120
        while (not place_of(address).names() or newest(address) < 5) and time.monotonic() < deadline:
            assert process.poll() is None
            time.sleep(0.02)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    done = newest(address)
    last = done // 7 + 2
    assert done >= 5
    assert result(fit(address, "auto", max_epochs=last)) == result(fit(None, max_epochs=last))


def newest(address: str) -> int:
    return int(place_of(address).names()[-1].removeprefix("step-"))


def test_only_what_is_to_be_kept_stays_in_the_bucket(server: str) -> None:
    fit("s3://bucket/kept", max_epochs=1)
    objects = sorted(fsspec.filesystem("s3").find("bucket/kept"))
    files = ("manifest.json", "optimizer.safetensors", "state.json", "weights.safetensors")
    context = ("context.safetensors", "history.safetensors", "manifest.json", "model.json")
    steps = ("step-00000006", "step-00000007")
    assert objects == [
        "bucket/kept/about.json",
        *(f"bucket/kept/checkpoints/{step}/{file}" for step in steps for file in files),
        "bucket/kept/config.json",
        *(f"bucket/kept/context/{file}" for file in context),
        "bucket/kept/details.json",
        "bucket/kept/events/00000001.jsonl",
    ]
    assert len(nd.read_run("s3://bucket/kept").steps["step"]) == 7
    fit("s3://bucket/kept", max_epochs=1)
    assert place_of("s3://bucket/kept").names() == list(steps)
    aside = fsspec.filesystem("s3").ls("bucket/kept/checkpoints-earlier", detail=False)
    assert sorted(path.rsplit("/", 1)[-1] for path in aside) == list(steps)


@pytest.mark.parametrize("damage", ["flipped", "cut", "gone"])
def test_a_damaged_object_is_passed_over_for_the_checkpoint_before(
    server: str, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    address = f"s3://bucket/{damage}"
    fit(address, max_epochs=1)
    system = fsspec.filesystem("s3")
    place = f"bucket/{damage}/checkpoints/step-00000007/weights.safetensors"
    data = bytearray(system.cat_file(place))
    data[len(data) // 2] ^= 1
    if damage == "gone":
        system.rm_file(place)
    else:
        system.pipe_file(place, bytes(data if damage == "flipped" else data[:-1]))
    resumed = fit(address, "auto", max_epochs=1)
    assert "a damaged checkpoint is ignored, resuming from step 6" in caplog.text
    assert result(resumed) == result(fit(None, max_epochs=1))
    assert place_of(address).names() == ["step-00000006", "step-00000007"]


def test_a_bucket_that_is_not_there_is_not_made(server: str) -> None:
    with pytest.raises(StorageError, match=r"s3://nobody/run.* could not be .*bucket does not exist\. Check the addr"):
        fit("s3://nobody/run", max_epochs=1)
    assert not fsspec.filesystem("s3").exists("nobody")
    with pytest.raises(NoCheckpointError, match="needs a checkpoint, but s3://bucket/none has none"):
        fit("s3://bucket/run", "s3://bucket/none", max_epochs=1)


def ask_for_credentials(server: str, after: str) -> None:
    """Make the server ask who is there after so many requests."""
    address = f"{server}/moto-api/reset-auth"
    request = urllib.request.Request(address, after.encode(), {"Content-Type": "text/plain"}, method="POST")
    urllib.request.urlopen(request).close()
    type(fsspec.filesystem("s3")).clear_instance_cache()


def test_wrong_credentials_are_named(server: str) -> None:
    ask_for_credentials(server, "0")
    try:
        with pytest.raises(StorageError, match=r"s3://bucket/run/checkpoints could not be listed: .*Access Key Id"):
            fit("s3://bucket/run", max_epochs=1)
    finally:
        ask_for_credentials(server, "inf")


def test_a_server_that_cannot_be_reached_is_no_reason_to_begin_afresh(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    fit("s3://bucket/unreachable", max_epochs=1)
    kind = type(fsspec.filesystem("s3"))
    kind.clear_instance_cache()
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    with pytest.raises(StorageError, match=r"s3://bucket/unreachable/checkpoints could not be listed: Could not conn"):
        fit("s3://bucket/unreachable", "auto", max_epochs=1)
    kind.clear_instance_cache()


def test_a_moment_in_the_bucket_is_loaded_and_resumed(server: str) -> None:
    address = "s3://bucket/moments/first"
    fields = {"early_stopping": None, "schedule": None, "max_epochs": 2}
    whole = MODELS["mlp"][0].fit(table(), config_of("mlp", None, **fields))
    run = prepare(job_of(MODELS["mlp"][0], table(), config_of("mlp", None, **fields)))
    run.advance(3)
    run.save_checkpoint(address)
    run.save_checkpoint(address)  # in place of the first one
    run.advance(4)
    assert run.load_checkpoint(address).training.state.step == 3
    run.close()
    assert nd.load(address).history.step_loss == whole.history.step_loss[:3]
    assert result(nd.resume_training(address, table())) == result(whole)


def test_a_run_in_the_bucket_is_loaded_at_any_of_its_checkpoints(server: str) -> None:
    fitted = fit("s3://bucket/loaded", max_epochs=2, refit=None)
    loaded = nd.load("s3://bucket/loaded")
    loaded.history.stopped = fitted.history.stopped  # the last checkpoint is older than the end of the run
    assert result(loaded) == result(fitted)
    names = fsspec.filesystem("s3").ls("bucket/loaded/checkpoints", detail=False)
    first = nd.load(f"s3://{min(names)}")
    assert first.history.step_loss == fitted.history.step_loss[: len(first.history.step_loss)]


def test_a_dashboard_shows_runs_on_s3_and_keeps_them_when_the_connection_breaks(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("starlette")
    from neuro_divergent.dashboard.compare import compared
    from neuro_divergent.dashboard.watch import Watch

    for name in ("first", "second"):
        fitted = fit(f"s3://bucket/board/{name}", max_epochs=2)
    with nd.Dashboard("s3://bucket/board") as board:
        asked = urllib.request.Request(f"{board.url.partition('?')[0]}api/runs")
        asked.add_header("Authorization", f"Bearer {board.token}")
        with urllib.request.urlopen(asked, timeout=60) as answer:
            shown = json.load(answer)["runs"]
    assert [(run["name"], run["state"]) for run in shown] == [("first", "finished"), ("second", "finished")]
    watch = Watch(["s3://bucket/board"])
    rows = {run["name"]: watch.row(run["id"]) for run in watch.table()["runs"]}
    both = compared(list(rows.values()), watch.logs, None, 100)
    losses = [record["validation_loss"] for record in fitted.history.epochs]
    for curves in both["curves"].values():
        assert curves["epochs"]["validation_loss"]["y"] == pytest.approx(losses, rel=1e-6)
    assert [len(group["runs"]) for group in both["groups"]] == [2]
    monkeypatch.setattr("neuro_divergent.dashboard.watch.SECONDS_REMOTE", 0.0)
    monkeypatch.setattr("neuro_divergent.dashboard.watch.SECONDS_BETWEEN_SEARCHES", 0.0)

    def broken(*_: Any, **__: Any) -> None:
        raise OSError("the network is down")

    with monkeypatch.context() as patch:
        patch.setattr(fsspec.filesystem("s3"), "ls", broken)
        lost = watch.table()
    assert [run["name"] for run in lost["runs"]] == ["first", "second"]
    assert "the network is down" in lost["problems"][0]
    assert watch.table()["problems"] == []
