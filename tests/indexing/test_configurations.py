"""Parameter sets that change on the way: the ones in force at each keyframe belong to the index."""

from __future__ import annotations

import random

import numpy as np
import pytest
import torch
from lies import LIES
from lies.joined import joined
from synthetic_index import make_index
from truth import full_decode, hash_of

from videoloader import Video
from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.damage import decode_run
from videoloader.errors import DecodeError
from videoloader.indexing import MemorySource, build_index, open_source
from videoloader.indexing.bitstream.parameter_sets import named_sets, record_with_sets
from videoloader.indexing.configurations import decoded_otherwise, with_configurations
from videoloader.indexing.decoder import size_told
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets
from videoloader.packets.run_start import WrongIndexError
from videoloader.reading import video_reader
from videoloader.reading.video_reader import VideoReader


def hashes_of(path, frames, decoder: CpuDecoder, index=None):
    """The hash of each frame, read by itself, None of a damaged one; and the index as it is known in the end."""
    source, index = open_source(path), index or build_index(path)
    found: dict[int, bytes | None] = {}
    for frame in frames:
        damaged = False
        while True:
            pictures = {}
            try:
                for run in plan_frames(index, [frame]).runs:
                    _, corrupt = decode_run(
                        decoder,
                        index,
                        run,
                        lambda run, index=index: read_packets(source, index, run),
                        lambda packet, picture, to=pictures: to.update({packet: hash_of(picture)}),
                    )
                    damaged = damaged or bool(corrupt)
            except WrongIndexError as better:
                index = better.index
                continue
            break
        found[frame] = None if damaged else pictures[int(index.frame_packet[frame])]
    return found, index


def check_each_frame_alone(path):
    """Every frame, in any order, is that of a full decode; what ``hashes_of`` gives."""
    truth = full_decode(path)
    assert not truth.error
    frames = list(range(len(truth.hashes)))
    random.Random(0).shuffle(frames)
    found, index = hashes_of(path, frames, CpuDecoder())
    assert [found[frame] for frame in range(len(frames))] == truth.hashes
    return found, index


@pytest.mark.parametrize("family", ["h264_pps", "h264_transform", "hevc_sps"])
@pytest.mark.parametrize(
    ("way", "container"), [("once", "mp4"), ("always", "mkv"), ("always", "ts"), ("descriptions", "mp4")]
)
def test_every_frame_alone_is_that_of_a_full_decode(tmp_path, family, way, container):
    data = joined(tmp_path, family, (0, 1, 0), way, container)
    if data is None:
        pytest.skip("these cannot be joined so")
    path = tmp_path / f"joined.{container}"
    path.write_bytes(data)
    check_each_frame_alone(path)


@pytest.mark.parametrize("container", ["mp4", "mkv", "h264"])
def test_pictures_are_cut_to_the_first_ones_until_some_do_not_fit(tmp_path, container):
    # 120×90 is 128×96 cut; the next are 128×96, 96×128, and 128×96 once more.
    data = joined(tmp_path, "h264_size", (2, 0, 1, 0), "always", container)
    assert data is not None
    path = tmp_path / f"joined.{container}"
    path.write_bytes(data)
    found, index = check_each_frame_alone(path)
    assert found[30] != found[80]
    assert [size_told(index, start) for start in (0, 24, 48, 72)] == [(120, 90), (120, 90), (0, 0), (0, 0)]


def test_pictures_are_not_cut_where_libavformat_told_the_size_of_later_ones(tmp_path):
    # It reads all of a small FLV file before it opens the decoder, so 128×96 is told, which the first 120×90 are not.
    data = joined(tmp_path, "h264_size", (2, 0), "files", "flv")
    assert data is not None
    path = tmp_path / "joined.flv"
    path.write_bytes(data)
    _, index = check_each_frame_alone(path)
    assert (index.stream.width, index.stream.height, index.stream.container_size) == (120, 90, (128, 96))


