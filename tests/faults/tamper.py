"""Saved models of several kinds, changed at random by somebody who signs them again. Each is loaded and forecasts.

python tests/faults/tamper.py FOLDER FIRST COUNT [SEED]      # a JSON line a model: number, verdict, seconds, what

A verdict is "refused" (by our own error), "used" (it forecast), or "stray" (any other exception, memory included).
Whoever starts this watches the time: a model without a verdict hangs.
"""

from __future__ import annotations

import copy
import hashlib
import json
import os
import random
import resource
import shutil
import struct
import sys
import time
import traceback
import warnings
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import torch

import neuro_divergent as nd
from neuro_divergent.core.errors import NeuroDivergentError

MANIFEST, MODEL, INDEX = "manifest.json", "model.json", "index.json"
MEMORY = 1536 * 2**20
"""How many bytes more than at its start the process may have."""
SECTIONS = ("model", "config", "spec", "anchor", "data", "context", "extras", "history", "lineage")


def build(folder: Path) -> None:
    """Save the models that are tampered with, unless they are there."""
    if folder.exists():
        return
    temporary = folder.with_name(f"{folder.name}-{os.getpid()}")
    temporary.mkdir(parents=True)
    for name, fitted in _models():
        fitted.save(temporary / name)
    temporary.rename(folder)


def _models() -> Iterator[tuple[str, Any]]:
    config = nd.TrainingConfig(max_steps=1, validation_split=None, progress=False, batch_size=4)
    size: dict[str, Any] = {"h": 3, "input_size": 6}
    plain, rich = _frame(), _rich()
    mlp = nd.MLP(**size, hidden_size=4, layers=1)
    yield "plain", mlp.fit(plain, config)
    yield "quantiles", nd.GRU(**size, hidden_size=4).fit(plain, config.replace(loss=nd.MQLoss(level=[80])))
    loss = nd.DistributionLoss(distribution="StudentT", level=[80])
    yield "samples", nd.DeepAR(**size, hidden_size=4, samples=20).fit(plain, config.replace(loss=loss))
    yield "columns", nd.TiDE(**size, hidden_size=4, decoder_size=2, temporal_width=4).fit(rich, config)
    yield "anchored", nd.NHITS(**size, anchor=[3]).fit(_frame(zone="America/Santiago"), config)
    multivariate = nd.TSMixer(**size, blocks=1, hidden_size=4)
    yield "multivariate", multivariate.fit(plain, config)
    intervals = nd.PredictionIntervals(n_windows=2, step_size=3)
    many = nd.NeuralForecast([mlp, nd.DLinear(**size)], freq="1d", local_scaler_type="standard")
    many.fit(plain, config, prediction_intervals=intervals)
    yield "intervals", many
    yield "ensemble", nd.ensemble([mlp.fit(plain, config), nd.NLinear(**size).fit(plain, config)])
    shops = _frame().with_columns(pl.lit("shop").alias("kind"), pl.col("unique_id").alias("shop")).drop("unique_id")
    table, family = nd.aggregate(shops, [["kind"], ["kind", "shop"]])
    loss = nd.MQLoss(level=[80])
    yield "hint", nd.HINT(model=mlp, S=family, samples=50).fit(table, config.replace(loss=loss))


def _frame(zone: str | None = None) -> pl.DataFrame:
    days = pl.datetime_range(pl.datetime(2024, 1, 1), pl.datetime(2024, 2, 9), "1d", time_zone=zone, eager=True)
    y = 10 + np.sin(np.arange(len(days)) / 3)
    return pl.concat(
        pl.DataFrame({"unique_id": [name] * len(days), "ds": days, "y": y * scale})
        for name, scale in (("a", 1.0), ("b", 3.0))
    )


def _rich() -> nd.TimeSeriesDataFrame:
    frame = _frame().with_columns(
        (pl.col("y") * 2).alias("past"),
        pl.col("ds").dt.weekday().cast(pl.String).alias("day"),
        pl.when(pl.col("unique_id") == "a").then(1.0).otherwise(2.0).alias("size"),
    )
    return nd.TimeSeriesDataFrame.from_frame(
        frame, historical=["past", "day"], categorical=["day"], static=["size"], features=["fourier:7:1", "time"]
    )


