"""``VideoIndex``: the position of each packet, and the packet of each frame."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from fractions import Fraction
from functools import wraps
from typing import Any, Literal, TypeVar, get_args

import numpy as np

# ``np.unique`` imports it when it is first called. A fork meanwhile would leave the module locked in the child.
import numpy.ma
import numpy.typing as npt

from videoloader.errors import FrameRangeError, counted
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.errors.checks import check, check_choice
from videoloader.indexing.clock import rising_clock
from videoloader.indexing.sources.state import SourceState
from videoloader.indexing.stream_info import StreamInfo, TransportLayout
from videoloader.runtime.cached_property import cached_property

DISPOSABLE_UNKNOWN, DISPOSABLE_NO, DISPOSABLE_YES = 0, 1, 2
# Packets store the number of their configuration in a byte.
MOST_CONFIGURATIONS = 256

# What seconds are counted from: the start of the file, or zero of its own timestamps.
Times = Literal["start", "pts"]
_LARGEST_ZERO = 2**62
# Units by which times of frames computed as floats may differ from the exact ones.
_FLOAT_ERROR = 1e-5
_Array = TypeVar("_Array", bound=npt.NDArray[Any])


def _cached_array(make: Callable[[Any], _Array]) -> cached_property[_Array]:
    """Make a cached property whose array is read-only, like all arrays of an index."""

    @wraps(make)
    def read_only(index: Any) -> _Array:
        array = make(index)
        array.setflags(write=False)
        return array

    return cached_property(read_only)


@tells_of_attributes("video.index")
@dataclass(frozen=True, eq=False)
class VideoIndex:
    """The position of every packet and every frame of a video. It is immutable: its arrays are read-only.

    Packets are in decode order, frames in display order. A *frame* is what a correct player shows: edit lists are
    applied, packets that show nothing have no frame, and one packet may be shown twice.

    Attributes:
        source: str. The name of the video, for messages.
        container: str. ``"mp4"``, ``"images"``, or libavformat's name of the format.
        method: str. How the index was made: ``"tables"`` (from the container's own tables), ``"demuxed"`` (in one pass
            over the packets) or ``"decoded"`` (in one decode pass, for streams whose packets do not say which frames
            they become).
        packet_offset: int64[P]. The byte offset of each packet in the source.
        packet_size: int32[P]. The size of each packet in bytes.
        packet_pts: int64[P]. The timestamp of each packet, only for comparing display order.
        packet_key: bool[P]. Whether decoding can start at the packet.
        packet_disposable: uint8[P]. One of DISPOSABLE_UNKNOWN, DISPOSABLE_NO and DISPOSABLE_YES, by the packets' own
            headers, since containers are wrong about it too often.
        packet_config: uint8[P]. The number of the record in ``stream.codec_configs`` that is in force at the packet.
            Sets in a keyframe are in force from that keyframe on.
        frame_packet: int32[N]. The packet from which each frame is decoded.
        frame_pts: int64[N]. The presentation timestamp in ``stream.time_base`` units, as libavformat gives it. It falls
            where a stream starts anew; ``clock`` never does.
        byte_ranges: bool. Whether each packet is exactly the bytes ``[offset, offset + size)`` of the source. If not,
            packets are read by ``transport``, or come from a demuxer.
        stream: StreamInfo. The facts about the stream.
        transport: TransportLayout or None. The layout of packets that are split into transport stream packets.
            ``packet_offset`` is then the position of a packet's first byte, and ``packet_size`` counts only its own
            bytes.
        start_time: int. The start of the file's earliest stream in microseconds, as libavformat's ``start_time``; 0
            where that is unknown (elementary streams, folders of images).
        keys_from: str. What vouches for ``packet_key``: the packets' own ``"headers"``, a ``"decoder"``, or only the
            ``"container"``, which is checked when a clip is read.
        other_starts: tuple of (int, int). (packet, packet at which decoding starts for it), where this does not follow
            from the times.
        times: str. What all seconds of this index are counted from: ``"start"``, the file's start, as players count; or
            ``"pts"``, zero of the container's own timestamps. Stores do not keep it; see ``with_times``.
        state: SourceState or None. The state of the source when it was indexed, with which ``Video`` compares it; None
            where it is unknown. Stores do not keep it: they compare fingerprints.
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
    state: SourceState | None = None

    def __post_init__(self) -> None:
        for name in _ARRAYS:
            getattr(self, name).setflags(write=False)

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what cached properties have made, which is soon made again, but doubles the time of pickling."""
        return {each.name: getattr(self, each.name) for each in fields(self)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self.__post_init__()  # unpickled arrays are writeable

    def __repr__(self) -> str:
        stream, packets = self.stream, counted(len(self.packet_size), "packet")
        frames = f"{counted(len(self), 'frame')} in {packets}"
        return (
            f"VideoIndex({self.source!r}, {self.container}, {frames}, {stream.codec} {stream.width}×{stream.height}, "
            f"method={self.method!r})"
        )

    def __len__(self) -> int:
        """Return the number of frames."""
        return len(self.frame_packet)

    @_cached_array
    def timestamps(self) -> npt.NDArray[np.float64]:
        """float64[N]: the time of each frame in seconds from the file's start, by ``clock``, so that times never fall.

        With ``times="pts"`` these are the frames' own timestamps, ``frame_pts``, which fall where a stream starts anew.
        """
        base, units = self.stream.time_base, self.frame_pts if self.times == "pts" else self.clock - self.zero
        return units * base.numerator / base.denominator

    @cached_property
    def zero(self) -> int:
        """The value of ``clock`` at 0 seconds: the file's start, rounded to one unit; 0 with ``times="pts"``."""
        if self.times == "pts":
            return 0
        units = self.start_time / (1_000_000 * self.stream.time_base)
        # The start is rounded to microseconds. If the first frame's time rounds to it, the first frame is meant.
        first = int(self.clock[0]) if len(self) else 0
        near = abs(first - units) * self.stream.time_base * 1_000_000 < 1
        return first if near else min(max(round(units), -_LARGEST_ZERO), _LARGEST_ZERO)

    @_cached_array
    def clock(self) -> npt.NDArray[np.int64]:
        """int64[N]: pts that never fall, in ``stream.time_base`` units; look-ups of frames use them.

        These are ``frame_pts`` if those never fall. Where the stream starts anew (concatenated files, a clock that was
        set back), the rest is moved up, so that its first frame comes one usual duration after the frame before it. If
        only a few frames have earlier times, they get the latest time before them.
        """
        rate = self.stream.frame_rate
        return rising_clock(self.frame_pts, round(1 / (rate * self.stream.time_base)) if rate else 1)

    @cached_property
    def average_fps(self) -> float:
        """Frames per second over the whole video; the nominal rate if there is only one frame."""
        if len(self) < 2 or self.clock[-1] == self.clock[0]:
            return float(self.stream.frame_rate)
        return float((len(self) - 1) / ((self.clock[-1] - self.clock[0]) * self.stream.time_base))

    @property
    def duration(self) -> float:
        """Seconds from the first frame to the end of the last, which is taken to last as long as the average frame."""
        return len(self) / self.average_fps if self.average_fps else 0.0

    @property
    def time_rounding(self) -> int:
        """The largest rounding error expected in even steps of ``clock``: a millisecond, or one unit if that is more.

        For short steps at most a quarter of the step counts: where frames are one unit apart, two units mean a missing
        frame.
        """
        return max(1, round(0.001 / self.stream.time_base))

    @cached_property
    def is_vfr(self) -> bool:
        """Whether frame durations differ by more than the rounding of timestamps explains."""
        if len(self) < 3:
            return False
        steps = np.diff(self.clock)
        return bool(steps.max() - steps.min() > min(self.time_rounding, steps.min() // 4))

    @cached_property
    def even_times(self) -> tuple[Fraction, Fraction] | None:
        """(time of frame 0, distance of frames) in units of the clock, if its times are these, rounded; None if not.

        Matroska rounds times to milliseconds: of frames 33 1/3 of these apart, it has 0, 33, 67, 100. Nothing is known
        of frames whose times differ from even ones by more, or not at all, or whose units are longer than that.
        """
        base, times = self.stream.time_base, self.clock - self.clock[:1]
        if len(times) < 3 or not times[-1] or base > Fraction(1, 1000):
            return None
        mean = Fraction(len(times) - 1) / (int(times[-1]) * base)
        # If several rates fit a short video, the higher one does no harm.
        slowed = Fraction(round(mean * 1001 / 1000) * 1000, 1001)
        nominal = self.stream.frame_rate
        usual = [nominal] if nominal.denominator in (1, 1001) else []
        for rate in filter(None, (*usual, Fraction(round(mean)), slowed, nominal, mean)):
            step = 1 / (rate * base)
            away = times - np.arange(len(times)) * float(step)
            low, high = float(away.min()), float(away.max())
            if high - low <= 1 + _FLOAT_ERROR:
                first = Fraction(round((low + high) / 2 / _FLOAT_ERROR), round(1 / _FLOAT_ERROR))
                return (int(self.clock[0]) + first, step) if high - low > _FLOAT_ERROR else None
        return None

    @tells_of_arguments
    def frame_at(self, seconds: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the frame on screen at each time: the last one whose time is at most half a millisecond later.

        Args:
            seconds: array of seconds, any shape. They count from the file's start, as ``timestamps`` do. With
                ``times="pts"`` they are the frames' own timestamps, which continue from the frame before where a stream
                starts anew, as in ``clock``. Times before the first frame give frame 0.

        Returns:
            int64 frame numbers, in the shape of ``seconds``.

        Raises:
            ConfigurationError: a time is not a finite number.
        """
        times = np.asarray(seconds)
        # Strings of digits would be taken for numbers.
        times = times.astype(np.float64) if times.dtype.kind in "iufO" else np.full(1, np.nan)
        check("seconds", seconds, np.isfinite(times).all(), "finite numbers")
        base = float(self.stream.time_base)
        # Slack, so that a time rounded to milliseconds finds its frame; less if frames are closer together than that.
        steps = np.diff(self.clock)
        slack = min(0.00051 / base, np.min(steps, where=steps > 0, initial=2**62) / 2)
        units = times / base + slack + self.zero
        frames: npt.NDArray[np.int64] = np.searchsorted(self.clock, np.floor(units), "right") - 1
        return np.maximum(frames, 0)

    @tells_of_arguments
    def with_times(self, times: Times) -> VideoIndex:
        """Return the same index with seconds counted from another zero.

        Args:
            times: str. ``"start"`` for the file's start, or ``"pts"`` for zero of the container's own timestamps.

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
        """A checksum of the packets' sizes, which other videos of the same name are unlikely to share."""
        return zlib.crc32(self.packet_size.tobytes())

    @_cached_array
    def packet_rank(self) -> npt.NDArray[np.int64]:
        """int64[P]: the rank of each packet in the order of ``packet_pts``."""
        rank = np.empty(len(self.packet_pts), np.int64)
        rank[np.argsort(self.packet_pts, kind="stable")] = np.arange(len(rank))
        return rank

    @cached_property
    def ranks_seen_right(self) -> dict[int, int]:
        """For packets at which decoding started, the last packet up to which ``packet_rank`` was confirmed."""
        return {}

    @cached_property
    def starts_seen_right(self) -> set[int]:
        """Recovery points of H.264 that are known not to be behind a leap in picture numbers: ``is_behind_leap``."""
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

    @cached_property
    def first_keyframe(self) -> int:
        """The first packet at which decoding can start; the number of packets if there is none."""
        key = self.packet_key
        first = int(key.argmax()) if len(key) else 0
        return first if not len(key) or key[first] else len(key)

    @_cached_array
    def _gop_starts(self) -> npt.NDArray[np.int64]:
        # Packets before the first keyframe start with the first packet.
        return np.append(0, self.packet_key.nonzero()[0])

    @tells_of_arguments
    def packet_range(self, packet: int) -> tuple[int, int]:
        """Return (offset, size) of a packet in bytes."""
        return int(self.packet_offset[packet]), int(self.packet_size[packet])

    @tells_of_arguments
    def config_at(self, packet: int) -> bytes:
        """Return the configuration record with which decoding can start at a packet."""
        config: bytes = self.stream.codec_configs[self.packet_config[packet]]
        return config

    @tells_of_arguments
    def gop_of(self, packets: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return the number of each packet's GOP, in decode order; 0 is the part before the first keyframe.

        Args:
            packets: array of int. Packet numbers, any shape.
        """
        gops: npt.NDArray[np.int64] = np.searchsorted(self._gop_starts[1:], _integers("packets", packets), "right")
        return gops

    @tells_of_arguments
    def keyframe_before(self, packet: int) -> int:
        """Return the last keyframe before a packet in decode order; the first packet if there is none."""
        return int(self._gop_starts[self.gop_of(packet - 1)])

    @_cached_array
    def packet_start(self) -> npt.NDArray[np.int64]:
        """int64[P], by packet: where decoding must start for its picture; by frame it is ``start_packet(frames)``.

        It is the last keyframe at or before the packet in decode order that is not shown after the packet, except for
        ``other_starts``.
        """
        starts, gop = self._gop_starts, np.cumsum(self.packet_key)
        while (leading := (gop > 0) & (self.packet_pts[starts[gop]] > self.packet_pts)).any():
            gop = gop - leading
        found: npt.NDArray[np.int64] = starts[gop]
        for packet, start in self.other_starts:
            found[packet] = start
        return found

    @tells_of_arguments
    def needs_earlier(
        self, packets: slice | npt.NDArray[np.int64], keyframe: int | npt.NDArray[np.int64]
    ) -> npt.NDArray[np.bool_]:
        """Return whether pictures at or after a keyframe need packets before it: leading pictures of an open GOP.

        Args:
            packets: slice or array of int. Packet numbers.
            keyframe: int or array of int. The keyframe, or one for each packet.
        """
        return self.packet_start[packets] < keyframe

    @tells_of_arguments
    def start_packet(self, frames: npt.ArrayLike) -> npt.NDArray[np.int64]:
        """Return, by frame, the packet at which decoding must start; by packet it is the array ``packet_start``.

        A frame shown before its keyframe but coded after it (a leading frame of an open GOP) needs the keyframe before
        that one. If no keyframe fits, decoding starts at the first packet.

        Args:
            frames: array of int. Frame numbers, any shape.

        Returns:
            int64 packet numbers, in the shape of ``frames``.

        Raises:
            FrameRangeError: a frame number lies outside ``[0, len(self))``.
        """
        wanted = _integers("frames", frames)
        self.check_range(wanted)
        packets: npt.NDArray[np.int64] = self.packet_start[self.frame_packet[wanted]]
        return packets

    @tells_of_arguments
    def without_keyframe(self, packet: int | list[int]) -> VideoIndex:
        """Return the same index without this keyframe, or without these, which the container wrongly marks as such."""
        key = self.packet_key.copy()
        key[packet] = False
        return self.with_keyframes(key)

    def known_by_headers(self) -> VideoIndex:
        """Return the same index, marked as having its keyframes confirmed by the packets' headers."""
        # This takes a tenth of the time of dataclasses.replace, and a video is indexed in 0.2 ms. What is cached of the
        # other fields stays valid.
        index = object.__new__(VideoIndex)
        vars(index).update(vars(self), keys_from="headers")
        return index

    @tells_of_arguments
    def with_keyframes(self, key: npt.ArrayLike) -> VideoIndex:
        """Return the same index with other keyframes, bool[P], from which it follows where decoding starts."""
        keys = np.array(key, np.bool_)
        wanted = f"{len(self.packet_key)} truth values, one for each packet"
        check("key", key, keys.shape == self.packet_key.shape, wanted)
        return replace(self, packet_key=keys)

    @tells_of_arguments
    def without_first_packets(self, count: int) -> VideoIndex:
        """Return the same index without the first packets, none of which has a frame."""
        columns = {name: getattr(self, name)[count:] for name in _ARRAYS if name.startswith("packet_")}
        return replace(self, frame_packet=self.frame_packet - np.int32(count), **columns)

    @tells_of_arguments
    def check_range(self, frames: npt.ArrayLike) -> None:
        """Raise FrameRangeError unless all frame numbers are in ``[0, len(self))``."""
        numbers = _integers("frames", frames)
        if numbers.size and (numbers.min() < 0 or numbers.max() >= len(self)):
            bad = int(numbers.min() if numbers.min() < 0 else numbers.max())
            raise FrameRangeError(f"frame {bad} is outside the video's {len(self)} frames", self.source)


def _integers(name: str, given: npt.ArrayLike) -> npt.NDArray[np.integer[Any]]:
    """An array of integers of any shape. NumPy would take parts of numbers, and texts, for integers."""
    numbers = np.asarray(given)
    check(name, given, numbers.dtype.kind in "iu" or not numbers.size, "integers")
    return numbers if numbers.size else numbers.astype(np.int64)


_ARRAYS = tuple(each.name for each in fields(VideoIndex) if "NDArray" in str(each.type))
