"""``build_index``: choose the right way to index each container."""

from __future__ import annotations

import struct
import warnings
from dataclasses import replace
from itertools import islice

import numpy as np

from videoloader.errors import (
    IndexingError,
    UnsupportedError,
    VideoLoaderError,
    VideoWarning,
    enough_memory,
)
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.indexing.av1_layers import has_left_out_layers
from videoloader.indexing.avi.index import index_avi
from videoloader.indexing.bitstream.jpeg import picture_height
from videoloader.indexing.bitstream.mpeg4_headers import find_layer
from videoloader.indexing.bitstream.mpeg4_times import UNEVEN, first_b_distance
from videoloader.indexing.configurations import config_switches
from videoloader.indexing.decoder_check import check_decoder
from videoloader.indexing.demuxer import if_archive
from videoloader.indexing.images.index import index_images
from videoloader.indexing.index import DISPOSABLE_NO, VideoIndex
from videoloader.indexing.keyframe_heads import with_keyframes_read
from videoloader.indexing.keyframes import packet_payloads, with_sure_keyframes
from videoloader.indexing.libav import index_by_decoding, index_by_demuxing
from videoloader.indexing.limits import DecodingBudget, check_picture
from videoloader.indexing.lone_fields import has_lone_fields
from videoloader.indexing.lost_pictures import hides_leading_pictures, may_lose_pictures, with_pictures_that_come
from videoloader.indexing.matroska.index import EBML_MAGIC, index_matroska
from videoloader.indexing.mp4.boxes import HEADERS_READ, iterate_file_boxes
from videoloader.indexing.mp4.index import index_mp4
from videoloader.indexing.mpegts.index import index_mpegts
from videoloader.indexing.mpegts.packets import PACKET_SIZE
from videoloader.indexing.sources.base import NEAR, ByteSource
from videoloader.indexing.sources.folder import FolderSource
from videoloader.indexing.sources.local import MemorySource
from videoloader.indexing.sources.opening import Openable, open_anew
from videoloader.indexing.sources.state import SourceState, check_unchanged, state_of
from videoloader.indexing.sources.stream import StreamSource, choose_stream
from videoloader.indexing.start import without_lost_frames
from videoloader.indexing.true_order import with_decoded_frames, with_frames_of
from videoloader.indexing.video_stream import best_video_stream, read_stream_info
from videoloader.indexing.wrong_times import times_are_wrong

# Raised with every change by which some file gets another index. Stores then index their videos again.
INDEXER_VERSION = 29

# The types of the boxes with which an ISO base media or QuickTime file may begin.
_MP4_FIRST_BOXES = {b"ftyp", b"styp", b"moov", b"moof", b"mdat", b"free", b"skip", b"wide", b"pnot", b"sidx", b"uuid"}
_MOST_BOXES_BEFORE_MOOV = 1024
# The first bytes of the packets of a transport stream, whose first packet may hold any text, such as such a type.
_THREE_PACKETS = b"GGG"
# Packets after a picture that is shown early, among which its header certainly is.
_NEAR = 16


@tells_of_arguments
def build_index(source: Openable, *, stream_index: int | None = None) -> VideoIndex:
    """Find the place of every packet and frame of a video, without decoding it.

    mp4, mov and AVI files are indexed from their own tables, in a millisecond or less; Matroska and WebM from the
    headers of their blocks; MPEG transport streams in one pass over their bytes; other containers are demuxed once with
    libavformat. If the packets do not say which frames they become (no timestamps, a start without a keyframe), the
    video is decoded once instead; ``VideoIndex.method`` says so. An image file is a video of one frame. A folder of
    image files has one frame for each, at the time given by the number in its name; ``FolderSource`` takes a rate or a
    list of times.

    Args:
        source: path, URL, ``archive::member``, bytes, file object or ByteSource. Anything that ``open_source`` takes,
            such as the path of a file or of a folder of image files.
        stream_index: int, default None, libavformat's best. The number of the video stream in the file, counted from
            zero over all kinds of streams, as ffprobe and torchcodec count. Any path may also include it:
            ``"clip.mkv::stream_index=2"``. Attached pictures, such as covers, are not video streams.

    Returns:
        The index of that stream.

    Raises:
        SourceError: the file is missing, unreadable or empty.
        StaleIndexError: the file was changed while it was being indexed.
        IndexingError: the file's tables are damaged, or the file is truncated.
        UnsupportedError: the file contains no video, or one that cannot be decoded, or it exceeds ``Limits``.
        ConfigurationError: the file has no such video stream; the message lists those that it has.

    Examples:
        >>> index = build_index("clip.mp4")
        >>> len(index), index.average_fps
        (300, 25.0)
    """
    return index_opened(choose_stream(open_anew(source), stream_index))


def index_opened(opened: ByteSource, state: SourceState | None = None) -> VideoIndex:
    """Index a source that is open and not empty, as ``build_index`` does.

    Args:
        opened: the source.
        state: state of what the bytes were read from; None if they are the source's own.
    """
    with DecodingBudget(opened.name), enough_memory(source=opened.name):
        index = _build(opened)
        if state is None:
            state = opened.sampled_state if isinstance(opened, MemorySource) else state_of(opened)
        return replace(index, state=state)


