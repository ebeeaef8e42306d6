"""Index files next to archives are hints that must fit the archive; requests made while listing."""

from __future__ import annotations

import errno
import gc
import io
import os
import re
import struct
import tarfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from archive_writing import beside, example, recordio_bytes, tar_bytes, tfrecord_bytes, zip_bytes
from range_server import RangeServer, serve
from sample_videos import Recipe, write_video

import videoloader as vl
from videoloader.indexing.sources import index_files, opening, recordio, remote, tar, tfrecord, zip_member

Sample = Callable[[str], Path]


def wds_index(archive: Path, version: str = "v1.2") -> bytes:
    """What DALI's wds2idx writes: a line for each key."""
    lines: dict[str, list[str]] = {}
    with tarfile.open(archive) as file:
        for member in file:
            key, _, extension = member.name.partition(".")
            parts = (extension, member.offset_data, member.size, *([member.name] if version != "v1.1" else []))
            lines.setdefault(key, []).append(" ".join(map(str, parts)))
    return "\n".join([f"{version} {len(lines)}", *(" ".join(line) for line in lines.values()), ""]).encode()


def tfrecord_index(archive: Path) -> bytes:
    """What DALI's tfrecord2idx writes: a line for each record."""
    data, lines, at = archive.read_bytes(), [], 0
    while at < len(data):
        size = struct.unpack_from("<Q", data, at)[0] + 16
        lines.append(f"{at} {size}\n")
        at += size
    return "".join(lines).encode()


def forget_archives() -> None:
    """What a process that begins knows of archives: nothing."""
    for module in (tar, tfrecord, recordio, zip_member):
        module._directories._clear()
    opening._kept_remote.cache_clear()


@pytest.fixture
def server(tmp_path: Path) -> Iterator[RangeServer]:
    """1,000 videos of 25 KB, in archives of each kind, with index files in the folder ``i``."""
    video = bytes(25_000)
    files = {f"{number:04}.mp4": video for number in range(1000)}
    labelled = {name: data for number in range(500) for name, data in beside(number, bytes(25_000)).items()}
    written = {
        "x.tar": tar_bytes(files, tarfile.USTAR_FORMAT),
        "labelled.tar": tar_bytes(labelled),
        "large.tar": tar_bytes(
            {
                f"{number}.{kind}": data
                for number in range(20)
                for kind, data in (("mp4", bytes(1_000_000)), ("cls", b"1"))
            }
        ),
        "x.zip": zip_bytes(files),
        "x.tfrecord": b"".join(tfrecord_bytes([example({"class": n % 5, "video": video})]) for n in range(1000)),
        "r.rec": b"".join(recordio_bytes([struct.pack("<IfQQ", 0, n % 5, n, 0) + video])[0] for n in range(1000)),
    }
    for name, data in written.items():
        (tmp_path / name).write_bytes(data)
    indexes = {f"i/{name}": wds_index(tmp_path / name) for name in ("x.tar", "labelled.tar", "large.tar")}
    served = written | {f"i/{name}": data for name, data in written.items()}
    served |= {name.replace(".tar", ".idx"): data for name, data in indexes.items()}
    step = len(written["r.rec"]) // 1000
    served["i/r.idx"] = "".join(f"{n}\t{n * step}\n" for n in range(1000)).encode()
    served["i/x.tfrecord.idx"] = tfrecord_index(tmp_path / "x.tfrecord")
    with serve(served) as server:
        yield server


