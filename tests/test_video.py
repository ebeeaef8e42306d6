"""A video as a sequence of frames."""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from forked_programs import run_program
from image_files import write_frames
from waiting import PATIENCE

import videoloader as vl

Sample = Callable[[str], Path]


@pytest.fixture(scope="module")
def video(sample: Sample) -> vl.Video:
    return vl.Video(sample("h264_mp4"), device="cpu")


def test_frames_by_number_slice_and_list(video: vl.Video) -> None:
    assert len(video) == 60
    assert video[7].shape == (3, 128, 160)
    assert torch.equal(video[-1], video[59])
    assert torch.equal(video[10:20:3], torch.stack([video[number] for number in (10, 13, 16, 19)]))
    assert torch.equal(video[5:2:-1], torch.stack([video[5], video[4], video[3]]))
    assert video[60:70].shape == (0, 3, 128, 160)
    clip = video.read([0, 10, 5, 10, -1])
    assert clip.frame_numbers.tolist() == [0, 10, 5, 10, 59]
    assert torch.equal(clip.frames[1], clip.frames[3])
    assert torch.equal(clip.frames[4], video[59])
    assert not clip.corrupt.any()


def test_frames_of_lists_arrays_and_tensors(video: vl.Video) -> None:
    expected = torch.stack([video[0], video[5], video[59], video[5]])
    for numbers in ([0, 5, -1, 5], np.array([0, 5, -1, 5]), torch.tensor([0, 5, -1, 5])):
        assert torch.equal(video[numbers], expected)
        assert torch.equal(video.read(numbers).frames, expected)
    assert torch.equal(video[torch.tensor(5)], video[5])
    assert torch.equal(video.read(range(0, 6, 5)).frames, expected[:2])
    assert torch.equal(video.read_clips([0, 5])[0].frames, expected[:2])
    assert video[[]].shape == (0, 3, 128, 160)


@pytest.mark.parametrize("other", [1.5, True, "0", None, (0, 1)])
def test_what_is_no_frame_number_is_a_type_error(video: vl.Video, other) -> None:
    with pytest.raises(TypeError, match="the index of a video must be"):
        video[other]


@pytest.mark.parametrize("other", [3, slice(0, 5), "random", vl.RandomWindow])
def test_what_is_no_mode_is_refused(video: vl.Video, other) -> None:
    for read in (video.read, video.read_clips):
        with pytest.raises(vl.ConfigurationError, match="mode must be a frame mode"):
            read(other)


def test_frames_by_time(video: vl.Video) -> None:
    assert torch.equal(video.at(0.439), video[10])
    assert torch.equal(video.at(video.timestamps[11]), video[11])
    clip = video.between(0.4, 0.8)
    assert clip.frame_numbers.tolist() == list(range(10, 20))
    assert torch.equal(clip.frames, video[10:20])
    assert video.between(0.4, 0.8, fps=8).frame_numbers.tolist() == [10, 13, 16, 19]
    assert video.between(0, video.duration, fps=50).frame_numbers.tolist() == np.repeat(np.arange(60), 2).tolist()
    for read in (lambda: video.at(2.4), lambda: video.between(2, 3), lambda: video.between(2, 3, fps=8)):
        with pytest.raises(
            vl.FrameRangeError, match=r"asked for .*, but the video lasts 0–2.4 s(: its end shows no frame)?$"
        ):
            read()


def test_a_clip_at_a_constant_rate_counts_from_a_later_first_frame(sample: Sample) -> None:
    video = vl.Video(sample("h264_ts"), device="cpu", times="pts")
    first = Fraction(video.timestamps[0]).limit_denominator(90_000)
    assert video.between(first, first + 1, fps=5).frame_numbers.tolist() == [0, 5, 10, 15, 20]
    told = r"asked for 0–2 s, but the video lasts 0.08–2.48 s of pts \(0–2.4 s from the file's start\)"
    with pytest.raises(vl.FrameRangeError, match=told):
        video.between(0, 2, fps=5)


