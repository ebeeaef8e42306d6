"""Errors in users' code keep their type, with notes on the transform, the clip and the file."""

from __future__ import annotations

import pickle
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.errors.notes import note, note_rows
from videoloader.interop.torch import ClipDataset, ClipRequest, DecodingLoader
from videoloader.transforms.mixing import Mixing

Sample = Callable[[str], Path]
# All rows show these frames. What fails does so for frames of this size alone: those of the third video.
FRAMES = [3, 7, 11]
FAILS = (96, 64)


class OwnError(Exception):
    """Cannot be made from a message alone."""

    def __init__(self, one: int, other: int) -> None:
        super().__init__(one, other)


def fail_for(shape: tuple[int, ...]) -> None:
    if tuple(shape) == FAILS:
        raise OwnError(1, 2)


@dataclass(frozen=True)
class OwnMode:
    fails_in: str
    pad: str = "none"

    def num_clips(self, video: Any) -> int:
        if self.fails_in == "num_clips":
            fail_for(video.index.stream.display_size)
        return 1

    def frame_numbers(self, video: Any, clip: int, rng: np.random.Generator) -> np.ndarray:
        if self.fails_in == "frame_numbers":
            fail_for(video.index.stream.display_size)
        return np.array(FRAMES)


@dataclass(frozen=True)
class OwnStep(vl.GeometryStep):
    def plan(self, geometry: Any, rng: np.random.Generator) -> Any:
        fail_for(geometry.output_size)
        return geometry


@dataclass(frozen=True)
class OwnPixels(vl.PixelTransform):
    def draw(self, rng: np.random.Generator, clip: Any) -> list[Any]:
        fail_for((clip.height, clip.width))
        return []


@dataclass(frozen=True)
class OwnOrder(vl.TimeTransform):
    fails: bool = True

    def positions(self, rng: np.random.Generator, length: int) -> np.ndarray:
        raise OwnError(1, 2)


