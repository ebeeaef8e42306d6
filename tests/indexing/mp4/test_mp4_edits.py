"""Edit lists, colours and pixel shape of mp4 files, against libav's decode of the same bytes."""

from __future__ import annotations

import struct
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import numpy.typing as npt
import pytest
from example_count import examples
from hypothesis import example, given, settings
from hypothesis import strategies as st
from lies import LIES
from mp4_writing import TABLES, TRACK, box, find_box, replace_box, table
from sample_videos import Recipe, write_video
from truth import full_decode, hash_of

from videoloader.decoding.cpu import CpuDecoder
from videoloader.errors import DecodeError, IndexingError, UnsupportedError
from videoloader.indexing import MemorySource, VideoIndex, build_index
from videoloader.indexing.mp4.edits import Edit, shown_frames
from videoloader.indexing.mp4.samples import Samples
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets
from videoloader.packets.run_start import WrongIndexError

FRAME = 512  # media time units; the sample's time scale is 12800, its rate 25
FIRST = 1024  # media time of the first frame: two frames of reordering delay, unless offsets are negative
FRAMES = 60
EMPTY = -1


def with_edits(data: bytes, edits: list[tuple[int, int]], *, version: int = 0) -> bytes:
    """The file with an edit list of rows (media time, duration in units of the movie's time scale)."""
    rows = [(duration, media_time, 1 << 16) for media_time, duration in edits]
    elst = table(b"elst", "QqI" if version else "IiI", rows, version=version)
    return replace_box(data, (*TRACK, b"edts"), box(b"edts", elst))


def with_movie_scale(data: bytes, scale: int) -> bytes:
    start, _ = find_box(data, (b"moov", b"mvhd"))
    return data[: start + 12] + struct.pack(">I", scale) + data[start + 16 :]


def decode_all(data: bytes) -> tuple[list[int], list[bytes]]:
    """Timestamps and plane hashes of all frames, by the library."""
    source = MemorySource(data)
    try:
        return decode_by_index(source, build_index(source))
    except WrongIndexError as found:  # as ``ClipReader`` does
        return decode_by_index(source, found.index)


def decode_by_index(source: MemorySource, index: VideoIndex) -> tuple[list[int], list[bytes]]:
    hashes: dict[int, bytes] = {}
    decoder = CpuDecoder()
    for run in plan_frames(index, range(len(index))).runs:
        decoder.decode(
            index, read_packets(source, index, run), lambda packet, frame: hashes.update({packet: hash_of(frame)})
        )
    return index.frame_pts.tolist(), [hashes[packet] for packet in index.frame_packet.tolist()]


