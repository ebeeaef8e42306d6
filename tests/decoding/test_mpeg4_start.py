"""Interlaced MPEG-4 with B pictures, whose first one decides on how libavcodec predicts the others."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from mp4_writing import TRACK, box, replace_box, table
from sample_videos import Recipe, write_video

import videoloader as vl
from videoloader.indexing.bitstream.mpeg4_headers import Layer, read_vop

# mp4, mkv and avi have one copy of the headers, a transport stream has one before each keyframe.
SUFFIXES = ("mp4", "mkv", "avi", "ts")
FRAMES = 48


def waves(number: int, width: int, height: int) -> np.ndarray:
    """A picture of moving waves and noise, in which encoders use every kind of prediction."""
    y, x = np.mgrid[:height, :width]
    grey = 128 + 70 * np.sin((x * 1.3 + number) / 11) * np.sin((y - 2 * number) / 8)
    noise = np.random.default_rng(number // 17).integers(0, 16, (height, width))
    picture = np.repeat((grey + noise).clip(0, 255).astype(np.uint8)[..., None], 3, axis=2)
    top, left = 5 * number % (height - 21), 7 * number % (width - 21)
    picture[top : top + 21, left : left + 21] = 37 * number % 256
    return picture


@pytest.fixture(scope="module")
def video(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    folder = tmp_path_factory.mktemp("interlaced")
    options = {"bf": "2", "g": "9", "b": "1M"}
    for suffix in SUFFIXES:
        recipe = Recipe(suffix, "mpeg4", options | {"flags": "+ildct+ilme"}, size=(96, 64), frames=FRAMES)
        write_video(folder / f"fields.{suffix}", recipe, waves)
    write_video(folder / "plain.mp4", Recipe("mp4", "mpeg4", options, size=(96, 64), frames=FRAMES), waves)
    return lambda name: folder / name


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_each_frame_alone_is_that_of_a_decode_from_the_start(video: Callable[[str], Path], suffix: str) -> None:
    path = video(f"fields.{suffix}")
    expected = list(vl.Video(path, device="cpu").stream())
    assert len(expected) == FRAMES
    assert vl.verify(path, device="cpu").ok
    read = vl.Video(path, device="cpu")
    for number in np.random.default_rng(1).permutation(FRAMES).tolist():
        clip = vl.Video(path, device="cpu").read([number])
        assert not clip.corrupt.any()
        assert torch.equal(clip.frames[0], expected[number]), number
        assert torch.equal(read.read([number]).frames[0], expected[number]), number
    for first in range(7, FRAMES - 3, 7):  # runs begin before and after keyframes
        clip = read.read([first, first + 3])
        assert torch.equal(clip.frames, torch.stack([expected[first], expected[first + 3]]))


def _written(
    suffix: str,
    seed: int,
    *,
    size: tuple[int, int] = (64, 48),
    frames: int = 25,
    rate: int = 10,
    start: int = 0,
    gop: int = 6,
    interlaced: bool = True,
    uneven: bool = False,
) -> bytes:
    """Pictures in which encoders predict both fields of B pictures, at even or uneven times."""
    rng, out, (width, height) = random.Random(seed), io.BytesIO(), size
    noise = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    options = {"g": str(gop)} | ({"bf": "2", "flags": "+ildct+ilme"} if interlaced else {})
    with av.open(out, "w", format=suffix) as container:
        stream = container.add_stream("mpeg4", rate=rate, options=options)
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.bit_rate = [200_000, 800_000][seed % 2]
        time = start
        for number in range(frames):
            picture = np.roll(noise, (2 * number, 3 * number), (0, 1)) // 4 + 96
            picture[:, : width // 2] = np.linspace(0, 200, width // 2, dtype=np.uint8)[None, :, None]
            for bit in range(8):
                picture[bit // 4 * 16 :][:16, bit % 4 * 16 :][:, :16] = 235 if number >> bit & 1 else 20
            frame = av.VideoFrame.from_ndarray(picture, "rgb24").reformat(format="yuv420p")
            frame.pts, frame.time_base = time, Fraction(1, rate)
            time += rng.choice([1, 1, 1, 2, 3, 9]) if uneven else 1
            container.mux(stream.encode(frame))
        container.mux(stream.encode())
    return out.getvalue()


def _wrong_frames(data: bytes) -> list[int]:
    """The frames that a decoder that begins anew gives otherwise than one that begins at the start."""
    expected = list(vl.Video(data, device="cpu").stream())
    return [each for each, frame in enumerate(expected) if not torch.equal(vl.Video(data, device="cpu")[each], frame)]


@pytest.mark.parametrize("suffix", ["mpegts", "m4v", "avi", "matroska", "mp4"])
@pytest.mark.parametrize("seed", [0, 79, 5039, 5042])
def test_frames_at_uneven_times(suffix: str, seed: int) -> None:
    """Behind repeated headers the first B picture decides, and it may refer to a picture before the keyframe."""
    data = _written(suffix, seed, uneven=True)
    assert not _wrong_frames(data)
    with av.open(io.BytesIO(data)) as container:
        assert len(vl.Video(data, device="cpu")) == sum(1 for _ in container.decode(video=0))


@pytest.mark.parametrize("seed", [0, 2, 8])
def test_interlaced_pictures_behind_others(seed: int) -> None:
    first = _written("m4v", seed, size=(80, 80), frames=1, rate=30, start=5, interlaced=False)
    assert not _wrong_frames(first + _written("m4v", seed, size=(112, 64), rate=25, start=100))


@pytest.mark.parametrize("suffix", ["mp4", "matroska"])
@pytest.mark.parametrize("b_pictures", [0, 1])
def test_a_picture_that_is_not_coded_before_a_keyframe_repeats_nothing(suffix: str, b_pictures: int) -> None:
    """libavcodec repeats the picture before it at the end of a stream, and so at the end of a run."""
    out, size = io.BytesIO(), (64, 48)
    with av.open(out, "w", format=suffix) as container:
        stream = container.add_stream("mpeg4", rate=25, options={"g": "8", "bf": str(b_pictures)})
        stream.width, stream.height, stream.pix_fmt = *size, "yuv420p"
        packets = []
        for number in range(24):
            picture = av.VideoFrame.from_ndarray(waves(number, *size), "rgb24").reformat(format="yuv420p")
            picture.pts, picture.time_base = number, Fraction(1, 25)
            packets += stream.encode(picture)
        packets += stream.encode()
        keys = [number for number, packet in enumerate(packets) if packet.is_keyframe]
        for number, packet in enumerate(packets):
            content = bytearray(packet)
            if number == keys[1] - 1 - b_pictures:
                assert content[4] >> 6 == 1, "it refers to pictures before it"
                content[5] &= ~(128 >> 2)  # 25 units a second take five bits, between markers
                assert not read_vop(bytes(content), 0, Layer(*size, Fraction(1), True, 25, 5, False), None).coded
            changed = av.Packet(bytes(content))
            changed.pts, changed.dts, changed.time_base = packet.pts, packet.dts, packet.time_base
            changed.is_keyframe, changed.stream = packet.is_keyframe, stream
            container.mux(changed)
    data = out.getvalue()
    with av.open(io.BytesIO(data)) as container:
        shown = {frame.pts: frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)}
    video, lost = vl.Video(data, device="cpu"), []
    for number, pts in enumerate(video.index.frame_pts.tolist()):
        if pts in shown:
            assert np.abs(video[number].permute(1, 2, 0).numpy() - shown[pts].astype(int)).mean() < 2, number
        else:
            lost.append(number)
            with pytest.raises(vl.DecodeError, match="the decoder returned no picture"):
                video[number]
    assert len(video) - len(lost) == len(shown) == 23


def test_only_interlaced_streams_need_all_b_pictures(video: Callable[[str], Path]) -> None:
    indexes = {suffix: vl.build_index(video(f"fields.{suffix}")) for suffix in SUFFIXES}
    assert {suffix: index.stream.first_b_distance for suffix, index in indexes.items()} == dict.fromkeys(SUFFIXES, 1)
    assert vl.build_index(video("plain.mp4")).stream.first_b_distance == 0


def test_an_edit_list_that_goes_back_to_the_keyframe() -> None:
    """Pictures that it shows before the keyframe are none that the keyframe's decoder cannot decode."""
    data = _written("mov", 0, frames=50, rate=25, gop=60)
    rows = [(400, 1 << 14, 1 << 16), (400, 0, 1 << 16)]
    data = replace_box(data, (*TRACK, b"edts"), box(b"edts", table(b"elst", "IiI", rows)))
    with av.open(io.BytesIO(data)) as container:
        assert len(vl.Video(data, device="cpu")) == sum(1 for _ in container.decode(video=0))
    assert not _wrong_frames(data)
