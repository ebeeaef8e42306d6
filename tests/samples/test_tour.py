"""The tour shows every feature, and every cell of its notebook makes a picture."""

from __future__ import annotations

import importlib
import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest
from PIL import Image

import videoloader as vl
from videoloader.padding import MODES

TOUR = Path(__file__).parents[2] / "samples" / "tour"
# Bases to derive from, what transforms are given, and lists of transforms.
NO_TRANSFORMS = {"ClipInfo", "Compose", "DrawnView", "GeometryStep", "Mixing", "PixelTransform", "Transform"} | {
    "TimeTransform"
}


@pytest.fixture(scope="module")
def make() -> Iterator[ModuleType]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(TOUR.parent)
        yield importlib.import_module("tour.make")


def shown(make: ModuleType, *titles: str) -> set[str]:
    return {name for section in make.SECTIONS if not titles or section.title in titles for name in section.pictures}


def test_every_frame_mode_has_a_picture(make: ModuleType) -> None:
    public = {name: getattr(vl, name) for name in vl.__all__}
    modes = {name for name, each in public.items() if hasattr(each, "num_clips") and hasattr(each, "frame_numbers")}
    assert shown(make, "Frame modes") == modes - {"FrameMode"}


def test_every_padding_mode_has_a_picture(make: ModuleType) -> None:
    assert shown(make, "Padding") == set(MODES) - {"none"}


def test_every_transform_has_a_picture(make: ModuleType) -> None:
    transforms = {name for name in vl.transforms.__all__ if inspect.isclass(getattr(vl.transforms, name))}
    assert transforms - NO_TRANSFORMS <= shown(make)
    assert transforms >= NO_TRANSFORMS


def test_each_picture_shows_what_its_name_says(make: ModuleType) -> None:
    # "Objects" are what "video" and "batch" give, and one picture shows no transform.
    others = shown(make, "Objects") | {"Untransformed"}
    codes = {name: code for section in make.SECTIONS for name, code in section.pictures.items() if name not in others}
    assert len(codes) > 60
    assert not [name for name, code in codes.items() if f"{name}(" not in code and f'"{name}"' not in code]


def test_notebook_and_gallery_are_those_of_the_examples(make: ModuleType) -> None:
    told = "run samples/tour/make.py"
    assert make.NOTEBOOK.read_text("utf-8") == make.notebook(), told
    assert make.PAGE.read_text("utf-8") == make.page(), told
    files = {path.name for path in make.PICTURES.iterdir()}
    assert files == {make.file_of(name) for name in shown(make)}, told


def test_the_gallery_is_small_enough_to_be_kept(make: ModuleType) -> None:
    assert sum(path.stat().st_size for path in make.PICTURES.iterdir()) < 300_000


def test_every_cell_of_the_notebook_gives_a_picture(make: ModuleType, tmp_path: Path) -> None:
    cells = json.loads(make.NOTEBOOK.read_text("utf-8"))["cells"]
    codes = [cell["source"] for cell in cells if cell["cell_type"] == "code"]
    setup, *given = make.run_cells(codes, tmp_path)
    assert setup is None
    assert len(given) == len(shown(make))
    assert all(isinstance(each, Image.Image) for each in given)
    # Flat pictures would show that nothing was drawn, or everything wiped out. Of more colours there is no list.
    flat = [code for code, each in zip(codes[1:], given, strict=True) if each.getcolors(99)]
    assert not flat
