"""Read files behind URLs in ranges, fetching no more than needed, and small reads in few requests."""

from __future__ import annotations

import asyncio
import os
import re
import threading
import time
import weakref
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from ipaddress import IPv6Address
from typing import TYPE_CHECKING, Any, TypeVar

from videoloader.errors import ConfigurationError, SourceError, StaleIndexError, needs
from videoloader.indexing.sources.base import SourceBase
from videoloader.indexing.sources.patience import GaveUpError, ReadCancelled, ask, patience, run_in
from videoloader.indexing.sources.read_ahead import ReadAhead
from videoloader.indexing.sources.remote_reads import RemoteReads, count_read
from videoloader.indexing.sources.state import SourceState, require_same
from videoloader.indexing.sources.versions import forget_listings, is_mark
from videoloader.runtime.forks import after_fork

if TYPE_CHECKING:
    from fsspec import AbstractFileSystem

T = TypeVar("T")

# The host of a URL, if it is an IPv6 address: "http://user@[fe80::1]:80/".
_IPV6_HOST = re.compile(r"(?<=://)([^/\[\]]*@)?\[([0-9a-f:.]+)(?=[%\]])", re.IGNORECASE)


def without_colons(url: str) -> str:
    """Return a URL, or a chain of them, with IPv6 addresses written in full: fsspec splits URLs at all "::"."""

    def in_full(host: re.Match[str]) -> str:
        try:
            return f"{host[1] or ''}[{IPv6Address(host[2]).exploded}"
        except ValueError:  # no address
            return host[0]

    return _IPV6_HOST.sub(in_full, url)


@dataclass(frozen=True)
class _Facts:
    """Facts about the file behind a URL. Not every answer gives the version."""

    size: int
    version: str | None


@dataclass(frozen=True, eq=False)
class _Connection:
    """The objects of one process: fsspec's event loop and all locks end at a fork."""

    pid: int
    filesystem: AbstractFileSystem
    path: str
    ahead: ReadAhead


# File systems that are not asynchronous may have one connection for all their files.
_lock_of: weakref.WeakKeyDictionary[AbstractFileSystem, threading.Lock] = weakref.WeakKeyDictionary()
after_fork(lambda: _lock_of.clear())


