"""Index ISO base media files (mp4, mov, m4v, 3gp, fragmented or not) from their own tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from videoloader.errors import IndexingError, UnsupportedError
from videoloader.indexing.bitstream.picture import cut_by_container
from videoloader.indexing.bitstream.random_access import is_intra_only
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.keyframe_heads import coded_picture
from videoloader.indexing.mp4.boxes import (
    Box,
    FileBox,
    NotPlainError,
    check_compressed,
    children,
    is_misplaced,
    iterate_boxes,
    iterate_file_boxes,
)
from videoloader.indexing.mp4.description import Description, is_aac, read_descriptions, records_in_force
from videoloader.indexing.mp4.edits import Edit, leading_gap, leading_offset, read_edits, shown_frames
from videoloader.indexing.mp4.fragments import Begins, check_runs, reaches_the_end, read_defaults, read_fragments
from videoloader.indexing.mp4.samples import Samples, check_sizes, lowest_offset, read_samples
from videoloader.indexing.mp4.spans import spans_need_decoding, with_decoded_spans
from videoloader.indexing.mp4.start import TrackHead, first_composition, track_starts
from videoloader.indexing.packet_times import depth_of
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.sources.stream import StreamSource
from videoloader.indexing.start_time import StreamStart, earliest_start
from videoloader.indexing.stream_info import StreamInfo, orientation
from videoloader.indexing.true_order import decoded_if_uncoded, with_decoded_frames
from videoloader.indexing.wrong_times import times_are_wrong

_TKHD_SIZE, _MDHD_SIZE = 80, 20
_LARGEST_SCALE = 2**31 - 1
# libavformat looks for the path of another file in data references of more bytes than this.
_LEAST_ALIAS = 142
# In a fragmented file, each candidate costs a walk over all fragments.
_MOST_CANDIDATES = 8
# Boxes that list frames of a fragment.
_IN_FRAGMENTS = (b"traf", b"trun")
# The start of nearly all tracks' matrix, which gives the rotation: 16.16 fixed point.
_UPRIGHT = b"\0\1\0\0" + bytes(12) + b"\0\1\0\0"
# Brands of images and image sequences (ISO/IEC 23008-12, annex B; AV1 Image File Format, 6).
_IMAGE_BRANDS = {b"avif", b"avis", b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx", b"mif1", b"msf1"}


class _Trak(NamedTuple):
    """A ``trak`` box of any kind: what tells when it begins, where its tkhd is, and its sample tables.

    Its samples may be ``elsewhere``, in another file.
    """

    number: int
    start: TrackHead
    tkhd: Box
    tables: dict[bytes, Box]
    elsewhere: bool


class _Track(NamedTuple):
    """A video track. It has its edit list only if that decides which frames are shown."""

    trak: _Trak
    enabled: bool
    rotation: int
    mirrored: bool
    edits: list[Edit]
    descriptions: list[Description]
    samples: Samples
    fragmented: bool
    has_head: bool  # whether it has samples in moov
    begins: Begins


class _Tables(NamedTuple):
    """The boxes of a file that list its frames.

    Attributes:
        moov: the tables of the movie.
        moofs: the fragments.
        opened: number of those that libavformat reads when it opens the file: all, or those before the first media data
            if an index lists the rest.
        has_sidx: whether there is an index.
        are_plain: whether no box that belongs into others lies beside these.
    """

    moov: FileBox
    moofs: list[FileBox]
    opened: int
    has_sidx: bool
    are_plain: bool


def index_mp4(source: ByteSource, head: bytes = b"") -> VideoIndex | None:
    """Index the file's best video track, or a ``StreamSource``'s; None if only libavformat can read it.

    Args:
        source: the file.
        head: its first bytes, if they have been read already.

    Raises:
        IndexingError: there is no moov box, tables contradict each other, or samples lie beyond the end of the file.
        UnsupportedError: there is no video track.
    """
    tables = _find_tables(source, head)
    data = source.read(tables.moov.start, tables.moov.stop - tables.moov.start)
    check_compressed(data, source.name)
    try:
        if tables.are_plain:
            return _index_by_tables(source, head, tables, data)
    except NotPlainError:
        pass
    check_runs(source, (tables.moov, *tables.moofs))
    check_sizes(data, source.size, source.name)
    return None


def _index_by_tables(source: ByteSource, head: bytes, found: _Tables, data: bytes) -> VideoIndex | None:
    moofs, opened = found.moofs, found.opened
    boxes = list(iterate_boxes(data, 0, len(data), b"moov"))
    movie_scale, mvex, is_compressed = 0, None, False
    for box in boxes:
        if box.type == b"mvhd":
            at = box.start + (20 if data[box.start] == 1 else 12)
            movie_scale = int.from_bytes(data[at : at + 4], "big")
        elif box.type == b"mvex":
            mvex = box
        elif box.type == b"cmov":
            is_compressed = True
    boxes_of_tracks = [box for box in boxes if box.type == b"trak"]
    traks = [_read_trak(data, number, box, movie_scale, only=b"vide") for number, box in enumerate(boxes_of_tracks)]
    videos = [trak for trak in traks if trak is not None and trak.tables]
    if len(videos) > 1 and sum(_stated_samples(data, trak.tables) for trak in videos) > source.size:
        told = f"is damaged: its {len(videos)} video tracks together list more samples than it has bytes"
        raise IndexingError(told, source.name)
    if is_compressed or (moofs and len(videos) > _MOST_CANDIDATES):
        raise NotPlainError
    tracks = [_read_track(data, trak, mvex, moofs, opened, source) for trak in videos]
    if not tracks:
        _refuse_image(head, source)
        raise UnsupportedError("has no video track", source.name)
    if isinstance(source, StreamSource):
        tracks = [track for track in tracks if track.trak.number == source.stream_index]
        if not tracks:
            return None
    if any(b"stz2" in track.trak.tables for track in tracks):
        return None  # compact sizes of samples, which hardly any writer uses
    if any(track.trak.elsewhere for track in tracks):
        return None  # libavformat gives out no samples that may be in another file
    track = max(tracks, key=_rank) if len(tracks) > 1 else tracks[0]
    description = track.descriptions[0] if track.descriptions else None
    if description is None or not description.codec or not description.width or not description.height:
        return None
    if any(other.codec != description.codec for other in track.descriptions):
        return None
    if len(track.descriptions) == 1 and track.samples.config.any():
        return None  # libavformat leaves out samples of a description that does not exist, unless there are several
    if len({each.kind for each in track.descriptions} - {b"encv"}) > 1:
        return None  # libavformat leaves out samples of another type than the first description's, by rules of its own
    if track.edits and track.fragmented:
        return None  # libavformat applies the list to moov's samples, and drops fragments that come before their end
    if track.begins == "anew":
        return None  # libavformat does not follow the standard
    if track.begins == "untold" and (track.has_head or found.has_sidx):
        return None  # libavformat goes by the sum of moov's durations, or by the index
    if track.edits and description.codec == "mpeg1video":
        return None  # libavformat parses the packets again, and applies the list to what it finds, by rules of its own
    dts = track.samples.dts
    if not len(dts):
        raise IndexingError("the video track has no samples", source.name)
    if len(dts) > 1 and dts[0] == dts[-1]:
        return None  # time stands still, so libavformat makes up times, by rules for each codec
    if is_intra_only(description.codec) and np.count_nonzero(dts[1:] == dts[:-1]):
        return None  # for these codecs, it does so even if time stands still only for some packets
    heads = [
        trak.start
        for number, box in enumerate(boxes_of_tracks)
        if number != track.trak.number and (trak := _read_trak(data, number, box, movie_scale))
    ]
    scales = {movie_scale, *(head.time_scale for head in (track.trak.start, *heads))}
    if min(scales) == 0 or max(scales) > _LARGEST_SCALE:
        return None  # libavformat takes other scales in their place, or gives out nothing if there is no mvhd box
    return _assemble(source, track, description, track_starts(heads, source, moofs))


def _find_tables(source: ByteSource, head: bytes) -> _Tables:
    moov, moofs, opened = None, [], -1
    indexed = has_media = has_sidx = False
    are_plain = True
    for box in iterate_file_boxes(source, head):
        if box.type == b"moov" and moov is None:
            moov = box
        elif box.type == b"moof":
            moofs.append(box)
        elif box.type == b"sidx":
            has_sidx = True
            indexed = indexed or reaches_the_end(source, box)
        elif box.type == b"mdat":
            has_media = True
        elif box.type == b"cmov":
            raise IndexingError("is damaged: compressed tables lie outside of the moov box", source.name)
        elif box.type in _IN_FRAGMENTS and moofs:
            # libavformat takes it for a part of the fragment before, and gives frames of that once more.
            raise IndexingError(f"is damaged: a {box.type.decode()} box lies outside of a fragment", source.name)
        elif is_misplaced(box.type) and box.type not in _IN_FRAGMENTS:
            are_plain = False
        if indexed and has_media and moov is not None and opened < 0:
            opened = len(moofs)
    if moov is None:
        _refuse_image(head, source)
        raise IndexingError("has no moov box: not an mp4 file, or cut off before its tables", source.name)
    return _Tables(moov, moofs, len(moofs) if opened < 0 else opened, has_sidx, are_plain)


def _refuse_image(head: bytes, source: ByteSource) -> None:
    if head[4:8] == b"ftyp" and head[8:12] in _IMAGE_BRANDS:
        raise UnsupportedError("is an AVIF or HEIF image, which is not supported: save it as PNG or WebP", source.name)


def _rank(track: _Track) -> tuple[bool, int, float]:
    """Rank as libavformat's av_find_best_stream does: default tracks, then tracks with frames, then the bit rate."""
    samples = track.samples
    count = len(samples.offset)
    seconds = (samples.dts[-1] - samples.dts[0]) / track.trak.start.time_scale if count > 1 else 1.0
    return track.enabled, min(count, 5), float(samples.size.sum(dtype=np.int64) / max(seconds, 1e-9))


