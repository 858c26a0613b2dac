"""Work on clusters: the bits of a serial run, also when a worker is killed in the middle."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from fault_tools import HERE, environment

DASK = os.environ.get("ND_DASK", "")
"""A folder with dask and distributed, if they are not in this environment."""


def faults(*arguments: str, path: str = "") -> dict[str, Any]:
    """The JSON that executor_faults.py prints."""
    own = environment()
    if path:
        own["PYTHONPATH"] = os.pathsep.join([own.get("PYTHONPATH", ""), path])
    command = [sys.executable, str(HERE / "executor_faults.py"), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=own, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


SAME = {"trials": True, "folds": True, "members": True}


def test_ray_gives_the_bits_of_a_serial_run() -> None:
    """A real local cluster of two cores: 16 trials of a grid, 8 folds, 4 members."""
    pytest.importorskip("ray")
    assert faults("ray")["equal"] == SAME


@pytest.mark.stress
def test_a_killed_ray_worker_loses_nothing() -> None:
    """A worker is killed in each of the three: the result is complete, and the same."""
    pytest.importorskip("ray")
    found = faults("ray", "--kill")
    assert found["equal"] == SAME
    assert found["killed"] >= 2


@pytest.mark.stress
def test_dask_gives_the_bits_of_a_serial_run() -> None:
    if not (Path(DASK) / "distributed").is_dir():
        pytest.importorskip("distributed", reason="set ND_DASK to a folder that has dask and distributed")
    assert faults("dask", path=DASK)["equal"] == SAME


@pytest.mark.stress
def test_ray_tune_brings_its_own_scheduler(tmp_path: Path) -> None:
    """ASHA stops trials early; the checkpoint of the best one is a forecaster."""
    pytest.importorskip("ray.tune")
    script = """
import json, sys
import neuro_divergent as nd
import ray
from ray import tune
from ray.tune.schedulers import ASHAScheduler

ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
trainable = nd.search.ray_trainable(
    nd.MLP(h=4, input_size=12, hidden_size=8), nd.samples.air_passengers(), nd.TrainingConfig(max_epochs=8), cv_folds=2
)
tuner = tune.Tuner(
    trainable,
    param_space={"learning_rate": tune.grid_search([1e-4, 1e-3, 1e-2, 3e-2])},
    tune_config=tune.TuneConfig(metric="mae", mode="min", scheduler=ASHAScheduler(grace_period=2, max_t=8)),
    run_config=tune.RunConfig(
        storage_path=sys.argv[1], verbose=0,
        checkpoint_config=tune.CheckpointConfig(checkpoint_frequency=1, checkpoint_at_end=True),
    ),
)
results = tuner.fit()
best = results.get_best_result()
with best.checkpoint.as_directory() as folder:
    rows = nd.load(f"{folder}/run-00").predict().height
epochs = sorted(one.metrics["epoch"] for one in results)
print(json.dumps({"errors": results.num_errors, "epochs": epochs, "rate": best.config["learning_rate"], "rows": rows}))
"""
    own = environment() | {"RAY_USAGE_STATS_ENABLED": "0"}
    command = [sys.executable, "-c", script, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=own, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["errors"], found["rows"]) == (0, 4)
    assert found["epochs"][-1] == 8
    assert found["epochs"][0] < 8
