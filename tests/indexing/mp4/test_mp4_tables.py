"""The sample tables of an mp4 track: any legal writing of the same samples reads back; lies end in an error."""

from __future__ import annotations

import io
import struct
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import accumulate
from pathlib import Path
from typing import NamedTuple

import av
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mp4_writing import TABLES, TRACK, box, find_box, replace_box, table
from sample_videos import RECIPES, Recipe, write_video

from videoloader import Video
from videoloader.errors import DecodeError, IndexingError
from videoloader.indexing import MemorySource, build_index
from videoloader.indexing.mp4.boxes import NotPlainError, iterate_boxes, iterate_file_boxes
from videoloader.indexing.mp4.index import index_mp4
from videoloader.indexing.mp4.samples import Samples, read_samples

FILE_SIZE = 1 << 40
MANY = 0xFFFFFFFF


def read(*boxes: bytes, file_size: int = FILE_SIZE) -> Samples:
    data = b"".join(boxes)
    return read_samples(data, {each.type: each for each in iterate_boxes(data, 0, len(data))}, file_size, "a file")


def sizes_box(sizes: list[int]) -> bytes:
    return box(b"stsz", struct.pack(f">4xII{len(sizes)}I", 0, len(sizes), *sizes))


def uniform_sizes_box(size: int, count: int) -> bytes:
    return box(b"stsz", struct.pack(">4xII", size, count))


def one_chunk(count: int, offset: int = 0) -> bytes:
    return table(b"stsc", "III", [(1, count, 1)]) + table(b"stco", "I", [(offset,)])


@st.composite
def runs(draw, count, values):
    """Rows (number of samples, value) for ``count`` samples; the same value may come in several rows."""
    rows = []
    while count:
        length = draw(st.integers(1, count))
        rows.append((length, draw(values)))
        count -= length
    return rows


def expand(rows):
    return [value for length, value in rows for _ in range(length)]


counts = st.integers(1, 40)
tables_of = counts.flatmap


@given(st.data(), counts, st.integers(0, 255))
def test_sizes_read_back(data, count, uniform):
    sizes = data.draw(st.lists(st.integers(0, 2**31 - 1), min_size=count, max_size=count))
    assert read(sizes_box(sizes), one_chunk(count)).size.tolist() == sizes
    if uniform:
        assert read(uniform_sizes_box(uniform, count), one_chunk(count)).size.tolist() == [uniform] * count


@given(tables_of(lambda count: runs(count, st.integers(0, 10_000))))
def test_decode_times_are_the_sums_of_the_durations_before(rows):
    durations = expand(rows)
    samples = read(sizes_box([1] * len(durations)), one_chunk(len(durations)), table(b"stts", "II", rows))
    assert samples.dts.tolist() == [0, *accumulate(durations)][: len(durations)]


@given(tables_of(lambda count: runs(count, st.integers(0, 1000))), st.integers(0, 20))
def test_the_last_duration_goes_on_where_the_table_ends_early(rows, more):
    durations = expand(rows) + [rows[-1][1]] * more
    samples = read(sizes_box([1] * len(durations)), one_chunk(len(durations)), table(b"stts", "II", rows))
    assert samples.dts.tolist() == [0, *accumulate(durations)][: len(durations)]


@pytest.mark.parametrize("rows", [[(2, 10)], [(1, 30), (1, 10)]])
@pytest.mark.parametrize("composed", [3, 5, 9])
def test_time_stands_still_where_only_composition_offsets_go_on_as_libavformat_has_it(rows, composed):
    durations = expand(rows)
    offsets = table(b"ctts", "II", [(composed, 5)])
    samples = read(sizes_box([1] * 5), one_chunk(5), table(b"stts", "II", rows), offsets)
    assert samples.dts.tolist() == [0, *accumulate([*durations, 0, 0])]


@given(tables_of(lambda count: runs(count, st.integers(-5000, 5000))), st.integers(-20, 20), st.sampled_from([0, 1]))
def test_composition_offsets_are_signed_and_zero_beyond_their_table(rows, more, version):
    offsets = expand(rows)
    expected = (offsets + [0] * more)[: max(len(offsets) + more, 1)]
    samples = read(
        sizes_box([1] * len(expected)), one_chunk(len(expected)), table(b"ctts", "Ii", rows, version=version)
    )
    assert samples.composition.tolist() == expected


