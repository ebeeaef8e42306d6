"""Streams whose packets were packed, left out, doubled or swapped: an index is either the decoder's, or not made."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import av
import pytest
import torch
from avi_writing import Video, read_video, with_old_index
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from mpeg4_packing import PACKED, USER_DATA, not_coded, of_packets, pack, packed, signed
from read_alone import read_alone
from sample_videos import X264, Recipe, write_video
from truth import full_decode

import videoloader as vl
from videoloader.decoding.cpu import CpuDecoder
from videoloader.errors import VideoLoaderError
from videoloader.indexing import FileSource, VideoIndex, open_source
from videoloader.indexing.avi.index import index_avi
from videoloader.indexing.keyframe_heads import with_keyframes_read
from videoloader.indexing.libav import index_by_decoding

STREAMS = {
    "mpeg4": ("mpeg4", {"g": "7"}),
    "mpeg4_one_b": ("mpeg4", {"bf": "1", "g": "7"}),
    "mpeg4_two_b": ("mpeg4", {"bf": "2", "g": "7"}),
    "mpeg4_three_b": ("mpeg4", {"bf": "3", "g": "7"}),
    "h264": ("libx264", X264),
    "h264_open_gop": ("libx264", X264 | {"x264-params": "open-gop=1:b-pyramid=normal"}),
    "h264_without_b": ("libx264", {"bf": "0", "g": "12"}),
}
# Its order is not told by headers.
INTERLACED = {"mpeg4_interlaced": ("mpeg4", {"bf": "2", "g": "7", "flags": "+ilme+ildct"})}
SIGNATURES = {"packed": PACKED, "DivX": USER_DATA + b"DivX503b1393", "Xvid": USER_DATA + b"XviD0046", "none": b""}


@pytest.fixture(scope="session")
def stream(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Video]:
    folder = tmp_path_factory.mktemp("order")
    made = {}

    def get(name: str) -> Video:
        if name not in made:
            encoder, options = (STREAMS | INTERLACED)[name]
            path = write_video(folder / f"{name}.avi", Recipe("avi", encoder, options, size=(64, 48), frames=24))
            made[name] = read_video(path)
        return made[name]

    return get


def check(video: Video, path: Path) -> VideoIndex | None:
    """The index, which must be the one of a full decode; None where none was made."""
    path.write_bytes(with_old_index(video))
    index = index_avi(FileSource(path))
    if index is None:
        return None
    index, *_ = with_keyframes_read(index, FileSource(path))
    reference = index_by_decoding(FileSource(path))
    for name in ("packet_offset", "packet_size", "packet_key", "packet_pts", "frame_packet", "frame_pts"):
        assert getattr(index, name).tolist() == getattr(reference, name).tolist(), name
    assert index.stream == reference.stream
    return index


@pytest.mark.parametrize("name", ["mpeg4_one_b", "mpeg4_two_b"])
@pytest.mark.parametrize("in_band", [False, True])
def test_packed_streams_are_indexed_as_decoders_take_them_apart(
    stream: Callable[[str], Video], tmp_path: Path, name: str, in_band: bool
) -> None:
    packets, config = signed(stream(name), PACKED)
    packets = pack(packets)
    if in_band:
        packets[0], config = config + packets[0], b""
    index = check(of_packets(stream(name), packets, extra=config), tmp_path / "packed.avi")
    assert index is not None
    assert (index.method, len(index)) == ("decoded", 24)


@pytest.mark.parametrize("ending", ["avi", "mp4", "mov", "mkv", "nut"])
@pytest.mark.parametrize("name", ["mpeg4_one_b", "mpeg4_two_b", "mpeg4_three_b", "mpeg4_interlaced"])
def test_frames_of_packed_streams_and_of_their_copies_are_those_of_a_decode_in_order(
    stream: Callable[[str], Video], tmp_path: Path, name: str, ending: str
) -> None:
    path = tmp_path / "packed.avi"
    path.write_bytes(with_old_index(packed(stream(name))))
    frames = torch.stack(list(vl.Video(path, device="cpu").stream()))
    if ending != "avi":
        path = copied(path, tmp_path / f"copy.{ending}")
    video = vl.Video(path, device="cpu")
    assert len(video) == len(frames) == 24
    assert torch.equal(video[:], frames)
    for number in range(24):
        assert torch.equal(video[number], frames[number])
        assert torch.equal(video[[number, 23 - number]], frames[[number, 23 - number]])


def copied(path: Path, copy: Path) -> Path:
    with av.open(path) as original, av.open(copy, "w") as written:
        to = written.add_stream_from_template(original.streams.video[0])
        for packet in original.demux(video=0):
            if packet.dts is not None:
                packet.stream = to
                written.mux(packet)
    return copy


@settings(max_examples=examples(60))
@given(st.data())
def test_no_mixture_of_packed_placeholder_and_empty_packets_gives_a_wrong_index(
    stream: Callable[[str], Video], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    name = data.draw(st.sampled_from(["mpeg4", "mpeg4_one_b", "mpeg4_two_b"]))
    packets, config = signed(stream(name), SIGNATURES[data.draw(st.sampled_from(list(SIGNATURES)))])
    mixed: list[bytes] = []
    while packets:
        packet = packets.pop(0)
        if packets and data.draw(st.booleans(), "merge"):
            packet += packets.pop(0)
        mixed.append(packet)
        mixed += data.draw(st.sampled_from([[], [], [not_coded(3)], [b"\x7f"]]), "after it")
    code = data.draw(st.sampled_from([b"XVID", b"DX50", b"FMP4"]))
    check(of_packets(stream(name), mixed, extra=config, code=code), tmp_path_factory.getbasetemp() / "mixed.avi")


@settings(max_examples=examples(60))
@given(st.data())
def test_no_stream_with_packets_lost_doubled_or_swapped_gets_a_wrong_index(
    stream: Callable[[str], Video], tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    video = stream(data.draw(st.sampled_from(list(STREAMS))))
    packets = list(video.packets)
    place = data.draw(st.integers(0, len(packets) - 2))
    change = data.draw(st.sampled_from(["lose", "double", "swap", "begin later", "end earlier"]))
    if change == "lose":
        del packets[place]
    elif change == "double":
        packets.insert(place, packets[place])
    elif change == "swap":
        packets[place : place + 2] = packets[place : place + 2][::-1]
    elif change == "begin later":
        del packets[:place]
    else:
        del packets[place + 1 :]
    try:
        check(of_packets(video, packets), tmp_path_factory.getbasetemp() / "changed.avi")
    except VideoLoaderError:
        pytest.fail("an index was made of a stream that does not decode")


@pytest.mark.parametrize("name", STREAMS)
def test_streams_that_end_early_are_indexed_from_their_headers(
    stream: Callable[[str], Video], tmp_path: Path, name: str
) -> None:
    for count in (1, 2, 5, 6, 7, 8, 23):
        index = check(of_packets(stream(name), list(stream(name).packets[:count])), tmp_path / "short.avi")
        assert index is not None
        assert len(index) == count


@pytest.mark.parametrize("numbers", [(0, 1), (1, 0), (0, 0)], ids=["B second", "B first", "no B"])
def test_joined_mpeg4_files_of_which_one_has_b_pictures_are_shown_in_order(
    tmp_path: Path, numbers: tuple[int, ...]
) -> None:
    """libavformat counts the packets of all parts by what the first headers say of B pictures."""
    recipes = [Recipe("avi", "mpeg4", {"bf": count, "g": "12"}, frames=20) for count in ("0", "2")]
    whole = b"".join(write_video(tmp_path / "part.avi", recipes[number]).read_bytes() for number in numbers)
    path = tmp_path / "joined.avi"
    path.write_bytes(whole)
    video = vl.Video(path, device="cpu")
    expected = full_decode(path)
    assert len(video) == len(expected.hashes)
    assert vl.verify(path).ok
    for frame in range(len(video)):
        hashed, damaged, _ = read_alone(open_source(path), video.index, frame, CpuDecoder())
        assert (hashed, damaged) == (expected.hashes[frame], False)
