"""Damaged image files give an error of ours that names the file, in little time, and never another picture."""

from __future__ import annotations

import os
from dataclasses import replace

import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from image_files import encoded, picture, rgb, write_frames

from videoloader import IndexingError, SourceError, UnsupportedError, Video, VideoLoaderError
from videoloader.indexing import FolderSource, MemorySource, build_index

NAME = "picture"
IMAGE = picture()
FILES = {
    "jpeg": encoded(IMAGE, "JPEG"),
    "progressive jpeg": encoded(IMAGE, "JPEG", progressive=True),
    "jpeg with exif": encoded(IMAGE, "JPEG", exif=b"Exif\0\0II*\0\x08\0\0\0\1\0\x12\1\3\0\1\0\0\0\6\0\0\0\0\0\0\0"),
    "png": encoded(IMAGE, "PNG"),
    "webp": encoded(IMAGE, "WEBP"),
    "lossless webp": encoded(IMAGE, "WEBP", lossless=True),
    "bmp": encoded(IMAGE, "BMP"),
    "tiff": encoded(IMAGE, "TIFF"),
    "lzw tiff": encoded(IMAGE, "TIFF", compression="tiff_lzw"),
    "ppm": encoded(IMAGE, "PPM"),
}


def read(file: bytes) -> np.ndarray | None:
    """The picture, or None where there is an error as it should be."""
    try:
        return Video(MemorySource(file, NAME), device="cpu")[0].numpy()
    except VideoLoaderError as error:
        assert error.source == NAME  # noqa: PT017 - it may as well go well
        return None


@pytest.mark.parametrize("brand", [b"avif", b"heic", b"mif1"])
def test_avif_and_heif_are_named_in_the_error(brand: bytes) -> None:
    file = b"\0\0\0\x10ftyp" + brand + b"\0\0\0\0" + b"\0\0\0\x0cmeta\0\0\0\0"
    with pytest.raises(UnsupportedError, match="picture: is an AVIF or HEIF image, which is not supported"):
        build_index(MemorySource(file, NAME))


@settings(max_examples=examples(300))
@given(st.sampled_from(sorted(FILES)), st.floats(0, 1, exclude_max=True))
def test_a_file_cut_off_anywhere_is_an_error_or_whole(name, part):
    file = FILES[name]
    frame = read(file[: max(int(part * len(file)), 1)])
    # Of some formats the last bytes are padding.
    assert frame is None or np.array_equal(frame, read(file))


@pytest.mark.timeout(120)
@settings(max_examples=examples(300))
@given(
    st.sampled_from(sorted(FILES)),
    st.lists(st.tuples(st.integers(0, 400), st.sampled_from([0, 1, 0x7F, 0x80, 0xFE, 0xFF])), min_size=1, max_size=4),
)
def test_a_damaged_header_is_an_error_or_a_picture(name, changes):
    file = bytearray(FILES[name])
    for position, value in changes:
        file[position % len(file)] = value
    read(bytes(file))


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    "file",
    [
        b"\xff\xd8" + b"\xff" * (8 << 20),
        b"\xff\xd8\xff" + b"\xe0\0\2\xff" * (1 << 20),
        b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\1\0\0\0\1\x08\2\0\0\0\0\0\0\0" + b"\0\0\0\0tEXt\0\0\0\0" * (1 << 18),
    ],
    ids=["fill bytes", "empty segments", "empty chunks"],
)
def test_a_header_without_end_is_given_up(file):
    with pytest.raises(IndexingError, match=f"{NAME}: is a (JPEG|PNG) file without"):
        build_index(MemorySource(file, NAME))


def test_a_picture_larger_than_memory_is_refused():
    file = bytearray(FILES["png"])
    file[16:24] = b"\x7f\xff\xff\xff" * 2
    with pytest.raises(UnsupportedError, match="pixels"):
        build_index(bytes(file))


@pytest.fixture
def folder(tmp_path):
    return write_frames(tmp_path / "clip", ["im1.png", "im2.png", "im3.png"])


def test_an_empty_file(folder):
    (folder / "im2.png").write_bytes(b"")
    with pytest.raises(IndexingError, match=r"im2\.png: is empty"):
        build_index(folder)


