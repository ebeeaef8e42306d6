"""Vimeo-90K: lists of folders of images."""

from __future__ import annotations

from pathlib import Path

import pytest
from image_files import write_frames
from published import write

import videoloader as vl
from videoloader.errors import ConfigurationError, SourceError
from videoloader.layouts import vimeo90k


def triplets(root: Path, *names: str) -> Path:
    return write(root, {f"sequences/{name}/im{i}.png": None for name in names for i in (1, 2, 3)})


def test_rows_are_the_folders_of_the_list(tmp_path: Path) -> None:
    triplets(tmp_path, "00001/0001", "00001/0002", "00078/0389")
    (tmp_path / "tri_trainlist.txt").write_text("00001/0001\n00078/0389\n\n")
    data = vimeo90k(tmp_path / "tri_trainlist.txt")
    assert [entry.path for entry in data] == [
        str(tmp_path / "sequences" / name) for name in ("00001/0001", "00078/0389")
    ]
    assert data[1].columns == {"sequence": "00078/0389"}
    assert (data[0].label, data.class_names) == (None, ())


def test_each_is_a_video_of_its_images(tmp_path: Path) -> None:
    write_frames(tmp_path / "elsewhere/00001/0001", [f"im{i}.png" for i in range(1, 8)])
    (tmp_path / "sep_testlist.txt").write_text("00001/0001\n")
    data = vimeo90k(tmp_path / "sep_testlist.txt", tmp_path / "elsewhere")
    assert len(vl.build_index(data[0].path)) == 7


def test_missing_sequences_are_an_error_or_left_out(tmp_path: Path) -> None:
    triplets(tmp_path, "00001/0001")
    (tmp_path / "list.txt").write_text("00001/0001\n00001/0002\n00002/0001\n")
    with pytest.raises(SourceError, match=r"00001/0002: this video and 1 more of 3"):
        vimeo90k(tmp_path / "list.txt")
    assert len(vimeo90k(tmp_path / "list.txt", missing="skip").left_out) == 2


@pytest.mark.parametrize("line", ["00001", "00001/", "../0001", "00001/0001/im1.png"])
def test_nonsense_is_an_error_that_names_file_and_line(tmp_path: Path, line: str) -> None:
    triplets(tmp_path, "00001/0001")
    (tmp_path / "list.txt").write_text(f"00001/0001\n{line}\n")
    with pytest.raises(ConfigurationError, match=f"^{tmp_path}/list.txt: line 2: '{line}' is not group/sequence"):
        vimeo90k(tmp_path / "list.txt")
