"""Inputs and targets of frame interpolation, and their times, in every loader."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader

import videoloader as vl
from videoloader.convert.spec import Layout
from videoloader.errors import ConfigurationError
from videoloader.interop.torch import ClipDataset, ClipRequest, DecodingLoader, list_clips, stack_clips

Sample = Callable[[str], Path]
MODE = vl.FrameTuples((0, 3), (1, 2), step=9, gap=2)
CUT = vl.Resize((32, 40))


@pytest.fixture(scope="module")
def path(sample: Sample) -> Path:
    """A video whose frames come at distances from 11 to 67 ms."""
    return sample("h264_mp4_vfr")


@pytest.fixture(scope="module")
def video(path: Path) -> vl.Video:
    return vl.Video(path, device="cpu")


@pytest.fixture(scope="module")
def data(path: Path) -> vl.VideoDataset:
    return vl.VideoDataset([vl.VideoEntry(str(path), columns={"cuts": [20, 40]})])


def load(data: vl.VideoDataset, mode: Any, *transforms: Any, **settings: Any) -> list[vl.Batch]:
    arguments = {"batch_size": 3, "device": "cpu", "num_workers": 1, "transforms": transforms} | settings
    return list(vl.VideoLoader(data, mode, **arguments))


def rows(data: vl.VideoDataset, mode: Any, *transforms: Any, **settings: Any) -> list[list[int]]:
    batches = load(data, mode, CUT, *transforms, **settings)
    return [row for batch in batches for row in batch.frame_numbers.tolist()]


def expected_times(video: vl.Video, frame_numbers: Any, mode: Any) -> list[float]:
    """(t - first) / (last - first), of one clip."""
    times, (inputs, targets) = video.timestamps[frame_numbers], mode.roles
    return [(times[place] - times[inputs[0]]) / (times[inputs[-1]] - times[inputs[0]]) for place in targets]


@pytest.mark.parametrize("mode", [MODE, vl.Triplets(2, step=7), vl.FrameTuples((0, 2, 4, 6), (3, 1, 5), step=11)])
@pytest.mark.parametrize(("layout", "axis"), [("TCHW", 1), ("CTHW", 2), ("THWC", 1)])
def test_inputs_and_targets_are_the_frames_at_their_places(
    data: vl.VideoDataset, video: vl.Video, mode: Any, layout: Layout, axis: int
) -> None:
    for transforms in ([CUT], [CUT, vl.Grayscale(), vl.Normalize()]):
        for batch in load(data, mode, *transforms, layout=layout):
            inputs, targets = mode.roles
            assert batch.roles == (inputs, targets)
            assert torch.equal(batch.inputs, batch.frames.index_select(axis, torch.tensor(inputs)))
            assert torch.equal(batch.targets, batch.frames.index_select(axis, torch.tensor(targets)))
            expected = np.float32([expected_times(video, row, mode) for row in batch.frame_numbers])
            assert batch.target_times.dtype == torch.float32
            np.testing.assert_allclose(batch.target_times, expected, atol=1e-6)
            assert ((batch.target_times > 0) & (batch.target_times < 1)).all()


def test_frames_at_equal_distances_are_not_copied(data: vl.VideoDataset) -> None:
    for mode in (MODE, vl.Triplets()):
        batch = load(data, mode, CUT, layout="CTHW")[0]
        batch.inputs.fill_(7)
        batch.targets.fill_(9)
        values = {*batch.frames[:, :, mode.roles.inputs].unique().tolist()}
        assert values == {7}
        assert (batch.frames == 9).sum() == batch.targets.numel()


def test_the_middle_of_an_even_triplet_is_at_one_half(sample: Sample) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4")])
    for reverse in ([], [vl.transforms.Reverse(p=1)]):
        assert all((batch.target_times == 0.5).all() for batch in load(data, vl.Triplets(step=6), *reverse))


def test_views_and_repeats_keep_roles(data: vl.VideoDataset, video: vl.Video) -> None:
    for batch in load(data, MODE, vl.transforms.FiveCrop(32), repeats=2, batch_size=1):
        assert batch.inputs.shape[:2] == batch.targets.shape[:2] == (10, 2)
        np.testing.assert_allclose(batch.target_times[7], expected_times(video, batch.frame_numbers[7], MODE), 1e-6)


def test_reverse_mirrors_the_pattern(data: vl.VideoDataset, video: vl.Video) -> None:
    asymmetric = vl.FrameTuples((0, 6), 2, step=20)
    backwards = vl.transforms.Reverse(p=1)
    assert rows(data, vl.FrameTuples((0, 2), 1, step=50), backwards) == [[2, 0, 1], [52, 50, 51]]
    assert rows(data, asymmetric, backwards) == [[6, 0, 4], [26, 20, 24], [46, 40, 44]]
    assert rows(data, asymmetric, backwards, backwards) == rows(data, asymmetric)
    assert rows(data, vl.FrameTuples((1, 2, 3), (0, 4), step=50), backwards) == [[3, 2, 1, 4, 0], [53, 52, 51, 54, 50]]
    assert rows(data, vl.Triplets(3, step=50), backwards) == [[6, 3, 0], [56, 53, 50]]
    forwards, (batch,) = load(data, asymmetric)[0], load(data, asymmetric, backwards)
    for forward, row, times in zip(forwards.frame_numbers, batch.frame_numbers, batch.target_times, strict=True):
        np.testing.assert_allclose(times, expected_times(video, row, asymmetric), 1e-6)
        # The same frame, seen from the other end.
        same = [*forward[:2], forward[0] + 4]
        np.testing.assert_allclose(1 - times, expected_times(video, same, asymmetric), 1e-6)
    assert torch.equal(batch.targets[0, 0], vl.Video(batch.paths[0], device="cpu")[4])


def test_targets_beyond_the_inputs_are_measured_along_the_direction(data: vl.VideoDataset, video: vl.Video) -> None:
    ahead = vl.FrameTuples((0, 1), 2, step=9)
    for reverse in ([], [vl.transforms.Reverse(p=1)]):
        for batch in load(data, ahead, CUT, *reverse):
            assert (batch.target_times > 1).all()
            expected = [expected_times(video, row, ahead) for row in batch.frame_numbers]
            np.testing.assert_allclose(batch.target_times, expected, 1e-6)


def test_a_random_reverse_mirrors_some_clips(data: vl.VideoDataset) -> None:
    mode = vl.FrameTuples((0, 6), 2)
    found = rows(data, mode, vl.transforms.Reverse())
    backwards = [row[0] > row[1] for row in found]
    assert 10 < sum(backwards) < 44
    assert found == [
        [start + 6, start, start + 4] if mirrored else [start, start + 6, start + 2]
        for start, mirrored in enumerate(backwards)
    ]
    assert found == rows(data, mode, vl.transforms.Reverse(), batch_size=7, num_workers=3)


def test_ends_that_were_padded(data: vl.VideoDataset, video: vl.Video) -> None:
    mode = vl.FrameTuples((0, 4), 1, pad="edge", step=57)
    (batch,) = load(data, mode, CUT)
    assert batch.frame_numbers.tolist() == [[0, 4, 1], [57, 59, 58]]
    np.testing.assert_allclose(batch.target_times[1], expected_times(video, [57, 59, 58], mode), 1e-6)
    (batch,) = load(data, vl.FrameTuples((0, 4), 1, pad="edge", step=59), CUT)
    assert batch.target_times[1].isnan().all()  # the inputs are one frame
    (batch,) = load(data, vl.FrameTuples((0, 4), 1, pad="constant", step=57), CUT)
    assert batch.target_times.isnan().flatten().tolist() == [False, True]
    (batch,) = load(data, mode, CUT, vl.transforms.Reverse(p=1))
    assert batch.frame_numbers.tolist() == [[4, 0, 3], [59, 57, 59]]
    assert batch.mask.tolist() == [[True, True, True], [False, True, False]]


def test_masks_of_the_frames_shown_are_replayed(data: vl.VideoDataset, video: vl.Video) -> None:
    (batch,) = load(data, vl.FrameTuples((0, 6), 2, step=20), vl.RandomCrop(64), vl.transforms.Reverse(p=1))
    for row, numbers in enumerate(batch.frame_numbers):
        assert torch.equal(batch.replay(row, video[numbers]), batch.frames[row])


SOME_OF_ITS_OWN = ["TemporalJitter(1)", "DropFrames(count=1)", "RepeatFrames(count=1)", "SpeedChange(2)"]


@pytest.mark.parametrize("transform", SOME_OF_ITS_OWN)
@pytest.mark.parametrize("mode", [MODE, vl.NearKeyframes(vl.Triplets(clips=2), within=3)])
def test_transforms_of_time_that_break_roles_are_refused_at_once(
    data: vl.VideoDataset, path: Path, transform: str, mode: Any
) -> None:
    given = [vl.transforms.Reverse(), eval(transform, vars(vl.transforms)), CUT]
    name = f"{transform.split('(')[0]} changes which frames are inputs and targets of {type(mode).__name__}"
    missing = vl.VideoDataset.from_paths([path.with_name("missing.mp4")])  # nothing is indexed first
    with pytest.raises(ConfigurationError, match=name):
        vl.VideoLoader(missing, mode, batch_size=1, device="cpu", transforms=given)
    with pytest.raises(ConfigurationError, match=name):
        ClipDataset(missing, mode, transforms=given)
    requests = DataLoader([ClipRequest(str(path), mode)], batch_size=None)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match=name):
        list(DecodingLoader(requests, device="cpu", transforms=given))
    vl.VideoLoader(data, vl.RandomWindow(3), batch_size=1, device="cpu", transforms=given)


def test_requests_take_no_transforms_of_time(path: Path) -> None:
    requests: Any = [ClipRequest(str(path), MODE, transforms=[vl.transforms.Reverse(p=1)])]
    with pytest.raises(ConfigurationError, match="transforms of a request can only cut, resize, flip and pad"):
        list(DecodingLoader(DataLoader(requests, batch_size=None), device="cpu"))


def test_modes_without_roles_say_so(data: vl.VideoDataset, video: vl.Video) -> None:
    batch = load(data, vl.RandomWindow(3))[0]
    listed = load(data, vl.RandomWindow(3), collate="list")[0]
    for given in (batch, listed, video.read(vl.RandomWindow(3))):
        assert given.roles is None
        for name in ("inputs", "targets", "target_times"):
            with pytest.raises(ConfigurationError, match=f"this {type(given).__name__} has no inputs and targets"):
                getattr(given, name)


@dataclass(frozen=True)
class AroundKeyframes:
    """A user's own mode: two frames after a keyframe are looked at, the keyframe is to be made."""

    roles: Any
    pad: str = "none"

    def num_clips(self, of: Any) -> int:
        return 2

    def frame_numbers(self, of: Any, clip: int, rng: np.random.Generator) -> Any:
        return of.first + 12 * clip + np.array([0, 1, 5])