def test_a_file_that_is_no_image(folder):
    (folder / "im2.png").write_text("404 not found")
    with pytest.raises(IndexingError, match=r"im2\.png: is not an image"):
        build_index(folder)


def test_a_file_of_another_size(folder):
    picture(1, (40, 32)).save(folder / "im2.png")
    with pytest.raises(IndexingError, match=r"im2\.png: has 40×32 pixels, but im1\.png has 48×32"):
        build_index(folder)


def test_a_file_of_another_format(folder):
    picture(1).save(folder / "im2.png", "JPEG")
    with pytest.raises(IndexingError, match=r"im2\.png: is mjpeg, but im1\.png is png"):
        build_index(folder)


def test_a_file_of_another_orientation(folder):
    exif = picture().getexif()
    exif[0x0112] = 3
    picture(1).save(folder / "im2.png", exif=exif)
    with pytest.raises(IndexingError, match=r"im2\.png: has orientation 3, but im1\.png has 1"):
        build_index(folder)


def test_an_animation_among_pictures(folder):
    picture(1).save(folder / "im2.png", save_all=True, append_images=[picture(2)])
    with pytest.raises(UnsupportedError, match=r"im2\.png: is an animation"):
        build_index(folder)


@pytest.mark.parametrize("ending", ["png", "jpg"])
def test_a_cut_off_file_is_named_when_its_frame_is_wanted_and_others_can_be_read(tmp_path, ending):
    folder = write_frames(tmp_path / "clip", [f"im{number}.{ending}" for number in range(3)])
    (folder / f"im1.{ending}").write_bytes((folder / f"im1.{ending}").read_bytes()[:-400])
    video = Video(folder, device="cpu")
    for frame in (0, 2):
        assert np.abs(video[frame].numpy().astype(int) - rgb(folder / f"im{frame}.{ending}")).max() <= 6
    with pytest.raises(VideoLoaderError, match=rf"clip/im1\.{ending}: packet 1"):
        video[1]


def test_a_file_that_is_gone(folder):
    video = Video(folder, device="cpu")
    (folder / "im2.png").unlink()
    assert np.array_equal(video[0].numpy(), rgb(folder / "im1.png"))
    with pytest.raises(SourceError, match=r"im2\.png: cannot be read"):
        video[1]


def test_a_file_that_has_changed(folder):
    video = Video(folder, device="cpu")
    picture(7, (480, 320)).save(folder / "im2.png")
    with pytest.raises(SourceError, match=r"im2\.png: has changed"):
        video[:]


def test_a_folder_with_other_files_than_its_index_says(folder):
    index = replace(build_index(folder), state=None)
    picture(0).save(folder / "im0.png")
    with pytest.raises(SourceError, match="clip: has changed: it holds 4 image files"):
        Video(folder, index=index, device="cpu")[1]
    (folder / "im1.png").unlink()
    picture(5).save(folder / "im2.png", compress_level=0)
    with pytest.raises(SourceError, match="clip: has changed"):
        Video(FolderSource(folder), index=index, device="cpu")[2]


def test_an_index_knows_the_files_of_its_folder(folder):
    index = build_index(folder)
    assert Video(FolderSource(folder, fps=7), index=index, device="cpu")[1].shape[0] == 3
    file, before = folder / "im1.png", (folder / "im1.png").stat()
    content = bytearray(file.read_bytes())
    content[-20] ^= 1  # of the same size
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    with pytest.raises(SourceError, match="clip: has changed since it was indexed or opened: other files"):
        Video(folder, index=index, device="cpu")


@pytest.mark.parametrize("frames", [[0], [1], [0, 1], [1, 2], [0, 1, 2]])
def test_files_of_a_folder_that_exchange_their_contents_are_seen(folder, frames):
    index = replace(build_index(folder), state=None)
    first, second = ((folder / f"im{number}.png") for number in (1, 2))
    contents = first.read_bytes(), second.read_bytes()
    assert len(contents[0]) != len(contents[1])
    first.write_bytes(contents[1])
    second.write_bytes(contents[0])
    with pytest.raises(SourceError, match=r"clip: has changed: its files up to .*im\d\.png have \d+ bytes"):
        Video(FolderSource(folder), index=index, device="cpu")[frames]
