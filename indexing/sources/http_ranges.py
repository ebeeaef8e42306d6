"""Ranges of a file on a web server (RFC 9110, 14), taken for nothing but what was asked for.

fsspec's own reads believe any answer: a server that knows no ranges would send the whole file each time, and hand over
its start as if it were its middle.
"""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, NamedTuple

from aiohttp import ClientTimeout

if TYPE_CHECKING:
    from aiohttp import ClientResponse
    from fsspec.implementations.http import HTTPFileSystem

# Of one source. Browsers are content with six; most servers take more.
_AT_ONCE = 16
# Seconds without a byte, unless the file system was told otherwise. (aiohttp's five minutes for a whole answer are too
# many for a server that says nothing, and too few for a large range.)
_PATIENCE = 60.0
_CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-(\d+)|\*)/(\d+|\*)")


class BeyondEndError(Exception):
    """A range begins at or after the end of the file."""

    def __init__(self, size: int) -> None:
        super().__init__(f"the file ends at byte {size}")
        self.size = size


class RangeReply(NamedTuple):
    """What a server sent: the bytes, the size of the whole file, and what marks this version of it."""

    data: bytes
    size: int
    version: str


async def get_ranges(filesystem: HTTPFileSystem, url: str, ranges: list[tuple[int, int]]) -> list[RangeReply]:
    """The ranges ``[start, stop)`` of a URL, several at a time; each fewer bytes only where the file ends.

    Raises:
        BeyondEndError: a range has no byte at all.
        OSError: the server does not answer, refuses, or sends something else than the range.
        aiohttp.ClientError: the connection cannot be made, or breaks.
    """
    free = asyncio.Semaphore(_AT_ONCE)

    async def get(start: int, stop: int) -> RangeReply:
        async with free:
            return await _get_range(filesystem, url, start, stop)

    replies = await asyncio.gather(*(get(*each) for each in ranges), return_exceptions=True)
    for reply in replies:
        if isinstance(reply, BaseException):
            raise reply
    return [reply for reply in replies if isinstance(reply, RangeReply)]


async def _get_range(filesystem: HTTPFileSystem, url: str, start: int, stop: int) -> RangeReply:
    options = dict(filesystem.kwargs)
    # Ranges count the bytes that are sent, so these must be the file's own.
    headers = {**options.pop("headers", {}), "Range": f"bytes={start}-{stop - 1}", "Accept-Encoding": "identity"}
    if "timeout" not in filesystem.client_kwargs:
        options.setdefault("timeout", ClientTimeout(total=None, sock_connect=_PATIENCE, sock_read=_PATIENCE))
    session = await filesystem.set_session()
    async with session.get(filesystem.encode_url(url), headers=headers, **options) as response:
        if response.status == 404:
            raise FileNotFoundError("HTTP status 404: not found")
        size, length = _range_sent(response, start, stop)
        data = bytearray()
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
    if response.status == 416 and said and said[3] != "*" and int(said[3]) <= start:
        raise BeyondEndError(int(said[3]))
    if response.status == 200:
        if body is None or not body.isdigit():
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
