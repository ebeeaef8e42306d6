"""Transport streams of every shape that a muxer makes, encoded once a session."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

X264 = {"preset": "ultrafast", "g": "10", "bf": "0", "x264-params": "scenecut=0"}
WITH_B = X264 | {"bf": "3", "x264-params": "scenecut=0:b-pyramid=normal"}
X265 = {"preset": "ultrafast", "x265-params": "log-level=none:keyint=10:bframes=2:pools=1:frame-threads=1"}
MPEG2 = {"bf": "2", "g": "10"}
CLOCK = Fraction(1, 90000)
WRAP = 1 << 33


@dataclass(frozen=True)
class Shape:
    """A transport stream: its encoder and the options of its muxer; ``first`` is the first pts, 1/90000 s."""

    encoder: str = "libx264"
    options: dict[str, str] = field(default_factory=lambda: dict(WITH_B))
    muxer: dict[str, str] = field(default_factory=dict)
    first: int = 0
    sound: bool = False
    size: tuple[int, int] = (160, 128)
    frames: int = 45
    flags: int = 0


INTERLACED = int(av.codec.context.Flags.interlaced_dct) | int(av.codec.context.Flags.interlaced_me)
SHAPES = {
    "h264": Shape(),
    "h264_no_b": Shape(options=X264),
    "h264_slices": Shape(options=WITH_B | {"x264-params": "slices=4:scenecut=0"}),
    "h264_no_delimiters": Shape(options=WITH_B | {"x264-params": "aud=0:scenecut=0"}, muxer={"flush_packets": "0"}),
    "h264_open_gop": Shape(options=WITH_B | {"x264-params": "open-gop=1:scenecut=0:b-pyramid=normal"}),
    "h264_intra_refresh": Shape(options={"x264-params": "intra-refresh=1:keyint=10"}),
    "h264_frames_of_an_interlaced_stream": Shape(options=WITH_B | {"x264-params": "tff=1:scenecut=0"}),
    "h264_tiny": Shape(options=WITH_B | {"crf": "51"}, size=(32, 32)),
    "h264_large": Shape(options=WITH_B | {"qp": "2"}, size=(320, 256), frames=20),
    "h264_sound": Shape(sound=True),
    "h264_m2ts": Shape(muxer={"mpegts_m2ts_mode": "1"}, sound=True),
    "h264_long_pes": Shape(muxer={"pes_payload_size": "60000", "omit_video_pes_length": "0"}, sound=True),
    "h264_short_pes": Shape(muxer={"pes_payload_size": "1"}),
    "h264_with_lengths": Shape(muxer={"omit_video_pes_length": "0"}, sound=True),
    "h264_constant_rate": Shape(muxer={"muxrate": "3000000"}),
    "h264_tables_often": Shape(muxer={"pat_period": "0.02", "sdt_period": "0.02"}, sound=True),
    "h264_before_the_wrap": Shape(first=WRAP - 40000),
    "h264_long_before_the_wrap": Shape(first=WRAP - 70 * 90000),
    "h264_at_the_wrap": Shape(first=WRAP - 3600),
    "hevc": Shape("libx265", X265),
    "hevc_sound": Shape("libx265", X265, sound=True),
    "hevc_slices": Shape("libx265", X265 | {"x265-params": X265["x265-params"] + ":slices=2"}, size=(160, 160)),
    "hevc_closed_gop": Shape("libx265", X265 | {"x265-params": X265["x265-params"] + ":open-gop=0"}),
    "hevc_temporal_layers": Shape("libx265", X265 | {"x265-params": X265["x265-params"] + ":temporal-layers=2"}),
    "mpeg2": Shape("mpeg2video", MPEG2),
    "mpeg2_no_b": Shape("mpeg2video", {"g": "10"}, sound=True),
    "mpeg2_interlaced": Shape("mpeg2video", MPEG2, flags=INTERLACED),
    "mpeg2_m2ts": Shape("mpeg2video", MPEG2, {"mpegts_m2ts_mode": "1"}),
    "mpeg1": Shape("mpeg1video", MPEG2),
}  # fmt: skip


def write_transport(path: Path, shape: Shape) -> Path:
    muxer = {"mpegts_copyts": "1"} | shape.muxer
    with av.open(str(path), "w", format="mpegts", options=muxer) as container:
        video = container.add_stream(shape.encoder, rate=25, options=shape.options)
        video.width, video.height, video.pix_fmt = *shape.size, "yuv420p"
        video.codec_context.time_base = CLOCK if shape.encoder.startswith("libx26") else Fraction(1, 25)
        video.codec_context.thread_count = 1
        if shape.flags:
            video.codec_context.flags |= shape.flags
        sound = container.add_stream("mp2", rate=48000) if shape.sound else None
        for number in range(shape.frames):
            frame = av.VideoFrame.from_ndarray(_picture(number, *shape.size), format="rgb24")
            at = shape.first + 3600 * number
            frame.time_base = video.codec_context.time_base
            frame.pts = int(at * CLOCK / frame.time_base)
            container.mux(video.encode(frame.reformat(format="yuv420p")))
            if sound:
                container.mux(sound.encode(_silence(number)))
        container.mux(video.encode())
        if sound:
            container.mux(sound.encode())
    return path


def _picture(number: int, width: int, height: int) -> np.ndarray:
    y, x = np.ogrid[:height, :width]
    noise = np.random.default_rng(number).integers(0, 12, (height, width, 3))
    wave = np.sin((x + 3 * number) / 9) + np.sin((y - 2 * number) / 7)
    return (120 + 50 * wave[:, :, None] + noise).astype(np.uint8)


def _silence(number: int) -> av.AudioFrame:
    frame = av.AudioFrame.from_ndarray(np.zeros((1, 1920 * 2), np.int16), format="s16", layout="stereo")
    frame.rate, frame.pts, frame.time_base = 48000, 1920 * number, Fraction(1, 48000)
    return frame


def to_204(data: bytes) -> bytes:
    """The same packets with room for error correction after each."""
    return b"".join(data[at : at + 188] + bytes(16) for at in range(0, len(data), 188))


def split(data: bytes) -> list[bytes]:
    """The transport packets of a plain or m2ts file, what stands before each included."""
    stride = 188 if data[0] == 0x47 else 192
    return [data[at : at + stride] for at in range(0, len(data), stride)]


def with_program(data: bytes, other: bytes, move: int = 0x400) -> bytes:
    """A transport stream of two programs: that of ``data``, and that of ``other`` with its pids moved up."""
    moved = [_moved(packet, move) for packet in split(other)]
    both = [packet for pair in itertools.zip_longest(split(data), moved) for packet in pair if packet]
    association = _association([(1, _map_pid(data)), (2, _map_pid(other) + move)])
    return b"".join(association if _pid(packet) in (0, move) else packet for packet in both)


def _pid(packet: bytes) -> int:
    return (packet[1] & 0x1F) << 8 | packet[2]


def _with_pid(packet: bytes, pid: int) -> bytes:
    return packet[:1] + bytes([packet[1] & 0xE0 | pid >> 8, pid & 255]) + packet[3:]


def _map_pid(data: bytes) -> int:
    table = next(packet for packet in split(data) if _pid(packet) == 0)
    return (table[15] & 0x1F) << 8 | table[16]


def _moved(packet: bytes, move: int) -> bytes:
    pid = _pid(packet)
    if pid == 0x1FFF or pid == 0x11:
        return _with_pid(packet, 0x1FFF)
    packet = _with_pid(packet, pid + move)
    if pid != 0x1000:
        return packet
    # The program map: the pids of the clock and of the streams in it move too.
    section = bytearray(packet[5 : 5 + 3 + ((packet[6] & 15) << 8 | packet[7])])
    section[3:5] = (2).to_bytes(2, "big")
    at = 8
    while at < len(section) - 4:
        pid = ((section[at] & 0x1F) << 8 | section[at + 1]) + move
        section[at : at + 2] = (0xE000 | pid).to_bytes(2, "big")
        at += 5 + ((section[at + 2] & 15) << 8 | section[at + 3])
    return packet[:5] + with_checksum(bytes(section[:-4])) + packet[5 + len(section) :]


def _association(programs: list[tuple[int, int]]) -> bytes:
    entries = b"".join(number.to_bytes(2, "big") + (0xE000 | pid).to_bytes(2, "big") for number, pid in programs)
    section = b"\0" + (0xB000 | len(entries) + 9).to_bytes(2, "big") + b"\0\1\xc1\0\0" + entries
    return (b"\x47\x40\0\x10\0" + with_checksum(section)).ljust(188, b"\xff")


def with_checksum(section: bytes) -> bytes:
    register = 0xFFFFFFFF
    for byte in section:
        register ^= byte << 24
        for _ in range(8):
            register = register << 1 ^ (0x104C11DB7 if register & 0x80000000 else 0)
    return section + register.to_bytes(4, "big")
