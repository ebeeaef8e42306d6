"""Warn of damaged frames once per file, or raise an error."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError, CorruptFramesError, VideoLoaderWarning, counted
from videoloader.errors.checks import check_choice

# What to do with damaged frames: keep them, or treat them as frames that cannot be read. Which choices there are
# depends on what the caller can do about such frames.
OnCorrupt = Literal["keep", "raise", "skip", "replace"]
KeepRaiseOrSkip = Literal["keep", "raise", "skip"]
KeepOrRaise = Literal["keep", "raise"]

# Values that version 0.1 took, and what to write now.
_BEFORE = {
    "warn": 'write "keep", which warns as well',
    "ignore": 'write "keep", and warnings.simplefilter("ignore", videoloader.CorruptFramesWarning)',
}
# Videos that this process has warned about. Beyond this many the oldest are forgotten, and may be warned about again.
_MOST_REMEMBERED = 65536
_warned: OrderedDict[str, None] = OrderedDict()


class CorruptFramesWarning(VideoLoaderWarning):
    """Some of the frames that were read are damaged. Given once for each file in a process."""


def check_on_corrupt(value: object, allowed: Iterable[str]) -> None:
    """Raise ConfigurationError unless ``on_corrupt`` has one of its allowed values."""
    if isinstance(value, str) and value in _BEFORE:
        raise ConfigurationError(f"on_corrupt is no longer {value!r}: {_BEFORE[value]}")
    check_choice("on_corrupt", value, allowed)


def tell_of_corrupt(source: str, frames: npt.NDArray[np.int64], on_corrupt: OnCorrupt) -> None:
    """Warn or raise, as ``on_corrupt`` says, if frames are damaged.

    Args:
        source: name of the video.
        frames: numbers of its damaged frames, in any order, repeats allowed; usually empty.
        on_corrupt: ``"keep"`` for a warning; any other value raises an error for the caller to handle.

    Raises:
        CorruptFramesError: there are damaged frames, and they are not to be kept.
    """
    if not len(frames):
        return
    damaged = np.unique(frames)
    message = f"{counted(len(damaged), 'damaged frame')} (first: frame {damaged[0]})"
    if on_corrupt != "keep":
        raise CorruptFramesError(message, source)
    if source not in _warned:
        _warned[source] = None
        if len(_warned) > _MOST_REMEMBERED:
            _warned.popitem(last=False)
        warnings.warn(f"{source}: {message}", CorruptFramesWarning, stacklevel=3)
