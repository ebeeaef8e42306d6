"""A file is replaced in one step, and nothing else is left of a program that is killed while it writes."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from videoloader.indexing.sources import regular_file
from videoloader.indexing.sources.regular_file import replacing


def test_a_killed_program_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"old")
    if not (child := os.fork()):
        with replacing(str(path)) as file:
            file.write(bytes(1 << 20))
            file.flush()
            os.kill(os.getpid(), signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a.csv", b"old")]


@pytest.fixture(params=["without a name", "with a name"])
def kind(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """The kinds of new files: file systems without nameless ones refuse to open a folder for writing."""
    if request.param == "with a name":
        monkeypatch.setattr(regular_file, "_NAMELESS", os.O_WRONLY)
    return request.param


@pytest.mark.parametrize("mode", [0o640, 0o755])
def test_the_new_file_has_the_permissions_of_the_old_one(kind: str, tmp_path: Path, mode: int) -> None:
    path = tmp_path / "a.csv"
    path.touch(mode)
    path.chmod(mode)
    with replacing(str(path)) as file:
        file.write(b"new")
    assert (path.read_bytes(), path.stat().st_mode & 0o777) == (b"new", mode)
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]


def test_a_new_file_has_the_permissions_that_the_program_gives_files(kind: str, tmp_path: Path) -> None:
    (tmp_path / "plain").touch()
    with replacing(str(tmp_path / "new")) as file:
        file.write(b"new")
    assert (tmp_path / "new").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_an_error_leaves_the_old_file(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(b"old")
    with pytest.raises(TypeError), replacing(str(path)) as file:
        file.writelines([b"new", None])  # type: ignore[list-item]
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a.csv", b"old")]


def test_a_file_of_the_same_name_is_left_alone(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.csv.0.part").write_bytes(b"another's")
    monkeypatch.setattr(regular_file, "token_hex", lambda size: "0")
    with pytest.raises(FileExistsError), replacing(str(tmp_path / "a.csv")) as file:
        file.write(b"new")
    assert [(each.name, each.read_bytes()) for each in tmp_path.iterdir()] == [("a.csv.0.part", b"another's")]
