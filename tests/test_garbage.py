"""No objects per frame live as long as a clip: Python's garbage collector would traverse them all."""

from __future__ import annotations

import gc
from pathlib import Path

import numpy as np
import pytest
import torch
from painted_videos import write_painted

from videoloader.convert.spec import Geometry, OutputSpec
from videoloader.indexing import build_index, open_source
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.clip_sink import ClipSink
from videoloader.reading.clip_slots import whole_clip
from videoloader.reading.read_request import ReadRequest


def most_objects(path: Path, device: torch.device, monkeypatch: pytest.MonkeyPatch, repeats: int) -> float:
    """How many more the collector knows while a whole video is read than before, for each picture.

    Objects from before are frozen: to count the others does not take long then, and their end hides no new ones.
    """
    source = open_source(path)
    index = build_index(source)
    size = index.stream.display_size
    frames = np.repeat(np.arange(len(index)), repeats)
    pixels = torch.empty((len(frames), 3, *size), dtype=torch.uint8, device=device)
    clip = whole_clip(frames, Geometry((0, 0, *size), size), pixels)
    living: list[int] = []

    def count() -> None:
        gc.collect()
        living.append(len(gc.get_objects()))

    give = ClipSink.write_frames if device.type == "cpu" else ClipSink.collect_surface

    def give_and_count(sink: ClipSink, *pictures: object) -> None:
        give(sink, *pictures)  # type: ignore[arg-type]
        if len(sink.done) // 40 >= len(living):
            count()

    reader = ClipReader(device, "nvdec" if device.type == "cuda" else "cpu")
    reader.read(ReadRequest(source, index, [clip], OutputSpec()))
    monkeypatch.setattr(ClipSink, give.__name__, give_and_count)
    gc.collect()
    gc.freeze()
    try:
        count()
        reader.read(ReadRequest(source, index, [clip], OutputSpec()))
    finally:
        gc.unfreeze()
    before, *while_read = living
    assert len(while_read) > 4
    return (max(while_read) - before) / len(index)


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_painted(tmp_path_factory.mktemp("video"), "h264_long_gop")


@pytest.mark.parametrize("repeats", [1, 3])
def test_a_clip_has_no_objects_for_each_frame(video: Path, monkeypatch: pytest.MonkeyPatch, repeats: int) -> None:
    assert most_objects(video, torch.device("cpu"), monkeypatch, repeats) < 0.6
