"""Whatever a file holds: an error of this library that names it, soon, or the right frames."""

from __future__ import annotations

import time
from contextlib import contextmanager

import numpy as np
import pytest
from corpus_files import CORRUPT_FILES
from hypothesis import given, settings
from hypothesis import strategies as st
from mp4_writing import find_box
from truth import full_decode, hash_of

from videoloader import Video
from videoloader.decoding import CpuDecoder
from videoloader.errors import FrameRangeError, IndexingError, SourceError, UnsupportedError, VideoLoaderError
from videoloader.indexing import FileSource, MemorySource, build_index
from videoloader.packets import read_packets
from videoloader.planning import plan_frames

NAME = "some file"
LONGEST = 5  # seconds


@contextmanager
def soon():
    """Fails unless its body ends in time."""
    started = time.monotonic()
    yield
    assert time.monotonic() - started < LONGEST


def read_some(data: bytes) -> int:
    """The number of frames, after reading three of them; 0 where the file is refused as it should be."""
    with soon():
        try:
            video = Video(MemorySource(data, NAME), device="cpu")
            video[0], video[len(video) // 2], video[-1]
        except VideoLoaderError as error:
            if error.source != NAME or not str(error).startswith(f"{NAME}: "):
                raise
            return 0
        return len(video)


def test_a_missing_file(tmp_path):
    with pytest.raises(SourceError, match=r"missing\.mp4: cannot be opened \(No such file"):
        Video(tmp_path / "missing.mp4", device="cpu")


def test_a_folder(tmp_path):
    with pytest.raises(SourceError, match=r"cannot be opened \(Is a directory"):
        Video(tmp_path, device="cpu")


def test_a_path_that_cannot_be():
    with pytest.raises(SourceError, match="cannot be opened"):
        Video("a\0b.mp4", device="cpu")


def test_an_empty_file(tmp_path):
    path = tmp_path / "empty.mp4"
    path.touch()
    with pytest.raises(SourceError, match=r"empty\.mp4: is empty"):
        Video(path, device="cpu")
    with pytest.raises(SourceError, match="<bytes>: is empty"):
        Video(b"", device="cpu")


@pytest.mark.parametrize(
    "content", [b"Dear diary, today I made a video.\n" * 99, b"\0", b"\0" * 5000, b"#EXTM3U\nmissing.ts"]
)
def test_a_file_of_something_else(tmp_path, content):
    path = tmp_path / "diary.mp4"
    path.write_bytes(content)
    with soon(), pytest.raises(VideoLoaderError, match=r"diary\.mp4: "):
        Video(path, device="cpu")


def test_a_file_that_may_not_be_read(sample, tmp_path):
    path = tmp_path / "secret.mp4"
    path.write_bytes(sample("h264_mp4").read_bytes())
    path.chmod(0)
    try:
        path.read_bytes()
        pytest.skip("this user may read everything")
    except PermissionError:
        pass
    with pytest.raises(SourceError, match=r"secret\.mp4: cannot be opened \(Permission denied"):
        Video(path, device="cpu")


@pytest.mark.parametrize("percent", [25, 50, 75])
def test_a_file_cut_off_before_its_tables(sample, percent):
    data = sample("h264_mp4").read_bytes()
    with pytest.raises(IndexingError, match=r"some file: has no moov box: .*cut off"):
        Video(MemorySource(data[: len(data) * percent // 100], NAME), device="cpu")


@pytest.mark.parametrize("percent", [25, 50, 75])
def test_a_file_cut_off_after_its_tables(sample, percent):
    data = sample("h264_mp4_tables_first").read_bytes()
    with pytest.raises(IndexingError, match=r"some file: is cut off: \d+ of 60 packets lie beyond its end"):
        Video(MemorySource(data[: len(data) * percent // 100], NAME), device="cpu")


@pytest.mark.parametrize("name", ["h264_mkv", "vp9_webm", "h264_ts", "mpeg4_avi", "h264_mp4_fragmented"])
@pytest.mark.parametrize("percent", [1, 10, 25, 50, 75, 99])
def test_containers_cut_off_have_the_frames_that_are_left_or_are_refused(sample, name, percent):
    data = sample(name).read_bytes()
    assert read_some(data[: len(data) * percent // 100]) <= 60


@pytest.mark.parametrize("frame", [60, -61, 10**12])
def test_a_frame_outside_the_video(sample, frame):
    video = Video(sample("h264_mp4"), device="cpu")
    with pytest.raises(FrameRangeError, match=f"h264_mp4.mp4: frame {frame} is outside the video's 60 frames"):
        video[frame]
    with pytest.raises(IndexError):
        video[frame]


def test_slices_end_where_the_video_does(sample):
    video = Video(sample("h264_mp4"), device="cpu")
    assert video[58:100].shape == (2, 3, 128, 160)
    assert video[100:].shape == (0, 3, 128, 160)
    assert video[-1].shape == (3, 128, 160)


def flip(data: bytes, start: int, stop: int, flips) -> bytes:
    damaged = bytearray(data)
    for at, mask in flips:
        damaged[start + at % (stop - start)] ^= mask
    return bytes(damaged)


flips = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=6)


@pytest.mark.timeout(120)
@settings(max_examples=100)
@given(st.sampled_from(["h264_mp4", "hevc_mp4", "h264_mp4_open_gop", "av1_mp4", "mpeg4_mp4"]), flips)
def test_bytes_flipped_in_the_tables_of_an_mp4(sample, name, flips):
    data = sample(name).read_bytes()
    read_some(flip(data, *find_box(data, [b"moov"]), flips))


@pytest.mark.timeout(120)
@settings(max_examples=60)
@given(flips)
def test_bytes_flipped_in_the_tables_of_a_fragment(sample, flips):
    data = sample("h264_mp4_fragmented").read_bytes()
    read_some(flip(data, *find_box(data, [b"moof"]), flips))


@pytest.mark.timeout(120)
@settings(max_examples=60)
@given(st.sampled_from(["h264_mkv", "vp9_webm", "h264_ts", "mpeg4_avi", "hevc_mkv"]), flips)
def test_bytes_flipped_anywhere_in_other_containers(sample, name, flips):
    data = sample(name).read_bytes()
    read_some(flip(data, 0, len(data), flips))


@pytest.mark.timeout(120)
@settings(max_examples=60)
@given(st.sampled_from(["h264_mp4", "hevc_mp4", "vp9_webm", "av1_mp4"]), flips)
def test_bytes_flipped_in_the_packets(sample, name, flips):
    data = sample(name).read_bytes()
    index = build_index(data)
    first = int(index.packet_offset.min())
    read_some(flip(data, first, int((index.packet_offset + index.packet_size).max()), flips))


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", CORRUPT_FILES)
def test_damaged_real_files_give_the_frames_of_a_full_decode_or_an_error(corpus, name):
    path = corpus / name
    truth = full_decode(path)
    source = FileSource(path)
    with soon():
        try:
            index = build_index(source)
            frames = [0, len(index) // 2, len(index) - 1]
            Video(path, device="cpu", index=index).read(frames)
        except VideoLoaderError as error:
            assert error.source == str(path)  # noqa: PT017 - it may as well go well
            assert str(error).startswith(f"{path}: ")  # noqa: PT017
            return
    hashes = {}
    decoder = CpuDecoder()
    for run in plan_frames(index, frames).runs:
        packets = read_packets(source, index, run)
        decoder.decode(index, packets, lambda packet, frame: hashes.update({packet: hash_of(frame)}))
    if not truth.error:
        assert len(index) == len(truth.pts)
    for frame in frames:
        if frame < len(truth.hashes):
            assert hashes[int(index.frame_packet[frame])] == truth.hashes[frame]
            assert truth.pts[frame] in (None, index.frame_pts[frame])
    assert (np.diff(index.frame_pts) >= 0).all()


def test_a_file_without_video(tmp_path):
    import av

    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), format="fltp", layout="stereo")
        frame.rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(UnsupportedError, match=r"sound\.mp4: has no video track"):
        Video(path, device="cpu")
