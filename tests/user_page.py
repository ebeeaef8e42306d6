"""A page of ordinary user code, which type checkers have nothing to say about: nothing runs it.

``make lint`` checks it with mypy, ``test_type_checkers.py`` with basedpyright.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

import videoloader as vl
from videoloader.interop.torch import ClipDataset, ClipRequest, DecodingLoader

PADDING: vl.FrameMode = vl.RandomWindow(16, stride=4, pad="reflect_101")


def look(path: Path) -> torch.Tensor:
    with vl.Video(path, device="cpu", on_corrupt="raise") as video:
        print(len(video), video.fps, video.duration, video.shape, video.codec, video.is_vfr, video.timestamps[0])
        for frame in video.stream(slice(0, 10)):
            print(frame.shape)
        clip = video.read(PADDING, seed=3)
        print(clip.frames.float().mean().item(), clip.frame_numbers[0], clip.timestamps[-1], clip.mask.all())
        print(video.read([0, 5, 10]).frames.shape, video.between(0.5, 1.5, fps=8).mask.sum())
        print(
            video.read(np.array([1, 2])).frames.shape, [view.frames.shape for view in video.read_clips(vl.Keyframes())]
        )
        return torch.cat([video[0:10:2], video[[1, 2]], video[torch.tensor([3])], video[-1][None], video.at(0.5)[None]])


def rows(folder: Path) -> tuple[vl.VideoDataset, vl.VideoDataset]:
    data = vl.VideoDataset.from_folder(folder).where("duration_s < 60", min_frames=16, codec=["h264", "hevc"])
    data = data + vl.VideoDataset.from_csv("more.csv", columns={"path": "clip"}, missing="skip")
    data = data + vl.VideoDataset.from_paths(sorted(folder.glob("*.mp4")), np.zeros(3, int), class_names=["walk"])
    data = data + vl.VideoDataset([vl.VideoEntry(folder / "a.mp4", label=3, start_seconds=1.5, columns={"note": "x"})])
    report = data.build_store("train.db", progress=lambda done, total: print(done, total))
    print(
        report.indexed,
        data.num_classes,
        data.labels.mean(),
        data[[0, 3]].paths[0],
        data[0].columns,
        data[1:].class_names,
    )
    print(data.filter(lambda entry: entry.label == 2).balanced().describe(PADDING, store="train.db"))
    return data.split(0.8, seed=1, stratified=True)


def train(data: vl.VideoDataset, model: nn.Module) -> None:
    steps = [
        vl.RandomResizedCrop(112, scale=(0.5, 1.0)),
        vl.RandomHorizontalFlip(),
        vl.ColorJitter(0.4, 0.4),
        vl.RandAugment(n=2, m=9),
        vl.Normalize(mean=[0.5, 0.5, 0.5], std=[0.25, 0.25, 0.25]),
    ]
    loader = vl.VideoLoader(
        data,
        vl.RandomWindow(16, stride=(2, 4)),
        batch_size=8,
        device=torch.device("cpu"),
        transforms=steps,
        layout="CTHW",
        dtype=torch.float16,
        shuffle=vl.ShuffleVideos(),
        last_batch="drop",
        on_error="skip",
        index=vl.IndexStore("train.db"),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(3):
        loader.set_epoch(epoch)
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch.frames), batch.labels)
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]  # of PyTorch
            optimizer.step()
            for path, numbers, known in zip(batch.paths, batch.frame_numbers, batch.mask, strict=True):
                print(path, numbers.tolist(), known.all())
            masks = batch.replay(0, torch.zeros(16, 240, 320), "mask")
            print(masks.shape, batch.to_source(torch.zeros(8, 4)).shape, batch.to("cpu").frames.shape)
        torch.save(loader.state_dict(), "loader.pt")
        print(loader.stats(), len(loader), loader.num_clips, loader.unreadable)
    loader.load_state_dict(torch.load("loader.pt"))


def whole_videos(data: vl.VideoDataset) -> None:
    steps = [vl.Resize((64, 96)), vl.Pad((64, 96), mode="edge")]
    for batch in vl.VideoLoader(data, vl.WholeVideo(stride=8), batch_size=2, collate="list", transforms=steps):
        assert isinstance(batch, vl.ListBatch)
        print([len(frames) for frames in batch.frames])


def other_doors(data: vl.VideoDataset) -> None:
    clips = ClipDataset(data, PADDING, transforms=[vl.Resize((64, 96))])
    for batch in torch.utils.data.DataLoader(clips, batch_size=2):
        print(batch)
    for batch in DecodingLoader([{"clip": ClipRequest("a.mp4", [1, 2]), "label": 3}]):
        print(batch)
    try:
        vl.build_index("a.mp4")
    except vl.VideoLoaderError as error:
        print(error.message, error.source)