# Near the borders between frames: one unit to either side decides which frame is in.
media_times = st.builds(
    lambda frame, side: max(FIRST + frame * FRAME + side, 0),
    st.integers(-2, FRAMES + 1),
    st.sampled_from([-FRAME // 2, -1, 0, 1, FRAME // 2]),
)
spans = st.tuples(media_times, st.integers(1, 1500))
CLOSED_GOP = ["h264_mp4", "h264_mp4_negative_offsets"]
OPEN_GOP = ["h264_mp4_open_gop", "hevc_mp4"]


@pytest.fixture(scope="module")
def patched(tmp_path_factory):
    return tmp_path_factory.mktemp("edits") / "patched.mp4"


@pytest.mark.parametrize("edit", [(110, 1428), (5952, 1920), (4096, 1920), (5120, 447)])
def test_mpeg1_shows_what_libav_shows(tmp_path: Path, edit: tuple[int, int]) -> None:
    path = write_video(tmp_path / "plain.mp4", Recipe("mp4", "mpeg1video", {"bf": "2", "g": "12"}, frames=48))
    data = with_edits(with_movie_scale(path.read_bytes(), 1000), [edit])
    (tmp_path / "edited.mp4").write_bytes(data)
    truth = full_decode(tmp_path / "edited.mp4")
    pts, hashes = decode_all(data)
    assert hashes == truth.hashes
    assert pts == truth.pts


# With negative offsets libavformat moves all spans by what the last one needs. A single span has no others.
@settings(max_examples=examples(80))
@given(
    film=st.tuples(st.sampled_from([*CLOSED_GOP, *OPEN_GOP]), spans.map(lambda span: [span]))
    | st.tuples(st.sampled_from(["h264_mp4", *OPEN_GOP]), st.lists(spans, min_size=2, max_size=3)),
    gap=st.none() | st.integers(1, 800),
    scale=st.sampled_from([600, 1000, 12800, 90000]),
    version=st.sampled_from([0, 1]),
)
@example(film=("h264_mp4_open_gop", [(19200, 22), (7424, 1)]), gap=None, scale=600, version=0)
def test_frames_and_their_times_are_those_that_libav_shows(sample, patched, film, gap, scale, version):
    name, shown = film
    edits = ([(EMPTY, gap)] if gap else []) + shown
    edits = [(time, duration * scale // 1000) for time, duration in edits]
    data = with_edits(with_movie_scale(sample(name).read_bytes(), scale), edits, version=version)
    patched.write_bytes(data)
    truth = full_decode(patched)
    if truth.error or not truth.pts:
        return
    pts, hashes = decode_all(data)
    assert hashes == truth.hashes
    assert pts == truth.pts


@settings(max_examples=examples(30))
@given(st.sampled_from(CLOSED_GOP), st.lists(spans, min_size=2, max_size=3))
def test_spans_show_one_after_another_what_each_shows_alone(sample, name, shown):
    data = sample(name).read_bytes()
    alone = []
    for span in shown:
        try:
            alone += places_of_frames(build_index(with_edits(data, [span])))
        except UnsupportedError:  # it shows nothing
            continue
    if alone:
        assert places_of_frames(build_index(with_edits(data, shown))) == alone


def places_of_frames(index: VideoIndex) -> list[int]:
    """Where in the file each frame's packet stands."""
    return index.packet_offset[index.frame_packet].tolist()


def with_keyframes(data: bytes, packets: list[int]) -> bytes:
    """The file whose table of keyframes names these packets."""
    return replace_box(data, (*TABLES, b"stss"), table(b"stss", "I", [(packet + 1,) for packet in packets]))


def assert_is_as_decoded(data: bytes, path: Path) -> VideoIndex:
    path.write_bytes(data)
    truth = full_decode(path)
    assert truth.pts
    assert not truth.error
    assert decode_all(data) == (truth.pts, truth.hashes)
    return build_index(data)


@pytest.mark.parametrize("name", CLOSED_GOP + OPEN_GOP)
def test_a_span_that_begins_at_a_keyframe_costs_no_decode(sample, patched, name):
    data = with_edits(sample(name).read_bytes(), [(FIRST + 26 * FRAME, 600)])
    assert assert_is_as_decoded(data, patched).method == "tables"


@settings(max_examples=examples(60))
@given(
    gaps=st.dictionaries(st.integers(1, 8), st.integers(2, 40), max_size=2),
    frames=st.integers(5, 12),
    gop=st.integers(2, 4),
)
@example(gaps={3: 30}, frames=7, gop=2)
def test_what_follows_the_second_keyframe_that_lasts_to_the_end_is_not_read(patched, gaps, frames, gop):
    """A keyframe before a gap in the times lasts long enough to be taken for one behind the span."""
    with av.open(str(patched), "w") as out:
        x264 = f"keyint={gop}:min-keyint={gop}:bframes={gop - 1}:b-adapt=0:scenecut=0:open-gop=1:threads=1"
        stream = out.add_stream("libx264", rate=25, options={"preset": "ultrafast", "x264-params": x264})
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        for number, pts in enumerate(np.cumsum([gaps.get(frame, 1) for frame in range(frames)]).tolist()):
            frame = av.VideoFrame.from_ndarray(np.full((72, 64), number * 15, np.uint8), "yuv420p")
            frame.pts, frame.time_base = pts, Fraction(1, 25)
            out.mux(stream.encode(frame))
        out.mux(stream.encode(None))
    truth = full_decode(patched)
    pts, hashes = decode_all(patched.read_bytes())
    assert hashes == truth.hashes
    assert pts == truth.pts


def test_spans_of_closed_gops_cost_no_decode(sample, patched):
    data = with_edits(sample("h264_mp4").read_bytes(), [(FIRST + 30 * FRAME, 600), (FIRST + 5 * FRAME, 900)])
    assert assert_is_as_decoded(data, patched).method == "tables"


@pytest.mark.parametrize("name", OPEN_GOP)
def test_a_span_that_begins_in_an_open_gop_after_another_span_shows_what_a_decoder_gives(sample, patched, name):
    data = with_edits(sample(name).read_bytes(), [(FIRST + 30 * FRAME, 800), (FIRST + 14 * FRAME, 900)])
    index = assert_is_as_decoded(data, patched)
    assert index.method == "decoded"
    # A packet that both spans need stands there for each.
    assert len(np.unique(index.packet_offset)) < len(index.packet_offset)


@pytest.mark.parametrize("keyframes", [[*range(FRAMES)], [0, 5, 17, 31], [17, 20]])
@pytest.mark.parametrize("name", ["h264_mp4", "hevc_mp4"])
def test_a_span_that_begins_at_a_false_keyframe_shows_what_a_decoder_gives(sample, patched, name, keyframes):
    data = with_keyframes(sample(name).read_bytes(), keyframes)
    data = with_edits(data, [(FIRST + 18 * FRAME, 1200)])
    assert assert_is_as_decoded(data, patched).method == "decoded"


@pytest.mark.parametrize("name", CLOSED_GOP)
def test_parameter_sets_of_one_span_stay_in_force_in_the_next(sample, name):
    data = LIES["pps_altered_at_a_keyframe"].tell(sample(name).read_bytes(), 1)
    index = build_index(with_edits(data, [(FIRST + 36 * FRAME, 800), (FIRST, 1600)]))
    (jump,) = np.flatnonzero(np.diff(index.packet_offset) < 0).tolist()
    assert len(index.stream.codec_configs) == 2
    assert index.packet_config[jump] == index.packet_config[jump + 1]


def test_a_span_that_ends_at_false_keyframes_shows_what_libavformat_reads(sample, patched):
    data = with_keyframes(sample("hevc_mp4").read_bytes(), [*range(FRAMES)])
    for frames in range(8, 16):
        assert_is_as_decoded(with_edits(data, [(FIRST, 40 * frames)]), patched)


def test_a_span_without_any_picture_that_decodes_is_an_error(sample):
    data = with_keyframes(sample("hevc_mp4").read_bytes(), [*range(FRAMES)])
    with pytest.raises(DecodeError, match=r"none of its .* packets decodes"):
        build_index(with_edits(data, [(FIRST + 56 * FRAME, 80)]))


def test_an_edit_list_that_shows_nothing_is_an_error(sample):
    with pytest.raises(UnsupportedError, match="no frames that a player would show"):
        build_index(with_edits(sample("h264_mp4").read_bytes(), [(EMPTY, 500), (10**6, 500)]))


@pytest.mark.parametrize("gap", [40, 1000])
def test_a_gap_between_spans_moves_what_follows_and_shows_nothing(sample, gap):
    data = sample("h264_mp4").read_bytes()
    spans = [(FIRST, 400), (FIRST + 24 * FRAME, 400)]
    without = build_index(with_edits(data, spans))
    index = build_index(with_edits(data, [spans[0], (EMPTY, gap), spans[1]]))
    assert index.frame_packet.tolist() == without.frame_packet.tolist()
    moved = np.where(np.arange(20) < 10, 0, gap * 12800 // 1000)
    assert index.frame_pts.tolist() == (without.frame_pts + moved).tolist()


def with_decode_times(data: bytes, deltas: list[int]) -> bytes:
    """The file whose packets last this long. It has no composition offsets."""
    return replace_box(data, (*TABLES, b"stts"), table(b"stts", "II", [(1, delta) for delta in deltas]))


@pytest.fixture(scope="module")
def film(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """H.264 without reordering, with a keyframe every 8 frames."""
    options = {"bf": "0", "g": "8", "x264-params": "scenecut=0"}
    path = tmp_path_factory.mktemp("still") / "plain.mp4"
    return write_video(path, Recipe("mp4", "libx264", options, frames=32)).read_bytes()


class TestPacketsThatShareADecodeTime:
    @pytest.mark.parametrize("edit", [(0, 512), (0, 10**6), (512, 512), (512, 10**6), (513, 600), (600, 10**6)])
    @pytest.mark.parametrize("runs", [(26, 6), (3, 20, 9), (10, 10, 12), (1, 31)])
    def test_a_span_begins_at_the_keyframe_where_libavformat_begins(
        self, film: bytes, patched: Path, runs: tuple[int, ...], edit: tuple[int, int]
    ) -> None:
        deltas = [delta for run in runs for delta in [0] * (run - 1) + [512]]
        data = with_edits(with_movie_scale(with_decode_times(film, deltas), 12800), [edit])
        patched.write_bytes(data)
        truth = full_decode(patched)
        if truth.pts:
            assert decode_all(data) == (truth.pts, truth.hashes)

    @pytest.mark.parametrize("keyframes", [[21, 25], [2, 17]])
    def test_a_span_before_which_there_is_no_keyframe(self, film: bytes, patched: Path, keyframes: list[int]) -> None:
        data = with_keyframes(with_decode_times(film, [512] * 3 + [0] * 29), keyframes)
        assert_is_as_decoded(with_edits(with_movie_scale(data, 12800), [(1536, 512)]), patched)

    def test_intra_only_video_has_the_times_that_libavformat_makes_up(self, tmp_path: Path, patched: Path) -> None:
        path = write_video(tmp_path / "plain.mp4", Recipe("mp4", "mjpeg", pix_fmt="yuvj420p", frames=30))
        assert_is_as_decoded(with_decode_times(path.read_bytes(), [0] * 17 + [512] * 13), patched)


@pytest.mark.parametrize(
    "edits", [[(512, 40)], [(EMPTY, 317), (512, 30)], [(EMPTY, 5), (EMPTY, 8), (512, 30)], [(512, 5), (1024, 3601)]]
)
def test_the_start_is_the_gap_even_if_a_frame_is_shown_before_it(sample, patched, edits):
    data = with_edits(with_movie_scale(sample("h264_mp4_negative_offsets").read_bytes(), 1000), edits)
    patched.write_bytes(data)
    with av.open(str(patched)) as container:
        assert build_index(data).start_time == container.start_time


@pytest.mark.parametrize(("primaries", "transfer", "matrix", "full"), [(1, 1, 1, 1), (9, 16, 9, 1), (6, 6, 6, 2)])
def test_colours_and_pixel_shape_are_what_was_written(tmp_path, primaries, transfer, matrix, full):
    path = tmp_path / "colours.mp4"
    with av.open(str(path), "w") as container:
        stream = container.add_stream("libx264", rate=25)
        stream.width, stream.height, stream.pix_fmt = 64, 48, "yuv420p"
        context = stream.codec_context
        context.color_primaries, context.color_trc, context.colorspace = primaries, transfer, matrix
        context.color_range = full
        context.sample_aspect_ratio = Fraction(4, 3)
        container.mux(stream.encode(av.VideoFrame(64, 48, "yuv420p")))
        container.mux(stream.encode())
    stream = build_index(path).stream
    assert (stream.color_primaries, stream.color_transfer, stream.color_matrix) == (primaries, transfer, matrix)
    assert stream.color_range == {1: "limited", 2: "full"}[full]
    assert stream.sample_aspect_ratio == Fraction(4, 3)


class TestListsThatAskForMuch:
    """Each of these took minutes, or gigabytes, when the samples were looked at for each edit or track."""

    N = 300_000

    def frames_of(
        self, edits: list[tuple[int, int]], key: npt.NDArray[np.bool_], pts: npt.NDArray[np.int64] | None = None
    ) -> int:
        numbers, none = np.arange(self.N), np.zeros(self.N, np.uint8)
        pts = numbers if pts is None else pts
        samples = Samples(numbers, none.astype(np.int32) + 1, numbers, pts - numbers, key, none, none > 0)
        return len(shown_frames(samples, pts, pts.argsort(), [Edit(*each) for each in edits]).samples)

    def test_many_edits_of_many_keyframes(self) -> None:
        edits = [(self.N + 5, 1)] * 20_000 + [(0, 10)] + [(1, 2)] * 20_000
        assert self.frames_of(edits, np.ones(self.N, bool)) == 10 + 2 * 20_000

    @pytest.mark.parametrize("edit", [(0, 1 << 40), (0, 250_000)])
    def test_many_edits_of_many_samples(self, edit: tuple[int, int]) -> None:
        with pytest.raises(ValueError, match="the edit list shows more than"):
            self.frames_of([edit] * 20_000, np.ones(self.N, bool))

    def test_many_edits_that_pass_over_many_samples(self) -> None:
        key = np.zeros(self.N, bool)
        key[-1] = True
        pts = np.arange(self.N) + self.N
        pts[-1] = 0
        # Each span begins at the last sample, so that it shows none of those that it passes over.
        with pytest.raises(ValueError, match="the edit list shows more than"):
            self.frames_of([(self.N, 250_000)] * 20_000, key, pts)

    def test_many_tracks_with_as_many_samples_as_bytes(self, sample) -> None:
        data = sample("h264_mp4").read_bytes()
        size = len(data)
        sizes = box(b"stsz", struct.pack(">III", 0, 1, size))
        data = replace_box(data, (*TABLES, b"stsz"), sizes)
        start, stop = find_box(data, TRACK)
        start -= 8
        start_of_moov, stop_of_moov = find_box(data, (b"moov",))
        moov = data[start_of_moov:stop_of_moov] + data[start:stop] * 100
        for rest, tracks in ((b"", "its 101 video tracks"), (b"\0\0\0\xffabcd", "its tracks")):
            with pytest.raises(IndexingError, match=f"{tracks} together list more samples than it has bytes"):
                build_index(MemorySource(data[: start_of_moov - 8] + box(b"moov", moov + rest)))