def own_function(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    fail_for(frames.shape[-2:])
    return frames


class OwnModule(torch.nn.Module):
    def forward(self, frames: torch.Tensor) -> torch.Tensor:
        fail_for(frames.shape[-2:])
        return frames


TRANSFORMS: dict[str, tuple[Any, str]] = {
    "geometry step": (OwnStep(), "OwnStep()"),
    "pixel transform": (OwnPixels(), "OwnPixels()"),
    "after another": ([vl.Invert(), OwnStep()], "OwnStep()"),
    "among geometric ones": ([vl.Invert(), vl.HorizontalFlip(), OwnStep()], "OwnStep()"),
    "in a choice": (vl.RandomApply([vl.Invert(), OwnPixels()], p=1), "OwnPixels()"),
    "in a geometric choice": (vl.RandomApply([vl.HorizontalFlip(), OwnStep()], p=1), "OwnStep()"),
    "predicate": (vl.When(lambda clip: fail_for((clip.height, clip.width)), vl.Invert()), "When(predicate"),
    "function": (vl.PythonFunction(own_function), "PythonFunction(function=<function own_function"),
    "module": (OwnModule(), "Module(module=OwnModule()"),
    "module for clips": (vl.Module(OwnModule(), view="clip"), "Module(module=OwnModule()"),
    "module of floats": ([vl.Normalize(), OwnModule()], "Module(module=OwnModule()"),
}


@pytest.fixture(scope="module")
def paths(sample: Sample, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    from sample_videos import RECIPES, write_video

    recipe = RECIPES["h264_mp4"].__class__("mp4", "libx264", size=(FAILS[1], FAILS[0]), frames=20)
    odd = write_video(tmp_path_factory.mktemp("odd") / "odd.mp4", recipe)
    return [str(each) for each in (sample("h264_mp4"), sample("hevc_mp4"), odd)]


FrontEnd = Callable[[vl.VideoDataset, Any, Any], object]


def loader(workers: int) -> FrontEnd:
    def load(data: vl.VideoDataset, mode: Any, transforms: Any) -> object:
        settings = {"device": "cpu", "batch_size": 3, "num_workers": workers, "collate": "list"}
        return list(vl.VideoLoader(data, mode, transforms=transforms, **settings))

    return load


def requests(data: vl.VideoDataset, mode: Any, transforms: Any) -> object:
    batch = [ClipRequest(entry, mode) for entry in data]
    return list(DecodingLoader([batch], transforms=transforms, device="cpu", collate="list", num_workers=2))


def clip_by_clip(data: vl.VideoDataset, mode: Any, transforms: Any) -> object:
    return list(ClipDataset(data, mode, transforms=transforms))


FRONT_ENDS = {
    "without workers": loader(0),
    "with workers": loader(2),
    "requests": requests,
    "ClipDataset": clip_by_clip,
}


def own_error(use: Callable[[], object]) -> str:
    """The error that a user's own code raises when something is used, as Python prints it."""
    with pytest.raises(OwnError) as caught:
        use()
    assert caught.value.args == (1, 2)
    assert traceback.extract_tb(caught.value.__traceback__)[-1].filename == __file__
    assert len(caught.value.__notes__) == len(set(caught.value.__notes__)) <= 2, "each thing once"
    return "\n".join(traceback.format_exception(caught.value)) if hasattr(caught.value, "add_note") else ""


@pytest.mark.parametrize("front_end", FRONT_ENDS.values(), ids=FRONT_ENDS)
@pytest.mark.parametrize(("transforms", "name"), TRANSFORMS.values(), ids=TRANSFORMS)
def test_transforms(paths: list[str], front_end: FrontEnd, transforms: Any, name: str) -> None:
    printed = own_error(lambda: front_end(vl.VideoDataset.from_paths(paths), FRAMES, transforms))
    assert f"in the transform {name}" in printed
    assert f"for clip 2 ({paths[2]}, frames [ 3  7 11])" in printed
    assert paths[0] not in printed


@pytest.mark.parametrize("fails_in", ["num_clips", "frame_numbers"])
@pytest.mark.parametrize("front_end", FRONT_ENDS.values(), ids=FRONT_ENDS)
def test_modes(paths: list[str], front_end: FrontEnd, fails_in: str) -> None:
    printed = own_error(lambda: front_end(vl.VideoDataset.from_paths(paths), OwnMode(fails_in), []))
    assert f"in the frame mode OwnMode(fails_in='{fails_in}'" in printed
    assert paths[2] in printed


@pytest.mark.parametrize("fails_in", ["num_clips", "frame_numbers"])
def test_modes_of_a_video(paths: list[str], fails_in: str) -> None:
    with vl.Video(paths[2], device="cpu") as video:
        printed = own_error(lambda: video.read_clips(OwnMode(fails_in)))
    assert f"in the frame mode OwnMode(fails_in='{fails_in}'" in printed
    assert paths[2] in printed


@pytest.mark.parametrize("front_end", FRONT_ENDS.values(), ids=FRONT_ENDS)
def test_transforms_of_time(paths: list[str], front_end: FrontEnd) -> None:
    printed = own_error(lambda: front_end(vl.VideoDataset.from_paths(paths), FRAMES, OwnOrder()))
    assert "in the transform OwnOrder(fails=True)" in printed
    assert f"for clip 0 ({paths[0]}, frames [ 3  7 11])" in printed


def stacked(paths: list[str], transforms: Any, **settings: Any) -> None:
    data = vl.VideoDataset.from_paths([paths[2]] * 7, range(7))
    list(vl.VideoLoader(data, FRAMES, batch_size=7, device="cpu", transforms=transforms, **settings))


def test_in_a_stacked_batch_the_clip_is_told_that_a_function_was_called_for(paths: list[str]) -> None:
    called: list[int] = []

    def fail_fourth(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        called.append(1)
        if len(called) == 4:
            raise OwnError(1, 2)
        return frames

    assert f"for clip 3 ({paths[2]}, frames" in own_error(lambda: stacked(paths, vl.PythonFunction(fail_fourth)))


def test_a_function_of_a_batch_names_its_first_clips(paths: list[str]) -> None:
    printed = own_error(lambda: stacked(paths, vl.PythonFunction(own_function, per="batch")))
    assert "for clip 0 (" in printed
    assert "clip 3 (" in printed
    assert ") and 3 more" in printed


class OwnMixing(Mixing):
    num_classes = 7

    def mix(self, *args: Any) -> Any:
        raise OwnError(1, 2)


def test_mixing_names_the_clips_of_the_batch(paths: list[str]) -> None:
    printed = own_error(lambda: stacked(paths, OwnMixing()))
    assert "OwnMixing" in printed
    assert "for clip 0 (" in printed


def test_a_long_clip_is_named_in_a_line(paths: list[str]) -> None:
    def fails(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        raise OwnError(1, 2)

    data = vl.VideoDataset.from_paths(paths[:1])
    loader = vl.VideoLoader(data, vl.WholeVideo(), batch_size=1, device="cpu", transforms=[vl.PythonFunction(fails)])
    assert "frames [ 0  1  2 ... 57 58 59])" in own_error(lambda: list(loader))


def test_callbacks(paths: list[str]) -> None:
    def fails(*args: object) -> None:
        raise OwnError(1, 2)

    data = vl.VideoDataset.from_paths(paths[:1])
    printed = own_error(lambda: vl.VideoLoader(data, FRAMES, batch_size=1, device="cpu", on_indexed=fails))
    assert f"in on_indexed, after {paths[0]}" in printed
    printed = own_error(lambda: data.filter(fails))
    assert f"in filter, for row 0: VideoEntry(path='{paths[0]}'" in printed
    batches = [[ClipRequest(paths[0], FRAMES)]]
    printed = own_error(lambda: list(DecodingLoader(batches, device="cpu", replace_with=fails)))
    assert "in replace_with, for [ClipRequest(" in printed
    assert Path(paths[0]).name in printed


def test_clips_that_are_there_already_are_told_by_their_row() -> None:
    frames = torch.zeros(3, 2, 3, *FAILS, dtype=torch.uint8)
    frames[1] = 1

    def fails(frames: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        if frames.any():
            raise OwnError(1, 2)
        return frames

    printed = own_error(lambda: vl.Compose([vl.PythonFunction(fails)])(frames, 0))
    assert "in the transform PythonFunction(" in printed
    assert "for row 1\n" in printed


def test_our_own_errors_keep_their_one_line_where_they_name_the_file() -> None:
    with pytest.raises(vl.DecodeError) as caught, note("for {}", "clip.mp4"):
        raise vl.DecodeError("does not decode", "clip.mp4")
    assert not hasattr(caught.value, "__notes__")
    with pytest.raises(vl.ConfigurationError) as told, note("for {}", "clip.mp4"):
        raise vl.ConfigurationError("a crop is larger than the frames")
    assert told.value.__notes__ == ["for clip.mp4"]


def test_our_own_errors_name_the_file_and_the_row_of_a_block_in_their_line() -> None:
    outer, inner = note("for {}", "all", source="all.mp4"), note("for {}", "clip 3", source="clip.mp4", row=7)
    with pytest.raises(vl.ConfigurationError) as caught, outer, inner:
        raise vl.ConfigurationError("a crop is larger than the frames")
    assert str(caught.value) == "clip.mp4: row 7 of the data set: a crop is larger than the frames"
    assert not hasattr(caught.value, "__notes__")
    again = pickle.loads(pickle.dumps(caught.value))
    assert (str(again), again.source, again.message) == (str(caught.value), "clip.mp4", caught.value.message)


@pytest.mark.parametrize("front_end", FRONT_ENDS.values(), ids=FRONT_ENDS)
def test_a_transform_that_does_not_fit_is_told_with_the_file(paths: list[str], front_end: FrontEnd) -> None:
    data = vl.VideoDataset.from_paths(paths[2:])
    with pytest.raises(vl.ConfigurationError, match=r"odd\.mp4: .*does not fit"):
        front_end(data, FRAMES, vl.RandomCrop(2000))
    with vl.Video(paths[2], device="cpu") as video, pytest.raises(vl.ConfigurationError, match=r"odd\.mp4: .*not fit"):
        video.read(FRAMES, transforms=vl.RandomCrop(2000))


def test_a_value_that_cannot_be_shown_hides_no_error() -> None:
    class Shy:
        def __repr__(self) -> str:
            raise RuntimeError

    with pytest.raises(OwnError) as caught, note("in {}", Shy()):
        raise OwnError(1, 2)
    assert "Shy instance" in caught.value.__notes__[0]


def test_rows_of_calls_within_calls_add_up() -> None:
    def fail() -> None:
        with note_rows([5, 6, 7], "abcdefgh".__getitem__), note_rows([2, 1]), note_rows([1]):
            raise OwnError(1, 2)

    with pytest.raises(OwnError) as caught:
        fail()
    assert caught.value.__notes__ == ["for g"]


class NoVideo(torch.utils.data.Dataset[Any]):
    def __len__(self) -> int:
        return 1

    def __getitem__(self, row: int) -> None:
        vl.Video("nowhere.mp4", device="cpu")


def test_the_traceback_of_a_worker_process_keeps_its_lines() -> None:
    with pytest.raises(vl.SourceError) as caught:
        next(iter(torch.utils.data.DataLoader(NoVideo(), num_workers=1)))
    first, _, second, *_, last = str(caught.value).strip().splitlines()
    assert first.startswith("Caught SourceError in DataLoader worker process 0")
    assert second.strip().startswith("File ")
    assert last.endswith("nowhere.mp4: cannot be opened (No such file or directory)")


class Problems(Exception):
    """An error that is false."""

    def __len__(self) -> int:
        return 0


class Closed(Exception):
    """An error that takes no notes."""

    def __setattr__(self, name: str, value: object) -> None:
        if name == "__notes__":
            raise TypeError(name)
        super().__setattr__(name, value)


class Annotated(Exception):
    """An error whose notes are a text."""

    __notes__ = "mine"


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("kind", [Problems, Closed, Annotated])
def test_odd_errors_of_users_come_out(sample: Sample, kind: type[Exception], workers: int) -> None:
    def fail(*_: object) -> None:
        raise kind("mine")

    data = vl.VideoDataset.from_paths([sample("h264_mp4")])
    loader = vl.VideoLoader(
        data, [0], batch_size=1, device="cpu", num_workers=workers, transforms=[vl.PythonFunction(fail)]
    )
    with pytest.raises(kind, match="mine"):
        list(loader)
    with pytest.raises(kind, match="mine"):
        vl.VideoLoader(data, [0], batch_size=1, device="cpu", num_workers=workers, on_indexed=lambda: fail())
