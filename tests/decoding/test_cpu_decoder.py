"""Any frames of any video, through plan, packets and decoder: the same samples as in a full decode."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
import torch
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from read_alone import read_alone
from sample_videos import RECIPES, Recipe, write_video
from truth import full_decode, hash_of

from videoloader import Video
from videoloader.decoding import cpu
from videoloader.decoding.cpu import CpuDecoder
from videoloader.decoding.damage import decode_run
from videoloader.errors import DecodeError, SourceError, UnsupportedError
from videoloader.indexing import MemorySource, build_index, open_source
from videoloader.indexing.bitstream.nal import nal_length_size, parameter_sets
from videoloader.indexing.decoder import open_decoder
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

# Its container calls packets keyframes that are none: see the last test.
FALSE_KEYFRAMES = "h264_mp4_intra_refresh"


@pytest.fixture(scope="session")
def decoded(sample):
    """``decoded(name)``: the source, index and truth of a sample, and one decoder for all of them."""
    decoder, known = CpuDecoder(), {}

    def of(name):
        if name not in known:
            known[name] = open_source(sample(name)), build_index(sample(name)), full_decode(sample(name)).hashes
        return *known[name], decoder

    return of


def read_frames(source, index, frames, decoder):
    """The plane hash of each frame, and how many packets were decoded for them."""
    hashes: dict[int, bytes] = {}
    fed = 0
    for run in plan_frames(index, frames).runs:
        packets = read_packets(source, index, run)
        fed += decoder.decode(index, packets, lambda packet, frame: hashes.update({packet: hash_of(frame)})).fed
    return [hashes.get(int(index.frame_packet[frame])) for frame in frames], fed


@settings(max_examples=examples(150))
@given(
    st.sampled_from(sorted(RECIPES.keys() - {FALSE_KEYFRAMES})),
    st.lists(st.integers(0, 59), min_size=1, max_size=12),
)
def test_any_frames_of_any_video_are_those_of_a_full_decode(decoded, name, frames):
    source, index, truth, decoder = decoded(name)
    hashes, _ = read_frames(source, index, frames, decoder)
    assert hashes == [truth[frame] for frame in frames]


def test_still_pictures_are_not_taken_for_differences_to_the_last(tmp_path):
    path = write_video(tmp_path / "stills.mov", Recipe("mov", "png", pix_fmt="rgb24", frames=6))
    hashes, _ = read_frames(open_source(path), build_index(path), [4, 1, 3], CpuDecoder())
    truth = full_decode(path).hashes
    assert hashes == [truth[4], truth[1], truth[3]]


@pytest.mark.parametrize("name", sorted(RECIPES.keys() - {FALSE_KEYFRAMES}))
def test_each_frame_alone_and_all_together(decoded, name):
    source, index, truth, decoder = decoded(name)
    alone = [read_frames(source, index, [frame], decoder)[0][0] for frame in range(60)]
    together, fed = read_frames(source, index, range(60), decoder)
    assert alone == together == truth
    assert fed == 60


def test_frames_come_in_display_order_each_once(decoded):
    source, index, _, decoder = decoded("h264_mp4")
    (run,) = plan_frames(index, [3, 1, 2, 8, 2]).runs
    seen = []
    decoder.decode(index, read_packets(source, index, run), lambda packet, frame: seen.append(packet))
    assert seen == index.frame_packet[[1, 2, 3, 8]].tolist()


@pytest.mark.parametrize("name", ["h264_mp4", "h264_ts", "hevc_mp4", "mpeg2_ts"])
def test_disposable_packets_that_nobody_wants_are_not_decoded(decoded, name):
    source, index, truth, decoder = decoded(name)
    hashes, fed = read_frames(source, index, [35], decoder)
    assert hashes == [truth[35]]
    assert fed < index.frame_packet[35] + 1 - index.start_packet(35)


def test_a_frame_does_not_depend_on_what_the_decoder_did_before(decoded):
    decoder = CpuDecoder()
    for name in ["h264_mp4", "hevc_mp4", "vp9_webm", "h264_mp4_open_gop", "mpeg2_ts"] * 2:
        source, index, truth, _ = decoded(name)
        assert read_frames(source, index, [40, 13], decoder)[0] == [truth[40], truth[13]]


def test_more_streams_than_the_decoder_keeps_open(decoded):
    decoder = CpuDecoder()
    source, index, truth, _ = decoded("h264_mp4")
    for number in [*range(12), *range(12)]:
        other = replace(index, stream=replace(index.stream, width=index.stream.width + number))
        assert read_frames(source, other, [20], decoder)[0] == [truth[20]]


@pytest.mark.parametrize(("name", "contexts"), [("h264_mp4", 1), ("hevc_mp4", 1), ("h264_ts", 1), ("vp9_webm", 3)])
def test_videos_of_one_configuration_share_a_context(decoded, name, contexts, monkeypatch):
    opened = []
    monkeypatch.setattr(
        cpu, "open_decoder", lambda *arguments, **options: opened.append(0) or open_decoder(*arguments, **options)
    )
    source, index, truth, _ = decoded(name)
    decoder = CpuDecoder()
    for copy in ["a", "b", "c"] * 2:
        assert read_frames(source, replace(index, source=copy), [20], decoder)[0] == [truth[20]]
    assert len(opened) == contexts


def test_notes_of_encoders_in_one_part_of_a_video_do_not_reach_another(sample, tmp_path):
    """libavcodec's decoder of MPEG-4 chooses its inverse DCT by a note, which it remembers."""
    data = sample("mpeg4_avi").read_bytes()
    note = re.search(rb"Lavc[\d.]+", data)[0]
    parts = [data.replace(note, name.ljust(len(note), b"a")) for name in (b"none", b"XviD0050")]
    (tmp_path / "joined.avi").write_bytes(b"".join(parts))
    video = Video(tmp_path / "joined.avi", device="cpu")
    first, second = slice(0, 20), slice(len(video) - 20, len(video))
    seen = [(video[first], video[second]) for _ in range(2)]
    new = [Video(tmp_path / "joined.avi", device="cpu")[part] for part in (second, first)][::-1]
    expected = full_decode(tmp_path / "joined.avi")
    for pictures in (*seen, new):
        assert all(map(torch.equal, pictures, seen[0]))
    hashes = [read_alone(open_source(video.index.source), video.index, frame, CpuDecoder())[0] for frame in (0, 100)]
    assert hashes == [expected.hashes[0], expected.hashes[100]]


