"""ClipDataset and BatchStream: the clips of a VideoLoader from processes of a torch DataLoader."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from lies.joined import joined
from same_batches import assert_same_batches
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.batching import row_decoding
from videoloader.interop.torch import BatchStream, ClipDataset, batch_stream, list_clips, stack_clips
from videoloader.reading.clip_reader import ClipsReport

Sample = Callable[[str], Path]
SETTINGS: dict[str, Any] = {
    "transforms": [vl.RandomResizedCrop(32), vl.RandomHorizontalFlip(), vl.Normalize()], "dtype": "float32", "seed": 3,
}  # fmt: skip
MODE = vl.RandomWindow(3, stride=2, clips=2)


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    paths = [str(sample(name)) for name in ("h264_mp4", "hevc_mp4", "vp9_webm")]
    return vl.VideoDataset([vl.VideoEntry(path, n, columns={"fps": None, "n": n}) for n, path in enumerate(paths)])


# What the processes of a torch DataLoader do not send.
same = partial(assert_same_batches, but=["drawn"])


def loader_of(data: vl.VideoDataset, **settings: Any) -> vl.VideoLoader:
    return vl.VideoLoader(data, MODE, **({"batch_size": 4, "device": "cpu", "num_workers": 2} | SETTINGS | settings))


@pytest.mark.parametrize(
    ("workers", "start", "stored"),
    [(0, None, False), (0, None, True), (2, "fork", False), (2, "fork", True), (1, "spawn", True)],
)
def test_batches_are_those_of_a_video_loader(
    data: vl.VideoDataset, tmp_path: Path, workers: int, start: str, stored: bool
) -> None:
    if stored:
        data.build_store(tmp_path / "index.db", workers=1)
    clips = ClipDataset(data, MODE, index=tmp_path / "index.db" if stored else None, **SETTINGS)
    settings = {"num_workers": workers, "multiprocessing_context": start, "persistent_workers": workers > 0}
    torch_loader = DataLoader(clips, batch_size=4, collate_fn=stack_clips, **settings)
    expected = loader_of(data)
    for epoch in range(2):
        clips.set_epoch(epoch)
        same(list(torch_loader), list(expected))


def test_a_clip_by_its_number(data: vl.VideoDataset) -> None:
    clips = ClipDataset(data, MODE, seed=1)
    assert len(clips) == 6
    sample = clips[3]
    video = vl.Video(data[1].path, device="cpu")
    assert torch.equal(sample["frames"], video.read(sample["frame_numbers"].tolist()).frames)
    assert (sample["path"], sample["label"], sample["clip"], sample["row"]) == (data[1].path, 1, 3, 1)
    assert torch.equal(clips[-3]["frames"], sample["frames"])
    again = pickle.loads(pickle.dumps(clips))
    assert torch.equal(again[3]["frames"], sample["frames"])
    for beyond in (6, -7):
        with pytest.raises(vl.FrameRangeError, match="does not exist"):
            clips[beyond]
    assert len(list(iter(clips))) == 6  # which IndexError ends


@pytest.mark.parametrize("number", ["0", 0.5, None, slice(2)])
def test_what_is_no_number_of_a_clip_is_refused(data: vl.VideoDataset, number: Any) -> None:
    with pytest.raises(vl.ConfigurationError, match=r"clips are asked for by number, as clips\[0\], got"):
        ClipDataset(data, MODE)[number]


@pytest.mark.parametrize(
    "make", [ClipDataset, lambda data, mode: BatchStream(partial(vl.VideoLoader, data, mode, batch_size=2))]
)
def test_a_system_without_shared_memory_is_told_of(
    make: Callable[..., Any], data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(tensor: torch.Tensor) -> torch.Tensor:
        raise RuntimeError("unable to allocate shared memory(shm): No space left on device (28)")

    monkeypatch.setattr(torch.Tensor, "share_memory_", full)
    with pytest.raises(vl.ConfigurationError, match=r"no shared memory for worker processes .*: free some of /dev/shm"):
        make(data, vl.RandomWindow(4))


def test_a_second_loop_of_the_same_random_clips_is_warned_of_once(data: vl.VideoDataset) -> None:
    def warned(clips: ClipDataset, *, told: bool = False) -> list[int]:
        counts = []
        for epoch in range(4):
            if told:
                clips.set_epoch(epoch)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                list(DataLoader(clips, batch_size=4, shuffle=False, collate_fn=stack_clips))
            counts.append(sum("set_epoch" in str(each.message) for each in caught))
        return counts

    assert warned(ClipDataset(data, MODE)) == [0, 1, 0, 0]
    assert warned(ClipDataset(data, MODE), told=True) == [0, 0, 0, 0]
    fixed = [vl.Resize(64), vl.CenterCrop(32), vl.Normalize()]
    assert warned(ClipDataset(data, [0, 1], transforms=fixed)) == [0, 0, 0, 0]
    assert warned(ClipDataset(data, [0, 1], transforms=[vl.RandomCrop(64)])) == [0, 1, 0, 0]


def test_clips_that_are_asked_for_together_are_as_alone(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4"), sample("hevc_mp4")])
    clips = ClipDataset(data, vl.RandomWindow(3, stride=2, clips=6), **SETTINGS)
    fed: list[int] = []
    plain = row_decoding.decode_rows

    def counted(*arguments: Any, **options: Any) -> ClipsReport:
        report = plain(*arguments, **options)
        fed.append(report.packets)
        return report

    monkeypatch.setattr(row_decoding, "decode_rows", counted)
    numbers = [3, 8, 0, 11, 3, -1]
    alone = [clips[number] for number in numbers]
    packets, fed[:] = sum(fed), []
    for one, other in zip(clips.__getitems__(numbers), alone, strict=True):
        assert torch.equal(one["frames"], other["frames"])
        assert (one["path"], one["clip"]) == (other["path"], other["clip"])
        assert one["frame_numbers"].tolist() == other["frame_numbers"].tolist()
    assert sum(fed) < packets


def test_clips_of_any_length_in_lists(data: vl.VideoDataset, sample: Sample) -> None:
    entries = [vl.VideoEntry(str(sample("h264_mp4")), start=0, stop=stop) for stop in (2, 5)]
    clips = ClipDataset(vl.VideoDataset(entries), vl.WholeVideo())
    [batch] = DataLoader(clips, batch_size=2, collate_fn=list_clips)
    assert [len(frames) for frames in batch.frames] == [2, 5]
    assert [len(numbers) for numbers in batch.frame_numbers] == [2, 5]
    with pytest.raises(vl.ConfigurationError, match=r"clips of one batch have \[2, 5\] frames"):
        next(iter(DataLoader(clips, batch_size=2, collate_fn=stack_clips)))


def test_default_collation_takes_samples_whose_columns_it_knows(sample: Sample) -> None:
    plain = vl.VideoDataset.from_paths([sample("h264_mp4")], [7])
    [batch] = DataLoader(ClipDataset(plain, MODE), batch_size=2)
    assert batch["frames"].shape == (2, 3, 3, 128, 160)
    assert batch["label"].tolist() == [7, 7]


def test_a_bad_video_is_named(tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    with pytest.raises(vl.VideoLoaderError, match=r"text\.mp4"):
        ClipDataset(vl.VideoDataset.from_paths([tmp_path / "text.mp4"]), MODE)


@pytest.mark.filterwarnings("ignore:.*cannot be")
@pytest.mark.parametrize("workers", [0, 1])
def test_an_epoch_of_which_nothing_can_be_made_is_an_error(sample: Sample, tmp_path: Path, workers: int) -> None:
    path = tmp_path / "gone.mp4"
    path.write_bytes(sample("h264_mp4").read_bytes())
    data = vl.VideoDataset.from_paths([path])
    clips = ClipDataset(data, MODE)
    stream = BatchStream(partial(loader_of, data, on_error="skip"))
    path.write_bytes(b"something else")
    for loader in (
        DataLoader(clips, 2, num_workers=workers, collate_fn=stack_clips),
        DataLoader(stream, batch_size=None, num_workers=workers),
    ):
        with pytest.raises(vl.VideoLoaderError, match=r"gone\.mp4"):
            list(loader)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_batches_move_like_tensors(data: vl.VideoDataset) -> None:
    [batch] = loader_of(data, batch_size=6)
    halves = batch.to(torch.device("meta"))
    assert (halves.frames.device.type, halves.labels.device.type) == ("meta", "meta")
    [listed] = loader_of(data, batch_size=6, collate="list")
    assert {frames.device.type for frames in listed.to("meta").frames} == {"meta"}
    same([batch.to("cpu")], [batch])


@pytest.mark.parametrize("workers", [0, 2])
def test_a_stream_deals_the_shards_of_a_video_loader_out_to_workers(data: vl.VideoDataset, workers: int) -> None:
    make = partial(loader_of, data, batch_size=1, shuffle=True)
    stream = BatchStream(make, shard_id=1, num_shards=3)
    parts = [
        make(shard_id=1 * max(workers, 1) + worker, num_shards=3 * max(workers, 1))
        for worker in range(max(workers, 1))
    ]  # fmt: skip
    torch_loader = DataLoader(stream, batch_size=None, num_workers=workers)
    for epoch in (0, 1):
        stream.set_epoch(epoch)
        for part in parts:
            part.set_epoch(epoch)
        dealt = [batch for in_turn in zip(*parts, strict=True) for batch in in_turn]
        same(list(torch_loader), dealt)


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("taken", [1, 3, 5])
def test_a_stream_resumes_inside_a_stateful_loader(data: vl.VideoDataset, workers: int, taken: int) -> None:
    stateful = pytest.importorskip("torchdata.stateful_dataloader", reason="needs torchdata")

    def loader() -> Any:
        make = partial(loader_of, data, batch_size=1, shuffle=True, num_workers=1)
        return stateful.StatefulDataLoader(BatchStream(make), batch_size=None, num_workers=workers)

    whole, interrupted, resumed = list(loader()), loader(), loader()
    assert len(whole) == 6
    same(list(islice(interrupted, taken)), whole[:taken])
    for again in (resumed, loader()):  # the second from a state that was taken before the first went on
        again.load_state_dict(pickle.loads(pickle.dumps(interrupted.state_dict())))
        interrupted = again
    same(list(again), whole[taken:])
    same(list(resumed), whole[taken:])


def streams_of(data: vl.VideoDataset) -> list[BatchStream]:
    """Three equal streams of three batches an epoch."""
    make = partial(loader_of, data, batch_size=2, shuffle=True)
    return [BatchStream(make, shard_id=0, num_shards=1) for _ in range(3)]


def loop_after(stream: BatchStream, taken: int) -> Iterator[vl.Batch]:
    """A loop over a stream after so many batches."""
    loop = iter(stream)
    for _ in range(taken):
        next(loop)
    return loop


@pytest.mark.parametrize("taken", range(4))
@pytest.mark.parametrize("is_resumed", [False, True])
def test_a_state_taken_after_set_epoch_is_that_of_its_begin(
    data: vl.VideoDataset, taken: int, is_resumed: bool
) -> None:
    first, begun, again = streams_of(data)
    _loop = loop_after(first, taken)
    if is_resumed:
        begun.load_state_dict(first.state_dict())
    else:
        begun = first
    begun.set_epoch(5)
    again.load_state_dict(begun.state_dict())
    rest = list(begun)
    assert len(rest) == 3
    same(list(again), rest)
    assert again.state_dict() == begun.state_dict()


@pytest.mark.parametrize("workers", [0, 1])
def test_epochs_go_on_from_the_one_that_was_set(data: vl.VideoDataset, workers: int) -> None:
    make = partial(loader_of, data, batch_size=2, shuffle=True, num_workers=1)
    stream, loader = BatchStream(make, shard_id=0, num_shards=1), make(shard_id=0, num_shards=1)
    settings = {"persistent_workers": True, "multiprocessing_context": "fork"} if workers else {}
    loop = DataLoader(stream, batch_size=None, num_workers=workers, **settings)  # type: ignore[arg-type]
    for first in (5, 2):
        stream.set_epoch(first)
        loader.set_epoch(first)
        for _ in range(3):
            same(list(loop), list(loader))


@pytest.mark.parametrize("taken", [1, 2])
def test_a_state_taken_after_the_resumed_epoch_is_set_keeps_its_position(data: vl.VideoDataset, taken: int) -> None:
    """As in loops that set each epoch, from the resumed one on."""
    first, resumed, again = streams_of(data)
    loop = loop_after(first, taken)
    resumed.load_state_dict(first.state_dict())
    resumed.set_epoch(0)
    again.load_state_dict(resumed.state_dict())
    rest = list(loop)
    for each in (resumed, again):
        same(list(each), rest)


@pytest.mark.parametrize("taken", range(4))
def test_a_state_taken_right_after_a_resume_is_the_same(data: vl.VideoDataset, taken: int) -> None:
    interrupted, resumed, again = streams_of(data)
    _loop = loop_after(interrupted, taken)
    resumed.load_state_dict(interrupted.state_dict())
    again.load_state_dict(resumed.state_dict())
    assert again.state_dict() == resumed.state_dict() == interrupted.state_dict()
    for epoch in range(2):
        rest = list(resumed)
        assert len(rest) == (3 if epoch else 3 - taken)
        same(list(again), rest)
    assert again.state_dict() == resumed.state_dict()


@pytest.mark.parametrize(
    ("settings", "told", "warned"),
    [
        ({"shuffle": True}, False, 1),
        ({"transforms": [vl.RandomCrop(64)]}, False, 1),
        ({"transforms": [vl.CenterCrop(64)]}, False, 0),
        ({"shuffle": True}, True, 0),
        ({"shuffle": True}, "once", 1),
        ({"shuffle": True, "persistent_workers": True}, False, 0),
    ],
)
def test_a_stream_whose_new_workers_begin_again_warns_once(
    data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], told: bool | str, warned: int
) -> None:
    warnings_of_workers = torch.zeros((), dtype=torch.int64).share_memory_()
    monkeypatch.setattr(batch_stream, "warn_user", lambda message: warnings_of_workers.add_(1))
    stays = settings.pop("persistent_workers", False)
    make = partial(vl.VideoLoader, data, [0, 1], batch_size=1, num_workers=1, last_batch="uneven", **settings)
    stream = BatchStream(make, shard_id=0, num_shards=1)
    workers: dict[str, Any] = {"num_workers": 2, "multiprocessing_context": "fork", "persistent_workers": stays}
    torch_loader = DataLoader(stream, batch_size=None, **workers)
    for epoch in range(3):
        if told and (told != "once" or not epoch):
            stream.set_epoch(epoch)
        assert len(list(torch_loader)) == 3
    assert int(warnings_of_workers) == warned


def test_half_a_shard_is_refused(data: vl.VideoDataset) -> None:
    with pytest.raises(vl.ConfigurationError, match="both"):
        BatchStream(partial(loader_of, data), shard_id=1)


def test_a_data_set_without_clips_is_refused(sample: Sample) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4")])
    with pytest.raises(vl.ConfigurationError, match="gives no clip of the data set's 1 row"):
        ClipDataset(data, vl.EveryWindow(10_000))


@pytest.mark.parametrize("order", [1, -1])
@pytest.mark.parametrize(("family", "members"), [("h264_pps", (0, 1, 1, 1, 1)), ("hevc_closed", (0, 2, 0, 2, 0, 0))])
def test_what_one_clip_finds_about_a_video_counts_for_those_asked_for_with_it(tmp_path, family, members, order):
    """Parameter sets inside one GOP, on which clips of later ones depend."""
    data = joined(tmp_path, family, members, "late", "mp4")
    assert data is not None
    path = tmp_path / "joined.mp4"
    path.write_bytes(data)
    video = vl.Video(path, device="cpu")
    expected = video[:]
    clips = ClipDataset(vl.VideoDataset.from_paths([path]), vl.EveryWindow(4))
    asked = list(range(len(clips)))[::order]
    for sample in clips.__getitems__(asked):
        assert torch.equal(sample["frames"], expected[sample["frame_numbers"]]), sample["clip"]
