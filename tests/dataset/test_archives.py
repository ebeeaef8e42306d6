"""Data sets in archives: rows are videos, and what else the archive tells about them their columns."""

from __future__ import annotations

import gzip
import json
import struct
import tarfile
import zipfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import torch
from archive_writing import example, recordio_bytes, tar_bytes, tfrecord_bytes, write_lmdb, zip_bytes
from range_server import RangeServer, serve

import videoloader as vl
from videoloader.dataset.archive_names import names_of_archives
from videoloader.indexing.sources import opening, recordio, tar, tfrecord, zip_member

Sample = Callable[[str], Path]


@pytest.fixture
def shards(sample: Sample, tmp_path: Path) -> list[Path]:
    """Two shards of two videos each: a number as label, a caption, JSON, and a picture."""
    video = sample("h264_mp4").read_bytes()
    paths = []
    for shard in range(2):
        files: dict[str, bytes] = {}
        for key in (f"v/{shard}0", f"v/{shard}1.left"):
            stem = key.partition(".")[0]
            files |= {f"{key}.mp4": video, f"{stem}.cls": b"%d\n" % shard, f"{stem}.txt": "Höhe".encode()}
            files |= {f"{stem}.json": json.dumps({"fps": 25}).encode(), f"{stem}.jpg": b"\xff\xd8"}
            files[f"{stem}.npy"] = b"x" * (65 << 10)
        files["other.json"] = b"not JSON, and of no video"
        paths.append(tmp_path / f"{shard}.tar")
        paths[-1].write_bytes(tar_bytes(files))
    return paths


def test_rows_are_the_videos_and_columns_what_lies_beside_them(shards: list[Path]) -> None:
    data = vl.VideoDataset.from_tars(shards)
    assert [entry.path for entry in data] == [
        f"{shards[0]}::v/00.mp4",
        f"{shards[0]}::v/01.left.mp4",
        f"{shards[1]}::v/10.mp4",
        f"{shards[1]}::v/11.left.mp4",
    ]
    assert [entry.label for entry in data] == [0, 0, 1, 1]
    assert data[3].columns == {"__key__": "v/11", "txt": "Höhe", "json": {"fps": 25}, "jpg": b"\xff\xd8"}
    assert list(vl.VideoDataset.from_tars(str(shards[1]))) == list(data)[2:]


def test_clips_are_those_of_the_unpacked_file(shards: list[Path], sample: Sample) -> None:
    data = vl.VideoDataset.from_tars(shards)
    loader = vl.VideoLoader(data, vl.EveryWindow(20, step=20), batch_size=3, device="cpu", num_workers=2)
    frames = torch.cat([batch.frames for batch in loader])
    expected = vl.Video(sample("h264_mp4"), device="cpu")[:]
    assert torch.equal(frames, torch.cat([expected.view(3, 20, 3, 128, 160)] * 4))


def test_shards_behind_urls(shards: list[Path]) -> None:
    with serve({path.name: path.read_bytes() for path in shards}) as server:
        remote = vl.VideoDataset.from_tars(f"{server.url}{path.name}" for path in shards)
        assert remote[2].path == f"{server.url}1.tar::v/10.mp4"
        local = vl.VideoDataset.from_tars(shards)
        assert [(row.label, row.columns) for row in remote] == [(row.label, row.columns) for row in local]
        assert torch.equal(vl.Video(remote[2].path, device="cpu")[7], vl.Video(local[2].path, device="cpu")[7])


