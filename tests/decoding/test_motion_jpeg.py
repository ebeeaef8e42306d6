"""Motion JPEG: fields, pictures of several sizes, and what libavcodec's decoder remembers of a picture."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from truth import full_decode

import videoloader as vl

CONTAINERS = ["avi", "mkv", "mov", "mp4", "nut"]
# Comments by which libavcodec turns pictures over, or takes them for pictures of limited range.
NOTES = [b"Intel(R) JPEG Library, version 1.5.4\0", b"Metasoft MJPEG Codec\0", b"CS=ITU601\0"]


def jpeg(top: int, bottom: int, size: tuple[int, int] = (64, 48), note: bytes = b"", behind: bytes = b"") -> bytes:
    """A JPEG picture of two grays.

    Args:
        top, bottom: grays of its halves.
        size: width and height.
        note: text of a comment before the samples.
        behind: text of a comment behind them.
    """
    encoder = av.CodecContext.create("mjpeg", "w")
    assert isinstance(encoder, av.VideoCodecContext)
    encoder.width, encoder.height = size
    encoder.pix_fmt, encoder.time_base = "yuvj420p", Fraction(1, 25)
    gray = np.repeat(np.array([top, bottom], np.uint8), size[1] // 2)
    rgb = np.repeat(np.repeat(gray[:, None, None], size[0], 1), 3, 2)
    frame = av.VideoFrame.from_ndarray(rgb, format="rgb24").reformat(format="yuvj420p")
    picture = b"".join(map(bytes, [*encoder.encode(frame), *encoder.encode(None)]))
    return picture[:2] + _comment(note) + picture[2:-2] + _comment(behind) + picture[-2:]


def _comment(text: bytes) -> bytes:
    return b"\xff\xfe" + (len(text) + 2).to_bytes(2, "big") + text if text else b""


def write(path: Path, packets: Sequence[bytes]) -> Path:
    """Write a video of 64×48 pixels."""
    with av.open(path, "w") as output:
        stream = output.add_stream("mjpeg", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuvj420p"
        for number, data in enumerate(packets):
            packet = av.Packet(data)
            packet.stream, packet.time_base, packet.pts, packet.dts = stream, Fraction(1, 25), number, number
            packet.is_keyframe = True
            output.mux(packet)
    return path


@pytest.mark.parametrize("container", CONTAINERS)
def test_two_fields_in_a_packet_are_one_picture(tmp_path: Path, container: str) -> None:
    fields = [jpeg(number, 250 - number, (64, 24)) for number in range(0, 120, 6)]
    path = write(tmp_path / f"fields.{container}", [b"".join(fields[at : at + 2]) for at in range(0, 20, 2)])
    assert vl.Video(path, device="cpu")[0].shape == (3, 48, 64)
    assert not torch.equal(*vl.Video(path, device="cpu")[0][:, [0, 1]].unbind(1))
    assert len(full_decode(path).hashes) == 10
    assert vl.verify(path, device="cpu").ok


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("sizes", [[(64, 48), (32, 24)], [(64, 48), (64, 24)], [(64, 48), (96, 80)]])
def test_pictures_of_several_sizes_are_no_fields(tmp_path: Path, container: str, sizes: list[tuple[int, int]]) -> None:
    path = write(tmp_path / f"sizes.{container}", [jpeg(200, 50, size) for size in sizes for _ in range(4)])
    assert vl.verify(path, device="cpu").ok


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("note", NOTES)
def test_a_note_in_all_pictures_is_heeded_as_libavcodec_does(tmp_path: Path, container: str, note: bytes) -> None:
    path = write(tmp_path / f"noted.{container}", [jpeg(200, number, note=note) for number in range(12)])
    assert vl.verify(path, device="cpu").ok


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("behind", [False, True])
def test_a_note_affects_no_other_picture(tmp_path: Path, container: str, note: bytes, behind: bool) -> None:
    """libavcodec's decoder keeps it over a flush, so that pixels would depend on what was read before."""
    noted, plain = jpeg(200, 50, **{"behind" if behind else "note": note}), jpeg(200, 50)
    path = write(tmp_path / f"mixed.{container}", [*[plain] * 4, *[noted] * 4, *[plain] * 4])
    (expected,) = vl.Video(write(tmp_path / f"plain.{container}", [plain]), device="cpu")[:]
    video = vl.Video(path, device="cpu")
    for number in (0, 5, 1, 9, 6, 0, 11):
        frame = video[number]
        if not 4 <= number < 8:
            assert torch.equal(frame, expected)
    assert torch.equal(video[:], torch.stack([vl.Video(path, device="cpu")[number] for number in range(12)]))
    assert torch.equal(torch.stack(list(video)), video[:])


@pytest.mark.parametrize("note", NOTES)
@pytest.mark.parametrize("behind", [False, True])
def test_a_note_in_an_image_file_affects_no_other_file(tmp_path: Path, note: bytes, behind: bool) -> None:
    (tmp_path / "0.jpg").write_bytes(jpeg(200, 50))
    (tmp_path / "1.jpg").write_bytes(jpeg(200, 50, **{"behind" if behind else "note": note}))
    (tmp_path / "2.jpg").write_bytes(jpeg(200, 50))
    plain = vl.Video(tmp_path / "0.jpg", device="cpu")[0]
    for name in "0120":
        frame = vl.Video(tmp_path / f"{name}.jpg", device="cpu")[0]
        assert name == "1" or torch.equal(frame, plain)
    first, _, last = vl.Video(tmp_path, device="cpu", fps=1)[:]
    assert torch.equal(first, plain)
    assert torch.equal(last, plain)
