"""One decoder with several threads: the same frames, and none where anything is wrong."""

from __future__ import annotations

import random
from dataclasses import replace

import av
import av.error
import av.logging
import numpy as np
import pytest
import torch
from example_count import examples
from forked_programs import run_program
from hypothesis import given, settings
from hypothesis import strategies as st
from lies.remuxed import rewritten
from sample_videos import RECIPES, VP9, X264, Recipe, write_video
from truth import full_decode, hash_of
from waiting import PATIENCE

import videoloader as vl
from videoloader.convert.spec import Geometry, OutputSpec
from videoloader.decoding.frame_threads import NeedsOneThreadError, decode_in_threads, suits_threads
from videoloader.indexing import MemorySource, build_index, open_source
from videoloader.indexing.bitstream.nal import iterate_nals, nal_length_size
from videoloader.indexing.bitstream.vp9 import split_superframe
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets
from videoloader.reading import engines
from videoloader.reading import stream as streaming
from videoloader.reading.clip_reader import ClipReader
from videoloader.reading.clip_slots import whole_clip
from videoloader.reading.read_request import ReadRequest

# Of these packets lose their second half.
DAMAGED = ("h264_mp4", "hevc_mkv", "mpeg2_mkv", "mpeg4_mkv", "vp9_webm", "av1_mkv", "h264_mkv_interlaced")
# HEVC's decoder does not see all of that, and leaves in the picture what stood in memory.
SEEN = ("h264_mp4", "mpeg2_mkv", "mpeg4_mkv", "vp9_webm", "av1_mkv", "h264_mkv_interlaced")

# Decoding begins where references are missing, which an error is made of: one thread does these.
STRANGE = {"h264_mp4_open_gop", "h264_mp4_intra_refresh"}


@pytest.fixture(scope="session")
def decoded(sample):
    """``decoded(name)``: the source, index and truth of a sample."""
    known = {}

    def of(name):
        if name not in known:
            known[name] = open_source(sample(name)), build_index(sample(name)), full_decode(sample(name)).hashes
        return known[name]

    return of


def hashes_of(source, index, frames, threads):
    found = {}
    for run in plan_frames(index, frames).runs:
        for packet, frame in decode_in_threads(index, read_packets(source, index, run), threads):
            assert packet not in found
            found[packet] = hash_of(frame)
    return [found[int(index.frame_packet[frame])] for frame in frames]


def pixels_of(source, index, frames, threads):
    """(pixels, marks of damage) of a read, or its error."""
    size = index.stream.display_size
    pixels = torch.zeros((len(frames), 3, *size), dtype=torch.uint8)
    slots = whole_clip(np.array(frames), Geometry((0, 0, *size), size), pixels)
    try:
        ClipReader(torch.device("cpu")).read(ReadRequest(source, index, [slots], OutputSpec(), threads=threads))
    except vl.VideoLoaderError as error:
        return str(error), None
    return pixels, slots.corrupt.tolist()


