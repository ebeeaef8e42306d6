"""Contact sheets show the given frames, with the right marks."""

from __future__ import annotations

import sys

import numpy as np
import numpy.typing as npt
import pytest
import torch
from PIL.Image import Image

from videoloader import ArgumentError, ConfigurationError, Normalize
from videoloader.showing.contact_sheet import WIDTH, Strip, Tile, contact_sheet

RED = np.full((40, 60, 3), (250, 10, 20), np.uint8)
TYPES = (torch.float32, torch.float16, torch.bfloat16)


def sheet_of(*frames: object, **marks: object) -> Image:
    return contact_sheet([Strip([Tile(frame, **marks) for frame in frames])])  # type: ignore[arg-type]


def pixels(sheet: Image) -> npt.NDArray[np.uint8]:
    return np.asarray(sheet)


def shows(sheet: Image, color: tuple[int, int, int], tolerance: int = 2) -> bool:
    """Whether much of a sheet has a colour."""
    near = np.abs(pixels(sheet).astype(int) - color).max(2) <= tolerance
    return bool(near.mean() > 0.02)


def test_a_frame_keeps_its_colours() -> None:
    assert shows(sheet_of(RED), (250, 10, 20), 0)
    assert shows(sheet_of(torch.from_numpy(RED.copy())), (250, 10, 20), 0)


@pytest.mark.parametrize("dtype", TYPES)
def test_floats_of_0_to_1_are_shown_as_they_are(dtype: torch.dtype) -> None:
    assert shows(sheet_of((torch.from_numpy(RED.copy()) / 255).to(dtype)), (250, 10, 20))


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("given", [None, Normalize()])
def test_what_was_normalised_is_undone(dtype: torch.dtype, given: Normalize | None) -> None:
    plain = torch.from_numpy(RED.copy()) / 255
    normalised = (plain - torch.tensor(Normalize().mean)) / torch.tensor(Normalize().std)
    black = -torch.tensor(Normalize().mean) / torch.tensor(Normalize().std) + 0 * plain
    strips = [Strip([Tile(normalised.to(dtype)), Tile(black.to(dtype))])]
    sheet = contact_sheet(strips, normalize=given)
    assert shows(sheet, (250, 10, 20), 4)
    assert shows(sheet, (0, 0, 0), 4)


def test_halves_are_shown_around_grey() -> None:
    frame = np.zeros((40, 60, 1), np.float32)
    frame[0], frame[1] = -1, 1
    assert shows(sheet_of(frame), (128, 128, 128), 1)


def test_other_values_are_stretched_from_black_to_white() -> None:
    frame = np.linspace(-50, 900, 2400, dtype=np.float32).reshape(40, 60)
    sheet = sheet_of(frame)
    assert shows(sheet, (0, 0, 0), 8)
    assert shows(sheet, (255, 255, 255), 8)


def test_what_is_no_number_is_shown_too() -> None:
    frame = np.full((40, 60), np.nan, np.float32)
    frame[:20] = 0.5
    assert shows(sheet_of(frame), (128, 128, 128), 1)


def test_made_up_frames_are_hatched_and_others_not() -> None:
    plain, hatched = sheet_of(RED, number=3), sheet_of(RED, number=3, made_up=True)
    purple = (140, 40, 140)
    assert not shows(plain, purple)
    assert shows(hatched, purple)
    assert shows(hatched, (250, 10, 20), 0)


@pytest.mark.parametrize(
    ("marks", "color"),
    [({"role": "input"}, (31, 96, 196)), ({"role": "target"}, (214, 98, 13)), ({"damaged": True}, (200, 20, 30))],
)
def test_roles_and_damage_are_marked(marks: dict[str, object], color: tuple[int, int, int]) -> None:
    grey = np.full((40, 60, 3), 128, np.uint8)
    assert not (pixels(sheet_of(grey)) == color).all(2).any()
    assert (pixels(sheet_of(grey, **marks)) == color).all(2).sum() > 100


def test_captions_tell_numbers_and_times() -> None:
    def below(**told: object) -> npt.NDArray[np.uint8]:
        return pixels(sheet_of(RED, **told))

    assert below(number=3).shape[0] > below().shape[0]
    assert (below(number=3) != below(number=4)).any()
    assert (below(number=3, time=0.5) != below(number=3)).any()
    assert (below(number=-1, time=np.nan) != below(number=1)).any()


def test_sheets_are_no_wider_than_a_page() -> None:
    strips = [Strip([Tile(RED, number, number / 30) for number in range(count)], "x" * 900) for count in (50, 1, 2, 3)]
    sheet = contact_sheet(strips)
    assert sheet.width <= WIDTH
    assert (pixels(sheet) == (250, 10, 20)).all(2).sum() > 50 * 40 * 60


@pytest.mark.parametrize("shape", [(1, 1, 3), (2, 4000, 3), (4000, 2, 3), (1080, 1920, 3), (7, 5)])
@pytest.mark.parametrize("size", [None, 1, 700])
def test_frames_of_any_size_fit(shape: tuple[int, ...], size: int | None) -> None:
    sheet = contact_sheet([Strip([Tile(np.zeros(shape, np.uint8), 0, 0.0)] * 9)], size=size)
    assert sheet.width <= WIDTH


@pytest.mark.parametrize("shape", [(40, 60, 2), (40, 60, 4), (60,), (0, 60, 3)])
def test_what_is_no_picture_is_an_error(shape: tuple[int, ...]) -> None:
    with pytest.raises(ArgumentError, match=r"frame to show must be \[H, W, 3\]"):
        sheet_of(np.zeros(shape, np.uint8))


def test_a_table_is_no_picture() -> None:
    class Table:
        """It has the shape of a picture, as pandas' has, but cannot be cut like one."""

        shape = (2, 2)

        def __array__(self, *_: object, **__: object) -> npt.NDArray[np.object_]:
            return np.array([["a.mp4", 1], ["b.mp4", 0]], object)

    with pytest.raises(ArgumentError, match="a frame to show must hold numbers, got object"):
        sheet_of(Table())  # type: ignore[arg-type]


def test_without_pillow_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "PIL", None)
    with pytest.raises(ConfigurationError, match=r"pip install 'videoloader\[pictures\]'"):
        sheet_of(RED)
