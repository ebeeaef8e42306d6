"""A store that moves with its data set, and back, has one row for each video, under its key below the root."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

import videoloader as vl
from videoloader.indexing import IndexStore, build_store, merge_stores

Write = Callable[[Path], object]


def _folder(path: Path, frames: int) -> Path:
    path.mkdir(parents=True)
    for number in range(frames):
        Image.new("RGB", (16, 16)).save(path / f"{number}.png")
    return path


def _moved_back(folder: Path, kept: bool) -> tuple[Path, Path]:
    """The folder and the store of a data set that was elsewhere when another one lay in its place.

    Args:
        folder: where it is made.
        kept: whether the store has a row for the data set's own video, too.
    """
    here, away = folder / "data\u00e9", folder / "away"
    _folder(here / "v", 3)
    build_store([here / "v"] if kept else [], here / "s.db", workers=1)
    here.rename(away)
    _folder(here / "v", 5)
    build_store([here / "v"], away / "s.db", workers=1)
    shutil.rmtree(here)
    away.rename(here)
    return here, here / "s.db"


@pytest.mark.parametrize("kept", [True, False])
def test_a_store_that_moved_back_has_one_row_for_each_video(kept: bool, tmp_path: Path) -> None:
    here, store = _moved_back(tmp_path, kept)
    assert build_store([here / "v"], store, workers=1).unchanged == kept
    assert IndexStore(store).query("SELECT source, frames FROM videos") == [("v", 3)]
    assert len(IndexStore(store).get(here / "v")) == 3


def test_a_build_gives_rows_below_the_root_their_keys(tmp_path: Path) -> None:
    here, store = _moved_back(tmp_path, kept=False)
    shutil.rmtree(here / "v")
    _folder(here / "v", 5)
    build_store([], store, workers=1, fingerprint="size")
    assert IndexStore(store).query("SELECT source, frames FROM videos") == [("v", 5)]


def test_a_merge_gives_rows_below_the_root_their_keys(tmp_path: Path) -> None:
    _, store = _moved_back(tmp_path, kept=True)
    build_store([_folder(tmp_path / "other", 4)], tmp_path / "part.db", workers=1)
    merge_stores([tmp_path / "part.db"], store)
    assert IndexStore(store).query("SELECT frames FROM videos ORDER BY 1") == [(3,), (4,)]


def test_rows_from_before_a_move_are_left_out_until_then(tmp_path: Path) -> None:
    here, store = _moved_back(tmp_path, kept=True)
    with pytest.warns(vl.VideoLoaderWarning, match="1 of 2 videos are left out .1 from before the store was moved"):
        data = vl.VideoDataset.from_store(store)
    assert list(data.paths) == [str(here / "v")]
    (told,) = data.left_out
    assert told == (str(here / "v"), "was outside of the store's root when it was indexed: build the store again")
    with pytest.raises(vl.ConfigurationError, match="none of the 2 rows is left"):
        vl.VideoDataset.from_store(store, where="frames = 5")
