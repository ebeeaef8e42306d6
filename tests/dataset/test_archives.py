"""Data sets in archives: videos become rows, and what else the archive says becomes columns."""

from __future__ import annotations

import gzip
import struct
import tarfile
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import torch
from archive_writing import beside, example, recordio_bytes, tar_bytes, tfrecord_bytes, write_lmdb, zip_bytes
from range_server import serve

import videoloader as vl
from videoloader.indexing import open_source

Sample = Callable[[str], Path]


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


def test_members_with_names_of_streams_are_refused(tmp_path: Path, sample: Sample) -> None:
    content = sample("h264_mp4").read_bytes()
    (tmp_path / "a.zip").write_bytes(zip_bytes({"v.mp4": content, "v.mp4::stream_index=0": content}))
    with pytest.raises(vl.ConfigurationError, match=r"a\.zip: its member 'v\.mp4::stream_index=0' has a name"):
        vl.VideoDataset.from_archives(tmp_path / "a.zip", video="")
    assert list(vl.VideoDataset.from_archives(tmp_path / "a.zip").paths) == [f"{tmp_path / 'a.zip'}::v.mp4"]


def test_shards_behind_urls(shards: list[Path]) -> None:
    with serve({path.name: path.read_bytes() for path in shards}) as server:
        remote = vl.VideoDataset.from_tars(f"{server.url}{path.name}" for path in shards)
        assert remote[2].path == f"{server.url}1.tar::v/10.mp4"
        local = vl.VideoDataset.from_tars(shards)
        assert [(row.label, row.columns) for row in remote] == [(row.label, row.columns) for row in local]
        assert torch.equal(vl.Video(remote[2].path, device="cpu")[7], vl.Video(local[2].path, device="cpu")[7])


@pytest.mark.parametrize(
    ("files", "error", "message"),
    [
        ({"1.mp4": b"", "1.cls": b"1", "2.mp4": b"", "2.cls": b""}, vl.ConfigurationError, "beside it, or an empty"),
        ({"1.mp4": b"", "1.cls": b"1", "2.mp4": b""}, vl.ConfigurationError, r"x\.tar::2\.mp4: the label is missing"),
        ({"1.mp4": b"", "1.json": b"{"}, vl.ConfigurationError, r"x\.tar::1\.json: is not valid JSON, despite"),
        ({"1.mp4": b"", "1.txt": b"\xff"}, vl.ConfigurationError, r"x\.tar::1\.txt: is not valid UTF-8 text, despite"),
        ({"1.png": b""}, vl.ConfigurationError, "no video in 1 archives"),
    ],
)
def test_what_makes_no_sense_is_an_error(
    tmp_path: Path, files: dict[str, bytes], error: type[Exception], message: str
) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes(files))
    with pytest.raises(error, match=message):
        vl.VideoDataset.from_tars(tmp_path / "x.tar")
    (tmp_path / "x.zip").write_bytes(zip_bytes({}))
    with pytest.raises(vl.ConfigurationError, match="no video in 1 archives"):
        vl.VideoDataset.from_archives(tmp_path / "x.zip")


def test_shards_that_cannot_be_read(shards: list[Path], tmp_path: Path) -> None:
    (tmp_path / "x.tar.gz").write_bytes(gzip.compress(shards[0].read_bytes()))
    with pytest.raises(vl.UnsupportedError, match=r"x\.tar\.gz: is compressed \(gzip\)"):
        vl.VideoDataset.from_tars([shards[0], tmp_path / "x.tar.gz"])
    with pytest.raises(vl.SourceError, match=r"missing\.tar: cannot be opened"):
        vl.VideoDataset.from_tars([shards[0], tmp_path / "missing.tar"])
    with pytest.raises(vl.ConfigurationError, match=r"is a folder, and no LMDB database: give its archives"):
        vl.VideoDataset.from_archives(tmp_path)
    shards[0].write_bytes(shards[0].read_bytes()[:50_000])
    with pytest.raises(vl.IndexingError, match=r"0\.tar: is cut off"):
        vl.VideoDataset.from_tars(shards)


