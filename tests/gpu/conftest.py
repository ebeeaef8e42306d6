"""Fixtures of the tests that need a GPU."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest


def _make_videos() -> ModuleType:
    path = Path(__file__).parents[2] / "samples" / "make_videos.py"
    spec = importlib.util.spec_from_file_location("make_videos", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_videos"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few small videos of each codec, in class folders."""
    folder = tmp_path_factory.mktemp("videos")
    _make_videos().write_dataset(folder, videos_per_class=2)
    return folder
