"""Clips made in other processes: the same frames, errors and warnings as in threads."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from corpus_files import GOOD_FILES
from image_files import write_frames
from range_server import serve
from reading_processes import Waiting, pid_of, read, slots_for

import videoloader as vl
import videoloader.reading.workers
from videoloader.convert.spec import OutputSpec
from videoloader.errors import SourceError, StaleIndexError, VideoLoaderError
from videoloader.indexing import build_index, open_source
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.process_pool import ProcessPool, ProcessReader
from videoloader.reading.read_request import ReadRequest
from videoloader.runtime.device import HostMemory

Sample = Callable[[str], Path]
CPU = torch.device("cpu")
pytestmark = pytest.mark.usefixtures("processes_at_once")


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
    index = build_index(open_source(str(path)))
    os.utime(path, (1, 1))
    with pytest.raises(StaleIndexError, match=r"clip\.mp4"):
        only_there.read(ReadRequest(str(path), index, [slots_for(index, [0])], OutputSpec()))
    path.unlink()
    with pytest.raises(SourceError, match=r"clip\.mp4") as told:
        only_there.read(ReadRequest(str(path), index, [slots_for(index, [0])], OutputSpec()))
    assert told.value.source == str(path)


def test_damage_is_marked(sample: Sample, tmp_path: Path, only_there: ProcessReader) -> None:
    data = bytearray(sample("h264_mp4").read_bytes())
    path = tmp_path / "damaged.mp4"
    path.write_bytes(data)
    index = replace(build_index(open_source(str(path))), state=None)
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