def test_a_shard_cut_off_between_two_files_is_warned_of(shards: list[Path], recwarn: pytest.WarningsRecorder) -> None:
    whole = shards[1].read_bytes()
    with tarfile.open(shards[1]) as shard:
        cuts = [member.offset for member in shard if member.name.endswith(".mp4")][1:]
    assert len(vl.VideoDataset.from_archives(shards)) == 4
    assert not recwarn
    for cut in (*cuts, len(whole.rstrip(b"\0"))):
        shards[1].write_bytes(whole[: -(-cut // 512) * 512])
        with pytest.warns(
            vl.VideoLoaderWarning, match=r"1 of 2 archives have no end-of-archive marker, .*for example .*1\.tar"
        ):
            data = vl.VideoDataset.from_archives(shards)
        assert [row.path for row in data][:3] == [f"{shards[0]}::v/00.mp4", f"{shards[0]}::v/01.left.mp4",
                                                  f"{shards[1]}::v/10.mp4"]  # fmt: skip


def test_archives_that_were_joined_end_to_end_are_warned_of(shards: list[Path], tmp_path: Path) -> None:
    joined = tmp_path / "joined.tar"
    joined.write_bytes(shards[0].read_bytes() + shards[1].read_bytes())
    with pytest.warns(
        vl.VideoLoaderWarning, match=r"1 of 2 archives contain more after the end-of-archive marker, .*joined\.tar"
    ):
        assert len(vl.VideoDataset.from_archives([shards[0], joined])) == 4


def test_zip_archives_that_were_joined_are_warned_of(tmp_path: Path) -> None:
    """The directory at the end lists the files of the last one alone."""
    first, second, none = zip_bytes({"a.mp4": b"v"}), zip_bytes({"b.mp4": b"v"}), zip_bytes({})
    told = r"1 of 1 archives begin with files that their directory does not list, as joined archives do"
    (tmp_path / "x.zip").write_bytes(first + second)
    with pytest.warns(vl.VideoLoaderWarning, match=told):
        assert len(vl.VideoDataset.from_archives(tmp_path / "x.zip")) == 1
    (tmp_path / "y.zip").write_bytes(first + none)
    with pytest.warns(vl.VideoLoaderWarning, match=told), pytest.raises(vl.ConfigurationError, match="no video"):
        vl.VideoDataset.from_archives(tmp_path / "y.zip")
    (tmp_path / "z.zip").write_bytes(first)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(vl.VideoDataset.from_archives(tmp_path / "z.zip")) == 1


@pytest.mark.parametrize("kind", ["tar", "zip"])
@pytest.mark.parametrize("text", ["txt", "left.txt"])
def test_texts_that_are_too_large_for_columns_are_told(tmp_path: Path, kind: str, text: str) -> None:
    files = {"a.mp4": b"v", f"a.{text}": b"x" * 70_000, "b.mp4": b"v", f"b.{text}": b"1", "b.npy": bytes(70_000)}
    (tmp_path / "x").write_bytes(tar_bytes(files) if kind == "tar" else zip_bytes(files))
    told = "1 of 1 archives hold JSON or text that becomes no column: it has more than 64 KiB, or is a sparse"
    with pytest.warns(vl.VideoLoaderWarning, match=told):
        data = vl.VideoDataset.from_archives(tmp_path / "x")
    assert [row.columns.get(text) for row in data] == [None, "1"]
    with (
        pytest.warns(vl.VideoLoaderWarning),
        pytest.raises(vl.ConfigurationError, match=rf"x::a\.mp4: its \.{text} file"),
    ):
        vl.VideoDataset.from_archives(tmp_path / "x", label=text)


def test_what_follows_the_last_dot_says_what_a_file_holds(tmp_path: Path) -> None:
    files = {"a.mp4": b"v", "a.left.json": b'{"turn": 3}', "a.right.txt": b"slow", "a.json.gz": b"\x1f\x8b"}
    (tmp_path / "x.tar").write_bytes(tar_bytes(files))
    (row,) = vl.VideoDataset.from_archives(tmp_path / "x.tar", label="left.json.turn")
    assert (row.label, row.columns) == (
        3, {"__key__": "a", "left.json": {"turn": 3}, "right.txt": "slow", "json.gz": b"\x1f\x8b"},
    )  # fmt: skip


def test_a_byte_order_mark_is_no_part_of_a_text(tmp_path: Path) -> None:
    files = {"a.mp4": b"v", "a.cls": b"1", "b.mp4": b"v", "b.cls": b"\xef\xbb\xbf3", "b.txt": b"\xef\xbb\xbfx"}
    (tmp_path / "x.tar").write_bytes(tar_bytes(files))
    data = vl.VideoDataset.from_archives(tmp_path / "x.tar")
    assert data.labels.tolist() == [1, 3]
    assert data[1].columns["txt"] == "x"


def test_json_that_has_a_name_twice_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"a.mp4": b"v", "a.json": b'{"c": 1, "c": 2}'}))
    with pytest.raises(vl.ConfigurationError, match=r"a\.json: is not valid JSON.*it has 'c' twice"):
        vl.VideoDataset.from_archives(tmp_path / "x.tar")