def test_labels_may_be_names(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"1.mp4": b"", "1.cls": b"walk", "2.MP4": b"", "2.cls": b"run"}))
    data = vl.VideoDataset.from_tars(tmp_path / "x.tar")
    assert ([row.label for row in data], data.class_names) == ([1, 0], ("run", "walk"))
    with pytest.raises(vl.ConfigurationError, match=r"x\.tar::2\.MP4: label 'run' is not in class_names"):
        vl.VideoDataset.from_tars(tmp_path / "x.tar", class_names=["walk"])


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        ({"1.mp4": b"", "1.cls": b"1", "2.mp4": b""}, vl.ConfigurationError, r"x\.tar::2\.mp4: the label is missing"),
        ({"1.mp4": b"", "1.json": b"{"}, vl.ConfigurationError, r"x\.tar::1\.json: does not hold what its name says"),
        ({"1.mp4": b"", "1.txt": b"\xff"}, vl.ConfigurationError, r"x\.tar::1\.txt: does not hold what its name says"),
        ({"1.png": b""}, vl.ConfigurationError, "no video in 1 archives"),
    ],
)
def test_what_makes_no_sense_is_an_error(
    tmp_path: Path, files: dict[str, bytes], error: type[Exception], message: str
) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes(files))
    with pytest.raises(error, match=message):
        vl.VideoDataset.from_tars(tmp_path / "x.tar")


def test_shards_that_cannot_be_read(shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(shards[0].read_bytes()))
    with pytest.raises(vl.UnsupportedError, match=r"x\.tar\.gz: is compressed \(gzip\)"):
        vl.VideoDataset.from_tars([shards[0], tmp_path / "x.tar.gz"])
    with pytest.raises(vl.SourceError, match=r"missing\.tar: cannot be opened"):
        vl.VideoDataset.from_tars([shards[0], tmp_path / "missing.tar"])
    shards[0].write_bytes(shards[0].read_bytes()[:50_000])
    with pytest.raises(vl.IndexingError, match=r"0\.tar: is cut off"):
        vl.VideoDataset.from_tars(shards)


def beside(number: int, video: bytes) -> dict[str, bytes]:
    """The files of one key."""
    about = json.dumps({"category": f"class {number % 3}", "n": number}).encode()
    return {f"{number:04}.mp4": video, f"{number:04}.json": about, f"{number:04}.txt": b"a caption\n"}


@pytest.mark.parametrize("kind", ["tar", "zip", "deflated zip", "lmdb", "lmdb file"])
def test_files_of_one_key_are_the_columns_of_its_video(sample: Sample, tmp_path: Path, kind: str) -> None:
    video = sample("h264_mp4").read_bytes()
    files = {name: data for number in range(4) for name, data in beside(number, video).items()}
    path = tmp_path / "archive"
    if kind.startswith("lmdb"):
        write_lmdb(path, files, as_folder=kind == "lmdb")
    else:
        path.write_bytes(tar_bytes(files) if kind == "tar" else zip_bytes(files, 8 if kind == "deflated zip" else 0))
    data = vl.VideoDataset.from_archives(path, label="json.category")
    assert [row.path for row in data] == [f"{path}::{number:04}.mp4" for number in range(4)]
    assert data.class_names == ("class 0", "class 1", "class 2")
    assert data.labels.tolist() == [0, 1, 2, 0]
    assert data[1].columns == {"__key__": "0001", "json": {"category": "class 1", "n": 1}, "txt": "a caption"}
    by_number = vl.VideoDataset.from_archives(path, label="json.n", video=["mp4"])
    assert by_number.labels.tolist() == [0, 1, 2, 3]
    assert torch.equal(vl.Video(data[3].path, device="cpu")[5], vl.Video(video, device="cpu")[5])


def test_every_member_may_be_a_video(sample: Sample, tmp_path: Path) -> None:
    write_lmdb(tmp_path / "x.lmdb", {"b": sample("h264_mp4").read_bytes(), "a": sample("vp9_webm").read_bytes()})
    data = vl.VideoDataset.from_archives(tmp_path / "x.lmdb", video="")
    assert [row.path for row in data] == [f"{tmp_path}/x.lmdb::a", f"{tmp_path}/x.lmdb::b"]
    with pytest.raises(vl.ConfigurationError, match=r"no video in 1 archives: no file ends with \.mkv"):
        vl.VideoDataset.from_archives(tmp_path / "x.lmdb", video="mkv")


