"""Track entries: what they say of the picture is what libav makes of it."""

from __future__ import annotations

import av
import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from matroska_writing import (
    ATTACHMENTS,
    CLUSTER,
    COLOUR,
    INFO,
    PROJECTION,
    SEEK_HEAD,
    SEGMENT,
    SIMPLE_BLOCK,
    TIMESTAMP,
    TRACKS,
    block,
    element,
    endless,
    header,
    info,
    matroska,
    real,
    track,
    uint,
)

from videoloader.indexing import MemorySource, build_index, open_source
from videoloader.indexing.libav import index_by_demuxing
from videoloader.indexing.matroska.index import index_matroska

CROP_BOTTOM, CROP_TOP, CROP_LEFT, CROP_RIGHT = 0x54AA, 0x54BB, 0x54CC, 0x54DD
DISPLAY_WIDTH, DISPLAY_HEIGHT, DISPLAY_UNIT, STEREO = 0x54B0, 0x54BA, 0x54B2, 0x53B8


@pytest.fixture(scope="module")
def frames(sample):
    """The packets of a VP8 video of 160×128 pixels: the codec that says least of its picture."""
    index = build_index(sample("vp8_webm"))
    source = open_source(sample("vp8_webm"))
    return [
        source.read(*each)
        for each in zip(index.packet_offset[:9].tolist(), index.packet_size[:9].tolist(), strict=True)
    ]


@pytest.fixture(scope="module")
def write(frames, tmp_path_factory):
    """``write(tracks)`` is a file of those frames, 40 ms each, in each of the tracks."""
    path = tmp_path_factory.mktemp("tracks") / "written.mkv"

    def write(*tracks: bytes, count: int = 1):
        blocks = [
            element(SIMPLE_BLOCK, block(number + 1, 40 * time, [frame], flags=0x80 if time == 0 else 0))
            for time, frame in enumerate(frames)
            for number in range(count)
        ]
        path.write_bytes(matroska(element(CLUSTER, uint(TIMESTAMP, 0), *blocks), tracks=tracks))
        return path

    return write


def vp8(*parts: bytes, number: int = 1, video: bytes = b"") -> bytes:
    return track(number, "V_VP8", *parts, video=video)


sizes = st.integers(1, 5000)
small = st.integers(0, 40)


@settings(max_examples=examples(60))
@given(
    st.fixed_dictionaries(
        {},
        optional={
            DISPLAY_WIDTH: sizes,
            DISPLAY_HEIGHT: sizes,
            DISPLAY_UNIT: st.integers(0, 5),
            STEREO: st.integers(0, 14),
            CROP_TOP: small,
            CROP_BOTTOM: st.integers(0, 7),
            CROP_LEFT: small,
            CROP_RIGHT: st.integers(0, 23),
        },
    )
)
def test_pixels_have_the_shape_that_libavformat_works_out(write, shape):
    path = write(vp8(video=b"".join(uint(*each) for each in shape.items())))
    with av.open(str(path)) as container:
        expected = container.streams.video[0].sample_aspect_ratio
    assert index_matroska(open_source(path)).stream.sample_aspect_ratio == (expected or 1)


@settings(max_examples=examples(60))
@given(
    st.sampled_from([0, 90, 180, 270, -90, -180, 45, 360, 89.6]),
    st.sampled_from([0, 180, -180, 90]),
    st.sampled_from([0, 0, 0, 30]),
    st.sampled_from([0, 0, 0, 1]),
)
def test_turns_are_those_of_libav(write, roll, yaw, pitch, kind):
    projection = element(PROJECTION, uint(0x7671, kind), real(0x7673, yaw), real(0x7674, pitch), real(0x7675, roll))
    path = write(vp8(video=projection))
    stream = index_matroska(open_source(path)).stream
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
        matrix = frame.side_data.get("DISPLAYMATRIX")
    expected = np.frombuffer(matrix, np.int32)[[0, 1, 3, 4]].reshape(2, 2) / 65536 if matrix else np.eye(2)
    # libav's matrices act on rows: first the turn, then the mirror image, as in StreamInfo.
    angle = np.radians(stream.rotation)
    turn = np.array([[np.cos(angle), np.sin(angle)], [-np.sin(angle), np.cos(angle)]])
    ours = turn @ np.diag([-1 if stream.mirrored else 1, 1])
    if roll != 45:
        assert np.allclose(ours, expected, atol=0.02)
    else:
        assert stream.rotation == 0


@settings(max_examples=examples(40))
@given(
    st.fixed_dictionaries(
        {},
        optional={
            0x55B1: st.sampled_from([1, 2, 5, 6, 9]),
            0x55B9: st.integers(0, 3),
            0x55BA: st.sampled_from([1, 2, 13, 16]),
            0x55BB: st.sampled_from([1, 2, 9]),
        },
    )
)
def test_colours_are_those_of_the_container_where_the_codec_is_silent(write, colours):
    path = write(vp8(video=element(COLOUR, *(uint(*each) for each in colours.items()))))
    stream = index_matroska(open_source(path)).stream
    with av.open(str(path)) as container:
        context = container.streams.video[0].codec_context
        expected = (context.color_primaries, context.color_trc, context.colorspace)
        full = {1: "limited", 2: "full"}.get(int(context.color_range), "")
    assert (stream.color_primaries, stream.color_transfer, stream.color_matrix) == expected
    assert stream.color_range == full


