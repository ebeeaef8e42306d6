"""With ``num_workers=0`` everything runs in the calling thread, with the same results."""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader
from videoloader.reading.clip_reader import ClipReader

Sample = Callable[[str], Path]
Stops = list[tuple[str, threading.Thread]]


@pytest.fixture
def paths(sample: Sample) -> list[str]:
    return [str(sample(name)) for name in ("h264_mp4", "hevc_mp4", "vp9_webm")]


@pytest.fixture
def stops(monkeypatch: pytest.MonkeyPatch) -> Stops:
    """Which functions stopped at a breakpoint, and in which thread; decoding counts as one of them."""
    stopped: Stops = []
    monkeypatch.setattr(
        sys, "breakpointhook", lambda: stopped.append((sys._getframe(1).f_code.co_name, threading.current_thread()))
    )
    read = ClipReader.read

    def decode(*args: object, **settings: object) -> object:
        breakpoint()
        return read(*args, **settings)

    monkeypatch.setattr(ClipReader, "read", decode)
    return stopped


@dataclass(frozen=True)
class OwnMode:
    pad: str = "none"

    def num_clips(self, video: object) -> int:
        breakpoint()
        return 2

    def frame_numbers(self, video: object, clip: int, rng: np.random.Generator) -> np.ndarray:
        breakpoint()
        return np.array([clip, 20 + clip])


@dataclass(frozen=True)
class OwnTransform(vl.PixelTransform):
    def draw(self, rng: np.random.Generator, clip: object) -> list[object]:
        breakpoint()
        return []


class OwnModule(torch.nn.Module):
    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        breakpoint()
        return frames


def own_function(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    breakpoint()
    return frames


def indexed() -> None:
    breakpoint()


def show(clips: vl.Batch) -> torch.Tensor:
    breakpoint()
    return clips.frames


TRANSFORMS = [vl.RandomResizedCrop(48), OwnTransform(), vl.PythonFunction(own_function), OwnModule()]
SETTINGS = {"device": "cpu", "transforms": TRANSFORMS}


def threads() -> set[threading.Thread]:
    return set(threading.enumerate())


def video_loader(paths: list[str], workers: int) -> Iterable[torch.Tensor]:
    data = vl.VideoDataset.from_paths(paths)
    loader = vl.VideoLoader(data, OwnMode(), batch_size=4, num_workers=workers, on_indexed=indexed, **SETTINGS)
    return (batch.frames for batch in loader)


def decoding_loader(paths: list[str], workers: int) -> Iterable[torch.Tensor]:
    requests = [[ClipRequest(path, OwnMode(), clip=clip) for path in paths] for clip in range(2)]
    return DecodingLoader(requests, num_workers=workers, replace_with=show, **SETTINGS)


LOADERS = {"VideoLoader": (video_loader, {"indexed"}), "DecodingLoader": (decoding_loader, {"show"})}
Make = Callable[[list[str], int], Iterable[torch.Tensor]]


@pytest.mark.parametrize(("make", "further"), LOADERS.values(), ids=LOADERS)
def test_breakpoints_in_all_that_is_the_users_own_stop_in_the_callers_thread(
    paths: list[str], stops: Stops, make: Make, further: set[str]
) -> None:
    before = threads()
    frames = list(make(paths, 0))
    assert threads() <= before
    assert {thread for _, thread in stops} == {threading.current_thread()}
    everything = {"num_clips", "frame_numbers", "draw", "decode", "own_function", "forward"}
    assert {name for name, _ in stops} == everything | further
    with_workers = list(make(paths, 2))
    assert len(frames) == len(with_workers) == 2
    assert all(map(torch.equal, frames, with_workers))


def test_batches_are_made_when_they_are_asked_for(paths: list[str], stops: Stops) -> None:
    data = vl.VideoDataset.from_paths(paths)
    loader = vl.VideoLoader(data, [0, 20], batch_size=1, device="cpu", num_workers=0, prefetch=5)
    counts = [len(stops) for _ in loader]
    assert counts == [1, 2, 3]
    stats = loader.stats()
    assert stats.waiting >= stats.cpu, "nothing was ready"


def test_a_loop_resumes_as_one_with_workers_would(paths: list[str]) -> None:
    def make(workers: int) -> vl.VideoLoader:
        settings = {"batch_size": 2, "device": "cpu", "shuffle": True, "num_workers": workers}
        return vl.VideoLoader(vl.VideoDataset.from_paths(paths), vl.RandomWindow(3, clips=2), **settings)

    begun, resumed = make(0), make(0)
    for _ in begun:
        break
    resumed.load_state_dict(begun.state_dict())
    expected = [batch.clips.tolist() for batch in make(2)]
    assert [batch.clips.tolist() for batch in resumed] == expected[1:]


def test_a_ctrl_c_comes_through_at_once_and_the_next_loop_is_whole(paths: list[str]) -> None:
    called: list[int] = []

    def interrupted(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        called.append(len(frames))
        if len(called) == 2:
            raise KeyboardInterrupt
        return frames

    data = vl.VideoDataset.from_paths(paths)
    settings = {"batch_size": 1, "device": "cpu", "num_workers": 0, "transforms": [vl.PythonFunction(interrupted)]}
    loader = vl.VideoLoader(data, [0, 1], **settings)
    with pytest.raises(KeyboardInterrupt):
        list(loader)
    assert len(called) == 2
    assert [batch.clips.tolist() for batch in loader] == [[0], [1], [2]]


@pytest.mark.parametrize("kind", ["VideoLoader", "DecodingLoader"])
def test_a_batch_is_gone_when_it_is_let_go(paths: list[str], kind: str) -> None:
    if kind == "VideoLoader":
        videos = vl.VideoDataset.from_paths(paths)
        loader = vl.VideoLoader(videos, vl.FrameList([0]), batch_size=1, device="cpu", num_workers=0)
    else:
        loader = DecodingLoader([[ClipRequest(path, [0])] for path in paths], device="cpu", num_workers=0)
    batches = iter(loader)
    for _ in paths:
        given_out = weakref.ref(next(batches))
        assert given_out() is None