def test_composition_offsets_beyond_the_samples_are_ignored():
    longer = table(b"ctts", "Ii", [(2, 10), (1, 20), (1, 30)])
    assert read(sizes_box([1] * 3), one_chunk(3), longer).composition.tolist() == [10, 10, 20]


class Chunk(NamedTuple):
    offset: int
    sizes: list[int]
    description: int


chunk_lists = st.lists(
    st.builds(
        Chunk,
        st.integers(0, 2**32 - 1),
        st.lists(st.integers(1, 5000), min_size=1, max_size=5),
        st.integers(1, 3),
    ),
    min_size=1,
    max_size=12,
)


def chunk_boxes(chunks: list[Chunk], kind: bytes) -> bytes:
    rows = []
    for number, chunk in enumerate(chunks, 1):
        if not rows or rows[-1][1:] != (len(chunk.sizes), chunk.description):
            rows.append((number, len(chunk.sizes), chunk.description))
    offsets = table(kind, "I" if kind == b"stco" else "Q", [(chunk.offset,) for chunk in chunks])
    return table(b"stsc", "III", rows) + offsets


@given(chunk_lists, st.sampled_from([b"stco", b"co64"]))
def test_samples_lie_one_after_another_in_their_chunks(chunks, kind):
    offsets, descriptions = [], []
    for chunk in chunks:
        position = chunk.offset
        for size in chunk.sizes:
            offsets.append(position)
            descriptions.append(chunk.description - 1)
            position += size
    samples = read(sizes_box([size for chunk in chunks for size in chunk.sizes]), chunk_boxes(chunks, kind))
    assert samples.offset.tolist() == offsets
    assert samples.config.tolist() == descriptions


@given(chunk_lists, st.integers(1, 4))
def test_chunks_after_the_last_sample_are_left_to_libavformat(chunks, extra):
    sizes = [size for chunk in chunks for size in chunk.sizes]
    chunks = [*chunks, *[chunks[-1]] * extra]
    with pytest.raises(NotPlainError):
        read(sizes_box(sizes), chunk_boxes(chunks, b"stco"))


def test_offsets_beyond_four_gigabytes_need_co64():
    far = 2**33 + 5
    samples = read(sizes_box([7, 8]), table(b"stsc", "III", [(1, 2, 1)]), table(b"co64", "Q", [(far,)]))
    assert samples.offset.tolist() == [far, far + 7]


@given(tables_of(lambda count: st.tuples(st.just(count), st.sets(st.integers(0, count - 1)), st.booleans())))
def test_keyframes_are_those_of_both_sync_tables(drawn):
    count, keys, split = drawn
    numbers = [(number + 1,) for number in sorted(keys)]
    sync, partial = (numbers[::2], numbers[1::2]) if split else (numbers, [])
    samples = read(sizes_box([1] * count), one_chunk(count), table(b"stss", "I", sync), table(b"stps", "I", partial))
    # A table that names none cannot be right: the first sample is taken.
    assert set(np.flatnonzero(samples.key).tolist()) == (keys or {0})


def test_every_sample_is_a_keyframe_without_a_sync_table():
    assert read(sizes_box([1] * 5), one_chunk(5)).key.all()


def test_sync_samples_that_do_not_exist_are_ignored():
    samples = read(sizes_box([1] * 3), one_chunk(3), table(b"stss", "I", [(0,), (2,), (4,), (MANY,)]))
    assert samples.key.tolist() == [False, True, False]


def test_compact_sizes_are_left_to_libavformat(sample: Callable[[str], Path]):
    data = sample("h264_mp4").read_bytes()
    at = data.index(b"stsz")
    (count,) = struct.unpack_from(">I", data, at + 12)
    sizes = struct.unpack_from(f">{count}I", data, at + 16)
    compact = struct.pack(f">4s7xBI{count}H", b"stz2", 16, count, *sizes).ljust(16 + 4 * count, b"\0")
    changed = data[:at] + compact + data[at + len(compact) :]
    assert index_mp4(MemorySource(changed)) is None
    index, plain = build_index(changed), build_index(data)
    for name in ("packet_offset", "packet_size", "packet_key", "frame_packet", "frame_pts"):
        assert getattr(index, name).tolist() == getattr(plain, name).tolist(), name


