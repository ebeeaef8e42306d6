"""``show``: batches, clips, videos, data sets and frames as one picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
import numpy.typing as npt
import torch

from videoloader.batching.batch import Batch
from videoloader.batching.collate import clip_of
from videoloader.convert.spec import Layout
from videoloader.dataset import VideoDataset
from videoloader.dataset.ranges import entry_range
from videoloader.errors import ArgumentError, counted
from videoloader.errors.argument_names import tells_of_arguments
from videoloader.errors.checks import check_choice, check_integer, check_positive, check_type
from videoloader.errors.short_text import short_text
from videoloader.reading.clip import Clip
from videoloader.showing.contact_sheet import Strip, Tile, contact_sheet
from videoloader.transforms.normalize import Normalize
from videoloader.transforms.resizing import Resize
from videoloader.video import Video

if TYPE_CHECKING:
    from PIL.Image import Image


@tells_of_arguments
def show(
    what: Batch | Clip | Video | VideoDataset | torch.Tensor | Sequence[Any] | Any,
    *,
    clips: int = 8,
    frames: int = 16,
    size: int | None = None,
    layout: Layout | None = None,
    normalize: Normalize | None = None,
) -> Image:
    """Draw frames as one picture: small, each above its number and time.

    Frames that padding made up are hatched, damaged ones have a red border, and inputs and targets are marked. A
    notebook shows the picture where the call is the last line of a cell; in a program, ``save`` it.

    Args:
        what: Batch, Clip, Video, VideoDataset, tensor, array, or a list of these. A video shows its keyframes, and a
            data set one frame of each of several rows; both are read for it. A tensor or array holds one frame (3
            dimensions), a clip (4) or several (5), on any device and of any type.
        clips: int, default 8. The most clips of a batch, or rows of a data set, to show.
        frames: int, default 16. The most frames of each clip to show, evenly spaced.
        size: int, default 151 … 467, larger for fewer frames. The pixels of the longer side of a frame, at most 4096.
        layout: str, default found by where the 3 or 1 channels are. The order of the dimensions of a tensor, as in
            ``VideoLoader``.
        normalize: ``Normalize``, default None: floats are scaled from the range of their values, and the picture says
            how. The normalisation of the frames, which is undone.

    Returns:
        A PIL image in RGB.

    Raises:
        ConfigurationError: Pillow is not installed (``pip install videoloader[pictures]``).
        ArgumentError: ``what`` is none of these.
        VideoLoaderError: a video cannot be read.

    Examples:
        >>> picture = vl.show(batch, clips=2)
        >>> picture.save("batch.png")
        >>> picture = vl.show(video.read(RandomWindow(16, stride=4)), size=320)
    """
    check_positive(clips=clips, frames=frames)
    if size is not None:
        check_integer("size", size, 1, 4096)
    if layout is not None:
        check_choice("layout", layout, get_args(Layout))
    check_type("normalize", normalize, isinstance(normalize, Normalize | None), "a Normalize(mean, std)")
    strips = [strip for strip in _strips(what, clips, frames, layout) if strip.tiles]
    if not strips:
        raise ArgumentError(f"there is nothing to show: {short_text(what)} is empty")
    count = len(what) if isinstance(what, Batch | VideoDataset) else len(strips)
    kind = "rows" if isinstance(what, VideoDataset) else "clips"
    note = f"{clips} of {count} {kind}" if count > clips else ""
    return contact_sheet(strips[:clips], size=size, normalize=normalize, note=note)


def _strips(what: Any, clips: int, frames: int, layout: Layout | None) -> list[Strip]:
    if isinstance(what, Video):
        return [video_strip(what, frames)]
    if isinstance(what, VideoDataset):
        return [row_strip(what, row) for row in spread(len(what), clips).tolist()]
    if isinstance(what, Batch):
        return [batch_strip(what, row, frames) for row in range(min(clips, len(what)))]
    if isinstance(what, Clip):
        return [_clip_strip(what, frames)]
    if isinstance(what, list | tuple):
        each = [_strips(one, clips, frames, layout) for one in what]
        # A list of single frames is a clip.
        if each and all(getattr(one, "ndim", 0) in (2, 3) for one in what):
            return [Strip([strip.tiles[0] for (strip,) in each][:frames], left_out=max(0, len(each) - frames))]
        return [strip for strips in each for strip in strips]
    dimensions = getattr(what, "ndim", 0)
    if dimensions == 2:
        return [Strip([Tile(what)])]
    if dimensions == 3:
        channels_first = layout != "THWC" if layout else what.shape[0] in (1, 3) and what.shape[2] not in (1, 3)
        return [Strip([Tile(_moved(what, "CHW") if channels_first else what)])]
    if dimensions in (4, 5):
        several = what if dimensions == 5 else what[None]
        order = layout or _layout_of(tuple(several.shape[1:]))
        return [_some(list(map(Tile, _moved(several[row], order))), frames) for row in range(len(several))]
    takes = "a Batch, a Clip, a Video, a VideoDataset, a tensor or array of 2 to 5 dimensions, or a list of these"
    raise ArgumentError(f"show takes {takes}, got {short_text(what)}")


def video_strip(video: Video, frames: int) -> Strip:
    """The strip of a video's keyframes, evenly spaced ones if there are many.

    Args:
        video: video to read.
        frames: the most frames.

    Raises:
        VideoLoaderError: they cannot be decoded.
    """
    keys = _keyframes(video)
    numbers = keys[spread(len(keys), frames)] if len(keys) else np.arange(min(1, len(video)))
    told = f"{len(numbers)} of {counted(len(keys), 'keyframe')}" if len(keys) else "no keyframe"
    return Strip(_video_tiles(video, numbers), f"{PurePath(video.index.source).name}: {told}")


def row_strip(data: VideoDataset, row: int) -> Strip:
    """The strip of one frame of a row: its first keyframe, or its first frame where it has no keyframe.

    Args:
        data: data set of the video.
        row: row of the data set.

    Raises:
        VideoLoaderError: the video cannot be read.
    """
    entry = data[row]
    with Video(entry.path, device="cpu", times=entry.times) as video:
        first, stop = entry_range(entry, video.index)
        keys = _keyframes(video)
        inside = keys[(keys >= first) & (keys < stop)]
        tiles = _video_tiles(video, inside[:1] if len(inside) else [first])
    named = "" if entry.label is None else label_text(data, entry.label)
    return Strip(tiles, ", ".join(filter(None, [f"row {row}", named, PurePath(entry.path).name])))


def _keyframes(video: Video) -> npt.NDArray[np.int64]:
    return np.flatnonzero(video.index.packet_key[video.index.frame_packet])


def _video_tiles(video: Video, numbers: Any) -> Sequence[Tile]:
    # Large frames are scaled down as they are decoded.
    clip = video.read(numbers, transforms=[Resize(320)] if min(video.width, video.height) > 320 else ())
    return _strips(clip, 1, len(numbers), None)[0].tiles


def label_text(data: VideoDataset, label: int) -> str:
    """The text of a label in a title: the name of its class, where it has one."""
    return data.class_names[label] if data.class_names else f"label {label}"


def batch_strip(batch: Batch, row: int, frames: int) -> Strip:
    """The strip of one clip of a batch, with at most ``frames`` frames."""
    told = [PurePath(batch.paths[row]).name, f"clip {batch.clips[row]}", _label(batch.labels[row])]
    told += [f"view {batch.views[row]}" if batch.views.any() else "", "repeated" if batch.repeated[row] else ""]
    return _clip_strip(clip_of(batch, row), frames, ", ".join(filter(None, told)))


def _label(label: torch.Tensor) -> str:
    if label.ndim == 0:
        return f"label {int(label)}" if label >= 0 else ""
    shares, classes = label.float().topk(min(2, len(label)))
    shown = [f"{number}: {share:.2f}" for number, share in zip(classes.tolist(), shares.tolist(), strict=True) if share]
    return f"labels {', '.join(shown)}"


def _clip_strip(clip: Clip, most: int, title: str = "") -> Strip:
    shown, roles = _moved(clip.frames, clip.layout), clip.roles
    role = {} if roles is None else dict.fromkeys(roles.inputs, "input") | dict.fromkeys(roles.targets, "target")
    facts = zip(clip.frame_numbers.tolist(), clip.timestamps.tolist(), clip.mask, clip.corrupt, strict=True)
    tiles = [
        Tile(frame, number, time, role.get(place, ""), not real, bool(damaged))
        for place, (frame, (number, time, real, damaged)) in enumerate(zip(shown, facts, strict=True))
    ]
    return _some(tiles, most, title)


def _some(tiles: Sequence[Tile], most: int, title: str = "") -> Strip:
    places = spread(len(tiles), most)
    return Strip([tiles[place] for place in places.tolist()], title, len(tiles) - len(places))


def _layout_of(shape: tuple[int, ...]) -> Layout:
    for channels in (3, 1):
        found: list[Layout] = [order for order in get_args(Layout) if shape[order.index("C")] == channels]
        if len(found) == 1:
            return found[0]
        if found:
            told = f"frames of shape {list(shape)} may be {' or '.join(found)}"
            raise ArgumentError(f"{told}: write layout={found[0]!r}")
    raise ArgumentError(f"frames of shape {list(shape)} have neither 3 channels nor 1: write layout=")


def _moved(frames: Any, order: str) -> Any:
    """A view whose dimensions are (T,) H, W, C."""
    axes = [order.index(each) for each in "THWC" if each in order]
    return frames.permute(axes) if isinstance(frames, torch.Tensor) else np.asarray(frames).transpose(axes)


def spread(count: int, most: int) -> Any:
    """int64: up to ``most`` evenly spaced positions of 0 … count − 1, including the first and the last."""
    return np.linspace(0, count - 1, min(count, most)).round().astype(np.int64)
