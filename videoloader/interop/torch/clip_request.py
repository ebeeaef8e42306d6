"""The stand-in for frames that a data set gives out: a few words about which ones are wanted."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import BinaryIO

from torch.utils.data._utils.collate import default_collate_fn_map

from videoloader.argument_names import tells_of_arguments
from videoloader.dataset import VideoEntry
from videoloader.errors import ArgumentError, ConfigurationError, check_uint64
from videoloader.indexing import ByteSource, MemorySource
from videoloader.sampling import FrameMode
from videoloader.sampling.integers import shortened
from videoloader.sampling.mode import FrameNumbers, mode_of
from videoloader.transforms import Normalize, Transform
from videoloader.transforms.planning.pipeline import Transforms, list_transforms


@dataclass(frozen=True, init=False)
class ClipRequest:
    """A request for a clip that a ``DecodingLoader`` makes, anywhere in a sample of a torch data set.

    It costs nothing to make, opens no file and takes some hundred bytes on its way out of a worker process. PyTorch's
    ``default_collate`` gathers the requests of a batch in a list.

    Args:
        video: str, path, bytes, binary file object or VideoEntry. A path in any form that ``Video`` takes; an entry,
            which may mean only a part of a video; or the bytes of a file. A file object is read from its start now.
            Bytes travel with the request and are indexed whenever they come.
        mode: frame mode, or list, range, array or tensor. The rule that chooses the frames, or their numbers (negative
            ones count from the end).
        clip: int, default 0. The number of the clip, for modes that make several clips of a video.
        seed: int, default None. The seed of random frames and transforms: the frames are those of
            ``Video(video).read(mode, clip=clip, seed=seed)`` then. Without one they follow from the loader's seed, the
            epoch and the number of requests before it in the epoch.
        transforms: list, default None. Crops, resizes, flips and padding instead of the loader's. All other transforms
            are the loader's alone.

    Attributes:
        video: the entry. Its path is a name made of their content where bytes were given.
        mode: the frame mode.
        source: the bytes that were given, else None.

    Raises:
        ConfigurationError: an argument makes no sense.

    Examples:
        >>> class Captioned(torch.utils.data.Dataset):
        ...     def __getitem__(self, row):
        ...         path, caption = self.rows[row]
        ...         return {"video": ClipRequest(path, RandomWindow(16, stride=4)), "tokens": self.tokens_of(caption)}
    """

    video: VideoEntry
    mode: FrameMode
    _: KW_ONLY
    clip: int = 0
    seed: int | None = None
    transforms: tuple[Transform, ...] | None = None
    source: ByteSource | None = field(default=None, repr=False, compare=False)

    @tells_of_arguments
    def __init__(
        self,
        video: str | os.PathLike[str] | bytes | BinaryIO | VideoEntry,
        mode: FrameMode | FrameNumbers,
        *,
        clip: int = 0,
        seed: int | None = None,
        transforms: Transforms = None,
    ) -> None:
        entry, source = _entry_of(video)
        check_uint64(clip=clip, seed=0 if seed is None else seed)
        listed = list_transforms(transforms)
        if any(isinstance(transform, Normalize) for transform in listed):
            raise ConfigurationError("a request cannot have a Normalize of its own: give it to the loader", entry.path)
        values = {
            "video": entry,
            "mode": mode_of(mode),
            "clip": int(clip),
            "seed": None if seed is None else int(seed),
            "transforms": None if transforms is None else tuple(listed),
            "source": source,
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)


def _entry_of(video: object) -> tuple[VideoEntry, ByteSource | None]:
    if isinstance(video, VideoEntry):
        return video, None
    if isinstance(video, str | os.PathLike):
        return VideoEntry(os.fspath(video)), None
    if hasattr(video, "read") and hasattr(video, "seek"):
        video.seek(0)
        video = video.read()
    if not isinstance(video, bytes) or not video:
        raise ArgumentError(
            f"video must be a path, bytes, a binary file object or a VideoEntry, got {shortened(video)}"
        )
    source = MemorySource(video)
    source.name = f"<bytes {source.fingerprint}>"
    return VideoEntry(source.name), source


def _collate_requests(requests: Sequence[ClipRequest], *, collate_fn_map: object = None) -> list[ClipRequest]:
    return list(requests)


# The documented way to teach ``default_collate`` a type of one's own.
default_collate_fn_map[ClipRequest] = _collate_requests
