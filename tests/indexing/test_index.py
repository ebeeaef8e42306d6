"""What an index answers: where decoding starts, which frame is on screen, how fast frames come."""

import pickle
from fractions import Fraction
from functools import cached_property

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from synthetic_index import indexes_and_frames, make_index

from videoloader.errors import ArgumentError, ConfigurationError, FrameRangeError
from videoloader.indexing.index import VideoIndex

steps = st.lists(st.integers(2, 3000), min_size=1, max_size=30)
bases = st.sampled_from([Fraction(1, 1000), Fraction(1, 12800), Fraction(1, 90000), Fraction(1001, 30000)])


def timed(pts, base=Fraction(1, 1000)):
    return make_index(pts, {0}, time_base=base)


@given(indexes_and_frames())
def test_decoding_starts_at_the_last_keyframe_before_a_frame_in_both_orders(drawn):
    index, frames = drawn
    pts = index.packet_pts
    expected = []
    for frame in frames:
        packet = index.frame_packet[frame]
        fits = [key for key in np.flatnonzero(index.packet_key) if key <= packet and pts[key] <= pts[packet]]
        expected.append(max(fits, default=0))
    assert index.start_packet(frames).tolist() == expected
    assert index.start_packet(frames[0]).shape == ()


def test_decoding_starts_with_the_first_packet_where_there_is_no_keyframe():
    assert make_index([0, 1, 2], set()).start_packet([0, 2]).tolist() == [0, 0]
    # The frames before the first keyframe in display order.
    assert make_index([2, 0, 1], {0}).start_packet([0, 1, 2]).tolist() == [0, 0, 0]


def test_the_keyframe_before_a_packet_is_the_first_packet_where_there_is_none():
    index = make_index([0, 1, 2, 3, 4, 5], {2, 4})
    assert [index.keyframe_before(packet) for packet in range(-1, 6)] == [0, 0, 0, 0, 2, 2, 4]


def test_without_keyframe_decoding_starts_at_the_one_before():
    index = make_index([0, 1, 2, 3], {0, 2})
    assert index.without_keyframe(2).start_packet([1, 2, 3]).tolist() == [0, 0, 0]
    assert index.start_packet([1, 2, 3]).tolist() == [0, 2, 2]


@pytest.mark.parametrize("frame", [-1, 3])
def test_a_frame_outside_the_video_is_refused(frame):
    with pytest.raises(FrameRangeError, match=f"a video: frame {frame} is outside the video's 3 frames"):
        make_index([0, 1, 2], {0}).start_packet([0, frame])


@given(steps, bases, st.integers(-1000, 100_000))
def test_every_frame_is_on_screen_at_its_own_time(durations, base, first):
    index = timed((first + np.cumsum([0, *durations])).tolist(), base)
    assert index.frame_at(index.timestamps).tolist() == list(range(len(index)))


@given(st.integers(1, 240), st.sampled_from([1000, 12800, 15360, 90000]))
def test_a_time_rounded_to_milliseconds_finds_its_frame(fps, scale):
    pts = [round(frame * scale / fps) for frame in range(100)]
    index = timed(pts, Fraction(1, scale))
    assert index.frame_at(index.timestamps.round(3)).tolist() == list(range(100))


@given(steps, bases, st.lists(st.floats(-10, 3000), min_size=1))
def test_the_frame_on_screen_is_the_last_that_has_begun(durations, base, seconds):
    index = timed([0, *np.cumsum(durations).tolist()], base)
    # Half a millisecond of slack before a frame's own time, and less where frames follow each other faster.
    seconds = [second for second in seconds if np.abs(index.timestamps - second).min() > 0.0006]
    begun = [sum(start <= second for start in index.timestamps.tolist()) for second in seconds]
    assert index.frame_at(seconds).tolist() == [max(count - 1, 0) for count in begun]