def tampered(folder: Path, place: Path, number: int, seed: int) -> str:
    """Write a changed copy of a model to a place; what was changed, in words."""
    chance = random.Random(f"{seed}-{number}")
    names = sorted(os.listdir(folder))
    name = chance.choice(names)
    shutil.copytree(folder / name, place)
    bundles = [path.parent for path in sorted(place.rglob(MANIFEST))]
    words = [name]
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        where = chance.choice(bundles)
        other = folder / chance.choice(names)
        donor = chance.choice([path.parent for path in sorted(other.rglob(MANIFEST)) if path.parent.name != "index"])
        files = sorted(set(os.listdir(where)) - {MANIFEST})
        documents = [file for file in files if file.endswith(".json")]
        tensors = [file for file in files if file not in documents]
        change = chance.random()
        if change < 0.1 and MODEL in documents:
            words.append(_twins(where / MODEL, chance))
        elif change < 0.7 and documents:
            words.append(_edit(where / documents[0], donor / MODEL, chance))
        elif change < 0.95 and tensors:
            words.append(_bend(where / chance.choice(tensors), donor, chance))
        elif files:
            words.append(_exchange(where, donor, chance.choice(files)))
    sign(place)
    return ", ".join(words)


def sign(place: Path) -> None:
    """Make manifests and the index right again."""
    for path in sorted(place.rglob(MANIFEST), reverse=True):  # the models before their index
        where = path.parent
        if (where / INDEX).exists():
            document = json.loads((where / INDEX).read_bytes())
            if isinstance(document, dict) and "manifests" in document:
                members = sorted(item for item in place.glob("model-*"))
                document["manifests"] = [hashlib.sha256((item / MANIFEST).read_bytes()).hexdigest() for item in members]
                (where / INDEX).write_text(json.dumps(document))
        contents = {file: (where / file).read_bytes() for file in os.listdir(where) if file != MANIFEST}
        facts = {
            file: {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)} for file, data in contents.items()
        }
        path.write_text(json.dumps({"format": 1, "files": facts}))


def _edit(path: Path, donor: Path, chance: random.Random) -> str:
    """Change one entry of a JSON file."""
    document, foreign = json.loads(path.read_bytes()), json.loads(donor.read_bytes())
    section = chance.choice([name for name in SECTIONS if name in document] or [None])
    paths = list(_paths(document if section is None else document[section], () if section is None else (section,)))
    *parents, last = chance.choice(paths)
    target = document
    for part in parents:
        target = target[part]
    before = target[last]
    action = chance.choice(("value", "value", "value", "number", "number", "delete", "extra", "foreign", "repeat"))
    if action == "delete":
        del target[last]
    elif action == "extra" and isinstance(target, dict):
        target[chance.choice(("x", "kind", "schema", str(last) + "_"))] = copy.deepcopy(before)
    elif action == "foreign":
        target[last] = _at(foreign, (*parents, last), chance)
    elif action == "repeat" and isinstance(before, list) and before:
        target[last] = before * chance.choice((2, 1000))
    elif action == "number" and isinstance(before, int | float) and not isinstance(before, bool):
        target[last] = chance.choice(
            (before + 1, before - 1, -before, before * 10, before * 1000, before * 10**6, before / 2, 0)
        )
    else:
        target[last] = _any_value(chance)
    path.write_text(json.dumps(document))
    place = ".".join(map(str, (*parents, last)))
    return f"{path.parent.name} {action} {place}: {str(before)[:40]!r} -> {str(_get(target, last))[:60]!r}"


