"""Joined files of MPEG-4, of which libavcodec remembers earlier headers and notes of encoders.

By the notes, which are in user data, it chooses its inverse DCT and imitates errors of encoders. What it chooses stays.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from pathlib import Path

import av
import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from read_alone import read_alone
from truth import full_decode

import videoloader as vl
from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import build_index, keyframe_heads, open_source

NOTES = ["XviD0001", "XviD0050", "DivX503b1393", "Lavc51.0.0", "ffmpeg", "nobody"]
QUARTER, PLAIN = "+qpel", "+mv4"
_PICTURE = re.compile(rb"\x00\x00\x01[\xb3\xb6]")
_LAVC = re.compile(rb"Lavc[\d.]+")
_SIZE = (64, 48)


@lru_cache(64)
def encoded(flags: str, b_pictures: int) -> list[tuple[bytes, int, int, bool]]:
    """(bytes, pts, dts, is a keyframe) of packets with headers before each keyframe."""
    encoder = av.CodecContext.create("mpeg4", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width, encoder.height = _SIZE
    encoder.pix_fmt, encoder.time_base = "yuv420p", Fraction(1, 25)
    encoder.options = {"g": "4", "b": "200k", "bf": str(b_pictures), "flags": flags}
    base = np.random.default_rng(7).integers(0, 255, (_SIZE[1], _SIZE[0], 3), np.uint8)
    packets = []
    for number in range(9):
        frame = av.VideoFrame.from_ndarray(np.roll(base, 3 * number, 1), "rgb24")
        frame.pts = number
        packets += encoder.encode(frame)
    packets += encoder.encode(None)
    return [(bytes(packet), packet.pts or 0, packet.dts or 0, packet.is_keyframe) for packet in packets]


def write_joined(path: Path, parts: list[tuple[str, str]], b_pictures: int = 0, *, bare: bool = False) -> Path:
    """Join parts with these flags and notes.

    Args:
        path: path of the file; its ending says which container.
        parts: (flags of the encoder, note) of each.
        b_pictures: number of B pictures between others.
        bare: whether only the first packet of each part has headers.
    """
    joined = []
    for place, (flags, note) in enumerate(parts):
        for number, (data, pts, dts, is_key) in enumerate(encoded(flags, b_pictures)):
            if found := _LAVC.search(data):
                data = data.replace(found[0], note.ljust(len(found[0])).encode())
            if bare and number and (picture := _PICTURE.search(data)):
                data = data[picture.start() :]
            joined.append((data, 9 * place + pts, 9 * place + dts, is_key))
    if path.suffix == ".m4v":
        path.write_bytes(b"".join(data for data, *_ in joined))
        return path
    with av.open(str(path), "w") as target:
        stream = target.add_stream("mpeg4", rate=25)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height = _SIZE
        stream.pix_fmt = "yuv420p"
        for data, pts, dts, is_key in joined:
            packet = av.Packet(data)
            packet.stream, packet.time_base = stream, Fraction(1, 25)
            packet.pts, packet.dts, packet.is_keyframe = pts + b_pictures, dts, is_key
            target.mux(packet)
    return path


def check(path: Path) -> None:
    """Each frame is the one of a full decode, if it is read alone, and if frames are read backwards."""
    truth = full_decode(path)
    assert not truth.error
    index, source = build_index(path), open_source(path)
    assert len(index) == len(truth.hashes)
    one_for_all = CpuDecoder()
    for frame in reversed(range(len(index))):
        for decoder in (CpuDecoder(), one_for_all):
            hashed, _, _ = read_alone(source, index, frame, decoder)
            assert hashed == truth.hashes[frame], f"frame {frame} of {path.name}"


@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "avi", "nut", "ts", "m4v"])
@pytest.mark.parametrize(
    "notes", [("XviD0050", "nobody"), ("Lavc51.0.0", "XviD0001", "ffmpeg"), ("nobody", "XviD0001", "nobody")]
)
def test_notes_of_earlier_parts_are_remembered(tmp_path: Path, container: str, notes: tuple[str, ...]) -> None:
    check(write_joined(tmp_path / f"x.{container}", [(PLAIN, note) for note in notes]))


@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "avi", "nut", "ts", "m4v"])
@pytest.mark.parametrize("b_pictures", [0, 2])
def test_keyframes_without_headers_have_those_of_their_part(tmp_path: Path, container: str, b_pictures: int) -> None:
    """libavcodec takes only the first layer of a configuration record, so the one in force must be the first."""
    parts = [(PLAIN, "Lavc61.3.100"), (QUARTER, "Lavc61.3.100"), (PLAIN, "Lavc61.3.100")]
    check(write_joined(tmp_path / f"x.{container}", parts, b_pictures, bare=True))


def test_more_keyframes_than_are_read_of_other_codecs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keyframe_heads, "_MOST_NEAR", 2)
    check(write_joined(tmp_path / "x.mkv", [(PLAIN, "XviD0050"), (QUARTER, "ffmpeg")], bare=True))


@given(
    st.sampled_from(["mp4", "mkv", "avi", "nut", "ts", "m4v"]),
    st.lists(st.tuples(st.sampled_from([PLAIN, QUARTER]), st.sampled_from(NOTES)), min_size=2, max_size=5),
    st.sampled_from([0, 2]),
    st.booleans(),
)
@settings(max_examples=examples(20))
def test_any_joined_parts(
    tmp_path_factory: pytest.TempPathFactory,
    container: str,
    parts: list[tuple[str, str]],
    b_pictures: int,
    bare: bool,
) -> None:
    check(write_joined(tmp_path_factory.mktemp("joined") / f"x.{container}", parts, b_pictures, bare=bare))


def test_all_ways_of_reading_agree(tmp_path: Path) -> None:
    path = write_joined(
        tmp_path / "x.mp4", [(PLAIN, "Lavc51.0.0"), (QUARTER, "XviD0001"), (PLAIN, "ffmpeg")], bare=True
    )
    video = vl.Video(path, device="cpu")
    streamed = list(video.stream())
    for frame in (26, 20, 13, 2, 25):
        assert (vl.Video(path, device="cpu")[frame] == streamed[frame]).all()
        assert (video[frame] == streamed[frame]).all()