def test_small_members_behind_a_url_are_listed_in_few_requests(server: RangeServer) -> None:
    def asked_for(name: str, **arguments: str) -> tuple[int, vl.VideoDataset]:
        forget_archives()
        before = server.asked
        data = vl.VideoDataset.from_archives(f"{server.url}{name}", **arguments)
        return server.asked - before, data

    for name, arguments in (
        ("x.tar", {}),
        ("labelled.tar", {"label": "json.category"}),
        ("x.zip", {}),
        ("x.tfrecord", {"video": "video", "label": "class"}),
        ("r.rec", {}),
    ):
        (without, data), (with_index, same) = asked_for(name, **arguments), asked_for(f"i/{name}", **arguments)
        assert without <= 20
        assert with_index <= 20
        assert len(data) == (500 if name == "labelled.tar" else 1000)
        assert [(row.label, row.columns) for row in data] == [(row.label, row.columns) for row in same]
    # Large ones take one request each for what lies between them.
    count, data = asked_for("large.tar")
    assert count <= 22
    assert data.labels.tolist() == [1] * 20
    # Where an index file tells where all is, a list of videos takes none.
    server.forget()
    count, data = asked_for("i/x.tar")
    assert count <= 10
    assert server.sent < 1_000_000


def test_a_saved_data_set_and_a_store_take_no_request(shards: list[Path], tmp_path: Path) -> None:
    with serve({"v.tar": shards[0].read_bytes()}) as server:
        assert_no_request_later(server, tmp_path)


def assert_no_request_later(server: RangeServer, tmp_path: Path) -> None:
    data = vl.VideoDataset.from_archives(f"{server.url}v.tar")
    data.build_store(tmp_path / "x.db", workers=1)
    data.save(tmp_path / "x.arrow", store=tmp_path / "x.db")
    forget_archives()
    before = server.asked
    assert list(vl.VideoDataset.load(tmp_path / "x.arrow")) == list(data)
    assert list(vl.VideoDataset.from_store(tmp_path / "x.db").paths) == list(data.paths)
    assert server.asked == before


def test_index_files_tell_the_same_as_headers(shards: list[Path]) -> None:
    expected = vl.VideoDataset.from_archives(shards)
    for shard, version in zip(shards, ("v1.2", "v1.1"), strict=True):  # of which the second names no members
        shard.with_suffix(".idx").write_bytes(wds_index(shard, version))
    forget_archives()
    assert list(vl.VideoDataset.from_archives(shards)) == list(expected)
    assert torch.equal(vl.Video(expected[0].path, device="cpu")[3], vl.Video(expected[2].path, device="cpu")[3])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace(b"mp4 ", b"mp4 1"), "does not match .*cannot lie at bytes"),
        (lambda text: text.replace(b"json ", b"json 9", 1), "does not match .*cannot lie at bytes"),
        (lambda text: text[: text.rindex(b"\n", 0, -1) + 1], "is cut off: 2 of 3 lines"),
        (lambda text: text + b"mp4 x\n", "is damaged, or names members with spaces"),
        (lambda text: text.replace(b".mp4", b"\0.mp4", 1), "is damaged, or names members with spaces"),
    ],
)
def test_an_index_file_of_another_archive_is_refused(
    shards: list[Path], change: Callable[[bytes], bytes], message: str
) -> None:
    text = wds_index(shards[0])
    index = shards[0].with_suffix(".idx")
    index.write_bytes(change(text))
    assert index.read_bytes() != text
    with pytest.raises(vl.IndexingError, match=message):
        vl.VideoDataset.from_archives(shards[0])


def test_an_index_file_is_compared_with_the_headers(tmp_path: Path, sample: Sample) -> None:
    video = sample("h264_mp4").read_bytes()
    path = tmp_path / "x.tar"
    path.write_bytes(tar_bytes({f"{number}.mp4": video for number in range(100)}, tarfile.USTAR_FORMAT))
    index = wds_index(path)
    path.with_suffix(".idx").write_bytes(index)
    data = vl.VideoDataset.from_archives(path)
    # A header that is not among those that are compared at once.
    with tarfile.open(path) as file:
        offset = file.getmembers()[3].offset
    with path.open("r+b") as writing:
        writing.seek(offset)
        writing.write(b"x" * 512)
    forget_archives()
    vl.VideoDataset.from_archives(path)
    assert len(vl.Video(data[2].path, device="cpu")) == 60
    with pytest.raises(vl.IndexingError, match=r"x\.idx: does not match .*x\.tar"):
        vl.Video(data[3].path, device="cpu")
    path.with_suffix(".idx").unlink()
    forget_archives()
    with pytest.raises(vl.IndexingError, match=r"the header at byte .* is damaged"):
        vl.VideoDataset.from_archives(path)


