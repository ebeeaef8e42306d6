"""Replays on masks, flow, points, boxes and other frames of the same video."""

from __future__ import annotations

from typing import Any

import av
import numpy as np
import pytest
import torch
from helpers.converting import convert_frame
from hypothesis import given
from hypothesis import strategies as st
from planned_geometry import plan_geometry

from videoloader import transforms as tf
from videoloader.convert.spec import ColorSpec, Geometry, OutputSpec
from videoloader.errors import ConfigurationError
from videoloader.transforms.curves import Linear
from videoloader.transforms.geometry.coordinates import map_points
from videoloader.transforms.geometry.source_matrix import source_matrix
from videoloader.transforms.geometry.tensor_geometry import apply_geometry
from videoloader.transforms.operations import BatchFunction, ClipInfo, Operation
from videoloader.transforms.planning.composing import GeometricGroup
from videoloader.transforms.replay import replay_boxes, replay_flow, replay_frames, replay_masks, replay_points
from videoloader.transforms.tone import Invert
from videoloader.transforms.warps import Affine, Perspective, Rotate

LENGTH, SHOWN = 4, (60, 90)
interpolations = st.sampled_from(["bilinear", "nearest"])


def checkerboard() -> torch.Tensor:
    """bool[T, H, W] of fields of 15 by 13 pixels, moved from frame to frame."""
    y, x = np.indices(SHOWN)
    return torch.from_numpy(np.stack([((x + 2 * t) // 15 + y // 13) % 2 == 0 for t in range(LENGTH)]))


@st.composite
def clips(draw: st.DrawFn, warps: tuple[Any, ...] | None = None) -> tuple[Geometry, list[Operation]]:
    """A conversion's geometry and the operations after it, as drawn for a clip."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    resize = tf.RandomResizedCrop((40, 50), scale=(0.3, 1.0), interpolation=draw(interpolations))
    first: list[Any] = draw(
        st.sampled_from(
            [[], [tf.RandomCrop((41, 53))], [resize, tf.RandomHorizontalFlip(), tf.RandomVerticalFlip()],
             [tf.Resize(30), tf.CenterCrop(28), tf.RandomVerticalFlip()], [tf.Resize((80, 70))],
             [tf.RandomHorizontalFlip(), tf.Letterbox(64, fill=0)]]
        )
    )  # fmt: skip
    geometry = plan_geometry(first, SHOWN, rng)
    mode = draw(interpolations)
    steps = warps or (
        Rotate((-40, 40), interpolation=mode), Affine((-20, 20), scale=(0.7, 1.3), shear=(-9, 9), interpolation=mode),
        Perspective(0.4, p=1, interpolation=mode), Rotate(Linear(-20, 20), interpolation=mode),
        tf.HorizontalFlip(), tf.Resize((37, 41), interpolation=mode),
    )  # fmt: skip
    chosen = draw(st.lists(st.sampled_from(steps), max_size=2))
    info = ClipInfo(LENGTH, *geometry.output_size)
    operations: list[Operation] = []
    for part in (chosen[:1], chosen[1:]) if draw(st.booleans()) else (chosen,):
        warp = GeometricGroup(tuple(part)).draw(rng, info)
        operations += warp
        if warp:
            info = info._replace(height=warp[-1].size[0], width=warp[-1].size[1])
    return geometry, operations


@given(clips())
def test_masks_stay_where_the_frames_are(clip: tuple[Geometry, list[Operation]]) -> None:
    geometry, operations = clip
    masks = checkerboard()
    frames = (masks * 255).to(torch.uint8)[:, None].expand(-1, 3, -1, -1)
    moved_frames, moved = replay_frames(frames, geometry, operations)[:, 0], replay_masks(masks, geometry, operations)
    assert moved.dtype == torch.bool
    assert moved.shape == moved_frames.shape
    # Where a frame mixes fields, and only there, the mask may be of either.
    clear = (moved_frames == 0) | (moved_frames == 255)
    assert torch.equal(moved[clear], moved_frames[clear] == 255)
    assert clear.float().mean() > 0.2


@given(
    clips(),
    st.sampled_from([torch.uint8, torch.uint16, torch.uint32, torch.uint64, torch.int64, torch.float64, torch.float16]),
)
def test_masks_of_any_type_have_no_values_but_their_own(
    clip: tuple[Geometry, list[Operation]], dtype: torch.dtype
) -> None:
    geometry, operations = clip
    masks = torch.randint(0, 100, (LENGTH, 2, *SHOWN))
    masks[:, 1] += 100
    masks = masks.to(dtype)
    moved = replay_masks(masks, geometry, operations, fill=255)
    assert moved.dtype == dtype
    assert set(moved[:, 0].flatten().tolist()) <= {*range(100), 255}
    assert set(moved[:, 1].flatten().tolist()) <= {*range(100, 200), 255}
    assert torch.equal(moved[:, 1], replay_masks(masks[:, 1], geometry, operations, fill=255))


@given(clips(), st.integers(0, 2**32))
def test_points_go_there_and_back(clip: tuple[Geometry, list[Operation]], seed: int) -> None:
    geometry, operations = clip
    points = torch.from_numpy(np.random.default_rng(seed).uniform(0, 1, (LENGTH, 7, 2)) * (SHOWN[1], SHOWN[0]))
    moved, _ = replay_points(points, geometry, operations)
    back = source_matrix(geometry, operations)
    back = np.broadcast_to(back, (LENGTH, 3, 3))
    assert torch.allclose(map_points(moved, back), points, atol=1e-6)


@given(clips())
def test_points_are_where_the_frames_show_them(clip: tuple[Geometry, list[Operation]]) -> None:
    geometry, operations = clip
    y, x = np.indices(SHOWN)
    # Blobs: their middle is found again as the middle of what is bright.
    for column, row in ((30, 20), (60, 40), (45, 30)):
        blob = np.exp(-((x + 0.5 - column) ** 2 + (y + 0.5 - row) ** 2) / 18) * 250
        frames = torch.from_numpy(blob.astype(np.uint8)).expand(LENGTH, 3, -1, -1)
        seen = replay_frames(frames, geometry, operations)[:, 0].double()
        points, shown = replay_points(torch.full((LENGTH, 2), 1.0) * torch.tensor([column, row]), geometry, operations)
        height, width = seen.shape[1:]
        far = (points > 12).all(1) & (points < torch.tensor([width - 12, height - 12])).all(1)
        inside = geometry.border is None or geometry.border.top < 1
        for frame, point, counts in zip(seen, points, shown & far & inside, strict=True):
            cropped = geometry.crop[2:] != SHOWN or geometry.window is not None
            if not counts or (cropped and frame.sum() < 100):
                continue
            peak = np.unravel_index(int(frame.argmax()), frame.shape)
            assert abs(peak[1] + 0.5 - float(point[0])) < 3
            assert abs(peak[0] + 0.5 - float(point[1])) < 3


@given(clips(), st.integers(0, 2**32), st.sampled_from([1, -1]))
def test_flow_ends_where_its_end_is_shown(clip: tuple[Geometry, list[Operation]], seed: int, step: int) -> None:
    geometry, operations = clip
    rng = np.random.default_rng(seed)
    linear, offset = rng.uniform(-0.05, 0.05, (2, 2)), rng.uniform(-3, 3, 2)

    def flow_at(points: torch.Tensor) -> torch.Tensor:
        return points @ torch.from_numpy(linear).T + torch.from_numpy(offset)

    y, x = torch.meshgrid(torch.arange(SHOWN[0]) + 0.5, torch.arange(SHOWN[1]) + 0.5, indexing="ij")
    field = flow_at(torch.stack([x, y], -1).double()).permute(2, 0, 1).expand(LENGTH, -1, -1, -1)
    moved = replay_flow(field, geometry, operations, step)
    starts = torch.tensor([[45.0, 30.0], [40.0, 28.0], [50.0, 33.0]], dtype=torch.float64)
    shown_at, shown = replay_points(starts.expand(LENGTH, -1, -1), geometry, operations)
    # The ends, as the frames that they are in show them.
    back = np.broadcast_to(source_matrix(geometry, operations), (LENGTH, 3, 3))
    target = back[np.clip(np.arange(LENGTH) + step, 0, LENGTH - 1)]
    ends = map_points((starts + flow_at(starts)).expand(LENGTH, -1, -1), np.linalg.inv(target))
    height, width = moved.shape[2:]
    nearest = geometry.interpolation == "nearest" or any(each.interpolation == "nearest" for each in operations)
    for t in range(LENGTH):
        for point, end, counts in zip(shown_at[t], ends[t], shown[t], strict=True):
            column, row = (int(value) for value in point)
            if counts and 4 < column < width - 4 and 4 < row < height - 4:
                vector = moved[t, :, row, column]
                assert float((vector - (end - point)).abs().max()) < (0.4 if nearest else 0.25)


def test_flow_is_mirrored_scaled_and_turned() -> None:
    right = torch.tensor([2.0, 0.0])[None, :, None, None].expand(LENGTH, 2, *SHOWN)
    for first, after, expected in (
        ([tf.HorizontalFlip()], (), (-2, 0)),
        ([tf.VerticalFlip()], (), (2, 0)),
        ([tf.Resize((120, 45))], (), (1, 0)),
        ([], (Rotate(90),), (0, -2)),
        ([tf.Resize((60, 180))], (Rotate(-90), tf.HorizontalFlip()), (0, 4)),
    ):
        geometry = plan_geometry(first, SHOWN, np.random.default_rng(0))
        info = ClipInfo(LENGTH, *geometry.output_size)
        operations = GeometricGroup(after).draw(np.random.default_rng(0), info)
        moved = replay_flow(right, geometry, operations)
        middle = moved[:, :, moved.shape[2] // 2, moved.shape[3] // 2]
        assert torch.allclose(middle, torch.tensor(expected, dtype=torch.float32), atol=1e-4)


def test_flow_of_a_still_video_is_what_the_warps_move() -> None:
    still = torch.zeros(LENGTH, 2, *SHOWN)
    geometry = Geometry((0, 0, *SHOWN), SHOWN)
    walk = Affine(translate=(Linear(0.1, 0.1), Linear(0, 0)))
    assert (
        replay_flow(still, geometry, walk.draw(np.random.default_rng(0), ClipInfo(LENGTH, *SHOWN))).abs().max() < 1e-4
    )
    turning = Rotate(Linear(-30, 30)).draw(np.random.default_rng(0), ClipInfo(LENGTH, *SHOWN))
    moved = replay_flow(still, geometry, turning)
    assert moved[:-1].abs().max() > 1
    assert moved[-1].abs().max() < 1e-4


@given(clips(), st.integers(0, 2**32))
def test_boxes_hold_what_is_shown_of_them(clip: tuple[Geometry, list[Operation]], seed: int) -> None:
    geometry, operations = clip
    rng = np.random.default_rng(seed)
    x1, y1 = rng.integers(0, SHOWN[1] - 20), rng.integers(0, SHOWN[0] - 20)
    box = torch.tensor([x1, y1, x1 + rng.integers(4, 20), y1 + rng.integers(4, 20)])
    moved, shown = replay_boxes(box.expand(LENGTH, 4), geometry, operations)
    mask = torch.zeros(LENGTH, *SHOWN, dtype=torch.uint8)
    mask[:, box[1] : box[3], box[0] : box[2]] = 1
    for frame, (left, top, right, bottom), visible in zip(
        replay_masks(mask, geometry, operations), moved, shown, strict=True
    ):
        rows, columns = torch.where(frame == 1)
        if not visible:
            # At most a pixel whose middle rounding has put on the other side.
            assert len(rows) <= 8
            continue
        if len(rows):
            assert columns.min() >= left - 2
            assert columns.max() + 1 <= right + 2
            assert rows.min() >= top - 2
            assert rows.max() + 1 <= bottom + 2
        assert 0 <= left < right <= frame.shape[1]
        assert 0 <= top < bottom <= frame.shape[0]


def extents_of_points(
    box: torch.Tensor, geometry: Geometry, operations: list[Operation]
) -> list[tuple[torch.Tensor, float] | None]:
    """For each frame the extent of the visible ones among 201² points of a box, and how far these are apart now."""
    x, y = (torch.linspace(float(box[at]), float(box[at + 2]), 201, dtype=torch.float64) for at in (0, 1))
    points = torch.stack(torch.meshgrid(x, y, indexing="xy"), -1).expand(LENGTH, -1, -1, -1)
    moved, seen = replay_points(points, geometry, operations)
    found: list[tuple[torch.Tensor, float] | None] = []
    for frame, shown in zip(moved, seen, strict=True):
        visible = frame[shown]
        # A side or a corner that touches a border has no area.
        if len(visible) < 3 or torch.linalg.svdvals(visible - visible.mean(0))[-1] <= 1e-6:
            found.append(None)
            continue
        apart = max(float(frame.diff(dim=axis).abs().max()) for axis in (0, 1))
        found.append((torch.cat([visible.amin(0), visible.amax(0)]), apart))
    return found


def some_box(seed: int) -> torch.Tensor:
    rng = np.random.default_rng(seed)
    x1, y1 = rng.integers(-10, SHOWN[1]), rng.integers(-10, SHOWN[0])
    return torch.tensor([x1, y1, x1 + rng.integers(4, 20), y1 + rng.integers(4, 20)], dtype=torch.float64)


@given(clips(), st.integers(0, 2**32))
def test_boxes_hold_all_points_that_are_shown(clip: tuple[Geometry, list[Operation]], seed: int) -> None:
    box = some_box(seed)
    moved, shown = replay_boxes(box.expand(LENGTH, 4), *clip)
    for frame, found in enumerate(extents_of_points(box, *clip)):
        if found is not None:
            extent, _ = found
            assert shown[frame]
            assert (moved[frame, :2] <= extent[:2] + 1e-6).all()
            assert (moved[frame, 2:] >= extent[2:] - 1e-6).all()


@given(st.sampled_from([Rotate((-90, 90)), tf.Affine((-30, 30), shear=(-20, 20)), tf.Perspective(0.4, p=1)]),
       st.integers(0, 2**32))  # fmt: skip
def test_boxes_are_the_smallest_around_the_points_that_are_shown(transform: Any, seed: int) -> None:
    geometry = plan_geometry([], SHOWN, np.random.default_rng(0))
    warps = transform.draw(np.random.default_rng(seed), ClipInfo(LENGTH, *SHOWN))
    box = some_box(seed).clamp(min=0).minimum(torch.tensor([SHOWN[1], SHOWN[0]] * 2))
    moved, shown = replay_boxes(box.expand(LENGTH, 4), geometry, warps)
    for frame, found in enumerate(extents_of_points(box, geometry, warps)):
        width, height = (moved[frame, 2:] - moved[frame, :2]).tolist()
        if found is not None:
            extent, apart = found
            assert (moved[frame] - extent).abs().max() <= 2 * apart + 1e-6
        else:
            assert not shown[frame] or min(width, height) < 1, "at most a corner between two points"


def test_boxes_that_are_turned_there_and_back_are_as_before() -> None:
    geometry = plan_geometry([], (100, 100), np.random.default_rng(0))
    rng, clip = np.random.default_rng(0), ClipInfo(1, 100, 100)
    turns = [*Rotate(30).draw(rng, clip), *Rotate(-30).draw(rng, clip)]
    box = torch.tensor([[[40.0, 45.0, 60.0, 50.0]]])
    moved, shown = replay_boxes(box, geometry, turns)
    assert shown.all()
    assert torch.allclose(moved, box, atol=1e-3)


def test_a_turned_box_whose_bounds_alone_reach_into_the_picture_is_not_shown() -> None:
    geometry = plan_geometry([], (100, 100), np.random.default_rng(0))
    turn = Rotate(45).draw(np.random.default_rng(0), ClipInfo(1, 100, 100))
    box = torch.tensor([[[0.0, 0.0, 14.0, 14.0], [0.0, 43.0, 14.0, 57.0]]])
    _, shown = replay_boxes(box, geometry, turn)
    _, seen = replay_points(torch.tensor([[[0.0, 0.0], [14.0, 14.0], [7.0, 50.0]]]), geometry, turn)
    assert seen.tolist() == [[False, False, True]]
    assert shown.tolist() == [[False, True]]


def test_a_box_outside_the_crop_is_not_shown_even_in_a_border() -> None:
    geometry = plan_geometry([tf.CenterCrop(20), tf.Pad(60, position="center")], SHOWN, np.random.default_rng(0))
    boxes = torch.tensor([[0.0, 0.0, 30.0, 19.0], [30.0, 15.0, 38.0, 22.0]])
    moved, shown = replay_boxes(boxes, geometry, [])
    assert shown.tolist() == [False, True]
    assert moved[1].tolist() == [20, 20, 23, 22]
    assert replay_points(torch.tensor([[10.0, 10.0], [45.0, 30.0]]), geometry, [])[1].tolist() == [False, True]


@pytest.mark.parametrize("interpolation", ["bilinear", "bicubic", "nearest"])
@pytest.mark.parametrize("antialias", [True, False])
@given(st.data())
def test_frames_are_what_conversion_makes(interpolation: Any, antialias: bool, data: st.DataObject) -> None:
    seed = data.draw(st.integers(0, 2**32))
    size = data.draw(st.tuples(st.integers(1, 130), st.integers(1, 130)))
    steps = [
        tf.RandomCrop((30, 40)), tf.Resize(size, interpolation=interpolation, antialias=antialias),
        tf.RandomHorizontalFlip(), tf.RandomVerticalFlip(),
    ]  # fmt: skip
    geometry = plan_geometry(steps, SHOWN, np.random.default_rng(seed))
    pixels = np.random.default_rng(seed).integers(0, 256, (*SHOWN, 3), np.uint8)
    slot = torch.empty(3, *geometry.output_size, dtype=torch.uint8)
    frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
    convert_frame(frame, ColorSpec("identity", True), 0, False, geometry, OutputSpec(), slot)
    (replayed,) = apply_geometry(torch.from_numpy(pixels).permute(2, 0, 1)[None], geometry)
    limit = 0 if interpolation == "nearest" else 2
    assert (replayed.int() - slot.int()).abs().max() <= limit


def test_colours_are_replayed_on_frames_and_not_on_masks() -> None:
    geometry = Geometry((0, 0, *SHOWN), (30, 45), interpolation="nearest")
    operations = Invert().draw(np.random.default_rng(0), ClipInfo(LENGTH, 30, 45))
    frames = torch.randint(0, 256, (LENGTH, 3, *SHOWN), dtype=torch.uint8)
    expected = frames[:, :, ::2, ::2]
    assert torch.equal(replay_frames(frames, geometry, operations), 255 - expected)
    assert torch.equal(replay_masks(frames, geometry, operations), expected)


def test_functions_that_move_pixels_move_masks_alone() -> None:
    geometry = Geometry((0, 0, *SHOWN), SHOWN)

    def turn(frames: torch.Tensor, params: Any) -> torch.Tensor:
        return frames.roll(int(params["by"][0]), 3)

    moves = [BatchFunction(turn, {"by": np.array(3)}, geometric=turn)]
    masks = checkerboard()
    assert torch.equal(replay_masks(masks, geometry, moves), masks.roll(3, 1))
    for replay, tensor in ((replay_points, torch.zeros(3, 2)), (replay_flow, torch.zeros(LENGTH, 2, *SHOWN))):
        with pytest.raises(ConfigurationError, match="moves pixels"):
            replay(tensor, geometry, moves)


def test_what_does_not_fit_is_refused() -> None:
    geometry = Geometry((0, 0, *SHOWN), SHOWN)
    walk = Rotate(Linear(1, 30)).draw(np.random.default_rng(0), ClipInfo(LENGTH, *SHOWN))
    for replay, tensor, message in (
        (replay_masks, torch.zeros(1, 30, 40), "give what is in the video's size"),
        (replay_masks, torch.zeros(30, 40), "masks must be"),
        (replay_masks, torch.zeros(LENGTH + 1, *SHOWN), "has 4 frames, each warped in its own way; not 5"),
        (replay_flow, torch.zeros(LENGTH + 1, 2, *SHOWN), "has 4 frames"),
        (replay_flow, torch.zeros(LENGTH, 3, *SHOWN), "flow must be"),
        (replay_frames, torch.zeros(LENGTH, 3, *SHOWN), "frames must be .*, got torch.float32"),
        (replay_points, torch.zeros(LENGTH, 3), "points must be"),
        (replay_points, torch.zeros(2), "frames are warped one by one"),
        (replay_boxes, torch.zeros(LENGTH, 2), "boxes must be"),
        (replay_boxes, torch.tensor([[0, 0, 9, 9], [30, 5, 10, 9]]), r"x1 <= x2 and y1 <= y2, got \[30, 5, 10, 9\]"),
        (replay_boxes, torch.zeros(LENGTH + 1, 4), "points must be"),
    ):
        with pytest.raises(ConfigurationError, match=message):
            replay(tensor, geometry, walk)
