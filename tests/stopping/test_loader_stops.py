"""The ends of a loop over a loader: left early, by an error anywhere, or by another loop."""

from __future__ import annotations

import gc
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from sample_videos import RECIPES, Recipe, write_video
from stopped_loaders import clips_of, failing_with, make
from waiting import becomes

import videoloader as vl
from videoloader.decoding import cpu
from videoloader.interop.torch import ClipRequest, DecodingLoader

Sample = Callable[[str], Path]


@pytest.mark.parametrize("taken", [1, 3])
def test_a_loop_that_is_left_ends_all_its_work(data: vl.VideoDataset, taken: int, monkeypatch) -> None:
    fed = []
    plain = cpu.make_packet
    monkeypatch.setattr(cpu, "make_packet", lambda *arguments: (time.sleep(0.002), fed.append(0), plain(*arguments))[2])
    loader = make(data, prefetch=5)
    for number, _ in enumerate(loader, 1):
        if number == taken:
            break
    decoded = len(fed)
    time.sleep(0.1)
    assert len(fed) == decoded
    assert loader.state_dict()["epoch"] == 0
    assert clips_of(list(loader)) == list(range(12))


def test_a_clip_in_the_middle_of_its_decoding_is_not_decoded_to_its_end(
    sample: Sample, gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    fed = []
    plain = cpu.make_packet
    monkeypatch.setattr(cpu, "make_packet", lambda *arguments: (fed.append(0), plain(*arguments))[1])
    videos = vl.VideoDataset.from_paths([sample("h264_mp4")] * 8)
    loader = vl.VideoLoader(videos, vl.WholeVideo(), batch_size=1, device="cpu", num_workers=1, prefetch=7)
    loop = iter(loader)
    next(loop)
    assert becomes(lambda: len(fed) > 60)
    gate.clear()
    begun = len(fed)
    threading.Timer(0.2, gate.set).start()
    loop.close()
    assert len(fed) <= begun + 1
    assert len(fed) < 8 * 60


class ConsumerError(Exception):
    pass


def test_an_error_of_the_consumer_is_like_leaving(data: vl.VideoDataset) -> None:
    loader, whole = make(data), list(make(data))
    with pytest.raises(ConsumerError):  # noqa: PT012
        for _ in loader:
            raise ConsumerError
    resumed = make(data)
    resumed.load_state_dict(loader.state_dict())
    assert clips_of(list(resumed)) == clips_of(whole[1:])
    assert clips_of(list(loader)) == list(range(12))


def lengths(paths: list[Path]) -> vl.VideoDataset:
    """A clip of 1, 2, 3 … frames of each video."""
    return vl.VideoDataset([vl.VideoEntry(str(path), start=0, stop=number) for number, path in enumerate(paths, 1)])


@pytest.mark.parametrize("kind", ["function", "module"])
def test_after_an_error_in_a_transform_the_state_is_that_before_its_batch(data: vl.VideoDataset, kind: str) -> None:
    rows = lengths([Path(entry.path) for entry in data])
    fail = failing_with(7)
    transform = vl.PythonFunction(fail) if kind == "function" else vl.Module(lambda clip: fail(clip, None), view="clip")
    settings = {"batch_size": 2, "device": "cpu", "num_workers": 2, "collate": "list"}
    loader = vl.VideoLoader(rows, vl.WholeVideo(), transforms=[transform], **settings)
    seen = []
    with pytest.raises(ZeroDivisionError, match="in a transform"):  # noqa: PT012
        for batch in loader:
            seen += batch.clips.tolist()
    assert seen == [0, 1, 2, 3, 4, 5]
    state = loader.state_dict()
    assert clips_of(list(loader)) == list(range(12)), "a new loop is the next epoch"
    loader.load_state_dict(state)
    assert clips_of(list(loader)) == list(range(6, 12)), "the batch that failed is made again"


def test_an_error_in_the_first_batch_leaves_the_loader_as_it_was(data: vl.VideoDataset) -> None:
    loader = make(data, transforms=[vl.PythonFunction(failing_with(2))])
    with pytest.raises(ZeroDivisionError):
        next(iter(loader))
    assert loader.state_dict()["epoch"] == 0
    assert clips_of(list(loader)) == list(range(12))
    assert loader.state_dict()["epoch"] == 1


def test_an_error_while_planning_comes_after_the_batches_before_it(data: vl.VideoDataset, tmp_path: Path) -> None:
    small = write_video(tmp_path / "small.mp4", Recipe("mp4", "libx264", RECIPES["h264_mp4"].options, size=(96, 64)))
    paths = [entry.path for entry in data]
    mixed = vl.VideoDataset.from_paths([*paths[:6], small, *paths[6:]])
    loader = make(mixed)
    for _ in range(2):
        seen = []
        with pytest.raises(vl.ConfigurationError, match="Resize"):  # noqa: PT012
            for batch in loader:
                seen += batch.clips.tolist()
        assert seen == [0, 1, 2, 3, 4, 5]
    resumed = make(mixed, transforms=[vl.Resize((32, 32))])
    resumed.load_state_dict(loader.state_dict())
    assert clips_of(list(resumed)) == list(range(6, 13))


def test_two_loaders_do_not_know_of_each_other(data: vl.VideoDataset) -> None:
    one, other = make(data), make(data, shuffle=True, seed=1)
    alone = clips_of(list(make(data, shuffle=True, seed=1)))
    for batch in one:
        assert clips_of(list(other)) == alone
        other.set_epoch(0)
        last = batch
    assert last.clips.tolist() == [10, 11]
    assert [clips_of([a]) for a, _ in zip(one, other, strict=True)] == [[i, i + 1] for i in range(0, 12, 2)]


def test_another_loop_over_a_loader_ends_the_one_before(data: vl.VideoDataset) -> None:
    loader = make(data)
    older = iter(loader)
    next(older)
    newer = iter(loader)
    assert next(newer).clips.tolist() == [0, 1]
    assert loader.state_dict()["epoch"] == 1, "the older loop's epoch ended with it"
    with pytest.raises(vl.ConfigurationError, match="another loop"):
        next(older)
    assert clips_of(list(newer)) == list(range(2, 12))
    assert loader.state_dict()["epoch"] == 2


def test_an_abandoned_loop_that_is_collected_late_changes_nothing(data: vl.VideoDataset) -> None:
    loader = make(data)
    older = iter(loader)
    next(older)
    for _ in loader:
        break
    state = loader.state_dict()
    del older
    gc.collect()
    assert loader.state_dict() == state
    list(loader)
    assert loader.state_dict()["epoch"] == 3


def test_an_epoch_set_within_a_loop_is_the_next_one(data: vl.VideoDataset) -> None:
    loader = make(data)
    for _ in loader:
        loader.set_epoch(7)
    assert loader.state_dict() == make_state(data, 7)


def make_state(data: vl.VideoDataset, epoch: int) -> dict[str, object]:
    loader = make(data)
    loader.set_epoch(epoch)
    return loader.state_dict()


def requests(data: vl.VideoDataset, count: int) -> list[list[ClipRequest]]:
    return [[ClipRequest(data[number % len(data)].path, [number])] for number in range(count)]


def test_a_decoding_loader_has_one_loop_at_a_time(data: vl.VideoDataset) -> None:
    loader = DecodingLoader(requests(data, 4), device="cpu", num_workers=2)
    older = iter(loader)
    next(older)
    assert len(list(loader)) == 4
    assert loader.state_dict()["epoch"] == 2, "the older loop's epoch ended with it"
    with pytest.raises(vl.ConfigurationError, match="another loop"):
        next(older)


def test_a_decoding_loader_that_fails_at_once_after_a_resume_still_goes_on_there(data: vl.VideoDataset) -> None:
    failures = 2

    def number_of(clips: vl.Batch) -> int:
        nonlocal failures
        number = int(clips.frame_numbers[0, 0])
        if number == 2 and failures:
            failures -= 1
            raise ZeroDivisionError
        return number

    loader = DecodingLoader(requests(data, 5), device="cpu", num_workers=2, replace_with=number_of)
    with pytest.raises(ZeroDivisionError):
        list(loader)
    loader.load_state_dict(loader.state_dict())
    with pytest.raises(ZeroDivisionError):
        next(iter(loader))
    assert list(loader) == [2, 3, 4]
    assert list(loader) == [0, 1, 2, 3, 4]


def test_a_video_that_is_left_in_the_middle_of_a_stream_can_be_read_on(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    expected = video[:]
    for number, frame in enumerate(video.stream()):
        assert torch.equal(frame, expected[number])
        if number == 5:
            break
    assert torch.equal(video[:], expected)
