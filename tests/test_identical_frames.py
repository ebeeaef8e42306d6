"""A small sample of soak/identical_frames.py and identical_batches.py: random clips are as in a full decode."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
from forked_programs import run_program
from soak import doors
from soak.cases import Case, Cases
from soak.identical_batches import compare_loaders
from soak.identical_frames import Engines, compare_clips, compare_whole, open_file
from soak.libav_truth import Truth, plain_hashes

import videoloader as vl
from videoloader.errors import DecodeError

Sample = Callable[[str], Path]
NAMES = [
    "h264_mp4_open_gop", "h264_mp4_intra_refresh", "h264_mkv_interlaced", "h264_ts", "hevc_mkv", "vp9_webm",
    "vp8_webm", "av1_mkv", "mpeg2_ts", "mpeg4_avi",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_random_clips_have_the_samples_of_a_full_decode(name: str, sample: Sample) -> None:
    file, engines = open_file(sample(name), cuda=False), Engines(cuda=False)
    account = compare_clips(file, engines, range(24))
    assert not account.wrong
    assert not compare_whole(file, engines).wrong
    assert account.frames["cpu"] >= 24
    assert not account.damaged


def test_a_wrong_frame_is_noticed_and_named(sample: Sample) -> None:
    file = open_file(sample("h264_ts"), cuda=False)
    shifted = replace(file, hashes=[*file.hashes[1:], file.hashes[0]])
    wrong = compare_clips(shifted, Engines(cuda=False), range(8)).wrong
    assert len(wrong) >= 8
    assert "is frame" in wrong[0]
    assert len(compare_whole(shifted, Engines(cuda=False)).wrong) == len(file.hashes)


def test_clips_do_not_depend_on_their_batch(sample: Sample) -> None:
    settings = {"device": "cpu", "num_workers": 2}
    ways = {"single": settings | {"batch_size": 1}, "shuffled": settings, "in order": settings | {"shuffle": False}}
    assert not compare_loaders([sample(name) for name in NAMES], 4, ways)


# Files that lie, as the soak run prints them: flags, times, descriptions, sets in packets, joined files, flipped bits.
LYING = [
    "h264_mp4 stss_all:1", "h264_open_mp4 sdtp_all_disposable:4", "mpeg4_mp4 sdtp_random:2",
    "h264_mkv blocks_random_key:4", "mpeg4_avi idx1_random_key:3", "h264_fragmented_mp4 trun_all_key:0",
    "h264_ts random_access_everywhere:0", "mpeg2_ts stream_twice:1", "h264_pps[0,1,0]:once:mp4",
    "h264_transform[0,1,2]:descriptions:mp4", "hevc_pps[0,1]:once:mkv", "av1_mp4 stss_all:0",
]  # fmt: skip


def test_files_that_lie_have_libavs_pictures(tmp_path: Path) -> None:
    cases = [word for case in LYING for word in ("--case", case)]
    program = Path(__file__).parent / "soak" / "identical_frames.py"
    done = run_program(program, "--lies", "--bases", str(tmp_path), *cases)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert f"{len(LYING)} cases" in done.stdout
    assert "go on with" in done.stdout


@pytest.mark.parametrize(("frames_come", "kind"), [(True, "count"), (False, "count, told by errors")])
def test_where_libav_gives_no_frame_those_of_the_index_must_be_errors(
    sample: Sample, monkeypatch: pytest.MonkeyPatch, frames_come: bool, kind: str
) -> None:
    nothing = Truth([], [], [], "", frozenset(), made_up=False, hidden=False)
    monkeypatch.setattr(doors, "decode_truth", lambda *_: nothing)
    if not frames_come:
        monkeypatch.setattr(vl.Video, "read", Mock(side_effect=DecodeError("did not come out")))
    assert set(doors.compare_file(sample("h264_mp4"), 0, 1).faults) == {kind}


def test_a_decode_of_a_file_once_more_begins_with_the_containers_parameter_sets(tmp_path: Path) -> None:
    """The file has two sizes, and begins with pictures whose parameter sets only the container has."""
    path = tmp_path / "file.mkv"
    path.write_bytes(Cases(tmp_path).data(Case.parse("hevc_size[0,1,1]:late:mkv")))
    hashes, _ = plain_hashes(path)
    assert len(hashes) == 65
    assert plain_hashes(path, passes=2)[0] == hashes


def test_a_case_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    """What goes wrong in the process of a case is a fault with its recipe, too."""
    program = Path(__file__).parent / "soak" / "identical_frames.py"
    done = run_program(program, "--lies", "--bases", str(tmp_path), "--case", "no_such_base")
    assert done.returncode == 1
    assert "WRONG raises: no_such_base: KeyError" in done.stdout
