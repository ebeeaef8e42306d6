"""Collects all facts about one video, for JSON, with what clips of common frame modes cost to decode."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from videoloader.cli.expressions import mode_from
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.demuxer import open_demuxer
from videoloader.indexing.sources.folder import FolderSource
from videoloader.indexing.sources.stream import StreamSource
from videoloader.indexing.stream_info import StreamInfo
from videoloader.packets.decode_plan import plan_frames
from videoloader.padding.pad import real_frames
from videoloader.permutation import permute
from videoloader.sampling.mode import clip_frames, clip_rng
from videoloader.sampling.sampled_video import AllFrames

# Code points of ITU-T H.273, tables 2, 3 and 4.
_PRIMARIES = {
    1: "BT.709", 4: "BT.470M", 5: "BT.601 (625 lines)", 6: "BT.601 (525 lines)", 7: "SMPTE 240M", 8: "film",
    9: "BT.2020", 10: "XYZ", 11: "DCI-P3", 12: "Display P3", 22: "EBU 3213",
}  # fmt: skip
_TRANSFER = {
    1: "BT.709", 4: "gamma 2.2", 5: "gamma 2.8", 6: "BT.601", 7: "SMPTE 240M", 8: "linear", 9: "log", 10: "log sqrt",
    11: "xvYCC", 12: "BT.1361", 13: "sRGB", 14: "BT.2020 (10 bit)", 15: "BT.2020 (12 bit)", 16: "PQ", 17: "SMPTE 428",
    18: "HLG",
}  # fmt: skip
_MATRIX = {
    0: "identity", 1: "BT.709", 4: "FCC", 5: "BT.601", 6: "BT.601", 7: "SMPTE 240M", 8: "YCgCo", 9: "BT.2020",
    10: "BT.2020 (constant luminance)",
}  # fmt: skip
USUAL_MODES = (
    "RandomWindow(1)",
    "RandomWindow(16)",
    "RandomWindow(16, stride=4)",
    "Segments(8)",
    "Triplets()",
    "EveryWindow(16)",
    "Keyframes()",
)
# The most clips to plan, or the draws of a mode that makes a single clip.
_CLIPS = 16


def video_facts(source: ByteSource, index: VideoIndex) -> dict[str, Any]:
    """The facts about a video, including the cost of clips."""
    stream = index.stream
    height, width = stream.display_size
    aspect = stream.sample_aspect_ratio
    size = int(index.packet_size.sum(dtype=np.int64))
    return {
        "source": index.source,
        "container": index.container,
        "streams": _streams(source),
        "stream_index": stream.stream_number,
        "codec": stream.codec,
        "width": width,
        "height": height,
        "coded_width": stream.width,
        "coded_height": stream.height,
        "rotation": stream.rotation,
        "mirrored": stream.mirrored,
        "sample_aspect_ratio": f"{aspect.numerator}:{aspect.denominator}",
        "bit_depth": stream.bit_depth,
        "chroma": stream.chroma,
        "color": _color(stream),
        "encrypted": stream.encrypted,
        "size_varies": stream.size_varies,
        "frames": len(index),
        "duration_s": index.duration,
        "fps": index.average_fps,
        "is_vfr": index.is_vfr,
        "start_time_s": index.start_time / 1_000_000,
        "first_frame_s": float(index.timestamps[0]) if len(index) else None,
        "packets": len(index.packet_size),
        "bytes": size,
        "bits_per_second": 8 * size / index.duration if index.duration else None,
        "gops": _gops(index),
        "index": {"method": index.method, "by_position": index.byte_ranges or index.transport is not None},
        "cost": [mode_cost(index, mode) for mode in USUAL_MODES],
        "nvdec": _nvdec(index),
    }


def _streams(source: ByteSource) -> list[dict[str, Any]]:
    """All streams of the file, as listed by libavformat; empty for a folder of images."""
    if isinstance(source, FolderSource):
        return []
    with open_demuxer(source.file if isinstance(source, StreamSource) else source) as container:
        return [
            {
                "index": stream.index,
                "kind": stream.type,
                "codec": stream.codec.name if stream.codec_context else "",
                "language": stream.language if stream.language != "und" else None,
                "start_time_s": _seconds(stream.start_time, stream.time_base),
                "duration_s": _seconds(stream.duration, stream.time_base),
            }
            for stream in container.streams
        ]


def _seconds(units: int | None, base: Fraction | None) -> float | None:
    return None if units is None or base is None else float(units * base)


def _color(stream: StreamInfo) -> dict[str, Any]:
    """Colour properties from the codec's header, or else from the container; None where neither has them."""
    from videoloader.convert.spec import hdr_transfer
    from videoloader.indexing.bitstream.picture import picture_format

    header = picture_format(stream)

    def name(names: dict[int, str], *codes: int | None) -> str | None:
        told = next((code for code in codes if code not in (None, 2)), None)
        return None if told is None else names.get(told, f"code {told} of H.273")

    full = None if header is None else header.full_range
    return {
        "primaries": name(_PRIMARIES, header and header.color_primaries, stream.color_primaries),
        "transfer": name(_TRANSFER, header and header.color_transfer, stream.color_transfer),
        "matrix": name(_MATRIX, header and header.color_matrix, stream.color_matrix),
        "range": stream.color_range or None if full is None else "full" if full else "limited",
        "hdr": hdr_transfer(stream),
    }


