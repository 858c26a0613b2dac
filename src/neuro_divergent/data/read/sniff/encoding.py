"""Converts bytes to UTF-8 text: the encoding is given, marked in the file, or inferred."""

from __future__ import annotations

import codecs

from neuro_divergent.core.errors import Advice, DataFileError

_MARKS = ((b"\xef\xbb\xbf", "utf-8"), (b"\xff\xfe", "utf-16"), (b"\xfe\xff", "utf-16"))
_UTF8 = ("utf-8", "utf8", "utf-8-sig")


def as_utf8(data: bytes, encoding: str | None, name: str) -> tuple[bytes, str]:
    """The text as UTF-8 without a byte-order mark, and its original encoding."""
    found = encoding or found_encoding(data)
    try:
        codecs.lookup(found)
        plain = data if found.lower() in _UTF8 and _is_utf8(data) else data.decode(found).encode()
    except LookupError:
        raise DataFileError(f'encoding must be a known name such as "latin-1", but got encoding={encoding!r}') from None
    except UnicodeError as error:
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        likely = found_encoding(data)
        raise DataFileError(
            f"{name} must be {found}, but line {line} has bytes that are not. Say encoding={likely!r} or the true one.",
            advice=[Advice("data.encoding", likely)],
        ) from None
    plain = plain.removeprefix(b"\xef\xbb\xbf")
    if b"\0" in plain:
        line = plain[: plain.index(b"\0")].count(b"\n") + 1
        raise DataFileError(f"{name} must be text, but it has a zero byte on line {line}.")
    return plain, found


def found_encoding(data: bytes) -> str:
    """The encoding of bytes: UTF-16 by its mark or its zero bytes, UTF-8 if it decodes, else Windows-1252."""
    for mark, name in _MARKS:
        if data.startswith(mark):
            return name
    sample = data[:1000]
    if len(sample) > 3 and len(data) % 2 == 0:
        if not any(sample[0::2][:20]) and all(sample[1::2][:20]):
            return "utf-16-be"
        if not any(sample[1::2][:20]) and all(sample[0::2][:20]):
            return "utf-16-le"
    if _is_utf8(data) or b"\0" in data:
        return "utf-8"
    try:
        data.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def _is_utf8(data: bytes) -> bool:
    if data.isascii():
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
