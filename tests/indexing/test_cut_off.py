"""Recordings that were interrupted inside a packet: what comes before it is read as if the file ended there."""

from __future__ import annotations

import warnings
from functools import partial
from pathlib import Path

import av
import numpy as np
import pytest
from sample_videos import Recipe, write_video
from truth import full_decode, hash_of

from videoloader import VideoWarning, build_index, verify
from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import FileSource
from videoloader.indexing.video_stream import open_video
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

RECIPES = {
    "flv": Recipe("flv", "libx264", {"preset": "veryfast", "g": "12"}, frames=30),
    "h264": Recipe("h264", "libx264", {"preset": "veryfast", "g": "12"}, frames=30),
    "mpg": Recipe("mpg", "mpeg2video", {"g": "12"}, frames=30),
}


def decode(path: Path) -> list[bytes]:
    """Hash each frame that libavcodec gives of a file, whose last packet it may refuse."""
    hashes: list[bytes] = []
    with open_video(FileSource(path)) as (container, stream):
        for packet in container.demux(stream):
            try:
                hashes += [hash_of(frame) for frame in packet.decode()]
            except av.error.InvalidDataError:
                continue
    return hashes


@pytest.mark.parametrize("kind", RECIPES)
def test_frames_are_those_of_the_packets_before_the_cut(tmp_path, kind):
    whole = write_video(tmp_path / f"whole.{kind}", RECIPES[kind]).read_bytes()
    path = tmp_path / f"cut.{kind}"
    told = 0
    for left in (*range(len(whole) // 2, len(whole) // 2 + 200, 23), *range(len(whole) - 90, len(whole), 7)):
        path.write_bytes(whole[:left])
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always", VideoWarning)
            index = build_index(path)
        told += (tells := any("cut off" in str(each.message) for each in warned))
        # A part of the last packet may decode to a picture, in which libavcodec hides what is missing.
        whole_packets = len(index.packet_size) - (not tells)
        source, truth = FileSource(path), decode(path)
        for frame, packet in enumerate(index.frame_packet.tolist()):
            if packet < whole_packets:
                found: dict[int, bytes] = {}
                (run,) = plan_frames(index, [frame]).runs
                CpuDecoder().decode(index, read_packets(source, index, run), partial(take, found))
                assert found[packet] == truth[frame]
    assert told or kind != "flv"


def take(found: dict[int, bytes], packet: int, picture: av.VideoFrame) -> None:
    found[packet] = hash_of(picture)


def test_a_cut_is_told_once_and_leaves_a_sound_video(tmp_path):
    path = write_video(tmp_path / "live.flv", RECIPES["flv"])
    whole = full_decode(path).hashes
    path.write_bytes(path.read_bytes()[:-60])
    with pytest.warns(VideoWarning, match=r"live\.flv: its last packet has only \d+ bytes, as if .* cut off") as told:
        index = build_index(path)
    assert len(told) == 1
    assert index.method == "demuxed"
    assert len(index) == 29
    report = verify(path, device="cpu")
    assert not report.ok
    assert "the file is cut off: its last packet has only" in str(report)
    assert set(full_decode(path).hashes) < set(whole)


def test_a_raw_stream_that_ends_with_lone_headers_is_read(tmp_path):
    """As where it is cut between an access unit delimiter, a message or a parameter set and the picture's slices."""
    raw = write_video(tmp_path / "whole.h264", RECIPES["h264"])
    plain = build_index(raw)
    for number, unit in enumerate([b"\x09\xf0", b"\x06\x05\x02ab\x80", b"\x67\x64"]):
        path = tmp_path / f"{number}.h264"
        path.write_bytes(raw.read_bytes() + b"\0\0\0\1" + unit)
        with pytest.warns(VideoWarning, match=r"packet 30 does not decode: .* as if the file were cut off there"):
            index = build_index(path)
        assert index.frame_packet.tolist() == plain.frame_packet.tolist()
        assert index.packet_size.tolist() == plain.packet_size.tolist()


def test_a_damaged_last_picture_of_scattered_packets_is_left_out(tmp_path):
    """ASF cuts Motion JPEG's pictures into pieces, so tables are sought in what libavformat gives of them."""
    path = tmp_path / "camera.asf"
    noise = np.random.default_rng(0)
    with av.open(path, "w") as file:
        stream = file.add_stream("mjpeg", 25, width=176, height=144, pix_fmt="yuvj420p")
        for number in range(4):
            frame = av.VideoFrame.from_ndarray(noise.integers(0, 255, (144, 176, 3), np.uint8), "rgb24")
            frame.pts = number
            packets = stream.encode(frame)
            file.mux(packets)
    whole = full_decode(path).hashes
    data, last = path.read_bytes(), bytes(packets[-1])
    place = data.rfind(last[:300])
    path.write_bytes(data[:place] + bytes(700) + data[place + 700 :])
    with pytest.warns(VideoWarning, match=r"packet 3 does not decode: .* as if the file were cut off there"):
        index = build_index(path)
    assert not index.byte_ranges
    assert len(index.packet_key) == len(index.packet_size) == len(index) == 3
    found = {}
    for frame in range(3):
        (run,) = plan_frames(index, [frame]).runs
        CpuDecoder().decode(index, read_packets(FileSource(path), index, run), partial(take, found))
    assert [found[frame] for frame in range(3)] == whole[:3]
