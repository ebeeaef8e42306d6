"""When the frames of image files are shown: numbers in their names, rates, and lists of times."""

from __future__ import annotations

import os
import pickle
import sqlite3
import warnings
from fractions import Fraction

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from image_files import rgb, write_frames

import videoloader as vl
from videoloader.indexing import build_index
from videoloader.indexing.images.frame_times import file_numbers
from videoloader.indexing.sources.natural_order import natural_order

GAPS = ["1.png", "2.png", "5.png", "6.png", "7.png"]


@pytest.fixture
def gaps(tmp_path):
    """A folder of images 1, 2, 5, 6 and 7."""
    return write_frames(tmp_path / "gaps", GAPS)


def times_of(folder, names, **options):
    """Times of the files in seconds, and what was warned of."""
    write_frames(folder, names)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        video = vl.Video(folder, device="cpu", **options)
    return video.timestamps.tolist(), [str(each.message).partition(": ")[2] for each in told]


def test_numbers_say_when_frames_are_shown(tmp_path):
    times, told = times_of(tmp_path, GAPS)
    assert times == [0, 1, 4, 5, 6]
    assert told == [
        "2 numbers are missing between those of 5 image files: the video has gaps there, because a file's number is "
        "its time"
    ]


def test_it_is_told_once_where_the_user_is(gaps):
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        video = vl.Video(gaps, device="cpu")
        video[:]
    assert [each.filename for each in told] == [__file__]


def test_data_sets_tell_once_of_all_their_folders(gaps):
    write_frames(gaps.parent / "more", ["1.png", "3.png", "4.png"])
    write_frames(gaps.parent / "none", ["1.png", "2.png"])
    write_frames(gaps.parent / "two", ["left_1.png", "right_1.png"])
    data = vl.VideoDataset.from_frame_folders(gaps.parent)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        vl.VideoLoader(data, vl.EveryWindow(2), batch_size=1, device="cpu", num_workers=1)
    assert [each.filename for each in told] == [__file__, __file__]
    assert str(told[0].message).startswith(f"{gaps} and 1 more: 3 numbers are missing between those of 8 image")
    assert str(told[1].message).startswith(f"{gaps.parent / 'two'}: the numbers in the names of image files are not")


@pytest.mark.filterwarnings("ignore:.*missing")
def test_gaps_are_variable_rate_also_of_one_frame(gaps, tmp_path):
    one = write_frames(tmp_path / "one", ["1.png", "2.png", "4.png"])
    none = write_frames(tmp_path / "none", ["08.png", "09.png", "10.png"])
    for fps in (1, 24, Fraction(30000, 1001), 2000):
        facts = [vl.Video(folder, device="cpu", fps=fps).is_vfr for folder in (gaps, one, none)]
        assert facts == [True, True, False]


@pytest.mark.filterwarnings("ignore:.*missing")
def test_frames_and_their_numbers_are_those_of_the_files(gaps):
    video = vl.Video(gaps, device="cpu")
    assert len(video) == 5
    assert np.array_equal(video[[2, 4]].numpy(), [rgb(gaps / "5.png"), rgb(gaps / "7.png")])


@pytest.mark.filterwarnings("ignore:.*missing")
def test_times_find_the_frame_on_screen(gaps):
    video = vl.Video(gaps, device="cpu", fps=10)
    assert video.read(vl.Timestamps([0, 0.1, 0.2, 0.4, 0.65])).frame_numbers.tolist() == [0, 1, 1, 2, 4]
    assert video.read(vl.AtRate(10, 7, start=0)).frame_numbers.tolist() == [0, 1, 1, 1, 2, 3, 4]
    assert (video.index.stream.frame_rate, video.index.average_fps) == (10, pytest.approx(4 / 0.6))


