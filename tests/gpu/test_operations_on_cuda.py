"""Operations on CUDA: the same bits as on the CPU, on the current stream, without waiting for the GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args

import numpy as np
import pytest
import torch
from transforms.random_programs import KINDS, noise, photos, random_operation, random_programs, rotation

from videoloader.batching.rows import Layout
from videoloader.convert.spec import OutputSpec
from videoloader.errors import ConfigurationError
from videoloader.transforms.backends.apply import Program, apply_operations
from videoloader.transforms.operations import StatisticTable, Table, Warp

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

SIZES = [(1, 1), (2, 7), (37, 51), (64, 64), (70, 96), (241, 321)]
DTYPES = [torch.uint8, torch.float16, torch.bfloat16, torch.float32]


@pytest.fixture
def no_sync() -> Iterator[None]:
    """Waiting for the GPU is an error."""
    torch.cuda.set_sync_debug_mode("error")
    yield
    torch.cuda.set_sync_debug_mode("default")


def output_of(dtype: torch.dtype) -> OutputSpec:
    if dtype == torch.uint8:
        return OutputSpec()
    return OutputSpec(dtype, (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


def check(
    frames: torch.Tensor,
    programs: Sequence[Program],
    output: OutputSpec | None = None,
    layout: Layout = "TCHW",
) -> None:
    """CUDA gives the CPU's bits, and leaves the caller's frames alone."""
    on_gpu = frames.cuda()
    result = apply_operations(on_gpu, programs, output, layout)
    expected = apply_operations(frames, programs, output, layout)
    assert result.is_cuda
    assert result.is_contiguous()
    assert result.dtype == expected.dtype
    torch.testing.assert_close(result.cpu(), expected, rtol=0, atol=0)
    assert torch.equal(on_gpu.cpu(), frames)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("per_frame", [False, True])
def test_each_operation(kind: str, size: tuple[int, int], per_frame: bool) -> None:
    rng = np.random.default_rng(0)
    for make in (noise, photos):
        check(make(3, 4, *size), [[random_operation(rng, kind, 4, size, per_frame)] for _ in range(3)])


@pytest.mark.parametrize("seed", range(60))
def test_random_programs(seed: int) -> None:
    rng = np.random.default_rng(1000 + seed)
    size, clips, length = SIZES[seed % len(SIZES)], int(rng.integers(1, 9)), int(rng.integers(1, 6))
    frames = (noise, photos)[seed % 2](clips, length, *size, seed)
    output = output_of(DTYPES[seed % 4])
    check(frames, random_programs(seed, clips, length, size), output, get_args(Layout)[seed % 3])


def test_a_large_batch() -> None:
    check(photos(96, 8, 48, 64), random_programs(5, 96, 8, (48, 64)), output_of(torch.float16), "CTHW")


def test_frames_of_many_pixels() -> None:
    check(photos(2, 2, 1081, 1921), random_programs(11, 2, 2, (1081, 1921)), output_of(torch.float32))


@pytest.mark.parametrize("statistic", ["contrast", "auto_contrast", "equalize"])
@pytest.mark.parametrize("value", [0, 7, 255])
def test_statistics_of_one_color(statistic: str, value: int) -> None:
    frames = torch.full((1, 3, 3, 40, 50), value, dtype=torch.uint8)
    check(frames, [[StatisticTable(statistic, np.float32([0.3]), False)]])  # type: ignore[arg-type]


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear", "bicubic"])
def test_warps_to_another_size(interpolation: str) -> None:
    frames = photos(3, 2, 60, 91)
    programs = []
    for degrees in (0, 20, -100):
        scale = np.diag([91 / 45, 60 / 33, 1])
        warp = Warp((rotation(60, 91, degrees) @ scale)[None], (33, 45), interpolation, (1, 2, 3), (2, 2))  # type: ignore[arg-type]
        programs.append([warp])
    check(frames, programs, output_of(torch.float32), "THWC")
    with pytest.raises(ConfigurationError, match="sizes"):
        apply_operations(frames.cuda(), [programs[0], programs[1], []])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("layout", get_args(Layout))
@pytest.mark.parametrize("size", [(16, 16), (5, 7)])
def test_finish(dtype: torch.dtype, layout: Layout, size: tuple[int, int]) -> None:
    frames = noise(2, 3, *size)
    expected = apply_operations(frames, [(), ()], output_of(dtype), layout)
    assert torch.equal(apply_operations(frames.cuda(), [(), ()], output_of(dtype), layout).cpu(), expected)


def test_frames_that_do_not_start_at_an_even_address() -> None:
    memory = torch.empty(1 + 2 * 3 * 16 * 16, dtype=torch.uint8, device="cuda")
    frames = memory[1:].view(1, 2, 3, 16, 16)
    frames.copy_(noise(1, 2, 16, 16))
    table = Table(np.arange(255, -1, -1, np.uint8)[None, None].repeat(3, 1).copy())
    assert torch.equal(apply_operations(frames, [[table]]), 255 - frames)


def test_the_host_never_waits(no_sync: None) -> None:
    frames = photos(4, 3, 32, 32).pin_memory().cuda(non_blocking=True)
    for seed in range(10):
        apply_operations(frames, random_programs(seed, 4, 3, (32, 32)), output_of(torch.float16))


def test_work_goes_to_the_current_stream_in_order() -> None:
    """Frames that are written late on a stream, and a result that is read at once on it."""
    frames, programs = photos(8, 8, 128, 128), random_programs(3, 8, 8, (128, 128))
    expected = apply_operations(frames, programs)
    pinned, stream = frames.pin_memory(), torch.cuda.Stream()
    on_gpu, copy = torch.zeros_like(frames, device="cuda"), torch.empty_like(expected).pin_memory()
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(2_000_000_000)  # about a second
        on_gpu.copy_(pinned, non_blocking=True)
        for _ in range(20):  # memory is used again while the GPU is far behind
            copy.copy_(apply_operations(on_gpu, programs), non_blocking=True)
            apply_operations(on_gpu, random_programs(4, 8, 8, (128, 128)))
        assert not stream.query()
    stream.synchronize()
    assert torch.equal(copy, expected)
