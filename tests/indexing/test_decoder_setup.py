"""A decoder is set up as libavformat sets up its own: depth, palette, size; what cannot be is refused at opening."""

from __future__ import annotations

import struct
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from lies import LIES
from lies.bases import write_base
from mp4_writing import TABLES, find_box
from sample_videos import Recipe, write_video
from test_keyframes import assert_every_frame_comes_out_alone

from videoloader.decoding.capabilities import why_not_nvdec
from videoloader.errors import IndexingError, UnsupportedError
from videoloader.indexing import VideoIndex, build_index, decoder_check
from videoloader.indexing.bitstream.picture import cut_by_container
from videoloader.indexing.decoder import FreshDecoder, make_packet

SMALL = Recipe("mov", "rawvideo", {"g": "8"}, size=(64, 48), frames=12)


@pytest.mark.parametrize(
    ("suffix", "encoder", "pixels"),
    [
        ("mov", "rawvideo", "gray"),
        ("mov", "rawvideo", "rgb24"),
        ("mov", "rawvideo", "rgb555be"),
        ("mov", "rawvideo", "argb"),
        ("avi", "rawvideo", "monow"),
        ("avi", "rawvideo", "rgb555le"),
        ("nut", "rawvideo", "rgb565le"),
        ("mov", "qtrle", "rgb555be"),
        ("mov", "qtrle", "rgb24"),
        ("mov", "qtrle", "argb"),
        ("mov", "qtrle", "gray"),
        ("avi", "msvideo1", "rgb555le"),
        ("avi", "cinepak", "gray"),
        ("mov", "cinepak", "rgb24"),
        ("mov", "png", "gray"),
        ("asf", "msmpeg4v2", "yuv420p"),
    ],
)
def test_the_number_of_bits_reaches_the_decoder(tmp_path, suffix, encoder, pixels):
    recipe = replace(SMALL, suffix=suffix, encoder=encoder, pix_fmt=pixels)
    path = write_video(tmp_path / f"video.{suffix}", recipe)
    assert_every_frame_comes_out_alone(path, build_index(path))


def palette(seed: int) -> bytes:
    colours = np.random.default_rng(seed).integers(0, 256, (256, 4), np.uint8)
    colours[:, 3] = 255
    return colours.tobytes()


