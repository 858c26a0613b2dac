"""Model directories from a stranger: each is refused with our error, and nothing is written or executed."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
import torch
from fault_tools import record
from torch import nn

import neuro_divergent as nd
from neuro_divergent.core import tensor_files
from neuro_divergent.core.errors import CorruptFileError, NeuroDivergentError, StorageError
from neuro_divergent.training.runs.checkpoint_store import LocalCheckpoints
from neuro_divergent.training.runs.snapshot import read

FORMAT_1 = Path(__file__).parent / "fixtures"

WEIGHTS, MODEL, MANIFEST = "weights.safetensors", "model.json", "manifest.json"
HISTORY = "history.safetensors"
# A pickle that would create the file HACKED beside the model, written by hand.
PICKLE = b"cos\nsystem\n(S'touch HACKED'\ntR."


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = pl.DataFrame({"unique_id": ["a"] * 40, "ds": np.arange(40), "y": np.sin(np.arange(40) / 3)})
    path = tmp_path_factory.mktemp("models") / "good"
    config = nd.TrainingConfig(max_steps=2, progress=False)
    nd.MLP(h=2, input_size=4, hidden_size=4, layers=1).fit(frame, config).save(path)
    return path


def sign(path: Path) -> None:
    """Make the manifest right again: a stranger can do that too."""
    names = [entry.name for entry in os.scandir(path) if entry.name != MANIFEST and entry.is_file()]
    facts = {}
    for name in names:
        data = (path / name).read_bytes()
        facts[name] = {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)}
    (path / MANIFEST).write_text(json.dumps({"format": 1, "files": facts}))


def tensors(header: dict[str, Any] | bytes, data: bytes = b"", size: int | None = None) -> bytes:
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return struct.pack("<Q", len(text) if size is None else size) + text + data


def put(name: str, data: bytes) -> Callable[[Path], None]:
    return lambda path: (path / name).write_bytes(data) and None


def edit(place: str, value: Any) -> Callable[[Path], None]:
    """Change one entry of model.json."""

    def change(path: Path) -> None:
        document = json.loads((path / MODEL).read_text())
        *names, last = place.split(".")
        target = document
        for name in names:
            target = target[name]
        target[last] = value
        (path / MODEL).write_text(json.dumps(document))

    return change


def manifest(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(path: Path) -> None:
        document = json.loads((path / MANIFEST).read_text())
        change(document)
        (path / MANIFEST).write_text(json.dumps(document))

    return apply


def linked(path: Path) -> None:
    (path / WEIGHTS).rename(path.parent / "elsewhere.safetensors")
    (path / WEIGHTS).symlink_to(path.parent / "elsewhere.safetensors")


def piped(path: Path) -> None:
    (path / WEIGHTS).unlink()
    os.mkfifo(path / WEIGHTS)


def foldered(path: Path) -> None:
    (path / WEIGHTS).unlink()
    (path / WEIGHTS).mkdir()


def poisoned(value: float) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        from safetensors.torch import load, save

        found = load((path / WEIGHTS).read_bytes())
        next(tensor for tensor in found.values() if tensor.numel()).view(-1)[0] = value
        (path / WEIGHTS).write_bytes(save(found))

    return change


def recast(path: Path) -> None:
    from safetensors.torch import load, save

    found = {name: tensor.to(torch.int64) for name, tensor in load((path / WEIGHTS).read_bytes()).items()}
    (path / WEIGHTS).write_bytes(save(found))


def overlong(path: Path) -> None:
    from safetensors.numpy import load, save

    found = load((path / "context.safetensors").read_bytes())
    found["offsets"] = np.array([0, 2**40], dtype=np.int64)
    (path / "context.safetensors").write_bytes(save(found))


def bent(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """Change one array of the rows."""

    def apply(path: Path) -> None:
        from safetensors.numpy import load, save

        found = load((path / "context.safetensors").read_bytes())
        found[name] = change(found[name])
        (path / "context.safetensors").write_bytes(save(found))

    return apply


TIMELLM = {"kind": "TimeLLM", "h": 2, "input_size": 4}
F32 = {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}
EMPTY = {"dtype": "F32", "shape": [0], "data_offsets": [0, 0]}
SIGNED: dict[str, Callable[[Path], None]] = {
    "pickle as weights": put(WEIGHTS, PICKLE),
    "pickle as model": put(MODEL, PICKLE),
    "pickle as context": put("context.safetensors", PICKLE),
    "empty weights": put(WEIGHTS, b""),
    "header of 2^40 bytes": put(WEIGHTS, tensors({}, size=2**40)),
    "header of -1 bytes": put(WEIGHTS, tensors({}, size=2**64 - 1)),
    "header that is no object": put(WEIGHTS, tensors(b"[1, 2]")),
    "header nested deep": put(WEIGHTS, tensors(b"[" * 10_000 + b"]" * 10_000)),
    "overlapping tensors": put(WEIGHTS, tensors({"a": F32, "b": F32}, bytes(8))),
    "gap between tensors": put(WEIGHTS, tensors({"a": F32, "b": F32 | {"data_offsets": [12, 20]}}, bytes(20))),
    "tensor beyond the file": put(WEIGHTS, tensors({"a": F32}, bytes(4))),
    "more bytes than tensors": put(WEIGHTS, tensors({"a": F32}, bytes(12))),
    "shape product overflows": put(WEIGHTS, tensors({"a": F32 | {"shape": [2**40, 2**40]}}, bytes(8))),
    "negative shape": put(WEIGHTS, tensors({"a": F32 | {"shape": [-1, -2]}}, bytes(8))),
    "unknown number format": put(WEIGHTS, tensors({"a": F32 | {"dtype": "PYOBJECT"}}, bytes(8))),
    "metadata that is no text": put(WEIGHTS, tensors({"__metadata__": {"a": [1]}, "a": F32}, bytes(8))),
    "NaN weights": poisoned(float("nan")),
    "infinite weights": poisoned(float("inf")),
    "whole-number weights": recast,
    "deep JSON": put(MODEL, b'{"model":' * 5000 + b"1" + b"}" * 5000),
    "JSON that is a list": put(MODEL, b"[]"),
    "JSON with NaN": put(MODEL, b'{"model": NaN}'),
    "JSON of another encoding": put(MODEL, '{"model": 1}'.encode("utf-16")),
    "huge integer text": put(MODEL, b'{"model": ' + b"9" * 10_000 + b"}"),
    "class by import path": edit("model.kind", "os.system"),
    "class that is no model": edit("model.kind", "MSE"),
    "class that is no text": edit("model.kind", {"a": 1}),
    "unknown field": edit("model.command", "touch HACKED"),
    "huge width": edit("model.hidden_size", 10**12),
    "other width": edit("model.hidden_size", 9_999_999),
    "millions of layers": edit("model.layers", 5_000_000),
    "huge horizon": edit("spec.horizon", 10**12),
    "two horizons": edit("spec.horizon", 9),
    "negative horizon": edit("model.h", -1),
    "own callable": edit("config.loss", {"kind": "CustomLoss", "function": {"reference": "os:system"}}),
    "no loss": edit("config.loss", "auto"),
    "callback that writes a table": edit("config.callbacks", [{"kind": "CsvLog", "path": "HACKED"}]),
    "callback that writes lines": edit("config.callbacks", [{"kind": "JsonLines", "path": "HACKED"}]),
    "callback that draws": edit("config.callbacks", [{"kind": "LossPlot", "path": "HACKED"}]),
    "callback that fills a folder": edit("config.callbacks", [{"kind": "TensorBoard", "directory": "HACKED"}]),
    "callback by reference": edit("config.callbacks", [{"reference": "os:system"}]),
    "language model at an address": edit("model", TIMELLM | {"llm": "https://localhost/llm"}),
    "language model on a share": edit("model", TIMELLM | {"llm": r"\\localhost\llm"}),
    "history of other steps": put(HISTORY, tensors({"a": F32}, bytes(8))),
    "history of short numbers": put(HISTORY, tensors(dict.fromkeys(("step_loss", "gradient_norm"), EMPTY))),
    "pickle as history": put(HISTORY, PICKLE),
    "history that is a text": edit("history.epochs", "abc"),
    "history with other fields": edit("history.command", "touch HACKED"),
    "anchor beyond the window": edit("anchor", [10**9]),
    "anchor that is a text": edit("anchor", "abc"),
    "categories that are a number": edit("context.categories", 5),
    "names that are a number": edit("context.ids", 5),
    "offsets beyond the rows": overlong,
    "anchor of texts": edit("anchor", ["1"]),
    "anchor of lists": edit("anchor", [[[]]]),
    "anchor of half a step": edit("anchor", [0.5]),
    "anchor of no steps": edit("anchor", [0]),
    "sizes that are true": edit("spec.future", True),
    "rows of whole numbers": bent("y", lambda y: y.view(np.int32)),
    "rows that are no numbers": bent("y", lambda y: y * np.float32(np.nan)),
    "rows of two axes": bent("y", lambda y: y[:, None]),
    "time without an end": bent("start", lambda start: start + 2**62),
    "another kind of time": edit("context.freq", "1d"),
    "a time zone that is a list": edit("context.time_zone", ["UTC"]),
    "a time zone of whole numbers": edit("context.time_zone", "UTC"),
    "columns that the network has not": edit("spec.future", 3),
    "a feature that the rows have not": edit("data.features", ["fourier:7:100000"]),
    "categories that the rows have not": edit("data.categories", {"a": ["b"]}),
    "a library that is a number": edit("library", 5),
    "columns named by numbers": edit("context.historical_names", [5]),
    "endless horizon": edit("model", {"kind": "GRU", "h": 10**6, "input_size": 4, "recursive": True}),
    "endless draws": edit("model", {"kind": "DeepAR", "h": 2, "input_size": 4, "samples": 10**7}),
}
UNSIGNED: dict[str, Callable[[Path], None]] = {
    "extra pickle": put("extra.pkl", PICKLE),
    "extra folder": lambda path: (path / "more").mkdir(),
    "no manifest": lambda path: (path / MANIFEST).unlink(),
    "no weights": lambda path: (path / WEIGHTS).unlink(),
    "link to weights": linked,
    "pipe as weights": piped,
    "folder as weights": foldered,
    "traversal": manifest(lambda found: found["files"].update({"../HACKED": {"sha256": "", "bytes": 0}})),
    "absolute name": manifest(lambda found: found["files"].update({"/etc/passwd": {"sha256": "", "bytes": 0}})),
    "name with a zero byte": manifest(lambda found: found["files"].update({"a\0b": {"sha256": "", "bytes": 0}})),
    "negative size": manifest(lambda found: found["files"][MODEL].update(bytes=-1)),
    "size of 2^62": manifest(lambda found: found["files"][MODEL].update(bytes=2**62)),
    "size that is true": manifest(lambda found: found["files"][MODEL].update(bytes=True)),
    "no checksum": manifest(lambda found: found["files"][MODEL].pop("sha256")),
    "a thousand files": manifest(lambda found: found["files"].update({str(i): {"bytes": 0} for i in range(1000)})),
    "newer format": manifest(lambda found: found.update(format=2)),
    "format zero": manifest(lambda found: found.update(format=0)),
    "manifest of two megabytes": lambda path: (path / MANIFEST).write_bytes(b" " * 2**21) and None,
    "manifest nested deep": lambda path: (path / MANIFEST).write_bytes(b"[" * 100_000) and None,
}


@pytest.fixture
def copy(good: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "model"
    path.mkdir()
    for entry in good.iterdir():
        (path / entry.name).write_bytes(entry.read_bytes())
    monkeypatch.chdir(tmp_path)
    return path


@pytest.mark.parametrize("name", [*SIGNED, *UNSIGNED])
def test_a_hostile_directory_is_refused_and_does_nothing(copy: Path, name: str) -> None:
    if name in SIGNED:
        SIGNED[name](copy)
        sign(copy)
    else:
        UNSIGNED[name](copy)
    assert_refused(copy)


def assert_refused(path: Path) -> None:
    before = sorted(str(path) for path in path.parent.rglob("*"))
    refused = False
    try:
        nd.load(path)
    except NeuroDivergentError:
        refused = True
    record("hostile model files refused", int(refused), 1)
    assert refused
    assert sorted(str(path) for path in path.parent.rglob("*")) == before


def test_a_directory_that_was_only_signed_again_is_loaded(copy: Path) -> None:
    """The control: signing is right, so what is refused above is refused for what it says."""
    sign(copy)
    assert nd.load(copy).predict().height == 2


def index(change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    """Change the index of several models, and sign it."""

    def apply(path: Path) -> None:
        document = json.loads((path / "index" / "index.json").read_text())
        change(document)
        (path / "index" / "index.json").write_text(json.dumps(document))
        sign(path / "index")

    return apply


def linked_member(path: Path) -> None:
    (path / "model-01").rename(path.parent / "elsewhere")
    (path / "model-01").symlink_to(path.parent / "elsewhere")


def other_member(path: Path) -> None:
    """A model that is right in itself, but not the one that was saved with the others."""
    shutil.rmtree(path / "model-01")
    shutil.copytree(FORMAT_1 / "model-format-1", path / "model-01")


def edited_member(path: Path) -> None:
    edit("model.alias", "other")(path / "model-01")
    sign(path / "model-01")


MANY: dict[str, Callable[[Path], None]] = {
    "extra pickle beside the models": put("extra.pkl", PICKLE),
    "extra model": lambda path: shutil.copytree(path / "model-00", path / "model-02") and None,
    "extra folder beside the models": lambda path: (path / "more").mkdir(),
    "extra pickle in the index": put("index/extra.pkl", PICKLE),
    "no index": lambda path: shutil.rmtree(path / "index"),
    "a model less": lambda path: shutil.rmtree(path / "model-01"),
    "link to a model": linked_member,
    "another model": other_member,
    "a changed model": edited_member,
    "no models": index(lambda facts: facts.update(count=0)),
    "more models than there are": index(lambda facts: facts.update(count=1000)),
    "fewer models than there are": index(lambda facts: facts.update(count=1)),
    "count that is true": index(lambda facts: facts.update(count=True)),
    "models in another order": index(lambda facts: facts["manifests"].reverse()),
    "manifests that are a text": index(lambda facts: facts.update(manifests="abc")),
    "kind by import path": index(lambda facts: facts.update(kind="os.system")),
    "ensemble of texts": index(lambda facts: facts.update(kind="Ensemble", weights=["a"], method="mean", name="")),
    "ensemble named by a number": index(
        lambda facts: facts.update(kind="Ensemble", weights=[0.5, 0.5], method="mean", name=5)
    ),
    "ensemble without weights": index(lambda facts: facts.update(kind="Ensemble")),
}


@pytest.fixture(scope="module")
def good_many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The kept models, saved together by this version."""
    path = tmp_path_factory.mktemp("models") / "many"
    nd.load(FORMAT_1 / "many-format-1").save(path)
    return path


