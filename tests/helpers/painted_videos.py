"""Videos of every kind that encoders here make, whose frames show the video's number and their own in their pixels.

A picture is tiled with three rows of three codes. A code is six by four cells, dark or bright: eleven bits of the
frame's number, seven of the video's, and six check bits. Any crop of at least half of each side shows every cell of a
code whole at least once, and cells are large enough to be read after lossy coding and a resize.
"""

from __future__ import annotations

import zlib
from fractions import Fraction
from pathlib import Path

import numpy as np
import numpy.typing as npt
from sample_videos import Recipe, write_video

from videoloader.convert.spec import Geometry

_TILES, _COLUMNS, _ROWS = 3, 6, 4
_BITS = _ROWS * _COLUMNS
_DARK, _BRIGHT = 60, 195
# A cell closer to the middle than this is unreadable.
_CLEAR = 20


def _code_of(video: int, number: int) -> int:
    content = number << 7 | video
    return content << 6 | zlib.crc32(content.to_bytes(4, "big")) & 63


def paint(video: int, number: int, width: int, height: int) -> npt.NDArray[np.uint8]:
    """uint8[height, width, 3]: the picture of one frame, with colours that move over its code."""
    code = _code_of(video, number)
    cells = np.array([code >> bit & 1 for bit in range(_BITS)]).reshape(_ROWS, _COLUMNS)
    row = np.arange(height) * _TILES * _ROWS // height % _ROWS
    column = np.arange(width) * _TILES * _COLUMNS // width % _COLUMNS
    light = np.where(cells[row[:, None], column[None, :]], _BRIGHT, _DARK)
    y, x = np.arange(height)[:, None], np.arange(width)[None, :]
    waves = [np.sin((x + 3 * number + shift) / 17) + np.sin((y - 2 * number + shift) / 23) for shift in (0, 20, 41)]
    return (light[:, :, None] + 10 * np.stack(waves, 2)).astype(np.uint8)


def read_frames(
    frames: npt.NDArray[np.floating], geometry: Geometry, display_size: tuple[int, int]
) -> list[tuple[int, int] | None]:
    """(video, number) painted in each frame of a clip; None where it cannot be read.

    Args:
        frames: [T, 3, H, W] in [0, 255].
        geometry: the crop, resize and flips of the clip.
        display_size: (height, width) of the video.
    """
    light = frames.mean(1) - 127.5
    light = light[:, :: -1 if geometry.flip_vertical else 1, :: -1 if geometry.flip else 1]
    window = geometry.window or (0, 0, *geometry.size)
    low_y, high_y, rows = _visible(display_size[0], _ROWS, geometry.crop[::2], geometry.size[0], window[::2])
    low_x, high_x, columns = _visible(display_size[1], _COLUMNS, geometry.crop[1::2], geometry.size[1], window[1::2])
    cells: list[list[npt.NDArray[np.floating]]] = [[] for _ in range(_BITS)]
    for row in rows:
        for column in columns:
            cell = light[:, low_y[row] : high_y[row], low_x[column] : high_x[column]]
            cells[row % _ROWS * _COLUMNS + column % _COLUMNS].append(cell.mean((1, 2)))
    assert all(cells), f"{geometry} of {display_size} shows no whole code"
    # All tiles must agree: a picture that is broken anywhere is wrong.
    least = np.stack([np.min(each, 0) for each in cells], 1)
    most = np.stack([np.max(each, 0) for each in cells], 1)
    clear = ((least > _CLEAR) | (most < -_CLEAR)).all(1)
    codes = (least > 0) @ (1 << np.arange(_BITS))
    return [_meaning(int(code)) if is_clear else None for code, is_clear in zip(codes, clear, strict=True)]


def _meaning(code: int) -> tuple[int, int] | None:
    video, number = code >> 6 & 127, code >> 13
    return (video, number) if _code_of(video, number) == code else None


def _visible(
    whole: int, cells: int, crop: tuple[int, ...], size: int, window: tuple[int, ...]
) -> tuple[list[int], list[int], list[int]]:
    """The bounds of each cell's inner half in the output along one axis, and the cells that are whole there."""
    edges = (np.arange(_TILES * cells + 1) * whole / (_TILES * cells) - crop[0]) * size / crop[1] - window[0]
    quarter = (edges[1] - edges[0]) / 4
    low, high = np.rint(edges[:-1] + quarter).astype(int), np.rint(edges[1:] - quarter).astype(int)
    inside = (edges[:-1] > -quarter) & (edges[1:] < window[1] + quarter)
    return low.tolist(), np.maximum(high, low + 1).tolist(), np.flatnonzero(inside).tolist()


