"""Processes that make clips start, die, are cancelled and end; what they cannot do, threads do."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from killed_processes import killed_at_the_start
from reading_processes import Waiting, pid_of, read, slots_for
from waiting import becomes

import videoloader as vl
import videoloader.reading.workers
from videoloader.convert.spec import OutputSpec
from videoloader.errors import DecodeError, SourceError, VideoLoaderError
from videoloader.indexing import VideoIndex, build_index, open_source
from videoloader.reading import process_pool
from videoloader.reading.cancellation import CancelToken, ReadCancelled
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.process_pool import ProcessPool, ProcessReader
from videoloader.reading.read_request import ReadRequest
from videoloader.reading.workers import DecodeWorkers
from videoloader.runtime import shared_memory
from videoloader.runtime.device import HostMemory

Sample = Callable[[str], Path]
CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("processes_at_once")


def test_processes_end_with_those_who_use_them() -> None:
    workers = DecodeWorkers(CPU, num_workers=1, num_processes=1)
    workers._processes = Waiting(1)
    pid = pid_of(workers._processes)
    del workers
    assert becomes(lambda: not os.path.exists(f"/proc/{pid}"))


class _Ends:
    """Ends the process that it is sent to."""

    def __reduce__(self) -> tuple[Any, tuple[int]]:
        return os._exit, (3,)


def test_a_clip_over_which_processes_die_is_an_error_and_others_are_not(
    sample: Sample, only_there: ProcessReader
) -> None:
    path = sample("h264_mp4")
    with pytest.raises(DecodeError, match=r"2 processes died over it, the last with exit status 3"):
        read(only_there, path, [1], output=_Ends())
    assert torch.equal(read(only_there, path, [1]), read(ClipReader(CPU), path, [1]))


def test_a_process_that_is_killed_while_it_waits_is_replaced(sample: Sample, processes: ProcessPool) -> None:
    pid = pid_of(processes)
    os.kill(pid, signal.SIGKILL)
    assert becomes(lambda: processes._all[0]._process.poll() is not None)
    assert pid_of(processes) != pid


def made_long(index: VideoIndex) -> VideoIndex:
    """The index with a record that no packet needs, which takes 10 MB to send."""
    records = (*index.stream.codec_configs, os.urandom(10 << 20))
    return replace(index, stream=replace(index.stream, codec_configs=records))


@pytest.mark.parametrize("is_long", [False, True])
def test_cancelled_work_of_a_process_that_does_not_answer_is_given_up(
    sample: Sample, processes: ProcessPool, only_there: ProcessReader, monkeypatch: pytest.MonkeyPatch, is_long: bool
) -> None:
    """As where it was stopped, or waits for a disk that does not answer; also while it is sent a long index."""
    monkeypatch.setattr(process_pool, "_MOST_WAITED", 0.1)
    path, pid, token = sample("h264_mp4"), pid_of(processes), CancelToken()
    index = build_index(open_source(str(path)))
    if is_long:
        index = replace(
            index, stream=replace(index.stream, codec_configs=(*index.stream.codec_configs, bytes(10 << 20)))
        )
    os.kill(pid, signal.SIGSTOP)
    threading.Timer(0.1, token.cancel).start()
    with pytest.raises(ReadCancelled):
        only_there.read(ReadRequest(str(path), index, [slots_for(index, [0])], OutputSpec()), token)
    assert pid_of(processes) != pid


def test_a_process_that_is_killed_while_it_starts_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    pool = Waiting(1)
    killed = killed_at_the_start(monkeypatch, 1)
    assert [pid_of(pool)] != killed != []
    killed.clear()  # another one, after one that has started
    os.kill(pid_of(pool), signal.SIGKILL)
    assert becomes(lambda: pool._all[0]._process.poll() is not None)
    assert [pid_of(pool)] != killed != []
    pool.close()


def test_processes_that_are_killed_whenever_they_start_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = killed_at_the_start(monkeypatch, 99)
    pool = ProcessPool(1)
    with pytest.raises(VideoLoaderError, match=r"no process can be started with .*\(exit status -9\)"):
        becomes(lambda: pool.take() is not None)
    assert len(killed) == 2


def test_a_thread_makes_clips_whose_memory_cannot_be_sent(
    sample: Sample, processes: ProcessPool, only_there: ProcessReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pid = sample("h264_mp4"), pid_of(processes)
    expected = read(ClipReader(CPU), path, [5, 9])

    def refuse(*_: Any) -> None:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    with monkeypatch.context() as patch:
        patch.setattr(process_pool, "send_handle", refuse)
        assert torch.equal(read(ProcessReader(ClipReader(CPU), processes), path, [5, 9]), expected)
    assert torch.equal(read(only_there, path, [5, 9]), expected)
    assert pid_of(processes) == pid


def test_a_thread_makes_clips_when_the_system_refuses_something(
    sample: Sample, processes: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pid = sample("h264_mp4"), pid_of(processes)

    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOBUFS, os.strerror(errno.ENOBUFS))

    with monkeypatch.context() as patch:
        patch.setattr(process_pool._Process, "do", refuse)
        given = read(ProcessReader(ClipReader(CPU), processes), path, [5])
    assert torch.equal(given, read(ClipReader(CPU), path, [5]))
    assert pid_of(processes) != pid  # nobody knows what the other one has received


def test_a_read_is_cancelled(sample: Sample, only_there: ProcessReader) -> None:
    path, token = sample("h264_mp4"), CancelToken()
    index = build_index(open_source(str(path)))
    clip = slots_for(index, list(range(len(index))))

    def read_for_ever() -> None:
        while True:
            only_there.read(ReadRequest(str(path), index, [clip], OutputSpec()), token)

    timer = threading.Timer(0.1, token.cancel)
    timer.start()
    with pytest.raises(ReadCancelled):
        read_for_ever()
    timer.join()


def test_processes_go_on_when_the_current_folder_is_deleted(
    sample: Sample, tmp_path: Path, processes: ProcessPool, only_there: ProcessReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pid = sample("h264_mp4"), pid_of(processes)
    expected = read(ClipReader(CPU), path, [6])
    index = build_index(open_source(str(path)))
    for name in ("here", "back"):
        folder = tmp_path / name
        folder.mkdir()
        monkeypatch.chdir(folder)
        (folder / "clip.mp4").write_bytes(path.read_bytes())
        assert torch.equal(read(only_there, Path("clip.mp4"), [6]), expected)
        (folder / "clip.mp4").unlink()
        folder.rmdir()
        assert torch.equal(read(only_there, path, [6]), expected)
        with pytest.raises(SourceError, match=r"clip\.mp4: relative paths mean nothing, since the current folder was"):
            only_there.read(ReadRequest("clip.mp4", index, [slots_for(index, [6])], OutputSpec()))
    assert pid_of(processes) == pid


def test_processes_start_in_a_folder_that_was_deleted(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sample("h264_mp4")
    expected = read(ClipReader(CPU), path, [6])
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    pool = Waiting(1)
    reader = ProcessReader(ClipReader(CPU), pool)
    monkeypatch.setattr(reader, "local", None)
    assert torch.equal(read(reader, path, [6]), expected)
    monkeypatch.chdir(path.parent)
    assert torch.equal(read(reader, Path(path.name), [6]), expected)
    pool.close()


def test_a_thread_makes_clips_if_the_process_cannot_enter_its_folder(
    sample: Sample, tmp_path: Path, processes: ProcessPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, pid = sample("h264_mp4"), pid_of(processes)
    with monkeypatch.context() as patch:
        patch.setattr(process_pool, "current_folder", lambda: str(tmp_path / "just deleted"))
        given = read(ProcessReader(ClipReader(CPU), processes), path, [6])
    assert torch.equal(given, read(ClipReader(CPU), path, [6]))
    assert pid_of(processes) == pid


def test_many_pieces_of_memory_are_not_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared_memory, "_MOST_BLOCKS", len(shared_memory._blocks) + 2)
    memory = HostMemory(shared=True)
    pieces = [memory.allocate((5,), torch.uint8) for _ in range(4)]
    assert [shared_memory.block_of(piece) is not None for piece in pieces] == [True, True, False, False]


def test_no_process_can_be_started(monkeypatch: pytest.MonkeyPatch, sample: Sample) -> None:
    monkeypatch.setattr(sys, "executable", "/bin/false")
    pool = ProcessPool(1)
    with pytest.raises(VideoLoaderError, match=r"no process can be started with /bin/false .*num_processes=0"):
        becomes(lambda: pool.take() is not None)


@pytest.mark.parametrize(("clips", "started"), [(1, 0), (32, 0), (33, 1), (33.5, 2), (64, 3)])
def test_processes_start_when_clips_repay_it(monkeypatch: pytest.MonkeyPatch, clips: float, started: int) -> None:
    monkeypatch.setattr(process_pool, "_CLIPS_BEFORE", 32)
    monkeypatch.setattr(process_pool, "_Process", lambda _: SimpleNamespace(is_ready=lambda: False, end=int))
    pool = ProcessPool(3)
    assert pool.take(clips) is None
    assert len(pool._all) == started


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_processes_need_memory_that_can_be_shared(monkeypatch: pytest.MonkeyPatch, device: str) -> None:
    monkeypatch.setattr(videoloader.reading.workers, "can_share", lambda: False)
    with pytest.raises(vl.ConfigurationError, match="num_processes is 2, but processes need Linux and sys"):
        DecodeWorkers(torch.device(device), num_workers=2, cpu_workers=0, num_processes=2)