def test_an_index_file_of_other_records_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecord"
    path.write_bytes(tfrecord_bytes([example({"v": b"x" * size}) for size in (10, 20, 30)]))
    (tmp_path / "x.idx").write_bytes(tfrecord_index(path))
    assert len(vl.VideoDataset.from_archives(path, video="v")) == 3
    for text, message in (
        ("0 40\n", "its records end at byte 40"),
        ("16 40\n", "no record of 40 bytes begins at byte 16"),
    ):
        (tmp_path / "x.idx").write_text(text)
        forget_archives()
        with pytest.raises(vl.IndexingError, match=message):
            vl.VideoDataset.from_archives(path, video="v")
    (tmp_path / "x.idx").write_text(f"0 {path.stat().st_size}\n")
    forget_archives()
    with pytest.raises(vl.IndexingError, match=r"x\.idx: does not match .*no record of \d+ bytes begins at byte 0"):
        vl.VideoDataset.from_archives(path, video="v")


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (["b.mp4", "b.cls", "a.mp4", "a.cls"], r"the file at byte 512 is b\.mp4, and not a\.mp4"),
        (["a.mp4", "a.cls", "b.mp4", "b.cls", "c.mp4"], r"it does not tell of c\.mp4"),
    ],
)
def test_an_index_file_of_the_archive_before_it_was_written_anew_is_refused(
    tmp_path: Path, now: list[str], message: str
) -> None:
    def tar_of(names: list[str]) -> bytes:
        return tar_bytes({name: b"1" if name.endswith("cls") else b"v" * 600 for name in names})

    path = tmp_path / "x.tar"
    path.write_bytes(tar_of(["a.mp4", "a.cls", "b.mp4", "b.cls"]))
    path.with_suffix(".idx").write_bytes(wds_index(path))
    assert len(vl.VideoDataset.from_archives(path)) == 2
    path.write_bytes(tar_of(now))
    with pytest.raises(vl.IndexingError, match=rf"x\.idx: does not match .*{message}"):
        vl.VideoDataset.from_archives(path)


@pytest.mark.parametrize("left_out", ["a.mp4", "b.mp4", "c.mp4"])
@pytest.mark.parametrize("kind", [tarfile.PAX_FORMAT, tarfile.USTAR_FORMAT])
def test_an_index_file_that_leaves_out_a_sample_is_refused(tmp_path: Path, left_out: str, kind: int) -> None:
    names = ["a.mp4", "b.mp4", ".hidden.mp4", "c.mp4", f"{'é' * 60}.mp4"]
    path = tmp_path / "x.tar"
    path.write_bytes(tar_bytes(dict.fromkeys(names[: 5 if kind == tarfile.PAX_FORMAT else 4], b"v" * 600), kind))
    lines = [line for line in wds_index(path).splitlines() if b".hidden" not in line][1:]
    count = len(lines)
    for text, fits in ((lines, True), ([line for line in lines if left_out.encode() not in line], False)):
        path.with_suffix(".idx").write_bytes(b"\n".join([b"v1.2 %d" % len(text), *text, b""]))
        forget_archives()
        if fits:
            assert len(vl.VideoDataset.from_archives(path)) == count
            continue
        with pytest.raises(vl.IndexingError, match=rf"x\.idx: does not match .*it does not tell of {left_out}"):
            vl.VideoDataset.from_archives(path)


