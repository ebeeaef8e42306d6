"""Fixtures of the tests that need a GPU."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
import torch

from videoloader.runtime.cores import available_cores


def _make_videos() -> ModuleType:
    path = Path(__file__).parents[2] / "samples" / "make_videos.py"
    spec = importlib.util.spec_from_file_location("make_videos", path)
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    sys.modules["make_videos"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture(autouse=True)
def openmp_threads() -> Iterator[None]:
    """No more of them than cores, where tests run in several processes: what the CPU gives is what is compared with."""
    before = torch.get_num_threads()
    torch.set_num_threads(max(available_cores() // int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1)), 1))
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A few small videos of each codec, in class folders."""
    folder = tmp_path_factory.mktemp("videos")
    _make_videos().write_dataset(folder, videos_per_class=2)
    return folder