def _h264(settings: str, suffix: str = "mp4", preset: str = "veryfast", **changes: object) -> Recipe:
    return Recipe(suffix, "libx264", {"preset": preset, "x264-params": f"scenecut=0:{settings}"}, **changes)


def _hevc(settings: str, suffix: str = "mp4", preset: str = "ultrafast", **changes: object) -> Recipe:
    options = {"preset": preset, "x265-params": f"log-level=none:pools=1:frame-threads=1:scenecut=0:{settings}"}
    return Recipe(suffix, "libx265", options, **changes)


def _vp9(suffix: str = "webm", **changes: object) -> Recipe:
    options = {
        "g": "40",
        "cpu-used": "8",
        "deadline": "realtime",
        "lag-in-frames": "8",
        "auto-alt-ref": "1",
        "crf": "20",
    }
    return Recipe(suffix, "libvpx-vp9", options | {"b": "0"}, **changes)


def _vp8(**changes: object) -> Recipe:
    options = {"g": "40", "auto-alt-ref": "1", "lag-in-frames": "8", "cpu-used": "5", "crf": "10", "b": "4M"}
    return Recipe("webm", "libvpx", options, **changes)


def _mpeg(encoder: str, suffix: str, bidirectional: int = 2, **changes: object) -> Recipe:
    options = {"bf": str(bidirectional), "g": "15", "b": "8M", "maxrate": "8M", "bufsize": "4M"}
    return Recipe(suffix, encoder, options, **changes)


def _av1(settings: str, suffix: str = "mkv", **changes: object) -> Recipe:
    return Recipe(suffix, "libsvtav1", {"preset": "6", "crf": "12", "svtav1-params": f"lp=1:{settings}"}, **changes)


