"""``PictureFormat``: the facts about a stream's pictures that its codec's own headers tell."""

from __future__ import annotations

from fractions import Fraction
from typing import NamedTuple


class PictureFormat(NamedTuple):
    """The pictures that a decoder makes of a stream.

    Attributes:
        width, height: size of the decoder's output pictures (cropped) in pixels.
        chroma: ``"400"``, ``"420"``, ``"422"`` or ``"444"``.
        bit_depth: bits of luma and chroma.
        color_matrix: ITU-T H.273 code point; 2 is "unspecified".
        full_range: whether samples use the full range; None if the header does not tell.
        buffering: numbers of pictures that the stream may make a decoder hold, by each number in its headers about it:
            for H.264 reference frames, limit of the level, stated limit; for HEVC stated limit, limit of the level.
        color_primaries, color_transfer: ITU-T H.273 code points; 2 is "unspecified".
        sample_aspect_ratio: width of a pixel over its height; 1 if the header does not tell.
        field_flag_at: H.264: bits between pic_parameter_set_id and field_pic_flag in slice headers; -1 if all pictures
            are frames.
        coded_size: (width, height) before cropping, if the headers tell; else (0, 0).
        cut_off: pixels (left, top) that are cropped on these sides.
        reordered: maximum number of pictures that a decoder holds back to output them in order, by H.264 and HEVC
            headers; None if they do not tell.
        frame_rate: frames per second by MPEG-2's header; 0 if the header does not tell.
        chroma_site: ChromaLocType of ITU-T H.273, for 4:2:0; 0 (left) if the header does not tell.
    """

    width: int
    height: int
    chroma: str
    bit_depth: int
    color_matrix: int = 2
    full_range: bool | None = None
    buffering: tuple[int, ...] = ()
    color_primaries: int = 2
    color_transfer: int = 2
    sample_aspect_ratio: Fraction = Fraction(1)
    field_flag_at: int = -1
    coded_size: tuple[int, int] = (0, 0)
    cut_off: tuple[int, int] = (0, 0)
    reordered: int | None = None
    frame_rate: Fraction = Fraction(0)
    chroma_site: int = 0

    @property
    def frames_only(self) -> bool:
        """Whether no picture is coded as two fields, which may be in separate packets (H.264)."""
        return self.field_flag_at < 0
