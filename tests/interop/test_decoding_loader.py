"""DecodingLoader: what replaces requests, in which order, and how errors are handled."""

from __future__ import annotations

import multiprocessing
import pickle
import subprocess
import threading
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from child_environment import child_environment
from forked_programs import run_program
from sample_videos import RECIPES, Recipe, write_video
from torch.utils.data import DataLoader, DistributedSampler
from torch_datasets import Captioned, Failing, Streamed, as_they_are
from waiting import becomes

import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader

Sample = Callable[[str], Path]
NAMES = ["h264_mp4", "hevc_mp4", "vp9_webm"]
ROWS = 11


@pytest.fixture(scope="module")
def paths(sample: Sample) -> list[str]:
    return [str(sample(name)) for name in NAMES]


def make(loader: Any, **settings: Any) -> DecodingLoader:
    return DecodingLoader(loader, **({"device": "cpu", "num_workers": 2} | settings))


def numbered(clips: Any) -> tuple[torch.Tensor, np.ndarray]:
    return clips.frames, clips.frame_numbers


def rows_of(batches: list[Any]) -> list[int]:
    return [row for batch in batches for row in batch["row"].tolist()]


def same_frames(one: list[Any], other: list[Any]) -> bool:
    return len(one) == len(other) and all(torch.equal(a["video"], b["video"]) for a, b in zip(one, other, strict=True))


def are_read(batches: list[Any], data: Captioned) -> bool:
    """Whether each row's frames are those that ``Video.read`` gives with the row's seed."""
    return all(
        torch.equal(frames, vl.Video(request.video.path, device="cpu").read(request.mode, seed=row).frames)
        for batch in batches
        for frames, row in zip(batch["video"], batch["row"].tolist(), strict=True)
        for request in [data.request(row)]
    )


@pytest.mark.parametrize(("workers", "start"), [(0, None), (2, "fork"), (1, "spawn")])
def test_requests_from_any_worker_become_the_frames_of_a_video(paths: list[str], workers: int, start: str) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    settings = {"num_workers": workers, "multiprocessing_context": start}
    batches = list(make(DataLoader(data, batch_size=4, **settings)))
    assert rows_of(batches) == list(range(ROWS))
    assert are_read(batches, data)
    assert [text for batch in batches for text in batch["text"]] == [f"row {row}" for row in range(ROWS)]
    assert all(torch.equal(batch["more"][0][:, 1], batch["row"]) for batch in batches)
    assert not any(batch["more"][1]["cuda"].any() for batch in batches)
    processes = {int(pid) for batch in batches for pid in batch["more"][1]["process"]}
    assert len(processes) == max(workers, 1)


