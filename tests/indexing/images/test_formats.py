"""Every kind of image file comes out as Pillow reads it."""

from __future__ import annotations

import io
import random

import numpy as np
import pytest
from image_files import encoded, picture, rgb, without
from PIL import Image, ImageOps
from truth import hash_of

from videoloader import UnsupportedError, Video
from videoloader.convert.spec import color_spec
from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import build_index, open_source
from videoloader.indexing.bitstream.jpeg import HUFFMAN, QUANTIZATION
from videoloader.indexing.images.self_contained import is_self_contained
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

IMAGE = picture()
WITH_ALPHA = IMAGE.convert("RGBA")
WITH_ALPHA.putalpha(picture(1).convert("L"))
ODD = picture(2, (37, 23))

EXACT = {
    **{f"png {mode}": encoded(IMAGE.convert(mode), "PNG") for mode in ("1", "L", "LA", "P", "RGB")},
    "png RGBA": encoded(WITH_ALPHA, "PNG"),
    "png LA": encoded(WITH_ALPHA.convert("LA"), "PNG"),
    "png P with a transparent colour": encoded(IMAGE.convert("P"), "PNG", transparency=3),
    "png of odd size": encoded(ODD, "PNG"),
    **{f"bmp {mode}": encoded(IMAGE.convert(mode), "BMP") for mode in ("1", "L", "P", "RGB")},
    "bmp RGBA": encoded(WITH_ALPHA, "BMP"),
    **{f"tiff {mode}": encoded(IMAGE.convert(mode), "TIFF") for mode in ("1", "L", "P", "RGB")},
    "tiff RGBA": encoded(WITH_ALPHA, "TIFF"),
    "tiff LA": encoded(WITH_ALPHA.convert("LA"), "TIFF"),
    "tiff packbits": encoded(IMAGE, "TIFF", compression="packbits"),
    "tiff lzw": encoded(IMAGE, "TIFF", compression="tiff_lzw"),
    "tiff deflate": encoded(IMAGE, "TIFF", compression="tiff_adobe_deflate"),
    "webp of one pixel": encoded(Image.new("RGB", (1, 1), (9, 8, 7)), "WEBP", lossless=True),
    "webp lossless": encoded(IMAGE, "WEBP", lossless=True),
    "webp lossless with alpha": encoded(WITH_ALPHA, "WEBP", lossless=True, exact=True),
    "ppm": encoded(IMAGE, "PPM"),
    "pgm": encoded(IMAGE.convert("L"), "PPM"),
    "plain ppm with a comment": b"P3 # by hand\n2 1\n255\n255 0 7  9 8 200\n",
}  # fmt: skip
# Up to the rounding of another inverse transform and of another interpolation of chroma.
CLOSE = {
    **{
        f"jpeg {subsampling} {'progressive' if progressive else 'baseline'}": encoded(
            IMAGE, "JPEG", quality=90, subsampling=subsampling, progressive=progressive
        )
        for subsampling in ("4:4:4", "4:2:2", "4:2:0", "4:1:1")
        for progressive in (False, True)
    },
    "jpeg of odd size": encoded(ODD, "JPEG", quality=90),
    "jpeg gray": encoded(IMAGE.convert("L"), "JPEG", quality=90),
    "jpeg CMYK": encoded(IMAGE.convert("CMYK"), "JPEG", quality=90),
    "jpeg RGB": encoded(IMAGE, "JPEG", quality=90, keep_rgb=True),
    "webp lossy": encoded(IMAGE, "WEBP", quality=90),
    "webp lossy with alpha": encoded(WITH_ALPHA, "WEBP", quality=90, exact=True),
}


def first_frame(file: bytes) -> np.ndarray:
    return Video(file, device="cpu")[0].numpy()


@pytest.mark.parametrize("name", EXACT)
def test_lossless_files_give_the_pixels_of_pillow(name):
    assert np.array_equal(first_frame(EXACT[name]), rgb(EXACT[name]))


