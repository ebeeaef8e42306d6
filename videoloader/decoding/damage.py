"""Decode runs so that frames affected by damage come out the same, whatever else is wanted.

A decoder fills the lost part of a picture from what it has in memory: earlier pictures, and in H.264 also memory left
by pictures long gone. Pictures that refer to it inherit that without a mark. So frames that damage reaches would depend
on where decoding began, on which unwanted packets were left out, and on what the decoder did before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import av
import numpy as np

from videoloader.decoding.cpu import CpuDecoder, FrameSink
from videoloader.errors import DecodeError
from videoloader.indexing.bitstream.damage_reach import DamageReach
from videoloader.indexing.bitstream.frame_num_gaps import FrameNumGaps
from videoloader.indexing.index import VideoIndex
from videoloader.indexing.pictures import digest_of
from videoloader.packets.decode_plan import PacketBytes, Run, plan_frames, with_all_frames

Read = Callable[[Run], Iterable[PacketBytes]]

# libavcodec does not mark the pictures of these codecs that it conceals. None refers to another, so a picture that does
# not decode is itself damaged. (TIFF is not listed: its strict decoder also refuses intact files.)
_WITHOUT_MARKS = ("mjpeg",)
# After this many pictures, the decoders of these codecs know for sure how pictures end; see ``show_sound_endings``.
_PICTURES_BEFORE = {"mpeg4": 16, "h263": 16, "flv1": 16}


def lost_frame(index: VideoIndex, packet: int) -> DecodeError:
    """Return the error for a wanted packet whose picture did not come out."""
    frame = int(np.flatnonzero(index.frame_packet == packet)[0])
    fault = f"frame {frame} (packet {packet}) could not be decoded: the decoder returned no picture"
    return DecodeError(fault, index.source, packet)


def decode_run(decoder: CpuDecoder, index: VideoIndex, run: Run, read: Read, sink: FrameSink) -> tuple[int, set[int]]:
    """Decode a run on the CPU so that a frame comes out the same whatever else is wanted with it.

    A packet is suspect if libavcodec marks its picture as corrupt or refuses it when strict, or if its picture is
    wanted and does not come out. From the first one on, the wanted frames are decoded again, GOP by GOP. Frames that
    the damage does not reach are decoded from a run without the damaged packets. Frames that it reaches are decoded by
    a fresh decoder that is not strict, from one keyframe earlier, with nothing left out. So a damaged keyframe is
    concealed as in a full decode if the GOP before is sound, at a bounded cost. These frames are corrupt if a packet
    that they refer to was concealed there, too: if decoding began at an open GOP, pictures may only seem damaged.

    Args:
        decoder: decoder of this thread.
        index: index of the video.
        run: run of a plan made with this index.
        read: function that returns the packets of a run.
        sink: function called as ``sink(packet number, frame)`` for each wanted packet. If it is called several times
            for a packet, the last call counts.

    Returns:
        The number of packets decoded, counting repeats, and the wanted packets whose pictures are damaged or refer to
        damage.

    Raises:
        DecodeError: libavcodec refuses a packet that a wanted frame refers to, or a wanted frame did not come out.
        UnsupportedError: there is no decoder for the codec.
    """
    outcome = decoder.decode(index, read(run), sink, strict=True)
    fed, corrupt = outcome.fed, set[int]()
    if not outcome.suspect:
        return fed, corrupt
    first = min(outcome.suspect)
    starts = index.packet_start[run.wanted]
    for start in np.unique(starts).tolist():
        wanted = run.wanted[starts == start]
        if wanted[-1] >= first:
            gop = _DamagedGop(decoder, index, start, read, sink)
            gop.decode(set(wanted.tolist()))
            fed, corrupt = fed + gop.fed, corrupt | gop.corrupt
    return fed, corrupt


class _DamagedGop:
    """Decodes frames of one GOP, which has suspect packets."""

    def __init__(self, decoder: CpuDecoder, index: VideoIndex, start: int, read: Read, sink: FrameSink) -> None:
        self._decoder, self._index, self._start, self._read, self._sink = decoder, index, start, read, sink
        # Packets that are certainly damaged: a strict decoder refuses them, and another conceals them without a mark.
        self._surely: set[int] = set()
        # Packets before which picture numbers leap. What a decoder invents there depends on all packets before, and so
        # on whether a damaged one was refused or concealed.
        self._leaps: set[int] = set()
        self.fed = 0
        self.corrupt: set[int] = set()

    def decode(self, wanted: set[int]) -> None:
        last = int(self._plan(wanted).packets[-1])
        reach = self._reach(last)
        if within := self._decode_sound(set(wanted), reach):
            self._decode_damaged(within, reach)

    def _decode_sound(self, wanted: set[int], reach: DamageReach) -> set[int]:
        """Decode the frames that no damage reaches, and return the others."""
        within: set[int] = set()
        while wanted:
            outcome = self._decoder.decode(
                self._index, self._read(self._plan(wanted)), self._sink, strict=True, fresh=True
            )
            self.fed += outcome.fed
            if self._index.stream.codec in _WITHOUT_MARKS:
                self._surely |= outcome.refused.keys()
            suspects = outcome.suspect | (self._leaps if outcome.suspect else set())
            for packet in [*sorted(suspects - outcome.unseen), *sorted(suspects & outcome.unseen)]:
                # What is wrong with later ones may follow from this one: without it, it would not occur. So do pictures
                # that libavcodec drops beside a packet that it refuses.
                if reached := reach.of(packet) & wanted:
                    break
            else:
                return within
            within |= reached
            wanted -= reached
            if not wanted or (max(wanted) < packet and not wanted & outcome.unseen):
                return within
        return within

    def _decode_damaged(self, wanted: set[int], reach: DamageReach) -> None:
        """Decode frames that damage reaches."""
        index = self._index
        last = int(self._plan(wanted).packets[-1])
        run = with_all_frames(index, _earlier_start(index, self._start), last)

        digests: dict[int, bytes] = {}
        sees_memory = index.stream.codec == "h264"

        def put(packet: int, frame: av.VideoFrame) -> None:
            if packet in wanted:
                self._sink(packet, frame)
                if sees_memory:
                    digests[packet] = digest_of(frame)

        outcome = self._decoder.decode(index, self._read(run), put, fresh=True)
        self.fed += outcome.fed
        for packet in sorted(outcome.concealed | outcome.refused.keys() | self._surely):
            reached = reach.of(packet) & wanted if packet >= self._start else set()
            if reached and packet in outcome.refused:
                raise DecodeError(f"packet {packet} does not decode: {outcome.refused[packet]}", index.source, packet)
            self.corrupt |= reached
        if missing := sorted(outcome.missing & wanted):
            raise lost_frame(index, missing[0])
        for packet in self.corrupt & digests.keys():
            del digests[packet]
        if digests:
            self._mark_what_stood_in_memory(run, digests)

    def _mark_what_stood_in_memory(self, run: Run, digests: dict[int, bytes]) -> None:
        """Mark pictures of a run that come out differently when they are decoded into other memory.

        libavcodec's H.264 decoder silently reads memory that it has not written: motion vectors of pictures that it
        invents for missing ones, and parts of pictures that came with other parameter sets.
        """

        def compare(packet: int, frame: av.VideoFrame) -> None:
            if digests.get(packet) == digest_of(frame):
                del digests[packet]

        outcome = self._decoder.decode(self._index, self._read(run), compare, fresh=True, holds_back=True)
        self.fed += outcome.fed
        self.corrupt |= digests.keys()

    def _plan(self, wanted: set[int]) -> Run:
        """Plan the run that decodes these frames and no others."""
        index = self._index
        (run,) = plan_frames(index, np.flatnonzero(np.isin(index.frame_packet, list(wanted)))).runs
        return run

    def _reach(self, last: int) -> DamageReach:
        index = self._index
        codec, record = index.stream.codec, index.config_at(self._start)
        reach = DamageReach(codec, record)
        numbers: FrameNumGaps | None = None
        expected = self._start
        for packet in self._read(with_all_frames(index, self._start, last)):
            reach.add(packet.number, packet.data)
            if codec == "h264":
                numbers = numbers or FrameNumGaps(record)
                if packet.number != expected:
                    # The leading pictures of an open GOP are left out. Nothing after them uses what is invented there.
                    numbers.restart()
                if numbers.show_missing(packet.data):
                    self._leaps.add(packet.number)
            expected = packet.number + 1
        return reach


def _earlier_start(index: VideoIndex, start: int) -> int:
    """Return an earlier keyframe to start at; the same one if none before it is of use."""
    if index.container == "images":
        return start
    before = index.keyframe_before(start - _PICTURES_BEFORE.get(index.stream.codec, 0))
    return before if index.config_section[before] == index.config_section[start] else start
