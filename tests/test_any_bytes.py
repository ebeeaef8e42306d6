"""Arbitrary bytes, and bytes that are truncated at any time, give an answer or an error of this library."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from unittest.mock import patch

import pytest
from archive_writing import example, recordio_bytes, tar_bytes, tfrecord_bytes, zip_bytes
from example_count import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from videoloader import EveryWindow, Video, VideoDataset, VideoLoader
from videoloader.errors import VideoLoaderError
from videoloader.indexing import FileSource, IndexStore, build_index, build_store
from videoloader.indexing.sources.file_object import FileObjectSource

# A few from each kind of container; the recipes' files are small.
SAMPLES = ["h264_mp4", "hevc_mp4", "vp9_webm", "mpeg4_avi", "h264_ts"]
EXAMPLES = settings(max_examples=examples(25), suppress_health_check=list(HealthCheck))
Sample = Callable[[str], Path]

ARCHIVES: dict[str, Callable[[bytes], tuple[bytes, str]]] = {
    "": lambda video: (video, ""),
    ".tar": lambda video: (tar_bytes({"a.mp4": video, "b.txt": b"b"}), "::a.mp4"),
    ".zip": lambda video: (zip_bytes({"a.mp4": video, "b.txt": b"b"}), "::a.mp4"),
    ".tfrecord": lambda video: (tfrecord_bytes([b"x", example({"video": video})]), "::1/video"),
    ".rec": lambda video: (recordio_bytes([b"x", video])[0], "::1"),
}


def use(name: str) -> None:
    """Go through the main doors; whatever is wrong is an error of ours."""
    for door in (_frame, build_index, _epoch):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                door(name)
        except VideoLoaderError as error:
            str(error).encode()


def _frame(name: str) -> None:
    video = Video(name, device="cpu")
    assert video[len(video) // 2].shape == video.shape[1:]


def _epoch(name: str) -> None:
    data = VideoDataset.from_paths([name])
    for _ in VideoLoader(data, EveryWindow(20), batch_size=1, device="cpu", num_workers=1):
        pass


changes = st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.binary(min_size=1, max_size=16)), max_size=4)


def changed(data: bytes, kept: float, patches: list[tuple[float, bytes]]) -> bytes:
    """The first part of some bytes, with others written over them."""
    new = bytearray(data[: int(kept * len(data))])
    for place, written in patches:
        at = int(place * len(new))
        new[at : at + len(written)] = written
    return bytes(new)


@pytest.mark.parametrize("archive", ARCHIVES)
@EXAMPLES
@given(st.data())
def test_damaged_files(tmp_path: Path, sample: Sample, archive: str, data: st.DataObject) -> None:
    video = sample(data.draw(st.sampled_from(SAMPLES))).read_bytes()
    whole, member = ARCHIVES[archive](video)
    path = tmp_path / f"x{archive}"
    path.write_bytes(changed(whole, data.draw(st.just(1.0) | st.floats(0, 1)), data.draw(changes)))
    use(f"{path}{member}")


# What files begin with that are not told by their names.
HEADS = [
    b"", b"PK\3\4", b"PK\5\6", b"\x1aE\xdf\xa3", b"RIFF\0\0\0\0AVI ", b"\0\0\0\x18ftypisom", b"\x47" * 189,
    b"\xff\xd8\xff", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\0\0\0\1\x67", b"OggS", b"FLV\1", b"SQLite format 3\0",
    b"\x0a\x23\xd7\xce", b"RIFF\0\0\0\0WEBPVP8 ", b"II*\0", b"BM", b"P6 ",
]  # fmt: skip


@EXAMPLES
@given(st.sampled_from(HEADS), st.binary(max_size=600))
def test_any_bytes(tmp_path: Path, head: bytes, rest: bytes) -> None:
    path = tmp_path / "x.mp4"
    path.write_bytes(head + rest)
    for name in (str(path), f"{path}::a", f"{path}::0", f"{path}::0/video", f"{path}::stream_index=1"):
        use(name)
    for door in (IndexStore, VideoDataset.from_csv, lambda given: build_store([], given)):
        with suppress(VideoLoaderError):
            door(path)


@EXAMPLES
@given(
    st.sampled_from([".png", ".jpg", ".bmp", ".tif", ".webp", ".ppm"]), st.sampled_from(HEADS), st.binary(max_size=99)
)
def test_any_images_and_lists_of_times(tmp_path: Path, ending: str, head: bytes, rest: bytes) -> None:
    for old in tmp_path.iterdir():
        old.unlink()
    for number in range(2):
        (tmp_path / f"{number}{ending}").write_bytes(head + rest)
    (tmp_path / "times.txt").write_bytes(rest)
    use(str(tmp_path))
    use(f"{tmp_path}::timestamps=times.txt")


@EXAMPLES
@given(st.sampled_from([".csv", ".jsonl", ".tsv", ".parquet", ".txt"]), st.binary(max_size=300))
def test_any_tables(tmp_path: Path, ending: str, rest: bytes) -> None:
    path = tmp_path / f"table{ending}"
    for head in (b"", b"path,label\n", b'{"path": "a.mp4"}\n', b"PAR1"):
        path.write_bytes(head + rest)
        try:
            VideoDataset.from_csv(path)
        except VideoLoaderError as error:
            str(error).encode()


@EXAMPLES
@given(st.floats(0, 1), changes)
def test_damaged_stores(tmp_path: Path, sample: Sample, kept: float, patches: list[tuple[float, bytes]]) -> None:
    path, store = str(sample("h264_mp4")), tmp_path / "index.db"
    if not (tmp_path / "sound.db").exists():
        build_store([path], tmp_path / "sound.db", workers=1)
    store.write_bytes(changed((tmp_path / "sound.db").read_bytes(), kept, patches))
    doors: list[Callable[[], object]] = [
        lambda: IndexStore(store).get(path),
        lambda: IndexStore(store).frame_counts([path]),
        lambda: list(IndexStore(store).errors()),
        lambda: IndexStore(store).query("SELECT count(*) FROM videos"),
    ]
    for door in doors:
        try:
            door()
        except VideoLoaderError as error:
            str(error).encode()


@pytest.mark.parametrize("archive", ARCHIVES)
@EXAMPLES
@given(st.data())
def test_files_that_become_shorter_at_any_moment(
    tmp_path: Path, sample: Sample, archive: str, data: st.DataObject
) -> None:
    whole, member = ARCHIVES[archive](sample(data.draw(st.sampled_from(SAMPLES))).read_bytes())
    path = tmp_path / f"x{archive}"
    path.unlink(missing_ok=True)
    path.write_bytes(whole)
    reads, size = data.draw(st.integers(0, 12)), int(data.draw(st.floats(0, 1)) * len(whole))
    removed = data.draw(st.booleans())
    read = FileSource.read

    def read_and_cut(self: FileSource, offset: int, length: int) -> bytes:
        nonlocal reads
        reads -= 1
        if reads < 0:
            if removed:
                path.unlink(missing_ok=True)
            elif path.exists() and path.stat().st_size > size:
                os.truncate(path, size)
        return read(self, offset, length)

    with patch.object(FileSource, "read", read_and_cut):
        use(f"{path}{member}")


class Foreign(BytesIO):
    """A file object that fails, or comes to an end, after some reads, whatever it said of its size."""

    def __init__(self, data: bytes, reads: int, error: Exception | None) -> None:
        super().__init__(data)
        self._reads, self._error = reads, error

    def read(self, size: int | None = -1, /) -> bytes:
        self._reads -= bool(size)
        if self._reads >= 0:
            return super().read(size)
        if self._error is not None:
            raise self._error
        return b""


@EXAMPLES
@given(st.sampled_from(SAMPLES), st.integers(0, 12), st.sampled_from([None, OSError(5, "gone"), ValueError("closed")]))
def test_file_objects_that_fail_at_any_moment(sample: Sample, name: str, reads: int, error: Exception | None) -> None:
    file = FileObjectSource(Foreign(sample(name).read_bytes(), reads, error))
    with suppress(VideoLoaderError):
        Video(file, device="cpu")[5]
