"""Prove that a refactor changed no number: record every way to train every model, before and after, and compare.

    python tools/same_bits.py record before.json      # with the old source
    python tools/same_bits.py record after.json       # with the new source
    python tools/same_bits.py compare before.json after.json

A case is a model and a way to train it. Its record is the hex of every step's loss, and sha256 of the weights, of the
optimizer's state (as the last checkpoint holds it) and of the forecasts. `--models MLP,LSTM` and `--ways fit,compile`
record a part; `--jobs 2` uses two processes. Records of two machines may differ by rounding: compare those of one.

Only public names are used, so that one copy of this file runs with both sources:
`PYTHONPATH=/path/to/other/src python tools/same_bits.py record ...`.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import logging
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import torch
from safetensors.torch import load_file

import neuro_divergent as nd
from neuro_divergent.core import registry

STEPS, PER_EPOCH = 7, 4
"""Steps of a run and of an epoch: a run ends inside of its second epoch."""
INTERRUPTED = 6
"""The run that is resumed stops after so many steps, in the middle of an epoch."""
LEFT_OUT = {"TimeLLM": "needs a language model on disk"}


def table() -> pl.DataFrame:
    """Two series of 90 hours."""
    return nd.samples.hourly_panel(3, 90).filter(pl.col("unique_id") != "series-00")


def described(kind: str) -> Any:
    """A small description of a model."""
    try:
        examples = importlib.import_module("neuro_divergent.conformance.examples")
    except ImportError:  # its name before the conformance suites had a room of their own
        examples = importlib.import_module("neuro_divergent." + "testing.examples")
    model = examples.model_examples(registry.members("model")[kind])[0]
    # A hierarchy is made of the table's own series: here the first is the only part of the second.
    return model.replace(S={"series-02": [1], "series-01": [1]}) if kind == "HINT" else model


def config(where: Path | None = None, **fields: Any) -> Any:
    """Few steps with the model's own recipe, checkpoints included where a directory is given."""
    saved = {} if where is None else {"checkpoints": nd.Checkpoints(str(where), every_n_steps=3)}
    given = {"max_steps": STEPS, "steps_per_epoch": PER_EPOCH, "batch_size": 16, "progress": False, "seed": 11}
    return nd.TrainingConfig(**given | {"threads": 1} | saved | fields)


def fit(model: Any, where: Path) -> dict[str, Any]:
    """One training."""
    return facts(model.fit(table(), config(where), short="pad"), where)


def resume(model: Any, where: Path) -> dict[str, Any]:
    """A training that was stopped in the middle of an epoch and goes on."""
    model.fit(table(), config(where, callbacks=(_StopAt(INTERRUPTED),)), short="pad")
    return facts(model.fit(table(), config(where), short="pad", resume="auto"), where)


def fit_many(model: Any, _: Path) -> dict[str, Any]:
    """Three seeds, stacked where that is possible."""
    fitted = nd.fit_many(model, table(), config(max_steps=24), seeds=3, short="pad")  # enough to be stacked
    return {f"seed {number}": facts(one, None) for number, one in enumerate(fitted)}


def folds(model: Any, _: Path) -> dict[str, Any]:
    """Cross-validation with two folds, each trained anew."""
    found = nd.cross_validation([model], table(), config=config(), n_windows=2, refit=True, short="pad")
    return {"forecasts": frame_digest(found.frame), "scores": frame_digest(found.scores)}


def supervised(model: Any, where: Path) -> dict[str, Any]:
    """The same training in a watched process."""
    watched = config(where, fault_tolerance=nd.FaultTolerance(retries=1))
    return facts(model.fit(table(), watched, short="pad"), where)


def compiled(model: Any, where: Path) -> dict[str, Any]:
    """The same training with a compiled step, or a compiled network where the whole step cannot be."""
    return facts(model.fit(table(), config(where, compile=True), short="pad"), where)


def arrays(where: Path) -> dict[str, Any]:
    """A torch module on plain arrays, with what only the engine has: accumulation, averaging, penalties, noise."""
    x = torch.sin(torch.arange(240.0)).reshape(80, 3)
    y = x[:, :1] * x[:, 1:2]
    found = {}
    for name, fields in _ARRAYS.items():
        with torch.random.fork_rng():
            torch.manual_seed(1)
            module = torch.nn.Sequential(
                torch.nn.Linear(3, 8), torch.nn.BatchNorm1d(8), torch.nn.Dropout(0.2), torch.nn.Linear(8, 1)
            )
        run = where / name
        history = nd.Trainer(config(run, steps_per_epoch=None, **fields())).fit(module, (x, y))
        found[name] = _recorded(history, module.state_dict(), run)
    return found


_ARRAYS: dict[str, Callable[[], dict[str, Any]]] = {
    "plain": dict,
    "accumulate": lambda: {"accumulate_gradients": 3, "averaging": nd.EMA(), "gradient_noise": nd.GradientNoise()},
    "penalties": lambda: {"regularization": nd.Regularization(l1=1e-3, l2=1e-2), "optimizer": nd.Lookahead(every=3)},
    "bf16": lambda: {"precision": "bf16", "schedule": nd.OneCycle()},
    "free": lambda: {"optimizer": nd.ScheduleFreeAdamW(), "precision": "float64"},
    "numerical": lambda: {"gradient_method": "central", "max_steps": 2, "precision": "float64"},
}

