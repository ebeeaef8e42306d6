"""The treatment of damaged frames besides marking them: a warning a file, or an error."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError, CorruptFramesError, VideoLoaderWarning, check_choice

# Kept, or treated as what cannot be read; which of these there are depends on what may be done about that.
OnCorrupt = Literal["keep", "raise", "skip", "replace"]
KeepRaiseOrSkip = Literal["keep", "raise", "skip"]
KeepOrRaise = Literal["keep", "raise"]

# Values of version 0.1, and what to write now.
_BEFORE = {
    "warn": 'write "keep", which warns as well',
    "ignore": 'write "keep", and warnings.simplefilter("ignore", videoloader.CorruptFramesWarning)',
}
# Names of videos that this process has warned of; of more, some are warned of again.
_MOST_REMEMBERED = 65536
_warned: OrderedDict[str, None] = OrderedDict()


class CorruptFramesWarning(VideoLoaderWarning):
    """Some of the frames that were read are damaged; once for each file in a process."""


def check_on_corrupt(value: object, allowed: Iterable[str]) -> None:
    """Raise ConfigurationError unless ``on_corrupt`` has one of its values."""
    if isinstance(value, str) and value in _BEFORE:
        raise ConfigurationError(f"on_corrupt is no longer {value!r}: {_BEFORE[value]}")
    check_choice("on_corrupt", value, allowed)


def tell_of_corrupt(source: str, frames: npt.NDArray[np.int64], on_corrupt: OnCorrupt) -> None:
    """Do what ``on_corrupt`` says where frames are damaged.

    Args:
        source: name of the video.
        frames: numbers of its damaged frames, in any order, repeats allowed; mostly none.
        on_corrupt: ``"keep"`` for a warning; all else is an error, for the caller to deal with.

    Raises:
        CorruptFramesError: there are damaged frames, and they are not to be kept.
    """
    if not len(frames):
        return
    damaged = np.unique(frames)
    message = f"{len(damaged)} damaged frame{'s' if len(damaged) > 1 else ''} (first: frame {damaged[0]})"
    if on_corrupt != "keep":
        raise CorruptFramesError(message, source)
    if source not in _warned:
        _warned[source] = None
        if len(_warned) > _MOST_REMEMBERED:
            _warned.popitem(last=False)
        warnings.warn(f"{source}: {message}", CorruptFramesWarning, stacklevel=3)
