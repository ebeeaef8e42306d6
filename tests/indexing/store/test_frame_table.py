"""An index as bytes: it comes back whole, it is small, and damage is noticed."""

import warnings
import zlib
from dataclasses import replace
from fractions import Fraction
from typing import get_type_hints

import numpy as np
import pytest
from any_index import any_indexes, assert_same_index
from corpus_files import CORRUPT_FILES, GOOD_FILES
from hypothesis import given
from hypothesis import strategies as st
from sample_videos import RECIPES
from synthetic_index import indexes, make_index

from videoloader.errors import IndexingError, VideoLoaderError
from videoloader.indexing import build_index
from videoloader.indexing.store.frame_table import PackedIndex, pack_index, unpack_index
from videoloader.indexing.stream_info import StreamInfo, TransportLayout


def there_and_back(index):
    return unpack_index(pack_index(index), index.source)


@given(any_indexes() | indexes())
def test_every_index_comes_back(index):
    assert_same_index(there_and_back(index), index)


@pytest.mark.parametrize("name", GOOD_FILES + CORRUPT_FILES)
def test_indexes_of_real_files_come_back(name, corpus):
    try:
        index = build_index(corpus / name)
    except VideoLoaderError:
        return
    assert_same_index(there_and_back(index), index)


@pytest.mark.parametrize("name", RECIPES)
def test_indexes_of_encoded_videos_take_few_bytes(name, sample):
    index = build_index(sample(name))
    assert_same_index(there_and_back(index), index)
    assert len(pack_index(index).blob) < 4 * len(index) + 60


def test_every_fact_of_the_stream_is_kept():
    plain = make_index([0, 1, 2], {0})
    others = {str: "other", int: 7, bool: True, Fraction: Fraction(7, 3), tuple[bytes, ...]: (b"other", b"")}
    others[tuple[int, int]] = (3, 4)
    for name, kind in get_type_hints(StreamInfo).items():
        changed = replace(plain, stream=replace(plain.stream, **{name: others[kind]}))
        assert getattr(there_and_back(changed).stream, name) == others[kind] != getattr(plain.stream, name)
    layout = TransportLayout(pid=256, stride=192, first=4)
    assert there_and_back(replace(plain, transport=layout)).transport == layout


def test_videos_of_one_making_share_their_record():
    one, other = make_index([0, 3, 1, 2], {0}), make_index(list(range(50)), {0, 20})
    other = replace(other, stream=replace(other.stream, frame_rate=Fraction(30000, 1001), reorder_depth=2))
    one = replace(one, stream=replace(one.stream, reorder_depth=2))
    assert pack_index(one).record == pack_index(other).record


@pytest.fixture
def packed():
    return pack_index(make_index([0, 3, 1, 2, 4, 7, 5, 6], {0, 4}))


def test_any_changed_byte_is_noticed(packed):
    for part in ("record", "blob"):
        content = getattr(packed, part)
        for place in range(len(content)):
            for bit in (1, 0x80):
                damaged = bytearray(content)
                damaged[place] ^= bit
                with pytest.raises(IndexingError, match="a video: its stored index"):
                    unpack_index(packed._replace(**{part: bytes(damaged)}), "a video")


def test_bytes_missing_or_too_many_are_noticed(packed):
    for size in range(len(packed.blob)):
        with pytest.raises(IndexingError):
            unpack_index(packed._replace(blob=packed.blob[:size]), "a video")
    with pytest.raises(IndexingError):
        unpack_index(packed._replace(blob=packed.blob + b"\0"), "a video")


@given(indexes(), st.data())
def test_nonsense_with_a_right_checksum_is_an_error_or_an_index(index, data):
    """What a later version or a forger may write."""
    record, blob = pack_index(index)
    content = bytearray(blob)
    for _ in range(data.draw(st.integers(1, 3))):
        content[data.draw(st.integers(5, len(content) - 1))] = data.draw(st.integers(0, 127))
    content[1:5] = zlib.crc32(content[5:], zlib.crc32(record)).to_bytes(4, "little")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = unpack_index(PackedIndex(record, bytes(content)), "a video")
    except IndexingError:
        return
    assert len(found.packet_offset) == len(found.packet_size) == len(found.packet_pts) == len(found.packet_key)
    assert len(found.frame_pts) == len(found.frame_packet)
    assert not len(found) or 0 <= found.frame_packet.min() <= found.frame_packet.max() < len(found.packet_size)


def test_arrays_that_come_back_cannot_be_written_to(packed):
    index = unpack_index(packed, "a video")
    with pytest.raises(ValueError, match="read-only"):
        index.frame_pts[0] = 1
    assert isinstance(index.frame_pts, np.ndarray)
