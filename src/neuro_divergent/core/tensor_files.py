"""Tensors in safetensors files. A file is checked before memory is allocated for it. Compression is optional."""

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
from neuro_divergent.core.extras import require
from neuro_divergent.core.json import parse_json

if TYPE_CHECKING:
    import torch
    from torch import Tensor

MAX_HEADER_BYTES = 64 * 2**20
MAX_TENSORS = 1_000_000
MAX_DIMENSIONS = 32
MAX_DECOMPRESSED_BYTES = 16 * 2**30
MAX_RATIO = 100
"""Largest ratio of decompressed to compressed size. A small file therefore cannot fill the memory."""
FREE_BYTES = 64 * 2**20
"""Decompressed size that is always allowed, whatever the ratio."""

_CHECKSUM = "sha256"
_SKIPPED = 0x184D2A50
"""Magic number of a skippable frame in a zstd file (RFC 8878, section 3.1.2)."""
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
"""The torch name of each dtype, and its name in a safetensors file."""
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
    """Return the bytes of a safetensors file. With `checksum` its header has a sha256, for files without a manifest."""
    data = b"".join(tensor_parts(tensors))
    if not checksum:
        return data
    return b"".join(tensor_parts(tensors, {_CHECKSUM: _digest(data)}))


def tensor_parts(
    tensors: Mapping[str, Tensor], metadata: Mapping[str, str] | None = None, *, block: Packed | None = None
) -> list[bytes | memoryview]:
    """Return a safetensors file in parts: its header, then views of the tensors' memory, without a copy.

    Args:
        tensors: tensors by name.
        metadata: texts for the header.
        block: further tensors, written last as one part, whose file offset is aligned for direct I/O.
    """
    header: dict[str, Any] = {} if metadata is None else {"__metadata__": dict(metadata)}
    views: list[memoryview] = []
    end = 0

    def describe(name: str, tensor: Tensor) -> None:
        nonlocal end
        begin, end = end, end + tensor.nbytes
        header[name] = {"dtype": _kind(tensor, name), "shape": tensor.shape, "data_offsets": (begin, end)}

    for name in _in_order(tensors):
        describe(name, tensors[name])
        views.append(_view(tensors[name]))
    before = end
    for name, tensor in ({} if block is None else block).items():
        describe(name, tensor)
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-(8 + len(text)) % 8 if block is None else -(8 + len(text) + before) % files.BLOCK_BYTES)
    return [struct.pack("<Q", len(text)) + text, *views, *([] if block is None else [block.memory])]


class Packed(dict[str, "Tensor"]):
    """CPU tensors in one contiguous buffer, laid out as in a file.

    Args:
        like: tensors with the shapes and dtypes to allocate; their values are not copied.
    """

    def __init__(self, like: Mapping[str, Tensor]) -> None:
        import torch

        sizes = {name: like[name].nbytes for name in _in_order(like)}
        self.memory = files.aligned(sum(sizes.values()))
        room = torch.frombuffer(self.memory, dtype=torch.uint8) if self.memory else torch.empty(0, dtype=torch.uint8)
        begin = 0
        for name, size in sizes.items():
            self[name] = room[begin : begin + size].view(like[name].dtype).view(like[name].shape)
            begin += size


def _in_order(tensors: Mapping[str, Tensor]) -> list[str]:
    """The names, widest dtype first, so that each tensor begins at a multiple of its element size."""
    return sorted(tensors, key=lambda name: (-tensors[name].element_size(), name))


def _kind(tensor: Tensor, name: str) -> str:
    """The safetensors name of a tensor's dtype."""
    kind = _kinds().get(tensor.dtype)
    if kind is None or sys.byteorder != "little":
        raise StorageError(
            f"only tensors of {', '.join(_NAMES)} on little-endian machines can be saved, but {name} is "
            f"{str(tensor.dtype).removeprefix('torch.')} on a machine with sys.byteorder={sys.byteorder!r}. "
            "Convert it first"
        )
    return kind


@cache
def _kinds() -> dict[torch.dtype, str]:
    import torch

    return {getattr(torch, name): kind for name, kind in _NAMES.items() if hasattr(torch, name)}


