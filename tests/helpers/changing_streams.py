"""Videos whose parameter sets change midway, or whose pictures are cropped in unusual ways."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from av.bitstream import BitStreamFilterContext
from sample_videos import Recipe, write_video

from videoloader.indexing import MemorySource, VideoIndex, build_index

SIZE = (320, 240)
_COMMON = "bframes=3:keyint=24:b-pyramid=normal:scenecut=0"


def write_h264(path: Path, references: int, *, size: tuple[int, int] = SIZE, frames: int = 48) -> Path:
    options = {"preset": "veryfast", "x264-params": f"ref={references}:{_COMMON}"}
    return write_video(path, Recipe(path.suffix[1:], "libx264", options, size=size, frames=frames))


def write_changing_annex_b(folder: Path) -> Path:
    """Streams with few, many and few references, concatenated in start code form."""
    parts = [write_h264(folder / f"part_{references}.h264", references) for references in (1, 16)]
    path = folder / "changing.h264"
    path.write_bytes(b"".join(part.read_bytes() for part in (*parts, parts[0])))
    return path


def several_descriptions(folder: Path) -> tuple[MemorySource, VideoIndex]:
    """The equivalent of two sample descriptions in one MP4: packets of one record, then of another."""
    paths = [write_h264(folder / f"one_{references}.mp4", references) for references in (1, 16)]
    first, second = (build_index(path) for path in paths)
    data = b"".join(path.read_bytes() for path in paths)
    shift = len(paths[0].read_bytes())
    duration = int(first.packet_pts.max()) + 1024
    index = replace(
        first,
        packet_offset=np.append(first.packet_offset, second.packet_offset + shift),
        packet_size=np.append(first.packet_size, second.packet_size),
        packet_pts=np.append(first.packet_pts, second.packet_pts + duration),
        packet_key=np.append(first.packet_key, second.packet_key),
        packet_disposable=np.append(first.packet_disposable, second.packet_disposable),
        packet_config=np.append(first.packet_config, second.packet_config + 1).astype(np.uint8),
        frame_packet=np.append(first.frame_packet, second.frame_packet + len(first.packet_size)).astype(np.int32),
        frame_pts=np.append(first.frame_pts, second.frame_pts + duration),
        stream=replace(first.stream, codec_configs=first.stream.codec_configs + second.stream.codec_configs),
    )
    return MemorySource(data, "several_descriptions.mp4"), index


def write_cropped(folder: Path, crop: str) -> Path:
    """H.264 whose parameter sets crop the picture, by the given options of the h264_metadata filter."""
    plain = write_h264(folder / "plain.h264", 1)
    path = folder / f"{crop.replace('=', '').replace(':', '_')}.h264"
    with av.open(str(plain)) as container, path.open("wb") as output:
        stream = container.streams.video[0]
        crops = BitStreamFilterContext(f"h264_metadata={crop}", stream)
        for packet in container.demux(stream):
            for changed in crops.filter(packet if packet.size else None):
                output.write(bytes(changed))
    return path


def write_interlaced(folder: Path, codec: str) -> Path:
    """Frames of two fields that were captured at different times."""
    options = {
        "libx264": {"preset": "veryfast", "x264-params": "interlaced=1:keyint=24:bframes=2:scenecut=0"},
        "mpeg2video": {"flags": "+ildct+ilme", "bf": "2", "g": "12", "b": "3000000"},
    }[codec]
    path = folder / f"interlaced_{codec}.mkv"
    width, height = 352, 288
    texture = np.kron(np.random.default_rng(0).integers(40, 220, (height // 8, width // 8 + 40, 3), np.uint8), _TILE)
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        for number in range(36):
            picture = np.empty((height, width, 3), np.uint8)
            for field in (0, 1):
                left = 6 * number + 3 * field
                picture[field::2] = texture[field::2, left : left + width]
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return path


_TILE = np.ones((8, 8, 1), np.uint8)


def write_hevc(path: Path, smallest_block: int) -> Path:
    """HEVC with the same picture size but another coded size, which is rounded up to whole smallest blocks."""
    settings = f"log-level=none:pools=1:frame-threads=1:bframes=3:keyint=24:min-cu-size={smallest_block}"
    options = {"preset": "ultrafast", "x265-params": settings}
    return write_video(path, Recipe(path.suffix[1:], "libx265", options, size=(320, 248), frames=48))
