"""``ReadRequest``: clips of one video to make, and how."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from videoloader.convert.spec import OutputSpec
from videoloader.decoding.gop_cache import GopCache
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.packets.decode_plan import DecodePlan
from videoloader.reading.clip_slots import ClipSlots


@dataclass(frozen=True, eq=False)
class ReadRequest:
    """Clips of one video to make, and how.

    Attributes:
        source: source of the video, or its path.
        index: index of the video. The source must have its ``state``, or if that is None, the state of its opening.
        clips: the frames wanted. On a CUDA device nothing else may use their slots' memory at the same time.
        output: the pixel values wanted.
        plan: decode plan of these frames by this index; None if it is not made yet.
        cache: cache of decoded frames on the GPU, for later clips; None to keep none.
        threads: maximum number of threads that decode and convert on the CPU. More than one pays off only where few
            clips are read at a time.
    """

    source: ByteSource | str
    index: VideoIndex
    clips: Sequence[ClipSlots]
    output: OutputSpec
    plan: DecodePlan | None = None
    cache: GopCache | None = None
    threads: int = 1
