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


def test_a_jpeg_file_of_thousands_of_scans_is_refused(tmp_path: Path) -> None:
    """An empty scan of 35 bytes takes libavcodec as long as the picture is large."""
    path, picture = tmp_path / "scans.jpg", jpeg(b"")
    path.write_bytes(picture)
    assert vl.Video(path, device="cpu")[0].shape == (3, 16, 16)
    path.write_bytes(picture[:-2] + 1000 * b"\xff\xda\0\x02" + picture[-2:])
    with pytest.raises(UnsupportedError, match=r"scans\.jpg: has a JPEG picture of more than 1000 scans"):
        vl.Video(path, device="cpu")[0]


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
