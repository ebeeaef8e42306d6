"""Records of TFRecord, RecordIO and LMDB files: found by number or key, and errors where they are damaged."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import pytest
from archive_writing import (
    RECORDIO_MAGIC,
    example,
    protobuf,
    recordio_bytes,
    tfrecord_bytes,
    write_lmdb,
    zip_bytes,
)
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from range_server import serve

from videoloader.dataset import VideoDataset
from videoloader.errors import IndexingError, SourceError, UnsupportedError, VideoLoaderError
from videoloader.indexing import ByteSource, MemorySource, open_source
from videoloader.indexing.sources.recordio import open_recordio
from videoloader.indexing.sources.tfrecord import masked_crc32c, open_tfrecord, read_tfrecord
from videoloader.indexing.sources.zip_member import open_zip_member


def _entry(*values: bytes) -> bytes:
    """An entry of the map of features, with the key ``label``."""
    return protobuf(1, protobuf(1, b"label") + b"".join(protobuf(2, value) for value in values))


def _named(key: bytes) -> bytes:
    return protobuf(1, protobuf(1, key) + protobuf(2, protobuf(1, protobuf(1, b"value"))))


def content(source: ByteSource) -> bytes:
    return source.read(0, source.size + 1)


def test_the_checksum_is_crc32c() -> None:
    # RFC 3720, B.4: 32 zeros give 8A9136AA.
    crc = 0x8A9136AA
    assert masked_crc32c(bytes(32)) == ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


@settings(max_examples=examples(40))
@given(st.lists(st.binary(max_size=300), min_size=1, max_size=6))
def test_records_of_tfrecord_by_number(records: list[bytes]) -> None:
    file = MemorySource(tfrecord_bytes(records), "x.tfrecord")
    assert [content(open_tfrecord(file, str(number))) for number in range(len(records))] == records
    for wrong in (str(len(records)), "-1", "x", "", "1.0", "²", "9" * 5000):
        with pytest.raises(SourceError, match=r"x\.tfrecord: has no record .* \(it has"):
            open_tfrecord(file, wrong)


@settings(max_examples=examples(40))
@given(st.dictionaries(st.text(max_size=200), st.one_of(st.binary(max_size=300), st.integers(0, 2**63)), min_size=1))
def test_features_of_examples_by_name(features: dict[str, bytes | int]) -> None:
    file = MemorySource(tfrecord_bytes([b"", example(features)]), "x.tfrecord")
    for name, value in features.items():
        if not name:
            continue
        if isinstance(value, bytes):
            assert content(open_tfrecord(file, f"1/{name}")) == value
        else:
            with pytest.raises(SourceError, match="must have exactly one bytes value, has 0"):
                open_tfrecord(file, f"1/{name}")


def test_a_missing_feature_is_an_error_that_names_near_ones() -> None:
    file = MemorySource(tfrecord_bytes([example({"video/data": b"1", "label": 3})]), "x.tfrecord")
    with pytest.raises(SourceError, match=r"no feature 'video/encoded'; there are 'video/data'"):
        open_tfrecord(file, "0/video/encoded")


def test_what_has_too_many_fields_is_no_example_and_takes_no_time() -> None:
    for field in (b"\0\0", protobuf(1, b""), protobuf(15, b"")):
        file = MemorySource(tfrecord_bytes([field * 8_000_000, example({"a": b"x"})]), "x.tfrecord")
        with pytest.raises(IndexingError, match=r"x\.tfrecord::0/a: the record is not a tf\.train\.Example: "):
            open_tfrecord(file, "0/a")
        assert [each and each.names for each in read_tfrecord(file, 100)] == [None, ["a"]]


@pytest.mark.parametrize(
    ("label", "error"),
    [
        (_entry(protobuf(3, b"\x08\1")) + _entry(protobuf(3, b"\x08\2")), "two values for the feature 'label'"),
        (_entry(protobuf(3, b"\x08\1")) + _entry(b""), "two values for the feature 'label'"),
        (_entry(protobuf(3, b"\x08\1"), protobuf(3, b"\x08\2")), "two values for the feature 'label'"),
        (_named(b"n\xff") + _named(b"n\xfe"), "two values for the feature 'n\N{REPLACEMENT CHARACTER}'"),
        (_entry(protobuf(1, protobuf(1, b"a")) + protobuf(3, b"\x08\1")), "a feature with values of several types"),
        (_entry(protobuf(3, b"\x08\x85" + b"\x80" * 8 + b"\x02")), "no feature 'v'"),
    ],
    ids=[
        "a key twice",
        "a key without a value",
        "two values",
        "two keys that read alike",
        "two types",
        "more than 64 bits",
    ],
)
def test_features_that_readers_take_differently_are_refused(tmp_path: Path, label: bytes, error: str) -> None:
    video = protobuf(1, protobuf(1, b"v") + protobuf(2, protobuf(1, protobuf(1, b"bytes"))))
    (tmp_path / "a.tfrecord").write_bytes(tfrecord_bytes([protobuf(1, video), protobuf(1, video + label)]))
    with pytest.raises(SourceError, match=rf"a\.tfrecord::1: the record has {error}"):
        VideoDataset.from_archives(tmp_path / "a.tfrecord", video="v")


def test_the_video_may_not_be_there_twice() -> None:
    record = protobuf(1, _entry(protobuf(1, protobuf(1, b"one"))) + _entry(protobuf(1, protobuf(1, b"two"))))
    with pytest.raises(SourceError, match="two values for the feature 'label'"):
        open_tfrecord(MemorySource(tfrecord_bytes([record])), "0/label")


def test_a_feature_of_several_values_is_refused() -> None:
    several = protobuf(1, protobuf(1, b"1") + protobuf(1, b"2"))
    record = protobuf(1, protobuf(1, protobuf(1, b"frames") + protobuf(2, several)))
    with pytest.raises(SourceError, match="'frames' must have exactly one bytes value, has 2"):
        open_tfrecord(MemorySource(tfrecord_bytes([record])), "0/frames")


@settings(max_examples=examples(100))
@given(st.data())
def test_damaged_tfrecords_are_errors_or_true_records(data: st.DataObject) -> None:
    record = example({"a": b"1" * 50, "video": b"v" * 200, "label": 300})
    whole = tfrecord_bytes([record, b"2" * 30, record])
    broken = bytearray(whole[: data.draw(st.integers(1, len(whole)))])
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(broken) - 1), st.integers(0, 255)), max_size=3)):
        broken[at] = value
    for member in ("0", "2", "2/video"):
        try:
            source = open_tfrecord(MemorySource(bytes(broken), "x.tfrecord"), member)
        except VideoLoaderError as error:
            if not str(error).startswith("x.tfrecord"):
                raise
            continue
        assert len(content(source)) == source.size


def test_many_damaged_lengths_do_not_take_the_square_of_their_number() -> None:
    looked_at = 0

    class Counted(MemorySource):
        def read(self, offset: int, size: int) -> bytes:
            nonlocal looked_at
            looked_at += min(size, self.size - offset)
            return super().read(offset, size)

    sound = tfrecord_bytes([b"abcd"])[:-4] + struct.pack("<I", masked_crc32c(b"abcd"))
    wrong = sound[:8] + bytes([sound[8] ^ 1]) + sound[9:]
    data = sound + wrong * 40_000 + sound
    with pytest.raises(IndexingError, match="wrong checksum of its length"):
        open_tfrecord(Counted(data), "40001")
    assert looked_at < 100 << 20


@settings(max_examples=examples(40))
@given(st.lists(st.binary(max_size=300), min_size=2, max_size=6), st.data())
def test_one_damaged_record_does_not_take_the_others_with_it(records: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(tfrecord_bytes(records, checksums=True))
    number = data.draw(st.integers(0, len(records) - 1))
    start = sum(16 + len(record) for record in records[:number])
    where = data.draw(st.sampled_from([range(start, start + 8), range(start + 8, start + 12)]))
    for at in data.draw(st.sets(st.sampled_from(where), min_size=1)):
        whole[at] ^= data.draw(st.integers(1, 255))
    file = MemorySource(bytes(whole), "x.tfrecord")
    for each, record in enumerate(records):
        if each != number:
            assert content(open_tfrecord(file, str(each))) == record
    with pytest.raises(IndexingError, match=f"the record at byte {start} is damaged: wrong checksum of its length"):
        open_tfrecord(file, str(number))


def test_a_damaged_length_that_ends_where_a_later_record_does_takes_no_others_with_it() -> None:
    records = [b"", b"12", b"123456", b"", b"7"]
    whole = bytearray(tfrecord_bytes(records, checksums=True))
    whole[0] = sum(16 + len(record) for record in records[1:4])
    file = MemorySource(bytes(whole), "x.tfrecord")
    assert [content(open_tfrecord(file, str(number))) for number in range(1, 5)] == records[1:]


def test_a_header_is_found_behind_more_than_is_looked_through_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videoloader.indexing.sources.tfrecord._SCANNED_AT_ONCE", 64)
    records = [bytes(range(size % 256)) for size in (10, 200, 117, 0, 3)]
    whole = bytearray(tfrecord_bytes(records, checksums=True))
    whole[26:34] = b"\xff" * 8
    file = MemorySource(bytes(whole), "x.tfrecord")
    assert [content(open_tfrecord(file, str(number))) for number in (0, 2, 3, 4)] == [records[n] for n in (0, 2, 3, 4)]


def test_numbers_of_records_are_not_guessed() -> None:
    # How many records were where both a length and the data are damaged, nobody knows.
    whole = bytearray(tfrecord_bytes([b"a" * 100, b"b" * 100, b"c" * 100], checksums=True))
    whole[116:140] = bytes(24)
    file = MemorySource(bytes(whole), "x.tfrecord")
    assert content(open_tfrecord(file, "0")) == b"a" * 100
    for number in ("1", "2", "3"):
        with pytest.raises(IndexingError, match=f"116 is damaged: .*so record number {number} cannot be found"):
            open_tfrecord(file, number)


def test_a_tfrecord_cut_off_or_with_a_wrong_length_says_so() -> None:
    whole = tfrecord_bytes([b"1" * 100, b"2" * 100])
    cut, damaged = MemorySource(whole[:-1]), MemorySource(whole[:116] + b"\7" + whole[117:])
    assert content(open_tfrecord(cut, "0")) == content(open_tfrecord(damaged, "0")) == b"1" * 100
    with pytest.raises(IndexingError, match="is cut off: the record at byte 116 has 100 bytes"):
        open_tfrecord(cut, "1")
    with pytest.raises(IndexingError, match="the record at byte 116 is damaged: wrong checksum"):
        open_tfrecord(damaged, "1")


def test_a_tfrecord_of_gzip_is_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    records = [bytes(range(256)) * 9, b"", b"second"]
    whole = tfrecord_bytes(records)
    path = tmp_path / "x.tfrecord.gz"
    # Files of gzip may be joined, as TensorFlow's writer does where it flushes.
    path.write_bytes(gzip.compress(whole[:100]) + gzip.compress(whole[100:]))
    assert [content(open_source(f"{path}::{number}")) for number in (0, 2)] == [records[0], records[2]]
    with serve({"x.tfrecord.gz": path.read_bytes()}) as server:
        assert content(open_source(f"{server.url}x.tfrecord.gz::2")) == b"second"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(IndexingError, match=r"x\.tfrecord\.gz: is cut off"):
        open_source(f"{path}::0")
    path.write_bytes(gzip.compress(tfrecord_bytes([bytes(1 << 20)])))
    monkeypatch.setenv("VIDEOLOADER_LIMITS", "member_bytes=1000000")
    with pytest.raises(UnsupportedError, match=r"more than 1000000 bytes unpacked .* beyond the limit member_bytes"):
        open_source(f"{path}::0")


pieces = st.lists(st.sampled_from([RECORDIO_MAGIC, b"abcd", b"x", b"yz"]), max_size=12).map(b"".join)


@settings(max_examples=examples(60))
@given(st.lists(pieces, min_size=1, max_size=6))
def test_records_of_recordio_by_number_also_where_they_hold_the_magic(records: list[bytes]) -> None:
    data, _ = recordio_bytes(records)
    file = MemorySource(data, "x.rec")
    assert [content(open_recordio(file, str(number))) for number in range(len(records))] == records
    with pytest.raises(SourceError, match=rf"x\.rec: has no record {len(records)} \(it has {len(records)}\)"):
        open_recordio(file, str(len(records)))
    with pytest.raises(SourceError, match="neither a record's number"):
        open_recordio(file, "0/label")
    with pytest.raises(SourceError, match="is not the number of a record"):
        open_recordio(file, "9" * 5000)


def test_the_header_of_mxnets_pack_is_left_out() -> None:
    one_label = struct.pack("<IfQQ", 0, 3.0, 1, 0) + b"clip"
    two_labels = struct.pack("<IfQQff", 2, 0.0, 1, 0, 1.0, 2.0) + b"clip"
    file = MemorySource(recordio_bytes([one_label, two_labels, b"short"])[0], "x.rec")
    for form in ("", "/unpacked"):
        assert [content(open_recordio(file, f"{number}{form}")) for number in (0, 1)] == [b"clip", b"clip"]
    assert content(open_recordio(file, "2")) == b"short"
    with pytest.raises(IndexingError, match="too short for the header"):
        open_recordio(file, "2/unpacked")


@pytest.mark.parametrize(
    "head",
    [
        b"\0\0\0\x18ftypisom\0\0\2\0isomiso2",  # mp4
        b"\0\1\0\0mdat\0\0\0\0\0\0\0\0\0\0\0\0",  # QuickTime, of a multiple of 64 KiB
        b"\0\0\0\0mdat\0\0\0\0\0\0\0\0\0\0\0\0",  # to the end of the file
        b"\0\0\0\1\x67\x42\0\x1e\0\0\0\0\0\0\0\0\0\0\0\0",  # H.264
        b"\0\0\1\xba" + bytes(20),  # MPEG-PS
        b"\x1aE\xdf\xa3\1\0\0\0\0\0\0\x1f" + bytes(12),  # Matroska
        b"RIFF\0\0\1\0AVI LIST" + bytes(8),
        b"\x47\x40\0\x10\0" + bytes(20),  # MPEG-TS
        b"\xff\xd8\xff\xe0\0\x10JFIF\0\1\1" + bytes(12),
        b"FLV\1\5\0\0\0\x09" + bytes(16),
        b"OggS\0\2" + bytes(20),
    ],
)
def test_what_begins_as_a_video_has_no_header(head: bytes) -> None:
    record = head + bytes(1 << 17)
    file = MemorySource(recordio_bytes([record])[0], "x.rec")
    assert content(open_recordio(file, "0")) == record


def test_an_idx_file_beside_gives_the_keys(tmp_path: Path) -> None:
    data, starts = recordio_bytes([b"first", b"second", b"third"])
    (tmp_path / "x.rec").write_bytes(data)
    (tmp_path / "x.idx").write_text(f"70\t{starts[2]}\n5\t{starts[0]}\n6\t{starts[1]}\n8\t4\n9\t99999\n")
    with serve({path.name: path.read_bytes() for path in tmp_path.iterdir()}) as server:
        for place in (f"{tmp_path}/", server.url):
            assert [content(open_source(f"{place}x.rec::{key}")) for key in (5, 6, 70)] == [
                b"first",
                b"second",
                b"third",
            ]
            with pytest.raises(SourceError, match=r"has no record 0 \(its \.idx file lists 5\)"):
                open_source(f"{place}x.rec::0")
            for key in (8, 9):
                with pytest.raises(IndexingError, match=r"x\.rec: "):
                    open_source(f"{place}x.rec::{key}")
    (tmp_path / "x.idx").write_text("no table")
    with pytest.raises(IndexingError, match=r"x\.idx: is not a table"):
        open_source(f"{tmp_path}/x.rec::5")


@settings(max_examples=examples(100))
@given(st.data())
def test_damaged_recordio_is_an_error_or_true_records(data: st.DataObject) -> None:
    whole, _ = recordio_bytes([b"1" * 50, b"2" * 30 + b"33" + RECORDIO_MAGIC + b"4", b"5" * 10])
    broken = bytearray(whole[: data.draw(st.integers(1, len(whole)))])
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(broken) - 1), st.integers(0, 255)), max_size=3)):
        broken[at] = value
    try:
        source = open_recordio(MemorySource(bytes(broken), "x.rec"), "1")
    except VideoLoaderError as error:
        if not str(error).startswith("x.rec"):
            raise
        return
    assert len(content(source)) == source.size


@pytest.mark.parametrize("as_folder", [True, False])
def test_values_of_lmdb_by_key(tmp_path: Path, as_folder: bool) -> None:
    values = {f"clip-{number}": bytes([number]) * number * 1000 for number in range(1, 20)} | {"ü": b"umlaut"}
    path = write_lmdb(tmp_path / "db", values, as_folder=as_folder)
    assert {key: content(open_source(f"{path}::{key}")) for key in values} == values
    with pytest.raises(SourceError, match=r"db: has no key 'clip-20' \(it has 20\); there is 'clip-3'"):
        open_source(f"{path}::clip-20")


def test_an_lmdb_cut_off_is_an_error(tmp_path: Path) -> None:
    path = write_lmdb(tmp_path / "db", {"a": b"a" * 100_000}, as_folder=False)
    for size in (30_000, 5_000, 30):
        path.write_bytes(path.read_bytes()[:size])
        with pytest.raises(VideoLoaderError, match="db: "):
            open_source(f"{path}::a")


def test_zip_members_that_are_missing_damaged_or_packed_otherwise() -> None:
    data = zip_bytes({"a/clip.mp4": b"x" * 5000}, method=8)
    with pytest.raises(SourceError, match=r"x\.zip: has no member 'clip\.mp4' \(it has 1\); there are 'a/clip\.mp4'"):
        open_zip_member(MemorySource(data, "x.zip"), "clip.mp4")
    with pytest.raises(UnsupportedError, match="packed by method 12"):
        open_zip_member(MemorySource(zip_bytes({"a": b"x" * 5000}, method=12)), "a")
    with pytest.raises(IndexingError, match="is a damaged zip archive"):
        open_zip_member(MemorySource(data[:-30], "x.zip"), "a/clip.mp4")


@settings(max_examples=examples(150))
@given(st.data())
def test_damaged_zips_are_errors_or_true_members(data: st.DataObject) -> None:
    whole = zip_bytes({"a": b"1" * 50, "b": bytes(range(200))}, method=data.draw(st.sampled_from([0, 8])))
    broken = bytearray(whole)
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4)):
        broken[at] = value
    try:
        source = open_zip_member(MemorySource(bytes(broken), "x.zip"), "b")
    except VideoLoaderError as error:
        if not str(error).startswith("x.zip"):
            raise
        return
    assert len(content(source)) == source.size


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_a_zip_whose_end_record_leaves_members_out_is_refused(lost: int) -> None:
    whole = bytearray(zip_bytes({name: b"1" for name in "abc"}))
    size = whole.rindex(b"PK\5\6") + 12  # of the directory
    (all_of_it,) = struct.unpack_from("<I", whole, size)
    struct.pack_into("<I", whole, size, all_of_it // 3 * (3 - lost))
    with pytest.raises(
        IndexingError, match=rf"x\.zip: .*its directory has {3 - lost} entries, but its end record states 3"
    ):
        open_zip_member(MemorySource(bytes(whole), "x.zip"), "c")


def test_a_zip_with_a_member_whose_name_begins_with_nul() -> None:
    whole = zip_bytes({"?x": b"1", "a": b"v"}).replace(b"?x", b"\0x")
    assert content(open_zip_member(MemorySource(whole, "x.zip"), "a")) == b"v"


def test_a_zip_of_more_members_than_its_end_record_counts_or_with_more_behind_it() -> None:
    files = {f"{number}": b"" for number in range(65_540)}
    whole = bytearray(zip_bytes(files | {"last": b"v"}))
    end = whole.rindex(b"PK\5\6")
    assert struct.unpack_from("<H", whole, end + 10) == (0xFFFF,)
    assert content(open_zip_member(MemorySource(bytes(whole), "x.zip"), "last")) == b"v"
    small = bytearray(zip_bytes({"last": b"v"}) + b"PK comment")
    struct.pack_into("<H", small, small.rindex(b"PK\5\6") + 20, 10)
    assert content(open_zip_member(MemorySource(bytes(small), "y.zip"), "last")) == b"v"
    small += bytes(99)  # as some downloads end
    assert content(open_zip_member(MemorySource(bytes(small), "z.zip"), "last")) == b"v"


@pytest.mark.parametrize("method", [0, 8])
def test_a_small_file_whose_size_is_lost_is_damaged(tmp_path: Path, method: int) -> None:
    whole = bytearray(zip_bytes({"a.mp4": b"video", "a.txt": b"a dog runs"}, method=method))
    entry = whole.rindex(b"PK\1\2")
    whole[entry + 24 : entry + 28] = bytes(4)  # the size, unpacked
    (tmp_path / "a.zip").write_bytes(whole)
    with pytest.raises(IndexingError, match=r"a\.zip::a\.txt: is damaged: its checksum does not match"):
        VideoDataset.from_archives(tmp_path / "a.zip")


def test_unpacked_bytes_have_their_checksum() -> None:
    content = bytes(range(256)) * 4
    whole = bytearray(zip_bytes({"a": content}, method=8))
    stored = whole.index(b"PK\1\2") + 16  # the checksum that the directory tells
    whole[stored] ^= 1
    with pytest.raises(IndexingError, match=r"x\.zip::a: is damaged: its checksum does not match"):
        open_zip_member(MemorySource(bytes(whole), "x.zip"), "a")
