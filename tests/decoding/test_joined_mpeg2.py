"""Joined files of MPEG-1 and 2 whose parts have other matrices, which only the first keyframe of each part tells."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
from read_alone import read_alone
from truth import full_decode

from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import build_index, open_source
from videoloader.indexing.decoder import open_decoder

GROUP = b"\0\0\1\xb8"


def write_joined(path: Path, codec: str, matrices: list[int]) -> Path:
    with av.open(str(path), "w") as target:
        stream = target.add_stream(codec, rate=25)
        assert isinstance(stream, av.VideoStream)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for place, weight in enumerate(matrices):
            encoder = av.CodecContext.create(codec, "w")
            assert isinstance(encoder, av.VideoCodecContext)
            encoder.width, encoder.height, encoder.pix_fmt = 64, 48, "yuv420p"
            encoder.time_base, encoder.framerate = Fraction(1, 25), Fraction(25)
            encoder.options = {"g": "4", "bf": "0", "b": "300k", "intra_matrix": ",".join([str(weight)] * 64)}
            noise = np.random.default_rng(place).integers(0, 255, (48, 64, 3), np.uint8)
            frames = [av.VideoFrame.from_ndarray(np.roll(noise, number, 1), "rgb24") for number in range(10)]
            for number, frame in enumerate(frames):
                frame.pts = number
            packets = [packet for frame in [*frames, None] for packet in encoder.encode(frame)]
            for number, packet in enumerate(packets):
                data = bytes(packet)
                copy = av.Packet(data[data.index(GROUP) :] if number and packet.is_keyframe else data)
                copy.stream, copy.time_base, copy.is_keyframe = stream, Fraction(1, 25), packet.is_keyframe
                copy.pts = copy.dts = 10 * place + number
                target.mux(copy)
    return path


@pytest.mark.parametrize("codec", ["mpeg1video", "mpeg2video"])
@pytest.mark.parametrize("container", ["mkv", "mp4", "nut", "ts", "mpeg"])
def test_each_frame_is_that_of_a_decode_from_the_start(tmp_path: Path, codec: str, container: str) -> None:
    path = write_joined(tmp_path / f"x.{container}", codec, [8, 40, 20])
    truth, index, source, one_for_all = full_decode(path), build_index(path), open_source(path), CpuDecoder()
    assert len(index) == len(truth.hashes) == 30
    for frame in reversed(range(30)):
        for decoder in (CpuDecoder(), one_for_all):
            hashed, _, _ = read_alone(source, index, frame, decoder)
            assert hashed == truth.hashes[frame], frame


def test_zeros_lie_behind_the_headers_that_a_decoder_is_given(tmp_path: Path) -> None:
    """libavcodec refuses a sequence header of MPEG-1 before other bytes, which may lie there by chance."""
    index = build_index(write_joined(tmp_path / "x.mkv", "mpeg1video", [8, 40]))
    assert (open_decoder(index, 0).extradata or b"").endswith(b"\0\0\0")
