"""Tensors in safetensors files: checked before anything is allocated for them, compressed if asked."""

from __future__ import annotations

import hashlib
import json
import math
import struct
import sys
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from neuro_divergent.core import files
from neuro_divergent.core.errors import CorruptFileError, StorageError
from neuro_divergent.core.exact import parse_json
from neuro_divergent.core.extras import require

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MAX_HEADER_BYTES = 64 * 2**20
MAX_TENSORS = 1_000_000
MAX_DIMENSIONS = 32
MAX_DECOMPRESSED_BYTES = 16 * 2**30

_CHECKSUM = "sha256"
_NAMES = {
    "bool": "BOOL",
    "uint8": "U8",
    "int8": "I8",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "uint16": "U16",
    "int16": "I16",
    "float16": "F16",
    "bfloat16": "BF16",
    "uint32": "U32",
    "int32": "I32",
    "float32": "F32",
    "uint64": "U64",
    "int64": "I64",
    "float64": "F64",
    "complex64": "C64",
}
"""What torch calls a format of numbers, and what a safetensors file calls it."""
_BYTES = {
    "BOOL": 1,
    "U8": 1,
    "I8": 1,
    "F8_E4M3": 1,
    "F8_E5M2": 1,
    "U16": 2,
    "I16": 2,
    "F16": 2,
    "BF16": 2,
    "U32": 4,
    "I32": 4,
    "F32": 4,
    "U64": 8,
    "I64": 8,
    "F64": 8,
    "C64": 8,
}


def write_tensors(tensors: Mapping[str, Tensor], *, checksum: bool = False) -> bytes:
    """A safetensors file; with `checksum` it vouches for itself, for files that have no manifest beside them."""
    data = b"".join(tensor_parts(tensors))
    if not checksum:
        return data
    return b"".join(tensor_parts(tensors, {_CHECKSUM: _digest(data)}))


def tensor_parts(tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None) -> list[bytes | memoryview]:
    """A safetensors file in parts: its header, then views of the tensors' own memory, of which no copy is made.

    Tensors that follow each other in memory are one part (see `packed`), and the largest part begins in the file where
    a disk can take it as it is.
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    runs: list[list[Tensor]] = []
    begin = after = -1
    end = 0
    for name in in_order(tensors):
        tensor = tensors[name]
        kind = _kind(tensor, name)
        if tensor.device.type != "cpu" or not tensor.is_contiguous():
            tensor = tensor.detach().cpu().contiguous()
        size = tensor.nbytes
        header[name] = {"dtype": kind, "shape": tensor.shape, "data_offsets": (end, end + size)}
        end += size
        if not size:
            continue
        storage, place = tensor.untyped_storage().data_ptr(), tensor.data_ptr()
        if (storage, place) == (begin, after):
            runs[-1].append(tensor)
        else:
            runs.append([tensor])
        begin, after = storage, place + size
    views = [_view(run) for run in runs]
    largest = max(range(len(views)), key=lambda number: len(views[number]), default=0)
    before = sum(len(view) for view in views[:largest])
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    even = files.BLOCK_BYTES if end > files.BLOCK_BYTES and before % 8 == 0 else 8
    text += b" " * (-(len(text) + 8 + (before if even > 8 else 0)) % even)
    return [struct.pack("<Q", len(text)) + text, *views]


def in_order(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names, the widest numbers first: each tensor begins at a multiple of its width."""
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def packed(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Empty tensors on the processor, of the same shapes, end to end as in a file: one part of it."""
    import torch

    sizes = {name: tensors[name].nbytes for name in in_order(tensors)}
    memory = torch.frombuffer(files.aligned(max(sum(sizes.values()), 1)), dtype=torch.uint8)
    found, begin = {}, 0
    for name, size in sizes.items():
        found[name] = memory[begin : begin + size].view(tensors[name].dtype).view(tensors[name].shape)
        begin += size
    return found


def _kind(tensor: Tensor, name: str) -> str:
    """What a safetensors file calls the format of a tensor's numbers."""
    kind = _kinds().get(tensor.dtype)
    if kind is None or sys.byteorder != "little":
        raise StorageError(
            f"tensors of {', '.join(_NAMES)} can be saved, by machines that put the lowest byte first, but {name} is "
            f"{str(tensor.dtype).removeprefix('torch.')} on a machine with sys.byteorder={sys.byteorder!r}. "
            "Convert it first"
        )
    return kind


@cache
def _kinds() -> dict[torch.dtype, str]:
    import torch

    return {getattr(torch, name): kind for name, kind in _NAMES.items() if hasattr(torch, name)}


def _view(run: list[Tensor]) -> memoryview:
    """The bytes of tensors that follow each other in one memory."""
    import torch

    first = run[0]
    begin = first.storage_offset() * first.element_size()
    size = sum(tensor.nbytes for tensor in run)
    whole = torch.empty(0, dtype=torch.uint8).set_(first.untyped_storage(), begin, (size,), (1,))
    view: memoryview = whole.numpy().data
    return view


def read_tensors(data: bytes, name: str) -> dict[str, Tensor]:
    """The tensors of a file from a stranger."""
    import safetensors.torch

    header = check_safetensors(data, name)
    expected = (header.get("__metadata__") or {}).get(_CHECKSUM)
    if expected is not None and expected != _digest(data):
        raise CorruptFileError(f"{name} is damaged: its sha256 is not the one that it was written with")
    try:
        return safetensors.torch.load(data)
    except Exception as error:
        raise CorruptFileError(f"{name} must be a safetensors file, but is not: {error}") from None


def check_safetensors(data: bytes, name: str) -> dict[str, Any]:
    """Refuse a header that is too large, lists too much or does not fit the file; give it otherwise."""
    if len(data) < 8:
        raise CorruptFileError(f"{name} must be a safetensors file, but has only {len(data)} bytes")
    (size,) = struct.unpack("<Q", data[:8])
    if size > MAX_HEADER_BYTES or size > len(data) - 8:
        raise CorruptFileError(f"{name} has a header of {size} bytes, which is more than the file or the limit allows")
    header = parse_json(data[8 : 8 + size], f"the header of {name}")
    if not isinstance(header, dict) or len(header) > MAX_TENSORS:
        raise CorruptFileError(f"{name} must list at most {MAX_TENSORS} tensors")
    end = 0
    spans = sorted(_span(key, facts, name) for key, facts in header.items() if key != "__metadata__")
    for begin, stop in spans:
        if begin != end:
            raise CorruptFileError(f"{name} must hold its tensors end to end, but they overlap or leave gaps")
        end = stop
    if end != len(data) - 8 - size:
        raise CorruptFileError(f"{name} must hold {end} bytes of tensors, but has {len(data) - 8 - size}")
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(item, str) for item in metadata.values()):
        raise CorruptFileError(f"{name} must have texts as its metadata, but has not")
    return header


