"""A file that one process of many makes and all others wait for, whoever started them."""

from __future__ import annotations

import errno
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from glob import escape, glob
from itertools import count
from typing import IO, Any

from videoloader.errors import SourceError
from videoloader.indexing.forks import after_fork

_LONGEST_PAUSE = 1.0
_WITHOUT_LOCKS = {errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP}
_DONE = b"done"
# Seconds between the signs of life of rank 0, and those without any after which the others give up.
_BEAT, _LONGEST_SILENCE = 5.0, 300.0

# A child that this process forks would go on holding their locks when this process has died.
_locked: set[IO[bytes]] = set()
after_fork(lambda: [file.close() for file in _locked])

# All ranks prepare the same files in the same order, so this tells one from the next.
_calls = count()


def prepare(path: str, make: Callable[[], object]) -> None:
    """Have one process call ``make``, which writes a file, unless it is there; return when it is.

    With an initialised ``torch.distributed`` rank 0 makes it first. Then, and without it, processes take turns by a
    lock on the file ``path + ".lock"``, which ends with the process that holds it: the next one looks whether the
    file is there now, and makes it if not. So machines that see different files under the path make one each.

    Raises:
        SourceError: rank 0 could not make it, or died over it, or the file system has no locks.
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
    """The store that the ranks of PyTorch's process group share, and the rank; (None, 0) where there is no group."""
    distributed: Any = sys.modules.get("torch.distributed")
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None, 0
    # Not a barrier: that would give up after the group's time-out, and preparing may take hours.
    return distributed.distributed_c10d._get_default_store(), distributed.get_rank()


@contextmanager
def _signs_of_life(store: Any, key: str) -> Iterator[None]:
    """While the context lasts the other ranks can see that this process lives, whatever it does."""
    ended = threading.Event()

    def beat() -> None:
        # Where the store is gone, the others know that by themselves.
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
                raise SourceError(f"rank 0, which prepares it, gave no sign of life for {_LONGEST_SILENCE:g} s", path)
        said = store.get(key)
    except RuntimeError as error:  # the process that keeps the group's store has ended, mostly rank 0
        told = str(error).partition("\n")[0]
        raise SourceError(f"the process group ended while rank 0 prepared it ({told})", path) from None
    if said != _DONE:
        raise SourceError(f"rank 0 could not prepare it ({said.decode(errors='replace')})", path)


def _make_in_turn(path: str, make: Callable[[], object]) -> None:
    if os.path.exists(path):
        return
    with _turn(path):
        if os.path.exists(path):
            return
        for left in glob(f"{escape(path)}.*.part"):  # of a process that ended while it wrote
            with suppress(OSError):
                os.remove(left)
        make()


@contextmanager
def _turn(path: str) -> Iterator[None]:
    """While the context lasts no other process is in it, of those that see the same file system."""
    try:
        import fcntl

        file = open(f"{path}.lock", "ab", buffering=0)  # noqa: SIM115  # closed below, or with the process
    except ImportError:
        raise SourceError("cannot be prepared by several processes: this system has no file locks", path) from None
    except OSError as error:
        raise SourceError(f"cannot be prepared ({error.strerror})", f"{path}.lock") from None
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX)
        except OSError as error:
            hint = ": prepare it in one process before" if error.errno in _WITHOUT_LOCKS else ""
            raise SourceError(f"cannot be locked ({error.strerror}){hint}", f"{path}.lock") from None
        _locked.add(file)
        try:
            yield
        finally:
            _locked.remove(file)