def _read_trak(data: bytes, number: int, box: Box, movie_scale: int, only: bytes | None = None) -> _Trak | None:
    """Read a track of any kind, or of only one; None if something that each track must have is missing."""
    boxes = children(data, box)
    media = children(data, boxes[b"mdia"]) if b"mdia" in boxes else {}
    if not {b"mdhd", b"hdlr", b"minf"} <= media.keys() or b"tkhd" not in boxes:
        return None
    tkhd, header, handler = boxes[b"tkhd"], media[b"mdhd"], media[b"hdlr"].start + 8
    if only not in (None, data[handler : handler + 4]):
        return None
    if tkhd.stop - tkhd.start < _TKHD_SIZE or header.stop - header.start < _MDHD_SIZE:
        return None
    information = children(data, media[b"minf"])
    tables = children(data, information[b"stbl"]) if b"stbl" in information else {}
    references = children(data, information[b"dinf"]).get(b"dref") if b"dinf" in information else None
    elsewhere = references and any(
        each.type == b"alis" and each.stop - each.start > _LEAST_ALIAS
        for each in iterate_boxes(data, references.start + 8, references.stop)
    )
    at = header.start + (20 if data[header.start] == 1 else 12)
    # A missing time scale is taken as one, as in libavformat.
    time_scale = int.from_bytes(data[at : at + 4], "big") or 1
    edits = []
    if b"edts" in boxes and (elst := children(data, boxes[b"edts"]).get(b"elst")):
        edits = read_edits(data, elst, time_scale, movie_scale)
    at = tkhd.start + (20 if data[tkhd.start] == 1 else 12)
    has_samples = _stated_samples(data, tables) > 0
    head = TrackHead(
        track_id=int.from_bytes(data[at : at + 4], "big"),
        handler=data[handler : handler + 4],
        time_scale=time_scale,
        edits=edits,
        has_samples=has_samples,
        composition=0 if edits else first_composition(data, tables.get(b"ctts")),
        cut_to_the_sample=bool(edits) and not has_samples and b"stsd" in tables and is_aac(data, tables[b"stsd"]),
    )
    return _Trak(number, head, tkhd, tables, bool(elsewhere))


