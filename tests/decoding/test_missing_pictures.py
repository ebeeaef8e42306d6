"""What is missing from a file without a trace: libavcodec puts something in its place, and not the same each time."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers.converting import convert_frame
from lies import LIES
from lies.bases import write_base
from lies.joined import joined
from lies.remuxed import rewritten
from sample_videos import X264, Recipe, write_video
from truth import full_decode, hash_of

import videoloader as vl
from videoloader.convert.spec import Geometry, OutputSpec, color_spec
from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.damage import decode_run
from videoloader.indexing import FileSource, MemorySource, build_index
from videoloader.indexing.bitstream.frame_num_gaps import FrameNumGaps
from videoloader.indexing.index import DISPOSABLE_YES
from videoloader.indexing.number_leaps import is_behind_leap, points_behind_leaps
from videoloader.indexing.video_stream import open_video
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets
from videoloader.packets.run_start import WrongIndexError

pytestmark = pytest.mark.filterwarnings("ignore::videoloader.CorruptFramesWarning")


def payloads_of(path):
    """(payloads of all packets in decode order, their configuration record)."""
    source, index = FileSource(path), build_index(path)
    runs = plan_frames(index, range(len(index))).runs
    payloads = [bytes(packet.data) for run in runs for packet in read_packets(source, index, run)]
    return payloads, index.stream.codec_configs[0]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", ["h264_mkv", "h264_ts", "h264_mp4_open_gop", "hevc_mkv"])
def test_frames_are_the_same_alone_and_streamed_where_packets_are_missing(sample, name, seed):
    data = LIES["packets_missing"].tell(sample(name).read_bytes(), seed)
    try:
        streamed = list(vl.Video(MemorySource(data), device="cpu").stream())
    except vl.DecodeError:
        pytest.skip("a frame does not come out")
    for number, frame in enumerate(streamed):
        clip = vl.Video(MemorySource(data), device="cpu").read([number])
        assert clip.corrupt[0] or torch.equal(clip.frames[0], frame), number


@pytest.mark.parametrize("missing", [5, 9, 17])
def test_they_are_the_same_where_the_plan_has_left_out_what_hides_that_a_picture_is_missing(sample, missing):
    data = rewritten(
        sample("h264_ts").read_bytes(), lambda found: found.packets[:missing] + found.packets[missing + 1 :]
    )
    video = vl.Video(MemorySource(data), device="cpu")
    streamed = list(vl.Video(MemorySource(data), device="cpu").stream())
    # The index of a transport stream knows which pictures nothing refers to.
    referred_to = np.flatnonzero(video.index.packet_disposable[video.index.frame_packet] != DISPOSABLE_YES)
    clip = video.read(referred_to)
    for number, frame, corrupt in zip(referred_to, clip.frames, clip.corrupt, strict=True):
        assert corrupt or torch.equal(frame, streamed[number]), number


def slice_header_at(data):
    """The place of the NAL unit header of a packet's first slice, which has a start code or a length of 4 bytes."""
    starts = (match.start(1) for match in re.finditer(rb"\0\0\x01(.)", data, re.DOTALL))
    return next((at for at in starts if data[at] & 31 in (1, 5)), 4)


def others_alone_than_streamed(data):
    """The frames that are others when they are read alone, and not called corrupt."""
    streamed = list(vl.Video(MemorySource(data), device="cpu").stream())
    clips = [vl.Video(MemorySource(data), device="cpu").read([number]) for number in range(len(streamed))]
    return [
        number
        for number, (clip, frame) in enumerate(zip(clips, streamed, strict=True))
        if not clip.corrupt[0] and not torch.equal(clip.frames[0], frame)
    ]


@pytest.mark.parametrize("which", [2, 3])
@pytest.mark.parametrize("name", ["h264_mkv", "h264_ts"])
def test_a_wrong_number_of_a_picture_that_nothing_refers_to_changes_others_in_all_reads(sample, name, which):
    """libavcodec takes it for a sign that pictures are missing, and invents them, if it is shown that packet."""

    def change(found):
        packets = list(found.packets)
        disposable = [each for each, packet in enumerate(packets) if not packet.data[slice_header_at(packet.data)] & 96]
        number = disposable[which]
        changed = bytearray(packets[number].data)
        # Behind first_mb_in_slice (1 bit), slice_type (5) and pic_parameter_set_id (1) of x264's B slices.
        assert changed[slice_header_at(changed) + 1] >> 1 == 0b1001111
        changed[slice_header_at(changed) + 2] ^= 0x80
        packets[number] = replace(packets[number], data=bytes(changed))
        return packets

    plain = list(vl.Video(sample(name), device="cpu").stream())
    data = rewritten(sample(name).read_bytes(), change)
    streamed = vl.Video(MemorySource(data), device="cpu").stream()
    assert sum(not torch.equal(one, other) for one, other in zip(plain, streamed, strict=True)) > 1
    assert not others_alone_than_streamed(data)


