"""Chunks that claim to be longer than the file are refused before libavformat takes memory for them."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest
from avi_writing import Video, chunk, chunk_list, header_list, riff, stream_header
from sample_videos import Recipe, write_video

from videoloader.errors import IndexingError, UnsupportedError
from videoloader.indexing import FileSource, MemorySource, limits
from videoloader.indexing.avi.opening import check_opening
from videoloader.indexing.demuxer import open_demuxer
from videoloader.indexing.limits import DecodingBudget

VIDEO = Video(packets=(b"\0\0\1\xb6" * 9,) * 5, keys=(True,) * 5, code=b"FMP4", extra=b"abc")
MOVI = chunk_list(b"movi", *(chunk(b"00dc", packet) for packet in VIDEO.packets))
INFO = chunk_list(b"INFO", chunk(b"ISFT", b"a name"), chunk(b"JUNK", b"\0" * 40))
MORE = chunk(b"strd", b"data of the codec"), chunk(b"strn", b"name"), chunk(b"vprp", b"\0" * 36)
SOUND = riff(b"AVI ", header_list(stream_header(VIDEO, *MORE)), INFO, MOVI)


def claiming(name: bytes, size: int, lists_too: bool = False) -> bytes:
    """The file with another size of a chunk, or of the lists of headers, too."""
    data = bytearray(SOUND)
    at = data.index(b"INFO") - 4 if name == b"INFO" else data.index(name) + 4
    for place in (at, *((data.index(b"strl") - 4, data.index(b"hdrl") - 4) if lists_too else ())):
        data[place : place + 4] = struct.pack("<I", size)
    return bytes(data)


@pytest.mark.parametrize("size", [1 << 27, (1 << 31) - 1, (1 << 31) + 26])
@pytest.mark.parametrize(("name", "lists_too"), [(b"INFO", False), (b"strd", False), (b"strn", False), (b"strf", True)])
def test_a_chunk_that_is_taken_into_memory(name: bytes, lists_too: bool, size: int) -> None:
    what = "LIST" if name == b"INFO" else name.decode()
    with (
        pytest.raises(
            IndexingError, match=rf"its chunk {what} at byte \d+ claims {size} bytes, more than the file has"
        ),
        open_demuxer(MemorySource(claiming(name, size, lists_too))),
    ):
        pass


@pytest.mark.parametrize("name", [b"strf", b"vprp", b"JUNK", b"strl", b"hdrl", b"avih", b"strh"])
def test_what_libavformat_bounds_by_itself_is_not_refused(name: bytes) -> None:
    check_opening(MemorySource(claiming(name, 1 << 31)))


@pytest.mark.parametrize("name", [b"strf", b"strn", b"strd", b"INFO"])
def test_what_takes_little_memory_is_not_refused(name: bytes) -> None:
    check_opening(MemorySource(claiming(name, 1 << 20, lists_too=True)))


def test_sound_files_are_opened(tmp_path: Path) -> None:
    path = tmp_path / "a.avi"
    write_video(path, Recipe("avi", "mpeg4", {"g": "8"}, size=(64, 48), frames=9))
    check_opening(FileSource(path))
    with open_demuxer(FileSource(path)) as container:
        assert sum(packet.size > 0 for packet in container.demux(video=0)) == 9


def test_the_search_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, head = tmp_path / "a.avi", riff(b"AVI ", header_list(stream_header(VIDEO)))
    path.write_bytes(head)
    os.truncate(path, 1 << 30)
    check_opening(FileSource(path))  # zeros
    path.write_bytes(head + b"abcd\0\0\0\0" * 1000)
    check_opening(FileSource(path))
    monkeypatch.setattr(limits, "_LONGEST_SEARCH", 0)
    with DecodingBudget("a.avi"), pytest.raises(UnsupportedError, match="libavformat finds no packet of its video"):
        check_opening(FileSource(path))
