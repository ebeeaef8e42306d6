"""Parameter sets that one job finds inside a GOP count for all clips decoded beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from lies.joined import joined

import videoloader as vl
from videoloader.batching import row_decoding
from videoloader.errors import DecodeError


@pytest.fixture(scope="module", params=["h264_pps", "hevc_closed"])
def path(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video whose second member brings its parameter sets one packet late; three more follow that rely on them."""
    folder = tmp_path_factory.mktemp("late")
    data = joined(folder, request.param, (0, 1, 1, 1, 1), "late", "mp4")
    assert data is not None
    (folder / "joined.mp4").write_bytes(data)
    return folder / "joined.mp4"


def loader_of(path: Path, **settings: Any) -> vl.VideoLoader:
    dataset = vl.VideoDataset.from_paths([path])
    return vl.VideoLoader(dataset, vl.EveryWindow(4), device="cpu", layout="TCHW", last_batch="partial", **settings)


@pytest.mark.filterwarnings("ignore::videoloader.CorruptFramesWarning")
@pytest.mark.parametrize("batch_size", [1, 7])
@pytest.mark.parametrize("num_workers", [0, 2, 8])
def test_frames_are_those_of_the_video(path: Path, num_workers: int, batch_size: int) -> None:
    with loader_of(path, num_workers=num_workers, batch_size=batch_size) as loader:
        batches = list(loader)
    frames = torch.cat([batch.frames.flatten(0, 1) for batch in batches])
    numbers = np.concatenate([batch.frame_numbers.ravel() for batch in batches])
    expected = vl.Video(path, device="cpu")[:]
    assert sorted(numbers.tolist()) == list(range(len(expected)))
    assert torch.equal(frames, expected[numbers])
    assert not loader.stats().skipped
    assert not loader.stats().replaced


@pytest.mark.filterwarnings("ignore::videoloader.CorruptFramesWarning")
def test_an_error_does_not_count_where_another_job_finds_what_was_missing(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = vl.Video(path, device="cpu")[:]
    decode_rows, failed = row_decoding.decode_rows, []

    def decode_or_fail(job: Any, *arguments: Any, **options: Any) -> Any:
        if job.frames[0] >= len(expected) // 2 and not failed:
            failed.append(job)
            raise DecodeError("does not decode by these sets")
        return decode_rows(job, *arguments, **options)

    monkeypatch.setattr(row_decoding, "decode_rows", decode_or_fail)
    with loader_of(path, num_workers=2, batch_size=30) as loader:
        (batch,) = loader
    assert failed
    assert torch.equal(batch.frames.flatten(0, 1), expected[batch.frame_numbers.ravel()])


def test_an_error_counts_where_nothing_else_was_found(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(job: Any, *_: Any, **__: Any) -> Any:
        raise DecodeError(f"frame {job.frames[0]} does not decode")

    monkeypatch.setattr(row_decoding, "decode_rows", fail)
    with loader_of(path, num_workers=2, batch_size=30) as loader, pytest.raises(DecodeError, match="frame 0 does not"):
        list(loader)
