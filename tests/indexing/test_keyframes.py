"""Keyframes of codecs whose headers do not tell: libavcodec is asked, or each is tried, when a file is indexed."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from image_files import encoded, picture
from remuxing import marked, remux, rewritten
from sample_videos import Recipe, write_video
from truth import full_decode, hash_of

from videoloader import Video
from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.damage import decode_run
from videoloader.errors import UnsupportedError
from videoloader.indexing import FileSource, VideoIndex, build_index
from videoloader.indexing.keyframes import with_sure_keyframes
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

# Segments of JPEG pictures: all of a kind, and those for the colours (ITU-T T.81, B.2.4).
HUFFMAN, QUANTIZATION, COLOR_QUANTIZATION, COLOR_CODES = (
    b"\xff\xc4", b"\xff\xdb", b"\xff\xdb\0\x43\x01", b"\xff\xc4\0\x1f\x01",
)  # fmt: skip
EVERY_PACKET = marked(lambda number: True)
PICTURES_OF_TILES = Recipe("mov", "rpza", {"g": "8"}, pix_fmt="rgb555le", size=(64, 48), frames=24)
# Containers of codecs whose headers are not read here, and how they are encoded.
SCREENS = {
    "rpza": PICTURES_OF_TILES,
    "qtrle": replace(PICTURES_OF_TILES, encoder="qtrle", pix_fmt="rgb24"),
    "cinepak": replace(PICTURES_OF_TILES, suffix="avi", encoder="cinepak", pix_fmt="rgb24"),
    "msvideo1": replace(PICTURES_OF_TILES, suffix="avi", encoder="msvideo1"),
    "flashsv": replace(PICTURES_OF_TILES, suffix="flv", encoder="flashsv", pix_fmt="bgr24"),
    "h261": Recipe("avi", "h261", {"g": "8"}, size=(176, 144), frames=24),
}


def tiles(number: int, width: int, height: int) -> np.ndarray:
    """Small tiles that move over a picture that stays as it is, so that most packets hold a part of it only."""
    colours = np.random.default_rng(0).integers(0, 4, (height // 8, width // 8, 3)) * 85
    picture = np.kron(colours, np.ones((8, 8, 1))).astype(np.uint8)
    at = 8 * (number % (width // 8))
    picture[8:16, at : at + 8] = 255
    return picture


def write(path: Path, recipe: Recipe) -> Path:
    return write_video(path.with_suffix(f".{recipe.suffix}"), recipe, tiles)


def assert_every_frame_comes_out_alone(path: Path, index: VideoIndex) -> None:
    truth, source, decoder = full_decode(path), FileSource(path), CpuDecoder()
    assert not truth.error
    assert len(index) == len(truth.hashes)
    found: dict[int, bytes] = {}

    def take(packet: int, frame: av.VideoFrame) -> None:
        found[packet] = hash_of(frame)

    for number in np.random.default_rng(1).permutation(len(index)).tolist():
        found.clear()
        (run,) = plan_frames(index, [number]).runs
        decode_run(decoder, index, run, partial(read_packets, source, index), take)
        assert found[int(index.frame_packet[number])] == truth.hashes[number], number


@pytest.mark.parametrize("codec", SCREENS)
@pytest.mark.parametrize("claims", ["true", "all", "some", "none"])
def test_decoding_starts_only_where_it_gives_the_same_pictures(tmp_path, codec, claims):
    path = write(tmp_path / "true", SCREENS[codec])
    true = build_index(path)
    if claims != "true":
        is_key = {"all": lambda _: True, "some": lambda number: number % 3 == 0, "none": lambda number: not number}
        path = remux(path, path.with_stem("lying"), marked(is_key[claims]))
    index = build_index(path)
    assert index.keys_from == "decoder"
    assert index.packet_key[0]
    if claims == "all":
        assert set(np.flatnonzero(true.packet_key)) <= set(np.flatnonzero(index.packet_key))
    if claims != "none" and codec not in ("h261", "flashsv"):  # whose encoders draw all
        assert index.packet_key.sum() < len(index.packet_key)
    assert_every_frame_comes_out_alone(path, index)


def test_a_picture_that_repeats_by_chance_does_not_become_a_keyframe(tmp_path):
    """A decoder begins with black, so packets that change nothing of a black picture look like keyframes."""

    def from_black(number: int, width: int, height: int) -> np.ndarray:
        return tiles(number, width, height) * (number >= 6)

    path = write_video(tmp_path / "black.mov", PICTURES_OF_TILES, from_black)
    path = remux(path, tmp_path / "lying.mov", EVERY_PACKET)
    assert_every_frame_comes_out_alone(path, build_index(path))


def test_a_codec_that_is_decoded_by_the_marks_is_refused_where_they_lie(tmp_path):
    recipe = replace(PICTURES_OF_TILES, suffix="flv", encoder="flashsv2", pix_fmt="bgr24")
    path = write(tmp_path / "true", recipe)
    assert_every_frame_comes_out_alone(path, build_index(path))
    with pytest.raises(UnsupportedError, match="marks packets as keyframes that are not"):
        build_index(remux(path, tmp_path / "lying.flv", EVERY_PACKET))


def test_intra_only_codecs_have_nothing_but_keyframes(tmp_path):
    path = write(tmp_path / "true", Recipe("avi", "huffyuv", pix_fmt="yuv422p", size=(64, 48), frames=6))
    index = build_index(remux(path, tmp_path / "lying.avi", marked(lambda number: not number)))
    assert index.keys_from == "headers"
    assert index.packet_key.all()


@pytest.mark.parametrize(("suffix", "swapped"), [("avi", ()), ("mov", ()), ("mov", (21, 22))])
def test_png_pictures_are_differences_unless_the_container_marks_them(tmp_path, suffix, swapped):
    """That is what libavcodec makes of them, whatever their encoder meant, and whatever times they have."""
    path = write(tmp_path / "true", Recipe(suffix, "png", pix_fmt="rgb24", size=(64, 48), frames=24))

    def change(number: int, packet: av.packet.Packet) -> av.packet.Packet:
        packet.is_keyframe = number % 4 == 0
        packet.pts = packet.dts + packet.duration * (1 + dict(zip(swapped, (1, -1), strict=False)).get(number, 0))
        return packet

    lying = remux(path, tmp_path / f"lying.{suffix}", change)
    index = build_index(lying)
    assert np.flatnonzero(index.packet_key).tolist() == [0, 4, 8, 12, 16, 20]
    assert_every_frame_comes_out_alone(lying, index)


def without(data: bytes, *starts: bytes) -> bytes:
    """A JPEG picture less its segments that begin so."""
    for start in starts:
        while (at := data.find(start)) >= 0:
            data = data[:at] + data[at + 2 + int.from_bytes(data[at + 2 : at + 4], "big") :]
    return data


@pytest.mark.parametrize("suffix", ["avi", "mkv", "mov"])
@pytest.mark.parametrize("with_tables", [(), (0,), (0, 5), (5,), (11,)])
def test_jpeg_pictures_without_tables_take_those_of_earlier_ones(tmp_path, suffix, with_tables):
    """What stands in no packet are the tables of the standard, which every decoder knows."""
    recipe = Recipe(suffix, "mjpeg", {"huffman": "default"}, pix_fmt="yuvj420p", size=(64, 48), frames=12)
    path = write(tmp_path / "whole", recipe)
    stripped = remux(
        path,
        tmp_path / f"stripped.{suffix}",
        rewritten(lambda number, data: data if number in with_tables else without(data, HUFFMAN)),
    )
    index = build_index(stripped)
    first = min(with_tables, default=12)
    assert index.keys_from == "headers"
    assert np.flatnonzero(index.packet_key).tolist() == [*range(first), *(set(with_tables) & set(range(first, 12)))]
    assert_every_frame_comes_out_alone(stripped, index)


@pytest.mark.parametrize("all_lack", [(), (HUFFMAN,)])
@pytest.mark.parametrize("some_lack", [(QUANTIZATION,), (COLOR_QUANTIZATION,), (COLOR_CODES,), (HUFFMAN, QUANTIZATION)])
def test_jpeg_pictures_with_some_tables_take_the_others_of_earlier_ones(tmp_path, all_lack, some_lack):
    path = write(tmp_path / "whole", Recipe("avi", "mjpeg", pix_fmt="yuvj420p", size=(64, 48), frames=12))

    def jpeg(number: int, data: bytes) -> bytes:
        lacks = all_lack + some_lack if number in (3, 4, 9) else all_lack
        # Those that bring all have codes of their own, the others those of the standard.
        own = lacks == ()
        return without(encoded(picture(number, (64, 48)), "JPEG", quality=30 + 5 * number, optimize=own), *lacks)

    lying = remux(path, tmp_path / "lying.avi", rewritten(jpeg))
    index, truth = build_index(lying), full_decode(lying)
    for number in (3, 4, 9):
        if index.keys_from == "container":  # the others are looked at when they are read
            index = index.without_keyframe(number)
    assert np.flatnonzero(~index.packet_key).tolist() in ([3, 4, 9], [])
    assert len(truth.hashes) == 12
    assert_every_frame_comes_out_alone(lying, index)
    video, whole = Video(lying, device="cpu"), Video(lying, device="cpu")[:]
    for number in (9, 0, 4, 8, 3):
        assert torch.equal(video[number], whole[number])
        assert torch.equal(Video(lying, device="cpu")[number], whole[number])


@pytest.mark.parametrize("section", [0x1F, 0xE3])
@pytest.mark.parametrize("suffix", ["dv", "avi", "mov", "mxf"])
def test_a_dv_frame_with_a_damaged_header_is_decoded_after_the_frame_before(tmp_path, suffix, section):
    path = write(tmp_path / "dv", Recipe(suffix, "dvvideo", size=(720, 576), frames=8))
    index, data = build_index(path), bytearray(path.read_bytes())
    assert index.byte_ranges
    for packet in (4, 5):  # the section type and the format of the signal (IEC 61834-2)
        at = int(index.packet_offset[packet])
        data[at], data[at + 3], data[at + 451] = section, data[at + 3] ^ 0x80, 0xFF
    path.write_bytes(data)
    truth = full_decode(path)
    assert not truth.error
    video = Video(path, device="cpu")
    shown = video[:]
    for number in (5, 4, 7, 0):
        assert torch.equal(Video(path, device="cpu")[number], shown[number])
    assert_every_frame_comes_out_alone(path, video.index)


def test_keyframes_that_are_known_are_not_asked_for_again(tmp_path):
    path = write(tmp_path / "true", SCREENS["qtrle"])
    index = build_index(path)
    (tmp_path / "empty").touch()
    assert with_sure_keyframes(index, FileSource(tmp_path / "empty")) is index
