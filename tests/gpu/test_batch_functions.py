"""Functions of batches, mixing and modules on a GPU: the pixels of the CPU, without waiting for the GPU."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from transforms.applying import info, painted, together

from videoloader.transforms.backends import parts
from videoloader.transforms.color_spaces import ConvertColor
from videoloader.transforms.compression import JpegCompression
from videoloader.transforms.curves import Linear
from videoloader.transforms.erasing import GridMask, RandomErasing
from videoloader.transforms.filters import GaussianBlur, Laplacian
from videoloader.transforms.mixing import CutMix, MixUp, VideoMix
from videoloader.transforms.modules import Module, PythonFunction
from videoloader.transforms.noise import GaussianNoise, SaltAndPepper
from videoloader.transforms.operations import BatchFunction

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs an NVIDIA GPU"),
]

# How far the CPU's pixels may lie from the GPU's, 0 where all is done in whole numbers.
FUNCTIONS: list[tuple[Any, int]] = [
    (GaussianBlur(3), 1), (GaussianBlur((23, 5), Linear(0.1, 4)), 1),
    (Laplacian(), 1), (Laplacian(7, Linear(-2, 2)), 1),
    (GaussianNoise(), 1), (GaussianNoise(Linear(-9, 9), 40, per_frame=False), 1),
    (SaltAndPepper(Linear(0, 0.5)), 0), (SaltAndPepper(0.3, per_channel=True), 0),
    (RandomErasing(1.0, value="random"), 0), (GridMask((5, 40), (0.2, 0.8), (0, 360), fill=(1, 2, 3)), 0),
    (JpegCompression((1, 100)), 0), (JpegCompression(Linear(5, 95), chroma="4:4:4"), 0),
    (ConvertColor("rgb", "hsv"), 0), (ConvertColor("hsv", "rgb"), 0),
]  # fmt: skip


@contextmanager
def no_waiting() -> Iterator[None]:
    """Any call that makes the host wait for the GPU raises."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


@contextmanager
def tf32_allowed(allowed: bool) -> Iterator[None]:
    """Matrix products and convolutions may, or must not, round to TF32."""
    # PyTorch answers for these names without having them as attributes, so pytest's monkeypatch cannot put them back.
    backends = (torch.backends.cuda.matmul, torch.backends.cudnn)
    before = [backend.allow_tf32 for backend in backends]
    for backend in backends:
        backend.allow_tf32 = allowed
    try:
        yield
    finally:
        for backend, value in zip(backends, before, strict=True):
            backend.allow_tf32 = value


def drawn(step: Any, frames: torch.Tensor) -> list[BatchFunction]:
    return [step.draw(np.random.default_rng(seed), info(frames))[0] for seed in range(len(frames))]


@pytest.mark.parametrize(("step", "tolerance"), FUNCTIONS)
@pytest.mark.parametrize("size", [(224, 224), (37, 51), (1, 1)])
@pytest.mark.parametrize("tf32", [False, True])
def test_pixels_are_those_of_the_cpu(step: Any, tolerance: int, size: tuple[int, int], tf32: bool) -> None:
    frames = painted(clips=3, length=4, height=size[0], width=size[1])
    operations = drawn(step, frames)
    with tf32_allowed(tf32):
        on_gpu = together(operations, frames.cuda()).cpu()
    difference = (on_gpu.int() - together(operations, frames).int()).abs()
    assert difference.max() <= tolerance
    assert (difference > 0).sum() <= 2 + 0.01 * difference.numel()


@pytest.mark.parametrize(("step", "tolerance"), FUNCTIONS)
def test_nothing_waits_for_the_gpu(step: Any, tolerance: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_PART", 100_000)
    frames = painted(clips=3, length=4, height=64, width=64)
    operations, on_gpu = drawn(step, frames), frames.cuda()
    together(operations, on_gpu)  # what is set up once may wait
    with no_waiting():
        together(operations, on_gpu)


@pytest.mark.parametrize(
    "step",
    [MixUp(0.8, 400, label_smoothing=0.1), CutMix(1.0, 400), VideoMix(1.0, 400, cut="spatio_temporal")],
)
@pytest.mark.parametrize("layout", ["TCHW", "CTHW", "THWC"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
def test_mixing_is_that_of_the_cpu_and_waits_for_nothing(step: Any, layout: Any, dtype: torch.dtype) -> None:
    order = [0, *(1 + "TCHW".index(axis) for axis in layout)]
    frames = painted(clips=4).permute(order).contiguous().to(dtype)
    labels = np.array([3, 399, 0, 3])
    expected, soft = step.mix(frames.clone(), labels, layout, np.random.default_rng(5))
    on_gpu = frames.cuda()
    step.mix(on_gpu.clone(), labels, layout, np.random.default_rng(5))
    with no_waiting():
        mixed, soft_on_gpu = step.mix(on_gpu, labels, layout, np.random.default_rng(5))
    assert mixed is on_gpu
    tolerance = {torch.uint8: 1, torch.float16: 0.125, torch.float32: 1e-4}[dtype]
    assert (mixed.cpu().double() - expected.double()).abs().max() <= tolerance
    assert torch.allclose(soft_on_gpu.cpu(), soft)


@pytest.mark.parametrize("view", ["clip", "batch", "frames"])
def test_a_modules_randomness_on_the_gpu_is_the_clips_own(view: Any) -> None:
    def noisy(frames: torch.Tensor) -> torch.Tensor:
        return (frames + torch.randn_like(frames) * 0.1 + torch.rand(()).item() * 0.1).clamp(0, 1)

    frames = painted(clips=3).cuda()
    step = Module(noisy, view=view, values="float")
    state, on_gpu = torch.get_rng_state(), torch.cuda.get_rng_state()
    first = together(drawn(step, frames), frames)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(torch.cuda.get_rng_state(), on_gpu)
    torch.rand(10, device="cuda")
    assert torch.equal(together(drawn(step, frames), frames), first)
    assert not torch.equal(first, frames)


@pytest.mark.parametrize("per", ["clip", "batch"])
def test_a_python_function_gets_frames_that_have_arrived(per: Any) -> None:
    def inverted(frames: npt.NDArray[np.uint8], rng: np.random.Generator) -> npt.NDArray[np.uint8]:
        time.sleep(0.002)
        return 255 - frames

    frames = painted(clips=8, length=8, height=224, width=224)
    step = PythonFunction(inverted, per=per)
    for _ in range(5):
        # The frames are made, and used, by kernels that are still running when the function is called and has returned.
        made = frames.cuda().float()
        for _ in range(20):
            made = (made * 2 - 100).add(100).div(2)
        result = together(drawn(step, frames), made.round().to(torch.uint8)) ^ 255
        assert torch.equal(result.cpu(), frames)


def test_a_python_function_works_on_the_callers_stream() -> None:
    frames = painted(clips=4, length=4, height=64, width=64)
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        on_gpu = frames.cuda()
        result = together(drawn(PythonFunction(lambda x, rng: x[..., ::-1].copy()), frames), on_gpu)
    stream.synchronize()
    assert torch.equal(result.cpu(), frames.flip(-1))
