"""``read_clips``: the clips of a data set as a Ray Data dataset, decoded by actors in a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import get_args

import numpy as np
import pyarrow
import ray
import ray.data
import torch

from videoloader.batching.batch import BY_FRAME
from videoloader.batching.clip_plan import ClipPlanner, ClipRule
from videoloader.batching.options import RaiseOrSkip, check_dataset, pipeline_of
from videoloader.convert.spec import Color, Layout
from videoloader.dataset import VideoDataset
from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check, check_choice, check_positive
from videoloader.indexing import IndexStore
from videoloader.interop.ray.clip_maker import ClipMaker, ClipRecipe
from videoloader.interop.ray.skipped import SkippedClips
from videoloader.interop.ray_workers import Attempts
from videoloader.order.clip_table import build_clip_table
from videoloader.reading.corrupt_frames import KeepRaiseOrSkip, check_on_corrupt
from videoloader.runtime.cores import available_cores
from videoloader.sampling.mode import FrameMode, FrameNumbers, mode_of
from videoloader.sampling.roles import roles_of
from videoloader.transforms.compose import Compose
from videoloader.transforms.normalize import DType
from videoloader.transforms.planning.pipeline import Transforms

_ROLES = ("input_places", "target_places", "target_times")
_COLUMNS = ("path", "clip", "row", "label", *BY_FRAME, "frames")
# Each block is a Ray task, and Ray keeps a record of every task.
_MOST_BLOCKS = 4096
# One call decodes while the rows of another go to the object store.
_CALLS_AN_ACTOR = 2


@tells_of_arguments
def read_clips(
    dataset: VideoDataset,
    mode: FrameMode | FrameNumbers,
    *,
    transforms: Transforms | Compose = (),
    layout: Layout = "TCHW",
    dtype: DType | torch.dtype | None = None,
    color: Color = "rgb",
    fill_value: float | Sequence[float] = 0,
    seed: int = 0,
    epoch: int = 0,
    batch_size: int = 8,
    concurrency: int | tuple[int, int] | None = None,
    num_cpus: float = 1,
    num_gpus: float = 0,
    on_error: RaiseOrSkip = "raise",
    on_corrupt: KeepRaiseOrSkip = "keep",
    skipped: SkippedClips | None = None,
    columns: Collection[str] | None = None,
    index: IndexStore | str | os.PathLike[str] | None = None,
    on_indexed: Callable[[], object] = lambda: None,
) -> ray.data.Dataset:
    """Make all clips of a data set lazily by a pool of Ray actors, for embeddings, captions or filtering.

    A row is a clip, with the columns ``path``, ``clip`` (its number in the data set), ``row`` (its row of the data
    set), ``label`` (-1 without one), ``frames``, ``frame_numbers``, ``timestamps``, ``mask`` and ``corrupt`` as in
    ``Batch``, and the data set's other columns under their own names. Clips that differ in length or size make columns
    of tensors of different shapes. A mode with roles adds ``target_times`` and the positions ``input_places`` and
    ``target_places`` in the clip. A clip depends only on (seed, epoch, clip number), and equals the one that
    ``VideoLoader`` makes. The order of rows is not defined.

    Nothing is decoded before the result is used, and then only as far ahead as Ray Data's memory limits allow. Each
    actor keeps decoders open. If an actor dies, another one makes its clips again, and no row is lost or duplicated;
    clips that kill three actors end the job.

    The workers must see the videos, and the index store, under the same paths as the driver, and have this library
    installed. The call connects to the cluster of the environment, or starts Ray locally, unless ``ray.init`` was
    called before.

    Args:
        dataset, mode, transforms, layout, color, fill_value, seed: as in ``VideoLoader``, with the same defaults.
        dtype: str, default as in ``VideoLoader``. ``"uint8"``, ``"float16"`` or ``"float32"``.
        epoch: int, default 0. The epoch of the random frames and transforms.
        batch_size: int, default 8. The number of clips that an actor decodes together. More clips share GOPs and keep a
            GPU busy, but take memory.
        concurrency: int or (int, int), default from one to as many as fit. The number of actors, or the minimum and
            maximum.
        num_cpus: float, default 1. The cores of each actor, which decode if it has no GPU.
        num_gpus: float, default 0. The GPUs of each actor. Above 0 it decodes by NVDEC; rows are in CPU memory in any
            case.
        on_error: str, default ``"raise"``. The treatment of a video that cannot be read: ``"raise"`` ends the job,
            ``"skip"`` leaves its clips out.
        on_corrupt: str, default ``"keep"``. The treatment of damaged frames: ``"keep"`` returns them, marked in
            ``corrupt``; ``"raise"`` and ``"skip"`` do the same as in ``on_error``, independently of it.
        skipped: SkippedClips, default None. The account of skipped clips. Without it the workers warn about each.
        columns: list of str, default all. The names of the columns to include. ``iter_torch_batches`` needs columns
            without text such as ``path``.
        index: ``IndexStore`` or its path, default None. The videos' indexes (``build_store``). Without it the driver
            indexes all videos now, and sends all indexes to each node.
        on_indexed: function, default none. It is called after each video of the data set is indexed, for progress bars.

    Raises:
        ConfigurationError: an argument has a value that is not allowed, the data set has no clips, or it has a column
            with a reserved name.
        VideoLoaderError: a video cannot be indexed (with ``on_error="raise"``). Errors while the rows are used, also if
            no clip at all can be made, are a ``ray.exceptions.RayTaskError`` of the same class, or if an actor cannot
            start (because its GPU cannot be used), a ``ray.exceptions.ActorDiedError``.

    Examples:
        >>> clips = read_clips(data, UniformFrames(8), transforms=[Resize(224), CenterCrop(224)])
        >>> embedded = clips.map_batches(
        ...     Embed, batch_size=16, compute=ray.data.ActorPoolStrategy(size=2), num_gpus=1
        ... )
        >>> embedded.drop_columns(["frames"]).write_parquet("embeddings")
        >>> for batch in read_clips(data, mode, columns=["frames", "label"]).iter_torch_batches(batch_size=32):
        ...     batch["frames"]  # a tensor
    """
    check_dataset(dataset)
    mode = mode_of(mode)
    pipeline = pipeline_of(transforms, dtype, color, fill_value, mode).one_view()
    if pipeline.output.dtype == torch.bfloat16:
        raise ConfigurationError("dtype is bfloat16, which neither NumPy nor Ray Data has")
    check_choice("layout", layout, get_args(Layout))
    check_choice("on_error", on_error, get_args(RaiseOrSkip))
    check_on_corrupt(on_corrupt, get_args(KeepRaiseOrSkip))
    check_positive(batch_size=batch_size)
    check("num_cpus and num_gpus", (num_cpus, num_gpus), num_cpus >= 0 and num_gpus >= 0, "at least 0")
    made = _COLUMNS if roles_of(mode) is None else _COLUMNS + _ROLES
    if taken := sorted(set(made) & set(dataset.table.columns)):
        raise ConfigurationError(
            f"the data set's columns {', '.join(taken)} have names that clips use for their own: rename them"
        )
    known = (*made, *dataset.table.columns)
    if columns is not None and (isinstance(columns, str) or not columns or not set(columns) <= set(known)):
        raise ConfigurationError(f"columns must be a list of some of {', '.join(known)}, got {columns!r}")
    table = build_clip_table(
        dataset,
        mode,
        index,
        workers=available_cores(),
        skip_unreadable=on_error == "skip",
        on_indexed=on_indexed,
        listed_in="SkippedClips, given as skipped=,",
    )
    if not ray.is_initialized():
        ray.init()
    if skipped is not None:
        skipped.set_files(table.unreadable)
    recipe = ClipRecipe(ClipPlanner(table, ClipRule(mode, pipeline, seed)), layout, epoch)
    least, most = concurrency if isinstance(concurrency, tuple) else (concurrency or 1, concurrency)
    # Blocks hold whole batches: to fill up a batch, Ray would wait for another block and have one actor make both.
    of_a_block = batch_size * -(-len(table) // (batch_size * _MOST_BLOCKS))
    blocks = np.split(np.arange(len(table)), range(of_a_block, len(table), of_a_block))
    # The blocks are made here: tasks that make them would need a core, and actors may hold all of them.
    numbers = ray.data.from_blocks([pyarrow.table({"clip": block}) for block in blocks])
    clips: ray.data.Dataset = numbers.map_batches(
        ClipMaker,
        batch_size=batch_size,
        compute=ray.data.ActorPoolStrategy(
            min_size=least,
            max_size=most,
            max_concurrent_calls_per_actor=_CALLS_AN_ACTOR,
            enable_true_multi_threading=True,
        ),
        num_cpus=num_cpus,
        num_gpus=num_gpus,
        fn_constructor_kwargs={
            "recipe": ray.put(recipe),  # once per node, not per actor
            "cores": max(int(num_cpus), 1),
            "on_error": on_error,
            "on_corrupt": on_corrupt,
            "skipped": skipped,
            "columns": None if columns is None else frozenset(columns),
            "attempts": ray.remote(num_cpus=0)(Attempts).remote(len(table)),
        },
    )
    return clips