@settings(max_examples=examples(60))
@given(st.one_of(st.sampled_from([41_666_667, 33_366_667, 33_333_333, 40_000_000, 16_683_350]), st.integers(1, 10**11)))
def test_rates_are_those_of_libavformat(write, duration):
    path = write(vp8(uint(0x23E383, duration)))
    with av.open(str(path)) as container:
        expected = container.streams.video[0].average_rate
    assert index_matroska(open_source(path)).stream.frame_rate == (expected or 0)


def test_without_a_default_duration_the_rate_is_that_of_the_frames(write):
    assert index_matroska(open_source(write(vp8()))).stream.frame_rate == 25


flags = st.fixed_dictionaries(
    {}, optional={0x88: st.integers(0, 1), 0x55AB: st.integers(0, 1), 0x55AC: st.integers(0, 1)}
)


@settings(max_examples=examples(150))
@given(st.lists(flags, min_size=1, max_size=3), st.data())
def test_the_track_is_the_one_that_libavformat_takes(frames, tmp_path_factory, tracks, data):
    entries = [vp8(*(uint(*each) for each in flags.items()), number=number + 1) for number, flags in enumerate(tracks)]
    in_turn = [number for _ in frames for number in range(len(tracks))]
    order = data.draw(st.one_of(st.just(in_turn), st.just(in_turn[::-1]), st.permutations(in_turn)))
    order = order[: data.draw(st.integers(len(order) // 2, len(order)))]
    written = dict.fromkeys(range(len(tracks)), 0)
    blocks = []
    for number in order:
        time = written[number]
        blocks.append(element(SIMPLE_BLOCK, block(number + 1, 40 * time, [frames[time]], flags=0 if time else 0x80)))
        written[number] += 1
    path = tmp_path_factory.getbasetemp() / "tracks.mkv"
    path.write_bytes(matroska(element(CLUSTER, uint(TIMESTAMP, 0), *blocks), tracks=entries))
    assert build_index(path).packet_offset.tolist() == index_by_demuxing(open_source(path)).packet_offset.tolist()


def test_a_picture_among_the_attachments_is_not_the_video(sample, frames):
    jpeg = build_index(sample("mjpeg_mkv"))
    picture = open_source(sample("mjpeg_mkv")).read(int(jpeg.packet_offset[0]), int(jpeg.packet_size[0]))
    cover = element(
        ATTACHMENTS,
        element(
            0x61A7,
            element(0x466E, b"cover.jpg"),
            element(0x4660, b"image/jpeg"),
            element(0x465C, picture),
            uint(0x46AE, 7),
        ),
    )
    blocks = [element(SIMPLE_BLOCK, block(1, 40 * time, [frame])) for time, frame in enumerate(frames)]
    cluster = element(CLUSTER, uint(TIMESTAMP, 0), *blocks)
    for default in (0, 1):
        for parts in ((cover, cluster), (cluster, cover)):
            data = matroska(*parts, tracks=[vp8(uint(0x88, default))])
            assert len(build_index(data)) == len(build_index(matroska(cluster, tracks=[vp8()]))) == len(frames)


@pytest.mark.parametrize("segment", [element, endless])
def test_tracks_after_the_clusters_are_where_the_seek_head_says(frames, segment):
    blocks = [element(SIMPLE_BLOCK, block(1, 40 * time, [frame], flags=0x80)) for time, frame in enumerate(frames)]
    cluster = element(CLUSTER, uint(TIMESTAMP, 0), *blocks)
    tracks = element(TRACKS, vp8())

    def seek_head(position: int) -> bytes:
        entry = element(
            0x4DBB, element(0x53AB, TRACKS.to_bytes(4, "big")), element(0x53AC, position.to_bytes(8, "big"))
        )
        return element(SEEK_HEAD, entry)

    position = len(seek_head(0)) + len(info()) + len(cluster)
    data = header() + segment(SEGMENT, seek_head(position), info(), cluster, tracks)
    assert len(index_matroska(MemorySource(data))) == len(frames)
    for wrong in (position - 1, 0, 2**60):
        assert index_matroska(MemorySource(data.replace(seek_head(position), seek_head(wrong)))) is None
    # This would take minutes if they were joined one by one.
    many = element(SEEK_HEAD, bytes([0xEC, 0x40, 100]) + bytes(100)) * 50_000
    position += len(many)
    assert index_matroska(MemorySource(header() + segment(SEGMENT, many, seek_head(position), info(), cluster, tracks)))
    assert INFO != TRACKS


@pytest.mark.parametrize(
    ("name", "depth", "chroma"),
    [
        *((name, 8, "420") for name in ("vp8_webm", "vp9_webm", "av1_mkv", "h264_mkv", "hevc_mkv")),
        *((name, 8, "420") for name in ("mpeg2_mkv", "mpeg4_mkv", "h264_mkv_interlaced", "mjpeg_mkv", "ffv1_mkv")),
    ],
)
def test_the_coded_picture_is_known(sample, name, depth, chroma):
    stream = build_index(sample(name)).stream
    assert (stream.bit_depth, stream.chroma) == (depth, chroma)


@pytest.mark.parametrize("name", ["h264_mkv", "hevc_mkv", "av1_mkv", "mpeg2_mkv", "mpeg4_mkv", "ffv1_mkv", "vp8_webm"])
def test_the_configuration_record_is_what_libavcodec_is_given(sample, name):
    with av.open(str(sample(name))) as container:
        extradata = container.streams.video[0].codec_context.extradata or b""
    assert build_index(sample(name)).stream.codec_configs == (extradata,)