@pytest.fixture
def many(good_many: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(good_many, tmp_path / "many"))


@pytest.mark.parametrize("name", MANY)
def test_a_hostile_directory_of_several_models_is_refused_and_does_nothing(many: Path, name: str) -> None:
    MANY[name](many)
    assert_refused(many)


def _array(name: str, change: Callable[[np.ndarray], np.ndarray]) -> Callable[[Path], None]:
    """Change one array of intervals and scales."""

    def apply(path: Path) -> None:
        from safetensors.numpy import load, save

        found = load((path / "extras.safetensors").read_bytes())
        found[name] = np.ascontiguousarray(change(found[name]))
        (path / "extras.safetensors").write_bytes(save(found))

    return apply


EXTRAS: dict[str, Callable[[Path], None]] = {
    "scores of fewer steps": _array("intervals.scores", lambda scores: scores[:, :, :1]),
    "scores of no windows": _array("intervals.scores", lambda scores: scores[:, :0]),
    "scores below zero": _array("intervals.scores", lambda scores: scores - 1e9),
    "infinite scores": _array("intervals.scores", lambda scores: scores + np.inf),
    "a scale of zero": _array("intervals.scale", lambda scale: 0 * scale),
    "a location that is no number": _array("local.location", lambda location: location * np.nan),
    "a location of two axes": _array("local.location", lambda location: location[:, None]),
    "fewer locations": _array("local.location", lambda location: location[:0]),
    "a local scale of zero": _array("local.scale", lambda scale: 0 * scale),
    "series named by lists": edit("extras.local.ids", [["a"]]),
    "an unknown scaler": edit("extras.local.name", {"a": 1}),
    "windows that are text": edit("extras.intervals.settings.n_windows", "many"),
}


