"""Shows objects in notebooks as text with pictures of their frames.

A cell never fails because of this: where no picture can be made, the text is shown with the reason below it.
"""

from __future__ import annotations

import base64
import io
import itertools
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from videoloader.dataset import VideoDataset, VideoEntry
from videoloader.dataset.summary import DatasetSummary
from videoloader.errors import counted, printable
from videoloader.indexing.sources.opening import is_url
from videoloader.showing.contact_sheet import contact_sheet
from videoloader.showing.show import row_strip, show, spread
from videoloader.video import Video

if TYPE_CHECKING:
    from PIL.Image import Image

_T = TypeVar("_T")
# The most that a cell shows of each.
_CLIPS, _FRAMES, _KEYFRAMES, _ROWS, _COLUMNS, _CLASSES, _LETTERS = 4, 8, 6, 6, 5, 8, 300
# The time allowed for pictures of a data set's videos, which must be opened for them.
_SECONDS = 2.0


def html_of(shown: Any) -> str | None:
    """HTML of a Video, Clip, Batch, VideoDataset or DatasetSummary; None where only its text can be shown."""
    try:
        if isinstance(shown, DatasetSummary):
            return _table([["", ""], *shown.lines.items()])
        head = f"<pre>{_told(repr(shown))}</pre>"
    except Exception:  # the notebook then shows the repr, or why that fails
        return None
    try:
        if isinstance(shown, VideoDataset):
            return head + _classes(shown) + _thumbnails(shown) + _rows(shown)
        return head + _img(show(shown, clips=_CLIPS, frames=_KEYFRAMES if isinstance(shown, Video) else _FRAMES))
    except Exception as error:
        return f"{head}<p>(no picture: {_told(str(error) or type(error).__name__)})</p>"


def _img(picture: Image) -> str:
    # A notebook stores every picture, and PNG would take ten times as much as JPEG for camera pictures.
    with io.BytesIO() as file:
        picture.save(file, "JPEG", quality=88, subsampling=0)
        content = base64.b64encode(file.getvalue()).decode()
    return f'<img src="data:image/jpeg;base64,{content}" width="{picture.width}" alt="contact sheet">'


def _classes(data: VideoDataset) -> str:
    labels = data.labels
    counts = np.bincount(labels[labels >= 0])
    most = np.argsort(-counts, kind="stable")[:_CLASSES].tolist()
    told = [f"{_told(_name(data, label))}: {counts[label]}" for label in most if counts[label]]
    if more := int(np.count_nonzero(counts)) - len(told):
        told.append(f"and {counted(more, 'more class')}")
    return f"<p>Rows of each class: {', '.join(told)}</p>" if told else ""


def _name(data: VideoDataset, label: int) -> str:
    return data.class_names[label] if data.class_names else str(label)


def _thumbnails(data: VideoDataset) -> str:
    # Remote files are left out, since they may take any time to open.
    rows = [row for row in spread(len(data), _ROWS).tolist() if not is_url(data.paths[row])]
    strips = _done_within(_SECONDS, (row_strip(data, row) for row in rows))
    return _img(contact_sheet(strips, size=151)) if strips else ""


def _done_within(seconds: float, work: Iterator[_T]) -> Sequence[_T]:
    """The items that an iterator yields within so many seconds; its error is raised only if it yielded none."""
    done: list[_T] = []
    failed: list[Exception] = []
    end = time.monotonic() + seconds

    def run() -> None:
        try:
            for each in itertools.takewhile(lambda _: time.monotonic() < end, work):
                done.append(each)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=run, name="videoloader-thumbnails", daemon=True)
    thread.start()
    thread.join(seconds)
    there = done[:]
    if failed and not there:
        raise failed[0]
    return there


def _rows(data: VideoDataset) -> str:
    entries = [data[row] for row in range(min(len(data), _ROWS))]
    names = list(dict.fromkeys(name for entry in entries for name in entry.columns))[:_COLUMNS]
    rows = [["", "path", "label", "part", *names]]
    for row, entry in enumerate(entries):
        label = "" if entry.label is None else _name(data, entry.label)
        rows.append([str(row), entry.path, label, _part(entry), *(str(entry.columns.get(name, "")) for name in names)])
    kept = [column for column in zip(*rows, strict=True) if any(column[1:])]
    more = f"<p>and {counted(len(data) - len(entries), 'more row')}</p>" if len(data) > len(entries) else ""
    return _table(zip(*kept, strict=True)) + more


def _part(entry: VideoEntry) -> str:
    frames = f"frames {entry.start or 0} to {entry.stop or 'the end'}" if entry.start or entry.stop else ""
    begin, end = entry.start_seconds, entry.stop_seconds
    if begin is None and end is None:
        return frames
    return ", ".join(filter(None, [frames, f"{begin or 0:g} s to {'the end' if end is None else f'{end:g} s'}"]))


def _table(rows: Iterable[Iterable[str]]) -> str:
    head, *body = [[_told(cell) for cell in row] for row in rows]
    cells = ["".join(f'<td style="text-align: left">{cell}</td>' for cell in row) for row in body]
    names = "".join(f'<th style="text-align: left">{cell}</th>' for cell in head)
    top = f"<thead><tr>{names}</tr></thead>" if any(head) else ""
    return f"<table>{top}<tbody>{''.join(f'<tr>{each}</tr>' for each in cells)}</tbody></table>"


def _told(text: str) -> str:
    text = printable(text)
    return escape(text if len(text) <= _LETTERS else f"{text[: _LETTERS // 2]} … {text[-_LETTERS // 2 :]}")
