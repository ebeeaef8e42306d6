"""Clips made in other processes: the same frames, errors and warnings as in threads, even if processes die."""

from __future__ import annotations

import errno
import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from corpus_files import GOOD_FILES
from image_files import write_frames
from killed_processes import killed_at_the_start
from range_server import serve
from waiting import becomes

import videoloader as vl
import videoloader.reading.workers
from videoloader.convert.spec import Geometry, OutputSpec
from videoloader.errors import DecodeError, SourceError, StaleIndexError, VideoLoaderError
from videoloader.indexing import VideoIndex, build_index, open_source
from videoloader.indexing.sources.state import state_of
from videoloader.reading import process_pool
from videoloader.reading.cancellation import CancelToken, ReadCancelled
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.clip_slots import ClipSlots, whole_clip
from videoloader.reading.process_pool import ProcessPool, ProcessReader
from videoloader.reading.read_request import ReadRequest
from videoloader.reading.workers import DecodeWorkers
from videoloader.runtime import shared_memory
from videoloader.runtime.device import HostMemory

Sample = Callable[[str], Path]
CPU = torch.device("cpu")


class Waiting(ProcessPool):
    """Processes for which threads wait, in place of reading by themselves until they have started."""

    def take(self, clips: float = 1) -> Any:
        taken: list[Any] = [None]

        def is_taken() -> bool:
            taken[0] = taken[0] or super(Waiting, self).take(clips)
            return taken[0] is not None

        assert becomes(is_taken)
        return taken[0]


@pytest.fixture(autouse=True, scope="module")
def _at_once() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(process_pool, "_CLIPS_BEFORE", 0)
        yield


@pytest.fixture(scope="module")
def processes() -> ProcessPool:
    """One process, which takes a second or two to start."""
    return Waiting(1)


@pytest.fixture
def only_there(processes: ProcessPool, monkeypatch: pytest.MonkeyPatch) -> ProcessReader:
    """A reader whose thread cannot read by itself."""
    reader = ProcessReader(ClipReader(CPU), processes)
    monkeypatch.setattr(reader, "local", None)
    return reader


def pid_of(pool: ProcessPool) -> int:
    pool.give_back(pool.take())
    (process,) = pool._all
    return process._process.pid


def slots_for(index: VideoIndex, frames: list[int], memory: HostMemory | None = None) -> ClipSlots:
    height, width = index.stream.display_size
    slots = (memory or HostMemory(shared=True)).allocate((len(frames), 3, height, width), torch.uint8)
    return whole_clip(np.array(frames), Geometry((0, 0, height, width), (height, width)), slots.zero_())


def read(reader: Any, path: Path, frames: list[int], **settings: Any) -> torch.Tensor:
    index = build_index(open_source(str(path)))
    clip = slots_for(index, frames)
    reader.read(ReadRequest(str(path), index, [clip], settings.pop("output", OutputSpec()), **settings))
    return clip.slots


@pytest.mark.parametrize("name", ["h264_mp4", "hevc_mp4", "vp9_webm", "mpeg2_ts"])
def test_frames_are_those_of_a_thread(name: str, sample: Sample, only_there: ProcessReader) -> None:
    path, frames = sample(name), [7, 3, 3, -1, 20]
    assert torch.equal(read(only_there, path, frames), read(ClipReader(CPU), path, frames))