def _gops(index: VideoIndex) -> dict[str, Any]:
    """Statistics of packets between keyframes, and the number of leading frames."""
    keys = np.flatnonzero(index.packet_key)
    lengths = np.diff(np.append(keys, len(index.packet_key)))
    last_key = np.maximum.accumulate(np.where(index.packet_key, np.arange(len(index.packet_key)), -1))
    leading = index.needs_earlier(slice(None), last_key) & index.packet_has_frame
    return {
        "keyframes": len(keys),
        "shortest": int(lengths.min()) if len(keys) else None,
        "median": int(np.median(lengths)) if len(keys) else None,
        "longest": int(lengths.max()) if len(keys) else None,
        "leading_frames": int(leading.sum()),
    }


def _nvdec(index: VideoIndex) -> dict[str, Any]:
    """Whether the GPU's NVDEC decodes the video; None without a GPU."""
    import torch

    from videoloader.decoding.capabilities import why_not_nvdec
    from videoloader.errors import ConfigurationError
    from videoloader.runtime.device import resolve_device

    if not torch.cuda.is_available():
        return {"takes": None, "reason": "PyTorch finds no CUDA device here"}
    try:
        device = resolve_device("cuda")
    except ConfigurationError as error:
        return {"takes": None, "reason": str(error)}
    reason = why_not_nvdec(index, device.index or 0)
    return {"takes": not reason, "reason": reason}


def mode_cost(index: VideoIndex, mode: str) -> dict[str, Any]:
    """The cost of a mode's clips of one video, computed from some of them, always the same, for JSON.

    Returns:
        ``mode`` as written in Python; ``clips``, the number that the mode makes of the video; ``packets_per_clip`` and
        ``packets_per_frame``, averages over some of the clips, 0 without clips. These are upper bounds: reading the
        packets may show that more of them can be skipped.
    """
    video, made = AllFrames(index), mode_from(mode)
    count = made.num_clips(video)
    packets = frames = 0
    draws = permute(np.arange(min(count, _CLIPS)), count, 0, 0).tolist() if count > 1 else [0] * count * _CLIPS
    for draw, clip in enumerate(draws):
        wanted, _ = clip_frames(made, video, clip, clip_rng(draw, 0, clip))
        plan = plan_frames(index, real_frames(wanted))
        packets, frames = packets + plan.packets, frames + plan.frames_wanted
    averages = {"packets_per_clip": packets / max(len(draws), 1), "packets_per_frame": packets / max(frames, 1)}
    return {"mode": mode, "clips": count, **averages}