@pytest.fixture(scope="module")
def good_extras(tmp_path_factory: pytest.TempPathFactory) -> Path:
    frame = pl.DataFrame({"unique_id": ["a"] * 40, "ds": np.arange(40), "y": np.sin(np.arange(40) / 3)})
    path = tmp_path_factory.mktemp("models") / "extras"
    many = nd.NeuralForecast([nd.NLinear(h=2, input_size=4)], freq=1, local_scaler_type="standard")
    config = nd.TrainingConfig(max_steps=1, progress=False)
    many.fit(frame, config, prediction_intervals=nd.PredictionIntervals(n_windows=2, step_size=2))
    many.forecasters["NLinear"].save(path)
    return path


@pytest.mark.parametrize("name", EXTRAS)
def test_hostile_intervals_and_scales_are_refused(good_extras: Path, name: str, tmp_path: Path) -> None:
    copy = Path(shutil.copytree(good_extras, tmp_path / "model"))
    assert nd.load(copy).predict(level=[80]).height == 2  # the control
    EXTRAS[name](copy)
    sign(copy)
    assert_refused(copy)


def test_several_models_whose_index_was_only_signed_again_are_loaded(many: Path) -> None:
    """The control: what is refused above is refused for what it says."""
    index(lambda facts: None)(many)
    assert len(nd.load(many)) == 2


