"""Fetch byte ranges from web servers (RFC 9110, 14), checking that each answer is the range asked for.

fsspec's own reads trust any answer. A server without support for ranges would send the whole file each time, and its
start would be taken for its middle.
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

# Requests at once for one source. Browsers use six; most servers accept more.
_AT_ONCE = 16
# Statuses of a server that is busy, or that fails for now, as a proxy before it may.
_BUSY = {408, 425, 429, 500, 502, 503, 504}
# Maximum length of quoted error texts in a message.
_LONGEST_WORDS = 300
_CONTENT_RANGE = re.compile(r"bytes (?:(\d{1,18})-(\d{1,18})|\*)/(\d{1,18}|\*)")


class BeyondEndError(EOFError):
    """A range begins at or after the end of the file. ``size`` is the file's, None if the server does not give it."""

    def __init__(self, size: int | None) -> None:
        super().__init__("the file ends before")
        self.size = size


class RangeReply(NamedTuple):
    """A server's reply: the bytes, the size of the whole file, and what identifies this version of it."""

    data: bytes
    size: int
    version: str


async def get_ranges(
    filesystem: HTTPFileSystem, url: str, ranges: list[tuple[int, int]], patience: Patience
) -> list[RangeReply]:
    """Fetch the ranges ``[start, stop)`` of a URL, several at a time; each has fewer bytes only where the file ends.

    A range is requested again if the server is busy or a connection breaks. The first failure ends all requests.

    Raises:
        BeyondEndError: a range begins beyond the end of the file.
        FileNotFoundError: the file does not exist.
        GaveUpError: the server does not answer, refuses, or sends something other than the range.
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
    """Whether another try may succeed: not if a certificate is wrong, or the answer is not the range."""
    broken = (ClientConnectionError, ClientPayloadError, ConnectionError, asyncio.TimeoutError)
    return isinstance(error, broken) and not isinstance(error, ClientSSLError)


def _in_words(error: Exception, patience: Patience, came: int, wanted: int) -> str:
    if isinstance(error, ServerTimeoutError):
        return f"no byte came for {patience.silence:g} s"
    if isinstance(error, asyncio.TimeoutError):
        return f"{came} of {wanted} bytes came in the time that there is"
    # The library's own errors need no explanation.
    if type(error) in (OSError, BusyError):
        return str(error)
    # Errors about broken answers quote all received bytes.
    words = str(error).partition("\n")[0]
    return f"{type(error).__name__}: {words[:_LONGEST_WORDS]}".rstrip(": ")


def _rest(response: ClientResponse) -> float:
    """Return the seconds to wait that the server asks for (RFC 9110, 10.2.3)."""
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
    """Make one request. ``data`` holds what has been received of the answer so far."""
    data.clear()
    options = dict(filesystem.kwargs)
    # Ranges count bytes as sent, so these must be the file's own bytes.
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
        # Servers of the same file may give different dates, and may or may not mark its tag as weak.
        version = response.headers.get("ETag", "").removeprefix("W/") or response.headers.get("Last-Modified", "")
        return RangeReply(bytes(data), size, version)


def _range_sent(response: ClientResponse, start: int, stop: int) -> tuple[int, int]:
    """Return (size of the file, length of the body) if the answer is the range, or a whole file that is no longer."""
    said = _CONTENT_RANGE.fullmatch(response.headers.get("Content-Range", ""))
    body = response.headers.get("Content-Length")
    if response.status == 416:
        end = int(said[3]) if said and said[3] != "*" else None
        if start if end is None else end <= start:
            raise BeyondEndError(end)
    if response.status == 200:
        if body is None or not re.fullmatch(r"[0-9]{1,18}", body):
            raise OSError("the server does not state the file's size (HTTP status 200 without Content-Length)")
        if start or int(body) > stop:
            raise OSError("the server sends the whole file where a range was asked for: it cannot be read in parts")
        return int(body), int(body)
    if response.status != 206:
        raise OSError(f"HTTP status {response.status}: {response.reason}")
    if said is None or said[3] == "*" or said[1] is None:
        raise OSError("the server does not state the file's size (HTTP status 206 without a full Content-Range)")
    first, last, size = int(said[1]), int(said[2]), int(said[3])
    if first != start or last + 1 != min(stop, size):
        raise OSError(f"the server sends bytes {first} to {last + 1} of {size} where {start} to {stop} were asked for")
    return size, last + 1 - first
