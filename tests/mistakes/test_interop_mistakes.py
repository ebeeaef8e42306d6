"""Mistakes with loaders of other libraries, and with objects that are not videos."""

# mypy: ignore-errors
from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from functools import partial

import pytest
import torch
from first_day import Mistakes, batch, check_answer, data, loader, video
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.interop.huggingface import from_huggingface
from videoloader.interop.torch import BatchStream, ClipDataset, DecodingLoader, stack_clips


def clips(**arguments):
    return ClipDataset(data(), vl.RandomWindow(4), **arguments)


def closed():
    file = io.BytesIO(b"123")
    file.close()
    return file


def tar():
    with tarfile.open("videos.tar", "w") as made:
        made.add("a.mp4")
    return "videos.tar"


MAKER = "must be a function of shard_id= and num_shards=, such as partial(VideoLoader, data, mode, batch_size=8), got"
MISTAKES: Mistakes = {
    "a loader for a stream": (lambda: BatchStream(loader()), f"make {MAKER} VideoLoader("),
    "a function of nothing for a stream": (lambda: BatchStream(lambda: loader()), f"make {MAKER} <function"),
    "a stream of nothing": (
        lambda: next(iter(BatchStream(lambda **_: None))),
        "the loader that the function makes must be a VideoLoader, got None",
    ),
    "batches of batches": (
        lambda: next(iter(DataLoader(BatchStream(partial(loader))))),
        "the items of a BatchStream are batches already: give the DataLoader batch_size=None",
    ),
    "next of a decoding loader": (
        lambda: next(DecodingLoader([])),
        "a loader is not its own iterator … write next(iter(loader))",
    ),
    "a loader to decode for": (
        lambda: DecodingLoader(loader()),
        "torch_loader must be a torch DataLoader of samples that hold a ClipRequest, got VideoLoader(",
    ),
    "a seed below 0": (lambda: clips(seed=-1), "seed must be an integer in [0, 2**64), got -1"),
    "clips of different sizes": (
        lambda: next(iter(DataLoader(clips(), batch_size=2, collate_fn=stack_clips))),
        "clips of one batch have frames of [(4, 64, 96), (4, 128, 160)] … or take collate_fn=list_clips",
    ),
    "no clips to stack": (lambda: stack_clips([]), "a list of samples of a ClipDataset is wanted, got []"),
    "tensors to stack": (lambda: stack_clips([torch.zeros(3)]), "a list of samples of a ClipDataset is wanted, got ["),
    "samples without their paths": (
        lambda: stack_clips([{name: each for name, each in clips()[0].items() if name != "path"}]),
        "a list of samples of a ClipDataset is wanted, got [",
    ),
    "half an epoch of a stream": (lambda: BatchStream(loader).set_epoch(1.5), "epoch must be an integer in [0,"),
    "an epoch of a stream before the first": (
        lambda: BatchStream(loader).set_epoch(-1),
        "epoch must be an integer in [0, 2**64), got -1",
    ),
    "an epoch of a stream beyond what is shared": (
        lambda: BatchStream(loader).set_epoch(2**63),
        "epoch must be an integer in [0, 2**63), got 9223372036854775808",
    ),
    "an epoch of clips beyond what is shared": (
        lambda: clips().set_epoch(2**63),
        "epoch must be an integer in [0, 2**63), got 9223372036854775808",
    ),
    "a list for Hugging Face's rows": (
        lambda: from_huggingface([{"video": "a.mp4"}]),
        "rows must be a datasets.Dataset, got [{'video': 'a.mp4'}]",
    ),
    "a generator of Compose": (
        lambda: vl.Compose([vl.Resize(8)])(torch.zeros(1, 3, 9, 9), generator=torch.Generator()),
        "Compose has no argument generator: write seed",
    ),
    "a video for an index": (
        lambda: vl.plan_frames(video(), [0]),
        "plan_frames's index must be a VideoIndex, got Video(",
    ),
    "a plan of floats": (lambda: vl.plan_frames(video().index, [0.5]), "frames must be integers, got [0.5]"),
    "a row that the batch has not": (
        lambda: batch().to_source(torch.zeros(1, 4), torch.tensor([7])),
        "rows must be in [0, 1], got 7",
    ),
    "masks of more frames than a row has": (
        lambda: batch().replay(0, torch.zeros(9, 128, 160), "mask"),
        "row 0 has 4 frames, got a mask for 9",
    ),
    "masks of other frames for Compose": (
        lambda: vl.Compose([vl.Resize(8)])(torch.zeros(4, 3, 9, 9), apply_to={"mask": torch.zeros(6, 9, 9)}),
        "mask of apply_to must be of the 4 frames of its clip, got … [6, 9, 9]",
    ),
    "an empty path": (lambda: vl.Video(""), "source is an empty path"),
    "a closed file": (lambda: vl.Video(closed()), "closed"),
    "an archive for a video": (
        lambda: vl.Video(tar()),
        "videos.tar: is no video: it is an archive, whose members are named as 'videos.tar::clip.mp4'",
    ),
    "a page of the web for a video": (
        lambda: vl.Video("text.mp4"),
        "text.mp4: libavformat cannot read it … it is text",
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)


def test_lightning_is_told_of_loaders_by_functions() -> None:
    pytest.importorskip("pytorch_lightning")
    from videoloader.interop.lightning import VideoDataModule

    check_answer(lambda: VideoDataModule(train=loader()), f"train {MAKER} VideoLoader(")
    check_answer(lambda: VideoDataModule(batch_size=8), "VideoDataModule has no argument batch_size")
    VideoDataModule(train=partial(loader))


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_memory_is_pinned_for_gpus_only() -> None:
    check_answer(lambda: batch().pin_memory(), "pinned memory is for copies to a GPU, and torch finds none")


def test_a_torch_loader_without_requests_is_told() -> None:
    with pytest.warns(vl.VideoLoaderWarning, match="holds no ClipRequest, so nothing of it is decoded"):
        next(iter(DecodingLoader(DataLoader([1, 2]), device="cpu")))


def test_the_index_of_another_file_is_told() -> None:
    with pytest.warns(vl.VideoLoaderWarning, match="the index is of b.mp4, not of a.mp4"):
        vl.Video("a.mp4", index=vl.build_index("b.mp4"))
