"""Runs whose first keyframe is damaged: what conceals the damage comes from the frames before it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import av
import numpy as np

from videoloader.decoding.cpu import CpuDecoder, Sink
from videoloader.errors import DecodeError
from videoloader.indexing.index import VideoIndex
from videoloader.packets import PacketBytes
from videoloader.planning import Run, with_all_frames


class _DamagedStartError(Exception):
    """The frame of the keyframe that a run starts with is damaged, and there is an earlier start."""

    def __init__(self, earlier: Run) -> None:
        self.earlier = earlier


def decode_run(
    decoder: CpuDecoder, index: VideoIndex, run: Run, read: Callable[[Run], Iterable[PacketBytes]], sink: Sink
) -> int:
    """Decode a run on the CPU, from one keyframe earlier if the one it starts with is damaged.

    A decoder fills what is lost of a picture from the pictures before it, and whatever refers to that picture takes
    this over without a mark. So after a seek to a damaged keyframe other frames come out than in a full decode; after
    a seek to the keyframe before the same ones, unless that is damaged too. (Not always in H.264, whose decoder also
    conceals with what stands in memory from pictures long gone.) No more than one is gone back: a video in which all
    are damaged costs a bounded number of packets more. Where a packet in between does not decode at all, it stays with
    the damaged keyframe.

    Args:
        decoder: of this thread.
        index: of the video.
        run: from a plan made with this index.
        read: gives the packets of a run.
        sink: called as ``sink(packet number, frame)`` for each wanted packet, in display order; the last call for a
            packet is the one that counts.

    Returns:
        Packets fed to the decoder, from where the frames were decoded in the end.

    Raises:
        DecodeError: libavcodec refuses a packet before all wanted frames came out.
        UnsupportedError: there is no decoder for the codec.
    """
    start, wanted = int(run.packets[0]), set(run.wanted.tolist())

    def put(packet: int, frame: av.VideoFrame) -> None:
        if packet == start and frame.is_corrupt and (earlier := _from_keyframe_before(index, run)):
            raise _DamagedStartError(earlier)
        put_wanted(packet, frame)

    def put_wanted(packet: int, frame: av.VideoFrame) -> None:
        if packet in wanted:
            sink(packet, frame)

    try:
        with_start = run if start in wanted else Run(run.packets, np.union1d(start, run.wanted))
        return decoder.decode(index, read(with_start), put)
    except _DamagedStartError as damaged:
        try:
            return decoder.decode(index, read(damaged.earlier), put_wanted)
        except DecodeError:
            # A full decode would end there; what comes after a seek is all there is, its first frame marked as damaged.
            return decoder.decode(index, read(run), put_wanted)


def _from_keyframe_before(index: VideoIndex, run: Run) -> Run | None:
    """The run and all packets from the keyframe before its first one on; None if nothing before is of use."""
    start = run.packets[0]
    possible = index.packet_key[:start] & (index.packet_pts[:start] <= index.packet_pts[start])
    possible[:1] = True
    possible &= index.config_section[:start] == index.config_section[start]
    starts = np.flatnonzero(possible)
    return with_all_frames(index, Run(np.append(starts[-1:], run.packets), run.wanted)) if len(starts) else None
