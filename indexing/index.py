"""The index of a video: the place of each packet, and the packet of each frame."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, wraps
from typing import Any, Literal, TypeVar, get_args

import numpy as np
import numpy.typing as npt

from videoloader.errors import FrameRangeError, check_choice
from videoloader.indexing.clock import rising_clock
from videoloader.indexing.stream_info import StreamInfo, TransportLayout

DISPOSABLE_UNKNOWN, DISPOSABLE_NO, DISPOSABLE_YES = 0, 1, 2

# What seconds count from: the file's start, or zero of its own timestamps.
Times = Literal["start", "pts"]
_LARGEST_ZERO = 2**62
_Array = TypeVar("_Array", bound=npt.NDArray[Any])


def _cached_array(make: Callable[[Any], _Array]) -> cached_property[_Array]:
    """A cached property whose array cannot be written to, as all arrays of an index."""

    @wraps(make)
    def read_only(index: Any) -> _Array:
        array = make(index)
        array.setflags(write=False)
        return array

    return cached_property(read_only)


_ARRAYS = (
    "packet_offset", "packet_size", "packet_pts", "packet_key", "packet_disposable", "packet_config",
    "frame_packet", "frame_pts",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class VideoIndex:
    """The place of every packet and every frame of a video. It is immutable: its arrays cannot be written to.

    Packets are in decode order, frames in display order. A *frame* is what a correct player shows: edit lists are
    applied, packets that show nothing have no frame, and one packet may be shown twice.

    Attributes:
        source: str. The name of the video, for messages.
        container: str. ``"mp4"`` or libavformat's name of the format.
        method: str. The origin of the index: ``"tables"`` (the container's own), ``"demuxed"`` (one pass over the
            packets) or ``"decoded"`` (one decode pass, for streams whose packets do not say which frames they become).
        packet_offset: int64[P]. The byte offset in the source.
        packet_size: int32[P]. The size in bytes.
        packet_pts: int64[P]. The timestamp in the packets' own timeline, for comparing display order.
        packet_key: bool[P]. Whether decoding can start here.
        packet_disposable: uint8[P]. One of DISPOSABLE_UNKNOWN, DISPOSABLE_NO, DISPOSABLE_YES, by the packets' own
            headers. The containers' word on it is wrong too often.
        packet_config: uint8[P]. The number of the record in ``stream.codec_configs`` that is in force at the packet.
            Sets that a keyframe brings along are in force from that keyframe on.
        frame_packet: int32[N]. The packet from which each frame is decoded.
        frame_pts: int64[N]. The presentation timestamp in ``stream.time_base`` units, as libavformat gives it. It falls
            where a stream starts anew; ``clock`` never does.
        byte_ranges: bool. Whether a packet is exactly the bytes ``[offset, offset + size)`` of the source; if not,
            packets must come from a demuxer, or by ``transport``.
        stream: StreamInfo. The facts about the stream.
        transport: TransportLayout or None. The layout of packets that are cut into the packets of a transport stream;
            ``packet_offset`` is then the place of the first byte of each, and ``packet_size`` counts its own bytes
            only.
        start_time: int. The start of the file's earliest stream in microseconds, as libavformat's ``start_time``; 0
            where that is unknown (elementary streams, folders of images).
        keys_from: str. The source of ``packet_key``: the packets' own ``"headers"``, a ``"decoder"`` that was asked, or
            only the ``"container"``, whose word is checked when a clip is read.
        other_starts: tuple of (int, int). (packet, packet at which decoding starts for it), where the times do not say
            so.
        times: str. The zero of all seconds that this index takes or gives: ``"start"``, the file's start, as players
            count; or ``"pts"``, that of the container's own timestamps. Stores do not keep it; see ``with_times``.
    """

    source: str
    container: str
    method: Literal["tables", "demuxed", "decoded"]
    packet_offset: npt.NDArray[np.int64]
    packet_size: npt.NDArray[np.int32]
    packet_pts: npt.NDArray[np.int64]
    packet_key: npt.NDArray[np.bool_]
    packet_disposable: npt.NDArray[np.uint8]
    packet_config: npt.NDArray[np.uint8]
    frame_packet: npt.NDArray[np.int32]
    frame_pts: npt.NDArray[np.int64]
    byte_ranges: bool
    stream: StreamInfo
    transport: TransportLayout | None = None
    start_time: int = 0
    keys_from: Literal["headers", "decoder", "container"] = "container"
    other_starts: tuple[tuple[int, int], ...] = ()
    times: Times = "start"

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            getattr(self, name).setflags(write=False)

    def __setstate__(self, state: dict[str, Any]) -> None:
        # Arrays come out of a pickle as such that can be written to.
        for made in state.values():
            if isinstance(made, np.ndarray):
                made.setflags(write=False)
        vars(self).update(state)

    def __repr__(self) -> str:
        stream, frames = self.stream, f"{len(self)} frames in {len(self.packet_size)} packets"
        return (
            f"VideoIndex({self.source!r}, {self.container}, {frames}, {stream.codec} {stream.width}×{stream.height}, "
            f"method={self.method!r})"
        )

    def __len__(self) -> int:
        """Number of frames."""
        return len(self.frame_packet)

    @_cached_array
    def timestamps(self) -> npt.NDArray[np.float64]:
        """float64[N]: the time of each frame, in seconds from the file's start, by ``clock``: times never fall.

        With ``times="pts"`` they are the frames' own timestamps, ``frame_pts``, which fall where a stream starts anew.
        """
        base, units = self.stream.time_base, self.frame_pts if self.times == "pts" else self.clock - self.zero
        return units * base.numerator / base.denominator

    @cached_property
    def zero(self) -> int:
        """The value of ``clock`` at 0 seconds: at the file's start, to one unit; 0 with ``times="pts"``."""
        if self.times == "pts":
            return 0
        units = self.start_time / (1_000_000 * self.stream.time_base)
        # The start is rounded to microseconds. Where that is what the first frame's time is rounded to, it is meant.
        first = int(self.clock[0]) if len(self) else 0
        near = abs(first - units) * self.stream.time_base * 1_000_000 < 1
        return first if near else min(max(round(units), -_LARGEST_ZERO), _LARGEST_ZERO)

    @_cached_array
    def clock(self) -> npt.NDArray[np.int64]:
        """int64[N]: pts that never fall, in ``stream.time_base`` units; look-ups of frames use them.

        They are those of ``frame_pts`` wherever these never fall. Where the stream starts anew (files that were put one
        after the other, a clock that was set back) the rest is moved up, so that its first frame comes one usual
        duration after the frame before it. A few frames that only come late count as shown with the latest before them.
        """
        rate = self.stream.frame_rate
        return rising_clock(self.frame_pts, round(1 / (rate * self.stream.time_base)) if rate else 1)

    @cached_property
    def average_fps(self) -> float:
        """Frames a second over the whole video; the nominal rate where there is only one frame."""
        if len(self) < 2 or self.clock[-1] == self.clock[0]:
            return float(self.stream.frame_rate)
        return float((len(self) - 1) / ((self.clock[-1] - self.clock[0]) * self.stream.time_base))

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last, which is shown as long as the average frame."""
        return len(self) / self.average_fps if self.average_fps else 0.0

    @property
    def time_rounding(self) -> int:
        """The rounding error of even steps of ``clock``: a millisecond, or one unit if more.

        For short steps at most a quarter counts: where frames are a unit apart, two units are a frame that is missing.
        """
        return max(1, round(0.001 / self.stream.time_base))

    @cached_property
    def is_vfr(self) -> bool:
        """Whether frame durations differ by more than the rounding of timestamps explains."""
        if len(self) < 3:
            return False
        steps = np.diff(self.clock)
        return bool(steps.max() - steps.min() > min(self.time_rounding, steps.min() // 4))

    def frame_at(self, seconds: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The frame on screen at each time: the last whose time is not after it.

        Args:
            seconds: array of seconds, any shape. Times count as ``timestamps`` do, from the file's start. With
                ``times="pts"`` they are the frames' own timestamps; where a stream starts anew they go on from the
                frame before, as ``clock`` does. Times before the first frame give frame 0.

        Returns:
            int64, the shape of ``seconds``.
        """
        base = float(self.stream.time_base)
        # Slack, so that a time rounded to milliseconds finds its frame; less where frames are closer than that.
        steps = np.diff(self.clock)
        slack = min(0.00051 / base, np.min(steps, where=steps > 0, initial=2**62) / 2)
        units = np.asarray(seconds, np.float64) / base + slack + self.zero
        frames: npt.NDArray[np.int64] = np.searchsorted(self.clock, np.floor(units), "right") - 1
        return np.maximum(frames, 0)

    def with_times(self, times: Times) -> VideoIndex:
        """The same index with another zero of seconds.

        Args:
            times: str. ``"start"``, the file's start, or ``"pts"``, that of the container's own timestamps.

        Raises:
            ConfigurationError: ``times`` is neither.

        Examples:
            >>> raw = index.with_times("pts").timestamps
            >>> float(raw[0] - index.timestamps[0]) == index.start_time / 1e6
            True
        """
        if times == self.times:
            return self
        check_choice("times", times, get_args(Times))
        return self._with_other_times

    @cached_property
    def _with_other_times(self) -> VideoIndex:
        return replace(self, times="pts" if self.times == "start" else "start")

    @cached_property
    def content(self) -> int:
        """A number that other videos of the same name hardly have: a checksum of the packets' sizes."""
        return zlib.crc32(self.packet_size.tobytes())

    @_cached_array
    def packet_rank(self) -> npt.NDArray[np.int64]:
        """int64[P]: each packet's place in the order of ``packet_pts``."""
        rank = np.empty(len(self.packet_pts), np.int64)
        rank[np.argsort(self.packet_pts, kind="stable")] = np.arange(len(rank))
        return rank

    @cached_property
    def ranks_seen_right(self) -> dict[int, int]:
        """The last packet up to which ``packet_rank`` was seen to be right, for packets that decoding started at."""
        return {}

    @cached_property
    def starts_seen_right(self) -> set[int]:
        """Recovery points of H.264 that were seen to be behind no leap of numbers; see ``is_behind_leap``."""
        return set()

    @_cached_array
    def packet_has_frame(self) -> npt.NDArray[np.bool_]:
        """bool[P]: whether a packet's own frame is shown."""
        shown = np.zeros(len(self.packet_pts), np.bool_)
        shown[self.frame_packet] = True
        return shown

    @_cached_array
    def config_section(self) -> npt.NDArray[np.int64]:
        """int64[P]: how often the configuration record has changed up to each packet."""
        return np.cumsum(np.diff(self.packet_config, prepend=self.packet_config[:1]) != 0)

    @property
    def first_keyframe(self) -> int:
        """The first packet that decoding can start at; the number of packets if there is none."""
        keys = self._key_packets
        return int(keys[0]) if len(keys) else len(self.packet_key)

    @_cached_array
    def _key_packets(self) -> npt.NDArray[np.int64]:
        return self.packet_key.nonzero()[0]

    def packet_range(self, packet: int) -> tuple[int, int]:
        """(offset, size) of a packet, bytes."""
        return int(self.packet_offset[packet]), int(self.packet_size[packet])

    def gop_of(self, packets: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The number of the GOP of each packet, in decode order; 0 is the part before the first keyframe.

        Args:
            packets: array of int. Packet numbers, any shape.
        """
        gops: npt.NDArray[np.int64] = np.searchsorted(self._key_packets, packets, "right")
        return gops

    @_cached_array
    def packet_start(self) -> npt.NDArray[np.int64]:
        """int64[P]: the packet that decoding must start at for each packet's picture.

        It is the last keyframe at or before the packet in decode order that is not shown after it, except for
        ``other_starts``.
        """
        keys = self._key_packets
        # What comes before the first keyframe starts with the first packet.
        starts = np.append(0, keys)
        gop = np.cumsum(self.packet_key)
        while (leading := (gop > 0) & (self.packet_pts[starts[gop]] > self.packet_pts)).any():
            gop = gop - leading
        found: npt.NDArray[np.int64] = starts[gop]
        for packet, start in self.other_starts:
            found[packet] = start
        return found

    def start_packet(self, frames: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """The packet at which decoding must start to get each frame; see ``packet_start``.

        A frame shown before its keyframe but coded after it (a leading frame of an open GOP) needs the
        keyframe before that one. Where no keyframe fits, decoding starts with the first packet.

        Args:
            frames: array of int. Frame numbers, any shape.

        Returns:
            int64 packet numbers, the shape of ``frames``.

        Raises:
            FrameRangeError: a number lies outside ``[0, len(self))``.
        """
        wanted = np.asarray(frames, np.int64)
        self.check_range(wanted)
        return self.packet_start[self.frame_packet[wanted]]

    def without_keyframe(self, packet: int) -> VideoIndex:
        """The same index without this keyframe: a packet that the container calls one may not be one."""
        key = self.packet_key.copy()
        key[packet] = False
        return self.with_keyframes(key)

    def known_by_headers(self) -> VideoIndex:
        """The same index where the packets' own headers vouch for its keyframes."""
        # In a tenth of the time that dataclasses.replace takes: a video is indexed in 0.2 ms. What is kept of the
        # other fields stays true.
        index = object.__new__(VideoIndex)
        vars(index).update(vars(self), keys_from="headers")
        return index

    def with_keyframes(self, key: npt.NDArray[np.bool_]) -> VideoIndex:
        """The same index with other keyframes, bool[P]; where decoding starts follows from them."""
        return replace(self, packet_key=key)

    def without_first_packets(self, count: int) -> VideoIndex:
        """The same index without the first packets, none of which has a frame."""
        columns = {name: getattr(self, name)[count:] for name in _ARRAYS if name.startswith("packet_")}
        return replace(self, frame_packet=self.frame_packet - np.int32(count), **columns)

    def check_range(self, frames: npt.NDArray[np.int64]) -> None:
        """Raise FrameRangeError unless all frame numbers are in ``[0, len(self))``."""
        if frames.size and (frames.min() < 0 or frames.max() >= len(self)):
            bad = int(frames.min() if frames.min() < 0 else frames.max())
            raise FrameRangeError(f"frame {bad} is outside the video's {len(self)} frames", self.source)
