"""Every kind of container: the index tells of the frames that a full decode gives, and of where their bytes are."""

from __future__ import annotations

import dataclasses

import av
import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lies import LIES
from mp4_writing import TABLES, TRACK, box, replace_box, table
from remuxing import remux, unchanged
from sample_videos import RECIPES
from truth import full_decode

from videoloader.errors import IndexingError
from videoloader.indexing import build_index, open_source

# How each is indexed, and whether its packets are plain ranges of bytes.
EXPECTED = {
    "h264_mp4": ("tables", True),
    "h264_mp4_tables_first": ("tables", True),
    "h264_mp4_open_gop": ("tables", True),
    "h264_mp4_intra_refresh": ("tables", True),
    "h264_mp4_vfr": ("tables", True),
    "h264_mp4_fragmented": ("tables", True),
    "h264_mp4_negative_offsets": ("tables", True),
    "h264_mp4_fragmented_negative_offsets": ("tables", True),
    "h264_mkv": ("tables", True),
    "h264_mkv_live": ("tables", True),
    "h264_mkv_cues_first": ("tables", True),
    "h264_mkv_interlaced": ("tables", True),
    "h264_ts": ("demuxed", False),
    "hevc_mp4": ("tables", True),
    "hevc_mkv": ("tables", True),
    "vp9_webm": ("tables", True),
    "vp8_webm": ("tables", True),
    "av1_mkv": ("tables", True),
    "mpeg2_mkv": ("tables", True),
    "mpeg4_mkv": ("tables", True),
    "mjpeg_mkv": ("tables", True),
    "ffv1_mkv": ("tables", True),
    "av1_mp4": ("tables", True),
    "mpeg2_ts": ("demuxed", False),
    "mpeg4_avi": ("tables", True),
    "mpeg4_mp4": ("tables", True),
}
each_sample = pytest.mark.parametrize("name", RECIPES)


def demux(path):
    with av.open(str(path)) as container:
        for packet in container.demux(video=0):
            if packet.size:
                yield packet


@each_sample
def test_frames_have_the_timestamps_of_a_full_decode(sample, name):
    truth = full_decode(sample(name))
    index = build_index(sample(name))
    assert len(index) == len(truth.pts) == RECIPES[name].frames
    assert index.frame_pts.tolist() == truth.pts


@each_sample
def test_the_method_is_the_cheapest_for_the_container(sample, name):
    index = build_index(sample(name))
    assert (index.method, index.byte_ranges) == EXPECTED[name]


@each_sample
def test_the_stream_is_described_as_encoded(sample, name):
    stream = build_index(sample(name)).stream
    assert stream.codec == name.split("_")[0].replace("mpeg2", "mpeg2video")
    assert (stream.width, stream.height) == RECIPES[name].size
    assert (stream.rotation, stream.mirrored, stream.sample_aspect_ratio) == (0, False, 1)


@each_sample
def test_packets_lie_where_the_index_says(sample, name):
    source, index = open_source(sample(name)), build_index(sample(name))
    packets = list(demux(sample(name)))
    assert index.packet_size.tolist() == [packet.size for packet in packets]
    if index.byte_ranges:
        ranges = zip(index.packet_offset.tolist(), index.packet_size.tolist(), strict=True)
        assert [source.read(*each) for each in ranges] == [bytes(packet) for packet in packets]


@each_sample
def test_keyframes_are_those_of_the_container(sample, name):
    index = build_index(sample(name))
    claimed = [packet.is_keyframe for packet in demux(sample(name))]
    assert sum(claimed) >= 5
    if name == "h264_mp4_intra_refresh":
        # Only the first is one: pictures are refreshed bit by bit.
        claimed = [not number for number in range(len(claimed))]
    assert index.packet_key.tolist() == claimed


@each_sample
def test_bytes_give_the_same_index_as_their_file(sample, name):
    of_file, of_bytes = build_index(sample(name)), build_index(sample(name).read_bytes())
    assert (of_file.source, of_bytes.source) == (str(sample(name)), "<bytes>")
    for field in dataclasses.fields(of_file):
        if field.name not in ("source", "state"):
            assert np.array_equal(getattr(of_file, field.name), getattr(of_bytes, field.name)), field.name


@each_sample
def test_rate_is_that_of_the_frames(sample, name):
    index = build_index(sample(name))
    variable = RECIPES[name].variable_rate
    assert index.is_vfr is variable
    last = RECIPES[name].pts()[-1] * RECIPES[name].time_base
    assert index.average_fps == pytest.approx((RECIPES[name].frames - 1) / last, rel=1e-4)
    assert float(index.stream.frame_rate) == pytest.approx(index.average_fps, rel=0.02)


def test_open_gops_have_leading_frames_that_start_at_the_keyframe_before(sample):
    for name in ("h264_mp4_open_gop", "hevc_mp4"):
        index = build_index(sample(name))
        keys = np.flatnonzero(index.packet_key)
        before = keys[np.searchsorted(keys, index.frame_packet, "right") - 1]
        leading = index.packet_pts[before] > index.frame_pts - index.frame_pts[0] + index.packet_pts.min()
        assert leading.sum() >= 4
        assert (index.start_packet(range(60)) < before).tolist() == leading.tolist()


def test_a_fragmented_file_cut_between_fragments_has_the_frames_before(sample):
    data = sample("h264_mp4_fragmented").read_bytes()
    whole = build_index(data)
    second_moof = data.index(b"moof", data.index(b"moof") + 4) - 4
    cut = build_index(data[:second_moof])
    assert len(cut) == 12
    assert cut.frame_pts.tolist() == whole.frame_pts[:12].tolist()