def test_a_track_without_sizes_has_no_samples():
    samples = read(table(b"stts", "II", []), table(b"stsc", "III", []), table(b"stco", "I", []))
    assert [len(column) for column in samples] == [0] * 7


@pytest.mark.parametrize(
    ("lie", "file_size"),
    [
        (uniform_sizes_box(1, MANY), 1000),
        (uniform_sizes_box(MANY, 1), 1000),
        (uniform_sizes_box(MANY, MANY), 1 << 60),
        (sizes_box([2000]), 1000),
    ],
)
def test_sizes_that_cannot_be_are_refused(lie, file_size):
    with pytest.raises(IndexingError, match="a file"):
        read(lie, one_chunk(1), file_size=file_size)


@pytest.mark.parametrize(
    "lie",
    [
        b"",
        table(b"stsc", "III", []) + table(b"stco", "I", [(0,)]),
        table(b"stsc", "III", [(1, 3, 1)]) + table(b"stco", "I", []),
        table(b"stsc", "III", [(1, 2, 1)]) + table(b"stco", "I", [(0,)]),
        table(b"stsc", "III", [(2, 3, 1)]) + table(b"stco", "I", [(0,)]),
        table(b"stsc", "III", [(1, 1, 1), (1, 3, 1)]) + table(b"stco", "I", [(0,)] * 3),
        table(b"stsc", "III", [(1, 1, 1), (2**31 - 1, 3, 1)]) + table(b"stco", "I", [(0,)] * 3),
    ],
)
def test_chunks_that_cannot_hold_the_samples_are_refused(lie):
    with pytest.raises(IndexingError, match="a file"):
        read(sizes_box([1] * 3), lie)


@pytest.mark.parametrize(
    "lie",
    [
        sizes_box([1, 1, 1]).replace(b"\0\0\0\3", b"\xff\xff\xff\xff"),
        table(b"stsc", "III", [(1, MANY, MANY)], count=MANY),
        table(b"stco", "I", [(0,)], count=MANY),
        table(b"co64", "Q", [(0,)], count=MANY),
        table(b"stts", "II", [(MANY, 1)], count=MANY),
        table(b"stts", "Ii", [(MANY, -1)], count=MANY),
        table(b"ctts", "Ii", [(MANY, 1), (2**31 - 1, 2)], count=MANY),
        table(b"stss", "I", [(1,)], count=MANY),
        table(b"stps", "I", [(1,)], count=MANY),
        table(b"stsc", "III", [(1, MANY, 1)]),
        table(b"stsc", "III", [(1, 4, 0)]),
        table(b"stsc", "III", [(1, 0, 1)]),
        table(b"stsc", "III", [(MANY, 3, 1)]),
        table(b"stsc", "III", [(1, 5, 1)]),
    ],
    ids=lambda lie: lie[4:8].decode(),
)
def test_lying_counts_are_left_to_libavformat_and_cost_no_memory(lie):
    honest = [sizes_box([1] * 4), table(b"stsc", "III", [(1, 4, 1)]), table(b"stco", "I", [(0,)])]
    honest += [table(b"stss", "I", [(1,)])]
    replaced = {b"co64": b"stco"}.get(lie[4:8], lie[4:8])
    tracemalloc.start()
    with pytest.raises(NotPlainError):
        read(lie, *(each for each in honest if each[4:8] != replaced))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20


@given(
    st.dictionaries(
        st.sampled_from([b"stsz", b"stsc", b"stco", b"co64", b"stts", b"ctts", b"stss", b"stps", b"sdtp"]),
        st.binary(max_size=60)
        | st.lists(st.integers(0, 4), max_size=20).map(lambda numbers: struct.pack(f">{len(numbers)}I", *numbers)),
    )
)
def test_any_bytes_give_columns_of_one_length_or_an_error(payloads):
    try:
        samples = read(*(box(kind, payload) for kind, payload in payloads.items()), file_size=1000)
    except (IndexingError, NotPlainError):
        return
    assert len({len(column) for column in samples}) == 1


