"""VP8 pictures that libavcodec's own decoder leaves unfinished, of which it says nothing."""

from __future__ import annotations

from dataclasses import replace

import av
import numpy as np
import pytest
import torch
from corpus_files import CORPUS
from lies.remuxed import demuxed, muxed
from sample_videos import Recipe, write_video

import videoloader as vl
from videoloader.decoding import vp8_check
from videoloader.indexing import FileSource, MemorySource, build_index
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

pytestmark = pytest.mark.filterwarnings("ignore::videoloader.CorruptFramesWarning")


def cut_inside(path, number, left):
    """The file with a packet's first partition said to be so short; a small packet, if it is shorter than 32 bytes."""
    index, data = build_index(path), bytearray(path.read_bytes())
    offset, _ = index.packet_range(number)
    head = int.from_bytes(data[offset : offset + 3], "little")
    data[offset : offset + 3] = (head & 31 | left << 5).to_bytes(3, "little")
    return bytes(data)


def test_an_unfinished_picture_and_what_refers_to_it_is_marked(sample, monkeypatch):
    monkeypatch.setattr(vp8_check, "_SMALL", 1 << 20)
    data = cut_inside(sample("vp8_webm"), 20, 10)
    video = vl.Video(MemorySource(data), device="cpu")
    everything = video.read(range(len(video)))
    assert everything.corrupt.tolist().index(True) == 20
    for number in range(len(video)):
        clip = vl.Video(MemorySource(data), device="cpu").read([number])
        assert clip.corrupt[0] == everything.corrupt[number]
        assert clip.corrupt[0] or torch.equal(clip.frames[0], everything.frames[number])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_packet_that_is_cut_short_is_seen_by_its_last_byte(sample, threads, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    found = demuxed(sample("vp8_webm").read_bytes())
    whole = found.packets[24].data
    short = next(whole[:size] for size in range(len(whole) * 3 // 4, 0, -1) if whole[size - 1] & 3)
    packets = [*found.packets[:24], replace(found.packets[24], data=short), *found.packets[25:]]
    video = vl.Video(muxed(replace(found, packets=packets), "webm"), device="cpu")
    marked = video.read(range(len(video))).corrupt
    assert np.flatnonzero(marked).tolist() == [*range(24, 36)]
    for number in (23, 24, 30, 40):
        assert video.read([number]).corrupt[0] == marked[number]


@pytest.mark.parametrize(("number", "header"), [(24, 10), (27, 3)])
def test_a_first_partition_that_is_said_to_be_too_short_is_seen_by_its_last_byte(sample, number, header):
    whole = demuxed(sample("vp8_webm").read_bytes()).packets[number].data
    left = next(size for size in range(8, 200) if whole[header + size - 1] & 1)
    video = vl.Video(MemorySource(cut_inside(sample("vp8_webm"), number, left)), device="cpu")
    marked = video.read(range(len(video))).corrupt
    assert np.flatnonzero(marked).tolist() == [*range(number, 36)]
    for frame in (number - 1, number, 30, 40):
        assert video.read([frame]).corrupt[0] == marked[frame]


def test_pictures_of_an_odd_size_are_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(vp8_check, "_SMALL", 1 << 20)
    recipe = Recipe("webm", "libvpx", {"g": "8"}, size=(63, 47), frames=16)
    data = cut_inside(write_video(tmp_path / "odd.webm", recipe), 3, 10)
    assert np.flatnonzero(vl.Video(MemorySource(data), device="cpu").read(range(16)).corrupt).tolist() == [*range(3, 8)]


@pytest.mark.parametrize("small", [32, 200, 1 << 20])
def test_sound_pictures_are_those_of_both_decoders(sample, small, monkeypatch):
    monkeypatch.setattr(vp8_check, "_SMALL", small)
    source, index = FileSource(sample("vp8_webm")), build_index(sample("vp8_webm"))
    check, decoder, compared = vp8_check.Vp8Check(index), av.CodecContext.create("vp8", "r"), 0
    for run in plan_frames(index, range(len(index))).runs:
        for packet in read_packets(source, index, run):
            frames = decoder.decode(av.Packet(bytes(packet.data)))
            assert not check.finds_unfinished(packet.number, packet.data, frames)
            compared += check._libvpx is not None
    assert (compared == len(index)) == (small == 1 << 20)


def test_of_a_file_with_unfinished_pictures_all_reads_agree():
    files = list((CORPUS.parent / "findings").glob("2000030_*.webm"))
    if not files:
        pytest.skip("the findings are not here")
    streamed = list(vl.Video(files[0], device="cpu").stream())
    marked = set()
    for number in range(len(streamed)):
        clip = vl.Video(files[0], device="cpu").read([number])
        marked |= {number} if clip.corrupt[0] else set()
        assert clip.corrupt[0] or torch.equal(clip.frames[0], streamed[number])
    assert marked == set(range(7, 16))