def _view(tensor: Tensor) -> memoryview:
    """The bytes of a tensor."""
    import torch

    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous().flatten()
    return plain.view(torch.uint8).numpy().data if plain.numel() else memoryview(b"")


def read_tensors(data: bytes, name: str) -> dict[str, Tensor]:
    """Return the tensors of an untrusted file."""
    import safetensors.torch

    header = check_safetensors(data, name)
    expected = (header.get("__metadata__") or {}).get(_CHECKSUM)
    if expected is not None and expected != _digest(data):
        raise CorruptFileError(f"{name} is damaged: its sha256 is not the one in its header")
    try:
        return safetensors.torch.load(data)
    except Exception as error:
        raise CorruptFileError(f"{name} must be a safetensors file, but is not: {error}") from None


def check_safetensors(data: bytes, name: str) -> dict[str, Any]:
    """Return the header of a file. A header that is too large, lists too much or does not fit the file is refused."""
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
            raise CorruptFileError(f"{name} must have contiguous tensors, but they overlap or leave gaps")
        end = stop
    if end != len(data) - 8 - size:
        raise CorruptFileError(f"{name} must have {end} bytes of tensors, but has {len(data) - 8 - size}")
    metadata = header.get("__metadata__", {})
    if not isinstance(metadata, dict) or not all(isinstance(item, str) for item in metadata.values()):
        raise CorruptFileError(f"the metadata of {name} must be texts, but are not")
    return header


def _span(key: str, facts: Any, name: str) -> tuple[int, int]:
    """First and last (excluded) byte of a tensor. Their number must match its shape and dtype."""
    try:
        shape, (begin, end), width = facts["shape"], facts["data_offsets"], _BYTES[facts["dtype"]]
        plain = all(type(item) is int and item >= 0 for item in (*shape, begin, end))
        if plain and len(shape) <= MAX_DIMENSIONS and end - begin == math.prod(shape) * width:
            return begin, end
    except (KeyError, TypeError, ValueError):
        pass
    raise CorruptFileError(f"{name} has a shape, dtype or size of the tensor {key[:80]!r} that do not fit together")


def compress(data: bytes) -> bytes:
    """Return the bytes compressed by zstd, padded if they shrink by more than `decompress` allows."""
    if len(data) > MAX_DECOMPRESSED_BYTES:
        raise StorageError(
            f"at most {MAX_DECOMPRESSED_BYTES} bytes can be compressed and read again, but got {len(data)}. "
            "Use compression=None"
        )
    packed: bytes = _codec().compress(data, asbytes=True)
    if len(data) <= _unpacked_limit(packed):
        return packed
    lacking = -(-len(data) // MAX_RATIO) - len(packed)
    return packed + struct.pack("<II", _SKIPPED, lacking) + bytes(lacking)


def decompress(data: bytes, size: int, name: str) -> bytes:
    """Return the original bytes of `compress`, which must be `size` bytes. No more memory than that is allocated."""
    limit = _unpacked_limit(data)
    if type(size) is not int or not 0 <= size <= limit:
        raise CorruptFileError(
            f"{name} has {len(data)} bytes and must decompress to at most {limit}, but got size={size!r}"
        )
    try:
        plain: bytes = _codec().decompress(data, size, asbytes=True)
    except (OSError, MemoryError) as error:
        raise CorruptFileError(f"{name} must decompress to {size} bytes, but does not: {error}") from None
    return plain


def _unpacked_limit(packed: bytes) -> int:
    return min(MAX_DECOMPRESSED_BYTES, max(FREE_BYTES, MAX_RATIO * len(packed)))


def _codec() -> Any:
    return require("pyarrow", extra="pandas", purpose="zstd compression").Codec("zstd")


def _digest(data: bytes) -> str:
    """sha256 of names, shapes and bytes of the tensors, without the metadata."""
    (size,) = struct.unpack("<Q", data[:8])
    header = {key: facts for key, facts in json.loads(data[8 : 8 + size]).items() if key != "__metadata__"}
    digest = hashlib.sha256(json.dumps(header, sort_keys=True).encode())
    digest.update(memoryview(data)[8 + size :])
    return digest.hexdigest()
