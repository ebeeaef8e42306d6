"""Tar archives as Python's tarfile writes them in every format, and damaged ones."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from archive_writing import tar_bytes
from example_count import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st

from videoloader.errors import IndexingError, SourceError, UnsupportedError, VideoLoaderError
from videoloader.indexing import MemorySource, open_source
from videoloader.indexing.sources.tar import open_tar_member, tar_directory

each_format = pytest.mark.parametrize("kind", [tarfile.USTAR_FORMAT, tarfile.GNU_FORMAT, tarfile.PAX_FORMAT])
FILES = {
    "short.mp4": b"short",
    "empty": b"",
    "folder/exactly one block": b"b" * 512,
    "folder/" + "long" * 30 + "/" + "n" * 90 + ".mp4": b"long name" * 100,
}


def read(data: bytes, name: str) -> bytes:
    source = open_tar_member(MemorySource(data, "x.tar"), name)
    return source.read(0, source.size)


@each_format
def test_members_are_their_bytes_in_their_order(kind: int) -> None:
    data = tar_bytes(FILES, kind)
    assert [member.name for member in tar_directory(MemorySource(data)).members()] == list(FILES)
    assert {name: read(data, name) for name in FILES} == FILES
    assert open_tar_member(MemorySource(data, "x.tar"), "short.mp4").name == "x.tar::short.mp4"


names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0/"), min_size=1, max_size=120)


@settings(max_examples=examples(60))
@given(
    st.dictionaries(names.filter(lambda name: name not in (".", "..")), st.binary(max_size=1500), max_size=6),
    st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]),
)
def test_any_names_and_contents(files: dict[str, bytes], kind: int) -> None:
    data = tar_bytes(files, kind)
    assert {name: read(data, name) for name in files} == files


@each_format
def test_links_lead_to_their_files_and_others_are_no_files(kind: int) -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=kind) as archive:
        for name, what, target in (
            ("folder", tarfile.DIRTYPE, ""),
            ("folder/clip.mp4", tarfile.REGTYPE, ""),
            ("hard.mp4", tarfile.LNKTYPE, "folder/clip.mp4"),
            ("folder/soft.mp4", tarfile.SYMTYPE, "clip.mp4"),
            ("other/far.mp4", tarfile.SYMTYPE, "../folder/soft.mp4"),
            ("round.mp4", tarfile.SYMTYPE, "round.mp4"),
            ("broken.mp4", tarfile.SYMTYPE, "missing.mp4"),
            ("pipe", tarfile.FIFOTYPE, ""),
            ("device", tarfile.CHRTYPE, ""),
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname = what, target
            member.size = 4 if what == tarfile.REGTYPE else 0
            archive.addfile(member, io.BytesIO(b"clip"))
    data = buffer.getvalue()
    for name in ("folder/clip.mp4", "hard.mp4", "folder/soft.mp4", "other/far.mp4"):
        assert read(data, name) == b"clip"
    for name in ("round.mp4", "broken.mp4", "folder", "pipe", "device"):
        with pytest.raises(
            SourceError, match=rf"no member {name!r}|member {name!r} is a link to a file that is not in"
        ):
            read(data, name)


def test_a_hard_link_leads_to_the_last_file_of_that_name_before_it() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for name, target, content in (
            ("a.mp4", "", b"oldest"),
            ("a.mp4", "", b"old"),
            ("hard.mp4", "a.mp4", b""),
            ("harder.mp4", "hard.mp4", b""),
            ("a.mp4", "", b"newer"),  # as ``tar --append`` adds a file that was replaced
            ("hard.mp4", "a.mp4", b""),
            ("a.mp4", "a.mp4", b""),  # as GNU tar writes a file that it is given twice
        ):
            member = tarfile.TarInfo(name)
            member.type, member.linkname, member.size = b"1" if target else b"0", target, len(content)
            archive.addfile(member, io.BytesIO(content))
    data = buffer.getvalue()
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        for name, content in (("a.mp4", b"newer"), ("hard.mp4", b"newer"), ("harder.mp4", b"old")):
            read_by_python = archive.extractfile(name)
            assert read_by_python is not None
            assert read(data, name) == read_by_python.read() == content
    assert [each.name for each in tar_directory(MemorySource(data)).members()].count("a.mp4") == 3


@settings(max_examples=examples(200))
@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from(["", "a", "b", "c"])), max_size=8))
@example([("a", ""), ("b", "a"), ("a", ""), ("a", "b")])
@example([("b", "a"), ("a", ""), ("a", "")])
def test_hard_links_lead_where_they_do_when_the_archive_is_unpacked(members: list[tuple[str, str]]) -> None:
    buffer, unpacked = io.BytesIO(), dict[str, bytes | None]()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for number, (name, target) in enumerate(members):
            member, content = tarfile.TarInfo(name), b"" if target else b"file %d" % number
            member.type, member.linkname, member.size = b"1" if target else b"0", target, len(content)
            archive.addfile(member, io.BytesIO(content))
            unpacked[name] = unpacked.get(target) if target else content
    for name, content in unpacked.items():
        if content is not None:
            assert read(buffer.getvalue(), name) == content
            continue
        with pytest.raises(SourceError, match="is a link to a file that is not in the archive, or not before it"):
            read(buffer.getvalue(), name)


def test_a_name_with_a_zero_byte_names_no_file() -> None:
    data = tar_bytes({"a.mp4": b"a", "b.mp4": b"b"})
    with pytest.raises(SourceError, match="has no member"):
        read(data, "a.mp4\0b.mp4")


def test_extended_headers_of_solaris_are_those_of_pax() -> None:
    data = tar_bytes({"a" * 120: b"long", "b": b"short"}, tarfile.PAX_FORMAT)
    assert data[156:157] == b"x"
    header = bytearray(data[:512])
    header[156:157], header[148:156] = b"X", b" " * 8
    header[148:156] = b"%06o\0 " % sum(header)
    assert read(bytes(header) + data[512:], "a" * 120) == b"long"


@pytest.mark.parametrize("pax_first", [False, True])
def test_a_name_in_pax_records_goes_over_a_long_name_of_gnu_tar(pax_first: bool) -> None:
    pax = _header(b"x", b"x", 14) + b"14 path=b.mp4\n".ljust(512, b"\0")
    long = _header(b"L", b"L", 101) + (b"a" * 100 + b"\0").ljust(512, b"\0")
    data = (pax + long if pax_first else long + pax) + _header(b"c", b"0", 4) + b"clip".ljust(512, b"\0") + bytes(1024)
    assert [each.name for each in tar_directory(MemorySource(data)).members()] == ["b.mp4"]


def test_a_folder_with_a_list_of_its_files_is_no_file() -> None:
    data = _header(b"clips.mp4", b"D", 7) + b"Ya.mp4\0".ljust(512, b"\0") + tar_bytes({"a.mp4": b"clip"})
    assert [each.name for each in tar_directory(MemorySource(data)).members()] == ["a.mp4"]


def test_a_number_with_an_underscore_is_damage() -> None:
    data = bytearray(tar_bytes({"a.mp4": b"clip"}))
    data[124:136], data[148:156] = b"0000000_0004"[:11] + b"\0", b" " * 8
    data[148:156] = b"%06o\0 " % sum(data[:512])
    with pytest.raises(IndexingError, match="the header at byte 0 is damaged: it has no valid size"):
        tar_directory(MemorySource(bytes(data)))


def test_the_rest_of_a_file_from_another_volume_is_refused() -> None:
    rest = _header(b"clip.ts", b"M", 4) + b"rest".ljust(512, b"\0")
    with pytest.raises(UnsupportedError, match="is a part of an archive of several volumes"):
        tar_directory(MemorySource(rest + bytes(1024)))


def test_the_label_of_an_archive_is_no_file() -> None:
    data = _header(b"clips.mp4", b"V", 0) + tar_bytes({"a.mp4": b"clip"})
    assert [each.name for each in tar_directory(MemorySource(data)).members()] == ["a.mp4"]


def test_the_later_of_two_members_with_one_name_counts() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for content in (b"old", b"newer"):
            member = tarfile.TarInfo("./clip.mp4")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    assert read(buffer.getvalue(), "clip.mp4") == b"newer"


def _header(name: bytes, kind: bytes, size: int, rest: bytes = b"") -> bytes:
    """A header of GNU tar; ``rest`` is what stands from byte 386 on, the map of a sparse file."""
    fields = name.ljust(100, b"\0") + b"0000644\0" + b"0000000\0" * 2 + b"%011o\0" % size + b"00000000000\0"
    header = fields + b" " * 8 + kind + b"\0" * 100 + b"ustar  \0"
    header = header.ljust(386, b"\0") + rest
    header = header.ljust(512, b"\0")
    return header[:148] + b"%06o\0 " % sum(header) + header[156:]


def test_sparse_files_are_refused_and_those_after_them_are_found() -> None:
    # Of GNU's old kind, whose map goes on in a block of its own; then of the kind in pax records.
    old = _header(b"old", b"S", 512, b"\0" * 96 + b"\1") + b"\0" * 512 + b"x" * 512
    records = b"22 GNU.sparse.major=1\n" + b"22 GNU.sparse.minor=0\n" + b"24 GNU.sparse.name=new\n"[:0]
    records += b"23 GNU.sparse.name=new\n"
    new = _header(b"records", b"x", len(records)) + records.ljust(512, b"\0") + _header(b"placeholder", b"0", 512)
    data = old + new + b"1\n0\n512\n".ljust(512, b"\0") + tar_bytes({"after": b"found"})
    for name in ("old", "new"):
        with pytest.raises(UnsupportedError, match=f"x.tar: member '{name}' is a sparse file"):
            read(data, name)
    assert read(data, "after") == b"found"


def test_sizes_beyond_eight_gigabytes_are_read_as_gnu_and_pax_write_them(tmp_path: Path) -> None:
    size = 9 << 30
    for kind in (tarfile.GNU_FORMAT, tarfile.PAX_FORMAT):
        path = tmp_path / f"large{kind}.tar"
        member = tarfile.TarInfo("large.mp4")
        member.size = size
        header = member.tobuf(kind)
        with path.open("wb") as file:
            file.write(header)
            file.seek(len(header) + size - 3)  # a hole
            file.write(b"end" + tar_bytes({"after": b"found"}))
        source = open_source(f"{path}::large.mp4")
        assert (source.size, source.read(size - 3, 10)) == (size, b"end")
        assert open_source(f"{path}::after").read(0, 9) == b"found"


def test_global_records_hold_for_all_members() -> None:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "all"}) as archive:
        member = tarfile.TarInfo("a")
        archive.addfile(member)
    assert read(buffer.getvalue(), "a") == b""


def test_many_global_records_are_not_read_for_each_member() -> None:
    """This would take minutes if they were."""
    buffer = io.BytesIO()
    names = [f"{number}.mp4" for number in range(4000)]
    records = {f"k{number}": "" for number in range(50_000)}
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=records) as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(name))
    assert [member.name for member in tar_directory(MemorySource(buffer.getvalue(), "x.tar")).members()] == names


def test_global_records_of_sparse_files_hold_until_they_change() -> None:
    buffer = io.BytesIO()
    records = {"GNU.sparse.major": "1"}
    with tarfile.open(fileobj=buffer, mode="w", format=tarfile.PAX_FORMAT, pax_headers=records) as archive:
        archive.addfile(tarfile.TarInfo("a"))
    with pytest.raises(UnsupportedError, match="is a sparse file"):
        read(buffer.getvalue(), "a")


def test_a_missing_member_is_an_error_that_names_near_ones() -> None:
    data = tar_bytes({"train/clip_1.mp4": b"", "clip_2.mp4": b"", "clip_3.mp4": b"", "z": b""})
    with pytest.raises(
        SourceError, match=r"x\.tar: has no member 'clip_1\.mp4' \(it has 4\); there are 'train/clip_1\.mp4'"
    ):
        read(data, "clip_1.mp4")
    with pytest.raises(SourceError, match=r"'clip_2\.mp4', 'clip_3\.mp4'"):
        read(data, "clip_25.mp4")


@pytest.mark.parametrize("method", ["gz", "bz2", "xz"])
def test_compressed_archives_are_refused(tmp_path: Path, method: str) -> None:
    path = tmp_path / "shard.tar.x"
    with tarfile.open(path, f"w:{method}") as archive:
        archive.addfile(tarfile.TarInfo("clip.mp4"))
    with pytest.raises(UnsupportedError, match=r"shard\.tar\.x: is compressed .*decompress it first"):
        open_source(f"{path}::clip.mp4")


def test_what_is_no_archive_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "diary"
    path.write_bytes(b"Dear diary, " * 99)
    with pytest.raises(UnsupportedError, match="diary: is not an archive"):
        open_source(f"{path}::clip.mp4")
    with pytest.raises(SourceError, match=r"missing\.tar: cannot be opened \(No such file"):
        open_source(f"{tmp_path}/missing.tar::clip.mp4")


@settings(max_examples=examples(150))
@given(st.data())
def test_cut_off_and_damaged_archives_are_errors_or_give_true_members(data: st.DataObject) -> None:
    whole = bytearray(tar_bytes(FILES, data.draw(st.sampled_from([tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]))))
    end = len(whole.rstrip(b"\0"))
    broken = bytearray(whole)
    if data.draw(st.booleans()):
        del broken[data.draw(st.integers(1, end)) :]
    for at, value in data.draw(st.lists(st.tuples(st.integers(0, end), st.integers(0, 255)), max_size=3)):
        if at < len(broken):
            broken[at] = value
    try:
        members = tar_directory(MemorySource(bytes(broken), "x.tar")).members()
    except VideoLoaderError as error:
        if error.source != "x.tar":
            raise
        return
    for member in members:
        assert member.offset < 0 or member.offset + member.size <= len(broken)


def test_an_archive_cut_off_in_a_member_says_so() -> None:
    with pytest.raises(IndexingError, match=r"x\.tar: is cut off: the member at byte 0 ends at byte 612"):
        read(tar_bytes({"clip.mp4": b"x" * 100})[:600], "clip.mp4")


def test_a_directory_is_walked_once_while_the_archive_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "x.tar"
    path.write_bytes(tar_bytes({"a": b"1"}))
    assert tar_directory(open_source(path)) is tar_directory(open_source(path))
    path.write_bytes(tar_bytes({"a": b"1", "b": b"22" * 9000}))
    assert open_source(f"{path}::b").size == 18000


def test_an_archive_cut_off_behind_a_member_s_bytes_says_so() -> None:
    whole = tar_bytes({"a.mp4": b"a" * 700, "b.mp4": b"b" * 700}, tarfile.USTAR_FORMAT)
    with pytest.raises(IndexingError, match="is cut off in the member before byte 1536"):
        tar_directory(MemorySource(whole[:1300]))
    assert len(tar_directory(MemorySource(whole[:3072]))) == 2  # only what marks the end is missing


def test_a_header_of_zeros_is_no_end() -> None:
    whole = tar_bytes({"a.mp4": b"a" * 700, "b.mp4": b"b" * 700}, tarfile.USTAR_FORMAT)
    with pytest.raises(IndexingError, match="the header at byte 1536 is damaged: it holds zeros"):
        tar_directory(MemorySource(whole[:1536] + bytes(512) + whole[2048:]))


def test_a_name_that_no_file_can_have_is_not_found(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "a.tar", "w") as archive:
        archive.add(__file__, "a.mp4")
    with pytest.raises(SourceError, match="has no"):
        open_source(f"{tmp_path / 'a.tar'}::00\ud800.mp4")
