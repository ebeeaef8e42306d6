"""The sources that rows of a table may name."""

from __future__ import annotations

import json
import os
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from example_count import examples
from failing_calls import outcomes_with_a_failing
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import videoloader as vl
from videoloader.dataset import VideoDataset
from videoloader.errors import ConfigurationError, VideoLoaderError
from videoloader.indexing import build_index
from videoloader.indexing.sources.opening import LONGEST_PATH

PICTURE = b"P5 2 2 255\nabcd"
# What is opened while this is a list.
_opened: list[str] | None = None


def _note_opened(event: str, arguments: tuple[object, ...]) -> None:
    if _opened is not None and event in ("open", "os.scandir", "os.listdir", "socket.connect"):
        _opened.append(str(arguments[0]) if event != "socket.connect" else "a server")


sys.addaudithook(_note_opened)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a root in it, and beside it what rows must not name; the working directory is the root."""
    folder = tmp_path_factory.mktemp("place").resolve()
    root, outside = folder / "root", folder / "root outside"
    for each in (root, root / "frames", root / "linked frames", outside, outside / "frames"):
        each.mkdir(parents=True)
    for each in (root, outside):
        for name in ("a.pgm", "frames/1.pgm", "frames/2.pgm"):
            (each / name).write_bytes(PICTURE)
        (each / "times.txt").write_text("0\n1\n")
        with tarfile.open(each / "a.tar", "w") as tar, zipfile.ZipFile(each / "a.zip", "w") as archive:
            for member in ("x.pgm", "../x.pgm"):
                tar.add(each / "a.pgm", member)
                archive.write(each / "a.pgm", member)
    (root / "link.pgm").symlink_to(outside / "a.pgm")
    (root / "inner.pgm").symlink_to(root / "a.pgm")
    (root / "link.tar").symlink_to(outside / "a.tar")
    (root / "link").symlink_to(outside)
    (root / "linked frames/1.pgm").symlink_to(outside / "a.pgm")
    (root / "up").symlink_to("..")
    before = os.getcwd()
    os.chdir(root)
    yield folder
    os.chdir(before)


INSIDE = [
    "a.pgm",
    "./a.pgm",
    "frames/../a.pgm",
    "inner.pgm",
    "not there.mp4",
    "frames",
    "frames/*.pgm",
    "frames::fps=24",
    "frames::timestamps=../times.txt",
    "a.tar::x.pgm",
    "a.tar::../x.pgm",
    "a.zip::x.pgm",
    "a.pgm::stream_index=0",
    "up/root/a.pgm",
]
OUTSIDE = [
    "../root outside/a.pgm",
    "frames/../../root outside/a.pgm",
    "/etc/hostname",
    "file:///etc/hostname",
    "file://localhost/etc/hostname",
    "link.pgm",
    "link/a.pgm",
    "link.tar::x.pgm",
    "link/a.tar::x.pgm",
    "up/root outside/a.pgm",
    "../root outside/not there.mp4",
    "/etc/not there::x",
    "linked frames",
    "linked frames/*.pgm",
    "link/frames",
    "link/frames/*.pgm",
    "../root outside/frames::fps=24",
    "frames::timestamps=../../root outside/times.txt",
    "frames::timestamps=/etc/hostname",
    "link.pgm::stream_index=0",
    "..",
    "/",
    # Its links lead elsewhere once the program changes its folder, or opens another file.
    "/proc/self/cwd/a.pgm",
    "/proc/self/../self/cwd/frames",
]
IN_THE_ORDER_OF_FSSPEC = [
    "zip://x.pgm::a.zip",
    "tar://x.pgm::a.tar",
    "zip://x.pgm::link/a.zip",
    "zip://x.pgm::file:///etc/hostname",
    "tar://x.pgm::FILE://localhost/etc/%68ostname",
    "zip://x.pgm::file:///etc/hostname::stream_index=0",
    "zip://x.pgm::zip://y.zip::a.zip",
]
REMOTE = [
    "http://localhost:9/a.mp4",
    "HTTPS://localhost:9/a.mp4",
    "s3://bucket/a.mp4",
    "memory://a.mp4",
    "simplecache::http://localhost:9/a.mp4",
    "simplecache::a.pgm",
    "filecache://a.pgm",
    "libarchive://x.pgm::a.tar",
    "tar://x.pgm::http://localhost:9/a.tar",
    "dir::a.pgm",
    "reference::a.json",
    "zip://x.pgm::http://localhost:9/a.zip",
    "http://localhost:9/a.tar::x.pgm",
    "http://localhost:9/a.mp4::stream_index=0",
    "github://a:b@c/d",
]


def csv(path: Path, names: list[str]) -> Path:
    path.write_text("path\n" + "".join(f'"{name}"\n' for name in names))
    return path


def json_lines(path: Path, names: list[str]) -> Path:
    path.write_text("".join(json.dumps({"path": name}) + "\n" for name in names))
    return path


def parquet(path: Path, names: list[str]) -> Path:
    import pyarrow.parquet

    pyarrow.parquet.write_table(pyarrow.Table.from_pylist([{"path": name} for name in names]), path)
    return path


def plain_list(path: Path, names: list[str]) -> Path:
    path.write_text("".join(f"{name}\n" for name in names))
    return path


def read(place: Path, names: list[str], sources: str) -> VideoDataset:
    return VideoDataset.from_csv(csv(place / "root/rows.csv", names), sources=sources)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", INSIDE)
def test_what_lies_inside_the_root_is_taken(place: Path, name: str) -> None:
    for sources in ("inside root", "local", "any"):
        assert len(read(place, [name], sources)) == 1


@pytest.mark.parametrize("name", OUTSIDE)
def test_what_leads_out_of_the_root_is_refused(place: Path, name: str) -> None:
    with pytest.raises(ConfigurationError, match=r"lies in .*root, but 1 of 2 rows name .*line 3: .* leads"):
        read(place, ["a.pgm", name], "inside root")
    assert len(read(place, [name], "local")) == len(read(place, [name], "any")) == 1


@pytest.mark.parametrize("name", IN_THE_ORDER_OF_FSSPEC)
def test_archives_of_this_machine_are_not_named_in_the_order_of_fsspec(place: Path, name: str) -> None:
    for sources in ("inside root", "local"):
        with pytest.raises(ConfigurationError, match=r"1 of 2 rows name .*line 3: .* write |is opened by fsspec"):
            read(place, ["a.pgm", name], sources)


@pytest.mark.parametrize("name", REMOTE)
def test_what_fsspec_opens_is_not_local(place: Path, name: str) -> None:
    names = [name] if "://" in name else [str(place / "root" / name), name]
    for sources in ("inside root", "local"):
        with pytest.raises(ConfigurationError, match=r"is opened by fsspec.*, or give sources='any'"):
            VideoDataset.from_paths(names[-1:], sources=sources)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "write"), [("r.csv", csv), ("r.jsonl", json_lines), ("r.parquet", parquet), ("r.txt", plain_list)]
)
def test_every_kind_of_table_is_asked(place: Path, name: str, write: Callable[[Path, list[str]], Path]) -> None:
    table = write(place / "root" / name, ["a.pgm", *OUTSIDE[:4], "http://localhost:9/a.mp4"])
    header = ["path"] if name == "r.txt" else None
    with pytest.raises(ConfigurationError, match=r"5 of 6 .*(line|row) [0-9]: '.*root outside/a\.pgm' .* and 2 more"):
        VideoDataset.from_csv(table, header=header, sources="inside root")
    assert len(VideoDataset.from_csv(table, header=header)) == 6


def test_the_root_is_that_of_the_rows(place: Path) -> None:
    table = csv(place / "rows.csv", ["a.pgm"])
    for root in (place / "root", place / "root outside", place / "root/link"):
        assert VideoDataset.from_csv(table, root=root, sources="inside root").paths == [str(root / "a.pgm")]
    assert len(VideoDataset.from_paths([place / "root/a.pgm"], sources="inside root", root=place)) == 1
    with pytest.raises(ConfigurationError, match="1 of 1 rows"):
        VideoDataset.from_paths([place / "root outside/a.pgm"], sources="inside root", root=place / "root")


@pytest.mark.parametrize("root", ["d\0", "\ud800"])
def test_a_root_that_no_folder_can_have(tmp_path: Path, root: str) -> None:
    with pytest.raises(ConfigurationError, match="root must be a folder, got "):
        VideoDataset.from_csv(csv(tmp_path / "rows.csv", ["a.mp4"]), root=root, sources="inside root")


def test_sources_are_one_of_three(place: Path) -> None:
    with pytest.raises(ConfigurationError, match="sources must be one of any, local, inside root, got 'inside'"):
        read(place, ["a.pgm"], "inside")


def test_a_link_with_a_place_longer_than_paths_leads_nowhere(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The system follows links one by one, so what lies behind this one can be opened."""
    monkeypatch.chdir(place / "root")
    deep = "deep" + f"/{'d' * 200}" * ((LONGEST_PATH - 300 - len(str(place))) // 201)
    os.makedirs(deep)
    os.symlink(os.path.abspath(deep), "short")
    for name in ("e" * 250, "f" * 250):
        os.chdir("short" if name[0] == "e" else "e" * 250)
        os.mkdir(name)
    os.chdir("f" * 250)
    os.symlink(place / "root outside", "out")
    monkeypatch.chdir(place / "root")
    name = f"short/{'e' * 250}/{'f' * 250}/out/a.pgm"
    assert vl.Video(name, device="cpu")[0].shape
    with pytest.raises(ConfigurationError, match=r"cannot be reached \(File name too long"):
        read(place, [name], "inside root")


@pytest.mark.parametrize("name", OUTSIDE)
@pytest.mark.parametrize("call", ["stat", "lstat"])
def test_one_failing_call_lets_nothing_out_of_the_root(place: Path, name: str, call: str) -> None:
    def row() -> VideoDataset:
        return VideoDataset.from_paths([name], sources="inside root", root=place / "root")

    assert all(isinstance(outcome, VideoLoaderError) for outcome in outcomes_with_a_failing(call, row))


PLACES = "a.pgm a.tar a.zip link link.pgm link.tar frames up root . .. * ? / / / times.txt %2e%2e \0"
SIGNS = (
    "::x.pgm ::fps=2 ::timestamps= ::stream_index=0 file:// zip:// zip://x.pgm:: http://localhost:9 simplecache:: dir::"
)
PARTS = st.sampled_from([*PLACES.split(" "), *SIGNS.split(), "::", "root outside", "linked frames"])


@given(st.lists(PARTS, min_size=1, max_size=7).map("".join), st.booleans())
@example("a.pgm/../link", False)
@example("a.pgm::/../../root outside/a.pgm", True)
@example("link/../root outside/a.pgm", True)
@settings(max_examples=examples(1500), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_nothing_outside_the_root_is_opened_for_a_row_whether_refused_or_taken(
    place: Path, name: str, is_relative: bool
) -> None:
    """Names put together at random from all that names are made of."""
    global _opened
    _opened = found = []
    try:
        with suppress(VideoLoaderError):
            root_of_rows = "." if is_relative else place / "root"
            build_index(VideoDataset.from_paths([name], sources="inside root", root=root_of_rows).paths[0])
    finally:
        _opened = None
    root = str(place / "root")
    imports = tuple(filter(None, sys.path))
    real = [os.path.realpath(path) for path in found if not path.startswith(imports)]
    assert all(path == root or path.startswith(f"{root}/") for path in real), (name, real)


@pytest.mark.parametrize("part", ["a::", "a/", "frames/../", "../"])
@pytest.mark.parametrize("sources", ["local", "inside root"])
def test_names_longer_than_paths_take_no_time(place: Path, part: str, sources: str) -> None:
    """Each component of a path was looked at, and each place where an archive's name may end."""
    looked_at, plain = 0, os.lstat

    def lstat(*arguments: object, **options: object) -> os.stat_result:
        nonlocal looked_at
        looked_at += 1
        return plain(*arguments, **options)  # type: ignore[arg-type]

    with pytest.MonkeyPatch.context() as context:
        context.setattr(os, "lstat", lstat)
        with suppress(ConfigurationError):
            read(place, [part * (900_000 // len(part))], sources)
    assert looked_at < 10_000


def test_rows_of_one_folder_list_it_once(place: Path) -> None:
    global _opened
    _opened = found = []
    try:
        data = VideoDataset.from_paths(
            [f"frames::fps={rate}" for rate in range(1, 50)], sources="inside root", root=place / "root"
        )
    finally:
        _opened = None
    assert (len(data), found) == (49, ["frames"])
