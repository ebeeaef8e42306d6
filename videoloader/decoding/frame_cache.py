"""Decoded pictures kept on the GPU for later clips of the same GOPs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import torch

from videoloader.convert.surface import CudaSurface
from videoloader.indexing.forks import after_fork
from videoloader.indexing.index import VideoIndex


class _Kept(NamedTuple):
    surface: CudaSurface
    memory: torch.Tensor
    ready: torch.cuda.Event


class FrameCache:
    """Pictures of the GOPs used last, as decoded, within a budget. Threads may share it.

    It pays where clips come again and again from the same few GOPs: long videos sampled often. A run is then
    decoded with all its frames, also those that no clip wants yet.

    Args:
        budget: bytes of GPU memory.
    """

    def __init__(self, budget: int) -> None:
        self._budget, self._bytes = budget, 0
        self._gops: OrderedDict[tuple[str, int], dict[int, _Kept]] = OrderedDict()
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()

    def find(self, index: VideoIndex, packets: Iterable[int], stream: torch.cuda.Stream) -> dict[int, CudaSurface]:
        """The pictures that are there, by packet; what is put on the stream from now on may read them."""
        wanted = np.array(sorted(packets), np.int64)
        found: dict[int, CudaSurface] = {}
        with self._lock:
            for gop, packet in zip(index.gop_of(wanted).tolist(), wanted.tolist(), strict=True):
                kept = self._gops.get((index.source, gop), {}).get(packet)
                if kept is None:
                    continue
                self._gops.move_to_end((index.source, gop))
                stream.wait_event(kept.ready)
                # The memory may leave the cache while the stream still reads it.
                kept.memory.record_stream(stream)
                found[packet] = kept.surface
        return found

    def add(self, index: VideoIndex, pictures: dict[int, CudaSurface], stream: torch.cuda.Stream) -> None:
        """Keep copies of pictures, made on a stream by ``copy_surface``; the GOPs used least recently make room."""
        packets = np.array(list(pictures), np.int64)
        ready = stream.record_event()
        with self._lock:
            for gop, packet in zip(index.gop_of(packets).tolist(), pictures, strict=True):
                surface = pictures[packet]
                memory = surface.owner
                assert isinstance(memory, torch.Tensor), "copy_surface makes these"
                of_gop = self._gops.setdefault((index.source, gop), {})
                self._gops.move_to_end((index.source, gop))
                if packet not in of_gop:
                    of_gop[packet] = _Kept(surface, memory, ready)
                    self._bytes += memory.nbytes
            while self._bytes > self._budget:
                _, oldest = self._gops.popitem(last=False)
                self._bytes -= sum(kept.memory.nbytes for kept in oldest.values())
