"""A store on disk: the same bits as in memory, and refused when it is not what was written."""

from __future__ import annotations

import json
import pickle
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.core.errors import CorruptFileError, DataError, NeuroDivergentError, StorageError
from neuro_divergent.data.store.files import FORMAT
from neuro_divergent.data.store.store import SeriesStore
from neuro_divergent.data.table import TimeSeriesDataFrame
from neuro_divergent.data.windows.windows import Windows


def make_store(masked: bool = True, dtype: str = "float32", seed: int = 0) -> SeriesStore:
    rng = np.random.default_rng(seed)
    lengths = [30, 25, 40]
    rows = sum(lengths)
    mask = rng.random(rows) > 0.2
    return SeriesStore(
        ids=np.array(["a", "bb", "ccc"]),
        offsets=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        y=np.where(mask, rng.normal(size=rows), 0).astype(dtype) if masked else rng.normal(size=rows).astype(dtype),
        start=np.array(["2024-01-01"] * 3, dtype="datetime64[us]"),
        freq="1h",
        time_zone="Europe/Berlin",
        mask=mask if masked else None,
        future=rng.normal(size=(rows, 2)).astype(dtype),
        historical=rng.normal(size=(rows, 1)).astype(dtype),
        static=rng.normal(size=(3, 2)).astype(dtype),
        categorical=rng.integers(0, 3, (rows, 1)).astype(np.int32),
        static_categorical=rng.integers(0, 2, (3, 1)).astype(np.int32),
        weight=rng.random(rows).astype(dtype),
        future_names=("f", "g"),
        historical_names=("x",),
        static_names=("s", "t"),
        categories={"event": ("é", "b"), "shop": ("p",)},
    )


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    make_store().save(tmp_path / "store")
    return tmp_path / "store"


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_opened_is_what_was_saved(tmp_path: Path, dtype: str) -> None:
    store = make_store(dtype=dtype)
    store.save(tmp_path / "store")
    opened = SeriesStore.open(tmp_path / "store")
    for name, array in store.arrays().items():
        np.testing.assert_array_equal(getattr(opened, name), array)
        assert getattr(opened, name).dtype == array.dtype
    assert (opened.freq, opened.time_zone, opened.categories) == (store.freq, store.time_zone, store.categories)
    assert (opened.future_names, opened.static_names) == (store.future_names, store.static_names)
    assert opened.fingerprint() == store.fingerprint()
    assert opened.nbytes == store.nbytes
    assert opened.dtype == np.dtype(dtype)


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 1000), masked=st.booleans(), padding=st.booleans(), multivariate=st.booleans())
def test_batches_from_disk_are_bit_identical(
    tmp_path_factory: pytest.TempPathFactory, seed: int, masked: bool, padding: bool, multivariate: bool
) -> None:
    store = make_store(masked, seed=seed)
    folder = tmp_path_factory.mktemp("disk") / "store"
    store.save(folder)
    options: dict[str, Any] = {"lookback": 7, "horizon": 3, "start_padding": padding, "multivariate": multivariate}
    memory, disk = Windows(store, **options), Windows(SeriesStore.open(folder), **options)
    numbers = np.random.default_rng(seed).permutation(len(memory))
    for ours, theirs in zip(memory.gather(numbers), disk.gather(numbers), strict=True):
        assert (ours is None) == (theirs is None)
        assert ours is None or theirs is None or torch.equal(ours, theirs)


def test_rows_stay_on_disk_and_cannot_be_written(saved: Path) -> None:
    opened = SeriesStore.open(saved)
    base: Any = opened.y
    while getattr(base, "base", None) is not None and not isinstance(base, np.memmap):
        base = base.base
    assert isinstance(base, np.memmap)
    assert not opened.y.flags.writeable


def test_the_fingerprint_tells_data_apart() -> None:
    store = make_store()
    y = store.y.copy()
    y[3] += 1
    others = [
        store.replace(y=y),
        store.replace(mask=None),
        store.replace(freq="1d"),
        store.replace(ids=np.array(["a", "bb", "ccd"])),
        store.replace(start=store.start + np.timedelta64(1, "h")),
        store.replace(future_names=("g", "f")),
    ]
    prints = {other.fingerprint() for other in others}
    assert len(prints) == len(others)
    assert store.fingerprint() not in prints
    assert store.replace(ids=store.ids.astype("U50")).fingerprint() == store.fingerprint()


def test_an_existing_directory_is_only_replaced_on_request(saved: Path) -> None:
    with pytest.raises(StorageError, match="exists already"):
        make_store().save(saved)
    make_store(seed=1).save(saved, overwrite=True)
    assert SeriesStore.open(saved).fingerprint() == make_store(seed=1).fingerprint()


def test_inconsistent_arrays_are_refused() -> None:
    store = make_store()
    with pytest.raises(DataError, match="weight must have 95 entries, but got 3"):
        store.replace(weight=np.ones(3, np.float32))
    with pytest.raises(DataError, match="offsets must rise from 0"):
        store.replace(offsets=np.array([0, 50, 40, 95]))


def test_something_else_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"has no store\.json"):
        SeriesStore.open(tmp_path)


def change(folder: Path, **facts: Any) -> None:
    path = folder / "store.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | facts))


def test_a_newer_format_is_refused(saved: Path) -> None:
    change(saved, format=FORMAT + 1)
    with pytest.raises(StorageError, match="Update neuro-divergent"):
        SeriesStore.open(saved)


