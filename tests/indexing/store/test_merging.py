"""Stores of parts become one: what it holds, which state of a video counts, and what an interruption leaves."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import struct
import subprocess
import sys
import tarfile
import tracemalloc
from contextlib import closing, suppress
from pathlib import Path

import pytest
from child_environment import SAFE_PATH
from failing_calls import outcomes_with_a_failing
from store_contents import build_here, contents, make_store

import videoloader as vl
from videoloader.errors import SourceError
from videoloader.indexing import IndexStore, merge_stores
from videoloader.indexing.store import merging


@pytest.fixture
def parts(videos: list[Path], tmp_path: Path) -> list[Path]:
    """Two stores beside each other, each of half of the videos."""
    stores = [tmp_path / "part-0.db", tmp_path / "part-1.db"]
    build_here(videos[:3], stores[0])
    build_here(videos[3:], stores[1])
    return stores


def counts(report: merging.MergeReport) -> tuple[int, int, int, int]:
    return report.added, report.replaced, report.same, report.older


def test_the_merged_store_is_the_one_of_all_videos(parts: list[Path], store_path: Path, tmp_path: Path) -> None:
    seen: list[tuple[int, int]] = []
    report = merge_stores(parts, tmp_path / "all.db", progress=lambda *told: seen.append(told))
    assert counts(report) == (6, 0, 0, 0)
    assert contents(tmp_path / "all.db") == contents(store_path)
    assert seen[-1] == (6, 6)
    assert seen == sorted(seen)


def test_merging_again_changes_nothing(parts: list[Path], tmp_path: Path) -> None:
    merge_stores(parts, tmp_path / "all.db")
    before = IndexStore(tmp_path / "all.db").content
    assert counts(merge_stores(parts, tmp_path / "all.db")) == (0, 0, 6, 0)
    assert IndexStore(tmp_path / "all.db").content == before


@pytest.mark.parametrize("times", [(10**9, 2 * 10**9), (-2000, -1000), (-1000, 1000)], ids=str)
@pytest.mark.parametrize("newest_first", [False, True])
def test_the_newest_state_of_a_video_counts(
    videos: list[Path], tmp_path: Path, newest_first: bool, times: tuple[int, int]
) -> None:
    old, new, video = tmp_path / "old.db", tmp_path / "new.db", videos[0]
    os.utime(video, (times[0], times[0]))
    build_here([video], old)
    shutil.copy(videos[2], video)
    os.utime(video, (times[1], times[1]))
    build_here([video], new)
    report = merge_stores([new, old] if newest_first else [old, new], tmp_path / "all.db")
    assert counts(report) == ((1, 0, 0, 1) if newest_first else (1, 1, 0, 0))
    assert contents(tmp_path / "all.db") == contents(new)
    # No record of the row that is gone is left behind.
    assert len(IndexStore(tmp_path / "all.db").query("SELECT key FROM records")) == 1


def test_a_newer_error_counts_and_takes_the_index_along(videos: list[Path], tmp_path: Path) -> None:
    video = videos[0]
    os.utime(video, (1e9, 1e9))
    build_here([video], tmp_path / "old.db")
    video.write_text("no video any more")
    build_here([video], tmp_path / "new.db")
    merge_stores([tmp_path / "old.db", tmp_path / "new.db"], tmp_path / "all.db")
    with pytest.raises(vl.IndexingError, match="libavformat cannot read it"):
        IndexStore(tmp_path / "all.db").get(video)


def test_of_one_state_an_index_counts_more_than_an_error(
    videos: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    build_here(videos[:1], tmp_path / "good.db")
    shutil.copy(tmp_path / "good.db", tmp_path / "bad.db")
    with sqlite3.connect(tmp_path / "bad.db") as connection:
        connection.execute("UPDATE videos SET error_type = 'DecodeError', error = 'no memory'")
        connection.execute("DELETE FROM frame_tables")
    for order in (["good.db", "bad.db"], ["bad.db", "good.db"]):
        merge_stores([tmp_path / name for name in order], tmp_path / f"{order[0]}.all")
        assert len(IndexStore(tmp_path / f"{order[0]}.all").get(videos[0])) == 60


def test_without_times_the_part_given_last_counts(videos: list[Path], tmp_path: Path) -> None:
    video = videos[0]
    build_here([video], tmp_path / "a.db", fingerprint="size")
    shutil.copy(videos[1], video)
    build_here([video], tmp_path / "b.db", fingerprint="size")
    for order in (["a.db", "b.db"], ["b.db", "a.db"]):
        merge_stores([tmp_path / name for name in order], tmp_path / f"{order[0]}.all")
        assert contents(tmp_path / f"{order[0]}.all") == contents(tmp_path / order[1])
    # The next build knows videos by the mark by which the parts did.
    assert IndexStore(tmp_path / "a.db.all").query("SELECT value FROM settings WHERE name = 'fingerprint'") == [
        ("size",)
    ]


def test_without_times_the_part_given_last_counts_also_for_videos_of_one_size(
    videos: list[Path], tmp_path: Path
) -> None:
    size = max(video.stat().st_size for video in videos)
    for video, other in zip(("a.mp4", "b.mp4"), videos[:2], strict=True):
        data = other.read_bytes()
        (tmp_path / video).write_bytes(
            data + struct.pack(">I4s", size + 16 - len(data), b"free").ljust(size + 16 - len(data), b"\0")
        )
    for name in ("a", "b"):
        (tmp_path / f"{name}.mp4").replace(tmp_path / "v.mp4")
        build_here([tmp_path / "v.mp4"], tmp_path / f"{name}.db", fingerprint="size")
    assert contents(tmp_path / "a.db") != contents(tmp_path / "b.db")
    for order, expected in (("ab", (1, 1, 0)), ("ba", (1, 1, 0)), ("aa", (1, 0, 1))):
        report = merge_stores([tmp_path / f"{name}.db" for name in order], tmp_path / f"{order}.all")
        assert (report.added, report.replaced, report.same) == expected
        assert contents(tmp_path / f"{order}.all") == contents(tmp_path / f"{order[1]}.db")


def test_keys_are_relative_to_the_parts_root_where_they_share_one(videos: list[Path], tmp_path: Path) -> None:
    folder, elsewhere = videos[0].parents[1], tmp_path / "stores"
    elsewhere.mkdir()
    for number in range(2):
        build_here(videos[number : number + 1], elsewhere / f"{number}.db", root=folder)
    stores = [elsewhere / "0.db", elsewhere / "1.db"]
    merge_stores(stores, tmp_path / "all.db")
    assert sorted(contents(tmp_path / "all.db")) == ["h264_mp4/h264_mp4.mp4", "hevc_mp4/hevc_mp4.mp4"]
    merge_stores(stores, tmp_path / "own.db", root=tmp_path)
    assert sorted(contents(tmp_path / "own.db")) == ["data/h264_mp4/h264_mp4.mp4", "data/hevc_mp4/hevc_mp4.mp4"]


def test_parts_of_several_roots_keep_their_videos(videos: list[Path], tmp_path: Path) -> None:
    stores = []
    for video in videos[:2]:
        stores.append(video.parent / "index.db")
        build_here([video], stores[-1])
    merge_stores(stores, tmp_path / "all.db")
    merged = IndexStore(tmp_path / "all.db")
    assert sorted(contents(tmp_path / "all.db")) == ["data/h264_mp4/h264_mp4.mp4", "data/hevc_mp4/hevc_mp4.mp4"]
    assert [len(merged.get(video)) for video in videos[:2]] == [60, 60]


def test_members_of_archives_keep_their_places(videos: list[Path], tmp_path: Path) -> None:
    (tmp_path / "tars").mkdir()
    with tarfile.open(tmp_path / "tars" / "a.tar", "w") as tar:
        tar.add(videos[0], "clip.mp4")
    member = f"{tmp_path}/tars/a.tar::clip.mp4"
    build_here([member], tmp_path / "tars" / "part.db")
    merge_stores([tmp_path / "tars" / "part.db"], tmp_path / "all.db", root=tmp_path)
    index = IndexStore(tmp_path / "all.db").get(member)
    assert len(index) == 60
    assert index.state is not None
    assert index.state.place is not None
    assert index.state.place.archive == f"{tmp_path}/tars/a.tar"


def test_names_that_are_not_utf8_are_kept(videos: list[Path], tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"\xff.mp4")
    shutil.copy(videos[0], odd)
    build_here([odd], tmp_path / "part.db")
    merge_stores([tmp_path / "part.db"], tmp_path / "all.db")
    assert len(IndexStore(tmp_path / "all.db").get(odd)) == 60


def test_a_database_without_tables_counts_as_a_new_store(parts: list[Path], tmp_path: Path) -> None:
    """A build or a merge that is killed may leave a file whose tables SQLite takes back later."""
    build_here([], parts[0], fingerprint="size")
    build_here([], parts[1], fingerprint="size")
    output = tmp_path / "elsewhere" / "all.db"
    output.parent.mkdir()
    with closing(sqlite3.connect(output)) as connection:
        connection.execute("PRAGMA user_version = 7")
        connection.execute("PRAGMA user_version = 0")
    assert output.stat().st_size
    merge_stores(parts, output)
    assert IndexStore(output).keys.root == str(tmp_path)
    assert IndexStore(output).query("SELECT value FROM settings WHERE name = 'fingerprint'") == [("size",)]


def test_a_process_that_is_forked_in_a_callback_does_not_go_on_with_the_merge(tmp_path: Path) -> None:
    make_store(tmp_path / "part.db", {f"{number}.mp4": 24 for number in range(100)})
    program = f"""
