"""Files that once came out wrong in silence, together by every door: all frames are libav's, or marked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
import pytest
import torch
from corpus_files import CORPUS
from kept_processes import KeptProcesses, kept_processes
from soak.libav_truth import decode_truth, hash_of
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.interop.torch import ClipDataset, ClipRequest, DecodingLoader, list_clips

# Larger ones would take the time of all others.
_LARGEST = 1 << 20
FILES = sorted(path for path in (CORPUS.parent / "findings").glob("*.*") if path.stat().st_size < _LARGEST)
FILES = [path for path in FILES if path.suffix != ".md"]
DAMAGED = ("2000030_vp8", "3000258_og_cut", "4000230_full", "4000292_h264-raw")
MODE = vl.EveryWindow(3, stride=2, step=16, pad="edge")
DATA = vl.VideoDataset.from_paths(FILES or ["none"])

pytestmark = [
    pytest.mark.skipif(not FILES, reason="the findings are not here"),
    pytest.mark.filterwarnings("ignore"),
]

# Of a file, frame numbers, their pictures, and their marks where the door tells of them.
Shown: TypeAlias = tuple[str | Path, Sequence[int], Iterable[torch.Tensor], Sequence[bool] | None]
Expected: TypeAlias = dict[Path, list[tuple[bytes, bool]]]


@pytest.fixture(scope="module")
def expected() -> Expected:
    """The picture and the mark of each frame, all read together."""
    clips = {path: vl.Video(path, device="cpu").read(vl.WholeVideo()) for path in FILES}
    return {
        path: list(zip(map(hash_of, clip.frames), clip.corrupt.tolist(), strict=True)) for path, clip in clips.items()
    }


@pytest.fixture(scope="module")
def processes() -> Iterator[KeptProcesses]:
    with kept_processes(2) as processes:
        yield processes


@pytest.fixture(params=[1, 2, 8])
def threads(request: pytest.FixtureRequest) -> Iterator[int]:
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_frames_are_libavs_or_marked(expected: Expected) -> None:
    for path in FILES:
        video = vl.Video(path, device="cpu")
        truth = decode_truth(path, video)
        assert len(truth.shown) == len(video) == len(truth.pts)
        known = [each for each, pts in enumerate(truth.pts) if pts is not None]
        assert video.index.frame_pts[known].tolist() == [truth.pts[each] for each in known]
        marks = [mark for _, mark in expected[path]]
        assert any(marks) == path.name.startswith(DAMAGED)
        assert [picture for picture, mark in expected[path] if not mark] == [
            picture for picture, mark in zip(truth.shown, marks, strict=True) if not mark
        ]


def of_videos() -> Iterator[Shown]:
    """By ``Video``, of which each is read in turn with all others."""
    videos = {path: vl.Video(path, device="cpu") for path in FILES}
    rng = np.random.default_rng(0)
    for _ in range(2):
        for path, video in videos.items():
            number = int(rng.integers(len(video)))
            yield path, [number], [video[number]], None
            some = slice(number, None, int(rng.integers(-7, 0)))
            yield path, range(len(video))[some], video[some], None
    for path, video in videos.items():
        yield path, range(len(video)), video, None
        yield path, range(len(video))[::-1], video.stream(slice(None, None, -1)), None
        for clip in video.read_clips(MODE):
            yield path, clip.frame_numbers, clip.frames, clip.corrupt


def of_batches(batches: Iterable[vl.ListBatch]) -> Iterator[Shown]:
    for batch in batches:
        yield from zip(batch.paths, batch.frame_numbers, batch.frames, batch.corrupt, strict=True)


def of_loader(**settings: int) -> Iterator[Shown]:
    with vl.VideoLoader(DATA, MODE, batch_size=4, device="cpu", collate="list", shuffle=True, **settings) as loader:
        yield from of_batches(loader)


def of_decoding_loader(threads: int) -> Iterator[Shown]:
    clips = [[ClipRequest(path, MODE, clip=clip)] for clip in (1, 0) for path in FILES]
    settings = {"device": "cpu", "num_workers": threads, "num_processes": 0}
    yield from of_batches(DecodingLoader(clips, replace_with=lambda batch: batch, **settings))


def of_clip_dataset(threads: int) -> Iterator[Shown]:
    clips = ClipDataset(DATA, MODE)
    yield from of_batches(DataLoader(clips, batch_size=4, num_workers=min(threads, 2), collate_fn=list_clips))


DOORS: dict[str, Callable[[int], Iterator[Shown]]] = {
    "videos": lambda _: of_videos(),
    "loader": lambda threads: of_loader(num_workers=threads, num_processes=0),
    "loader with processes": lambda threads: of_loader(num_workers=threads, num_processes=2),
    "DecodingLoader": of_decoding_loader,
    "ClipDataset": of_clip_dataset,
}


@pytest.mark.parametrize("door", DOORS)
def test_all_doors_give_the_same_frames(
    expected: Expected, threads: int, door: str, processes: KeptProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    processes.share(monkeypatch)
    files = set()
    for path, numbers, pictures, marks in DOORS[door](threads):
        files.add(Path(path))
        known = [expected[Path(path)][number] for number in numbers]
        assert [hash_of(picture) for picture in pictures] == [picture for picture, _ in known], path
        assert marks is None or list(marks) == [mark for _, mark in known], path
    assert files == set(FILES)