@pytest.mark.filterwarnings("ignore:.*missing")
def test_triplets_that_are_to_be_even_do_not_reach_over_gaps(gaps):
    data = vl.VideoDataset.from_frame_folders(gaps, fps=24)
    loader = vl.VideoLoader(data, vl.Triplets(even=True), batch_size=4, device="cpu", num_workers=1)
    (batch,) = loader
    assert batch.frame_numbers.tolist() == [[2, 3, 4]]
    assert np.allclose(batch.timestamps, [[4 / 24, 5 / 24, 6 / 24]], rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("names", "times"),
    [
        (["im9.png", "im10.png", "im12.png"], [0, 1, 3]),
        (["0001.png", "2.png", "003.png"], [0, 1, 2]),
        (["take2_0007_v3.png", "take2_0008_v1.png", "take2_0010_v2.png"], [0, 1, 3]),
        (["frame_00.png", "frame_01_gt.png", "frame_02.png"], [0, 1, 2]),
        (["IM1.png", "im2.png", "Im3.png"], [0, 1, 2]),
        (["7.png"], [0]),
        (["10.png", "20.png", "30.png"], [0, 10, 20]),
        (["1403636579763555584.png", "1403636579813555456.png"], [0, 49999872]),
    ],
)
def test_the_number_is_what_names_first_differ_in(tmp_path, names, times):
    found, told = times_of(tmp_path, names)
    assert found == times
    assert bool(told) == (times == [0, 1, 3])


@pytest.mark.parametrize(
    "names",
    [
        ["left_1.png", "left_2.png", "right_1.png", "right_2.png"],
        ["1_left.png", "1_right.png", "3_left.png"],
        ["1.png", "01.png", "3.png"],
        ["shot.png", "shot1.png", "shot3.png"],
        ["1.png", "1" + 30 * "0" + ".png"],
    ],
)
def test_names_that_do_not_count_frames_are_told_of(tmp_path, names):
    times, (told,) = times_of(tmp_path, names, fps=2)
    assert times == [number / 2 for number in range(len(names))]
    assert told.startswith("the numbers in the names of image files are not frame numbers")
    assert "frames are spaced evenly" in told


def test_names_without_numbers_come_evenly(tmp_path):
    assert times_of(tmp_path, ["ape.png", "bear.png", "cat.png"]) == ([0, 1, 2], [])


@given(st.sets(st.integers(0, 10**9), min_size=1), st.sampled_from(["", "f_", "cam3-"]), st.integers(0, 6))
def test_numbers_count_from_the_first(numbers, before, digits):
    names = natural_order(f"{before}{number:0{digits}}.png" for number in numbers)
    found = file_numbers(names)
    assert found is not None
    assert found.tolist() == [number - min(numbers) for number in sorted(numbers)]


def test_listed_times_are_taken_as_they_are(gaps):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for listed in ([5, 5.5, Fraction(23, 4), 5.75, 9.25], np.array([5, 5.5, 5.75, 5.75, 9.25], np.float32)):
            video = vl.Video(gaps, device="cpu", timestamps=listed)
            assert video.timestamps.tolist() == [5, 5.5, 5.75, 5.75, 9.25]
            assert video.is_vfr


def test_a_listed_time_finds_its_frame_as_it_was_given(tmp_path):
    write_frames(tmp_path, [f"{number}.png" for number in range(40)])
    listed = [1.7e9 + number / 24 for number in range(40)]
    index = build_index(vl.FolderSource(tmp_path, timestamps=listed))
    for times in (listed, index.timestamps.tolist()):
        mode = vl.Timestamps(times)
        assert vl.Video(tmp_path, index=index, device="cpu").read(mode).frame_numbers.tolist() == list(range(40))
    assert not index.is_vfr


