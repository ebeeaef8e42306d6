"""Blocks read many at once: whatever is written, they are those that the walk from one to the next finds."""

from __future__ import annotations

from unittest.mock import patch

import numpy as np
import pytest
from example_count import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from matroska_writing import (
    AV1,
    BLOCK,
    BLOCK_GROUP,
    CLUSTER,
    CRC32,
    CUES,
    EBML_LACING,
    FIXED,
    NO_LACING,
    SIMPLE_BLOCK,
    TIMESTAMP,
    VOID,
    XIPH,
    block,
    element,
    endless,
    matroska,
    track,
    uint,
)

from videoloader.indexing import MemorySource
from videoloader.indexing.matroska import blocks, dense_blocks
from videoloader.indexing.matroska.ebml import MalformedError
from videoloader.indexing.matroska.headers import read_headers

WANTED = 1
POSITION, PREVIOUS_SIZE = 0xA7, 0xAB
CLUSTER_HEADS = [uint(POSITION, 70_000), uint(PREVIOUS_SIZE, 0), element(CRC32, b"abcd")]
FEW_BYTES = 48  # as many as the headers of a block may need


def walk(data: bytes, wanted: int, fewest_bytes: int) -> tuple[list[list[int]], set[int]] | None:
    """Columns of the packets, and the elements found; blocks are read at once from so many bytes on."""
    with patch.object(blocks, "_DENSE_READ", fewest_bytes):
        try:
            source = MemorySource(data)
            headers = read_headers(source)
            track = next((each for each in headers.tracks if each.number == wanted), None)
            if track is None:
                return None
            found = blocks.read_packets(source, headers, track)
        except MalformedError:
            return None
    return [column.tolist() for column in found[0]], found[1]


payloads = st.one_of(
    st.binary(max_size=12),
    st.integers(0, 700).map(lambda size: b"\xa3" * size),
    st.binary(min_size=1, max_size=9).map(lambda inner: element(SIMPLE_BLOCK, block(WANTED, 3, [inner])) * 3),
    st.integers(1, 3000).map(bytes),
)


@st.composite
def elements(draw, sound: bool) -> bytes:
    """Mostly plain blocks; some of another kind, and if not sound some of no kind that may be there."""
    if draw(st.sampled_from([True] * 6 + [False])):
        number = draw(st.sampled_from([WANTED] * 9 + [2, 2, 127, 300, 300 if sound else 0]))
        body = block(
            number,
            draw(st.integers(-500, 32767) if sound else st.sampled_from([-501, 5])),
            [draw(payloads)],
            flags=draw(st.sampled_from([0, 0x80, 9])),
        )
        written = element(SIMPLE_BLOCK, body, size_length=draw(st.sampled_from([0, 0, 0, 2, 3, 4, 5, 8])))
        return written * draw(st.sampled_from([1, 1, 5, 40]))
    lacing = draw(st.sampled_from([NO_LACING, XIPH, FIXED, EBML_LACING]))
    laced = block(WANTED, 5, [b"one", b"two"] if lacing else [b"one"], lacing)
    return draw(
        st.sampled_from(
            [
                element(SIMPLE_BLOCK, laced),
                element(BLOCK_GROUP, element(BLOCK, laced)),
                element(VOID, bytes(9)),
                element(CRC32, b"abcd"),
                element(SIMPLE_BLOCK),
                element(SIMPLE_BLOCK, b"\x81\0"),
                uint(TIMESTAMP, 70_000),
                draw(st.sampled_from([b""] if sound else [b"\xa3\xff", b"\xa3\x00", b"\xa4\x81\x00"])),
            ]
        )
    )


@st.composite
def files(draw) -> bytes:
    clusters, sound = [], draw(st.sampled_from([True, True, True, False]))
    for _ in range(draw(st.integers(1, 4))):
        times = [uint(TIMESTAMP, draw(st.sampled_from([500, 40_000, 70_000, 1 << 62])))] * (
            sound or draw(st.integers(0, 1))
        )
        head = draw(st.permutations([*times, *draw(st.sets(st.sampled_from(CLUSTER_HEADS)))]))
        parts = [*head, *draw(st.lists(elements(sound), min_size=1, max_size=12))]
        clusters.append(draw(st.sampled_from([element, element, endless]))(CLUSTER, *parts))
        clusters.append(draw(st.sampled_from([b"", b"", element(CUES, bytes(50))])))
    return matroska(*clusters, tracks=[track(WANTED, *AV1), *(track(n, "A_OPUS", kind=2) for n in (2, 127, 300))])


