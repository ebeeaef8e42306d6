"""Pictures that libavcodec drops where parameter sets or sizes change: the index has those that come."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import pytest
import torch
from lies import LIES
from lies.joined import joined
from sample_videos import Recipe, write_video
from truth import full_decode, hash_of

from videoloader import UnsupportedError, Video, verify
from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import FileSource, build_index
from videoloader.indexing.bitstream.nal import HEVC_CRA, iterate_nals
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

END, END_OF_STREAM, END_OF_LAYER = (b"\0\0\0\1" + unit for unit in (b"\x48\1", b"\x4a\1", b"\x48\x09"))
BLA = bytes([16 << 1])


def write(folder, base, lies=()):
    family, members, way, container = base
    data = joined(folder, family, members, way, container)
    for name, seed in lies:
        data = LIES[name].tell(data, seed)
    assert data is not None
    path = folder / f"case.{container}"
    path.write_bytes(data)
    return path


def packets_in_open_gops(path, encoder, width, frames):
    """Packets of a recording, and the place of each in display order."""
    told = "keyint=2:min-keyint=1:bframes=2:open-gop=1:repeat-headers=1"
    options = {f"{encoder.removeprefix('lib')}-params": f"{told}:threads=1" if encoder == "libx264" else told}
    options["preset"] = "ultrafast"
    noise = np.random.default_rng(width).integers(0, 255, (64, width, 3), np.uint8)
    recipe = Recipe(path.suffix[1:], encoder, options, size=(width, 64), frames=frames)
    write_video(path, recipe, lambda number, *_: np.roll(noise, number, 1))
    container, packets, order = av.open(str(path)), [], []
    for packet in container.demux(video=0):
        if packet.size:
            packet.pts = packet.dts = len(packets)
            packets.append(packet)
        order += [frame.pts for frame in packet.decode()]
    return container, packets, [order.index(number) for number in range(len(packets))]


@pytest.mark.parametrize("encoder", ["libx264", "libx265"])
@pytest.mark.parametrize("frames", [3, 4, 5, 6])
def test_a_rest_of_a_gop_before_another_size(tmp_path, encoder, frames):
    """What a decoder holds back there is lost, since it has not seen the GOP's beginning."""
    suffix = {"libx264": "h264", "libx265": "hevc"}[encoder]
    sizes = ((64, frames), (80, 6))
    parts = [packets_in_open_gops(tmp_path / f"{width}.{suffix}", encoder, width, count) for width, count in sizes]
    path = tmp_path / "joined.mkv"
    with av.open(str(path), "w") as container:
        stream = container.add_stream_from_template(parts[0][0].streams.video[0])
        base = 3
        for (_, packets, places), used in zip(parts, (slice(1, None), slice(None)), strict=True):
            for at, packet in list(enumerate(packets))[used]:
                packet.pts, packet.dts, packet.time_base = base + places[at], base + at - 3, Fraction(1, 25)
                packet.stream = stream
                container.mux(packet)
            base += len(packets)
    truth, index = full_decode(path), build_index(path)
    assert index.frame_pts.tolist() == truth.pts
    assert verify(path).ok


@pytest.mark.parametrize(
    ("base", "lies", "lost"),
    [
        # The picture that a decoder of MPEG-2 holds back when the next ones are of another size.
        (("mpeg2_size", (0, 1), "files", "mpeg2video"), (), 1),
        (("mpeg2_size", (0, 1, 0), "once", "mkv"), (), 2),
        (("mpeg2_size", (1, 0), "once", "ts"), (), 1),
        (("mpeg2_size", (1, 0), "once", "ps"), (), 1),
        (("mpeg2_size", (0, 0), "once", "mkv"), (), 0),
        # A sample description that is given out inside a GOP, and at a keyframe that others are shown before.
        (("hevc_sps", (3, 2, 3), "always", "mp4"), [("stsd_twice", 213)], 8),
        # Another sequence parameter set one packet behind its keyframe.
        (("hevc_sps", (0, 2), "late", "ts"), (), None),
        (("hevc_sps", (2, 1), "late", "mkv"), (), 7),
        # Muxers for start codes put the record's sets before those that a keyframe brings along.
        (("hevc_sps", (0, 1, 2), "always", "ts"), (), 8),
        (("hevc_sps", (0, 1, 2, 2), "always", "hevc"), (), None),
        # Only what has the type of the first sample description is shown.
        (("hevc_size", (2, 1, 0, 1), "descriptions", "mp4"), [("stsd_other_name", 145)], 72),
    ],
)
def test_the_frames_are_those_that_come_out_of_a_full_decode(tmp_path, base, lies, lost):
    path = write(tmp_path, base, lies)
    truth, index = full_decode(path), build_index(path)
    assert not truth.error
    assert len(index) == len(truth.hashes)
    if lost is not None:
        assert len(index) == 24 * len(base[1]) - lost
    video = Video(path, device="cpu")
    together = video[:]
    assert all(torch.equal(video[frame], together[frame]) for frame in reversed(range(0, len(video), 5)))


