"""Open a path only if it is a regular file: opening a FIFO would block, and a device may do anything."""

from __future__ import annotations

import errno
import os
import stat

_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def open_regular(path: str, flags: int) -> int:
    """Return the descriptor of a regular file; this is an ``opener`` for ``open``.

    Raises:
        OSError: the file cannot be opened, or is no regular file.
    """
    check_regular(path, os.stat(path))
    descriptor = os.open(path, flags | os.O_NONBLOCK)  # something else may be at this path by now
    try:
        check_regular(path, os.fstat(descriptor))
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


def check_regular(path: str, status: os.stat_result) -> None:
    """Raise OSError unless a status is that of a regular file."""
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "something else")
        raise OSError(errno.EINVAL, f"Is {kind}, not a file", path)