def test_a_link_to_several_models_is_not_followed(many: Path) -> None:
    (many.parent / "link").symlink_to(many)
    assert_refused(many.parent / "link")
    with pytest.raises(StorageError, match="must be a directory that save"):
        nd.load(many.parent / "link")


def test_going_on_with_a_loaded_model_writes_nothing(copy: Path) -> None:
    """Where the run was kept stays in the file: there could be any directory, and any address."""
    place = copy.parent / "elsewhere"
    edit("config.checkpoints", {"kind": "Checkpoints", "directory": str(place)})(copy)
    edit("config.fault_tolerance", {"kind": "FaultTolerance", "retries": 3})(copy)
    sign(copy)
    before = sorted(str(path) for path in copy.parent.rglob("*"))
    fitted = nd.load(copy)
    newer = pl.DataFrame({"unique_id": ["a"] * 20, "ds": np.arange(40, 60), "y": np.cos(np.arange(20.0))})
    fitted.model.fit(newer, fitted.config.replace(max_steps=1))
    fitted.fine_tune(newer)
    fitted.cross_validation(newer, n_windows=1)
    assert fitted.update(newer).predict().height == 2
    assert sorted(str(path) for path in copy.parent.rglob("*")) == before


def test_a_link_to_a_model_is_not_followed(copy: Path) -> None:
    (copy.parent / "link").symlink_to(copy)
    with pytest.raises(StorageError, match="must be a directory that save"):
        nd.load(copy.parent / "link")


