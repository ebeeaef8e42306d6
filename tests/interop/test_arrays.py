"""Frames as arrays of other frameworks share memory instead of being copied."""

from __future__ import annotations

import importlib.util
import textwrap
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from forked_programs import run_program

import videoloader as vl
from videoloader.interop.arrays import to_cupy


def frames_of(path: Path, dtype: str) -> torch.Tensor:
    data = vl.VideoDataset.from_paths([path])
    loader = vl.VideoLoader(data, vl.EveryWindow(4, step=20), batch_size=2, device="cpu", dtype=dtype)
    frames: torch.Tensor = next(iter(loader)).frames
    return frames


@pytest.mark.parametrize("dtype", ["uint8", "float16", "float32"])
def test_numpy(sample: Callable[[str], Path], dtype: str) -> None:
    frames = frames_of(sample("h264_mp4"), dtype)
    for array in (frames.numpy(), np.from_dlpack(frames)):
        assert array.ctypes.data == frames.data_ptr()
        assert array.shape == (2, 4, 3, 128, 160)
        assert array.dtype == dtype


IN_JAX = """
import jax
array = jax.dlpack.from_dlpack(frames)
assert array.unsafe_buffer_pointer() == frames.data_ptr()
assert (array.shape, str(array.dtype)) == (tuple(frames.shape), dtype)
assert np.array_equal(np.asarray(array.astype("float32")), frames.float().numpy())
"""
IN_TENSORFLOW = """
import tensorflow
tensor = to_tensorflow(frames)
assert torch.from_dlpack(tensorflow.experimental.dlpack.to_dlpack(tensor)).data_ptr() == frames.data_ptr()
assert (tuple(tensor.shape), tensor.dtype.name) == (tuple(frames.shape), dtype)
assert np.array_equal(tensorflow.cast(tensor, "float32").numpy(), frames.float().numpy())
"""
BATCHES = """
import sys
import numpy as np, torch
import videoloader as vl
from videoloader.interop.arrays import to_tensorflow
data = vl.VideoDataset.from_paths([sys.argv[1]])
for layout in ("TCHW", "CTHW", "THWC"):
    for dtype in ("uint8", "float16", "bfloat16", "float32"):
        settings = {"batch_size": 2, "device": "cpu", "dtype": dtype, "layout": layout}
        frames = next(iter(vl.VideoLoader(data, vl.EveryWindow(4, step=20), **settings))).frames
"""


@pytest.mark.parametrize(("package", "use"), [("jax", IN_JAX), ("tensorflow", IN_TENSORFLOW)])
def test_other_frameworks(sample: Callable[[str], Path], tmp_path: Path, package: str, use: str) -> None:
    """In a process of their own: their threads would make forks of this one unsafe."""
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"needs {package}")
    script = BATCHES + textwrap.indent(use, " " * 8)
    done = run_program(script, sample("h264_mp4"), cwd=tmp_path)
    assert done.returncode == 0, done.stderr


def test_cupy_has_no_arrays_on_the_cpu(sample: Callable[[str], Path]) -> None:
    with pytest.raises(vl.ConfigurationError, match="'cpu'"):
        to_cupy(frames_of(sample("h264_mp4"), "uint8"))
