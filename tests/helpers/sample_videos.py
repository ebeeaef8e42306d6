"""Small encoded videos, one for each way a container or codec can be hard to index."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from pathlib import Path

import av
import numpy as np

X264 = {"preset": "veryfast", "bf": "3", "g": "12", "x264-params": "scenecut=0:b-pyramid=normal"}
VP9 = {"g": "12", "cpu-used": "8", "deadline": "realtime", "lag-in-frames": "8"}
X265 = {"preset": "ultrafast", "x265-params": "log-level=none:keyint=12:bframes=3:pools=1:frame-threads=1"}


@dataclass(frozen=True)
class Recipe:
    """The recipe of a video; ``pts`` are in units of ``time_base``."""

    suffix: str
    encoder: str
    options: dict[str, str] = field(default_factory=dict)
    container_options: dict[str, str] = field(default_factory=dict)
    pix_fmt: str = "yuv420p"
    size: tuple[int, int] = (160, 128)
    frames: int = 60
    time_base: Fraction = Fraction(1, 25)
    variable_rate: bool = False

    def pts(self) -> list[int]:
        if not self.variable_rate:
            return list(range(self.frames))
        steps = np.random.default_rng(0).integers(1000, 6000, self.frames - 1)
        return [0, *np.cumsum(steps).tolist()]


RECIPES = {
    "h264_mp4": Recipe("mp4", "libx264", X264),
    "h264_mp4_tables_first": Recipe("mp4", "libx264", X264, {"movflags": "faststart"}),
    "h264_mp4_open_gop": Recipe("mp4", "libx264", X264 | {"x264-params": "scenecut=0:open-gop=1:b-pyramid=normal"}),
    "h264_mp4_intra_refresh": Recipe("mp4", "libx264", {"x264-params": "intra-refresh=1:keyint=12"}),
    "h264_mp4_vfr": Recipe("mp4", "libx264", X264, time_base=Fraction(1, 90000), variable_rate=True),
    "h264_mp4_negative_offsets": Recipe("mp4", "libx264", X264, {"movflags": "negative_cts_offsets"}),
    "h264_mp4_fragmented": Recipe("mp4", "libx264", X264, {"movflags": "frag_keyframe+empty_moov"}),
    "h264_mp4_fragmented_negative_offsets": Recipe(
        "mp4", "libx264", X264, {"movflags": "frag_keyframe+empty_moov+negative_cts_offsets"}
    ),
    "h264_mkv": Recipe("mkv", "libx264", X264),
    "h264_mkv_live": Recipe("mkv", "libx264", X264, {"live": "1", "cluster_time_limit": "200"}),
    "h264_mkv_cues_first": Recipe("mkv", "libx264", X264, {"cues_to_front": "1", "cluster_size_limit": "2000"}),
    "h264_mkv_interlaced": Recipe("mkv", "libx264", X264 | {"x264-params": "interlaced=1:keyint=12"}),
    "h264_ts": Recipe("ts", "libx264", X264),
    "hevc_mp4": Recipe("mp4", "libx265", X265),
    "hevc_mkv": Recipe("mkv", "libx265", X265),
    "vp9_webm": Recipe("webm", "libvpx-vp9", VP9),
    "vp8_webm": Recipe("webm", "libvpx", {"g": "12", "auto-alt-ref": "1", "lag-in-frames": "8", "cpu-used": "5"}),
    "av1_mkv": Recipe("mkv", "libsvtav1", {"preset": "12", "g": "12", "svtav1-params": "lp=1"}),
    "av1_mp4": Recipe("mp4", "libsvtav1", {"preset": "12", "g": "12", "svtav1-params": "lp=1"}),
    "mpeg2_ts": Recipe("ts", "mpeg2video", {"bf": "2", "g": "12"}),
    "mpeg2_mkv": Recipe("mkv", "mpeg2video", {"bf": "2", "g": "12"}),
    "mpeg4_mkv": Recipe("mkv", "mpeg4", {"bf": "2", "g": "12"}),
    "mjpeg_mkv": Recipe("mkv", "mjpeg", pix_fmt="yuvj420p"),
    "ffv1_mkv": Recipe("mkv", "ffv1", {"g": "5", "level": "3"}),
    "mpeg4_avi": Recipe("avi", "mpeg4", {"bf": "2", "g": "12"}),
    "mpeg4_mp4": Recipe("mp4", "mpeg4", {"g": "12"}),
}


def write_video(path: Path, recipe: Recipe, picture: Callable[[int, int, int], np.ndarray] | None = None) -> Path:
    """Encode a moving picture, or the pictures that ``picture(number, width, height)`` returns."""
    picture = picture or _picture
    with av.open(str(path), "w", container_options=recipe.container_options) as container:
        stream = container.add_stream(recipe.encoder, rate=25, options=recipe.options)
        stream.width, stream.height = recipe.size
        stream.pix_fmt = recipe.pix_fmt
        stream.codec_context.time_base = stream.time_base = recipe.time_base
        stream.codec_context.thread_count = 1
        if recipe.encoder == "libx265" and recipe.suffix == "mp4":
            stream.codec_context.codec_tag = "hvc1"
        for number, pts in enumerate(recipe.pts()):
            frame = _frame(picture(number, *recipe.size), recipe.pix_fmt)
            frame.pts, frame.time_base = pts, recipe.time_base
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


def _frame(pixels: np.ndarray, pix_fmt: str) -> av.VideoFrame:
    if pix_fmt != "pal8":
        return av.VideoFrame.from_ndarray(pixels, format="rgb24").reformat(format=pix_fmt)
    # libswscale makes no palettes, so this uses three bits of red and green and two of blue.
    colors = np.arange(256, dtype=np.uint8)
    palette = np.stack([np.full_like(colors, 255), colors & 0xE0, (colors & 0x1C) << 3, (colors & 3) << 6], 1)
    indices = pixels[..., 0] & 0xE0 | pixels[..., 1] >> 3 & 0x1C | pixels[..., 2] >> 6
    return av.VideoFrame.from_ndarray((indices, palette), format="pal8")


def _picture(number: int, width: int, height: int) -> np.ndarray:
    y, x = np.ogrid[:height, :width]
    waves = [np.sin((x + 3 * number + shift) / 9) + np.sin((y - 2 * number + shift) / 7) for shift in (0, 5, 11)]
    return (128 + 55 * np.stack(waves, 2)).astype(np.uint8)
