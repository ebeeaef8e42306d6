"""GaussianNoise and SaltAndPepper: what is drawn, and the underlying hash."""

from __future__ import annotations

import math
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
import torch
from transforms.applying import apply, info, painted, together

from videoloader.errors import ConfigurationError
from videoloader.transforms import noise
from videoloader.transforms.backends import parts
from videoloader.transforms.curves import Linear
from videoloader.transforms.noise import GaussianNoise, SaltAndPepper
from videoloader.transforms.operations import PixelTransform

CPU = torch.device("cpu")
NOISES = [GaussianNoise(std=20), SaltAndPepper(0.3), SaltAndPepper(0.3, per_channel=True)]


def gray(length: int = 2, height: int = 100, width: int = 120, value: int = 100) -> torch.Tensor:
    return torch.full((1, length, 3, height, width), value, dtype=torch.uint8)


def drawn_keys(seed: int, frames: int) -> npt.NDArray[np.uint32]:
    return noise.draw_keys(np.random.default_rng(seed), frames, per_frame=True)


def test_the_hash_is_its_definition_in_unsigned_numbers() -> None:
    keys = drawn_keys(0, 2)
    with np.errstate(over="ignore"):
        x = np.arange(1000, dtype=np.uint32) + keys[..., :1]
        x ^= x >> np.uint32(16)
        x *= np.uint32(0x7FEB352D)
        x ^= x >> np.uint32(15)
        x ^= keys[..., 1:]
        x *= np.uint32(0x846CA68B)
        x ^= x >> np.uint32(16)
    assert np.array_equal(noise.uniform(keys, 1000, CPU).numpy(), x >> np.uint32(8))


def test_uniform_numbers_are_uniform_and_independent() -> None:
    drawn = noise.uniform(drawn_keys(3, 4), 1 << 16, CPU).numpy().reshape(12, -1)
    for shift in (0, 8, 16):  # each byte of the 24 bits
        counts = np.bincount((drawn.ravel() >> shift) & 255, minlength=256)
        # 255 degrees of freedom: beyond 400 with a probability of 1e-8.
        assert ((counts - counts.mean()) ** 2 / counts.mean()).sum() < 400
    correlations = np.corrcoef(drawn)  # of planes with one another
    assert np.abs(correlations - np.eye(12)).max() < 0.02
    neighbours = np.corrcoef(drawn[:, :-1].ravel(), drawn[:, 1:].ravel())[0, 1]
    assert abs(neighbours) < 0.01


def test_normal_numbers_are_normal() -> None:
    drawn = noise.normal(drawn_keys(5, 2), 201, 333, CPU).double().ravel()  # an odd number of pixels
    assert abs(drawn.mean()) < 0.01
    assert abs(drawn.std() - 1) < 0.01
    assert abs((drawn**3).mean()) < 0.03
    assert abs((drawn**4).mean() - 3) < 0.1
    for bound in (0.5, 1, 2, 3):
        assert abs((drawn < bound).double().mean() - 0.5 * (1 + math.erf(bound / math.sqrt(2)))) < 0.003
    assert drawn.isfinite().all()
    assert abs(torch.corrcoef(torch.stack([drawn[:-1], drawn[1:]]))[0, 1]) < 0.01


def test_gaussian_noise_has_its_mean_and_deviation() -> None:
    added = apply(GaussianNoise(mean=7, std=12), gray()).double() - 100
    assert abs(added.mean() - 7) < 0.15
    assert abs(added.std() - math.sqrt(144 + 1 / 12)) < 0.15
    assert torch.equal(apply(GaussianNoise(mean=0, std=0), painted()), painted())
    assert set(apply(GaussianNoise(mean=200, std=1), gray(value=250)).unique().tolist()) == {255}


def test_gaussian_noise_follows_a_curve() -> None:
    frames = gray(length=5)
    (operation,) = GaussianNoise(std=Linear(0, 40)).draw(np.random.default_rng(4), info(frames))
    asked, found = operation.params["std"], together([operation], frames).double().std(dim=(0, 2, 3, 4)).numpy()
    assert np.ptp(asked) > 5
    assert np.abs(found - np.sqrt(asked**2 + 1 / 12)).max() < 0.3


@pytest.mark.parametrize(("amount", "salt"), [(0.2, 0.5), (0.1, 0.9), (1.0, 0.25), (0.0, 0.5)])
def test_so_many_pixels_turn_white_or_black(amount: float, salt: float) -> None:
    turned = apply(SaltAndPepper(amount, salt), gray())
    assert set(turned.unique().tolist()) <= {0, 100, 255}
    assert abs((turned == 255).double().mean() - amount * salt) < 0.01
    assert abs((turned == 0).double().mean() - amount * (1 - salt)) < 0.01
    if amount in (0, 1):
        assert ((turned != 100) == bool(amount)).all()


def test_all_channels_of_a_pixel_turn_unless_asked_otherwise() -> None:
    together, apart = apply(SaltAndPepper(0.5), gray()), apply(SaltAndPepper(0.5, per_channel=True), gray())
    assert torch.equal(together, together[:, :, :1].expand_as(together))
    red, green = (apart[:, :, channel] != 100 for channel in (0, 1))
    assert abs((red & green).double().mean() - 0.25) < 0.02


@pytest.mark.parametrize("step", NOISES)
def test_frames_and_clips_have_noise_of_their_own(step: PixelTransform) -> None:
    frames = gray().expand(3, -1, -1, -1, -1).clone()
    planes = apply(step, frames).flatten(0, 1)
    for first in range(6):
        for second in range(first):
            assert not torch.equal(planes[first], planes[second])


@pytest.mark.parametrize(
    "step", [GaussianNoise(std=20, per_frame=False), SaltAndPepper(0.3, per_frame=False, per_channel=True)]
)
def test_noise_may_be_the_same_in_all_frames(step: PixelTransform) -> None:
    noisy = apply(step, gray(length=4))
    assert torch.equal(noisy, noisy[:, :1].expand_as(noisy))


@pytest.mark.parametrize("step", NOISES)
def test_clips_that_run_together_get_what_each_gets_alone(step: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    frames = painted(clips=4)
    operations = [step.draw(np.random.default_rng(seed), info(frames))[0] for seed in range(4)]
    alone = torch.cat([together([operation], frames[n, None]) for n, operation in enumerate(operations)])
    assert torch.equal(together(operations, frames), alone)
    monkeypatch.setattr(parts, "_PART", 5 * frames[0, 0].numel())
    assert torch.equal(together(operations, frames), alone)


@pytest.mark.parametrize("step", NOISES)
def test_the_same_draw_gives_the_same_noise(step: PixelTransform) -> None:
    again = pickle.loads(pickle.dumps(step))
    assert again == step
    assert torch.equal(apply(step, painted(), seed=3), apply(again, painted(), seed=3))
    assert not torch.equal(apply(step, painted(), seed=3), apply(step, painted(), seed=4))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: GaussianNoise(std=-1), "GaussianNoise's std must be at least 0, .*got -1"),
        (lambda: GaussianNoise(std=(5, 2)), r"GaussianNoise's std must be .*got \(5, 2\)"),
        (lambda: GaussianNoise(mean=math.inf), "GaussianNoise's mean must be a finite number, .*got inf"),
        (lambda: SaltAndPepper(1.5), r"SaltAndPepper's amount must be in \[0, 1\], .*got 1.5"),
        (lambda: SaltAndPepper(0.1, (0, 2)), r"SaltAndPepper's salt must be in \[0, 1\], .*got \(0, 2\)"),
    ],
)
def test_bad_parameters_are_refused(make: Any, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        make()
