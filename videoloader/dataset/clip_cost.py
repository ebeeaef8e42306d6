"""Estimates the cost of decoding a data set's clips from some of its videos."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from videoloader.dataset.ranges import entry_range
from videoloader.dataset.table import EntryTable
from videoloader.errors import NotIndexedError, VideoLoaderError
from videoloader.errors.notes import note
from videoloader.errors.of_handlers import raise_of_handler
from videoloader.indexing import IndexStore, VideoIndex
from videoloader.live_line import counted_live
from videoloader.packets.decode_plan import plan_frames
from videoloader.padding.pad import real_frames
from videoloader.permutation import permute
from videoloader.sampling.mode import FrameMode, clip_frames, clip_rng, count_clips
from videoloader.sampling.sampled_video import VideoPart

# The GOP length advised for re-encoding: few frames are decoded in vain, and files stay small.
ADVISED_GOP = 12
_CLIPS_OF_A_VIDEO = 4


@dataclass(frozen=True)
class ClipCost:
    """The number of packets decoded for each distinct frame of a mode's clips.

    The figures are upper bounds: reading the packets may show that more of them can be skipped
    (``docs/architecture/decoding.md``).

    Attributes:
        mode: frame mode. The mode that chooses the clips.
        videos, clips: int. The numbers of videos and clips that the figures come from.
        made_up_share: float. The fraction of the clips' frames that padding makes up.
        decoded_per_frame: float. The packets per frame with the videos as they are.
        decoded_per_frame_re_encoded: float. The packets per frame if the videos were re-encoded with closed GOPs of
            ``ADVISED_GOP`` frames and the same disposable frames.
    """

    mode: FrameMode
    videos: int
    clips: int
    made_up_share: float
    decoded_per_frame: float
    decoded_per_frame_re_encoded: float


def estimate_cost(table: EntryTable, mode: FrameMode, store: IndexStore, videos: int) -> ClipCost | None:
    """Estimate the cost from some clips of ``videos`` rows, chosen at random but always the same.

    Returns:
        The cost; None where these rows have no clips.

    Raises:
        ConfigurationError: the mode needs a column that does not exist.
        NotIndexedError: a video is not in the store.
    """
    shown = made_up = wanted = decoded = decoded_re_encoded = 0.0
    used = clips = 0
    rows = permute(np.arange(min(videos, len(table))), len(table), 0, 0).tolist()
    for row in counted_live("planning clips", rows, len(rows)):
        entry = table[row]
        try:
            index = store.get(entry.path).with_times(entry.times)
            video = VideoPart(*entry_range(entry, index), index, entry.columns)
        except NotIndexedError:
            raise
        except VideoLoaderError as error:
            raise_of_handler(error)
            continue  # the loader reports it
        with note("for {}", entry.path, source=entry.path, row=row):
            count = count_clips(mode, video)
        chosen = permute(np.arange(min(count, _CLIPS_OF_A_VIDEO)), count, 0, row).tolist() if count else []
        short = with_gops_of(index, ADVISED_GOP) if chosen else index
        used, clips = used + bool(chosen), clips + len(chosen)
        for clip in chosen:
            with note("for {}", entry.path, source=entry.path, row=row):
                frames, mask = clip_frames(mode, video, clip, clip_rng(0, row, clip))
            frames = real_frames(frames)
            # The chosen clips also stand for the clips of their video that were not chosen.
            plan, weight = plan_frames(index, frames), count / len(chosen)
            shown += weight * len(mask)
            made_up += weight * np.count_nonzero(~mask)
            wanted += weight * plan.frames_wanted
            decoded += weight * plan.packets
            decoded_re_encoded += weight * plan_frames(short, frames).packets
    if not wanted:
        return None
    return ClipCost(mode, used, clips, made_up / shown, decoded / wanted, decoded_re_encoded / wanted)


def with_gops_of(index: VideoIndex, frames: int) -> VideoIndex:
    """The index that a video would have if it were re-encoded with closed GOPs of ``frames`` frames.

    Each GOP begins with its first frame in display order; its other packets keep their coding order and stay disposable
    where they were. Packets that show no frame are dropped, and frames shown twice become two packets.
    """
    count = len(index)
    number = np.arange(count)
    gop, is_key = number // frames, number % frames == 0
    order = np.lexsort((index.frame_packet, ~is_key, gop))
    packet = np.empty(count, np.int32)
    packet[order] = number
    disposable = np.where(is_key, 0, index.packet_disposable[index.frame_packet])[order]
    return replace(
        index,
        method="tables",
        packet_offset=number,
        packet_size=np.ones(count, np.int32),
        packet_pts=order,
        packet_key=is_key[order],
        packet_disposable=disposable.astype(np.uint8),
        packet_config=np.zeros(count, np.uint8),
        frame_packet=packet,
        byte_ranges=True,
        transport=None,
        other_starts=(),
    )