@pytest.mark.parametrize(
    "text",
    [
        "0\n0.5\n0.75\n2\n2.5\n",
        "\ufeff# seconds\n0\n5e-1\n3/4\n\n2.0\n2.5",
        "seconds\n0\n0.5\n0.75\n2\n2.5\n",
        "name,seconds\n7.png,2.5\n1.png,0\n2.png,0.5\n5.png,0.75\n6.png,2\n8.png,4\n",
        "images/1.png, 0\nimages/2.png, 0.5\nimages/5.png, 0.75\nimages/6.png, 2\nimages/7.png, 2.5\n",
    ],
)
def test_times_from_a_file_beside_the_images(gaps, text):
    (gaps / "times.txt").write_text(text)
    (gaps.parent / "times.txt").write_text(text)
    for path in ("times.txt", "../times.txt", gaps / "times.txt"):
        assert vl.Video(gaps, device="cpu", timestamps=path).timestamps.tolist() == [0, 0.5, 0.75, 2, 2.5]


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("0\n1\n2\n", r"times\.txt: has 3 times for the 5 files of .*gaps"),
        ("0\n1\n5\n4\n6\n", r"times\.txt: shows 6\.png before 5\.png: times must rise"),
        (
            "0\n1\nsoon\n4\n6\n",
            r"times\.txt: 'soon' is not a time: a line must be a number of seconds, or name,seconds",
        ),
        ("0\nsoon\n2\n3\n4\n5\n6\n", r"times\.txt: has 7 lines for the 5 files"),
        ("1.png,0\n2.png,1\n", r"times\.txt: has no time for 5\.png and 2 more of 5 files"),
        ("cam0/1.png,0\ncam1/1.png,0.5\n", r"times\.txt: has two times for 1\.png"),
        ("0\n1\n2\n3\n1e30\n", "too large to be seconds"),
        pytest.param("n" * 200_000 + ",0\n", r"times\.txt: has no time for 1\.png", id="a name within the limit"),
        ("0\n1\n2\n3\n1_0\n", r"times\.txt: '1_0' is not a time"),
    ],
)
def test_lists_that_do_not_fit(gaps, text, error):
    (gaps / "times.txt").write_text(text)
    with pytest.raises(vl.ConfigurationError, match=error):
        vl.Video(gaps, timestamps="times.txt")


def test_arguments_that_make_no_sense(gaps):
    with pytest.raises(vl.SourceError, match=r"gaps/none\.txt: the list of times cannot be read"):
        vl.Video(gaps, timestamps="none.txt")
    gradient = torch.arange(5.0, requires_grad=True)
    for listed in ([1, "soon"], 3.5, [[1, 2]], [float("nan")] * 5, [True] * 5, ["1_0"], ["1e999999999"], gradient):
        with pytest.raises(vl.ConfigurationError, match="timestamps must be a list of seconds, or the path of one"):
            vl.FolderSource(gaps, timestamps=listed)
    with pytest.raises(vl.ConfigurationError, match="pass either fps or timestamps, not both"):
        vl.Video(gaps, fps=24, timestamps=[0, 1, 2, 3, 4])
    with pytest.raises(vl.ConfigurationError, match="the index already has times"):
        vl.Video(gaps, fps=24, index=build_index(gaps))
    with pytest.raises(vl.ConfigurationError, match="its path already gives its times"):
        vl.Video(f"{gaps}::fps=24", fps=24)
    with pytest.raises(vl.ConfigurationError, match=r"are for folders of image files, and .* is not one; AtRate"):
        vl.Video(gaps / "1.png", fps=24)
    with pytest.raises(vl.ConfigurationError, match="fps must be a positive number, got '0'"):
        vl.Video(f"{gaps}::fps=0")
    for wrong in ("1e400", "1e999999999", "9" * 5000, "1000000001", "2_4", "2_4/1"):
        with pytest.raises(vl.ConfigurationError, match="fps must be"):
            vl.Video(f"{gaps}::fps={wrong}")
    with pytest.raises(vl.SourceError, match="the list of times cannot be read"):
        vl.Video(f"{gaps}::timestamps=\0")
    (gaps / "long.txt").write_text("n" * 2_000_000 + ",0\n")
    with pytest.raises(vl.SourceError, match=r"the list of times cannot be read \(field larger"):
        vl.Video(f"{gaps}::timestamps=long.txt")
    (gaps / "endless.txt").write_text("0\n1e999999999\n")
    with pytest.raises(vl.ConfigurationError, match="'1e999999999' is not a time"):
        vl.Video(f"{gaps}::timestamps=endless.txt")


