"""Frames on a GPU as CuPy's arrays: the same memory, complete, and not taken away too early."""

from __future__ import annotations

import pytest
import torch

from videoloader.interop.arrays import to_cupy

pytestmark = pytest.mark.gpu
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)
cupy = pytest.importorskip("cupy")
SIZE = 1 << 22


@pytest.mark.parametrize("own_stream", [False, True])
def test_cupy_waits_for_torch_and_keeps_the_memory(own_stream: bool) -> None:
    stream = cupy.cuda.Stream(non_blocking=True) if own_stream else cupy.cuda.Stream.null
    for number in range(20):
        tensor = torch.zeros(SIZE, dtype=torch.int32, device="cuda")
        torch.cuda._sleep(10_000_000)
        tensor += number
        with stream:
            array = to_cupy(tensor)
            assert array.data.ptr == tensor.data_ptr()
            summed = array.astype(cupy.int64).sum()
        del tensor, array
        overwritten = torch.full((SIZE,), -1, dtype=torch.int32, device="cuda")
        stream.synchronize()
        assert int(summed) == number * SIZE
        del overwritten
