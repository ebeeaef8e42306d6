"""Ranges of a file on a web server (RFC 9110, 14), taken for nothing but what was asked for.

fsspec's own reads believe any answer: a server that knows no ranges would send the whole file each time, and hand over
its start as if it were its middle.
"""

from __future__ import annotations

import asyncio
import re
import time
from email.utils import mktime_tz, parsedate_tz
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import urlsplit

from aiohttp import ClientConnectionError, ClientPayloadError, ClientSSLError, ClientTimeout, ServerTimeoutError

from videoloader.indexing.sources.patience import BusyError, Patience, ask

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from fsspec.implementations.http import HTTPFileSystem

# Of one source. Browsers are content with six; most servers take more.
_AT_ONCE = 16
# What a server says that others keep busy, or that it or what stands before it fails for now.
_BUSY = {408, 425, 429, 500, 502, 503, 504}
# Letters of the words of others in a message.
_LONGEST_WORDS = 300
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")


class BeyondEndError(EOFError):
    """A range begins at or after the end of the file; ``size`` is the file's, None where the server does not tell."""

    def __init__(self, size: int | None) -> None:
        super().__init__("the file ends before")
        self.size = size


class RangeReply(NamedTuple):
    """A server's reply: the bytes, the size of the whole file, and what marks this version of it."""

    data: bytes
    size: int
    version: str


async def get_ranges(
    filesystem: HTTPFileSystem, url: str, ranges: list[tuple[int, int]], patience: Patience
) -> list[RangeReply]:
    """The ranges ``[start, stop)`` of a URL, several at a time; each fewer bytes only where the file ends.

    Each is asked for anew where the server is busy or a connection breaks. The first that fails ends all.

    Raises:
        BeyondEndError: a range has no byte at all.
        FileNotFoundError: there is no such file.
        GaveUpError: the server does not answer, refuses, or sends something else than the range.
    """
    free = asyncio.Semaphore(_AT_ONCE)
    until = time.monotonic() + patience.seconds(sum(stop - start for start, stop in ranges))

    async def get(start: int, stop: int) -> RangeReply:
        data = bytearray()
        async with free:
            return await ask(
                lambda: _get_range(filesystem, url, start, stop, patience, data),
                patience,
                until,
                passes=_passes,
                why=lambda error: _in_words(error, patience, len(data), stop - start),
                whom=urlsplit(url).netloc.rpartition("@")[2],
                what=f"bytes {start} to {stop}",
            )

    tasks = [asyncio.ensure_future(get(*each)) for each in ranges]
    try:
        return list(await asyncio.gather(*tasks))
    finally:
        for task in tasks:
            task.cancel()


def _passes(error: Exception) -> bool:
    """Whether another try may end otherwise: not where a certificate is wrong or the answer is another one."""
    broken = (ClientConnectionError, ClientPayloadError, ConnectionError, asyncio.TimeoutError)
    return isinstance(error, broken) and not isinstance(error, ClientSSLError)


def _in_words(error: Exception, patience: Patience, came: int, wanted: int) -> str:
    if isinstance(error, ServerTimeoutError):
        return f"no byte came for {patience.silence:g} s"
    if isinstance(error, asyncio.TimeoutError):
        return f"{came} of {wanted} bytes came in the time that there is"
    # Errors of our own speak for themselves.
    if type(error) in (OSError, BusyError):
        return str(error)
    # Those of broken answers quote all bytes that came.
    words = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {words[:_LONGEST_WORDS]}".rstrip(": ")


def _rest(response: ClientResponse) -> float:
    """Seconds that a server wants to be left alone (RFC 9110, 10.2.3)."""
    told = response.headers.get("Retry-After", "").strip()
    if re.fullmatch(r"[0-9]{1,9}", told):
        return float(told)
    try:
        date = parsedate_tz(told)
        return max(mktime_tz(date) - time.time(), 0.0) if date else 0.0
    except (ValueError, OverflowError):
        return 0.0


async def _get_range(
    filesystem: HTTPFileSystem, url: str, start: int, stop: int, patience: Patience, data: bytearray
) -> RangeReply:
    """The answer to one request; ``data`` is what came of it so far."""
    data.clear()
    options = dict(filesystem.kwargs)
    # Ranges count the bytes that are sent, so these must be the file's own.
    headers = {**options.pop("headers", {}), "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
    if "timeout" not in filesystem.client_kwargs:
        silence = patience.silence
        options.setdefault("timeout", ClientTimeout(total=None, sock_connect=silence, sock_read=silence))
    session = await filesystem.set_session()
    async with session.get(filesystem.encode_url(url), headers=headers, **options) as response:
        if response.status == 404:
            raise FileNotFoundError("HTTP status 404: not found")
        if response.status in _BUSY:
            raise BusyError(f"HTTP status {response.status}: {response.reason}", _rest(response))
        size, length = _range_sent(response, start, stop)
        async for piece in response.content.iter_any():
            data += piece
            if len(data) > length:
                break
        if len(data) != length:
            raise OSError(f"the server sent {len(data)} bytes or more where it promised {length}")
        # One file's servers may give its date differently, and may or may not call its tag a weak one.
        version = response.headers.get("ETag", "").removeprefix("W/") or response.headers.get("Last-Modified", "")
        return RangeReply(bytes(data), size, version)


def _range_sent(response: ClientResponse, start: int, stop: int) -> tuple[int, int]:
    """(size of the file, length of the body), if the answer is the range, or a whole file that is no longer."""
    said = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    body = response.headers.get("Content-Length")
    if response.status == 416:
        end = int(said[3]) if said and said[3] != "*" else None
        if start if end is None else end <= start:
            raise BeyondEndError(end)
    if response.status == 200:
        if body is None or not re.fullmatch(r"[0-9]{1,18}", body):
            raise OSError("the server does not tell the file's size (HTTP status 200 without Content-Length)")
        if start or int(body) > stop:
            raise OSError("the server sends the whole file where a range was asked for: it cannot be read in parts")
        return int(body), int(body)
    if response.status != 206:
        raise OSError(f"HTTP status {response.status}: {response.reason}")
    if said is None or said[3] == "*" or said[1] is None:
        raise OSError("the server does not tell the file's size (HTTP status 206 without a full Content-Range)")
    first, last, size = int(said[1]), int(said[2]), int(said[3])
    if first != start or last + 1 != min(stop, size):
        raise OSError(f"the server sends bytes {first} to {last + 1} of {size} where {start} to {stop} were asked for")
    return size, last + 1 - first