@pytest.mark.filterwarnings("ignore:.*missing")
def test_a_path_may_tell_the_times(gaps):
    (gaps / "times.txt").write_text("0\n1\n2\n3\n4\n")
    for source, times in (
        (f"{gaps}::fps=10", [0, 0.1, 0.4, 0.5, 0.6]),
        (f"file://{gaps}::fps=10", [0, 0.1, 0.4, 0.5, 0.6]),
        (f"{gaps}/[!_]*.png::fps=30000/1001", (np.array([0, 1, 4, 5, 6]) * 1001 / 30000).tolist()),
        (f"{gaps}::timestamps=times.txt", [0, 1, 2, 3, 4]),
    ):
        index = build_index(source)
        assert index.timestamps.tolist() == times
        assert build_index(index.source).timestamps.tolist() == times
    source = pickle.loads(pickle.dumps(vl.FolderSource(gaps, fps=10)))
    assert (source.name, source.fps) == (f"{gaps}::fps=10", 10)


def test_a_folder_whose_name_looks_like_times_is_that_folder(tmp_path):
    folder = write_frames(tmp_path / "clip::fps=24", ["1.png", "2.png"])
    assert build_index(folder).timestamps.tolist() == [0, 1]


@pytest.mark.filterwarnings("ignore:.*missing")
def test_data_sets_of_frame_folders_take_times(gaps):
    (gaps / "times.txt").write_text("0\n0.5\n1\n2\n4\n")
    for arguments, suffix, times in (
        ({"fps": 10}, "::fps=10", [0, 0.1, 0.4, 0.5, 0.6]),
        ({"timestamps": "times.txt"}, "::timestamps=times.txt", [0, 0.5, 1, 2, 4]),
    ):
        data = vl.VideoDataset.from_frame_folders(gaps.parent, **arguments)
        assert data.paths == [f"{gaps}{suffix}"]
        (batch,) = vl.VideoLoader(data, vl.EveryWindow(5), batch_size=1, device="cpu", num_workers=1)
        assert np.allclose(batch.timestamps[0], times, rtol=0, atol=1e-12)
    with pytest.raises(vl.ConfigurationError, match="timestamps must be a string or a Path"):
        vl.VideoDataset.from_frame_folders(gaps, timestamps=[0, 1, 2, 3, 4])
    with pytest.raises(vl.ConfigurationError, match="fps must be a positive number"):
        vl.VideoDataset.from_frame_folders(gaps, fps=-1)


def test_stores_keep_times_and_see_that_their_list_has_changed(gaps, tmp_path):
    listed = gaps / "times.txt"
    listed.write_text("0\n0.5\n1\n2\n4\n")
    paths = [str(gaps), f"{gaps}::fps=10", f"{gaps}::timestamps=times.txt"]
    store = tmp_path / "index.db"
    assert vl.build_store(paths, store, workers=1).indexed == 3
    known = [vl.IndexStore(store).get(path) for path in paths]
    assert [index.timestamps.tolist() for index in known] == [
        [0, 1, 4, 5, 6], [0, 0.1, 0.4, 0.5, 0.6], [0, 0.5, 1, 2, 4],
    ]  # fmt: skip
    data = vl.VideoDataset.from_paths(paths)
    loader = vl.VideoLoader(data, vl.EveryWindow(5), batch_size=3, device="cpu", num_workers=1, index=store)
    assert [times.tolist() for times in next(iter(loader)).timestamps] == [index.timestamps.tolist() for index in known]
    assert vl.build_store(paths, store, workers=1).unchanged == 3

    listed.write_text("0\n1\n2\n3\n4\n")
    os.utime(listed, ns=(0, 0))
    with pytest.raises(vl.StaleIndexError):
        vl.IndexStore(store).get(paths[2])
    report = vl.build_store(paths, store, workers=1)
    assert (report.indexed, report.unchanged) == (1, 2)
    assert vl.IndexStore(store).get(paths[2]).timestamps.tolist() == [0, 1, 2, 3, 4]


def test_stores_of_before_are_brought_up_to_date(gaps, tmp_path):
    store = tmp_path / "index.db"
    vl.build_store([gaps], store, workers=1)
    with sqlite3.connect(store) as connection:
        connection.execute("UPDATE videos SET indexer = 5")
    assert vl.build_store([gaps], store, workers=1).indexed == 1