def test_a_closed_video_tells_what_it_knows_and_reads_no_more(sample: Sample) -> None:
    with vl.Video(sample("h264_mp4"), device="cpu") as video:
        assert video[3].shape == (3, 128, 160)
        begun = video.stream()
        backwards = video.stream(slice(None, None, -1))
        next(begun), next(backwards)
    video.close()
    assert (len(video), video.fps) == (60, 25.0)
    began = (lambda: next(begun), lambda: next(backwards))
    for read in (lambda: video[0], lambda: video.read([0]), lambda: video.at(0), lambda: list(video), *began):
        with pytest.raises(vl.ConfigurationError, match=r"mp4: is closed: create a new Video"):
            read()


def test_a_video_that_is_not_closed_gives_no_warning(sample: Sample) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        video = vl.Video(sample("h264_mp4"), device="cpu")
        video[0]
        del video
        gc.collect()


@pytest.mark.parametrize("number", [60, -61, 10**12])
def test_a_frame_outside_the_video_is_an_index_error(video: vl.Video, number: int) -> None:
    with pytest.raises(vl.FrameRangeError, match="60 frames") as caught:
        video[number]
    assert isinstance(caught.value, IndexError)
    assert caught.value.source == video.index.source
    with pytest.raises(vl.FrameRangeError):
        video.read([number])


def test_a_random_clip_is_the_same_for_the_same_seed(video: vl.Video) -> None:
    mode = vl.RandomWindow(8, stride=2)
    one, again = (video.read(mode, seed=1) for _ in range(2))
    assert torch.equal(one.frames, again.frames)
    assert len({int(video.read(mode, seed=seed).frame_numbers[0]) for seed in range(10)}) > 4
    assert one.timestamps.tolist() == video.timestamps[one.frame_numbers].tolist()


def test_bytes_are_a_source_too(video: vl.Video, sample: Sample) -> None:
    assert torch.equal(vl.Video(sample("h264_mp4").read_bytes(), device="cpu")[30], video[30])


def test_timestamps_of_a_variable_rate(sample: Sample) -> None:
    path = sample("h264_mp4_vfr")
    with av.open(str(path)) as container:
        times = [float(frame.pts * frame.time_base) for frame in container.decode(video=0)]
    assert vl.Video(path, device="cpu").timestamps.tolist() == pytest.approx(times, abs=1e-9)


def test_a_rotated_video_stands_upright(corpus: Path) -> None:
    path = corpus / "h264-rotation__decord__video_90.mov"
    turned = vl.Video(path, device="cpu")
    assert turned.index.stream.rotation == 90
    as_stored = replace(turned.index, stream=replace(turned.index.stream, rotation=0))
    stored = vl.Video(path, device="cpu", index=as_stored)[0]
    assert stored.shape == (3, 320, 568)
    # A player turns it clockwise.
    assert torch.equal(turned[0], torch.rot90(stored, -1, (1, 2)))


def test_a_video_that_changes_its_size_keeps_the_size_of_its_first_frame(corpus: Path) -> None:
    video = vl.Video(corpus / "h264-resolution-change__VideoProcessingFramework__test_res_change.h264", device="cpu")
    assert video.index.stream.size_varies
    assert video[:].shape == (96, 3, 464, 848)


@pytest.mark.parametrize("name", ["h264_mp4", "h264_mp4_open_gop", "hevc_mkv", "mpeg2_ts"])
def test_frames_come_in_order_when_several_decoders_make_them(name: str, sample: Sample, monkeypatch) -> None:
    video = vl.Video(sample(name), device="cpu")
    alone = torch.stack([video.read([number]).frames[0] for number in range(len(video))])
    monkeypatch.setattr("videoloader.packets.decode_plan.LEAST_PACKETS", 1)
    monkeypatch.setattr("videoloader.reading.video_reader.suits_threads", lambda index, *runs: False)
    assert torch.equal(video[:], alone)
    assert torch.equal(torch.stack(list(video)), alone)
    assert torch.equal(torch.stack(list(video.stream(slice(40, 3, -7)))), alone[[40, 33, 26, 19, 12, 5]])