def test_pictures_are_cut_to_the_size_of_the_last_description(tmp_path):
    data = joined(tmp_path, "h264_size", (0, 0, 2), "descriptions", "mp4")
    assert data is not None
    path = tmp_path / "joined.mp4"
    path.write_bytes(data)
    truth = full_decode(path)
    index = build_index(path)
    assert (index.stream.width, index.stream.height) == (120, 90)
    found, _ = hashes_of(path, range(0, len(index), 5), CpuDecoder())
    assert all(found[frame] == truth.hashes[frame] for frame in found)


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_sets_inside_a_gop_count_for_those_behind_it_once_it_was_read(tmp_path, container):
    data = joined(tmp_path, "h264_pps", (0, 1), "late", container)
    assert data is not None
    path = tmp_path / f"joined.{container}"
    path.write_bytes(data)
    truth = full_decode(path)
    assert not truth.error
    decoder = CpuDecoder()
    _, index = hashes_of(path, range(len(truth.hashes)), decoder)
    found, again = hashes_of(path, reversed(range(len(truth.hashes))), decoder, index)
    # The sets come one packet too late for the keyframe that needs them.
    damaged = [frame for frame in found if found[frame] is None]
    assert len(damaged) < 10
    assert all(found[frame] in (truth.hashes[frame], None) for frame in found)
    assert again is index


def test_videos_of_one_record_do_not_see_each_others_sets(tmp_path):
    paths = []
    for number, members in enumerate([(0,), (0, 1), (0, 2)]):
        data = joined(tmp_path, "h264_pps", members, "once", "mp4")
        assert data is not None
        paths.append(tmp_path / f"{number}.mp4")
        paths[-1].write_bytes(data)
    truths = [full_decode(path).hashes for path in paths]
    decoder, rng = CpuDecoder(), random.Random(1)
    for _ in range(60):
        which = rng.randrange(3)
        frame = rng.randrange(len(truths[which]))
        found, _ = hashes_of(paths[which], [frame], decoder)
        assert found[frame] == truths[which][frame], (which, frame)


def test_more_configurations_than_packets_can_name_make_decoding_start_before_them(sample):
    index = build_index(sample("h264_mp4"))
    record = index.stream.codec_configs[0]
    count = 600
    plain = make_index(list(range(count)), set(range(0, count, 2)))
    plain = type(plain)(**{**{n: getattr(plain, n) for n in plain.__dataclass_fields__}, "stream": index.stream})
    brought = {number: [b"\x68\xce" + number.to_bytes(2, "big") + b"\x80"] for number in range(0, count, 2)}
    many = with_configurations(plain, brought)
    assert len(many.stream.codec_configs) == 256
    last = int(np.flatnonzero(many.packet_key)[-1])
    assert last < 520
    assert many.stream.codec_configs[many.packet_config[last]] == record_with_sets(
        "h264", record, {**named_sets("h264", _sets(record)), **named_sets("h264", brought[last])}
    )


def _sets(record: bytes) -> list[bytes]:
    from videoloader.indexing.bitstream.nal import parameter_sets

    return parameter_sets("h264", record)