import os
import videoloader as vl
from videoloader.indexing.store import merging
merging._ROWS_AT_ONCE = 10
main, children = os.getpid(), []
def progress(done, total):
    if not children and os.getpid() == main:
        children.append(os.fork())
try:
    vl.merge_stores([{str(tmp_path / "part.db")!r}], {str(tmp_path / "all.db")!r}, progress=progress)
except vl.ConfigurationError as error:
    assert os.getpid() != main and "this merge was started before the process was forked" in str(error)
    os._exit(7)
assert os.getpid() == main
assert os.waitstatus_to_exitcode(os.waitpid(children[0], 0)[1]) == 7
"""
    subprocess.run([sys.executable, *SAFE_PATH, "-W", "ignore", "-c", program], timeout=200, check=True)
    assert contents(tmp_path / "all.db") == contents(tmp_path / "part.db")


SCRIPT = """
import signal
import sys
from videoloader.indexing.store import merging
signal.signal(signal.SIGINT, signal.default_int_handler)  # shells let what runs in the background ignore it
merging._ROWS_AT_ONCE = 10
def tell(done, total):
    if done == 50:
        print("half", flush=True)
        sys.stdin.read()
merging.merge_stores(sys.argv[2:], sys.argv[1], progress=tell)
"""


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_merge_leaves_a_valid_store(tmp_path: Path, end: signal.Signals) -> None:
    make_store(tmp_path / "part.db", {f"{number}.mp4": 24 for number in range(100)})
    output = tmp_path / "all.db"
    command = [sys.executable, *SAFE_PATH, "-c", SCRIPT, str(output), str(tmp_path / "part.db")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"half\n"
        process.send_signal(end)
        process.communicate()
    assert len(contents(output)) == 50
    assert counts(merge_stores([tmp_path / "part.db"], output)) == (50, 0, 50, 0)
    assert contents(output) == contents(tmp_path / "part.db")


def test_memory_does_not_grow_with_the_parts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merging, "_ROWS_AT_ONCE", 50)

    def peak(videos: int) -> int:
        store = tmp_path / f"{videos}.db"
        make_store(store, {f"{number}.mp4": 240 for number in range(videos)})
        tracemalloc.start()
        merge_stores([store], tmp_path / f"{videos}-merged.db")
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    peak(100)  # what is imported and cached once
    assert peak(2000) < 2 * peak(200)


def test_what_is_wrong_is_told(parts: list[Path], tmp_path: Path) -> None:
    with pytest.raises(vl.ConfigurationError, match="at least one index store"):
        merge_stores([], tmp_path / "all.db")
    with pytest.raises(vl.ArgumentError, match="must be a list of paths"):
        merge_stores(str(parts[0]), tmp_path / "all.db")
    with pytest.raises(vl.ConfigurationError, match="is a part and the merged store at once"):
        merge_stores(parts, parts[1])
    with pytest.raises(vl.SourceError, match="cannot be opened"):
        merge_stores([tmp_path / "none.db"], tmp_path / "all.db")
    with pytest.raises(vl.SourceError, match="cannot be written"):
        merge_stores(parts, tmp_path / "none" / "all.db")
    (tmp_path / "text.db").write_text("no store")
    with pytest.raises(vl.IndexingError, match="is not an index store"):
        merge_stores(parts, tmp_path / "text.db")
    assert not (tmp_path / "all.db").exists()


def test_a_damaged_part_does_not_take_the_others_with_it(parts: list[Path], tmp_path: Path) -> None:
    # The pages of its rows; those before them say what tables there are.
    with sqlite3.connect(parts[1]) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'frame_tables'").fetchone()
    with parts[1].open("r+b") as file:
        file.seek((page - 1) * 8192)
        file.write(b"\xff" * 8192)
    with pytest.raises(vl.IndexingError, match=r"part-1\.db: the index store cannot be read"):
        merge_stores(parts, tmp_path / "all.db")
    assert contents(tmp_path / "all.db") == contents(parts[0])


@pytest.mark.parametrize("damaged", ["videos", "sqlite_autoindex_videos_1"])
def test_a_part_whose_names_are_damaged_is_refused(parts: list[Path], tmp_path: Path, damaged: str) -> None:
    (name,) = IndexStore(parts[1]).query("SELECT source FROM videos LIMIT 1")[0]
    with closing(sqlite3.connect(parts[1])) as connection:
        (page,) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = ?", (damaged,)).fetchone()
    content = bytearray(parts[1].read_bytes())
    content[content.index(name.encode(), (page - 1) * 8192)] ^= 1
    parts[1].write_bytes(content)
    with pytest.raises(vl.IndexingError, match=r"part-1\.db: names in the index store are damaged .*build it again"):
        merge_stores(parts, tmp_path / "all.db")
    assert contents(tmp_path / "all.db") == contents(parts[0])


@pytest.mark.parametrize("call", ["stat", "lstat"])
def test_a_failing_look_at_the_output_changes_no_setting(parts: list[Path], tmp_path: Path, call: str) -> None:
    build_here([], tmp_path / "of sizes.db", fingerprint="size")
    whole = parts[0].read_bytes()

    def settings() -> object:
        (tmp_path / "merged.db").write_bytes(whole)
        with suppress(SourceError):
            merge_stores([tmp_path / "of sizes.db"], tmp_path / "merged.db")
        return IndexStore(tmp_path / "merged.db").query("SELECT * FROM settings WHERE name = 'fingerprint'")

    assert settings() == []
    assert all(isinstance(each, SourceError) or each == [] for each in outcomes_with_a_failing(call, settings))


def test_a_merged_store_is_built_on(parts: list[Path], videos: list[Path], tmp_path: Path) -> None:
    merge_stores(parts, tmp_path / "all.db")
    report = build_here(videos, tmp_path / "all.db")
    assert (report.indexed, report.unchanged) == (0, 6)
