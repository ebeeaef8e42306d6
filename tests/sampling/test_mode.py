"""What all frame modes share: padding, randomness, and custom modes."""

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sampled_videos import all_clips, only_clip, video

import videoloader as vl
from videoloader import padding
from videoloader.errors import ConfigurationError, FrameRangeError
from videoloader.sampling.at_rate import AtRate
from videoloader.sampling.columns import PadColumn
from videoloader.sampling.frame_list import FrameList
from videoloader.sampling.frame_tuples import FrameTuples, Triplets
from videoloader.sampling.mode import CountsByLength, clip_frames, clip_rng, mode_of
from videoloader.sampling.near_keyframes import NearKeyframes
from videoloader.sampling.spread import Segments, UniformFrames
from videoloader.sampling.timestamps import Timestamps
from videoloader.sampling.whole import Keyframes, WholeVideo
from videoloader.sampling.windows import EvenWindows, EveryWindow, RandomWindow

# Each mode with a padding of its own choice.
MODES = {
    "EveryWindow": lambda pad: EveryWindow(7, stride=2, step=3, pad=pad),
    "RandomWindow": lambda pad: RandomWindow(7, stride=(1, 3), reverse=0.5, clips=3, pad=pad),
    "EvenWindows": lambda pad: EvenWindows(7, stride=3, pad=pad),
    "Segments": lambda pad: Segments(3, frames_per_segment=5, jitter=True, pad=pad),
    "UniformFrames": lambda pad: UniformFrames(7, pad=pad),
    "FrameList": lambda pad: FrameList([2, 0, 90, -90] if pad != "none" else [0], pad=pad),
    "Timestamps": lambda pad: Timestamps([0.4, 9] if pad != "none" else [0.4], at="after", pad=pad),
    "AtRate": lambda pad: AtRate(60, 30, pad=pad),
    "Triplets": lambda pad: Triplets(2, pad=pad),
    "FrameTuples": lambda pad: FrameTuples((0, 4), 2, even=True, pad=pad),
    "Keyframes": lambda pad: Keyframes(20, pad=pad),
    "WholeVideo": lambda pad: WholeVideo(stride=2, max_frames=15, pad=pad),
    "NearKeyframes": lambda pad: NearKeyframes(RandomWindow(7, clips=2, pad=pad), within=1),
}


def range_of(size: int, **more: object):
    """A range that begins at 0.4 s, in a video with frames before and behind."""
    return video(size, first=10, after=30, **more)


@pytest.mark.parametrize("pad", padding.MODES)
@pytest.mark.parametrize("name", MODES)
@given(size=st.integers(1, 30), seed=st.integers(0, 3))
def test_no_clip_leaves_its_range(name, pad, size, seed):
    of = range_of(size)
    for clip in range(MODES[name](pad).num_clips(of)):
        frames, mask = clip_frames(MODES[name](pad), of, clip, clip_rng(seed, 0, clip))
        assert (frames.dtype, mask.dtype) == (np.int64, np.bool_)
        assert frames.shape == mask.shape
        made_up = ~mask if pad == "constant" else np.zeros_like(mask)
        assert ((frames >= of.first) & (frames < of.stop) | made_up).all()


@pytest.mark.parametrize("name", MODES)
def test_padding_by_a_column_is_padding_by_its_word(name):
    # Without padding, frames and times that are named must be there.
    words = [*padding.MODES, "loop"][name in ("FrameList", "Timestamps") :]
    for word in words:
        of = range_of(6, columns={"how": word})
        assert all_clips(MODES[name](PadColumn("how")), of) == all_clips(MODES[name](word), of)


@pytest.mark.parametrize("name", MODES)
def test_an_empty_range_gives_no_clip_unless_frames_are_named(name):
    assert MODES[name]("edge").num_clips(range_of(0)) == (name == "FrameList")


@pytest.mark.parametrize("name", MODES)
def test_modes_are_values(name):
    assert MODES[name]("edge") == MODES[name]("edge") != MODES[name]("wrap")
    assert len({MODES[name]("edge"), MODES[name]("edge")}) == 1
    assert repr(MODES[name]("edge")) == repr(MODES[name]("edge"))
    assert isinstance(MODES[name]("edge"), CountsByLength) == (name != "Keyframes")
    assert name in vl.__all__


@pytest.mark.parametrize("alias", ["repeat", "loop", "reflect", "symmetric"])
@pytest.mark.parametrize("name", MODES)
def test_aliases_of_padding_work_in_every_mode(name, alias):
    mode = padding.check_mode(alias)
    assert all_clips(MODES[name](alias), range_of(4)) == all_clips(MODES[name](mode), range_of(4))


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({}, "talk.mp4: has no column 'how'; its columns are none"),
        ({"how": "mirror"}, "talk.mp4: column 'how': pad must be one of .*got 'mirror'"),
        ({"how": 3}, "talk.mp4: column 'how': pad must be one of .*got 3"),
    ],
)
def test_a_column_without_a_padding_mode_is_an_error_that_names_the_row(columns, message):
    with pytest.raises(ConfigurationError, match=message):
        only_clip(RandomWindow(4, pad=PadColumn("how")), video(3, columns=columns))