_VFR = {"time_base": Fraction(1, 90000), "variable_rate": True}
PAINTED = {
    "h264_closed": _h264("keyint=48:bframes=3:open-gop=0", size=(320, 240), frames=150),
    "h264_open_pyramid": _h264("keyint=30:open-gop=1:bframes=5:b-pyramid=normal", size=(320, 238), frames=150),
    "h264_open_ts": _h264("keyint=25:open-gop=1:bframes=3", "ts", size=(336, 240), frames=150),
    "h264_long_gop": _h264("keyint=400:bframes=3:b-pyramid=normal:ref=8", size=(426, 240), frames=400),
    "h264_intra": _h264("keyint=1", "mkv", size=(240, 176), frames=80),
    "h264_no_b_avi": _h264("keyint=40:bframes=0", "avi", size=(320, 240), frames=120),
    "h264_refresh": _h264("intra-refresh=1:keyint=30:bframes=0", size=(256, 192), frames=120),
    "h264_many_references": _h264("keyint=60:ref=16:bframes=2", "mkv", size=(320, 240), frames=120),
    "h264_vfr": _h264("keyint=48:bframes=3", size=(272, 200), frames=120, **_VFR),
    "h264_fragmented": _h264(
        "keyint=24:bframes=2", size=(320, 180), frames=100, container_options={"movflags": "frag_keyframe+empty_moov"}
    ),
    "h264_interlaced": _h264("interlaced=1:keyint=24:bframes=2", "ts", size=(320, 256), frames=80),
    "h264_slices": _h264("slices=4:keyint=40:bframes=3", size=(352, 288), frames=100),
    "h264_444": _h264("keyint=48:bframes=3", size=(321, 241), frames=80, pix_fmt="yuv444p"),
    "h264_422": _h264("keyint=48:bframes=3", "mkv", size=(322, 241), frames=80, pix_fmt="yuv422p"),
    "h264_10bit": _h264("keyint=48:bframes=3", size=(320, 240), frames=80, pix_fmt="yuv420p10le"),
    "h264_422_10bit": _h264("keyint=30:bframes=3", "ts", size=(320, 240), frames=60, pix_fmt="yuv422p10le"),
    "h264_720p": _h264("keyint=60:bframes=3", preset="ultrafast", size=(1280, 720), frames=90),
    "h264_1080p": _h264("keyint=60:bframes=3", preset="ultrafast", size=(1920, 1080), frames=60),
    "hevc_open": _hevc("keyint=30:min-keyint=30:open-gop=1:bframes=4", size=(320, 240), frames=150),
    "hevc_open_ts": _hevc("keyint=25:min-keyint=25:open-gop=1:bframes=4", "ts", size=(320, 240), frames=120),
    "hevc_closed": _hevc("keyint=48:open-gop=0:bframes=3", "mkv", size=(426, 240), frames=120),
    "hevc_layers": _hevc("keyint=99:bframes=7:b-adapt=0:temporal-layers=1", "mp4", "fast", size=(320, 240), frames=150),
    "hevc_radl": _hevc("keyint=24:min-keyint=24:open-gop=0:radl=2:bframes=3:b-adapt=0", size=(288, 208), frames=90),
    "hevc_intra": _hevc("keyint=1", "mkv", size=(240, 176), frames=60),
    "hevc_444": _hevc("keyint=48:bframes=3", size=(321, 241), frames=60, pix_fmt="yuv444p"),
    "hevc_422_10bit": _hevc("keyint=48:bframes=3", "mkv", size=(320, 240), frames=60, pix_fmt="yuv422p10le"),
    "hevc_10bit": _hevc("keyint=48:bframes=3", size=(320, 238), frames=100, pix_fmt="yuv420p10le"),
    "hevc_444_10bit": _hevc("keyint=30:bframes=3", size=(320, 240), frames=60, pix_fmt="yuv444p10le"),
    "hevc_12bit": _hevc("keyint=48:bframes=3", "mkv", size=(320, 240), frames=60, pix_fmt="yuv420p12le"),
    "hevc_720p": _hevc("keyint=60:bframes=3", size=(1280, 720), frames=60),
    "vp9": _vp9(size=(320, 240), frames=150),
    "vp9_odd_mp4": _vp9("mp4", size=(321, 241), frames=100),
    "vp9_444": _vp9(size=(320, 240), frames=60, pix_fmt="yuv444p"),
    "vp9_360p": _vp9(size=(640, 360), frames=100),
    "vp8": _vp8(size=(320, 240), frames=120),
    "vp8_odd": _vp8(size=(323, 243), frames=100),
    "mpeg4_avi": _mpeg("mpeg4", "avi", size=(320, 240), frames=120),
    "mpeg4_mp4": _mpeg("mpeg4", "mp4", 0, size=(352, 288), frames=120),
    "mpeg4_mkv": _mpeg("mpeg4", "mkv", size=(318, 238), frames=120),
    "mpeg2_ts": _mpeg("mpeg2video", "ts", size=(352, 288), frames=120),
    "mpeg2_mkv": _mpeg("mpeg2video", "mkv", size=(320, 240), frames=120),
    "mpeg2_odd": _mpeg("mpeg2video", "mkv", size=(321, 241), frames=80),
    "mpeg2_422": _mpeg("mpeg2video", "ts", size=(352, 288), frames=60, pix_fmt="yuv422p"),
    "mpeg1_mkv": _mpeg("mpeg1video", "mkv", size=(320, 240), frames=80),
    "av1": _av1("keyint=60:hierarchical-levels=4", size=(320, 240), frames=120),
    "av1_mp4": _av1("keyint=40:hierarchical-levels=3", "mp4", size=(426, 240), frames=100),
    "av1_10bit": _av1("keyint=40:hierarchical-levels=3", size=(320, 240), frames=60, pix_fmt="yuv420p10le"),
    "av1_low_delay": _av1("keyint=90:pred-struct=1", "webm", size=(320, 240), frames=90),
    "mjpeg_avi": Recipe("avi", "mjpeg", {"qmin": "2", "qmax": "6"}, size=(320, 240), frames=60, pix_fmt="yuvj420p"),
    "ffv1_mkv": Recipe("mkv", "ffv1", {"g": "5", "level": "3"}, size=(241, 177), frames=60, pix_fmt="yuv444p"),
}  # fmt: skip
# The numbers of videos, painted in their pixels and used as labels.
NUMBERS = {name: number for number, name in enumerate(PAINTED)}


def write_painted(folder: Path, name: str) -> Path:
    """Encode one of the videos."""
    recipe = PAINTED[name]
    path = folder / f"{name}.{recipe.suffix}"
    return write_video(path, recipe, lambda number, width, height: paint(NUMBERS[name], number, width, height))
