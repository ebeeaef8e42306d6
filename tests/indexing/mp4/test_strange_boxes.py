"""Boxes of an mp4 file that are of an unknown type, or where they do not belong."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from mp4_writing import box, find_box, replace_box
from truth import full_decode

from videoloader.errors import IndexingError, VideoLoaderError
from videoloader.indexing import MemorySource, build_index


def renamed(data: bytes) -> bytearray:
    assert data[4:8] == b"ftyp"
    return bytearray(data[:4] + b"qrst" + data[8:])


@pytest.mark.parametrize("name", ["h264_mp4_tables_first", "h264_mp4", "h264_mp4_fragmented"])
def test_its_own_tables_index_the_file(sample: Any, name: str) -> None:
    data = sample(name).read_bytes()
    known, index = build_index(MemorySource(data)), build_index(MemorySource(bytes(renamed(data))))
    assert index.method == known.method == "tables"
    assert np.array_equal(index.packet_offset, known.packet_offset)
    assert np.array_equal(index.frame_pts, known.frame_pts)


# The path of an alias that leads to another file comes after 154 bytes, as an entry of type 2.
LONG_ALIAS = bytes(154) + struct.pack(">hh10sh", 2, 10, b"/other.mov", -1)


@pytest.mark.parametrize(("alias", "elsewhere"), [(LONG_ALIAS, True), (bytes(len(LONG_ALIAS)), False), (b"", False)])
def test_samples_of_another_file_are_none(sample: Any, tmp_path: Path, alias: bytes, elsewhere: bool) -> None:
    data = sample("h264_mp4").read_bytes()
    references = box(b"dref", struct.pack(">II", 0, 1) + box(b"alis", alias or struct.pack(">I", 1)))
    path = tmp_path / "aliased.mp4"
    path.write_bytes(replace_box(data, [b"moov", b"trak", b"mdia", b"minf", b"dinf", b"dref"], references))
    assert len(full_decode(path).hashes) == (0 if elsewhere else 60)
    if elsewhere:
        with pytest.raises(VideoLoaderError, match="has no video packets"):
            build_index(path)
    else:
        assert len(build_index(path)) == 60


@pytest.mark.parametrize("kind", [b"qrst", b"fty\x89", b"\0\0\0\0"])
def test_counts_are_checked_before_libavformat_believes_them(sample: Any, kind: bytes) -> None:
    data = renamed(sample("h264_mp4_fragmented").read_bytes())
    data[4:8] = kind
    at = data.index(b"trun") + 8
    data[at : at + 4] = (1 << 26).to_bytes(4, "big")
    with pytest.raises(IndexingError, match="lists 67108864 samples but has room for"):
        build_index(MemorySource(bytes(data)))


def many_tracks(data: bytes) -> bytes:
    """The file with nine copies of its track. Its fragments belong to the first."""
    start, stop = find_box(data, [b"moov"])
    first, last = find_box(data, [b"moov", b"trak"])
    return replace_box(data, [b"moov"], box(b"moov", data[start:stop] + data[first - 8 : last] * 8))


def compressed(data: bytes) -> bytes:
    start, stop = find_box(data, [b"moov"])
    moov = data[start - 8 : stop]
    packed = box(b"cmvd", struct.pack(">I", len(moov)) + zlib.compress(moov))
    return replace_box(data, [b"moov"], box(b"moov", box(b"cmov", box(b"dcom", b"zlib") + packed)))


WAYS: dict[str, Callable[[bytes], bytes]] = {
    "many boxes before": lambda data: box(b"qrst", b"") + box(b"free", b"") * 20 + data,
    "many tracks": many_tracks,
    "compressed tables": compressed,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["{}", "{}::stream_index=0"])
def test_counts_are_checked_on_all_ways_to_libavformat(sample: Any, tmp_path: Path, way: str, name: str) -> None:
    data = bytearray(WAYS[way](sample("h264_mp4_fragmented").read_bytes()))
    at = data.index(b"trun") + 8
    data[at : at + 4] = (1 << 26).to_bytes(4, "big")
    (tmp_path / "x.mp4").write_bytes(data)
    with pytest.raises(IndexingError, match="lists 67108864 samples but has room for"):
        build_index(name.format(tmp_path / "x.mp4"))


def test_a_part_of_a_fragment_outside_of_one_is_an_error(sample: Any) -> None:
    """libavformat gives its frames a second time."""
    data = sample("h264_mp4_fragmented").read_bytes()
    at = data.rindex(b"trun") - 4
    size = int.from_bytes(data[at : at + 4], "big")
    with pytest.raises(IndexingError, match="is damaged: a trun box lies outside of a fragment"):
        build_index(MemorySource(data + data[at : at + size]))
    whole = sample("h264_mp4").read_bytes()
    assert len(build_index(MemorySource(whole + data[at : at + size]))) == len(build_index(MemorySource(whole)))


def stated(kind: bytes, at: int, value: int, size: int = 1) -> Callable[[bytes], bytes]:
    """A change: another number in the last box of a type, so many bytes behind the type's last byte."""

    def change(data: bytes) -> bytes:
        begin = data.rindex(kind) + 4 + at
        return data[:begin] + value.to_bytes(size, "big") + data[begin + size :]

    return change