@pytest.mark.parametrize("compressed", [False, True], ids=["plain", "gzip"])
def test_features_of_records_are_columns(sample: Sample, tmp_path: Path, compressed: bool) -> None:
    video = sample("h264_mp4").read_bytes()
    records = [
        example({"name": b"run", "video/encoded": video, "class": 1, "hash": b"\xff", "big": bytes(70_000)}),
        example({"class": 0, "name": "géant".encode(), "hash": b"text", "video/encoded": video}),
    ]
    whole = tfrecord_bytes(records)
    path = tmp_path / "x.tfrecord"
    path.write_bytes(gzip.compress(whole) if compressed else whole)
    data = vl.VideoDataset.from_archives(path, video="video/encoded", label="class")
    assert [row.path for row in data] == [f"{path}::{number}/video/encoded" for number in (0, 1)]
    assert data.labels.tolist() == [1, 0]
    # Text where all of it is text; what is larger than a column may be is left out.
    assert [row.columns for row in data] == [{"name": "run", "hash": b"\xff"}, {"name": "géant", "hash": b"text"}]
    assert vl.VideoDataset.from_archives(path, video="video/encoded", label="name").class_names == ("géant", "run")
    loader = vl.VideoLoader(data, [3], batch_size=2, device="cpu", num_workers=0)
    assert torch.equal(next(iter(loader)).frames[1], vl.Video(video, device="cpu")[3][None])


def protobuf_lists() -> bytes:
    """An Example with lists of every kind, numbers packed or not, as protocol buffers allow both."""
    from archive_writing import protobuf, varint

    def feature(name: bytes, kind: int, listed: bytes) -> bytes:
        return protobuf(1, protobuf(1, name) + protobuf(2, protobuf(kind, listed)))

    entries = (
        feature(b"two", 1, protobuf(1, b"a") + protobuf(1, b"b"))
        + feature(b"packed", 3, protobuf(1, varint(300) + varint(2**64 - 5)))
        + feature(b"single", 3, b"\x08" + varint(7) + b"\x08" + varint(8))
        + feature(b"floats", 2, protobuf(1, struct.pack("<2f", 0.5, -2)))
        + feature(b"float", 2, b"\x0d" + struct.pack("<f", 1.25))
        + feature(b"none", 1, b"")
        + feature(b"v", 1, protobuf(1, b"video"))
    )
    return protobuf(1, entries)


def test_lists_of_all_kinds(tmp_path: Path) -> None:
    (tmp_path / "x.tfrecord").write_bytes(tfrecord_bytes([protobuf_lists()]))
    (row,) = vl.VideoDataset.from_archives(tmp_path / "x.tfrecord", video="v")
    assert row.columns == {
        "two": ["a", "b"],
        "packed": [300, -5],
        "single": [7, 8],
        "floats": [0.5, -2.0],
        "float": 1.25,
    }


@pytest.mark.parametrize(
    ("records", "arguments", "error", "message"),
    [
        ([example({"v": b"", "n": 1})], {}, vl.ConfigurationError, "as video='v'; there are v, n"),
        ([example({"v": b""})], {"video": "w"}, vl.SourceError, r"x\.tfrecord::0: the record has no feature 'w'"),
        ([b"not one"], {"video": "w"}, vl.SourceError, "the record has no feature 'w'"),
        ([example({"v": b""})], {"video": ["v"]}, vl.ConfigurationError, "must be the name of a feature"),
        ([example({"v": b"", "n": 1})], {"video": "v", "label": "m"}, vl.ConfigurationError, "'m'; columns: n"),
    ],
)
def test_features_that_are_not_there(
    tmp_path: Path, records: list[bytes], arguments: Mapping[str, str], error: type[Exception], message: str
) -> None:
    (tmp_path / "x.tfrecord").write_bytes(tfrecord_bytes(records))
    with pytest.raises(error, match=message):
        vl.VideoDataset.from_archives(tmp_path / "x.tfrecord", **arguments)


def test_records_that_are_videos_themselves(sample: Sample, tmp_path: Path) -> None:
    video = sample("h264_mp4").read_bytes()
    (tmp_path / "x.tfrecord").write_bytes(tfrecord_bytes([video] * 2))
    (tmp_path / "x.rec").write_bytes(recordio_bytes([video] * 2)[0])
    data = vl.VideoDataset.from_archives([tmp_path / "x.tfrecord", tmp_path / "x.rec"])
    assert [row.path.rpartition("/")[2] for row in data] == [
        f"x.{kind}::{n}" for kind in ("tfrecord", "rec") for n in (0, 1)
    ]
    assert data.labels.tolist() == [-1] * 4
    with pytest.raises(vl.ConfigurationError, match="records of RecordIO have no names"):
        vl.VideoDataset.from_archives(tmp_path / "x.rec", video="mp4")


