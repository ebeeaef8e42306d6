"""Writes videos in which packets hold two shown pictures each, which no encoder does."""

from __future__ import annotations

from pathlib import Path

import av
from sample_videos import Recipe, write_video

_OPTIONS = {
    "libvpx-vp9": {"lag-in-frames": "0", "deadline": "realtime", "cpu-used": "8"},
    "libsvtav1": {"preset": "12"},
    "libx264": {"preset": "veryfast", "x264-params": "keyint=8:scenecut=0:bframes=2:b-pyramid=none"},
}


def write_joined(folder: Path, encoder: str, container: str, *, first: int = 0, last: int | None = None) -> Path:
    """Encode 24 pictures, and join each two packets from ``first`` to ``last`` into one."""
    recipe = Recipe("mkv", encoder, _OPTIONS[encoder], frames=24, size=(256, 256))
    plain = write_video(folder / f"{encoder}.mkv", recipe)
    path = folder / f"{encoder}_joined.{container}"
    with av.open(str(plain)) as read, av.open(str(path), "w") as written:
        stream = read.streams.video[0]
        copy = written.add_stream_from_template(stream, opaque=True)
        packets = [packet for packet in read.demux(stream) if packet.size]
        last = len(packets) if last is None else last
        single = [[packet] for packet in packets[:first]]
        pairs = [packets[at : at + 2] for at in range(first, last, 2)]
        for members in [*single, *pairs, *([packet] for packet in packets[last:])]:
            joined = av.Packet(_join(encoder, [bytes(packet) for packet in members]))
            joined.stream, joined.time_base = copy, stream.time_base
            joined.pts, joined.dts, joined.is_keyframe = members[0].pts, members[0].dts, members[0].is_keyframe
            written.mux(joined)
    return path


def _join(encoder: str, packets: list[bytes]) -> bytes:
    data = b"".join(packets)
    if encoder != "libvpx-vp9" or len(packets) == 1:
        return data
    # The index of a superframe (VP9 bitstream specification, annex B), with four bytes for each size.
    mark = bytes([0xC0 | 3 << 3 | len(packets) - 1])
    return data + mark + b"".join(len(packet).to_bytes(4, "little") for packet in packets) + mark
