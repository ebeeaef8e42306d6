"""What is done about damaged frames besides marking them: a warning a file, or an error."""

from __future__ import annotations

import warnings
from collections import OrderedDict
from typing import Literal

import numpy as np
import numpy.typing as npt

from videoloader.errors import DecodeError

OnCorrupt = Literal["warn", "raise", "ignore"]

# Names of videos that this process has warned of; of more, some are warned of again.
_MOST_REMEMBERED = 65536
_warned: OrderedDict[str, None] = OrderedDict()


class CorruptFramesWarning(UserWarning):
    """Some of the frames that were read are damaged; once for each file in a process."""


def tell_of_corrupt(source: str, frames: npt.NDArray[np.int64], on_corrupt: OnCorrupt) -> None:
    """Do what is asked for where frames are damaged.

    Args:
        source: name of the video.
        frames: numbers of its damaged frames, in any order, repeats allowed; mostly none.
        on_corrupt: ``"warn"``, ``"raise"`` or ``"ignore"``.

    Raises:
        DecodeError: there are damaged frames, and that is to be an error.
    """
    if not len(frames) or on_corrupt == "ignore":
        return
    damaged = np.unique(frames)
    message = f"{len(damaged)} damaged frame{'s' if len(damaged) > 1 else ''} (first: frame {damaged[0]})"
    if on_corrupt == "raise":
        raise DecodeError(message, source)
    if source not in _warned:
        _warned[source] = None
        if len(_warned) > _MOST_REMEMBERED:
            _warned.popitem(last=False)
        warnings.warn(f"{source}: {message}", CorruptFramesWarning, stacklevel=3)
