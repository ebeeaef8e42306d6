"""Mistakes with videos and loaders that users make on their second day."""

# mypy: ignore-errors
from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from first_day import Mistakes, check_answer, data, first, loader, video

import videoloader as vl
from videoloader import VideoDataset as VD

SMALL, WINDOW = vl.Resize((16, 24)), vl.RandomWindow(4)


def table(text: str) -> VD:
    Path("t.csv").write_text(text)
    return VD.from_csv("t.csv")


MISTAKES: Mistakes = {
    "frames of a matrix": (
        lambda: video()[np.zeros((2, 2), int)],
        "the index of a video must be an integer, a slice, or a … each frame, got int64 of shape (2, 2)",
    ),
    "a set of frames": (
        lambda: video()[{1, 2}],
        "the index of a video must be an integer, a slice, or a … or a bool for each frame, got {1, 2}",
    ),
    "a mask of frames that is too short": (
        lambda: video()[[True, False]],
        "a.mp4: a mask must have one value for each of the video's 30 frames, got 2",
    ),
    "a time before the start": (
        lambda: video().at(-0.5),
        "a.mp4: asked for -0.5 s, but the video lasts 0–1.2 s: its first frame comes later",
    ),
    "the time of the end": (
        lambda: video().at(video().duration),
        "a.mp4: asked for 1.2 s, but the video lasts 0–1.2 s: its end shows no frame",
    ),
    "a time after the end": (lambda: video().at(100), "a.mp4: asked for 100 s, but the video lasts 0–1.2 s"),
    "a span without an end": (lambda: video().between(0.5), "Video.between needs the argument stop"),
    "a span beyond the end": (
        lambda: video().between(0.5, 100),
        "a.mp4: asked for 0.5–100 s, but the video lasts 0–1.2 s",
    ),
    "a rate to read at": (
        lambda: video().read(WINDOW, fps=3),
        "Video.read has no argument fps: it takes mode, clip, seed, transforms, layout, dtype",
    ),
    "a start and a stop to read": (
        lambda: video().read(start=0, stop=5),
        "Video.read has no argument start: it takes mode, clip, seed, transforms, layout, dtype",
    ),
    "a mix of one clip": (
        lambda: video().read(WINDOW, transforms=[vl.MixUp(0.8, 2)]),
        "MixUp, CutMix and MixChoice work only in loaders of batches: leave them out",
    ),
    "views of one clip": (
        lambda: video().read(WINDOW, transforms=[vl.ThreeCrop(16)]),
        "the transforms make 3 views of a clip, but one is wanted here",
    ),
    "two frame numbers to read": (
        lambda: video().read(0, 16),
        "Video.read takes mode by position and all else by name: write clip=16, if that is what is meant",
    ),
    "a clip as two": (
        lambda: (lambda a, b: a)(*video().read([0, 1])),
        "a clip is not a list of frames: write clip.frames[0], or for frame in clip.frames",
    ),
    "sound": (
        lambda: video().audio,
        "a Video has no attribute audio: read it with another library, videoloader decodes pictures alone",
    ),
    "OpenCV's get": (
        lambda: video().get(7),
        "a Video has no attribute get: write video[5], for frame in video, video.fps or video.close()",
    ),
    "OpenCV's release": (
        lambda: video().release(),
        "a Video has no attribute release: write video[5], for frame in video, video.fps or video.close()",
    ),
    "a resolution": (
        lambda: video().resolution,
        "a Video has no attribute resolution: write video.width and video.height, or video.shape",
    ),
    "n_frames": (lambda: video().n_frames, "a Video has no attribute n_frames: write len(video)"),
    "bytes in a tensor": (
        lambda: len(vl.Video(torch.frombuffer(bytearray(Path("a.mp4").read_bytes()), dtype=torch.uint8), device="cpu")),
        "source must be a path, a URL, bytes, a binary file or … got tensor([ 0,  ...e=torch.uint8)",
    ),
    "bytes that can change": (
        lambda: len(vl.Video(bytearray(Path("a.mp4").read_bytes()), device="cpu")),
        "source must be a path, a URL, bytes, a binary file or … got bytearray(b'\\...avf62.12.102')",
    ),
    "a stream that there is not": (
        lambda: vl.Video("a.mp4", device="cpu", stream_index=5),
        "a.mp4: stream_index=5 is not a video stream of the file; those are 0 (h264 160×128)",
    ),
    "transforms of a video": (
        lambda: vl.Video("a.mp4", device="cpu", transforms=[SMALL]),
        "Video has no argument transforms: it takes source, … on_corrupt, fps, timestamps",
    ),
    "a number to show": (
        lambda: vl.show(3),
        "show takes a Batch, a Clip, a Video, a VideoDataset, a … dimensions, or a list of these, got 3",
    ),
    "a size to show that fills memory": (
        lambda: vl.show(torch.zeros(3, 32, 48), size=10**9),
        "size must be an integer in [1, 4096], got 1000000000",
    ),
    "progress of a list": (
        lambda: list(vl.show_progress([1, 2])),
        "show_progress takes a VideoLoader, as VideoLoader(data, mode, batch_size=8), got [1, 2]",
    ),
    "a layout to show that there is not": (
        lambda: vl.show(torch.zeros(4, 3, 32, 48), layout="NCHW"),
        "layout must be one of TCHW, CTHW, THWC, got 'NCHW'",
    ),
    "a part of a loader": (
        lambda: loader()[0:1],
        "batches have no numbers, and no DataLoader can be made … in loader, or next(iter(loader))",
    ),
    "a last batch that is all": (
        lambda: len(list(loader(batch_size=64, last_batch="drop"))),
        "last_batch='drop' leaves no batch: 2 clips for 1 rank … batch_size, or last_batch='partial'",
    ),
    "a generator for an order": (
        lambda: loader(shuffle=np.random.default_rng(0)),
        "shuffle must be True, False, an order or a sampler of clip numbers",
    ),
    "a sampler beyond the clips": (
        lambda: list(loader(shuffle=torch.utils.data.SubsetRandomSampler([0, 5]))),
        "the sampler gives clip numbers from 0 to 5, not in [0, 2)",
    ),
    "PyTorch's DistributedSampler": (
        lambda: loader(shuffle=torch.utils.data.DistributedSampler(data(), num_replicas=2, rank=0)),
        "the sampler deals to 2 ranks, and so would the loader: … as RandomSampler, or shuffle=True",
    ),
    "a dict of transforms": (
        lambda: loader(transforms={"video": SMALL}),
        "transforms must be a list of transforms, got {'video': … transform itself, such as Resize(224)",
    ),
    "a label of a batch": (lambda: first().label, "a Batch has no attribute label: write batch.labels"),
    "inputs without roles": (
        lambda: first().inputs,
        "this Batch has no inputs and targets: its frame mode … do), or its clips come from several modes",
    ),
    "PyTorch's strict": (
        lambda: loader().load_state_dict(loader().state_dict(), strict=False),
        "VideoLoader.load_state_dict has no argument strict: it takes state",
    ),
    "a closed loader": (lambda: (lambda x: (x.close(), list(x)))(loader()), "the loader is closed: make another one"),
    "a pickled loader": (
        lambda: pickle.dumps(loader()),
        "a VideoLoader has threads, so it can be neither copied … this one's state_dict()",
    ),
    "a rate of statistics": (
        lambda: loader().stats().fps,
        "a LoaderStats has no attribute fps: write print(stats), or stats.clips / stats.seconds",
    ),
    "gray frames": (lambda: loader(color="gray"), "color must be one of rgb, ycbcr, got 'gray'"),
    "a listed time after the end": (
        lambda: first(vl.Timestamps([0.1, 5.0])),
        "a.mp4: no frame of 0 to 29 is at or near 5.0 s: they last 0–1.2 s",
    ),
    "a frame that one video lacks": (
        lambda: list(loader([25, 26], batch_size=1)),
        "b.mp4: frame 25 is outside the 20 frames to choose from",
    ),
    "a padding mode in a column that there is not": (
        lambda: first(vl.RandomWindow(100, pad=vl.PadColumn("p")), table("path,p\na.mp4,zzz\n")),
        "a.mp4: column 'p': pad must be one of none, edge, … reflect, symmetric, loop, got 'zzz'",
    ),
    "no boxes": (
        lambda: first(transforms=[vl.CropToBox(), SMALL]),
        "a.mp4: row 0 of the data set: the row has no box in … Compose has columns=)",
    ),
    "boxes with sizes": (
        lambda: first(dataset=table('path,box\na.mp4,"100,100,20,20"\n'), transforms=[vl.CropToBox(), SMALL]),
        "a.mp4: row 0 of the data set: the box (100.0, 100.0, … picture that is 160 wide and 128 high",
    ),
    "boxes in shares": (
        lambda: (
            first(dataset=table('path,box\na.mp4,"0.1,0.1,0.5,0.5"\n'), transforms=[vl.CropToBox(), SMALL]).frames.shape
        ),
        "a.mp4: row 0 of the data set: column 'box' is in … if these are shares of the picture",
    ),
    "more ranks than clips": (
        lambda: len(loader(shard_id=0, num_shards=5)),
        "2 clips cannot be dealt once each to 5 ranks in 1 … epoch, begin the next with set_epoch",
    ),
    "classes of a loader": (
        lambda: loader().classes,
        "a VideoLoader has no attribute classes: write data.class_names, of the data set",
    ),
    "a loader on a device": (
        lambda: loader().to("cuda"),
        'a VideoLoader has no attribute to: write device="cuda", where the VideoLoader is made',
    ),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)
