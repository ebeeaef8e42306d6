"""Clips made on a Ray cluster: each once, and equal to those of VideoLoader."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from waiting import PATIENCE

from videoloader import (
    Batch,
    DecodeError,
    EveryWindow,
    FrameTuples,
    Normalize,
    RandomHorizontalFlip,
    RandomResizedCrop,
    RandomWindow,
    Reverse,
    SourceError,
    UniformFrames,
    VideoDataset,
    VideoEntry,
    VideoLoader,
    VideoLoaderWarning,
    WholeVideo,
    build_index,
    build_store,
)
from videoloader.errors import ConfigurationError, VideoLoaderError

MODE = RandomWindow(4, stride=2, clips=3, pad="edge")
TUPLES: dict[str, Any] = {"inputs": (0, 6), "targets": (1, 2, 4), "random_targets": 2, "clips": 3}
CROP = (RandomResizedCrop(32), RandomHorizontalFlip(), Normalize())
RECIPES = ("h264_mp4", "vp9_webm", "hevc_mp4")


@pytest.fixture
def data(sample: Callable[[str], Path]) -> VideoDataset:
    entries = [
        VideoEntry(str(sample(name)), label, start=2, columns={"name": name, "score": label / 2})
        for label, name in enumerate(RECIPES)
    ]
    return VideoDataset(entries)


def made_on_cluster(*arguments: Any, **named: Any) -> list[dict[str, Any]]:
    from videoloader.interop.ray import read_clips

    # Each actor takes seconds to start.
    rows = read_clips(*arguments, **{"batch_size": 2, "concurrency": 1} | named).take_all()
    return sorted(rows, key=lambda row: row["clip"])


def made_here(data: VideoDataset, mode: Any, epoch: int, **named: Any) -> list[dict[str, Any]]:
    loader = VideoLoader(data, mode, batch_size=1, device="cpu", num_workers=1, **named)
    loader.set_epoch(epoch)
    return [
        {
            "clip": int(batch.clips[0]),
            "row": int(batch.rows[0]),
            "path": batch.paths[0],
            "label": int(batch.labels[0]),
            "frames": batch.frames[0].numpy(),
            "frame_numbers": batch.frame_numbers[0],
            "timestamps": batch.timestamps[0],
            "mask": batch.mask[0],
            "corrupt": batch.corrupt[0],
            **batch.columns[0],
            **({} if batch.roles is None else roles_of(batch)),
        }
        for batch in loader
    ]


def roles_of(batch: Batch) -> dict[str, np.ndarray]:
    inputs, targets = map(np.array, batch.roles)
    assert torch.equal(batch.frames[:, :, inputs], batch.inputs)  # of CTHW
    assert torch.equal(batch.frames[:, :, targets], batch.targets)
    return {"input_places": inputs, "target_places": targets, "target_times": np.asarray(batch.target_times[0])}


def assert_same(there: list[dict[str, Any]], here: list[dict[str, Any]]) -> None:
    assert [row["clip"] for row in there] == [row["clip"] for row in here]
    for one, other in zip(there, here, strict=True):
        assert one.keys() == other.keys()
        for name, value in other.items():
            if isinstance(value, np.ndarray):
                assert (one[name].dtype, one[name].shape) == (value.dtype, value.shape), name
                np.testing.assert_array_equal(one[name], value, name)
            else:
                assert one[name] == value, name


def test_workers_of_ray_train_get_each_clip_once(data: VideoDataset, tmp_path: Path) -> None:
    pytest.importorskip("ray.train.torch", reason="needs Ray Train")

    # Each worker is a rank of PyTorch's process group, and reads its own part of the clips.
    def train_on_cpu(settings: dict[str, Any]) -> None:
        import ray.train.torch
        import torch.distributed

        import videoloader as vl

        folder = Path(settings["folder"])
        loaded = vl.VideoDataset.load_or_make(
            folder / "x.arrow", lambda: vl.VideoDataset.from_paths(settings["paths"], settings["labels"])
        )
        model = ray.train.torch.prepare_model(torch.nn.Linear(3, 3))
        loader = vl.VideoLoader(loaded, MODE, batch_size=2, device="cpu", num_workers=1, shuffle=True)
        seen: list[int] = []
        for batch in loader:
            scores = model(batch.frames.float().mean((1, 3, 4)) / 255)
            torch.nn.functional.cross_entropy(scores, batch.labels).backward()
            seen += batch.clips.tolist()
        (folder / f"{torch.distributed.get_rank()}.json").write_text(json.dumps(seen))

    from ray.train import RunConfig, ScalingConfig
    from ray.train.torch import TorchConfig, TorchTrainer

    trainer = TorchTrainer(
        train_on_cpu,
        train_loop_config={"folder": str(tmp_path), "paths": list(data.paths), "labels": data.labels.tolist()},
        torch_config=TorchConfig(backend="gloo", timeout_s=PATIENCE),
        scaling_config=ScalingConfig(num_workers=2, use_gpu=False),
        run_config=RunConfig(storage_path=str(tmp_path / "runs")),
    )
    trainer.fit()
    seen = [json.loads((tmp_path / f"{rank}.json").read_text()) for rank in range(2)]
    assert sorted(seen[0] + seen[1]) == list(range(9))


def test_clips_of_many_lengths_and_sizes(data: VideoDataset, tmp_path: Path) -> None:
    Image.new("RGB", (31, 17), "teal").save(tmp_path / "teal.png")
    paths = [data[0].path, data[1].path, str(tmp_path / "teal.png")]
    # Without targets, their times are a name like any other.
    data = VideoDataset(
        [
            VideoEntry(path, stop=stop, columns={"target_times": "0.5"})
            for path, stop in zip(paths, (10, 20, None), strict=True)
        ]
    )
    mode = WholeVideo(stride=5)
    there = made_on_cluster(data, mode)
    assert [len(row["frames"]) for row in there] == [2, 4, 1]
    assert len({row["frames"].shape[1:] for row in there}) > 1
    assert_same(there, made_here(data, mode, 0))


@dataclass(frozen=True)
class Deadly(FrameTuples):
    """Kills the process that chooses a clip of the second video, so many times."""

    marks: str = ""
    times: int = 1

    def frame_numbers(self, video: Any, clip: int, rng: np.random.Generator) -> Any:
        if video.entry.label == 1 and clip == 1 and len(killed := os.listdir(self.marks)) < self.times:
            (Path(self.marks) / str(len(killed))).touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return FrameTuples.frame_numbers(self, video, clip, rng)


def deadly(marks: Path, times: int) -> Any:
    """A mode that workers need not import from here."""
    from ray import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return Deadly(**TUPLES, marks=str(marks), times=times)


def test_rows_are_what_the_loader_makes_and_a_killed_actor_costs_none(data: VideoDataset, tmp_path: Path) -> None:
    transforms = [*CROP, Reverse()]
    settings: dict[str, Any] = {"transforms": transforms, "dtype": "float16", "layout": "CTHW", "seed": 5}
    build_store([entry.path for entry in data], tmp_path / "index.db", workers=1)
    (marks := tmp_path / "marks").mkdir()
    there = made_on_cluster(data, deadly(marks, 1), epoch=2, index=tmp_path / "index.db", concurrency=2, **settings)
    assert len(os.listdir(marks)) == 1
    assert len(there) == 9
    assert_same(there, made_here(data, FrameTuples(**TUPLES), 2, **settings))


def test_a_clip_that_kills_every_actor_ends_the_job(data: VideoDataset, tmp_path: Path) -> None:
    with pytest.raises(DecodeError, match="3 workers died while they made clips 4 to 5"):
        made_on_cluster(data, deadly(tmp_path, 100))
    assert len(os.listdir(tmp_path)) == 3


def test_an_unreadable_file_is_told_of_at_once(data: VideoDataset, tmp_path: Path) -> None:
    from videoloader.interop.ray import read_clips

    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(VideoLoaderError, match=r"text\.mp4"):
        read_clips(VideoDataset.from_paths([data[0].path, tmp_path / "text.mp4"]), MODE)


def damaged_copy(path: str, copy: Path) -> None:
    """Write a copy whose second keyframe has lost its second half."""
    index, content = build_index(path), bytearray(Path(path).read_bytes())
    second = int(np.flatnonzero(index.packet_key)[1])
    offset, size = int(index.packet_offset[second]), int(index.packet_size[second])
    content[offset + size // 2 : offset + size] = bytes(size - size // 2)
    copy.write_bytes(content)


def test_what_is_skipped_is_put_down_and_others_are_batches_of_tensors(data: VideoDataset, tmp_path: Path) -> None:
    """A damaged video, one that cannot be indexed, and at the end one that is cut off after its tables were read."""
    from videoloader.interop.ray import SkippedClips, read_clips

    damaged, text, gone = (tmp_path / name for name in ("damaged.mp4", "text.mp4", "gone.mp4"))
    damaged_copy(data[0].path, damaged)
    text.write_text("no video")
    shutil.copy(data[0].path, gone)
    skipped, mode, names = SkippedClips(), EveryWindow(4, step=12), ["label", "clip", "frames", "score", "corrupt"]
    settings: dict[str, Any] = {"transforms": CROP, "on_corrupt": "skip"}
    columns = {"name": "", "score": 1.5}
    readable = [VideoEntry(str(damaged), 3, columns=columns), *data]
    others = [VideoEntry(str(path), columns=columns) for path in (text, gone)]
    clips = read_clips(
        VideoDataset([*readable, *others]),
        mode,
        columns=names,
        batch_size=5,
        concurrency=1,
        on_error="skip",
        skipped=skipped,
        **settings,
    )
    gone.write_bytes(gone.read_bytes()[:1000])
    with pytest.warns(VideoLoaderWarning, match="damaged frames"):
        expected = {row["clip"]: row for row in made_here(VideoDataset(readable), mode, 0, **settings)}
    assert [row["clip"] for row in expected.values() if row["path"] == str(damaged)] == [0, 2, 3, 4]

    made = clips.materialize()
    assert set(made.schema().names) == set(names)
    seen = []
    for batch in made.iter_torch_batches(batch_size=4):
        assert all(isinstance(column, torch.Tensor) for column in batch.values())
        assert not batch["corrupt"].any()
        for clip, label, score, frames in zip(
            *(batch[name] for name in ("clip", "label", "score", "frames")), strict=True
        ):
            seen.append(int(clip))
            row = expected[int(clip)]
            assert (int(label), float(score)) == (row["label"], row["score"])
            assert frames.numpy().dtype == row["frames"].dtype == np.float32
            assert np.array_equal(frames.numpy(), row["frames"])
    assert sorted(seen) == sorted(expected)
    (first, _), (second, error), *last = skipped.entries()
    assert (first, second, "damaged frames" in error) == (str(text), str(damaged), True)
    assert [path for path, _ in last] == [str(gone)] * 5
    assert all(error and "gone.mp4" not in error for _, error in last)


def test_clips_that_are_made_again_are_counted_once() -> None:
    """Ray repeats a call whose actor died, and a data set may be read twice."""
    from videoloader.interop.ray_workers import Account, Attempts

    account, attempts = Account(), Attempts(4)
    account.set_files([("text.mp4", "no video")])
    for _ in range(2):
        for clip in (3, 1):
            account.add(clip, "gone.mp4", f"clip {clip}")
        assert account.entries() == [("text.mp4", "no video"), ("gone.mp4", "clip 1"), ("gone.mp4", "clip 3")]
        assert [attempts.begin(0), attempts.begin(0), attempts.begin(2)] == [1, 2, 1]
        assert (attempts.end(0, 2), attempts.end(2, 0)) == (False, False)
    attempts.begin(2)
    assert attempts.end(2, 2)  # now none is made


def test_a_clip_that_cannot_be_made_ends_the_job(data: VideoDataset, tmp_path: Path) -> None:
    from videoloader.interop.ray import read_clips

    broken = tmp_path / "broken.mp4"
    shutil.copy(data[0].path, broken)
    clips = read_clips(VideoDataset.from_paths([str(broken)]), UniformFrames(2), concurrency=1)
    broken.write_bytes(broken.read_bytes()[:1000])
    with pytest.raises(VideoLoaderError, match=r"broken\.mp4"):
        clips.take_all()


def test_clips_of_which_none_can_be_made_are_an_error(data: VideoDataset, tmp_path: Path) -> None:
    from videoloader.interop.ray import SkippedClips, read_clips

    broken, skipped = tmp_path / "broken.mp4", SkippedClips()
    shutil.copy(data[0].path, broken)
    clips = read_clips(
        VideoDataset.from_paths([broken] * 3), MODE, batch_size=2, concurrency=1, on_error="skip", skipped=skipped
    )
    content = broken.read_bytes()
    broken.write_bytes(content[:1000])
    with pytest.raises(SourceError, match=r"broken\.mp4: of the epoch's 9 clips none can be made; the first: "):
        clips.take_all()
    assert [path for path, _ in skipped.entries()] == [str(broken)] * 9


@pytest.mark.parametrize(("hidden", "devices"), [(True, ["cuda:0", "cuda:0"]), (False, ["cuda:0", "cuda:1"])])
def test_workers_take_the_gpu_that_ray_gave_them(hidden: bool, devices: list[str]) -> None:
    """Not the one that a launcher gave the driver, and also where Ray does not hide the GPUs of others."""
    import ray

    from videoloader.interop.ray_workers import own_device

    class Worker:
        def device(self) -> str:
            return own_device()

    variables = {"RANK": "1", "WORLD_SIZE": "2", "LOCAL_RANK": "1"}
    if not hidden:
        variables["RAY_EXPERIMENTAL_NOSET_CUDA_VISIBLE_DEVICES"] = "1"
    started = ray.remote(num_cpus=0, runtime_env={"env_vars": variables})(Worker)
    workers = [started.options(num_gpus=1).remote() for _ in devices]
    assert sorted(ray.get([worker.device.remote() for worker in workers])) == devices
    # A worker without a GPU takes none, although it sees them all where Ray does not hide them.
    assert hidden or ray.get(started.remote().device.remote()) == "cpu"


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU: see tests/gpu")
def test_actors_with_a_gpu_decode_there_or_not_at_all(data: VideoDataset) -> None:
    import ray

    from videoloader.interop.ray import read_clips

    clips = read_clips(data, MODE, num_gpus=1, concurrency=1)
    with pytest.raises(ray.exceptions.ActorDiedError, match="device is 'cuda:0', but torch finds no CUDA device"):
        clips.take_all()


def test_wrong_arguments_are_refused(data: VideoDataset) -> None:
    from videoloader.interop.ray import read_clips

    with pytest.raises(ConfigurationError, match="dtype is bfloat16"):
        read_clips(data, MODE, dtype="bfloat16")
    with pytest.raises(ConfigurationError, match="on_error must be one of raise, skip, got 'replace'"):
        read_clips(data, MODE, on_error="replace")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="on_corrupt must be one of keep, raise, skip, got 'replace'"):
        read_clips(data, MODE, on_corrupt="replace")  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="batch_size must be a positive integer, got 0"):
        read_clips(data, MODE, batch_size=0)
    named = VideoDataset([VideoEntry(data[0].path, columns={"clip": 7})])
    with pytest.raises(ConfigurationError, match="columns clip have names"):
        read_clips(named, MODE)
    taken = VideoDataset([VideoEntry(data[0].path, columns={"target_times": "0.5"})])
    with pytest.raises(ConfigurationError, match="columns target_times have names"):
        read_clips(taken, FrameTuples(**TUPLES))
    for wrong in ("frames", [], ["pixels"]):
        with pytest.raises(ConfigurationError, match="columns must be a list of some of path, clip, row, label"):
            read_clips(data, MODE, columns=wrong)