class RemoteSource(SourceBase):
    """A file behind any URL that fsspec supports: ``https://``, ``s3://``, ``gs://``, ``memory://``, ….

    Opening it makes no request. Small reads are answered from windows that grow while reading continues; large ones and
    ``read_ranges`` fetch exactly what they are asked for, several ranges at a time.

    If a server is busy (HTTP status 429, 503 and the like) or breaks connections, the request is repeated, after the
    pause that the server asks for or one that doubles each time. If the data does not arrive in time, the error says
    how often it was requested. This holds for all asynchronous file systems of fsspec, which include HTTP and the
    clouds; others wait in their own way.

    Args:
        url: str. The URL of the file.
        retries: int, default the environment variable ``VIDEOLOADER_RETRIES``, or 4. The number of tries after the
            first.
        timeout: float, default the environment variable ``VIDEOLOADER_TIMEOUT``, or 60. The seconds for all tries of
            one read, plus one for each 64 KiB requested. A try ends after half of them without a byte.
        options: keyword arguments of fsspec's file system, such as credentials. fsspec's own configuration is used,
            too.

    Attributes:
        has_changed: whether the server was found to have another version than the one read first.

    Raises:
        ConfigurationError: fsspec, or the package it needs for this kind of URL, is not installed; or ``retries`` or
            ``timeout`` is not valid.
        SourceError: there is no such kind of URL.

    Examples:
        >>> video = Video(RemoteSource("s3://bucket/clip.mp4", timeout=20, anon=True))
    """

    # At 100 Mb/s, this many bytes take as long as a round trip of 20 ms.
    read_through = 256 << 10

    def __init__(self, url: str, *, retries: int | None = None, timeout: float | None = None, **options: Any) -> None:
        self.name = url
        self.options = options
        self._given: dict[str, Any] = {"retries": retries, "timeout": timeout}
        self._patience = patience(retries, timeout)
        self.has_changed = False
        self._facts: _Facts | None = None
        self._connection = self._connect()

    def _connect(self) -> _Connection:
        with needs("reading URLs needs fsspec: pip install 'videoloader[remote]'", self.name):
            from fsspec.core import url_to_fs
        try:
            filesystem, path = url_to_fs(without_colons(self.name), **self.options)
        except ImportError as error:
            needed = "pip install 'videoloader[remote]', and the package for this kind of URL"
            raise ConfigurationError(f"{needed} ({error})", self.name) from None
        except Exception as error:  # each file system raises errors of its own
            raise SourceError(f"cannot be opened ({_reason(error)})", self.name) from error
        # Servers and messages are to name the host as it was given.
        return _Connection(os.getpid(), filesystem, self.name if _is_http(filesystem) else path, ReadAhead())

    def _connected(self) -> _Connection:
        if self._connection.pid != os.getpid():
            self._connection = self._connect()
        return self._connection

    @property
    def size(self) -> int:
        return self._known_facts().size

    @property
    def fingerprint(self) -> str:
        return _fingerprint(self._known_facts())

    @property
    def state(self) -> SourceState | None:
        return None if self._facts is None else SourceState(_fingerprint(self._facts))

    def check_unchanged(self, known: SourceState | None = None) -> None:
        connection = self._connected()
        # Every answer over HTTP gives the version of its bytes, which was checked when it arrived.
        if not _is_http(connection.filesystem):
            self._learn(self._ask_for_facts(connection))
        if (state := self.state) is not None:
            require_same(known, state, self.name)

    def ask_again(self) -> None:
        """Ask the server for the version of a file of which something was read.

        Raises:
            StaleIndexError: it is another one than that which was read.
            SourceError: the answer does not tell.
        """
        connection = self._connected()
        if self._facts is not None and _is_http(connection.filesystem):
            self._fetch_ranges([(0, 1)])
        elif self._facts is not None:
            self._learn(self._ask_for_facts(connection))

    def read(self, offset: int, size: int) -> bytes:
        return self._connected().ahead.read(offset, size, self._fetch) if size > 0 else b""

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        ahead = self._connected().ahead
        found = [ahead.kept(*each) for each in zip(offsets, sizes, strict=True)]
        ranges = ((start, start + size) for start, size in zip(offsets, sizes, strict=True))
        missing = [each for each, data in zip(ranges, found, strict=True) if data is None]
        fetched = iter(self._fetch_ranges(missing) if missing else ())
        return [next(fetched) if data is None else data for data in found]

    def exists(self) -> bool:
        """Whether the file exists, which takes a request.

        Raises:
            SourceError: the answer does not tell.
        """
        try:
            self._known_facts()
        except SourceError as error:
            if isinstance(error.__cause__, FileNotFoundError):
                return False
            raise
        return True

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), self.name, **self._given, **self.options), (), {"_facts": self._facts}

    def beside(self, url: str) -> RemoteSource:
        """Return a source for another file of the same server, with the same options."""
        return RemoteSource(url, **self._given, **self.options)

    def _known_facts(self) -> _Facts:
        if self._facts is None:
            connection = self._connected()
            if _is_http(connection.filesystem):
                connection.ahead.read(0, 1, self._fetch)  # the answer to any range tells
            else:
                self._learn(self._ask_for_facts(connection))
        assert self._facts is not None
        return self._facts

    def _ask_for_facts(self, connection: _Connection) -> _Facts:
        filesystem, path = connection.filesystem, connection.path
        # The Hugging Face Hub tells the version of a single file only if it is asked for more.
        more = {"expand_info": True} if type(filesystem).__name__ == "HfFileSystem" else {}
        try:
            with _turn_at(filesystem):
                forget_listings(filesystem, path)
                info = None if _is_asynchronous(filesystem) else filesystem.info(path, **more)
            if info is None:
                info = self._run(filesystem, lambda: filesystem._info(path), "the size", 0)
            size, kind = info.get("size"), str(info.get("type"))
            size = int(size) if isinstance(size, int) else -1
            marks = sorted((str(key), str(value)) for key, value in info.items() if is_mark(key))
        except ReadCancelled:
            raise
        except (Exception, asyncio.CancelledError) as error:
            raise SourceError(f"cannot be opened ({_reason(error)})", self.name) from error
        if kind == "directory":
            raise SourceError("cannot be opened (Is a directory)", self.name)
        if size < 0:
            raise SourceError("cannot be read: the server does not state its size", self.name)
        return _Facts(size, repr(marks))

    def _learn(self, facts: _Facts) -> None:
        if facts.size == 0:
            raise SourceError("is empty", self.name)
        known = self._facts or facts
        self._facts = known
        if known.size != facts.size:
            self._refuse(f"{known.size} bytes, now {facts.size}")
        if facts.version is not None and known.version != facts.version:
            self._refuse(f"version {known.version or 'not told'}, now {facts.version or 'not told'}")

    def _refuse(self, difference: str) -> None:
        self.has_changed = True
        raise StaleIndexError(f"has changed while it was read: {difference}", self.name)

    def _fetch(self, offset: int, size: int) -> bytes:
        if not _is_http(self._connected().filesystem):
            self._known_facts()  # reading ahead must not go beyond the end
        return self._fetch_ranges([(offset, offset + size)])[0]

    def _fetch_ranges(self, ranges: list[tuple[int, int]]) -> list[bytes]:
        connection = self._connected()
        if self._facts is not None:
            end = self._facts.size
            ranges = [(min(start, end), min(stop, end)) for start, stop in ranges]
        there = [(start, stop) for start, stop in ranges if start < stop]
        if not there:
            return [b""] * len(ranges)
        begin, came = time.perf_counter(), 0
        try:
            data = dict(zip(there, map(_as_bytes, self._request(connection, there)), strict=True))
            came = sum(map(len, data.values()))
        except (SourceError, ReadCancelled):
            raise
        except (Exception, asyncio.CancelledError) as error:  # each file system raises errors of its own
            if not _is_http(connection.filesystem) and not _passes(
                error if error.__cause__ is None else error.__cause__
            ):
                known = self._facts
                self._learn(self._ask_for_facts(connection))  # raises an error if the file is shorter than before
                if known is None:  # do not request anything beyond the end
                    return self._fetch_ranges(ranges)
            raise SourceError(f"cannot be read at byte {there[0][0]} ({_reason(error)})", self.name) from error
        finally:
            count_read(RemoteReads(len(there), came, time.perf_counter() - begin))
        for (start, stop), piece in data.items():
            if len(piece) != stop - start and len(piece) != max(min(stop, self.size) - start, 0):
                self.check_unchanged()
                raise SourceError(f"of the bytes {start} to {stop} the server sent {len(piece)}", self.name)
        return [data.get(each, b"") for each in ranges]

    def _request(self, connection: _Connection, ranges: list[tuple[int, int]]) -> list[bytes]:
        filesystem, path = connection.filesystem, connection.path
        if _is_http(filesystem):
            return self._request_http(connection, ranges)
        starts, stops = [start for start, _ in ranges], [stop for _, stop in ranges]
        if _is_asynchronous(filesystem):
            what = f"bytes {starts[0]} to {stops[0]}" + (
                f" and {len(ranges) - 1} ranges more" if len(ranges) > 1 else ""
            )
            some: list[bytes] = self._run(
                filesystem,
                lambda: _cat_ranges(filesystem, [path] * len(ranges), starts, stops),
                what,
                sum(stops) - sum(starts),
            )
            return some
        if filesystem.async_impl:
            pieces: list[bytes] = filesystem.cat_ranges([path] * len(ranges), starts, stops, on_error="raise")
            return pieces
        with _turn_at(filesystem):
            return [_read_synchronously(filesystem, path, *each) for each in ranges]

    def _request_http(self, connection: _Connection, ranges: list[tuple[int, int]]) -> list[bytes]:
        from videoloader.indexing.sources.http_ranges import BeyondEndError, get_ranges

        filesystem, known = connection.filesystem, self._facts
        try:
            replies = run_in(filesystem.loop, get_ranges(filesystem, connection.path, ranges, self._patience))
        except BeyondEndError as end:
            if end.size == 0 or (end.size is not None and known is not None):
                self._learn(_Facts(end.size, None))  # raises an error: the file is empty, or shorter than before
            self._request_http(connection, [(0, 1)])  # its answer gives the size
            if known is not None:
                raise OSError("HTTP status 416: the server refuses a range inside the file") from None
            return self._fetch_ranges(ranges)
        for reply in replies:
            self._learn(_Facts(reply.size, reply.version))
        return [reply.data for reply in replies]

    def _run(self, filesystem: AbstractFileSystem, work: Callable[[], Awaitable[T]], what: str, size: int) -> T:
        """Run an asynchronous file system's work and return its result. It also retries by its own rules."""
        until = time.monotonic() + self._patience.seconds(size)
        protocol = filesystem.protocol
        whom = protocol if isinstance(protocol, str) else protocol[0]
        asking = ask(work, self._patience, until, passes=_passes, why=_reason, whom=whom, what=what)
        return run_in(filesystem.loop, asking)


