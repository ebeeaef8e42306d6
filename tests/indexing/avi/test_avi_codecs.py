"""Encoded AVI files of every codec indexed here: the index is the one that decoding the whole file gives."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from sample_videos import X264, Recipe, write_video
from truth import full_decode, hash_of

from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import FileSource, VideoIndex, build_index
from videoloader.indexing.avi.index import index_avi
from videoloader.indexing.libav import index_by_decoding, index_by_demuxing
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets


def recipe(encoder: str, options: dict[str, str] | None = None, pix_fmt: str = "yuv420p") -> Recipe:
    return Recipe("avi", encoder, options or {}, pix_fmt=pix_fmt, size=(96, 80), frames=40)


def x264(parameters: str) -> Recipe:
    return recipe("libx264", X264 | {"x264-params": parameters})


INDEXED = {
    "mpeg4": recipe("mpeg4", {"g": "12"}),
    "mpeg4_one_b": recipe("mpeg4", {"bf": "1", "g": "12"}),
    "mpeg4_four_b": recipe("mpeg4", {"bf": "4", "g": "12"}),
    "mpeg4_chosen_b": recipe("mpeg4", {"bf": "3", "g": "300", "b_strategy": "1"}),
    "mpeg4_quarter_pixel": recipe("mpeg4", {"bf": "2", "g": "12", "flags": "+qpel"}),
    "mpeg4_partitioned": recipe("mpeg4", {"g": "12", "data_partitioning": "1"}),
    "h264_pyramid": x264("scenecut=0:b-pyramid=normal"),
    "h264_open_gop": x264("scenecut=0:open-gop=1:b-pyramid=normal"),
    "h264_interlaced": x264("interlaced=1"),
    "h264_intra_refresh": recipe("libx264", {"x264-params": "intra-refresh=1:keyint=12"}),
    "h264_slices": x264("slices=4"),
    "h264_colours": x264("colorprim=bt709:transfer=bt709:colormatrix=bt709:range=tv"),
    "h264_without_b": recipe("libx264", {"bf": "0", "g": "12"}),
    "h264_baseline": recipe("libx264", {"profile": "baseline", "g": "12"}),
    "h264_10_bit": recipe("libx264", X264, "yuv420p10le"),
    "h264_444": recipe("libx264", X264, "yuv444p"),
    "h264_full_range": recipe("libx264", X264, "yuvj420p"),
    "mjpeg_420": recipe("mjpeg", pix_fmt="yuvj420p"),
    "mjpeg_422": recipe("mjpeg", pix_fmt="yuvj422p"),
    "mjpeg_444": recipe("mjpeg", pix_fmt="yuvj444p"),
    "msmpeg4v2": recipe("msmpeg4v2", {"g": "12"}),
    "msmpeg4v3": recipe("msmpeg4", {"g": "12"}),
    "wmv1": recipe("wmv1", {"g": "12"}),
    "wmv2": recipe("wmv2", {"g": "12"}),
    "ffv1": recipe("ffv1", {"g": "5"}),
    "ffv1_10_bit": recipe("ffv1", {"g": "5"}, "yuv420p10le"),
    "huffyuv": recipe("huffyuv", pix_fmt="yuv422p"),
    "ffvhuff": recipe("ffvhuff"),
    "utvideo": recipe("utvideo", pix_fmt="yuv422p"),
    "magicyuv": recipe("magicyuv"),
    "png": recipe("png", pix_fmt="rgb24"),
    "cinepak": recipe("cinepak", {"g": "12"}, "rgb24"),
    "raw_420": recipe("rawvideo"),
    "raw_yuyv": recipe("rawvideo", pix_fmt="yuyv422"),
    "raw_bgr": recipe("rawvideo", pix_fmt="bgr24"),
}
LEFT_TO_LIBAV = {
    "mpeg1": recipe("mpeg1video", {"bf": "2", "g": "12"}),
    "mpeg2": recipe("mpeg2video", {"g": "12"}),
    "mpeg2_b": recipe("mpeg2video", {"bf": "2", "g": "12"}),
    "mpeg2_interlaced": recipe("mpeg2video", {"bf": "2", "g": "12", "flags": "+ilme+ildct"}),
    "mpeg4_interlaced": recipe("mpeg4", {"bf": "2", "g": "12", "flags": "+ilme+ildct"}),
    "h264_that_times_its_pictures": x264("nal-hrd=vbr:vbv-maxrate=500:vbv-bufsize=500:b-pyramid=strict:bframes=5"),
    "h264_grey": recipe("libx264", X264, "gray"),
    "snow": recipe("snow"),
}


@pytest.fixture(scope="session")
def encoded(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """``encoded(name)`` is the path of the video made by the recipe of that name."""
    folder = tmp_path_factory.mktemp("avi")

    @cache
    def path(name: str) -> Path:
        return write_video(folder / f"{name}.avi", (INDEXED | LEFT_TO_LIBAV)[name])

    return path


def assert_same_index(index: VideoIndex, reference: VideoIndex) -> None:
    for name in ("packet_offset", "packet_size", "packet_key", "packet_pts", "frame_packet", "frame_pts"):
        assert getattr(index, name).tolist() == getattr(reference, name).tolist(), name
    assert index.stream == reference.stream


@pytest.mark.parametrize("name", INDEXED)
def test_the_index_is_that_of_a_full_decode(encoded: Callable[[str], Path], name: str) -> None:
    index = index_avi(FileSource(encoded(name)))
    assert index is not None
    assert (index.method, index.byte_ranges, index.container) == ("tables", True, "avi")
    # Cinepak's decoder has an idea of its own of what a keyframe is.
    look = index_by_demuxing if name == "cinepak" else index_by_decoding
    assert_same_index(index, look(FileSource(encoded(name))))


@pytest.mark.parametrize("name", INDEXED)
def test_every_frame_decodes_alone_to_what_a_full_decode_gives(encoded: Callable[[str], Path], name: str) -> None:
    source, truth = FileSource(encoded(name)), full_decode(encoded(name))
    index = build_index(source)
    decoder = CpuDecoder()
    frames: dict[int, bytes] = {}
    for frame in range(0, len(index), 3):
        for run in plan_frames(index, [frame]).runs:
            decoder.decode(
                index,
                read_packets(source, index, run),
                lambda packet, picture: frames.update({packet: hash_of(picture)}),
            )
    assert frames == {int(index.frame_packet[frame]): truth.hashes[frame] for frame in range(0, len(index), 3)}


@pytest.mark.parametrize("name", LEFT_TO_LIBAV)
def test_what_headers_do_not_settle_is_left_to_libavformat(encoded: Callable[[str], Path], name: str) -> None:
    assert index_avi(FileSource(encoded(name))) is None
    index, truth = build_index(encoded(name)), full_decode(encoded(name))
    assert len(index) == len(truth.pts)
    assert index.frame_pts.tolist() == sorted(truth.pts)


def test_keyframes_are_read_from_the_codec_where_the_container_has_none(encoded: Callable[[str], Path]) -> None:
    for name in ("mpeg4", "h264_without_b", "msmpeg4v3", "wmv1", "wmv2"):
        key = build_index(encoded(name)).packet_key
        assert 3 <= key.sum() < len(key)
        without = encoded(name).read_bytes().replace(b"idx1", b"JUNK")
        assert np.array_equal(build_index(without).packet_key, key)
