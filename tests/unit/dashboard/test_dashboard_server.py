"""A real server on this machine: the token, Host and Origin, bad requests, the stream, ports, stopping a training."""

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import httpx
import pytest
from dashboard_runs import line, scored, steps_line, until, write_run

import neuro_divergent as nd
from neuro_divergent.dashboard.launch import Settings, checked


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs")
    write_run(folder / "one", about=scored())
    write_run(folder / "two", about=scored())
    (folder.parent / "secret.txt").write_text("SECRET")
    with nd.Dashboard(folder) as board:
        board.folder = folder
        yield board


@pytest.fixture(scope="module")
def base(board):
    return board.url.split("/?")[0]


@pytest.fixture
def known(board, base):
    with httpx.Client(base_url=base, headers={"Authorization": f"Bearer {board.token}"}) as client:
        yield client


def test_nothing_is_shown_without_the_token(base, known):
    run = known.get("/api/runs").json()["runs"][0]["id"]
    for path in (
        "/",
        "/api/runs",
        f"/api/runs/{run}",
        f"/api/runs/{run}/curves",
        "/api/live",
        f"/api/compare?runs={run}",
        "/api/x",
    ):
        for given in ({}, {"Authorization": "Bearer wrong"}, {"Cookie": f"{cookie_name(base)}=wrong"}):
            answer = httpx.get(f"{base}{path}", headers=given)
            assert (answer.status_code, "one" in answer.text) == (401, False)
    assert httpx.get(f"{base}/?token=wrong").status_code == 401
    assert httpx.post(f"{base}/api/runs/{run}/stop", json={}).status_code == 401


def cookie_name(base):
    return f"nd_dashboard_{base.rsplit(':', 1)[1]}"


def test_the_address_gives_a_strict_cookie_and_loses_the_token(board, base):
    with httpx.Client() as client:
        answer = client.get(board.url)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=Strict" in cookie
        page = client.get(f"{base}/")
        assert page.status_code == 200
        assert board.token not in page.text
        assert "script-src 'self'" in page.headers["content-security-policy"]
        assert "unsafe" not in page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", "", "localhost.evil.example"]
)
def test_a_host_name_of_another_site_is_refused(known, host):
    assert known.get("/api/runs", headers={"Host": host}).status_code == 421