WAYS: dict[str, Callable[[Any, Path], dict[str, Any]]] = {
    "fit": fit,
    "resume": resume,
    "fit_many": fit_many,
    "folds": folds,
    "supervised": supervised,
    "compile": compiled,
}


class _StopAt(nd.Callback):
    """Ends a training after some steps."""

    engine = True  # reads no gradients: the step may be compiled

    def __init__(self, step: int) -> None:
        self.step = step

    def on_batch_end(self, state: Any) -> None:
        if state.step == self.step:
            state.stop("as planned")


def facts(fitted: Any, where: Path | None) -> dict[str, Any]:
    """What is recorded of a fitted model."""
    own = _recorded(fitted.history, fitted.network.state_dict(), where)
    return own | {"forecasts": frame_digest(fitted.predict())}


def _recorded(history: Any, weights: dict[str, torch.Tensor], where: Path | None) -> dict[str, Any]:
    own: dict[str, Any] = {
        "losses": [float(loss).hex() for loss in history.step_loss],
        "norms": [float(norm).hex() for norm in history.gradient_norm],
        "validation": [float(epoch.get("validation_loss", 0.0)).hex() for epoch in history.epochs],
        "weights": tensors_digest(weights),
    }
    if where is not None:
        newest = max((where / "checkpoints").glob("step-*"))
        own |= {
            "last step": newest.name,
            "optimizer": tensors_digest(load_file(newest / "optimizer.safetensors")),
            "checkpoint weights": tensors_digest(load_file(newest / "weights.safetensors")),
        }
    return own


def tensors_digest(tensors: dict[str, torch.Tensor]) -> str:
    """One sha256 of names, types, shapes and bits."""
    digest = hashlib.sha256()
    for name in sorted(tensors):
        tensor = tensors[name].detach().cpu().contiguous()
        digest.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}".encode())
        digest.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def frame_digest(frame: pl.DataFrame) -> str:
    """One sha256 of the columns' names and values, floats by their bits."""
    digest = hashlib.sha256()
    for name in frame.columns:
        values = frame[name].to_list()
        digest.update(f"{name} {frame[name].dtype}".encode())
        digest.update(repr([value.hex() if isinstance(value, float) else str(value) for value in values]).encode())
    return digest.hexdigest()


def record(kinds: list[str], ways: list[str], scratch: Path) -> dict[str, Any]:
    """Every case; one that raises is recorded with the kind of error."""
    cases: dict[str, Any] = {}
    todo = [(f"{kind} {way}", WAYS[way], described(kind)) for kind in kinds if kind != "arrays" for way in ways]
    if "arrays" in kinds:
        todo.append(("arrays", lambda _, where: arrays(where), None))
    for name, way, model in todo:
        where = scratch / name.replace(" ", "-")
        try:
            cases[name] = way(model, where)
        except Exception as error:  # recorded as well: a refusal, or a mistake that the change did not make
            cases[name] = {"raised": type(error).__name__}
        shutil.rmtree(where, ignore_errors=True)
        print(name, flush=True)
    return cases


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print what differs, or "identical"; the number of cases that differ."""
    names = sorted({*before, *after})
    different = [name for name in names if before.get(name) != after.get(name)]
    for name in different:
        one, other = before.get(name), after.get(name)
        if one is None or other is None:
            print(f"{name}: only {'after' if one is None else 'before'}")
            continue
        fields = [key for key in sorted({*one, *other}) if one.get(key) != other.get(key)]
        print(f"{name}: other {', '.join(fields)}")
    raised = sum("raised" in case for case in after.values())
    verdict = "identical" if not different else f"{len(different)} of {len(names)} cases differ"
    print(f"{verdict} ({len(names)} cases, {raised} of them raise)")
    return len(different)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["record", "compare"])
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--models", default="")
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    if given.command == "compare":
        one, other = (json.loads(path.read_text(encoding="utf-8")) for path in given.files)
        return min(1, compare(one, other))
    logging.disable(logging.CRITICAL)
    (target,) = given.files
    own = {kind: cls for kind, cls in registry.members("model").items() if cls.__module__.startswith("neuro_div")}
    kinds = given.models.split(",") if given.models else [*(kind for kind in own if kind not in LEFT_OUT), "arrays"]
    if given.jobs == 1:
        with tempfile.TemporaryDirectory() as scratch:
            cases = record(kinds, given.ways.split(","), Path(scratch))
    else:
        cases = _in_processes(kinds, given)
    target.write_text(json.dumps(cases, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    print(f"{len(cases)} cases in {target}")
    return 0


def _in_processes(kinds: list[str], given: argparse.Namespace) -> dict[str, Any]:
    cases: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        parts = [(kinds[number :: given.jobs], Path(folder) / f"{number}.json") for number in range(given.jobs)]
        started = [
            subprocess.Popen(
                [sys.executable, __file__, "record", str(path), "--models", ",".join(part), "--ways", given.ways],
                env=os.environ | {"OMP_NUM_THREADS": "1"},
            )
            for part, path in parts
        ]
        if any(process.wait() for process in started):
            raise SystemExit("a part could not be recorded")
        for _, path in parts:
            cases |= json.loads(path.read_text(encoding="utf-8"))
    return cases


if __name__ == "__main__":
    raise SystemExit(main())
