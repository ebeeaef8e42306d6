"""Fetch the bytes of remote clips while these wait for a decoder.

A clip's packets are known when its job is queued, and jobs wait for a decoding thread. Their bytes are fetched
meanwhile, so no core waits for a server.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from concurrent.futures import Future

from videoloader.errors import VideoLoaderError
from videoloader.indexing import ByteSource, VideoIndex
from videoloader.indexing.sources.base import SourceBase
from videoloader.indexing.sources.opening import is_remote
from videoloader.indexing.sources.patience import cancellable, wait_for
from videoloader.indexing.sources.remote_reads import RemoteReads, count_read, reads_so_far
from videoloader.indexing.sources.reopening import reopen_source
from videoloader.indexing.sources.state import SourceState, check_unchanged, state_of
from videoloader.packets.decode_plan import DecodePlan
from videoloader.packets.payloads import ranges_to_read
from videoloader.reading.cancellation import CancelToken
from videoloader.runtime.threads import executor_of

_THREADS = 16
# Limits for all clips that are being fetched or wait with their bytes, and for one job. Anything beyond is read by the
# decoding thread, in parts, so that decoding starts before all of it has arrived.
_MOST_BYTES, _LARGEST_JOB = 256 << 20, 16 << 20

Ranges = dict[tuple[int, int], bytes]


class FetchedSource(SourceBase):
    """A source some of whose ranges have been fetched already. Each range is returned once.

    Args:
        source: source of the other bytes.
        ranges: fetched bytes by (offset, size).
        error: error of the fetch, raised when ranges are asked for; None if it succeeded.
    """

    def __init__(self, source: ByteSource, ranges: Ranges, error: VideoLoaderError | None = None) -> None:
        self.name, self.read_through = source.name, source.read_through
        self._source, self._ranges, self._error = source, ranges, error

    @property
    def size(self) -> int:
        return self._source.size

    @property
    def fingerprint(self) -> str:
        return self._source.fingerprint

    @property
    def state(self) -> SourceState | None:
        return state_of(self._source)

    def check_unchanged(self, known: SourceState | None = None) -> None:
        check_unchanged(self._source, known)

    def read(self, offset: int, size: int) -> bytes:
        return self._source.read(offset, size)

    def read_ranges(self, offsets: Sequence[int], sizes: Sequence[int]) -> list[bytes]:
        if self._error is not None:
            raise self._error
        wanted = list(zip(offsets, sizes, strict=True))
        found = [self._ranges.pop(each, None) for each in wanted]
        missing = [each for each, data in zip(wanted, found, strict=True) if data is None]
        read = iter(self._source.read_ranges(*zip(*missing, strict=True)) if missing else ())
        return [next(read) if data is None else data for data in found]


class Fetching:
    """The bytes of a job that are being fetched.

    Args:
        path: path of the video.
        source: future of the source with its bytes, and of the reads that this took.
    """

    def __init__(self, path: str, source: Future[tuple[ByteSource, RemoteReads]]) -> None:
        self._path, self._source = path, source

    def source(self, token: CancelToken | None) -> ByteSource | str:
        """Return the source with its bytes, or just its path if the fetch had not begun and is now cancelled.

        Raises:
            ReadCancelled: ``token`` was cancelled.
            SourceError, IndexingError, UnsupportedError, ConfigurationError: the source cannot be opened.
        """
        if self._source.cancel():
            return self._path
        begin = time.perf_counter()
        with cancellable((token or CancelToken()).raise_if_cancelled):
            source, reads = wait_for(self._source)
        count_read(RemoteReads(reads.requests, reads.size, time.perf_counter() - begin))
        return source


class FetchAhead:
    """Threads that fetch for others, within a bound of memory."""

    def __init__(self) -> None:
        self._pool = executor_of(_THREADS, "videoloader-fetch")
        self._lock = threading.Lock()
        self._held = 0

    def begin(self, path: str, index: VideoIndex, plan: DecodePlan, token: CancelToken) -> tuple[Fetching, int] | None:
        """Start to fetch a plan's packets, if possible.

        Args:
            path: path of the video.
            index, plan: its index, and the packets to read.
            token: cancels the fetch.

        Returns:
            The fetch, and its size in bytes, which counts as held until ``release`` is called. None if the packets are
            not remote or no plain byte ranges, if too many bytes are held, or if no thread can take the fetch.
        """
        if not index.byte_ranges or not is_remote(path):
            return None
        size = sum(int(index.packet_size[run.packets].sum(dtype=int)) for run in plan.runs)
        with self._lock:
            if size > _LARGEST_JOB or self._held + size > _MOST_BYTES:
                return None
            self._held += size
        try:
            coming = self._pool.submit(_fetch, path, index, plan, token)
        except (RuntimeError, VideoLoaderError):  # the interpreter exits; or no more threads can be started
            self.release(size)
            return None
        return Fetching(path, coming), size

    def close(self) -> None:
        """End the threads once they have fetched what they began."""
        self._pool.shutdown()

    def release(self, size: int) -> None:
        """Stop counting this many bytes as held."""
        with self._lock:
            self._held -= size


def _fetch(path: str, index: VideoIndex, plan: DecodePlan, token: CancelToken) -> tuple[ByteSource, RemoteReads]:
    token.raise_if_cancelled()
    before = reads_so_far()
    with cancellable(token.raise_if_cancelled):
        source = reopen_source(path, index.state)
        wanted = [each for run in plan.runs for each in ranges_to_read(source.read_through, index, run)]
        try:
            data = source.read_ranges(*zip(*wanted, strict=True)) if wanted else []
            fetched = FetchedSource(source, dict(zip(wanted, data, strict=True)))
        except VideoLoaderError as error:
            fetched = FetchedSource(source, {}, error)
    return fetched, reads_so_far() - before