@settings(max_examples=examples(300))
@given(files(), st.sampled_from([WANTED, 2, 127, 300]))
def test_they_are_those_of_the_walk(data, wanted):
    assert walk(data, wanted, FEW_BYTES) == walk(data, wanted, len(data) + 1)


@settings(max_examples=examples(300))
@given(files(), st.lists(st.tuples(st.integers(0, 1 << 20), st.integers(0, 255)), max_size=3), st.integers(0, 3000))
def test_they_are_those_of_the_walk_in_damaged_files(data, damage, cut_off):
    damaged = bytearray(data)
    for at, value in damage:
        damaged[-1 - at % (len(damaged) - 60)] = value
    damaged = bytes(damaged[: max(len(damaged) - cut_off, 100)])
    assert walk(damaged, WANTED, FEW_BYTES) == walk(damaged, WANTED, len(data) + 1)


def many_blocks(count: int, size: int, clusters: int = 1) -> bytes:
    frames = np.random.default_rng(size).integers(0, 256, (count, size), np.uint8)
    written = [
        element(SIMPLE_BLOCK, block(WANTED, number, [frame.tobytes()], flags=0x80 * (number % 50 == 0)))
        for number, frame in enumerate(frames)
    ]
    return matroska(*[element(CLUSTER, uint(TIMESTAMP, count * n), *written) for n in range(clusters)])


@pytest.mark.parametrize("clusters", [1, 5])
@pytest.mark.parametrize("size", [1, 12, 150, 490, 530])
def test_clusters_may_be_longer_than_what_is_read_at_once(size, clusters):
    data = many_blocks(3000, size, clusters)
    found = walk(data, WANTED, blocks._DENSE_READ)
    assert found == walk(data, WANTED, len(data) + 1)
    assert found[0][2] == list(range(3000 * clusters))


def test_hardly_any_block_of_a_dense_file_is_looked_at_alone():
    data = many_blocks(10_000, 100)
    with patch.object(blocks._Collected, "add_block") as alone:
        walk(data, WANTED, blocks._DENSE_READ)
    assert alone.call_count < 500


def test_hardly_any_cluster_of_a_dense_file_is_walked_through():
    data = many_blocks(40, 100, clusters=250)
    with patch.object(blocks, "_read_cluster", wraps=blocks._read_cluster) as walked:
        walk(data, WANTED, blocks._DENSE_READ)
    assert walked.call_count < 25


def test_a_cluster_of_unknown_size_goes_on_behind_blocks_that_would_fill_it_if_that_were_its_size():
    plain = element(CLUSTER, uint(TIMESTAMP, 1), element(SIMPLE_BLOCK, block(WANTED, 0, [b"first"])))
    blocks_in_it = uint(TIMESTAMP, 2) + element(SIMPLE_BLOCK, block(WANTED, 0, [bytes(118)]))
    assert len(blocks_in_it) == 0x7F  # its size, 0xFF, without the marker
    unknown = CLUSTER.to_bytes(4, "big") + b"\xff" + blocks_in_it
    data = matroska(plain, unknown + element(BLOCK_GROUP, element(BLOCK, block(WANTED, 9, [b"last"]))))
    found = walk(data, WANTED, FEW_BYTES)
    assert found == walk(data, WANTED, len(data) + 1)
    assert found[0][2] == [1, 2, 11]


def test_a_buffer_of_nothing_but_the_beginnings_of_blocks():
    kinds = dense_blocks.track_kinds(0x23, {0x23})
    found = dense_blocks.DenseBlocks(b"\xa3" * 1000, 0, 0, kinds)
    assert found.take(0, 1000, 0) == 0
    assert not len(found.columns()[0])
