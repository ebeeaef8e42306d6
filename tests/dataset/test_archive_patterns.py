"""Names of archives that are patterns."""

from __future__ import annotations

import errno
import glob
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import fsspec
import pytest
from archive_writing import tar_bytes
from example_count import examples
from fsspec.implementations.memory import MemoryFileSystem
from fsspec.spec import AbstractFileSystem
from hypothesis import given, settings
from hypothesis import strategies as st

import videoloader as vl
from videoloader.dataset.archive_patterns import names_of_archives


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


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tree") / "1/2/3/4/5"  # so deep that no pattern leads out of it
    for name in ("a", "ab", ".h", "a/b/c", "a/.h/b", "a/b/a.tar"):
        (root / name).mkdir(parents=True, exist_ok=True)
    for name in ("a.tar", ".h/a.tar", "a/a.tar", "a/.a.tar", "a/b/b.tar", "a/b/c/a.tar", "ab/b.tar", "a/.h/b/a.tar"):
        (root / name).touch()
    (root / "link").symlink_to("a")
    (root / "dangling.tar").symlink_to("nothing")
    (root / "a/through.tar").symlink_to("a.tar/nothing")  # the system's word for this is another one
    return root


PARTS = [
    "*",
    "**",
    "a",
    "b",
    "a*",
    "?",
    "[ab]",
    "[!a]*",
    ".*",
    ".h",
    "..",
    ".",
    "link",
    "a.tar",
    "*.tar",
    "nothing",
    "",
]


@given(st.lists(st.sampled_from(PARTS), min_size=1, max_size=5).map("/".join), st.booleans())
@settings(max_examples=examples(600))
def test_local_patterns_match_what_glob_finds(tree: Path, pattern: str, is_relative: bool) -> None:
    if glob.has_magic(pattern) and pattern.count("**") < 2:  # glob needs hours for more
        with pytest.MonkeyPatch.context() as context:
            context.chdir(tree)
            name = pattern.lstrip("/") if is_relative else f"{tree}/{pattern}"
            # It gives "nothing/" for "nothing/**".
            wanted = {os.path.normpath(path) for path in glob.glob(name, recursive=True) if os.path.lexists(path)}
            if not wanted:
                with pytest.raises(vl.ConfigurationError, match="no archive fits the pattern"):
                    names_of_archives(name)
                return
            found = names_of_archives(name)
            assert {os.path.normpath(path) for path in found} == wanted
            assert len(found) == len(set(found))


def test_a_file_url_may_be_a_pattern(tree: Path) -> None:
    assert names_of_archives(f"file://{tree}/a/b/[b].tar") == [f"{tree}/a/b/b.tar"]


def test_many_levels_of_folders_match_once(tree: Path) -> None:
    assert names_of_archives(f"{tree}/**/**/*/**/**/**/b.tar") == [
        f"{tree}/a/b/b.tar",
        f"{tree}/ab/b.tar",
        f"{tree}/link/b/b.tar",
    ]


def test_a_link_that_leads_nowhere_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "a.tar").touch()
    (tmp_path / "loop").symlink_to("loop")
    (tmp_path / "loop.tar").symlink_to("loop.tar")
    assert names_of_archives(f"{tmp_path}/*.tar") == [f"{tmp_path}/a.tar", f"{tmp_path}/loop.tar"]
    assert names_of_archives(f"{tmp_path}/**/a.tar") == [f"{tmp_path}/a.tar"]


def test_escapes_of_file_urls_are_no_patterns(tmp_path: Path) -> None:
    for name in ("x", "[x]", "%41", "A"):
        (tmp_path / name).mkdir()
        (tmp_path / name / f"{name}.tar").touch()
    assert names_of_archives(f"file://{tmp_path}/%5Bx%5D/*.tar") == [f"{tmp_path}/[x]/[x].tar"]
    assert names_of_archives(f"file://{tmp_path}/[%41]/*.tar") == [f"{tmp_path}/A/A.tar"]
    assert set(names_of_archives(f"local://{tmp_path}/*/*.tar")) == {
        f"{tmp_path}/{name}/{name}.tar" for name in ("x", "[x]", "%41", "A")
    }