@pytest.mark.parametrize("name", CLOSE)
def test_lossy_files_are_as_near_to_pillow_as_two_decoders_are(name):
    difference = np.abs(first_frame(CLOSE[name]).astype(int) - rgb(CLOSE[name]))
    # Chroma of 37 columns is interpolated to 38 or to 37.
    assert difference.mean() < 1.1
    assert difference.max() <= 6


@pytest.mark.parametrize("name", [*EXACT, *CLOSE])
def test_a_file_is_a_video_of_one_frame(name):
    index = build_index((EXACT | CLOSE)[name])
    assert (len(index), index.container, index.byte_ranges) == (1, "images", True)
    assert index.timestamps.tolist() == [0]
    assert index.stream.display_size == rgb((EXACT | CLOSE)[name]).shape[1:]


def test_sixteen_bits_are_rounded_to_eight():
    values = np.arange(48 * 32, dtype=np.uint16).reshape(32, 48) * 42
    frame = first_frame(encoded(Image.fromarray(values), "PNG"))
    assert np.array_equal(frame, np.broadcast_to(np.floor(values / 257 + 0.5), (3, 32, 48)))


def with_orientation(kind: str, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    options = {"JPEG": {"quality": 95, "subsampling": 0}, "WEBP": {"lossless": True}}.get(kind, {})
    return encoded(IMAGE, kind, exif=exif, **options)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_pictures_are_turned_as_a_viewer_turns_them(kind, orientation):
    file = with_orientation(kind, orientation)
    shown = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(file))).convert("RGB")).transpose(2, 0, 1)
    frame = first_frame(file)
    assert frame.shape == shown.shape
    assert np.abs(frame.astype(int) - shown).max() <= (3 if kind == "JPEG" else 0)


@pytest.mark.parametrize("kind", ["JPEG", "PNG", "WEBP", "TIFF"])
@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_an_orientation_that_does_not_exist_is_none(kind, orientation):
    stream = build_index(with_orientation(kind, orientation)).stream
    assert (stream.rotation, stream.mirrored) == (0, False)


def test_headers_longer_than_one_read_are_stepped_over():
    exif = Image.Exif()
    exif[0x0112] = 6
    exif[0x010E] = "x" * 30_000
    for kind in ("JPEG", "PNG", "WEBP"):
        file = encoded(IMAGE, kind, exif=exif, icc_profile=bytes(100_000))
        assert build_index(file).stream.display_size == (48, 32)


def test_a_thumbnail_is_not_taken_for_the_picture():
    thumbnail = encoded(picture(3, (16, 16)), "JPEG")
    whole = encoded(IMAGE, "JPEG")
    segment = b"\xff\xe1" + (8 + len(thumbnail)).to_bytes(2, "big") + b"Thumb\0" + thumbnail
    file = whole[:2] + segment + whole[2:]
    assert build_index(file).stream.display_size == (32, 48)
    assert np.array_equal(first_frame(file), first_frame(whole))


def test_jpeg_files_are_the_same_whatever_was_decoded_before():
    odd = [encoded(picture(seed, (17 + 5 * seed, 90 - 7 * seed)), "JPEG", quality=70 + seed) for seed in range(6)]
    of_a_camera = encoded(IMAGE, "JPEG", comment=b"CS=ITU601")  # studio range, to libavcodec
    files = [file for name, file in CLOSE.items() if name.startswith("jpeg")] + [*odd, of_a_camera]
    alone = [decoded_by(CpuDecoder(), file) for file in files]
    together = CpuDecoder()
    order = random.Random(0).choices(range(len(files)), k=100)
    assert [decoded_by(together, files[number]) for number in order] == [alone[number] for number in order]


