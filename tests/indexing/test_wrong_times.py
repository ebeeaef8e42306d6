"""Containers whose times are wrong: frames come in the order of a full decode, with the times that it gives them."""

from __future__ import annotations

import io
import struct
from unittest.mock import patch

import av
import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from lies.joined import joined
from lies.remuxed import shown_as_decoded
from mp4_writing import TABLES, TRACK, box, find_box, replace_box, table
from sample_videos import RECIPES, Recipe, write_video
from truth import full_decode, hash_of

from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import MemorySource, VideoIndex, build_index, wrong_times
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

# With B pictures, in mp4, at an even rate.
FILMS = {
    "h264": RECIPES["h264_mp4"],
    "h264 with open GOPs": RECIPES["h264_mp4_open_gop"],
    "h264 with negative offsets": RECIPES["h264_mp4_negative_offsets"],
    "hevc": RECIPES["hevc_mp4"],
    "mpeg4": Recipe("mp4", "mpeg4", {"bf": "2", "g": "12"}),
    "mpeg2": Recipe("mp4", "mpeg2video", {"bf": "2", "g": "12"}),
}
STEP = 512  # media time units between frames
FRAMES = 60


@pytest.fixture(scope="module")
def film(tmp_path_factory):
    folder = tmp_path_factory.mktemp("films")
    paths = {name: write_video(folder / f"{name}.mp4", recipe) for name, recipe in FILMS.items()}
    return {name: path.read_bytes() for name, path in paths.items()}


@pytest.fixture(scope="module")
def patched(tmp_path_factory):
    return tmp_path_factory.mktemp("lies") / "patched.mp4"


def offsets(data: bytes) -> list[int]:
    """The composition offset of each packet."""
    start, _ = find_box(data, (*TABLES, b"ctts"))
    count = struct.unpack_from(">I", data, start + 4)[0]
    runs = [struct.unpack_from(">Ii", data, start + 8 + 8 * row) for row in range(count)]
    return [value for length, value in runs for _ in range(length)]


def with_offsets(data: bytes, values: list[int]) -> bytes:
    version = int(min(values) < 0)
    return replace_box(
        data, (*TABLES, b"ctts"), table(b"ctts", "Ii", [(1, value) for value in values], version=version)
    )


def assert_is_as_decoded(data: bytes, path) -> VideoIndex:
    path.write_bytes(data)
    truth, index = full_decode(path), build_index(data)
    assert index.frame_pts.tolist() == truth.pts
    hashes: dict[int, bytes] = {}
    source, decoder = MemorySource(data), CpuDecoder()
    for run in plan_frames(index, range(len(index))).runs:
        packets = read_packets(source, index, run)
        decoder.decode(index, packets, lambda packet, frame: hashes.update({packet: hash_of(frame)}))
    assert [hashes[packet] for packet in index.frame_packet.tolist()] == truth.hashes
    return index


each_film = pytest.mark.parametrize("name", FILMS)


@each_film
def test_sound_times_are_believed_without_a_decode(film, name):
    with patch.object(wrong_times, "open_decoder", side_effect=AssertionError):
        assert build_index(film[name]).method == "tables"


@settings(max_examples=examples(60))
@given(
    name=st.sampled_from(list(FILMS)),
    packet=st.integers(0, FRAMES - 1),
    by=st.integers(-6 * STEP, 6 * STEP) | st.integers(-6, 6).map(lambda steps: steps * STEP),
)
def test_one_wrong_composition_offset(film, patched, name, packet, by):
    values = offsets(film[name])
    values[packet] += by
    assert_is_as_decoded(with_offsets(film[name], values), patched)


@settings(max_examples=examples(20))
@given(name=st.sampled_from(list(FILMS)), packet=st.integers(0, FRAMES - 2), off=st.sampled_from([-200, -9, 9, 200]))
def test_two_packets_whose_times_change_places_but_for_a_little(film, patched, name, packet, off):
    values = offsets(film[name])
    difference = values[packet + 1] + STEP - values[packet]
    values[packet] += difference + off
    values[packet + 1] -= difference + off
    assert_is_as_decoded(with_offsets(film[name], values), patched)