def damaged(source, index, packets):
    """The file with the second half of these packets lost."""
    data = bytearray(source.read(0, source.size))
    for offset, size in zip(index.packet_offset[packets].tolist(), index.packet_size[packets].tolist(), strict=True):
        data[offset + size // 2 : offset + size] = bytes(size - size // 2)
    return MemorySource(bytes(data), "damaged")


@settings(max_examples=examples(100))
@given(
    st.sampled_from(sorted(RECIPES.keys() - STRANGE)),
    st.lists(st.integers(0, 59), min_size=1, max_size=12),
    st.integers(2, 16),
)
def test_any_frames_of_any_video_are_those_of_a_full_decode(decoded, name, frames, threads):
    source, index, truth = decoded(name)
    assert hashes_of(source, index, frames, threads) == [truth[frame] for frame in frames]


@settings(max_examples=examples(20))
@given(st.sampled_from(sorted(STRANGE)), st.lists(st.integers(0, 59), min_size=1, max_size=12), st.integers(2, 16))
def test_where_references_are_missing_the_frames_are_those_of_one_thread(decoded, name, frames, threads):
    source, index, _ = decoded(name)
    assert torch.equal(pixels_of(source, index, frames, threads)[0], pixels_of(source, index, frames, 1)[0])


@settings(max_examples=examples(40))
@given(st.sampled_from(SEEN), st.integers(0, 59), st.integers(0, 50), st.integers(2, 8))
def test_of_a_damaged_video_one_thread_makes_the_frames(decoded, name, packet, start, threads):
    whole, index, _ = decoded(name)
    source, frames = damaged(whole, index, [packet]), list(range(start, min(start + 24, 60), 2))
    alone, marks = pixels_of(source, index, frames, 1)
    together, same_marks = pixels_of(source, index, frames, threads)
    assert marks == same_marks
    assert together == alone if isinstance(alone, str) else torch.equal(together, alone)


@pytest.mark.parametrize("name", DAMAGED)
def test_nothing_is_given_out_for_a_packet_without_sense(decoded, name):
    source, index, _ = decoded(name)
    run = plan_frames(index, [20]).runs[0]
    packets = [packet._replace(data=bytes(len(packet.data))) for packet in read_packets(source, index, run)]
    with pytest.raises(NeedsOneThreadError):
        list(decode_in_threads(index, packets, 4))


@pytest.fixture(scope="module")
def with_hidden_frames(tmp_path_factory):
    """The index and the packets of a VP9 video, some of which are superframes."""
    options = VP9 | {"auto-alt-ref": "1", "b": "200k"}
    path = tmp_path_factory.mktemp("hidden") / "hidden.mp4"
    index = build_index(write_video(path, Recipe("mp4", "libvpx-vp9", options, frames=24)))
    packets = list(read_packets(open_source(path), index, plan_frames(index, range(24)).runs[0]))
    places = [place for place, packet in enumerate(packets) if len(split_superframe(packet.data)) > 1]
    assert places
    return index, packets, places


def with_packet(packets, place, data):
    return [*packets[:place], packets[place]._replace(data=bytes(data)), *packets[place + 1 :]]


@pytest.mark.parametrize("threads", [2, 3, 8])
def test_a_damaged_frame_is_seen_that_comes_in_one_packet_with_another_and_is_not_shown(with_hidden_frames, threads):
    index, packets, places = with_hidden_frames
    for place in places:
        data = bytearray(packets[place].data)
        data[0] ^= 0xC0  # frame_marker
        with pytest.raises(NeedsOneThreadError):
            list(decode_in_threads(index, with_packet(packets, place, data), threads))


@pytest.mark.parametrize("seed", range(30))
def test_a_damaged_hidden_frame_is_decoded_as_part_of_its_packet(with_hidden_frames, seed):
    """libavcodec reads beyond its end, into the next frame."""
    index, packets, places = with_hidden_frames
    rng = np.random.default_rng(seed)
    place = int(rng.choice(places))
    data = bytearray(packets[place].data)
    _, stop = split_superframe(data)[0]
    at = int(rng.integers(12, stop - 16))
    data[at : at + 16] = rng.bytes(16)
    broken = with_packet(packets, place, data)
    whole = av.CodecContext.create("vp9", "r")
    expected = [hash_of(frame) for packet in broken for frame in whole.decode(av.Packet(bytes(packet.data)))]
    assert [hash_of(frame) for _, frame in decode_in_threads(index, broken, 2)] == expected


@pytest.mark.parametrize("threads", [1, 2])
def test_a_superframe_with_an_empty_frame_is_refused_as_by_libavcodec(with_hidden_frames, threads):
    index, packets, places = with_hidden_frames
    first, second = (packets[places[0]].data[start:stop] for start, stop in split_superframe(packets[places[0]].data))
    marker = bytes([0xC0 | 3 << 3 | 2])
    sizes = b"".join(len(each).to_bytes(4, "little") for each in (first, b"", second))
    data = bytes(first) + bytes(second) + marker + sizes + marker
    with pytest.raises(av.error.FFmpegError):
        av.CodecContext.create("vp9", "r").decode(av.Packet(data))
    with pytest.raises(NeedsOneThreadError):
        list(decode_in_threads(index, with_packet(packets, places[0], data), threads))


def test_a_damaged_frame_is_seen_even_if_only_a_frame_before_it_is_wanted(decoded):
    """That frame refers to it, and is concealed by whatever its thread finds there."""
    whole, index, _ = decoded("h264_mp4")
    frame = int(np.flatnonzero(np.diff(index.frame_packet) < 0)[2])
    reference = int(index.frame_packet[frame + 1])
    source = damaged(whole, index, [reference])
    (run,) = plan_frames(index, [frame]).runs
    assert reference in run.packets
    with pytest.raises(NeedsOneThreadError):
        list(decode_in_threads(index, read_packets(source, index, run), 2))


@pytest.mark.parametrize("missing", [13, 17])
def test_one_thread_makes_frames_that_refer_to_invented_pictures(tmp_path, missing):
    """Those have motion vectors as they stood in memory, of which each thread has its own."""
    options = X264 | {"x264-params": "scenecut=0:b-pyramid=normal:direct=temporal:ref=1"}
    path = write_video(tmp_path / "temporal.mkv", Recipe("mkv", "libx264", options, frames=24))
    data = rewritten(path.read_bytes(), lambda found: found.packets[:missing] + found.packets[missing + 2 :])
    source = MemorySource(data)
    index = build_index(source)
    frames = range(len(index))
    alone, marks = pixels_of(source, index, frames, 1)
    for threads in (2, 4):
        together, same_marks = pixels_of(source, index, frames, threads)
        assert marks == same_marks
        assert torch.equal(together, alone)


def test_what_suits_threads(decoded):
    _, index, _ = decoded("h264_mp4")
    runs = plan_frames(index, range(60)).runs
    assert suits_threads(index, *runs)
    assert not suits_threads(index, *plan_frames(index, [0, 12, 24, 30, 36]).runs)
    for other in ({"codec": "theora"}, {"encrypted": True}):
        assert not suits_threads(replace(index, stream=replace(index.stream, **other)), *runs)
    assert not suits_threads(replace(index, method="decoded"), *runs)


def test_none_where_libavcodec_logs_through_python(decoded):
    _, index, _ = decoded("h264_mp4")
    av.logging.set_level(av.logging.ERROR)
    try:
        assert not suits_threads(index, *plan_frames(index, range(60)).runs)
    finally:
        av.logging.set_level(None)


@pytest.fixture
def threads_seen(monkeypatch):
    """How many threads each decoder is given that may have several. PyTorch may use four."""
    seen = []

    def see(index, packets, threads):
        seen.append(threads)
        return decode_in_threads(index, packets, threads)

    for module in (engines, streaming):
        monkeypatch.setattr(module, "decode_in_threads", see)
    monkeypatch.setattr("videoloader.reading.workers.available_cores", lambda: 4)
    monkeypatch.setattr("torch.get_num_threads", lambda: 4)
    return seen


def test_a_video_shares_the_cores_among_what_is_read_of_it(sample, threads_seen, monkeypatch):
    video = vl.Video(sample("h264_mp4"), device="cpu")
    alone = torch.stack([video[number] for number in range(60)])
    threads_seen.clear()
    assert torch.equal(video[:], alone)
    assert threads_seen == [4]
    one, other = video.stream(), video.stream(slice(10, None))
    assert torch.equal(next(one), alone[0])
    assert torch.equal(next(other), alone[10])
    assert torch.equal(video[:], alone)
    assert threads_seen == [4, 4, 2, 1][: len(threads_seen)]
    assert torch.equal(torch.stack([*one]), alone[1:])
    assert torch.equal(torch.stack([*other]), alone[11:])
    threads_seen.clear()
    monkeypatch.setattr("videoloader.packets.decode_plan.LEAST_PACKETS", 20)
    assert torch.equal(video[:], alone)
    assert threads_seen == [3, 3, 3]


@pytest.mark.parametrize("name", ["h264_mp4", "h264_mp4_open_gop", "hevc_mkv", "av1_mp4", "vp9_webm", "mpeg2_ts"])
def test_a_stream_goes_through_the_video_once(sample, threads_seen, name):
    video = vl.Video(sample(name), device="cpu")
    assert torch.equal(torch.stack([*video]), video[:])
    assert torch.equal(torch.stack([*video.stream(slice(7, 50, 3))]), video[7:50:3])
    assert len(threads_seen) >= 4 or name == "mpeg2_ts"


@settings(max_examples=examples(30))
@given(st.sampled_from(DAMAGED), st.integers(0, 59), st.integers(0, 40))
def test_a_stream_gives_all_frames_of_a_damaged_video(decoded, name, packet, start):
    """Those of other GOPs as if nothing were. How what is lost is concealed depends on where decoding began."""
    whole, index, _ = decoded(name)
    frames = np.arange(start, 60)
    keyframe = np.flatnonzero(index.packet_key[: packet + 1])[-1]
    sound = (index.frame_packet[frames] < keyframe) | (index.start_packet(frames) > packet)
    video = vl.Video(damaged(whole, index, [packet]), device="cpu", index=index)
    try:
        expected = video[start:]
    except vl.DecodeError:
        with pytest.raises(vl.DecodeError):
            list(video.stream(slice(start, None)))
        return
    given_out = torch.stack([*video.stream(slice(start, None))])
    assert given_out.shape == expected.shape
    assert torch.equal(given_out[sound], vl.Video(whole, device="cpu", index=index)[start:][sound])


def test_a_frame_that_is_shown_again_has_memory_of_its_own(decoded):
    source, index, _ = decoded("h264_mp4")
    order = sorted(random.Random(0).choices(range(60), k=90))
    again = replace(index, frame_packet=index.frame_packet[order], frame_pts=np.arange(90))
    video = vl.Video(source, device="cpu", index=again)
    frames = [*video.stream()]
    assert torch.equal(torch.stack(frames), vl.Video(source, device="cpu", index=index).read(order).frames)
    assert len({frame.data_ptr() for frame in frames}) == 90


@pytest.mark.parametrize(
    "order",
    [[*range(20), *range(20)], [*range(10, 40), *range(30)], [*range(30), 5, *range(30, 60)], [0, 1, 2, 3] * 15],
)
def test_edit_lists_may_go_back(decoded, order):
    source, index, _ = decoded("h264_mp4")
    looped = replace(index, frame_packet=index.frame_packet[order], frame_pts=np.arange(len(order)))
    frames = [*vl.Video(source, device="cpu", index=looped).stream()]
    assert torch.equal(torch.stack(frames), vl.Video(source, device="cpu", index=index).read(order).frames)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_reads_on_its_own_and_ends(sample):
    code = (
        "import os, signal, sys, torch, videoloader as vl\n"
        "torch.set_num_threads(4)\n"
        "video = vl.Video(sys.argv[1], device='cpu')\n"
        "paused = video.stream()\n"
        "first, frames, backwards = next(paused), video[:], [*video.stream(slice(None, None, -1))]\n"
        "if not (child := os.fork()):\n"
        f"    signal.alarm({PATIENCE})\n"
        "    same = torch.equal(video[:], frames) and torch.equal(torch.stack([*video]), frames)\n"
        "    same = same and torch.equal(video[::-1], torch.stack(backwards))\n"
        "    del paused, video\n"
        "    os._exit(7 if same else 8)\n"  # PyTorch's own threads crash at an ordinary end
        "assert torch.equal(torch.stack([first, *paused]), frames)\n"
        "sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))\n"
    )
    done = run_program(code, sample("h264_mp4"))
    assert done.returncode == 7


@pytest.mark.parametrize("suffix", ["mp4", "ts"])
def test_the_last_pictures_of_a_run_have_their_marks(tmp_path, suffix):
    """A slice is missing, without which there is no error, and nothing comes after that would take time."""
    options = X264 | {"g": "48", "x264-params": "slices=4:scenecut=0"}
    path = write_video(tmp_path / f"sliced.{suffix}", Recipe(suffix, "libx264", options, size=(1280, 720), frames=24))
    data, whole = bytearray(path.read_bytes()), build_index(path)
    payload = bytes(list(read_packets(open_source(path), whole, plan_frames(whole, range(24)).runs[0]))[23].data)
    record = whole.stream.codec_configs[0]
    starts = [start for start, _ in iterate_nals(payload, nal_length_size("h264", record)) if payload[start] & 31 == 1]
    at = data.index(payload[starts[2] : starts[2] + 12])
    data[at] = 12  # filler data (ITU-T H.264, table 7-1)
    source = MemorySource(bytes(data))
    index = build_index(source)
    (run,) = plan_frames(index, np.flatnonzero(index.frame_packet == 23)).runs
    for threads in (2, 3, 8):
        with pytest.raises(NeedsOneThreadError):
            list(decode_in_threads(index, read_packets(source, index, run), threads))