def test_zeros_in_place_of_the_rest_are_warned_of(shards: list[Path], recwarn: pytest.WarningsRecorder) -> None:
    """As in the file of a download that reserved its space and was interrupted."""
    whole = shards[1].read_bytes().rstrip(b"\0")
    shards[1].write_bytes(whole + bytes(512 - len(whole) % 512 + 10240))
    assert len(vl.VideoDataset.from_archives(shards)) == 4
    assert not recwarn
    with tarfile.open(shards[1]) as shard:
        cut = [member.offset for member in shard if member.name.endswith(".mp4")][1]
    shards[1].write_bytes(whole[:cut] + bytes(20_000))
    with pytest.warns(
        vl.VideoLoaderWarning, match=r"1 of 2 archives go on with more zeros .*so later files may be lost"
    ):
        assert len(vl.VideoDataset.from_archives(shards)) == 3


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_files_that_belong_to_no_video_are_told(tmp_path: Path, kind: str) -> None:
    files = {"a.mp4": b"v", "a.txt": b"text", "b.m2v": b"v", "b.cls": b"1", "notes.md": b"", ".hidden": b""}
    (tmp_path / "x").write_bytes(tar_bytes(files) if kind == "tar" else zip_bytes(files))
    told = r"x: 2 of 3 files are left out \(1 .cls, 1 .m2v\); left_out lists them, video=… takes them"
    with pytest.warns(vl.VideoLoaderWarning, match=told):
        data = vl.VideoDataset.from_archives(tmp_path / "x")
    reason = "its name does not end like a video's"
    assert data.left_out == ((f"{tmp_path}/x::b.cls", reason), (f"{tmp_path}/x::b.m2v", reason))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not vl.VideoDataset.from_archives(tmp_path / "x", video="mp4").left_out, "the user chose"


def test_two_files_for_one_column_are_told(tmp_path: Path) -> None:
    (tmp_path / "x.tar").write_bytes(tar_bytes({"a.mp4": b"v", "a.cls": b"1", "a.CLS": b"2"}))
    with pytest.warns(vl.VideoLoaderWarning, match="hold several files with the same name, and the last one counts"):
        assert vl.VideoDataset.from_archives(tmp_path / "x.tar").labels.tolist() == [2]


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_several_files_of_one_name_are_warned_of(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "x"
    members = [("a.mp4", b"first"), ("a.cls", b"1"), ("b.mp4", b"v"), ("b.cls", b"2")]
    members += [("a.mp4", b"last"), ("a.cls", b"3")]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of zipfile
        if kind == "tar":
            path.write_bytes(b"".join(tar_bytes({name: data})[:1024] for name, data in members) + bytes(1024))
        else:
            with zipfile.ZipFile(path, "w") as file:
                for name, data in members:
                    file.writestr(name, data)
    with pytest.warns(
        vl.VideoLoaderWarning, match=r"1 of 1 archives hold several files with the same name, and the last one counts"
    ):
        data = vl.VideoDataset.from_archives(path)
    assert [(row.path, row.label) for row in data] == [(f"{path}::a.mp4", 3), (f"{path}::b.mp4", 2)]
    with open_source(f"{path}::a.mp4").open() as opened:
        assert opened.read() == b"last"


@pytest.mark.parametrize("kind", ["tar", "zip"])
def test_hidden_files_are_no_videos(tmp_path: Path, kind: str) -> None:
    files = {"v/._a.mp4": b"attributes", "v/a.mp4": b"v", ".mp4": b"v"}
    (tmp_path / "x").write_bytes(tar_bytes(files) if kind == "tar" else zip_bytes(files))
    assert list(vl.VideoDataset.from_archives(tmp_path / "x").paths) == [f"{tmp_path}/x::v/a.mp4"]


def test_many_videos_of_one_key_are_an_error(tmp_path: Path) -> None:
    """Each video would have all texts as columns."""
    names = [f"clip.{number:03}" for number in range(101)]
    for others, archive in ((99, tmp_path / "few.zip"), (100, tmp_path / "many.zip")):
        texts = {f"{name}.txt": b"t" for name in names[:others]}
        archive.write_bytes(zip_bytes({f"{name}.mp4": b"v" for name in names} | texts))
    assert len(vl.VideoDataset.from_archives(tmp_path / "few.zip")[100].columns) == 1 + 99
    told = (
        r"many\.zip: 101 videos and 100 other files have the key 'clip', which ends at the first dot of a name: rename"
    )
    with pytest.raises(vl.ConfigurationError, match=told):
        vl.VideoDataset.from_archives(tmp_path / "many.zip")


def test_links_to_files_elsewhere(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "x.tar", "w") as file:
        link = tarfile.TarInfo("a.mp4")
        link.type, link.linkname = tarfile.SYMTYPE, "/videos/a.mp4"
        file.addfile(link)
    with pytest.raises(vl.SourceError, match=r"x\.tar: member 'a\.mp4' is a link to a file that is not in the archive"):
        vl.Video(vl.VideoDataset.from_archives(tmp_path / "x.tar")[0].path, device="cpu")


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
    by_number = vl.VideoDataset.from_archives(path, label="json.n", video=np.array(["mp4"]))
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
