"""A signal's handler that runs between any two lines: one that uses the library, and one that raises an error.

Every few lines of the main thread, each time other ones, stand for all of them.
"""

from __future__ import annotations

import io
import os
import signal
import sys
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from itertools import count
from pathlib import Path
from types import FrameType

import pytest
from archive_writing import write_lmdb
from sample_videos import Recipe, write_video
from stopped_loaders import at_line, clips_of, make

import videoloader as vl
from videoloader.indexing import demuxer
from videoloader.indexing.sources import regular_file
from videoloader.runtime import threads

Use = Callable[[], object]


class TooLateError(RuntimeError):
    """What a user's handler raises. Python's own error for threads that do not start is a ``RuntimeError``, too."""


@pytest.fixture(scope="module")
def path(sample: Callable[[str], Path]) -> Path:
    return sample("h264_mp4")


def _frames(path: Path) -> int:
    return sum(frame.shape[-1] for frame, _ in zip(vl.Video(path, device="cpu"), range(3), strict=False))


def _loader(path: Path) -> list[int]:
    with make(vl.VideoDataset.from_paths([path] * 4)) as loader:
        return clips_of(list(loader))


def _in_this_thread(path: Path) -> list[int]:
    with make(vl.VideoDataset.from_paths([path] * 4), num_workers=0) as loader:
        return clips_of(list(loader))


def _database(path: Path) -> int:
    return len(vl.Video(f"{path}::a", device="cpu"))


@pytest.mark.parametrize("use", [_frames, _loader, _in_this_thread, _database])
def test_a_handler_may_use_the_library(use: Callable[[Path], object], path: Path, tmp_path: Path) -> None:
    if use is _database:
        path = write_lmdb(tmp_path / "database", {"a": path.read_bytes()})
    expected, lines = use(path), 0
    for chosen in count(1, 31):
        found: list[object] = []
        with at_line(chosen, lambda found=found: found.append(use(path))) as reached:
            found.append(use(path))
        if not reached:
            break
        assert found == [expected, expected], reached
        lines += 1
    assert lines > 3


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The errors that Python cannot raise, since they arose in finalizers."""
    errors: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda unraisable: errors.append(unraisable.exc_value))
    return errors


@pytest.mark.parametrize(("use", "step"), [(_frames, 7), (_in_this_thread, 13)])
def test_a_runtime_error_of_a_handler_ends_a_loop(
    use: Callable[[Path], object], step: int, path: Path, told: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(number: int, frame: object) -> None:
        raise TooLateError

    use(path)  # so that no import is interrupted
    monkeypatch.setattr(threads, "_idle", defaultdict(threads._Idle))  # so that threads are started
    before = signal.signal(signal.SIGUSR1, fail)
    for chosen in count(1, step):
        told.clear()
        try:
            with at_line(chosen, partial(signal.raise_signal, signal.SIGUSR1)) as reached:
                use(path)
        except TooLateError:
            continue
        if not reached:
            break
        assert told, reached
    signal.signal(signal.SIGUSR1, before)
    assert chosen > 300


def _skipping(path: Path) -> int:
    data = vl.VideoDataset.from_paths([path] * 4)
    with make(data, num_workers=0, on_error="skip") as loader:
        return len(clips_of(list(loader)))


def _verified(path: Path) -> bool:
    return vl.verify(path, device="cpu").ok


def _prepared(path: Path) -> int:
    with make(vl.VideoDataset.from_paths([path] * 4), on_error="skip") as loader:
        return len(loader)


@pytest.mark.parametrize(("use", "step"), [(_skipping, 331), (_verified, 1999), (_prepared, 31)])
def test_an_error_of_the_library_in_a_handler_is_no_error_of_a_video(
    use: Callable[[Path], object], step: int, path: Path, told: list[object]
) -> None:
    def fail(number: int, frame: object) -> None:
        vl.Video("/missing/of the handler.mp4")

    expected, before, raised = use(path), signal.signal(signal.SIGUSR1, fail), 0
    for chosen in count(1, step):
        told.clear()
        try:
            with at_line(chosen, partial(signal.raise_signal, signal.SIGUSR1)) as reached:
                found = use(path)
        except vl.SourceError:
            raised += 1
            continue
        if not reached:
            break
        assert found == expected, reached
        assert told, reached
    signal.signal(signal.SIGUSR1, before)
    assert raised > 20


@pytest.mark.parametrize("kind", [KeyboardInterrupt, TooLateError])
def test_an_interruption_of_libavformat_comes_out(kind: type[BaseException], tmp_path: Path) -> None:
    """Python runs a handler when libavformat asks for bytes, before the first line of what gives them."""
    video = write_video(tmp_path / "a.avi", Recipe("avi", "ffv1", {}))
    raised, ended = False, 0

    def handler(number: int, frame: FrameType | None) -> None:
        nonlocal raised
        if not raised and frame is not None and frame.f_code is demuxer._Input._answer_all.__code__:
            raised = True
            raise kind

    before = signal.signal(signal.SIGALRM, handler)
    try:
        for _ in range(1000):
            raised = False
            signal.setitimer(signal.ITIMER_REAL, 0.0001, 0.0001)
            try:
                vl.build_index(video)
            except kind:
                ended += 1
            else:
                assert not raised, "it was lost"
            finally:
                signal.setitimer(signal.ITIMER_REAL, 0)
            if ended == 30:
                break
    finally:
        signal.signal(signal.SIGALRM, before)
    assert ended == 30


@pytest.mark.parametrize("kind", ["save", "to_csv", "to_jsonl", "to_parquet"])
def test_an_interrupted_export_leaves_no_file(kind: str, path: Path, tmp_path: Path) -> None:
    """As where a signal comes while the system makes the file."""
    data = vl.VideoDataset.from_paths([path])
    data.build_store(tmp_path / "s.db")
    export = data.save if kind == "save" else getattr(vl.IndexStore(tmp_path / "s.db"), kind)
    written = tmp_path / f"out.{kind}"

    def interrupted(name: str) -> object:
        io.FileIO(name, "x").close()
        raise KeyboardInterrupt

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(regular_file, "_Part", interrupted)
        with pytest.raises(KeyboardInterrupt):
            export(written)
    assert sorted(os.listdir(tmp_path)) == ["s.db"]
    export(written)
    assert sorted(os.listdir(tmp_path)) == [written.name, "s.db"]
