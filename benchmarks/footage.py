"""The video files that decoding is measured on."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path
from typing import NamedTuple

FRAMES, GOP, COPIES, RATE = 300, 250, 32, 30
# Whole GOPs of the 1080p file, one after the other.
LONG_GOPS = 14
LONG_FRAMES = LONG_GOPS * GOP


class Footage(NamedTuple):
    """How a file is encoded."""

    width: int
    height: int
    encoder: str
    bit_rate: int


FOOTAGE = {
    "1080p-h264": Footage(1920, 1080, "libx264", 5_700_000),
    "1080p-hevc": Footage(1920, 1080, "libx265", 3_800_000),
    "720p-h264": Footage(1280, 720, "libx264", 2_500_000),
    "360p-h264": Footage(640, 360, "libx264", 1_000_000),
}
LONG = "1080p-long"
# Videos of a folder that the caller names, as they are.
REAL = "real"
_REAL_FRAMES = 61
# Three B-frames between two others, one of which is a reference: the encoders' default.
_OPTIONS = {
    "libx264": {"preset": "veryfast", "g": str(GOP), "bf": "3", "b_strategy": "0", "sc_threshold": "0"},
    "libx265": {
        "preset": "veryfast",
        "x265-params": f"keyint={GOP}:min-keyint={GOP}:bframes=3:b-adapt=0:scenecut=0:open-gop=0:log-level=error",
    },
}


def write_files(folder: Path, name: str, copies: int, film: str | None, real: str | None = None) -> list[str]:
    """A file, or as many hard links to it as are asked for. What is in the folder already is not made again.

    Args:
        folder: where they go.
        name: of FOOTAGE, or LONG, or REAL.
        copies: how many paths.
        film: a video of FRAMES frames or more to re-encode; without one, pictures are made up.
        real: a folder of videos; for REAL, the paths of those that are long enough and that NVDEC takes.
    """
    if name == REAL:
        return _real_files(real)
    first = folder / f"{name}.mp4"
    if not first.exists():
        part = folder / f"{name}.part.mp4"
        if name == LONG:
            _repeat_first_gop(Path(write_files(folder, "1080p-h264", 1, film)[0]), part)
        else:
            _encode(part, FOOTAGE[name], film)
        part.rename(first)
    paths = [first, *(folder / f"{name}_{copy:02}.mp4" for copy in range(1, copies))]
    for path in paths:
        if not path.exists():
            try:
                os.link(first, path)
            except OSError:  # a file system without links
                shutil.copy(first, path)
    return [str(path) for path in paths]


def _real_files(folder: str) -> list[str]:
    import videoloader as vl

    paths = sorted(path for path in Path(folder).iterdir() if path.is_file())
    kept = []
    for entry in vl.VideoDataset.from_paths(paths).where(min_frames=_REAL_FRAMES):
        try:
            with vl.Video(entry.path, device="cuda", decode="nvdec") as video:
                video[0]
            kept.append(str(entry.path))
        except vl.VideoLoaderError:
            continue
    return kept


def _encode(path: Path, footage: Footage, film: str | None) -> None:
    import av

    with av.open(str(path), "w") as container:
        stream = container.add_stream(footage.encoder, rate=RATE, options=_OPTIONS[footage.encoder])
        stream.width, stream.height, stream.pix_fmt = footage.width, footage.height, "yuv420p"
        stream.bit_rate = footage.bit_rate
        stream.codec_context.thread_count = 0
        pictures = _film(film, footage) if film else _made_up(footage)
        for number, picture in enumerate(pictures):
            picture.pts, picture.time_base = number, Fraction(1, RATE)
            picture.pict_type = av.video.frame.PictureType.NONE
            container.mux(stream.encode(picture))
        container.mux(stream.encode(None))


def _film(film: str, footage: Footage) -> Iterator:
    import av

    with av.open(film) as container:
        for frame in itertools.islice(container.decode(video=0), FRAMES):
            yield frame.reformat(footage.width, footage.height, "yuv420p")


def _made_up(footage: Footage) -> Iterator:
    """A textured picture that drifts, with some noise."""
    import av
    import numpy as np

    rng = np.random.default_rng(0)
    width, height = footage.width, footage.height
    coarse = rng.integers(0, 256, (height // 20 + 2, width // 10 + 2, 3), np.uint8)
    texture = np.kron(coarse, np.ones((20, 20, 1), np.uint8))
    for number in range(FRAMES):
        left = number * 2 % width
        picture = texture[:height, left : left + width] + rng.integers(0, 4, (height, width, 1), np.uint8)
        yield av.VideoFrame.from_ndarray(np.ascontiguousarray(picture), format="rgb24")


def _repeat_first_gop(path: Path, longer: Path) -> None:
    """A file of LONG_GOPS times the first GOP of another, its packets as they are."""
    import av

    with av.open(str(path)) as source, av.open(str(longer), "w") as target:
        stream = source.streams.video[0]
        copy = target.add_stream_from_template(stream)
        gop = list(itertools.islice((packet for packet in source.demux(stream) if packet.size), GOP))
        frame = round(1 / (RATE * stream.time_base))
        for number in range(LONG_GOPS):
            for old in gop:
                packet = av.Packet(bytes(old))
                packet.stream, packet.time_base, packet.is_keyframe = copy, stream.time_base, old.is_keyframe
                packet.pts, packet.dts = (time + number * GOP * frame for time in (old.pts, old.dts))
                packet.duration = frame
                target.mux(packet)
