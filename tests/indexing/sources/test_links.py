"""Links in tar and zip archives lead to the files to which they lead once the archive is unpacked."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tarfile
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from example_count import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

import videoloader as vl
from videoloader import SourceError
from videoloader.indexing import FileSource, open_source
from videoloader.indexing.sources.tar import tar_directory

NAMES = ["a", "b", "d/a", "d/b", "d/e/a", "link"]
TARGETS = [
    "a",
    "b",
    "d/a",
    "../a",
    "e/a",
    "d",
    "d/e",
    "link/a",
    "link/../a",
    "../../a",
    "/a",
    "nothing",
    "a/a",
    ".",
    "d/../b",
    "a/",
    "d/a/.",
]
Tree = dict[str, str | None]


def write_tree(tree: Tree, folder: Path) -> None:
    """Write files that hold their names, and soft links."""
    for name, target in tree.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if target is None:
            path.write_text(name)
        else:
            path.symlink_to(target)


def write_tar(folder: Path, archive: Path) -> None:
    with tarfile.open(archive, "w") as file:
        for name in sorted(os.listdir(folder)):
            file.add(folder / name, name)


def write_zip(folder: Path, archive: Path) -> None:
    with zipfile.ZipFile(archive, "w") as file:
        for path in sorted(folder.rglob("*")):
            name = str(path.relative_to(folder))
            if path.is_symlink():
                link = zipfile.ZipInfo(name)
                link.create_system, link.external_attr = 3, (stat.S_IFLNK | 0o777) << 16
                file.writestr(link, os.readlink(path))
            elif path.is_dir():
                file.writestr(f"{name}/", "")
            else:
                file.write(path, name)


def content(name: str | Path) -> bytes | None:
    try:
        source = open_source(str(name))
    except SourceError:
        return None
    return source.read(0, source.size)


@pytest.mark.parametrize("write", [write_tar, write_zip])
@settings(max_examples=examples(150))
@given(st.dictionaries(st.sampled_from(NAMES), st.none() | st.sampled_from(TARGETS), min_size=1))
@example({"link": "d/e", "d/e/a": None, "a": "link/../b", "d/b": None, "b": None})
@example({"a": "b", "b": "a", "d/a": "../link", "link": "d/b", "d/b": None})
def test_soft_links_lead_where_those_of_the_folder_do(write: Callable[[Path, Path], None], tree: Tree) -> None:
    with tempfile.TemporaryDirectory() as made:
        folder, archive = Path(made) / "folder", Path(made) / f"x.{write.__name__[-3:]}"
        folder.mkdir()
        write_tree(
            {name: to for name, to in tree.items() if all(str(each) not in tree for each in Path(name).parents)}, folder
        )
        write(folder, archive)
        for name in tree:
            path = folder / name
            if not path.is_symlink() and not path.is_file():
                continue
            inside = path.resolve(strict=False).is_relative_to(folder.resolve()) if not loops(path) else False
            if path.is_symlink() and os.readlink(path).startswith("/"):
                inside = False
            expected = path.read_bytes() if inside and path.is_file() else None
            assert content(f"{archive}::{name}") == expected, name


def loops(path: Path) -> bool:
    try:
        path.stat()
    except OSError:
        return True
    return False


@pytest.mark.skipif(shutil.which("tar") is None, reason="tar is not installed")
def test_a_soft_link_with_two_names_leads_to_two_files(tmp_path: Path) -> None:
    """GNU tar stores the second name as a hard link to the first."""
    folder = tmp_path / "folder"
    write_tree(
        {"b.mp4": None, "b.cls": None, "d/b.mp4": None, "d/b.cls": None, "a.mp4": "b.mp4", "a.cls": "b.cls"}, folder
    )
    for ending, label in (("mp4", None), ("cls", "0")):
        os.link(folder / f"a.{ending}", folder / f"d/a.{ending}", follow_symlinks=False)
        (folder / f"b.{ending}").write_text(label or "top")
        (folder / f"d/b.{ending}").write_text("1" if label else "below")
    subprocess.run(
        ["tar", "cf", "x.tar", "-C", "folder", "a.mp4", "a.cls", "b.mp4", "b.cls", "d"], cwd=tmp_path, check=True
    )
    data = vl.VideoDataset.from_archives(tmp_path / "x.tar")
    found = {each.path.partition("::")[2]: (content(each.path), each.label) for each in data}
    assert found == {"a.mp4": (b"top", 0), "b.mp4": (b"top", 0), "d/a.mp4": (b"below", 1), "d/b.mp4": (b"below", 1)}


def test_the_label_of_a_link_in_a_zip_archive_is_that_of_its_file(tmp_path: Path) -> None:
    write_tree(
        {"0.mp4": None, "0.cls": None, "1.mp4": "0.mp4", "1.cls": "0.cls", "2.mp4": "nothing"}, tmp_path / "folder"
    )
    (tmp_path / "folder/0.cls").write_text("3")
    (tmp_path / "folder/2.cls").write_text("4")
    write_zip(tmp_path / "folder", tmp_path / "x.zip")
    data = vl.VideoDataset.from_archives(tmp_path / "x.zip")
    found = {each.path.partition("::")[2]: (content(each.path), each.label) for each in data}
    assert found == {"0.mp4": (b"0.mp4", 3), "1.mp4": (b"0.mp4", 3), "2.mp4": (None, 4)}
    with pytest.raises(SourceError, match=r"x\.zip: member '2\.mp4' is a link to a file that is not in the archive"):
        open_source(f"{tmp_path}/x.zip::2.mp4")


def test_deep_names_and_long_targets_cost_little(tmp_path: Path) -> None:
    path, deep = tmp_path / "x.tar", "a/" * 10_000 + "b"
    links = {"long": "z/../" * 800 + "z/f", **{f"link {number}": "long" for number in range(200)}}
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as archive:
        for name, target in {"z/f": "", deep: "", **links}.items():
            member = tarfile.TarInfo(name)
            member.type, member.linkname = (tarfile.SYMTYPE if target else tarfile.REGTYPE), target
            archive.addfile(member)
    tracemalloc.start()
    try:
        members = tar_directory(FileSource(path)).members()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert [each.name for each in members] == ["z/f", deep, *links]
    assert peak < 10 << 20
