"""verify on a CUDA device: what NVDEC gives is compared, too, and where it rounds otherwise, within that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

pytestmark = pytest.mark.gpu
pytest.importorskip("cupy")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

import videoloader as vl  # noqa: E402
from videoloader.verification import checks as verification_checks  # noqa: E402

Sample = Callable[[str], Path]


@pytest.mark.parametrize("name", ["h264_mp4_open_gop", "hevc_mkv", "vp9_webm", "mpeg2_ts", "mpeg4_avi", "av1_mkv"])
def test_a_sound_file_is_in_order(name: str, sample: Sample) -> None:
    report = vl.verify(sample(name), device="cuda")
    assert report.ok, str(report)


@pytest.mark.parametrize("name", ["h264_mp4_open_gop", "mpeg2_ts"])
def test_a_wrong_picture_is_noticed(name: str, sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    true = vl.build_index(sample(name))
    other = true.frame_packet.copy()
    other[[20, 31]] = other[[31, 20]]
    monkeypatch.setattr(verification_checks, "build_index", lambda source: replace(true, frame_packet=other))
    (file,) = vl.verify(sample(name), device="cuda").files
    found = [fault for fault in file.faults if fault.kind == "pictures" and "NVDEC" in fault.message]
    assert found
    assert any(first <= 20 <= last for first, last in found[0].frames)
