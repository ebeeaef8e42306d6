"""What a loader could not use, and much padding, is reported once with counts."""

from __future__ import annotations

import shutil
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

import videoloader as vl
from videoloader.batching import account
from videoloader.interop.torch import ClipRequest, DecodingLoader

Sample = Callable[[str], Path]


def told(use: Callable[[], object]) -> list[str]:
    """What is said while something is used; all of it points at this file."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        use()
    assert {each.filename for each in caught} <= {__file__}
    return [str(each.message) for each in caught]


def use(loader: Iterable[object]) -> Callable[[], object]:
    return lambda: list(loader)


@pytest.fixture
def paths(sample: Sample, tmp_path: Path) -> list[Path]:
    return [Path(shutil.copy(sample(name), tmp_path)) for name in ("h264_mp4", "hevc_mp4", "vp9_webm")]


@pytest.fixture
def noise(paths: list[Path], tmp_path: Path) -> Path:
    """A video of which only the first 12 frames can be decoded."""
    content = bytearray(paths[0].read_bytes())
    for start in vl.build_index(bytes(content)).packet_offset.tolist()[12:]:
        content[start : start + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    (tmp_path / "noise.mp4").write_bytes(content)
    return tmp_path / "noise.mp4"


def video_loader(data: vl.VideoDataset, **settings: object) -> vl.VideoLoader:
    defaults = {"mode": [30, 40], "batch_size": 2, "device": "cpu", "num_workers": 2, "on_error": "skip"}
    return vl.VideoLoader(data, **(defaults | settings))


def decoding_loader(data: vl.VideoDataset, **settings: object) -> DecodingLoader:
    requests = [[ClipRequest(entry, [30, 40])] for entry in data]
    return DecodingLoader(requests, device="cpu", num_workers=2, on_error="skip", **settings)


LOADERS = {"VideoLoader": video_loader, "DecodingLoader": decoding_loader}


@pytest.mark.parametrize("stored", [True, False])
def test_rows_that_cannot_be_used_are_told_of_once_with_counts(paths: list[Path], tmp_path: Path, stored: bool) -> None:
    text = tmp_path / "text.mp4"
    text.write_text("not a video")
    entries = [vl.VideoEntry(str(path)) for path in [*paths, text, text, tmp_path / "none.mp4"]]
    data = vl.VideoDataset([*entries, vl.VideoEntry(str(paths[1]), start=500, stop=510)])
    store = None
    if stored:
        data.build_store(tmp_path / "index.db", workers=1)
        with paths[0].open("ab") as file:
            file.write(b"more")
        store = tmp_path / "index.db"
    made: list[vl.VideoLoader] = []
    (message,) = told(lambda: made.append(video_loader(data, index=store)))
    stale, rows = ("1 changed since they were indexed, ", 5) if stored else ("", 4)
    assert message.startswith(f"the data set: {rows} of 7 rows are left out (")
    for part in (stale, "1 cannot be opened", "1 outside of their video", "unreadable lists them"):
        assert part in message
    assert [Path(path) for path, _ in made[0].unreadable] == [
        *paths[:1] * stored,
        text,
        tmp_path / "none.mp4",
        paths[1],
    ]
    assert not told(use(made[0]))
    assert not told(use(made[0]))


@pytest.mark.parametrize("on_error", ["skip", "replace"])
def test_clips_that_cannot_be_made_are_told_of_once_over_all_epochs(
    paths: list[Path], noise: Path, on_error: str
) -> None:
    settings = {"on_error": on_error, "transforms": [vl.Resize((32, 40))]}
    loader = video_loader(vl.VideoDataset.from_paths([noise, *paths, noise]), **settings)
    (message,) = told(use(loader))
    counts = "2 are left out, 0 replaced, 3 given out" if on_error == "skip" else "0 are left out, 2 replaced, 5 given"
    assert message.startswith(f"clips of 1 file cannot be made: {counts}")
    assert f"unreadable lists the files (the first: {noise}: " in message
    assert [path for path, _ in loader.unreadable] == [str(noise)]
    state = loader.state_dict()
    assert not told(use(loader))
    loader.load_state_dict(state)
    assert not told(use(loader))
    assert [path for path, _ in loader.unreadable] == [str(noise)]
    stats = loader.stats()
    assert (stats.skipped, stats.replaced) == ((6, 0) if on_error == "skip" else (0, 6))


def test_a_loop_that_is_left_tells_what_it_met(paths: list[Path], noise: Path) -> None:
    loader = video_loader(vl.VideoDataset.from_paths([paths[0], noise, *paths]))

    def leave() -> None:
        for _ in loader:
            break

    (message,) = told(leave)
    assert "1 are left out, 0 replaced, 1 given out" in message
    assert not told(use(loader))


def test_files_met_in_a_later_epoch_are_told_of_then(paths: list[Path]) -> None:
    loader = video_loader(vl.VideoDataset.from_paths(paths))
    assert not told(use(loader))
    with paths[1].open("ab") as file:
        file.write(b"more")
    (message,) = told(use(loader))
    assert f"{paths[1]}: has changed" in message
    assert not told(use(loader))


def test_batches_of_requests_are_told_of_likewise(paths: list[Path], noise: Path, tmp_path: Path) -> None:
    loader = decoding_loader(vl.VideoDataset.from_paths([noise, *paths, noise, tmp_path / "none.mp4"]))
    (message,) = told(use(loader))
    assert message.startswith("clips of 2 files cannot be made: 3 are left out, 0 replaced, 3 given out")
    assert not told(use(loader))
    assert [path for path, _ in loader.unreadable] == [str(noise), str(tmp_path / "none.mp4")]
    assert loader.stats().skipped == 6


def test_the_list_is_bounded_and_the_count_is_not(paths: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(account, "_MOST_LISTED", 2)
    loader = decoding_loader(vl.VideoDataset.from_paths([*(f"none{number}.mp4" for number in range(5)), paths[0]]))
    assert len(told(use(loader))) == 1
    assert [path for path, _ in loader.unreadable] == ["none0.mp4", "none1.mp4"]
    assert loader.stats().skipped == 5


@pytest.mark.parametrize("make", LOADERS.values(), ids=LOADERS)
def test_the_share_of_made_up_frames_is_counted_and_told_once_above_a_quarter(
    paths: list[Path], make: Callable[..., vl.VideoLoader | DecodingLoader], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each video 60 frames, [0, 60), that 2 of 4 numbers lie in."""
    monkeypatch.setattr(account, "_ENOUGH_CLIPS", 2)
    rows = vl.VideoDataset([vl.VideoEntry(str(path), stop=31) for path in paths])
    with pytest.raises(vl.FrameRangeError):
        list(video_loader(rows, on_error="raise"))
    if make is video_loader:
        loader = video_loader(rows, mode=vl.FrameList([29, 30, 31, 32], pad="edge"), batch_size=1)
    else:
        mode = vl.FrameList([29, 30, 31, 32], pad="edge")
        loader = DecodingLoader([[ClipRequest(entry, mode)] for entry in rows], device="cpu", num_workers=2)
    batches = iter(loader)
    assert not told(lambda: next(batches))
    (message,) = told(lambda: next(batches))
    assert message.startswith("50% of the frames of 2 clips are made up by padding (mask False): take a smaller length")
    assert "data.where(min_frames=…)" in message
    assert not told(lambda: list(batches))
    assert not told(use(loader))
    stats = loader.stats()
    assert (stats.shown, stats.made_up, stats.made_up_share) == (24, 12, 0.5)
    assert "50.0% of the frames shown are padding" in str(stats)


