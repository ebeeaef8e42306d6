"""A folder of image files as one run of bytes: which files, in which order, and read from any place."""

from __future__ import annotations

import itertools
import os
import pickle
import resource
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from image_files import write_frames

from videoloader import ConfigurationError, SourceError, UnsupportedError
from videoloader.indexing import FolderSource, build_index, open_source
from videoloader.indexing.sources.natural_order import natural_order, number_parts


@pytest.fixture
def folder(tmp_path):
    """Files of 0 to 11 bytes among files of other kinds."""
    for number in range(12):
        (tmp_path / f"im{number}.png").write_bytes(bytes([number]) * number)
    for name in (".hidden.png", "Thumbs.db", "flow.flo", "notes.txt"):
        (tmp_path / name).write_bytes(b"no image")
    (tmp_path / "folder.png").mkdir()
    return tmp_path


WHOLE = b"".join(bytes([number]) * number for number in range(12))


@given(st.lists(st.integers(0, 10**12), unique=True), st.sampled_from(["im", "frame_", "", "x2y"]))
def test_numbers_in_names_count_as_numbers(numbers, prefix):
    names = [f"{prefix}{number}.png" for number in numbers]
    assert natural_order(names) == [f"{prefix}{number}.png" for number in sorted(numbers)]


@given(st.lists(st.integers(0, 9999), unique=True))
def test_padded_numbers_stand_in_plain_order(numbers):
    names = [f"{number:04}.jpg" for number in numbers]
    assert natural_order(names) == sorted(names)


@given(st.permutations(["1.png", "01.png", "A2.png", "a10.png", "B1.png", "b.png", "_.png", "é3.png"]))
def test_order_does_not_depend_on_that_of_the_folder(names):
    assert natural_order(names) == natural_order(sorted(names))


@given(st.lists(st.from_regex(r"[aA\n]?[0-9٣]{0,3}[bB_]?[0-9]{1,19}\.png", fullmatch=True)))
def test_names_that_differ_in_numbers_alone_are_in_the_same_order_as_all_others(names):
    assert natural_order(names) == sorted(sorted(names), key=number_parts)


def test_numbers_of_any_length_are_numbers():
    names = ["a" + "9" * 5000, "a1" + "0" * 5000, "a2", "a\u0663"]
    assert natural_order(names) == ["a2", "a\u0663", *names[:2]]


def test_image_files_in_natural_order_and_nothing_else(folder):
    source = FolderSource(folder)
    assert [os.path.basename(file) for file in source.files] == [f"im{number}.png" for number in range(12)]
    assert (source.name, source.size, source.read(0, 1000)) == (str(folder), len(WHOLE), WHOLE)


@given(offset=st.integers(0, len(WHOLE) + 5), size=st.integers(0, len(WHOLE) + 5))
def test_any_part_can_be_read(tmp_path_factory, offset, size):
    folder = tmp_path_factory.getbasetemp() / "parts"
    if not folder.exists():
        folder.mkdir()
        for number in range(12):
            (folder / f"im{number}.png").write_bytes(bytes([number]) * number)
    assert FolderSource(folder).read(offset, size) == WHOLE[offset : offset + size]


def test_each_byte_is_of_its_file(folder):
    source = FolderSource(folder)
    assert [source.file_at(at) for at in range(len(WHOLE))] == [str(folder / f"im{number}.png") for number in WHOLE]


def test_a_path_to_a_folder_opens_one(folder):
    assert isinstance(open_source(folder), FolderSource)
    assert isinstance(open_source(f"{folder}{os.sep}"), FolderSource)


def test_a_copy_in_another_process_reads_the_same(folder):
    source = pickle.loads(pickle.dumps(FolderSource(folder, fps=24)))
    assert (source.read(0, 1000), source.fps) == (WHOLE, 24)


def test_many_threads_read_at_once_and_leave_no_descriptors(folder):
    source = FolderSource(folder)
    before = len(os.listdir("/proc/self/fd"))
    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(lambda _: source.read(0, source.size), range(200))) == {WHOLE}
    assert len(os.listdir("/proc/self/fd")) <= before + 4


