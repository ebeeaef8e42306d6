"""Open or replace a path only if it is a regular file: opening a FIFO would block, and a device may do anything."""

from __future__ import annotations

import errno
import io
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from secrets import token_hex
from typing import IO, Any, BinaryIO

from videoloader.errors import ConfigurationError, SourceError, system_reason
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.runtime.forks import after_fork, lead_nowhere

# What the system says of a path at which nothing is.
_NOT_THERE = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
# Opens a file without a name in a folder. Where there is no such thing, opening a folder with these flags fails.
_NAMELESS = os.O_WRONLY | (getattr(os, "O_TMPFILE", 0) if os.path.exists("/proc/self/fd") else 0)
_KINDS = {stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device"}


def open_regular(path: str, flags: int) -> int:
    """Return the descriptor of a regular file; this is an ``opener`` for ``open``.

    Raises:
        OSError: the file cannot be opened, or is no regular file.
    """
    return open_with_status(path, flags)[0]


@contextmanager
def reading(path: str | os.PathLike[str], mode: str = "r", **settings: Any) -> Iterator[IO[Any]]:
    """Open a regular file, as ``open`` does, that must not change while the block reads it.

    Raises:
        OSError: the file cannot be opened, is no regular file, or has changed.
    """
    with open(path, mode, opener=open_regular, **settings) as file:
        before = os.fstat(file.fileno())

        def check_same() -> None:
            now = os.fstat(file.fileno())
            if (now.st_size, now.st_mtime_ns) != (before.st_size, before.st_mtime_ns):
                raise OSError(errno.ESTALE, "Has changed while it was read", os.fspath(path))

        try:
            yield file
        except Exception:  # perhaps because of the change
            check_same()
            raise
        check_same()


def open_with_status(path: str, flags: int) -> tuple[int, os.stat_result]:
    """Return the descriptor of a regular file, and its status.

    Raises:
        OSError: the file cannot be opened, or is no regular file.
    """
    check_regular(path, os.stat(path))
    opened: list[int] = []
    try:
        # Something else may be at this path by now. It is opened and kept in one step, between whose parts no signal's
        # handler can raise.
        opened.extend(map(os.open, [path], [flags | os.O_NONBLOCK]))
        status = os.fstat(opened[0])
        check_regular(path, status)
        os.set_blocking(opened[0], True)  # or Python takes the moment when a slow disk has no bytes yet for the end
    except BaseException:
        for descriptor in opened:
            os.close(descriptor)
        raise
    return opened[0], status


def from_here(path: str) -> str:
    """Return a path that stays right when the current folder changes.

    It is not normalised: after a link, or what is no folder, ``..`` does not lead back to where the name came from.

    Raises:
        SourceError: the path is relative, and the current folder was deleted or cannot be told.
    """
    if os.path.isabs(path):
        return path
    try:
        return os.path.join(os.getcwd(), path)
    except FileNotFoundError as error:
        told = "relative paths mean nothing, since the current folder was deleted: give absolute paths"
        raise SourceError(told, path) from error
    except OSError as error:
        raise SourceError(f"the path of the current folder cannot be told ({system_reason(error)})", path) from error


def real_path(path: str) -> str:
    """Return the path without links and ``..``, as the system takes it. What does not exist counts as no link.

    Raises:
        SourceError: a part of the path cannot be reached.
        ValueError: no file can have this name.
    """
    path = from_here(path)
    try:
        return os.path.realpath(path, strict=True)
    except (FileNotFoundError, NotADirectoryError):
        return os.path.realpath(path)
    except OSError as error:
        raise _unreachable(path, error) from None


def is_link(path: str) -> bool:
    """Whether a path is that of a link.

    Raises:
        SourceError: the path cannot be reached.
        ValueError: no file can have this name.
    """
    status = _asked(os.lstat, path)
    return status is not None and stat.S_ISLNK(status.st_mode)


def status_at(path: str) -> os.stat_result | None:
    """Return the status of what is at a path; None if nothing is there. Links are followed.

    Functions such as ``os.path.exists`` take a failing disk or server for a path at which nothing is.

    Raises:
        SourceError: the path cannot be reached.
    """
    try:
        return _asked(os.stat, path)
    except ValueError:  # no file can have this name
        return None


def kind_at(path: str) -> int:
    """Return the kind of what is at a path, as ``stat.S_IFREG``; 0 if nothing is there; see ``status_at``."""
    status = status_at(path)
    return 0 if status is None else stat.S_IFMT(status.st_mode)


def is_folder_entry(entry: os.DirEntry[str]) -> bool:
    """Whether an entry of a folder is a folder, or a link to one. A link that leads nowhere is not.

    Raises:
        OSError: nobody can tell.
    """
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return False
        raise


def is_folder(path: str) -> bool:
    """Whether a folder is at a path; see ``status_at``."""
    return kind_at(path) == stat.S_IFDIR


def is_same_file(path: str, other: str) -> bool:
    """Whether two paths lead to one file; False if nothing is at one of them.

    Raises:
        SourceError: one of them cannot be reached.
    """
    status = status_at(path)
    of_other = status and status_at(other)
    return status is not None and of_other is not None and os.path.samestat(status, of_other)


def is_missing(path: str) -> bool:
    """Whether a file or folder does not exist. One that cannot be reached, as on a lost mount, counts as existing."""
    try:
        return not kind_at(path)
    except SourceError as error:
        raise_of_handler(error)
        return False


def _asked(ask: Callable[[str], os.stat_result], path: str) -> os.stat_result | None:
    """Return what the system says of a path; None if nothing is there."""
    try:
        return ask(path)
    except OSError as error:
        if error.errno in _NOT_THERE:
            return None
        raise _unreachable(path, error) from None


def _unreachable(path: str, error: OSError) -> SourceError:
    return SourceError(f"cannot be reached ({system_reason(error)})", path)


def check_regular(path: str, status: os.stat_result) -> None:
    """Raise OSError unless a status is that of a regular file."""
    kind = stat.S_IFMT(status.st_mode)
    if kind == stat.S_IFDIR:
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"Is {_KINDS.get(kind, 'something else')}, not a file", path)


