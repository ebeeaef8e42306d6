"""Batches made ahead of the one that is used."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterable
from typing import TypeVar

from videoloader.reading.cancellation import CancelToken

T = TypeVar("T")


def batches_ahead(
    begun: Iterable[Iterable[T]], has_room: Callable[[deque[T]], bool], give_up: Callable[[T], None], token: CancelToken
) -> Generator[deque[T], None, None]:
    """Keep a queue of batches in the making, and give it out whenever its oldest batch is wanted.

    The caller takes the oldest batch off the queue once it is made. Those that are in the queue when the loop is left
    are given up.

    Args:
        begun: each ``next`` of it begins some batches and gives them.
        has_room: called with the queue; whether more batches are to be begun.
        give_up: cancels what is not yet begun of one batch and waits for its threads.
        token: the loop's. It is cancelled when the loop ends. It knows whether its threads still exist, and in which
            process it was begun.

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
            token.raise_if_forked()
            yield queue
    finally:
        token.cancel()  # also of batches that a Ctrl-C kept from the queue
        if not token.threads_gone:
            for each in queue:
                give_up(each)
        queue.clear()
