"""Packets that hold two shown pictures, beside NVDEC: an error, or what the CPU gives."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from joined_packets import write_joined

import videoloader as vl

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)


@pytest.mark.parametrize("decode", ["auto", "nvdec"])
@pytest.mark.parametrize("container", ["mp4", "mkv"])
@pytest.mark.parametrize("encoder", ["libvpx-vp9", "libsvtav1"])
def test_they_are_an_error(tmp_path: Path, encoder: str, container: str, decode: str) -> None:
    path = write_joined(tmp_path, encoder, container)
    for frames in ([0], [5], list(range(11)), [10, 3]):
        with pytest.raises((vl.UnsupportedError, vl.DecodeError), match=r"pictures|cannot be decoded by NVDEC"):
            vl.Video(path, device="cuda", decode=decode).read(frames)  # type: ignore[arg-type]


@pytest.mark.parametrize("encoder", ["libvpx-vp9", "libsvtav1"])
def test_a_single_one_is_an_error_too(tmp_path: Path, encoder: str) -> None:
    path = write_joined(tmp_path, encoder, "mp4", first=10, last=12)
    for frames in ([10], [12], [20]):
        with pytest.raises((vl.UnsupportedError, vl.DecodeError), match="pictures"):
            vl.Video(path, device="cuda").read(frames)


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_those_of_h264_are_as_on_the_cpu(tmp_path: Path, container: str, first: int) -> None:
    path = write_joined(tmp_path, "libx264", container, first=first)
    plain = vl.Video(path, device="cpu")
    expected = plain.read(range(len(plain)))
    for frame in range(len(plain)):
        clip = vl.Video(path, device="cuda").read([frame])
        assert clip.corrupt[0] == expected.corrupt[frame]
        off = (clip.frames[0].cpu().int() - expected.frames[frame].int()).abs().max()
        assert off <= 2