def test_a_mode_of_ones_own_names_roles(data: vl.VideoDataset, video: vl.Video) -> None:
    mode = AroundKeyframes(vl.Roles((1, 2), (0,)))
    (batch,) = load(data, mode, vl.transforms.Reverse(p=1))
    assert batch.frame_numbers.tolist() == [[5, 4, 0], [17, 16, 12]]
    assert torch.equal(batch.inputs, torch.stack([video[[4, 0]], video[[16, 12]]]))
    np.testing.assert_allclose(batch.target_times[1], expected_times(video, [17, 16, 12], mode), 1e-6)
    for wrong in (vl.Roles((0, 1), (3,)), vl.Roles((), (1,))):
        with pytest.raises(ConfigurationError, match="do not name places of clips of 3 frames"):
            load(data, AroundKeyframes(wrong))
    with pytest.raises(ConfigurationError, match=r"roles of AroundKeyframes must be Roles\(inputs, targets\) or None"):
        load(data, AroundKeyframes([0, 1]))


def same(one: Any, other: Any) -> bool:
    return all(
        torch.equal(getattr(one, name), getattr(other, name))
        for name in ("frames", "inputs", "targets", "target_times")
    )


RANDOM = vl.FrameTuples((0, 4), (1, 2, 3), random_targets=2, clips=5, gap=(1, 3), cuts="cuts")
TRANSFORMS = [CUT, vl.transforms.Reverse(), vl.RandomHorizontalFlip()]