def test_more_files_than_descriptors(tmp_path):
    limit, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    for number in range(300):
        (tmp_path / f"{number}.png").write_bytes(b"x")
    resource.setrlimit(resource.RLIMIT_NOFILE, (200, hard))
    try:
        assert FolderSource(tmp_path).read(0, 300) == b"x" * 300
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))


def test_a_pattern_chooses_one_of_two_sequences(tmp_path):
    for name in ("left_10.png", "left_9.png", "right_9.png", "right_10.png", "left_9.txt"):
        (tmp_path / name).write_bytes(name.encode())
    left = open_source(tmp_path / "left_*.png")
    assert left.read(0, 100) == b"left_9.pngleft_10.png"
    assert open_source(tmp_path / "*_?.*").read(0, 100) == b"left_9.pngright_9.png"


def test_a_file_whose_name_looks_like_a_pattern_is_that_file(tmp_path):
    (tmp_path / "what?.png").write_bytes(b"this")
    (tmp_path / "whatever.png").write_bytes(b"that")
    assert open_source(tmp_path / "what?.png").read(0, 10) == b"this"


def test_a_pattern_in_the_working_directory(folder, monkeypatch):
    monkeypatch.chdir(folder)
    assert open_source("im1*.png").read(0, 100) == bytes([1]) + bytes([10]) * 10 + bytes([11]) * 11


def test_without_images_the_error_says_what_is_there(tmp_path):
    (tmp_path / "a.flo").touch()
    (tmp_path / "b.flo").touch()
    (tmp_path / "clips").mkdir()
    with pytest.raises(SourceError, match=r"holds no image files; it contains: 2 \.flo, 1 folder"):
        open_source(tmp_path)
    with pytest.raises(SourceError, match=r"holds no image files that match 'left_\*'"):
        open_source(tmp_path / "left_*")


def test_what_cannot_be_read_is_named(tmp_path):
    with pytest.raises(SourceError, match=r"missing/\*\.png: cannot be"):
        open_source(tmp_path / "missing" / "*.png")
    (tmp_path / "dangling.png").symlink_to(tmp_path / "nowhere")
    with pytest.raises(SourceError, match=r"dangling\.png: cannot be read"):
        open_source(tmp_path)


def test_there_is_no_file_object_of_a_folder(folder):
    with pytest.raises(UnsupportedError, match="is a folder of image files"):
        FolderSource(folder).open()


def test_a_named_pipe_is_no_image(tmp_path):
    os.mkfifo(tmp_path / "live.png")
    with pytest.raises(SourceError, match="no image files"):
        open_source(tmp_path)


@pytest.mark.parametrize("times", [range(10**20), itertools.count(), iter([0] * 50)])
def test_an_endless_list_of_times_is_refused(tmp_path, times):
    write_frames(tmp_path / "frames", ["1.png", "2.png"])
    source = FolderSource(tmp_path / "frames", timestamps=times)
    with pytest.raises(ConfigurationError, match="has 3 times for the 2 files"):
        build_index(source)


@pytest.mark.parametrize("fps", [0, -1, float("nan"), float("inf"), "fast"])
def test_a_rate_is_a_positive_number(folder, fps):
    with pytest.raises(ConfigurationError, match="fps"):
        FolderSource(folder, fps=fps)


def test_common_rates_are_exact(folder):
    rates = {
        Fraction(30000, 1001): Fraction(30000, 1001),
        "30000/1001": Fraction(30000, 1001),
        23.976: Fraction(24000, 1001),
        "23.976": Fraction(24000, 1001),
        29.97: Fraction(30000, 1001),
        "2997/125": Fraction(2997, 125),
        1 / 3: Fraction(1, 3),
        12.5: Fraction(25, 2),
        240: 240,
    }
    assert {given: FolderSource(folder, fps=given).fps for given in rates} == rates


def test_the_fingerprint_changes_with_the_files_and_only_then(folder):
    first = FolderSource(folder).fingerprint
    assert FolderSource(folder).fingerprint == first
    (folder / "notes.txt").write_bytes(b"other notes")
    assert FolderSource(folder).fingerprint == first
    assert FolderSource(folder, fps=2).fingerprint != first
    (folder / "im3.png").rename(folder / "im03.png")
    second = FolderSource(folder).fingerprint
    assert second != first
    os.utime(folder / "im4.png", ns=(0, 0))
    assert FolderSource(folder).fingerprint not in (first, second)
