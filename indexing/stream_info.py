"""``StreamInfo``: the facts about a video stream that are the same for all its frames."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction


@dataclass(frozen=True)
class StreamInfo:
    """Facts about the video stream that are the same for all its frames.

    Attributes:
        codec: str. libavcodec's decoder name: ``h264``, ``hevc``, ``vp9``, ``av1``, …
        codec_configs: tuple of bytes. The decoder configuration records (avcC, hvcC, av1C, …), one for each sample
            description; an empty record if the codec needs none.
        time_base: Fraction. The seconds in one timestamp unit.
        width: int. The display width before rotation, in pixels.
        height: int. The display height before rotation, in pixels.
        sample_aspect_ratio: Fraction. The width of a pixel over its height.
        rotation: int. The degrees clockwise that a player turns the picture: 0, 90, 180 or 270.
        mirrored: bool. Whether the picture is flipped left to right after that rotation.
        bit_depth: int. The bits of a sample of the coded picture, if the container states them; else 0.
        chroma: str. The chroma format of the coded picture, if the container states it; else ``""``.
        color_primaries: int. The code point of ITU-T H.273; 2 is "unspecified".
        color_transfer: int. The same for the transfer characteristics.
        color_matrix: int. The same for the matrix coefficients.
        color_range: str. ``"limited"``, ``"full"``, or ``""`` if the container does not state it.
        frame_rate: Fraction. The nominal frames per second if the container states them, else 0.
        reorder_depth: int. The number of frames that a decoder must hold back to output them in display order.
        size_varies: bool. Whether pictures are known to have several sizes, or in MPEG-2 several numbers of
            macroblocks; width and height are then those of the first.
        encrypted: bool. Whether packets are encrypted, so that they decode to noise.
        codec_tag: str. A fact that libavcodec needs to open codecs without headers of their own.
        pixel_format: str. Another such fact.
        bits_per_coded_sample: int. Another such fact.
        palettes: tuple of bytes. The palette in force with each record of ``codec_configs``, as libavformat attaches it
            to packets (1024 bytes), ``b""`` if it has none; empty if no record has one.
        container_size: (int, int). The (width, height) that the container states, if libavcodec crops H.264 pictures to
            it, or if it is not that of the first pictures and there are several configurations. The size of a picture
            of Motion JPEG whose packets have two fields. Else (0, 0).
        first_b_distance: int. The time units from its earlier reference to the first B picture of interlaced MPEG-4
            part 2, on which libavcodec lets all others depend; 65536 if they lie at uneven times, so that only a new
            decoder that begins at the start gives the right pictures; else 0.
        stream_number: int. libavformat's number of the stream in the file, counted from zero over all kinds of streams.
    """

    codec: str
    codec_configs: tuple[bytes, ...] = field(repr=False)
    time_base: Fraction
    width: int
    height: int
    sample_aspect_ratio: Fraction = Fraction(1)
    rotation: int = 0
    mirrored: bool = False
    bit_depth: int = 0
    chroma: str = ""
    color_primaries: int = 2
    color_transfer: int = 2
    color_matrix: int = 2
    color_range: str = ""
    frame_rate: Fraction = Fraction(0)
    reorder_depth: int = 0
    size_varies: bool = False
    encrypted: bool = False
    codec_tag: str = ""
    pixel_format: str = ""
    bits_per_coded_sample: int = 0
    palettes: tuple[bytes, ...] = field(default=(), repr=False)
    container_size: tuple[int, int] = (0, 0)
    first_b_distance: int = 0
    stream_number: int = 0

    @property
    def display_size(self) -> tuple[int, int]:
        """(height, width) after rotation, in pixels."""
        return (self.width, self.height) if self.rotation in (90, 270) else (self.height, self.width)


def orientation(a: int, b: int, c: int, d: int) -> tuple[int, bool]:
    """Return the degrees clockwise, and whether mirrored after that, of a display matrix.

    Args:
        a, b, c, d: a pixel at (x, y) is shown at (a x + c y, b x + d y), ISO/IEC 14496-12, 8.3.2, where y points down.
    """
    mirrored = a * d - b * c < 0
    return quarter_turns(math.degrees(math.atan2(b, -a if mirrored else a))), mirrored


def quarter_turns(degrees: float) -> int:
    """Return 0, 90, 180 or 270 for an angle; 0 if it is more than a degree away from all of them."""
    quarter = round(degrees / 90)
    return quarter * 90 % 360 if abs(degrees - quarter * 90) < 1 else 0


@dataclass(frozen=True)
class TransportLayout:
    """The layout of a video's packets in an MPEG transport stream (ISO/IEC 13818-1, 2.4.3).

    Attributes:
        pid: identifier of the transport packets that carry the video.
        stride: bytes from one transport packet to the next: 188, 192 (m2ts) or 204.
        first: byte offset of the first transport packet's sync byte.
    """

    pid: int
    stride: int
    first: int
