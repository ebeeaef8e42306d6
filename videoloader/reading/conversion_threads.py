"""Threads that convert the decoded frames of one video side by side."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache

import av

from videoloader.device import available_cores
from videoloader.indexing.forks import after_fork
from videoloader.reading.clip_sink import ClipSink


@cache
def conversion_threads() -> ThreadPoolExecutor:
    """The threads, one for each core. What is done in them waits for nothing."""
    return ThreadPoolExecutor(available_cores(), "videoloader-convert")


after_fork(conversion_threads.cache_clear)


def convert_in_threads(frames: Iterable[tuple[int, av.VideoFrame]], sink: ClipSink, ahead: int) -> None:
    """Put frames into a sink for the CPU. When this returns or raises, nothing is written any more.

    Args:
        frames: frames with the numbers of their packets.
        sink: sink for the CPU.
        ahead: most frames that may wait.
    """
    waiting: deque[Future[None]] = deque()
    try:
        for packet, frame in frames:
            waiting.append(conversion_threads().submit(sink.put_frame, packet, frame))
            if len(waiting) > ahead:
                waiting.popleft().result()
        while waiting:
            waiting.popleft().result()
    finally:
        wait([conversion for conversion in waiting if not conversion.cancel()])
