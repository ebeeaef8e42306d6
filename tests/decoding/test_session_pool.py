"""The pool that lends sessions to threads: what it reuses, what it closes, and that nobody waits for ever."""

from __future__ import annotations

import itertools
import math
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from stopped_loaders import at_line
from waiting import PATIENCE

import videoloader as vl
from videoloader.decoding import sessions
from videoloader.decoding.sessions import SessionPool, session_bytes, session_key
from videoloader.indexing.bitstream.formats import PictureFormat
from videoloader.runtime import device


class BareSession(sessions.Session):
    """A session without a decoder behind it."""

    open_now = 0

    def __init__(self, key, gpu):
        self.key, self.gpu = key, gpu
        self.picture, self._buffering, self.bytes = None, (), 0
        self.lent_to = None
        self.primed = 0
        BareSession.open_now += 1

    def feed(self, payload):
        self.primed += bool(payload)
        return []

    def _reconfigure(self, picture):
        pass

    def close(self):
        BareSession.open_now -= 1


@pytest.fixture(autouse=True)
def bare_sessions(monkeypatch):
    monkeypatch.setattr(sessions, "Session", BareSession)
    BareSession.open_now = 0


def picture(width, height, buffering=(4, 4, 4), **more):
    coded = (-(-width // 16) * 16, -(-height // 16) * 16)
    return PictureFormat(width, height, "420", 8, buffering=buffering, coded_size=coded, **more)


HD, SMALL = picture(1920, 1080), picture(640, 360)
BYTES = session_bytes(session_key("h264", HD), HD)


def used(pool, shown, codec="h264", **how):
    with pool.lend(session_key(codec, shown), shown, **how) as session:
        return session


def test_a_session_is_used_again():
    pool = SessionPool(0, 10 * BYTES)
    assert used(pool, HD) is used(pool, HD)
    assert used(pool, picture(1280, 1080)) is not used(pool, SMALL)
    assert used(pool, HD, new=True) is not used(pool, HD, new=True)


def test_one_already_set_up_comes_before_one_that_must_change():
    pool = SessionPool(0, 10 * BYTES)
    wide, narrow = picture(1920, 1080), picture(1900, 1000)
    with pool.lend(session_key("h264", wide), wide) as first, pool.lend(session_key("h264", narrow), narrow) as second:
        pass
    for _ in range(3):
        assert used(pool, wide) is first
        assert used(pool, narrow) is second


def test_the_same_coded_size_cut_otherwise_is_shown_another_picture_in_between():
    pool = SessionPool(0, 10 * BYTES)
    first = used(pool, picture(1920, 1080))
    assert used(pool, picture(1920, 1078)) is first
    assert first.primed == 1
    assert used(pool, picture(1920, 1078, (16, 16, 16))) is first
    assert first.primed == 2
    assert used(pool, picture(1920, 1078)) is first
    assert first.primed == 2, "it has room for more pictures than these"


def test_where_no_picture_can_be_shown_in_between_another_session_is_taken():
    pool = SessionPool(0, 10 * BYTES)
    cut = picture(1280, 530)
    taller = picture(1280, 536)._replace(coded_size=(1280, 536))
    taken = [used(pool, each, "hevc") for each in (picture(1280, 532), cut, taller, picture(1280, 536, (5, 6)))]
    assert len(set(taken)) == 4
    assert used(pool, cut, "hevc") is taken[1]


def test_a_session_that_may_meet_fields_begins_with_a_whole_picture():
    pool = SessionPool(0, 10 * BYTES)
    assert used(pool, picture(720, 576, field_flag_at=4)).primed == 1
    assert used(pool, HD).primed == 0
    assert used(pool, picture(720, 576), "mpeg2video").primed == 1


def test_sessions_over_the_budget_are_closed_those_used_longest_ago_first():
    pool = SessionPool(0, 2 * BYTES)
    formats = [picture(1920, height) for height in (1080, 1000)]
    first, second = (used(pool, each, "hevc", new=True) for each in formats)
    pool.set_memory(max(first.bytes, second.bytes))
    assert BareSession.open_now == 1
    assert used(pool, formats[1], "hevc") is second
    pool.close_idle()
    assert BareSession.open_now == 0
    assert pool.used_bytes() == 0


def test_a_session_that_many_runs_had_no_use_for_is_closed(monkeypatch):
    monkeypatch.setattr(sessions, "_RUNS_UNUSED", 10)
    pool = SessionPool(0, 100 * BYTES)
    key = session_key("h264", HD)
    with pool.lend(key, HD) as first, pool.lend(key, HD) as second:
        pass
    small = used(pool, SMALL)
    for _ in range(9):
        last = used(pool, HD)
        assert used(pool, SMALL) is small
    assert BareSession.open_now == 2
    assert {first, second} > {last}


def test_a_session_that_changed_its_size_too_often_is_closed(monkeypatch):
    monkeypatch.setattr(sessions, "_MOST_RECONFIGURATIONS", 4)
    pool = SessionPool(0, 10 * BYTES)
    narrow = picture(1900, 1000)
    first = used(pool, HD)
    for _ in range(3):
        assert used(pool, HD) is first
    assert [used(pool, shown) is first for shown in (narrow, HD, narrow, HD)] == [True] * 4
    assert BareSession.open_now == 0
    assert pool.used_bytes() == 0
    assert used(pool, HD) is not first
    assert BareSession.open_now == 1


def test_a_session_that_fails_is_closed():
    pool = SessionPool(0, 10 * BYTES)
    key = session_key("h264", HD)
    with pytest.raises(KeyError), pool.lend(key, HD):
        raise KeyError
    assert BareSession.open_now == 0
    assert pool.used_bytes() == 0
    used(pool, HD)


def test_closing_sessions_trims_the_heaps_but_not_again_at_once(monkeypatch):
    trims = []
    monkeypatch.setattr(device, "_malloc_trim", trims.append)
    monkeypatch.setattr(device, "_last_trim", -math.inf)
    pool = SessionPool(0, 10 * BYTES)
    used(pool, HD)
    assert trims == [], "no session was closed"
    pool.close_idle()
    assert trims == [0]
    used(pool, HD)
    pool.close_idle()
    assert trims == [0], "it was done a moment ago"
    monkeypatch.setattr(device, "_SECONDS_BETWEEN_TRIMS", 0)
    with pytest.raises(KeyError), pool.lend(session_key("h264", HD), HD):
        raise KeyError
    assert trims == [0, 0]


def test_sessions_are_closed_where_the_c_library_cannot_trim(monkeypatch):
    monkeypatch.setattr(device, "_malloc_trim", None)
    pool = SessionPool(0, 10 * BYTES)
    used(pool, HD)
    pool.close_idle()
    assert BareSession.open_now == 0


def test_a_session_larger_than_the_budget_is_made_when_no_other_is_in_use():
    pool = SessionPool(0, 1)
    used(pool, HD)
    assert BareSession.open_now == 0
    assert pool.used_bytes() == 0


def test_threads_wait_while_all_memory_is_lent():
    pool = SessionPool(0, BYTES)
    got = threading.Event()
    key = session_key("h264", HD)
    with pool.lend(key, HD) as first:
        thread = threading.Thread(target=lambda: (used(pool, HD), got.set()))
        thread.start()
        assert not got.wait(0.1)
    assert got.wait(PATIENCE)
    thread.join()
    assert used(pool, HD) is first


def test_an_error_of_a_signals_handler_at_any_line_leaves_nothing_lent_and_nobody_waiting():
    def handler():
        raise ZeroDivisionError

    pool, key = SessionPool(0, BYTES), session_key("h264", HD)
    for line in itertools.count(1):
        with at_line(line, handler) as reached, suppress(ZeroDivisionError), pool.lend(key, HD):
            pass
        if not reached:
            break
        used(pool, HD)
        assert pool.used_bytes() == BYTES, reached
    assert line > 30
    pool.close_idle()
    assert pool.used_bytes() == 0


def test_a_limit_must_be_positive_and_for_a_gpu():
    with pytest.raises(vl.ConfigurationError, match="limit must be a positive integer, got 0"):
        vl.set_decoder_memory(0)
    with pytest.raises(vl.ConfigurationError, match="'cpu'"):
        vl.set_decoder_memory(1 << 30, device="cpu")


@given(st.integers(1, 6 * BYTES), st.randoms(use_true_random=False))
def test_many_threads_stay_within_the_budget_and_all_get_through(memory, rng):
    BareSession.open_now = 0
    pool = SessionPool(0, memory)
    shapes = [HD, SMALL, picture(1280, 720), picture(1920, 1078), picture(3840, 2160, (16, 16, 16))]
    turns = [(rng.choice(shapes), rng.random() < 0.2) for _ in range(40)]
    largest = 0

    def turn(shape, fails):
        nonlocal largest
        try:
            with pool.lend(session_key("h264", shape), shape) as session:
                assert session.lent_to is None, "two threads have it"
                session.lent_to = threading.get_ident()
                assert session.is_set_up_for(shape)
                largest = max(largest, pool.used_bytes())
                time.sleep(0)
                session.lent_to = None
                if fails:
                    raise KeyError
        except KeyError:
            pass

    with ThreadPoolExecutor(6) as threads:
        for each in [threads.submit(turn, *each) for each in turns]:
            each.result(30)
    alone = max(session_bytes(session_key("h264", shape), shape) for shape in shapes)
    assert largest <= max(memory, alone)
    assert pool.used_bytes() <= memory
    pool.close_idle()
    assert BareSession.open_now == 0
