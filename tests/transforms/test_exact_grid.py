"""Frames, masks, flow and points agree in position, shown on frames whose pixels encode their coordinates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import av
import numpy as np
import numpy.typing as npt
import pytest
import torch
from helpers.converting import convert_frame

import videoloader as vl
from videoloader.convert.spec import ColorSpec, Geometry, OutputSpec
from videoloader.transforms import Linear, Uniform
from videoloader.transforms.backends.apply import apply_operations
from videoloader.transforms.geometry.coordinates import apply_matrix
from videoloader.transforms.geometry.source_matrix import source_matrix
from videoloader.transforms.operations import Operation, Warp
from videoloader.transforms.planning.pipeline import arrange_transforms
from videoloader.transforms.replay import replay_flow, replay_masks, replay_points

Places = npt.NDArray[np.float64]
LENGTH, HEIGHT, WIDTH = 3, 45, 60
# Values of a pixel for one pixel of the way: frames are uint8, so places are known to an eighth of a pixel.
PER_PIXEL = 4

TRANSFORMS: dict[str, list[Any]] = {
    "smaller": [vl.Resize((15, 20))],
    "much smaller": [vl.Resize((7, 9))],
    "smaller, bicubic": [vl.Resize((21, 25), interpolation="bicubic")],
    "smaller, one sample a pixel": [vl.Resize((17, 23), antialias=False)],
    "smaller, nearest": [vl.Resize((13, 26), interpolation="nearest"), vl.HorizontalFlip()],
    "larger, nearest": [vl.RandomCrop(31), vl.Resize((70, 90), interpolation="nearest")],
    "larger": [vl.Resize((100, 140))],
    "larger, bicubic": [vl.Resize((100, 140), interpolation="bicubic")],
    "stretched": [vl.Resize((90, 20))],
    "middle": [vl.CenterCrop((21, 33))],
    "middle of a smaller one": [vl.Resize(24), vl.CenterCrop(17)],
    "anywhere": [vl.RandomCrop((31, 32))],
    "anywhere with a border": [vl.RandomCrop((40, 57), padding=7)],
    "box": [vl.RandomResizedCrop((20, 24), scale=(0.3, 0.9))],
    "box of a box": [vl.RandomResizedCrop((40, 44), scale=(0.3, 0.9)), vl.RandomResizedCrop(24, scale=(0.5, 0.9))],
    "left to right": [vl.HorizontalFlip()],
    "upside down": [vl.VerticalFlip()],
    "both, smaller": [vl.Resize((14, 19)), vl.HorizontalFlip(), vl.VerticalFlip()],
    "flipped, then cropped": [vl.HorizontalFlip(), vl.RandomCrop((31, 32)), vl.VerticalFlip()],
    "letterbox": [vl.Letterbox((32, 32))],
    "padded": [vl.Pad((61, 83), position="center")],
    "padded by edges": [vl.Pad((61, 83), position="center", mode="edge")],
    "padded to a multiple": [vl.PadToMultiple(32), vl.HorizontalFlip()],
    "turned": [vl.Rotate((-40, 40))],
    "turned by a right angle": [vl.Rotate(90)],
    "turned, bicubic": [vl.Rotate((-40, 40), interpolation="bicubic")],
    "turned, nearest": [vl.Rotate((-40, 40), interpolation="nearest")],
    "turned frame by frame": [vl.Rotate(Linear(-20, 30))],
    "affine": [vl.Affine((-15, 15), translate=(0.1, 0.1), scale=(0.8, 1.3), shear=(-9, 9), shear_y=(-5, 5))],
    "affine, much smaller": [vl.Affine(scale=0.4, antialias=True)],
    "moved frame by frame": [vl.Affine(translate=(Linear(-0.1, 0.1), Linear(0, 0.2)))],
    "aslant": [vl.Perspective(0.3, p=1)],
    "aslant frame by frame": [vl.Perspective(Linear(0.1, 0.3), p=1)],
    "smaller, then turned": [vl.Resize((30, 40)), vl.Rotate((-30, 30))],
    "box, turned, cropped, larger": [
        vl.RandomResizedCrop(40, scale=(0.5, 0.9)), vl.Rotate((-20, 20)), vl.CenterCrop(30), vl.Resize(37),
    ],
    "turned, smaller": [vl.Rotate((-20, 20)), vl.Resize((15, 20)), vl.HorizontalFlip()],
    "two warps": [vl.Rotate((-20, 20), fill=9), vl.CenterCrop(30), vl.Invert(), vl.Invert(), vl.Rotate(Uniform(-9, 9))],
}  # fmt: skip


class Shown(NamedTuple):
    """A clip of the grid through transforms.

    Attributes:
        geometry, operations: as drawn.
        places: float64[T, H', W', 2], (x, y) of the video that the frames' pixels show.
        exact: float64[T, H', W', 2], what ``source_matrix`` says of them.
        sure: bool[T, H', W'], pixels that show nothing but the grid, and none whose filter is cut off at its edge.
        pixel: (least, most), how many pixels of the video an output pixel is long.
    """

    geometry: Geometry
    operations: tuple[Warp, ...]
    places: Places
    exact: Places
    sure: npt.NDArray[np.bool_]
    pixel: tuple[float, float]

    @property
    def far(self) -> float:
        """How many pixels of the video a place read from the frames may be off.

        Every step rounds to uint8, or takes one pixel: the one that the point lies in, but where frames are resized
        by PyTorch's nearest, which takes that in which a corner of the output's pixel lies.
        """
        off = 0.5 * (1 + self.pixel[1]) if self.geometry.interpolation == "nearest" else 0.5 / PER_PIXEL
        for warp in self.operations:
            off += 0.5 if warp.interpolation == "nearest" else 0.5 / PER_PIXEL
        # What a filter takes of pixels that lie evenly on both sides is not quite the middle.
        return off + 0.08


def grid() -> npt.NDArray[np.uint8]:
    """uint8[H, W, 3]: x, y, and 255."""
    y, x = np.indices((HEIGHT, WIDTH))
    return np.stack([x * PER_PIXEL, y * PER_PIXEL, np.full_like(x, 255)], -1).astype(np.uint8)


def centers(height: int, width: int) -> Places:
    """float64[H, W, 2]: (x, y) of the centres of pixels."""
    y, x = np.indices((height, width)) + 0.5
    return np.stack([x, y], -1)


def show(transforms: list[Any], seed: int) -> Shown:
    (drawn,) = arrange_transforms(transforms).draw((HEIGHT, WIDTH), LENGTH, np.random.default_rng(seed))
    geometry, operations = drawn.geometry, drawn.operations
    decoded = torch.zeros(LENGTH, 3, *geometry.output_size, dtype=torch.uint8)
    frame = av.VideoFrame.from_ndarray(grid(), format="rgb24")
    for each in decoded:
        slot = each if geometry.border is None else geometry.border.picture(each)
        convert_frame(frame, ColorSpec("identity", True), 0, False, geometry, OutputSpec(), slot)
    frames = apply_operations(decoded[None], [operations])[0].double().numpy()
    matrix, at = matrices(geometry, operations), centers(*frames.shape[2:])
    exact, right, below = (apply_matrix(matrix, (at + move)[None]) for move in ((0, 0), (1, 0), (0, 1)))
    top, left, height, width = geometry.crop
    low, high = np.array([left, top]), np.array([left + width, top + height])
    lengths = np.stack([np.hypot(*np.moveaxis(each - exact, -1, 0)) for each in (right, below)])
    lengths = lengths[:, ((exact > low) & (exact < high)).all(-1)]
    # A filter reaches two pixels of the coarser picture.
    margin = 1 + 2 * max(lengths.max(), 1)
    sure = ((exact >= low + margin) & (exact <= high - margin)).all(-1) & (frames[:, 2] == 255)
    places = frames[:, :2].transpose(0, 2, 3, 1) / PER_PIXEL + 0.5
    warps = tuple(each for each in operations if isinstance(each, Warp))
    return Shown(geometry, warps, places, exact, sure, (float(lengths.min()), float(lengths.max())))


def matrices(geometry: Geometry, operations: Sequence[Operation]) -> npt.NDArray[np.float64]:
    return np.broadcast_to(source_matrix(geometry, operations), (LENGTH, 3, 3))


@pytest.fixture(scope="module", params=TRANSFORMS)
def shown(request: pytest.FixtureRequest) -> list[Shown]:
    """Three draws of the transforms."""
    return [show(TRANSFORMS[request.param], seed) for seed in range(3)]


def test_frames_show_what_the_matrix_says(shown: list[Shown]) -> None:
    for clip in shown:
        assert clip.sure.any(axis=(1, 2)).all()
        assert np.abs(clip.places - clip.exact)[clip.sure].max() <= clip.far


def test_masks_lie_where_the_frames_do(shown: list[Shown]) -> None:
    numbers = torch.arange(HEIGHT * WIDTH).view(HEIGHT, WIDTH).expand(LENGTH, -1, -1)
    for clip in shown:
        moved = replay_masks(numbers, clip.geometry, clip.operations, fill=-1).numpy()
        places = np.stack([moved % WIDTH, moved // WIDTH], -1) + 0.5
        off = np.abs(places - clip.exact)[clip.sure].max()
        if clip.geometry.interpolation == "nearest":
            assert np.array_equal(places[clip.sure], clip.places[clip.sure])
            continue
        # Half a pixel of what the last step gets, and of what the one before it got.
        steps = (clip.geometry.size != clip.geometry.crop[2:]) + len(clip.operations)
        between = max(clip.geometry.crop[2 + axis] / clip.geometry.size[axis] for axis in (0, 1))
        assert off <= 0.5 + 1e-6 + max(steps - 1, 0) * 0.5 * max(between, 1.0) * 2**0.5


def test_points_lie_where_the_frames_show_them(shown: list[Shown]) -> None:
    for clip in shown:
        moved, _ = replay_points(torch.from_numpy(clip.places), clip.geometry, clip.operations)
        off = np.abs(moved.numpy() - centers(*clip.exact.shape[1:3]))[clip.sure].max()
        assert off <= clip.far * 2**0.5 / clip.pixel[0]


@pytest.mark.parametrize("step", [1, -1])
def test_flow_ends_where_the_frames_show_its_end(shown: list[Shown], step: int) -> None:
    linear, offset = np.array([[0.03, -0.04], [0.05, 0.02]]), np.array([2.0, -1.5])
    field = torch.from_numpy(centers(HEIGHT, WIDTH) @ linear.T + offset).permute(2, 0, 1).expand(LENGTH, -1, -1, -1)
    for clip in shown:
        moved = replay_flow(field, clip.geometry, clip.operations, step).permute(0, 2, 3, 1).numpy()
        target = matrices(clip.geometry, clip.operations)[np.clip(np.arange(LENGTH) + step, 0, LENGTH - 1)]
        ends = apply_matrix(np.linalg.inv(target), clip.exact + clip.exact @ linear.T + offset)
        off = np.abs(moved + centers(*moved.shape[1:3]) - ends)[clip.sure].max()
        # The vectors change by a twentieth of a pixel from one pixel to the next.
        assert off <= 0.05 * (clip.far if is_nearest(clip) else 0.2) / clip.pixel[0] + 0.002


def is_nearest(clip: Shown) -> bool:
    return "nearest" in (clip.geometry.interpolation, *(warp.interpolation for warp in clip.operations))
