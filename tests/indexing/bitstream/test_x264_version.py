"""What a stream says of its encoder is known wherever decoding starts. (Real old streams are in the corpus.)"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from sample_videos import RECIPES, Recipe, write_video
from truth import full_decode, hash_of

from videoloader.decoding.cpu import CpuDecoder
from videoloader.errors import DecodeError
from videoloader.indexing import build_index, open_source
from videoloader.indexing.bitstream.x264_version import demands_version, x264_version
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets


def write(path: Path, pix_fmt: str = "yuv444p", version: bytes | None = None) -> Path:
    """A video of x264, which says that it is of this version."""
    write_video(path, Recipe(path.suffix[1:], "libx264", RECIPES["h264_mp4"].options, pix_fmt=pix_fmt))
    if version:
        path.write_bytes(re.sub(rb"x264 - core \d{3}", b"x264 - core " + version, path.read_bytes()))
    return path


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
@pytest.mark.parametrize(("pix_fmt", "demanding"), [("yuv420p", False), ("yuv444p", True)])
def test_runs_of_444_begin_with_the_version(tmp_path: Path, suffix: str, pix_fmt: str, demanding: bool) -> None:
    path = write(tmp_path / f"old.{suffix}", pix_fmt, b"142")
    source, index = open_source(path), build_index(path)
    config = index.stream.codec_configs[0]
    first, later = (
        next(iter(read_packets(source, index, plan_frames(index, [frame]).runs[0]))).data for frame in (0, 40)
    )
    note = x264_version(first, config)
    assert b"x264 - core 142" in note
    assert demands_version(config, later) is demanding
    assert x264_version(later, config) == (note if demanding else b"")
    assert bytes(later).count(b"x264 - core") == demanding


@pytest.mark.parametrize("suffix", ["mp4", "mkv", "ts"])
def test_a_decoder_does_not_take_the_version_of_one_video_for_that_of_another(tmp_path: Path, suffix: str) -> None:
    old, new = write(tmp_path / f"old.{suffix}", version=b"142"), write(tmp_path / f"new.{suffix}")
    decoder, truth = CpuDecoder(), full_decode(new).hashes
    for path in (old, new, old, new):
        source, index, found = open_source(path), build_index(path), []
        packets = read_packets(source, index, plan_frames(index, [40]).runs[0])
        try:
            decoder.decode(index, packets, lambda packet, picture, found=found: found.append(hash_of(picture)))
        except DecodeError:
            assert path == old, "what is not of an old x264 need not decode as such"
        assert (found == [truth[40]]) is (path == new)
