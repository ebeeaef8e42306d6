"""The roles of a clip's frames: inputs of a network, or targets that it predicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check
from videoloader.errors.short_text import repr_of
from videoloader.indexing.index import VideoIndex
from videoloader.padding import CONSTANT_FRAME


class Roles(NamedTuple):
    """The positions in a clip that hold inputs, and those that hold targets.

    Batches of a frame mode that has an attribute ``roles`` have ``inputs``, ``targets`` and ``target_times``. Temporal
    transforms that would not keep the roles are refused.

    Attributes:
        inputs: tuple of int. The positions in the clip, 0 … T − 1, of the network's input frames.
        targets: tuple of int. The positions of the frames that it predicts.

    Examples:
        >>> FrameTuples((0, 4), (1, 2, 3)).roles
        Roles(inputs=(0, 1), targets=(2, 3, 4))
    """

    inputs: tuple[int, ...]
    targets: tuple[int, ...]


Roles.__new__ = tells_of_arguments(Roles.__new__)  # type: ignore[method-assign]


def roles_of(mode: object) -> Roles | None:
    """The roles of a frame mode; None if it has none.

    Raises:
        ConfigurationError: its attribute ``roles`` is not a ``Roles``.
    """
    roles = getattr(mode, "roles", None)
    known = roles is None or isinstance(roles, Roles)
    check(f"roles of {type(mode).__name__}", roles, known, "Roles(inputs, targets) or None")
    return roles


def target_times(index: VideoIndex, frame_numbers: npt.NDArray[np.int64], roles: Roles) -> npt.NDArray[np.float32]:
    """The times of a clip's targets, where 0 is the time of its first input and 1 that of its last.

    Args:
        index: index of the video.
        frame_numbers: int64[T], frames of the clip.
        roles: roles of the clip's positions.

    Returns:
        float32[targets], ``(t - first) / (last - first)`` by ``index.clock``; NaN for a frame of constant padding, and
        where all inputs have the same time.

    Raises:
        ConfigurationError: the clip has no such position.
    """
    places = [*roles.inputs[:1], *roles.inputs[-1:], *roles.targets]
    if len(places) < 2 + len(roles.targets) or not 0 <= min(places) <= max(places) < len(frame_numbers):
        raise ConfigurationError(
            f"{repr_of(roles)} do not name places of clips of {len(frame_numbers)} frames", index.source
        )
    numbers = frame_numbers[places]
    shown = numbers != CONSTANT_FRAME
    times = np.where(shown, index.clock[np.where(shown, numbers, 0)] - index.clock[max(numbers[0], 0)], np.nan)
    span = times[1] if shown[0] and times[1] else np.nan
    return (times[2:] / span).astype(np.float32)
