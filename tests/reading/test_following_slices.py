"""Slices that follow one another: their frames are those of one read, and no packet is decoded again for each."""

from __future__ import annotations

import copy
import os
import pickle
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.reading import corrupt_frames, following_slices, stream
from videoloader.reading.following_slices import FollowingSlices

Sample = Callable[[str], Path]
NAMES = [
    "h264_mp4", "h264_mp4_open_gop", "h264_mp4_intra_refresh", "h264_mp4_vfr", "h264_ts", "hevc_mkv", "mpeg2_ts",
    "mpeg4_mkv", "vp8_webm", "vp9_webm", "av1_mkv", "ffv1_mkv",
]  # fmt: skip


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The packets that decoders which go on were given."""
    packets: list[int] = []
    decode = stream.decode_in_threads

    def counted(index, given, threads):
        def each():
            for packet in given:
                packets.append(packet.number)
                yield packet

        return decode(index, each(), threads)

    monkeypatch.setattr(stream, "decode_in_threads", counted)
    return packets


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The decoders that began to go on; None where it was tried in vain."""
    decoders: list[object] = []
    begin = FollowingSlices._begin
    monkeypatch.setattr(FollowingSlices, "_begin", lambda *given: decoders.append(begin(*given)) or decoders[-1])
    return decoders


def slices(video: vl.Video, size: int) -> torch.Tensor:
    return torch.cat([video[start : start + size] for start in range(0, len(video), size)])


@pytest.mark.parametrize("size", [1, 2, 7, 25])
@pytest.mark.parametrize("name", NAMES)
def test_frames_are_those_of_one_read(sample: Sample, name: str, size: int) -> None:
    whole = vl.Video(sample(name), device="cpu")[:]
    assert torch.equal(slices(vl.Video(sample(name), device="cpu"), size), whole)


