"""Videos that the tests of torch loaders share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def paths(sample: Callable[[str], Path]) -> list[str]:
    """The paths of three videos of different codecs and containers."""
    return [str(sample(name)) for name in ("h264_mp4", "hevc_mp4", "vp9_webm")]
