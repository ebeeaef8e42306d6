"""What NVDEC is told of the pictures that nobody looks at: times, which it leaves earlier pictures out by."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from heapq import heappop, heappush
from types import SimpleNamespace

import pytest

from videoloader.decoding import nvdec
from videoloader.decoding.capabilities import section_format
from videoloader.decoding.sessions import SessionError
from videoloader.indexing import FileSource, build_index
from videoloader.packets import read_packets
from videoloader.planning import plan_frames

WANTED = (30, 34, 38, 42)


@dataclass
class Surface:
    size: int
    time: int

    def framesize(self) -> int:
        return self.size

    def getPTS(self) -> int:
        return self.time

    def GetPtrToPlane(self, plane: int) -> int:
        return 1 << 20


@dataclass
class Session:
    """Holds a few pictures back, and gives them out in the order of their times; notes which it leaves empty."""

    size: int
    late: int = 0
    stream: object = field(default_factory=SimpleNamespace)
    held: list[int] = field(default_factory=list)
    calls: list[tuple[int, int]] = field(default_factory=list)
    empty: set[int] = field(default_factory=set)

    def feed(self, payload: bytes, *, time: int = 0, seen_from: int = 0) -> list[Surface]:
        self.calls.append((time, seen_from))
        if payload:
            heappush(self.held, time)
        given = [heappop(self.held) for _ in range(max(len(self.held) - (4 if payload else 0), 0))]
        self.empty |= {each for each in given if each < seen_from}
        return [Surface(self.size, each - self.late) for each in given]


@pytest.fixture
def decode(sample, monkeypatch: pytest.MonkeyPatch):
    """Decodes some frames of an H.264 video whose pictures pass for large; gives the session and what the sink got."""
    source, index = FileSource(sample("h264_mp4")), build_index(sample("h264_mp4"))
    picture = section_format(index.stream, 0)

    def decode(*, leaves_out: bool = True, late: int = 0, frames: tuple[int, ...] = WANTED):
        (run,) = plan_frames(index, frames).runs
        session, got = Session(nvdec._layout(picture)[1], late), []
        packets = read_packets(source, index, run)
        nvdec._decode_sequence(
            index, session, picture, packets, lambda number, *_: got.append(number), lambda: None, leaves_out=leaves_out
        )
        assert sorted(got) == sorted(index.frame_packet[list(frames)].tolist())
        return session, {1 + int(index.packet_rank[number]) for number in got}

    return decode


def test_pictures_before_the_next_one_wanted_are_left_out_and_no_other(decode) -> None:
    session, wanted = decode()
    assert not session.empty & wanted
    # All that are shown before the first one wanted, and most of those between two.
    given = {time for time, _ in session.calls}
    assert given & set(range(1, min(wanted))) <= session.empty
    assert len(session.empty) >= 0.7 * len(given - wanted)


def test_a_picture_is_given_by_itself_with_its_place_in_the_video(decode) -> None:
    session, _ = decode()
    times = [time for time, _ in session.calls[:-1]]
    assert len(set(times)) == len(times)
    assert min(times) >= 1


@pytest.mark.parametrize("way", [{"leaves_out": False}, {"frames": tuple(range(48))}])
def test_nothing_is_left_out_where_it_may_not_nor_where_the_first_picture_is_wanted(
    decode, monkeypatch: pytest.MonkeyPatch, way
) -> None:
    # The session here takes a call for a picture.
    monkeypatch.setattr(nvdec, "packets_a_call", lambda picture: 1)
    session, _ = decode(**way)
    assert set(session.calls) == {(0, 0)}
    assert not session.empty


class Pool:
    """Lends one session after the other."""

    def __init__(self, *sessions: Session) -> None:
        self.sessions = iter(sessions)

    @contextmanager
    def lend(self, key: object, picture: object, *, new: bool):
        yield next(self.sessions)


@pytest.mark.parametrize(
    ("large", "sparing", "late", "leaves_out"),
    [(True, False, 0, True), (False, False, 0, False), (False, True, 0, True), (True, True, 3, False)],
    ids=["large pictures", "small ones", "small ones, if asked", "not when it went wrong"],
)
def test_of_which_videos_pictures_are_left_out(
    sample, monkeypatch: pytest.MonkeyPatch, large: bool, sparing: bool, late: int, leaves_out: bool
) -> None:
    source, index = FileSource(sample("h264_mp4")), build_index(sample("h264_mp4"))
    size = nvdec._layout(section_format(index.stream, 0))[1]
    sessions = [Session(size, late), Session(size)] if late else [Session(size)]
    pool = Pool(*sessions)
    # The sessions here take a call for a picture.
    monkeypatch.setattr(nvdec, "packets_a_call", lambda picture: 1)
    monkeypatch.setattr(nvdec, "_LARGE_A_CALL", int(large))
    monkeypatch.setattr(nvdec, "why_not_picture", lambda *_: None)
    monkeypatch.setattr(nvdec, "pool_of", lambda gpu: pool)
    got = []
    (run,) = plan_frames(index, WANTED).runs
    nvdec.NvdecDecoder(gpu=0).decode(
        index, read_packets(source, index, run), lambda number, *_: got.append(number), sparing=sparing
    )
    assert bool(sessions[-1].empty) == leaves_out
    assert set(got) == set(index.frame_packet[list(WANTED)].tolist())


def test_a_wanted_picture_with_an_earlier_time_is_an_error(decode) -> None:
    with pytest.raises(SessionError, match="time of an earlier one"):
        decode(late=3)