@pytest.mark.parametrize("url", ["simplecache::memory://h/*.tar", "zip://*.tar::x.zip", "dir://*.tar::memory://h"])
def test_patterns_of_chains_are_refused(url: str) -> None:
    with pytest.raises(vl.ConfigurationError, match="a pattern of chained URLs is not expanded: name the archives"):
        names_of_archives(url)


def test_links_to_folders_that_contain_them_match_once(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.tar").touch()
        (tmp_path / name / "up").symlink_to("..")
        (tmp_path / name / "itself").symlink_to(".")
    assert names_of_archives(f"{tmp_path}/**/x.tar") == [f"{tmp_path}/a/x.tar", f"{tmp_path}/b/x.tar"]


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="everything can be read")
@pytest.mark.parametrize(("mode", "pattern", "found"), [
    (0o000, "*/x.tar", None), (0o444, "*/x.tar", None), (0o111, "*/x.tar", 2), (0o111, "*/*.tar", None),
    (0o000, "**/x.tar", None), (0o000, "a/*.tar", 1),
])  # fmt: skip
def test_a_folder_that_cannot_be_read_is_no_folder_without_archives(
    tmp_path: Path, mode: int, pattern: str, found: int | None
) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.tar").write_bytes(tar_bytes({"a.mp4": b"v"}))
    (tmp_path / "b").chmod(mode)
    try:
        if found is not None:
            assert len(vl.VideoDataset.from_archives(tmp_path / pattern)) == found
        else:
            with pytest.raises(vl.SourceError, match=r"b: cannot be read \(Permission denied\)"):
                vl.VideoDataset.from_archives(tmp_path / pattern)
    finally:
        (tmp_path / "b").chmod(0o755)


@pytest.fixture
def two_folders(tmp_path: Path) -> Path:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / "x.tar").write_bytes(tar_bytes({"a.mp4": b"v"}))
    return tmp_path


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE, errno.EIO, errno.ENOTCONN])
@pytest.mark.parametrize(
    ("failing", "pattern"),
    [
        ("scandir", "*/*.tar"),
        ("scandir", "**/*.tar"),
        ("scandir", "[ab]/**"),
        ("lstat", "*/x.tar"),
        ("stat", "**/x.tar"),
    ],
)
def test_what_cannot_be_reached_is_an_error(
    two_folders: Path, monkeypatch: pytest.MonkeyPatch, failing: str, pattern: str, number: int
) -> None:
    """As on a lost mount: ``glob.glob`` would give the archives of the other folder."""
    plain, lost = getattr(os, failing), str(two_folders / "b")

    def fail(path: Any = ".", *arguments: Any, **options: Any) -> Any:
        if str(path).startswith(lost):
            raise OSError(number, os.strerror(number))
        return plain(path, *arguments, **options)

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(vl.SourceError, match=rf"b: cannot be read \({os.strerror(number)}\)"):
        vl.VideoDataset.from_archives(two_folders / pattern)