def test_a_flipped_bit_in_a_weights_file_is_never_loaded_as_other_weights(good: Path, tmp_path: Path) -> None:
    fitted = nd.load(good)
    fitted.save_weights(tmp_path / "weights")
    whole, own = (tmp_path / "weights").read_bytes(), fitted.module.state_dict()
    expected = {name: tensor.clone() for name, tensor in own.items()}
    chance = random.Random(0)
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
        (tmp_path / "weights").write_bytes(damaged)
        try:
            fitted.load_weights(tmp_path / "weights")
        except NeuroDivergentError:
            refused += 1
        assert all(torch.equal(tensor, expected[name]) for name, tensor in own.items())
    assert refused >= 290  # a flip in the name of the checksum itself changes no weight


def test_a_compressed_checkpoint_cannot_unpack_to_more_than_it_says(tmp_path: Path) -> None:
    x = np.linspace(-1, 1, 8, dtype=np.float32)[:, None]
    checkpoints = nd.Checkpoints(tmp_path, compression="zstd")
    config = nd.TrainingConfig(max_steps=2, validation_split=None, checkpoints=checkpoints, progress=False)
    nd.Trainer(config).fit(nn.Linear(1, 1), (x, x))
    path = tmp_path / "checkpoints" / "step-00000002"
    contents = LocalCheckpoints(tmp_path).read(path.name)
    assert set(contents) == {"weights.safetensors.zst", "optimizer.safetensors.zst", "state.json"}
    assert read(contents, "run").step == 2
    bomb = contents | {"weights.safetensors.zst": tensor_files.compress(bytes(10**7))}
    with pytest.raises(CorruptFileError, match="must decompress to"):
        read(bomb, "run")
    document = json.loads(contents["state.json"])
    document["unpacked"]["weights.safetensors"] = 2**60
    with pytest.raises(CorruptFileError, match="must decompress to at most"):
        read(bomb | {"state.json": json.dumps(document).encode()}, "run")


