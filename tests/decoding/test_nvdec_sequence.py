"""Packets go into a session of NVDEC, and pictures come out; how many there must be is told."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from videoloader.decoding import nvdec
from videoloader.decoding.capabilities import section_format
from videoloader.decoding.sessions import SessionError
from videoloader.errors import DecodeError
from videoloader.indexing import FileSource, VideoIndex, build_index
from videoloader.packets.decode_plan import PacketBytes, with_all_frames
from videoloader.packets.read_packets import read_packets

Video = tuple[VideoIndex, list[PacketBytes]]


@pytest.fixture
def video(request: pytest.FixtureRequest, sample) -> Video:
    index = build_index(sample(request.param))
    run = with_all_frames(index, 0, len(index.packet_size) - 1)
    return index, list(read_packets(FileSource(sample(request.param)), index, run))


class Session:
    """Gives out a picture for each packet that shows one, and some more at the end."""

    def __init__(self, video: Video, *, more: int = 0, size: int = 0) -> None:
        index, packets = video
        self.stream, self._more = SimpleNamespace(), more
        size = size or nvdec._layout(section_format(index.stream, 0))[1]
        self._surface = SimpleNamespace(
            framesize=lambda: size, getPTS=lambda: 0, GetPtrToPlane=lambda plane: 1 << 20
        )  # fmt: skip
        self._shows = iter(index.packet_has_frame[[packet.number for packet in packets]].tolist())

    def feed(self, payload: bytes, *, time: int = 0, seen_from: int = 0) -> list[SimpleNamespace]:
        return [self._surface] * (next(self._shows) if payload else self._more)


def decode(video: Video, session: Session) -> tuple[list[int], PacketBytes | None]:
    """The packets whose pictures came, in this order, and the packet for which another session is needed."""
    index, packets = video
    came: list[int] = []
    picture = section_format(index.stream, 0)
    sequence = nvdec._Sequence(index, session, picture, lambda number, *_: came.append(number), lambda: None)
    return came, sequence.decode(packets[0], packets[1:], leaves_out=True)


NEVER_REORDERED = pytest.mark.parametrize("video", ["vp9_webm", "av1_mp4"], indirect=True)


@NEVER_REORDERED
def test_pictures_of_codecs_that_never_reorder_come_in_the_order_of_packets_whatever_their_times(video: Video) -> None:
    index, packets = video
    lying = replace(index, packet_pts=np.random.default_rng(0).permutation(index.packet_pts))
    came, following = decode((lying, packets), Session(video))
    assert came == [packet.number for packet in packets if packet.wanted]
    assert following is None


@NEVER_REORDERED
def test_a_picture_more_than_packets_show_is_an_error(video: Video) -> None:
    with pytest.raises(SessionError, match="more pictures than packets show"):
        decode(video, Session(video, more=1))


@NEVER_REORDERED
def test_a_picture_of_another_size_is_an_error(video: Video) -> None:
    with pytest.raises(SessionError, match="gave a picture of 7 bytes"):
        decode(video, Session(video, size=7))


@pytest.mark.parametrize("video", ["h264_mp4", "hevc_mp4"], indirect=True)
def test_missing_pictures_are_an_error(video: Video) -> None:
    # Several packets go into one call, and a picture of one of them comes out.
    with pytest.raises(SessionError, match="fewer pictures than it should"):
        decode(video, Session(video))


@pytest.mark.parametrize("video", ["h264_mp4", "hevc_mp4"], indirect=True)
def test_packets_whose_place_is_not_known_are_not_fed(video: Video) -> None:
    index, packets = video
    with pytest.raises(DecodeError, match=r"is unknown from packet 5 on"):
        decode((index, [*packets[:5], packets[5]._replace(place=-1)]), Session(video))


@pytest.mark.parametrize("video", ["h264_mp4"], indirect=True)
def test_parameter_sets_of_another_size_need_another_session(video: Video, monkeypatch: pytest.MonkeyPatch) -> None:
    index, packets = video
    picture = section_format(index.stream, 0)

    def add(pieces: list[bytes], data: bytes, *_: object) -> list[bytes]:
        pieces.append(data)
        return [b"parameter set"] if data == packets[5].data else []

    monkeypatch.setattr(nvdec, "packets_a_call", lambda picture: 1)
    monkeypatch.setattr(nvdec, "_announced", lambda codec, sets: picture._replace(width=picture.width + 16))
    monkeypatch.setattr(nvdec, "add_annex_b", add)
    came, following = decode(video, Session(video))
    assert following == packets[5]
    assert sorted(came) == [packet.number for packet in packets[:5]]
