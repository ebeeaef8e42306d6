"""Archives that others of the same size and time replace are read by their own directories."""

from __future__ import annotations

import gzip
import os
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from archive_writing import recordio_bytes, tar_bytes, tfrecord_bytes, zip_bytes
from range_server import serve
from sample_videos import RECIPES, write_video

import videoloader as vl
from videoloader.indexing import open_source
from videoloader.indexing.sources.recordio import MAGIC
from videoloader.indexing.sources.state import check_unchanged
from videoloader.interop.torch import ClipRequest, DecodingLoader

NAMES = ("0", "1", "2")


def put(path: Path, content: bytes) -> None:
    """Replace a file, and give it a fixed time, as ``tar --mtime`` and ``rsync --times`` do."""
    new = path.with_suffix(".new")
    new.write_bytes(content)
    os.utime(new, (10**9, 10**9))
    new.replace(path)


def _keys(order: str) -> tuple[bytes, bytes]:
    records, starts = recordio_bytes([b"0" * 40, b"1" * 40, b"2" * 40])
    return records, "".join(f"{key}\t{start}\n" for key, start in zip(order, starts, strict=True)).encode()


def test_an_archive_behind_a_link_that_turns_to_another_one_of_the_same_times(tmp_path: Path) -> None:
    for folder, order in (("first", "ab"), ("second", "ba")):
        (tmp_path / folder).mkdir()
        members = {f"{name}.{ending}": name.encode() for name in order for ending in ("mp4", "cls")}
        (tmp_path / folder / "a.tar").write_bytes(tar_bytes(members, tarfile.GNU_FORMAT))
        os.utime(tmp_path / folder / "a.tar", (10**9, 10**9))
    files = [tmp_path / folder / "a.tar" for folder in ("first", "second")]
    for _ in range(1000):
        for file in files:
            file.chmod(0o644)
        if len({file.stat().st_ctime_ns for file in files}) == 1:  # as for one ``chmod -R``
            break
    else:
        pytest.skip("this file system tells apart the times of two changes in a row")
    link = tmp_path / "now"
    for folder, order in (("first", "ab"), ("second", "ba")):
        link.unlink(missing_ok=True)
        link.symlink_to(folder)
        data = vl.VideoDataset.from_archives(link / "a.tar")
        rows = [(os.path.basename(row.path), data.class_names[row.label]) for row in data if row.label is not None]
        assert rows == [(f"a.tar::{name}.mp4", name) for name in order]


@pytest.mark.parametrize(
    "write",
    [
        lambda order: tar_bytes({name: name.encode() * 40 for name in order}),
        lambda order: zip_bytes({name: name.encode() * 40 for name in order}),
        lambda order: tfrecord_bytes([b"x" * (30 + int(name)) for name in order]),
        lambda order: gzip.compress(tfrecord_bytes([name.encode() * 40 for name in order]), 0, mtime=0),
        lambda order: recordio_bytes([b"x" * (40 if name == "0" else 80) for name in order])[0],
    ],
    ids=["tar", "zip", "TFRecord", "gzipped TFRecord", "RecordIO"],
)
def test_a_replaced_archive(tmp_path: Path, write: Callable[[str], bytes]) -> None:
    path = tmp_path / "archive"
    old, new = write("012"), write("210")
    assert len(old) == len(new)

    def contents() -> list[bytes]:
        sources = [open_source(f"{path}::{name}") for name in NAMES]
        return [source.read(0, source.size) for source in sources]

    (tmp_path / "other").mkdir()
    path_of_new = tmp_path / "other/archive"
    put(path_of_new, new)
    put(path, old)
    contents()
    put(path, new)
    sources = [open_source(f"{path_of_new}::{name}") for name in NAMES]
    assert contents() == [source.read(0, source.size) for source in sources]


def _loaded(path: str) -> int:
    with vl.VideoLoader(vl.VideoDataset.from_paths([path]), vl.WholeVideo(), batch_size=1, device="cpu") as loader:
        return sum(batch.frames.shape[1] for batch in loader)


def _requested(path: str) -> int:
    (frames,) = DecodingLoader([ClipRequest(path, vl.WholeVideo())], device="cpu")
    return len(frames)


