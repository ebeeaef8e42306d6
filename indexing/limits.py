"""Limit the memory and time that a file of unknown origin may take; callers can change the limits."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from contextvars import ContextVar, Token
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from numbers import Real

from videoloader.errors import ConfigurationError, UnsupportedError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_positive
from videoloader.errors.short_text import short_text

# Limits are kept in the environment, so that processes started by this one have them, too.
_VARIABLE = "VIDEOLOADER_LIMITS"
# Seconds of one core in which libavformat reads on without a packet of the video: gigabytes of other streams take less.
_LONGEST_SEARCH = 10
_MOST_SECONDS = 10**9  # beyond it, timers of the system overflow
# Values may take so many times the size of their file in memory, whatever the limits.
_USUAL_GROWTH = 64


@dataclass(frozen=True)
class Limits:
    """The memory and time that one file may take. If a file exceeds a limit, an ``UnsupportedError`` names it.

    Args:
        member_bytes: int, default 268435456. The maximum size of a deflated member of a zip archive, or of compressed
            tables of an mp4 file, which are unpacked into memory.
        picture_pixels: int, default 134217728, which is 16384×8192. The maximum number of pixels of a picture, by its
            header.
        decode_packets: int, default 4194304. The maximum number of packets decoded to index one video, if that takes
            decoding.
        decode_seconds: float, default 600. The maximum number of seconds of one core that this decoding may take, or
            libavformat's search for packets.
        cell_characters: int, default 1048576. The maximum length of one text in a table; a longer one is a
            ConfigurationError.
        table_columns: int, default 4096. The maximum number of columns of a table; more are a ConfigurationError.
        table_bytes: int, default 536870912. The maximum size of the values of a Parquet or JSON lines table in memory,
            unless that is less than 64 times the size of its file; more is a ConfigurationError. Also that of the small
            files beside the videos of a zip archive, unpacked, where JSON counts 25 times.

    Raises:
        ConfigurationError: a limit is not positive.

    Examples:
        >>> Limits(decode_seconds=60).member_bytes
        268435456
    """

    member_bytes: int = 256 << 20
    picture_pixels: int = 1 << 27
    decode_packets: int = 1 << 22
    decode_seconds: float = 600
    cell_characters: int = 1 << 20
    table_columns: int = 1 << 12
    table_bytes: int = 512 << 20

    def __post_init__(self) -> None:
        seconds = self.decode_seconds
        check_positive(**{name: value for name, value in vars(self).items() if name != "decode_seconds"})
        if isinstance(seconds, bool) or not isinstance(seconds, Real) or not 0 < seconds <= _MOST_SECONDS:
            told = f"a positive number of seconds up to {_MOST_SECONDS}"
            raise ConfigurationError(f"decode_seconds must be {told}, got {short_text(seconds)}")


_KINDS = {field.name: float if field.name == "decode_seconds" else int for field in fields(Limits)}


@tells_of_arguments
def set_limits(
    *,
    member_bytes: int | None = None,
    picture_pixels: int | None = None,
    decode_packets: int | None = None,
    decode_seconds: float | None = None,
    cell_characters: int | None = None,
    table_columns: int | None = None,
    table_bytes: int | None = None,
) -> Limits:
    """Set limits of this process and of those it starts from now on; see ``Limits``. Other limits stay unchanged.

    Limits are kept in the environment variable ``VIDEOLOADER_LIMITS``, so that they reach the processes that build
    stores or read clips, and a DataLoader's workers. To apply them to the command ``videoloader``, set the variable
    yourself: ``VIDEOLOADER_LIMITS="decode_seconds=60 picture_pixels=40000000"``. If a store has videos that exceeded a
    limit, ``build_store(…, retry=True)`` indexes them again.

    Args:
        member_bytes, picture_pixels, decode_packets, decode_seconds, cell_characters, table_columns, table_bytes: as in
            ``Limits``, default None, unchanged.

    Returns:
        The limits now in force. Without arguments, nothing changes.

    Raises:
        ConfigurationError: a limit is not positive.

    Examples:
        >>> set_limits(decode_seconds=60).decode_seconds
        60
        >>> _ = set_limits(decode_seconds=600)
    """
    given = dict(locals())
    limits = replace(current_limits(), **{name: value for name, value in given.items() if value is not None})
    os.environ[_VARIABLE] = " ".join(f"{name}={_KINDS[name](value)}" for name, value in vars(limits).items())
    return limits


def current_limits() -> Limits:
    """Return the limits now in force.

    Raises:
        ConfigurationError: the environment variable does not have the form that ``set_limits`` writes.
    """
    return _read(os.environ.get(_VARIABLE, ""))


@lru_cache(maxsize=4)
def _read(text: str) -> Limits:
    try:
        pairs = [each.split("=") for each in text.split()]
        return Limits(**{name: _KINDS[name](value) for name, value in pairs})  # type: ignore[arg-type]
    except (ValueError, KeyError) as error:
        wanted = f"name=number with spaces between, of {', '.join(_KINDS)}"
        raise ConfigurationError(f"{_VARIABLE} must be {wanted}, got {text!r} ({error})") from None


def exceeds_table_bytes(size: int, of_file: Callable[[], int]) -> bool:
    """Whether values take more memory than ``table_bytes`` allows for a file, which is asked for its size if needed."""
    return size > current_limits().table_bytes and size > _USUAL_GROWTH * of_file()


def beyond(limit: str, what: str, source: str) -> UnsupportedError:
    """Return the error for a file that exceeds a limit.

    Args:
        limit: name of the limit.
        what: text that says what exceeds it: ``"has pictures of 70000×70000 pixels"``.
        source: name of the file.
    """
    value = getattr(current_limits(), limit)
    return UnsupportedError(f"{what}, beyond the limit {limit}={value}: videoloader.set_limits({limit}=…)", source)


def check_picture(width: int, height: int, source: str) -> None:
    """Raise UnsupportedError if a picture has more pixels than allowed."""
    if width * height > current_limits().picture_pixels:
        raise beyond("picture_pixels", f"has pictures of {width}×{height} pixels", source)


class DecodingBudget:
    """Counts what is read by libavformat and decoded in a ``with`` block to index a video, and stops it at the limits.

    The limits and the clock are read when this begins, since most videos are indexed from their tables alone.

    Args:
        source: name of the video.
    """

    _limits: Limits
    _before: Token[DecodingBudget | None]

    def __init__(self, source: str) -> None:
        self._source, self._packets, self._start, self._found = source, 0, 0.0, 0.0

    def __enter__(self) -> None:
        self._before = _budget.set(self)

    def __exit__(self, *raised: object) -> None:
        _budget.reset(self._before)

    def spend(self, packets: int) -> None:
        """Count packets before they are decoded.

        Raises:
            UnsupportedError: a limit is exceeded.
        """
        now = time.thread_time()
        if not self._start:
            self._limits, self._start, self._found = current_limits(), now, now
        self._packets += packets
        if packets:
            self._found = now
        if self._packets > self._limits.decode_packets:
            raise beyond("decode_packets", f"takes decoding of more than {self._packets - 1} packets", self._source)
        if now - self._found > _LONGEST_SEARCH:
            told = f"libavformat finds no packet of its video in {_LONGEST_SEARCH} s of processor time"
            raise UnsupportedError(told, self._source)
        if now - self._start > self._limits.decode_seconds:
            what = f"takes longer than {self._limits.decode_seconds:g} s to search and decode while it is indexed"
            raise beyond("decode_seconds", f"{what}, to packet {self._packets}", self._source)

    def begin_search(self) -> None:
        """Note that the search for the next packet begins now."""
        self._found = time.thread_time()


_budget: ContextVar[DecodingBudget | None] = ContextVar("budget", default=None)


def begin_search() -> None:
    """Count from now on how long libavformat finds no packet of the video, if there is a ``DecodingBudget``."""
    if (budget := _budget.get()) is not None:
        budget.begin_search()


def count_decoded_packet() -> None:
    """Count a packet that is about to be decoded, if there is a ``DecodingBudget``.

    Raises:
        UnsupportedError: a limit is exceeded.
    """
    count_time(packets=1)


def count_time(*, packets: int = 0) -> None:
    """Count the time until now, if there is a ``DecodingBudget``.

    Raises:
        UnsupportedError: a limit is exceeded.
    """
    if (budget := _budget.get()) is not None:
        budget.spend(packets)