@pytest.mark.parametrize("cut", [(HUFFMAN,), (QUANTIZATION,), (HUFFMAN, QUANTIZATION)])
def test_the_tables_of_a_thumbnail_are_none_of_the_picture(cut):
    thumbnail = encoded(picture(3, (16, 16)), "JPEG", quality=60)
    exif = b"\xff\xe1" + (8 + len(thumbnail)).to_bytes(2, "big") + b"Exif\0\0" + thumbnail
    bare = without(encoded(IMAGE, "JPEG", quality=95), cut)
    files = [encoded(IMAGE, "JPEG", quality=30, optimize=True), bare[:2] + exif + bare[2:]]
    assert [is_self_contained("mjpeg", file) for file in files] == [True, False]
    alone = [decoded_by(CpuDecoder(), file) for file in files]
    together = CpuDecoder()
    order = [0, 1, 1, 0, 1, 0, 0, 1]
    assert [decoded_by(together, files[number]) for number in order] == [alone[number] for number in order]


def decoded_by(decoder, file):
    """A hash of the samples, and what they mean."""
    source, index, seen = open_source(file), build_index(file), []

    def see(_, frame):
        seen.append((hash_of(frame), frame.format.name, color_spec(index.stream, frame)))

    decoder.decode(index, read_packets(source, index, plan_frames(index, [0]).runs[0]), see)
    return seen


@pytest.mark.parametrize(
    ("file", "own"),
    [
        (encoded(IMAGE, "JPEG"), True),
        (encoded(IMAGE, "JPEG", progressive=True), True),
        (encoded(IMAGE, "JPEG", comment=b"made by somebody"), True),
        (encoded(IMAGE, "JPEG", comment=b"CS=ITU601"), False),
        (encoded(IMAGE, "JPEG").replace(b"JFIF", b"AVI1"), False),
        (encoded(IMAGE, "JPEG").replace(b"\xff\xc4", b"\xff\xe5"), False),
        (encoded(IMAGE, "JPEG").replace(b"\xff\xdb", b"\xff\xe5"), False),
    ],
)
def test_what_a_jpeg_file_brings_along(file, own):
    assert is_self_contained("mjpeg", file) == own


def test_what_follows_a_jpeg_file_does_not_matter():
    file = encoded(IMAGE, "JPEG")
    assert np.array_equal(first_frame(file + b"a trailer of some camera"), first_frame(file))


def test_jpeg_pictures_one_after_the_other_are_a_video(tmp_path):
    stream = b"".join(encoded(picture(number), "JPEG") for number in range(5))
    (tmp_path / "raw.mjpeg").write_bytes(stream)
    assert len(build_index(tmp_path / "raw.mjpeg")) == 5


def test_a_picture_of_a_camera_with_a_second_one_behind_it_is_no_video():
    thumbnail, whole = encoded(picture(3, (16, 16)), "JPEG"), encoded(IMAGE, "JPEG")
    exif = b"\xff\xe1" + (8 + len(thumbnail)).to_bytes(2, "big") + b"Exif\0\0" + thumbnail
    directory = b"\xff\xe2\0\x06MPF\0"
    for segments in (directory, exif + directory):
        index = build_index(whole[:2] + segments + whole[2:] + whole)
        assert (len(index), index.container) == (1, "images")


def animation(kind: str) -> bytes:
    pictures = [picture(number) for number in range(4)]
    return encoded(pictures[0], kind, save_all=True, append_images=pictures[1:], duration=40)


def test_an_animated_png_is_a_video():
    frames = Video(animation("PNG"), device="cpu")[:].numpy()
    assert np.array_equal(frames, np.stack([rgb(encoded(picture(number), "PNG")) for number in range(4)]))


@pytest.mark.parametrize(
    ("file", "what"),
    [
        (animation("WEBP"), "is an animation"),
        (animation("TIFF"), "several pages"),
        # libavcodec gives out a picture of whatever was in memory.
        (encoded(IMAGE, "TIFF", compression="jpeg"), "compression 7"),
    ],
)
def test_what_cannot_be_decoded_is_told(file, what):
    with pytest.raises(UnsupportedError, match=what):
        build_index(file)
