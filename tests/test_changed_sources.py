"""A video that is replaced while in use gives an error that says so, never a mixture of frames."""

from __future__ import annotations

import io
import os
import pickle
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pytest
import torch
from archive_writing import tar_bytes, tfrecord_bytes, write_lmdb, zip_bytes
from changed_files import CHANGES, change
from image_files import write_frames
from sample_videos import RECIPES, write_video

import videoloader as vl
from videoloader import SourceError, StaleIndexError
from videoloader.indexing import ByteSource, FileSource, IndexStore, PartSource, VideoIndex, build_index, open_source
from videoloader.indexing.sources.lmdb_value import LmdbSource
from videoloader.indexing.store.building import build_store
from videoloader.order import clip_table

Sample = Callable[[str], Path]


@pytest.mark.parametrize("kind", ["mtime", "content"])
@pytest.mark.parametrize("archived", [False, True])
def test_a_file_that_is_replaced_after_a_loader_is_made_is_not_taken_for_the_one_of_its_store(
    sample: Sample, tmp_path: Path, kind: Literal["mtime", "content"], archived: bool
) -> None:
    contents = [sample(name).read_bytes() for name in ("h264_mp4", "h264_mp4")]
    contents[1] = contents[1][:-1] + b"x"  # of the same size
    path = tmp_path / "clip"
    videos = [tar_bytes({"a.mp4": content}) if archived else content for content in contents]
    path.write_bytes(videos[0])
    data = vl.VideoDataset.from_paths([f"{path}::a.mp4" if archived else path])
    build_store(data.paths, tmp_path / "s.db", workers=1, fingerprint=kind)
    settings = {"batch_size": 1, "device": "cpu", "num_workers": 0, "index": tmp_path / "s.db"}
    with vl.VideoLoader(data, vl.FrameList([0, 1]), **settings) as loader:
        change(path, "replace", videos[1])
        with pytest.raises(StaleIndexError, match="has changed"):
            list(loader)
    if kind == "content":  # the same content at another time is the same video
        build_store(data.paths, tmp_path / "s.db", workers=1)
        with vl.VideoLoader(data, vl.FrameList([0, 1]), **settings) as loader:
            change(path, "replace", videos[1])
            assert len(list(loader)) == 1


class ChangesWhileRead(FileSource):
    """A file that becomes another one after the next of its ranges was read, before those bytes are used."""

    def __init__(self, path: Path, how: str) -> None:
        super().__init__(path)
        self.how: str | None = how

    def read_ranges(self, offsets, sizes):
        data = super().read_ranges(offsets, sizes)
        if self.how is not None:
            how, self.how = self.how, None
            change(Path(self.name), how)
        return data


@pytest.fixture
def clip(sample: Sample, tmp_path: Path) -> Path:
    return Path(shutil.copy(sample("h264_mp4"), tmp_path / "clip.mp4"))


@pytest.mark.parametrize("how", CHANGES)
def test_a_local_file_that_changes_between_clips(clip: Path, how: str) -> None:
    video = vl.Video(clip, device="cpu")
    video.read([3])
    change(clip, how)
    for read in (lambda: video.read([3]), lambda: video[5], lambda: video[0:60], lambda: [*video.stream()]):
        with pytest.raises(StaleIndexError, match=r"clip\.mp4: has changed since it was indexed or opened: \w+"):
            read()


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("threads", [1, 2])
def test_a_local_file_that_changes_during_a_clip(clip: Path, how: str, threads: int) -> None:
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with pytest.raises(StaleIndexError, match=r"clip\.mp4: has changed"):
            vl.Video(ChangesWhileRead(clip, how), device="cpu", index=build_index(clip)).read(range(0, 60, 7))
    finally:
        torch.set_num_threads(before)


def test_what_changed_is_told(clip: Path) -> None:
    size = clip.stat().st_size
    messages = {
        "cut": f"{size} bytes, now {size - 1}",
        "rewrite": "time of change or version",
        "replace with the same times": "another file lies there: inode",
    }
    for how, message in messages.items():
        video = vl.Video(clip, device="cpu")
        change(clip, how, clip.read_bytes())
        with pytest.raises(StaleIndexError, match=message):
            video[0]