def test_an_index_file_that_leaves_out_one_of_many_samples_with_attributes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    with tarfile.open(path, "w", format=tarfile.PAX_FORMAT) as archive:
        for number in range(30):
            member = tarfile.TarInfo(f"{number:02}.mp4")
            member.size, member.pax_headers = 5, {"comment": "c" * 3000} if number < 20 else {}
            archive.addfile(member, io.BytesIO(b"video"))
    lines = wds_index(path).splitlines()
    path.with_suffix(".idx").write_bytes(b"\n".join([b"v1.2 29", *lines[1:25], *lines[26:], b""]))
    with pytest.raises(vl.IndexingError, match=r"x\.idx: does not match .*it does not tell of 24\.mp4"):
        vl.VideoDataset.from_archives(path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda text: text.replace(b"a.cls", b"\xc3\xa9.cls"), r"the file at byte 1536 is a\.cls, and not é\.cls"),
        # An empty file is said to hold the header and the bytes of the file after it.
        (
            lambda text: re.sub(rb"0 e\.mp4\n.*f\.mp4", b"1024 e.mp4", text).replace(b"v1.2 5", b"v1.2 4"),
            "no file of 1024 bytes begins at byte 5632",
        ),
    ],
)
def test_an_index_file_that_names_other_bytes_is_refused(
    tmp_path: Path, change: Callable[[bytes], bytes], message: str
) -> None:
    files = {"a.mp4": b"v", "a.cls": b"0", "b.mp4": b"v", "b.cls": b"1", "c.mp4": b"v", "e.mp4": b"", "f.mp4": b"v"}
    path = tmp_path / "x.tar"
    path.write_bytes(tar_bytes(files, tarfile.USTAR_FORMAT))
    text = wds_index(path)
    path.with_suffix(".idx").write_bytes(change(text))
    assert change(text) != text
    with pytest.raises(vl.IndexingError, match=rf"x\.idx: does not match .*{message}"):
        vl.VideoDataset.from_archives(path)


