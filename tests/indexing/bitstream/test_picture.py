"""The picture format read from headers is that of the frames which a decoder gives out."""

from dataclasses import replace
from fractions import Fraction

import av
import pytest
from bit_writing import BitWriter
from hypothesis import given
from hypothesis import strategies as st
from sample_videos import RECIPES, Recipe, write_video

from videoloader.indexing import StreamInfo, build_index
from videoloader.indexing.bitstream.hevc_parameter_sets import read_sequence_parameters
from videoloader.indexing.bitstream.picture import parameter_set_format, picture_format

X264, X265 = "libx264", "libx265"
QUIET = {"preset": "ultrafast", "x265-params": "log-level=none:pools=1:frame-threads=1"}


def recipe(encoder, pix_fmt="yuv420p", size=(160, 128), suffix="mp4", **params):
    """Three frames, with the encoder's own parameters."""
    key = "x264-params" if encoder == X264 else "x265-params"
    options = dict(QUIET) if encoder == X265 else {}
    if params:
        written = ":".join(f"{name.replace('_', '-')}={value}" for name, value in params.items())
        options[key] = f"{options[key]}:{written}" if key in options else written
    return Recipe(suffix, encoder, options, pix_fmt=pix_fmt, size=size, frames=3)


STREAMS = {
    **{f"h264 {pix_fmt}": recipe(X264, pix_fmt) for pix_fmt in ("gray", "yuv420p", "yuv422p", "yuv444p", "yuvj420p")},
    **{f"h264 {pix_fmt}": recipe(X264, pix_fmt) for pix_fmt in ("yuv420p10le", "yuv422p10le", "yuv444p10le")},
    **{f"hevc {pix_fmt}": recipe(X265, pix_fmt) for pix_fmt in ("gray", "yuv420p", "yuv422p", "yuv444p", "yuvj420p")},
    **{f"hevc {pix_fmt}": recipe(X265, pix_fmt) for pix_fmt in ("yuv420p10le", "yuv422p10le", "yuv444p12le")},
    **{f"h264 {size}": recipe(X264, size=size) for size in ((2, 2), (130, 98), (126, 530), (1280, 18))},
    **{f"h264 4:4:4 {size}": recipe(X264, "yuv444p", size) for size in ((131, 97), (33, 17))},
    **{f"h264 4:2:2 {size}": recipe(X264, "yuv422p", size) for size in ((130, 97), (34, 17))},
    **{f"hevc {size}": recipe(X265, size=size) for size in ((66, 70), (130, 98), (126, 530))},
    "hevc 4:4:4 (131, 97)": recipe(X265, "yuv444p", (131, 97)),
    "h264 interlaced": recipe(X264, size=(160, 136), tff=1),
    "h264 scaling lists": recipe(X264, "yuv420p", (130, 98), cqm="jvt"),
    "h264 4:4:4 scaling lists": recipe(X264, "yuv444p", (130, 98), cqm="jvt"),
    "h264 matrix": recipe(X264, colormatrix="bt709", range="tv"),
    "h264 matrix, full": recipe(X264, colormatrix="bt470bg", range="pc", videoformat="pal", overscan="show"),
    "h264 range alone": recipe(X264, range="tv"),
    "h264 pixel shape": recipe(X264, sar="4:3", colormatrix="smpte240m"),
    "h264 ts": recipe(X264, size=(130, 98), suffix="ts", colormatrix="bt709"),
    "h264 mkv": recipe(X264, size=(130, 98), suffix="mkv"),
    "hevc matrix": recipe(X265, colormatrix="bt2020nc", range="limited"),
    "hevc matrix, full": recipe(X265, colormatrix="bt709", range="full", sar="4:3", overscan="show"),
    "hevc scaling lists": recipe(X265, scaling_list="default", colormatrix="bt709"),
    "hevc layers": recipe(X265, temporal_layers=1, bframes=3, colormatrix="bt709"),
    "hevc references": recipe(X265, ref=5, bframes=4, colormatrix="bt709"),
    "hevc ts": recipe(X265, size=(130, 98), suffix="ts", colormatrix="bt709"),
    "hevc mkv": recipe(X265, "yuv420p10le", (130, 98), suffix="mkv"),
    "av1": recipe("libsvtav1"),
    "av1 10 bit": recipe("libsvtav1", "yuv420p10le"),
    "vp9": recipe("libvpx-vp9", suffix="webm"),
    "vp9 4:4:4": recipe("libvpx-vp9", "yuv444p", suffix="webm"),
    "vp9 4:4:4 mp4": recipe("libvpx-vp9", "yuv444p", (131, 97)),
    "vp8": recipe("libvpx", suffix="webm"),
    "mpeg4": recipe("mpeg4"),
    "mpeg2": recipe("mpeg2video", suffix="ts"),
    "mjpeg": recipe("mjpeg", "yuvj422p", suffix="mkv"),
}