def read_all(data):
    """All frames of a full decode by libav."""
    index = build_index(MemorySource(data))
    frames, size = [], index.stream.display_size
    with open_video(MemorySource(data)) as (container, stream):
        for frame in container.decode(stream):
            frames.append(torch.empty((3, *size), dtype=torch.uint8))
            colors = color_spec(index.stream, frame)
            convert_frame(frame, colors, 0, False, Geometry((0, 0, *size), size), OutputSpec(), frames[-1])
    return torch.stack(frames)


def leaping(plain, number):
    """An open GOP's file with another number for a picture that nothing refers to."""

    def change(found):
        packets = list(found.packets)
        changed = bytearray(packets[number].data)
        header = slice_header_at(changed)
        assert changed[header] & 0x60 == 0
        assert changed[header + 1] >> 1 == 0b1001111
        changed[header + 2] ^= 0x20  # the last of the 4 bits of frame_num
        packets[number] = replace(packets[number], data=bytes(changed))
        return packets

    return rewritten(plain, change)


@pytest.mark.parametrize(
    ("name", "looked_at"),
    [
        *((name, 2000) for name in ("h264_open_ts", "h264_open_mp4", "h264_open_mkv", "flv")),
        ("h264_fragmented_open_mp4", 0),
    ],
)
def test_decoding_starts_at_no_recovery_point_behind_a_leap_of_numbers(tmp_path, monkeypatch, name, looked_at):
    """What the decoder invents for missing pictures shifts what pictures behind the recovery point refer to."""
    monkeypatch.setattr("videoloader.indexing.keyframe_heads._MOST_NEAR", looked_at)
    if name == "flv":
        plain = joined(tmp_path, "h264_open", [0, 1], "once", "flv")
    else:
        plain = write_base(tmp_path, name).read_bytes()
    keyframes = np.flatnonzero(build_index(plain).packet_key).tolist()
    data = leaping(plain, keyframes[1] - 1)
    video = vl.Video(MemorySource(data), device="cpu")
    assert video.index.packet_key[keyframes[1]] == (looked_at == 0 and name != "h264_open_ts")
    video.read(range(len(video)))
    for frame in range(len(video)):
        video.read([frame])
    assert not video.index.packet_key[keyframes[1]]
    assert video.index.packet_key[keyframes[-1]], "a decoder holds no more than 16 pictures that others refer to"
    assert not others_alone_than_streamed(data)


@pytest.mark.parametrize("missing", [[], [9], [30], [9, 30], [11, 12, 40]])
@pytest.mark.parametrize("name", ["h264_open_mp4", "h264_open_mkv"])
def test_leaps_are_found_for_all_packets_together_as_for_each_alone(tmp_path, name, missing):
    plain = write_base(tmp_path, name).read_bytes()
    data = rewritten(plain, lambda found: [each for at, each in enumerate(found.packets) if at not in missing])
    source, index = MemorySource(data), build_index(data)
    packets = [*range(1, len(index.packet_size))]
    alone = [packet for packet in packets if is_behind_leap(index, source, packet)]
    assert bool(alone) == bool(missing)
    assert len(alone) < len(packets)
    for some in (packets, packets[::5], packets[40:42]):
        assert points_behind_leaps(index, source, some) == [packet for packet in some if packet in alone]


def test_packets_before_recovery_points_are_read_once_if_nothing_leaps(tmp_path):
    data = write_base(tmp_path, "h264_open_mp4").read_bytes()
    index, source = build_index(data), MemorySource(data)
    read = []
    source.read = lambda offset, size: read.append(offset) or data[offset : offset + size]
    packets = [*range(1, len(index.packet_size))]
    assert points_behind_leaps(index, source, packets) == []
    starts = [offset for offset in read if offset in index.packet_offset.tolist()]
    with_sets = np.flatnonzero(index.packet_key).tolist()  # more bytes of these
    assert len(starts) <= len(index.packet_size) + len(with_sets)


@pytest.mark.parametrize("name", ["h264_open_ts", "h264_open_mp4", "h264_open_mkv"])
def test_a_number_that_goes_back_is_a_leap_too(tmp_path, name):
    plain = write_base(tmp_path, name).read_bytes()
    keyframe = np.flatnonzero(build_index(plain).packet_key).tolist()[2]
    assert keyframe == 24
    data = leaping(plain, 23)
    assert not build_index(data).packet_key[keyframe]
    assert not others_alone_than_streamed(data)


