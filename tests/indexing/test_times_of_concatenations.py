"""Streams put one after another: times start anew, and each frame keeps its own."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import av
import av.error
import numpy as np
import pytest
from sample_videos import Recipe, write_video
from truth import full_decode, hash_of

from videoloader.dataset.entry import VideoEntry
from videoloader.dataset.ranges import entry_range
from videoloader.indexing import build_index
from videoloader.video import Video

FINDINGS = Path(os.environ.get("VIDEOLOADER_FINDINGS", Path(__file__).parents[3] / "shared" / "findings"))


@pytest.fixture(scope="module")
def program_stream(tmp_path_factory):
    folder = tmp_path_factory.mktemp("streams")
    recipe = Recipe("vob", "mpeg2video", {"bf": "2", "g": "12"}, frames=40)
    return write_video(folder / "film.vob", recipe)


def twice(path, into):
    into.write_bytes(2 * path.read_bytes())
    return into


@pytest.mark.parametrize("name", ["h264_ts", "mpeg2_ts"])
def test_frames_of_a_transport_stream_keep_their_own_times(sample, name, tmp_path):
    path = twice(sample(name), tmp_path / "twice.ts")
    truth, index = full_decode(path), build_index(path)
    assert index.frame_pts.tolist() == truth.pts
    assert (np.diff(index.frame_pts) < 0).any()


def test_frames_of_a_program_stream_keep_their_own_times(program_stream, tmp_path):
    path = twice(program_stream, tmp_path / "twice.vob")
    truth, index = full_decode(path), build_index(path)
    known = [number for number, pts in enumerate(truth.pts) if pts is not None]
    assert index.frame_pts[known].tolist() == [truth.pts[number] for number in known]
    assert (np.diff(index.frame_pts) < 0).any()
    assert set(np.diff(index.clock).tolist()) == {3600}


def test_rows_in_seconds_count_on(program_stream, tmp_path):
    path = twice(program_stream, tmp_path / "twice.vob")
    index = build_index(path)
    begin = index.timestamps[0]
    entry = VideoEntry(str(path), start_seconds=begin + 1.6, stop_seconds=begin + 2.4)
    assert entry_range(entry, index) == (40, 60)


def test_pictures_are_those_of_a_full_decode(program_stream, tmp_path):
    path = twice(program_stream, tmp_path / "twice.vob")
    with av.open(str(path)) as container:
        expected = [frame.to_ndarray(format="gray")[::16, ::16] for frame in container.decode(video=0)]
    frames = Video(path, device="cpu").read([5, 39, 40, 45, 79]).frames
    assert len(expected) == 80
    for number, frame in zip([5, 39, 40, 45, 79], frames, strict=True):
        assert np.abs(frame.float().mean(0).numpy()[::16, ::16] - expected[number]).mean() < 30


@pytest.fixture
def theora():
    path = FINDINGS / "theora_dup.ogv"
    if not path.is_file():
        pytest.skip("the files that once came out wrong are not here: set VIDEOLOADER_FINDINGS")
    return path


def test_theoras_empty_packets_show_the_frame_before_once_more(theora):
    expected: list[tuple[int, bytes]] = []
    with av.open(str(theora)) as container:
        for packet in container.demux(video=0):
            if packet.size:
                expected += [(packet.pts, hash_of(frame)) for frame in packet.decode()]
            elif packet.pts is not None:
                expected.append((packet.pts, expected[-1][1]))
    index = build_index(theora)
    assert index.frame_pts.tolist() == [pts for pts, _ in expected]
    repeated = [one == two for (_, one), (_, two) in pairwise(expected)]
    assert (np.diff(index.frame_packet) == 0).tolist() == repeated
    video = Video(theora, device="cpu")
    assert (video[1] == video[0]).all()
    assert not (video[3] == video[0]).all()