payloads = st.binary(max_size=40)


@given(st.lists(st.tuples(payloads, st.booleans()), min_size=1), st.booleans(), st.binary(max_size=7))
def test_boxes_are_walked_in_a_buffer_and_in_a_file(contents, open_end, rest):
    written = b"".join(box(b"abcd", payload, wide=wide) for payload, wide in contents)
    expected = [payload for payload, _ in contents]
    if open_end:  # a size of zero: up to the end
        written += struct.pack(">I4s", 0, b"last") + b"to the end"
        expected.append(b"to the end" + rest)
    written += rest
    assert [written[each.start : each.stop] for each in iterate_boxes(written, 0, len(written))] == expected
    assert [written[each.start : each.stop] for each in iterate_file_boxes(MemorySource(written))] == expected


@given(payloads, st.booleans(), st.data())
def test_a_box_cut_off_is_left_out_of_a_cut_buffer_and_clipped_in_a_file(payload, wide, data):
    whole = box(b"abcd", b"whole")
    cut = box(b"abcd", payload, wide=wide)
    cut = cut[: data.draw(st.integers(0, len(cut) - 1))]
    written = whole + cut
    assert [each.stop for each in iterate_boxes(written, 0, len(written), is_cut=True)] == [len(whole)]
    if len(cut) >= 8:
        with pytest.raises(NotPlainError):
            list(iterate_boxes(written, 0, len(written)))
    header = 16 if wide else 8
    clipped = [len(whole), len(written)] if len(cut) >= header else [len(whole)]
    assert [each.stop for each in iterate_file_boxes(MemorySource(written))] == clipped


@pytest.mark.parametrize("size", [*range(2, 8), MANY])
def test_a_size_that_cannot_be_ends_the_walk(size):
    written = struct.pack(">I4s", size, b"abcd") + box(b"next")
    with pytest.raises(NotPlainError):
        next(iterate_boxes(written, 0, len(written)))
    assert not list(iterate_boxes(written, 0, len(written), is_cut=True))


@pytest.mark.parametrize("size", [8, 15, 2**63, 2**64 - 1])
def test_a_64_bit_size_that_cannot_be_ends_the_walk(size):
    written = struct.pack(">I4sQ", 1, b"abcd", size) + box(b"next")
    with pytest.raises(NotPlainError):
        next(iterate_boxes(written, 0, len(written)))
    assert len(list(iterate_file_boxes(MemorySource(written)))) == (size > 15)


def test_samples_of_a_description_that_does_not_exist_are_left_out_as_by_libavformat(tmp_path):
    path, changed = write_video(tmp_path / "whole.mp4", Recipe("mp4", "mpeg4", {"g": "1"})), tmp_path / "changed.mp4"
    offsets = build_index(path).packet_offset.tolist()
    chunks = table(b"stco", "I", [(offset,) for offset in offsets])
    data = replace_box(path.read_bytes(), (*TABLES, b"stco"), chunks)
    for numbers in ([1, 2], [1, 2, 1], [2, 1]):
        rows = [(1 + at, 1, number) for at, number in enumerate(numbers)]
        changed.write_bytes(replace_box(data, (*TABLES, b"stsc"), table(b"stsc", "III", rows)))
        with av.open(str(changed)) as container:
            decoded = sum(1 for _ in container.decode(video=0))
        assert len(build_index(changed).frame_packet) == decoded < len(offsets)


@pytest.mark.parametrize("flags", ["", "+empty_moov", "+negative_cts_offsets", "+empty_moov+dash", "+dash+delay_moov"])
def test_fragments_without_times_follow_what_libavformat_goes_by(tmp_path: Path, flags: str) -> None:
    """The sum of durations in moov, or an index, or the fragments before."""
    options = {"movflags": f"frag_keyframe{flags}"}
    recipe = replace(RECIPES["h264_mp4_vfr"], container_options=options)
    content = write_video(tmp_path / "a.mp4", recipe).read_bytes()
    for data in (content, content.replace(b"tfdt", b"free")):
        with av.open(io.BytesIO(data)) as container:
            times = [frame.pts for frame in container.decode(video=0)]
        assert build_index(data).frame_pts.tolist() == times


