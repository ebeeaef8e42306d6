"""``VideoLoader``: batches of clips, decoded ahead by worker threads in an order that depends only on the seed."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, get_args

import torch

from videoloader.batching.account import LoaderAccount
from videoloader.batching.batch import Batch
from videoloader.batching.clip_plan import ClipPlanner, ClipRule, PlannedClip
from videoloader.batching.completion import OnError
from videoloader.batching.made_batch import BatchInMaking, BatchRequest
from videoloader.batching.one_loop import OneLoop
from videoloader.batching.options import check_dataset, pipeline_of
from videoloader.batching.prefetch import FILES_AHEAD, BatchGroups, give_out, how_far_ahead
from videoloader.batching.rows import COLLATE, Collate
from videoloader.batching.unopened import UnopenedClips, unopened_clips
from videoloader.convert.native import native_code
from videoloader.convert.spec import Color, Layout
from videoloader.dataset import VideoDataset
from videoloader.decoding.engine import Decode
from videoloader.errors import ArgumentError, ConfigurationError, counted, warn_user
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.attribute_names import tells_of_attributes
from videoloader.errors.checks import check_choice, check_integer, check_positive
from videoloader.indexing import IndexStore
from videoloader.order.by_column import ByColumn
from videoloader.order.clip_table import build_clip_table
from videoloader.order.epoch import Dealing, Epochs, EpochShard
from videoloader.order.sharding import LastBatch
from videoloader.order.shuffle import Order, Sampler, order_of
from videoloader.order.unopened_rows import seem_unopened
from videoloader.reading.cancellation import CancelToken
from videoloader.reading.corrupt_frames import OnCorrupt, check_on_corrupt
from videoloader.runtime.cores import available_cores
from videoloader.runtime.device import resolve_device
from videoloader.runtime.ranks import shard_of, tell_of_later_ranks
from videoloader.sampling.mode import FOR_BATCH, FOR_STAND_IN, FrameMode, FrameNumbers, clip_rng, mode_of
from videoloader.transforms.compose import Compose
from videoloader.transforms.normalize import DType
from videoloader.transforms.planning.pipeline import Transforms

# The most clips tried in place of one that cannot be made, whether or not they fit into its batch.
_MOST_STAND_INS = 255
# All repeats of a batch's clips are planned before it asks for memory.
_MOST_REPEATS = 4096


@tells_of_arguments
@tells_of_attributes("loader")
class VideoLoader(OneLoop):
    """Clips of a data set in batches, decoded ahead in worker threads.

    A batch depends on (seed, epoch) and the shard, never on workers, prefetching or the device. Each loop over the
    loader is one epoch, and the next loop is the next epoch. A loop that is left early, or ends with an error, ends its
    epoch if it has yielded a batch; ``state_dict`` still holds the position, not counting the batch that failed. Only
    one loop runs at a time: starting another ends the previous one, which raises ConfigurationError if it is continued.

    Args:
        dataset: VideoDataset. The videos.
        mode: frame mode, or list of int. The rule that chooses the frames; a list of numbers is a ``FrameList``. A
            warning counts the rows that have no clips.
        batch_size: int. The clips in a batch. Each takes one row, times the number of views that ``transforms`` make of
            it, times ``repeats``.
        device: str or torch.device, default ``"auto"``. The device of the batches: ``"auto"``, ``"cpu"``, ``"cuda"`` or
            ``"cuda:N"``; see ``resolve_device``. Without a number, each process started by a launcher gets its own GPU.
        transforms: list, single transform or ``Compose``, default none. The transforms of the frames; see
            ``videoloader.transforms``. Leading crops, resizes, flips and padding are fused with colour conversion, and
            so is Normalize if no transform of pixels comes before it.
        layout: str, default ``"TCHW"``. The axes of ``frames``: ``"TCHW"`` gives [B, T, C, H, W], ``"CTHW"`` [B, C, T,
            H, W], ``"THWC"`` [B, T, H, W, C].
        dtype: str or torch.dtype, default ``"float32"`` with ``Normalize``, the ``dtype`` of ``ToFloat`` if that is
            used, else ``"uint8"``. ``"uint8"`` (0 … 255), or ``"float16"``, ``"bfloat16"`` or ``"float32"`` (0 … 1, or
            normalised).
        color: str, default ``"rgb"``. ``"rgb"``, or ``"ycbcr"`` for Y'CbCr as coded, with chroma at full resolution;
            see ``OutputSpec``.
        shuffle: bool, order or ``Sampler``, default False. True draws another random order every epoch;
            ``ShuffleBlocks`` and ``ShuffleVideos`` are other orders. A PyTorch ``Sampler`` must yield clip numbers as
            for a single process: the loader deals them to the ranks, so no ``DistributedSampler`` is needed; see
            ``SampledClips``.
        seed: int, default 0. The seed of that order and of all random frames and transforms; ``torch.manual_seed`` has
            no effect. It must be the same on all ranks, or some clips repeat and others are missing. A new loader
            starts again at epoch 0: keep one loader for all epochs, or call ``set_epoch``.
        last_batch: str, default ``"partial"``. The treatment of the last clips, which do not fill a batch on all ranks.
            ``"partial"`` deals them as evenly as possible, ``"drop"`` leaves them out, and ``"fill"`` repeats clips to
            fill the batches and marks them in ``batch.repeated``; with each of these all ranks get the same number of
            batches. ``"uneven"``, for validation, deals each clip exactly once: all batches but a rank's last are full,
            and some ranks may have one batch fewer (with ``ByColumn``, as many fewer as their node has fewer clips). So
            nothing in the loop may wait for other ranks: call the ``module`` of a ``DistributedDataParallel`` model,
            and gather results after the loop. See ``sharding.Deal``.
        shard_id, num_shards: int, default from the launcher or framework, see ``shard_of_environment``. The number of
            this process's shard, and the number of shards.
        sharding: str or ``ByColumn``, default ``"strided"``. The way to deal an epoch to the shards. With ``"strided"``
            they take turns, clip by clip; with ``"contiguous"`` each gets a range of the epoch's order; with
            ``"stick_to_shard"`` each gets the same range of the data set in every epoch, shuffled within, so that
            caches stay warm. With ``ByColumn`` each gets the rows that a column assigns to its node, such as tars on a
            local disk.
        num_workers: int, default five for two NVDEC engines, else one for each core, divided by the processes of the
            machine (``LOCAL_WORLD_SIZE``). The number of threads that feed NVDEC or decode on the CPU. With 0, batches
            are made in the calling thread, so that a debugger stops in your transforms; the batches are the same.
        decode: str, default ``"auto"``. The engine that decodes for a CUDA device: ``"nvdec"`` or ``"cpu"`` alone, or
            with ``"auto"`` NVDEC, while the CPU takes what NVDEC cannot decode and idle cores take clips off a long
            queue; the pixels are the same. With ``"auto"``, JPEG files go to the GPU's JPEG engines where nvJPEG is
            installed.
        cpu_workers: int, default half of the cores that this process may use, shared with the other processes of the
            machine (``LOCAL_WORLD_SIZE``). The number of CPU threads that decode alongside NVDEC with
            ``decode="auto"``.
        num_processes: int, default on Linux with more than four threads, or with several that load only image files, or
            folders of them, on the CPU, one for each thread, but with a GPU at most the number of cores minus two; else
            0. The number of processes that decode clips on the CPU for these threads, or read image files for a GPU's
            engines, at most one for each thread, so that they do not wait for the GIL. Each takes about 200 MB. They
            start one by one when there is work, need no ``if __name__ == "__main__":``, and run no code of yours; if a
            clip kills its process, the clip raises DecodeError. The threads read remote videos themselves.
        prefetch: int, default enough for two clips a thread, or for four in the orders named below; for image files on
            a GPU, for four lists of 64 a process. The number of batches prepared ahead while one is used. In data set
            order and with ``ShuffleVideos``, up to half of them, until one ends with its video, are planned at once,
            and a GOP that several of those need is decoded once. With ``num_workers=0`` none is prepared ahead.
        gop_cache: int, default 0, no cache. The bytes of GPU memory for decoded frames that later clips may need again;
            least recently used GOPs are evicted first. It helps with long videos that are sampled often.
        collate: str, default ``"stack"``. The way to collate the clips of a batch. ``"stack"`` requires that all have
            the same number of frames. ``"pad"`` extends shorter ones to the longest of the batch with frames of
            constant padding (``mask`` False, ``frame_numbers`` -1, ``timestamps`` NaN). ``"list"`` keeps the length and
            size of each clip, and batches are ``ListBatch``. Only ``"list"`` allows frames of different sizes: the
            others need a transform that makes sizes equal, such as ``Letterbox``.
        fill_value: float or three of them, default 0. The red, green and blue of frames of constant padding, or one
            number for all, 0 … 255 whatever the ``dtype`` and normalisation; they are converted like any other pixel.
        repeats: int, default 1. The number of times that each clip appears in its batch, each time with its own draw of
            the transforms (repeated augmentation: Hoffer et al., "Augment your batch", CVPR 2020). The frames are the
            same and are decoded once.
        on_error: str, default ``"raise"``. The treatment of a video that cannot be read. ``"raise"`` raises its error.
            ``"skip"`` leaves its clips out, and a batch that loses all its clips is skipped; other ranks must not wait
            for that batch. ``"replace"`` also leaves unreadable files out, and replaces a clip that does not decode by
            another one: with ``"stack"`` one of the same shape, with ``"pad"`` one no longer than the longest planned,
            with ``"list"`` any. Image files, and folders of them, that were not opened before count as clips that do
            not decode. Files are opened before if there is an ``index``, if ``mode`` needs more than the number of
            frames, and folders also on a GPU: if files cannot be read, later clips then have other numbers.
        on_corrupt: str, default ``"keep"``. The treatment of damaged frames, independent of ``on_error``. ``"keep"``
            returns them, marked in ``batch.corrupt`` and counted in ``stats()``, and warns once for each file and
            process (``CorruptFramesWarning``). ``"raise"``, ``"skip"`` and ``"replace"`` treat such clips as
            ``on_error`` treats clips that do not decode.
        index: ``IndexStore`` or its path, default None. The videos' indexes (``dataset.build_store``). Without it every
            process indexes all videos when the loader is made, and keeps all indexes in memory. Rows whose path has the
            extension of an image file, however, are opened only when they are decoded, and count as one frame each. On
            the CPU, folders of image files are opened only then, too, if ``mode`` takes one clip of each and all
            transforms are the library's; until then their files are counted.
        on_indexed: function without arguments, default none. It is called after each video of the data set is indexed,
            for progress bars.

    Attributes:
        device: torch.device. The device of the batches.
        unreadable: (path, reason) for everything left out or replaced so far: rows of the data set that cannot be used,
            and files of clips that failed later, each once with the first reason. A warning counts the rows when the
            loader is made, and another counts the clips at the end of a loop that meets new files; ``stats()`` counts
            all of them.

    Raises:
        ConfigurationError: an argument has a value that is not allowed, or the data set has no clips.
        VideoLoaderError: a video cannot be indexed (with ``on_error="raise"``; an image file's error is raised by its
            batch).
        NotIndexedError: a video is not in the given ``index``, whatever ``on_error`` says.

    Examples:
        >>> loader = VideoLoader(data, RandomWindow(16, stride=4), batch_size=8)
        >>> for batch in loader:
        ...     train(batch.frames, batch.labels)

        Whole videos of any length and size, for a model that takes padded batches:

        >>> loader = VideoLoader(
        ...     data, WholeVideo(stride=8), batch_size=8, collate="pad", transforms=[Letterbox(224)]
        ... )
        >>> for batch in loader:
        ...     features = model(batch.frames, torch.from_numpy(batch.mask).to(batch.frames.device))
    """

    device: torch.device

    def __init__(
        self,
        dataset: VideoDataset,
        mode: FrameMode | FrameNumbers,
        *,
        batch_size: int,
        device: str | torch.device = "auto",
        transforms: Transforms | Compose = (),
        layout: Layout = "TCHW",
        dtype: DType | torch.dtype | None = None,
        color: Color = "rgb",
        shuffle: bool | Order | Sampler = False,
        seed: int = 0,
        last_batch: LastBatch = "partial",
        shard_id: int | None = None,
        num_shards: int | None = None,
        sharding: Dealing | ByColumn = "strided",
        num_workers: int | None = None,
        decode: Decode = "auto",
        cpu_workers: int | None = None,
        num_processes: int | None = None,
        prefetch: int | None = None,
        gop_cache: int = 0,
        collate: Collate = "stack",
        fill_value: float | Sequence[float] = 0,
        repeats: int = 1,
        on_error: OnError = "raise",
        on_corrupt: OnCorrupt = "keep",
        index: IndexStore | str | os.PathLike[str] | None = None,
        on_indexed: Callable[[], object] = lambda: None,
    ) -> None:
        check_dataset(dataset)
        mode = mode_of(mode)
        pipeline = pipeline_of(transforms, dtype, color, fill_value, mode)
        check_choice("on_error", on_error, get_args(OnError))
        check_on_corrupt(on_corrupt, get_args(OnCorrupt))
        check_positive(batch_size=batch_size)
        check_integer("repeats", repeats, 1, _MOST_REPEATS)
        if pipeline.mixing is not None and dataset.labels.max() >= pipeline.mixing.num_classes:
            told = (
                f"the data set's labels reach {dataset.labels.max()}, but num_classes is {pipeline.mixing.num_classes}"
            )
            raise ConfigurationError(f"{told}: give {type(pipeline.mixing).__name__} num_classes=data.num_classes")
        if pipeline.mixing is not None and batch_size * repeats == 1:
            warn_user(
                f"{type(pipeline.mixing).__name__} mixes the clips of a batch, and batch_size=1 leaves them as they are"
            )
        self._seed = seed
        order = order_of(shuffle)
        rank, ranks = shard_of(shard_id, num_shards)
        self._shard_found = shard_id is None
        numbers = num_workers, cpu_workers, num_processes
        on = resolve_device(device)
        # Only the default number of processes on the CPU depends on it.
        asked = num_processes is None and index is None and on.type == "cpu"
        rule = ClipRule(mode, pipeline, seed, repeats)
        # A GPU's engines make clips of opened folders, and processes draw by the library's own code.
        open_folders = on.type == "cuda" or not rule.is_own
        images = asked and seem_unopened(dataset, mode, open_folders)
        super().__init__(
            on, pipeline, layout, collate, decode, gop_cache, *numbers, on_error, on_corrupt, images=images
        )
        threads = self._workers.num_workers + self._workers.cpu_workers
        self._prefetch, self._most_together = how_far_ahead(threads, batch_size, order, prefetch)
        table = build_clip_table(
            dataset,
            mode,
            index,
            workers=available_cores() if threads else 0,
            skip_unreadable=on_error != "raise",
            on_indexed=on_indexed,
            open_images=False,
            open_folders=open_folders,
        )
        if self._maker.for_engines and table.ranges.unopened.all():
            each = self._workers.num_processes, batch_size, order, prefetch, FILES_AHEAD
            self._prefetch, self._most_together = how_far_ahead(*each)
        self._account = LoaderAccount(table.unreadable, expects_padding=COLLATE[collate].pads)
        self.unreadable = self._account.unreadable
        self._epochs = Epochs(table, order, seed, rank, ranks, batch_size, last_batch, sharding, mode)
        self._planner = ClipPlanner(table, rule)
        self._planner.tell_of_equal_repeats()
        self._planner.tell_of_foreign_randomness()
        self._epoch, self._given = self._epochs.epoch(0), 0
        if self.num_clips and not self._epoch.rounds:
            raise ConfigurationError(
                f"last_batch={last_batch!r} leaves no batch: {counted(self.num_clips, 'clip')} for "
                f"{counted(ranks, 'rank')} with batch_size={batch_size}; take a smaller batch_size, or "
                "last_batch='partial'"
            )
        self._resumed = False

    def __repr__(self) -> str:
        epochs, batches = self._epochs, counted(len(self), "batch")
        clips, rows = counted(self.num_clips, "clip"), counted(len(epochs.table.dataset), "row")
        how = "" if self.device.type == "cuda" or native_code() else " without native code"
        return (
            f"VideoLoader({batches} of {epochs.batch_size}, {clips} of {rows}, "
            f"{self._planner.rule.mode!r:.80}, shard {epochs.rank} of {epochs.ranks}, on {self.device}{how})"
        )

    def __len__(self) -> int:
        """The number of batches of this shard in the next epoch, or in the rest of it after a resume."""
        return len(self._epoch)

    if not TYPE_CHECKING:  # type checkers report these themselves

        def __getitem__(self, batch: object) -> NoReturn:
            raise ArgumentError(
                "batches have no numbers, and no DataLoader can be made of a loader: "
                "write for batch in loader, or next(iter(loader))"
            )

    @property
    def num_clips(self) -> int:
        """The number of clips in an epoch over all shards."""
        return self._epochs.positions

    def set_epoch(self, epoch: int) -> None:
        """Make this the next epoch. A plain loop does not need it: epochs advance by themselves.

        Setting an epoch that was just resumed keeps its position, so that loops that set each epoch resume correctly.
        """
        if not self._keeps(epoch):
            self._epoch, self._given, self._resumed = self._epochs.epoch(epoch), 0, False

    def _keeps(self, epoch: int) -> bool:
        return self._resumed and epoch == self._epoch.number and not self._given

    def _state_before(self, epoch: int) -> dict[str, Any]:
        """The state after ``set_epoch(epoch)``, which is not called."""
        return self.state_dict() if self._keeps(epoch) else self._epochs.epoch(epoch).state(0)

    def state_dict(self) -> dict[str, Any]:
        """The loader's position after the last batch that it yielded.

        The state is less than 1 KB of numbers and text, and the same on all shards after the same batch. It can be
        loaded with any number of shards, batch size and ``last_batch``, and ``"contiguous"`` and ``"strided"`` may be
        exchanged. With ``last_batch="uneven"`` a shard with fewer batches than others enters the next epoch when its
        loop ends, not with its last batch. So take the state on all shards after the same batch, or on all of them
        after the loop.
        """
        return self._epoch.state(self._given)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resume where a state was taken: each clip of its epoch still comes exactly once over all shards.

        Raises:
            ConfigurationError: the state belongs to another data set, frame mode, order or seed, or the rest of its
                epoch cannot be dealt to this number of shards.
        """
        self._epoch, self._given, self._resumed = self._epochs.resume(state), 0, True

    def __iter__(self) -> Iterator[Batch]:
        """Iterate over the batches of one epoch, or of the rest of it after ``load_state_dict``.

        Raises:
            VideoLoaderError: a clip cannot be made (with ``on_error="raise"``), or none of a whole epoch can.
            ConfigurationError: clips of one batch differ in size or number of frames (see ``collate``); another loop
                over this loader has begun; or the loader is closed.
        """
        token = self._begin_loop()
        if self._given:
            self.set_epoch(self._epoch.number + 1)
        if self._shard_found:
            tell_of_later_ranks(self._epochs.ranks)
        epoch = self._epoch
        begin, finish = partial(self._begin, epoch, token), partial(self._finish, epoch)
        groups = BatchGroups(epoch.groups(self._most_together), begin, self._prefetch)
        resumed = self._resumed  # the rest of an epoch may consist of clips that cannot be made
        yield from give_out(groups, groups.has_room, finish, self._workers.set_pace, self._account, token)
        if not resumed:
            self._account.raise_if_nothing()
        if self._epoch is epoch:  # this rank gets fewer batches than others, or none
            self.set_epoch(epoch.number + 1)

    def _begin(self, epoch: EpochShard, token: CancelToken, batches: range) -> list[BatchInMaking]:
        return self._maker.start([self._request_batch(epoch, batch) for batch in batches], token)

    def _finish(self, epoch: EpochShard, pending: deque[BatchInMaking]) -> list[Batch]:
        """Wait for the oldest batch, and return it in a list, which is empty if none of its clips could be made."""
        try:
            made = pending[0].result()
        finally:
            for clip, error in pending[0].unreadable:
                self._account.leave_out(clip.video.entry.path, error)
        pending.popleft()
        self._account.add(made.stats)
        if self._epoch is epoch:  # unless another epoch was begun or resumed meanwhile
            self._given += 1
            if self._given == epoch.rounds:
                self.set_epoch(epoch.number + 1)
        batch = made.hand_over()
        return [] if batch is None else [batch]

    def _request_batch(self, epoch: EpochShard, batch: int) -> BatchRequest:
        return BatchRequest(
            partial(self._clips_of_batch, epoch, batch),
            self._collate,
            partial(self._stand_ins, epoch.number),
            partial(clip_rng, self._seed, epoch.number, use=FOR_BATCH),
        )

    def _clips_of_batch(self, epoch: EpochShard, batch: int) -> list[PlannedClip] | UnopenedClips:
        clips, repeated = epoch.clips(batch), epoch.repeated(batch)
        if unopened := unopened_clips(self._planner, clips, epoch.number, repeated):
            return unopened
        planned: list[PlannedClip] = []
        for views in self._planner.plan_all(clips, epoch.number, repeated):
            planned += views
            self._workers.let_others_run()
        return planned

    def _stand_ins(self, epoch: int, clip: PlannedClip) -> Iterator[PlannedClip]:
        """Clips to try in place of ``clip``; they depend only on seed, epoch and clip, so epochs repeat exactly."""
        for candidate in range(_MOST_STAND_INS):
            rng = clip_rng(self._seed, epoch, clip.number, FOR_STAND_IN + candidate)
            beside = self._epochs.clip_beside(clip.number, rng)
            yield self._planner.plan(beside, epoch, repeated=True)[clip.view]