def test_a_file_that_is_plain_first_and_fragmented_then_has_both_parts(sample, tmp_path):
    path = tmp_path / "both.mp4"
    remux(sample("h264_mp4"), path, unchanged, {"movflags": "frag_keyframe+delay_moov"})
    truth = full_decode(path)
    assert build_index(path).frame_pts.tolist() == truth.pts


@pytest.mark.parametrize("flags", ["empty_moov", "empty_moov+dash", "empty_moov+dash+global_sidx", "default_base_moof"])
@pytest.mark.parametrize("fragment", range(4))
def test_negative_offsets_in_fragments_move_all_that_libav_reads_after_it_knows_of_them(
    sample, tmp_path, flags, fragment
):
    path = tmp_path / "fragmented.mp4"
    remux(sample("h264_mp4"), path, unchanged, {"movflags": f"frag_keyframe+{flags}"})
    data = bytearray(path.read_bytes())
    # A picture that is shown when it is decoded, then a little earlier: none changes places.
    place = [at for at in range(len(data)) if data.startswith(b"trun", at)][fragment]
    fields, count = data[place + 6], int.from_bytes(data[place + 8 : place + 12], "big")
    assert fields & 8  # offsets are the last column
    row = 4 * fields.bit_count()
    first = place + 12 + 4 * (data[place + 7] & 1) + 4 * (data[place + 7] >> 2 & 1)
    lasts = range(first + row - 4, first + count * row, row)
    at = min(lasts, key=lambda at: bytes(data[at : at + 4]))
    data[at : at + 4] = (int.from_bytes(data[at : at + 4], "big") - 100 & 0xFFFFFFFF).to_bytes(4, "big")
    assert data[at] == 0xFF
    path.write_bytes(data)
    index = build_index(path)
    assert index.frame_pts.tolist() == full_decode(path).pts
    assert index.method == "tables"


def test_negative_offsets_in_moov_move_the_fragments_after_it(sample, tmp_path):
    path = tmp_path / "both.mp4"
    remux(sample("h264_mp4"), path, unchanged, {"movflags": "frag_keyframe+default_base_moof"})
    data = bytearray(path.read_bytes())
    rows = data.index(b"ctts") + 12
    zero = next(at for at in range(rows, len(data), 8) if not any(data[at + 4 : at + 8]))
    data[zero + 4 : zero + 8] = (-100 & 0xFFFFFFFF).to_bytes(4, "big")
    path.write_bytes(data)
    assert build_index(path).frame_pts.tolist() == full_decode(path).pts


@pytest.mark.parametrize("lie", ["edits_repeat", "edits_wait", "edits_skip_the_start"])
def test_an_edit_list_cuts_only_the_samples_before_the_fragments(sample, tmp_path, lie):
    path = tmp_path / "both.mp4"
    remux(sample("h264_mp4"), path, unchanged, {"movflags": "frag_keyframe+default_base_moof"})
    path.write_bytes(LIES[lie].tell(path.read_bytes(), 0))
    assert build_index(path).frame_pts.tolist() == full_decode(path).pts


# Counted without a sign, a delta is negative from 480,000 below the highest number on.
_DELTAS = st.integers(-2000, 2000) | st.just(0) | st.sampled_from([-480_001, -480_000, -479_999])


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.integers(1, 20), _DELTAS), min_size=1, max_size=10))
def test_negative_durations_are_corrected_as_libav_does(sample, tmp_path_factory, rows):
    data = replace_box(sample("mpeg4_mp4").read_bytes(), (*TRACK, b"edts"), box(b"free"))
    path = tmp_path_factory.getbasetemp() / "negative.mp4"
    path.write_bytes(replace_box(data, (*TABLES, b"stts"), table(b"stts", "Ii", rows)))
    assert build_index(path).frame_pts.tolist() == full_decode(path).pts


@pytest.mark.parametrize("name", ["h264_mp4", "mpeg4_mp4", "av1_mp4"])
@pytest.mark.parametrize("rows", [[(1, 0)], [(3, 0), (57, 0)], [(59, 0), (1, 7)]])
def test_frames_whose_durations_are_all_zero_come_at_the_times_that_libav_makes_up(sample, tmp_path, name, rows):
    path = tmp_path / "zero.mp4"
    data = replace_box(sample(name).read_bytes(), (*TRACK, b"edts"), box(b"free"))
    path.write_bytes(replace_box(data, (*TABLES, b"stts"), table(b"stts", "II", rows)))
    assert build_index(path).frame_pts.tolist() == full_decode(path).pts


def test_a_file_name_may_look_like_a_url(sample, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("12:30.mkv", "http:x.mkv", "-.mkv", "100%d.mkv", "ü.mkv"):
        (tmp_path / name).write_bytes(sample("h264_mkv").read_bytes())
        assert len(build_index(name)) == 60


def test_packets_beyond_the_end_of_the_file_are_told_of(sample):
    data = sample("h264_mp4").read_bytes()
    far = table(b"stco", "I", [(len(data) - 10,)])
    with pytest.raises(IndexingError, match=r"is cut off: .* packets lie beyond its end"):
        build_index(replace_box(data, (*TABLES, b"stco"), far))


@pytest.mark.parametrize("offset", [2**63 - 1, 2**63, 2**64 - 1])
def test_no_offset_wraps_around(sample, offset):
    data = sample("h264_mp4").read_bytes()
    offsets = [*build_index(data).packet_offset.tolist()[:-1], offset]
    data = replace_box(data, (*TABLES, b"stsc"), table(b"stsc", "III", [(1, 1, 1)]))
    data = replace_box(data, (*TABLES, b"co64"), table(b"co64", "Q", [(each,) for each in offsets]))
    with pytest.raises(IndexingError, match="is cut off: 1 of 60 packets"):
        build_index(data)
