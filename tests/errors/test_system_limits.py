"""What the system refuses is an error of the library that says what to do, whichever call runs into it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from inspect import isfunction
from pathlib import Path
from types import ModuleType

import pytest
from child_environment import SAFE_PATH, child_environment
from forked_programs import run_program

import videoloader as vl
import videoloader.indexing
from videoloader.errors import what_the_system_lacks

Sample = Callable[[str], Path]


def test_relative_paths_in_a_folder_that_was_deleted(sample: Sample, tmp_path: Path) -> None:
    program = f"""
import os, videoloader as vl
os.mkdir("gone")
os.chdir("gone")
os.rmdir("../gone")
calls = {{
    "Video": lambda: vl.Video("x.mp4"),
    "IndexStore": lambda: vl.IndexStore("x.db"),
    "build_store": lambda: vl.build_store([{str(sample("h264_mp4"))!r}], "x.db"),
    "merge_stores": lambda: vl.merge_stores(["a.db"], "b.db"),
    "of data": lambda: vl.VideoDataset.from_paths([{str(sample("h264_mp4"))!r}]).build_store("x.db"),
}}
for name, call in calls.items():
    try:
        call()
    except vl.SourceError as error:
        assert "the current folder was deleted: give absolute paths" in str(error), error
        print(name)
"""
    told = run_program(program, cwd=tmp_path).stdout
    assert told.split("\n")[:5] == ["Video", "IndexStore", "build_store", "merge_stores", "of data"]


def test_relative_paths_where_the_current_folder_cannot_be_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    with suppress(vl.SourceError):
        vl.Video("x")  # imports of other packages need the current folder
    monkeypatch.setattr(os, "getcwd", refuse)
    told = r"^x: the path of the current folder cannot be told \(Permission denied\)"
    for call in (
        lambda: vl.Video("x"),
        lambda: vl.IndexStore("x"),
        lambda: vl.build_store([str(tmp_path)], "x"),
        lambda: vl.VideoDataset.from_paths(["x"], sources="inside root", root="x"),
    ):
        with pytest.raises(vl.SourceError, match=told):
            call()


def test_too_few_descriptors_for_processes(sample: Sample, tmp_path: Path) -> None:
    program = f"""
import resource, videoloader as vl
path = {str(sample("h264_mp4"))!r}
data = vl.VideoDataset.from_paths([path, {str(sample("vp9_webm"))!r}])
vl.Video(path, device="cpu")[0]
resource.setrlimit(resource.RLIMIT_NOFILE, (len(__import__("os").listdir("/proc/self/fd")) + 1, 4096))
for call in (lambda: vl.build_store(data.paths, {str(tmp_path / "x.db")!r}, workers=2), data.describe):
    try:
        call()
    except vl.VideoLoaderError as error:
        print("`ulimit -a` shows its limits" in str(error), error)
"""
    assert "True" in run_program(program, cwd=tmp_path).stdout


def test_too_few_descriptors_for_the_first_use_of_a_name(sample: Sample, tmp_path: Path) -> None:
    program = f"""
import os, resource, videoloader as vl
limits = resource.getrlimit(resource.RLIMIT_NOFILE)
next_one = os.dup(0)
os.close(next_one)
resource.setrlimit(resource.RLIMIT_NOFILE, (next_one, limits[1]))
try:
    vl.VideoEntry
except vl.VideoLoaderError as error:
    print(error)
resource.setrlimit(resource.RLIMIT_NOFILE, limits)
print(len(vl.Video({str(sample("h264_mp4"))!r}, device="cpu")))
"""
    # A process that has imported nothing yet.
    new = [sys.executable, *SAFE_PATH, "-c", program]
    told = subprocess.run(new, capture_output=True, text=True, env=child_environment(), cwd=tmp_path, timeout=120)
    refused, frames = told.stdout.splitlines()
    assert "Too many open files" in refused
    assert "`ulimit -a` shows its limits" in refused
    assert frames == "60"


def test_pictures_are_drawn_when_memory_is_there_again(tmp_path: Path) -> None:
    program = """
import sys, numpy as np, videoloader as vl
__name__ = "importlib"  # or the error would be one of a user's code
class Lacking:
    def find_spec(name, *_):
        if name == "PIL._imagingft":
            raise ImportError("libfreetype.so: failed to map segment from shared object")
assert "PIL._imagingft" not in sys.modules
sys.meta_path.insert(0, Lacking)
frames = np.zeros((1, 8, 8, 3), np.uint8)
try:
    vl.show(frames)
except vl.NoMemoryError as error:
    print(error)
sys.meta_path.remove(Lacking)
print(vl.show(frames).size[0] > 0)
"""
    refused, drawn = run_program(program, cwd=tmp_path).stdout.splitlines()
    assert "there is not enough memory for what is asked for" in refused
    assert drawn == "True"


@pytest.mark.parametrize(
    "call",
    [
        lambda: vl.FrameList(range(10**18)),
        lambda: vl.FrameTuples(range(10**18), 1),
        lambda: vl.RandAugment(operations=range(10**18)),
        lambda: vl.AutoAugment(operations=range(10**18)),
        lambda: vl.VideoDataset.from_paths(["a.mp4"], range(10**18)),
        lambda: vl.VideoDataset(range(10**18)),  # type: ignore[arg-type]
    ],
)
def test_lists_without_end_are_refused_at_once(call: Callable[[], object]) -> None:
    with pytest.raises((vl.NoMemoryError, vl.ConfigurationError)):
        call()


def test_only_what_the_system_lacks_is_told_so() -> None:
    lazy = ImportError("av/stream.abi3.so: failed to map segment from shared object")
    silent = SystemError("error return without exception set")
    named = SystemError("<built-in function where> returned NULL without setting an exception")
    for error in (MemoryError(), lazy, silent, named):
        assert isinstance(what_the_system_lacks(error), vl.NoMemoryError)
    for number in (errno.EMFILE, errno.ENFILE, errno.EAGAIN):
        assert "refuses more" in str(what_the_system_lacks(OSError(number, os.strerror(number))))
    assert "can't start new thread" in str(what_the_system_lacks(RuntimeError("can't start new thread")))
    others = OSError(errno.EIO, "Input/output error"), FileNotFoundError(errno.ENOENT, "No", "x"), KeyError("too big")
    for error in (*others, ValueError(), KeyError("array is too big"), SystemError("bad argument")):
        assert what_the_system_lacks(error) is None


@pytest.mark.parametrize("raised", [OSError(errno.EMFILE, "mine"), FileNotFoundError("mine"), MemoryError("mine")])
def test_errors_of_a_users_function_come_out(sample: Sample, tmp_path: Path, raised: Exception) -> None:
    def progress(done: int, total: int) -> None:
        raise raised

    with pytest.raises(type(raised)) as caught:
        vl.build_store([sample("h264_mp4")], tmp_path / "x.db", workers=1, progress=progress)
    assert caught.value is raised


def test_messages_have_a_bound() -> None:
    with pytest.raises(vl.VideoLoaderError) as caught:
        vl.VideoDataset.from_folder("a" * 100_000)
    assert len(str(caught.value)) < 11_000
    assert "…" in str(caught.value)


@pytest.mark.parametrize("module", [vl, videoloader.indexing], ids=["videoloader", "indexing"])
def test_all_public_functions_tell_of_it(module: ModuleType) -> None:
    functions = [each for each in (getattr(module, name) for name in module.__all__) if isfunction(each)]
    assert [each.__name__ for each in functions if not hasattr(each, "__wrapped__")] == []
    assert len(functions) > 3
