"""The packets of a plan: all that the wanted frames need, none twice, and hardly any more."""

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from synthetic_index import indexes_and_frames, make_index

from videoloader.errors import FrameRangeError
from videoloader.indexing.index import DISPOSABLE_NO, DISPOSABLE_YES
from videoloader.packets import decode_plan
from videoloader.packets.decode_plan import gops_in_common, plan_frames, split_at_keyframes, with_all_frames


def packets_of(index, frames):
    return [run.packets.tolist() for run in plan_frames(index, frames).runs]


@given(indexes_and_frames())
def test_every_wanted_packet_comes_exactly_once(drawn):
    index, frames = drawn
    plan = plan_frames(index, frames)
    wanted = sorted({int(index.frame_packet[frame]) for frame in frames})
    assert [packet for run in plan.runs for packet in run.wanted.tolist()] == wanted
    for run in plan.runs:
        assert np.isin(run.wanted, run.packets).all()
    assert plan.frames_wanted == len(set(frames))


@given(indexes_and_frames())
def test_a_run_starts_where_its_first_frame_can_be_decoded_and_ends_with_a_wanted_one(drawn):
    index, frames = drawn
    for run in plan_frames(index, frames).runs:
        of_run = [frame for frame in frames if index.frame_packet[frame] in run.wanted]
        assert run.packets[0] == index.start_packet(of_run).min()
        assert run.packets[-1] == run.wanted[-1]


@given(indexes_and_frames())
def test_runs_follow_each_other_in_decode_order_and_share_no_packet(drawn):
    index, frames = drawn
    packets = [packet for run in packets_of(index, frames) for packet in run]
    assert packets == sorted(set(packets))


@given(indexes_and_frames())
def test_a_run_stays_within_one_configuration(drawn):
    index, frames = drawn
    for run in packets_of(index, frames):
        assert len(set(index.packet_config[run].tolist())) == 1


def test_a_run_does_not_go_on_over_packets_of_another_configuration():
    index = make_index([0, 3, 1, 2, 4, 5], {0, 4, 5}, configs=[0, 0, 0, 0, 1, 0])
    assert packets_of(index, [2, 5]) == [[0, 1, 2, 3], [5]]


@given(indexes_and_frames())
def test_only_packets_that_nothing_wanted_depends_on_are_left_out(drawn):
    index, frames = drawn
    for run in plan_frames(index, frames).runs:
        first, last = int(run.packets[0]), int(run.packets[-1])
        for packet in set(range(first, last + 1)) - set(run.packets.tolist()):
            assert index.packet_disposable[packet] == DISPOSABLE_YES
            assert packet not in run.wanted


@given(indexes_and_frames())
def test_a_plan_costs_no_more_than_each_frame_alone_and_the_delays_of_the_seeks_it_saves(drawn):
    index, frames = drawn
    plan = plan_frames(index, frames)
    alone = sum(plan_frames(index, [frame]).packets for frame in set(frames))
    seeks_saved = plan.frames_wanted - len(plan.runs)
    assert plan.packets <= alone + index.stream.reorder_depth * seeks_saved


def test_a_gap_longer_than_the_reordering_delay_is_skipped():
    intra = make_index(list(range(10)), set(range(10)))
    assert packets_of(intra, [0, 1, 5]) == [[0, 1], [5]]
    reordered = make_index([0, 3, 1, 2, 4, 7, 5, 6, 8], {0, 4, 8})  # a depth of one
    assert reordered.stream.reorder_depth == 1
    assert packets_of(reordered, [0, 8]) == [[0], [8]]
    assert packets_of(reordered, [1, 4]) == [[0, 1, 2, 3, 4]]  # skips packet 3 only


def test_disposable_packets_are_decoded_only_when_wanted():
    disposable = [DISPOSABLE_NO, DISPOSABLE_NO, DISPOSABLE_YES, DISPOSABLE_YES, DISPOSABLE_NO]
    index = make_index([0, 3, 1, 2, 4], {0}, disposable=disposable)
    assert packets_of(index, [4]) == [[0, 1, 4]]
    assert packets_of(index, [2, 4]) == [[0, 1, 3, 4]]


def test_a_packet_that_decoding_starts_at_is_never_left_out():
    index = make_index([0, 1, 2], {0}, disposable=[DISPOSABLE_YES, DISPOSABLE_NO, DISPOSABLE_NO])
    assert packets_of(index, [2]) == [[0, 1, 2]]


def test_before_the_first_keyframe_nothing_is_left_out():
    disposable = [DISPOSABLE_NO, DISPOSABLE_YES, DISPOSABLE_NO, DISPOSABLE_NO, DISPOSABLE_YES, DISPOSABLE_NO]
    index = make_index([0, 1, 2, 3, 4, 5], {3}, disposable=disposable)
    assert packets_of(index, [2]) == [[0, 1, 2]]
    assert packets_of(index, [5]) == [[3, 5]]
    assert packets_of(make_index([0, 1, 2, 3, 4, 5], set(), disposable=disposable), [5]) == [[0, 1, 2, 3, 4, 5]]


