"""What the metadata of a picture may cost: files that would keep libavcodec busy are refused."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import av
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from image_files import grey_pixel

import videoloader as vl
from videoloader.errors import UnsupportedError
from videoloader.indexing.images.metadata import check_metadata


def exif(entries: int, levels: int, order: str = "<") -> bytes:
    """Exif data in which each entry of a directory points to the one directory of the next level."""
    size = 2 + 12 * entries + 4
    directories = [
        struct.pack(f"{order}H", entries)
        + struct.pack(f"{order}HHII", 0x8769, 4, 1, 8 + size * level) * entries
        + bytes(4)
        for level in range(1, levels)
    ]
    last = struct.pack(f"{order}H", entries) + struct.pack(f"{order}HHII", 0x100, 4, 1, 7) * entries + bytes(4)
    return {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(f"{order}I", 8) + b"".join([*directories, last])


def jpeg(data: bytes) -> bytes:
    """A JPEG file of 16×16 pixels with Exif data."""
    encoder = av.CodecContext.create("mjpeg", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width = encoder.height = 16
    encoder.pix_fmt, encoder.time_base = "yuvj420p", Fraction(1, 25)
    picture = b"".join(map(bytes, [*encoder.encode(av.VideoFrame(16, 16, "yuvj420p")), *encoder.encode(None)]))
    segment = b"Exif\0\0" + data
    return picture[:2] + b"\xff\xe1" + struct.pack(">H", len(segment) + 2) + segment + picture[2:]


def segment(kind: int, data: bytes) -> bytes:
    return bytes([0xFF, kind]) + struct.pack(">H", len(data) + 2) + data


def progressive(width: int, height: int, frames: int, scans: int) -> bytes:
    """A progressive JPEG file of grey pixels, which repeats its frame header and its scan."""
    frame = segment(0xC2, struct.pack(">BHHB", 8, height, width, 1) + b"\1\x11\0")
    tables = segment(0xDB, b"\0" + b"\1" * 64) + segment(0xC4, b"\0" + bytes([1] + [0] * 15) + b"\0")
    scan = segment(0xDA, b"\1\1\0" + bytes(3)) + bytes(64)
    return b"\xff\xd8" + tables + frames * frame + scans * scan + b"\xff\xd9"


@pytest.mark.parametrize(
    ("width", "height", "most"),
    [(16, 16, 1000), (16384, 1024, 1000), (16384, 4096, 256), pytest.param(16384, 8192, 128, id="the largest allowed")],
)
def test_a_jpeg_file_of_many_scans_for_its_size_is_refused(width: int, height: int, most: int) -> None:
    """An empty scan of 35 bytes takes libavcodec as long as the picture is large."""
    check_metadata("mjpeg", progressive(width, height, 1, most), "a.jpg")
    with pytest.raises(UnsupportedError, match=rf"a\.jpg: has a JPEG picture of more than {most} scans"):
        check_metadata("mjpeg", progressive(width, height, 1, most + 1), "a.jpg")


def test_a_jpeg_file_of_many_large_frame_headers_is_refused(tmp_path: Path) -> None:
    """For each header of 13 bytes libavcodec clears memory for all pixels."""
    path = tmp_path / "frames.jpg"
    path.write_bytes(progressive(16384, 8192, 60, 1))
    with pytest.raises(UnsupportedError, match=r"frames\.jpg: has a JPEG picture of 60 frame headers"):
        vl.Video(path, device="cpu")[0]
    path.write_bytes(progressive(16, 16, 60, 1))
    assert vl.Video(path, device="cpu")[0].shape == (3, 16, 16)


def test_thumbnails_of_a_progressive_jpeg_file_are_no_reason_to_refuse_it() -> None:
    check_metadata("mjpeg", progressive(8000, 8000, 1, 12) + 20 * progressive(320, 240, 1, 12), "a.jpg")


@pytest.mark.parametrize("codec", ["png", "tiff"])
def test_entries_that_share_a_large_value_are_refused(codec: str) -> None:
    """libavcodec unpacks the value of each, and makes a text of it."""

    def shared(entries: int) -> bytes:
        table = b"".join(struct.pack("<HHII", 40000 + number, 7, 1 << 20, 8) for number in range(entries))
        return b"II*\0" + struct.pack("<I", 8 + (1 << 20)) + bytes(1 << 20) + struct.pack("<H", entries) + table

    check_metadata(codec, shared(64), "a")
    with pytest.raises(UnsupportedError, match="a: has Exif data or tags whose values take more than 64 MiB"):
        check_metadata(codec, shared(65), "a")


@pytest.mark.parametrize("chunk", [b"\0\0\0\0noneCRCC", b"\0\0\0\2iCCPa\0CRCC"])
def test_a_png_file_of_many_chunks_without_pixels_is_refused(chunk: bytes) -> None:
    picture = b"\x89PNG\r\n\x1a\n" + 100_000 * b"\0\0\0\0IDATCRCC"
    check_metadata("png", picture + 65_536 * chunk, "a.png")
    with pytest.raises(UnsupportedError, match=r"a\.png: has more than 65536 chunks beside those of its pixels"):
        check_metadata("png", picture + 65_537 * chunk, "a.png")


class TestExif:
    """libavcodec reads what is pointed to twice twice, and all of a directory's directories, too."""

    @pytest.mark.parametrize("order", ["<", ">"])
    @pytest.mark.parametrize(("entries", "levels"), [(60, 4), (9, 3), (2000, 2)])
    def test_directories_that_fan_out_are_refused(self, entries: int, levels: int, order: str) -> None:
        for file in (jpeg(exif(entries, levels, order)), grey_pixel((b"eXIf", exif(entries, levels, order)))):
            with pytest.raises(UnsupportedError, match="Exif data of more than 64 directories or 16384 entries"):
                vl.Video(file)[0]

    @pytest.mark.parametrize(("entries", "levels"), [(1, 4), (3, 4), (7, 3), (2000, 1)])
    def test_others_are_not(self, entries: int, levels: int) -> None:
        for file in (jpeg(exif(entries, levels)), grey_pixel((b"eXIf", exif(entries, levels)))):
            assert len(vl.Video(file)[0]) == 3

    @pytest.mark.parametrize("container", ["mkv", "avi", "mp4"])
    def test_pictures_of_videos_are_checked_too(self, tmp_path: Path, container: str) -> None:
        path = tmp_path / f"x.{container}"
        with av.open(str(path), "w") as target:
            stream = target.add_stream("mjpeg", rate=25)
            assert isinstance(stream, av.VideoStream)
            stream.width, stream.height, stream.pix_fmt = 16, 16, "yuvj420p"
            for number in range(3):
                packet = av.Packet(jpeg(exif(60 if number == 1 else 1, 4)))
                packet.pts = packet.dts = number
                packet.time_base, packet.stream, packet.is_keyframe = Fraction(1, 25), stream, True
                target.mux(packet)
        with pytest.raises(UnsupportedError, match="Exif data of more than 64 directories"):
            vl.Video(path, device="cpu")[:]

    @given(st.binary(max_size=300), st.sampled_from([b"II*\0", b"MM\0*"]))
    @settings(max_examples=examples(100))
    def test_any_bytes_are_read_or_refused(self, data: bytes, order: bytes) -> None:
        check_metadata("mjpeg", order + data, "x.jpg")
        check_metadata("webp", memoryview(data + order), "x.webp")