def longer(kind: bytes, by: int) -> Callable[[bytes], bytes]:
    """A change: the first box of a type claims to be so many bytes longer than it is, or shorter."""

    def change(data: bytes) -> bytes:
        begin = data.index(kind) - 4
        size = int.from_bytes(data[begin : begin + 4], "big") + by
        return data[:begin] + size.to_bytes(4, "big") + data[begin + 4 :]

    return change


IN_FRAGMENTS = {
    "a traf that is too long": longer(b"traf", 1),
    "a trun that is much too long": longer(b"trun", 1 << 24),
    "a moof that is too short": longer(b"moof", -1),
    "a traf's header in an mfhd": longer(b"mfhd", 8),
    "fragments in the moov": longer(b"moov", 1 << 27),
    "a tfdt of version 9": stated(b"tfdt", 0, 9),
    "samples of no description": stated(b"trex", 8, 0, 4),
    "a traf of another name": lambda data: data.replace(b"traf", b"tref"),
}
IN_TABLES = {
    "an elst that is too long": longer(b"elst", 1 << 16),
    "a trak that is too short": longer(b"trak", -1),
    "no table of times": lambda data: data.replace(b"stts", b"sttx"),
    "no table of sizes": lambda data: data.replace(b"stsz", b"stsx"),
    "a second table of times": lambda data: data.replace(b"stss", b"stts"),
    "more times than fit": stated(b"stts", 4, 2, 4),
    "more samples in a chunk than there are": stated(b"stsc", 12, 1000, 4),
    "less than one sample in a chunk": stated(b"stsc", 12, 1 << 31, 4),
}
CHANGES = [("h264_mp4_fragmented", way, IN_FRAGMENTS[way]) for way in IN_FRAGMENTS]
CHANGES += [("h264_mp4", way, IN_TABLES[way]) for way in IN_TABLES]


@pytest.mark.parametrize(("name", "way", "change"), [pytest.param(*each, id=each[1]) for each in CHANGES])
def test_boxes_that_do_not_fit_are_read_as_libavformat_reads_them(
    sample: Any, tmp_path: Path, name: str, way: str, change: Callable[[bytes], bytes]
) -> None:
    data = sample(name).read_bytes()
    path = tmp_path / "x.mp4"
    path.write_bytes(change(data))
    assert path.read_bytes() != data
    truth = full_decode(path)
    if truth.pts and not truth.error:
        assert build_index(path).frame_pts.tolist() == truth.pts
    else:
        with pytest.raises(VideoLoaderError):
            build_index(path)