def test_all_a_torch_loader_can_be_asked_for_still_works(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    generator = torch.Generator().manual_seed(1)
    settings = {"batch_size": 4, "shuffle": True, "drop_last": True, "generator": generator, "num_workers": 2}
    loader = make(DataLoader(data, **settings, persistent_workers=True, prefetch_factor=3))
    assert len(loader) == 2
    for _ in range(2):
        batches = list(loader)
        assert len(set(rows_of(batches))) == 8
        assert are_read(batches, data)


@pytest.mark.filterwarnings("ignore:'pin_memory' argument")
def test_requests_pass_through_the_pinning_of_memory(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    assert are_read(list(make(DataLoader(data, batch_size=4, pin_memory=True))), data)
    gathered = torch.utils.data.default_collate([data[0], data[1]])
    pinned = torch.utils.data._utils.pin_memory.pin_memory({"video": gathered["video"]})
    assert pinned == {"video": [data.request(0), data.request(1)]}


@pytest.mark.parametrize("workers", [0, 2])
def test_streamed_data_sets(paths: list[str], workers: int) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    batches = list(make(DataLoader(Streamed(data), batch_size=3, num_workers=workers)))
    assert sorted(rows_of(batches)) == list(range(ROWS))
    assert are_read(batches, data)


def test_samples_without_collation_hold_single_clips(paths: list[str]) -> None:
    data = Captioned(paths, 3, seeded=True)
    for row, item in enumerate(make(DataLoader(data, batch_size=None))):
        assert torch.equal(
            item["video"], vl.Video(paths[row], device="cpu").read(data.request(row).mode, seed=row).frames
        )
        assert item["video"].shape == (3, 3, 128, 160)
    [samples] = make(DataLoader(data, batch_size=3, collate_fn=as_they_are), replace_with=numbered)
    for sample in samples:
        frames, numbers = sample["video"]
        assert torch.equal(frames, vl.Video(paths[sample["row"]], device="cpu").read(numbers.tolist()).frames)


def test_what_stands_in_the_place_of_a_list_can_be_made_of_its_batch(paths: list[str]) -> None:
    loader = make(DataLoader(Captioned(paths, 6, seeded=False), batch_size=3), replace_with=lambda batch: batch)
    for batch in loader:
        clips = batch["video"]
        assert isinstance(clips, vl.Batch)
        assert clips.paths == paths
        assert (clips.rows == -1).all()
        assert not clips.repeated.any()
        for row, path in enumerate(paths):
            assert torch.equal(
                clips.frames[row], vl.Video(path, device="cpu").read(clips.frame_numbers[row].tolist()).frames
            )


def test_frames_by_number_of_parts_and_with_transforms_of_their_own(paths: list[str]) -> None:
    part = vl.VideoEntry(paths[0], start=10, stop=20)
    [frames] = make(
        [
            [
                ClipRequest(paths[0], range(10, 13), transforms=[vl.Resize((32, 40))]),
                ClipRequest(part, [0, 1, 2]),
                ClipRequest(part, vl.EvenWindows(3, clips=2), clip=1, transforms=()),
            ]
        ],
        transforms=[vl.Resize((32, 40)), vl.Normalize()],
        dtype="float32",
        collate="list",
    )
    assert torch.equal(frames[0], frames[1])
    assert frames[0].shape == (3, 3, 32, 40)
    whole = next(iter(vl.VideoLoader(
        vl.VideoDataset([part]), vl.EvenWindows(3, clips=2), batch_size=2, device="cpu", dtype="float32",
        transforms=[vl.Normalize()],
    )))  # fmt: skip
    assert torch.equal(frames[2], whole.frames[1])


def test_random_frames_depend_on_seed_epoch_and_order_alone(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=False)
    plain = make(DataLoader(data, batch_size=4), seed=3)
    first, second = list(plain), list(plain)
    assert not same_frames(first, second)
    other = make(DataLoader(data, batch_size=4, num_workers=2), seed=3, num_workers=1, prefetch=1)
    assert same_frames(list(other), first)
    assert same_frames(list(other), second)
    other.set_epoch(0)
    assert same_frames(list(other), first)
    assert not same_frames(list(make(DataLoader(data, batch_size=4), seed=4)), first)


def test_ranks_draw_other_frames(paths: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    data = Captioned(paths, ROWS, seeded=False)
    parts = []
    for rank in range(2):
        monkeypatch.setenv("RANK", str(rank))
        monkeypatch.setenv("WORLD_SIZE", "2")
        parts.append(list(make(DataLoader(data, batch_size=4))))
    assert not same_frames(*parts)


def test_samplers_hear_of_epochs(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=True)
    sampler = DistributedSampler(data, num_replicas=1, rank=0, seed=2)
    loader = make(DataLoader(data, batch_size=4, sampler=sampler))
    orders = []
    for epoch in (0, 1, 0):
        loader.set_epoch(epoch)
        orders.append(rows_of(list(loader)))
    assert orders[0] == orders[2] != orders[1]


def test_requests_are_light() -> None:
    request = ClipRequest("/a/path/to/a/video.mp4", vl.RandomWindow(16, stride=4), seed=7, transforms=[vl.Resize(224)])
    assert pickle.loads(pickle.dumps(request)) == request
    assert len(pickle.dumps([request] * 64)) / 64 < 100
    assert len(pickle.dumps(request)) < 1000
    assert ClipRequest("a.mp4", np.array([1, 2])).mode == vl.FrameList((1, 2))


def test_bytes_travel_with_their_request(paths: list[str]) -> None:
    first, second = (Path(path).read_bytes() for path in paths[:2])
    with open(paths[2], "rb") as file:
        file.seek(9)
        requests = [
            ClipRequest(first, torch.tensor([3, 50])),
            ClipRequest(second, np.array([7, 8])),
            ClipRequest(file, range(2)),
            ClipRequest(first, [49, 50]),
        ]
    assert requests[0].video == requests[3].video != requests[1].video
    assert repr(requests[0]).count("\n") == 0
    assert len(repr(requests[0])) < 300
    (batch,) = make(DataLoader(requests, batch_size=4, num_workers=1), collate="list", replace_with=lambda made: made)
    assert batch.paths == [request.video.path for request in requests]
    for row, (path, numbers) in enumerate(
        [(paths[0], [3, 50]), (paths[1], [7, 8]), (paths[2], [0, 1]), (paths[0], [49, 50])]
    ):
        assert torch.equal(batch.frames[row], vl.Video(path, device="cpu")[numbers])


@pytest.mark.parametrize(
    ("arguments", "settings"),
    [
        (("a.mp4", []), {}),
        ((5, [0]), {}),
        ((b"", [0]), {}),
        (("a.mp4", [0.5]), {}),
        (("", [0]), {}),
        (("a.mp4", [0]), {"clip": -1}),
        (("a.mp4", [0]), {"seed": "x"}),
        (("a.mp4", [0]), {"transforms": [vl.Normalize()]}),
    ],
)
def test_bad_requests_are_refused_where_they_are_made(arguments: Any, settings: Any) -> None:
    with pytest.raises(vl.ConfigurationError):
        ClipRequest(*arguments, **settings)


@pytest.mark.parametrize(
    "settings",
    [
        {"layout": "BTCHW"},
        {"dtype": "int8"},
        {"on_error": "replace"},
        {"decode": "gpu"},
        {"collate": "zip"},
        {"prefetch": 0},
        {"gop_cache": -1},
        {"seed": -1},
        {"num_workers": -1},
        {"device": "tpu"},
        {"transforms": [vl.Normalize()], "dtype": "uint8"},
        {"replace_with": 3},
    ],
)
def test_bad_settings_are_refused_when_the_loader_is_made(settings: Any) -> None:
    with pytest.raises(vl.ConfigurationError):
        make([], **settings)


def test_what_gives_no_requests_is_refused(paths: list[str]) -> None:
    for given in (vl.VideoDataset.from_paths(paths), 3):
        with pytest.raises(vl.ConfigurationError, match="torch_loader must be a torch DataLoader of samples"):
            make(given)
    with pytest.raises(vl.ConfigurationError, match="no batch of the epoch held a ClipRequest: let the data set give"):
        list(make([paths]))
    assert list(make([])) == []
    assert len(list(make([paths, [ClipRequest(paths[0], [0])]]))) == 2


def test_lengths_that_differ(paths: list[str]) -> None:
    batch = [[ClipRequest(paths[0], [0, 1]), ClipRequest(paths[1], [5, 6, 7])]]
    with pytest.raises(vl.ConfigurationError, match="collate"):
        list(make(batch))
    [padded] = make(batch, collate="pad", fill_value=9, replace_with=lambda clips: clips)
    assert padded.mask.tolist() == [[True, True, False], [True, True, True]]
    assert (padded.frames[0, 2] == 9).all()
    [listed] = make(batch, collate="list")
    assert [len(frames) for frames in listed] == [2, 3]
    assert torch.equal(listed[1], padded.frames[1])


def test_sizes_that_differ_are_an_error_that_says_what_to_do(paths: list[str], tmp_path: Path) -> None:
    recipe = Recipe("mp4", "libx264", RECIPES["h264_mp4"].options, size=(96, 64), frames=5)
    small = write_video(tmp_path / "small.mp4", recipe)
    batch = [[ClipRequest(paths[0], [0]), ClipRequest(small, [0])]]
    with pytest.raises(vl.ConfigurationError, match="Resize"):
        list(make(batch))
    [frames] = make(batch, transforms=[vl.Letterbox(64)])
    assert frames.shape == (2, 1, 3, 64, 64)


def test_an_error_of_the_data_set_comes_after_the_batches_before_it(paths: list[str]) -> None:
    data = Failing(paths, ROWS, seeded=True)
    for workers in (0, 2):
        loader = make(DataLoader(data, batch_size=2, num_workers=workers), prefetch=9)
        for _ in range(2):
            rows = []
            with pytest.raises(KeyError, match="the last row"):  # noqa: PT012
                for batch in loader:
                    rows += batch["row"].tolist()
            assert rows == list(range(10))


def run(script: str, paths: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """A program of its own, which must come to an end."""
    environment = child_environment(Path(__file__).absolute().parent)
    return run_program(script, *paths, cwd=folder, env=environment)


def test_the_end_of_a_worker_is_an_error(paths: list[str], tmp_path: Path) -> None:
    """In a program of its own: PyTorch raises it from a signal handler, wherever the main thread is."""
    script = """
import sys
from torch.utils.data import DataLoader
from torch_datasets import Dying
from videoloader.interop.torch import DecodingLoader
for batch in DecodingLoader(DataLoader(Dying(sys.argv[1:], 11, seeded=True), num_workers=1), device="cpu"):
    pass
"""
    done = run(script, paths, tmp_path)
    assert done.returncode == 1
    causes = ("killed by signal", "ConnectionResetError", "EOFError")  # the signal, or the end of the worker's pipe
    assert any(cause in done.stderr for cause in causes), done.stderr


def test_a_program_ends_while_batches_are_in_the_making(paths: list[str], tmp_path: Path) -> None:
    script = """
import sys
import videoloader as vl
from videoloader.interop.torch import ClipRequest, DecodingLoader
batches = [[ClipRequest(path, vl.RandomWindow(16)) for path in sys.argv[1:]] for _ in range(100)]
running = iter(DecodingLoader(batches, device="cpu", num_workers=2, prefetch=20))
print(len(next(running)))
"""
    done = run(script, paths, tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@pytest.fixture
def damaged(paths: list[str], tmp_path: Path) -> str:
    """A video whose later frames cannot be decoded."""
    content = bytearray(Path(paths[0]).read_bytes())
    for start in vl.build_index(bytes(content)).packet_offset.tolist()[12:]:
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    path = tmp_path / "noise.mp4"
    path.write_bytes(content)
    return str(path)


def test_what_cannot_be_decoded_is_named_or_skipped(paths: list[str], damaged: str, tmp_path: Path) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("no video")
    batches = [
        [ClipRequest(paths[0], [0]), ClipRequest(other, [frame])]
        for other, frame in [
            (paths[1], 0),
            (damaged, 40),
            (str(text), 0),
            (paths[1], 60),
            (str(tmp_path / "no.mp4"), 0),
        ]
    ]
    for batch, name in zip(batches[1:], ("noise", "text", Path(paths[1]).stem, "no"), strict=True):
        with pytest.raises(vl.VideoLoaderError, match=name):
            list(make([batches[0], batch]))
    loader = make([*batches, batches[0]], on_error="skip")
    assert len(list(loader)) == 2
    assert [Path(path).stem for path, _ in loader.unreadable] == ["noise", "text", Path(paths[1]).stem, "no"]
    assert loader.stats().clips == 4


@pytest.mark.filterwarnings("ignore:clips of 1 file cannot be made")
def test_an_epoch_of_which_nothing_can_be_made_is_an_error(paths: list[str], tmp_path: Path) -> None:
    (tmp_path / "text.mp4").write_text("no video")
    unreadable = [[ClipRequest(str(tmp_path / "text.mp4"), [0])]] * 3
    loader = make(unreadable, on_error="skip")
    for epoch in range(2):
        assert loader.state_dict()["epoch"] == epoch
        with pytest.raises(vl.SourceError, match=r"text\.mp4: of the epoch's 3 clips none can be made; the first: "):
            list(loader)
    # What is left of an epoch may be the part that cannot be made.
    batches = [[ClipRequest(paths[0], [0])], *unreadable]
    begun, resumed = make(batches, on_error="skip"), make(batches, on_error="skip")
    next(iter(begun))
    resumed.load_state_dict(begun.state_dict())
    assert list(resumed) == []
    assert len(list(resumed)) == 1


@pytest.mark.parametrize(("rows", "size"), [(10, 5), (10, 3), (10, 1), (4, 2)])
def test_a_state_of_other_batches_is_refused(paths: list[str], rows: int, size: int) -> None:
    def loader(rows: int, size: int) -> DecodingLoader:
        return make([[ClipRequest(paths[0], [0])] * len(some) for some in np.array_split(range(rows), rows // size)])

    whole = loader(10, 2)
    for _ in islice(whole, 3):
        pass
    resumed = loader(rows, size)
    resumed.load_state_dict(whole.state_dict())
    with pytest.raises(vl.ConfigurationError, match=r"saved after 3 batches with 6 clips, but .* first 3 batches have"):
        list(resumed)
    resumed.load_state_dict({**whole.state_dict(), "batches": 0, "requests": 0})
    assert len(list(resumed)) == rows // size


def test_a_loop_left_early_ends_its_epoch_and_leaves_nothing_behind(paths: list[str]) -> None:
    data = Captioned(paths, ROWS, seeded=False)
    whole = make(DataLoader(data, batch_size=2))
    first, second = list(whole), list(whole)
    loader = make(DataLoader(data, batch_size=2, num_workers=2), prefetch=3)
    others = set(multiprocessing.active_children())  # of tests before, which the garbage collector has not come to
    for batch in loader:
        assert len(set(multiprocessing.active_children()) - others) == 2
        assert same_frames([batch], first[:1])
        break
    assert becomes(lambda: set(multiprocessing.active_children()) <= others)
    assert same_frames(list(loader), second)
    threads = threading.active_count()
    for _ in range(10):
        next(iter(loader))
    assert threading.active_count() < threads + 10  # pools start their threads when these are first needed


def test_no_more_is_made_ahead_than_was_asked_for(paths: list[str]) -> None:
    taken = []

    def batches() -> Any:
        for number in range(20):
            taken.append(number)
            yield [ClipRequest(paths[0], [number])]

    looped = iter(make(batches(), prefetch=3))
    for given_out in range(1, 10):
        next(looped)
        assert len(taken) == given_out + 3 + 1  # and the batch that shows whether these are the last ones
    looped.close()
    without_requests = iter(make(range(10_000)))
    assert [next(without_requests) for _ in range(3)] == [0, 1, 2]


def test_an_index_store_is_used_and_must_know_the_videos(paths: list[str], tmp_path: Path) -> None:
    vl.build_store(paths[:2], tmp_path / "two.db", workers=1)
    batches = [[ClipRequest(path, [3])] for path in paths]
    loader = iter(make(batches, index=tmp_path / "two.db", on_error="skip"))
    assert torch.equal(next(loader)[0, 0], vl.Video(paths[0], device="cpu")[3])
    next(loader)
    with pytest.raises(vl.NotIndexedError, match=Path(paths[2]).name):
        next(loader)


def test_an_error_of_damage_that_a_transform_raises_comes_out(paths: list[str]) -> None:
    """Where damaged frames are kept, no such error can come from a video."""

    class Refusing(torch.nn.Module):
        def forward(self, frames: torch.Tensor) -> torch.Tensor:
            raise vl.CorruptFramesError("by a transform", "other.mp4")

    data = [ClipRequest(path, vl.UniformFrames(2)) for path in paths]
    loader = make(
        DataLoader(data, batch_size=1, collate_fn=as_they_are), on_corrupt="keep", transforms=[vl.ToFloat(), Refusing()]
    )  # type: ignore[arg-type]
    with pytest.raises(vl.CorruptFramesError, match="by a transform"):
        list(loader)