def write_with_palettes(path: Path, encoder: str, palettes: list[int], changed: list[int] | None = None) -> Path:
    """A video whose n-th frame has the palette of the n-th number."""
    with av.open(str(path), "w") as container:
        stream = container.add_stream(encoder, rate=25, options={"g": "6"})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "pal8"
        for number, seed in enumerate(palettes):
            frame = av.VideoFrame(64, 48, "pal8")
            frame.planes[0].update(
                np.roll(np.arange(64 * 48, dtype=np.uint8) // 48, number).repeat(frame.planes[0].line_size // 64)
            )
            frame.planes[1].update(palette(seed))
            frame.pts, frame.time_base = number, Fraction(1, 25)
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize(
    ("suffix", "encoder"), [("avi", "rawvideo"), ("mov", "smc"), ("mov", "rawvideo"), ("avi", "msrle")]
)
@pytest.mark.parametrize("palettes", [[1] * 12, [1] * 5 + [2] * 7, [1, 1, 2, 2, 1, 1, 3, 3, 3, 3, 1, 2]])
def test_the_palette_in_force_goes_along_with_the_packets(tmp_path, suffix, encoder, palettes):
    path = write_with_palettes(tmp_path / f"video.{suffix}", encoder, palettes)
    index = build_index(path)
    assert any(index.stream.palettes)
    assert len(index.stream.palettes) == len(index.stream.codec_configs)
    assert_every_frame_comes_out_alone(path, index)


def with_two_setups(index: VideoIndex) -> VideoIndex:
    stream = replace(index.stream, codec_configs=(b"one", b"two"), palettes=(palette(1), palette(2)))
    return replace(index, stream=stream, packet_config=np.array([0, 0, 1, 1, 0] + [0] * 7, np.uint8))


def test_a_packet_tells_the_decoder_what_has_changed_since_the_one_before(tmp_path):
    index = with_two_setups(build_index(write_video(tmp_path / "video.mov", replace(SMALL, pix_fmt="rgb24"))))

    def beside(number: int, previous: int | None) -> dict[str, bytes]:
        packet = make_packet(index, b"data", number, previous)
        assert packet.pts == number
        return {each.data_type: bytes(each) for each in packet.iter_sidedata()}

    assert [*beside(0, None).values()] == [palette(1)]
    assert [*beside(2, None).values()] == [palette(2)]  # the decoder was opened with the second record
    assert beside(1, 0) == beside(3, 2) == {}
    assert [*beside(2, 1).values()] == [palette(2), b"two"]
    assert [*beside(4, 3).values()] == [palette(1), b"one"]
    assert [*beside(4, 1).values()] == []


def test_a_video_with_more_palettes_than_an_index_counts_is_refused(tmp_path):
    path = write_with_palettes(tmp_path / "video.avi", "rawvideo", [*range(257)])
    if len({bytes(p) for p in _palettes(path)}) <= 256:
        pytest.skip("the muxer left palettes out")
    with pytest.raises(UnsupportedError, match="palette"):
        build_index(path)


def _palettes(path: Path) -> list[bytes]:
    with av.open(str(path)) as container:
        return [
            bytes(packet.get_sidedata("palette"))
            for packet in container.demux(video=0)
            if packet.has_sidedata("palette")
        ]


def test_a_decoder_that_gives_other_pictures_than_libavformats_is_refused(tmp_path, monkeypatch):
    path = write_with_palettes(tmp_path / "video.avi", "rawvideo", [1] * 12)
    assert len(build_index(path)) == 12

    class WithoutPalette(FreshDecoder):
        def __init__(self, index: VideoIndex, start: int) -> None:
            super().__init__(replace(index, stream=replace(index.stream, palettes=())), start)

    monkeypatch.setattr(decoder_check, "FreshDecoder", WithoutPalette)
    with pytest.raises(UnsupportedError, match="this kind of rawvideo"):
        build_index(path)


def test_raw_pictures_of_another_size_than_their_packets_are_refused(tmp_path):
    """libavcodec would fill in what is in memory."""
    path = write_video(tmp_path / "small.mov", replace(SMALL, encoder="rawvideo", pix_fmt="gray"))
    data = bytearray(path.read_bytes())
    at = data.index(struct.pack(">HH", *SMALL.size), data.index(b"stsd"))
    data[at : at + 4] = struct.pack(">HH", 640, 480)
    path.write_bytes(data)
    with pytest.raises(IndexingError, match="a packet of 3072 bytes, but a picture of 640×480 takes 307200"):
        build_index(path)


def test_pictures_that_a_decoder_leaves_unfinished_are_not_taken_for_libavformats(tmp_path):
    # Without its record FFV1's decoder leaves pictures as they were in memory, where libavformat's may just have been.
    told = LIES["stream_format_size"].tell(write_base(tmp_path, "ffv1_avi").read_bytes(), 72)
    with pytest.raises(UnsupportedError, match="this kind of ffv1"):
        build_index(told)


def stated(path: Path, width: int, height: int) -> Path:
    """The mp4 file with another size in its sample description."""
    data = bytearray(path.read_bytes())
    start, _ = find_box(bytes(data), (*TABLES, b"stsd"))
    data[start + 8 + 8 + 24 : start + 8 + 8 + 28] = struct.pack(">HH", width, height)
    other = path.with_stem(f"{width}x{height}")
    other.write_bytes(data)
    return other


@pytest.mark.parametrize("size", [(64, 48), (60, 44)])
@pytest.mark.parametrize(
    "told",
    [(64, 48), (54, 48), (53, 35), (58, 42), (60, 44), (62, 46), (64, 40), (64, 32), (48, 48), (50, 50), (70, 50)],
)
def test_h264_pictures_are_cut_to_the_size_that_the_container_states_as_libavcodec_does(tmp_path, size, told):
    path = stated(
        write_video(tmp_path / "video.mp4", replace(SMALL, encoder="libx264", suffix="mp4", size=size)), *told
    )
    index = build_index(path)
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    assert (index.stream.width, index.stream.height) == (frame.width, frame.height)
    cut = (frame.width, frame.height) != size
    assert index.stream.container_size == ((frame.width, frame.height) if cut else (0, 0))
    assert_every_frame_comes_out_alone(path, index)
    if cut:
        assert why_not_nvdec(index, 0) == "its container crops the coded pictures"


@pytest.mark.parametrize("codec", ["libx265", "mpeg4", "libvpx-vp9"])
def test_other_codecs_are_of_the_size_that_their_headers_tell(tmp_path, codec):
    options = {"x265-params": "log-level=none"} if codec == "libx265" else {}
    path = write_video(tmp_path / "video.mp4", replace(SMALL, encoder=codec, options=options, suffix="mp4"))
    index = build_index(stated(path, 54, 48))
    assert (index.stream.width, index.stream.height, index.stream.container_size) == (64, 48, (0, 0))
    assert cut_by_container(index.stream, 54, 48) is index.stream