def _stated_samples(data: bytes, tables: dict[bytes, Box]) -> int:
    sizes = tables.get(b"stsz", tables.get(b"stz2"))
    return 0 if sizes is None else int.from_bytes(data[sizes.start + 8 : sizes.start + 12], "big")


def _read_track(
    data: bytes, trak: _Trak, mvex: Box | None, moofs: list[FileBox], opened: int, source: ByteSource
) -> _Track:
    head, tkhd = trak.start, trak.tkhd.start
    rotation, mirrored = _orientation(data, tkhd + (52 if data[tkhd] == 1 else 40))
    samples = read_samples(data, trak.tables, source.size, source.name)
    begins: Begins = "told"
    has_head = len(samples.offset) > 0
    if has_head and b"stts" not in trak.tables:
        raise NotPlainError  # libavformat passes over the track, even if fragments have samples of it
    if mvex is not None and moofs:
        defaults = read_defaults(data, mvex, head.track_id)
        offset, lowest = leading_offset(head.edits), lowest_offset(data, trak.tables.get(b"ctts"))
        samples, begins = read_fragments(source, moofs, head.track_id, defaults, samples, offset, opened, lowest)
    return _Track(
        trak,
        bool(data[tkhd + 3] & 1),
        rotation,
        mirrored,
        head.edits if has_head else [],
        read_descriptions(data, trak.tables[b"stsd"]) if b"stsd" in trak.tables else [],
        samples,
        mvex is not None and len(moofs) > 0,
        has_head,
        begins,
    )