def test_a_file_that_is_gone_or_stays_is_read_on(clip: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    video = vl.Video("clip.mp4", device="cpu")
    expected = video[3]
    monkeypatch.chdir("elsewhere")
    Path("clip.mp4").write_bytes(b"another one of that name")
    os.chmod(clip, 0o600)
    assert torch.equal(video[3], expected)
    clip.unlink()
    assert torch.equal(video[3], expected)


def test_a_changed_file_can_be_opened_anew(clip: Path, sample: Sample) -> None:
    vl.Video(clip, device="cpu").read([3])
    change(clip, "replace", sample("hevc_mp4").read_bytes())
    video = vl.Video(clip, device="cpu")
    assert video.index.stream.codec == "hevc"
    assert torch.equal(video[3], vl.Video(sample("hevc_mp4"), device="cpu")[3])


@pytest.mark.parametrize("how", CHANGES)
def test_a_pickled_source_knows_what_it_was(clip: Path, how: str) -> None:
    source, index = open_source(clip), build_index(clip)
    pickled = pickle.dumps(source)
    assert torch.equal(vl.Video(pickle.loads(pickled), index=index, device="cpu")[3], vl.Video(clip, device="cpu")[3])
    change(clip, how)
    with pytest.raises(StaleIndexError, match=r"clip\.mp4: has changed"):
        vl.Video(pickle.loads(pickled), index=index, device="cpu")[3]


def test_of_a_file_object_the_file_that_was_opened_counts(clip: Path) -> None:
    with clip.open("rb") as file:
        video = vl.Video(file, device="cpu")
        expected = video[3]
        change(clip, "replace")
        assert torch.equal(video[3], expected)
    with clip.open("rb") as file:
        clip.write_bytes(b"")
        change(clip, "touch")
        with pytest.raises(vl.VideoLoaderError):
            vl.Video(file, device="cpu")


@pytest.mark.parametrize("make", [tar_bytes, zip_bytes])
@pytest.mark.parametrize("how", CHANGES)
def test_of_a_member_the_archive_counts(sample: Sample, tmp_path: Path, make, how: str) -> None:
    archive = tmp_path / "all"
    archive.write_bytes(make({"a.mp4": sample("h264_mp4").read_bytes()}))
    video = vl.Video(f"{archive}::a.mp4", device="cpu")
    video[3]
    change(archive, how)
    with pytest.raises(StaleIndexError, match="all: has changed"):
        video[3]


def test_a_database_that_is_written_to(sample: Sample, tmp_path: Path) -> None:
    folder = write_lmdb(tmp_path / "db", {"a": sample("h264_mp4").read_bytes()})
    video = vl.Video(LmdbSource(str(folder), "a"), device="cpu")
    video[3]
    change(folder / "data.mdb", "touch")
    with pytest.raises(StaleIndexError, match="db::a: has changed"):
        video[3]


@pytest.mark.parametrize("how", CHANGES)
def test_an_image_of_a_folder(tmp_path: Path, how: str) -> None:
    folder = write_frames(tmp_path / "frames", ["1.png", "2.png"])
    video = vl.Video(folder, device="cpu")
    expected = video[1]
    (folder / "notes.txt").write_text("no image: the frames stay what they are")
    assert torch.equal(video[1], expected)
    change(folder / "2.png", how, (folder / "1.png").read_bytes())
    with pytest.raises(StaleIndexError, match="frames"):
        video[1]
    if how != "cut":
        assert len(vl.Video(folder, device="cpu")) == 2


def test_bytes_never_change(sample: Sample) -> None:
    data = io.BytesIO(sample("h264_mp4").read_bytes())
    video = vl.Video(data, device="cpu")
    expected = video[3]
    data.getbuffer()[:] = bytes(len(data.getbuffer()))
    assert torch.equal(video[3], expected)


# Loaders, whose workers open each video anew for each clip.


def loader_of(folder: Path, **settings) -> vl.VideoLoader:
    data = vl.VideoDataset.from_paths(sorted(map(str, folder.glob("*.mp4"))))
    return vl.VideoLoader(data, vl.EveryWindow(4, stride=2), batch_size=2, device="cpu", num_workers=2, **settings)


@pytest.mark.parametrize("how", CHANGES)
@pytest.mark.parametrize("stored", [False, True])
def test_a_loader_whose_video_changes_between_epochs(clip: Path, how: str, stored: bool, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    if stored:
        build_store([clip], store)
    loader = loader_of(tmp_path, index=store if stored else None)
    assert list(loader)
    change(clip, how)  # a store knows no inodes, since data sets are copied, but the loader does once it has read
    with pytest.raises(StaleIndexError, match=r"clip\.mp4: has changed"):
        list(loader)


def test_a_video_that_becomes_shorter_while_its_rows_are_indexed(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shorter = write_video(tmp_path / "shorter.mp4", replace(RECIPES["h264_mp4"], frames=20)).read_bytes()

    def index_and_change(source: ByteSource) -> VideoIndex:
        index = build_index(source)
        if len(index) > 20:
            change(clip, "replace", shorter)
        return index

    monkeypatch.setattr(clip_table, "build_index", index_and_change)
    data = vl.VideoDataset.from_paths([clip] * 3)
    loader = vl.VideoLoader(data, vl.WholeVideo(), batch_size=1, device="cpu", num_workers=2)
    with pytest.raises(StaleIndexError, match=r"clip\.mp4: has changed"):
        list(loader)


def test_a_loader_skips_what_has_changed_and_a_new_one_reads_it(clip: Path, tmp_path: Path, sample: Sample) -> None:
    shutil.copy(sample("h264_mp4"), tmp_path / "other.mp4")
    loader = loader_of(tmp_path, on_error="skip")
    change(clip, "replace", sample("hevc_mp4").read_bytes())
    assert {path for batch in loader for path in batch.paths} == {str(tmp_path / "other.mp4")}
    assert all("has changed" in error for _, error in loader.unreadable)
    assert {path for batch in loader_of(tmp_path) for path in batch.paths} == {str(clip), str(tmp_path / "other.mp4")}


@pytest.mark.filterwarnings("ignore:clips of 1 file cannot be made")
def test_an_epoch_of_which_nothing_can_be_made_is_an_error(clip: Path, tmp_path: Path, sample: Sample) -> None:
    loader = loader_of(tmp_path, on_error="skip")
    change(clip, "replace", sample("hevc_mp4").read_bytes())
    for _ in range(2):
        with pytest.raises(SourceError, match=r"clip\.mp4: of the epoch's \d+ clips none can be made; the first: has"):
            list(loader)


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("kind", ["::fps=5", "/*.png", "record"])
def test_files_of_the_same_size_and_times_that_replace_others_are_noticed(
    sample: Sample, tmp_path: Path, kind: str, stored: bool
) -> None:
    if kind == "record":
        files = [tmp_path / "x.tfrecord"]
        files[0].write_bytes(tfrecord_bytes([sample("h264_mp4").read_bytes()]))
        name = f"{files[0]}::0"
    else:
        files = sorted(write_frames(tmp_path / "frames", ["1.png", "2.png"]).iterdir())
        name = f"{tmp_path / 'frames'}{kind}"
    data, store = vl.VideoDataset.from_paths([name]), tmp_path / "store.db"
    if stored:
        data.build_store(store)
    loader = vl.VideoLoader(data, vl.WholeVideo(), batch_size=1, device="cpu", index=store if stored else None)
    assert len(list(loader)) == 1
    for file in files:
        change(file, "replace with the same times", file.read_bytes())
    with pytest.raises(StaleIndexError, match="has changed"):
        list(loader)


def test_a_store_that_is_not_to_be_compared_is_not(clip: Path, tmp_path: Path) -> None:
    store = tmp_path / "store.db"
    build_store([clip], store)
    loader = loader_of(tmp_path, index=IndexStore(store, verify=False))
    change(clip, "touch")
    assert list(loader)


@pytest.mark.parametrize("how", CHANGES)
def test_a_list_of_times_that_changes_between_epochs(tmp_path: Path, how: str) -> None:
    folder = write_frames(tmp_path / "frames", ["1.png", "2.png"])
    (folder / "times.txt").write_text("0.25\n1.00\n")
    data = vl.VideoDataset.from_paths([f"{folder}::timestamps=times.txt"])
    loader = vl.VideoLoader(data, vl.WholeVideo(), batch_size=1, device="cpu")
    assert [each.timestamps.tolist() for each in loader] == [[[0.25, 1.0]]]
    change(folder / "times.txt", how, b"0.25\n2.00\n")
    with pytest.raises(StaleIndexError, match="has changed"):
        list(loader)


def test_a_part_of_any_source_will_do(sample: Sample) -> None:
    class Own:
        name, read_through, fingerprint = "own", 0, "own"

        def __init__(self) -> None:
            self.data = sample("h264_mp4").read_bytes()
            self.size = len(self.data)

        def read(self, offset, size):
            return self.data[offset : offset + size]

        def read_ranges(self, offsets, sizes):
            return [self.read(*each) for each in zip(offsets, sizes, strict=True)]

        def open(self):
            return io.BytesIO(self.data)

    own = Own()
    assert torch.equal(vl.Video(PartSource(own, 0, own.size, "part"), device="cpu")[3], vl.Video(own, device="cpu")[3])
