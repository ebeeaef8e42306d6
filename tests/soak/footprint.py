"""What a process holds while it goes on and on, and whether that grows."""

from __future__ import annotations

import ctypes
import gc
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

# The heap is trimmed before it is measured, but fragments remain; a session of NVDEC, made when it is first needed,
# has up to 95 MB at 1080p, and three open files. The pool has one more or less of them, as its memory allows. A
# connection to a server stays open for 15 seconds without a request; as reads happen to meet, there are some more or
# fewer.
TOLERANCES = {"host MB": 24.0, "GPU MB": 100.0, "files": 8.0, "threads": 2.0, "heap MB": 24.0}
# As many threads as fetch from servers for one loader. How many of them there are depends on how slow the server is,
# and idle ones end after a minute.
_FETCHING = 16


class Footprint(NamedTuple):
    """What the process holds after so many clips or batches; memory in MB.

    Attributes:
        done: how many.
        host: resident memory, once the heap is trimmed.
        gpu: memory of the GPU.
        files, threads: how many; of the threads that fetch, only those that are more than one loader may have.
        heap: what is in use of the C library's heaps. What lies free in them has gone back to the system, as ``host``
            shows, but for the parts of pages.
    """

    done: int
    host: float
    gpu: float
    files: int
    threads: int
    heap: float = 0

    def __str__(self) -> str:
        return f"{self.done:7} {self.host:9.1f} {self.gpu:9.1f} {self.files:6} {self.threads:8} {self.heap:9.1f}"


class _Heaps(ctypes.Structure):
    """``struct mallinfo2`` of glibc 2.33 and later, over all heaps."""

    _names = ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")
    _fields_ = tuple((name, ctypes.c_size_t) for name in _names)


def _in_use() -> float:
    """MB that are in use of the heaps, by the allocator's own numbers; 0 where it has none."""
    tell = getattr(ctypes.CDLL(None), "mallinfo2", None)
    if tell is None:
        return 0
    tell.restype = _Heaps
    used: int = tell().uordblks
    return used / 1e6


def header(what: str) -> str:
    """The line above printed footprints; ``what`` is done."""
    return f"{what:>7}   host MB    GPU MB  files  threads   heap MB"


def footprint(done: int, device: torch.device) -> Footprint:
    """What the process holds now. Of the GPU it is what all processes hold: let no other one run there."""
    gc.collect()
    used = _in_use()
    ctypes.CDLL(None).malloc_trim(0)  # what glibc keeps of freed memory says nothing
    if device.type == "cuda":
        torch.cuda.empty_cache()  # nor does what PyTorch keeps,
        torch._C._host_emptyCache()  # of pinned memory, too
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    free, total = torch.cuda.mem_get_info(device) if device.type == "cuda" else (0, 0)
    files, threads = len(os.listdir("/proc/self/fd")), threading.enumerate()
    fetching = sum(each.name == "videoloader-fetch" for each in threads)
    counted = len(threads) - min(fetching, _FETCHING)
    return Footprint(done, resident / 1e6, (total - free) / 1e6, files, counted, used)


class Growth(NamedTuple):
    """How far something rose, and how far it may."""

    rise: float
    most: float


def growth(curve: Sequence[Footprint], warm_up: int) -> dict[str, Growth]:
    """By how much the medians rise from the first to the last fifth of the curve after the warm-up.

    They may rise by ``TOLERANCES``, or by as much as the rows of the first fifth differ. What grows steadily rises by
    four times that.
    """
    after = np.array([row[1:] for row in curve if row.done >= warm_up], np.float64)
    if len(after) < 5:
        return {name: Growth(0.0, most) for name, most in TOLERANCES.items()}
    first, last = after[: len(after) // 5], after[-(len(after) // 5) :]
    rises, spreads = np.median(last, 0) - np.median(first, 0), np.ptp(first, 0)
    return {
        name: Growth(float(rise), max(most, float(spread)))
        for (name, most), rise, spread in zip(TOLERANCES.items(), rises, spreads, strict=True)
    }


def leaks(growths: dict[str, Growth]) -> list[str]:
    """What grows by more than it may."""
    return [name for name, found in growths.items() if found.rise > found.most]


def told(growths: dict[str, Growth]) -> str:
    """Each growth, with the most that it may be."""
    return ", ".join(f"{name} {found.rise:+.1f} (at most {found.most:+.0f})" for name, found in growths.items())
