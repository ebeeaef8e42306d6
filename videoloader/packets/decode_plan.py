"""Plan the fewest packets that decode the wanted frames."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.errors import ArgumentError, counted
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.short_text import short_text
from videoloader.indexing.bitstream.mpeg4_headers import is_packed
from videoloader.indexing.bitstream.mpeg4_times import UNEVEN
from videoloader.indexing.index import DISPOSABLE_YES, VideoIndex

# A part of a video with fewer packets than this is not worth a decoder of its own.
LEAST_PACKETS = 64
_FIRST_PACKET = np.zeros(1, np.int64)
_FIRST_PACKET.flags.writeable = False


@dataclass(frozen=True, eq=False)
class Run:
    """Packets to decode in one go, without a seek.

    Attributes:
        packets: int64[P], packet numbers in decode order; the first is where decoding starts. If that is a keyframe,
            unwanted packets that the index knows to be disposable are already left out.
        wanted: int64[W], those of the packets whose frames are wanted.
    """

    packets: npt.NDArray[np.int64]
    wanted: npt.NDArray[np.int64]


class PacketBytes(NamedTuple):
    """One packet of a run.

    Attributes:
        number: its number in the index.
        data: its payload.
        wanted: whether its frame is wanted.
        headers: True if it contains parameter sets or sequence headers, which stay in force after it.
        place: place of its picture in display order, by the packets' own headers; see ``read_packets``.
        guessed: whether libavcodec may decode it with motion vectors of H.264 pictures that were missing and that it
            invented; see ``FrameNumGaps``.
    """

    number: int
    data: bytes | memoryview
    wanted: bool
    headers: bool = False
    place: int | None = None
    guessed: bool = False


# Makes a PacketBytes from a tuple of its fields. It runs for each packet, so it does without a Python-level call.
packet_bytes: Callable[[tuple[int, bytes | memoryview, bool, bool, int | None, bool]], PacketBytes] = partial(
    tuple.__new__, PacketBytes
)


@dataclass(frozen=True, eq=False)
class DecodePlan:
    """The packets to decode for some frames of one video.

    Attributes:
        runs: tuple of ``Run``. The runs in decode order. The decoder is reset between them.
        frames_wanted: int. The number of distinct frames that are wanted.
    """

    runs: tuple[Run, ...]
    frames_wanted: int

    def __repr__(self) -> str:
        runs, packets = counted(len(self.runs), "run"), counted(self.packets, "packet")
        return f"DecodePlan({runs}, {packets}, {counted(self.frames_wanted, 'frame')} wanted)"

    @property
    def packets(self) -> int:
        """The number of packets to read: the cost. Fewer are decoded if some turn out disposable when they are read."""
        return sum(len(run.packets) for run in self.runs)


@tells_of_arguments
def plan_frames(index: VideoIndex, frames: npt.ArrayLike) -> DecodePlan:
    """Plan the runs that decode the given frames.

    A new run begins only where the configuration changes, or if it skips more packets than the decoder holds back for
    reordering, since a reset discards those. Otherwise the run continues.

    Args:
        index: VideoIndex. The index of the video.
        frames: sequence of int. Frame numbers, in any order, repeats allowed.

    Raises:
        FrameRangeError: a frame number lies outside the video.
        ArgumentError: frames are not integers.

    Examples:
        >>> plan = plan_frames(index, [10, 14, 18, 22])
        >>> plan.packets / plan.frames_wanted  # packets decoded for each frame wanted
        5.75
    """
    frames = np.asarray(frames)
    if frames.size and frames.dtype.kind not in "iu":
        raise ArgumentError(f"frames must be integers, got {short_text(frames.tolist())}")
    if not frames.size:
        return DecodePlan((), 0)
    if len(index.packet_size) == len(index) == 1:
        # An image file is decoded in less time than the planning below takes.
        index.check_range(frames)
        return DecodePlan((Run(_FIRST_PACKET, _FIRST_PACKET),), 1)
    unique = np.unique(frames)
    start = index.start_packet(unique)
    packet = index.frame_packet[unique].astype(np.int64)
    order = np.lexsort((packet, start))
    start, packet = start[order], packet[order]
    stop = np.maximum.accumulate(packet + 1)
    if index.method == "decoded":
        stop = _stop_after_rest(index, stop)
    skipped = start[1:] - stop[:-1]
    section = index.config_section[start]
    breaks = np.flatnonzero((skipped > index.stream.reorder_depth) | (section[1:] != section[:-1])) + 1
    bounds = [0, *breaks.tolist(), len(unique)]
    return DecodePlan(
        tuple(
            _run(index, int(start[first]), int(stop[last - 1]), packet[first:last]) for first, last in pairwise(bounds)
        ),
        len(unique),
    )


def split_at_keyframes(index: VideoIndex, frames: npt.ArrayLike) -> list[npt.NDArray[np.int64]]:
    """Divide the frames into parts that can be decoded in parallel.

    No packet is decoded in two parts, except those between a keyframe and the leading frames after it.

    Args:
        index: index of the video.
        frames: frame numbers, any order, repeats allowed.

    Returns:
        Arrays of frame numbers without repeats; only one if the packets must be demuxed from the start of the file
        anyway.

    Raises:
        FrameRangeError: a frame number lies outside the video.
    """
    unique = np.unique(np.asarray(frames, np.int64))
    start = index.start_packet(unique)
    if not len(unique) or not (index.byte_ranges or index.transport):
        return [unique] if len(unique) else []
    order = np.argsort(start, kind="stable")
    unique, start = unique[order], start[order]
    first = np.append(0, np.flatnonzero(np.diff(start)) + 1)
    cost = np.maximum.reduceat(index.frame_packet[unique], first) - start[first] + 1
    # A GOP goes to the part that its first packet falls into, counting the packets of all GOPs.
    before = np.cumsum(cost) - cost
    part = before // LEAST_PACKETS
    return np.split(unique, first[1:][np.diff(part) > 0])


def gops_in_common(index: VideoIndex, clips: Sequence[npt.NDArray[np.int64]]) -> list[list[int]]:
    """Group the clips of one video so that clips that need the same GOP are in one group.

    Args:
        index: index of the video.
        clips: int64 frame numbers of each clip.

    Returns:
        Groups of clip numbers; each clip is in one group.

    Raises:
        FrameRangeError: a frame number lies outside the video.
    """
    groups: list[tuple[set[int], list[int]]] = []
    for number, frames in enumerate(clips):
        starts, members = set(index.start_packet(frames).tolist()), [number]
        apart = []
        for group in groups:
            if starts.isdisjoint(group[0]):
                apart.append(group)
            else:
                starts, members = starts | group[0], group[1] + members
        groups = [*apart, (starts, members)]
    return [members for _, members in groups]


def _stop_after_rest(index: VideoIndex, stop: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Move stops past the following packets that have no frame of their own, and past one more packet.

    In streams that could only be indexed by decoding, a frame may need the packet after its own: the second field of an
    interlaced picture, or the packet that carries the other half of two frames packed together.
    """
    with_frame = np.append(np.unique(index.frame_packet), len(index.packet_size))
    following: npt.NDArray[np.int64] = with_frame[np.searchsorted(with_frame, stop)]
    return np.minimum(following + 1, len(index.packet_size))


def _run(index: VideoIndex, start: int, stop: int, wanted: npt.NDArray[np.int64]) -> Run:
    wanted = np.unique(wanted)
    if start < index.first_keyframe:
        return Run(np.arange(start, stop), wanted)
    needed = index.packet_disposable[start:stop] != DISPOSABLE_YES
    if index.stream.first_b_distance not in (0, UNEVEN) and not is_packed(index.config_at(start)):
        # Pictures of times before the keyframe's refer to one before it, whose time the decoder does not know.
        needed[index.packet_pts[start:stop] < index.packet_pts[start]] = False
    needed[0] = True
    needed[wanted - start] = True
    return Run(start + np.flatnonzero(needed), wanted)


def with_all_frames(index: VideoIndex, first: int, last: int) -> Run:
    """Return the run of all packets from first to last, which wants all frames that come out of it."""
    packets = np.arange(first, last + 1)
    wanted = ~index.needs_earlier(packets, first) & index.packet_has_frame[packets]
    return Run(packets, packets[wanted])
