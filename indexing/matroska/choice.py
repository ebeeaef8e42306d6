"""Choose among several video tracks the one that libavformat's av_find_best_stream takes."""

from __future__ import annotations

from fractions import Fraction

from videoloader.indexing.libav import best_video_stream
from videoloader.indexing.matroska.blocks import Packets, Walk, read_packets
from videoloader.indexing.matroska.headers import ATTACHMENTS, Headers
from videoloader.indexing.matroska.tracks import NANOSECONDS, VIDEO, Track
from videoloader.indexing.sources import ByteSource, StreamSource
from videoloader.indexing.start_time import StreamStart, earliest_start

# Types of tracks whose blocks libavformat uses: video, audio, subtitles, metadata.
_TAKEN_TYPES = (1, 2, 0x11, 0x21)
# Types of tracks whose times determine the start of a file: video and audio.
_MEDIA_TYPES = (1, 2)
# Each candidate costs a walk through the file.
_MOST_CANDIDATES = 8


def read_best_track(source: ByteSource, headers: Headers) -> tuple[Track, Walk] | None:
    """Return the track that libavformat takes for the video, and the walk for its packets; None if it takes another.

    For a ``StreamSource`` this is the track that it names. Otherwise libavformat first compares the tracks' flags.
    Among equals it takes the one with more frames in the part of the file that it has read, and among these the first.
    Only libavformat knows how much it has read, so it is asked where that matters.

    Raises:
        MalformedError: as in ``read_packets``.
    """
    numbers = {track.number for track in headers.tracks}
    candidates = _best_by_flags(headers.tracks)
    if isinstance(source, StreamSource):
        candidates = headers.tracks[source.stream_index :][:1]
    unusual = len(numbers) < len(headers.tracks) or any(track.type not in _TAKEN_TYPES for track in headers.tracks)
    if unusual or not any(track.codec for track in candidates) or len(candidates) > _MOST_CANDIDATES:
        return None
    timed = {track.number for track in headers.tracks if track.type in _MEDIA_TYPES}
    walks = [read_packets(source, headers, track, timed - {track.number}) for track in candidates]
    # A picture among the attachments is also a video stream, and never a default one.
    has_picture = headers.has_attachments or ATTACHMENTS in walks[0].elements
    if (candidates[0].is_default or not has_picture) and _first_has_most_frames([walk.packets for walk in walks]):
        return candidates[0], walks[0]
    taken = headers.tracks[best_video_stream(source) :][:1]
    return next(((track, walk) for track, walk in zip(candidates, walks, strict=True) if track in taken), None)


def _best_by_flags(tracks: list[Track]) -> list[Track]:
    ranks = [(track.is_default + (not track.is_impaired), track) for track in tracks if track.type == VIDEO]
    best = max((rank for rank, _ in ranks), default=0)
    return [track for rank, track in ranks if rank == best]


def _first_has_most_frames(tracks: list[Packets]) -> bool:
    """Whether at any position in the file, no other track has more frames before it than the first."""
    first = tracks[0].offset
    return all(
        len(other.offset) <= len(first) and bool((first[: len(other.offset)] < other.offset).all())
        for other in tracks[1:]
    )


def start_of(headers: Headers, taken: Track, walk: Walk) -> int:
    """Return when the earliest track begins, in microseconds."""
    base = Fraction(headers.time_scale, NANOSECONDS)
    first = int(walk.packets.pts[0]) - taken.delay_in(base)
    starts = [
        StreamStart(walk.first_times[track.number], base, track.type not in _MEDIA_TYPES)
        for track in headers.tracks
        if track.number in walk.first_times
    ]
    return earliest_start([StreamStart(first, base), *starts])
