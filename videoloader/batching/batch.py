"""``Batch`` and ``ListBatch``: what loaders yield."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, get_args, overload

import numpy as np
import numpy.typing as npt
import torch

from videoloader.convert.spec import Layout
from videoloader.errors import ArgumentError, ConfigurationError, counted
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.errors.checks import check, check_integer, shortened
from videoloader.reading.clip import tensor_summary
from videoloader.reading.frames_by_role import FramesByRole, frames_at
from videoloader.runtime.device import check_gpu
from videoloader.sampling.integers import one_integer, several_integers
from videoloader.sampling.roles import Roles
from videoloader.transforms.geometry.coordinates import check_in_pixels, map_points
from videoloader.transforms.planning.pipeline import DrawnView
from videoloader.transforms.replay import Coordinates, Kind, Picture

# The fields with a value for each frame.
BY_FRAME = ("frame_numbers", "timestamps", "mask", "corrupt")
# The fields that are tensors, or in a ``ListBatch`` lists of them.
TENSORS = ("frames", "labels")

_Kind = TypeVar("_Kind", bound="Batch")


@tells_of_arguments
@tells_of_attributes("batch", frames="batch.frames")
@dataclass(frozen=True, eq=False)
class Batch(FramesByRole):
    """A batch of B clips of T frames each.

    Attributes:
        frames: tensor, [B, T, C, H, W], [B, C, T, H, W] or [B, T, H, W, C]. The frames in the loader's layout, dtype
            and device.
        labels: tensor, int64[B]. The labels, on the same device; -1 where an entry has none. Mixed clips have soft
            labels, float32[B, classes].
        frame_numbers: int64[B, T]. The frame numbers; -1 for a frame of constant padding.
        timestamps: float64[B, T]. The presentation times in seconds from the file's start (see ``times`` of
            ``VideoEntry``); NaN for a frame of constant padding.
        mask: bool[B, T]. False for frames that padding made up.
        corrupt: bool[B, T]. True where the decoder found the frame, or one that it refers to, damaged; see ``Clip``.
        paths: list of str. The paths of the B videos.
        clips: int64[B]. The number of each clip in the data set.
        rows: int64[B]. The row of each clip: ``data[batch.rows[0]]`` is the entry of the first, even where several rows
            belong to one video. Rows are those of the loader's data set, so after ``balanced``, ``weighted`` and
            ``mix`` they count the repeated rows. -1 in ``DecodingLoader``, whose requests belong to no data set.
        repeated: bool[B]. True for a clip that comes out of turn in the epoch: it fills up a batch with
            ``last_batch="fill"``, or replaces one that cannot be made with ``on_error="replace"``. A metric that leaves
            these out counts every clip once. Repeats by the sampler of a torch DataLoader are not marked.
        views: int64[B]. The number of each row's view of its clip; ``repeats`` count as views.
        columns: list of mappings. The other columns of each video's entry.
        boxes: int64[B, 4]. The box (top, left, height, width) of the picture in the frames, in pixels: the frame
            without the borders that ``Letterbox``, ``Pad`` or ``PadToMultiple`` added.
        source_matrix: float64[B, 3, 3]. The map from points of the frames to points of the video; float64[B, T, 3, 3]
            where the frames of a clip are warped differently. The point (x, y) maps to ``matrix @ (x, y, 1)``, divided
            by its third component. Coordinates start at the corner of the top left pixel, whose centre is (0.5, 0.5).
            Points of the video are in frames after the file's rotation, but not stretched where pixels are not square.
        drawn: sequence of ``DrawnView`` or None. Everything that was drawn for the pixels of each row, for ``replay``.
            None where clips came from the processes of a torch DataLoader.
        layout: str. The order of a clip's dimensions in ``frames``.
        roles: ``Roles`` or None. The positions of inputs and targets; see ``inputs``, ``targets`` and ``target_times``.
            None where the frame mode has no roles, or the clips come from several modes.
    """

    frames: torch.Tensor
    labels: torch.Tensor
    frame_numbers: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.float64]
    mask: npt.NDArray[np.bool_]
    corrupt: npt.NDArray[np.bool_]
    paths: list[str]
    clips: npt.NDArray[np.int64]
    rows: npt.NDArray[np.int64]
    repeated: npt.NDArray[np.bool_]
    views: npt.NDArray[np.int64]
    columns: list[Mapping[str, Any]]
    boxes: npt.NDArray[np.int64]
    source_matrix: npt.NDArray[np.float64]
    drawn: Sequence[DrawnView] | None = None
    layout: Layout = "TCHW"
    roles: Roles | None = None
    _target_times: Any = None  # float32[B, targets], or a list of float32[targets]

    def __repr__(self) -> str:
        return f"Batch(frames={tensor_summary(self.frames)}, {self._summary()})"

    def _summary(self) -> str:
        made_up, corrupt = sum(int((~row).sum()) for row in self.mask), sum(int(row.sum()) for row in self.corrupt)
        return f"labels={tensor_summary(self.labels)}, made_up={made_up}, corrupt={corrupt}"

    def __len__(self) -> int:
        """B, the number of clips in the batch."""
        return len(self.paths)

    if not TYPE_CHECKING:  # type checkers report this themselves
        # Unpacking also calls this. With an ``__iter__``, frameworks would take the batch for a list.
        def __getitem__(self, key: object) -> NoReturn:
            raise ArgumentError("a batch has attributes: write batch.frames, batch.labels, batch.frames[0]")

    def to_source(
        self,
        points: torch.Tensor,
        rows: Sequence[int] | torch.Tensor | None = None,
        times: Sequence[int] | torch.Tensor | None = None,
    ) -> torch.Tensor:
        """Map points or boxes in the frames, such as a model's predictions, to the original frames of their videos.

        Crops, resizes, flips, padding and warps are undone. Points outside the picture map to points outside the crop.

        Args:
            points: tensor on any device. [N, ..., 2] for points (x, y) or [N, ..., 4] for boxes (x1, y1, x2, y2), in
                pixels of the frames; see ``source_matrix``.
            rows: sequence of int, default one item for each row, N = B. The row of the clip that each of the N items
                belongs to.
            times: sequence of int, default None. The frame of the clip that each of the N items belongs to, 0 … T − 1.
                It matters only where warps differ from frame to frame; there, without it, points are [N, T, ...].

        Returns:
            A tensor of the same shape in pixels of the videos, float32 or the wider type of ``points``. Boxes have x1 ≤
            x2 and y1 ≤ y2 even after flips; a rotated box becomes its bounding box.

        Raises:
            ConfigurationError: the points have another shape, a box on the CPU ends before it starts, or there is no
                such row.

        Examples:
            >>> boxes, rows = detect(batch.frames[:, 0])  # float32[N, 4], int64[N]
            >>> boxes = batch.to_source(boxes, rows)
        """
        matrix = self.source_matrix
        if rows is not None:
            matrix = matrix[_numbers("rows", rows, len(matrix))]
        if times is not None:
            at = _numbers("times", times, matrix.shape[1] if matrix.ndim == 4 else None)
            check("times", list(at.shape), at.shape == matrix.shape[:1], f"[{len(matrix)}]")
            if matrix.ndim == 4:
                matrix = matrix[np.arange(len(at)), at]
        check_in_pixels(points, "clip's frames")
        return map_points(points, matrix)

    @overload
    def replay(self, row: int, tensor: torch.Tensor, kind: Picture = "frames") -> torch.Tensor: ...

    @overload
    def replay(self, row: int, tensor: torch.Tensor, kind: Coordinates) -> tuple[torch.Tensor, torch.Tensor]: ...

    def replay(self, row: int, tensor: torch.Tensor, kind: Kind = "frames") -> Any:
        """Apply the transforms of a row's frames (crops, flips, warps, colours) to other data of its video.

        Args:
            row: int. The row of the batch.
            tensor: tensor on any device. It has the displayed size of the video: ``"frames"`` uint8[T, 3, H, W];
                ``"mask"`` [T, H, W] or [T, C, H, W] of any type, not changed by colour transforms; ``"flow"`` float[T,
                2, H, W]; ``"points"`` [..., 2]; ``"boxes"`` [..., 4]. T stands for the row's frames, as in
                ``frame_numbers``.
            kind: str, default ``"frames"``. The kind of the tensor.

        Returns:
            The same kind, in the size of the batch's frames before any module changed it. For points and boxes also
            bool[...], whether they are visible. See ``videoloader.transforms.replay``.

        Raises:
            ConfigurationError: the tensor is not of this kind or not in the size of the video, or the batch does not
                know what was drawn.

        Examples:
            >>> masks = torch.stack([read_mask(batch.paths[0], number) for number in batch.frame_numbers[0]])
            >>> masks = batch.replay(0, masks, "mask")
        """
        check_integer("row", row, 0, len(self) - 1)
        if self.drawn is None:
            why = "whose worker processes do not send what was drawn: use VideoLoader or Compose"
            raise ConfigurationError(f"replay is not available for batches of ClipDataset, {why}")
        frames = len(self.frame_numbers[row])
        if kind in get_args(Picture) and tensor.ndim and len(tensor) > frames:
            raise ConfigurationError(f"row {row} has {frames} frames, got a {kind} for {len(tensor)}")
        return self.drawn[row].replay(tensor, kind)

    def to(self: _Kind, device: str | torch.device, *, non_blocking: bool = False) -> _Kind:
        """The same batch with ``frames`` and ``labels`` on a device.

        Raises:
            ArgumentError: it is no device.
            ConfigurationError: it is a GPU that this process cannot use.
        """
        try:
            check_gpu(torch.device(device))
        except (RuntimeError, TypeError):
            told = "device must be 'cpu', 'cuda' or 'cuda:N'"
            raise ArgumentError(f"{told}, got {device!r}; the type of frames is the loader's dtype=") from None
        return self._with_tensors(lambda tensor: tensor.to(device, non_blocking=non_blocking))

    def pin_memory(self: _Kind) -> _Kind:
        """The same batch with ``frames`` and ``labels`` in page-locked memory, from which copying to a GPU is fast.

        Raises:
            ConfigurationError: there is no GPU to copy to.
        """
        if not torch.cuda.is_available():
            raise ConfigurationError("pinned memory is for copies to a GPU, and torch finds none: leave pin_memory out")
        return self._with_tensors(torch.Tensor.pin_memory)

    def _with_tensors(self: _Kind, change: Callable[[torch.Tensor], torch.Tensor]) -> _Kind:
        def changed(field: Any) -> Any:
            return [change(tensor) for tensor in field] if isinstance(field, list) else change(field)

        return replace(self, **{name: changed(getattr(self, name)) for name in TENSORS})


@tells_of_attributes("batch", frames="batch.frames[0]")
@dataclass(frozen=True, eq=False)
class ListBatch(Batch):
    """The batch of ``collate="list"``: B clips, each with its own number and size of frames.

    The fields below, ``inputs``, ``targets`` and ``target_times`` are lists of B items, without the dimension B. All
    others are as in ``Batch``.

    Attributes:
        frames: list of B tensors. The frames of each clip.
        frame_numbers: list of B arrays, int64[T].
        timestamps: list of B arrays, float64[T].
        mask: list of B arrays, bool[T].
        corrupt: list of B arrays, bool[T].

    Examples:
        >>> for batch in VideoLoader(data, WholeVideo(), batch_size=8, collate="list"):
        ...     assert isinstance(batch, ListBatch)  # narrows the type
        ...     lengths = [len(clip) for clip in batch.frames]
    """

    # Loaders are typed to yield ``Batch``, as almost all do; users of lists narrow the type.
    frames: list[torch.Tensor]  # type: ignore[assignment]
    frame_numbers: list[npt.NDArray[np.int64]]  # type: ignore[assignment]
    timestamps: list[npt.NDArray[np.float64]]  # type: ignore[assignment]
    mask: list[npt.NDArray[np.bool_]]  # type: ignore[assignment]
    corrupt: list[npt.NDArray[np.bool_]]  # type: ignore[assignment]

    def __repr__(self) -> str:
        lengths = [len(numbers) for numbers in self.frame_numbers]
        clips = f"{counted(len(lengths), 'clip')} of {min(lengths)} to {max(lengths)} frames"
        return f"ListBatch({clips}, {self._summary()})"

    @property
    def target_times(self) -> list[torch.Tensor]:  # type: ignore[override]
        """float32[targets] of each clip; see ``Batch.target_times``."""
        self._known_roles()
        return [torch.from_numpy(times).to(self.labels.device) for times in self._target_times]

    @property
    def inputs(self) -> list[torch.Tensor]:  # type: ignore[override]
        """The inputs of each clip; see ``Batch.inputs``."""
        return [frames_at(clip, self.layout, self._known_roles().inputs) for clip in self.frames]

    @property
    def targets(self) -> list[torch.Tensor]:  # type: ignore[override]
        """The targets of each clip; see ``Batch.targets``."""
        return [frames_at(clip, self.layout, self._known_roles().targets) for clip in self.frames]


def _numbers(name: str, given: Sequence[int] | torch.Tensor, count: int | None) -> npt.NDArray[np.int64]:
    """The integers of an argument, one or several, below a count if there is one."""
    one = one_integer(given)
    numbers = several_integers(given) if one is None else np.array(one)
    if numbers is None or numbers.dtype == np.bool_:
        raise ArgumentError(f"{name} must be a list of integers, got {shortened(given)}")
    if len(wrong := numbers[(numbers < 0) | (numbers >= (math.inf if count is None else count))]):
        raise ConfigurationError(f"{name} must be in [0, {'…' if count is None else count - 1}], got {wrong[0]}")
    return numbers.astype(np.int64)