def test_a_loader_gives_the_same_batches_with_processes(sample: Sample, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(videoloader.reading.workers, "ProcessPool", Waiting)
    folder = write_frames(tmp_path / "frames", [f"{number}.png" for number in range(24)])
    data = vl.VideoDataset.from_paths([*(sample(name) for name in ("h264_mp4", "vp9_webm")), folder] * 3)
    transforms = [vl.RandomResizedCrop(24), vl.RandomHorizontalFlip(), vl.ColorJitter(0.4)]
    settings: dict[str, Any] = dict(batch_size=3, device="cpu", transforms=transforms, shuffle=True, num_workers=1)
    mode = vl.RandomWindow(4, stride=2, pad="edge")
    expected = [batch.frames for batch in vl.VideoLoader(data, mode, num_processes=0, **settings)]
    loader = vl.VideoLoader(data, mode, num_processes=1, **settings)
    given = [batch.frames for batch in loader]
    assert len(given) == len(expected) == 3
    assert all(map(torch.equal, given, expected))
    pid = pid_of(loader._workers._processes)
    loader.close()
    assert not os.path.exists(f"/proc/{pid}")


def test_clips_of_a_server_are_fetched_once_beside_processes(
    sample: Sample, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(videoloader.reading.workers, "ProcessPool", Waiting)
    path = sample("h264_mp4")
    settings: dict[str, Any] = dict(batch_size=3, device="cpu", num_workers=2)
    with serve({path.name: path.read_bytes()}) as server:
        data = vl.VideoDataset.from_paths([str(path), server.url + path.name] * 2)
        data.build_store(tmp_path / "x.db", workers=1)
        server.forget()
        loader = vl.VideoLoader(data, vl.EveryWindow(4, step=15), num_processes=1, index=tmp_path / "x.db", **settings)
        frames = torch.cat([batch.frames for batch in loader])
        assert os.path.exists(f"/proc/{pid_of(loader._workers._processes)}")
        stats = loader.stats()
        loader.close()
    assert len(server.requests) == stats.requests == 8
    assert torch.equal(frames, vl.Video(path, device="cpu")[:][[n + k for n in (0, 15, 30, 45) for k in range(4)]]
                       .view(4, 4, 3, 128, 160).repeat(4, 1, 1, 1, 1))  # fmt: skip


def test_processes_end_with_those_who_use_them() -> None:
    workers = DecodeWorkers(CPU, num_workers=1, num_processes=1)
    workers._processes = Waiting(1)
    pid = pid_of(workers._processes)
    del workers
    assert becomes(lambda: not os.path.exists(f"/proc/{pid}"))


def test_memory_that_a_process_wrote_to_is_used_again(sample: Sample, only_there: ProcessReader) -> None:
    path, memory = sample("h264_mp4"), HostMemory(shared=True)
    index = build_index(open_source(str(path)))
    places = set()
    for frame in range(12):
        clip = slots_for(index, [frame], memory)
        only_there.read(ReadRequest(str(path), index, [clip], OutputSpec()))
        assert torch.equal(clip.slots[0], vl.Video(path, device="cpu")[frame])
        places.add(clip.slots.data_ptr())
        del clip
    assert len(places) == 1


def test_errors_are_those_of_a_thread(sample: Sample, tmp_path: Path, only_there: ProcessReader) -> None:
    path = tmp_path / "clip.mp4"
    path.write_bytes(sample("h264_mp4").read_bytes())
    index, state = build_index(open_source(str(path))), state_of(open_source(str(path)))
    os.utime(path, (1, 1))
    with pytest.raises(StaleIndexError, match=r"clip\.mp4"):
        only_there.read(ReadRequest(str(path), index, [slots_for(index, [0])], OutputSpec(), state=state))
    path.unlink()
    with pytest.raises(SourceError, match=r"clip\.mp4") as told:
        only_there.read(ReadRequest(str(path), index, [slots_for(index, [0])], OutputSpec()))
    assert told.value.source == str(path)


def test_damage_is_marked(sample: Sample, tmp_path: Path, only_there: ProcessReader) -> None:
    data = bytearray(sample("h264_mp4").read_bytes())
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    index = build_index(open_source(str(path)))
    start, size = int(index.packet_offset[5]), int(index.packet_size[5])
    data[start + size // 3 : start + size] = bytes(size - size // 3)
    path.write_bytes(data)
    frames = list(range(12))
    here, there = slots_for(index, frames), slots_for(index, frames)
    ClipReader(CPU).read(ReadRequest(str(path), index, [here], OutputSpec()))
    report = only_there.read(ReadRequest(str(path), index, [there], OutputSpec()))
    assert here.corrupt.any()
    assert np.array_equal(here.corrupt, there.corrupt)
    assert report.corrupt_frames == here.corrupt.sum()


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


def test_a_long_index_arrives_whole(sample: Sample, processes: ProcessPool, only_there: ProcessReader) -> None:
    path = sample("h264_mp4")
    index = build_index(open_source(str(path)))
    long = replace(
        index, stream=replace(index.stream, codec_configs=(*index.stream.codec_configs, os.urandom(10 << 20)))
    )
    clip = slots_for(long, [7, 3])
    pid = pid_of(processes)
    only_there.read(ReadRequest(str(path), long, [clip], OutputSpec()))
    assert torch.equal(clip.slots, read(ClipReader(CPU), path, [7, 3]))
    assert pid_of(processes) == pid


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


def test_warnings_come_once(sample: Sample, tmp_path: Path, only_there: ProcessReader) -> None:
    path = sample("h264_mp4")
    index = build_index(open_source(str(path)))
    hdr = replace(index, stream=replace(index.stream, color_transfer=16))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("default")
        for frame in (0, 1):
            only_there.read(ReadRequest(str(path), hdr, [slots_for(index, [frame])], OutputSpec()))
    assert [str(each.message)[:14] for each in told] == ["HDR video (pq)"]


def test_sources_of_this_process_are_read_in_it(sample: Sample, processes: ProcessPool) -> None:
    path = sample("h264_mp4")
    source = open_source(path.read_bytes())
    index = build_index(source)
    clip = slots_for(index, [4])
    ProcessReader(ClipReader(CPU), processes).read(ReadRequest(source, index, [clip], OutputSpec()))
    assert torch.equal(clip.slots[0], vl.Video(path, device="cpu")[4])


def test_relative_paths_lead_from_where_the_program_is_now(
    sample: Sample, tmp_path: Path, only_there: ProcessReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = sample("h264_mp4")
    expected = read(ClipReader(CPU), path, [6])
    for name in ("one", "two"):
        folder = tmp_path / name
        folder.mkdir()
        (folder / f"{name}.mp4").write_bytes(path.read_bytes())
        monkeypatch.chdir(folder)
        assert torch.equal(read(only_there, Path(f"{name}.mp4"), [6]), expected)


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


def test_a_folder_that_has_the_path_of_another_is_told_apart(
    sample: Sample, tmp_path: Path, only_there: ProcessReader, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "folder"
    for name in ("h264_mp4", "vp9_webm", "hevc_mp4"):
        if folder.exists():
            folder.rename(tmp_path / f"before {name}")
        folder.mkdir()
        monkeypatch.chdir(folder)
        (folder / "clip").write_bytes(sample(name).read_bytes())
        assert torch.equal(read(only_there, Path("clip"), [6]), read(ClipReader(CPU), sample(name), [6]))


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


@pytest.mark.parametrize("name", GOOD_FILES[::4])
def test_real_files_come_out_the_same(name: str, corpus: Path, only_there: ProcessReader) -> None:
    path = corpus / name
    try:
        index = build_index(path)
    except VideoLoaderError:
        return  # which is not what processes do
    frames = np.linspace(0, len(index) - 1, 4).astype(int).tolist()

    def outcome(reader: Any) -> tuple[str, list[bool], bytes]:
        clip, error = slots_for(index, frames), ""
        try:
            reader.read(ReadRequest(str(path), index, [clip], OutputSpec()))
        except VideoLoaderError as raised:
            error = repr(raised)
        return error, clip.corrupt.tolist(), b"" if error else clip.slots.numpy().tobytes()

    assert outcome(only_there) == outcome(ClipReader(CPU))
