"""CropToBox: the crop of each row comes from the data set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.convert.spec import Geometry
from videoloader.transforms.operations import ClipInfo
from videoloader.transforms.planning.fused_geometry import plan_geometries

Sample = Callable[[str], Path]
HEIGHT, WIDTH = 60, 90


def crop(step: vl.CropToBox, columns: dict[str, Any]) -> tuple[int, int, int, int]:
    """(top, left, height, width) of the part that is kept."""
    rng = np.random.default_rng(0)
    (geometry,) = plan_geometries([step], (HEIGHT, WIDTH), rng, ClipInfo(4, HEIGHT, WIDTH, columns=columns))
    assert geometry == Geometry(geometry.crop, geometry.crop[2:])
    return geometry.crop


@pytest.mark.parametrize(
    "columns",
    [
        {"box": [10, 20, 40, 50]},
        {"box": (10.4, 19.6, 40.4, 49.5)},
        {"box": np.array([10, 20, 40, 50])},
        {"box": torch.tensor([10.0, 20.0, 40.0, 50.0])},
        {"box": "10 20 40 50"},
        {"box": "[10, 20, 40, 50]"},
        {"box": "(10;20;40;50)"},
    ],
)
def test_a_box_is_a_list_or_text(columns: dict[str, Any]) -> None:
    assert crop(vl.CropToBox(), columns) == (20, 10, 30, 30)


def test_a_box_may_have_four_columns_and_be_relative() -> None:
    step = vl.CropToBox(["left", "top", "right", "bottom"], relative=True)
    assert step == vl.CropToBox(("left", "top", "right", "bottom"), relative=True)
    assert crop(step, {"left": 0.1, "top": "0.5", "right": 0.3, "bottom": 1}) == (30, 9, 30, 18)


@pytest.mark.parametrize(
    ("options", "box", "expected"),
    [
        ({}, (-5, 40, 30, 99), (40, 0, 20, 30)),
        ({}, (0, 0, 90, 60), (0, 0, 60, 90)),
        ({}, (0, 0, 1, 1), (0, 0, 1, 1)),
        ({}, (10.1, 10.1, 10.2, 10.2), (10, 10, 1, 1)),
        ({}, (89.6, 59.7, 95, 95), (59, 89, 1, 1)),
        ({"margin": 0.5}, (40, 20, 60, 30), (15, 30, 20, 40)),
        ({"margin": 0.5}, (0, 0, 20, 30), (0, 0, 45, 30)),
        ({"square": True}, (40, 20, 60, 30), (15, 40, 20, 20)),
        ({"square": True}, (0, 0, 20, 40), (0, 0, 40, 40)),
        ({"square": True}, (80, 50, 90, 60), (50, 80, 10, 10)),
        ({"square": True}, (70, 55, 90, 60), (40, 70, 20, 20)),
        ({"square": True}, (0, 20, 90, 30), (0, 15, 60, 60)),
        ({"square": True}, (3.2, 3.2, 3.4, 3.4), (3, 3, 1, 1)),
        ({"square": True, "margin": 0.25}, (40, 20, 60, 30), (10, 35, 30, 30)),
        ({"relative": True}, (0, 0, 0.5, 2), (0, 0, 60, 45)),
    ],
)
def test_what_lies_outside_is_cut_off_and_a_square_is_moved(options: Any, box: Any, expected: Any) -> None:
    assert crop(vl.CropToBox(**options), {"box": box}) == expected


@pytest.mark.parametrize(
    ("columns", "says"),
    [
        ({}, r"the row has no box in column 'box'; its columns are none \(rows of a .* Compose has columns=\)"),
        ({"box": [0.1, 0.1, 0.9, 0.9]}, r"'box' is in pixels, got \[0.1, .*: write CropToBox\(…, relative=True\) if"),
        ({"box": "0 0 1 1"}, r"'box' is in pixels, got '0 0 1 1': write CropToBox\(…, relative=True\)"),
        ({"box": [0.0, 0.0, 1.0, 1.0]}, r"'box' is in pixels, got .*: write CropToBox\(…, relative=True\)"),
        ({"face": 1}, "the row has no box in column 'box'; its columns are 'face'"),
        ({"box": None}, "the row has no box in column 'box'"),
        ({"box": " "}, "the row has no box in column 'box'"),
        ({"box": [1, 2, 3]}, "column 'box' must be four numbers, x0, y0, x1 and y1, got .1, 2, 3."),
        ({"box": "a b c d"}, "column 'box' must be four numbers, x0, y0, x1 and y1, got 'a b c d'"),
        ({"box": [0, 0, 1, 10**400]}, "column 'box' must be four numbers, .* got .0, 0, 1, 10*"),
        ({"box": torch.ones(4, device="meta")}, "column 'box' must be four numbers"),
        ({"box": 7}, "column 'box' must be four numbers, .* got 7"),
        ({"box": [0, 0, float("nan"), 9]}, "column 'box' must be four numbers, .*nan"),
        ({"box": [9, 0, 9, 9]}, "the box .* shows nothing of a picture that is 90 wide and 60 high"),
        ({"box": [9, 0, 5, 9]}, "the box .* shows nothing"),
        ({"box": [90, 0, 99, 9]}, "the box .* shows nothing"),
        ({"box": [0, -9, 9, 0]}, "the box .* shows nothing"),
    ],
)
def test_a_row_without_a_box_is_refused(columns: dict[str, Any], says: str) -> None:
    with pytest.raises(vl.ConfigurationError, match=says):
        crop(vl.CropToBox(margin=0.5), columns)


def test_pixels_that_were_called_shares_are_shown_as_given() -> None:
    says = r"the box \(9.0, 2.0, 40.0, 30.0\) of column 'box' \(x0, y0, x1, y1 in shares of its sides, 0 to 1, as rel"
    with pytest.raises(vl.ConfigurationError, match=says):
        crop(vl.CropToBox(relative=True), {"box": [9, 2, 40, 30]})


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ({"column": ""}, "CropToBox's column must be the name of a column, or those of x0, y0, x1 and y1, got ''"),
        ({"column": ("a", "b")}, "CropToBox's column must be the name of a column"),
        ({"column": 3}, "CropToBox's column must be the name of a column"),
        (
            {"margin": -0.1},
            r"CropToBox's margin must be a share of the box's sides in \[0, 10\], such as 0.2, got -0.1",
        ),
        ({"margin": "0.1"}, "CropToBox's margin must be a share"),
        ({"square": 1}, "CropToBox's square must be True or False, got 1"),
        ({"relative": None}, "CropToBox's relative must be True or False, got None"),
    ],
)
def test_arguments_that_are_none_are_refused(arguments: dict[str, Any], says: str) -> None:
    with pytest.raises(vl.ConfigurationError, match=says):
        vl.CropToBox(**arguments)


@pytest.mark.parametrize(
    "transforms",
    [
        [vl.HorizontalFlip(), vl.CropToBox()],
        [vl.Invert(), vl.CropToBox()],
        [vl.ThreeCrop(8), vl.CropToBox()],
        [vl.CropToBox(), vl.CropToBox()],
        [vl.RandomApply([vl.Resize(8), vl.CropToBox()])],
        [vl.RandomOrder([vl.HorizontalFlip(), vl.CropToBox()])],
    ],
)
def test_it_comes_first(transforms: list[Any]) -> None:
    with pytest.raises(vl.ConfigurationError, match="CropToBox must be the first transform"):
        vl.Compose(transforms)


def test_a_choice_may_leave_it_out() -> None:
    frames, columns = torch.randint(0, 256, (2, 3, HEIGHT, WIDTH), dtype=torch.uint8), {"box": (10, 20, 40, 50)}
    chosen = vl.Compose([vl.RandomChoice([vl.CropToBox(), vl.CenterCrop(30)]), vl.CenterCrop(20)])
    expected = {frames[..., 25:45, 15:35].numpy().tobytes(), frames[..., 20:40, 35:55].numpy().tobytes()}
    assert {chosen(frames, seed, columns=columns).numpy().tobytes() for seed in range(20)} == expected
    with pytest.raises(vl.ConfigurationError, match="CropToBox takes a different box for each clip"):
        vl.Compose([vl.RandomChoice([vl.CropToBox(), vl.Rotate(9)]), vl.Invert()])(frames, columns=columns)


def check_boxes_of_rows(path: Path) -> None:
    height, width = vl.Video(path, device="cpu").shape[-2:]
    boxes = [(0, 0, width, height), (8, 4, 40, 30), (width - 20, height - 30, width, height)]
    data = vl.VideoDataset([vl.VideoEntry(path, columns={"box": box}) for box in boxes])
    transforms = [vl.CropToBox(), vl.Resize((16, 24))]
    (batch,) = vl.VideoLoader(data, [0, 2], batch_size=3, device="cpu", transforms=transforms)
    plain = vl.Video(path, device="cpu").read([0, 2]).frames
    for row, (x0, y0, x1, y1) in enumerate(boxes):
        shown = vl.Compose([vl.Resize((16, 24))])(plain[..., y0:y1, x0:x1])
        assert (shown.int() - batch.frames[row].int()).abs().max() <= 2
        assert (batch.replay(row, plain).int() - batch.frames[row].int()).abs().max() <= 2
        corners = torch.tensor([[[0.0, 0.0], [24.0, 16.0]]])
        assert torch.allclose(batch.to_source(corners, rows=[row]), torch.tensor([[[x0, y0], [x1, y1]]]).float())


def test_a_loader_crops_each_row_by_its_own_box(sample: Sample) -> None:
    check_boxes_of_rows(sample("h264_mp4"))


def test_boxes_of_a_rotated_video_are_in_pixels_as_shown(corpus: Path) -> None:
    check_boxes_of_rows(corpus / "h264-rotation__decord__video_90.mov")


def test_a_loader_tells_row_and_file(sample: Sample) -> None:
    path = sample("h264_mp4")
    data = vl.VideoDataset([vl.VideoEntry(path, columns={"box": (0, 0, 9, 9)}), vl.VideoEntry(path)])
    loader = vl.VideoLoader(data, [0], batch_size=1, device="cpu", transforms=[vl.CropToBox()])
    with pytest.raises(
        vl.ConfigurationError, match=r"\.mp4: row 1 of the data set: the row has no box in column 'box'"
    ):
        list(loader)
