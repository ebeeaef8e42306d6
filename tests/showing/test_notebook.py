"""Notebooks show objects as text and pictures, and never an error."""

from __future__ import annotations

import base64
import io
import re
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from waiting import PATIENCE

import videoloader as vl
from videoloader.notebook import ShownInNotebooks
from videoloader.showing import notebook

Sample = Callable[[str], Path]
KINDS = ("video", "clip", "batch", "data", "summary")


@pytest.fixture
def shown(sample: Sample) -> dict[str, Any]:
    data = vl.VideoDataset.from_paths([sample("h264_mp4"), sample("vp9_webm")], ["walk", "<run>"])
    video = vl.Video(sample("h264_mp4"), device="cpu")
    batch = next(iter(vl.VideoLoader(data, vl.RandomWindow(4), batch_size=2, device="cpu")))
    return {"video": video, "clip": video.read([0, 3]), "batch": batch, "data": data, "summary": data.describe()}


def pictures(html: str) -> list[Image.Image]:
    found = re.findall(r'src="data:image/jpeg;base64,([^"]+)"', html)
    return [Image.open(io.BytesIO(base64.b64decode(each))) for each in found]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "summary"])
def test_text_and_a_picture(kind: str, shown: dict[str, Any]) -> None:
    html = shown[kind]._repr_html_()
    assert type(shown[kind]).__name__ in html
    (picture,) = pictures(html)
    assert picture.width <= 960
    assert len(html) < 1_000_000


def test_a_summary_is_a_table_of_its_lines(shown: dict[str, Any]) -> None:
    html = shown["summary"]._repr_html_()
    cells = re.findall(r"<td[^>]*>(.*?)</td>", html)
    assert dict(zip(cells[::2], cells[1::2], strict=True)) == shown["summary"].lines
    assert "videos" in cells


def test_a_data_set_tells_classes_and_rows(shown: dict[str, Any]) -> None:
    html = shown["data"]._repr_html_()
    assert "&lt;run&gt;: 1, walk: 1" in html
    assert "h264_mp4.mp4" in html
    assert "<run>" not in html


@pytest.mark.parametrize("kind", KINDS)
def test_without_pillow_the_text_stays(kind: str, shown: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.partition(".")[0] == "PIL"]:
        monkeypatch.setitem(sys.modules, name, None)
    html = shown[kind]._repr_html_()
    assert not pictures(html)
    if kind != "summary":
        assert notebook._told(repr(shown[kind])) in html
        assert "pip install" in html


def test_a_video_that_cannot_be_read_says_why_below_its_text(shown: dict[str, Any]) -> None:
    shown["video"].close()
    html = shown["video"]._repr_html_()
    assert "frames, h264" in html
    assert "no picture:" in html


def test_rows_that_cannot_be_read_say_why(tmp_path: Path) -> None:
    html = vl.VideoDataset([vl.VideoEntry(str(tmp_path / "gone.mp4"))])._repr_html_()
    assert "1 row" in html
    assert "no picture:" in html


def test_no_pixels_of_any_kind_fail(shown: dict[str, Any]) -> None:
    clip = shown["clip"]
    for frames in (torch.full_like(clip.frames, torch.nan, dtype=torch.float32), clip.frames.bool(), clip.frames[:0]):
        html = vl.Clip(frames, clip.frame_numbers, clip.timestamps, clip.mask, clip.corrupt)._repr_html_()
        assert "Clip(frames=" in html


def test_an_object_without_a_text_leaves_it_to_the_notebook() -> None:
    class Broken(ShownInNotebooks):
        def __repr__(self) -> str:
            raise RuntimeError("no text")

    assert Broken()._repr_html_() is None


def test_pictures_come_within_their_time() -> None:
    never = threading.Event()

    def work() -> Iterator[int]:
        yield 1
        never.wait(PATIENCE)
        yield 2

    assert notebook._done_within(0.5, work()) == [1]
    never.set()


def test_no_file_is_begun_after_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []

    def work() -> Iterator[int]:
        for number in range(1000):
            begun.append(number)
            time.sleep(0.05)
            yield number

    notebook._done_within(0.2, work())
    for thread in threading.enumerate():
        if thread.name == "videoloader-thumbnails":
            thread.join(PATIENCE)
    assert len(begun) < 1000


def test_files_elsewhere_are_not_opened_for_pictures() -> None:
    data = vl.VideoDataset([vl.VideoEntry("https://nowhere.invalid/a.mp4", start_seconds=2.5)])
    html = data._repr_html_()
    assert "nowhere.invalid" in html
    assert "2.5 s to the end" in html
    assert "no picture" not in html


def test_nothing_of_it_is_imported_before(tmp_path: Path) -> None:
    import subprocess

    program = "import sys, videoloader as vl; vl.Video; print([name for name in sys.modules if name == 'PIL'])"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"
