"""Transforms of tensors without a loader, and of tensors that go with the frames."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import videoloader as vl
from videoloader.transforms import Uniform

GEOMETRY = [
    vl.RandomResizedCrop(48, scale=(0.4, 1)),
    vl.RandomHorizontalFlip(),
    vl.Rotate((-20, 20)),
    vl.CenterCrop(40),
]


def clips(seed: int = 0, count: int = 3, length: int = 4) -> torch.Tensor:
    small = torch.from_numpy(np.random.default_rng(seed).integers(0, 256, (count * length, 3, 9, 12), np.uint8))
    large = torch.nn.functional.interpolate(small.float(), (72, 96), mode="bilinear")
    return large.round().byte().view(count, length, 3, 72, 96)


@pytest.mark.parametrize(
    "transforms",
    [
        [vl.Resize((40, 56)), vl.CenterCrop(32), vl.Normalize()],
        [*GEOMETRY, vl.RandAugment(2, 9), vl.Normalize()],
        [vl.Reverse(), vl.ColorJitter(0.4, 0.4, 0.4, 0.1), vl.GaussianNoise(std=3.0), vl.ToFloat("float16")],
    ],
)
def test_clips_come_out_as_from_a_loader(
    transforms: list[Any], sample: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [sample(name) for name in ("h264_mp4", "hevc_mp4")]
    mode = vl.FrameList([3, 4, 5, 6])
    data = vl.VideoDataset.from_paths(paths)
    dtype = "float16" if isinstance(transforms[-1], vl.ToFloat) else "float32"
    (batch,) = vl.VideoLoader(data, mode, batch_size=2, device="cpu", transforms=transforms, dtype=dtype, seed=7)
    decoded = torch.stack([vl.Video(path, device="cpu").read(mode).frames for path in paths])
    composed = vl.Compose(transforms, dtype=getattr(torch, dtype))(decoded, seed=7)
    assert composed.dtype == batch.frames.dtype
    difference = (composed.float() - batch.frames.float()).abs()
    # Conversion resizes before it rounds to eight bits.
    assert difference.max() <= 0.25 if isinstance(transforms[0], vl.RandomResizedCrop) else difference.max() <= 0.02
    assert difference.mean() < 0.01


def test_the_same_seed_draws_the_same_and_clips_draw_by_themselves() -> None:
    compose = vl.Compose([*GEOMETRY, vl.RandAugment()])
    frames = clips()
    one, other = compose(frames, seed=1), compose(frames, seed=2)
    again = compose(frames[:2].clone(), seed=1)
    assert torch.equal(one[:2], again)
    assert not torch.equal(one, other)
    assert torch.equal(frames, clips()), "what came in is not changed"


def test_masks_points_and_boxes_move_with_the_frames() -> None:
    frames = torch.zeros(4, 3, 3, 72, 96, dtype=torch.uint8)
    frames[..., 30:42, 40:60] = 255
    masks = frames[:, :, 0] > 0
    points = torch.tensor([[50.0, 36.0]]).expand(4, 1, 2)
    boxes = torch.tensor([[40.0, 30.0, 60.0, 42.0]]).expand(4, 1, 4)
    compose = vl.Compose([vl.Resize(64), vl.RandomHorizontalFlip(), vl.Rotate(Uniform(-25, 25)), vl.Invert()])
    moved, others = compose(frames, seed=3, apply_to={"mask": masks, "points": points, "boxes": boxes})
    shown = moved[:, :, 0] < 128
    assert others["mask"].dtype == torch.bool
    assert (others["mask"] != shown).float().mean() < 0.01
    at, inside = others["points"]
    around, left = others["boxes"]
    assert inside.all()
    assert left.all()
    for clip in range(4):
        rows, columns = torch.nonzero(shown[clip, 0], as_tuple=True)
        x, y = at[clip, 0].tolist()
        assert (columns.float().mean() + 0.5, rows.float().mean() + 0.5) == (
            pytest.approx(x, abs=0.5),
            pytest.approx(y, abs=0.5),
        )
        x1, y1, x2, y2 = around[clip, 0].tolist()
        assert (x1, x2) == (pytest.approx(columns.min(), abs=1), pytest.approx(columns.max() + 1, abs=1))
        assert (y1, y2) == (pytest.approx(rows.min(), abs=1), pytest.approx(rows.max() + 1, abs=1))


def test_a_pair_of_clips_gets_the_same_treatment() -> None:
    frames = clips()
    compose = vl.Compose([*GEOMETRY, vl.TrivialAugmentWide(), vl.GaussianNoise(std=4.0)])
    moved, others = compose(frames, seed=5, apply_to={"frames": frames})
    assert torch.equal(moved, others["frames"])


def test_a_batch_replays_what_was_drawn_for_it(sample: Callable[[str], Path]) -> None:
    data = vl.VideoDataset.from_paths([sample("h264_mp4"), sample("hevc_mp4")])
    transforms = [vl.RandomResizedCrop(64), vl.Rotate((-30, 30)), vl.ColorJitter(0.4, 0.4, 0.4, 0.1)]
    (batch,) = vl.VideoLoader(data, vl.RandomWindow(3), batch_size=2, device="cpu", transforms=transforms)
    for row in range(2):
        plain = vl.Video(batch.paths[row], device="cpu").read(batch.frame_numbers[row].tolist()).frames
        again = batch.replay(row, plain)
        difference = (again.int() - batch.frames[row].int()).abs()
        assert difference.float().mean() < 1
        assert batch.replay(row, plain[:, 0], "mask").shape == (3, 64, 64)
    with pytest.raises(vl.ConfigurationError, match=r"kind must be one of frames, .*, got 'video'"):
        batch.replay(0, plain, "video")  # type: ignore[arg-type]


def test_a_single_clip_comes_out_as_one() -> None:
    compose, frames = vl.Compose([*GEOMETRY, vl.RandAugment()]), clips()
    masks, points = frames[:, :, 0], torch.tensor([[9.0, 20.0]])
    several, of_several = compose(frames[:1], seed=1, apply_to={"mask": masks[:1], "points": points[None]})
    one, of_one = compose(frames[0], seed=1, apply_to={"mask": masks[0], "points": points})
    assert torch.equal(one, several[0])
    assert torch.equal(of_one["mask"], of_several["mask"][0])
    for given, expected in zip(of_one["points"], of_several["points"], strict=True):
        assert torch.equal(given, expected[0])


@pytest.mark.parametrize("layout", ["TCHW", "CTHW", "THWC"])
def test_a_clip_may_lie_in_memory_in_any_order(layout: Any) -> None:
    frames = clips().permute(0, 1, 3, 4, 2).contiguous().permute(0, 1, 4, 2, 3)
    compose = vl.Compose(GEOMETRY, layout=layout)
    assert torch.equal(compose(frames, seed=3), compose(clips(), seed=3))


def test_without_a_seed_pytorch_draws_one() -> None:
    compose, frames = vl.Compose([*GEOMETRY, vl.RandAugment()]), clips()
    torch.manual_seed(5)
    first, second = compose(frames), compose(frames)
    assert not torch.equal(first, second)
    torch.manual_seed(5)
    assert torch.equal(compose(frames), first)


@pytest.mark.parametrize("given", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_floats_come_out_as_floats(given: torch.dtype) -> None:
    pixels = clips() // 2 * 2 if given == torch.bfloat16 else clips()
    floats = (pixels.double() / 255).to(given)
    compose = vl.Compose([*GEOMETRY, vl.RandAugment()])
    result = compose(floats, seed=4)
    assert result.dtype == (torch.float32 if given == torch.float64 else given)
    expected = vl.Compose(compose.transforms, dtype=result.dtype)(floats, seed=4)
    assert torch.equal(result, expected)
    if given != torch.bfloat16:
        assert torch.equal((result.float() * 255).round().byte(), compose(pixels, seed=4))
    assert vl.Compose(compose.transforms, dtype="uint8")(floats, seed=4).dtype == torch.uint8
    assert vl.Compose([vl.Normalize()])(floats).dtype == torch.float32


def test_labels_and_columns_are_one_for_each_clip() -> None:
    frames = clips()
    inverted = vl.Compose([vl.When(lambda clip: clip.label == 1, [vl.Invert()])])
    result = inverted(frames, labels=[0, 1, 0])
    assert torch.equal(result[1], 255 - frames[1])
    assert torch.equal(result[0], frames[0])
    assert torch.equal(inverted(frames[0], labels=1), 255 - frames[0])
    boxes = [{"box": (number, 10, number + 30, 40)} for number in range(3)]
    cropped = vl.Compose([vl.CropToBox()])(frames, columns=boxes)
    for number in range(3):
        assert torch.equal(cropped[number], frames[number, ..., 10:40, number : number + 30])
    assert torch.equal(vl.Compose([vl.CropToBox()])(frames[1], columns=boxes[1]), cropped[1])
    with pytest.raises(vl.ConfigurationError, match="labels must be one for each of 3 clips, got"):
        inverted(frames, labels=[0, 1])
    with pytest.raises(vl.ConfigurationError, match="columns must be one for each of 3 clips, got"):
        inverted(frames, columns=boxes[0])
    with pytest.raises(vl.ConfigurationError, match=r"come out as .*: add a Resize"):
        vl.Compose([vl.CropToBox()])(frames, columns=[*boxes[:2], {"box": (0, 0, 9, 9)}])


def test_what_cannot_be_composed_is_refused() -> None:
    with pytest.raises(vl.ConfigurationError, match="make 3 views of a clip"):
        vl.Compose([vl.ThreeCrop(8)])
    with pytest.raises(vl.ConfigurationError, match="MixUp, CutMix and MixChoice work only in loaders"):
        vl.Compose([vl.MixUp(1.0, num_classes=2)])
    compose = vl.Compose([])
    for frames in (
        torch.zeros(3, 8, 8, dtype=torch.uint8),
        torch.zeros(4, 8, 8, 3, dtype=torch.uint8),
        torch.zeros(4, 3, 8, 8, dtype=torch.int64),
        torch.zeros(0, 4, 3, 8, 8),
    ):
        with pytest.raises(
            vl.ConfigurationError, match=r"frames must be uint8 or floats \[T, 3, H, W\] or .*, got torch"
        ):
            compose(frames)
    with pytest.raises(vl.ConfigurationError, match=r"must lie in \[0, 1\], got 0 … 200: divide by 255"):
        compose(torch.tensor([0.0, 200.0, 9.0]).view(1, 3, 1, 1))
    with pytest.raises(vl.ConfigurationError, match=r"frames must be a tensor, got ndarray: torch\.from_numpy"):
        compose(np.zeros((4, 3, 8, 8), np.uint8))  # type: ignore[call-overload]
    with pytest.raises(
        vl.ConfigurationError, match=r"mask of apply_to must be \[2, ...\], one a clip, got torch.float32 \[4, 8, 8\]"
    ):
        compose(torch.zeros(2, 4, 3, 8, 8), apply_to={"mask": torch.zeros(4, 8, 8)})