def test_a_stream_holds_no_more_memory_than_told(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    frame = video[0].nbytes
    few = list(video.stream(memory=4 * frame))
    assert torch.equal(torch.stack(few), video[:])
    assert max(each.untyped_storage().nbytes() for each in few) <= 2 * frame
    assert list(video.stream(slice(0, 0))) == []


@pytest.mark.parametrize("step", [1, -1])
@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_gives_all_frames_before_one_that_cannot_be_decoded(
    sample: Sample, step: int, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    data = bytearray(sample("h264_mp4").read_bytes())
    offset, _ = vl.build_index(bytes(data)).packet_range(30)
    data[offset : offset + 4] = b"\xff\xff\xff\xff"  # the length of a NAL unit
    video = vl.Video(bytes(data), device="cpu")
    whole = vl.Video(sample("h264_mp4"), device="cpu")[:]

    def fails(number: int) -> bool:
        try:
            video[number]
        except vl.DecodeError:
            return True
        return False

    numbers = list(range(60)[::step])
    first = next(place for place, number in enumerate(numbers) if fails(number))
    assert 12 < first < 48
    given = []
    with pytest.raises(vl.DecodeError):
        given.extend(video.stream(slice(None, None, step)))  # keeps what comes before the error
    assert torch.equal(torch.stack(given), whole[numbers[:first]])


@pytest.mark.parametrize("threads", [1, 2])
def test_a_stream_gives_all_frames_before_a_file_that_is_cut_off(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    folder = write_frames(tmp_path / "frames", [f"{number:02}.jpg" for number in range(12)])
    whole = vl.Video(folder, device="cpu")[:]
    cut = folder / "07.jpg"
    cut.write_bytes(cut.read_bytes()[:-100])
    given = []
    with pytest.raises(vl.DecodeError, match="no end marker"):
        given.extend(vl.Video(folder, device="cpu").stream())
    assert torch.equal(torch.stack(given), whole[:7])


def test_a_program_that_ends_within_a_stream_ends_without_a_word(sample: Sample) -> None:
    code = (
        "import sys, videoloader as vl\n"
        "video = vl.Video(sys.argv[1], device='cpu')\n"
        "forward, back = video.stream(), video.stream(slice(None, None, -1))\n"
        "next(forward), next(back)\n"
    )
    done = run_program(code, sample("h264_mp4"))
    assert (done.returncode, done.stderr) == (0, "")


def test_a_stream_that_is_left_early_leaves_nothing_behind(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    for _, frame in zip(range(3), video, strict=False):
        assert frame.shape == (3, 128, 160)
    assert torch.equal(next(iter(video)), video[0])


def test_all_clips_of_a_mode_are_those_it_gives_one_by_one(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    mode = vl.RandomWindow(8, stride=3, clips=5, pad="reflect_101")
    clips = video.read_clips(mode, seed=4)
    assert len(clips) == 5
    for number, clip in enumerate(clips):
        alone = video.read(mode, clip=number, seed=4)
        assert torch.equal(clip.frames, alone.frames)
        assert clip.frame_numbers.tolist() == alone.frame_numbers.tolist()
        assert clip.timestamps.tolist() == alone.timestamps.tolist()


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_process_forks_while_threads_keep_their_decoders(sample):
    code = (
        "import multiprocessing, os, sys, videoloader as vl\n"
        "vl.Video(sys.argv[1], device='cpu')[:]\n"
        "child = multiprocessing.get_context('fork').Process(target=os._exit, args=(7,))\n"
        "child.start()\n"
        f"child.join({PATIENCE})\n"
        "code = child.exitcode\n"
        "child.kill()\n"
        "sys.exit(code or 1)\n"
    )
    done = run_program(code, sample("mpeg4_mkv"))
    assert done.returncode == 7
