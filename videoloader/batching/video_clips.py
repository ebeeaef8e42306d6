"""Makes clips of a single video as loaders do."""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

import torch

from videoloader.batching.clip_plan import ClipRule
from videoloader.batching.collate import clip_of, collate_rows
from videoloader.batching.rows import decoding_memory, list_rows, transform_rows
from videoloader.convert.spec import Layout
from videoloader.dataset import VideoEntry
from videoloader.errors.checks import check_choice
from videoloader.errors.notes import note
from videoloader.order.video_range import SameIndex, VideoRange
from videoloader.reading.clip import Clip
from videoloader.reading.video_reader import VideoReader
from videoloader.sampling.mode import count_clips


def make_clips(
    reader: VideoReader, rule: ClipRule, clips: Sequence[int] | None, layout: Layout, device: torch.device
) -> list[Clip]:
    """Make the clips that a loader over this video alone yields in its first epoch.

    Args:
        reader: reader of the video.
        rule: rule by which they are drawn, with a single view of each.
        clips: numbers of the clips; None for all.
        layout: order of the frames' dimensions.
        device: device of the reader.

    Raises:
        ConfigurationError: the mode or a transform cannot be applied to the video.
        FrameRangeError, DecodeError, SourceError, StaleIndexError, UnsupportedError: as in ``VideoReader.read``.
    """
    check_choice("layout", layout, get_args(Layout))
    transforms, index = rule.transforms, reader.index
    video = VideoRange(VideoEntry(index.source, times=index.times), 0, len(index), SameIndex(index))
    with note("for {}", index.source, source=index.source):
        numbers = range(count_clips(rule.mode, video)) if clips is None else clips
    planned = [view for clip in numbers for view in rule.views(clip, 0, video, clip)]
    rows = list_rows(planned, decoding_memory(transforms, layout, device))
    reader.read([row.slots for row in rows], transforms.decoded)
    made = zip(transform_rows(transforms, None, rows, layout), rows, strict=True)
    return [clip_of(collate_rows([frames], [row], layout), 0) for frames, row in made]  # roles may differ
