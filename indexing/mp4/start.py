"""Find when the tracks of an ISO base media file start, from the first rows of their tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from fractions import Fraction
from typing import NamedTuple

from videoloader.indexing.demuxer import start_by_libavformat
from videoloader.indexing.mp4.boxes import Box, FileBox, children, iterate_boxes, read_decode_time
from videoloader.indexing.mp4.edits import Edit, leading_gap, leading_offset
from videoloader.indexing.sources.base import ByteSource
from videoloader.indexing.start_time import StreamStart

# Handlers of tracks with pictures or sound. libavformat takes all others for subtitles or data.
_MEDIA = (b"vide", b"soun")
# Number of fragments that are searched for a track's first one.
_MOST_FRAGMENTS = 8


class TrackHead(NamedTuple):
    """The facts that determine when a track begins.

    Attributes:
        track_id: number of the track.
        handler: four-character code of its kind.
        time_scale: units per second.
        edits: its edit list.
        has_samples: whether moov itself has any.
        composition: offset of the first sample, if moov has any.
        cut_to_the_sample: whether samples before the edit list's span are cut even in fragments, as libavformat does
            for AAC.
    """

    track_id: int
    handler: bytes
    time_scale: int
    edits: list[Edit]
    has_samples: bool
    composition: int
    cut_to_the_sample: bool


def first_composition(data: bytes, ctts: Box | None) -> int:
    """Return the first offset in a ``ctts`` box that applies to any sample; 0 without one."""
    if ctts is None:
        return 0
    for at in range(ctts.start + 8, ctts.stop - 7, 8):
        if int.from_bytes(data[at : at + 4], "big"):
            return int.from_bytes(data[at + 4 : at + 8], "big", signed=True)
    return 0


def track_starts(tracks: Iterable[TrackHead], source: ByteSource, moofs: list[FileBox]) -> Iterator[StreamStart]:
    """Yield the starts of tracks that have samples."""
    heads = list(tracks)
    sought = {head.track_id for head in heads if not head.has_samples}
    fragments = _first_decode_times(source, moofs, sought)
    # Whether later ones count depends on how far libavformat reads.
    has_later = len(moofs) > _MOST_FRAGMENTS and not sought <= fragments.keys()
    if has_later and (start := start_by_libavformat(source)) is not None:
        yield StreamStart(start, Fraction(1, 1_000_000))
    for head in heads:
        if head.has_samples:
            time = leading_gap(head.edits) if head.edits else head.composition
        elif head.track_id in fragments:
            offset = -leading_gap(head.edits) if head.cut_to_the_sample else leading_offset(head.edits)
            time = fragments[head.track_id] - offset
        else:
            continue
        yield StreamStart(time, Fraction(1, head.time_scale), head.handler not in _MEDIA)


def _first_decode_times(source: ByteSource, moofs: list[FileBox], tracks: set[int]) -> dict[int, int]:
    """Return the decode time at which the first fragment of each of these tracks begins."""
    found: dict[int, int] = {}
    for moof in moofs[:_MOST_FRAGMENTS]:
        if tracks <= found.keys():
            break
        data = source.read(moof.start, moof.stop - moof.start)
        for traf in iterate_boxes(data, 0, len(data)):
            boxes = children(data, traf) if traf.type == b"traf" else {}
            if b"tfhd" not in boxes or b"trun" not in boxes:
                continue
            track = int.from_bytes(data[boxes[b"tfhd"].start + 4 : boxes[b"tfhd"].start + 8], "big")
            found.setdefault(track, read_decode_time(data, boxes[b"tfdt"]) if b"tfdt" in boxes else 0)
    return found