@pytest.mark.parametrize("name", ["a[1].tar", "a{1,2}.tar"])
def test_a_name_that_cannot_be_looked_up_is_no_pattern(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for each in (name, "a1.tar", "a2.tar"):
        (tmp_path / each).touch()
    plain = os.stat

    def fail(path: Any, *arguments: Any, **options: Any) -> Any:
        if str(path).endswith(name):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return plain(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", fail)
    assert names_of_archives(tmp_path / name) == [str(tmp_path / name)]


class _Bucket(MemoryFileSystem):
    """Lists folders as object stores do, each with a request that may fail."""

    protocol = "bucket"
    store: dict[str, Any] = {}  # noqa: RUF012 - as in the base class
    pseudo_dirs = [""]  # noqa: RUF012 - as in the base class
    failing = ""
    find = AbstractFileSystem.find

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        if _Bucket.failing and path.rstrip("/").endswith(_Bucket.failing):
            raise OSError(errno.EIO, "503 Slow Down")
        return super().ls(path, detail=detail, **options)

    @classmethod
    def _strip_protocol(cls, path: str) -> str:
        return f"/{path.removeprefix(f'{cls.protocol}://').strip('/')}".rstrip("/")


@pytest.fixture
def bucket() -> Iterator[type[_Bucket]]:
    fsspec.register_implementation("bucket", _Bucket, clobber=True)
    content = tar_bytes({"a.mp4": b"v"})
    _Bucket().pipe(
        {f"/g/{name}": content for name in ("a/1.tar", "a/10.tar", "a/2.tar", "b/3.tar", "b/c/4.tar", "5.tar")}
    )
    yield _Bucket
    _Bucket.failing = ""
    _Bucket.store.clear()


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("g/*/*.tar", ["a/1", "a/2", "a/10", "b/3"]), ("g/**/*.tar", ["5", "a/1", "a/2", "a/10", "b/3", "b/c/4"]),
        ("g/{b,a}/*.tar", ["b/3", "a/1", "a/2", "a/10"]), ("g/*/c/4.tar", ["b/c/4"]), ("g/*/3.tar", ["b/3"]),
        ("*/5.tar", ["5"]), ("g/b*/**", ["b/3", "b/c/4"]),
    ],
)  # fmt: skip
def test_patterns_of_buckets(bucket: type[_Bucket], pattern: str, found: list[str]) -> None:
    given = [name for name in names_of_archives(f"bucket://{pattern}") if name.endswith(".tar")]
    assert given == [f"bucket:///g/{name}.tar" for name in found]


def test_a_name_with_two_colons_is_not_taken_for_a_member(bucket: type[_Bucket]) -> None:
    bucket().pipe("/g/a/1.tar::b.tar", b"x")
    with pytest.raises(vl.SourceError, match=r"1\.tar::b\.tar: what follows :: in a URL is .* rename this archive"):
        names_of_archives("bucket://g/*/*.tar")


class _WithLinks(_Bucket):
    """Lists what is linked as links, as servers of SFTP do."""

    protocol = "linked"
    links = ("link", "gone", "l.tar")

    def ls(self, path: str, detail: bool = True, **options: Any) -> Any:
        listed = super().ls(path, detail=detail, **options)
        return [each | ({"type": "link"} if each["name"].endswith(self.links) else {}) for each in listed]

    def info(self, path: str, **options: Any) -> Any:
        if path.endswith("gone"):
            raise NotADirectoryError(path)
        return super().info(path, **options)


@pytest.mark.parametrize(
    ("pattern", "found"),
    [
        ("g/*/*.tar", ["g/link/1.tar", "g/link/l.tar"]), ("g/link/*.tar", ["g/link/1.tar", "g/link/l.tar"]),
        ("g/l*/1.tar", ["g/link/1.tar"]), ("g/go*", ["g/gone"]), ("g/link/**", ["g/link/1.tar", "g/link/l.tar"]),
        ("g/**/1.tar", None),
    ],
)  # fmt: skip
def test_links_on_a_server(bucket: type[_Bucket], pattern: str, found: list[str] | None) -> None:
    fsspec.register_implementation("linked", _WithLinks, clobber=True)
    bucket.store.clear()
    _WithLinks().pipe({"/g/link/1.tar": b"x", "/g/link/l.tar": b"x", "/g/gone/1.tar": b"x"})
    if found is None:
        with pytest.raises(vl.SourceError, match=r"g/link: is a link to a folder, into which \*\* does not go"):
            names_of_archives(f"linked://{pattern}")
    else:
        given = names_of_archives(f"linked://{pattern}")
        assert [name.removeprefix("linked:///") for name in given if not name.endswith("link")] == found


@pytest.mark.parametrize("pattern", ["g/*/*.tar", "g/**/*.tar", "g/{a,b,c}/*.tar", "g/**"])
def test_a_bucket_that_cannot_be_listed_is_an_error(bucket: type[_Bucket], pattern: str) -> None:
    """The ``glob`` of fsspec would give the archives of the other folders."""
    bucket.failing = "/b"
    with pytest.raises(vl.SourceError, match=r"cannot be listed \(OSError: .*503 Slow Down"):
        names_of_archives(f"bucket://{pattern}")
