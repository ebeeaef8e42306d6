"""Orders the clips of an epoch: maps positions to clips, computed from (seed, epoch, position) alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from torch.utils.data import DistributedSampler, RandomSampler, SequentialSampler, WeightedRandomSampler

from videoloader.errors import ConfigurationError, enough_memory
from videoloader.errors.checks import check_positive
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.permutation import Integers, permute, permute_within

# The attribute that holds what each of PyTorch's own samplers draws from. In other samplers these names may differ in
# meaning.
_DRAWS_FROM: Mapping[type, str] = {
    WeightedRandomSampler: "weights",
    RandomSampler: "data_source",
    SequentialSampler: "data_source",
    DistributedSampler: "dataset",
}

OrderOfEpoch = Callable[[Integers], Integers]


@runtime_checkable
class Order(Protocol):
    """An order of the clips of an epoch."""

    def positions(self, clips: int) -> int:
        """The number of positions in an epoch over this number of clips."""
        ...

    def of_epoch(self, clips: int, videos: Callable[[], Integers], seed: int, epoch: int) -> OrderOfEpoch:
        """The order of one epoch: a function from positions to clip numbers, int64[N] both.

        Args:
            clips: number of clips, at least one.
            videos: returns int64[V], the cumulative number of clips up to and including each video.
            seed, epoch: integers in ``[0, 2**64)``.
        """
        ...

    def identity(self, clips: int, seed: int, epoch: int) -> str:
        """A text that identifies the order in this epoch."""
        ...


class _Computed:
    """Base of orders that hold every clip once and are identified by their ``repr``."""

    def positions(self, clips: int) -> int:
        return clips

    def identity(self, clips: int, seed: int, epoch: int) -> str:
        return f"{self!r} {seed}"


@dataclass(frozen=True)
class InOrder(_Computed):
    """The order of the data set, the same in every epoch."""

    def of_epoch(self, clips: int, videos: Callable[[], Integers], seed: int, epoch: int) -> OrderOfEpoch:
        """See ``Order``."""
        return lambda positions: positions


@dataclass(frozen=True)
class ShuffleClips(_Computed):
    """All clips in uniformly random order, as with ``shuffle=True``."""

    def of_epoch(self, clips: int, videos: Callable[[], Integers], seed: int, epoch: int) -> OrderOfEpoch:
        """See ``Order``."""
        return lambda positions: permute(positions, clips, seed, epoch)


@dataclass(frozen=True)
class ShuffleBlocks(_Computed):
    """Blocks of neighbouring clips in random order, whose clips are then shuffled within a window.

    Reads stay local within blocks, for data that is best read in order (network file systems, archives, caches), and
    the order is random enough if a window holds many blocks. Nothing is buffered. Block boundaries shift in every
    epoch.

    Args:
        block: int, default 64. The number of clips in a block.
        window: int, default 4096. The number of clips that are shuffled together: first those at positions 0 … window −
            1, and so on.

    Raises:
        ConfigurationError: an argument is not positive.

    Examples:
        >>> order = ShuffleBlocks(block=2, window=4).of_epoch(8, lambda: np.array([8]), seed=0, epoch=0)
        >>> sorted(order(np.arange(8)).tolist())
        [0, 1, 2, 3, 4, 5, 6, 7]
    """

    block: int = 64
    window: int = 4096

    def __post_init__(self) -> None:
        check_positive(block=self.block, window=self.window)

    def of_epoch(self, clips: int, videos: Callable[[], Integers], seed: int, epoch: int) -> OrderOfEpoch:
        """See ``Order``."""
        blocks = clips // self.block
        in_blocks = blocks * self.block
        # An incomplete block comes last. Blocks begin at a random clip, so that this is not always the end of the data
        # set.
        offset = int(permute([0], clips, seed, epoch)[0])

        def clips_at(positions: Integers) -> Integers:
            window, place = positions // self.window, positions % self.window
            size = np.minimum(self.window, clips - window * self.window)
            moved = window * self.window + permute_within(place, size, seed, epoch, window)
            rest = moved >= in_blocks
            if blocks:
                block, inside = np.where(rest, 0, moved) // self.block, moved % self.block
                moved = np.where(rest, moved, permute(block, blocks, seed, epoch) * self.block + inside)
            return (moved + offset) % clips

        return clips_at


@dataclass(frozen=True)
class ShuffleVideos(_Computed):
    """Videos in random order, with the clips of a video together, so that they share decoding, caches and open files.

    Successive rows that are parts of the same file count as one video. For a million videos the order of an epoch takes
    16 MB and a tenth of a second, and finding the rows of each file takes a second once.

    Args:
        together: int, default 1. The number of videos whose clips are shuffled together, so that a batch has clips of
            several. With 1, a video's clips come in order.

    Raises:
        ConfigurationError: ``together`` is not positive.

    Examples:
        >>> order = ShuffleVideos().of_epoch(6, lambda: np.array([2, 4, 6]), seed=0, epoch=0)
        >>> order(np.arange(6)).reshape(3, 2) // 2
        array([[0, 0],
               [2, 2],
               [1, 1]])
    """

    together: int = 1

    def __post_init__(self) -> None:
        check_positive(together=self.together)

    def of_epoch(self, clips: int, videos: Callable[[], Integers], seed: int, epoch: int) -> OrderOfEpoch:
        """See ``Order``."""
        last = videos()
        first = np.append(0, last[:-1])
        order = permute(np.arange(len(last)), len(last), seed, epoch)
        end = np.cumsum((last - first)[order])
        group_end = end[np.minimum(np.arange(1, -(-len(end) // self.together) + 1) * self.together, len(end)) - 1]
        group_start = np.append(0, group_end[:-1])

        def clips_at(positions: Integers) -> Integers:
            if self.together > 1:
                group = np.searchsorted(group_end, positions, "right")
                size = group_end[group] - group_start[group]
                inside = permute_within(positions - group_start[group], size, seed, epoch, group)
                positions = group_start[group] + inside
            place = np.searchsorted(end, positions, "right")
            numbers: Integers = positions - end[place] + last[order[place]]
            return numbers

        return clips_at


@runtime_checkable
class Sampler(Protocol):
    """The clip numbers of an epoch in order: a ``torch.utils.data.Sampler``, or any object with these methods."""

    def __len__(self) -> int:
        """The number of clips in an epoch."""
        ...

    def __iter__(self) -> Iterator[int]:
        """Iterate over the clip numbers of an epoch."""
        ...


class SampledClips:
    """The order of a PyTorch sampler, which is dealt to the ranks like any other order.

    The sampler is iterated once an epoch, in every process. All processes must get the same numbers, and a resumed
    epoch must get them again. So ``set_epoch`` is called if the sampler has it, and the generator of PyTorch's own
    samplers (the global one, or the sampler's ``generator``) is temporarily seeded with (seed, epoch). An epoch resumed
    with other numbers is refused.

    Args:
        sampler: yields clip numbers, not batches of them. Some clips may be missing, and others may repeat (with the
            same random frames and transforms, which depend on clip and epoch).

    Raises:
        ConfigurationError: the sampler deals to ranks itself (pass one for a single process), or it is one of PyTorch's
            own and does not draw from the number of clips, but for example from the number of rows.
    """

    def __init__(self, sampler: Sampler) -> None:
        replicas = getattr(sampler, "num_replicas", 1)
        if replicas != 1:
            raise ConfigurationError(
                f"the sampler deals to {replicas} ranks, and so would the loader: give a sampler for one process, such "
                "as RandomSampler, or shuffle=True"
            )
        self._sampler = sampler
        self._made: tuple[tuple[int, int, int], Integers] | None = None

    def positions(self, clips: int) -> int:
        """See ``Order``.

        Raises:
            ConfigurationError: one of PyTorch's own samplers does not draw from the number of clips.
        """
        sampler = self._sampler
        sizes = [len(getattr(sampler, name)) for kind, name in _DRAWS_FROM.items() if isinstance(sampler, kind)]
        if sizes and sizes[0] != clips:
            instead = f"write {type(sampler).__name__}(range({clips}), …), or a SubsetRandomSampler for some clips only"
            if isinstance(sampler, WeightedRandomSampler):
                instead = "give one weight for each clip; or give data.weighted(…) or data.balanced(…), which go by row"
            raise ConfigurationError(
                f"the sampler draws from {sizes[0]} numbers, but a loader's sampler gives numbers of clips, not of "
                f"rows, and there are {clips} clips: {instead}"
            )
        return len(sampler)

    def of_epoch(self, clips: int, videos: Callable[[], Integers], seed: int, epoch: int) -> OrderOfEpoch:
        """See ``Order``.

        Raises:
            ConfigurationError: the sampler yields anything but ``len(sampler)`` clip numbers.
        """
        numbers = self._numbers(clips, seed, epoch)
        return lambda positions: numbers[positions]

    def identity(self, clips: int, seed: int, epoch: int) -> str:
        """See ``Order``."""
        numbers = self._numbers(clips, seed, epoch)
        return f"{seed} {blake2b(numbers.astype('<i8').tobytes(), digest_size=16).hexdigest()}"

    def _numbers(self, clips: int, seed: int, epoch: int) -> Integers:
        if self._made is None or self._made[0] != (clips, seed, epoch):
            self._made = (clips, seed, epoch), self._draw(clips, seed, epoch)
        return self._made[1]

    def _draw(self, clips: int, seed: int, epoch: int) -> Integers:
        if hasattr(self._sampler, "set_epoch"):
            self._sampler.set_epoch(epoch)
        # PyTorch's seeds are signed, so one bit is dropped.
        drawn = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))
        generator: Any = getattr(self._sampler, "generator", None)
        if isinstance(generator, torch.Generator):
            generator.manual_seed(drawn)
        state = torch.get_rng_state()
        try:
            # torch.manual_seed would also seed the generators of all CUDA devices.
            torch.default_generator.manual_seed(drawn)
            with enough_memory("the sampler's clip numbers", advice="give a sampler of fewer"):
                given = list(self._sampler)
        finally:
            torch.set_rng_state(state)
        try:
            numbers = np.array(given) if given else np.zeros(0, np.int64)
        except (RuntimeError, TypeError, ValueError) as error:  # the first is PyTorch's
            raise_of_handler(error)
            numbers = np.zeros((0, 0))
        if numbers.ndim != 1 or numbers.dtype.kind not in "iu" or len(numbers) != len(self._sampler):
            raise ConfigurationError(
                f"the sampler must give {len(self._sampler)} clip numbers, as its length says, and no batches; got "
                f"{len(given)} of {type(given[0]).__name__ if given else 'nothing'}"
            )
        if len(numbers) and (numbers.min() < 0 or numbers.max() >= clips):
            raise ConfigurationError(
                f"the sampler gives clip numbers from {numbers.min()} to {numbers.max()}, not in [0, {clips})"
            )
        return numbers.astype(np.int64)


def order_of(shuffle: bool | Order | Sampler) -> Order:
    """The order that a loader's argument ``shuffle`` means.

    Raises:
        ConfigurationError: ``shuffle`` is not an order.
    """
    if isinstance(shuffle, bool):
        return ShuffleClips() if shuffle else InOrder()
    # A class has the methods of its instances, and a str those of a sampler.
    if isinstance(shuffle, Order) and not isinstance(shuffle, type):
        return shuffle
    if isinstance(shuffle, Sampler) and not isinstance(shuffle, type | str):
        return SampledClips(shuffle)
    raise ConfigurationError(f"shuffle must be True, False, an order or a sampler of clip numbers, got {shuffle!r}")
