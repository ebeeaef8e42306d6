"""Any file gives the right frames, or soon an error of this library that names it."""

from __future__ import annotations

import struct
import tracemalloc
from dataclasses import replace

import av
import numpy as np
import pytest
from corpus_files import CORRUPT_FILES
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from mp4_writing import TABLES, TRACK, box, find_box, replace_box, table
from truth import full_decode, hash_of
from waiting import within_processor_seconds

from videoloader import Video
from videoloader.decoding.cpu import CpuDecoder
from videoloader.errors import FrameRangeError, IndexingError, SourceError, UnsupportedError, VideoLoaderError
from videoloader.indexing import FileSource, MemorySource, build_index
from videoloader.indexing.libav import _decode_head
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

NAME = "some file"
LONGEST = 5  # seconds
MATROSKA = ["h264_mkv", "h264_mkv_live", "hevc_mkv", "vp8_webm", "vp9_webm", "av1_mkv", "mpeg4_mkv", "ffv1_mkv"]


def read_some(data: bytes) -> int:
    """The number of frames, after reading three of them; 0 where the file is refused as it should be."""
    with within_processor_seconds(LONGEST):
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


def test_a_folder_without_images(tmp_path):
    with pytest.raises(SourceError, match="holds no image files; it contains: nothing"):
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
    with within_processor_seconds(LONGEST), pytest.raises(VideoLoaderError, match=r"diary\.mp4: "):
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


@pytest.mark.parametrize("name", [*MATROSKA, "h264_ts", "mpeg4_avi", "h264_mp4_fragmented"])
@pytest.mark.parametrize("percent", [1, 10, 25, 50, 75, 99])
def test_containers_cut_off_have_the_frames_that_are_left_or_are_refused(sample, name, percent):
    data = sample(name).read_bytes()
    assert read_some(data[: len(data) * percent // 100]) <= 60


@pytest.mark.parametrize("codec", ["aac", "subrip"])
def test_an_index_of_what_is_no_video(sample, codec):
    index = build_index(sample("h264_mp4"))
    index = replace(index, stream=replace(index.stream, codec=codec))
    video = Video(sample("h264_mp4"), index=index, device="cpu")
    for read in (lambda: video[3], lambda: video.read([3]), lambda: list(video.stream())):
        with pytest.raises(UnsupportedError, match=f"its index names a codec that is not of video: {codec}"):
            read()


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


def overwrite(data: bytes, start: int, stop: int, words) -> bytes:
    damaged = bytearray(data)
    for at, word in words:
        at = start + at % (stop - start - 3)
        damaged[at : at + 4] = word.to_bytes(4, "big")
    return bytes(damaged)


# Numbers at the edges of their types do most harm.
words = st.lists(
    st.tuples(
        st.integers(0, 1 << 20),
        st.sampled_from([0, 1, 2, 8, 12, 0x7F, 0xFF, 0x7FFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFE, 0xFFFFFFFF]),
    ),
    min_size=1,
    max_size=3,
)
flips = st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(1, 255)), min_size=1, max_size=6)


@settings(max_examples=examples(100))
@given(st.sampled_from(["h264_mp4", "hevc_mp4", "h264_mp4_open_gop", "av1_mp4", "mpeg4_mp4"]), flips)
def test_bytes_flipped_in_the_tables_of_an_mp4(sample, name, flips):
    data = sample(name).read_bytes()
    read_some(flip(data, *find_box(data, [b"moov"]), flips))


@settings(max_examples=examples(150))
@given(st.sampled_from(["h264_mp4", "hevc_mp4", "av1_mp4", "mpeg4_mp4", "h264_mp4_fragmented"]), words)
def test_extreme_numbers_in_the_tables_of_an_mp4(sample, name, words):
    data = sample(name).read_bytes()
    read_some(overwrite(data, *find_box(data, [b"moov"]), words))


@settings(max_examples=examples(100))
@given(words)
def test_extreme_numbers_in_the_tables_of_a_fragment(sample, words):
    data = sample("h264_mp4_fragmented").read_bytes()
    read_some(overwrite(data, *find_box(data, [b"moof"]), words))


@settings(max_examples=examples(60))
@given(flips)
def test_bytes_flipped_in_the_tables_of_a_fragment(sample, flips):
    data = sample("h264_mp4_fragmented").read_bytes()
    read_some(flip(data, *find_box(data, [b"moof"]), flips))


@settings(max_examples=examples(60))
@given(st.sampled_from(["h264_mkv", "vp9_webm", "h264_ts", "mpeg4_avi", "hevc_mkv"]), flips)
def test_bytes_flipped_anywhere_in_other_containers(sample, name, flips):
    data = sample(name).read_bytes()
    read_some(flip(data, 0, len(data), flips))


@settings(max_examples=examples(150))
@given(st.sampled_from(MATROSKA), flips)
def test_bytes_flipped_in_the_headers_of_matroska(sample, name, flips):
    data = sample(name).read_bytes()
    read_some(flip(data, 0, int(build_index(data).packet_offset[3]), flips))


@settings(max_examples=examples(150))
@given(st.sampled_from(MATROSKA), words)
def test_extreme_numbers_in_the_headers_of_matroska(sample, name, words):
    data = sample(name).read_bytes()
    read_some(overwrite(data, 0, int(build_index(data).packet_offset[3]), words))


