"""The generated faulty files: reproducible by seed, for every base, with the intended faults."""

from __future__ import annotations

import io
from pathlib import Path

import av
import pytest
from lies import LIES, container_of, lies_of
from lies.bases import write_base
from lies.joined import joined
from lies.remuxed import demuxed

from videoloader import build_index

NAMES = ["h264_mp4", "h264_mkv", "h264_ts", "h264_flv", "mpeg4_avi", "mpeg2_raw", "h264_fragmented_mp4"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("bases")


@pytest.mark.parametrize("name", NAMES)
def test_a_lie_is_another_file_and_the_same_one_for_the_same_seed(name: str, folder: Path) -> None:
    data = write_base(folder, name).read_bytes()
    told = {each.name: each.tell(data, 3) for each in lies_of(data)}
    assert sum(changed is not None for changed in told.values()) >= 15
    for lie, changed in told.items():
        assert changed != data
        assert LIES[lie].tell(data, 3) == changed, lie


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("part", [0.02, 0.1, 0.5])
def test_of_what_is_left_of_a_file_no_lie_fails(name: str, part: float, folder: Path) -> None:
    data = write_base(folder, name).read_bytes()
    rest = data[: round(len(data) * part)]
    assert all(each.tell(rest, 3) != rest for each in lies_of(rest))


@pytest.mark.parametrize("name", ["h264_fragmented_mp4", "h264_fragmented_open_mp4"])
def test_a_moov_that_grows_before_fragments_moves_no_picture(name: str, folder: Path) -> None:
    data = write_base(folder, name).read_bytes()
    for lie in ("edits_wait", "edits_repeat", "stsd_twice"):
        changed = LIES[lie].tell(data, 0)
        assert changed is None or {packet.data for packet in demuxed(changed).packets} <= {
            packet.data for packet in demuxed(data).packets
        }, lie


def test_tables_lie_where_pictures_do_not(folder: Path) -> None:
    data = write_base(folder, "h264_mp4").read_bytes()
    pictures = [packet.data for packet in demuxed(data).packets]
    for name in ("stss_all", "sdtp_random", "ctts_zero", "stsd_twice", "edits_removed", "stsd_size"):
        changed = LIES[name].tell(data, 0)
        assert changed is not None
        assert sorted(packet.data for packet in demuxed(changed).packets) == sorted(pictures), name


def test_all_frames_are_flagged(folder: Path) -> None:
    # In the others libavformat looks into the packets.
    for name in ("rpza_mov", "flv1_flv", "h263_avi"):
        changed = LIES["flagged_all"].tell(write_base(folder, name).read_bytes(), 0)
        assert all(packet.key for packet in demuxed(changed).packets), name


@pytest.mark.parametrize("container", ["mp4", "ts", "h264"])
def test_joined_files_hold_all_frames_of_their_members(container: str, folder: Path) -> None:
    for way in ("once", "files"):
        data = joined(folder, "h264_pps", [0, 1, 0], way, container)
        if data is not None:
            with av.open(io.BytesIO(data)) as opened:
                assert sum(1 for _ in opened.decode(video=0)) == 72


def test_several_descriptions_come_to_stand_in_one_track(folder: Path) -> None:
    data = joined(folder, "h264_sps", [0, 1, 0], "descriptions", "mp4")
    index = build_index(data)
    assert len(index.stream.codec_configs) == 2
    assert index.packet_config.tolist() == [0] * 24 + [1] * 24 + [0] * 24


def test_containers_are_told_by_their_first_bytes(folder: Path) -> None:
    found = [container_of(write_base(folder, name).read_bytes()) for name in NAMES]
    assert found == ["mp4", "mkv", "ts", "flv", "avi", "raw", "mp4"]
