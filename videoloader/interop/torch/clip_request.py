"""``ClipRequest``: a small description of frames that a data set returns in place of the frames."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import BinaryIO

from torch.utils.data._utils.collate import default_collate_fn_map

from videoloader.dataset import VideoEntry
from videoloader.errors import ConfigurationError
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_type, check_uint64
from videoloader.indexing import ByteSource, MemorySource
from videoloader.sampling.mode import FrameMode, FrameNumbers, mode_of
from videoloader.transforms import Normalize, Transform
from videoloader.transforms.planning.pipeline import Transforms, list_transforms


@dataclass(frozen=True, init=False)
class ClipRequest:
    """A request, anywhere in a sample of a torch data set, for a clip that a ``DecodingLoader`` makes.

    It is cheap to make, opens no file and takes a few hundred bytes when sent from a worker process. PyTorch's
    ``default_collate`` collects the requests of a batch in a list.

    Args:
        video: str, path, bytes, binary file object or VideoEntry. A path in any form that ``Video`` takes; an entry,
            which may be only a part of a video; or the bytes of a file. A file object is read from its start
            immediately. Bytes are sent with the request and indexed each time.
        mode: frame mode, or list, range, array or tensor. The rule that chooses the frames, or their numbers (negative
            ones count from the end).
        clip: int, default 0. The number of the clip, for modes that make several clips of a video.
        seed: int, default None. The seed of random frames and transforms, with which the frames equal
            ``Video(video).read(mode, clip=clip, seed=seed)``. Without it they depend on the loader's seed, the epoch
            and the number of earlier requests in the epoch.
        transforms: list, default None. Crops, resizes, flips and padding that replace the loader's. All other
            transforms belong to the loader.

    Attributes:
        video: the entry. If bytes were given, its path is a name derived from their content.
        mode: the frame mode.
        source: the given bytes, or None.

    Raises:
        ConfigurationError: an argument is invalid.

    Examples:
        >>> class Captioned(torch.utils.data.Dataset):
        ...     def __getitem__(self, row):
        ...         path, caption = self.rows[row]
        ...         clip = ClipRequest(path, RandomWindow(16, stride=4))
        ...         return {"video": clip, "tokens": self.tokens_of(caption)}
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
    holds = isinstance(video, bytes) and video
    check_type("video", video, holds, "a path, bytes, a binary file object or a VideoEntry")
    source = MemorySource(video)  # type: ignore[arg-type]  # checked above
    source.name = f"<bytes {source.fingerprint}>"
    return VideoEntry(source.name), source


def _collate_requests(requests: Sequence[ClipRequest], *, collate_fn_map: object = None) -> list[ClipRequest]:
    return list(requests)


# The documented way to extend ``default_collate`` by a type.
default_collate_fn_map[ClipRequest] = _collate_requests
