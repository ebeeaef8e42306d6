"""Videos with odd names in a store: each has one key, and the key leads back to that video and no other."""

from __future__ import annotations

import os
import shutil
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from archive_writing import write_lmdb
from image_files import write_frames
from store_contents import build_here

import videoloader as vl
from videoloader.errors import StaleIndexError
from videoloader.indexing import IndexStore, build_store

Sample = Callable[[str], Path]


@pytest.fixture
def short(sample: Sample) -> Path:
    """A video of 60 frames."""
    return sample("h264_mp4")


@pytest.fixture
def other(sample: Sample) -> Path:
    """A video of 60 frames, of another codec."""
    return sample("vp9_webm")


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def codecs(names: list[str], store: str = "s.db") -> list[str]:
    """The codec of each video, by the store; what it says of the others must not matter."""
    opened = IndexStore(store, verify=False)
    assert len(opened.frame_counts(names)[1]) == 0
    return [opened.get(name).stream.codec for name in names]


def given_back(store: str = "s.db") -> list[str]:
    return list(vl.VideoDataset.from_store(store).paths)


def test_an_archive_that_goes_while_it_is_compared_is_no_longer_there(
    short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.write(short, "m.mp4")
    build_here(["a.zip::m.mp4"], "s.db")
    plain = os.path.isfile

    def goes(path: str) -> bool:
        there = plain(path)
        if there and os.fspath(path).endswith("a.zip"):
            os.unlink(path)
        return there

    monkeypatch.setattr(os.path, "isfile", goes)
    with pytest.raises(StaleIndexError, match="no longer exists"):
        IndexStore("s.db").get("a.zip::m.mp4")


@pytest.mark.parametrize("kind", ["mtime", "size", "content"])
def test_a_file_url_is_the_path_of_its_file(short: Path, here: Path, kind) -> None:
    path = Path(shutil.copy(short, "a b.mp4"))
    url = f"file://{here}/a%20b.mp4"
    assert build_here([path, url], "s.db", fingerprint=kind).indexed == 1
    assert given_back() == [str(here / path)]
    path.write_bytes(short.read_bytes()[:-9])
    for name in (url, str(path)):
        with pytest.raises(StaleIndexError):
            IndexStore("s.db").get(name)


@pytest.mark.parametrize("name", ["tar", "simplecache", "cached", "dir", "reference"])
def test_an_archive_may_be_named_like_a_chain_of_urls(short: Path, other: Path, here: Path, name: str) -> None:
    with zipfile.ZipFile(name, "w") as archive:
        archive.writestr("memory://a.mp4", short.read_bytes())
        archive.writestr("http://127.0.0.1:9/b.mp4", other.read_bytes())
    rows = list(vl.VideoDataset.from_archives(str(here / name), video="mp4").paths)
    assert build_here(rows, "s.db").indexed == 2
    assert given_back() == rows
    assert codecs(rows) == ["h264", "vp9"]
    vl.merge_stores(["s.db"], "merged.db")
    assert given_back("merged.db") == rows
    (here / "moved").mkdir()
    for each in (name, "s.db"):
        shutil.move(each, here / "moved" / each)
    assert codecs(given_back("moved/s.db"), "moved/s.db") == ["h264", "vp9"]


@pytest.mark.parametrize("name", ["link/..", "link/..::fps=5", "link/../frames/", "link/.././frames"])
def test_two_dots_after_a_link_lead_where_the_system_goes(here: Path, name: str) -> None:
    os.makedirs("x/one")
    os.symlink("x/one", "link")
    for folder, count in (("x", 3), ("x/frames", 3), ("frames", 5), (".", 5)):
        write_frames(here / folder, [f"{number}.png" for number in range(count)])
    straight = name.replace("link/..", ".")
    os.makedirs("x/one/stores")
    assert build_here([name, straight], "x/one/stores/s.db").indexed == 2
    assert [len(IndexStore("x/one/stores/s.db").get(each)) for each in (name, straight)] == [3, 5]
    assert [len(vl.Video(each, device="cpu")) for each in given_back("x/one/stores/s.db")] == [3, 5]


def test_a_root_may_lead_through_a_link(short: Path, other: Path, here: Path) -> None:
    os.makedirs("x/one")
    os.symlink("x/one", "link")
    shutil.copy(short, "x/a.mp4")
    shutil.copy(other, "a.mp4")
    build_here(["x/a.mp4"], "s.db", root="x")
    (path,) = vl.VideoDataset.from_store(IndexStore("s.db", root="link/..")).paths
    assert os.path.samefile(path, "x/a.mp4")


def test_a_link_that_is_switched_leads_to_another_video(short: Path, other: Path) -> None:
    for version, video in (("v1", short), ("v2", other)):
        os.makedirs(f"{version}/clips")
        shutil.copy(video, f"{version}/a.mp4")
    for version in ("v1", "v2"):
        if os.path.islink("now"):
            os.unlink("now")
        os.symlink(f"{version}/clips", "now")
        assert build_here(["now/../a.mp4"], "s.db").indexed == 1
    assert codecs(["v1/a.mp4", "v2/a.mp4"]) == ["h264", "vp9"]


def test_colons_may_begin_the_name_of_a_file(short: Path, other: Path, here: Path) -> None:
    os.makedirs("root/dir")
    names = ["root/dir/..::x.mp4", "root/dir/.::x.mp4", "root/dir/::x.mp4", "root::x.mp4", "root/dir::x.mp4"]
    for name in names:
        shutil.copy(other if name.count("/") == 2 else short, name)
    assert build_here(names, "root/s.db").indexed == 5
    assert codecs(names, "root/s.db") == ["vp9"] * 3 + ["h264"] * 2
    assert given_back("root/s.db") == [str(here / name) for name in names]


@pytest.mark.parametrize("suffix", ["", "/*.png", "/*.png::fps=5", "::fps=5"])
def test_colons_may_begin_the_name_of_a_folder_of_images(here: Path, suffix: str) -> None:
    folders = ["r/q/..::x", "r::x", "r/q/.::x", "r/q::x", "r/::y", "r::y"]
    for count, folder in enumerate(folders, 2):
        write_frames(here / folder, [f"{number}.png" for number in range(count)])
    names = [folder + suffix for folder in folders]
    (here / "stores").mkdir()
    assert build_here(names, "stores/s.db").indexed == 6
    for some in (names, given_back("stores/s.db")):
        assert [len(IndexStore("stores/s.db").get(name)) for name in some] == [2, 3, 4, 5, 6, 7]
        assert [len(vl.Video(name, device="cpu")) for name in some] == [2, 3, 4, 5, 6, 7]


def test_a_folder_of_images_is_one_however_it_is_spelled(here: Path) -> None:
    write_frames(here / "fr", ["0.png", "1.png"])
    (here / "stores").mkdir()
    names = [f"{here}/fr/::fps=5", "fr::fps=5", f"file://{here}/fr::fps=5", f"/{here}//fr::fps=5"]
    assert build_here(names[:1], "stores/s.db").indexed == 1
    for name in names:
        assert len(IndexStore("stores/s.db").get(name)) == 2
        assert IndexStore("stores/s.db").frame_counts([name, f"{here}/other.mp4"])[0].tolist() == [2, 0]
        assert build_here([name], "stores/s.db").unchanged == 1


@pytest.mark.parametrize("name", ["cached::v.mp4", "memory://q/v.mp4"])
def test_a_file_may_be_named_like_a_url(short: Path, other: Path, here: Path, name: str, monkeypatch) -> None:
    for folder, video in (("one", short), ("two", other)):
        (here / folder / name).parent.mkdir(parents=True)
        shutil.copy(video, here / folder / name)
    for spelled in (name, f"{name}::stream_index=0"):
        monkeypatch.chdir(here / "one")
        build_here([spelled], here / "s.db")
        monkeypatch.chdir(here / "two")
        with pytest.raises(vl.NotIndexedError):
            IndexStore(here / "s.db").get(spelled)
        assert vl.Video(spelled, device="cpu").index.stream.codec == "vp9"


def test_an_archive_whose_name_is_not_utf8_is_exported(short: Path, here: Path) -> None:
    with zipfile.ZipFile("\udcff.zip", "w") as archive:
        archive.write(short, "m.mp4")
    assert build_here(["\udcff.zip::m.mp4"], "s.db").indexed == 1
    store = IndexStore("s.db")
    store.to_csv("s.csv")
    assert "m.mp4" in Path("s.csv").read_text()
    assert store.get("\udcff.zip::m.mp4").state.place is not None


def test_two_slashes_begin_a_path_as_one_does(short: Path, here: Path) -> None:
    assert build_here([short, f"/{short}"], f"/{here}/s.db").indexed == 1
    assert codecs([f"/{short}", str(short)], f"/{here}/s.db") == ["h264", "h264"]


def test_colons_may_be_in_the_name_of_a_folder(short: Path, other: Path, here: Path) -> None:
    os.makedirs("one/x::y")
    shutil.copy(short, "one/x::y/a.mp4")
    shutil.copy(other, "one/other.mp4")
    with zipfile.ZipFile("one/x::y/a.zip", "w") as archive:
        archive.writestr("b/../c.mp4", short.read_bytes())
    names = ["one/x::y/../other.mp4", "one/x::y/a.mp4", "one/x::y/./a.mp4", "one/x::y//a.zip::b/../c.mp4"]
    assert build_here(names, "one/x::y/s.db").indexed == 3
    shutil.copytree("one", "two")
    assert given_back("two/x::y/s.db") == [
        str(here / name) for name in ("one/other.mp4", "two/x::y/a.mp4", "two/x::y/a.zip::b/../c.mp4")
    ]


def test_keys_of_a_database_may_be_any_bytes(short: Path, other: Path) -> None:
    keys = [struct.pack(">I", number).decode() for number in (0, 0x2F000000)]  # the second is "/" and zeros
    write_lmdb(Path("l.lmdb"), dict.fromkeys(keys, short.read_bytes()))
    shutil.copy(other, "a.mp4")
    data = vl.VideoDataset.from_archives("l.lmdb", video="") + vl.VideoDataset.from_paths(["a.mp4"])
    assert build_here(data.paths, "s.db").indexed == 3
    assert codecs(list(data.paths)) == ["h264", "h264", "vp9"]
    for some in (data, data[[2]]):
        loader = vl.VideoLoader(some, [0], batch_size=3, device="cpu", num_workers=0, index="s.db")
        assert [len(batch) for batch in loader] == [len(some)]
    with vl.VideoLoader(data[[0]], [0], batch_size=1, device="cpu", num_workers=0, index="s.db") as loader:
        assert next(iter(loader)).paths == [data.paths[0]]


@pytest.mark.parametrize("spelled", ["{}", "file://{}"])
def test_a_file_may_be_named_like_a_member_or_a_stream(short: Path, other: Path, here: Path, spelled: str) -> None:
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.writestr("m.mp4", short.read_bytes())
    shutil.copy(short, "a.mp4")
    names = [spelled.format(here / name) for name in ("a.zip::m.mp4", "a.mp4::stream_index=0")]
    assert build_here(names, "s.db").indexed == 2
    for name in ("a.zip::m.mp4", "a.mp4::stream_index=0"):
        shutil.copy(other, name)
    for name in names:
        assert vl.Video(name, device="cpu").index.stream.codec == "vp9"
        with pytest.raises(StaleIndexError):
            IndexStore("s.db").get(name)
        data = vl.VideoDataset.from_paths([name])
        with pytest.raises(StaleIndexError):
            vl.VideoLoader(data, [0], batch_size=1, device="cpu", num_workers=0, index="s.db")
    assert build_here(names, "s.db").indexed == 2
    assert codecs(names) == ["vp9", "vp9"]


def test_a_folder_of_images_may_lie_beside_a_file_with_the_beginning_of_its_name(here: Path) -> None:
    (here / "x").write_bytes(b"no video")
    write_frames(here / "x::fr", ["0.png", "1.png"])
    data = vl.VideoDataset.from_paths(["x::fr/*.png"])
    assert build_here(data.paths, "s.db").indexed == 1
    with vl.VideoLoader(data, [0], batch_size=1, device="cpu", num_workers=0, index="s.db") as loader:
        assert len(next(iter(loader))) == 1


def test_the_original_and_the_copy_of_a_data_set_are_two(short: Path, other: Path, here: Path) -> None:
    (here / "one").mkdir()
    shutil.copy(short, "one/v.mp4")
    shutil.copy(short, "one/w.mp4")
    build_here(["one/v.mp4", "one/w.mp4"], "one/s.db")
    shutil.copytree("one", "two")
    shutil.copy(other, "two/v.mp4")
    names = ["one/v.mp4", "two/v.mp4", "two/w.mp4"]
    with pytest.raises(vl.NotIndexedError):
        IndexStore("two/s.db").get("one/v.mp4")
    build_here(names, "two/s.db")
    assert codecs(names, "two/s.db") == ["h264", "vp9", "h264"]
    assert sorted(given_back("two/s.db")) == sorted(str(here / name) for name in names)
    vl.merge_stores(["one/s.db"], "two/s.db")
    assert len(IndexStore("two/s.db")) == 4


def test_a_root_may_have_two_names(short: Path, here: Path) -> None:
    (here / "one").mkdir()
    os.symlink("one", "link")
    shutil.copy(short, "one/v.mp4")
    build_here(["one/v.mp4"], "one/s.db")
    assert codecs(["one/v.mp4", "link/v.mp4"], "link/s.db") == ["h264", "h264"]
    assert build_here(["link/v.mp4", "one/v.mp4"], "link/s.db").unchanged == 1


def test_a_data_set_may_move_into_a_folder_of_its_root(short: Path, here: Path) -> None:
    shutil.copy(short, "v.mp4")
    build_here(["v.mp4"], "s.db")
    (here / "moved").mkdir()
    for name in ("v.mp4", "s.db"):
        shutil.move(name, here / "moved" / name)
    assert given_back("moved/s.db") == [str(here / "moved/v.mp4")]
    assert codecs(["moved/v.mp4"], "moved/s.db") == ["h264"]


def test_a_store_and_its_root_may_be_file_urls(short: Path, here: Path) -> None:
    folder = here / "a b"
    folder.mkdir()
    shutil.copy(short, folder / "v.mp4")
    url = folder.as_uri()
    assert build_store(["a b/v.mp4"], f"{url}/s.db", root=url).indexed == 1
    assert vl.merge_stores([f"{url}/s.db"], f"{url}/merged.db", root=url).added == 1
    for store in (IndexStore(f"{url}/s.db"), IndexStore(f"{url}/merged.db", root=url)):
        assert store.get("a b/v.mp4").stream.codec == "h264"
    shutil.move(folder, here / "moved")
    moved = IndexStore("moved/merged.db", root=(here / "moved").as_uri())
    assert moved.get("moved/v.mp4").stream.codec == "h264"


def test_stores_and_roots_on_servers_are_refused(short: Path) -> None:
    build_here([short], "s.db")
    for use in (
        lambda: vl.merge_stores(["s.db"], "memory://merged.db"),
        lambda: vl.merge_stores(["memory://s.db"], "merged.db"),
        lambda: build_store([short], "s.db", root="memory://"),
        lambda: IndexStore("memory://s.db"),
        lambda: IndexStore("s.db", root="memory://"),
    ):
        with pytest.raises(vl.ConfigurationError, match="a store and its root are paths of this machine"):
            use()


@pytest.mark.parametrize("odd", ["v.mp4/", "v.mp4/.", "gone/../v.mp4", "./a.zip/.::m.mp4", "gone/../a.zip::m.mp4"])
@pytest.mark.parametrize("together", [True, False])
def test_a_name_that_leads_to_no_file_does_no_harm_to_the_row_of_another(short: Path, odd: str, together: bool) -> None:
    shutil.copy(short, "v.mp4")
    with zipfile.ZipFile("a.zip", "w") as archive:
        archive.write(short, "m.mp4")
    names = ["v.mp4", "a.zip::m.mp4"]
    for some in [[*names, odd]] if together else [names, [odd]]:
        build_here(some, "s.db")
    assert codecs(names) == ["h264", "h264"]
    assert sorted(given_back()) == sorted(map(os.path.abspath, names))
    with pytest.raises(vl.SourceError):
        vl.Video(odd, device="cpu")


@pytest.mark.parametrize("chain", ["simplecache", "filecache", "tar", "dir", "cached"])
@pytest.mark.parametrize("kind", ["mtime", "size"])
def test_a_chain_of_fsspec_is_not_a_member_of_an_archive_of_that_name(
    short: Path, other: Path, here: Path, chain: str, kind
) -> None:
    shutil.copy(other, "a.mp4")
    with zipfile.ZipFile(chain, "w") as archive:
        archive.write(short, "a.mp4")
    member = f"{here}/{chain}::a.mp4"
    build_store([member, f"{chain}::a.mp4"], "s.db", workers=1, fingerprint=kind)
    data = vl.VideoDataset.from_paths([member])
    with vl.VideoLoader(data, vl.WholeVideo(), batch_size=1, device="cpu", num_workers=0, index="s.db") as loader:
        assert next(iter(loader)).frames.shape[1] == len(vl.Video(member, device="cpu"))
    assert codecs([member]) == ["h264"]


def test_a_stream_of_a_file_that_ends_with_colons_is_compared_with_that_file(short: Path, other: Path) -> None:
    shutil.copy(short, "b")
    shutil.copy(other, "b::")
    name = "b::::stream_index=0"
    build_here(["b", name], "s.db")
    assert codecs(["b", name]) == ["h264", "vp9"]
    data = vl.VideoDataset.from_paths([name])
    with vl.VideoLoader(data, [0], batch_size=1, device="cpu", num_workers=0, index="s.db") as loader:
        assert next(iter(loader)).paths == [name]


def test_streams_of_files_in_a_folder_that_begins_with_colons_are_found_again(
    short: Path, here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "::d").mkdir()
    monkeypatch.chdir(here / "::d")
    shutil.copy(short, "v.mp4")
    build_here(["v.mp4::stream_index=0"], "s.db")
    assert codecs(given_back()) == ["h264"]


def test_what_is_gone_is_told_whatever_its_name(short: Path, here: Path) -> None:
    def make(folder: str) -> list[str]:
        write_lmdb(here / folder / "d.lmdb", {"k": short.read_bytes()})
        with zipfile.ZipFile(here / folder / "a.zip", "w") as archive:
            archive.write(short, "m.mp4")
        write_frames(here / folder / "im", ["0.png", "1.png"])
        for name in ("v.mp4", "w.mp4", "::x.mp4"):
            shutil.copy(short, here / folder / name)
        names = ["d.lmdb::k", "a.zip::m.mp4", "im::fps=24", "im/*.png", "v.mp4::stream_index=0", "w.mp4", "::x.mp4"]
        return [str(here / folder / name) for name in names]

    (here / "a::b").mkdir()
    (here / "s").mkdir()
    stays, goes = [make(folder) for folder in ("a::b", "s")]
    assert build_here([*stays, *goes], "s.db").indexed == 14
    assert build_here(goes[:1], "s.db", prune=True).vanished == []
    shutil.rmtree("s")
    report = build_here(stays[:1], "s.db")
    assert (sorted(report.vanished), report.pruned) == (sorted(goes), False)
    build_here(stays[:1], "s.db", prune=True)
    assert sorted(given_back()) == sorted(stays)


@pytest.mark.parametrize("name", ["zip://m.mp4::a.zip", "tar://m.mp4::file://{here}/a.zip", "zip://m.mp4::dir::a.zip"])
def test_archives_of_this_machine_have_one_order_of_names(short: Path, here: Path, name: str) -> None:
    for archive in ("a.zip", "dir::a.zip"):
        with zipfile.ZipFile(archive, "w") as opened:
            opened.write(short, "m.mp4")
    name = name.format(here=here)
    right = f"{name.partition('::')[2]}::m.mp4"
    for odd in (name, f"{name}::stream_index=0"):
        with pytest.raises(vl.ConfigurationError, match="names an archive on this machine: write ") as told:
            vl.Video(odd, device="cpu")
        assert right in str(told.value)
    (unreadable,) = build_here([name], "s.db").unreadable
    assert "write " in unreadable[1]
    if not right.startswith("dir::"):  # which fsspec reads in its own way
        assert vl.Video(right, device="cpu").index.stream.codec == "h264"


def test_a_file_url_is_no_relative_path(short: Path, other: Path, here: Path) -> None:
    name = f"file://{here}/p.zip::m.mp4"
    with zipfile.ZipFile("p.zip", "w") as archive:
        archive.write(short, "m.mp4")
    folder = here / f"file:{here}"
    folder.mkdir(parents=True)
    with zipfile.ZipFile(folder / "p.zip", "w") as archive:
        archive.write(other, "m.mp4")
    build_here([name, str(folder / "p.zip::m.mp4")], "s.db")
    assert codecs([name, str(folder / "p.zip::m.mp4")]) == ["h264", "vp9"]
    data = vl.VideoDataset.from_paths([name])
    with vl.VideoLoader(data, vl.WholeVideo(), batch_size=1, device="cpu", num_workers=0, index="s.db") as loader:
        assert next(iter(loader)).frames.shape[1] == len(vl.Video(name, device="cpu"))


def test_patterns_and_names_with_stars_go_when_nothing_has_their_name(short: Path, here: Path) -> None:
    write_frames(here / "im", ["0.png", "1.png"])
    for name in ("why?.mp4", "v.mp4"):
        shutil.copy(short, name)
    build_here(["im/*.png", "im/*.png::fps=3", "im/*.png::fps=none", "why?.mp4", "v.mp4"], "s.db")
    assert build_here(["v.mp4"], "s.db").vanished == []
    for name in ("im/0.png", "im/1.png", "why?.mp4"):
        os.unlink(name)
    gone = build_here(["v.mp4"], "s.db", prune=True).vanished
    assert gone == [f"{here}/{name}" for name in ("im/*.png", "im/*.png::fps=3", "im/*.png::fps=none", "why?.mp4")]


def test_a_file_that_is_gone_from_a_folder_takes_no_other_s_row(short: Path) -> None:
    os.makedirs("s::d")
    os.makedirs("s")
    shutil.copy(short, "s::d/x.mp4")
    report = build_here(["s::d/x.mp4", "s/::d/x.mp4"], "s.db")
    assert (report.indexed, len(report.unreadable)) == (1, 1)
    assert codecs(["s::d/x.mp4"]) == ["h264"]