@pytest.mark.parametrize(
    ("base", "lies", "decodes"),
    [
        # A sequence that begins inside a GOP needs a decode anyway.
        (("hevc_pps", (2, 2, 3), "late", "mkv"), [("block_times_swapped", 876)], True),
        (("hevc_size", (2, 1), "once", "mkv"), [("block_times_swapped", 479), ("blocks_no_key", 117)], True),
        # The headers of pictures tell, also where parameter sets change.
        (("hevc_closed", (0, 1), "once", "mkv"), [("block_times_swapped", 3)], True),
        (("h264_open", (0, 1, 2), "once", "mkv"), [("block_times_swapped", 1)], True),
        (("h264_sps", (0, 3), "always", "mkv"), [("block_times_swapped", 3)], True),
        (("h264_sps", (3, 0), "always", "mkv"), [], False),
        (("hevc_closed", (0, 2, 1), "always", "mkv"), [], False),
    ],
)
def test_frames_come_in_the_order_of_a_full_decode(tmp_path, base, lies, decodes):
    path = write(tmp_path, base, lies)
    truth, index = full_decode(path), build_index(path)
    assert index.frame_pts.tolist() == truth.pts
    assert (index.method == "decoded") == decodes


@pytest.mark.parametrize("container", ["mp4", "mov", "mkv", "ts", "mpeg", "avi", "nut"])
@pytest.mark.parametrize("parts", [("", "+ilme+ildct"), ("+ilme+ildct", "")], ids=["fields behind", "fields before"])
@pytest.mark.parametrize("height", [34, 64])
def test_a_decoder_of_mpeg_2_begins_anew_where_fields_need_other_memory(tmp_path, container, parts, height):
    """Frames of 34 lines have three rows of macroblocks, and two fields four. With 64 lines both have four."""
    path = tmp_path / f"x.{container}"
    with av.open(str(path), "w") as target:
        stream = target.add_stream("mpeg2video", 25)
        stream.width, stream.height, stream.pix_fmt = 64, height, "yuv420p"
        for place, flags in enumerate(parts):
            encoder = av.CodecContext.create("mpeg2video", "w")
            encoder.width, encoder.height, encoder.pix_fmt = 64, height, "yuv420p"
            encoder.framerate, encoder.time_base = 25, Fraction(1, 25)
            encoder.options = {"g": "6", "bf": "2"} | ({"flags": flags} if flags else {})
            frames = [av.VideoFrame(64, height, "yuv420p") for _ in range(14)]
            for number, frame in enumerate(frames):
                frame.pts = number
                for plane in frame.planes:
                    plane.update(bytes([9 * number]) * plane.buffer_size)
            for packet in [packet for frame in [*frames, None] for packet in encoder.encode(frame)]:
                copy = av.Packet(bytes(packet))
                copy.stream, copy.time_base, copy.duration = stream, Fraction(1, 25), 1
                copy.pts, copy.dts = packet.pts + 14 * place + 1, packet.dts + 14 * place + 1
                copy.is_keyframe = packet.is_keyframe
                target.mux(copy)
    truth = full_decode(path).hashes
    video = Video(path, device="cpu")
    assert len(truth) == (27 if height == 34 else 28)
    assert len(video) == len(truth)
    assert verify(path).ok


@pytest.mark.parametrize("container", ["mp4", "mkv"])
@pytest.mark.parametrize("family", ["h264_size", "hevc_size", "hevc_sps"])
def test_changes_at_closed_keyframes_need_no_decode(tmp_path, family, container):
    index = build_index(write(tmp_path, (family, (0, 1, 2), "once", container)))
    assert index.method != "decoded"
    assert len(index) == 72


def test_a_picture_that_comes_twice_is_two_frames(tmp_path, sample):
    """Without its headers in the container, MPEG-4's decoder knows too late that pictures are reordered."""
    path = tmp_path / "headless.mkv"
    path.write_bytes(LIES["private_removed"].tell(sample("mpeg4_mkv").read_bytes(), 0))
    frames = build_index(path).frame_packet.tolist()
    twice = next(packet for packet in frames if frames.count(packet) == 2)
    video = Video(path, device="cpu")
    truth = full_decode(path)
    assert len(video) == len(truth.hashes)
    first, second = (frame for frame, packet in enumerate(frames) if packet == twice)
    assert truth.hashes[first] == truth.hashes[second]
    assert torch.equal(video[first], video[second])


def test_a_packet_of_several_pictures_is_refused(tmp_path):
    """As where files are joined within a packet. Which of its pictures is meant cannot be told."""
    recipe = Recipe(
        "h264", "libx264", {"preset": "veryfast", "x264-params": "keyint=6:scenecut=0:bframes=3"}, frames=14
    )
    with av.open(write_video(tmp_path / "plain.h264", recipe)) as raw, av.open(tmp_path / "joined.mp4", "w") as output:
        packets = [bytes(packet) for packet in raw.demux(video=0) if packet.size]
        stream = output.add_stream_from_template(raw.streams.video[0])
        for number, data in enumerate([*packets, b"".join(packets)]):
            packet = av.Packet(data)
            packet.stream, packet.time_base = stream, Fraction(1, 25)
            packet.pts = packet.dts = number
            packet.is_keyframe = number == 0
            output.mux(packet)
    with pytest.raises(UnsupportedError, match=r"joined\.mp4: packet 14 decodes to several pictures"):
        build_index(tmp_path / "joined.mp4")