def test_leading_frames_need_the_keyframe_before_their_own():
    index = make_index([0, 1, 4, 2, 3, 5], {0, 2})  # 2 and 3 are shown before the keyframe at 4
    assert packets_of(index, [2]) == [[0, 1, 2, 3]]


def test_leading_frames_of_the_first_keyframe_are_left_out_when_their_packets_have_been_read():
    index = make_index([0, 1, 4, 2, 3, 5], {0, 2})
    assert packets_of(index, [5]) == [[2, 3, 4, 5]]
    assert packets_of(index, [2]) == [[0, 1, 2, 3]]


def test_decoding_starts_where_the_packets_were_found_to_need_it():
    index = replace(make_index([0, 1, 2, 3, 4, 5], {0, 2}), other_starts=((3, 0),))
    assert packets_of(index, [3]) == [[0, 1, 2, 3]]
    assert packets_of(index, [4]) == [[2, 3, 4]]


def test_a_packet_shown_twice_is_decoded_once():
    index = make_index([0, 1, 2], {0}, frames=[0, 1, 1, 2])
    plan = plan_frames(index, [1, 2])
    assert [run.wanted.tolist() for run in plan.runs] == [[1]]
    assert plan.frames_wanted == 2


def test_runs_of_a_decoded_index_go_on_past_packets_without_a_frame_and_one_more():
    index = make_index([0, 0, 2, 2, 4, 4], {0}, frames=[0, 2, 4], method="decoded")
    assert packets_of(index, [0]) == [[0, 1, 2]]
    assert packets_of(index, [1]) == [[0, 1, 2, 3, 4]]
    assert packets_of(index, [2]) == [[0, 1, 2, 3, 4, 5]]


def test_no_frames_need_no_packets():
    plan = plan_frames(make_index([0, 1], {0}), [])
    assert (plan.runs, plan.frames_wanted, plan.packets) == ((), 0, 0)


@pytest.mark.parametrize("frame", [-1, 3])
def test_a_frame_outside_the_video_is_refused(frame):
    with pytest.raises(FrameRangeError, match=f"a video: frame {frame} is outside"):
        plan_frames(make_index([0, 1, 2], {0}), [0, frame])


def parts_of_at_least(packets, index, frames):
    with patch.object(decode_plan, "LEAST_PACKETS", packets):
        return split_at_keyframes(index, frames)


@given(indexes_and_frames(), st.integers(1, 30))
def test_parts_for_several_decoders_hold_every_frame_once_and_share_no_keyframe(drawn, least_packets):
    index, frames = drawn
    parts = parts_of_at_least(least_packets, index, frames)
    assert sorted(np.concatenate([*parts, []]).astype(int).tolist()) == sorted(set(frames))
    starts = [set(index.start_packet(part).tolist()) for part in parts]
    assert sum(map(len, starts)) == len(set().union(*starts))


def test_parts_have_about_as_many_packets_as_asked_for():
    index = make_index(list(range(100)), set(range(0, 100, 10)))
    parts = parts_of_at_least(25, index, range(100))
    assert [len(part) for part in parts] == [30, 20, 30, 20]
    assert [len(part) for part in parts_of_at_least(1, index, range(100))] == [10] * 10
    assert [len(part) for part in parts_of_at_least(1000, index, range(100))] == [100]
    assert split_at_keyframes(index, []) == []


def test_what_must_be_demuxed_from_the_start_is_not_split():
    index = replace(make_index([0, 1, 2, 3], {0, 1, 2, 3}), byte_ranges=False)
    assert [part.tolist() for part in parts_of_at_least(1, index, [3, 1, 1])] == [[1, 3]]
    assert len(parts_of_at_least(1, replace(index, byte_ranges=True), [3, 1, 1])) == 2


@given(indexes_and_frames(), st.data())
def test_clips_are_in_one_group_just_if_gops_in_common_join_them(drawn, data):
    index, frames = drawn
    clips = [np.array(data.draw(st.lists(st.sampled_from(frames), min_size=1))) for _ in range(4)] if frames else []
    groups = gops_in_common(index, clips)
    assert sorted(clip for group in groups for clip in group) == list(range(len(clips)))
    starts = [set().union(*(index.start_packet(clips[clip]).tolist() for clip in group)) for group in groups]
    assert sum(map(len, starts)) == len(set().union(*starts))
    for group in groups:
        joined = {group[0]}
        for _ in group:
            reached = set().union(*(index.start_packet(clips[clip]).tolist() for clip in joined))
            joined |= {clip for clip in group if reached & set(index.start_packet(clips[clip]).tolist())}
        assert joined == set(group)


@given(indexes_and_frames())
def test_a_run_with_all_frames_has_those_that_were_wanted_and_every_packet_that_decodes(drawn):
    index, frames = drawn
    for run in plan_frames(index, frames).runs:
        whole = with_all_frames(index, int(run.packets[0]), int(run.packets[-1]))
        assert set(run.packets.tolist()) <= set(whole.packets.tolist())
        assert set(run.wanted.tolist()) <= set(whole.wanted.tolist()) <= set(whole.packets.tolist())
        assert (index.packet_pts[whole.wanted] >= index.packet_pts[whole.packets[0]]).all()
