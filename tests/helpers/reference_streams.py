"""Encoded streams with every kind of reference between pictures that the encoders here can produce."""

from __future__ import annotations

from pathlib import Path

from sample_videos import Recipe, write_video

# Large enough for NVDEC, which does not decode narrower VP9.
_SIZE = (192, 144)


def _x265(settings: str) -> Recipe:
    common = "log-level=none:pools=1:frame-threads=1:scenecut=0"
    return Recipe("mkv", "libx265", {"preset": "medium", "x265-params": f"{common}:{settings}"}, size=_SIZE, frames=90)


def _svt(settings: str) -> Recipe:
    options = {"preset": "11", "svtav1-params": f"lp=1:{settings}"}
    return Recipe("mkv", "libsvtav1", options, size=_SIZE, frames=90)


def _vpx(codec: str, **options: str) -> Recipe:
    common = {"deadline": "realtime", "cpu-used": "8", "b": "200k"}
    settings = {key.replace("_", "-"): value for key, value in options.items()}
    return Recipe("webm", codec, common | settings, size=_SIZE, frames=90)


_THREE_LAYERS = "ts_number_layers=3:ts_target_bitrate=60,120,200:ts_rate_decimator=4,2,1:ts_periodicity=4"
_LAYER_ORDER = "ts_layer_id=0,2,1,2:ts_layering_mode=3"
_TWO_LAYERS = "ts_number_layers=2:ts_target_bitrate=120,200:ts_rate_decimator=2,1:ts_periodicity=2:ts_layer_id=0,1"

STREAMS = {
    "hevc_pyramid": _x265("keyint=90:bframes=7:b-adapt=0:b-pyramid=1:ref=4"),
    "hevc_flat": _x265("keyint=90:bframes=3:b-adapt=0:b-pyramid=0"),
    "hevc_temporal_layers": _x265("keyint=90:bframes=7:b-adapt=0:b-pyramid=1:temporal-layers=1"),
    "hevc_more_temporal_layers": _x265("keyint=90:bframes=15:b-adapt=0:b-pyramid=1:temporal-layers=3"),
    "hevc_open_gop": _x265("keyint=24:min-keyint=24:open-gop=1:bframes=4:b-adapt=0"),
    "hevc_closed_gop": _x265("keyint=24:min-keyint=24:open-gop=0:bframes=4:b-adapt=0:repeat-headers=1"),
    "hevc_radl": _x265("keyint=24:min-keyint=24:open-gop=0:radl=2:bframes=3:b-adapt=0"),
    "hevc_no_b": _x265("keyint=90:bframes=0:ref=4"),
    "hevc_intra_only": _x265("keyint=1"),
    "hevc_few_order_bits": _x265("keyint=90:bframes=7:b-adapt=0:b-pyramid=1:temporal-layers=1:log2-max-poc-lsb=4"),
    "hevc_hierarchical": _x265("keyint=64:min-keyint=64:bframes=15:b-adapt=0:b-pyramid=1:hrd=0:multi-pass-opt-rps=1"),
    "hevc_slices": _x265("keyint=90:bframes=4:slices=3"),
    "av1_random_access": _svt("keyint=90:hierarchical-levels=5:pred-struct=2"),
    "av1_three_levels": _svt("keyint=90:hierarchical-levels=3:pred-struct=2"),
    "av1_low_delay": _svt("keyint=90:pred-struct=1"),
    "av1_low_delay_layers": _svt("keyint=90:pred-struct=1:hierarchical-levels=3:rtc=1"),
    "av1_open_gop": _svt("keyint=32:irefresh-type=1:hierarchical-levels=3"),
    "av1_closed_gop": _svt("keyint=32:irefresh-type=2:hierarchical-levels=4"),
    "av1_grain": _svt("keyint=90:film-grain=20:hierarchical-levels=4"),
    "vp9_alt_ref": _vpx("libvpx-vp9", g="90", auto_alt_ref="1", lag_in_frames="25", deadline="good"),
    "vp9_resilient": _vpx("libvpx-vp9", g="90", error_resilient="default", lag_in_frames="0"),
    "vp9_resilient_alt_ref": _vpx(
        "libvpx-vp9", g="90", error_resilient="default", auto_alt_ref="1", lag_in_frames="25", deadline="good"
    ),
    "vp9_segments": _vpx("libvpx-vp9", g="90", aq_mode="3", lag_in_frames="0"),
    "vp9_three_layers": _vpx(
        "libvpx-vp9",
        g="90",
        error_resilient="default",
        lag_in_frames="0",
        ts_parameters=f"{_THREE_LAYERS}:{_LAYER_ORDER}",
    ),
    "vp9_two_layers": _vpx(
        "libvpx-vp9",
        g="90",
        error_resilient="default",
        lag_in_frames="0",
        ts_parameters=f"{_TWO_LAYERS}:ts_layering_mode=2",
    ),
    "vp8_alt_ref": _vpx("libvpx", g="90", auto_alt_ref="1", lag_in_frames="16", deadline="good"),
    "vp8_resilient": _vpx("libvpx", g="90", error_resilient="default"),
    "vp8_three_layers": _vpx(
        "libvpx", g="90", error_resilient="default", ts_parameters=f"{_THREE_LAYERS}:{_LAYER_ORDER}"
    ),
    "vp8_two_layers": _vpx(
        "libvpx", g="90", error_resilient="default", ts_parameters=f"{_TWO_LAYERS}:ts_layering_mode=2"
    ),
}


def write_stream(folder: Path, name: str) -> Path:
    return write_video(folder / f"{name}.{STREAMS[name].suffix}", STREAMS[name])
