"""What is missing from a file without a trace: libavcodec puts something in its place, and not the same each time."""

from __future__ import annotations

import re

import numpy as np
import pytest
import torch
from lies import LIES
from lies.remuxed import rewritten

import videoloader as vl
from videoloader.indexing import FileSource, MemorySource, build_index
from videoloader.indexing.bitstream.frame_numbers import FrameNumbers
from videoloader.indexing.index import DISPOSABLE_YES
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

pytestmark = pytest.mark.filterwarnings("ignore::videoloader.CorruptFramesWarning")


def payloads_of(path):
    """(payloads of all packets in decode order, their configuration record)."""
    source, index = FileSource(path), build_index(path)
    runs = plan_frames(index, range(len(index))).runs
    payloads = [bytes(packet.data) for run in runs for packet in read_packets(source, index, run)]
    return payloads, index.stream.codec_configs[0]


@pytest.mark.parametrize("seed", range(6))
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


@pytest.mark.parametrize("name", ["h264_mkv", "h264_ts", "h264_mp4_open_gop", "h264_mkv_interlaced"])
def test_numbers_show_that_a_picture_is_missing_that_was_referred_to(sample, name):
    payloads, record = payloads_of(sample(name))
    numbers = FrameNumbers(record)
    assert not any(numbers.show_missing(payload) for payload in payloads)
    references = [number for number, payload in enumerate(payloads[:40]) if is_reference(payload, record)]
    missing = references[5]
    numbers = FrameNumbers(record)
    shown = [numbers.show_missing(payload) for payload in payloads[:missing] + payloads[missing + 1 : 40]]
    following = next(number for number in references if number > missing) - 1
    # Those before it that nothing refers to may show it, too.
    assert shown.index(True) in range(missing, following + 1)


def test_what_is_no_picture_shows_nothing(sample):
    payloads, record = payloads_of(sample("h264_mkv"))
    for odd in (b"", b"\0\0\0\1", bytes(40), payloads[1][:6]):
        numbers = FrameNumbers(record)
        assert not any(map(numbers.show_missing, [payloads[0], odd, *payloads[12:]]))
    assert not any(map(FrameNumbers(b"").show_missing, payloads[::3]))


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
