"""When a file begins, and which of its streams is the video: as libavformat says."""

from __future__ import annotations

import io
from fractions import Fraction
from pathlib import Path

import av
import pytest
from corpus_files import GOOD_FILES
from films import write_film
from sample_videos import RECIPES

from videoloader.indexing import build_index
from videoloader.indexing.mp4.boxes import iterate_boxes
from videoloader.indexing.sources.local import FileSource, MemorySource
from videoloader.indexing.start_time import StreamStart, earliest_start
from videoloader.indexing.video_stream import open_video

FRAGMENTS = {"movflags": "frag_keyframe+empty_moov"}
CONTAINERS = {
    "mp4": ("mp4", {}),
    "mp4 without edit lists": ("mp4", {"use_editlist": "0"}),
    "mp4 with negative offsets": ("mp4", {"movflags": "negative_cts_offsets"}),
    "fragmented": ("mp4", FRAGMENTS),
    "fragmented with edit lists": ("mp4", {"movflags": "frag_keyframe+empty_moov+delay_moov"}),
    "partly fragmented": ("mp4", {"movflags": "frag_keyframe"}),
    "mov": ("mov", {}),
    "matroska": ("matroska", {}),
    "mpegts": ("mpegts", {}),
    "flv": ("flv", {}),
    "asf": ("asf", {}),
}
# Milliseconds at which pictures and sound begin.
STARTS = [(0, 0), (0, 500), (500, 0), (80, 40), (40, 80), (0, -20)]


def said_by_libavformat(data: bytes) -> tuple[int, int]:
    with open_video(MemorySource(data)) as (container, stream):
        return container.start_time or 0, stream.index


def said_here(data: bytes) -> tuple[int, int]:
    index = build_index(data)
    return index.start_time, index.stream.stream_number


@pytest.mark.parametrize("starts", STARTS)
@pytest.mark.parametrize("order", ["va", "av"])
@pytest.mark.parametrize("name", CONTAINERS)
def test_the_earliest_of_picture_and_sound_counts(name, order, starts):
    data = write_film(*CONTAINERS[name], "aac", order, starts)
    assert said_here(data) == said_by_libavformat(data)


@pytest.mark.parametrize("sound", ["libopus", "libmp3lame", "ac3"])
@pytest.mark.parametrize("name", ["mp4", "fragmented with edit lists", "matroska", "mpegts"])
def test_sound_of_every_codec_counts(name, sound):
    data = write_film(*CONTAINERS[name], sound, "va", (40, 0))
    assert said_here(data) == said_by_libavformat(data)


@pytest.mark.parametrize("sound", ["aac", "libopus"])
@pytest.mark.parametrize("start", [-20, -200])
def test_sound_before_zero_counts_without_its_codecs_delay(sound, start):
    data = write_film("matroska", {"avoid_negative_ts": "disabled"}, sound, "va", (0, start))
    assert said_here(data) == said_by_libavformat(data)
    assert said_here(data)[0] < start * 1000


@pytest.mark.parametrize("starts", [(100, -10), (-10, 100), (1000, -61_000), (-10, -100), (10, 100)])
def test_one_stream_begins_before_the_clock_of_a_transport_stream_wraps(starts):
    wrap = 2**33 // 90
    data = write_film("mpegts", {"avoid_negative_ts": "disabled"}, "aac", "va", tuple(wrap + each for each in starts))
    assert said_here(data) == said_by_libavformat(data)


@pytest.mark.parametrize("gap", [300, 1500])
def test_a_track_of_mp4_with_nothing_but_an_empty_edit_begins_after_it(gap):
    data = bytearray(write_film("mp4", {}, "aac", "va", (1000, 0)))
    entry = data.index(b"elst", data.index(b"elst") + 4) + 12
    assert data[entry - 4 : entry] == b"\0\0\0\1"
    data[entry : entry + 8] = gap.to_bytes(4, "big") + b"\xff" * 4
    assert said_here(bytes(data)) == said_by_libavformat(bytes(data))
    assert said_here(bytes(data))[0] == min(gap, 1000) * 1000


@pytest.mark.parametrize("first", [7, 8, 9, 25])
def test_sound_counts_however_many_fragments_come_before_its_first(first):
    flags = "frag_every_frame+empty_moov+default_base_moof+separate_moof+frag_discont"
    data = write_film("mp4", {"movflags": flags}, "aac", "va", (1000, 0))
    boxes = [data[box.start - 8 : box.stop] for box in iterate_boxes(data, 0, len(data))]
    first_moof = next(place for place, box in enumerate(boxes) if box[4:8] == b"moof")
    last = max(place for place, box in enumerate(boxes) if box[4:8] == b"mdat")
    pairs = [boxes[place] + boxes[place + 1] for place in range(first_moof, last, 2)]
    tracks = {number: [pair for pair in pairs if pair[pair.index(b"tfhd") + 11] == number] for number in (1, 2)}
    moved = b"".join([*boxes[:first_moof], *tracks[1][:first], *tracks[2], *tracks[1][first:]])
    assert said_here(moved) == said_by_libavformat(moved)
    assert said_here(moved)[0] < 1_000_000


@pytest.mark.parametrize("lead", [-2000, 500, 2000])
@pytest.mark.parametrize("codec", ["bin_data", "klv"])
def test_data_of_a_transport_stream_counts_as_libavformat_counts_it(codec, lead):
    file = io.BytesIO()
    with (
        av.open(io.BytesIO(write_film("mpegts", {}, "aac", "v", (10_000, 0)))) as film,
        av.open(file, "w", format="mpegts") as output,
    ):
        streams = output.add_data_stream(codec), output.add_stream_from_template(film.streams.video[0])
        packets = [packet for packet in film.demux() if packet.size]
        for number in range(4):
            packet = av.Packet(b"\x06\x0e+4" + bytes(16))
            packet.pts = packet.dts = packets[0].dts + 90 * (300 * number - lead)
            packet.time_base = Fraction(1, 90_000)
            packets.append(packet)
        for packet in sorted(packets, key=lambda packet: packet.dts):
            packet.stream = streams[packet.stream is not None]
            output.mux(packet)
    assert said_here(file.getvalue()) == said_by_libavformat(file.getvalue())


@pytest.mark.parametrize("name", RECIPES)
def test_pictures_alone_begin_with_their_first_packet(sample, name):
    data = sample(name).read_bytes()
    assert said_here(data) == said_by_libavformat(data)


@pytest.mark.parametrize("name", GOOD_FILES)
def test_real_files_begin_when_libavformat_says(name: str, corpus: Path) -> None:
    index = build_index(corpus / name)
    with open_video(FileSource(corpus / name)) as (container, stream):
        assert (index.start_time, index.stream.stream_number) == (container.start_time or 0, stream.index)


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([], 0),
        ([StreamStart(3, Fraction(1, 2))], 1_500_000),
        ([StreamStart(3, Fraction(1, 2)), StreamStart(1, Fraction(1))], 1_000_000),
        ([StreamStart(1, Fraction(1, 3))], 333_333),
        ([StreamStart(-5, Fraction(1, 2_000_000))], -3),
        # Text counts where it comes a little before the rest, or alone.
        ([StreamStart(5, Fraction(1)), StreamStart(9, Fraction(1, 2), timed_text=True)], 4_500_000),
        ([StreamStart(5, Fraction(1)), StreamStart(1, Fraction(1), timed_text=True)], 5_000_000),
        ([StreamStart(5, Fraction(1), timed_text=True)], 5_000_000),
    ],
)
def test_the_earliest_start(starts, expected):
    assert earliest_start(starts) == expected
