"""Summarises a data set in figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from videoloader.dataset.clip_cost import ADVISED_GOP, ClipCost, estimate_cost
from videoloader.dataset.stores import DISPLAYED_HEIGHT, DISPLAYED_WIDTH, Store, facts_of_rows, opened_store
from videoloader.dataset.table import NONE, EntryTable
from videoloader.errors import IndexingError, counted
from videoloader.errors.checks import check_positive
from videoloader.notebook import ShownInNotebooks
from videoloader.sampling.mode import FrameMode, FrameNumbers, mode_of

Fact = TypeVar("Fact")

# The most values of a fact that are listed one by one.
_MOST_LISTED = 5


@dataclass(frozen=True)
class DatasetSummary(ShownInNotebooks):
    """The figures of a data set; ``str`` makes a readable table of them.

    Attributes:
        rows: int. The rows of the data set.
        videos: int. The distinct videos that can be read.
        classes: int. The distinct labels.
        unreadable: int. The videos that cannot be indexed.
        left_out: int. The rows that a reader or a filter left out.
        frames: int. The total over whole videos, even where rows cover only parts of them.
        hours: float. The same total as a time.
        codecs: mapping. The number of videos with each codec.
        sizes: mapping. The number of videos with each displayed (height, width) in pixels.
        fps: mapping. The number of videos with each average frame rate, rounded to hundredths.
        variable_rate: int. The number of videos with a variable frame rate.
        frames_per_keyframe: float. The number of packets per keyframe, over all videos together.
        longest_gop: (int, int, int). The length of a video's longest GOP in packets: the median over videos, the 90th
            percentile, and the maximum.
        cost: ``ClipCost`` or None. The cost of decoding clips and their share of padding, if a mode was given and the
            data set has clips of it.
    """

    rows: int
    videos: int
    classes: int
    unreadable: int
    left_out: int
    frames: int
    hours: float
    codecs: Mapping[str, int]
    sizes: Mapping[tuple[int, int], int]
    fps: Mapping[float, int]
    variable_rate: int
    frames_per_keyframe: float
    longest_gop: tuple[int, int, int]
    cost: ClipCost | None = None

    def __str__(self) -> str:
        return "\n".join(f"{name:<13}{line}" for name, line in self.lines.items())

    @property
    def lines(self) -> dict[str, str]:
        """The lines of the readable table, by topic."""
        labels = f", {counted(self.classes, 'class')}" if self.classes else ""
        lines = {"videos": f"{self.videos} in {counted(self.rows, 'row')}{labels}"}
        if self.unreadable or self.left_out:
            left_out = counted(self.left_out, "row")
            lines["not usable"] = f"{counted(self.unreadable, 'video')} unreadable, {left_out} left out"
        if self.videos:
            lines |= self._facts()
        if self.cost is not None:
            lines["decode cost"] = (
                f"1 wanted frame costs {self.cost.decoded_per_frame:.1f} decoded; "
                f"re-encode with GOP {ADVISED_GOP}: {self.cost.decoded_per_frame_re_encoded:.1f}"
            )
            if self.cost.made_up_share:
                lines["padding"] = f"{100 * self.cost.made_up_share:.3g} % of the frames of clips are made up"
            videos = counted(self.cost.videos, "video")
            lines[""] = f"({counted(self.cost.clips, 'clip')} of {videos}, {self.cost.mode})"
        return lines

    def _facts(self) -> dict[str, str]:
        median, most, longest = self.longest_gop
        varying = f"; variable in {_percent(self.variable_rate, self.videos)}" if self.variable_rate else ""
        return {
            "length": f"{self.hours:.3f} hours, {counted(self.frames, 'frame')}",
            "codecs": _shares(self.codecs.items()),
            "sizes": _shares((f"{width}×{height}", count) for (height, width), count in self.sizes.items()),
            "fps": _shares((f"{rate:g}", count) for rate, count in self.fps.items()) + varying,
            "keyframes": f"one in {self.frames_per_keyframe:.1f} frames; longest GOP {median} (median), "
            f"{most} (9 in 10 videos), {longest} (all)",
        }


def summarize(
    table: EntryTable, left_out: int, mode: FrameMode | FrameNumbers | None, store: Store | None, videos: int
) -> DatasetSummary:
    """Summarise a data set; ``VideoDataset.describe`` explains arguments and errors."""
    measured = None if mode is None else mode_of(mode)
    check_positive(videos=videos)
    columns = ["codec", DISPLAYED_HEIGHT, DISPLAYED_WIDTH, "fps", "duration_s", "frames", "packets", "keyframes"]
    columns += ["longest_gop", "is_vfr", "error IS NOT NULL"]
    with opened_store(table.path, store) as opened:
        different = list(dict.fromkeys(table.path))
        facts = list(facts_of_rows(opened, different, columns))
        readable = [fact[:-1] for fact in facts if not fact[-1]]
        if any(value is None for fact in readable for value in fact):
            told = "the index store is damaged: a video lacks facts: delete it and build it again"
            raise IndexingError(told, opened.path)
        cost = None if measured is None else estimate_cost(table, measured, opened, videos)
    codec, height, width, fps, seconds, frames, packets, keys, gop, vfr = (
        zip(*readable, strict=True) if readable else [()] * 10
    )
    longest = np.sort(np.array(gop, np.int64)) if readable else np.zeros(1, np.int64)
    places = [(len(longest) - 1) // 2, (len(longest) * 9 + 9) // 10 - 1, -1]
    return DatasetSummary(
        rows=len(table),
        videos=len(readable),
        classes=len(np.unique(table.label[table.label != NONE])),
        unreadable=len(facts) - len(readable),
        left_out=left_out,
        frames=sum(frames),
        hours=sum(seconds) / 3600,
        codecs=_counts(codec),
        sizes=_counts(zip(height, width, strict=True)),
        fps=_counts(round(rate, 2) for rate in fps),
        variable_rate=sum(vfr),
        frames_per_keyframe=sum(packets) / max(sum(keys), 1),
        longest_gop=(int(longest[places[0]]), int(longest[places[1]]), int(longest[places[2]])),
        cost=cost,
    )


def _counts(values: Iterable[Fact]) -> dict[Fact, int]:
    """The number of times that each value occurs, the most frequent first."""
    return dict(Counter(values).most_common())


def _shares(counts: Iterable[tuple[str, int]]) -> str:
    told = list(counts)
    total = sum(count for _, count in told)
    shares = [f"{name}: {_percent(count, total)}" for name, count in told[:_MOST_LISTED]]
    return ", ".join(shares) + (f" and {len(told) - _MOST_LISTED} more" if len(told) > _MOST_LISTED else "")


def _percent(count: int, total: int) -> str:
    return f"{100 * count / total:.3g} %"