def test_a_page_of_another_site_is_refused(known):
    run = known.get("/api/runs").json()["runs"][0]["id"]
    for headers in ({"Origin": "https://evil.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        assert known.post(f"/api/runs/{run}/notes", json={"tags": [], "note": "x"}, headers=headers).status_code == 403
    assert known.get("/api/runs", headers={"Origin": "http://127.0.0.1:1"}).status_code == 403


@pytest.mark.parametrize(
    "path",
    ["/static/../server.py", "/static/%2e%2e/server.py", "/static//etc/passwd", "/static/..%2f..%2f..%2fpyproject.toml",
     "/api/runs/..%2f..%2fsecret.txt", "/api/runs/..", "/api/runs/%2e%2e%2f", "/api/studies/..%2f"],
)  # fmt: skip
def test_no_path_leads_out(board, base, path):
    with socket.create_connection(("127.0.0.1", int(base.rsplit(":", 1)[1]))) as connection:  # as it stands
        lines = (f"GET {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {board.token}", "Connection: close")
        connection.sendall("".join(f"{one}\r\n" for one in (*lines, "")).encode())
        answer = b"".join(iter(lambda: connection.recv(65536), b""))
    assert answer.split()[1] in (b"400", b"404", b"307")
    assert b"SECRET" not in answer
    assert b"class Routes" not in answer


def test_bad_requests_get_a_sentence(known):
    run = known.get("/api/runs").json()["runs"][0]["id"]
    assert "names none" in known.get("/api/runs/0123").json()["error"]
    assert "needs the ids" in known.get("/api/compare").json()["error"]
    assert known.get(f"/api/runs/{run}/curves?from=nan&to=x&points=-1&smooth=1e9").status_code == 200
    assert known.post(f"/api/runs/{run}/notes", json={"tags": "x"}).status_code == 400
    assert known.post(f"/api/runs/{run}/notes", content=b"[" * 1000).status_code == 400
    assert known.post(f"/api/runs/{run}/notes", content=b"x" * 100_000).status_code == 413
    assert "no process trains" in known.post(f"/api/runs/{run}/stop", json={"save": True}).json()["error"]


def test_text_that_is_no_unicode_does_not_end_the_page(tmp_path):
    broken = [line("console", 5, level="info", text="half \ud83d"), line("verdict", 6, what="\udcff")]
    write_run(tmp_path / "half", extra=broken, about=scored() | {"model": {"kind": "\ud800"}})
    bad = os.fsencode(tmp_path) + b"/not-\xff-utf8"
    write_run(Path(os.fsdecode(bad)), about=scored())
    with nd.Dashboard(tmp_path) as board, httpx.Client(base_url=board.url.split("/?")[0]) as client:
        client.headers["Authorization"] = f"Bearer {board.token}"
        runs = {run["name"]: run for run in client.get("/api/runs").json()["runs"]}
        assert {run["state"] for run in runs.values()} == {"finished"}
        assert sorted(runs) == ["half", "not-\udcff-utf8"]
        for run in runs.values():
            assert client.get(f"/api/runs/{run['id']}").status_code == 200
        assert client.get(f"/api/runs/{runs['half']['id']}").json()["console"][0]["text"] == "half \ud83d"
        ids = ",".join(run["id"] for run in runs.values())
        assert client.get(f"/api/compare?runs={ids}").status_code == 200


def test_tags_and_notes(known, board):
    run = next(run for run in known.get("/api/runs").json()["runs"] if run["name"] == "two")
    answer = known.post(f"/api/runs/{run['id']}/notes", json={"tags": ["keep"], "note": "good"})
    assert (answer.status_code, answer.json()["tags"]) == (200, ["keep"])
    assert json.loads((board.folder / "two" / "notes.json").read_text()) == {"tags": ["keep"], "note": "good"}


def test_a_step_is_told_within_a_second(known, board):
    run = next(run for run in known.get("/api/runs").json()["runs"] if run["name"] == "one")["id"]
    told = []

    def listen():
        with known.stream("GET", f"/api/live?runs={run}", timeout=20) as stream:
            for text in stream.iter_lines():
                if text.startswith("data: ") and run in text:
                    told.append(time.monotonic())
                    return

    thread = threading.Thread(target=listen)
    thread.start()
    time.sleep(0.7)  # the server looks at the run from now on
    with open(board.folder / "one" / "events.jsonl", "a") as file:
        file.write(line("fit_start", 12, 3, total_steps=24, steps_per_epoch=4) + "\n" + steps_line(13, 16) + "\n")
    thread.join(10)
    assert told
    assert known.get(f"/api/runs/{run}/curves").json()["steps"]["last"] == 16


def test_a_port_in_use_moves_to_the_next_and_says_so(tmp_path):
    write_run(tmp_path / "run")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with nd.Dashboard(tmp_path, port=port) as board:
            assert f"port {port} is in use" in board.notes[0]
            assert f":{port}/" not in board.url


def test_a_directory_without_runs_says_how_to_make_one(tmp_path):
    with nd.Dashboard(tmp_path) as board:
        assert "neuro-divergent train" in board.notes[-1]
        assert board.running
    assert not board.running
    assert board.url == ""


def test_what_cannot_be_shown_is_refused(tmp_path):
    with pytest.raises(nd.NeuroDivergentError, match="is not there"):
        nd.Dashboard(tmp_path / "missing").start()
    with pytest.raises(nd.ConfigError, match="at least 8"):
        checked(Settings((str(tmp_path),), token="short"))
    with pytest.raises(nd.ConfigError, match="between 0 and 65535"):
        checked(Settings((str(tmp_path),), port=70000))
    with pytest.raises(nd.ConfigError, match="directory of runs"):
        nd.Dashboard([])


def test_a_notebook_gets_a_frame_that_needs_no_cookie(tmp_path):
    write_run(tmp_path / "run")
    board = nd.Dashboard(tmp_path)
    try:
        assert board._repr_html_().startswith('<iframe src="http://127.0.0.1:')
        page = httpx.get(board.url)
        assert (page.status_code, "set-cookie" in page.headers) == (200, False)
        assert f'data-token="{board.token}"' in page.text
        assert "frame-ancestors http://localhost" in page.headers["content-security-policy"]
    finally:
        board.stop()


def test_the_server_ends_with_the_process_that_started_it(tmp_path):
    write_run(tmp_path / "run")
    code = (
        f"import neuro_divergent as nd, os; print(nd.Dashboard({str(tmp_path)!r}).start().url, flush=True); os._exit(9)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    port = int(done.stdout.split(":")[2].split("/")[0])

    def gone():
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", port)) != 0

    assert until(gone)


TRAINING = """
import sys, time
import numpy as np
from torch import nn
import neuro_divergent as nd
class Slow(nd.Callback):
    looks_at = frozenset()
    def on_batch_end(self, state):
        time.sleep(0.02)
x = np.ones((64, 2), dtype=np.float32)
config = nd.TrainingConfig(max_steps=5000, batch_size=16, callbacks=[Slow()], validation_split=None, progress=False,
                           checkpoints=nd.Checkpoints(directory=sys.argv[1], every_n_epochs=1000))
nd.Trainer(config).fit(nn.Linear(2, 1), (x, x[:, :1]))
"""


@pytest.mark.parametrize("save", [True, False])
def test_the_buttons_stop_a_training_with_and_without_a_checkpoint(tmp_path, save):
    training = subprocess.Popen([sys.executable, "-c", TRAINING, str(tmp_path / "run")])
    try:
        with nd.Dashboard(tmp_path) as board, httpx.Client(base_url=board.url.split("/?")[0]) as client:
            client.headers["Authorization"] = f"Bearer {board.token}"

            def training_now():
                shown = client.get("/api/runs").json()["runs"]
                return [run for run in shown if run["state"] == "running" and run["step"]]

            (run,) = until(training_now, 30)
            assert client.post(f"/api/runs/{run['id']}/stop", json={"save": save}).json() == {"asked": True}
            assert training.wait(20) == 0
            assert until(lambda: client.get("/api/runs").json()["runs"][0]["state"] == "stopped")
    finally:
        training.kill()
        training.wait()
    record = nd.read_run(tmp_path / "run")
    assert bool(record.checkpoints) is save
    assert record.stopped == "a stop was requested"


def test_the_command_prints_an_address_and_ends_with_ctrl_c(tmp_path):
    import signal

    write_run(tmp_path / "run")
    command = [sys.executable, "-m", "neuro_divergent", "dashboard", str(tmp_path), "--no-open", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    first = server.stdout.readline()
    assert "?token=" in first
    assert httpx.get(first.split()[-1]).status_code == 303
    server.send_signal(signal.SIGINT)
    assert server.wait(10) == 0
    server.stdout.close()
