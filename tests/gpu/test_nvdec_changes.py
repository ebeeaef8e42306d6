"""NVDEC on streams that change on the way, and on those that PyNvVideoCodec gets wrong when left alone."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
import torch
from changing_streams import (
    several_descriptions,
    write_changing_annex_b,
    write_cropped,
    write_h264,
    write_hevc,
    write_interlaced,
)
from truth import planes

from videoloader.decoding import sessions as pool_module
from videoloader.decoding.capabilities import why_not_nvdec
from videoloader.decoding.sessions import SessionError, pool_of
from videoloader.errors import DecodeError
from videoloader.indexing import ByteSource, FileSource, VideoIndex, build_index

pytestmark = pytest.mark.gpu
pytest.importorskip("cupy")
if not torch.cuda.is_available():
    pytest.skip("needs an NVIDIA GPU", allow_module_level=True)

from test_nvdec import IDCT_TOLERANCE, Sessions, decoded_by  # noqa: E402 - it needs cupy


@pytest.fixture(scope="module")
def sessions() -> Sessions:
    return Sessions()


def assert_same(sessions: Sessions, source: ByteSource, index: VideoIndex, rounds: int = 6) -> None:
    """All frames, and random ones in several rounds, so that runs begin and end in all places."""
    assert why_not_nvdec(index, 0) == ""
    rng = random.Random(len(index))
    choices = [list(range(len(index)))]
    choices += [sorted(rng.sample(range(len(index)), 5)) for _ in range(rounds)]
    tolerance = IDCT_TOLERANCE.get(index.stream.codec, 0)
    for frames in choices:
        expected = decoded_by(sessions.by_cpu, index, source, frames, planes)
        found = decoded_by(sessions.nvdec.decode, index, source, frames, sessions.samples)
        assert found.keys() == expected.keys()
        for packet, samples in expected.items():
            for ours, theirs in zip(found[packet], samples, strict=True):
                assert ours.shape == theirs.shape
                assert np.abs(ours.astype(np.int32) - theirs).max() <= tolerance


def test_parameter_sets_that_change_between_keyframes(tmp_path: Path, sessions: Sessions) -> None:
    path = write_changing_annex_b(tmp_path)
    assert_same(sessions, FileSource(path), build_index(path))


def test_several_configuration_records(tmp_path: Path, sessions: Sessions) -> None:
    assert_same(sessions, *several_descriptions(tmp_path))


@pytest.mark.parametrize("codec", ["libx264", "mpeg2video"])
def test_interlaced_pictures_come_out_as_they_are(codec: str, tmp_path: Path, sessions: Sessions) -> None:
    pool_of(0).close_idle()  # so that no session has seen another picture
    path = write_interlaced(tmp_path, codec)
    index = build_index(path)
    if index.method == "decoded" and why_not_nvdec(index, 0):
        pytest.skip("left to the CPU")
    assert_same(sessions, FileSource(path), index)
    plain = write_h264(tmp_path / "plain.mp4", 3, size=(352, 288))
    assert_same(sessions, FileSource(plain), build_index(plain), 1)
    assert_same(sessions, FileSource(path), index, 1)


def test_the_same_size_coded_larger(tmp_path: Path, sessions: Sessions) -> None:
    paths = [write_hevc(tmp_path / f"{block}.mp4", block) for block in (8, 16)]
    for path in [*paths, *paths]:
        assert_same(sessions, FileSource(path), build_index(path), 2)


@pytest.mark.parametrize("crop", ["crop_left=64", "crop_top=16", "crop_left=64:crop_top=16"])
def test_pictures_cut_on_the_left_or_top_go_to_the_cpu(crop: str, tmp_path: Path) -> None:
    assert "wrongly" in why_not_nvdec(build_index(write_cropped(tmp_path, crop)), 0)


def test_sessions_take_any_format_of_their_key_where_memory_is_short(tmp_path: Path, sessions: Sessions) -> None:
    pool = pool_of(0)
    sizes = [(320, 240), (320, 238), (304, 226), (336, 240)]
    paths = [
        write_h264(tmp_path / f"{size[1]}_{references}.mp4", references, size=size, frames=30)
        for size in sizes
        for references in (1, 16)
    ]
    rng = random.Random(0)
    pool.set_memory(1)
    try:
        for path in rng.choices(paths, k=24):
            assert_same(sessions, FileSource(path), build_index(path), 1)
        pool.set_memory(12 << 20)
        for path in rng.choices(paths, k=24):
            assert_same(sessions, FileSource(path), build_index(path), 1)
            assert pool.used_bytes() <= 12 << 20
    finally:
        pool.set_memory(4 << 30)


def test_a_session_that_fails_once_is_replaced(
    tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_h264(tmp_path / "video.mp4", 3)
    source, index = FileSource(path), build_index(path)
    feed, calls = pool_module.Session.feed, []

    def failing(self, payload: bytes, **way: int):
        calls.append(self)
        if len(calls) == 3:
            raise SessionError("for the test")
        return feed(self, payload, **way)

    monkeypatch.setattr(pool_module.Session, "feed", failing)
    frames = list(range(48))
    expected = decoded_by(sessions.by_cpu, index, source, frames, planes)
    found = decoded_by(sessions.nvdec.decode, index, source, frames, sessions.samples)
    assert calls[-1] is not calls[0]
    assert found.keys() == expected.keys()
    assert all(
        np.array_equal(*pair) for packet in expected for pair in zip(found[packet], expected[packet], strict=True)
    )


def test_a_session_that_always_fails_is_told(
    tmp_path: Path, sessions: Sessions, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_h264(tmp_path / "video.mp4", 3)

    def failing(self, payload: bytes, **way: int):
        raise SessionError("for the test")

    with monkeypatch.context() as patch:
        patch.setattr(pool_module.Session, "feed", failing)
        with pytest.raises(DecodeError, match=r"video\.mp4.*for the test"):
            decoded_by(sessions.nvdec.decode, build_index(path), FileSource(path), [5], sessions.samples)
    assert_same(sessions, FileSource(path), build_index(path), 1)