def test_a_pad_column_has_a_name():
    with pytest.raises(ConfigurationError, match="column must be the name of a column, got ''"):
        PadColumn("")


@pytest.mark.parametrize("clip", [-1, 2])
def test_a_clip_the_video_does_not_have_is_an_error_that_names_it(clip):
    with pytest.raises(FrameRangeError, match=rf"talk.mp4: clip {clip} of EveryWindow.* give 2 clips"):
        clip_frames(EveryWindow(4), video(10), clip, clip_rng(0, 0, 0))


@dataclass(frozen=True)
class Around:
    """The mode that the documentation of FrameMode shows."""

    pad: str = "edge"

    def num_clips(self, video):
        return video.stop - video.first

    def frame_numbers(self, video, clip, rng):
        middle = video.first + clip
        return video.index.frame_at(video.index.timestamps[middle] + np.array([-0.125, 0, 0.125]))


def test_a_mode_of_ones_own_works_everywhere(sample, tmp_path):
    assert all_clips(Around(), video(3, first=10)) == [[10, 10, 12], [10, 11, 12], [10, 12, 12]]
    path = sample("h264_mp4")
    data = vl.VideoDataset([vl.VideoEntry(str(path), start=5, stop=9)])
    data.build_store(tmp_path / "index.db", workers=1)
    clip = vl.Video(path, device="cpu").read(Around(), clip=30)
    assert clip.frame_numbers.tolist() == [26, 30, 33]
    for index in (None, tmp_path / "index.db"):
        loader = vl.VideoLoader(data, Around(), batch_size=4, device="cpu", num_workers=1, index=index)
        (batch,) = loader
        assert batch.frame_numbers.tolist() == [[5, 5, 8], [5, 6, 8], [5, 7, 8], [5, 8, 8]]
        assert loader.state_dict() == vl.VideoLoader(data, Around(), batch_size=4, device="cpu").state_dict() | {
            "epoch": 1
        }
    near = NearKeyframes(Around(), within=1)
    assert near.clips_by_length(np.arange(3)) is None


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: clip_rng(-1, 0, 0), r"seed must be an integer in .*, got -1"),
        (lambda: clip_rng(0, 2**64, 0), r"epoch must be an integer in .*, got 18446744073709551616"),
        (lambda: clip_rng(0, 0, -3), r"clip must be an integer in .*, got -3"),
    ],
)
def test_numbers_of_a_generator_are_checked(make, message):
    with pytest.raises(ConfigurationError, match=message):
        make()


ids = st.tuples(*[st.integers(0, 2**64 - 1) | st.integers(0, 2)] * 3)


@given(a=ids, b=ids)
def test_clip_rng_is_a_pure_function_of_seed_epoch_and_clip(a, b):
    first, again, other = clip_rng(*a).random(4), clip_rng(*a).random(4), clip_rng(*b).random(4)
    assert (first == again).all()
    assert (first == other).any() == (a == b)


def test_streams_of_neighbouring_clips_do_not_overlap():
    draws = [clip_rng(0, 0, clip).integers(2**62, size=50) for clip in range(20)]
    assert len(np.unique(draws)) == 20 * 50


def test_neighbouring_clips_have_unrelated_draws():
    draws = np.array([clip_rng(0, 0, clip).random() for clip in range(4000)])
    assert abs(draws.mean() - 0.5) < 0.025
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 0.08


@pytest.mark.parametrize("numbers", [[0, 4, -1], (0, 4, -1), np.array([0, 4, -1]), torch.tensor([0, 4, -1])])
def test_frame_numbers_make_a_mode(numbers: object) -> None:
    assert mode_of(numbers) == FrameList([0, 4, -1])


def test_a_mode_stays_as_it_is() -> None:
    mode = RandomWindow(16)
    assert mode_of(mode) is mode


@pytest.mark.parametrize(
    ("other", "told"),
    [
        (3, "3"),
        (slice(0, 5), r"slice\(0, 5, None\)"),
        ("random", "'random'"),
        (None, "None"),
        (RandomWindow, "the class RandomWindow"),
        ([True, False], r"\[True, False\]"),
        ([0.5, 1.5], r"\[0.5, 1.5\]"),
        (np.zeros((2, 2), int), r"int64 of shape \(2, 2\)"),
    ],
)
def test_what_is_no_mode_is_refused_in_one_line(other: object, told: str) -> None:
    with pytest.raises(
        ConfigurationError, match=rf"must be a frame mode, such as RandomWindow\(16, stride=4\).*got {told}$"
    ):
        mode_of(other)


def test_no_frames_are_no_mode() -> None:
    with pytest.raises(ConfigurationError, match="one or more integers"):
        mode_of([])