@pytest.mark.parametrize("with_keys", [False, True])
def test_labels_in_the_headers_of_recordio(sample: Sample, tmp_path: Path, with_keys: bool) -> None:
    video = sample("h264_mp4").read_bytes()
    path = tmp_path / "x.rec"

    def write(*headers: bytes) -> None:
        whole, starts = recordio_bytes([header + video for header in headers])
        path.write_bytes(whole)
        if with_keys:
            path.with_suffix(".idx").write_text("".join(f"{10 + n}\t{start}\n" for n, start in enumerate(starts)))

    write(struct.pack("<IfQQ", 0, 2.0, 70, 0), struct.pack("<IfQQ", 0, 0.0, 71, 0))
    data = vl.VideoDataset.from_archives(path)
    assert [row.path for row in data] == [f"{path}::{key}" for key in ((10, 11) if with_keys else (0, 1))]
    assert (data.labels.tolist(), data[0].columns) == ([2, 0], {"id": 70})
    assert torch.equal(vl.Video(data[1].path, device="cpu")[3], vl.Video(video, device="cpu")[3])
    write(struct.pack("<IfQQ", 0, 2.5, 70, 0), struct.pack("<IfQQ2f", 2, 0.0, 71, 0, 4.0, 5.0))
    data = vl.VideoDataset.from_archives(path)
    assert [row.columns for row in data] == [{"id": 70, "label": 2.5}, {"id": 71, "labels": [4.0, 5.0]}]


def test_patterns(tmp_path: Path) -> None:
    for name in ("a2.tar", "a10.tar", "b[1].tar", "c{0..1}.tar"):
        (tmp_path / name).touch()
    root = f"{tmp_path}/"
    assert names_of_archives(f"{root}a*.tar") == [f"{root}a2.tar", f"{root}a10.tar"]
    assert names_of_archives([f"{root}b[1].tar", f"{root}c{{0..1}}.tar"]) == [f"{root}b[1].tar", f"{root}c{{0..1}}.tar"]
    assert names_of_archives("s3://x/{08..10}-{a,b}.tar") == [
        f"s3://x/{number}-{letter}.tar" for number in ("08", "09", "10") for letter in "ab"
    ]
    assert names_of_archives("https://x/a.tar?sign=*") == ["https://x/a.tar?sign=*"]
    with pytest.raises(vl.ConfigurationError, match=r"z\*\.tar: no archive fits the pattern"):
        names_of_archives(f"{root}z*.tar")
    with pytest.raises(vl.ConfigurationError, match="more than 1048576"):
        names_of_archives("x{0..99999999}.tar")
    import fsspec

    fsspec.filesystem("memory").pipe({f"/bucket/{n}.tar": b"x" for n in (10, 9)})
    assert names_of_archives("memory://bucket/*.tar") == ["memory:///bucket/9.tar", "memory:///bucket/10.tar"]


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
    data.build_index(tmp_path / "x.db", workers=1)
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
        (lambda text: text.replace(b"mp4 ", b"mp4 1"), "does not fit to .*cannot lie at bytes"),
        (lambda text: text.replace(b"json ", b"json 9", 1), "does not fit to .*cannot lie at bytes"),
        (lambda text: text[: text.rindex(b"\n", 0, -1) + 1], "is cut off: 2 of 3 lines"),
        (lambda text: text + b"mp4 x\n", "is damaged, or names members with spaces"),
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
    with pytest.raises(vl.IndexingError, match=r"x\.idx: does not fit to .*x\.tar"):
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
    for text, message in (("0 40\n", "its records end at byte 40"), ("16 40\n", "no record begins at byte 16")):
        (tmp_path / "x.idx").write_text(text)
        forget_archives()
        with pytest.raises(vl.IndexingError, match=message):
            vl.VideoDataset.from_archives(path, video="v")
    (tmp_path / "x.idx").write_text(f"0 {path.stat().st_size}\n")
    forget_archives()
    with pytest.raises(vl.IndexingError, match=r"x\.idx: does not fit .*no record of \d+ bytes begins at byte 0"):
        vl.VideoDataset.from_archives(path, video="v")