def test_decoding_starts_at_no_recovery_point_before_a_leap_even_if_all_is_wanted(tmp_path):
    """What is missing behind it makes pictures refer to others, which lie before it."""
    plain = write_base(tmp_path, "h264_open_raw").read_bytes()
    keyframe = np.flatnonzero(build_index(plain).packet_key).tolist()[3]

    def change(found):
        packets = list(found.packets)
        references = [packet.data[slice_header_at(packet.data)] & 0x60 != 0 for packet in packets]
        assert references[keyframe + 1 : keyframe + 5] == [True, False, True, True]
        return packets[: keyframe + 3] + packets[keyframe + 4 :]

    data = rewritten(plain, change)
    streamed = read_all(data)
    for first in (keyframe, keyframe + 3):
        clip = vl.Video(MemorySource(data), device="cpu").read(range(first, len(streamed)))
        assert not clip.corrupt.any()
        assert torch.equal(clip.frames, streamed[first:])


def test_of_a_sound_file_all_recovery_points_are_starts(tmp_path, monkeypatch):
    data = write_base(tmp_path, "h264_open_mp4").read_bytes()
    monkeypatch.setattr("videoloader.indexing.keyframe_heads._MOST_NEAR", 0)
    video = vl.Video(MemorySource(data), device="cpu")
    keyframes = np.flatnonzero(video.index.packet_key).tolist()
    for frame in range(len(video)):
        video.read([frame])
    assert np.flatnonzero(video.index.packet_key).tolist() == keyframes
    assert video.index.starts_seen_right == {*keyframes[1:]}


def test_a_damaged_picture_that_hides_a_missing_one_does_so_in_all_reads(tmp_path):
    """Nothing refers to it, and it has the missing one's number. A strict decoder refuses it, and misses that one."""

    def change(found):
        packets = list(found.packets)
        keys = [number for number, packet in enumerate(packets) if packet.key]
        references = [packet.data[slice_header_at(packet.data)] & 0x60 != 0 for packet in packets]
        # Behind the first picture that nothing refers to comes the one that goes missing.
        hides = references.index(False, keys[1])
        assert references[hides + 1 : hides + 3] == [True, True]
        data = packets[hides].data
        packets[hides] = replace(packets[hides], data=data[:60] + bytes(len(data) - 60))
        return packets[: hides + 1] + packets[hides + 2 :]

    data = rewritten(joined(tmp_path, "h264_size", [2, 2], "once", "flv"), change)
    video = vl.Video(MemorySource(data), device="cpu")
    assert video.read(range(len(video))).corrupt.any()
    assert not others_alone_than_streamed(data)


def without(folder, settings, missing):
    """A video whose encoder was given these settings, without the packet of that number."""
    options = X264 | {"x264-params": f"scenecut=0:b-pyramid=normal:{settings}"}
    path = write_video(folder / "whole.mkv", Recipe("mkv", "libx264", options, frames=48))
    data = rewritten(path.read_bytes(), lambda found: found.packets[:missing] + found.packets[missing + 1 :])
    lossy = folder / "lossy.mkv"
    lossy.write_bytes(data)
    return lossy


def frames_of_runs(path, frames):
    """(hashes of the frames, which are corrupt, packets of the plan, packets that were decoded)."""
    source, index = FileSource(path), build_index(path)
    while True:
        try:
            for run in plan_frames(index, frames).runs:
                list(read_packets(source, index, run))
            break
        except WrongIndexError as better:
            index = better.index
    found, corrupt, planned, fed = {}, set(), 0, 0
    for run in plan_frames(index, frames).runs:
        count, marked = decode_run(
            CpuDecoder(),
            index,
            run,
            lambda some: read_packets(source, index, some),
            lambda packet, frame: found.__setitem__(packet, hash_of(frame)),
        )
        planned, fed, corrupt = planned + len(run.packets), fed + count, corrupt | marked
    packets = index.frame_packet[frames].tolist()
    return [found[packet] for packet in packets], [packet in corrupt for packet in packets], planned, fed


@pytest.mark.parametrize("missing", [25, 37])
def test_a_frame_with_motion_vectors_that_stood_in_memory_is_corrupt(tmp_path, missing):
    """A picture in temporal direct mode takes them from the one that libavcodec invents for the missing one."""
    path = without(tmp_path, "direct=temporal:ref=1", missing)
    truth = full_decode(path).hashes
    hashes, corrupt, _, _ = frames_of_runs(path, range(47))
    assert 0 < sum(corrupt) < 4
    assert [one for one, bad in zip(hashes, corrupt, strict=True) if not bad] == [
        one for one, bad in zip(truth, corrupt, strict=True) if not bad
    ]
    for number in range(47):
        (alone,), (marked,), _, _ = frames_of_runs(path, [number])
        assert marked == corrupt[number]
        assert alone == hashes[number]