def _twins(path: Path, chance: random.Random) -> str:
    """Change a size in both of the places that must agree on it."""
    document = json.loads(path.read_bytes())
    name, twin = chance.choice((("h", "horizon"), ("input_size", "lookback")))
    size = chance.choice((1, 2, 12, 50, 20_000, 10**6, 10**7))
    model, spec = document.get("model"), document.get("spec")
    for part, field in ((model, name), (model.get("model") if isinstance(model, dict) else None, name), (spec, twin)):
        if isinstance(part, dict):
            part[field] = size
    path.write_text(json.dumps(document))
    return f"{path.parent.name} {name} and {twin} -> {size}"


def _get(target: Any, last: Any) -> Any:
    try:
        return target[last]
    except (KeyError, IndexError):
        return "gone"


def _at(document: Any, path: tuple[Any, ...], chance: random.Random) -> Any:
    try:
        for part in path:
            document = document[part]
    except (KeyError, IndexError, TypeError):
        return _any_value(chance)
    return copy.deepcopy(document)


def _paths(value: Any, path: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if path:
        yield path
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _paths(item, (*path, key))
    elif isinstance(value, list):
        for position, item in enumerate(value[:6]):
            yield from _paths(item, (*path, position))


WORDS = (
    "", "a", "x" * 100_000, "\0", "auto", "1d", "0d", "1us", "999999999y", "1000000000w", "100000bd", "1mo:end", "12q",
    "1i", "3i", "Europe/Nowhere", "America/Santiago", "UTC", "nan", "float64", "date", "datetime[ns]", "datetime[X]",
    "int64", "fourier:7:100000", "lag:100000000", "lag:1", "holidays:ZZ", "time", "MLP", "MSE", "MQLoss", "pandas",
    "polars", "pyarrow", "../x", "/etc/passwd", "integer", "none", "text", "standard", "revin", "boxcox",
)  # fmt: skip
NUMBERS = (
    0, 1, 2, 3, -1, -3, 7, 100, 10_000, 10**6, 10**7, 10**7 + 1, 10**9, 2**31, 2**53, 2**63, 10**30, 0.5, -0.5, 1e-320,
    1e-30, 1e30, 1e308, -1e308,
)  # fmt: skip


def _any_value(chance: random.Random) -> Any:
    return chance.choice(
        (
            lambda: chance.choice(WORDS),
            lambda: chance.choice(WORDS),
            lambda: chance.choice(NUMBERS),
            lambda: chance.choice(NUMBERS),
            lambda: chance.choice((None, True, False)),
            lambda: {"float": chance.choice(("nan", "inf", "-inf"))},
            lambda: [chance.choice(NUMBERS) for _ in range(chance.choice((0, 1, 2, 300)))],
            lambda: [chance.choice(WORDS) for _ in range(chance.choice((1, 3)))],
            lambda: {chance.choice(WORDS): chance.choice(NUMBERS)},
            lambda: {"kind": chance.choice(WORDS)},
            lambda: [[[[]]]],
            lambda: {"a": {"b": {"c": [1, {"d": None}]}}},
        )
    )()


def _exchange(where: Path, donor: Path, file: str) -> str:
    if not (donor / file).exists():
        (where / file).unlink()
        return f"{where.name} without {file}"
    shutil.copy(donor / file, where / file)
    return f"{where.name} with the {file} of {donor.parent.name}/{donor.name}"


WIDTHS = {"F64": 8, "F32": 4, "F16": 2, "BF16": 2, "I64": 8, "I32": 4, "I16": 2, "I8": 1, "U8": 1, "U64": 8, "BOOL": 1}
DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1", "BOOL": "u1"}


def _bend(path: Path, donor: Path, chance: random.Random) -> str:
    """Change one tensor of a safetensors file: shape, format, values, length or name; the file stays one."""
    tensors = _tensors(path.read_bytes())
    if not tensors:
        return "nothing"
    name = chance.choice(sorted(tensors))
    kind, shape, data = tensors[name]
    count = int(np.prod(shape, dtype=np.int64))
    action = chance.choice(("shape", "format", "values", "values", "cut", "grow", "drop", "rename", "foreign", "extra"))
    if action == "shape":
        shape = chance.choice(([count], [1, *shape], [*shape, 1], shape[::-1], [0] if not count else [count, 1, 1]))
    elif action == "format":
        same = [other for other, width in WIDTHS.items() if width == WIDTHS[kind] and other != kind]
        kind = chance.choice(same)
    elif action == "values" and count and kind in DTYPES:
        array = np.frombuffer(data, DTYPES[kind]).copy()
        some = slice(None) if chance.random() < 0.5 else slice(chance.randrange(count), None)
        values = (0, 1, -1, 2**20, 2**31 - 1) if kind[0] in "IUB" else (0.0, 1e30, -1e30, 1e300, np.nan, np.inf, -1.0)
        if kind == "I64":
            values = (*values, 2**62, -(2**62), -(2**63), 10**12, 253402300800 * 10**6)
        with np.errstate(all="ignore"):
            array[some] = np.array(chance.choice(values), dtype=np.float64 if kind[0] in "F" else np.int64).astype(
                array.dtype
            )
        data = array.tobytes()
    elif action in ("cut", "grow") and shape and shape[0]:
        shape = [shape[0] - 1 if action == "cut" else shape[0] * 2, *shape[1:]]
        size = int(np.prod(shape, dtype=np.int64)) * WIDTHS[kind]
        data = (data * 2)[:size]
    elif action == "foreign":
        others = _tensors((donor / path.name).read_bytes()) if (donor / path.name).exists() else {}
        if others:
            kind, shape, data = others.get(name) or others[chance.choice(sorted(others))]
    del tensors[name]
    if action != "drop":
        tensors[name + "_" if action == "rename" else name] = kind, shape, data
    if action == "extra":
        tensors[chance.choice(("mask", "weight", "future", "static", "categorical", "x"))] = kind, shape, data
    path.write_bytes(_file(tensors))
    return f"{path.parent.name} {action} of {name} in {path.name} {kind} {shape}"


def _tensors(data: bytes) -> dict[str, tuple[str, list[int], bytes]]:
    (size,) = struct.unpack("<Q", data[:8])
    header, body = json.loads(data[8 : 8 + size]), data[8 + size :]
    return {
        name: (facts["dtype"], facts["shape"], body[slice(*facts["data_offsets"])])
        for name, facts in header.items()
        if name != "__metadata__"
    }


def _file(tensors: dict[str, tuple[str, list[int], bytes]]) -> bytes:
    header, end = {}, 0
    for name, (kind, shape, data) in tensors.items():
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [end, end + len(data)]}
        end += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    return struct.pack("<Q", len(text)) + text + b"".join(data for _, _, data in tensors.values())


