"""B pictures, by the first bytes of a packet."""

from __future__ import annotations

import av
import pytest
from av.video.frame import PictureType

from videoloader.indexing.bitstream.picture_kinds import is_b_picture


@pytest.mark.parametrize(
    "name",
    ["h264_mkv", "h264_ts", "h264_mp4_intra_refresh", "h264_mkv_interlaced", "mpeg2_ts", "mpeg4_mkv", "mpeg4_mp4"],
)
def test_pictures_are_what_the_decoder_calls_them(sample, name):
    with av.open(str(sample(name))) as container:
        stream = container.streams.video[0]
        codec, config = stream.codec_context.name, stream.codec_context.extradata
        packets = {packet.pts: bytes(packet) for packet in container.demux(stream) if packet.size}
    with av.open(str(sample(name))) as container:
        kinds = {frame.pts: frame.pict_type == PictureType.B for frame in container.decode(video=0)}
    assert {pts: is_b_picture(codec, config, packets[pts][:1500]) for pts in kinds} == kinds


def test_a_head_without_a_slice_is_none():
    assert not is_b_picture("h264", b"\1\x64\0\x1e\xff\xe1\0", b"\0\0\0\2\x09\xf0\0\0")
    assert not is_b_picture("h264", b"", b"\0\0\1\x41")
    assert not is_b_picture("h264", b"", b"")