@pytest.mark.parametrize(("settings", "again"), [("direct=spatial", True), ("bframes=0", False)])
def test_frames_behind_missing_pictures_are_sound_where_memory_shows_nowhere(tmp_path, settings, again):
    """They are decoded again only if they may take motion vectors from others."""
    path = without(tmp_path, settings, 17)
    hashes, corrupt, planned, fed = frames_of_runs(path, range(47))
    assert hashes == full_decode(path).hashes
    assert not any(corrupt)
    assert (fed > planned) == again


def test_a_frame_that_refers_to_what_was_decoded_by_other_parameter_sets_is_corrupt(tmp_path):
    """Those came a packet too late. libavcodec says nothing, and shows what stood in memory."""
    path = tmp_path / "late.mkv"
    path.write_bytes(joined(tmp_path, "h264_sps", [3, 1], "late", "mkv"))
    truth = full_decode(path).hashes
    hashes, corrupt, _, _ = frames_of_runs(path, range(len(truth)))
    assert 0 < sum(corrupt) < 8
    assert all(bad or one == other for bad, one, other in zip(corrupt, hashes, truth, strict=True))


def test_only_b_pictures_behind_missing_ones_are_guessed(sample):
    payloads, record = payloads_of(sample("h264_mkv"))
    numbers = FrameNumGaps(record)
    references = [is_reference(payload, record) for payload in payloads]
    # Otherwise a picture that nothing refers to has the missing one's number, and libavcodec misses none.
    missing = next(number for number in range(1, 12) if references[number - 1 : number + 2] == [True, True, False])
    guessed = []
    for payload in payloads[:missing] + payloads[missing + 1 :]:
        numbers.show_missing(payload)
        guessed.append(numbers.guessed)
    index = build_index(sample("h264_mkv"))
    keyframe = int(np.flatnonzero(index.packet_key)[1])
    assert any(guessed[missing:keyframe])
    assert not any(guessed[:missing] + guessed[keyframe - 1 :])


@pytest.mark.parametrize("name", ["h264_mkv", "h264_ts", "h264_mp4_open_gop", "h264_mkv_interlaced"])
def test_numbers_show_that_a_picture_is_missing_that_was_referred_to(sample, name):
    payloads, record = payloads_of(sample(name))
    numbers = FrameNumGaps(record)
    assert not any(numbers.show_missing(payload) for payload in payloads)
    references = [number for number, payload in enumerate(payloads[:40]) if is_reference(payload, record)]
    missing = references[5]
    numbers = FrameNumGaps(record)
    shown = [numbers.show_missing(payload) for payload in payloads[:missing] + payloads[missing + 1 : 40]]
    following = next(number for number in references if number > missing) - 1
    # Those before it that nothing refers to may show it, too.
    assert shown.index(True) in range(missing, following + 1)


def test_what_is_no_picture_shows_nothing(sample):
    payloads, record = payloads_of(sample("h264_mkv"))
    # Exp-Golomb codes so long that 3 of the bits that are looked at are left for frame_num.
    long_codes = int("0" * 24 + "1" * 25 + "0" * 21 + "1" * 22 + "1" + "0" * 35, 2).to_bytes(16, "big")
    for odd in (b"", b"\0\0\0\1", bytes(40), payloads[1][:6], b"\0\0\0\x11\x65" + long_codes):
        numbers = FrameNumGaps(record)
        assert not any(map(numbers.show_missing, [payloads[0], odd, *payloads[12:]]))
    assert not any(map(FrameNumGaps(b"").show_missing, payloads[::3]))


def is_reference(payload, record):
    units = re.finditer(rb"\0\0\x01(.)", payload, re.DOTALL)
    headers = [unit[1][0] for unit in units] if record.startswith(b"\0\0") else headers_by_length(payload)
    return next(header & 0x60 for header in headers if header & 31 in (1, 5)) != 0


def headers_by_length(payload):
    while payload:
        yield payload[4]
        payload = payload[4 + int.from_bytes(payload[:4], "big") :]


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_a_missing_slice_is_seen_with_any_number_of_threads(sample, threads):
    index = build_index(sample("mpeg2_mkv"))
    data, number = bytearray(sample("mpeg2_mkv").read_bytes()), 20
    offset, size = index.packet_range(number)
    slices = [at.start() for at in re.finditer(rb"\0\0\x01[\x01-\xaf]", data[offset : offset + size])]
    # Zeros may stand before any start code.
    data[offset + slices[3] : offset + slices[4]] = bytes(slices[4] - slices[3])
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        video = vl.Video(MemorySource(bytes(data)), device="cpu")
        clip = video.read(range(len(video)))
        (frame,) = (int(each) for each in (video.index.frame_packet == number).nonzero()[0])
        assert clip.corrupt[frame]
    finally:
        torch.set_num_threads(before)
