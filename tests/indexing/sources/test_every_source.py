"""Whatever holds a video: the same bytes, the same frames, from any thread, process and place in the file."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import mmap
import multiprocessing
import os
import pickle
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, BinaryIO, cast

import fsspec
import pytest
import torch
from archive_writing import example, recordio_bytes, tar_bytes, tfrecord_bytes, write_lmdb, zip_bytes
from child_environment import SAFE_PATH
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from range_server import serve

from videoloader import Video, VideoDataset
from videoloader.errors import ConfigurationError, SourceError, StaleIndexError
from videoloader.indexing import ByteSource, FileObjectSource, build_index, open_source

OTHERS = {"a/first.txt": b"1" * 700, "last.txt": b"2"}


def _file(data: bytes, folder: Path, url: str) -> object:
    return _write(folder / "clip.mp4", data)


def _file_url(data: bytes, folder: Path, url: str) -> object:
    return _write(folder / "a clip.mp4", data).as_uri()


def _write(path: Path, data: bytes) -> Path:
    path.write_bytes(data)
    return path


def _opened_file(data: bytes, folder: Path, url: str) -> object:
    return _write(folder / "clip.mp4", data).open("rb")


def _other_file_object(data: bytes, folder: Path, url: str) -> object:
    file = tempfile.SpooledTemporaryFile()  # noqa: SIM115 - lives as long as the source
    file.write(data)
    return file


def _memory_url(data: bytes, folder: Path, url: str) -> object:
    fsspec.filesystem("memory").pipe("/clip.mp4", data)
    return "memory://clip.mp4"


def _tar(data: bytes, folder: Path, url: str) -> object:
    return f"{_write(folder / 'x.tar', tar_bytes({'a/1.txt': b'1', 'clip.mp4': data, '2': b'2'}))}::clip.mp4"


def _tar_url(data: bytes, folder: Path, url: str) -> object:
    return url + "x.tar::clip.mp4"


def _zip(data: bytes, folder: Path, url: str) -> object:
    return f"{_write(folder / 'x.zip', zip_bytes({'1.txt': b'1', 'clip.mp4': data}))}::clip.mp4"


def _deflated(data: bytes, folder: Path, url: str) -> object:
    return f"{_write(folder / 'x.zip', zip_bytes({'1.txt': b'1', 'clip.mp4': data}, method=8))}::clip.mp4"


def _tfrecord(data: bytes, folder: Path, url: str) -> object:
    return f"{_write(folder / 'x.tfrecord', tfrecord_bytes([b'', data, b'3']))}::1"


def _tfrecord_feature(data: bytes, folder: Path, url: str) -> object:
    record = example({"label": 7, "video/encoded": data, "zz": b"z"})
    return f"{_write(folder / 'x.tfrecord', tfrecord_bytes([b'0', record]))}::1/video/encoded"


def _recordio(data: bytes, folder: Path, url: str) -> object:
    return f"{_write(folder / 'x.rec', recordio_bytes([b'abc', data])[0])}::1"


def _lmdb(data: bytes, folder: Path, url: str) -> object:
    return f"{write_lmdb(folder / 'db', {'a': b'a', 'clip': data})}::clip"


KINDS: dict[str, Callable[[bytes, Path, str], object]] = {
    "bytes": lambda data, folder, url: data,
    "path": _file,
    "file URL": _file_url,
    "BytesIO": lambda data, folder, url: io.BytesIO(data),
    "opened file": _opened_file,
    "other file object": _other_file_object,
    "http": lambda data, folder, url: url + "clip.mp4",
    "memory URL": _memory_url,
    "tar": _tar,
    "tar behind URL": _tar_url,
    "zip": _zip,
    "deflated zip": _deflated,
    "TFRecord": _tfrecord,
    "TFRecord feature": _tfrecord_feature,
    "RecordIO": _recordio,
    "LMDB": _lmdb,
}
each_kind = pytest.mark.parametrize("kind", KINDS)
Place = Callable[[str, bytes], object]


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    """``place(kind, data)`` puts the data somewhere of that kind and says where."""
    files: dict[str, bytes] = {}
    with serve(files) as server:

        def put(kind: str, data: bytes) -> object:
            files["clip.mp4"], files["x.tar"] = data, tar_bytes({**OTHERS, "clip.mp4": data})
            folder = tmp_path / kind
            folder.mkdir()
            return KINDS[kind](data, folder, server.url)

        yield put


DATA = bytes(range(256)) * 1000 + b"end"


@each_kind
def test_any_range_is_that_of_the_bytes(place: Place, kind: str) -> None:
    source = open_source(place(kind, DATA))
    starts = st.integers(0, len(DATA) + 10)
    sizes = st.one_of(st.integers(0, 40), st.integers(0, 200_000))

    @settings(max_examples=examples(60))
    @given(st.lists(st.tuples(starts, sizes), min_size=1, max_size=5))
    def check(ranges: list[tuple[int, int]]) -> None:
        expected = [DATA[start : start + size] for start, size in ranges]
        assert [source.read(*each) for each in ranges] == expected
        assert source.read_ranges(*map(list, zip(*ranges, strict=True))) == expected

    assert source.size == len(DATA)
    assert source.read_through > 0
    assert source.read_ranges([], []) == []
    check()


@each_kind
def test_file_objects_are_independent(place: Place, kind: str) -> None:
    source = open_source(place(kind, DATA))
    with source.open() as one, source.open() as other:
        assert one.read(10) == other.read(10) == DATA[:10]
        assert one.seek(-3, io.SEEK_END) == len(DATA) - 3
        assert (one.read(), other.read(5), one.read()) == (b"end", DATA[10:15], b"")
        assert other.seek(0) == 0
        assert other.read() == DATA


@each_kind
def test_many_threads_read_at_once(place: Place, kind: str) -> None:
    source = open_source(place(kind, DATA))

    def hammer(seed: int) -> bool:
        ranges = [((seed * 7919 + step * 104729) % len(DATA), (seed + step) * 37 % 3000) for step in range(50)]
        return all(source.read(start, size) == DATA[start : start + size] for start, size in ranges)

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(hammer, range(16)))


def test_another_process_opens_its_own(place: Place) -> None:
    program = "import pickle, sys; print(*(source.read(1000, 4).hex() for source in pickle.load(sys.stdin.buffer)))"
    sources = {kind: open_source(place(kind, DATA)) for kind in sorted(KINDS.keys() - {"other file object"})}
    for source in sources.values():
        source.read(100, 10)
        copy = pickle.loads(pickle.dumps(source))
        assert (copy.name, copy.size, copy.fingerprint) == (source.name, source.size, source.fingerprint)
    del sources["memory URL"]  # this is fsspec's own memory, which other processes do not have
    command = [sys.executable, *SAFE_PATH, "-c", program]
    done = subprocess.run(command, input=pickle.dumps(list(sources.values())), capture_output=True)
    assert done.stdout.decode().split() == [DATA[1000:1004].hex()] * len(sources), done.stderr.decode()


def _behind(data: bytes, kind: str) -> BinaryIO:
    """A file object of the standard library, with damaged or missing bytes behind it."""
    if kind == "zip":
        # Deflated, since Python 3.12 checks no sums of stored members after it has moved in them.
        packed = bytearray(zip_bytes({"a.mp4": data}, zipfile.ZIP_DEFLATED))
        packed[len(packed) // 2] ^= 255
        return cast(BinaryIO, zipfile.ZipFile(io.BytesIO(packed)).open("a.mp4"))
    module: Any = {"gzip": gzip, "bz2": bz2, "lzma": lzma}[kind]
    whole = module.compress(data)
    return cast(BinaryIO, module.open(io.BytesIO(whole[: len(whole) // 2])))


@pytest.mark.parametrize("kind", ["gzip", "bz2", "lzma", "zip"])
@pytest.mark.parametrize("door", [Video, build_index])
def test_errors_of_compressed_file_objects_are_told(
    sample: Callable[[str], Path], kind: str, door: Callable[[BinaryIO], object]
) -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        door(_behind(sample("h264_mp4").read_bytes(), kind))


@pytest.mark.parametrize("how", ["rb", "r+b", "temporary"])
def test_a_file_that_changes_behind_its_object_is_noticed(
    sample: Callable[[str], Path], tmp_path: Path, how: str
) -> None:
    data = sample("h264_mp4").read_bytes()
    path = _write(tmp_path / "a.mp4", data)
    with tempfile.NamedTemporaryFile() if how == "temporary" else path.open(how) as file:
        if how == "temporary":
            file.write(data)
            path = Path(file.name)
        video = Video(cast(BinaryIO, file), device="cpu")
        video[0]
        with path.open("r+b") as other:
            other.write(data[:-100] + bytes(200))
        with pytest.raises(StaleIndexError, match="has changed"):
            video[40]


@pytest.mark.parametrize("name", ["mpeg4_avi", "h264_mp4"])
def test_an_object_that_gives_more_than_was_asked_for_is_refused(sample: Callable[[str], Path], name: str) -> None:
    """libavformat would write what is too much behind its buffer."""

    class Blocks(io.FileIO):
        def read(self, size: int | None = -1) -> bytes:
            return super().read(size) + bytes(size or 0)

    told = r"cannot be read at byte \d+: \d+ bytes came instead of \d+$"
    with Blocks(sample(name)) as file, pytest.raises(SourceError, match=told):
        Video(cast(BinaryIO, file))


def test_an_object_of_a_class_of_its_own_is_read_by_its_methods(tmp_path: Path) -> None:
    class Second(io.FileIO):
        """A view of the second half of a file."""

        def seek(self, offset: int, whence: int = 0) -> int:
            return super().seek(offset + 4 if whence == 0 else offset, whence) - 4

    with Second(_write(tmp_path / "two", b"1234abcd")) as view:
        assert open_source(cast(BinaryIO, view)).read(1, 2) == b"bc"


def test_the_size_of_an_object_may_be_told_by_its_position(sample: Callable[[str], Path]) -> None:
    with sample("h264_mp4").open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert len(Video(cast(BinaryIO, mapped), device="cpu")) == 60


def test_a_file_object_of_unknown_kind_cannot_go_to_another_process(place: Place) -> None:
    source = open_source(place("other file object", DATA))
    with pytest.raises(ConfigurationError, match="give a path or bytes"):
        pickle.dumps(source)


def _read_in_fork(source: ByteSource, answer: multiprocessing.connection.Connection) -> None:
    try:
        answer.send(source.read(70_000, 10) + source.read_ranges([5], [5])[0])
    except Exception as error:
        answer.send(f"{type(error).__name__}: {error}")


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
@each_kind
def test_a_fork_goes_on_reading(place: Place, kind: str) -> None:
    source = open_source(place(kind, DATA))
    source.read(100, 10)
    context = multiprocessing.get_context("fork")
    ours, theirs = context.Pipe()
    child = context.Process(target=_read_in_fork, args=(source, theirs))
    child.start()
    try:
        assert ours.poll(60)
        expected = DATA[70_000:70_010] + DATA[5:10]
        if kind == "other file object":
            expected = "SourceError: <file>: is a file object of another process: give its path or its bytes"
        assert ours.recv() == expected
    finally:
        child.kill()
        child.join()
    assert source.read(70_000, 10) == DATA[70_000:70_010]


@each_kind
def test_the_fingerprint_is_another_one_for_other_bytes(place: Place, kind: str, tmp_path: Path) -> None:
    if kind in ("http", "tar behind URL"):
        pytest.skip("what a server says of versions is tested with it")
    source = place(kind, DATA)
    opened = open_source(source)
    assert isinstance(opened.fingerprint, str)
    if kind not in ("other file object", "opened file", "BytesIO", "bytes"):
        assert open_source(source).fingerprint == opened.fingerprint
    folder = tmp_path / kind
    folder.rename(tmp_path / "before")
    assert open_source(place(kind, DATA[::-1])).fingerprint != opened.fingerprint


@pytest.mark.parametrize("name", ["h264_mp4", "h264_mp4_fragmented", "vp9_webm", "h264_mkv", "mpeg4_avi", "h264_ts"])
@each_kind
def test_frames_are_those_of_the_file(place: Place, sample: Callable[[str], Path], kind: str, name: str) -> None:
    wanted = [0, 31, 7, 59]
    expected = Video(sample(name), device="cpu").read(wanted)
    clip = Video(place(kind, sample(name).read_bytes()), device="cpu").read(wanted)
    assert torch.equal(clip.frames, expected.frames)
    assert clip.timestamps.tolist() == expected.timestamps.tolist()


def test_file_objects_are_read_from_their_start_wherever_they_stand(tmp_path: Path) -> None:
    with _write(tmp_path / "data", DATA).open("rb") as file:
        file.seek(1234)
        source = open_source(file)
        assert isinstance(source, FileObjectSource)
        assert (source.name, source.size, source.read(0, 4)) == (file.name, len(DATA), DATA[:4])


@pytest.mark.parametrize("given", [None, "text", [1, 2], 5, b""])
def test_a_file_object_that_stops_giving_bytes_is_an_error(given: object) -> None:
    class Stops(io.BufferedRandom):
        def read(self, size: int | None = -1, /) -> bytes:
            return super().read(size) if not size or self.tell() < 1000 else given  # type: ignore[return-value]

    source = open_source(Stops(io.BytesIO(DATA)))  # type: ignore[arg-type]
    assert source.read(900, 50) == DATA[900:950]
    with pytest.raises(SourceError, match="cannot be read at byte 1000"):
        source.read(1000, 50)


def test_text_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "text"
    path.write_text("text")
    with path.open() as file, pytest.raises(ConfigurationError, match="mode 'rb'"):
        open_source(file)  # type: ignore[arg-type]


def test_an_existing_path_is_a_path_whatever_it_looks_like(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    os.mkdir("memory:")
    for name in ("a.tar::b.mp4", "memory:/x", "zip:", "::"):
        _write(Path(name), b"path " + name.encode())
        assert open_source(name).read(0, 100) == b"path " + name.encode()
    fsspec.filesystem("memory").pipe("/x", b"memory")
    assert open_source("memory:///x").read(0, 10) == b"path memor"


@pytest.mark.parametrize("place", ["", "file://", "simplecache::file://", "filecache::file://"])
@pytest.mark.parametrize("member", ["b.mp4", "run/b.mp4", "What is it?.mp4", "*.mp4", "me@home/b.mp4"])
def test_members_of_archives_in_all_places(tmp_path: Path, place: str, member: str) -> None:
    archive = _write(tmp_path / "a.tar", tar_bytes({"x.mp4": b"other", member: b"member"}))
    assert open_source(f"{place}{archive}::{member}").read(0, 10) == b"member"


@pytest.mark.parametrize("place", ["memory://a.tar", "memory://folder/a.tar", "simplecache::memory://a.tar"])
def test_members_of_archives_at_the_root_of_a_file_system(place: str) -> None:
    members = ["b.mp4", "run/b.mp4", "run@home/b.mp4"]
    archive = tar_bytes({member: member.encode() for member in members})
    fsspec.filesystem("memory").pipe(f"/{place.partition('://')[2]}", archive)
    assert [row.path for row in VideoDataset.from_archives(place)] == [f"{place}::{member}" for member in members]
    for member in members:
        assert open_source(f"{place}::{member}").read(0, 100) == member.encode()


def test_an_archive_without_a_member_is_no_source(tmp_path: Path) -> None:
    archive = _write(tmp_path / "a.tar", tar_bytes({"b.mp4": b"member"}))
    for name in (f"{archive}::", f"{archive.as_uri()}::", "http://127.0.0.1:9/a.tar::"):
        with pytest.raises(SourceError, match="names an archive, but no member of it"):
            open_source(name)


def test_file_urls_of_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = _write(tmp_path / os.fsdecode(b"caf\xe9"), b"latin")
    _write(tmp_path / "caf\ufffd", b"another")
    assert open_source(path.as_uri()).read(0, 10) == b"latin"


@pytest.mark.parametrize("name", ["tar://in.tar::{}", "zip://in.tar::{}", "dir://::{}"])
def test_archives_whose_members_have_no_names_are_not_listed(tmp_path: Path, name: str) -> None:
    archive = _write(tmp_path / "out.tar", tar_bytes({"in.tar": tar_bytes({"a.mp4": b"member"})}))
    with pytest.raises(ConfigurationError, match=r"its members cannot be named: unpack it|names an archive on this"):
        VideoDataset.from_archives(name.format(archive))


@pytest.mark.parametrize("of", [str, Path.as_uri])
def test_an_archive_whose_members_would_be_those_of_another_is_not_listed(
    tmp_path: Path, of: Callable[[Path], str]
) -> None:
    archive = _write(tmp_path / "a::b.tar", tar_bytes({"c.mp4": b"member"}))
    assert [open_source(row.path).read(0, 10) for row in VideoDataset.from_archives(of(archive))] == [b"member"]
    _write(tmp_path / "a", tar_bytes({"b.tar::c.mp4": b"other"}))
    with pytest.raises(ConfigurationError, match="its members cannot be named: unpack it"):
        VideoDataset.from_archives(of(archive))


@pytest.mark.parametrize("name", ["t.tar", "t:", "t::", "a::b.tar"])
def test_a_member_with_a_star_in_its_name_is_no_pattern(tmp_path: Path, name: str) -> None:
    archive = _write(tmp_path / name, tar_bytes({"1*.png": b"member"}))
    (row,) = VideoDataset.from_archives(str(archive), video="png")
    _write(tmp_path / f"{name}::1.png", b"other")
    assert open_source(row.path).read(0, 10) == b"member"


def test_the_archive_of_a_name_is_the_part_that_exists(tmp_path: Path) -> None:
    archive = _write(tmp_path / "a::b.tar", tar_bytes({"c::d.mp4": b"member"}))
    assert open_source(f"{archive}::c::d.mp4").read(0, 10) == b"member"
    assert open_source(f"{archive.as_uri()}::c::d.mp4").read(0, 10) == b"member"
