"""The driver's own word on NVDEC. What it says is compared in tests/gpu."""

from __future__ import annotations

import ctypes

import pytest

from videoloader.decoding import nvcuvid
from videoloader.errors import ConfigurationError


def test_the_structure_is_as_large_as_the_drivers() -> None:
    """The driver writes as much, whatever is there."""
    assert ctypes.sizeof(nvcuvid.Capabilities) == 88
    assert nvcuvid.Capabilities.num_engines.offset == 25
    assert nvcuvid.Capabilities.min_width.offset == 40


def test_a_driver_without_its_part_for_video_is_told_of(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in containers that were given CUDA alone."""
    monkeypatch.setattr(nvcuvid, "_LIBRARY", "libmissing.so.1")
    nvcuvid._library.cache_clear()
    with pytest.raises(ConfigurationError, match=r"libmissing\.so\.1.*NVIDIA_DRIVER_CAPABILITIES"):
        nvcuvid.ask_capabilities(0, 4, 1, 8)