def write_splice(folder, container, before=b"", after=b"", picture=b"", sets_of_layer=False, behind=0):
    """Write a video of HEVC with open GOPs, as if it were spliced at the third keyframe.

    Args:
        folder: folder to write to.
        container: suffix of the file.
        before: units at the end of the packet before the keyframe.
        after: units at the start of the keyframe's packet.
        picture: first byte of the keyframe's slices in place of that of a CRA picture.
        sets_of_layer: whether the keyframe has its parameter sets again as those of another layer.
        behind: number of packets behind the keyframe at which it is spliced instead.
    """
    options = "log-level=none:keyint=8:min-keyint=8:scenecut=0:bframes=2:repeat-headers=1"
    raw = write_video(folder / "plain.hevc", Recipe("hevc", "libx265", {"x265-params": options}, frames=30))
    plain = build_index(raw)
    times = {packet: frame for frame, packet in enumerate(plain.frame_packet.tolist())}
    path = folder / f"splice.{container}"
    kind = {"ts": "mpegts"}.get(container)
    with av.open(raw) as source, av.open(path, "w", format=kind) as output:
        stream = output.add_stream_from_template(source.streams.video[0])
        keys = plain.packet_key.nonzero()[0]
        for number, packet in enumerate(each for each in source.demux(video=0) if each.size):
            data = bytes(packet)
            if number == keys[2] + behind:
                units = [data[start:stop].rstrip(b"\0") for start, stop in iterate_nals(data, 0)]
                assert (units[-1][0] >> 1 == HEVC_CRA) == (not behind)
                if picture:
                    units = [picture + unit[1:] if unit[0] >> 1 == HEVC_CRA else unit for unit in units]
                if sets_of_layer:
                    again = [unit[:1] + b"\x09" + unit[2:] for unit in units if 32 <= unit[0] >> 1 <= 34]
                    units = [*units[:-1], *again, units[-1]]
                data = after + b"".join(b"\0\0\0\1" + unit for unit in units)
            new = av.Packet(data + (before if number + 1 == keys[2] + behind else b""))
            new.stream, new.time_base = stream, Fraction(1, 25)
            new.pts, new.dts, new.is_keyframe = times[number] + 3, number, bool(plain.packet_key[number])
            output.mux(new)
    return path


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts", "flv"])
@pytest.mark.parametrize(
    "splice",
    [
        {"before": END},
        {"before": END_OF_STREAM},
        {"before": END + END_OF_STREAM},
        {"before": END_OF_LAYER},
        {"after": END},
        {"picture": BLA},
        {"sets_of_layer": True},
    ],
    ids=lambda splice: "+".join(f"{name}={value!r}" for name, value in splice.items()),
)
def test_leading_pictures_behind_a_splice_are_not_shown(tmp_path, container, splice):
    """They refer to pictures before the keyframe, of which those behind the splice are not the ones meant."""
    path = write_splice(tmp_path, container, **splice)
    truth, index = full_decode(path), build_index(path)
    # A packet that is cut behind the first of two ends leaves a picture without a time.
    known = [own if given is not None else None for own, given in zip(index.frame_pts.tolist(), truth.pts, strict=True)]
    assert known == truth.pts
    assert index.method == "decoded"
    assert verify(path, device="cpu").ok
    video = Video(path, device="cpu")
    together = video[:]
    assert all(torch.equal(Video(path, device="cpu")[frame], together[frame]) for frame in range(14, 24))


@pytest.mark.parametrize("behind", [1, 3, 5])
@pytest.mark.parametrize("container", ["mp4", "mov", "mkv"])
@pytest.mark.parametrize("unit", [END, END_OF_STREAM])
def test_a_sequence_that_ends_inside_a_gop_is_not_read(tmp_path, container, unit, behind):
    """Decoders show the pictures before the end first, in an order that the tables do not tell."""
    path = write_splice(tmp_path, container, behind=behind, before=unit)
    truth, index = full_decode(path), build_index(path)
    assert not truth.error
    source, refused = FileSource(path), 0
    for frame, truth_hash in enumerate(truth.hashes):
        (run,) = plan_frames(index, [frame]).runs
        hashes: list[bytes] = []
        try:
            packets = read_packets(source, index, run)
            CpuDecoder().decode(index, packets, lambda _, picture, hashes=hashes: hashes.append(hash_of(picture)))
        except UnsupportedError as error:
            refused += "inside a GOP" in str(error)
        else:
            assert hashes == [truth_hash]
    assert 0 < refused <= 10


@pytest.mark.parametrize("container", ["mp4", "mkv", "ts", "flv"])
def test_a_video_without_a_splice_needs_no_decode(tmp_path, container):
    index = build_index(write_splice(tmp_path, container))
    assert index.method != "decoded"
    assert len(index) == 30
