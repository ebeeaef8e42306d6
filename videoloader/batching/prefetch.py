"""Keeps a queue of batches in the making ahead of the consumer, and yields them in order.

The queue is long enough for ``CLIPS_AHEAD`` clips for each decoding thread, but has at least two batches. Where all
batches have the same size, that is a number of batches (``how_far_ahead``); else the clips are counted
(``has_room_for_clips``). Files for a GPU's JPEG engines are prepared by processes, with ``FILES_AHEAD`` for each.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import takewhile
from typing import Generic, Protocol, TypeVar

from videoloader.batching.account import LoaderAccount
from videoloader.batching.image_rows import FILES_OF_JOB
from videoloader.batching.stats import LoaderStats
from videoloader.errors import VideoLoaderError, what_the_system_lacks
from videoloader.errors.checks import check_positive_or_none
from videoloader.order.shuffle import InOrder, Order, ShuffleVideos
from videoloader.reading.cancellation import CancelToken

# The default look-ahead, in clips for each decoding thread.
CLIPS_AHEAD = 2
# Files in the making for each process that prepares them for a GPU's engines: with half as many, processes and engines
# run out of lists while the consumer waits for the slowest list of a batch.
FILES_AHEAD = 4 * FILES_OF_JOB
# The least number of batches in the default look-ahead.
_LEAST_AHEAD = 2


class InMaking(Protocol):
    """A batch in the making."""

    def is_made(self) -> bool:
        """Whether the batch is finished."""
        ...

    def drop(self) -> None:
        """Cancel the jobs that have not begun, and wait for the others."""
        ...


T = TypeVar("T", bound=InMaking)
Given = TypeVar("Given")


def how_far_ahead(
    threads: int, batch_size: int, order: Order, prefetch: int | None, clips_ahead: int = CLIPS_AHEAD
) -> tuple[int, int]:
    """(number of batches in the making while one is used, the most batches planned at once).

    Args:
        threads: the number of decoding threads.
        batch_size: clips in a batch.
        order: the order of the clips. Where neighbours share GOPs, up to half of the batches are planned at once.
        prefetch: the first number, if the user gave it.
        clips_ahead: clips in the making for each thread.

    Raises:
        ConfigurationError: ``prefetch`` is not positive.
    """
    check_positive_or_none(prefetch=prefetch)
    if not threads:
        return 0, 1
    enough = max(_LEAST_AHEAD, -(-clips_ahead * threads // batch_size))
    if not isinstance(order, InOrder | ShuffleVideos):
        return prefetch or enough, 1
    ahead = prefetch or 2 * enough - 1
    return ahead, (ahead + 1) // 2  # while one half is planned, the other is in the making


class BatchGroups(Generic[T]):
    """Iterator that begins the batches of one loop, a group at a time; for ``give_out``.

    Args:
        groups: the numbers of the batches that are planned at once, group after group.
        begin: begins the batches of a group.
        ahead: the number of batches in the making while one is used.
    """

    def __init__(self, groups: Iterator[range], begin: Callable[[range], list[T]], ahead: int) -> None:
        self._groups, self._begin, self._ahead = groups, begin, ahead
        self._following = next(groups, None)

    def has_room(self, pending: Sequence[T]) -> bool:
        """Whether there is room for the next group beside the batches in the making."""
        return self._following is not None and len(pending) + len(self._following) <= self._ahead + 1

    def __iter__(self) -> Iterator[list[T]]:
        return self

    def __next__(self) -> list[T]:
        if self._following is None:
            raise StopIteration
        group, self._following = self._following, next(self._groups, None)
        return self._begin(group)


def has_room_for_clips(clips: Sequence[int], threads: int) -> bool:
    """Whether to begin another batch by default, if batches differ in size.

    Args:
        clips: the number of clips in each batch in the making, including the one that is waited for.
        threads: the number of decoding threads.
    """
    enough = CLIPS_AHEAD * threads
    return len(clips) <= _LEAST_AHEAD or (sum(clips) < enough and len(clips) < enough)


def give_out(
    begun: Iterable[Iterable[T]],
    has_room: Callable[[deque[T]], bool],
    finish: Callable[[deque[T]], list[Given]],
    set_pace: Callable[[int, int], None],
    account: LoaderAccount,
    token: CancelToken,
) -> Iterator[Given]:
    """Yield the batches of one loop over a loader, each as soon as it is made, and keep others in the making.

    Batches still in the making when the loop is left are dropped.

    Args:
        begun: iterator, each step of which begins some batches and yields them.
        has_room: says from the queue of batches in the making whether to begin more.
        finish: takes the oldest batch off the queue, waits for it, and returns it in a list, which is empty if none of
            its clips is left.
        set_pace: is told how many batches are ready, of how many; see ``DecodeWorkers.set_pace``. Batches planned
            together also finish together, so none counts as ready before the loop has taken as many batches as there
            are without waiting.
        account: the loader's account, which records the time that the loop takes and waits.
        token: the loop's token, which is cancelled when the loop ends, when another loop begins, or when the loader is
            closed. It knows whether the loop's threads still exist, and in which process it was begun.

    Raises:
        ConfigurationError: another loop has begun, the loader is closed, or the process is a fork of the one that began
            the loop.
        NoMemoryError: a thread of the library gets no memory.
    """
    queue: deque[T] = deque()
    beginning = iter(begun)
    since = asked = time.perf_counter()
    unwaited = 0
    with account:
        try:
            while True:
                try:
                    token.raise_if_forked()
                    ready = sum(1 for _ in takewhile(lambda each: each.is_made(), queue))
                    unwaited = unwaited + 1 if ready else 0
                    in_making = len(queue) + 1  # with the one that is begun next
                    # This comes first, so that the next batches are planned after the quiet time that it may begin.
                    set_pace(ready if unwaited > in_making else 0, in_making)
                    while not queue or has_room(queue):
                        try:
                            # A variable would keep a batch that is made at once alive while it is used.
                            queue.extend(next(beginning))
                        except StopIteration:
                            break
                    if not queue:
                        return
                    finished = finish(queue)
                except Exception as error:
                    # Another thread may have ended the loop, and with it the threads that make batches.
                    token.raise_if_ended()
                    if not isinstance(error, VideoLoaderError) and (lack := what_the_system_lacks(error)):
                        raise lack from error
                    raise
                now = time.perf_counter()
                account.add(LoaderStats(seconds=now - since, waiting=now - asked))
                since = now
                if finished:
                    # The batch is popped as it is yielded, so that this frame keeps no reference to it.
                    yield finished.pop()
                asked = time.perf_counter()
                token.raise_if_ended()
        finally:
            token.cancel()  # also cancels batches that a Ctrl-C kept out of the queue
            # A frame mode may leave the loop, or Python's garbage collector, which runs in any thread.
            if not token.threads_gone and not token.in_own_thread():
                for each in queue:
                    each.drop()
            token.leave_to_parent(list(queue))
            queue.clear()