@pytest.fixture
def made(data: vl.VideoDataset) -> vl.Batch:
    (batch,) = load(data, RANDOM, *TRANSFORMS, batch_size=5, layout="CTHW", seed=3)
    return batch


def test_clip_data_sets_give_the_same(data: vl.VideoDataset, made: vl.Batch) -> None:
    clips = ClipDataset(data, RANDOM, transforms=TRANSFORMS, layout="CTHW", seed=3)
    (batch,) = DataLoader(clips, batch_size=5, collate_fn=stack_clips, num_workers=1)
    assert same(batch, made)
    (batch,) = DataLoader(clips, batch_size=5)
    assert torch.equal(batch["target_times"], made.target_times)
    places = clips[2]["roles"].targets
    assert torch.equal(clips[2]["frames"][:, places], made.targets[2])
    (listed,) = DataLoader(clips, batch_size=5, collate_fn=list_clips)
    for row in range(5):
        assert torch.equal(listed.inputs[row], made.inputs[row])
        assert torch.equal(listed.targets[row], made.targets[row])
        assert torch.equal(listed.target_times[row], made.target_times[row])


def test_samples_of_several_modes_have_no_common_roles(data: vl.VideoDataset) -> None:
    samples = [ClipDataset(data, mode, transforms=[CUT])[0] for mode in (vl.Triplets(), vl.FrameTuples((0, 2), 1))]
    for kept, known in ((samples, False), (samples[:1], True), (samples[1:], True)):
        assert (stack_clips(kept).roles is not None) == (list_clips(kept).roles is not None) == known


