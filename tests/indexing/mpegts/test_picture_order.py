"""Times of a transport stream that order its pictures otherwise than their headers do are not believed."""

from __future__ import annotations

import pytest
from lies import LIES
from truth import full_decode

from videoloader.indexing import build_index

REORDERED = [
    "h264", "h264_slices", "h264_open_gop", "h264_frames_of_an_interlaced_stream", "h264_sound",
    "hevc", "hevc_slices", "hevc_closed_gop", "hevc_temporal_layers", "mpeg2", "mpeg2_interlaced",
]  # fmt: skip


def tell(lie: str, data: bytes, seed: int = 0) -> bytes:
    told = LIES[lie].tell(data, seed)
    assert told is not None
    return told


@pytest.mark.parametrize("name", REORDERED)
def test_decode_times_for_presentation_times(transport, tmp_path, name):
    path = tmp_path / "lies.ts"
    path.write_bytes(tell("shown_as_decoded", transport(name).read_bytes()))
    index = build_index(path)
    assert index.frame_pts.tolist() == full_decode(path).pts
    assert index.frame_pts.tolist() != sorted(index.frame_pts.tolist())


@pytest.mark.parametrize("name", REORDERED)
@pytest.mark.parametrize("lie", ["pts_swapped", "pts_wrong", "pts_jump"])
def test_wrong_times_of_a_few_pictures(transport, tmp_path, name, lie):
    path = tmp_path / "lies.ts"
    for seed in range(4):
        path.write_bytes(tell(lie, transport(name).read_bytes(), seed))
        assert build_index(path).frame_pts.tolist() == full_decode(path).pts, seed


def test_sequences_that_count_pictures_in_several_ways(transport, tmp_path):
    path = tmp_path / "both.ts"
    path.write_bytes(transport("h264").read_bytes() + transport("h264_no_b").read_bytes())
    truth, index = full_decode(path), build_index(path)
    assert index.frame_pts.tolist() == truth.pts


@pytest.mark.parametrize("second", ["h264_no_b", "h264"])
def test_times_of_the_second_of_two_sequences_are_looked_at(transport, tmp_path, second):
    path = tmp_path / "both.ts"
    told = tell("shown_as_decoded", transport("h264").read_bytes())
    path.write_bytes(transport(second).read_bytes() + told)
    assert build_index(path).frame_pts.tolist() == full_decode(path).pts