def test_damage_after_the_last_file_of_an_index_file_is_told(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(tar_bytes({"a.mp4": b"v"}, tarfile.USTAR_FORMAT)[:1024])
    path.with_suffix(".idx").write_bytes(wds_index(path))
    with path.open("ab") as file:
        file.write(b"x" * 2048)
    with pytest.raises(vl.IndexingError, match=r"x\.idx: does not match .*no header of a file lies at byte 1024, or"):
        vl.VideoDataset.from_archives(path)


@pytest.mark.parametrize(
    ("url", "asked"),
    [
        ("https://example.org/a.tar", True),
        ("memory://a.tar", True),
        ("https://example.org", False),
        ("simplecache::https://example.org", False),
        ("https://example.org/a.tar?version=1.2", False),
        ("https://example.org/a.tar#1.2", False),
    ],
)
def test_an_index_file_is_looked_for_only_where_a_name_can_be_put_in_place_of_the_archive_s(
    url: str, asked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = []
    monkeypatch.setattr(remote.RemoteSource, "exists", lambda self: found.append(self.name))
    assert index_files.file_beside(remote.RemoteSource(url), (".idx",)) is None
    assert found == ([url.replace("a.tar", "a.idx")] if asked else [])


def test_index_files_do_not_stay_open(tmp_path: Path) -> None:
    for number in range(4):
        path = tmp_path / f"{number}.tar"
        path.write_bytes(tar_bytes({"a.mp4": b"v" * 600}))
        path.with_suffix(".idx").write_bytes(wds_index(path))
        path = tmp_path / f"{number}.tfrecord"
        path.write_bytes(tfrecord_bytes([example({"v": b"x" * 9})]))
        (tmp_path / f"{number}.tfrecord.idx").write_bytes(tfrecord_index(path))
    assert len(vl.VideoDataset.from_archives(str(tmp_path / "*.tar"))) == 4
    assert len(vl.VideoDataset.from_archives(str(tmp_path / "*.tfrecord"), video="v")) == 4
    gc.collect()
    opened = [os.readlink(each) for each in Path("/proc/self/fd").iterdir() if each.is_symlink()]
    assert not [name for name in opened if name.startswith(str(tmp_path)) and ".idx" in name]


def test_long_names_and_other_letters_in_an_index_file(tmp_path: Path) -> None:
    names = [f"{letter * 60}/{letter * 60}.mp4" for letter in ("a", "b", "é")] + ["é.mp4", "x\u3000\xa0.mp4"]
    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        path = tmp_path / f"{kind}.tar"
        path.write_bytes(tar_bytes(dict.fromkeys(["no_extension.", *names], b"v"), kind))
        path.with_suffix(".idx").write_bytes(wds_index(path))
        assert [each.split("::")[1] for each in vl.VideoDataset.from_archives(path).paths] == names
        # As the list of GNU tar, from which DALI takes names where it can, shows them.
        text = re.sub(rb"[^ -~\n]", lambda byte: b"\\%03o" % byte[0][0], wds_index(path))
        assert b"\\303\\251.mp4" in text
        path.with_suffix(".idx").write_bytes(text)
        forget_archives()
        assert len(vl.VideoDataset.from_archives(path)) == len(names)


@pytest.mark.parametrize("change", [lambda starts: starts[:2], lambda starts: [starts[0]] * 3, lambda starts: []])
def test_keys_that_leave_records_out_are_refused(tmp_path: Path, change: Callable[[list[int]], list[int]]) -> None:
    path = tmp_path / "x.rec"
    whole, starts = recordio_bytes([struct.pack("<IfQQ", 0, n, n, 0) + b"v" * 50 for n in range(3)])
    path.write_bytes(whole)
    path.with_suffix(".idx").write_text("".join(f"{key}\t{start}\n" for key, start in enumerate(change(starts))))
    with pytest.raises(vl.IndexingError, match=r"x\.idx: does not list each record of .*x\.rec exactly once"):
        vl.VideoDataset.from_archives(path)


def test_a_store_notices_that_keys_lead_to_other_records(tmp_path: Path) -> None:
    path, videos = (
        tmp_path / "x.rec",
        [write_video(tmp_path / f"{n}.mp4", Recipe("mp4", "libx264", frames=n)) for n in (3, 5, 5)],
    )
    whole, starts = recordio_bytes([struct.pack("<IfQQ", 0, 1, 1, 0) + each.read_bytes() for each in videos])
    path.write_bytes(whole)

    def write_keys(keys: Sequence[int]) -> None:
        (tmp_path / "new").write_text("".join(f"{each}\t{start}\n" for each, start in zip(keys, starts, strict=True)))
        os.replace(tmp_path / "new", path.with_suffix(".idx"))

    write_keys([0, 1, 2])
    names = list(vl.VideoDataset.from_archives(path).paths)
    vl.build_store(names, tmp_path / "s.db", workers=1)
    store = vl.IndexStore(tmp_path / "s.db")
    assert store.frame_counts(names)[0].tolist() == [3, 5, 5]
    write_keys([1, 0, 2])
    assert len(store.get(names[2])) == 5
    for name in names[:2]:
        with pytest.raises(vl.StaleIndexError, match="has changed"):
            store.get(name)
    counts, errors = store.frame_counts(names)
    assert counts.tolist() == [0, 0, 5]
    assert {row: type(error) for row, error in errors.items()} == {0: vl.StaleIndexError, 1: vl.StaleIndexError}


def test_keys_that_cannot_be_looked_up_for_a_moment_are_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a network file system: the numbers of the records would be other names, of other records."""
    path = tmp_path / "x.rec"
    whole, starts = recordio_bytes([struct.pack("<IfQQ", 0, n, n, 0) + b"v" * 50 for n in range(3)])
    path.write_bytes(whole)
    path.with_suffix(".idx").write_text("".join(f"{2 - key}\t{start}\n" for key, start in enumerate(starts)))
    expected, plain, failed = vl.VideoDataset.from_archives(path).paths, os.stat, []

    def fail_once(name: Any, *arguments: Any, **options: Any) -> os.stat_result:
        if str(name).endswith(".idx") and not failed:
            failed.append(name)
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(name, *arguments, **options)

    path.touch()  # so that its directory is read again
    monkeypatch.setattr(os, "stat", fail_once)
    with pytest.raises(vl.SourceError, match=r"x\.idx: cannot be reached \(Input/output error\)"):
        vl.VideoDataset.from_archives(path)
    assert vl.VideoDataset.from_archives(path).paths == expected