def test_lists_give_the_same(data: vl.VideoDataset, made: vl.Batch) -> None:
    (listed,) = load(data, RANDOM, *TRANSFORMS, batch_size=5, layout="CTHW", seed=3, collate="list")
    for name in ("inputs", "targets", "target_times"):
        assert torch.equal(torch.stack(getattr(listed, name)), getattr(made, name))


def test_requests_give_the_same(path: Path, data: vl.VideoDataset) -> None:
    mode, transforms = vl.FrameTuples((0, 6), 2, step=20), [CUT, vl.transforms.Reverse(p=1)]
    (made,) = load(data, mode, *transforms)
    requests: Any = [ClipRequest(str(path), mode, clip=clip) for clip in range(3)]
    for one, clip in zip(requests, range(3), strict=True):
        loader = DecodingLoader(
            DataLoader([one], batch_size=None), device="cpu", transforms=transforms, replace_with=lambda clip: clip
        )
        (given,) = loader
        assert isinstance(given, vl.Clip)
        for name in ("inputs", "targets", "target_times"):
            assert torch.equal(getattr(given, name), getattr(made, name)[clip])
    together = DataLoader(requests, batch_size=3, collate_fn=list)
    (batch,) = DecodingLoader(together, device="cpu", transforms=transforms, replace_with=lambda clips: clips)
    assert same(batch, made)
    mixed: Any = [requests[0], ClipRequest(str(path), vl.RandomWindow(3))]
    (batch,) = DecodingLoader(
        DataLoader(mixed, batch_size=2, collate_fn=list), device="cpu", replace_with=lambda clips: clips
    )
    with pytest.raises(ConfigurationError, match="or its clips come from several modes"):
        batch.inputs.sum()


def test_clips_of_a_video_have_roles(video: vl.Video, data: vl.VideoDataset) -> None:
    mode = vl.FrameTuples((0, 6), (2, 5), step=20)
    (batch,) = load(data, mode)
    for row, clip in enumerate(video.read_clips(mode)):
        for name in ("inputs", "targets", "target_times"):
            assert torch.equal(getattr(clip, name), getattr(batch, name)[row])
    assert torch.equal(video.read(mode, clip=1).targets, video[[22, 25]])


def test_a_resumed_loader_makes_the_same_random_clips(data: vl.VideoDataset) -> None:
    settings: dict[str, Any] = {"batch_size": 2, "device": "cpu", "num_workers": 1, "seed": 8, "shuffle": True}
    loader = vl.VideoLoader(data, RANDOM, transforms=TRANSFORMS, **settings)
    first = list(loader)
    batches = iter(loader)
    next(batches)
    state, rest = loader.state_dict(), list(batches)
    other = vl.VideoLoader(data, RANDOM, transforms=TRANSFORMS, **settings)
    other.load_state_dict(state)
    assert all(same(*pair) for pair in zip(rest, other, strict=True))
    assert first[-1].frame_numbers.tolist() != rest[-1].frame_numbers.tolist()  # another epoch, other clips
