"""System failures at every read of a file, every write of a store and every step of an epoch."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from faults import FAULTS, Points, full_beyond, in_child, jumping_clock, kill, killed_beyond, walk
from store_contents import contents
from waiting import PATIENCE, becomes, is_running

import videoloader as vl
from videoloader.indexing import IndexStore, merge_stores
from videoloader.indexing.store import building
from videoloader.indexing.store.tasks import Answer, answer_task
from videoloader.reading import process_pool
from videoloader.reading.process_pool import _Process
from videoloader.runtime import child_process, threads

Sample = Callable[[str], Path]


@pytest.fixture
def paths(sample: Sample) -> list[Path]:
    return [sample(name) for name in ("h264_mp4", "hevc_mp4", "vp9_webm", "h264_ts")]


def frames_of(paths: list[Path], **settings: object) -> list[torch.Tensor]:
    """All frames of an epoch."""
    defaults = {"batch_size": 2, "device": "cpu", "num_workers": 1, "prefetch": 2}
    loader = vl.VideoLoader(vl.VideoDataset.from_paths(paths), [0, 30], **(defaults | settings))
    return [batch.frames for batch in loader]


def same(frames: list[torch.Tensor], others: list[torch.Tensor]) -> bool:
    return len(frames) == len(others) and all(map(torch.equal, frames, others))


# --- reads -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["h264_mp4", "h264_ts", "vp9_webm"])
@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
def test_a_read_that_fails_is_an_error_of_the_video_or_changes_nothing(
    sample: Sample, monkeypatch: pytest.MonkeyPatch, name: str, fault: Callable[..., object]
) -> None:
    expected, told = vl.Video(sample(name), device="cpu")[[0, 30]], []

    def scenario(points: Points) -> None:
        with monkeypatch.context() as patch:
            points.watch(patch, os, "pread")
            try:
                assert torch.equal(vl.Video(sample(name), device="cpu")[[0, 30]], expected)
            except vl.VideoLoaderError as error:
                told.append(str(error))

    for _ in walk(scenario, fault, most=25):
        pass
    assert all(str(sample(name)) in error for error in told)
    assert bool(told) == (fault is not FAULTS["slow read"])


# --- stores ------------------------------------------------------------------------------------------------------


@pytest.fixture
def build(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], object]:
    """Builds a store of some videos, whose rows are committed one by one."""
    answers: dict[str, Answer] = {}
    monkeypatch.setattr(building, "_ROWS_AT_ONCE", 1)
    monkeypatch.setattr(
        building,
        "index_in_processes",
        lambda chunks, workers: (
            [answers.setdefault(task.path, answer_task(task._replace(known=None)))]
            for tasks in chunks
            for task in tasks
        ),
    )
    return lambda store: building.build_store(paths, store, workers=1)


@pytest.mark.parametrize("limit", [killed_beyond, full_beyond], ids=["killed", "disk full"])
def test_a_store_is_sound_after_each_write_that_fails(
    tmp_path: Path, build: Callable[[Path], object], limit: Callable[[int], Callable[[], None]]
) -> None:
    """Killed there, or told that the disk is full: what was committed is there, and the next build ends it."""
    build(tmp_path / "clean.db")
    clean, endings = contents(tmp_path / "clean.db"), set()

    def work(store: Path) -> int:
        try:
            build(store)
        except vl.SourceError as error:
            return 3 if "cannot be written" in str(error) else 1
        return 0

    for size in range(0, 5 * (tmp_path / "clean.db").stat().st_size, 1 << 13):
        store = tmp_path / f"{size}.db"
        endings.add(in_child(partial(work, store), limit(size)))
        if store.exists() and store.stat().st_size:
            assert rows_of(store).items() <= clean.items()
        build(store)
        assert contents(store) == clean
    assert endings == ({0, -signal.SIGXFSZ} if limit is killed_beyond else {0, 3})


@pytest.mark.parametrize("limit", [killed_beyond, full_beyond], ids=["killed", "disk full"])
def test_a_merge_that_fails_at_any_write_is_completed_by_the_same_merge(
    tmp_path: Path, paths: list[Path], limit: Callable[[int], Callable[[], None]]
) -> None:
    """Also what only a new store is given: the root of its parts, and their kind of fingerprints."""
    parts = [tmp_path / f"{number}.db" for number in range(2)]
    for number, part in enumerate(parts):
        building.build_store(paths[number::2], part, root="/", fingerprint="content", workers=1)
    settings = "SELECT name, value FROM settings WHERE name LIKE 'root%' OR name = 'fingerprint' ORDER BY name"

    def merge(store: Path) -> int:
        try:
            merge_stores(parts, store)
        except vl.SourceError as error:
            return 3 if "cannot be written" in str(error) else 1
        return 0

    assert merge(tmp_path / "clean.db") == 0
    clean, endings = IndexStore(tmp_path / "clean.db").query(settings), set()
    for size in range(0, 5 * (tmp_path / "clean.db").stat().st_size, 1 << 12):
        store = tmp_path / f"killed-{size}.db"
        endings.add(in_child(partial(merge, store), limit(size)))
        assert merge(store) == 0
        assert IndexStore(store).query(settings) == clean
        assert contents(store) == contents(tmp_path / "clean.db")
    assert endings == ({0, -signal.SIGXFSZ} if limit is killed_beyond else {0, 3})


def rows_of(store: Path) -> dict[object, object]:
    try:
        return contents(store)
    except vl.IndexingError as error:
        assert "but empty" in str(error)  # noqa: PT017 - the transaction that makes its tables is undone
        return {}


def test_a_clock_that_jumps_changes_nothing(
    tmp_path: Path, paths: list[Path], build: Callable[[Path], object], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = frames_of(paths)
    build(tmp_path / "clean.db")
    jumping_clock(monkeypatch, 1e6)
    build(tmp_path / "store.db")
    assert contents(tmp_path / "store.db") == contents(tmp_path / "clean.db")
    assert same(frames_of(paths, index=tmp_path / "store.db"), expected)


# --- epochs ------------------------------------------------------------------------------------------------------


@pytest.fixture
def processes_from_the_first_clip(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each thread waits until its process has started."""
    plain = _Process.is_ready

    def is_ready(process: _Process) -> bool:
        process.has_begun or process.connection.poll(PATIENCE)
        return plain(process)

    monkeypatch.setattr(_Process, "is_ready", is_ready)
    monkeypatch.setattr(process_pool, "_CLIPS_BEFORE", 0)


