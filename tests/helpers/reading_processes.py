"""Processes that make clips, which tests wait for, and reads of single clips by them or by a thread."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from waiting import becomes

from videoloader.convert.spec import Geometry, OutputSpec
from videoloader.indexing import VideoIndex, build_index, open_source
from videoloader.reading.clip_slots import ClipSlots, whole_clip
from videoloader.reading.process_pool import ProcessPool
from videoloader.reading.read_request import ReadRequest
from videoloader.runtime.device import HostMemory


class Waiting(ProcessPool):
    """Processes for which threads wait, in place of reading by themselves until they have started."""

    def take(self, clips: float = 1) -> Any:
        taken: list[Any] = [None]

        def is_taken() -> bool:
            taken[0] = taken[0] or super(Waiting, self).take(clips)
            return taken[0] is not None

        assert becomes(is_taken)
        return taken[0]


def pid_of(pool: ProcessPool) -> int:
    pool.give_back(pool.take())
    (process,) = pool._all
    return process._process.pid


def slots_for(index: VideoIndex, frames: list[int], memory: HostMemory | None = None) -> ClipSlots:
    height, width = index.stream.display_size
    slots = (memory or HostMemory(shared=True)).allocate((len(frames), 3, height, width), torch.uint8)
    return whole_clip(np.array(frames), Geometry((0, 0, height, width), (height, width)), slots.zero_())


def read(reader: Any, path: Path, frames: list[int], **settings: Any) -> torch.Tensor:
    index = build_index(open_source(str(path)))
    clip = slots_for(index, frames)
    reader.read(ReadRequest(str(path), index, [clip], settings.pop("output", OutputSpec()), **settings))
    return clip.slots