@pytest.mark.parametrize("codec", ["h264", "hevc"])
def test_parameter_sets_in_the_packets_of_one_video_do_not_reach_another(tmp_path, codec):
    """Both files have one record, but in the packets of the first stand the parameter sets of another picture."""
    recipe = RECIPES[f"{codec}_mp4"]
    plain = write_video(tmp_path / "plain.mp4", recipe)
    # With the same number as the plain video's, and other transform and entropy coding.
    other = {"h264": "cabac=0:8x8dct=0", "hevc": "no-sao=1:ctu=16"}[codec]
    options = dict(recipe.options)
    options["x264-params" if codec == "h264" else "x265-params"] += ":" + other
    changed = build_index(write_video(tmp_path / "changed.mp4", replace(recipe, options=options)))
    index, truth = build_index(plain), full_decode(plain).hashes
    size = nal_length_size(codec, index.stream.codec_configs[0])
    sets = parameter_sets(codec, changed.stream.codec_configs[0])
    inband = b"".join(len(each).to_bytes(size, "big") + each for each in sets)
    decoder, seen = CpuDecoder(), []
    source, run = open_source(tmp_path / "changed.mp4"), plan_frames(changed, [3]).runs[0]
    packets = [
        packet._replace(data=inband + bytes(packet.data), headers=True) if not number else packet
        for number, packet in enumerate(read_packets(source, changed, run))
    ]
    as_plain = replace(changed, stream=index.stream)
    decoder.decode(as_plain, packets, lambda packet, frame: seen.append(hash_of(frame)))
    assert seen == [full_decode(tmp_path / "changed.mp4").hashes[3]]
    assert read_frames(open_source(plain), index, [3], decoder)[0] == [truth[3]]


@pytest.mark.parametrize("name", ["h264_mp4", "hevc_mp4"])
def test_a_packet_without_sense_is_an_error_that_names_the_file(decoded, name):
    source, index, truth, decoder = decoded(name)
    run = plan_frames(index, [20]).runs[0]
    packets = [packet._replace(data=bytes(len(packet.data))) for packet in read_packets(source, index, run)]
    given_out = []
    with pytest.raises(DecodeError, match=re.escape(f"{index.source}: packet ")):
        decode_run(decoder, index, run, lambda run: packets, lambda packet, frame: given_out.append(packet))
    assert not given_out
    # The decoder is as good as new afterwards.
    assert read_frames(source, index, [20], decoder)[0] == [truth[20]]