@pytest.mark.usefixtures("processes_from_the_first_clip")
@pytest.mark.parametrize("call", [1, 6])
@pytest.mark.parametrize("name", ["do", "_send_block", "is_ready"])
def test_a_reader_process_that_is_killed_at_any_step_costs_no_clip(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch, name: str, call: int
) -> None:
    """Another one makes the clip; one that has not even begun says that processes cannot be started."""

    def kill_it(plain: Callable[..., object], arguments: tuple[_Process, ...]) -> object:
        process = arguments[0]._process
        process.kill()
        process.wait()
        return plain(*arguments)

    expected, points, told = frames_of(paths), Points(call, kill_it), ""
    points.watch(monkeypatch, _Process, name)
    try:
        assert same(frames_of(paths * 3, num_processes=1), expected * 3)
    except vl.VideoLoaderError as error:
        told = str(error)
    assert points.count >= call
    assert not told or "num_processes=0 decodes in threads" in told
    assert name != "do" or not told


@pytest.mark.usefixtures("processes_from_the_first_clip")
@pytest.mark.parametrize("steps", [1, 5])
def test_processes_end_with_a_loader_that_is_killed_at_any_order(
    paths: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: int
) -> None:
    plain, pids = child_process.start_process, tmp_path / "pids"

    def start(*arguments: object) -> object:
        process, connection = plain(*arguments)  # type: ignore[arg-type]
        with pids.open("a") as file:
            file.write(f"{process.pid}\n")
        return process, connection

    monkeypatch.setattr(child_process, "start_process", start)
    Points(steps, kill).watch(monkeypatch, _Process, "do")
    assert in_child(lambda: frames_of(paths * 3, num_workers=2, num_processes=2) and 0) == -signal.SIGKILL
    assert becomes(lambda: not any(map(is_running, pids.read_text().split())))


@pytest.mark.parametrize(("workers", "processes"), [(0, 0), (2, 0), (2, 2)])
def test_a_process_without_descriptors_works_or_says_so(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch, workers: int, processes: int
) -> None:
    monkeypatch.setattr(process_pool, "_CLIPS_BEFORE", 0)
    expected = frames_of(paths)

    def work() -> int:
        try:
            return 0 if same(frames_of(paths, num_workers=workers, num_processes=processes), expected) else 1
        except vl.VideoLoaderError as error:
            return 3 if "Too many open files" in str(error) else 1

    used = max(map(int, os.listdir("/proc/self/fd")))
    most = [used + more for more in (1, 2, 4, 8, 64)]
    limits = [partial(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, soft)) for soft in most]
    endings = [in_child(work, limit) for limit in limits]
    assert set(endings) <= {0, 3}
    assert endings[-1] == 0


def test_threads_that_cannot_be_started_are_an_error_that_says_what_to_do(
    paths: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = frames_of(paths)

    def refused(plain: Callable[..., object], arguments: tuple[object, ...]) -> object:
        raise RuntimeError("can't start new thread")

    def scenario(points: Points) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(threads, "_idle", defaultdict(threads._Idle))
            points.watch(patch, threading.Thread, "start")
            try:
                assert same(frames_of(paths, num_workers=2), expected)
            except vl.VideoLoaderError as error:
                told.append(str(error))

    told: list[str] = []
    assert sum(1 for _ in walk(scenario, refused)) >= 3
    assert told
    assert all(
        "no thread can be started (can't start new thread): loaders with num_workers=0 need none" in each
        for each in told
    )
