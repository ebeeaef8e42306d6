"""Module and PythonFunction: their inputs, allowed results, and randomness that depends on the clips alone."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from transforms.applying import info, painted, together

from videoloader.errors import ConfigurationError
from videoloader.transforms.compose import Compose
from videoloader.transforms.modules import Module, PythonFunction
from videoloader.transforms.normalize import Normalize, ToFloat
from videoloader.transforms.planning.pipeline import arrange_transforms

Frames = npt.NDArray[np.uint8]
VIEWS = ["clip", "batch", "frames"]


class Brighten(torch.nn.Module):
    """Adds a random number to each clip, or batch, and remembers what it got."""

    def __init__(self) -> None:
        super().__init__()
        self.got: list[tuple[torch.Size, torch.dtype]] = []

    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        self.got.append((frames.shape, frames.dtype))
        if frames.dtype == torch.uint8:
            return frames // 2 + torch.rand(()).mul(100).to(torch.uint8)
        return frames / 2 + torch.rand(()) * 0.4


def run(step: Module | PythonFunction, frames: torch.Tensor, seed: int = 0) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    return together([step.draw(rng, info(frames))[0] for _ in frames], frames)


@pytest.mark.parametrize(
    ("view", "shape", "calls"),
    [("clip", (3, 3, 20, 27), 2), ("batch", (2, 3, 3, 20, 27), 1), ("frames", (6, 3, 20, 27), 1)],
)
@pytest.mark.parametrize(("values", "dtype"), [("uint8", torch.uint8), ("float", torch.float32)])
def test_a_module_gets_the_view_it_wants(view: Any, shape: Any, calls: int, values: Any, dtype: torch.dtype) -> None:
    module = Brighten()
    result = run(Module(module, view=view, values=values), painted())
    assert module.got == [(torch.Size(shape), dtype)] * calls
    assert result.shape == painted().shape
    assert result.dtype == torch.uint8


@pytest.mark.parametrize("view", VIEWS)
def test_floats_are_zero_to_one_and_rounded_again(view: Any) -> None:
    frames = painted()
    assert torch.equal(run(Module(torch.nn.Identity(), view=view, values="float"), frames), frames)
    halved = run(Module(lambda x: (x * 0.5 - 0.1).clamp(0, 1), view=view, values="float"), frames)
    assert (halved.double() - (frames.double() / 2 - 25.5).clamp(min=0)).abs().max() <= 0.5001


@pytest.mark.parametrize("view", VIEWS)
def test_randomness_is_the_clips_own(view: Any) -> None:
    frames = painted(clips=3)
    state = torch.get_rng_state()
    first = run(Module(Brighten(), view=view), frames)
    assert torch.equal(torch.get_rng_state(), state)
    torch.rand(100)
    assert torch.equal(run(pickle.loads(pickle.dumps(Module(Brighten(), view=view))), frames), first)
    assert not torch.equal(run(Module(Brighten(), view=view), frames, seed=1), first)


def test_by_clip_the_others_of_the_batch_do_not_matter() -> None:
    frames, step = painted(clips=3), Module(Brighten(), view="clip")
    operations = [step.draw(np.random.default_rng(seed), info(frames))[0] for seed in range(3)]
    whole = together(operations, frames)
    assert torch.equal(together(operations[1:2], frames[1:2]), whole[1:2])
    added = whole.int() - frames.int() // 2
    assert len({tuple(clip.unique().tolist()) for clip in added}) == 3  # another number for each


def test_transforms_of_torchvision_get_clips(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Brighten, "__module__", "torchvision.transforms.v2._color")
    for module in (Brighten(), torch.nn.Sequential(Brighten(), Brighten())):
        step = Module(module)
        assert (step.view, step.values) == ("clip", "uint8")
    assert Module(Brighten(), view="batch").view == "batch"
    plain = Module(torch.nn.Sequential(Brighten(), torch.nn.Identity()))
    assert (plain.view, plain.values) == ("frames", "uint8")


def test_transforms_of_torchvision_are_the_same_for_all_frames_of_a_clip() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    frames = painted(length=1, clips=3).expand(-1, 4, -1, -1, -1).clone()
    jittered = run(Module(torch.nn.Sequential(v2.ColorJitter(0.5, 0.5), v2.RandomAffine(20))), frames)
    assert torch.equal(jittered, jittered[:, :1].expand_as(jittered))
    assert not torch.equal(jittered, frames)


def test_transforms_of_kornia_are_the_same_for_all_frames_of_a_clip() -> None:
    augmentation = pytest.importorskip("kornia.augmentation")
    frames = painted(length=1, clips=3).expand(-1, 4, -1, -1, -1).clone()
    frames[1:] = frames[:1]
    modules = [
        augmentation.RandomAffine(30.0, p=1.0),
        torch.nn.Sequential(augmentation.ColorJitter(0.5, 0.5, p=1.0), augmentation.RandomHorizontalFlip()),
        augmentation.VideoSequential(augmentation.RandomAffine(30.0, p=1.0), data_format="BTCHW"),
    ]
    for module in modules:
        step = Module(module)
        assert (step.view, step.values) == ("batch", "float")
        turned = run(step, frames)
        assert torch.equal(turned, turned[:, :1].expand_as(turned))
        assert not torch.equal(turned[0], turned[1])
        assert torch.equal(run(step, frames), turned)


@pytest.mark.parametrize("layout", ["TCHW", "CTHW", "THWC"])
@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_after_normalize_floats_come_as_they_are_in_any_layout(layout: str, view: Any, dtype: torch.dtype) -> None:
    normalised = (painted().to(dtype) - 100) / 50
    order = [0, *(1 + "TCHW".index(axis) for axis in layout)]
    smaller = Module(lambda x: x[..., 1:, ::3] * 2, view=view)
    result = smaller.in_layout(normalised.permute(order).contiguous(), layout, np.array([1, 2]))
    expected = (normalised[..., 1:, ::3] * 2).permute(order)
    assert result.dtype == dtype
    assert torch.equal(result, expected)


def test_no_gradients_are_recorded() -> None:
    convolution = torch.nn.Conv2d(3, 3, 3, padding=1)
    assert not Module(convolution).in_layout(painted().float(), "TCHW", np.zeros(2, np.int64)).requires_grad


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x: x[:1], r"<lambda> made \[1, 3, 20, 27\] of frames \[2, 3, 3, 20, 27\]"),
        (lambda x: x[:, :2], r"<lambda> made \[2, 3, 2, 20, 27\]"),
        (lambda x: x.int(), "<lambda> made torch.int32 of torch.uint8"),
        (lambda x: [x], "<lambda> gave list, not a tensor"),
        (lambda x: torch.nested.nested_tensor(list(x)), "<lambda> gave Tensor, not a tensor of frames"),
        (lambda x: x.to_sparse(), "<lambda> gave a torch.sparse_coo tensor on cpu, without pixels"),
        (lambda x: x.to("meta"), "<lambda> gave a torch.strided tensor on meta, without pixels"),
    ],
)
def test_a_module_that_gives_something_else_is_refused(function: Callable[..., Any], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run(Module(function), painted())


def test_a_module_that_gives_clips_of_several_sizes_is_refused() -> None:
    sizes = iter((20, 8))
    with pytest.raises(ConfigurationError, match=r"gave clips of several shapes or types: .*20, 27\] and .*8, 27"):
        run(Module(lambda clip: clip[..., : next(sizes), :], view="clip"), painted())


def test_a_module_that_gives_other_channels_is_sent_to_the_batch() -> None:
    compose = Compose([Normalize(), torch.nn.Conv2d(3, 8, 3, padding=1)])
    with pytest.raises(
        ConfigurationError, match=r"Conv2d made \[1, 2, 8, .*: frames keep their three channels, so call"
    ):
        compose(painted()[0, :2])


@pytest.mark.parametrize(("function", "warned"), [(lambda x: x.clamp(0, 1), 1), (lambda x: x * 0, 0), (lambda x: x, 0)])
def test_pixels_that_are_clamped_to_0_and_1_are_warned_of_once(function: Callable[..., Any], warned: int) -> None:
    module = Module(function)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        for _ in range(2):
            run(module, painted())
    told = [str(each.message) for each in found]
    assert len(told) == warned
    assert all("made uint8 of 0 and 1 only out of uint8 of 0 … 255" in each for each in told)


def normalised(frames: torch.Tensor) -> torch.Tensor:
    return (frames / 255 - 0.45) / 0.225


@pytest.mark.parametrize(
    ("function", "values", "message"),
    [
        (normalised, "uint8", "normalised made floats in -1.* of uint8, whose scale it must keep: put vl.ToFloat"),
        (lambda x: x.float(), "uint8", r"made floats in .* … 2\d\d of uint8, .* or round to uint8 in it"),
        (lambda x: x / 255, "uint8", "made floats in .* of uint8"),
        (lambda x: (x - 0.45) / 0.225, "float", r"made floats in -1.* of floats in \[0, 1\], .* clamp to \[0, 1\]"),
        (lambda x: x * 255, "float", r"made floats in .* of floats in \[0, 1\]"),
        (lambda x: x + float("nan"), "float", "made floats in nan … nan"),
    ],
)
@pytest.mark.parametrize("view", VIEWS)
def test_another_scale_of_pixels_is_refused(function: Any, values: Any, view: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run(Module(function, view=view, values=values), painted())


def test_what_leaves_the_scale_later_on_is_clamped() -> None:
    """Looking waits for a GPU, and a few values that are too large are no reason to end a training of days."""
    by = [0.0] * 4
    module = Module(lambda x: x + by[0], values="float")
    for _ in range(4):
        assert torch.equal(run(module, painted()), painted())
    by[0] = 2.0
    assert (run(module, painted()) == 255).all()


def torchvisions(name: str, **attributes: Any) -> torch.nn.Module:
    module: torch.nn.Module = type(name, (torch.nn.Identity,), {"__module__": "torchvision.transforms.v2"})()
    for attribute, value in attributes.items():
        setattr(module, attribute, value)
    return module


@pytest.mark.parametrize("wrap", [lambda x: x, torch.nn.Sequential, lambda x: torchvisions("Compose", transforms=[x])])
def test_known_modules_that_change_the_scale_are_refused_at_once(wrap: Any) -> None:
    for name, instead in (("Normalize", r"vl.Normalize\(mean, std\)"), ("ToDtype", r"vl.ToFloat\(\)")):
        module = wrap(torchvisions(name, dtype=torch.float32))
        with pytest.raises(ConfigurationError, match=f"torchvision's {name} makes floats .* write {instead} in its"):
            arrange_transforms([module])
        arrange_transforms([ToFloat(), module])
    arrange_transforms([wrap(torchvisions("ToDtype", dtype=torch.uint8))])


@pytest.mark.parametrize("function", [lambda x: x[..., 2:-2, 2:-2], lambda x: x.movedim(-3, 0)])
def test_another_shape_is_told_what_to_write(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=r'use vl.CenterCrop or vl.Resize, or put it after.*layout="CTHW"'):
        run(Module(function, view="clip"), painted(length=4))


def invert(frames: Frames, rng: np.random.Generator) -> Frames:
    return 255 - frames


def shade(frames: Frames, rng: np.random.Generator) -> Frames:
    frames //= 2  # in place
    frames += rng.integers(100, dtype=np.uint8)
    return frames


@pytest.mark.parametrize("per", ["clip", "batch"])
def test_a_python_function_gets_arrays(per: Any) -> None:
    frames = painted()
    assert torch.equal(run(PythonFunction(invert, per=per), frames), 255 - frames)


@pytest.mark.parametrize("per", ["clip", "batch"])
def test_a_python_functions_randomness_is_the_clips_own(per: Any) -> None:
    frames, step = painted(clips=3), PythonFunction(shade, per=per)
    first = run(step, frames)
    assert torch.equal(run(pickle.loads(pickle.dumps(step)), frames), first)
    assert not torch.equal(run(step, frames, seed=1), first)
    added = {tuple(clip.unique().tolist()) for clip in first.int() - frames.int() // 2}
    assert len(added) == (3 if per == "clip" else 1)


def test_a_python_function_may_raise() -> None:
    def broken(frames: Frames, rng: np.random.Generator) -> Frames:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        run(PythonFunction(broken), painted())


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (lambda x, rng: x[:, :1], r"<lambda> gave uint8 of shape \(3, 1, 20, 27\) for uint8 of shape \(3, 3, 20, 27\)"),
        (lambda x, rng: x / 2, "<lambda> gave float64"),
        (lambda x, rng: None, "<lambda> gave None"),
        (lambda x, rng: [[1], [2, 3]], "<lambda> gave .* for uint8"),
        (lambda x, rng: torch.from_numpy(x).float().requires_grad_(), "<lambda> gave tensor.* for uint8"),
        (lambda x, rng: torch.from_numpy(x).bfloat16(), "<lambda> gave tensor.* for uint8"),
    ],
)
def test_a_python_function_that_gives_something_else_is_refused(function: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        run(PythonFunction(function), painted())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Module(3), "Module's module is 3, which cannot be called"),
        (lambda: Module(abs, view="video"), "Module's view must be one of clip, batch, frames, got 'video'"),
        (lambda: Module(abs, values="half"), "Module's values must be one of uint8, float, got 'half'"),
        (lambda: PythonFunction(None), "PythonFunction's function is None"),
        (lambda: PythonFunction(abs, per="frame"), "PythonFunction's per must be one of clip, batch, got 'frame'"),
    ],
)
def test_bad_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
