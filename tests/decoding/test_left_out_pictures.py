"""What NVDEC is told of the pictures that nobody looks at: times, which it leaves earlier pictures out by."""

from __future__ import annotations

from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from types import SimpleNamespace

import numpy as np
import pytest
from example_count import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from painted_videos import write_painted

from videoloader.convert.surface import CudaSurface
from videoloader.decoding import nvdec
from videoloader.decoding.capabilities import section_format
from videoloader.decoding.sessions import SessionError
from videoloader.indexing import FileSource, VideoIndex, build_index
from videoloader.packets.decode_plan import PacketBytes, plan_frames
from videoloader.packets.read_packets import read_packets

# Of a GOP of 400 frames.
WANTED = (130, 134, 138, 142)


@dataclass
class Surface:
    size: int
    time: int
    rank: int

    def framesize(self) -> int:
        return self.size

    def getPTS(self) -> int:
        return self.time

    def GetPtrToPlane(self, plane: int) -> int:
        return 1 << 20


@dataclass
class Session:
    """Gives pictures in display order, with times as NVDEC's parser was seen to give them.

    The first picture of a call has the call's time, others that of the picture shown before them and ``step``.

    Attributes:
        rising: whether times come out in rising order, whosever they were, as they did with one packet a call.
        empty: display ranks of the pictures that were left out.
        times: for each call.
        sizes: of each call, packets.
    """

    index: VideoIndex
    packets: list[PacketBytes]
    late: int = 0
    step: int = 33
    rising: bool = False
    stream: object = field(default_factory=SimpleNamespace)
    empty: set[int] = field(default_factory=set)
    times: list[int] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._size = nvdec._layout(section_format(self.index.stream, 0))[1]
        self._coming = deque(self.packets)
        # (display rank, time of its own) of pictures that are held back, and the times alone, as heaps.
        self._held: list[tuple[int, int | None]] = []
        self._times: list[int] = []
        self._last = 0

    def feed(self, payload: bytes, *, time: int = 0, seen_from: int = 0) -> list[Surface]:
        self.times.append(time)
        at = count = 0
        while at < len(payload):
            packet = self._coming.popleft()
            assert payload[at : at + len(packet.data)] == packet.data
            heappush(self._held, (int(display_ranks(self.index)[packet.number]), None if count else time))
            heappush(self._times, time + count * self.step)
            at, count = at + len(packet.data), count + 1
        self.sizes.append(count)
        given = []
        while len(self._held) > (4 if payload else 0):
            (rank, own), rising = heappop(self._held), heappop(self._times)
            self._last = rising if self.rising else self._last + self.step if own is None else own
            if self._last - self.late < seen_from:
                self.empty.add(rank)
            given.append(Surface(self._size, self._last - self.late, rank))
        return given


def display_ranks(index: VideoIndex) -> np.ndarray:
    """int64[P]: each packet's place in display order."""
    return np.argsort(np.argsort(index.packet_pts, kind="stable"))


Video = tuple[FileSource, VideoIndex]


@pytest.fixture(scope="module")
def videos(tmp_path_factory: pytest.TempPathFactory) -> list[Video]:
    """Of one long GOP with a pyramid of B-frames; of open GOPs; with B-frames that are no references."""
    folder = tmp_path_factory.mktemp("painted")
    paths = [write_painted(folder, name) for name in ("h264_long_gop", "h264_open_pyramid", "h264_many_references")]
    return [(FileSource(path), build_index(path)) for path in paths]


@pytest.fixture
def video(videos: list[Video]) -> Video:
    return videos[0]


