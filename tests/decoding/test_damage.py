"""Damaged videos: what damage reaches is marked, and comes out the same however it is read."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest
import torch
from corpus_files import CORPUS
from example_count import examples
from helpers.converting import convert_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from lies.remuxed import demuxed, muxed
from read_alone import read_alone
from sample_videos import Recipe, write_video
from truth import full_decode, hash_of

import videoloader as vl
from videoloader.convert.spec import Geometry, OutputSpec, color_spec
from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import FileSource, MemorySource, build_index
from videoloader.indexing.video_stream import open_video
from videoloader.packets.decode_plan import plan_frames, with_all_frames
from videoloader.packets.read_packets import read_packets

pytestmark = pytest.mark.filterwarnings("ignore::videoloader.CorruptFramesWarning")

# Their decoders conceal from the pictures before. (H.264's also from memory that it uses again.)
NAMES = ["mpeg2_mkv", "mpeg4_mkv", "mpeg4_avi", "mpeg4_mp4"]

# The decoders of HEVC and VP8 leave in a picture what stood in memory where its bits end early, and say nothing; so do
# seldom those of MPEG-2 and of fields in H.264. That of MPEG-4 sometimes conceals sound pictures behind damaged ones.
ALL_SEEN = ["h264_mp4", "h264_mp4_open_gop", "h264_mp4_intra_refresh", "vp9_webm", "av1_mkv"]


def with_damaged(path, index, packets):
    """The file with the second half of these packets lost."""
    data = bytearray(path.read_bytes())
    for offset, size in zip(index.packet_offset[packets].tolist(), index.packet_size[packets].tolist(), strict=True):
        data[offset + size // 2 : offset + size] = bytes(size - size // 2)
    return bytes(data)


def mutated(path, index, seed):
    """The file with bits flipped, bytes lost or others in their place, in one to three packets."""
    choose, data = random.Random(seed), bytearray(path.read_bytes())
    for number in choose.sample(range(len(index.packet_size)), choose.choice([1, 1, 2, 3])):
        offset, size = int(index.packet_offset[number]), int(index.packet_size[number])
        first = choose.randrange(min(16, size - 1), size)
        kind = choose.choice(["flip", "lose", "replace"])
        if kind == "flip":
            data[offset + first] ^= 1 << choose.randrange(8)
        elif kind == "lose":
            data[offset + first : offset + size] = bytes(size - first)
        else:
            data[offset + first : offset + size] = choose.randbytes(size - first)
    return bytes(data)


def sequential(data, stream):
    """The frames of a full decode by libav, as a video shows them; None where libav refuses a packet."""
    frames = []
    size = stream.display_size
    with open_video(MemorySource(data)) as (container, source):
        source.codec_context.thread_count = 1
        try:
            for packet in container.demux(source):
                for frame in packet.decode():
                    pixels = torch.empty((3, *size), dtype=torch.uint8)
                    colors = color_spec(stream, frame)
                    convert_frame(frame, colors, 0, False, Geometry((0, 0, *size), size), OutputSpec(), pixels)
                    frames.append(pixels)
        except vl.VideoLoaderError:
            raise
        except Exception:
            return None
    return frames


@pytest.mark.parametrize("number", [1, 3])
@pytest.mark.parametrize("name", NAMES)
def test_each_frame_alone_is_as_in_a_full_decode(sample, tmp_path, name, number):
    whole = build_index(sample(name))
    keyframe = int(np.flatnonzero(whole.packet_key)[number])
    path = tmp_path / sample(name).name
    path.write_bytes(with_damaged(sample(name), whole, [keyframe]))
    source, index, truth = FileSource(path), build_index(path), full_decode(path).hashes
    alone = [read_alone(source, index, frame, CpuDecoder()) for frame in range(len(index))]
    assert [hashed for hashed, _, _ in alone] == truth
    # Leading pictures, which need the keyframe before as well, refer to it.
    reached = (index.start_packet(range(len(index))) <= keyframe) & (index.frame_packet >= keyframe)
    assert [damaged for _, damaged, _ in alone] == reached.tolist()


def test_without_the_keyframe_before_they_would_differ_and_libavcodec_calls_only_one_damaged(sample, tmp_path):
    whole = build_index(sample("mpeg2_mkv"))
    first = int(np.flatnonzero(whole.packet_key)[2])
    path = tmp_path / "damaged.mkv"
    path.write_bytes(with_damaged(sample("mpeg2_mkv"), whole, [first]))
    source, index, truth = FileSource(path), build_index(path), full_decode(path).hashes
    of_gop = [frame for frame in range(len(index)) if index.start_packet(frame) == first]
    differ, called_damaged = [], []
    (run,) = plan_frames(index, of_gop).runs

    def compare(packet, picture):
        frame = int(np.flatnonzero(index.frame_packet == packet)[0])
        differ.extend([frame] * (hash_of(picture) != truth[frame]))
        called_damaged.extend([frame] * picture.is_corrupt)

    CpuDecoder().decode(index, read_packets(source, index, run), compare)
    assert len(differ) > 5 > len(called_damaged) == 1


def test_where_all_keyframes_are_damaged_no_more_than_one_is_gone_back(sample):
    whole = build_index(sample("mpeg2_mkv"))
    keys = np.flatnonzero(whole.packet_key)
    source = MemorySource(with_damaged(sample("mpeg2_mkv"), whole, keys[1:]))
    index = build_index(source)
    for number in range(1, len(keys)):
        frame = int(np.flatnonzero(index.frame_packet == keys[number])[0])
        _, damaged, fed = read_alone(source, index, frame, CpuDecoder())
        assert damaged
        # The keyframe twice, to see what it reaches, and once with the GOP before.
        assert fed <= 2 + keys[number] - keys[number - 1] + 1


def test_the_last_frames_of_a_packet_that_does_not_decode_are_refused_and_the_next_gop_is_not(sample):
    whole = build_index(sample("h264_mp4"))
    keyframe = int(np.flatnonzero(whole.packet_key)[2])
    data = bytearray(with_damaged(sample("h264_mp4"), whole, [keyframe]))
    lost = keyframe - 5
    offset, size = int(whole.packet_offset[lost]), int(whole.packet_size[lost])
    data[offset : offset + size] = bytes(size)
    source = MemorySource(bytes(data))
    index = build_index(source)
    frame = int(np.flatnonzero(index.frame_packet == keyframe)[0])
    with pytest.raises(vl.DecodeError, match=f"packet {lost} does not decode"):
        read_alone(source, index, frame - 1, CpuDecoder())
    _, damaged, _ = read_alone(source, index, frame, CpuDecoder())
    assert damaged


@pytest.mark.parametrize("name", ["h264_mp4", "h264_mp4_open_gop", "mpeg2_mkv", "mpeg4_mkv"])
def test_damage_reaches_up_to_the_next_keyframe_in_decode_order(sample, name):
    whole = build_index(sample(name))
    keys = np.flatnonzero(whole.packet_key)
    # The first packet that is shown after the keyframe and what leads up to it.
    damaged = int(keys[1]) + 1 + int(np.argmax(whole.packet_pts[keys[1] + 1 :] > whole.packet_pts[keys[1]]))
    video = vl.Video(MemorySource(with_damaged(sample(name), whole, [damaged])), device="cpu")
    index = video.index
    reached = (index.start_packet(range(len(index))) == keys[1]) & (index.frame_packet >= damaged)
    assert video.read(range(len(video))).corrupt.tolist() == reached.tolist()
    # Leading pictures of the next GOP are shown before its keyframe, and still within reach.
    assert (index.frame_packet[reached] > keys[2]).any() == (name != "h264_mp4")


def test_damage_of_a_picture_that_nothing_refers_to_stays_there(sample):
    whole = build_index(sample("mpeg2_mkv"))
    before_what_it_refers_to = np.flatnonzero(np.diff(whole.frame_packet) < 0)
    damaged = int(whole.frame_packet[before_what_it_refers_to[3]])
    video = vl.Video(MemorySource(with_damaged(sample("mpeg2_mkv"), whole, [damaged])), device="cpu")
    sound = vl.Video(sample("mpeg2_mkv"), device="cpu")
    clip = video.read(range(len(video)))
    (frame,) = np.flatnonzero(clip.corrupt)
    assert video.index.frame_packet[frame] == damaged
    others = ~clip.corrupt
    assert torch.equal(clip.frames[others], sound[:][others])


def test_a_decoder_that_has_seen_damage_serves_no_other_run(sample):
    whole = build_index(sample("h264_mp4"))
    source = MemorySource(with_damaged(sample("h264_mp4"), whole, [20]))
    index = build_index(source)
    decoder = CpuDecoder()
    sound, damaged = (
        read_alone(source, index, int(np.flatnonzero(index.frame_packet == packet)[0]), decoder) for packet in (5, 20)
    )
    assert (sound[1], damaged[1]) == (False, True)
    assert not decoder._contexts
    read_alone(source, index, 0, decoder)
    assert len(decoder._contexts) == 1


@settings(max_examples=examples(60))
@given(
    st.sampled_from(ALL_SEEN),
    st.integers(0, 10_000),
    st.lists(st.lists(st.integers(0, 59), min_size=1, max_size=8), min_size=1, max_size=4),
    st.sampled_from([1, 2, 8]),
)
def test_all_reads_of_a_damaged_video_agree_and_what_differs_from_a_full_decode_is_marked(
    sample, name, seed, lists, threads
):
    whole = build_index(sample(name))
    data = mutated(sample(name), whole, seed)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        try:
            open_video = vl.Video(MemorySource(data), device="cpu")
        except vl.DecodeError:  # where decoding starts, and libav refuses the packet as well
            assert sequential(data, whole.stream) is None
            return
        everything, streamed = None, []
        try:
            everything = open_video.read(range(len(open_video)))
            streamed = [*open_video.stream()]
        except vl.DecodeError:
            pass
        known = {}
        for number, frames in enumerate(lists):
            frames = [frame % len(open_video) for frame in frames]
            video = open_video if number % 2 else vl.Video(MemorySource(data), device="cpu")
            try:
                clip = video.read(frames)
            except vl.DecodeError:
                assert everything is None
                continue
            for frame, pixels, corrupt in zip(frames, clip.frames, clip.corrupt.tolist(), strict=True):
                seen = known.setdefault(frame, (pixels, corrupt))
                assert torch.equal(seen[0], pixels)
                assert seen[1] == corrupt
        if everything is not None:
            for frame, (pixels, corrupt) in known.items():
                assert torch.equal(everything.frames[frame], pixels)
                assert torch.equal(streamed[frame], pixels)
                assert everything.corrupt[frame] == corrupt
        truth = sequential(data, open_video.index.stream)
        if truth is not None and len(truth) == len(open_video):
            for frame, (pixels, corrupt) in known.items():
                assert corrupt or torch.equal(truth[frame], pixels)
    finally:
        torch.set_num_threads(before)


def test_damage_of_a_leading_picture_does_not_reach_past_its_keyframe_beside_other_damage(sample):
    """One of the damaged packets is a leading picture of the GOP, another lies further on in it."""
    whole = build_index(sample("h264_mp4_open_gop"))
    keyframe = int(np.flatnonzero(whole.packet_key)[2])
    leading = (np.arange(len(whole.packet_pts)) > keyframe) & (whole.packet_pts < whole.packet_pts[keyframe])
    leading &= whole.packet_disposable == 0
    damaged = [int(np.flatnonzero(leading)[0]), keyframe + 12]
    video = vl.Video(MemorySource(with_damaged(sample("h264_mp4_open_gop"), whole, damaged)), device="cpu")
    together = video.read(range(len(video)))
    alone = [bool(video.read([frame]).corrupt[0]) for frame in range(len(video))]
    assert together.corrupt.tolist() == alone
    after = (whole.packet_start[whole.frame_packet] == keyframe) & (whole.frame_packet < damaged[1])
    assert after.sum() > 3
    assert not together.corrupt[after].any()
    assert together.corrupt.any()


def test_a_keyframe_that_the_decoder_drops_beside_a_refused_packet_may_be_damaged(tmp_path):
    """libavcodec drops the picture that it is about to output, and its mark, when it refuses a packet."""
    noise = np.random.default_rng(0).integers(0, 255, (48, 48, 3), np.uint8)
    recipe = Recipe("h264", "libx264", size=(48, 48), frames=4)
    write_video(tmp_path / "v.h264", recipe, lambda number, width, height: np.roll(noise, number * 2, 1))
    data = (tmp_path / "v.h264").read_bytes()
    index = build_index(MemorySource(data))

    def strictly(data, last):
        run = with_all_frames(index, 0, last)
        packets = read_packets(MemorySource(data), index, run)
        return CpuDecoder().decode(index, packets, lambda packet, frame: None, strict=True, fresh=True)

    def flipped(data, packet, choose):
        """The file with one bit of the second half of a packet flipped."""
        changed, size = bytearray(data), int(index.packet_size[packet])
        changed[index.packet_offset[packet] + choose.randrange(size // 2, size)] ^= 1 << choose.randrange(8)
        return bytes(changed) if changed.count(b"\0\0") == data.count(b"\0\0") else data  # with the same start codes

    choose = random.Random(0)
    ended = (flipped(data, 0, choose) for _ in range(20_000))
    concealed = next(data for data in ended if strictly(data, 2).suspect == {0})
    refused = (flipped(concealed, 2, choose) for _ in range(200))
    dropped = [data for data in refused if strictly(data, 2).missing == {0}]
    assert dropped
    for data in dropped:
        video = vl.Video(MemorySource(data), device="cpu")
        assert video.read(range(4)).corrupt.all()
        assert all(video.read([frame]).corrupt.all() for frame in range(4))


@pytest.mark.parametrize("from_end", [14, 28, 60])
@pytest.mark.parametrize("name", ["mpeg4_mkv", "mpeg4_avi"])
def test_damage_in_the_last_bits_of_the_first_picture_of_a_run_is_seen(sample, tmp_path, name, from_end):
    """Decoders of MPEG-4 ask how pictures end only after some that end well."""
    whole = build_index(sample(name))
    keyframe = int(np.flatnonzero(whole.packet_key)[1])
    data, end = bytearray(sample(name).read_bytes()), int(whole.packet_offset[keyframe] + whole.packet_size[keyframe])
    data[end - from_end] ^= 0x10
    path = tmp_path / sample(name).name
    path.write_bytes(data)
    source, index, truth = FileSource(path), build_index(path), full_decode(path).hashes
    reached = np.flatnonzero(np.array(truth) != np.array(full_decode(sample(name)).hashes)).tolist()
    assert len(reached) > 1
    for frame in reached:
        hashed, damaged, _ = read_alone(source, index, frame, CpuDecoder())
        assert hashed == truth[frame]
        assert damaged


def test_pictures_without_stuffing_are_sound_where_the_whole_stream_has_none(sample):
    """A few encoders of MPEG-4 leave it out, and decoders find that out."""
    found = demuxed(sample("mpeg4_mkv").read_bytes())
    # What is no stuffing either.
    bare = [replace(each, data=each.data + b"\xff\xff") for each in found.packets]
    source = MemorySource(muxed(replace(found, packets=bare), "mkv"))
    index, truth = build_index(source), full_decode(sample("mpeg4_mkv")).hashes
    for frame in (0, 1, 20, 21, 22, 59):
        hashed, damaged, _ = read_alone(source, index, frame, CpuDecoder())
        assert hashed == truth[frame]
        assert not damaged


@pytest.mark.parametrize("threads", [2, 8])
def test_damage_at_the_end_is_marked_however_the_threads_take_turns(sample, threads, monkeypatch):
    """The last packet ends too early, which libavcodec calls no error; each read is another race of its threads."""
    name = "h264_mp4_open_gop"
    data = mutated(sample(name), build_index(sample(name)), 664)
    marks = set()
    for used in (1, *[threads] * 40):
        monkeypatch.setattr(torch, "get_num_threads", lambda used=used: used)
        video = vl.Video(MemorySource(data), device="cpu")
        marks.add(tuple(video.read(range(len(video))).corrupt.tolist()))
    assert len(marks) == 1
    assert any(marks.pop())


FINDINGS = CORPUS.parent / "findings"


@pytest.mark.parametrize(
    "name", ["3000258_og_cut.ts", "4000230_full.mp4", "4000292_h264-raw__jcodec__seq_mmco-test.264"]
)
def test_damage_that_was_not_marked_once(name):
    if not (FINDINGS / name).is_file():
        pytest.skip("the findings are not here")
    truth = sequential((FINDINGS / name).read_bytes(), build_index(FINDINGS / name).stream)
    video = vl.Video(FINDINGS / name, device="cpu")
    everything, choose = video.read(range(len(video))), random.Random(0)
    assert everything.corrupt.any()
    for _ in range(30):
        frames = choose.choices(range(len(video)), k=5)
        clip = choose.choice([video, vl.Video(FINDINGS / name, device="cpu")]).read(frames)
        assert torch.equal(clip.frames, everything.frames[frames])
        assert clip.corrupt.tolist() == everything.corrupt[frames].tolist()
        for frame in np.array(frames)[~clip.corrupt].tolist():
            assert torch.equal(truth[frame], everything.frames[frame])


@pytest.mark.parametrize("threads", [1, 2])
def test_pictures_with_a_broken_checksum_are_corrupt_and_all_that_refer_to_them(sample, threads, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    index, data = build_index(sample("ffv1_mkv")), bytearray(sample("ffv1_mkv").read_bytes())
    for packet in (22, 30, 44):
        offset, size = index.packet_range(packet)
        data[offset + size // 3] ^= 1
    video = vl.Video(bytes(data), device="cpu")
    together = video.read(range(60))
    assert np.flatnonzero(index.packet_key[:35]).tolist() == [0, 5, 10, 15, 20, 25, 30]
    assert np.flatnonzero(together.corrupt).tolist() == [22, 23, 24, 30, 31, 32, 33, 34, 44]
    truth = sequential(bytes(data), video.index.stream)
    for number in (21, 22, 24, 25, 30, 33, 44, 45):
        alone = vl.Video(bytes(data), device="cpu").read([number])
        assert alone.corrupt[0] == together.corrupt[number]
        assert torch.equal(alone.frames[0], together.frames[number])
        assert torch.equal(alone.frames[0], truth[number])


@pytest.mark.parametrize("threads", [1, 2])
def test_jpeg_pictures_that_are_concealed_without_a_mark_are_corrupt(tmp_path, threads, monkeypatch):
    monkeypatch.setattr("torch.get_num_threads", lambda: threads)
    path = write_video(tmp_path / "whole.avi", Recipe("avi", "mjpeg", pix_fmt="yuvj420p", frames=20))
    data = with_damaged(path, build_index(path), [5, 6])
    video = vl.Video(MemorySource(data), device="cpu")
    assert np.flatnonzero(video.read(range(20)).corrupt).tolist() == [5, 6]
    assert video.read([6, 4]).corrupt.tolist() == [True, False]
    (tmp_path / "5.jpg").write_bytes(b"".join(bytes(each.data) for each in demuxed(data).packets[5:6]) + b"\xff\xd9")
    assert vl.Video(tmp_path / "5.jpg", device="cpu").read([0]).corrupt.all()


@pytest.mark.parametrize("first", [1, 2, 3])
def test_what_refers_to_a_picture_that_the_decoder_makes_up_is_corrupt(sample, first):
    found = demuxed(sample("mpeg4_mkv").read_bytes())
    data = muxed(replace(found, packets=found.packets[first:]), "mkv")
    video = vl.Video(data, device="cpu")
    # Packet and frame of the first keyframe.
    packet = next(number for number, each in enumerate(found.packets[first:]) if each.key)
    frame = video.index.frame_packet.tolist().index(packet)
    together = video.read(range(len(video)))
    assert together.corrupt[: frame - 2].all()
    assert not together.corrupt[frame:].any()
    for number in (0, 3, frame + 1):
        alone = video.read([number])
        assert bool(alone.corrupt[0]) == bool(together.corrupt[number])
        assert torch.equal(alone.frames[0], together.frames[number])