def _orientation(data: bytes, at: int) -> tuple[int, bool]:
    """Return the ``orientation`` of a tkhd matrix."""
    if data[at : at + 20] == _UPRIGHT:
        return 0, False
    a, b, _, c, d = (int.from_bytes(data[i : i + 4], "big", signed=True) for i in range(at, at + 20, 4))
    return orientation(a, b, c, d)


def _assemble(source: ByteSource, track: _Track, description: Description, others: Iterable[StreamStart]) -> VideoIndex:
    samples = track.samples
    count = len(samples.offset)
    # Subtracted, not added: offsets may be so large that a sum would overflow.
    room = source.size - samples.offset
    room -= samples.size
    if samples.offset[samples.offset.argmin()] < 0 or room[room.argmin()] < 0:
        beyond = (samples.offset < 0) | (room < 0)
        raise IndexingError(
            f"is cut off: {int(beyond.sum())} of {count} packets lie beyond its end at byte {source.size} "
            f"(the first is packet {int(beyond.argmax())}, at byte {int(samples.offset[beyond.argmax()])})",
            source.name,
        )
    packet_pts = samples.dts + samples.composition
    order = packet_pts.argsort(kind="stable")
    shown = shown_frames(samples, packet_pts, order, track.edits)
    # libavformat does not read the packets before this, nor their parameter sets.
    first = min(shown.starts, default=0)
    key = samples.key
    if description.facts["encrypted"]:
        # What a decoder makes of noise depends on everything that it decoded before.
        key = np.arange(count) == first
    # libavformat chooses a sample's description by the number of samples that it has read.
    used = np.minimum(samples.config[: count - first], min(len(track.descriptions), 256) - 1)
    records, config = records_in_force(track.descriptions, used)
    span = int(samples.dts[-1] - samples.dts[0])
    stream = StreamInfo(
        codec=description.codec,
        codec_configs=records,
        time_base=Fraction(1, track.trak.start.time_scale),
        width=description.width,
        height=description.height,
        rotation=track.rotation,
        mirrored=track.mirrored,
        frame_rate=Fraction((count - 1) * track.trak.start.time_scale, span) if span else Fraction(0),
        reorder_depth=depth_of(order),
        stream_number=track.trak.number,
        # libavcodec turns pictures of some encoders of Motion JPEG over if there is a tag.
        codec_tag=description.kind.decode("latin-1") if description.codec == "mjpeg" else "",
        **description.facts,
    )
    picture = coded_picture(stream, source, int(samples.offset[0]), int(samples.size[0]))
    if picture and (picture.width, picture.height) != (stream.width, stream.height):
        # Decoders go by the codec's own header, whatever size the sample description states.
        stream = replace(stream, width=picture.width, height=picture.height)
    # libavformat goes by the last description's size.
    stream = cut_by_container(stream, track.descriptions[-1].width, track.descriptions[-1].height)
    # With an edit list, a stream starts after the gap at its beginning, even if a frame is shown before that.
    begin = leading_gap(track.edits) if track.edits else int(packet_pts[0])
    starts = [StreamStart(begin, stream.time_base)]
    if begin > 0 or track.fragmented:
        starts += others  # otherwise no track begins before zero
    index = VideoIndex(
        source=source.name,
        container="mp4",
        method="tables",
        packet_offset=samples.offset,
        packet_size=samples.size,
        packet_pts=packet_pts,
        packet_key=key,
        packet_disposable=np.zeros(count, np.uint8),
        packet_config=np.insert(config, 0, [config[0]] * first) if first else config,
        frame_packet=shown.samples.astype(np.int32),
        frame_pts=shown.pts,
        byte_ranges=True,
        stream=stream,
        start_time=earliest_start(starts) if len(shown.pts) else 0,
    )
    if decoded := decoded_if_uncoded(index, source):
        return decoded
    if spans_need_decoding(index, source, shown):
        return with_decoded_spans(index, source)
    if first:
        index, order = index.without_first_packets(first), order[order >= first] - first
    wrong = times_are_wrong(index, source, samples.dts[first:], order)
    return with_decoded_frames(index, source) if wrong else index
