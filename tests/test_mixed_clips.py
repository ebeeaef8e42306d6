"""A small sample of soak/mixed_clips.py: clips of mixed videos in one loader have the right frames."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from forked_programs import run_program
from hypothesis import given
from hypothesis import strategies as st
from painted_videos import NUMBERS, PAINTED, paint, read_frames
from planned_geometry import plan_geometry
from soak import mixed_clips

import videoloader as vl
from videoloader.convert.spec import Geometry
from videoloader.sampling.mode import clip_rng

# One of each codec, and kinds of GOP and chroma that go together with few frames.
NAMES = [
    "h264_open_ts", "h264_444", "h264_refresh", "h264_interlaced", "hevc_open", "hevc_10bit", "vp9_odd_mp4", "vp8_odd",
    "mpeg4_avi", "mpeg2_ts", "av1_10bit", "ffv1_mkv",
]  # fmt: skip


@pytest.fixture(scope="session")
def painted(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return mixed_clips.write_videos(tmp_path_factory.mktemp("painted"), NAMES)


def test_every_frame_is_the_one_that_was_asked_for(painted: list[Path]) -> None:
    outcome = mixed_clips.run(painted, 100, device="cpu", num_workers=2)
    assert not outcome.wrong
    assert outcome.frames >= 600
    assert outcome.stats.clips >= 100


def test_a_frame_of_another_video_does_not_pass(painted: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = dict(zip(NUMBERS, [*list(NUMBERS.values())[1:], 0], strict=True))
    monkeypatch.setattr(mixed_clips, "NUMBERS", numbers)
    assert len(mixed_clips.run(painted[:2], 8, device="cpu").wrong) == 8


@given(st.integers(0, 127), st.integers(0, 2047), st.sampled_from([(320, 240), (321, 241), (240, 176)]), st.integers(0))
def test_numbers_are_read_from_any_crop(video: int, number: int, size: tuple[int, int], clip: int) -> None:
    width, height = size
    geometry = plan_geometry(mixed_clips.TRANSFORMS, (height, width), clip_rng(0, 0, clip % 2**64))
    picture = torch.from_numpy(paint(video, number, width, height)).permute(2, 0, 1)[None].float()
    top, left, rows, columns = geometry.crop
    part = picture[:, :, top : top + rows, left : left + columns]
    shown = torch.nn.functional.interpolate(part, geometry.size, mode="bilinear", antialias=True)
    frames = (shown.flip(3) if geometry.flip else shown).numpy()
    assert read_frames(frames, geometry, (height, width)) == [(video, number)]


def test_noise_and_mixtures_of_two_frames_are_not_read() -> None:
    geometry = Geometry((0, 0, 240, 320), (240, 320))
    one, other = (paint(3, number, 320, 240).transpose(2, 0, 1)[None].astype(np.float32) for number in (100, 101))
    half = np.concatenate([one[..., :160], other[..., 160:]], 3)
    for frames in (np.random.default_rng(0).uniform(0, 255, one.shape), (one + other) / 2, half):
        assert read_frames(frames, geometry, (240, 320)) == [None]


def test_frames_fit_into_the_code() -> None:
    assert len(PAINTED) <= 128
    assert max(recipe.frames for recipe in PAINTED.values()) <= 2048
    assert isinstance(vl.RandomResizedCrop(112), type(mixed_clips.TRANSFORMS[0]))


# The threads of a read, and files whose first configuration record is the same.
TURNS = [
    "1 + h264_pps[0,1]:once:mp4 + h264_pps[0]:once:mp4",
    "1 + h264_transform[0,1]:always:mp4 + h264_transform[0]:once:mp4 + h264_transform[0,2]:once:mp4",
    "2 + hevc_pps[0,1]:always:mp4 + hevc_pps[0]:once:mp4",
]


def test_what_one_video_does_to_a_decoder_is_not_seen_by_another(tmp_path: Path) -> None:
    cases = [word for case in TURNS for word in ("--case", case)]
    program = Path(__file__).parent / "soak" / "mixed_clips.py"
    done = run_program(program, "--lies", "--bases", str(tmp_path), *cases)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert f"{len(TURNS)} cases" in done.stdout