async def _cat_ranges(
    filesystem: AbstractFileSystem, paths: list[str], starts: list[int], stops: list[int]
) -> list[bytes]:
    """The ranges. fsspec 2024.9 puts errors among them, whatever it is asked to do."""
    pieces: list[bytes] = []
    for piece in await filesystem._cat_ranges(paths, starts, stops, on_error="raise"):
        if isinstance(piece, Exception):
            raise piece
        pieces.append(piece)
    return pieces


def _passes(error: BaseException) -> bool:
    return isinstance(error, ConnectionError | TimeoutError | asyncio.TimeoutError)


def _is_asynchronous(filesystem: AbstractFileSystem) -> bool:
    from fsspec.asyn import AsyncFileSystem

    return isinstance(filesystem, AsyncFileSystem)


def _fingerprint(facts: _Facts) -> str:
    return f"{facts.size}-{blake2b((facts.version or '').encode(errors='surrogateescape'), digest_size=16).hexdigest()}"


def _turn_at(filesystem: AbstractFileSystem) -> AbstractContextManager[Any]:
    return nullcontext() if filesystem.async_impl else _lock_of.setdefault(filesystem, threading.Lock())


def _is_http(filesystem: AbstractFileSystem) -> bool:
    return type(filesystem).__name__ == "HTTPFileSystem"


def _read_synchronously(filesystem: AbstractFileSystem, path: str, start: int, stop: int) -> bytes:
    from fsspec import AbstractFileSystem
    from fsspec.caching import BaseCache
    from fsspec.spec import AbstractBufferedFile

    if type(filesystem).cat_file is not AbstractFileSystem.cat_file:
        data: bytes = filesystem.cat_file(path, start, stop)
        return data
    with filesystem.open(path, "rb") as file:
        if isinstance(file, AbstractBufferedFile):
            # Its own cache would fetch megabytes for a few bytes.
            file.cache = BaseCache(file.blocksize, file._fetch_range, file.size)
        file.seek(start)
        data = file.read(stop - start)
        return data


def _as_bytes(answer: Any) -> bytes:
    """Return what a file system gives for a range, which may be a ``bytearray`` or ``memoryview``."""
    return answer if type(answer) is bytes else memoryview(answer).tobytes()


def _reason(error: BaseException) -> str:
    if isinstance(error, GaveUpError):
        return str(error)
    if type(error) is asyncio.TimeoutError:
        return "no complete answer in time"
    try:
        text = str(error)
    except Exception:  # of a class of a user's file system
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