@pytest.fixture(autouse=True)
def plain_packets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Packets are fed as they are in the file."""
    monkeypatch.setattr(nvdec, "annex_b_headers", lambda codec, config: b"")
    monkeypatch.setattr(nvdec, "add_annex_b", lambda pieces, data, *_: pieces.append(bytes(data)) or [])


def decode_by(
    session: Session, index: VideoIndex, packets: list[PacketBytes], sink: nvdec.Sink, *, leaves_out: bool = True
) -> None:
    sequence = nvdec._Sequence(index, session, section_format(index.stream, 0), sink, lambda: None)
    sequence.decode(packets[0], packets[1:], leaves_out=leaves_out)
    assert sequence.fed == len(packets)


def decode(
    video: Video, frames: tuple[int, ...], *, leaves_out: bool = True, **options: int
) -> tuple[Session, set[int]]:
    """The session, and the display ranks of what the sink got."""
    source, index = video
    (run,) = plan_frames(index, frames).runs
    packets = list(read_packets(source, index, run, places=True))
    session, got = Session(index, packets, **options), []
    decode_by(session, index, packets, lambda number, *_: got.append(number), leaves_out=leaves_out)
    assert sorted(got) == sorted(index.frame_packet[list(frames)].tolist())
    return session, set(display_ranks(index)[got].tolist())


def pictures(monkeypatch: pytest.MonkeyPatch, *, large: bool, most: int = 4) -> None:
    monkeypatch.setattr(nvdec, "packets_a_call", lambda picture: most)
    monkeypatch.setattr(nvdec, "_LARGE_A_CALL", most if large else 0)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=examples(300))
@given(
    which=st.integers(0, 2),
    frames=st.sets(st.integers(0, 119), min_size=1, max_size=30),
    large=st.booleans(),
    most=st.integers(1, 20),
    step=st.sampled_from([1, 33, 1 << 20]),
    rising=st.booleans(),
)
def test_no_wanted_picture_is_left_out(
    videos: list[Video], which: int, frames: set[int], large: bool, most: int, step: int, rising: bool
) -> None:
    source, index = videos[which]
    with pytest.MonkeyPatch.context() as patch:
        pictures(patch, large=large, most=most)
        for run in plan_frames(index, sorted(frames)).runs:
            shown = tuple(frame for frame in sorted(frames) if index.frame_packet[frame] in run.wanted)
            session, got = decode((source, index), shown, step=step, rising=rising)
            assert not session.empty & got


@pytest.mark.parametrize("large", [False, True])
def test_pictures_are_those_of_their_packets_whatever_times_the_container_gives_them(
    videos: list[Video], monkeypatch: pytest.MonkeyPatch, large: bool
) -> None:
    pictures(monkeypatch, large=large)
    rng = np.random.default_rng(0)
    for source, index in videos:
        lying = replace(index, packet_pts=rng.permutation(index.packet_pts))
        (run,) = plan_frames(index, WANTED[:1] if len(index) > 130 else [20, 22, 25]).runs
        packets, got = list(read_packets(source, lying, run, places=True)), []
        assert not lying.ranks_seen_right
        session = Session(index, packets)
        place = {int(display_ranks(index)[packet.number]): packet.number for packet in packets}

        def take(number: int, surface: CudaSurface, stream: object, got: list[tuple[int, int]] = got) -> None:
            got.append((number, surface.owner.rank))

        decode_by(session, lying, packets, take)
        assert got
        assert all(place[rank] == number for number, rank in got)


def test_what_headers_tell_of_the_order_is_asked_once(videos: list[Video]) -> None:
    for source, index in videos:
        index = replace(index)  # nothing is known of it
        (run,) = plan_frames(index, [20, 22, 25]).runs
        start, last = int(run.packets[0]), int(run.packets[-1])
        list(read_packets(source, index, run, places=True))
        assert index.ranks_seen_right == {start: last}
        assert {packet.place for packet in read_packets(source, index, run, places=True)} == {None}
        (longer,) = plan_frames(index, [20, 22, 29]).runs
        list(read_packets(source, index, longer, places=True))
        assert index.ranks_seen_right == {start: int(longer.packets[-1])}


def unwanted_ranks(index: VideoIndex, session: Session, wanted: set[int]) -> np.ndarray:
    ranks = display_ranks(index)[[packet.number for packet in session.packets]]
    return ranks[~np.isin(ranks, list(wanted))]


@pytest.mark.parametrize("frames", [WANTED, (131, 132, 133, 137), tuple(range(160, 190, 3))])
def test_of_large_pictures_those_that_nobody_looks_at_are_left_out(video, monkeypatch, frames) -> None:
    pictures(monkeypatch, large=True)
    session, wanted = decode(video, frames)
    unwanted = unwanted_ranks(video[1], session, wanted)
    # A call's pictures have the time of its last one, so some that are fed with the first wanted one's successors stay.
    assert len(session.empty) >= len(unwanted) - 5
    assert {rank for rank in unwanted if rank < min(wanted) - 8} <= session.empty


def test_of_small_pictures_those_before_the_first_wanted_one_are_left_out(video, monkeypatch) -> None:
    pictures(monkeypatch, large=False)
    session, wanted = decode(video, WANTED)
    before = {rank for rank in unwanted_ranks(video[1], session, wanted) if rank < min(wanted) - 8}
    assert len(before) > 50
    assert before <= session.empty


def test_small_pictures_take_one_call_more_at_most(video, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures(monkeypatch, large=False)
    leaving, _ = decode(video, WANTED)
    leaving_none, _ = decode(video, WANTED, leaves_out=False)
    assert len(leaving_none.sizes) <= len(leaving.sizes) <= len(leaving_none.sizes) + 1
    assert max(leaving.sizes) == 4


def test_large_pictures_are_fed_together_where_none_is_wanted(video, monkeypatch: pytest.MonkeyPatch) -> None:
    pictures(monkeypatch, large=True)
    session, wanted = decode(video, WANTED)
    before = sum(display_ranks(video[1])[packet.number] < min(wanted) for packet in session.packets)
    assert len(session.sizes) <= before / 4 + (len(session.packets) - before) + 3
    assert max(session.sizes) == 4


@pytest.mark.parametrize("way", [{"leaves_out": False}, {"frames": tuple(range(0, 48, 3))}])
def test_nothing_is_left_out_where_it_may_not_nor_where_the_first_picture_is_wanted(video, way) -> None:
    session, _ = decode(video, **{"frames": WANTED, **way})
    assert set(session.times) == {0}
    assert not session.empty


class Pool:
    """Lends one session after the other."""

    def __init__(self, *sessions: Session) -> None:
        self.sessions = iter(sessions)

    @contextmanager
    def lend(self, key: object, picture: object, *, new: bool):
        yield next(self.sessions)


@pytest.mark.parametrize("late", [0, 8 * nvdec._RANK])
def test_nothing_is_left_out_any_more_when_it_went_wrong(video, monkeypatch: pytest.MonkeyPatch, late: int) -> None:
    source, index = video
    (run,) = plan_frames(index, WANTED).runs
    packets = list(read_packets(source, index, run))
    sessions = [Session(index, packets, late), Session(index, packets)][0 if late else 1 :]
    pool = Pool(*sessions)
    monkeypatch.setattr(nvdec, "why_not_picture", lambda *_: None)
    monkeypatch.setattr(nvdec, "pool_of", lambda gpu: pool)
    monkeypatch.setattr(nvdec.NvdecDecoder, "_picture", lambda self, index, packet: section_format(index.stream, 0))
    got = []
    nvdec.NvdecDecoder(gpu=0).decode(index, lambda: iter(packets), lambda number, *_: got.append(number))
    assert bool(sessions[-1].empty) == (not late)
    assert set(got) == set(index.frame_packet[list(WANTED)].tolist())


def test_a_wanted_picture_with_an_earlier_time_is_an_error(video) -> None:
    with pytest.raises(SessionError, match="time of an earlier one"):
        decode(video, WANTED, late=8 * nvdec._RANK)
