"""Small files of every codec that FFmpeg here encodes, for lies to be told of: several GOPs, B-frames, open GOPs."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import numpy as np
from avi_writing import read_video, with_old_index
from mpeg4_packing import packed
from sample_videos import Recipe, write_video

# The encoder's banner is not for the output of tests.
os.environ.setdefault("SVT_LOG", "1")

SIZE, _FRAMES = (128, 96), 60
_CUT = 21


def picture(number: int, width: int, height: int) -> np.ndarray:
    """A still scene, another one every 21 frames, with a square that moves over it.

    Most of a frame is a copy of the one before, so what is skipped or taken from a wrong frame shows.
    """
    scene, square = _scene(number // _CUT, width, height).copy(), max(min(width, height) // 4, 1)
    left, top = (number * 5) % (width - square), (number * 3) % (height - square)
    scene[top : top + square, left : left + square] = (number * 37 % 256, 255 - number * 4 % 256, number * 11 % 256)
    scene[-4:, : max(number % _CUT * width // _CUT, 1)] = 250
    return scene


@cache
def _scene(number: int, width: int, height: int) -> np.ndarray:
    y, x = np.ogrid[:height, :width]
    shades = [128 + 90 * np.sin((x + 31 * number + shift) / 9) * np.sin((y + 7 * shift) / 7) for shift in (0, 5, 11)]
    return (np.stack(shades, 2) + np.random.default_rng(number).integers(0, 24, (height, width, 1))).astype(np.uint8)


def _h264(settings: str = "", suffix: str = "mp4", movflags: str = "", **changes: object) -> Recipe:
    options = {
        "preset": "veryfast",
        "bf": "3",
        "g": "12",
        "x264-params": f"scenecut=0:threads=1:{settings}".rstrip(":"),
    }
    containers = {"movflags": movflags} if movflags else {}
    return _recipe(suffix, "libx264", options, container_options=containers, **changes)


def _hevc(settings: str = "", suffix: str = "mp4", **changes: object) -> Recipe:
    common = "log-level=none:pools=1:frame-threads=1:scenecut=0:keyint=12:min-keyint=12:bframes=3"
    return _recipe(
        suffix, "libx265", {"preset": "ultrafast", "x265-params": f"{common}:{settings}".rstrip(":")}, **changes
    )


def _recipe(suffix: str, encoder: str, options: dict[str, str] | None = None, **changes: object) -> Recipe:
    return Recipe(suffix, encoder, {"g": "12", **(options or {})}, **({"size": SIZE, "frames": _FRAMES} | changes))  # type: ignore[arg-type]


_VP = {"deadline": "realtime", "cpu-used": "8", "lag-in-frames": "8", "auto-alt-ref": "1", "b": "200k"}
# In real time libvpx's VP8 does what there is time for: never twice the same.
_VP8 = _VP | {"deadline": "good", "cpu-used": "5"}
_SVT = {"preset": "12", "svtav1-params": "lp=1"}
_MPEG = {"bf": "2", "b": "2M"}
BASES = {
    "h264_mp4": _h264(),
    "h264_pyramid_mp4": _h264("b-pyramid=normal:ref=4"),
    "h264_open_mp4": _h264("open-gop=1:b-pyramid=normal"),
    "h264_mov": _h264(suffix="mov"),
    "h264_baseline_mp4": _h264("bframes=0:cabac=0:8x8dct=0"),
    "h264_long_mp4": _h264("keyint=40:bframes=5:b-pyramid=normal"),
    "h264_refresh_mp4": _h264("intra-refresh=1:keyint=12"),
    "h264_interlaced_mp4": _h264("interlaced=1"),
    "h264_slices_mp4": _h264("slices=3"),
    "h264_444_mp4": _h264(pix_fmt="yuv444p"),
    "h264_10bit_mp4": _h264(pix_fmt="yuv420p10le"),
    "h264_odd_mp4": _h264(size=(122, 90)),
    "h264_fragmented_mp4": _h264(movflags="frag_keyframe+empty_moov"),
    "h264_fragmented_flags_mp4": _h264(movflags="frag_every_frame+empty_moov"),
    "h264_fragmented_open_mp4": _h264("open-gop=1", movflags="frag_keyframe+default_base_moof"),
    "h264_mkv": _h264(suffix="mkv"),
    "h264_open_mkv": _h264("open-gop=1", suffix="mkv"),
    "h264_ts": _h264(suffix="ts"),
    "h264_open_ts": _h264("open-gop=1", suffix="ts"),
    "h264_flv": _h264(suffix="flv"),
    "h264_avi": _h264(suffix="avi"),
    "h264_raw": _h264(suffix="h264"),
    "h264_open_raw": _h264("open-gop=1:repeat-headers=1", suffix="h264"),
    "hevc_mp4": _hevc(),
    "hevc_closed_mp4": _hevc("open-gop=0"),
    "hevc_pyramid_mp4": _hevc("keyint=30:rc-lookahead=20:bframes=7:b-adapt=0:b-pyramid=1:ref=4"),
    "hevc_radl_mkv": _hevc("open-gop=0:radl=2", suffix="mkv"),
    "hevc_mkv": _hevc(suffix="mkv"),
    "hevc_ts": _hevc(suffix="ts"),
    "hevc_raw": _hevc(suffix="hevc"),
    "hevc_repeat_raw": _hevc("repeat-headers=1:open-gop=0", suffix="hevc"),
    "hevc_10bit_mp4": _hevc(pix_fmt="yuv420p10le"),
    "mpeg2_ts": _recipe("ts", "mpeg2video", _MPEG),
    "mpeg2_vob": _recipe("vob", "mpeg2video", _MPEG),
    "mpeg2_mkv": _recipe("mkv", "mpeg2video", _MPEG),
    "mpeg2_mp4": _recipe("mp4", "mpeg2video", _MPEG),
    "mpeg2_raw": _recipe("m2v", "mpeg2video", _MPEG),
    "mpeg2_closed_ts": _recipe("ts", "mpeg2video", _MPEG | {"flags": "+cgop", "sc_threshold": "1000000000"}),
    "mpeg2_interlaced_ts": _recipe("ts", "mpeg2video", _MPEG | {"flags": "+ildct+ilme"}),
    "mpeg1_mpg": _recipe("mpg", "mpeg1video", _MPEG),
    "mpeg1_mkv": _recipe("mkv", "mpeg1video", _MPEG),
    "mpeg4_mp4": _recipe("mp4", "mpeg4", _MPEG),
    "mpeg4_avi": _recipe("avi", "mpeg4", _MPEG),
    "mpeg4_plain_avi": _recipe("avi", "mpeg4", {"b": "2M"}),
    "mpeg4_packed_avi": _recipe("avi", "mpeg4", _MPEG),
    "mpeg4_mkv": _recipe("mkv", "mpeg4", _MPEG),
    "mpeg4_m4v": _recipe("m4v", "mpeg4", _MPEG),
    "mpeg4_quarter_mp4": _recipe("mp4", "mpeg4", _MPEG | {"flags": "+qpel+mv4"}),
    "vp8_webm": _recipe("webm", "libvpx", _VP8),
    "vp8_ivf": _recipe("ivf", "libvpx", _VP8),
    "vp9_webm": _recipe("webm", "libvpx-vp9", _VP),
    "vp9_mp4": _recipe("mp4", "libvpx-vp9", _VP),
    "vp9_plain_ivf": _recipe("ivf", "libvpx-vp9", _VP | {"auto-alt-ref": "0", "lag-in-frames": "0"}),
    "av1_mp4": _recipe("mp4", "libsvtav1", _SVT),
    "av1_mkv": _recipe("mkv", "libsvtav1", _SVT),
    "av1_obu": _recipe("obu", "libsvtav1", _SVT),
    "av1_ivf": _recipe("ivf", "libsvtav1", _SVT),
    "flv1_flv": _recipe("flv", "flv", {"b": "400k"}),
    "h261_avi": _recipe("avi", "h261", size=(176, 144)),
    "h263_avi": _recipe("avi", "h263", {"b": "400k"}),
    "h263_3gp": _recipe("3gp", "h263", {"b": "400k"}),
    "h263p_avi": _recipe("avi", "h263p", {"b": "400k"}),
    "msmpeg4v2_avi": _recipe("avi", "msmpeg4v2", {"b": "400k"}),
    "msmpeg4v2_asf": _recipe("asf", "msmpeg4v2", {"b": "400k"}),
    "msmpeg4v3_avi": _recipe("avi", "msmpeg4", {"b": "400k"}),
    "wmv1_asf": _recipe("asf", "wmv1", {"b": "400k"}),
    "wmv2_asf": _recipe("asf", "wmv2", {"b": "400k"}),
    "wmv2_avi": _recipe("avi", "wmv2", {"b": "400k"}),
    "rv10_rm": _recipe("rm", "rv10", {"b": "400k"}),
    "rv20_rm": _recipe("rm", "rv20", {"b": "400k"}),
    "svq1_mov": _recipe("mov", "svq1", pix_fmt="yuv410p"),
    "qtrle_mov": _recipe("mov", "qtrle", pix_fmt="rgb24"),
    "qtrle_555_mov": _recipe("mov", "qtrle", pix_fmt="rgb555be"),
    "qtrle_argb_mov": _recipe("mov", "qtrle", pix_fmt="argb"),
    "qtrle_gray_mov": _recipe("mov", "qtrle", pix_fmt="gray"),
    "rpza_mov": _recipe("mov", "rpza", pix_fmt="rgb555le"),
    "smc_mov": _recipe("mov", "smc", pix_fmt="pal8"),
    "cinepak_avi": _recipe("avi", "cinepak", pix_fmt="rgb24", frames=30),
    "cinepak_mov": _recipe("mov", "cinepak", pix_fmt="rgb24", frames=30),
    "msvideo1_avi": _recipe("avi", "msvideo1", pix_fmt="rgb555le"),
    "msrle_avi": _recipe("avi", "msrle", pix_fmt="pal8"),
    "huffyuv_avi": _recipe("avi", "huffyuv", pix_fmt="yuv422p"),
    "ffvhuff_avi": _recipe("avi", "ffvhuff", {"context": "1"}),
    "ffv1_mkv": _recipe("mkv", "ffv1", {"level": "3", "g": "5"}),
    "ffv1_avi": _recipe("avi", "ffv1", {"level": "1", "g": "8"}),
    "utvideo_avi": _recipe("avi", "utvideo"),
    "magicyuv_avi": _recipe("avi", "magicyuv", pix_fmt="gbrp"),
    "zlib_avi": _recipe("avi", "zlib", pix_fmt="bgr24"),
    "zmbv_avi": _recipe("avi", "zmbv", pix_fmt="bgr0"),
    "zmbv_pal8_avi": _recipe("avi", "zmbv", pix_fmt="pal8"),
    "flashsv_flv": _recipe("flv", "flashsv", pix_fmt="bgr24"),
    "flashsv2_flv": _recipe("flv", "flashsv2", pix_fmt="bgr24"),
    "snow_nut": _recipe("nut", "snow", {"strict": "experimental"}),
    "asv1_avi": _recipe("avi", "asv1"),
    "asv2_avi": _recipe("avi", "asv2"),
    "prores_mov": _recipe("mov", "prores", pix_fmt="yuv422p10le", frames=20),
    "mjpeg_avi": _recipe("avi", "mjpeg", pix_fmt="yuvj420p"),
    "jpeg2000_mov": _recipe("mov", "jpeg2000", frames=20),
    "png_mov": _recipe("mov", "png", pix_fmt="rgb24", frames=20),
    "gif_gif": _recipe("gif", "gif", pix_fmt="rgb8"),
    "apng_apng": _recipe("apng", "apng", pix_fmt="rgb24", frames=20),
    "cfhd_mov": _recipe("mov", "cfhd", pix_fmt="yuv422p10le", frames=20),
    "dxv_mov": _recipe("mov", "dxv", pix_fmt="rgba", frames=20),
    "speedhq_nut": _recipe("nut", "speedhq", frames=20),
    "dv_dv": _recipe("dv", "dvvideo", size=(720, 576), frames=8),
    "raw_pal8_avi": _recipe("avi", "rawvideo", pix_fmt="pal8", frames=20),
    "raw_gray_mov": _recipe("mov", "rawvideo", pix_fmt="gray", frames=20),
    "raw_rgb_mov": _recipe("mov", "rawvideo", pix_fmt="rgb24", frames=20),
    "raw_555_avi": _recipe("avi", "rawvideo", pix_fmt="rgb555le", frames=20),
    "raw_monow_avi": _recipe("avi", "rawvideo", pix_fmt="monow", frames=20),
    "raw_yuv_nut": _recipe("nut", "rawvideo", frames=20),
    "v210_mov": _recipe("mov", "v210", pix_fmt="yuv422p10le", frames=20),
    "r210_mov": _recipe("mov", "r210", pix_fmt="gbrp10le", frames=20),
    "h264_rgb_mp4": _recipe("mp4", "libx264rgb", {"x264-params": "threads=1"}, pix_fmt="rgb24"),
}


def write_base(folder: Path, name: str) -> Path:
    """The path of a base, encoded where it is not in the folder yet."""
    path = folder / f"{name}.{BASES[name].suffix}"
    if not path.is_file():
        # Under another name until it is whole: other processes look here, too.
        unfinished = folder / f".{os.getpid()}_{path.name}"
        write_video(unfinished, BASES[name], picture)
        if "packed" in name:
            unfinished.write_bytes(with_old_index(packed(read_video(unfinished))))
        unfinished.rename(path)
    return path
