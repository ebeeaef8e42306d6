"""Writes archives and record files of known content by their standards."""

from __future__ import annotations

import io
import json
import struct
import tarfile
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path


def tar_bytes(files: Mapping[str, bytes], kind: int = tarfile.PAX_FORMAT) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return buffer.getvalue()


def zip_bytes(files: Mapping[str, bytes], method: int = zipfile.ZIP_STORED) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", method) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def crc32c(data: bytes) -> int:
    """CRC-32C computed bit by bit, as in RFC 3720."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 & -(crc & 1))
    return crc ^ 0xFFFFFFFF


def masked_crc32c(data: bytes) -> int:
    crc = crc32c(data)
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def tfrecord_bytes(records: Iterable[bytes], checksums: bool = False) -> bytes:
    out = b""
    for record in records:
        length = struct.pack("<Q", len(record))
        checksum = struct.pack("<I", masked_crc32c(record)) if checksums else b"\0" * 4  # usually not checked
        out += length + struct.pack("<I", masked_crc32c(length)) + record + checksum
    return out


def protobuf(number: int, value: bytes) -> bytes:
    """A length-delimited field."""
    return bytes([number << 3 | 2]) + varint(len(value)) + value


def varint(value: int) -> bytes:
    out = b""
    while value > 0x7F:
        out, value = out + bytes([value & 0x7F | 0x80]), value >> 7
    return out + bytes([value])


def example(features: Mapping[str, bytes | int]) -> bytes:
    """A tf.train.Example of bytes and int64 features."""
    entries = b""
    for name, value in features.items():
        if isinstance(value, bytes):
            feature = protobuf(1, protobuf(1, value))
        else:
            feature = protobuf(3, protobuf(1, varint(value)))
        entries += protobuf(1, protobuf(1, name.encode()) + protobuf(2, feature))
    return protobuf(1, entries)


RECORDIO_MAGIC = struct.pack("<I", 0xCED7230A)


def recordio_bytes(records: Iterable[bytes]) -> tuple[bytes, list[int]]:
    """The file, and the offset of each record; records are split at every aligned magic, as by dmlc-core's writer."""
    out, starts = b"", []
    for record in records:
        starts.append(len(out))
        parts, begin = [], 0
        for at in range(0, len(record) - 3, 4):
            if record[at : at + 4] == RECORDIO_MAGIC:
                parts.append(record[begin:at])
                begin = at + 4
        parts.append(record[begin:])
        for number, part in enumerate(parts):
            flag = 0 if len(parts) == 1 else 1 if number == 0 else 3 if number == len(parts) - 1 else 2
            out += RECORDIO_MAGIC + struct.pack("<I", flag << 29 | len(part)) + part + b"\0" * (-len(part) % 4)
    return out, starts


def write_lmdb(path: Path, values: Mapping[str, bytes], *, as_folder: bool = True) -> Path:
    import lmdb

    with lmdb.open(str(path), map_size=1 << 28, subdir=as_folder) as environment, environment.begin(write=True) as put:
        for key, value in values.items():
            put.put(key.encode(), value)
    return path


def beside(number: int, video: bytes) -> dict[str, bytes]:
    """The files of one key."""
    about = json.dumps({"category": f"class {number % 3}", "n": number}).encode()
    return {f"{number:04}.mp4": video, f"{number:04}.json": about, f"{number:04}.txt": b"a caption\n"}
