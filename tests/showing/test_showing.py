"""``show``: pictures of everything that holds frames."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.errors import ArgumentError, ConfigurationError
from videoloader.showing.contact_sheet import Strip
from videoloader.showing.show import _strips, spread

Sample = Callable[[str], Path]


def strips_of(what: object, clips: int = 8, frames: int = 16) -> list[Strip]:
    return _strips(what, clips, frames, None)


@pytest.fixture(scope="module")
def data(sample: Sample) -> vl.VideoDataset:
    return vl.VideoDataset.from_paths([sample("h264_mp4"), sample("vp9_webm")], ["walk", "run"])


@pytest.mark.parametrize("layout", ["TCHW", "CTHW", "THWC"])
@pytest.mark.parametrize("dtype", ["uint8", "float16", "bfloat16", "float32"])
def test_a_batch_is_shown_as_it_is(data: vl.VideoDataset, layout: str, dtype: str) -> None:
    mode = vl.FrameList([0, 3, -1])
    transforms = [vl.Resize((40, 60))]
    plain = next(iter(vl.VideoLoader(data, mode, batch_size=2, device="cpu", transforms=transforms)))
    batch = next(
        iter(vl.VideoLoader(data, mode, batch_size=2, device="cpu", transforms=transforms, layout=layout, dtype=dtype))
    )
    for strip, wanted, numbers in zip(strips_of(batch), plain.frames, plain.frame_numbers, strict=True):
        assert [tile.number for tile in strip.tiles] == numbers.tolist()
        shown = torch.stack([tile.frame for tile in strip.tiles]).float()
        scale = 1 if dtype == "uint8" else 255
        torch.testing.assert_close(shown * scale, wanted.permute(0, 2, 3, 1).float(), atol=1, rtol=0)
    assert vl.show(batch).size == vl.show(plain).size


def test_titles_name_the_video_the_clip_and_the_label(data: vl.VideoDataset) -> None:
    batch = next(iter(vl.VideoLoader(data, vl.RandomWindow(2), batch_size=2, device="cpu")))
    assert [strip.title for strip in strips_of(batch)] == [
        "h264_mp4.mp4, clip 0, label 1",
        "vp9_webm.webm, clip 1, label 0",
    ]


def test_padding_and_roles_are_told(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    (strip,) = strips_of(video.read(vl.FrameList([len(video) - 1, len(video)], pad="constant")))
    assert [tile.made_up for tile in strip.tiles] == [False, True]
    assert [tile.number for tile in strip.tiles] == [len(video) - 1, -1]
    (strip,) = strips_of(video.read(vl.Triplets()))
    assert [tile.role for tile in strip.tiles] == ["input", "target", "input"]


def test_a_list_batch_has_clips_of_their_own_lengths(data: vl.VideoDataset) -> None:
    loader = vl.VideoLoader(data, vl.WholeVideo(stride=5), batch_size=2, collate="list", device="cpu")
    batch = next(iter(loader))
    assert [len(strip.tiles) + strip.left_out for strip in strips_of(batch)] == [len(clip) for clip in batch.frames]


def test_long_clips_are_shown_in_part(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    (strip,) = strips_of(video.read(range(20)), frames=4)
    assert [tile.number for tile in strip.tiles] == [0, 6, 13, 19]
    assert strip.left_out == 16


@pytest.mark.parametrize(("count", "most", "places"), [(0, 4, []), (1, 4, [0]), (9, 1, [0]), (9, 3, [0, 4, 8])])
def test_places_are_spread_from_the_first_to_the_last(count: int, most: int, places: list[int]) -> None:
    assert spread(count, most).tolist() == places


def test_a_video_shows_its_keyframes(sample: Sample) -> None:
    video = vl.Video(sample("h264_mp4"), device="cpu")
    (strip,) = strips_of(video, frames=100)
    numbers = video.read(vl.Keyframes()).frame_numbers.tolist()
    assert [tile.number for tile in strip.tiles] == numbers
    assert strip.title == f"h264_mp4.mp4: {len(numbers)} of {len(numbers)} keyframes"


def test_a_data_set_shows_a_frame_of_each_row(sample: Sample) -> None:
    path = str(sample("h264_mp4"))
    data = vl.VideoDataset([vl.VideoEntry(path, start=5, stop=8), vl.VideoEntry(path, label=2)])
    first, second = strips_of(data)
    assert 5 <= first.tiles[0].number < 8
    assert second.tiles[0].number == 0
    assert second.title == "row 1, label 2, h264_mp4.mp4"


@pytest.mark.parametrize(
    ("shape", "clips", "frames"),
    [
        ((40, 60), 1, 1),
        ((3, 40, 60), 1, 1),
        ((40, 60, 3), 1, 1),
        ((5, 3, 40, 60), 1, 5),
        ((3, 5, 40, 60), 1, 5),
        ((5, 40, 60, 1), 1, 5),
        ((2, 5, 3, 40, 60), 2, 5),
        ((2, 3, 5, 40, 60), 2, 5),
        ((2, 5, 40, 60, 3), 2, 5),
    ],
)
@pytest.mark.parametrize("kind", [np.zeros, torch.zeros])
def test_tensors_and_arrays_of_any_layout(
    kind: Callable[[tuple[int, ...]], object], shape: tuple[int, ...], clips: int, frames: int
) -> None:
    strips = strips_of(kind(shape))
    assert [len(strip.tiles) for strip in strips] == [frames] * clips
    assert {tuple(tile.frame.shape[:2]) for strip in strips for tile in strip.tiles} == {(40, 60)}
    vl.show(kind(shape))


def test_frames_in_a_list_are_a_clip_and_clips_are_several() -> None:
    frame = torch.zeros(3, 40, 60)
    assert [len(strip.tiles) for strip in strips_of([frame, frame, frame])] == [3]
    assert [len(strip.tiles) for strip in strips_of([frame[None], frame[None]])] == [1, 1]


def test_a_shape_that_may_be_two_layouts_is_an_error_that_names_them() -> None:
    with pytest.raises(ArgumentError, match=r"\[3, 3, 40, 60\] may be TCHW or CTHW: write layout="):
        vl.show(torch.zeros(3, 3, 40, 60))
    assert vl.show(torch.zeros(3, 3, 40, 60), layout="CTHW")


@pytest.mark.parametrize("what", ["clip.mp4", 3, None, torch.zeros(3), object()])
def test_what_cannot_be_shown_is_an_error(what: object) -> None:
    with pytest.raises(ArgumentError, match="show takes a Batch, a Clip"):
        vl.show(what)


@pytest.mark.parametrize("what", [[], torch.zeros(0, 4, 3, 8, 8)])
def test_nothing_to_show_is_an_error(what: object) -> None:
    with pytest.raises(ArgumentError, match="nothing to show"):
        vl.show(what)


@pytest.mark.parametrize(
    "wrong", [{"clips": 0}, {"frames": -1}, {"size": 0}, {"layout": "HWCT"}, {"normalize": "imagenet"}]
)
def test_arguments_are_checked(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigurationError, match=next(iter(wrong))):
        vl.show(torch.zeros(3, 8, 8), **wrong)  # type: ignore[arg-type]


def test_more_clips_than_are_shown_are_told_below(data: vl.VideoDataset) -> None:
    some, all_there = (
        vl.show(next(iter(vl.VideoLoader(data[:rows], vl.RandomWindow(2), batch_size=rows, device="cpu"))), clips=1)
        for rows in (2, 1)
    )
    assert some.height > all_there.height
    assert (np.asarray(some)[: all_there.height - 10] == np.asarray(all_there)[:-10]).all()


@pytest.mark.parametrize("value", [1000.0, -5.0, float("inf"), float("nan"), 3e38, -3e38])
def test_frames_of_one_value_are_a_picture(value: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert vl.show(torch.full((3, 4, 4), value)).width > 151
        vl.show(torch.tensor([value, 0.0, -1.0, float("inf")]).repeat(3, 4, 1))


@pytest.mark.parametrize("what", [np.full((4, 4, 3), "x", object), np.full((4, 4, 3), 1j)])
def test_what_is_no_number_is_no_frame(what: object) -> None:
    with pytest.raises(ArgumentError, match="a frame to show must hold numbers, got"):
        vl.show(what)


@pytest.mark.parametrize("what", [torch.zeros(0, 3, 4, 4), np.zeros((2, 0, 4, 4, 3), np.uint8)])
def test_clips_without_a_frame_are_nothing_to_show(what: object) -> None:
    with pytest.raises(ArgumentError, match="there is nothing to show"):
        vl.show(what)
