"""Engines decode planned runs; if a GPU engine fails, the CPU makes the whole clip."""

from __future__ import annotations

import pytest
import torch

from videoloader.convert.spec import OutputSpec, full_geometry
from videoloader.decoding.engine import Decode
from videoloader.errors import DecodeError
from videoloader.indexing import build_index, open_source
from videoloader.packets.decode_plan import Run
from videoloader.reading import clip_reader
from videoloader.reading.clip_reader import ClipReader, ClipsReport
from videoloader.reading.decode_job import whole_clip
from videoloader.reading.engines import DecodingEngine
from videoloader.reading.read_progress import ReadProgress

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


def read(reader: ClipReader, path: str, decode: Decode) -> tuple[torch.Tensor, ClipsReport]:
    index = build_index(path)
    geometry = full_geometry(index.stream)
    pixels = torch.empty((len(FRAMES), 3, *geometry.size), dtype=torch.uint8)
    clips = [whole_clip(FRAMES, geometry, pixels)]
    return pixels, reader.read(open_source(path), index, clips, OutputSpec(), decode=decode)


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
    expected, _ = read(ClipReader(torch.device("cpu")), path, "cpu")
    with pytest.warns(RuntimeWarning, match="decoded on the CPU: .*the GPU refuses it"):
        pixels, report = read(failing, path, "auto")
    assert torch.equal(pixels, expected)
    assert report.engine == "cpu"


def test_nothing_else_decodes_where_nvdec_must(failing: ClipReader, sample) -> None:
    with pytest.raises(DecodeError, match="the GPU refuses it"):
        read(failing, str(sample("h264_mp4")), "nvdec")
