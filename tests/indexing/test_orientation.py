"""Rotation and mirroring that containers and streams state, whoever reads them."""

from __future__ import annotations

import io
import itertools
import struct
import zlib

import av
import numpy as np
import pytest
from av.bitstream import BitStreamFilterContext
from mp4_writing import TRACK, find_box

import videoloader as vl
from videoloader.indexing import build_index


def with_orientation(data: bytes, quarter: int, mirrored: bool) -> bytes:
    turn = np.linalg.matrix_power(np.array([[0, -1], [1, 0]]), quarter)  # of (x right, y down), 90 degrees clockwise
    (a, c), (b, d) = np.array([[-1, 0], [0, 1]]) @ turn if mirrored else turn
    return with_matrix(data, *(number << 16 for number in (a, b, c, d)))


def with_matrix(data: bytes, a: int, b: int, c: int, d: int) -> bytes:
    start, _ = find_box(data, (*TRACK, b"tkhd"))
    return data[: start + 40] + struct.pack(">9i", a, b, 0, c, d, 0, 0, 0, 1 << 30) + data[start + 76 :]


@pytest.mark.parametrize("quarter", range(4))
@pytest.mark.parametrize("mirrored", [False, True])
def test_rotation_is_clockwise_and_mirroring_comes_after_it(sample, tmp_path, quarter, mirrored):
    data = with_orientation(sample("h264_mp4").read_bytes(), quarter, mirrored)
    stream = build_index(data).stream
    assert (stream.rotation, stream.mirrored) == (90 * quarter, mirrored)
    assert (stream.width, stream.height) == (160, 128)
    assert stream.display_size == ((160, 128) if quarter % 2 else (128, 160))
    if not mirrored:
        with av.open(io.BytesIO(data)) as container:
            assert -next(container.decode(video=0)).rotation % 360 == 90 * quarter


@pytest.mark.parametrize("codec", ["qtrle", "png", "rawvideo", "libx264rgb"])
def test_orientation_does_not_depend_on_who_reads_the_tables(tmp_path, codec):
    path, turned = tmp_path / "upright.mov", tmp_path / "turned.mov"
    with av.open(str(path), "w") as container:
        stream = container.add_stream(codec, rate=25)
        stream.width, stream.height, stream.pix_fmt = 32, 16, "rgb24"
        noise = np.random.default_rng(0).integers(0, 256, (16, 32, 3), np.uint8)
        container.mux([*stream.encode(av.VideoFrame.from_ndarray(noise, "rgb24")), *stream.encode(None)])
    picture = vl.Video(path, device="cpu")[0].numpy()
    methods = set()
    for quarter, mirrored in itertools.product(range(4), (False, True)):
        turned.write_bytes(with_orientation(path.read_bytes(), quarter, mirrored))
        video = vl.Video(turned, device="cpu")
        methods.add(video.index.method)
        expected = np.rot90(picture, -quarter, (1, 2))
        np.testing.assert_array_equal(video[0].numpy(), expected[..., ::-1] if mirrored else expected)
    assert ("tables" in methods) == codec.startswith("libx264")


@pytest.mark.parametrize("flip", ["", "horizontal", "vertical"])
@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_libavformat_s_files_are_turned_as_their_stream_states(tmp_path, sample, degrees, flip):
    path = tmp_path / "stated.nut"
    with av.open(str(sample("h264_mp4"))) as read, av.open(str(path), "w") as written:
        stream = read.streams.video[0]
        options = f"display_orientation=insert:rotate={degrees}" + (f":flip={flip}" if flip else "")
        state = BitStreamFilterContext(f"h264_metadata={options}", stream)
        copy = written.add_stream_from_template(stream)
        for packet in [each for part in read.demux(stream) if part.size for each in state.filter(part)]:
            packet.stream = copy
            written.mux(packet)
    with av.open(str(path)) as container:
        a, b, _, c, d = struct.unpack_from("=5i", next(container.decode(video=0)).side_data["DISPLAYMATRIX"])
    video = vl.Video(path, device="cpu")
    upright = vl.Video(sample("h264_mp4"), device="cpu")[0].numpy()
    rows, columns = np.indices(upright.shape[1:])
    x, y = (a * columns + c * rows) >> 16, (b * columns + d * rows) >> 16
    expected = np.empty((3, *video.index.stream.display_size), np.uint8)
    expected[:, y - y.min(), x - x.min()] = upright
    np.testing.assert_array_equal(video[0].numpy(), expected)


@pytest.mark.parametrize("container", ["nut", "asf", "mov"])
@pytest.mark.parametrize("orientation", [1, 2, 6])
def test_pngs_with_exif_data_are_read_whatever_the_container_is(tmp_path, container, orientation):
    tiff = b"MM\0*\0\0\0\x08\0\1\x01\x12\0\3\0\0\0\1" + struct.pack(">H", orientation) + bytes(6)
    exif = struct.pack(">I", len(tiff)) + b"eXIf" + tiff + struct.pack(">I", zlib.crc32(b"eXIf" + tiff))
    path = tmp_path / "pngs.video"
    with av.open(str(path), "w", format=container) as written:
        stream = written.add_stream("png", rate=25)
        stream.width, stream.height, stream.pix_fmt = 32, 16, "rgb24"
        noise = np.random.default_rng(0).integers(0, 256, (16, 32, 3), np.uint8)
        for packet in [*stream.encode(av.VideoFrame.from_ndarray(noise, "rgb24")), *stream.encode(None)]:
            data = bytes(packet)
            whole = av.Packet(data[:33] + exif + data[33:])
            whole.pts, whole.dts, whole.time_base, whole.stream = packet.pts, packet.dts, packet.time_base, stream
            whole.is_keyframe = True
            written.mux(whole)
    video = vl.Video(path, device="cpu")
    turned = {1: noise, 2: noise[:, ::-1], 6: np.rot90(noise, -1)}[orientation]
    np.testing.assert_array_equal(video[0].permute(1, 2, 0).numpy(), turned)


def test_other_angles_are_not_kept(sample):
    data = with_matrix(sample("h264_mp4").read_bytes(), 46341, 46341, -46341, 46341)
    assert build_index(data).stream.rotation == 0
