"""Select the frames of clips and batches by their role: inputs or targets."""

from __future__ import annotations

from typing import Any

import torch

from videoloader.convert.spec import Layout
from videoloader.errors import ConfigurationError
from videoloader.notebook import ShownInNotebooks
from videoloader.sampling.roles import Roles


class FramesByRole(ShownInNotebooks):
    """Base of clips and batches, whose frame mode may name inputs and targets.

    Attributes:
        frames: 4 dimensions in the order of the layout, with B before them for a batch.
        layout: ``"TCHW"``, ``"CTHW"`` or ``"THWC"``.
        roles: the inputs and the targets; None if the frame mode does not name them.
    """

    frames: torch.Tensor
    layout: Layout
    roles: Roles | None
    _target_times: Any

    @property
    def inputs(self) -> torch.Tensor:
        """The input frames of a network, in the layout of ``frames``.

        A view of ``frames`` if they are evenly spaced, otherwise a copy.

        Raises:
            ConfigurationError: the frame mode names no inputs and targets.
        """
        return frames_at(self.frames, self.layout, self._known_roles().inputs)

    @property
    def targets(self) -> torch.Tensor:
        """The frames that a network should produce; see ``inputs``."""
        return frames_at(self.frames, self.layout, self._known_roles().targets)

    @property
    def target_times(self) -> torch.Tensor:
        """Times of the targets between the inputs: float32[B, targets] on the frames' device, without B for a clip.

        It is ``(t - first) / (last - first)``, where t, first and last are the presentation times of the target, the
        first input and the last input. Halfway between two inputs it is 0.5, also in a clip that runs backwards. It is
        NaN if the inputs all have the same time, as at a padded end, and for frames of constant padding.

        Raises:
            ConfigurationError: the frame mode names no inputs and targets.

        Examples:
            >>> mode = FrameTuples((0, 6), range(1, 6), random_targets=1, clips=2)
            >>> for batch in VideoLoader(data, mode, batch_size=8, transforms=[Resize((64, 96))]):
            ...     made = model(batch.inputs, batch.target_times)
        """
        self._known_roles()
        return torch.from_numpy(self._target_times).to(self.frames.device, non_blocking=True)

    def _known_roles(self) -> Roles:
        if self.roles is None:
            raise ConfigurationError(
                f"this {type(self).__name__} has no inputs and targets: its frame mode does not define them (Triplets "
                "and FrameTuples do), or its clips come from several modes"
            )
        return self.roles


def frames_at(frames: torch.Tensor, layout: Layout, places: tuple[int, ...]) -> torch.Tensor:
    """Select frames of a clip or a batch, in the same layout; a view if they are evenly spaced.

    Args:
        frames: 4 dimensions in the order of the layout, possibly with more before them.
        layout: ``"TCHW"``, ``"CTHW"`` or ``"THWC"``.
        places: indices along T, each 0 … T − 1.
    """
    axis = frames.ndim - len(layout) + layout.index("T")
    step = places[1] - places[0] if len(places) > 1 else 1
    if places and step > 0 and places == tuple(range(places[0], places[-1] + 1, step)):
        return frames[(slice(None),) * axis + (slice(places[0], places[-1] + 1, step),)]
    return frames.index_select(axis, torch.tensor(places, dtype=torch.int64, device=frames.device))
