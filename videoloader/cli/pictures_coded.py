"""Shows how the pictures of a video are coded, with one letter for each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import av
import numpy as np
import numpy.typing as npt

from videoloader.errors import VideoLoaderError
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.bitstream.disposable import is_disposable
from videoloader.indexing.bitstream.references import new_tracker

if TYPE_CHECKING:
    from videoloader.packets.decode_plan import PacketBytes, Run

_HIDDEN, _UNKNOWN = "-", "?"
# By number in libavutil's AVPictureType: none, I, P, B, S (GMC), SI, SP, BI.
_LETTERS = "?IPBSIPB"


class CodedPictures(NamedTuple):
    """The first pictures of a video.

    Attributes:
        letters: one letter for each picture: I, P or B (or another of libavcodec's), lower case if it is disposable,
            ``-`` for a packet that shows no frame, ``?`` if no picture was decoded; with ``|`` before keyframes.
        error: why decoding ended early; empty if it did not.
    """

    letters: str
    error: str = ""


def coded_pictures(source: ByteSource, index: VideoIndex, count: int, by_decode_order: bool) -> CodedPictures:
    """The types of a video's first pictures, as libavcodec reports them.

    Args:
        source: the video.
        index: its index.
        count: the most letters, including bars.
        by_decode_order: whether to use decode order instead of display order.
    """
    packets = np.arange(len(index.packet_size)) if by_decode_order else index.frame_packet.astype(np.int64)
    packets = packets[:count]
    kinds, disposable = dict[int, str](), set[int]()
    error = _decode(source, index, np.flatnonzero(np.isin(index.frame_packet, packets)), kinds, disposable)
    letters = ""
    for packet in packets.tolist():
        letter = kinds.get(packet, _UNKNOWN) if index.packet_has_frame[packet] else _HIDDEN
        letter = letter.lower() if packet in disposable else letter
        letters += f"|{letter}" if index.packet_key[packet] else letter
    return CodedPictures(letters[:count], error)


def _decode(
    source: ByteSource, index: VideoIndex, frames: npt.NDArray[np.int64], kinds: dict[int, str], disposable: set[int]
) -> str:
    """Decode frames, and record their picture types.

    Args:
        source, index, frames: the frames of a video.
        kinds: gets the letter of each decoded picture, by packet.
        disposable: gets the packets that no other packet refers to, according to their headers.

    Returns:
        What ended decoding early, or an empty text.
    """
    from videoloader.decoding.cpu import CpuDecoder
    from videoloader.decoding.damage import decode_run
    from videoloader.packets.decode_plan import plan_frames
    from videoloader.packets.read_packets import read_packets
    from videoloader.packets.run_start import WrongIndexError

    def read(run: Run) -> Iterator[PacketBytes]:
        """Yield the packets of a run, and read their headers on the way to the decoder."""
        codec, config = index.stream.codec, index.config_at(run.packets[0])
        tracker = new_tracker(codec, config)
        passed, needed = set[int](), set[int]()
        for packet in read_packets(source, index, run):
            if is_disposable(codec, config, packet.data):
                disposable.add(packet.number)
            if tracker is not None:
                try:
                    needed |= tracker.read(packet.number, packet.data)
                    passed.add(packet.number)
                except ValueError:
                    tracker = None
            yield packet
        if tracker is not None:
            disposable.update(passed - needed - tracker.held())

    def take(packet: int, frame: av.VideoFrame) -> None:
        kinds[packet] = _LETTERS[int(frame.pict_type)]

    decoder = CpuDecoder()
    try:
        while True:
            try:
                for run in plan_frames(index, frames).runs:
                    decode_run(decoder, index, run, read, take)
                return ""
            except WrongIndexError as found:
                index = found.index
    except VideoLoaderError as error:
        return error.message
