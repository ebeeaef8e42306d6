"""The loader: contents of batches, their order, ranks, and handling of errors."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.order.epoch import Epochs
from videoloader.sampling.mode import clip_rng

Sample = Callable[[str], Path]
NAMES = ["h264_mp4", "hevc_mp4", "vp9_webm", "h264_mp4_vfr", "h264_ts"]


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    return vl.VideoDataset.from_paths([sample(name) for name in NAMES], range(len(NAMES)))


def make(data: vl.VideoDataset, **settings: object) -> vl.VideoLoader:
    defaults = {"batch_size": 3, "device": "cpu", "num_workers": 2, "shuffle": True, "seed": 5}
    mode = settings.pop("mode", vl.RandomWindow(4, stride=3, clips=3))
    return vl.VideoLoader(data, mode, **(defaults | settings))


def clips_of(batches: list[vl.Batch]) -> list[int]:
    return [clip for batch in batches for clip in batch.clips.tolist()]


def same(one: list[vl.Batch], other: list[vl.Batch]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(a.frames, b.frames) and a.paths == b.paths and np.array_equal(a.frame_numbers, b.frame_numbers)
        for a, b in zip(one, other, strict=True)
    )


def test_a_batch_holds_the_frames_it_names(data: vl.VideoDataset) -> None:
    for batch in make(data):
        for row, path in enumerate(batch.paths):
            video = vl.Video(path, device="cpu")
            numbers = batch.frame_numbers[row].tolist()
            assert torch.equal(batch.frames[row], video.read(numbers).frames)
            assert batch.timestamps[row].tolist() == video.timestamps[numbers].tolist()
            assert data[int(batch.labels[row])].path == path
    assert batch.frames.dtype == torch.uint8


def test_order_and_content_do_not_depend_on_workers(data: vl.VideoDataset) -> None:
    assert same(list(make(data, num_workers=1, prefetch=1)), list(make(data, num_workers=4, prefetch=5)))


def test_epochs_hold_every_clip_once_each_in_its_own_order(data: vl.VideoDataset) -> None:
    loader = make(data)
    first, second = list(loader), list(loader)
    assert sorted(clips_of(first)) == sorted(clips_of(second)) == list(range(15))
    assert clips_of(first) != clips_of(second)
    loader.set_epoch(0)
    assert same(list(loader), first)


def test_without_shuffle_clips_come_in_the_order_of_the_data_set(data: vl.VideoDataset) -> None:
    assert clips_of(list(make(data, shuffle=False))) == list(range(15))


def test_shards_share_out_each_epoch(data: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = [list(make(data, shard_id=rank, num_shards=2)) for rank in range(2)]
    assert len(parts[0]) == len(parts[1])
    assert sorted(clips_of(parts[0] + parts[1])) == list(range(15))
    monkeypatch.setenv("RANK", "1")
    monkeypatch.setenv("WORLD_SIZE", "2")
    assert same(list(make(data)), parts[1])


@pytest.mark.parametrize(
    ("last_batch", "sizes"),
    [("partial", [4, 4, 4, 3]), ("drop", [4, 4, 4]), ("fill", [4, 4, 4, 4]), ("uneven", [4, 4, 4, 3])],
)
def test_last_batch(data: vl.VideoDataset, last_batch: str, sizes: list[int]) -> None:
    loader = make(data, batch_size=4, last_batch=last_batch)
    assert len(loader) == len(sizes)
    batches = list(loader)
    assert [len(batch.paths) for batch in batches] == sizes
    # Each clip on its own turn, once.
    on_their_turn = [clip for batch in batches for clip in batch.clips[~batch.repeated].tolist()]
    assert sorted(on_their_turn) == sorted(set(clips_of(batches)))
    assert len(on_their_turn) == min(sum(sizes), 15)


def test_clips_that_fill_up_ranks_are_marked_after_a_resume_too(data: vl.VideoDataset) -> None:
    settings = {"last_batch": "fill", "repeats": 2}
    loader = make(data, **settings)
    first = next(iter(loader))
    parts = [make(data, shard_id=rank, num_shards=4, batch_size=2, **settings) for rank in range(4)]
    for part in parts:
        part.load_state_dict(loader.state_dict())
    batches = [batch for part in parts for batch in part]
    assert not first.repeated.any()
    marked = np.concatenate([batch.repeated for batch in batches])
    clips = np.array(clips_of([first, *batches]))
    assert marked.tolist() == np.repeat(marked[::2], 2).tolist()
    assert sorted(clips[: len(first)].tolist() + clips[len(first) :][~marked].tolist()) == sorted([*range(15)] * 2)
    assert marked.sum() == 2 * (16 - 12)


def uneven(data: vl.VideoDataset, ranks: int, **settings: object) -> list[vl.VideoLoader]:
    defaults = {"mode": vl.RandomWindow(2, clips=3), "batch_size": 1, "num_workers": 1, "last_batch": "uneven"}
    return [make(data, shard_id=rank, num_shards=ranks, **(defaults | settings)) for rank in range(ranks)]


@pytest.mark.parametrize("sharding", ["strided", "contiguous", "stick_to_shard"])
def test_uneven_ranks_end_an_epoch_together_and_see_every_clip_once(data: vl.VideoDataset, sharding: str) -> None:
    for ranks in (4, 17):  # 15 clips: the last batches of a rank or two are missing, and there are ranks without any
        loaders = uneven(data, ranks, sharding=sharding)
        assert sum(len(loader) for loader in loaders) == 15
        for epoch in range(2):
            assert {loader.state_dict()["epoch"] for loader in loaders} == {epoch}
            assert sorted(clip for loader in loaders for clip in clips_of(list(loader))) == list(range(15))


@pytest.mark.parametrize("sharding", ["strided", "contiguous"])
@pytest.mark.parametrize("taken", [1, 3])
def test_uneven_ranks_have_one_state_from_which_any_number_goes_on(
    data: vl.VideoDataset, sharding: str, taken: int
) -> None:
    whole = [clips_of(list(loader)) for loader in uneven(data, 4, sharding=sharding)]
    assert sorted(map(len, whole)) == [3, 4, 4, 4]
    loaders = uneven(data, 4, sharding=sharding)
    for loader in loaders:
        for _ in zip(range(taken), loader, strict=False):  # after its third batch the short rank is not in the next
            pass
    state = loaders[0].state_dict()
    assert all(loader.state_dict() == state for loader in loaders)
    before = [clip for clips in whole for clip in clips[:taken]]
    for ranks in (1, 3, 4, 6):
        resumed = uneven(data, ranks, sharding=sharding)
        for loader in resumed:
            loader.load_state_dict(state)
        after = [clips_of(list(loader)) for loader in resumed]
        assert sorted(before + [clip for clips in after for clip in clips]) == list(range(15))
        assert ranks != 4 or after == [clips[taken:] for clips in whole]
        assert {loader.state_dict()["epoch"] for loader in resumed} == {1}


@pytest.mark.parametrize("taken", [1, 3])
def test_a_resumed_epoch_goes_on_where_it_was(data: vl.VideoDataset, taken: int) -> None:
    whole = list(make(data))
    loader = make(data)
    batches = iter(loader)
    for _ in range(taken):
        next(batches)
    state = loader.state_dict()
    resumed = make(data)
    resumed.load_state_dict(state)
    assert len(resumed) == len(whole) - taken
    assert same(list(resumed), whole[taken:])
    assert clips_of(list(resumed)) != clips_of(whole)  # and then the next epoch


def test_a_loop_that_tells_each_epoch_goes_on_in_the_one_resumed(data: vl.VideoDataset) -> None:
    whole = list(make(data))
    loader = make(data)
    for _ in zip(range(2), loader, strict=False):
        state = loader.state_dict()
    resumed = make(data)
    resumed.load_state_dict(state)
    resumed.set_epoch(0)
    assert same(list(resumed), whole[2:])
    resumed.set_epoch(0)
    assert same(list(resumed), whole)


def test_an_epoch_resumed_by_more_ranks_still_holds_every_clip_once(data: vl.VideoDataset) -> None:
    loader = make(data, batch_size=2)
    batches = iter(loader)
    before = [next(batches), next(batches)]
    after = []
    for rank in range(3):
        part = make(data, batch_size=2, shard_id=rank, num_shards=3)
        part.load_state_dict(loader.state_dict())
        after += list(part)
    assert sorted(clips_of(before + after)) == list(range(15))


def test_a_state_of_other_clips_is_refused(data: vl.VideoDataset) -> None:
    state = make(data).state_dict()
    with pytest.raises(vl.ConfigurationError, match="another seed: 5 and not 6"):
        make(data, seed=6).load_state_dict(state)


def test_a_loop_left_early_can_be_saved_afterwards(data: vl.VideoDataset) -> None:
    whole, loader, resumed = list(make(data)), make(data), make(data)
    for _ in loader:
        break
    resumed.load_state_dict(loader.state_dict())
    assert same(list(resumed), whole[1:])


def test_leaving_a_loop_early_does_no_harm(data: vl.VideoDataset) -> None:
    loader = make(data)
    for batch in loader:
        first = batch
        break
    second = list(loader)
    assert sorted(clips_of(second)) == list(range(15))
    loader.set_epoch(0)
    assert torch.equal(next(iter(loader)).frames, first.frames)


def test_layouts_and_number_types(data: vl.VideoDataset) -> None:
    plain = next(iter(make(data))).frames
    assert torch.equal(next(iter(make(data, layout="CTHW"))).frames, plain.transpose(1, 2))
    assert torch.equal(next(iter(make(data, layout="THWC"))).frames, plain.permute(0, 1, 3, 4, 2))
    floats = next(iter(make(data, dtype="float32"))).frames
    # Not from the rounded pixels: floats have more precision.
    assert (floats * 255 - plain).abs().max() < 0.51
    normalised = next(iter(make(data, dtype="float32", transforms=[vl.Normalize((0.5,) * 3, (0.25,) * 3)]))).frames
    assert torch.allclose(normalised, (floats - 0.5) / 0.25, atol=1e-5)


def test_constant_padding_is_black_and_has_no_time(data: vl.VideoDataset) -> None:
    batch = next(
        iter(make(data, mode=vl.RandomWindow(70, pad="constant"), dtype="float32", transforms=[vl.Normalize()]))
    )
    made_up = batch.frame_numbers[0] == -1
    assert made_up.any()
    assert np.array_equal(~made_up, batch.mask[0])
    assert np.isnan(batch.timestamps[0][made_up]).all()
    black = (0 - torch.tensor(vl.Normalize().mean)) / torch.tensor(vl.Normalize().std)
    assert torch.allclose(batch.frames[0, -1], black[:, None, None].expand(3, 128, 160))


def test_repeated_frames_are_decoded_once(data: vl.VideoDataset) -> None:
    loader = make(data, mode=vl.FrameList([0, 0, 0, 1, 0]), batch_size=5)
    batch = next(iter(loader))
    assert torch.equal(batch.frames[:, 0], batch.frames[:, 4])
    assert not torch.equal(batch.frames[:, 0], batch.frames[:, 3])
    assert loader.stats().frames == 10


@pytest.fixture(scope="module")
def damaged(sample: Sample, data: vl.VideoDataset, tmp_path_factory: pytest.TempPathFactory) -> vl.VideoDataset:
    """The data set with a file that cannot be indexed and one whose later frames cannot be decoded."""
    folder = tmp_path_factory.mktemp("damaged")
    text, noise = folder / "text.mp4", folder / "noise.mp4"
    text.write_text("not a video")
    content = bytearray(sample("h264_mp4").read_bytes())
    index = vl.build_index(bytes(content))
    for start in index.packet_offset.tolist()[12:]:
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    noise.write_bytes(content)
    return vl.VideoDataset.from_paths([text, noise, *(entry.path for entry in data)])


def test_errors_are_raised_by_default(damaged: vl.VideoDataset) -> None:
    with pytest.raises(vl.VideoLoaderError, match=r"text\.mp4"):
        make(damaged)
    readable = vl.VideoDataset.from_paths([entry.path for entry in damaged][1:])
    with pytest.raises(vl.VideoLoaderError, match=r"noise\.mp4"):
        list(make(readable))


def test_what_cannot_be_read_is_skipped_and_told(damaged: vl.VideoDataset) -> None:
    loader = make(damaged, on_error="skip")
    batches = list(loader)
    assert 15 <= sum(len(batch.paths) for batch in batches) < 18
    assert {Path(path).name for path, _ in loader.unreadable} == {"text.mp4", "noise.mp4"}


def test_what_cannot_be_read_is_replaced_the_same_way_every_time(damaged: vl.VideoDataset) -> None:
    one, other = (list(make(damaged, on_error="replace", num_workers=workers)) for workers in (1, 3))
    assert same(one, other)
    assert sum(len(batch.paths) for batch in one) == 18
    own = [path for batch in one for path, again in zip(batch.paths, batch.repeated, strict=True) if not again]
    assert len(own) == 15 + sum(Path(path).name == "noise.mp4" for path in own) < 18


def test_a_replacement_is_not_drawn_from_a_stream_of_the_clip_itself(
    damaged: vl.VideoDataset, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stream(rng: np.random.Generator) -> list[float]:
        return copy.deepcopy(rng).random(4).tolist()

    def clip_beside(epochs: Epochs, clip: int, rng: np.random.Generator) -> int:
        drawn.append(stream(rng))
        own.extend(stream(clip_rng(5, epoch, clip, use)) for epoch in range(3) for use in range(3))
        return choose(epochs, clip, rng)

    drawn: list[list[float]] = []
    own: list[list[float]] = []
    choose = Epochs.clip_beside
    monkeypatch.setattr(Epochs, "clip_beside", clip_beside)
    loader = make(damaged, on_error="replace")
    for _ in range(2):
        list(loader)
    assert drawn
    assert not [one for one in drawn if one in own]


def test_frames_of_different_size_are_an_error_that_says_what_to_do(sample: Sample, tmp_path: Path) -> None:
    from sample_videos import RECIPES, write_video

    small = write_video(
        tmp_path / "small.mp4", RECIPES["h264_mp4"].__class__("mp4", "libx264", size=(96, 64), frames=20)
    )
    data = vl.VideoDataset.from_paths([sample("h264_mp4"), small])
    with pytest.raises(vl.ConfigurationError, match="Resize"):
        list(make(data, batch_size=6))
    assert next(iter(make(data, batch_size=6, transforms=[vl.Resize((32, 40))]))).frames.shape[-2:] == (32, 40)


@pytest.mark.parametrize(
    "settings",
    [
        {"layout": "BTCHW"},
        {"dtype": "int8"},
        {"color": "yuv"},
        {"on_error": "ignore"},
        {"last_batch": "keep"},
        {"shard_id": 2, "num_shards": 2},
        {"shard_id": 1},
        {"device": "tpu"},
        {"prefetch": 0},
        {"num_workers": -1},
        {"cpu_workers": -1},
        {"decode": "gpu"},
        {"decode": "nvdec", "device": "cpu"},
        {"gop_cache": -1},
        {"batch_size": 0},
        {"transforms": [vl.Normalize()], "dtype": "uint8"},
    ],
)
def test_bad_settings_are_refused_when_the_loader_is_made(data: vl.VideoDataset, settings: dict[str, object]) -> None:
    with pytest.raises(vl.ConfigurationError):
        make(data, **settings)
