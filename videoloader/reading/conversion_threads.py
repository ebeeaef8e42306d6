"""Convert the decoded frames of one video in several threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from concurrent.futures import Executor, Future
from functools import cache

import av

from videoloader.reading.clip_sink import ClipSink
from videoloader.runtime.cores import available_cores
from videoloader.runtime.forks import after_fork
from videoloader.runtime.threads import executor_of, wait_for_all


@cache
def conversion_threads() -> Executor:
    """Return the thread pool, with one thread for each core. Its tasks never wait for anything."""
    return executor_of(available_cores(), "videoloader-convert", lent=False)


after_fork(conversion_threads.cache_clear)


def convert_in_threads(frames: Iterable[tuple[int, av.VideoFrame]], sink: ClipSink, ahead: int) -> None:
    """Put frames into a CPU sink. Once this returns or raises, nothing more is written.

    Args:
        frames: frames with the numbers of their packets.
        sink: sink on the CPU.
        ahead: maximum number of frames that may wait for conversion.
    """
    waiting: deque[Future[None]] = deque()
    try:
        for packet, frame in frames:
            waiting.append(conversion_threads().submit(sink.write_frame, packet, frame))
            if len(waiting) > ahead:
                waiting.popleft().result()
        while waiting:
            waiting.popleft().result()
    finally:
        wait_for_all([conversion for conversion in waiting if not conversion.cancel()])
