"""The rows of a batch: their memory as collating needs it, and their transforms after decoding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.clip_plan import PlannedClip
from videoloader.convert.spec import Layout, as_planes, shape_in
from videoloader.errors import ConfigurationError, enough_memory
from videoloader.errors.notes import note_rows
from videoloader.padding import CONSTANT_FRAME
from videoloader.reading.clip_slots import ClipSlots, whole_clip
from videoloader.runtime.device import HostMemory, allocate
from videoloader.transforms.operations import hold_last
from videoloader.transforms.planning.pipeline import TransformPipeline

Collate = Literal["stack", "pad", "list"]


@dataclass(frozen=True)
class CollateRule:
    """A way to collate the clips of a batch.

    Attributes:
        stacks: whether one tensor holds all clips, which then have one size; otherwise each has its own.
        pads: whether shorter clips get frames of padding, so that all have one length.
    """

    stacks: bool
    pads: bool = False

    @property
    def wants_one_shape(self) -> bool:
        """Whether all clips must have the same size and length."""
        return self.stacks and not self.pads


COLLATE: Mapping[Collate, CollateRule] = {
    "stack": CollateRule(stacks=True),
    "pad": CollateRule(stacks=True, pads=True),
    "list": CollateRule(stacks=False),
}


class BatchRow:
    """A row of a batch in the making.

    Args:
        clip, frames: the attributes.
        layout: the order of a clip's dimensions in ``frames``.

    Attributes:
        clip: the clip that the row shows; another one may replace a clip that does not decode.
        frames: the row's part of the batch.
        left_out: whether the clip could not be made and nothing replaces it.
        fits: whether the clip has the shape of these frames, which for a clip drawn late is known only after reading
            it.
    """

    __slots__ = ("_corrupt", "_layout", "_slots", "clip", "fits", "frames", "left_out")

    def __init__(self, clip: PlannedClip, frames: torch.Tensor, layout: Layout) -> None:
        self.clip, self.frames, self._layout = clip, frames, layout
        self.left_out, self.fits = False, True
        # Made on first use: an image file that another process decodes does not need it.
        self._slots: ClipSlots | None = None
        self._corrupt: npt.NDArray[np.bool_] | None = None

    @property
    def slots(self) -> ClipSlots:
        """The frames for a decoder to make, in the memory of the row."""
        if self._slots is None:
            planes = as_planes(self.frames, self._layout)
            self._slots = whole_clip(self.clip.frame_numbers, self.clip.drawn.geometry, planes)
        return self._slots

    @property
    def corrupt(self) -> npt.NDArray[np.bool_]:
        """bool[T]: the frames that are damaged."""
        return self.slots.corrupt if self._corrupt is None else self._corrupt

    def settle(self, clip: PlannedClip, corrupt: npt.NDArray[np.bool_] | None) -> None:
        """Set what the row shows once it is made; ``corrupt`` is None if the clip does not fit into its memory."""
        self.clip, self._slots, self._corrupt, self.fits = clip, None, corrupt, corrupt is not None

    def take_over(self, other: BatchRow) -> None:
        """Take over the clip and the memory of another row."""
        self.clip, self.frames, self.fits = other.clip, other.frames, True
        self._slots, self._corrupt = other._slots, other._corrupt


class FrameMemory(NamedTuple):
    """The kind of memory that frames need.

    Attributes:
        layout: the order of a clip's dimensions.
        dtype: dtype of the frames.
        device: device of the frames.
        host: allocator of memory on the CPU.
    """

    layout: Layout
    dtype: torch.dtype
    device: torch.device
    host: HostMemory

    def allocate(self, clips: int, shape: tuple[int, int, int]) -> torch.Tensor:
        """[B, T, 3, H, W], or with another order of the last four dimensions; see ``device.allocate``.

        Args:
            clips: B.
            shape: (T, H, W).
        """
        size = (clips, *shape_in(self.layout, *shape))
        if self.device.type == "cpu":
            return self.host.allocate(size, self.dtype)
        return allocate(size, self.dtype, self.device)


def decoding_memory(
    transforms: TransformPipeline, layout: Layout, device: torch.device, shared: bool = False
) -> FrameMemory:
    """The kind of memory for decoding: like the batch's own, or uint8 planes if pixels are transformed later.

    Args:
        transforms, layout, device: transforms, layout and device of the batch.
        shared: whether other processes write to it.
    """
    return FrameMemory(layout if transforms.fused else "TCHW", transforms.decoded.dtype, device, HostMemory(shared))


def arrange_rows(
    clips: Sequence[PlannedClip], collate: Collate, memory: FrameMemory
) -> tuple[torch.Tensor | None, list[BatchRow]]:
    """Allocate the memory of a batch: (one tensor for all clips, or None for a list; the rows in that memory).

    Raises:
        ConfigurationError: the clips cannot be collated that way.
    """
    rule = COLLATE[collate]
    if rule.pads:
        longest = max(len(clip.frame_numbers) for clip in clips)
        clips = [pad_to_length(clip, longest) for clip in clips]
    return stack_rows(clips, memory) if rule.stacks else (None, list_rows(clips, memory))


def stack_if_alike(clips: Sequence[PlannedClip]) -> Collate:
    """The way to collate clips that need not be a batch: as one tensor where they have one shape."""
    return "stack" if len({clip.shape for clip in clips}) == 1 else "list"


def transform_rows(
    transforms: TransformPipeline, stacked: torch.Tensor | None, rows: Sequence[BatchRow], layout: Layout
) -> torch.Tensor | list[torch.Tensor]:
    """The output frames of decoded rows, after transforms: one tensor, or a list of them.

    Args:
        transforms: transforms of the batch.
        stacked: the frames of all rows, None for a list.
        rows: rows of the batch.
        layout: layout of the result.
    """
    if stacked is not None:
        with about(rows), enough_memory():
            return transforms.apply(stacked, [row.clip.drawn for row in rows], layout)
    frames = []
    for row in rows:
        with about([row]), enough_memory(source=row.clip.video.entry.path):
            frames.append(transforms.apply(row.frames[None], [row.clip.drawn], layout)[0])
    return frames


def about(rows: Sequence[BatchRow]) -> note_rows:
    """A block whose errors name the clips of these rows."""
    return note_rows(range(len(rows)), lambda row: rows[row].clip.name)


def stack_rows(clips: Sequence[PlannedClip], memory: FrameMemory) -> tuple[torch.Tensor, list[BatchRow]]:
    """One tensor for all clips of a batch, and its rows.

    Raises:
        ConfigurationError: the clips are not all of the same length and size.
    """
    shapes = {clip.shape for clip in clips}
    check_same_shapes(shapes, 'collate="list"', 'collate="pad" or "list"')
    with note_rows(range(len(clips)), lambda clip: clips[clip].name):
        frames = memory.allocate(len(clips), shapes.pop())
    return frames, [BatchRow(clip, part, memory.layout) for clip, part in zip(clips, frames.unbind(0), strict=True)]


def check_same_shapes(shapes: Set[tuple[int, ...]], instead: str, instead_of_lengths: str | None = None) -> None:
    """Raise ConfigurationError unless all clips of a batch have one shape.

    Args:
        shapes: (frames, height, width) of the clips.
        instead: the argument that allows clips of any size.
        instead_of_lengths: the argument that allows clips of any length, if it is another one.
    """
    if len({shape[1:] for shape in shapes}) > 1:
        raise ConfigurationError(
            f"clips of one batch have frames of {sorted(shapes)} (frames, height, width): add a Resize((height, "
            f"width)), CenterCrop, RandomResizedCrop, Letterbox or Pad, or take {instead}"
        )
    if len(shapes) > 1:
        raise ConfigurationError(
            f"clips of one batch have {sorted(shape[0] for shape in shapes)} frames: give the frame mode a padding "
            f"mode, or take {instead_of_lengths or instead}"
        )


def list_rows(clips: Sequence[PlannedClip], memory: FrameMemory) -> list[BatchRow]:
    """The rows of a batch, each with its own memory."""
    rows = []
    for clip in clips:
        with enough_memory(source=clip.video.entry.path):
            rows.append(BatchRow(clip, memory.allocate(1, clip.shape)[0], memory.layout))
    return rows


def pad_to_length(clip: PlannedClip, frames: int) -> PlannedClip:
    """A clip of at most so many frames, with frames of constant padding after its last."""
    length = len(clip.frame_numbers)
    missing = (0, frames - length)
    operations = tuple(hold_last(operation, length, frames) for operation in clip.drawn.operations)
    return replace(
        clip,
        drawn=clip.drawn._replace(operations=operations),
        frame_numbers=np.pad(clip.frame_numbers, missing, constant_values=CONSTANT_FRAME),
        mask=np.pad(clip.mask, missing, constant_values=False),
    )


def show_instead(row: BatchRow, clip: PlannedClip, collate: Collate, memory: FrameMemory) -> bool:
    """Replace the planned clip of a row by another one, if that fits into the batch.

    In a list any clip with frames fits. A stacked clip must have the row's shape; a padded one may also be shorter.
    """
    rule, length = COLLATE[collate], len(row.clip.frame_numbers)
    if not len(clip.frame_numbers):
        return False
    if rule.pads and len(clip.frame_numbers) < length:
        clip = pad_to_length(clip, length)
    if rule.stacks and clip.shape != row.clip.shape:
        return False
    row.take_over(BatchRow(clip, row.frames, memory.layout) if rule.stacks else list_rows([clip], memory)[0])
    return True