@pytest.mark.parametrize("name", ["h264_mp4", "hevc_mp4", "hevc_mkv", "av1_mp4", "vp9_webm", "mpeg4_mp4", "mpeg4_avi"])
def test_a_frame_that_does_not_come_out_is_an_error_that_names_the_file(sample, name):
    data = bytearray(sample(name).read_bytes())
    index = replace(build_index(MemorySource(bytes(data), "damaged")), state=None)  # or the bytes would be compared
    for packet in range(int(index.start_packet(30)), int(index.frame_packet[30]) + 2):
        begin, size = int(index.packet_offset[packet]), int(index.packet_size[packet])
        data[begin : begin + size] = bytes(size)
    video = Video(MemorySource(bytes(data), "damaged"), device="cpu", index=index)
    with pytest.raises(DecodeError, match=r"damaged: (frame 30|packet \d+)"):
        video[30]
    assert video[0].shape == (3, 128, 160)


def test_a_source_that_has_become_shorter_is_an_error(decoded, sample):
    _, index, _, decoder = decoded("h264_mp4")
    shorter = MemorySource(sample("h264_mp4").read_bytes()[:2000], "shorter.mp4")
    with pytest.raises(SourceError, match=r"shorter\.mp4: is shorter .* of the bytes \d+ to \d+ only 0 are"):
        read_frames(shorter, index, [59], decoder)


def test_a_demuxed_source_that_has_become_shorter_is_an_error(decoded, sample):
    _, index, _, decoder = decoded("h264_ts")
    data = sample("h264_ts").read_bytes()
    shorter = MemorySource(data[: len(data) // 2], "shorter.ts")
    with pytest.raises(SourceError, match=r"shorter\.ts: is not the transport stream that was indexed"):
        read_frames(shorter, index, [59], decoder)
    with pytest.raises(SourceError, match=r"shorter\.ts: has only \d+ packets"):
        read_frames(shorter, replace(index, transport=None), [59], decoder)


def test_a_codec_that_libavcodec_lacks_is_unsupported(decoded):
    source, index, _, decoder = decoded("h264_mp4")
    unknown = replace(index, stream=replace(index.stream, codec="no_such_codec"))
    with pytest.raises(UnsupportedError, match="no decoder for no_such_codec"):
        read_frames(source, unknown, [0], decoder)


def test_keyframes_that_are_none_are_found_out(decoded):
    source, index, truth, decoder = decoded(FALSE_KEYFRAMES)
    assert (index.packet_key.sum(), index.keys_from) == (1, "headers")
    assert read_frames(source, index, range(60), decoder)[0] == truth
    expected = Video(source, device="cpu", index=index)[:]
    # As of a video that has too many keyframes to look at all of them when it is indexed.
    believed = replace(index.with_keyframes(np.arange(len(index.packet_key)) % 12 == 0), keys_from="container")
    for frame in range(60):
        video = Video(source, device="cpu", index=believed)
        assert torch.equal(video[frame], expected[frame])
        assert video.index.start_packet(frame) == 0


def test_packets_behind_a_refused_one_are_read_since_they_may_show_that_the_index_is_wrong(sample):
    source, index = open_source(sample("h264_mp4")), build_index(sample("h264_mp4"))
    (run,) = plan_frames(index, range(10)).runs
    packets = (
        packet._replace(data=packet.data[:5]) if packet.number == 2 else packet
        for packet in read_packets(source, index, run)
    )
    outcome = CpuDecoder().decode(index, packets, lambda packet, frame: None, strict=True)
    assert [*outcome.refused] == [2]
    assert next(packets, None) is None


def test_each_packet_is_refused_by_a_decoder_that_refuses_its_configuration(sample):
    """libavcodec 63 forgets the codec after the first one."""
    source, index = open_source(sample("hevc_mkv")), build_index(sample("hevc_mkv"))
    (record,) = index.stream.codec_configs
    at = record.index(b"\x42\x01\x01") + 3  # into the sequence parameter set
    damaged = record[:at] + bytes(len(record) - at)
    index = replace(index, stream=replace(index.stream, codec_configs=(damaged,)))
    packets = list(read_packets(source, index, plan_frames(index, [3]).runs[0]))
    for fresh in (False, True):
        outcome = CpuDecoder().decode(index, packets, lambda *_: None, strict=True, fresh=fresh)
        assert sorted(outcome.refused) == ([each.number for each in packets] if fresh else [packets[0].number])
