"""The names that can be imported, and from where."""

from __future__ import annotations

import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import videoloader as vl
from videoloader import public_names

CHECKOUT = Path(__file__).parents[1]
PLAIN = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}


def in_checkout(program: str) -> str:
    """What a program prints that runs in the checkout's root, where nothing else leads to the library's code."""
    run = [sys.executable, "-W", "error", "-c", program]
    return subprocess.run(run, cwd=CHECKOUT, env=PLAIN, capture_output=True, text=True, check=True).stdout.strip()


@pytest.mark.parametrize("package", [vl, vl.transforms])
def test_every_name_of_the_list_can_be_imported(package: object) -> None:
    listed = importlib.import_module(package.__name__).__all__  # type: ignore[attr-defined]
    assert all(hasattr(package, name) for name in listed)
    assert len(set(listed)) == len(listed)
    assert set(listed) <= set(dir(package))


def test_names_are_imported_in_a_folder_that_was_deleted(tmp_path: Path) -> None:
    """PyTorch cannot be, and ends the program. Only the time of the import is spent elsewhere."""
    program = f"""
import os
import videoloader as vl

os.mkdir({str(tmp_path / "gone")!r})
os.chdir({str(tmp_path / "gone")!r})
os.rmdir({str(tmp_path / "gone")!r})
print(vl.RandomWindow(3).length, vl.Video.__name__)
try:
    os.getcwd()
except FileNotFoundError:
    print("deleted")
"""
    assert in_checkout(program).split() == ["3", "Video", "deleted"]


def test_all_names_come_with_a_star() -> None:
    names: dict[str, object] = {}
    exec("from videoloader import *", names)
    assert set(vl.__all__) <= set(names)
    assert names["Pad"] is vl.transforms.Pad


def test_transforms_are_public_in_both_places() -> None:
    assert set(vl.transforms.__all__) <= set(vl.__all__)
    assert all(getattr(vl, name) is getattr(vl.transforms, name) for name in vl.transforms.__all__)


def test_a_name_that_is_not_there_is_told() -> None:
    with pytest.raises(AttributeError, match="RandomWindws"):
        vl.RandomWindws  # noqa: B018


def test_indexing_needs_no_torch() -> None:
    program = "import sys, videoloader.indexing, videoloader as vl; vl.VideoIndex; print('torch' in sys.modules)"
    assert in_checkout(program) == "False"


@pytest.mark.parametrize("name", ["indexing", "padding"])
def test_a_checkout_works_without_being_installed(name: str) -> None:
    program = f"import videoloader, videoloader.{name} as found; print(videoloader.__version__, found.__file__)"
    assert in_checkout(program) == f"{vl.__version__} {CHECKOUT / name / '__init__.py'}"


@pytest.mark.parametrize("name", ["tests", "samples", "benchmarks"])
def test_other_folders_of_a_checkout_are_not_in_the_package(name: str) -> None:
    with pytest.raises(subprocess.CalledProcessError) as raised:
        in_checkout(f"import videoloader.{name}")
    assert f"No module named 'videoloader.{name}'" in raised.value.stderr


@pytest.mark.parametrize(("old", "new"), public_names._RENAMED.items())
def test_old_import_paths_lead_to_the_same_modules(old: str, new: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, old, raising=False)
    with pytest.warns(DeprecationWarning, match=f"{old} is now {new}") as told:
        found = importlib.import_module(old)
    assert found is importlib.import_module(new)
    assert found.__spec__ is not None
    assert found.__spec__.name == new
    assert len(told) == 1


def test_what_fills_a_store_has_its_old_name_too() -> None:
    old, new = vl.VideoDataset.build_index, vl.VideoDataset.build_store
    assert inspect.unwrap(old) is inspect.unwrap(new)


INTERRUPTED = """
import sys
import videoloader as vl

class Interrupt:
    def find_spec(self, name, path, target=None):
        if name == sys.argv[2]:
            sys.meta_path.remove(self)
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
try:
    vl.Video
    vl.VideoLoader
except KeyboardInterrupt:
    print("interrupted")
print(len(vl.Video(sys.argv[1], device="cpu")), vl.VideoLoader.__name__)
print(vl.indexing is sys.modules["videoloader.indexing"])
print(vl.Resize is sys.modules["videoloader.transforms.resizing"].Resize)
"""


@pytest.mark.parametrize(
    "module",
    ["indexing.stream_info", "indexing.bitstream.h264_parameter_sets", "indexing.build", "batching.image_rows"],
)
def test_a_first_use_that_is_interrupted_can_be_tried_again(sample: Callable[[str], Path], module: str) -> None:
    run = [sys.executable, "-W", "error", "-c", INTERRUPTED, str(sample("h264_mp4")), f"videoloader.{module}"]
    done = subprocess.run(run, cwd=CHECKOUT, env=PLAIN, capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("interrupted\n60 VideoLoader\nTrue\nTrue\n", "")
