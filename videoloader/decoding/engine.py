"""Which engine decodes a video."""

from __future__ import annotations

import warnings
from typing import Literal

import torch

from videoloader.decoding.capabilities import why_not_nvdec
from videoloader.decoding.jpeg_engine import why_not_jpeg_engine
from videoloader.errors import UnsupportedError
from videoloader.indexing.index import VideoIndex

Decode = Literal["auto", "nvdec", "cpu"]

# Names of videos that this process has found to be too much for NVDEC.
_left_to_cpu: set[str] = set()


def nvdec_decodes(index: VideoIndex, device: torch.device, decode: Decode) -> bool:
    """Whether NVDEC is to decode a video.

    With ``"auto"`` it does where it can; that it cannot is told in a warning, once for each video.

    Args:
        index: of the video.
        device: where its frames are wanted.
        decode: ``"nvdec"`` or ``"cpu"`` for that engine and no other.

    Raises:
        UnsupportedError: NVDEC must, and cannot.
    """
    if device.type != "cuda" or decode == "cpu":
        return False
    if index.source in _left_to_cpu and decode == "auto":
        return False
    reason = why_not_nvdec(index, device.index or 0)
    if reason and decode == "nvdec":
        raise UnsupportedError(f"cannot be decoded by NVDEC: {reason}", index.source)
    if reason:
        if _is_jpeg_file(index):
            reason = why_not_jpeg_engine(device.index or 0) or reason
        leave_to_cpu(index, reason)
    return not reason


def jpeg_engine_decodes(index: VideoIndex, device: torch.device, decode: Decode) -> bool:
    """Whether the GPU's JPEG engines are to decode a video: image files of JPEG, with ``"auto"``.

    Args:
        index, device, decode: as for ``nvdec_decodes``.
    """
    return (
        device.type == "cuda"
        and decode == "auto"
        and _is_jpeg_file(index)
        and index.source not in _left_to_cpu
        and not why_not_jpeg_engine(device.index or 0)
    )


def _is_jpeg_file(index: VideoIndex) -> bool:
    return index.container == "images" and index.stream.codec == "mjpeg"


def leave_to_cpu(index: VideoIndex, reason: str) -> None:
    """Let the CPU decode a video from now on, and say so."""
    _left_to_cpu.add(index.source)
    # Of images there may be a hundred thousand folders: with this name Python warns of them once.
    name = f"{index.stream.codec} images" if index.container == "images" else index.source
    warnings.warn(f"{name}: decoded on the CPU: {reason}", RuntimeWarning, stacklevel=2)