@settings(max_examples=examples(60))
@given(st.sampled_from(["h264_mp4", "hevc_mp4", "vp9_webm", "av1_mp4"]), flips)
def test_bytes_flipped_in_the_packets(sample, name, flips):
    data = sample(name).read_bytes()
    index = build_index(data)
    first = int(index.packet_offset.min())
    read_some(flip(data, first, int((index.packet_offset + index.packet_size).max()), flips))


def test_timestamps_out_of_all_order_do_not_end_the_process(sample):
    data = sample("h264_mp4").read_bytes()
    backwards = table(b"ctts", "II", [(1, 0), *((1, 1000 * (60 - number)) for number in range(1, 60))])
    data = replace_box(replace_box(data, (*TABLES, b"ctts"), backwards), (*TRACK, b"edts"), box(b"free"))
    # H.264 allows 16 pictures in between, libavcodec aborts when told of more: these times are not believed.
    assert build_index(data).method == "decoded"
    read_some(data)
    index = build_index(sample("h264_mp4"))
    believing = replace(index, stream=replace(index.stream, reorder_depth=60))
    assert Video(sample("h264_mp4"), device="cpu", index=believing)[20].shape == (3, 128, 160)


@pytest.mark.parametrize(("kind", "at"), [(b"tfdt", 4), (b"tfhd", 8)])
@pytest.mark.parametrize("number", [2**63 - 1, 2**63, 2**64 - 1])
def test_times_and_offsets_of_fragments_that_no_integer_holds(sample, kind, at, number):
    data = bytearray(sample("h264_mp4_fragmented").read_bytes())
    start, _ = find_box(data, (b"moof", b"traf", kind))
    if kind == b"tfhd":
        data[start + 3] |= 1  # a base data offset follows
    data[start + at : start + at + 8] = number.to_bytes(8, "big")
    read_some(bytes(data))


def test_fragments_of_more_samples_than_the_file_has_bytes(sample):
    data = sample("h264_mp4_fragmented").read_bytes()
    # Samples of one byte each, that cost the file nothing to tell of.
    header = box(b"tfhd", struct.pack(">III", 0x20010, 1, 1))
    runs = box(b"trun", struct.pack(">II", 0, 9000)) * 1000
    data += box(b"moof", box(b"traf", header + runs))
    tracemalloc.start()
    assert read_some(data) == 0
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100 << 20


def test_an_edit_list_of_more_frames_than_memory_holds(sample):
    data = sample("h264_mp4").read_bytes()
    edits = box(b"elst", struct.pack(">8x") + struct.pack(">IiI", 10**6, 0, 1 << 16) * 100_000)
    with within_processor_seconds(LONGEST), pytest.raises(IndexingError, match="the edit list shows more than"):
        build_index(replace_box(data, (*TRACK, b"edts"), box(b"edts", edits)))


@pytest.mark.parametrize("size", [(0, 128), (160, 0), (0, 0), (65535, 65535)])
@pytest.mark.parametrize("name", ["h264_mp4", "hevc_mp4", "mpeg4_mp4", "av1_mp4"])
def test_a_size_in_the_sample_description_that_cannot_be(sample, name, size):
    data = bytearray(sample(name).read_bytes())
    entry = find_box(data, (*TABLES, b"stsd"))[0] + 16
    data[entry + 24 : entry + 28] = struct.pack(">HH", *size)
    # The codec's own header tells; where it does not, the file is refused.
    assert read_some(bytes(data)) in ((60,) if name[:4] in ("h264", "hevc") else (0, 60))
    if name in ("h264_mp4", "hevc_mp4"):
        stream = build_index(bytes(data)).stream
        assert (stream.width, stream.height) == (160, 128)


def test_colours_that_cannot_be_converted_name_the_file(tmp_path):
    path = tmp_path / "colours.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("mpeg4", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        context = stream.codec_context
        context.color_primaries, context.color_trc, context.colorspace = 1, 1, 5
        container.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        container.mux(stream.encode())
    data = path.read_bytes().replace(struct.pack(">4sHHH", b"nclx", 1, 1, 5), struct.pack(">4sHHH", b"nclx", 1, 1, 200))
    with pytest.raises(UnsupportedError, match=f"{NAME}: colour matrix 200"):
        Video(MemorySource(data, NAME), device="cpu")[0]


@pytest.mark.parametrize("name", CORRUPT_FILES)
def test_damaged_real_files_give_the_frames_of_a_full_decode_or_an_error(corpus, name):
    path = corpus / name
    truth = full_decode(path)
    source = FileSource(path)
    with within_processor_seconds(LONGEST):
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
    path = tmp_path / "sound.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("aac", rate=44100)
        frame = av.AudioFrame.from_ndarray(np.zeros((2, 1024), np.float32), format="fltp", layout="stereo")
        frame.rate = 44100
        container.mux(stream.encode(frame))
        container.mux(stream.encode())
    with pytest.raises(UnsupportedError, match=r"sound\.mp4: has no video track"):
        Video(path, device="cpu")


def test_of_pictures_that_a_header_calls_huge_few_are_decoded_for_a_check(sample):
    data = bytearray(sample("vp8_webm").read_bytes())
    start = data.index(b"\x9d\x01\x2a")  # of the first keyframe: width and height follow
    data[start + 3 : start + 7] = struct.pack("<HH", 8192, 10496)
    packets, times, first = _decode_head(MemorySource(bytes(data)))
    assert packets == len(times) == 2
    assert (first.width, first.height) == (8192, 10496)
