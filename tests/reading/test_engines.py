"""Engines decode planned runs; if a GPU engine fails, the CPU makes the whole clip."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from image_files import write_frames

import videoloader as vl
from videoloader.batching import image_clips
from videoloader.convert.spec import OutputSpec, full_geometry
from videoloader.errors import DecodeError
from videoloader.indexing import build_index, open_source
from videoloader.packets.decode_plan import Run
from videoloader.reading import clip_reader, video_reader
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.clip_slots import whole_clip
from videoloader.reading.engines import DecodingEngine
from videoloader.reading.following_slices import FollowingSlices
from videoloader.reading.read_progress import ReadProgress
from videoloader.reading.read_request import ReadRequest

FRAMES = torch.arange(0, 60, 4).numpy()  # of several GOPs


class Failing(DecodingEngine):
    """Decodes as the CPU does, but wrongly, and fails in its second run."""

    def __init__(self, cpu: DecodingEngine) -> None:
        self._cpu, self.runs = cpu, 0

    def decode(self, progress: ReadProgress, run: Run) -> int:
        self.runs += 1
        if self.runs > 1:
            raise DecodeError("the GPU refuses it", progress.index.source)
        fed = self._cpu.decode(progress, run)
        progress.sink._clips[0].slots.zero_()
        return fed


def read(reader: ClipReader, path: str) -> tuple[torch.Tensor, ClipsReport]:
    index = build_index(path)
    geometry = full_geometry(index.stream)
    pixels = torch.empty((len(FRAMES), 3, *geometry.size), dtype=torch.uint8)
    clips = [whole_clip(FRAMES, geometry, pixels)]
    return pixels, reader.read(ReadRequest(open_source(path), index, clips, OutputSpec()))


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> ClipReader:
    reader = ClipReader(torch.device("cpu"))
    reader._engines["nvdec"] = Failing(reader._engines["cpu"])
    monkeypatch.setattr("videoloader.decoding.engine._left_to_cpu", set())  # other tests read the file, too
    monkeypatch.setattr(
        clip_reader, "choose_engine", lambda index, device, decode: "cpu" if decode == "cpu" else "nvdec"
    )
    return reader


def test_the_cpu_makes_again_what_an_engine_of_the_gpu_made_before_it_failed(failing: ClipReader, sample) -> None:
    path = str(sample("h264_mp4"))
    expected, _ = read(ClipReader(torch.device("cpu"), "cpu"), path)
    with pytest.warns(RuntimeWarning, match="decoded on the CPU: .*the GPU refuses it"):
        pixels, report = read(failing, path)
    assert torch.equal(pixels, expected)
    assert report.engine == "cpu"


def test_nothing_else_decodes_where_nvdec_must(failing: ClipReader, sample) -> None:
    failing.decode = "nvdec"
    with pytest.raises(DecodeError, match="the GPU refuses it"):
        read(failing, str(sample("h264_mp4")))


def refuse(*arguments: object, **options: object) -> None:
    raise AssertionError("this is not for the CPU engine")


def test_only_what_the_cpu_engine_takes_is_streamed_without_asking_a_reader(
    monkeypatch: pytest.MonkeyPatch, sample
) -> None:
    expected = vl.Video(sample("h264_mp4"), device="cpu")[:]
    monkeypatch.setattr(video_reader, "choose_engine", lambda index, device, decode: "nvdec")
    monkeypatch.setattr(video_reader, "stream_in_threads", refuse)
    monkeypatch.setattr(FollowingSlices, "read", refuse)
    with vl.Video(sample("h264_mp4"), device="cpu") as video:
        assert torch.equal(torch.stack(list(video)), expected)
        assert torch.equal(torch.cat([video[first : first + 10] for first in range(0, 60, 10)]), expected)


def test_only_image_files_that_the_cpu_engine_takes_are_read_together(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    write_frames(tmp_path, [f"{number}.{kind}" for number in range(3) for kind in ("jpg", "png")])
    data = vl.VideoDataset.from_paths(sorted(tmp_path.iterdir()))

    def load() -> torch.Tensor:
        loader = vl.VideoLoader(data, (0,), batch_size=4, device="cpu", num_workers=0)
        return torch.cat([batch.frames for batch in loader])

    expected = load()
    monkeypatch.setattr(image_clips, "choose_engine", lambda index, device, decode: "nvdec")
    monkeypatch.setattr(ClipReader, "read_images", refuse)
    assert torch.equal(load(), expected)
