"""AV1 streams in layers, of which decoders choose some."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest

import videoloader as vl
from videoloader.indexing.bitstream.av1 import SEQUENCE_HEADER, iterate_obus

WIDTH, HEIGHT, COUNT = 128, 96, 12
_DELIMITER = 2
BASE, BOTH = 0x101, 0x103  # operating_point_idc of the temporal layers 0, and 0 and 1


def pictures() -> Iterator[av.VideoFrame]:
    for number in range(COUNT):
        plane = np.full((HEIGHT, WIDTH, 3), 20 * number, np.uint8)
        frame = av.VideoFrame.from_ndarray(plane, format="rgb24").reformat(format="yuv420p")
        frame.pts = number
        yield frame


def units(packet: bytes) -> Iterator[tuple[int, bytes]]:
    return ((obu.kind, packet[obu.start : obu.stop]) for obu in iterate_obus(packet))


def unit(kind: int, payload: bytes, layer: int | None = None) -> bytes:
    head = bytes([kind << 3 | 2]) if layer is None else bytes([kind << 3 | 6, layer << 5])
    size = len(payload)
    length = b""
    while size > 0x7F:
        length, size = length + bytes([size & 0x7F | 0x80]), size >> 7
    return head + length + bytes([size]) + payload


def with_points(header: bytes, points: Sequence[int]) -> bytes:
    """A sequence header without times, with these operating points in place of its only one (5.5.1)."""
    bits = "".join(f"{byte:08b}" for byte in header)
    assert bits[4:12] == "0" * 8
    level, rest = bits[24:29], bits[29:].rstrip("0")
    level, rest = (level + rest[0], rest[1:]) if int(level, 2) > 7 else (level, rest)
    bits = f"{bits[:7]}{len(points) - 1:05b}" + "".join(f"{point:012b}{level}" for point in points) + rest
    bits += "0" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big")


def write(path: Path, points: Sequence[int], layers: int) -> Path:
    """A video of keyframes that are in so many temporal layers by turns."""
    encoder = av.CodecContext.create("libsvtav1", "w")
    encoder.width, encoder.height, encoder.pix_fmt, encoder.time_base = WIDTH, HEIGHT, "yuv420p", Fraction(1, 25)
    encoder.framerate, encoder.options = 25, {"preset": "10", "svtav1-params": "keyint=1"}
    encoded = [bytes(packet) for frame in [*pictures(), None] for packet in encoder.encode(frame)]
    ivf = struct.pack("<4sHHIHHIIII", b"DKIF", 0, 32, 0x31305641, WIDTH, HEIGHT, 25, 1, len(encoded), 0)
    for number, packet in enumerate(encoded):
        changed = b""
        for kind, payload in units(packet):
            if kind == SEQUENCE_HEADER:
                payload = with_points(payload, points)
            changed += unit(kind, payload, number % layers if kind not in (SEQUENCE_HEADER, _DELIMITER) else None)
        ivf += struct.pack("<IQ", len(changed), number) + changed
    raw = path.with_suffix(".ivf")
    raw.write_bytes(ivf)
    if path != raw:
        with av.open(raw) as source, av.open(path, "w") as target:
            stream = target.add_mux_stream("av1", rate=25, width=WIDTH, height=HEIGHT)
            for packet in source.demux(video=0):
                if packet.size:
                    packet.stream = stream
                    target.mux(packet)
    return path


@pytest.mark.parametrize("ending", ["mp4", "mkv", "ivf"])
@pytest.mark.parametrize(
    ("points", "layers", "shown"),
    [((BASE, BOTH), 2, 2), ((BASE,), 2, 2), ((BOTH, BASE), 2, 1), ((BASE,), 1, 1), ((0,), 2, 1)],
    ids=["the first lacks a layer", "no point has a layer", "the first has all", "one layer", "no points"],
)
def test_frames_are_those_of_the_first_operating_point(
    tmp_path: Path, points: Sequence[int], layers: int, shown: int, ending: str
) -> None:
    path = write(tmp_path / f"a.{ending}", points, layers)
    with av.open(path) as container:
        container.streams.video[0].codec_context.thread_count = 1
        expected = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(expected) == COUNT // shown
    video = vl.Video(path, device="cpu")
    assert len(video) == len(expected)
    assert video.index.frame_packet.tolist() == list(range(0, COUNT, shown))
    for number in reversed(range(len(video))):
        assert abs(video[number].permute(1, 2, 0).numpy().astype(int) - expected[number]).mean() < 2
    assert vl.verify(path, device="cpu").ok