def test_a_store_with_fills_is_of_the_second_format(tmp_path: Path) -> None:
    """A reader of format 1 would call the array of fills damage, or take filled rows for missing ones."""
    table = TimeSeriesDataFrame.from_frame({"ds": [1, 2, 3], "y": [1.0, None, 3.0]}, missing="forward")
    table.store.save(tmp_path / "store")
    assert json.loads((tmp_path / "store" / "store.json").read_text())["format"] == 2
    assert SeriesStore.open(tmp_path / "store").fingerprint() == table.store.fingerprint()


def test_only_a_store_whose_grid_has_an_anchor_is_of_the_second_format(tmp_path: Path) -> None:
    """Format 1 is what readers of earlier versions know."""
    days = ["2024-12-30", "2025-01-30", "2025-02-28"]
    table = TimeSeriesDataFrame.from_frame({"ds": days, "y": [1.0, 2.0, 3.0]}, freq="1mo")
    for number, store in ((1, table.store), (2, table.tail(1).store)):
        store.save(tmp_path / str(number))
        assert json.loads((tmp_path / str(number) / "store.json").read_text())["format"] == number
        assert SeriesStore.open(tmp_path / str(number)).fingerprint() == store.fingerprint()
    spoil(tmp_path / "2", "grid_anchor", np.array(["2025-03-27"], dtype="datetime64[us]"))
    with pytest.raises(CorruptFileError, match="grid_anchor must be a time whose grid holds the start"):
        SeriesStore.open(tmp_path / "2")


def spoil(folder: Path, name: str, array: np.ndarray) -> None:
    """Write another array, with the header's facts adjusted to it, as a careful forger would."""
    np.save(folder / f"{name}.npy", array)
    facts = json.loads((folder / "store.json").read_text())
    facts["arrays"][name] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    (folder / "store.json").write_text(json.dumps(facts))


@pytest.mark.parametrize(
    ("name", "array"),
    [
        ("offsets", np.array([0, 30, 55, 96])),
        ("offsets", np.array([0, 60, 55, 95])),
        ("offsets", np.array([-1, 30, 55, 95])),
        ("offsets", np.array([0, 30, 30, 95])),
        ("offsets", np.array([0.0, 30, 55, 95])),
        ("y", np.zeros(95, np.int64)),
        ("y", np.zeros((95, 1), np.float32)),
        ("y", np.zeros(94, np.float32)),
        ("y", np.zeros(95, np.float64)),
        ("mask", np.full(95, 7, np.uint8)),
        ("ids", np.array(["b", "a", "c"])),
        ("ids", np.array(["a", "a", "c"])),
        ("ids", np.array([1.0, 2.0, 3.0])),
        ("start", np.zeros(3)),
        ("categorical", np.full((95, 1), 9, np.int32)),
        ("categorical", np.full((95, 1), -1, np.int32)),
        ("categorical", np.zeros((95, 2), np.int32)),
        ("future", np.zeros((95, 3), np.float32)),
    ],
)
def test_forged_arrays_are_refused(saved: Path, name: str, array: np.ndarray) -> None:
    spoil(saved, name, array)
    with pytest.raises(CorruptFileError):
        SeriesStore.open(saved)


def test_a_mask_of_other_bytes_is_refused(saved: Path) -> None:
    data = bytearray((saved / "mask.npy").read_bytes())
    data[-1] = 9
    (saved / "mask.npy").write_bytes(data)
    with pytest.raises(CorruptFileError, match="0 and 1"):
        SeriesStore.open(saved)


def test_a_pickle_is_never_loaded(saved: Path, tmp_path: Path) -> None:
    class Act:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (tmp_path / "acted",))

    (saved / "ids.npy").write_bytes(pickle.dumps(Act()))
    with pytest.raises(CorruptFileError):
        SeriesStore.open(saved)
    np.save(saved / "ids.npy", np.array([Act(), Act(), Act()], dtype=object))
    with pytest.raises(CorruptFileError):
        SeriesStore.open(saved)
    assert not (tmp_path / "acted").exists()


@pytest.mark.parametrize(
    "facts",
    [
        {"arrays": None},
        {"arrays": {}},
        {"arrays": {"../../y": {"dtype": "float32", "shape": [95]}}},
        {"format": "1"},
        {"format": None},
        {"freq": 3},
        {"time_zone": 3},
        {"categories": []},
        {"categories": {"event": [1]}},
        {"future_names": "fg"},
        {"future_names": ["f"]},
    ],
)
def test_forged_headers_are_refused(saved: Path, facts: dict[str, Any]) -> None:
    change(saved, **facts)
    with pytest.raises(CorruptFileError):
        SeriesStore.open(saved)


def test_damaged_bytes_never_leave_our_error_tree(saved: Path, tmp_path: Path) -> None:
    """Every file cut short, and 300 flips of one header byte: it opens, or one of our errors says why not."""
    rng = np.random.default_rng(0)
    files = sorted(saved.iterdir())
    whole = {file: file.read_bytes() for file in files}
    for round_number in range(300 + len(files)):
        file = files[round_number % len(files)]
        data = bytearray(whole[file])
        if round_number < len(files):
            data = data[: len(data) // 2]
        else:
            data[int(rng.integers(0, min(len(data), 128)))] = int(rng.integers(0, 256))
        file.write_bytes(data)
        try:
            SeriesStore.open(saved)
        except NeuroDivergentError:
            pass
        finally:
            file.write_bytes(whole[file])
    shutil.rmtree(saved)