@pytest.mark.parametrize("pack", [tar_bytes, zip_bytes])
@pytest.mark.parametrize(
    "count",
    [
        lambda path: len(vl.Video(path, device="cpu")),
        lambda path: len(vl.build_index(path)),
        lambda path: vl.verify(path, device="cpu").files[0].frames,
        _loaded,
        _requested,
    ],
)
def test_a_replaced_archive_on_a_server(
    sample: Callable[[str], Path],
    tmp_path: Path,
    pack: Callable[[dict[str, bytes]], bytes],
    count: Callable[[str], int],
) -> None:
    """This process remembers what it has read of the archive, and asks again whether that is still so."""
    memory = pytest.importorskip("fsspec").filesystem("memory")
    short = write_video(tmp_path / "short.mp4", replace(RECIPES["h264_mp4"], frames=20))
    for file, frames in ((short, 20), (sample("h264_mp4"), 60), (short, 20)):
        memory.pipe(f"/{tmp_path.name}", pack({"a.mp4": file.read_bytes()}))
        assert count(f"memory://{tmp_path.name}::a.mp4") == frames


def test_a_server_that_fails_when_it_is_asked_again(sample: Callable[[str], Path]) -> None:
    with serve({"a.tar": tar_bytes({"a.mp4": sample("h264_mp4").read_bytes()})}) as server:
        (entry,) = vl.VideoDataset.from_archives(f"{server.url}a.tar")
        for open_again in (vl.Video, vl.build_index):
            server.refusals = [(403, {})]
            with pytest.raises(vl.SourceError, match=r"a\.tar: cannot be read .*HTTP status 403"):
                open_again(entry.path)
        assert len(vl.Video(entry.path, device="cpu")) == 60


def test_a_replaced_table_of_keys(tmp_path: Path) -> None:
    path, rows = tmp_path / "a.rec", []
    for order in ("012", "210"):
        records, keys = _keys(order)
        put(path, records)
        put(path.with_suffix(".idx"), keys)
        rows.append([open_source(entry.path).read(0, 1) for entry in vl.VideoDataset.from_archives(path)])
        assert [open_source(f"{path}::{key}").read(0, 1) for key in order] == [b"0", b"1", b"2"]
    assert rows == [[b"0", b"1", b"2"]] * 2


def _gzipped(letter: bytes) -> bytes:
    """Records that several writers compressed, each its own. The one in between is the same in all versions."""
    ends = gzip.compress(tfrecord_bytes([letter * 100]), mtime=0)
    return ends + gzip.compress(tfrecord_bytes([b"-" * (3 << 20)]), 0, mtime=0) + ends


@pytest.mark.parametrize(
    ("write", "members"),
    [(_gzipped, ("0", "2")), (lambda letter: recordio_bytes([MAGIC.join([letter * (64 << 10)] * 5)])[0], ("0",))],
    ids=["gzipped TFRecord", "a record in parts"],
)
def test_what_is_copied_into_memory_is_of_one_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[bytes], bytes], members: tuple[str, ...]
) -> None:
    path, old, new = tmp_path / "archive", write(b"a"), write(b"b")
    assert len(old) == len(new)
    plain, reads, overwritten_at, errors = os.pread, 0, 0, 0

    def overwrite_once(*arguments: int) -> bytes:
        nonlocal reads
        reads += 1
        if reads == overwritten_at:
            with path.open("r+b") as file:
                file.write(new)
            os.utime(path, (1000, 1000))
        return plain(*arguments)

    monkeypatch.setattr(os, "pread", overwrite_once)
    while overwritten_at <= reads:
        reads, overwritten_at = 0, overwritten_at + 1
        path.write_bytes(old)
        os.utime(path, (overwritten_at, overwritten_at))
        try:
            sources = [open_source(f"{path}::{member}") for member in members]
            found = b"".join(source.read(0, source.size) for source in sources)
            for source in sources:
                check_unchanged(source)
        except vl.StaleIndexError:
            errors += 1
        else:
            assert len({b"a", b"b"} & {bytes([each]) for each in found}) == 1
    assert errors >= 4
