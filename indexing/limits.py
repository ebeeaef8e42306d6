"""The cost that one file may cause, whoever made it: bounds that a caller can set, in one place."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from numbers import Real

from videoloader.argument_names import tells_of_arguments
from videoloader.errors import ConfigurationError, UnsupportedError, check_positive

# Where they are kept, so that processes that this one starts have them, too.
_VARIABLE = "VIDEOLOADER_LIMITS"


@dataclass(frozen=True)
class Limits:
    """The memory and time that one file may take; an ``UnsupportedError`` names the limit that a file exceeds.

    Args:
        member_bytes: int, default 268435456. The most bytes of a deflated member of a zip archive, unpacked into
            memory.
        picture_pixels: int, default 134217728, which is 16384×8192. The most pixels of a picture, by its header.
        decode_packets: int, default 4194304. The most packets decoded to index one video, where that takes decoding.
        decode_seconds: float, default 600. The most seconds of one core that this decoding may take.
        cell_characters: int, default 1048576. The most characters of one value in a table of text; a longer one is a
            ConfigurationError.

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

    def __post_init__(self) -> None:
        seconds = self.decode_seconds
        check_positive(**{name: value for name, value in vars(self).items() if name != "decode_seconds"})
        if isinstance(seconds, bool) or not isinstance(seconds, Real) or not seconds > 0:
            raise ConfigurationError(f"decode_seconds must be a positive number of seconds, got {seconds!r}")


@tells_of_arguments
def set_limits(
    *,
    member_bytes: int | None = None,
    picture_pixels: int | None = None,
    decode_packets: int | None = None,
    decode_seconds: float | None = None,
    cell_characters: int | None = None,
) -> Limits:
    """Set limits of this process and of those that it starts from now on; see ``Limits``. Limits not given stay.

    They are kept in the environment variable ``VIDEOLOADER_LIMITS``, so that they reach the processes that build
    stores, read clips or are a DataLoader's workers. Set there before, they hold for the command ``videoloader``, too:
    ``VIDEOLOADER_LIMITS="decode_seconds=60 picture_pixels=40000000"``. ``build_store(…, retry=True)`` indexes videos
    again that a store holds as beyond a limit.

    Args:
        member_bytes, picture_pixels, decode_packets, decode_seconds, cell_characters: as in ``Limits``, default None,
            unchanged.

    Returns:
        The limits that hold now; without an argument nothing changes.

    Raises:
        ConfigurationError: a limit is not positive.

    Examples:
        >>> set_limits(decode_seconds=60).decode_seconds
        60
        >>> _ = set_limits(decode_seconds=600)
    """
    given = dict(locals())
    limits = replace(current_limits(), **{name: value for name, value in given.items() if value is not None})
    os.environ[_VARIABLE] = " ".join(f"{name}={value}" for name, value in vars(limits).items())
    return limits


def current_limits() -> Limits:
    """The limits that hold now.

    Raises:
        ConfigurationError: the environment variable is not written as ``set_limits`` writes it.
    """
    return _read(os.environ.get(_VARIABLE, ""))


@lru_cache(maxsize=4)
def _read(text: str) -> Limits:
    kinds = {field.name: float if field.name == "decode_seconds" else int for field in fields(Limits)}
    try:
        pairs = [each.split("=") for each in text.split()]
        return Limits(**{name: kinds[name](value) for name, value in pairs})  # type: ignore[arg-type]
    except (ValueError, KeyError) as error:
        wanted = f"name=number with spaces between, of {', '.join(kinds)}"
        raise ConfigurationError(f"{_VARIABLE} must be {wanted}, got {text!r} ({error})") from None


def beyond(limit: str, what: str, source: str) -> UnsupportedError:
    """The error for a file that takes more than it may.

    Args:
        limit: name of the limit.
        what: the cost: ``"has pictures of 70000×70000 pixels"``.
        source: name of the file.
    """
    value = getattr(current_limits(), limit)
    return UnsupportedError(f"{what}, beyond the limit {limit}={value}: videoloader.set_limits({limit}=…)", source)


def check_picture(width: int, height: int, source: str) -> None:
    """Raise UnsupportedError where a picture has more pixels than it may."""
    if width * height > current_limits().picture_pixels:
        raise beyond("picture_pixels", f"has pictures of {width}×{height} pixels", source)


class DecodingBudget:
    """The rest of the decoding that may be done to index a video.

    Args:
        source: name of the video.
    """

    def __init__(self, source: str) -> None:
        self._source, self._limits = source, current_limits()
        self._packets, self._start = 0, time.thread_time()

    def spend(self) -> None:
        """Count a packet, before it is decoded.

        Raises:
            UnsupportedError: it is one too many.
        """
        self._packets += 1
        if self._packets > self._limits.decode_packets:
            raise beyond("decode_packets", f"takes decoding of more than {self._packets - 1} packets", self._source)
        if time.thread_time() - self._start > self._limits.decode_seconds:
            what = f"takes longer than {self._limits.decode_seconds:g} s to decode while it is indexed"
            raise beyond("decode_seconds", f"{what}, to packet {self._packets}", self._source)


_budget: ContextVar[DecodingBudget | None] = ContextVar("budget", default=None)


@contextmanager
def decoding_budget(source: str) -> Iterator[None]:
    """Bound all that is decoded in the block."""
    token = _budget.set(DecodingBudget(source))
    try:
        yield
    finally:
        _budget.reset(token)


def count_decoded_packet() -> None:
    """Tell of a packet that is about to be decoded, for the block's budget; nothing where there is none.

    Raises:
        UnsupportedError: the video takes more decoding than it may.
    """
    if (budget := _budget.get()) is not None:
        budget.spend()
