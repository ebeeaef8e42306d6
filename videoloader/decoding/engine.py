"""Choose the engine that decodes a video."""

from __future__ import annotations

import warnings
from typing import Literal, get_args

import torch

from videoloader.decoding.capabilities import why_not_nvdec
from videoloader.decoding.jpeg_engine import why_not_jpeg_engine
from videoloader.errors import ConfigurationError, UnsupportedError, VideoWarning
from videoloader.errors.checks import check_choice
from videoloader.indexing.images.index import is_jpeg
from videoloader.indexing.index import VideoIndex

Decode = Literal["auto", "nvdec", "cpu"]
Engine = Literal["nvdec", "jpeg", "cpu"]

# Names of videos that NVDEC failed to decode in this process.
_left_to_cpu: set[str] = set()


def check_decode(decode: Decode, device: torch.device) -> None:
    """Raise ConfigurationError unless a device's videos can be decoded so."""
    check_choice("decode", decode, get_args(Decode))
    if decode == "nvdec" and device.type != "cuda":
        raise ConfigurationError(f"decode is 'nvdec', but the device is {str(device)!r}")


def uses_jpeg_engines(device: torch.device, decode: Decode) -> bool:
    """Whether a device's JPEG engines decode JPEG files."""
    return device.type == "cuda" and decode == "auto" and not why_not_jpeg_engine(device.index or 0)


def choose_engine(index: VideoIndex, device: torch.device, decode: Decode) -> Engine:
    """Choose the engine that decodes a video.

    With ``"auto"``, the GPU's JPEG engines decode JPEG files, NVDEC what it can, and the CPU everything else. The first
    call for a video that the GPU cannot decode warns, and leaves the video to the CPU from then on. In a loader with
    worker threads, the thread that plans makes that call when it submits the first job of the video.

    Args:
        index: the video's index.
        device: device on which frames are wanted.
        decode: ``"nvdec"`` or ``"cpu"`` for that engine alone, or ``"auto"``.

    Raises:
        UnsupportedError: ``decode`` is ``"nvdec"``, and NVDEC cannot decode the video.
    """
    if device.type != "cuda" or decode == "cpu" or (index.source in _left_to_cpu and decode == "auto"):
        return "cpu"
    if is_jpeg(index) and uses_jpeg_engines(device, decode):
        return "jpeg"
    reason = why_not_nvdec(index, device.index or 0)
    if not reason:
        return "nvdec"
    if decode == "nvdec":
        raise UnsupportedError(f"cannot be decoded by NVDEC: {reason}", index.source)
    leave_to_cpu(index, why_not_jpeg_engine(device.index or 0) if is_jpeg(index) else reason)
    return "cpu"


def leave_to_cpu(index: VideoIndex, reason: str) -> None:
    """Let the CPU decode a video from now on, and warn about it."""
    _left_to_cpu.add(index.source)
    # There may be a hundred thousand folders of images. With this name, Python shows the warning once for all of them.
    name = f"{index.stream.codec} images" if index.container == "images" else index.source
    warnings.warn(f"{name}: decoded on the CPU: {reason}", VideoWarning, stacklevel=2)