NEWER = _frame()


def use(place: Path) -> None:
    """What somebody does with a model from elsewhere."""
    fitted = nd.load(place)
    fitted.predict()
    for how in ({"level": [80]}, {"h": 5}, {"data": NEWER}):
        with suppress(NeuroDivergentError):  # not every model can, tampered with or not
            fitted.predict(**how)


def verdict(folder: Path, place: Path, number: int, seed: int) -> dict[str, Any]:
    """Tamper with one model, use it, and say what happened."""
    what = tampered(folder, place, number, seed)
    begun = time.monotonic()
    try:
        use(place)
        found, why = "used", ""
    except NeuroDivergentError as error:
        found, why = "refused", str(error)[:200]
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        own = [frame for frame in traceback.extract_tb(error.__traceback__) if "neuro_divergent" in frame.filename]
        at = own[-1] if own else last
        found = "stray"
        why = f"{type(error).__name__}: {str(error)[:150]} at {Path(at.filename).name}:{at.lineno} {at.line}"
    shutil.rmtree(place)
    return {"number": number, "verdict": found, "seconds": time.monotonic() - begun, "what": what, "why": why}


def main() -> None:
    folder, first, count = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else 0
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    build(folder)
    for path in sorted(folder.iterdir()):  # the control, and everything imported before memory is limited
        use(path)
    size = int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, size + MEMORY))
    place = folder.with_name(f"tampered-{os.getpid()}")
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    for number in range(first, first + count):
        sys.stdout.write(json.dumps(verdict(folder, place, number, seed)) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
