"""Indexes taken from a store when wanted: the same ones, few at a time, and what became known of them stays known."""

import numpy as np
from any_index import assert_same_index

from videoloader.indexing import IndexStore, build_index
from videoloader.indexing.store.cache import IndexCache


def test_the_last_ones_used_are_kept(store_path, videos):
    paths = [str(path) for path in videos[:3]]
    roomy, cramped = IndexCache(IndexStore(store_path)), IndexCache(IndexStore(store_path), capacity=1)
    assert [roomy[path] is roomy[path] for path in paths] == [True] * 3
    assert roomy[paths[0]] is roomy[paths[0]]
    first = cramped[paths[0]]
    assert cramped[paths[0]] is first
    assert cramped[paths[1]] is cramped[paths[1]]
    assert cramped[paths[0]] is not first
    assert_same_index(cramped[paths[0]], first)


def test_an_index_that_is_known_better_stays_so(store_path, videos):
    cache = IndexCache(IndexStore(store_path), capacity=1)
    path, other = str(videos[0]), str(videos[1])
    first, second = np.flatnonzero(cache[path].packet_key)[1:3].tolist()
    cache[path] = cache[path].without_keyframe(first)
    cache[path] = cache[path]
    cache[other]
    cache[path] = cache[path].without_keyframe(second)
    cache[other]
    assert_same_index(cache[path], build_index(path).without_keyframe(first).without_keyframe(second))
    assert_same_index(cache[other], build_index(other))