def test_a_small_file_does_not_unpack_to_a_large_one() -> None:
    """zstd makes 12 kB of 384 MB of zeros: a stranger's file of that size would fill as much memory."""
    zeros = bytes(384 * 10**6)
    bomb: bytes = pa.Codec("zstd").compress(zeros, asbytes=True)
    assert len(bomb) < 100_000
    with pytest.raises(CorruptFileError, match="must decompress to at most 67108864, but got size=384000000"):
        tensor_files.decompress(bomb, len(zeros), "weights")
    # What somebody really trains on is never refused: our own file of it is as large as it must be.
    packed = tensor_files.compress(zeros)
    assert len(packed) == pytest.approx(len(zeros) / 100, rel=1e-4)
    assert tensor_files.decompress(packed, len(zeros), "weights") == zeros


def test_what_is_too_large_to_be_unpacked_is_not_packed(tmp_path: Path) -> None:
    with (tmp_path / "sparse").open("wb") as file:
        file.truncate(16 * 2**30 + 1)
    with (
        (tmp_path / "sparse").open("rb") as file,
        mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as large,
        pytest.raises(StorageError, match=r"at most 17179869184 bytes can be compressed .* Use compression=None"),
    ):
        tensor_files.compress(cast(bytes, large))


def test_format_1_is_still_read() -> None:
    """The models were saved by the first version; their forecasts were written down then."""
    fitted = nd.load(FORMAT_1 / "model-format-1")
    expected = json.loads((FORMAT_1 / "model-format-1.json").read_text())
    assert fitted.predict()["MLP"].to_list() == pytest.approx(expected["forecast"], rel=1e-6)
    found = read(LocalCheckpoints(FORMAT_1 / "run-format-1").read("step-00000002"), "run")
    assert found.step == 2
    assert found.step_loss == expected["step_loss"]
    together = nd.load(FORMAT_1 / "many-format-1").predict()
    for name, forecast in json.loads((FORMAT_1 / "many-format-1.json").read_text()).items():
        assert together[name].to_list() == pytest.approx(forecast, rel=1e-6)