def _build(opened: ByteSource) -> VideoIndex:
    try:
        index = _index_by_tables(opened)  # before libavformat sees the file, which does not check the tables
    except VideoLoaderError:
        raise
    except (IndexError, ValueError, OverflowError, struct.error) as error:
        # A number is too large for any table, or a box is too short for its contents.
        raise IndexingError(f"its tables are damaged ({error})", opened.name) from error
    wanted = best_video_stream(opened) if isinstance(opened, StreamSource) else None
    if index is None or wanted not in (None, index.stream.stream_number):
        index = index_by_demuxing(opened)
    if index.stream.encrypted:
        warnings.warn(f"{opened.name}: is encrypted, so its frames will be noise", VideoWarning, stacklevel=2)
    elif index.container != "images":  # the headers of image files tell everything
        switches = config_switches(index)
        brought: dict[int, list[bytes]] = {}
        breaks: list[int] = []
        headers: set[bytes] = set()
        if index.byte_ranges and index.keys_from == "container":
            known = index.stream.codec_configs
            index, brought, breaks, headers = with_keyframes_read(index, opened)
            told_more = index.method == "tables" and index.stream.codec_configs != known
            if told_more and times_are_wrong(index, opened):  # checked before without these sets
                index = with_decoded_frames(index, opened)
        if index.method == "tables" and (has_left_out_layers(index, opened) or has_lone_fields(index, opened)):
            index = with_frames_of(index_by_decoding(opened), index)
        if may_lose_pictures(index, opened, switches, brought) or hides_leading_pictures(index, opened, breaks):
            index = with_pictures_that_come(index, opened)
        index = with_sure_keyframes(index, opened)
        if index.method == "tables":
            index = without_lost_frames(index, opened)
        index = _with_fields_told(index, opened)
        check_decoder(index, opened)
        index = _with_first_b_distance(index, opened, headers)
    check_unchanged(opened)
    if not len(index):
        raise UnsupportedError("has no frames that a player would show", opened.name)
    width, height = index.stream.width, index.stream.height
    if min(width, height) < 1:
        raise UnsupportedError(f"has pictures of {width}×{height} pixels", opened.name)
    check_picture(width, height, opened.name)
    return index


def _with_fields_told(index: VideoIndex, source: ByteSource) -> VideoIndex:
    """Return the index with what a decoder of Motion JPEG must know if each packet has the two fields of a picture.

    libavcodec takes a first picture of less than three quarters of the height that it is told for a field.
    """
    if index.stream.codec != "mjpeg":
        return index
    told = index.stream
    if not 0 < picture_height(next(packet_payloads(index, source))) < told.height * 3 // 4:
        return index
    if index.method == "tables":
        told = read_stream_info(source)
    size = (told.width, told.height)
    return replace(index, stream=replace(index.stream, pixel_format=told.pixel_format, container_size=size))


def _with_first_b_distance(index: VideoIndex, source: ByteSource, headers: set[bytes]) -> VideoIndex:
    """Return the index with the distance of MPEG-4's first B picture, if a decoder must know it.

    Since headers inside the stream make libavcodec forget it, no B picture after them may be left out. If times are
    uneven, libavcodec may also drop pictures, and decoding can only start at the first keyframe.

    Args:
        index: index of the video.
        source: source of the same video.
        headers: the different headers that were found in keyframes.
    """
    stream, shown = index.stream, index.frame_packet
    if stream.codec != "mpeg4":
        return index
    # B pictures are shown before a reference that they come after.
    early = np.flatnonzero(shown[1:] < shown[:-1])[:1] + 1
    if not len(early):
        return index
    layers = [layer for each in (*stream.codec_configs, *headers) if (layer := find_layer(each))]
    if layers and index.byte_ranges and not any(layer.interlaced for layer in layers):
        return index
    packets = packet_payloads(index, source)
    if index.byte_ranges and not headers and source.read_through > NEAR:
        packets = islice(packets, int(shown[early[0]]) + _NEAR)  # those before the first, if any, are not shown
    distance = first_b_distance(index.config_at(0), packets)
    if not distance:
        return index
    if distance == UNEVEN:
        index = with_pictures_that_come(index, source)
        index = index.without_keyframe(index.packet_key.nonzero()[0][1:].tolist())
    needed = np.full_like(index.packet_disposable, DISPOSABLE_NO)
    return replace(index, stream=replace(index.stream, first_b_distance=distance), packet_disposable=needed)


def _begins_with_another_box(source: ByteSource, head: bytes) -> bool:
    """Whether a ``moov`` box follows a box of a type of its own.

    libavformat takes such a file for an mp4 as well, and allocates memory for as many samples as its tables claim.
    """
    size = int.from_bytes(head[:4], "big")
    if not 8 <= size < source.size:
        return False
    return any(box.type == b"moov" for box in islice(iterate_file_boxes(source, head), _MOST_BOXES_BEFORE_MOOV))


def _index_by_tables(source: ByteSource) -> VideoIndex | None:
    """Index a video from the container's own tables or headers; None if only libavformat can read it."""
    if isinstance(source, FolderSource):
        return index_images(source)
    start = source.read(0, 512)
    if told := if_archive(start, source.name):  # libavformat finds videos in them
        raise IndexingError(f"is no video{told}", source.name)
    head = start[:HEADERS_READ]
    if head[4:8] in _MP4_FIRST_BOXES and start[::PACKET_SIZE] != _THREE_PACKETS:
        return index_mp4(source, head)
    if head[:4] == EBML_MAGIC:
        return index_matroska(source)
    if head[:4] == b"RIFF" and head[8:12] == b"AVI ":
        return index_avi(source)
    if _begins_with_another_box(source, head):
        return index_mp4(source, head)
    image = index_images(source)
    return index_mpegts(source) if image is None else image
