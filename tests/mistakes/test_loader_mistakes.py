"""Mistakes with loaders and batches."""

# mypy: ignore-errors
from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch.utils.data
from first_day import Mistakes, batch, check_answer, data, first, loader, video

import videoloader as vl
from videoloader import VideoDataset as VD


class Gives3(torch.nn.Module):
    def forward(self, frames: torch.Tensor) -> int:
        return 3


def nodes() -> VD:
    Path("nodes.csv").write_text("path,node\na.mp4,n1\nb.mp4,n2\n")
    return VD.from_csv("nodes.csv")


def two_loops() -> None:
    both = loader()
    one, other = iter(both), iter(both)
    next(one), next(other), next(one)


MISTAKES: Mistakes = {
    "a folder for a data set": (lambda: loader(dataset="classes"), "dataset must be a … got 'classes' … write"),
    "a Path for a data set": (
        lambda: loader(dataset=Path("classes")),
        "dataset must be a VideoDataset, got PosixPath('classes') … write VideoDataset.from_folder(\"classes\")",
    ),
    "a list of paths": (
        lambda: loader(dataset=["a.mp4", "b.mp4"]),
        "dataset must be a VideoDataset, got ['a.mp4', 'b.mp4'] … make it with VideoDataset.from_paths",
    ),
    "a video for a data set": (
        lambda: loader(dataset=video()),
        "dataset must be a VideoDataset, got Video('a.mp4'... fps … make it with",
    ),
    "videos that are too short": (
        lambda: loader(vl.EveryWindow(4000)),
        "gives no clip of the data set's 2 rows; the longest has … frames (pad='edge' makes up",
    ),
    "PyTorch's Subset": (
        lambda: loader(dataset=torch.utils.data.Subset(data(), [0])),
        "dataset must be a … write data[subset.indices]",
    ),
    "the mode first": (
        lambda: vl.VideoLoader(vl.RandomWindow(4), data(), batch_size=2),
        "dataset must be a VideoDataset, got RandomWindow(...0 … make it with",
    ),
    "no mode": (lambda: vl.VideoLoader(data(), batch_size=2), "VideoLoader needs the argument mode, such as"),
    "no batch size": (lambda: vl.VideoLoader(data(), vl.RandomWindow(4)), "VideoLoader needs the argument"),
    "a number for a mode": (lambda: loader(16), "mode must be a frame mode, such as … got 16"),
    "a word for a mode": (lambda: loader("random"), "mode must be a frame mode, such as … got 'random'"),
    "the class of a mode": (lambda: loader(vl.RandomWindow), "mode must be a frame mode"),
    "a transform for a mode": (lambda: loader(vl.Resize(32)), "mode must be a frame mode … got Resize(size=3"),
    "a list of modes": (lambda: loader([vl.RandomWindow(4)]), "mode must be a frame mode … got [RandomWindow"),
    "floats for a mode": (lambda: loader([0.0, 0.5]), "mode must be a frame mode … got [0.0, 0.5]"),
    "MMAction2's dict for a mode": (lambda: loader({"clip_len": 4}), "mode must be a frame mode … got {'clip_len': 4}"),
    "a frame after the end": (lambda: first([0, 500]), "a.mp4 … frame 500 is outside the 30 frames to choose"),
    "a mode that fits no video": (lambda: loader(vl.RandomWindow(5000, pad="none")), "RandomWindow(length=5000"),
    "a batch size by position": (lambda: vl.VideoLoader(data(), vl.RandomWindow(4), 8), "VideoLoader takes … write"),
    "a batch size of 0": (lambda: loader(batch_size=0), "batch_size must be a positive integer, got 0"),
    "a batch size in quotes": (lambda: loader(batch_size="8"), "batch_size must be a positive integer, got '8'"),
    "a batch size of 2.0": (lambda: loader(batch_size=2.0), "batch_size must be a positive integer, got 2.0"),
    "a batch size of None": (lambda: loader(batch_size=None), "batch_size must be a positive integer, got None"),
    "a batch size of True": (lambda: loader(batch_size=True), "batch_size must be a positive integer, got True"),
    "videos of different sizes": (lambda: first(transforms=[]), "clips of one batch have frames of … add a Resize"),
    "a layout with N": (lambda: loader(layout="NCTHW"), "layout must be one of TCHW, CTHW, THWC, got 'NCTHW'"),
    "a layout in small letters": (lambda: loader(layout="cthw"), "layout must be one of TCHW, CTHW … got 'cthw'"),
    "None for a layout": (lambda: loader(layout=None), "layout must be one of TCHW, CTHW, THWC, got None"),
    "a dtype of float64": (lambda: loader(dtype="float64"), "dtype must be one of uint8, float16 … got 'float64'"),
    "PyTorch's float64": (lambda: loader(dtype=torch.float64), "dtype must be one of uint8 … got 'float64'"),
    "Python's float": (lambda: loader(dtype=float), "dtype must be one of uint8, float16, bfloat16 … got 'float'"),
    "a dtype in short": (lambda: loader(dtype="fp16"), "dtype must be one of uint8, float16, bfloat16 … got 'fp16'"),
    "Normalize beside uint8": (
        lambda: loader(transforms=[vl.Normalize()], dtype="uint8"),
        "Normalize makes float32, but dtype is uint8 … leave dtype out",
    ),
    "OpenCV's bgr": (lambda: loader(color="bgr"), "color must be one of rgb, ycbcr, got 'bgr'"),
    "a colour by name": (lambda: loader(fill_value="black"), "fill_value must be one or three … got 'black'"),
    "a crop that does not fit": (lambda: first(transforms=[vl.CenterCrop(2000)]), "a crop of 2000×2000 does not"),
    "a random crop that does not fit": (
        lambda: first(transforms=[vl.RandomCrop(2000)]),
        "a RandomCrop of 2000 pixels does not fit into 128 … add a Resize or pad_if_needed=True",
    ),
    "Normalize twice": (lambda: loader(transforms=[vl.Normalize(), vl.Normalize()]), "there is more than one"),
    "the class of a transform": (lambda: loader(transforms=[vl.RandomHorizontalFlip]), "number 0 of the … write"),
    "a lambda": (lambda: loader(transforms=[lambda frames: frames]), "number 0 of the … write Module(f)"),
    "None among transforms": (lambda: loader(transforms=[None]), "number 0 of the transforms … leave it out"),
    "a Compose in a list": (
        lambda: loader(transforms=[vl.Compose([vl.Resize(32)])]),
        "number 0 of the transforms is … stands alone, so write *compose.transforms in its place",
    ),
    "a transform by name": (lambda: loader(transforms="resize"), "transforms must be a list of … got 'resize'"),
    "MMAction2's dict for a transform": (
        lambda: loader(transforms={"type": "Resize"}),
        "transforms must be a list of transforms, got {'type': 'Resize'}",
    ),
    "a list in a list": (lambda: loader(transforms=[[vl.Resize(32)]]), "number 0 of the … write one list"),
    "mixing before the last": (
        lambda: loader(transforms=[vl.MixUp(0.8, num_classes=2), vl.Normalize()]),
        "mixing must be the last transform, and there can be only one … see MixChoice",
    ),
    "mixing twice": (
        lambda: loader(transforms=[vl.MixUp(0.8, num_classes=2), vl.CutMix(1.0, num_classes=2)]),
        "mixing must be the last transform, and there can be only one … see MixChoice",
    ),
    "mixing a list": (
        lambda: loader(transforms=[vl.MixUp(0.8, num_classes=2)], collate="list"),
        'clips of a list cannot be mixed … take collate="stack" or "pad"',
    ),
    "mixing without labels": (
        lambda: first(dataset=VD.from_paths(["a.mp4"] * 2), transforms=[vl.MixUp(0.8, num_classes=2)]),
        "clip 0 of the batch has no label, but mixing clips mixes their labels",
    ),
    "too few classes": (
        lambda: loader(transforms=[vl.Resize((16, 24)), vl.MixUp(0.8, num_classes=1)]),
        "the data set's labels reach 1, but num_classes is 1: give MixUp num_classes=data.num_classes",
    ),
    "a module that gives no tensor": (
        lambda: first(transforms=[vl.Resize((16, 24)), Gives3()]),
        "Gives3 gave int, not a tensor",
    ),
    "shuffle in words": (lambda: loader(shuffle="yes"), "shuffle must be True, False, an order or a … got 'yes'"),
    "shuffle of 1": (lambda: loader(shuffle=1), "shuffle must be True, False, an order or a … got 1"),
    "the class of an order": (lambda: loader(shuffle=vl.ShuffleVideos), "shuffle must be … got <class"),
    "a seed of None": (lambda: loader(seed=None), "seed must be an integer in [0, 2**64), got None"),
    "a seed in words": (lambda: loader(seed="a"), "seed must be an integer in [0, 2**64), got 'a'"),
    "a seed of 1.5": (lambda: loader(seed=1.5), "seed must be an integer in [0, 2**64), got 1.5"),
    "PyTorch's drop_last": (lambda: loader(drop_last=True), 'VideoLoader has no argument … write last_batch="drop"'),
    "PyTorch's pin_memory": (lambda: loader(pin_memory=True), "VideoLoader has no argument … leave it out, frames"),
    "PyTorch's pin_memory_device": (lambda: loader(pin_memory_device="cuda"), "VideoLoader has no … leave it out"),
    "PyTorch's persistent_workers": (lambda: loader(persistent_workers=True), "VideoLoader has no … leave it out"),
    "PyTorch's collate_fn": (lambda: loader(collate_fn=list), 'VideoLoader has no argument … write collate="stack"'),
    "PyTorch's sampler": (lambda: loader(sampler=None), "VideoLoader has no argument sampler … write shuffle"),
    "PyTorch's batch_sampler": (lambda: loader(batch_sampler=None), "VideoLoader has no argument … write shuffle"),
    "PyTorch's worker_init_fn": (lambda: loader(worker_init_fn=None), "VideoLoader has no … leave it out"),
    "PyTorch's prefetch_factor": (lambda: loader(prefetch_factor=2), "VideoLoader has no argument … write prefetch"),
    "PyTorch's generator": (lambda: loader(generator=None), "VideoLoader has no argument generator … write seed"),
    "PyTorch's multiprocessing_context": (
        lambda: loader(multiprocessing_context="spawn"),
        "VideoLoader has no argument multiprocessing_context … leave it out, threads and processes last as long as",
    ),
    "PyTorch's timeout": (lambda: loader(timeout=3), "VideoLoader has no argument timeout … leave it out, batches"),
    "PyTorch's in_order": (lambda: loader(in_order=True), "VideoLoader has no argument … leave it out"),
    "PyTorch's num_replicas": (lambda: loader(num_replicas=2), "VideoLoader has no argument … write num_shards"),
    "PyTorch's rank": (lambda: loader(rank=0), "VideoLoader has no argument rank … write shard_id"),
    "world_size": (lambda: loader(world_size=2), "VideoLoader has no argument world_size … write num_shards"),
    "torchvision's transform": (lambda: loader(transform=None), "VideoLoader has no argument … write transforms"),
    "torchvision's frames_per_clip": (lambda: loader(frames_per_clip=16), "VideoLoader has no … give it to the"),
    "DALI's num_threads": (lambda: loader(num_threads=4), "VideoLoader has no argument … write num_workers"),
    "DALI's device_id": (lambda: loader(device_id=0), "VideoLoader has no argument device_id … write device"),
    "DALI's prefetch_queue_depth": (lambda: loader(prefetch_queue_depth=2), "VideoLoader has no … write prefetch"),
    "DALI's random_shuffle": (lambda: loader(random_shuffle=True), "VideoLoader has no argument … write shuffle"),
    "DALI's sequence_length": (lambda: loader(sequence_length=16), "VideoLoader has no … give it to the"),
    "DALI's filenames": (lambda: loader(filenames=["a.mp4"]), "VideoLoader has no argument … give it to the"),
    "DALI's file_root": (lambda: loader(file_root="."), "VideoLoader has no argument … give it to the dataset"),
    "DALI's step": (lambda: loader(step=2), "VideoLoader has no argument step … give it to the mode, as"),
    "a stride of the loader": (lambda: loader(stride=4), "VideoLoader has no argument … give it to the mode"),
    "MMAction2's clip_len": (lambda: loader(clip_len=16), "VideoLoader has no argument … give it to the mode"),
    "MMAction2's num_clips": (lambda: loader(num_clips=2), "VideoLoader has no argument … give it to the mode, as"),
    "MMAction2's pipeline": (lambda: loader(pipeline=[]), "VideoLoader has no argument pipeline … write transforms"),
    "PyTorchVideo's clip_sampler": (lambda: loader(clip_sampler=None), "VideoLoader has no … give it to the"),
    "a size of the loader": (lambda: loader(size=224), "VideoLoader has no argument size … give it to a transform"),
    "timm's img_size": (lambda: loader(img_size=224), "VideoLoader has no argument … give it to a"),
    "timm's mean": (lambda: loader(mean=[0.5] * 3), "VideoLoader has no argument mean … give it to a transform, as"),
    "labels of the loader": (lambda: loader(labels=[0, 1]), "VideoLoader has no argument … give it to the"),
    "a number of epochs": (lambda: loader(epochs=3), "VideoLoader has no argument epochs … leave it out, each loop"),
    "decord's ctx": (lambda: loader(ctx="gpu(0)"), "VideoLoader has no argument ctx … write device"),
    "a slip of the pen": (lambda: loader(shufle=True), "VideoLoader has no argument shufle … write shuffle"),
    "something else": (lambda: loader(zzz=1), "VideoLoader has no argument zzz … it takes dataset, mode"),
    "workers": (lambda: loader(workers=4), "VideoLoader has no argument workers … write num_workers"),
    "workers in quotes": (lambda: loader(num_workers="4"), "num_workers must be … got '4'"),
    "workers below 0": (lambda: loader(num_workers=-1), "num_workers must be … got -1"),
    "two and a half workers": (lambda: loader(num_workers=2.5), "num_workers must be … got 2.5"),
    "more workers than a system runs": (lambda: loader(num_workers=10**9), "num_workers must be … [0, 32768], got"),
    "workers of the CPU in quotes": (lambda: loader(cpu_workers="2"), "cpu_workers must be an … got '2'"),
    "a prefetch of 0": (lambda: loader(prefetch=0), "prefetch must be a positive integer, got 0"),
    "a prefetch in quotes": (lambda: loader(prefetch="2"), "prefetch must be … got '2'"),
    "a cache in words": (lambda: loader(gop_cache="1G"), "gop_cache must be an integer of at least 0, got '1G'"),
    "half a repeat": (lambda: loader(repeats=1.5), "repeats must be an integer in [1, 4096], got 1.5"),
    "no such device": (lambda: loader(device="gpu"), "device must be 'auto', 'cpu', 'cuda' or … got 'gpu'"),
    "a device of Apple": (lambda: loader(device="mps"), "device is 'mps'; videos are decoded on 'cpu' or 'cuda'"),
    "no such GPU for a batch": (lambda: batch().to("cuda:99"), "device is 'cuda:99', but"),
    "a list of devices": (lambda: loader(device=["cuda:0"]), "VideoLoader's device … got ['cuda:0'] … such as"),
    "no such engine": (lambda: loader(decode="ffmpeg"), "decode must be one of auto, nvdec, cpu, got 'ffmpeg'"),
    "a GPU's engine on the CPU": (lambda: loader(decode="nvdec"), "decode is 'nvdec', but the device is 'cpu'"),
    "True for the last batch": (lambda: loader(last_batch=True), "last_batch must be one of partial … got True"),
    "a last batch that is kept": (lambda: loader(last_batch="keep"), "last_batch must be one of … got 'keep'"),
    "errors that are ignored": (
        lambda: loader(on_error="ignore"),
        "on_error must be one of raise, skip … got 'ignore'",
    ),
    "a function to collate": (lambda: loader(collate=lambda rows: rows), "collate must be one of stack, pad, list"),
    "a collate that there is not": (lambda: loader(collate="padded"), "collate must be one of … got 'padded'"),
    "a sharding that there is not": (lambda: loader(sharding="block"), "sharding must be ByColumn(…) … got 'block'"),
    "a column of a node that there is not": (
        lambda: loader(sharding=vl.ByColumn("node")),
        "the data set has no column 'node'; its columns are none",
    ),
    "names of nodes": (
        lambda: loader(sharding=vl.ByColumn("node"), dataset=nodes(), shard_id=0, num_shards=2),
        "column 'node' must hold the numbers of groups, 0, 1, 2, …, got ['n1', 'n2']",
    ),
    "PyTorch's ConcatDataset": (
        lambda: loader(dataset=torch.utils.data.ConcatDataset([data(), data()])),
        "dataset must be a VideoDataset, got … data sets are joined as one + other",
    ),
    "names of classes of a batch": (
        lambda: batch().class_names,
        "a Batch has no attribute class_names: write data.class_names[label], of the data set",
    ),
    "a column of padding that there is not": (
        lambda: first(vl.RandomWindow(100, pad=vl.PadColumn("padding"))),
        "a.mp4 … has no column 'padding'; its columns are",
    ),
    "only a number of shards": (lambda: loader(num_shards=2), "give both of shard_id and num_shards, or none"),
    "a shard after the last": (
        lambda: loader(num_shards=2, shard_id=2),
        "shard_id must be in [0, num_shards=2), got 2",
    ),
    "shards in quotes": (lambda: loader(num_shards="2", shard_id="0"), "shard_id must be an integer … got '0'"),
    "a shard of 0.0": (lambda: loader(num_shards=2, shard_id=0.0), "shard_id must be an integer of at … got 0.0"),
    "no shards": (lambda: loader(num_shards=0, shard_id=0), "num_shards must be a positive integer, got 0"),
    "an index that is not there": (lambda: loader(index="no.db"), "no.db … directory): build_store of a"),
    "a video for an index": (lambda: loader(index="a.mp4"), "a.mp4 … is not an index store (file is not a"),
    "a list of indexes": (lambda: loader(index=["t.db"]), "must be … got ['t.db']"),
    "a bar for on_indexed": (lambda: loader(on_indexed=True), "VideoLoader's on_indexed must be a … got True"),
    "a video that cannot be read": (
        lambda: loader(dataset=VD.from_paths(["a.mp4", "half.mp4"])),
        "half.mp4: has no moov box … not an mp4 file, or cut off before its",
    ),
    "a video that is gone": (lambda: loader(dataset=VD.from_csv("gone.csv")), "not_here.mp4 … cannot be opened (No"),
    "next of a loader": (lambda: next(loader()), "a loader is not its own iterator … write next(iter(loader))"),
    "a batch by number": (
        lambda: loader()[0],
        "batches have no numbers … write for batch in loader, or next(iter(loader))",
    ),
    "a DataLoader around a loader": (
        lambda: next(iter(torch.utils.data.DataLoader(loader(), batch_size=None))),
        "no DataLoader can be made of a loader: write for batch in loader, or next(iter(loader))",
    ),
    "the data set of a loader": (lambda: len(loader().dataset), "a VideoLoader has no … write"),
    "the batch size of a loader": (lambda: loader().batch_size, "a VideoLoader has no … it is only an"),
    "the sampler of a loader": (lambda: loader().sampler.set_epoch(1), "a VideoLoader has no attribute … write"),
    "its number of batches": (lambda: loader().num_batches, "a VideoLoader has no … write len(loader)"),
    "one shard": (lambda: loader(shard=0), "VideoLoader has no argument shard: write shard_id"),
    "DALI's reset": (lambda: loader().reset(), "a VideoLoader has no attribute reset … write for batch in"),
    "DALI's epoch_size": (lambda: loader().epoch_size, "a VideoLoader has no attribute … write loader.num_clips"),
    "a batch size that is set": (lambda: setattr(loader(), "batch_size", 4), "a VideoLoader has no … it is only an"),
    "a shuffle that is set": (lambda: setattr(loader(), "shuffle", True), "a VideoLoader has no … it is only an"),
    "an epoch that is set": (lambda: setattr(loader(), "epoch", 3), "a VideoLoader has no attribute epoch … write"),
    "an epoch in quotes": (lambda: loader().set_epoch("1"), "epoch must be an integer in [0, 2**64), got '1'"),
    "an epoch below 0": (lambda: loader().set_epoch(-1), "epoch must be an integer in [0, 2**64), got -1"),
    "a state of something else": (lambda: loader().load_state_dict({"a": 1}), "not the state of a loader … 1}"),
    "the path of a state": (lambda: loader().load_state_dict("state.pt"), "not the state of a loader … state.pt"),
    "a state of None": (lambda: loader().load_state_dict(None), "not the state of a loader, which … None"),
    "a state of another seed": (
        lambda: loader(seed=2).load_state_dict(loader(seed=1).state_dict()),
        "the state is of another seed: 1 and not 2; make the loader as it was",
    ),
    "two loops at once": (lambda: two_loops(), "another loop over this loader has … make a loader for"),
    "x and y of a batch": (lambda: (lambda x, y: x)(*batch()), "a batch has attributes … write batch.frames"),
    "a loop over a batch": (lambda: list(batch()), "a batch has attributes … write batch.frames, batch.labels"),
    "a batch's video by name": (lambda: batch()["video"], "a batch has attributes … write batch.frames"),
    "a batch's first row": (lambda: batch()[0], "a batch has attributes … write batch.frames, batch.labels"),
    "a batch as a dict": (lambda: dict(batch()), "a batch has attributes … write batch.frames, batch.labels"),
    "a name in a batch": (lambda: "video" in batch(), "a batch has attributes … write batch.frames, batch.labels"),
    "Hugging Face's pixel_values": (lambda: batch().pixel_values, "a Batch has no attribute … write batch.frames"),
    "PyTorchVideo's video": (lambda: batch().video, "a Batch has no attribute video … write batch.frames"),
    "MMAction2's imgs": (lambda: batch().imgs, "a Batch has no attribute imgs … write batch.frames"),
    "one label": (lambda: batch().label, "a Batch has no attribute label … write batch.labels"),
    "the shape of a batch": (lambda: batch().shape, "a Batch has no attribute shape … write batch.frames.shape"),
    "a batch's permute": (lambda: batch().permute(0, 2, 1, 3, 4), "a Batch has no attribute permute … write"),
    "a batch's cuda": (lambda: batch().cuda(), 'a Batch has no attribute cuda … write batch.to("cuda")'),
    "a batch's items": (lambda: batch().items(), "a Batch has no attribute items … write batch.frames"),
    "frames that are set": (lambda: setattr(batch(), "frames", None), "frames of a Batch … dataclasses.repla"),
    "a device of a batch that there is not": (lambda: batch().to("gpu"), "device must be … got 'gpu'; the"),
    "a type of a batch": (lambda: batch().to(torch.float16), "device must be 'cpu', … got torch.float16"),
    "a mask of a row that there is not": (
        lambda: batch().replay(5, torch.zeros(4, 128, 160), "mask"),
        "row must be an integer in [0, 1], got 5",
    ),
    "a kind of mask that there is not": (
        lambda: batch().replay(0, torch.zeros(4, 128, 160), "masks"),
        "kind must be one of frames, mask, flow, points, boxes, got 'masks'",
    ),
    "a mask of another size": (
        lambda: batch().replay(0, torch.zeros(4, 10, 10), "mask"),
        "the clip shows (0, 0, 128, 160) (top, left, height, width) of its … give what is in the video's size",
    ),
    "a mask of a larger video": (
        lambda: batch().replay(0, torch.zeros(4, 256, 320), "mask"),
        "mask must be in the size of the video, got 256×320: the video's frames are 128×160",
    ),
    "a flow in the size of the batch": (
        lambda: vl.Compose([vl.CenterCrop(8)])(
            torch.zeros(4, 3, 32, 24, dtype=torch.uint8), apply_to={"flow": torch.zeros(4, 2, 24, 32)}
        ),
        "flow must be in the size of the video, got 24×32: the video's frames are 32×24",
    ),
    "an array for a mask": (lambda: batch().replay(0, np.zeros((4, 128, 160)), "mask"), "tensor must be a Tensor"),
    "no row of a mask": (lambda: batch().replay(torch.zeros(4, 128, 160)), "Batch.replay needs the argument tensor"),
    "points in a list": (lambda: batch().to_source([[1, 2]]), "points must be a Tensor, got [[1, 2]]"),
    "points of one number": (lambda: batch().to_source(torch.zeros(3)), "points must be [2, ..., 2] or … float32 [3]"),
    "PyTorch's DataLoader": (lambda: vl.DataLoader, "module videoloader has no attribute … write VideoLoader"),
}


@pytest.mark.parametrize(("call", "words"), MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_is_answered(call: Callable[[], object], words: str) -> None:
    check_answer(call, words)