def test_a_video_remembers_what_its_packets_told(tmp_path):
    data = joined(tmp_path, "h264_pps", (0, 1), "late", "mp4")
    assert data is not None
    path = tmp_path / "joined.mp4"
    path.write_bytes(data)
    video = Video(path, device="cpu")
    before = video.index
    expected = video[:]
    assert video.index is not before
    assert all((video[frame] == expected[frame]).all() for frame in (len(video) - 1, 0, len(video) // 2))


@pytest.mark.parametrize("members", [(0, 1, 1, 1, 1), (0, 2, 0, 2, 0, 0)])
@pytest.mark.parametrize("family", ["h264_pps", "hevc_closed"])
def test_what_one_job_finds_counts_for_those_decoded_beside_it(tmp_path, family, members):
    data = joined(tmp_path, family, members, "late", "mp4")
    assert data is not None
    path = tmp_path / "joined.mp4"
    path.write_bytes(data)
    video = Video(path, device="cpu")
    at_once = video[:]
    # Each GOP by itself, now that all sets are known.
    known = video.index
    for first in range(0, len(video), 4):
        assert torch.equal(video.read(range(first, first + 4)).frames, at_once[first : first + 4]), first
    assert video.index is known
    assert all(torch.equal(one, other) for one, other in zip(Video(path, device="cpu"), at_once, strict=True))


@pytest.mark.parametrize("read", [Video.stream, lambda video: video[:]])
def test_an_error_of_one_job_does_not_count_where_another_finds_what_it_did_not_know(tmp_path, read, monkeypatch):
    data = joined(tmp_path, "h264_pps", (0, 1, 1, 1, 1), "late", "mp4")
    assert data is not None
    expected = Video(MemorySource(data), device="cpu")[:]
    video, decode_job = Video(MemorySource(data), device="cpu"), VideoReader._decode_job
    plain, failed = video.index, []

    def decode_or_fail(reader, output, job, *arguments, **options):
        if job.index is plain and job.frames[0]:
            failed.append(job)
            raise DecodeError("does not decode by these sets")
        return decode_job(reader, output, job, *arguments, **options)

    monkeypatch.setattr(VideoReader, "_decode_job", decode_or_fail)
    monkeypatch.setattr(video_reader, "suits_threads", lambda *_: False)
    assert all(torch.equal(one, other) for one, other in zip(read(video), expected, strict=True))
    assert failed


def test_corrections_add_up_in_any_order(tmp_path):
    data = joined(tmp_path, "h264_pps", (0, 1, 2), "late", "mp4")
    assert data is not None
    path = tmp_path / "joined.mp4"
    path.write_bytes(data)
    source, plain = open_source(path), build_index(path)
    corrections = []
    for frame in (30, 54):
        (run,) = plan_frames(plain, [frame]).runs
        with pytest.raises(WrongIndexError) as found:
            list(read_packets(source, plain, run))
        corrections.append(found.value.correct)
    one, other = (corrections[second](corrections[1 - second](plain)) for second in (0, 1))
    records = [[index.stream.codec_configs[config] for config in index.packet_config] for index in (one, other)]
    assert records[0] == records[1]
    assert len(set(records[0])) == 3
    assert corrections[0](one) is one
    packets = np.arange(len(plain.packet_config))
    assert not decoded_otherwise(one, other, packets).any()
    # The first sets come with packet 25, those of the next keyframes are not known to be others.
    assert np.flatnonzero(decoded_otherwise(plain, one, packets))[0] == 25


def lying(path, family, members, way, *lies: tuple[str, int]):
    """A joined file of which these lies are told, with their seeds."""
    data = joined(path.parent, family, members, way, path.suffix[1:])
    for name, seed in lies:
        assert data is not None
        data = LIES[name].tell(data, seed)
    assert data is not None
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("seed", [0, 1, 2])
@pytest.mark.parametrize("family", ["h264_pps", "hevc_pps"])
def test_a_description_without_a_record_leaves_the_one_before_in_force(tmp_path, family, seed):
    path = lying(tmp_path / "joined.mp4", family, (0, 0), "once", ("stsd_second_without_record", seed))
    index = build_index(path)
    assert len(set(index.stream.codec_configs)) == 1
    check_each_frame_alone(path)


@pytest.mark.parametrize("family", ["h264_pps", "hevc_closed"])
def test_a_record_given_out_anew_ends_what_packets_before_it_brought_along(tmp_path, family):
    # Packet 25 brings along other sets than the record's, which libavformat gives out anew with packet 40.
    path = lying(tmp_path / "joined.mp4", family, (0, 2), "late", ("stsd_twice", 7))
    source, plain = open_source(path), build_index(path)
    (run,) = plan_frames(plain, [30]).runs
    with pytest.raises(WrongIndexError) as found:
        list(read_packets(source, plain, run))
    index = found.value.index
    in_force = [index.stream.codec_configs[config] for config in index.packet_config]
    assert [packet for packet in range(1, 48) if in_force[packet] != in_force[packet - 1]] == [25, 40]
    assert in_force[0] == in_force[40]


@pytest.mark.parametrize(
    ("way", "lie"),
    [
        ("once", ("edits_skip_the_start", 591)),
        ("late", ("edits_skip_the_start", 591)),
        # Libavformat tells a sample's description by how many samples it has read, not by the sample's number.
        ("descriptions", ("edits_beyond_the_end", 1)),
    ],
)
def test_sets_of_samples_before_those_that_an_edit_list_needs_are_not_in_force(tmp_path, way, lie):
    path = lying(tmp_path / "joined.mp4", "h264_pps", (0, 3, 3, 2), way, lie)
    truth = full_decode(path)
    assert not truth.error
    # Pictures of one member are decoded by the sets of another, and concealed.
    found, _ = hashes_of(path, range(len(truth.hashes)), CpuDecoder())
    assert None in found.values()
    assert all(found[frame] in (truth.hashes[frame], None) for frame in found)


def test_a_video_without_a_keyframe_shows_what_comes_by_later_sets_too(tmp_path):
    path = lying(tmp_path / "joined.mkv", "h264_pps", (0, 1), "once", ("blocks_no_key", 0))
    check_each_frame_alone(path)


def test_sets_inside_a_gop_are_known_where_wrong_times_made_the_video_be_decoded(tmp_path):
    path = lying(tmp_path / "joined.mp4", "hevc_pps", (3, 0), "late", ("ctts_negative", 725))
    index = build_index(path)
    assert index.method == "decoded"
    assert np.flatnonzero(np.diff(index.packet_config)).tolist() == [24]
