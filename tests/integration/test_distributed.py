"""Several processes of a launcher: the bits of one process, and forecasts that are complete and in order."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from neuro_divergent.core.kinds import KINDS

HERE = Path(__file__).parent
ALONE = {name: value for name, value in os.environ.items() if name not in ("RANK", "WORLD_SIZE")} | {
    "OMP_NUM_THREADS": "1"
}
NO_WORKER = {"HINT", "TimeLLM"}
"""HINT is its inner model with a reconciliation afterwards; TimeLLM needs a language model on disk."""


def run(processes: int, *arguments: str, script: str = "distributed_models.py", **more: str) -> None:
    launcher = [sys.executable]
    if processes > 1:
        launcher += ["-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
    done = subprocess.run(
        [*launcher, str(HERE / script), *arguments],
        capture_output=True,
        text=True,
        env=ALONE | more,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def results(folder: Path, processes: int, kinds: list[str], **more: str) -> dict[str, Any]:
    path = folder / f"{processes}.json"
    run(processes, str(path), *kinds, **more)
    found: dict[str, Any] = json.loads(path.read_text())
    return found


def test_two_and_four_processes_give_the_bits_of_one(tmp_path: Path) -> None:
    kinds = ["NHITS", "LSTM", "DeepAR", "TimeMixer"]
    one = results(tmp_path, 1, kinds)
    assert all("weights" in found for found in one.values()), one
    assert results(tmp_path, 2, kinds) == one
    divided = results(tmp_path, 4, kinds, ND_TEST_STRATEGY="zero")
    for kind in kinds:  # each process has only a part of the optimizer
        assert divided[kind].pop("optimizer") != one[kind].pop("optimizer")
    assert divided == one


@pytest.mark.stress
def test_every_model_gives_the_bits_of_one_process(tmp_path: Path) -> None:
    kinds = sorted(set(KINDS["model"]) - NO_WORKER)
    one = results(tmp_path, 1, kinds)
    assert {kind for kind, found in one.items() if "weights" not in found} == set(), one
    assert results(tmp_path, 2, kinds) == one
    assert results(tmp_path, 4, kinds) == one


def test_forecasts_of_many_series_are_complete_and_in_order(tmp_path: Path) -> None:
    for processes in (1, 2):
        run(processes, str(tmp_path / f"{processes}.parquet"), script="distributed_forecast.py")
    assert (tmp_path / "1.parquet").read_bytes() == (tmp_path / "2.parquet").read_bytes()


def test_two_machines_give_the_bits_of_one(tmp_path: Path) -> None:
    """Two addresses of the loopback interface stand for two machines; each runs its part by `launch`."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    cluster = tmp_path / "cluster.yaml"
    cluster.write_text(f'nodes: [{{address: "127.0.0.1:{port}", role: master}}, {{address: "127.0.0.2:{port}"}}]')
    shell = [sys.executable, "-m", "neuro_divergent"]
    table = tmp_path / "prices.csv"
    subprocess.run([*shell, "data", "sample", str(table)], check=True, env=ALONE, capture_output=True)
    train = ["train", str(table), "--time", "timestamp", "--target", "close", "--h", "7", "--max-epochs", "1"]
    train += ["--model", "mlp", "--no-report", "--set", "training.distributed.kind=Distributed"]
    train += ["--set", "training.distributed.exact=true"]
    alone = [*shell, *train, "--set", "training.distributed.processes=1", "--out", str(tmp_path / "one")]
    subprocess.run(alone, check=True, env=ALONE, capture_output=True)
    launch = [*shell, "launch", "--cluster", str(cluster)]
    parts = [
        subprocess.Popen(
            [*launch, "--node", str(node), "--", *train, "--out", str(tmp_path / "two")],
            env=ALONE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        for node in (0, 1)
    ]
    said = [part.communicate(timeout=120)[0] for part in parts]
    assert [part.returncode for part in parts] == [0, 0], said
    one, two = ((tmp_path / name / "model" / "weights.safetensors").read_bytes() for name in ("one", "two"))
    assert one == two


def test_processes_that_train_other_data_are_refused(tmp_path: Path) -> None:
    script = tmp_path / "other.py"
    script.write_text(
        "import os, neuro_divergent as nd\n"
        "data = nd.samples.hourly_panel(2, 100 + int(os.environ['RANK']))\n"
        "try:\n"
        "    nd.MLP(h=2, input_size=4).fit(data, nd.TrainingConfig(max_steps=2, batch_size=8, seed=1))\n"
        "except nd.DistributedError as error:\n"
        f"    open(r'{tmp_path}/said-' + os.environ['RANK'], 'w').write(str(error))\n"
    )
    run(2, script=str(script))
    for rank in (0, 1):
        said = (tmp_path / f"said-{rank}").read_text()
        assert "must train the same, but they differ in data" in said


def test_a_divided_optimizer_is_whole_in_a_checkpoint_of_ones_own(tmp_path: Path) -> None:
    run(2, str(tmp_path), script="distributed_checkpoints.py")
    found = [json.loads((tmp_path / f"found-{rank}").read_text()) for rank in (0, 1)]
    assert len({*found[0], *found[1]}) == 1
