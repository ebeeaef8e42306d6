"""Points of the output map back to the video, whatever the transforms."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from helpers.converting import convert_frame
from hypothesis import given
from hypothesis import strategies as st
from planned_geometry import plan_geometry

import videoloader as vl
from videoloader.convert.spec import ColorSpec, Geometry, OutputSpec
from videoloader.transforms import RandomVerticalFlip, Transform
from videoloader.transforms.curves import Linear
from videoloader.transforms.geometry.coordinates import map_points, picture_box
from videoloader.transforms.geometry.source_matrix import source_matrix, stack_matrices
from videoloader.transforms.warps import Rotate

Sample = Callable[[str], Path]
SHOWN = (120, 160)

cuts = st.one_of(
    st.builds(vl.Resize, st.tuples(st.integers(70, 200), st.integers(70, 200))),
    st.builds(vl.Resize, st.integers(70, 200)),
    st.builds(vl.CenterCrop, st.tuples(st.integers(40, 70), st.integers(40, 70))),
    st.builds(vl.RandomResizedCrop, st.integers(70, 150), scale=st.just((0.4, 1.0))),
    st.builds(vl.RandomHorizontalFlip, st.sampled_from([0.0, 1.0])),
    st.builds(RandomVerticalFlip, st.sampled_from([0.0, 1.0])),
)
borders = st.one_of(
    st.builds(vl.Letterbox, st.tuples(st.integers(60, 250), st.integers(60, 250))),
    st.builds(vl.Pad, st.just(600), position=st.sampled_from(["center", "top_left"])),
    st.builds(vl.PadToMultiple, st.integers(1, 64), position=st.sampled_from(["center", "top_left"])),
)


@st.composite
def geometries(draw: st.DrawFn) -> Geometry:
    steps: list[Transform] = []
    # A crop may follow a crop only where it still fits.
    for step in draw(st.lists(cuts, max_size=4)):
        if not (isinstance(step, vl.CenterCrop) and any(isinstance(before, vl.CenterCrop) for before in steps)):
            steps.append(step)
    if draw(st.booleans()):
        steps += [draw(borders), vl.RandomHorizontalFlip(draw(st.sampled_from([0.0, 1.0])))]
    return plan_geometry(steps, SHOWN, np.random.default_rng(draw(st.integers(0, 2**32))))


def where_from(geometry: Geometry) -> torch.Tensor:
    """float[H, W, 2] of the picture: (x, y) in the video that each of its pixels was made from."""
    rows, columns = np.indices(SHOWN, np.uint8)
    frame = av.VideoFrame.from_ndarray(np.stack([columns, rows, rows], 2), format="rgb24")
    slot = torch.empty(3, *geometry.picture_size)
    convert_frame(frame, ColorSpec("identity", True), 0, False, geometry, OutputSpec(torch.float32), slot)
    return slot[:2].permute(1, 2, 0) * 255 + 0.5


@given(geometries())
def test_every_pixel_is_mapped_to_where_it_was_made_from(geometry: Geometry) -> None:
    top, left, height, width = picture_box(geometry)
    y, x = torch.meshgrid(torch.arange(height), torch.arange(width), indexing="ij")
    centres = torch.stack([x + left + 0.5, y + top + 0.5], 2)[None]
    mapped = map_points(centres, source_matrix(geometry))[0]
    # At the ends of the crop the resize has no neighbour to take the other half from.
    crop_top, crop_left, rows, columns = geometry.crop
    reach = torch.tensor([max(columns / geometry.size[1], 1), max(rows / geometry.size[0], 1)])
    low, high = torch.tensor([crop_left, crop_top]), torch.tensor([crop_left + columns, crop_top + rows])
    inside = (mapped > low + reach) & (mapped < high - reach)
    assert inside.any()
    error = (mapped - where_from(geometry)).abs()
    assert error[inside].max() < 0.6


@given(geometries())
def test_the_box_of_the_picture_is_that_of_what_it_shows(geometry: Geometry) -> None:
    top, left, height, width = picture_box(geometry)
    box = torch.tensor([[left, top, left + width, top + height]])
    mapped = map_points(box, source_matrix(geometry))[0].tolist()
    crop_top, crop_left, rows, columns = geometry.crop
    window = geometry.window or (0, 0, *geometry.size)
    down, across = rows / geometry.size[0], columns / geometry.size[1]
    expected = [
        crop_left + window[1] * across,
        crop_top + window[0] * down,
        crop_left + (window[1] + window[3]) * across,
        crop_top + (window[0] + window[2]) * down,
    ]
    assert mapped == pytest.approx(expected, abs=1e-3)


def test_predictions_of_a_batch_go_back_to_their_videos(sample: Sample) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4"), sample("hevc_mp4")])
    steps = [vl.RandomHorizontalFlip(1), vl.Letterbox(80)]  # 128 rows of 160 become 64 of 80, eight rows above
    loader = vl.VideoLoader(data, vl.FrameList([3]), batch_size=2, device="cpu", transforms=steps)
    (batch,) = loader
    assert batch.boxes.tolist() == [[8, 0, 64, 80]] * 2
    assert batch.source_matrix.tolist() == [[[-2, 0, 160], [0, 2, -16], [0, 0, 1]]] * 2
    points = torch.tensor([[[0.0, 8.0]], [[80.0, 72.0]]])
    assert batch.to_source(points).tolist() == [[[160, 0]], [[0, 128]]]
    boxes = torch.tensor([[10, 18, 30, 48]] * 3, dtype=torch.int64)
    mapped = batch.to_source(boxes, torch.tensor([1, 0, 1]))
    assert mapped.dtype == torch.float32
    assert mapped.tolist() == [[100, 20, 140, 80]] * 3
    assert batch.to_source(boxes.double(), [1, 0, 1]).dtype == torch.float64
    assert batch.to_source(torch.empty(0, 4), []).shape == (0, 4)
    # Elsewhere nothing looks at values, which a GPU would have to be waited for; meta tensors have none.
    assert batch.to_source(boxes.to("meta"), [1, 0, 1]).shape == boxes.shape
    for bad in (torch.zeros(3, 4), torch.zeros(2, 3), torch.zeros(2)):
        with pytest.raises(vl.ConfigurationError, match="points must be"):
            batch.to_source(bad)


def test_points_of_warped_frames_go_back_frame_by_frame(sample: Sample) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4"), sample("hevc_mp4")])
    steps = [vl.Resize((64, 80)), Rotate(Linear(-30, 30)), vl.CenterCrop(40), Rotate(90)]
    (batch,) = vl.VideoLoader(data, vl.FrameList([3, 4, 5]), batch_size=2, device="cpu", transforms=steps)
    assert batch.source_matrix.shape == (2, 3, 3, 3)
    middle = torch.full((2, 3, 5, 2), 20.0)
    # All turn about the middle, which stays where it is.
    assert torch.allclose(batch.to_source(middle), torch.tensor([80.0, 64.0]), atol=1e-3)
    corner = torch.zeros(2, 3, 2)
    expected = batch.to_source(corner)
    assert (expected[:, 0] - expected[:, 2]).abs().max() > 5
    for clip, time in ((0, 0), (1, 2), (0, 1)):
        (found,) = batch.to_source(torch.zeros(1, 2), [clip], [time])
        assert torch.allclose(found, expected[clip, time])
    # Of a box that has been turned it is the one around it.
    ((x1, y1, x2, y2),) = batch.to_source(torch.tensor([[10.0, 10, 30, 30]]), [0], torch.tensor([0])).tolist()
    assert x2 - x1 > 40
    assert y2 - y1 > 40
    with pytest.raises(vl.ConfigurationError, match=r"points must be .*, got .*\[2, 4\]"):
        batch.to_source(torch.zeros(2, 4))
    with pytest.raises(vl.ConfigurationError, match="times must be"):
        batch.to_source(torch.zeros(2, 4), [0, 1], [1])


def test_clips_with_one_matrix_and_with_many_go_together() -> None:
    one, many = np.eye(3)[None], np.stack([np.eye(3) * scale for scale in (1, 2, 3)])
    assert stack_matrices([one, one]).shape == (2, 3, 3)
    stacked = stack_matrices([one, many])
    assert stacked.shape == (2, 3, 3, 3)
    assert (stacked[0] == np.eye(3)).all()
    assert (stacked[1] == many).all()
    shorter = stack_matrices([many[:2], many])[0]
    assert (shorter == many[[0, 1, 1]]).all()