def test_packets_and_frames_may_be_lists_but_no_tensors_with_a_gradient():
    index = make_index([0, 1, 2], {0, 2})
    index.check_range([0, 2])
    with pytest.raises(FrameRangeError, match="frame 3 is outside"):
        index.check_range([1, 3])
    for method in (index.check_range, index.gop_of, index.start_packet):
        with pytest.raises(ArgumentError, match="is a tensor whose numbers cannot be read"):
            method(torch.ones(2, requires_grad=True))


def test_keyframes_are_one_truth_value_for_each_packet():
    index = make_index([0, 1, 2], {0})
    assert index.with_keyframes([True, False, True]).gop_of([0, 1, 2]).tolist() == [1, 1, 2]
    with pytest.raises(ConfigurationError, match="key must be 3 truth values, one for each packet, got 'a'"):
        index.with_keyframes("a")


def test_times_may_have_any_shape_and_lie_outside():
    index = timed([0, 40, 80])
    assert index.frame_at([[-5, 0.05], [0.08, 99]]).tolist() == [[0, 1], [2, 2]]
    assert index.frame_at(0.05).shape == ()


def test_frames_closer_than_a_millisecond_are_told_apart():
    index = timed(list(range(0, 1000, 10)), Fraction(1, 100_000))  # 10,000 frames a second
    assert index.frame_at(index.timestamps).tolist() == list(range(100))
    assert index.frame_at(index.timestamps + 0.00004).tolist() == list(range(100))


@given(st.integers(2, 200), st.integers(1, 1000))
def test_average_fps_counts_the_intervals_between_frames(frames, duration):
    index = timed([frame * duration for frame in range(frames)])
    assert index.average_fps == pytest.approx(1000 / duration)


def test_average_fps_of_a_single_frame_is_the_nominal_rate():
    assert timed([7]).average_fps == float(timed([7]).stream.frame_rate) == 0


@pytest.mark.parametrize(
    ("pts", "scale", "vfr"),
    [
        ([0, 33, 67, 100], 1000, False),  # 30 fps in milliseconds
        ([0, 33, 66, 133], 1000, True),
        ([0, 3003, 6006, 9009], 90000, False),
        ([0, 2970, 6030, 9000], 90000, False),  # rounded to milliseconds by a tool before
        ([0, 3003, 6006, 12012], 90000, True),
        ([0, 1, 3, 4], 25, True),  # a frame is missing where a unit is a frame
        ([0, 1, 2, 3], 25, False),
        ([0, 100], 1000, False),
    ],
)
def test_is_vfr_overlooks_what_rounding_explains(pts, scale, vfr):
    assert timed(pts, Fraction(1, scale)).is_vfr is vfr


def test_no_array_of_an_index_can_be_written_to():
    index = make_index([0, 4, 2], {0}, time_base=Fraction(1, 25)).without_keyframe(0)
    names = [name for name in dir(VideoIndex) if isinstance(getattr(VideoIndex, name), cached_property)]
    arrays = {name: made for name in [*names, *vars(index)] if isinstance(made := getattr(index, name), np.ndarray)}
    assert {"timestamps", "clock", "packet_start", "frame_pts"} <= arrays.keys()
    assert [name for name, array in arrays.items() if array.flags.writeable] == []
    sent = vars(pickle.loads(pickle.dumps(index)))
    assert [name for name, made in sent.items() if isinstance(made, np.ndarray) and made.flags.writeable] == []
    with pytest.raises(ValueError, match="read-only"):
        index.timestamps[:] -= 1


def test_what_is_made_from_an_index_is_not_sent_with_it():
    index = make_index([0, 4, 2], {0}, time_base=Fraction(1, 25))
    fresh = pickle.dumps(index)
    assert index.timestamps[-1] > 0
    assert index.packet_start[0] >= 0
    assert index.average_fps > 0
    assert pickle.dumps(index) == fresh
    assert (pickle.loads(fresh).timestamps == index.timestamps).all()