def _span(key: str, facts: Any, name: str) -> tuple[int, int]:
    """Where a tensor's bytes are; its shape and number format must ask for exactly as many."""
    try:
        shape, (begin, end), width = facts["shape"], facts["data_offsets"], _BYTES[facts["dtype"]]
        plain = all(type(item) is int and item >= 0 for item in (*shape, begin, end))
        if plain and len(shape) <= MAX_DIMENSIONS and end - begin == math.prod(shape) * width:
            return begin, end
    except (KeyError, TypeError, ValueError):
        pass
    raise CorruptFileError(f"{name} describes the tensor {key[:80]!r} in a way that does not fit its bytes")


def compress(data: bytes) -> bytes:
    """The bytes under zstd."""
    packed: bytes = _codec().compress(data, asbytes=True)
    return packed


def decompress(data: bytes, size: int, name: str) -> bytes:
    """What `compress` was given, which must have had `size` bytes; no more than that is ever allocated."""
    if type(size) is not int or not 0 <= size <= MAX_DECOMPRESSED_BYTES:
        raise CorruptFileError(f"{name} must unpack to at most {MAX_DECOMPRESSED_BYTES} bytes, but says {size!r}")
    try:
        plain: bytes = _codec().decompress(data, size, asbytes=True)
    except (OSError, MemoryError) as error:
        raise CorruptFileError(f"{name} must unpack to {size} bytes, but does not: {error}") from None
    return plain


def _codec() -> Any:
    return require("pyarrow", extra="pandas", purpose="zstd compression").Codec("zstd")


def _digest(data: bytes) -> str:
    """sha256 over names, shapes and bytes of the tensors, whatever the metadata says."""
    (size,) = struct.unpack("<Q", data[:8])
    header = {key: facts for key, facts in json.loads(data[8 : 8 + size]).items() if key != "__metadata__"}
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    digest.update(memoryview(data)[8 + size :])
    return digest.hexdigest()
