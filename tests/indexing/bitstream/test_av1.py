"""AV1's sequence header: the format it tells of is that of the frames which a decoder gives out."""

from __future__ import annotations

from fractions import Fraction

import av
import pytest
from corpus_files import GOOD_FILES
from hypothesis import given
from hypothesis import strategies as st

from videoloader.indexing.bitstream.av1 import sequence_format, units_of_record

CHROMA = {"yuv420p": "420", "yuv420p10le": "420"}


def first_frame(path) -> tuple[bytes, av.VideoFrame]:
    with av.open(str(path)) as container:
        stream = container.streams.video[0]
        return stream.codec_context.extradata or b"", next(container.decode(stream))


def encode(path, size, pix_fmt, primaries, transfer, matrix, full):
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libsvtav1", rate=25, options={"preset": "12", "svtav1-params": "lp=1"})
        stream.width, stream.height = size
        stream.pix_fmt = pix_fmt
        context = stream.codec_context
        context.color_primaries, context.color_trc, context.colorspace, context.color_range = (
            primaries,
            transfer,
            matrix,
            full,
        )
        frame = av.VideoFrame(*size, pix_fmt)
        frame.pts, frame.time_base = 0, Fraction(1, 25)
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return path


@pytest.mark.parametrize("pix_fmt", CHROMA)
@pytest.mark.parametrize("size", [(160, 128), (66, 98), (642, 362)])
@pytest.mark.parametrize("colors", [(1, 1, 1, 1), (9, 16, 9, 2), (2, 2, 2, 1), (9, 18, 9, 1)])
def test_the_format_is_that_of_the_frames(tmp_path, size, pix_fmt, colors):
    config, frame = first_frame(encode(tmp_path / "a.mkv", size, pix_fmt, *colors))
    found = sequence_format(units_of_record(config))
    assert (found.width, found.height) == (frame.width, frame.height) == size
    assert (found.chroma, found.bit_depth) == (CHROMA[pix_fmt], 10 if "10" in pix_fmt else 8)
    expected = (frame.color_primaries, frame.color_trc, frame.colorspace)
    assert (found.color_primaries, found.color_transfer, found.color_matrix) == expected == colors[:3]
    assert found.full_range == (colors[3] == 2)


@pytest.mark.parametrize(("position", "site"), [(0, 0), (1, 0), (2, 2), (3, 0)])
def test_chroma_lies_where_the_header_says(position, site):
    """Section 6.4.2: 1 is between two rows, as without a word, and 2 at the first luma sample."""
    still = "0001100000"  # profile, still picture, short header, level
    size = "01010101" + 2 * f"{47:06b}"
    colors = "0000" + f"{position:02b}"  # 8 bits, not gray, no code points, studio range
    bits = still + size + "000000" + colors + "1"
    header = int(bits.ljust(64, "0"), 2).to_bytes(8, "big")
    found = sequence_format(b"\x0a\x08" + header)
    assert (found.width, found.height, found.chroma, found.chroma_site) == (48, 48, "420", site)


@pytest.mark.parametrize("name", [name for name in GOOD_FILES if name.startswith("av1")])
def test_the_format_of_real_files(corpus, name):
    config, frame = first_frame(corpus / name)
    found = sequence_format(units_of_record(config))
    if found is None:
        assert len(config) == 4  # a record without the header
        return
    assert (found.width, found.height) == (frame.width, frame.height)
    assert found.bit_depth == frame.format.components[0].bits
    assert (found.color_primaries, found.color_transfer, found.color_matrix, 1 + found.full_range) == (
        frame.color_primaries,
        frame.color_trc,
        frame.colorspace,
        frame.color_range,
    )


@given(
    st.binary(max_size=60),
    st.sampled_from([b"", b"\x81\x08\x0c\x00", b"\x81\x08\x0c\x00\x0a\x0b", b"\x0a\xff\xff\x7f"]),
)
def test_noise_is_no_format_or_some_format(noise, start):
    found = sequence_format(units_of_record(start + noise))
    assert found is None or (0 < found.width <= 1 << 16 and 0 < found.height <= 1 << 16)
