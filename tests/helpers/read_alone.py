"""Decode one frame by itself, as a read of this frame does."""

from __future__ import annotations

from functools import partial

from truth import hash_of

from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.damage import decode_run
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets


def read_alone(source: ByteSource, index: VideoIndex, frame: int, decoder: CpuDecoder) -> tuple[bytes, bool, int]:
    """(hash of a frame, whether it is called damaged, packets decoded for it)."""
    (run,) = plan_frames(index, [frame]).runs
    found = {}
    fed, corrupt = decode_run(
        decoder,
        index,
        run,
        partial(read_packets, source, index),
        lambda packet, picture: found.update({packet: hash_of(picture)}),
    )
    ((packet, hashed),) = found.items()
    return hashed, packet in corrupt, fed