@pytest.mark.parametrize("scale", [0, 1, 2**31 - 1, 2**31, MANY])
@pytest.mark.parametrize("of", ["movie", "track"])
def test_time_scales_are_those_of_libavformat(sample: Callable[[str], Path], of: str, scale: int) -> None:
    """It takes other scales in the place of 0 and of those with the sign bit of 32-bit numbers."""
    data = sample("h264_mp4").read_bytes()
    if of == "movie":
        data = replace_box(data, (*TRACK, b"edts"), box(b"free"))  # whose durations are in this scale
    at, _ = find_box(data, (b"moov", b"mvhd") if of == "movie" else (*TRACK, b"mdia", b"mdhd"))
    data = data[: at + 12] + struct.pack(">I", scale) + data[at + 16 :]
    with av.open(io.BytesIO(data)) as container:
        times = [frame.pts for frame in container.decode(video=0)]
        clock = container.streams.video[0].time_base
    index = build_index(data)
    assert (index.frame_pts.tolist(), index.stream.time_base) == (times, clock)


def test_a_file_without_a_movie_header_has_no_frames_as_in_libavformat(sample: Callable[[str], Path]) -> None:
    data = sample("h264_mp4").read_bytes().replace(b"mvhd", b"free")
    with av.open(io.BytesIO(data)) as container:
        assert list(container.decode(video=0)) == []
    with pytest.raises(IndexingError, match="has no video packets"):
        build_index(data)


@pytest.mark.parametrize("kind", ["two runs", "a run without a place", "two track fragments"])
def test_fragments_that_libavformat_does_not_read_by_the_standard(tmp_path: Path, kind: str) -> None:
    """It begins anew at each track fragment, and at a run that does not say where its data is."""
    recipe = Recipe("mp4", "mjpeg", {}, {"movflags": "frag_keyframe+empty_moov"}, pix_fmt="yuvj420p", frames=12)
    plain = write_video(tmp_path / "a.mp4", recipe).read_bytes()
    index = build_index(plain)
    packets = [plain[at : at + size] for at, size in zip(index.packet_offset, index.packet_size, strict=True)]
    step = int(index.packet_pts[1] - index.packet_pts[0])

    def run(first: int, stop: int, data: int | None) -> bytes:
        place = b"" if data is None else struct.pack(">I", data + sum(map(len, packets[:first])))
        rows = b"".join(struct.pack(">II", step, len(each)) for each in packets[first:stop])
        return box(b"trun", struct.pack(">II", 0x300 | bool(place), stop - first) + place + rows)

    def fragment(data: int) -> bytes:
        head, begin = box(b"tfhd", struct.pack(">II", 0x20000, 1)), box(b"tfdt", bytes(8))
        second = run(6, 12, None if kind == "a run without a place" else data)
        rest = box(b"traf", head + second) if kind == "two track fragments" else b""
        runs = run(0, 6, data) + (b"" if rest else second)
        return box(b"moof", box(b"mfhd", struct.pack(">II", 0, 1)) + box(b"traf", head + begin + runs) + rest)

    data = plain[: plain.index(b"moof") - 4] + fragment(len(fragment(0)) + 8) + box(b"mdat", b"".join(packets))
    if kind == "a run without a place":
        with pytest.raises(DecodeError, match="packet 7 does not decode"):
            build_index(data)
        return
    with av.open(io.BytesIO(data)) as container:
        shown = [frame.to_ndarray(format="rgb24").astype(int) for frame in container.decode(video=0)]
    video = Video(data, device="cpu")
    assert video.index.method == ("tables" if kind == "two runs" else "decoded")
    distances = [np.abs(frame.permute(1, 2, 0).numpy() - each).mean() for frame, each in zip(video, shown, strict=True)]
    assert max(distances) < 2
