"""Describes a data set on one HTML page."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from videoloader import __version__
from videoloader.cli.example_clips import example_clips, some_rows
from videoloader.cli.html_page import bars, code, page, picture, section, table, text
from videoloader.dataset import VideoDataset
from videoloader.dataset.clip_cost import ADVISED_GOP
from videoloader.dataset.stores import DISPLAYED_HEIGHT, DISPLAYED_WIDTH, facts_of_rows
from videoloader.dataset.summary import DatasetSummary
from videoloader.errors import VideoLoaderError, counted
from videoloader.indexing import IndexStore

# The most broken files to list, bars of a chart, example clips, and frames of each.
_LISTED, _BARS, _CLIPS, _FRAMES = 200, 10, 6, 8
# The facts read for each video.
_COLUMNS = ["codec", DISPLAYED_WIDTH, DISPLAYED_HEIGHT, "fps", "duration_s", "longest_gop", "error"]


def ffmpeg_command(gop: int = ADVISED_GOP) -> str:
    """The command that makes a training copy of a video: closed GOPs of so many frames, and disposable B frames.

    The copy has the same frames at the same times.
    """
    return (
        f"ffmpeg -i in.mp4 -map 0:v:0 -an -fps_mode passthrough -c:v libx264 -crf 18 -g {gop} -keyint_min {gop} "
        "-sc_threshold 0 -bf 2 -x264-params open-gop=0:b-pyramid=none -pix_fmt yuv420p -movflags +faststart out.mp4"
    )


def dataset_page(source: str, data: VideoDataset, summaries: Sequence[DatasetSummary], store: IndexStore) -> str:
    """Make the page.

    Args:
        source: name of the data set.
        data: its rows.
        summaries: one for each frame mode whose cost is shown; example clips use the mode of the first.
        store: index store of its videos.
    """
    paths = list(dict.fromkeys(data.paths))
    facts = list(facts_of_rows(store, paths, _COLUMNS))
    good = [fact for fact in facts if fact[-1] is None]
    broken = [(path, str(fact[-1])) for path, fact in zip(paths, facts, strict=True) if fact[-1] is not None]
    broken += [(path, reason) for path, reason in data.left_out]
    parts = [
        section("In figures", table([line for line in summaries[0].lines.items() if line[0]])),
        section("Distributions", f'<div class="grid">{"".join(_charts(data, good))}</div>') if good else "",
        section("What clips cost", *_costs(summaries)),
        section("Example clips", _examples(data, summaries[0], store)) if good else "",
        section(f"Not usable: {len(broken)}", *_broken(broken)),
    ]
    title = f"{source}: {counted(len(data), 'row')}, {counted(len(good), 'video')}"
    return page(title, parts, f"made by videoloader {__version__}")


def _charts(data: VideoDataset, good: Sequence[tuple[Any, ...]]) -> Iterable[str]:
    codec, width, height, fps, seconds, gop, _ = zip(*good, strict=True)
    yield bars("Size", _by_value(f"{w}×{h}" for w, h in zip(width, height, strict=True)))
    yield bars("Length, seconds", _by_range(seconds))
    yield bars("Frames a second", _by_value(f"{rate:.2f}".rstrip("0").rstrip(".") for rate in fps))
    yield bars("Longest GOP, packets", _by_range(gop))
    yield bars("Codec", _by_value(codec))
    labels = data.labels[data.labels >= 0].tolist()
    if labels:
        names = data.class_names
        yield bars("Class", _by_value(names[label] if names else str(label) for label in labels))


def _by_value(values: Iterable[str]) -> list[tuple[str, int]]:
    """The most frequent values, and the number of all others."""
    counts = Counter(values).most_common()
    shown, others = counts[:_BARS], sum(count for _, count in counts[_BARS:])
    return [*shown, (f"{len(counts) - _BARS} others", others)] if others else shown


def _by_range(values: Iterable[float]) -> list[tuple[str, int]]:
    """The number of values in each of some ranges of equal width, or of each value if there are few."""
    numbers = np.array(list(values), np.float64)
    if len(np.unique(numbers)) <= _BARS:
        found, counts = np.unique(numbers, return_counts=True)
        return [(f"{value:.4g}", int(count)) for value, count in zip(found, counts, strict=True)]
    counts, edges = np.histogram(numbers, _BARS)
    names = [f"{low:.4g} – {high:.4g}" for low, high in pairwise(edges.tolist())]
    return list(zip(names, counts.tolist(), strict=True))


def _costs(summaries: Sequence[DatasetSummary]) -> list[str]:
    rows = []
    for summary in summaries:
        if (cost := summary.cost) is not None:
            told = (f"{cost.decoded_per_frame:.1f}", f"{cost.decoded_per_frame_re_encoded:.1f}")
            rows.append((repr(cost.mode), *told, f"{cost.made_up_share:.1%}"))
    if not rows:
        return ["<p>The videos give no clips of these modes.</p>"]
    header = ("frame mode", "packets decoded for a frame", f"the same with GOPs of {ADVISED_GOP}", "made up by padding")
    return [
        table(rows, header),
        f"<p>Training copies with GOPs of {ADVISED_GOP} frames, for each video:</p>",
        code(ffmpeg_command()),
    ]


def _examples(data: VideoDataset, summary: DatasetSummary, store: IndexStore) -> str:
    """Small pictures of some example clips."""
    from videoloader.sampling.windows import RandomWindow
    from videoloader.showing.contact_sheet import contact_sheet
    from videoloader.transforms import Resize

    mode = RandomWindow(16, stride=4) if summary.cost is None else summary.cost.mode
    try:
        clips = example_clips(some_rows(data, _CLIPS, 0), mode, [Resize(160)], _CLIPS, _FRAMES, 0, "cpu", store)
    except VideoLoaderError as error:
        return f"<p>There are none: {text(error)}</p>"
    file = io.BytesIO()
    contact_sheet([strip for strip, _ in clips]).save(file, "JPEG", quality=88)
    names = ", ".join(facts["path"] for _, facts in clips)
    return f"<p>{text(mode)}</p>{picture(file.getvalue(), 'jpeg', f'clips of {names}')}"


def _broken(broken: Sequence[tuple[str, str]]) -> list[str]:
    if not broken:
        return ["<p>All files can be read.</p>"]
    more = f"<p>and {len(broken) - _LISTED} more</p>" if len(broken) > _LISTED else ""
    return [table(broken[:_LISTED], ("file", "reason")), more]