def of_frame(frame):
    """Size, chroma, bit depth, matrix and range that the decoder states."""
    planes = frame.format.components
    chroma = "400"
    if len(planes) > 1:
        halves = planes[1].width < frame.width, planes[1].height < frame.height
        chroma = {(True, True): "420", (True, False): "422", (False, False): "444"}[halves]
    full = {1: False, 2: True}.get(int(frame.color_range))
    return frame.width, frame.height, chroma, planes[0].bits, int(frame.colorspace), full


@pytest.mark.parametrize("name", STREAMS)
def test_format_is_that_of_the_decoded_frames(tmp_path, name):
    path = write_video(tmp_path / f"video.{STREAMS[name].suffix}", STREAMS[name])
    index = build_index(path)
    with av.open(str(path)) as container:
        frame = next(container.decode(video=0))
    expected = of_frame(frame)
    if name == "h264 gray":  # libavcodec adds neutral chroma, which is not in the stream
        expected = (*expected[:2], "400", *expected[3:])
    found = picture_format(index.stream)
    if index.stream.codec in ("h264", "hevc"):
        assert found[:6] == expected
    else:  # colours are only in the frames
        assert found[:4] == expected[:4]


def test_more_reference_pictures_and_longer_headers_do_not_shift_what_follows(sample):
    for name in RECIPES:
        found = picture_format(build_index(sample(name)).stream)
        assert (found.width, found.height, found.chroma, found.bit_depth) == (160, 128, "420", 8)


def test_what_no_header_tells_is_unknown():
    unknown = StreamInfo("prores", (b"",), Fraction(1, 25), 64, 64)
    assert picture_format(unknown) is None
    assert picture_format(replace(unknown, bit_depth=10, chroma="422"))[:4] == (64, 64, "422", 10)
    assert picture_format(replace(unknown, codec="av1", codec_configs=(b"\x81\0\x4c\0",)))[2:4] == ("420", 10)
    assert picture_format(replace(unknown, codec="av1", codec_configs=(b"\x81\0\x60\0",)))[2:4] == ("444", 12)
    assert picture_format(replace(unknown, codec="av1", codec_configs=(b"\x81\0\x1c\0",)))[2:4] == ("400", 8)


@given(st.sampled_from(["h264", "hevc", "av1"]), st.binary(max_size=80), st.booleans(), st.data())
def test_damaged_headers_are_unknown_or_read_but_never_an_error(sample, codec, noise, cut, data):
    stream = build_index(sample(f"{codec}_mp4")).stream
    config = stream.codec_configs[0]
    at = data.draw(st.integers(0, len(config)))
    damaged = config[:at] + noise + (b"" if cut else config[at + len(noise) :])
    picture_format(replace(stream, codec_configs=(damaged,)))


@pytest.mark.parametrize(("cut_off", "size"), [(0, (16, 16)), (7, (2, 16)), (8, None), (2**30, None)])
def test_a_picture_of_which_more_is_cut_off_than_there_is_has_no_format(cut_off, size):
    sps = BitWriter().u(66, 8).u(0, 8).u(10, 8).ue(0).ue(0).ue(0).ue(0).ue(1).u(0, 1)  # up to the references
    sps.ue(0).ue(0).u(1, 1).u(0, 1)  # 16 by 16 pixels, frames only
    sps.u(1, 1).ue(0).ue(cut_off).ue(0).ue(0).u(0, 1)  # in pairs of pixels, on the right
    told = parameter_set_format("h264", b"\x67" + sps.bytes())
    assert (told and (told.width, told.height)) == size
    hevc = BitWriter().u(0, 4).u(0, 3).u(1, 1).u(0, 88).u(30, 8).ue(0).ue(1).ue(16).ue(16)  # 16 by 16 pixels, 4:2:0
    hevc.u(1, 1).ue(0).ue(cut_off).ue(0).ue(0).bytes()
    with pytest.raises(ValueError, match="too early" if size else "leaves nothing of the picture"):
        read_sequence_parameters(b"\x42\1" + hevc.bytes())
