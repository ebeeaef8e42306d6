"""Letterbox, Pad and PadToMultiple: the position of the picture, and its border."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from planned_geometry import plan_geometry

import videoloader as vl
from videoloader.transforms import Transform

Sample = Callable[[str], Path]
NUMPY = {"edge": "edge", "reflect_101": "reflect", "symmetric": "symmetric", "loop": "wrap"}
sizes = st.tuples(st.integers(1, 700), st.integers(1, 700))
rng = np.random.default_rng(0)


def batch_through(path: Path, transforms: Sequence[Transform], **settings: object) -> vl.Batch:
    data = vl.VideoDataset.from_paths([path])
    mode = vl.FrameList([7, 100, 7], pad="constant")
    return next(iter(vl.VideoLoader(data, mode, batch_size=1, device="cpu", transforms=transforms, **settings)))


def resized(frame: torch.Tensor, size: tuple[int, int]) -> torch.Tensor:
    return torch.nn.functional.interpolate(frame[None], size, mode="bilinear", antialias=True)[0]


def padded(frame: torch.Tensor, box: Sequence[int], size: tuple[int, int], mode: str, **values: int) -> torch.Tensor:
    top, left, height, width = box
    margins = ((0, 0), (top, size[0] - top - height), (left, size[1] - left - width))
    return torch.from_numpy(np.pad(frame.numpy(), margins, mode, **values))


@given(sizes, sizes, st.sampled_from(["center", "top_left"]))
@example((326, 220), (266, 180), "center")
def test_a_letterbox_is_as_large_as_fits_and_keeps_the_aspect_ratio(
    shown: tuple[int, int], size: tuple[int, int], position: str
) -> None:
    geometry = plan_geometry([vl.Letterbox(size, position=position)], shown, rng)
    height, width = geometry.picture_size
    assert geometry.output_size == size
    # One side is exact, and the other one within half a pixel, unless nothing would be left of it.
    fills_height = height == size[0] and (abs(width - shown[1] * height / shown[0]) <= 0.5 or width == 1)
    fills_width = width == size[1] and (abs(height - shown[0] * width / shown[1]) <= 0.5 or height == 1)
    assert fills_height or fills_width
    border = geometry.border
    assert border is not None
    if position == "center":
        assert border.bottom - border.top in (0, 1)
        assert border.right - border.left in (0, 1)
    else:
        assert (border.top, border.left) == (0, 0)


@given(sizes, st.integers(1, 64), st.integers(1, 64))
def test_frames_are_padded_to_the_next_multiple(shown: tuple[int, int], down: int, across: int) -> None:
    geometry = plan_geometry([vl.PadToMultiple((down, across))], shown, rng)
    for before, after, multiple in zip(shown, geometry.output_size, (down, across), strict=True):
        assert after % multiple == 0
        assert 0 <= after - before < multiple
    assert geometry.picture_size == shown


@pytest.mark.parametrize("mode", NUMPY)
@pytest.mark.parametrize("layout", ["TCHW", "THWC"])
def test_pixels_are_those_of_the_steps_one_by_one(sample: Sample, mode: str, layout: str) -> None:
    path = sample("h264_mp4")
    frame = vl.Video(path, device="cpu")[7]  # 128 rows of 160
    small = resized(frame, (51, 64))
    steps: list[tuple[list[Transform], torch.Tensor, tuple[int, int, int, int], tuple[int, int]]] = [
        ([vl.Letterbox(64, mode=mode)], small, (6, 0, 51, 64), (64, 64)),
        ([vl.Letterbox((51, 400), mode=mode)], small, (0, 168, 51, 64), (51, 400)),
        ([vl.Pad((200, 163), mode=mode)], frame, (0, 0, 128, 160), (200, 163)),
        ([vl.Pad((131, 165), mode=mode, position="center")], frame, (1, 2, 128, 160), (131, 165)),
        ([vl.CenterCrop(100), vl.PadToMultiple(32, mode=mode)], frame[:, 14:114, 30:130], (0, 0, 100, 100), (128, 128)),
        ([vl.RandomHorizontalFlip(1), vl.PadToMultiple(48, mode=mode)], frame.flip(2), (0, 0, 128, 160), (144, 192)),
    ]
    for transforms, picture, box, size in steps:
        batch = batch_through(path, transforms, layout=layout, fill_value=9)
        frames = batch.frames[0] if layout == "TCHW" else batch.frames[0].permute(0, 3, 1, 2)
        assert batch.boxes.tolist() == [list(box)]
        assert frames.shape[-2:] == size
        expected = padded(picture, box, size, NUMPY[mode])
        assert (frames[0].int() - expected.int()).abs().max() <= 1, transforms
        # What is padded is the output, bit for bit.
        top, left, height, width = box
        inner = frames[0, :, top : top + height, left : left + width]
        assert torch.equal(frames[0], padded(inner, box, size, NUMPY[mode])), transforms
        assert torch.equal(frames[2], frames[0])
        assert (frames[1] == 9).all()


def test_a_constant_border_is_a_colour_whatever_the_output(sample: Sample) -> None:
    normalize = vl.Normalize((0.5, 0.4, 0.3), (0.25, 0.5, 1.0))
    box, fill = [14, 0, 128, 160], (255, 127.5, 10)
    steps = [vl.Pad((156, 160), fill=fill, position="center"), normalize]
    batch = batch_through(sample("h264_mp4"), steps, dtype="float32", fill_value=51)
    (frames,), expected = (
        batch.frames,
        (torch.tensor(fill) / 255 - torch.tensor(normalize.mean)) / torch.tensor(normalize.std),
    )
    assert batch.boxes.tolist() == [box]
    for part in (frames[:, :, :14], frames[:, :, 142:]):
        assert torch.allclose(part, expected[:, None, None].expand_as(part), atol=1e-6)
    plain = batch_through(sample("h264_mp4"), [normalize], dtype="float32", fill_value=51).frames[0]
    # Frames of constant padding are frames of the video: they have a border, too.
    assert torch.equal(frames[:, :, 14:142], plain)


def test_a_flip_after_padding_turns_the_border_as_well(sample: Sample) -> None:
    path = sample("h264_mp4")
    pad = vl.Pad((128, 200), mode="reflect_101")
    plain, flipped = batch_through(path, [pad]), batch_through(path, [pad, vl.RandomHorizontalFlip(1)])
    assert flipped.boxes.tolist() == [[0, 40, 128, 160]]
    assert torch.equal(flipped.frames, plain.frames.flip(-1))


@pytest.mark.parametrize(
    "make",
    [
        lambda: vl.Letterbox(0),
        lambda: vl.Letterbox(8, mode="none"),
        lambda: vl.Letterbox(8, mode="mirror"),
        lambda: vl.Letterbox(8, interpolation="lanczos"),
        lambda: vl.Letterbox(8, position="bottom"),
        lambda: vl.Pad((8, 0)),
        lambda: vl.Pad(8, fill=(1, 2)),
        lambda: vl.PadToMultiple(-32),
        lambda: vl.PadToMultiple(32, fill=300),
    ],
)
def test_bad_parameters_are_refused_when_the_transform_is_made(make: Callable[[], Transform]) -> None:
    with pytest.raises(vl.ConfigurationError):
        make()


@pytest.mark.parametrize(
    "late", [vl.Resize(8), vl.CenterCrop(8), vl.RandomResizedCrop(8), vl.Pad(640), vl.Letterbox(8)]
)
def test_after_a_border_frames_are_resampled_once_more_if_it_is_a_colour(sample: Sample, late: Transform) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4")])
    settings = {"batch_size": 1, "device": "cpu"}
    first = [vl.Resize((100, 100)), vl.PadToMultiple(32)]
    (batch,) = vl.VideoLoader(data, vl.FrameList([0]), transforms=[*first, late], **settings)
    size = 640 if isinstance(late, vl.Pad) else 8
    assert batch.frames.shape[-2:] == (size, size)
    with pytest.raises(vl.ConfigurationError, match="must have mode='constant'"):
        vl.VideoLoader(data, vl.FrameList([0]), transforms=[*first, vl.Pad(640, mode="edge"), late], **settings)


def test_frames_larger_than_what_they_are_padded_to_are_refused() -> None:
    with pytest.raises(vl.ConfigurationError, match="100×50 do not fit into 99×60"):
        plan_geometry([vl.Pad((99, 60))], (100, 50), rng)
