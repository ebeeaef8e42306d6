"""``ClipDataset``: clips decoded on the CPU in the worker processes of a torch DataLoader."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter
from typing import Any, get_args

import numpy as np
import torch
from torch.utils.data import Dataset, default_collate

from videoloader.batching.batch import BY_FRAME, Batch, ListBatch
from videoloader.batching.batch_maker import BatchMaker
from videoloader.batching.clip_plan import ClipPlanner, ClipRule, PlannedClip
from videoloader.batching.collate import batch_of
from videoloader.batching.made_batch import BatchRequest
from videoloader.batching.options import check_dataset, pipeline_of
from videoloader.batching.rows import check_same_shapes
from videoloader.convert.spec import Color, Layout
from videoloader.dataset import VideoDataset
from videoloader.errors import ArgumentError, FrameRangeError, counted, warn_user
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.errors.checks import check_choice, check_shared_epoch, check_uint64, shortened
from videoloader.errors.short_text import short_text
from videoloader.indexing import IndexStore
from videoloader.order.clip_table import build_clip_table
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.corrupt_frames import KeepOrRaise, check_on_corrupt
from videoloader.reading.workers import DecodeWorkers
from videoloader.runtime.cached_property import cached_property
from videoloader.runtime.cores import available_cores
from videoloader.runtime.shared_memory import shared_number
from videoloader.sampling.integers import one_integer
from videoloader.sampling.mode import FrameMode, FrameNumbers, mode_of
from videoloader.transforms.compose import Compose
from videoloader.transforms.geometry.source_matrix import source_matrices, stack_matrices
from videoloader.transforms.normalize import DType
from videoloader.transforms.planning.pipeline import Transforms

_CPU = torch.device("cpu")


@tells_of_arguments
@tells_of_attributes("clips")
class ClipDataset(Dataset[dict[str, Any]]):
    """The clips of a data set as a torch data set, for a DataLoader that decodes in worker processes on the CPU.

    Clip ``n`` equals clip ``n`` of a ``VideoLoader`` with the same seed in the same epoch, pixel for pixel. Each
    process opens its own decoders when it first needs them. The object can be pickled, so workers may be forked or
    spawned.

    Call ``set_epoch`` before each loop over the DataLoader: a DataLoader does not tell data sets its epoch, and without
    the call every loop gets the same random frames and transforms. A process that makes batches warns once about such a
    loop.

    A sample is a dict; see ``__getitem__``. PyTorch's default collation stacks ``frames``, which must have one size,
    and rejects None in ``columns``. So give the DataLoader ``collate_fn=stack_clips``, which makes the same ``Batch``
    as ``VideoLoader``, or ``list_clips`` if clips differ in size or number of frames.

    Args:
        dataset, mode, transforms, layout, dtype, color, seed, fill_value, index, on_indexed: as in ``VideoLoader``,
            with the same defaults. With many videos pass an ``index``: without it all their indexes are sent to every
            spawned worker.
        on_corrupt: str, default ``"keep"``. The treatment of damaged frames: ``"keep"`` or ``"raise"``, as in
            ``Video``.

    Raises:
        ConfigurationError: an argument has a value that is not allowed, or the data set has no clips.
        VideoLoaderError: a video cannot be indexed.

    Examples:
        >>> clips = ClipDataset(data, RandomWindow(16, stride=4), transforms=[RandomResizedCrop(224)])
        >>> loader = DataLoader(clips, batch_size=8, shuffle=True, num_workers=8, collate_fn=stack_clips)
        >>> for epoch in range(2):
        ...     clips.set_epoch(epoch)
        ...     for batch in loader:
        ...         train(batch.frames, batch.labels)
    """

    def __init__(
        self,
        dataset: VideoDataset,
        mode: FrameMode | FrameNumbers,
        *,
        transforms: Transforms | Compose = (),
        layout: Layout = "TCHW",
        dtype: DType | torch.dtype | None = None,
        color: Color = "rgb",
        seed: int = 0,
        fill_value: float | Sequence[float] = 0,
        on_corrupt: KeepOrRaise = "keep",
        index: IndexStore | str | os.PathLike[str] | None = None,
        on_indexed: Callable[[], object] = lambda: None,
    ) -> None:
        check_choice("layout", layout, get_args(Layout))
        check_on_corrupt(on_corrupt, get_args(KeepOrRaise))
        check_dataset(dataset)
        check_uint64(seed=seed)
        mode = mode_of(mode)
        pipeline = pipeline_of(transforms, dtype, color, fill_value, mode).one_view()
        self._layout, self._on_corrupt = layout, on_corrupt
        table = build_clip_table(
            dataset, mode, index, workers=available_cores(), skip_unreadable=False, on_indexed=on_indexed
        )
        self._planner = ClipPlanner(table, ClipRule(mode, pipeline, seed))
        # Shared, so that persistent worker processes see the next epoch.
        self._epoch = shared_number(0)
        # Shared as well: the first clip that a loop requested; -1 before that, -2 after the warning.
        self._first_clip = shared_number(-1)

    @cached_property
    def _maker(self) -> BatchMaker:
        """Makes clips in the calling thread."""
        workers = DecodeWorkers(_CPU, decode="cpu", num_workers=0)
        return BatchMaker(
            workers,
            self._planner.rule.transforms,
            self._layout,
            _CPU,
            cache=None,
            on_error="raise",
            on_corrupt=self._on_corrupt,
        )

    def __getstate__(self) -> dict[str, Any]:
        """Leave out the decoders, which each process opens for itself."""
        return {name: value for name, value in self.__dict__.items() if name != "_maker"}

    def __repr__(self) -> str:
        planner = self._planner
        rows = counted(len(planner.table.dataset), "row")
        return f"ClipDataset({counted(len(self), 'clip')} of {rows}, {planner.rule.mode!r:.80})"

    def __len__(self) -> int:
        """The number of clips."""
        return len(self._planner.table)

    def set_epoch(self, epoch: int) -> None:
        """Use the random frames and transforms of another epoch. Call it between two loops over the DataLoader.

        Raises:
            ConfigurationError: it is not an integer in [0, 2**63).
        """
        check_shared_epoch(epoch)
        self._epoch.fill_(epoch)
        if int(self._first_clip) >= 0:
            self._first_clip.fill_(-1)

    def __getitem__(self, clip: int) -> dict[str, Any]:
        """A clip with the same facts as in ``Batch``.

        Returns:
            ``frames`` (a tensor of this layout and dtype), ``label`` (-1 where there is none), ``frame_numbers``,
            ``timestamps``, ``mask``, ``corrupt`` (arrays [T]), ``path``, ``clip``, ``row`` (of the data set),
            ``columns``, ``box`` (int64[4]), ``source_matrix`` (float64[3, 3], or float64[T, 3, 3] where it differs from
            frame to frame) and ``layout``. A mode with roles adds ``roles`` and ``target_times``.

        Raises:
            ArgumentError: ``clip`` is not a number.
            FrameRangeError: there is no such clip.
            DecodeError, SourceError, UnsupportedError: the clip cannot be made.
        """
        (sample,) = self._samples([clip])
        return sample

    def __getitems__(self, clips: Sequence[int]) -> list[dict[str, Any]]:
        """Several clips, as a DataLoader requests them for a batch; a GOP that they share is decoded once."""
        samples = self._samples(clips)
        self._warn_of_same_epoch(clips)
        return samples

    def _warn_of_same_epoch(self, clips: Sequence[int]) -> None:
        first = int(self._first_clip)
        if first == -1 and len(clips):
            self._first_clip.fill_(int(clips[0]))
        elif first >= 0 and first in clips:
            self._first_clip.fill_(-2)
            if self._planner.is_random(first):
                warn_user(
                    "ClipDataset: the same random clips are asked for again: call set_epoch(epoch) on it before each "
                    "loop over the DataLoader; where a sampler repeats clips, repeat rows instead, by data.weighted(…)"
                )

    def _samples(self, clips: Sequence[int]) -> list[dict[str, Any]]:
        planned = [self._plan(clip) for clip in clips]
        if not planned:
            return []
        (making,) = self._maker.start([BatchRequest(lambda: planned, "list")], CancelToken())
        made = making.result().batch
        assert made is not None, "clips that cannot be made are errors"
        return [_sample(made, row) for row in range(len(made))]

    def _plan(self, clip: int) -> PlannedClip:
        asked = one_integer(clip)
        if asked is None:
            raise ArgumentError(f"clips are asked for by number, as clips[0], got {shortened(clip)}")
        number = asked + len(self) if asked < 0 else asked
        if not 0 <= number < len(self):
            raise FrameRangeError(f"clip {clip} does not exist: there are {len(self)}")
        (planned,) = self._planner.plan(number, int(self._epoch))
        return planned


def _sample(made: Batch, row: int) -> dict[str, Any]:
    assert made.drawn is not None, "it was made here"
    matrices, by_frame = made.source_matrix, made.source_matrix.ndim > 3  # then for the longest clip of the batch
    sample = {
        "frames": made.frames[row],
        "label": int(made.labels[row]),
        **{name: getattr(made, name)[row] for name in BY_FRAME},
        "path": made.paths[row],
        "clip": int(made.clips[row]),
        "row": int(made.rows[row]),
        "columns": made.columns[row],
        "box": made.boxes[row],
        "source_matrix": source_matrices([made.drawn[row]])[0] if by_frame else matrices[row],
        "layout": made.layout,
    }
    if made.roles is not None:
        sample |= {"roles": made.roles, "target_times": made.target_times[row].numpy()}
    return sample


@tells_of_arguments
def stack_clips(samples: Sequence[dict[str, Any]]) -> Batch:
    """A ``collate_fn`` for ``ClipDataset`` that makes a ``Batch``, as ``VideoLoader`` with ``collate="stack"``.

    Raises:
        ConfigurationError: the clips differ in size or number of frames; see ``list_clips``.
        ArgumentError: the arguments are not samples of a ``ClipDataset``.
    """
    return _batch(samples, stacks=True)


@tells_of_arguments
def list_clips(samples: Sequence[dict[str, Any]]) -> ListBatch:
    """A ``collate_fn`` for ``ClipDataset`` that makes a ``ListBatch``, as ``VideoLoader`` with ``collate="list"``."""
    made = _batch(samples, stacks=False)
    assert isinstance(made, ListBatch), "it has a list of frames"
    return made


# Names of all samples.
_NAMES = {"frames", "label", *BY_FRAME, "path", "clip", "row", "columns", "box", "source_matrix", "layout"}


def _batch(samples: Sequence[dict[str, Any]], *, stacks: bool) -> Batch:
    if not (len(samples) and all(isinstance(each, Mapping) and each.keys() >= _NAMES for each in samples)):
        raise ArgumentError(f"a list of samples of a ClipDataset is wanted, got {short_text(samples)}")
    if stacks:
        shapes = {tuple(each["frames"].shape[each["layout"].index(axis)] for axis in "THW") for each in samples}
        check_same_shapes(shapes, "collate_fn=list_clips")
    # In a worker, PyTorch's own function stacks directly into shared memory.
    join_frames, join = (default_collate, np.stack) if stacks else (list, list)

    def column(name: str) -> list[Any]:
        return [sample[name] for sample in samples]

    roles = samples[0].get("roles") if len({sample.get("roles") for sample in samples}) == 1 else None
    return batch_of(
        join_frames(column("frames")),
        _CPU,
        [itemgetter("clip", "row", "path", "label", "columns")(sample) for sample in samples],
        **{name: join(column(name)) for name in BY_FRAME},
        repeated=np.zeros(len(samples), np.bool_),
        views=np.zeros(len(samples), np.int64),
        boxes=np.stack(column("box")),
        source_matrix=stack_matrices([matrix.reshape(-1, 3, 3) for matrix in column("source_matrix")]),
        layout=samples[0]["layout"],
        roles=roles,
        _target_times=None if roles is None else join(column("target_times")),
    )