@each_film
def test_decode_times_in_place_of_presentation_times(film, patched, name):
    index = assert_is_as_decoded(with_offsets(film[name], [0] * FRAMES), patched)
    assert index.method == "decoded"


def without_reordering(values: list[int], first: int, last: int) -> list[int]:
    """Offsets by which a stretch of about these packets is shown in decode order, evenly with all others."""
    times = [number * STEP + value for number, value in enumerate(values)]
    bounds = [n for n in range(1, len(times)) if max(times[:n]) < min(times[n:])] + [len(times)]
    start, stop = (min(bounds, key=lambda bound: abs(bound - each)) for each in (first, last))
    return [*values[:start], *[values[0]] * (stop - start), *values[stop:]]


@each_film
@pytest.mark.parametrize("packets", [(12, 36), (20, 45), (36, 60)])
def test_decode_times_in_a_stretch(film, patched, name, packets):
    values = without_reordering(offsets(film[name]), *packets)
    assert_is_as_decoded(with_offsets(film[name], values), patched)


def late_reordering(path):
    """A film without B pictures among its first 30."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25, options={"g": "100", "b-pyramid": "none", "b_strategy": "0"})
        stream.width, stream.height = 128, 96
        for number in range(60):
            pixels = np.full((96, 128, 3), 3 * number, np.uint8)
            pixels[number : number + 20, number : number + 20] = 255
            frame = av.VideoFrame.from_ndarray(pixels, format="rgb24")
            if number < 30:
                frame.pict_type = av.video.frame.PictureType.P
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path.read_bytes()


def test_a_stretch_in_decode_order_is_believed_and_another_is_not(tmp_path, patched):
    data = late_reordering(tmp_path / "late.mp4")
    with patch.object(wrong_times, "open_decoder", side_effect=AssertionError):
        assert build_index(data).method == "tables"
    values = offsets(data)
    assert len(set(values[:28])) == 1
    values = without_reordering(values, 40, 60)
    assert assert_is_as_decoded(with_offsets(data, values), patched).method == "decoded"


def test_decode_times_where_reordering_begins_late(tmp_path, patched):
    path = tmp_path / "late.mp4"
    late_reordering(path)
    values = offsets(path.read_bytes())
    assert len(set(values[:28])) == 1
    assert len(set(values)) > 1
    # Without this the stream tells by itself how deep it is reordered.
    with patch.object(wrong_times, "picture_format", return_value=None):
        index = assert_is_as_decoded(with_offsets(path.read_bytes(), [0] * 60), patched)
    assert index.method == "decoded"


@pytest.mark.parametrize("members", [[2, 0], [2, 2, 3, 2]])
def test_decode_times_where_a_later_parameter_set_reorders(tmp_path, patched, members):
    data = joined(tmp_path, "h264_sps", members, "once", "mp4")
    assert assert_is_as_decoded(with_offsets(data, [0] * 24 * len(members)), patched).method == "decoded"


@each_film
def test_offsets_of_the_packets_before(film, patched, name):
    values = offsets(film[name])
    index = assert_is_as_decoded(with_offsets(film[name], [values[-1], *values[:-1]]), patched)
    assert index.method == "decoded"


def test_several_frames_at_one_time(film, patched):
    stts = table(b"stts", "II", [(20, STEP), (3, 0), (37, STEP)])
    index = assert_is_as_decoded(replace_box(film["h264"], (*TABLES, b"stts"), stts), patched)
    assert index.method == "decoded"


def test_an_edit_list_cuts_frames_with_wrong_times_too(film, patched):
    data = with_offsets(film["h264"], [0] * FRAMES)
    elst = table(b"elst", "IiI", [(1600, 5 * STEP, 1 << 16)])
    index = assert_is_as_decoded(replace_box(data, (*TRACK, b"edts"), box(b"edts", elst)), patched)
    assert 30 < len(index) < 45


def test_frames_of_an_uneven_rate(sample, patched):
    data = sample("h264_mp4_vfr").read_bytes()
    values = offsets(data)
    values[30] += 20_000
    assert assert_is_as_decoded(with_offsets(data, values), patched).method == "decoded"


def test_what_the_container_tells_of_the_picture_stays(film):
    data = film["h264"]
    start, _ = find_box(data, (*TRACK, b"tkhd"))
    one = 1 << 16
    mirrored = struct.pack(">9i", -one, 0, 0, 0, one, 0, 0, 0, 1 << 30)
    data = data[: start + 40] + mirrored + data[start + 76 :]
    index = build_index(with_offsets(data, [0] * FRAMES))
    assert (index.method, index.stream.mirrored) == ("decoded", True)
    assert index.packet_offset.tolist() == build_index(data).packet_offset.tolist()


def test_flv_with_decode_times_for_presentation_times(film, tmp_path):
    path = tmp_path / "film.flv"
    with av.open(io.BytesIO(film["h264"])) as original, av.open(str(path), "w") as output:
        stream = output.add_stream_from_template(original.streams.video[0])
        for packet in original.demux(video=0):
            if packet.size:
                packet.stream, packet.pts = stream, packet.dts
                output.mux(packet)
    truth, index = full_decode(path), build_index(path)
    assert index.frame_pts.tolist() == truth.pts
    assert index.frame_packet.tolist() == build_index(film["h264"]).frame_packet.tolist()


def remuxed(data: bytes, path, change) -> None:
    """The film in another container, with the times that ``change`` makes of those of each packet."""
    with av.open(io.BytesIO(data)) as original, av.open(str(path), "w") as output:
        stream = output.add_stream_from_template(original.streams.video[0])
        packets = [packet for packet in original.demux(video=0) if packet.size]
        for packet, time in zip(packets, change([(packet.dts, packet.pts) for packet in packets]), strict=True):
            packet.stream, packet.pts = stream, time
            output.mux(packet)


def two_swapped(times: list[tuple[int, int]], first: int) -> list[int]:
    """Times of presentation of which two neighbours have changed places, the first pair from a packet on that can."""
    changed = [pts for _, pts in times]
    while changed[first] < times[first + 1][0]:
        first += 1
    changed[first], changed[first + 1] = changed[first + 1], changed[first]
    return changed


@pytest.mark.parametrize(("name", "suffix"), [("h264", "flv"), ("h264", "nut"), ("mpeg4", "nut"), ("mpeg2", "nut")])
def test_two_pictures_that_change_places_where_all_packets_are_read(film, tmp_path, name, suffix):
    sound, path = tmp_path / f"sound.{suffix}", tmp_path / f"film.{suffix}"
    remuxed(film[name], sound, lambda times: [pts for _, pts in times])
    assert build_index(sound).method == "demuxed"
    for first in (13, 16, 30):
        remuxed(film[name], path, lambda times, first=first: two_swapped(times, first))
        index = build_index(path)
        assert index.frame_pts.tolist() == full_decode(path).pts
        assert index.frame_packet.tolist() == build_index(sound).frame_packet.tolist()


def test_a_video_of_three_frames_without_a_rhythm(tmp_path, patched):
    path = tmp_path / "short.mp4"
    write_video(path, Recipe("mp4", "mpeg2video", frames=3))
    for values in ([0, 2 * STEP, 0], [0, 0, -STEP - 100], [0, 0, -STEP - STEP // 2], [3 * STEP, 0, 0]):
        assert_is_as_decoded(with_offsets(path.read_bytes(), values), patched)


def test_pictures_that_wait_longer_than_the_headers_allow(film, patched):
    values = np.array(offsets(film["mpeg4"]))
    values[20:25] += 40 * STEP
    assert assert_is_as_decoded(with_offsets(film["mpeg4"], values.tolist()), patched).method == "decoded"


@pytest.mark.parametrize("name", ["h264", "h264 with open GOPs", "hevc", "mpeg4", "mpeg2"])
def test_two_pictures_that_change_places_in_matroska(film, tmp_path, name):
    sound, path = tmp_path / "sound.mkv", tmp_path / "film.mkv"
    remuxed(film[name], sound, lambda times: [pts for _, pts in times])
    assert build_index(sound).method == "tables"
    for first in (13, 16, 30, 45):
        remuxed(film[name], path, lambda times, first=first: two_swapped(times, first))
        index = build_index(path)
        assert index.frame_pts.tolist() == full_decode(path).pts
        assert index.frame_packet.tolist() == build_index(sound).frame_packet.tolist()
        assert index.method == "decoded"


def with_descriptions(data: bytes, second: list[bool]) -> bytes:
    """The film with its sample description twice, and which packets go by the second; each is a chunk of its own."""
    offset = build_index(data).packet_offset.tolist()
    begin, stop = find_box(data, (*TABLES, b"stsd"))
    stsd = data[begin : begin + 4] + struct.pack(">I", 2) + 2 * data[begin + 8 : stop]
    rows = [(number + 1, 1, 1 + other) for number, other in enumerate(second)]
    # What stands behind the media does not move it.
    assert begin > max(offset)
    data = replace_box(data, (*TABLES, b"stsd"), box(b"stsd", stsd))
    data = replace_box(data, (*TABLES, b"stsc"), table(b"stsc", "III", rows))
    return replace_box(data, (*TABLES, b"stco"), table(b"stco", "I", [(at,) for at in offset]))


@each_film
@pytest.mark.parametrize("switch", [26, 36, 40])
def test_a_wrong_offset_behind_a_change_of_the_sample_description(film, patched, name, switch):
    values = offsets(film[name])
    values[40] -= 5 * STEP
    data = with_descriptions(with_offsets(film[name], values), [number >= switch for number in range(FRAMES)])
    assert assert_is_as_decoded(data, patched).method == "decoded"


@each_film
def test_a_wrong_offset_among_many_jumps_of_time(film, patched, name):
    values = offsets(film[name])
    values[13], values[14] = values[14], values[13]
    jumps = {14, 20, 22, 37, 42, 48}
    stts = table(b"stts", "II", [(1, STEP * (10 if number in jumps else 1)) for number in range(FRAMES)])
    assert_is_as_decoded(replace_box(with_offsets(film[name], values), (*TABLES, b"stts"), stts), patched)


def test_vvc_whose_times_are_in_decode_order_is_decoded(corpus):
    known = corpus / "vvc__media__sample_vvc.mp4"
    if not known.exists():
        pytest.skip("the corpus has no VVC")
    for data, is_decoded in (
        (known.read_bytes(), False),
        (shown_as_decoded(known.read_bytes(), np.random.default_rng(0)), True),
    ):
        with patch("videoloader.indexing.mp4.index.with_decoded_frames", side_effect=lambda index, source: index) as by:
            build_index(MemorySource(data))
        assert by.called == is_decoded


def test_a_wrong_offset_among_the_leading_pictures_of_a_gop_of_vvc_is_found(corpus):
    """There are 23 of them, which a decoder that starts at their keyframe leaves out."""
    known = corpus / "vvc__media__sample_vvc.mp4"
    if not known.exists():
        pytest.skip("the corpus has no VVC")
    sound = build_index(known)
    values = offsets(known.read_bytes())
    values[118] -= 1536
    found = build_index(MemorySource(with_offsets(known.read_bytes(), values)))
    assert found.method == "decoded"
    assert found.frame_packet.tolist() == sound.frame_packet.tolist()
