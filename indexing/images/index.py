"""Index image files: each is one packet, one keyframe and one frame."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable
from fractions import Fraction
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from videoloader.errors import IndexingError, UnsupportedError
from videoloader.indexing.images.bitmap import BMP_START, bmp_header, netpbm_header
from videoloader.indexing.images.frame_times import FrameTimes, times_of_files
from videoloader.indexing.images.jpeg import is_jpeg_stream, jpeg_header
from videoloader.indexing.images.png import png_header
from videoloader.indexing.images.tiff import tiff_header
from videoloader.indexing.images.webp import webp_header
from videoloader.indexing.images.window import ImageHeader, Window
from videoloader.indexing.index import DISPOSABLE_YES, VideoIndex
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.folder import FolderSource, is_image_name
from videoloader.indexing.sources.lazy_folder import LazyFolder
from videoloader.indexing.stream_info import StreamInfo

# Degrees clockwise, and whether the picture is mirrored after that (Exif 2.32, tag 0x0112).
_TURNS = {
    1: (0, False), 2: (0, True), 3: (180, False), 4: (180, True),
    5: (90, True), 6: (90, False), 7: (270, True), 8: (270, False),
}  # fmt: skip
# What each kind of image file begins with.
_KINDS: tuple[tuple[re.Pattern[bytes], Callable[[Window], ImageHeader]], ...] = (
    (re.compile(rb"\xff\xd8\xff"), jpeg_header),
    (re.compile(rb"\x89PNG\r\n\x1a\n"), png_header),
    (re.compile(rb"RIFF.{4}WEBP", re.DOTALL), webp_header),
    (re.compile(rb"II\*\0|MM\0\*"), tiff_header),
    (BMP_START, bmp_header),
    (re.compile(rb"P[2356]\s"), netpbm_header),
)
_LARGEST_FILE = np.iinfo(np.int32).max
_ONE_FRAME = FrameTimes(np.zeros(1, np.int64), Fraction(1), Fraction(1))


def index_images(source: ByteSource) -> VideoIndex | None:
    """Index a folder of image files, or a single one, from the files' own headers.

    Frame n is file n, at the time given by its number or a list of times (``times_of_files``). Each file costs one
    short read; of a ``LazyFolder``, only the first is read.

    Returns:
        The index, or None if the source is neither a folder nor an image; also for animations in PNG and raw Motion
        JPEG, which libavformat reads.

    Raises:
        SourceError: a file is gone or has changed since its folder was listed.
        IndexingError: a file is damaged or no image, or differs from the first one in format, size or orientation. The
            message names it.
        ConfigurationError: the list of times does not fit the files.
        UnsupportedError: a file is an animation among others, or of a kind that libavcodec does not decode.
    """
    if not isinstance(source, FolderSource):
        file = Window(source, 0, source.size, source.name)
        single = _read_header(file)
        if single is None or (single.animated and single.codec == "png"):
            return None
        if single.codec == "mjpeg" and not is_image_name(os.path.basename(source.name)) and is_jpeg_stream(file):
            return None
        return _index_of_file(source, _checked(single, source.name))
    first = _checked(_header_in(source, 0), source.files[0])
    for number in () if isinstance(source, LazyFolder) else range(1, len(source.files)):
        _check_like(_header_in(source, number), number, first, source)
    _check_size(np.diff(source.offsets), source)
    return _assemble(source.name, source.offsets, first, times_of_files(source))


def check_files(source: LazyFolder, index: VideoIndex, numbers: Iterable[int]) -> None:
    """Check that some files of a folder are like its first one, of which the index was made; hold their bytes.

    Raises:
        SourceError, IndexingError, UnsupportedError: as in ``index_images``.
    """
    stream = index.stream
    like = stream.codec, stream.width, stream.height, stream.rotation, stream.mirrored, False
    for number in numbers:
        source.hold(number)
        if number not in source.alike:
            header = _header_in(source, number)
            shape = header.codec, header.width, header.height
            if (*shape, *_TURNS[header.orientation], header.animated) != like:
                _check_like(header, number, _header_in(source, 0), source)
            source.alike.add(number)


def _header_in(source: FolderSource, number: int) -> ImageHeader:
    name, begin, end = source.files[number], *source.offsets[number : number + 2]
    if begin == end:
        raise IndexingError("is empty", name)
    header = _read_header(Window(source, begin, end - begin, name))
    if header is None:
        raise IndexingError(f"is not an image of a known kind, whatever its name says (in {source.name})", name)
    return header


def _check_like(header: ImageHeader, number: int, first: ImageHeader, source: FolderSource) -> None:
    if header != first:
        name = source.files[number]
        raise IndexingError(_difference(_checked(header, name), first, source), name)


def _index_of_file(source: ByteSource, header: ImageHeader) -> VideoIndex:
    size = np.array([source.size])
    _check_size(size, source)
    index = object.__new__(VideoIndex)
    vars(index).update(vars(_like(header)), source=source.name, packet_size=size.astype(np.int32))
    index.packet_size.setflags(write=False)
    return index


def is_jpeg(index: VideoIndex) -> bool:
    """Whether a video consists of JPEG files."""
    return index.container == "images" and index.stream.codec == "mjpeg"


def image_of_a_pixel() -> VideoIndex:
    """Return the index of some image file, with the same times as that of any other."""
    return _assemble("", [0, 1], ImageHeader("mjpeg", 1, 1), _ONE_FRAME)


@lru_cache(256)
def _like(header: ImageHeader) -> VideoIndex:
    """Return an index for a file with this header; only the name and the number of bytes must still be set."""
    return _assemble("", [0, 1], header, _ONE_FRAME)


def _read_header(file: Window) -> ImageHeader | None:
    """Read the header of an image file; None if the file is no known kind of image."""
    start = file.start()
    return next((read_header(file) for magic, read_header in _KINDS if magic.match(start)), None)


def _checked(header: ImageHeader, name: str) -> ImageHeader:
    if header.animated:
        raise UnsupportedError(f"is an animation ({header.codec}), which cannot be read as one picture", name)
    return header


def _difference(header: ImageHeader, first: ImageHeader, source: FolderSource) -> str:
    name = os.path.basename(source.files[0])
    if header.codec != first.codec:
        what = f"is {header.codec}, but {name} is {first.codec}"
    elif (header.width, header.height) != (first.width, first.height):
        what = f"has {header.width}×{header.height} pixels, but {name} has {first.width}×{first.height}"
    else:
        what = f"has orientation {header.orientation}, but {name} has {first.orientation}"
    return f"{what}: the files of {source.name} are not one video; a pattern such as left_*.png can choose some of them"


def _check_size(sizes: npt.NDArray[np.int64], source: ByteSource) -> None:
    if sizes.max() > _LARGEST_FILE:
        raise UnsupportedError(f"holds an image file of {sizes.max()} bytes", source.name)


def _assemble(name: str, offsets: list[int], header: ImageHeader, times: FrameTimes) -> VideoIndex:
    ends = np.array(offsets, np.int64)
    sizes = np.diff(ends)
    numbers = np.arange(len(sizes))
    rotation, mirrored = _TURNS[header.orientation]
    return VideoIndex(
        source=name,
        container="images",
        method="tables",
        packet_offset=ends[:-1],
        packet_size=sizes.astype(np.int32),
        packet_pts=numbers,
        packet_key=np.ones(len(sizes), np.bool_),
        packet_disposable=np.full(len(sizes), DISPOSABLE_YES, np.uint8),
        packet_config=np.zeros(len(sizes), np.uint8),
        frame_packet=numbers.astype(np.int32),
        frame_pts=times.pts,
        byte_ranges=True,
        keys_from="headers",  # each file is one picture
        stream=StreamInfo(
            codec=header.codec,
            codec_configs=(b"",),
            time_base=times.time_base,
            width=header.width,
            height=header.height,
            rotation=rotation,
            mirrored=mirrored,
            # All kinds use the full range, except WebP, whose frames tell. libavcodec does not say so for some kinds.
            color_range="" if header.codec == "webp" else "full",
            frame_rate=times.rate,
        ),
    )