@pytest.mark.parametrize(
    ("now", "message"),
    [
        (["b.mp4", "b.cls", "a.mp4", "a.cls"], r"the file at byte 512 is b\.mp4, and not a\.mp4"),
        (["a.mp4", "a.cls", "b.mp4", "b.cls", "c.mp4"], r"c\.mp4 lies behind the files that it tells of"),
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
    with pytest.raises(vl.IndexingError, match=rf"x\.idx: does not fit to .*{message}"):
        vl.VideoDataset.from_archives(path)


def test_long_names_and_other_letters_in_an_index_file(tmp_path: Path) -> None:
    names = [f"{letter * 60}/{letter * 60}.mp4" for letter in ("a", "b", "é")] + ["é.mp4"]
    for kind in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        path = tmp_path / f"{kind}.tar"
        path.write_bytes(tar_bytes(dict.fromkeys(names, b"v"), kind))
        path.with_suffix(".idx").write_bytes(wds_index(path))
        assert [each.split("::")[1] for each in vl.VideoDataset.from_archives(path).paths] == names


@pytest.mark.parametrize("change", [lambda starts: starts[:2], lambda starts: [starts[0]] * 3, lambda starts: []])
def test_keys_that_leave_records_out_are_refused(tmp_path: Path, change: Callable[[list[int]], list[int]]) -> None:
    path = tmp_path / "x.rec"
    whole, starts = recordio_bytes([struct.pack("<IfQQ", 0, n, n, 0) + b"v" * 50 for n in range(3)])
    path.write_bytes(whole)
    path.with_suffix(".idx").write_text("".join(f"{key}\t{start}\n" for key, start in enumerate(change(starts))))
    with pytest.raises(vl.IndexingError, match=r"x\.idx: does not tell of each record in .*x\.rec once"):
        vl.VideoDataset.from_archives(path)


def test_zip_directories_that_lie_are_refused(tmp_path: Path) -> None:
    def entry(whole: bytes, number: int) -> int:
        at = -1
        for _ in range(number + 1):
            at = whole.index(b"PK\1\2", at + 1)
        return at

    path = tmp_path / "x.zip"
    members = {"a.mp4": b"v", "a.cls": b"11", "b.mp4": b"v", "b.cls": b"22"}
    for method in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        whole = bytearray(zip_bytes(members, method))
        struct.pack_into("<I", whole, entry(whole, 1) + 24, 1)  # size of a.cls
        path.write_bytes(whole)
        with pytest.raises(vl.IndexingError, match=r"x\.zip::a\.cls: is damaged"):
            vl.VideoDataset.from_archives(path)
    whole = bytearray(zip_bytes(members))
    first, second = (slice(entry(whole, number) + 42, entry(whole, number) + 46) for number in (1, 3))
    whole[first], whole[second] = whole[second], whole[first]  # the places of the labels
    path.write_bytes(whole)
    with pytest.raises(vl.IndexingError, match=r"is not the member at byte"):
        vl.VideoDataset.from_archives(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 60_000, r"x\.tar::a\.json: does not hold what its name says \(maximum recursion depth"),
        (b'{"y": NaN}', r"the label 'json\.y' must be a number or a name, got nan"),
        (b'{"y": 1e999}', r"the label 'json\.y' must be a number or a name, got inf"),
    ],
)
def test_json_that_is_no_label(tmp_path: Path, text: bytes, message: str) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"a.mp4": b"v", "a.json": text}))
    with pytest.raises(vl.ConfigurationError, match=message):
        vl.VideoDataset.from_archives(tmp_path / "x.tar", label="json.y")


def test_no_file_takes_the_place_of_the_key(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"a.mp4": b"v", "a.__key__": b"b"}))
    assert vl.VideoDataset.from_archives(tmp_path / "x.tar")[0].columns == {"__key__": "a"}
