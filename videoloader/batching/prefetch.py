"""Batches made ahead of the one that is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from videoloader.reading.cancellation import Stop

T = TypeVar("T")


def prefetch(
    begun: Iterable[Iterable[T]], has_room: Callable[[deque[T]], bool], give_up: Callable[[T], None], loop: Stop
) -> Generator[deque[T], None, None]:
    """Keep a queue of batches in the making, and give it out whenever its oldest batch is wanted.

    The caller takes the oldest batch off the queue once it is made. Those that are in the queue when the loop is left
    are given up.

    Args:
        begun: begins batches, some at a time, each time it is asked.
        has_room: whether more are to be begun beside those in the queue.
        give_up: ends the making of a batch.
        loop: tells whether there is anything to give up any more.

    Raises:
        ConfigurationError: the process is a fork of the one that began.
    """
    queue: deque[T] = deque()
    beginning = iter(begun)
    try:
        while True:
            while not queue or has_room(queue):
                some = next(beginning, None)
                if some is None:
                    break
                queue.extend(some)
            if not queue:
                return
            loop.check_process()
            yield queue
    finally:
        if not loop.exiting:
            for each in queue:
                give_up(each)
        queue.clear()