@pytest.mark.parametrize("settings", [{"mode": [27, 28, 29, 30, 31], "pad": "edge"}, {"mode": [0], "pad": "none"}])
def test_up_to_a_quarter_nothing_is_said(paths: list[Path], settings: dict[str, object]) -> None:
    rows = vl.VideoDataset([vl.VideoEntry(str(path), stop=31) for path in paths])
    loader = video_loader(rows, mode=vl.FrameList(settings["mode"], pad=settings["pad"]))
    assert not told(use(loader))
    assert loader.stats().made_up == (3 if settings["pad"] == "edge" else 0)


def test_padding_to_the_longest_clip_is_counted_but_expected(paths: list[Path]) -> None:
    rows = vl.VideoDataset([vl.VideoEntry(str(paths[0]), stop=1), vl.VideoEntry(str(paths[0]))])
    loader = video_loader(rows, mode=vl.WholeVideo(), collate="pad")
    assert not told(use(loader))
    assert loader.stats().made_up_share == 59 / 120


def test_describe_tells_the_share_beforehand(paths: list[Path]) -> None:
    rows = vl.VideoDataset([vl.VideoEntry(str(path), stop=12) for path in paths])
    described = rows.describe(vl.RandomWindow(16, pad="edge"))
    assert described.cost is not None
    assert described.cost.made_up_share == 0.25
    assert "padding      25 % of the frames of clips are made up" in str(described)
    assert "padding" not in str(rows.describe(vl.RandomWindow(12)))