class _Part(io.FileIO):
    """A new file that only this process writes, and none that is forked from it.

    Where the system can, the file has no name before ``give_name``, so that nothing is left of it if the process is
    killed (Linux, most local file systems).

    Args:
        path: path that the file will have.
    """

    def __init__(self, path: str) -> None:
        self._path, self._has_name = path, False
        super().__init__(path, "x", opener=self._open)
        after_fork(self._let_go)

    def _open(self, path: str, flags: int) -> int:
        opened: list[int] = []  # as in ``open_with_status``
        try:
            try:
                opened.extend(map(os.open, [os.path.dirname(path)], [_NAMELESS], [0o666]))
            except OSError as error:
                raise_of_handler(error)
                opened.extend(map(os.open, [path], [flags], [0o666]))
                self._has_name = True
        except BaseException:
            for descriptor in opened:
                os.close(descriptor)
            raise
        return opened[0]

    def give_name(self) -> None:
        """Give the file its path, unless it has it."""
        if not self._has_name:
            # With a descriptor for the folder, which an absolute path ignores, Python follows the link.
            os.link(f"/proc/self/fd/{self.fileno()}", self._path, src_dir_fd=self.fileno())

    def _let_go(self) -> None:
        if not self.closed:
            lead_nowhere(self.fileno())


@contextmanager
def replacing(path: str) -> Iterator[BinaryIO]:
    """Open a new file that replaces the one at a path, in one step, if the block ends without an error.

    Links are followed, and the permissions of a file that exists are kept.

    Raises:
        OSError: it cannot be written, what is at the path is no regular file, or no file can have this name.
        SourceError: a part of the path cannot be reached.
        ConfigurationError: the process was forked in the block, as by a signal's handler, and this is the child. What
            it writes is lost, and the parent's file is left alone.
    """
    try:
        path, mode = real_path(path), None
    except ValueError as error:
        raise OSError(errno.EINVAL, f"No file can have this name: {error}", path) from None
    with suppress(FileNotFoundError):
        status = os.stat(path)
        check_regular(path, status)
        mode = stat.S_IMODE(status.st_mode)
    part, process = f"{path}.{token_hex(4)}.part", os.getpid()
    try:
        # Never what is there: a link would lead to another file.
        with io.BufferedWriter(new := _Part(part)) as file:
            if mode is not None:
                os.fchmod(file.fileno(), mode)
            yield file
            if os.getpid() != process:
                told = "was being written when the process was forked: only the parent can go on with it"
                raise ConfigurationError(told, path)
            file.flush()
            os.fsync(file.fileno())  # or a crash of the machine may leave an empty file under the new name
            new.give_name()
            os.replace(part, path)
    except BaseException as error:
        exists = isinstance(error, FileExistsError) and part in (error.filename, error.filename2)
        if os.getpid() == process and not exists:
            with suppress(OSError):
                os.remove(part)
        raise
