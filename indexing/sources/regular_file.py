"""Open or replace a path only if it is a regular file: opening a FIFO would block, and a device may do anything."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import BinaryIO

# What the system says of a path at which nothing is.
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def open_regular(path: str, flags: int) -> int:
    """Return the descriptor of a regular file; this is an ``opener`` for ``open``.

    Raises:
        OSError: the file cannot be opened, or is no regular file.
    """
    return open_with_status(path, flags)[0]


def open_with_status(path: str, flags: int) -> tuple[int, os.stat_result]:
    """Return the descriptor of a regular file, and its status.

    Raises:
        OSError: the file cannot be opened, or is no regular file.
    """
    check_regular(path, os.stat(path))
    descriptor = os.open(path, flags | os.O_NONBLOCK)  # something else may be at this path by now
    try:
        status = os.fstat(descriptor)
        check_regular(path, status)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor, status


def from_here(path: str) -> str:
    """Return a path that stays right when the current folder changes.

    It is not normalised: after a link, or what is no folder, ``..`` does not lead back to where the name came from.

    Raises:
        FileNotFoundError: the path is relative, and the current folder was deleted.
    """
    return path if os.path.isabs(path) else os.path.join(os.getcwd(), path)


def is_missing(path: str) -> bool:
    """Whether a file or folder does not exist. One that cannot be reached, as on a lost mount, counts as existing."""
    try:
        os.stat(path)
    except OSError as error:
        return error.errno in _NOT_THERE
    except ValueError:  # no file can have this name
        return True
    return False


def check_regular(path: str, status: os.stat_result) -> None:
    """Raise OSError unless a status is that of a regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"Is {_KINDS.get(kind, 'something else')}, not a file", path)


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a new file that replaces the one at a path, in one step, if the block ends without an error.

    Links are followed, and the permissions of a file that exists are kept.

    Raises:
        OSError: it cannot be written, or what is at the path is no regular file.
        ValueError: no file can have this name.
    """
    path, mode = os.path.realpath(path), None
    with suppress(FileNotFoundError):
        status = os.stat(path)
        check_regular(path, status)
        mode = stat.S_IMODE(status.st_mode)
    part = f"{path}.{token_hex(4)}.part"
    with open(part, "xb") as file:  # never what is there: a link would lead to another file
        try:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            file.flush()
            os.fsync(file.fileno())  # or a crash of the machine may leave an empty file under the new name
            os.replace(part, path)
        except BaseException:
            with suppress(OSError):
                os.remove(part)
            raise
