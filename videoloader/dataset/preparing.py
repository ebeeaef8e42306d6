"""Lets one of many processes make a file while the others wait for it."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from typing import IO, Any

from videoloader.errors import SourceError, system_reason
from videoloader.runtime.forks import after_fork

_LONGEST_PAUSE = 1.0
_WITHOUT_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_DONE = b"done"
# Seconds between rank 0's heartbeats, and seconds without any after which the others give up.
_BEAT, _LONGEST_SILENCE = 5.0, 300.0

# A child that this process forks would keep holding these locks after this process has died.
_locked: set[IO[bytes]] = set()
after_fork(lambda: [file.close() for file in _locked])

# All ranks prepare the same files in the same order, so a count identifies each file.
_calls = count()


def prepare(path: str, make: Callable[[], object]) -> None:
    """Have one process call ``make`` to write a file, unless it exists, and return when it exists.

    If ``torch.distributed`` is initialised, rank 0 makes the file first. In any case processes then take turns by a
    lock on the file ``path + ".lock"``, which is released when its holder dies: each checks whether the file exists
    now, and makes it if not. So machines that see different files under the path make one each.

    Raises:
        SourceError: rank 0 could not make it or died in the attempt, or the file system has no locks.
    """
    store, rank = _process_group()
    number = next(_calls)
    if store is None:
        return _make_in_turn(path, make)
    key = f"videoloader/prepare/{number}"
    if rank:
        _wait_for_first(store, key, path)
        return _make_in_turn(path, make)
    try:
        with _signs_of_life(store, key):
            _make_in_turn(path, make)
    except BaseException as error:
        store.set(key, f"{type(error).__name__}: {error}")
        raise
    store.set(key, _DONE)


def _process_group() -> tuple[Any, int]:
    """The key-value store that the ranks of PyTorch's process group share, and the rank; (None, 0) without a group."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None, 0
    # A barrier would give up after the group's timeout, and preparing may take hours.
    return distributed.distributed_c10d._get_default_store(), distributed.get_rank()


@contextmanager
def _signs_of_life(store: Any, key: str) -> Iterator[None]:
    """Show the other ranks that this process is alive while the context lasts."""
    ended = threading.Event()

    def beat() -> None:
        # If the store is gone, the others notice that by themselves.
        with suppress(RuntimeError):
            store.add(f"{key}/beats", 1)
            while not ended.wait(_BEAT):
                store.add(f"{key}/beats", 1)

    thread = threading.Thread(target=beat, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


def _wait_for_first(store: Any, key: str, path: str) -> None:
    pause, beats, heard = 0.01, 0, 0.0
    try:
        while not store.check([key]):
            time.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
            if (now := store.add(f"{key}/beats", 0)) != beats:
                beats, heard = now, time.monotonic()
            elif beats and time.monotonic() - heard > _LONGEST_SILENCE:
                silence = f"gave no sign of life for {_LONGEST_SILENCE:g} s"
                raise SourceError(f"rank 0, which makes this data set, {silence}", path)
        said = store.get(key)
    except RuntimeError as error:  # the process that hosts the group's store, usually rank 0, has ended
        told = str(error).partition("\n")[0]
        raise SourceError(f"the process group ended while rank 0 made this data set ({told})", path) from None
    if said != _DONE:
        raise SourceError(f"rank 0 could not make this data set ({said.decode(errors='replace')})", path)


def _make_in_turn(path: str, make: Callable[[], object]) -> None:
    if os.path.exists(path):
        return
    with _turn(path):
        if os.path.exists(path):
            return
        make()


@contextmanager
def _turn(path: str) -> Iterator[None]:
    """Hold the file's lock: only one of the processes that see this file system is in the context at a time."""
    try:
        import fcntl

        def without_waiting(name: str, flags: int) -> int:  # for the other end of a FIFO
            return os.open(name, flags | os.O_NONBLOCK, 0o666)

        # It is closed below, or with the process.
        file = open(f"{path}.lock", "ab", buffering=0, opener=without_waiting)  # noqa: SIM115
    except ImportError:
        raise SourceError("cannot be prepared by several processes: this system has no file locks", path) from None
    except (OSError, ValueError) as error:
        raise SourceError(f"cannot be prepared ({system_reason(error)})", f"{path}.lock") from None
    _locked.add(file)  # before it waits: a process that is forked meanwhile would hold the lock, too
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            hint = ": prepare it in one process before" if error.errno in _WITHOUT_LOCKS else ""
            raise SourceError(f"cannot be locked ({error.strerror}){hint}", f"{path}.lock") from None
        yield
    finally:
        _locked.remove(file)
        with suppress(OSError):  # on a network file system; nothing was written to it
            file.close()