@pytest.mark.parametrize("threads", [1, 2, 8])
def test_no_packet_is_decoded_twice_once_slices_follow(
    sample: Sample, threads: int, decoded: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    video = vl.Video(sample("h264_mp4"), device="cpu")
    whole = vl.Video(sample("h264_mp4"), device="cpu")[:]
    assert torch.equal(slices(video, 5), whole)
    assert len(decoded) == len(set(decoded)) > len(video) / 2


def test_frame_by_frame(sample: Sample, decoded: list[int]) -> None:
    video = vl.Video(sample("hevc_mkv"), device="cpu")
    whole = vl.Video(sample("hevc_mkv"), device="cpu")[:]
    for number in range(len(video)):
        assert torch.equal(video[number], whole[number])
    assert len(decoded) == len(set(decoded)) > len(video) / 2


def test_slices_in_other_orders_are_read_from_their_keyframes(sample: Sample, decoded: list[int]) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    whole = video[:]
    for start in (30, 3, 17, 45, 31):
        assert torch.equal(video[start : start + 5], whole[start : start + 5])
    for frames in ([5, 6, 8], [9, 10, 10], [11, 10], [], range(12, 14)):
        assert torch.equal(video[list(frames)], whole[list(frames)])
    assert torch.equal(video[20:10:-1], whole.flip(0)[len(whole) - 21 : len(whole) - 11])
    assert decoded == []


def test_a_jump_ends_it_and_it_begins_again(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4_open_gop"), device="cpu")
    whole = vl.Video(sample("h264_mp4_open_gop"), device="cpu")[:]
    rng = np.random.default_rng(0)
    for _ in range(20):
        at = int(rng.integers(len(whole)))
        for _ in range(int(rng.integers(1, 5))):
            size = int(rng.integers(1, 9))
            assert torch.equal(video[at : at + size], whole[at : at + size])
            at += size


def test_frames_belong_to_the_caller(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    whole = vl.Video(sample("h264_mp4"), device="cpu")[:]
    kept = []
    for start in range(0, 40, 4):
        kept.append(video[start : start + 4])
        kept[-1].copy_(whole[start : start + 4])
    for _ in kept:
        video[40:44].zero_()
    assert torch.equal(torch.cat(kept), whole[:40])


@pytest.mark.filterwarnings("ignore::videoloader.CorruptFramesWarning")
def test_damage_is_told_as_in_other_reads(sample: Sample, tmp_path: Path) -> None:
    index = vl.Video(sample("h264_mp4"), device="cpu").index
    data = bytearray(sample("h264_mp4").read_bytes())
    offset, size = int(index.packet_offset[20]), int(index.packet_size[20])
    data[offset + size // 2 : offset + size] = bytes(size - size // 2)
    (tmp_path / "damaged.mp4").write_bytes(data)
    clip = vl.Video(tmp_path / "damaged.mp4", device="cpu").read(range(len(index)))
    assert torch.equal(slices(vl.Video(tmp_path / "damaged.mp4", device="cpu"), 4), clip.frames)
    strict, refused = vl.Video(tmp_path / "damaged.mp4", device="cpu", on_corrupt="raise"), []
    for start in range(0, len(index), 4):
        try:
            strict[start : start + 4]
        except vl.CorruptFramesError:
            refused.append(start)
    assert refused == sorted({int(number) // 4 * 4 for number in np.flatnonzero(clip.corrupt)})


def test_a_file_that_changes_between_slices_is_an_error(sample: Sample, tmp_path: Path) -> None:
    path = tmp_path / "video.mp4"
    path.write_bytes(sample("h264_mp4").read_bytes())
    video = vl.Video(path, device="cpu")
    assert len(torch.cat([video[3:6], video[6:9], video[9:12]])) == 9
    path.write_bytes(sample("h264_mp4").read_bytes()[::-1])
    with pytest.raises(vl.VideoLoaderError, match=r"video\.mp4"):
        video[12:15]


def test_a_closed_video_reads_no_more(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    for start in (3, 6, 9):
        video[start : start + 3]
    video.close()
    with pytest.raises(vl.ConfigurationError, match="closed"):
        video[12:15]


def test_a_video_that_nobody_refers_to_is_gone_at_once(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    for start in (3, 6, 9):
        video[start : start + 3]
    (going,) = video._reader._following._kept
    frames, seen = weakref.ref(going), weakref.ref(video._reader)
    del going, video
    assert frames() is None
    assert seen() is None


def test_few_decoders_wait_for_a_next_slice(sample: Sample) -> None:
    whole = vl.Video(sample("h264_mp4"), device="cpu")[:]
    videos = [vl.Video(sample("h264_mp4"), device="cpu") for _ in range(20)]
    for start in (3, 6, 9):
        for video in videos:
            assert torch.equal(video[start : start + 3], whole[start : start + 3])
    assert sum(len(video._reader._following._kept) for video in videos) == following_slices._MOST_WAITING


def test_threads_that_share_a_video_do_not_disturb_each_other(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    whole = vl.Video(sample("h264_mp4"), device="cpu")[:]
    wrong: list[int] = []

    def read(size: int) -> None:
        for start in range(0, len(whole), size):
            if not torch.equal(video[start : start + size], whole[start : start + size]):
                wrong.append(start)

    threads = [threading.Thread(target=read, args=(size,)) for size in (1, 2, 3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.parametrize("size", [1, 4, 13])
def test_long_videos_are_planned_in_stretches(
    sample: Sample, size: int, monkeypatch: pytest.MonkeyPatch, begun: list[object]
) -> None:
    monkeypatch.setattr(following_slices, "_STRETCH", 5)
    monkeypatch.setattr(following_slices, "_LONGEST_STRETCH", 17)
    for name in ("h264_mp4", "h264_mp4_open_gop", "vp9_webm"):
        whole = vl.Video(sample(name), device="cpu")[:]
        assert torch.equal(slices(vl.Video(sample(name), device="cpu"), size), whole)
    assert len(begun) > 5


def test_copies_of_a_video_begin_anew(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    whole = vl.Video(sample("h264_mp4"), device="cpu")[:]
    for start in (3, 6, 9):
        video[start : start + 3]
    assert video._reader._following._kept
    for copied in (pickle.loads(pickle.dumps(video)), copy.deepcopy(video)):
        for start in (12, 15, 18):
            assert torch.equal(copied[start : start + 3], whole[start : start + 3])
    assert torch.equal(video[12:15], whole[12:15])


def test_a_decoder_that_waits_keeps_no_slice_alive(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    memories: list[weakref.ref[np.ndarray]] = []

    def watched(size: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> torch.Tensor:
        memory = np.empty(size, np.uint8)
        memories.append(weakref.ref(memory))
        return torch.from_numpy(memory)

    monkeypatch.setattr(following_slices, "allocate", watched)
    video = vl.Video(sample("h264_mp4"), device="cpu")
    for start in (3, 6, 9, 20, 23, 40, 42, 45):
        video[start : start + 3]
        video[start + 3 : start + 6]
    video[48 : len(video)]
    assert len(memories) > 5
    assert not any(memory() is not None for memory in memories)


def test_where_one_thread_must_decode_it_is_not_tried_for_each_slice(
    sample: Sample, begun: list[object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(corrupt_frames, "_warned", OrderedDict())  # other tests have damaged bytes, too
    index = vl.Video(sample("h264_mp4"), device="cpu").index
    data = bytearray(sample("h264_mp4").read_bytes())
    for packet in range(5, len(index), 6):
        offset, size = int(index.packet_offset[packet]), int(index.packet_size[packet])
        data[offset + size // 2 : offset + size] = bytes(size - size // 2)
    video = vl.Video(bytes(data), device="cpu")
    with pytest.warns(vl.CorruptFramesWarning):
        slices(video, 2)
    assert len(begun) == 1


def test_a_video_closed_during_a_slice_keeps_no_decoder(sample: Sample, monkeypatch: pytest.MonkeyPatch) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    for start in (3, 6, 9):
        video[start : start + 3]
    following, read = video._reader._following, following_slices._Going.read

    def read_and_close(going: following_slices._Going, slots: tuple[torch.Tensor, ...]) -> None:
        read(going, slots)
        video.close()

    monkeypatch.setattr(following_slices._Going, "read", read_and_close)
    with pytest.raises(vl.ConfigurationError, match="closed"):
        video[12:15]
    assert not following._kept


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_begins_once(sample: Sample, begun: list[object]) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    for start in (3, 6, 9):
        video[start : start + 3]
    assert len(begun) == 1
    if not (child := os.fork()):
        for start in range(12, 36, 3):
            video[start : start + 3]
        os._exit(len(begun))
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_reads_on_by_itself(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    whole = vl.Video(sample("h264_mp4"), device="cpu")[:]
    for start in (3, 6, 9):
        video[start : start + 3]
    if not (child := os.fork()):
        right = all(torch.equal(video[at : at + 3], whole[at : at + 3]) for at in (12, 15, 18))
        os._exit(0 if right else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert torch.equal(video[12:15], whole[12:15])


def test_one_thread_decodes_what_it_must(sample: Sample, begun: list[object]) -> None:
    """MPEG-4's decoder guesses at encoders' bugs in each thread."""
    video = vl.Video(sample("mpeg4_mkv"), device="cpu")
    assert torch.equal(slices(video, 4), vl.Video(sample("mpeg4_mkv"), device="cpu")[:])
    assert begun
    assert not any(begun)
