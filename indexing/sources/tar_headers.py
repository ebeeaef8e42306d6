"""Read the fields of headers of tar archives."""

from __future__ import annotations

import os
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError
from videoloader.indexing.sources.base import ByteSource

BLOCK = 512
_Sizes = TypeVar("_Sizes", int, npt.NDArray[np.int64])


def padded(stop: _Sizes) -> _Sizes:
    """Return where the last block of a member ends whose bytes end here."""
    return -(-stop // BLOCK) * BLOCK


def has_checksum(header: bytes) -> bool:
    """Whether the bytes of the header add up to its checksum, counting the checksum field as spaces."""
    try:
        stated = number_in(header[148:156])
    except ValueError:
        return False
    if stated == sum(header) - sum(header[148:156]) + 8 * 32:
        return True
    # Some old writers summed bytes as signed numbers.
    signed = np.frombuffer(header, np.int8)
    return stated == int(signed.sum(dtype=np.int64) - signed[148:156].sum(dtype=np.int64)) + 8 * 32


def number_in(field: bytes) -> int:
    """Read an octal number, or a binary one, as GNU tar writes if the octal one does not fit."""
    if field[0] & 0x80:
        return int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.partition(b"\0")[0].strip() or b"0"
    if not digits.isdigit():  # Python takes 1_0 for 10
        raise ValueError
    return int(digits, 8)


def size_in(header: bytes, records: dict[str, str], position: int, archive: ByteSource) -> int:
    """Return the size of a member's bytes.

    Args:
        header, position: its header, and where that lies.
        records: its pax records.
        archive: the archive, for messages.

    Raises:
        IndexingError: it has no valid size.
    """
    try:
        size = _decimal(records["size"]) if "size" in records else number_in(header[124:136])
    except ValueError:
        size = -1
    if not 0 <= size < 1 << 63:
        raise IndexingError(f"the header at byte {position} is damaged: it has no valid size", archive.name)
    return size


def _decimal(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError
    return int(text)


def name_in(header: bytes) -> str:
    """Return the name that a header has itself."""
    name, prefix = header[:100].partition(b"\0")[0], b""
    if header[257:263] == b"ustar\0":
        prefix = header[345:500].partition(b"\0")[0]
    return os.fsdecode(prefix + b"/" + name if prefix else name)


def skip_sparse_map(header: bytes, start: int, archive: ByteSource) -> int:
    """Return where the data of a member in GNU's old sparse format starts: its map may continue in further blocks."""
    more = header[482]
    while more:
        block = archive.read(start, BLOCK)
        if len(block) < BLOCK:
            raise IndexingError(f"is cut off in the header at byte {start}", archive.name)
        more, start = block[504], start + BLOCK
    return start


def pax_records(data: bytes, start: int, archive: ByteSource) -> dict[str, str]:
    r"""Read the records of a pax header, ``"<length> <key>=<value>\n"``, whose length counts the whole record."""
    records: dict[str, str] = {}
    at = 0
    while at < len(data) and data[at]:
        length, space, _ = data[at : at + 20].partition(b" ")
        end = at + int(length) if length.isdigit() and space else 0
        key, equals, value = data[at + len(length) + 1 : end - 1].partition(b"=")
        if end > len(data) or not equals or data[end - 1 : end] != b"\n":
            raise IndexingError(f"the pax header at byte {start + at} is damaged", archive.name)
        # A record without a value cancels an earlier one. A name cannot contain NUL.
        records[os.fsdecode(key)] = os.fsdecode(value.replace(b"\0", b""))
        at = end
    return records
