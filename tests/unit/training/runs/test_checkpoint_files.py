"""The files of a checkpoint: written from the tensors' own memory, in pieces, and readable by safetensors itself."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
import safetensors.torch
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from neuro_divergent.core import bundle, files
from neuro_divergent.core.errors import CorruptFileError, StorageError
from neuro_divergent.core.tensor_files import Packed, read_tensors, tensor_parts, write_tensors
from neuro_divergent.training.runs.snapshot import SnapshotBuffer

KINDS = [
    *(torch.bool, torch.uint8, torch.int8, torch.float8_e4m3fn, torch.float8_e5m2, torch.uint16, torch.int16),
    *(torch.float16, torch.bfloat16, torch.uint32, torch.int32, torch.float32, torch.uint64, torch.int64),
    *(torch.float64, torch.complex64),
]


def bits(tensor: torch.Tensor) -> bytes:
    return tensor.contiguous().flatten().view(torch.uint8).numpy().tobytes() if tensor.numel() else b""


def test_safetensors_reads_every_format_of_numbers_as_it_was() -> None:
    tensors = {str(kind): torch.arange(6).reshape(2, 3).to(kind) for kind in KINDS}
    tensors |= {"scalar": torch.tensor(0.5), "none": torch.empty(0, 4), "turned": torch.arange(6.0).reshape(2, 3).T}
    tensors |= {"Größe/µ": torch.ones(1)}
    read = safetensors.torch.load(files.whole(tensor_parts(tensors)))
    assert read.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert (read[name].dtype, read[name].shape) == (tensor.dtype, tensor.shape), name
        assert bits(read[name]) == bits(tensor), name
    assert read_tensors(write_tensors(tensors, checksum=True), "x").keys() == tensors.keys()


def test_the_bytes_are_those_that_safetensors_writes() -> None:
    torch.manual_seed(0)
    tensors = {"b": torch.randn(3, 5), "a/é": torch.randn(7), "c": torch.tensor(2.0), "d": torch.arange(3)}
    tensors |= {"large": torch.randn(90, 101)}
    assert write_tensors(tensors) == safetensors.torch.save(tensors)


def test_the_parts_are_the_memory_of_the_tensors() -> None:
    tensor = torch.zeros(100)
    parts = tensor_parts({"a": tensor})
    tensor[7] = 1.5
    assert safetensors.torch.load(files.whole(parts))["a"][7] == 1.5


def test_what_torch_only_notes_about_a_tensor_is_written_too() -> None:
    numbers = torch.tensor([1 + 2j, 3 - 1j], dtype=torch.complex64)
    read = safetensors.torch.load(write_tensors({"a": numbers.conj(), "b": torch._neg_view(torch.arange(3.0))}))
    assert read["a"].tolist() == [1 - 2j, 3 + 1j]
    assert read["b"].tolist() == [0.0, -1.0, -2.0]


def test_a_format_that_no_file_can_hold_is_refused_with_its_name() -> None:
    with pytest.raises(StorageError, match=r"can be saved, but odd is complex128"):
        tensor_parts({"odd": torch.zeros(1, dtype=torch.complex128)})


@settings(deadline=None, max_examples=30)
@given(st.lists(st.sampled_from([0, 1, 7, 2**16 - 1, 2**16, 2**20 + 1, 2**24 - 1, 2**24, 2**24 + 1]), max_size=5))
def test_pieces_are_the_content_in_its_order(sizes: list[int]) -> None:
    parts = [bytes([number + 1]) * size for number, size in enumerate(sizes)]
    pieces = list(files.pieces([memoryview(part) for part in parts]))
    assert b"".join(pieces) == b"".join(parts)
    assert all(len(piece) <= 2**24 + 2**16 for piece in pieces)


def test_packed_tensors_are_one_part_that_begins_where_a_disk_takes_it() -> None:
    shapes = {"a": (3, 700), "b": (), "c": (0, 2), "d": (1001,)}
    room = Packed({name: torch.empty(shape) for name, shape in shapes.items()} | {"z": torch.empty(5).long()})
    for number, tensor in enumerate(room.values()):
        tensor.fill_(number)
    loss = torch.tensor([0.25, 0.5, 0.75], dtype=torch.float64)
    header, before, whole = tensor_parts({"history/loss": loss}, block=room)
    assert (len(header) + len(before)) % files.BLOCK_BYTES == files.address(whole) % files.BLOCK_BYTES == 0
    assert len(whole) == sum(tensor.nbytes for tensor in room.values())
    read = safetensors.torch.load(files.whole([header, before, whole]))
    assert all(torch.equal(read[name], tensor) for name, tensor in (room | {"history/loss": loss}).items())
    empty = tensor_parts({}, block=Packed({}))
    assert safetensors.torch.load(files.whole(empty)) == {}


@pytest.fixture(params=["disk", "memory"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Path]:
    """A directory on a disk, and one on a file system that lives in memory."""
    if request.param == "disk":
        yield tmp_path
        return
    if not os.access("/dev/shm", os.W_OK):
        pytest.skip("this system has no file system in memory")
    with tempfile.TemporaryDirectory(dir="/dev/shm") as made:
        yield Path(made)


@pytest.mark.parametrize("size", [2**16 - 1, 2**16, 2**16 + 1, 2**21 + 4096, 5 * 2**20 + 77])
@pytest.mark.parametrize("before", [0, 4096, 4097])
def test_a_file_is_what_was_written_wherever_its_memory_and_its_place_begin(
    folder: Path, size: int, before: int
) -> None:
    for shift in (0, 1):
        memory = files.aligned(size + shift)[shift:]
        memory[:] = os.urandom(size)
        first = os.urandom(before)
        name = f"bundle{shift}"
        bundle.write(folder / name, {"file": [first, memory, b"end"]})
        assert (folder / name / "file").read_bytes() == first + bytes(memory) + b"end"
        assert bundle.read(folder / name)["file"] == first + bytes(memory) + b"end"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such flag")
@pytest.mark.parametrize("number", [errno.EINVAL, errno.EOPNOTSUPP])
def test_a_disk_that_wants_its_own_copy_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    import fcntl

    real, refused = os.write, []

    def write(descriptor: int, data: memoryview) -> int:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_DIRECT:
            refused.append(len(data))
            raise OSError(number, os.strerror(number))
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    memory = files.aligned(2**20)
    memory[:] = os.urandom(2**20)
    files.write_new(tmp_path / "file", [memory])
    assert refused
    assert (tmp_path / "file").read_bytes() == bytes(memory)


def test_the_manifest_tells_what_reading_the_files_gives(tmp_path: Path) -> None:
    data = bytes(range(256)) * 5000
    bundle.write(tmp_path / "one", {"a": [data[:3], memoryview(data)[3:]], "b": b""})
    told = json.loads((tmp_path / "one" / "manifest.json").read_text())["files"]
    assert told == {
        "a": {"sha256": hashlib.sha256(data).hexdigest(), "bytes": len(data)},
        "b": {"sha256": hashlib.sha256(b"").hexdigest(), "bytes": 0},
    }
    assert bundle.read(tmp_path / "one") == {"a": data, "b": b""}
    bundle.confirm(tmp_path / "one")
    (tmp_path / "one" / "a").write_bytes(data[:-1])
    with pytest.raises(CorruptFileError, match="must have the files that were written to it"):
        bundle.confirm(tmp_path / "one")


def test_memory_is_used_again_and_follows_a_tensor_that_changes_its_shape() -> None:
    room, source = SnapshotBuffer(), torch.ones(3)
    first = room.copies("p", {"a": source})["a"]
    source.mul_(2)
    assert first.tolist() == [1.0, 1.0, 1.0]
    second = room.copies("p", {"a": source})["a"]
    assert second.data_ptr() == first.data_ptr()
    assert second.tolist() == [2.0, 2.0, 2.0]
    grown = room.copies("p", {"a": torch.zeros(2, 3, dtype=torch.float64)})["a"]
    assert (grown.shape, grown.dtype) == ((2, 3), torch.float64)
    assert room.copies("p", {"b": source}).keys() == {"b"}
    assert room.copies("p", {}) == {}


def test_what_stands_still_is_copied_once_and_when_it_is_replaced() -> None:
    room, live, best = SnapshotBuffer(), torch.zeros(3), torch.ones(3)
    room.copies("p", {"a": live}, {"b": best})
    kept = room.copies("p", {"a": live + 1}, {"b": best})
    assert (kept["a"].tolist(), kept["b"].tolist()) == ([1.0] * 3, [1.0] * 3)
    kept["b"].zero_()
    assert room.copies("p", {"a": live}, {"b": best})["b"].tolist() == [0.0] * 3  # not copied again
    assert room.copies("p", {"a": live}, {"b": best + 4})["b"].tolist() == [5.0] * 3
    assert room.copies("p", {"a": live, "c": live}, {"b": best})["b"].tolist() == [1.0] * 3
