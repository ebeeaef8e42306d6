"""Keep decoded pictures on the GPU for later clips of the same GOPs."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.surface import CudaSurface
from videoloader.indexing.index import VideoIndex
from videoloader.runtime.forks import after_fork


class _Gop(NamedTuple):
    """A GOP of a video, and the configurations by which it was decoded, which a corrected index may replace."""

    source: str
    number: int
    configurations: tuple[bytes, ...]


class _Kept(NamedTuple):
    surface: CudaSurface
    memory: torch.Tensor
    ready: torch.cuda.Event


class GopCache:
    """Decoded pictures of the GOPs used last, within a memory budget. Threads may share it.

    It pays off when clips come from the same few GOPs again and again, as in long videos sampled often. Runs are then
    decoded with all their frames, even those that no clip wants yet.

    Args:
        budget: bytes of GPU memory.
    """

    def __init__(self, budget: int) -> None:
        self._budget, self._bytes = budget, 0
        self._gops: OrderedDict[_Gop, dict[int, _Kept]] = OrderedDict()
        self._start()
        after_fork(self._start)

    def _start(self) -> None:
        self._lock = threading.Lock()

    def find(self, index: VideoIndex, packets: Iterable[int], stream: torch.cuda.Stream) -> dict[int, CudaSurface]:
        """Return the cached pictures by packet. Work put on the stream from now on may read them."""
        wanted = np.array(sorted(packets), np.int64)
        found: dict[int, CudaSurface] = {}
        with self._lock:
            for gop, packet in zip(_gops_of(index, wanted), wanted.tolist(), strict=True):
                kept = self._gops.get(gop, {}).get(packet)
                if kept is None:
                    continue
                self._gops.move_to_end(gop)
                stream.wait_event(kept.ready)
                # The cache may drop the memory while the stream still reads it.
                kept.memory.record_stream(stream)
                found[packet] = kept.surface
        return found

    def add(self, index: VideoIndex, pictures: dict[int, CudaSurface], stream: torch.cuda.Stream) -> None:
        """Keep copies of pictures that ``copy_surface`` made on a stream. The GOPs used least recently make room."""
        packets = np.array(list(pictures), np.int64)
        ready = stream.record_event()
        with self._lock:
            for gop, packet in zip(_gops_of(index, packets), pictures, strict=True):
                surface = pictures[packet]
                memory = surface.owner
                assert isinstance(memory, torch.Tensor), "copy_surface makes these"
                of_gop = self._gops.setdefault(gop, {})
                self._gops.move_to_end(gop)
                if packet not in of_gop:
                    of_gop[packet] = _Kept(surface, memory, ready)
                    self._bytes += memory.nbytes
            while self._bytes > self._budget:
                _, oldest = self._gops.popitem(last=False)
                self._bytes -= sum(kept.memory.nbytes for kept in oldest.values())


def _gops_of(index: VideoIndex, packets: npt.NDArray[np.int64]) -> list[_Gop]:
    """Return the GOP of each packet."""
    configurations = index.stream.codec_configs
    if len(configurations) > 1:
        configurations += (index.packet_config.tobytes(),)
    return [_Gop(index.source, number, configurations) for number in index.gop_of(packets).tolist()]
