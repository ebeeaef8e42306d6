"""Frames decoded from the packets they refer to are those of a full decode, and none is marked as damaged."""

from __future__ import annotations

import random
from functools import cache, cached_property
from itertools import chain
from pathlib import Path

import pytest
from corpus_files import GOOD_FILES
from hypothesis import given
from hypothesis import strategies as st
from reference_streams import STREAMS, write_stream
from sample_videos import RECIPES, write_video
from truth import full_decode, hash_of

from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import FileSource, VideoIndex, build_index
from videoloader.indexing.bitstream.references import ReferenceClosure, names_references
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

NAMED = ("hevc", "av1", "vp8", "vp9")
# What random clips of 16 frames, each fourth, decode at most of the packets up to their last frame.
LARGEST_PART = {
    "hevc_pyramid": 0.65,
    "hevc_temporal_layers": 0.65,
    "hevc_more_temporal_layers": 0.65,
    "hevc_few_order_bits": 0.65,
    "hevc_flat": 0.6,
    "hevc_slices": 0.75,
    "av1_random_access": 0.55,
    "av1_three_levels": 0.65,
    "av1_low_delay": 0.65,
    "av1_grain": 0.55,
    "vp9_three_layers": 0.75,
    "vp9_two_layers": 0.75,
    "vp8_three_layers": 0.75,
    "vp8_two_layers": 0.75,
}


class Decoded:
    """A video, the hashes of its frames, and how it is read."""

    def __init__(self, path: Path) -> None:
        self.source, self.index = FileSource(path), build_index(path)
        self._path, self._decoder = path, CpuDecoder()
        self.compared: frozenset[int] | None = None  # all

    @cached_property
    def _truth(self) -> list[bytes]:
        hashes = full_decode(self._path, self.compared).hashes
        assert len(self.index) == len(hashes)
        return hashes

    def assert_same(self, frames: list[int]) -> float:
        """Packets decoded for these frames, as a part of those that the plan has."""
        found: dict[int, bytes] = {}

        def take(packet: int, frame) -> None:
            assert not frame.is_corrupt
            assert packet not in found
            found[packet] = hash_of(frame)

        assert all(self._truth[frame] for frame in frames)
        plan = plan_frames(self.index, frames)
        fed = 0
        for run in plan.runs:
            fed += self._decoder.decode(self.index, read_packets(self.source, self.index, run), take).fed
        assert {
            frame for frame in frames if found.get(int(self.index.frame_packet[frame])) != self._truth[frame]
        } == set()
        return fed / plan.packets

    def clip(self, rng: random.Random, step: int, length: int = 16) -> list[int]:
        first = rng.randrange(max(1, len(self.index) - step * length))
        return list(range(first, min(first + step * length, len(self.index)), step))

    def random_frames(self, rng: random.Random) -> list[int]:
        return sorted(rng.sample(range(len(self.index)), rng.randint(1, min(len(self.index), 12))))


@pytest.fixture(scope="session")
def stream(tmp_path_factory: pytest.TempPathFactory):
    """``stream(name)`` is one of the encoded streams, decoded."""
    folder = tmp_path_factory.mktemp("streams")
    return cache(lambda name: Decoded(write_stream(folder, name)))


@pytest.mark.parametrize("name", STREAMS)
def test_any_frames_of_encoded_streams(name: str, stream) -> None:
    video, rng = stream(name), random.Random(name)
    for _ in range(5):
        video.assert_same(video.random_frames(rng))
        video.assert_same([rng.randrange(len(video.index))])
    parts = [video.assert_same(video.clip(rng, 4)) for _ in range(10)]
    assert sum(parts) / len(parts) <= LARGEST_PART.get(name, 1)


@pytest.mark.parametrize("name", [name for name in GOOD_FILES if name.startswith((*NAMED, "no corpus"))])
def test_any_frames_of_real_files(name: str, corpus: Path) -> None:
    if name.startswith("av1-long"):
        pytest.skip("a full decode of it is for the tests of the whole corpus")
    video, rng = Decoded(corpus / name), random.Random(name)
    if video.index.stream.size_varies or not video.index.byte_ranges:
        frames = [video.clip(rng, 4), [len(video.index) - 1]]
    else:
        frames = [video.clip(rng, step) for step in (1, 4)]
        frames += [[rng.randrange(len(video.index))] for _ in range(2)]
    video.compared = frozenset(chain(*frames))
    for wanted in frames:
        video.assert_same(wanted)


@pytest.mark.parametrize(
    "name", [name for name in RECIPES if name.startswith(("h264", "mpeg")) and "refresh" not in name]
)
def test_any_frames_where_only_disposable_packets_are_left_out(name: str, sample) -> None:
    video, rng = Decoded(sample(name)), random.Random(name)
    for _ in range(5):
        video.assert_same(video.random_frames(rng))


def test_a_run_longer_than_the_look_ahead(stream, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("videoloader.packets.read_packets._LONGEST_LOOK_AHEAD", 3000)
    rng = random.Random(0)
    for name in DAMAGED:
        for _ in range(5):
            stream(name).assert_same(stream(name).random_frames(rng))


def payloads_of(video: Decoded) -> list[bytes]:
    index = video.index
    return [
        video.source.read(offset, size)
        for offset, size in zip(index.packet_offset.tolist(), index.packet_size.tolist(), strict=True)
    ]


def needed(index: VideoIndex, payloads: list[bytes], wanted: set[int], bounds: list[int]) -> set[int]:
    """The packets kept of those asked for in parts."""
    closure = ReferenceClosure(index.stream.codec, index.stream.codec_configs[0])
    kept: list[bool] = []
    for first, stop in zip([0, *bounds], [*bounds, len(payloads)], strict=True):
        asked = [number in wanted for number in range(first, stop)]
        kept += closure.needed(payloads[first:stop], asked, more_follow=stop < len(payloads))
    assert len(kept) == len(payloads)
    return {number for number, each in enumerate(kept) if each}


DAMAGED = [
    "hevc_pyramid",
    "hevc_closed_gop",
    "av1_random_access",
    "vp9_alt_ref",
    "vp9_three_layers",
    "vp8_three_layers",
]


@pytest.mark.parametrize("name", DAMAGED)
def test_a_run_in_parts_keeps_what_the_whole_needs(name: str, stream) -> None:
    video, rng = stream(name), random.Random(name)
    payloads = payloads_of(video)
    for _ in range(20):
        wanted = set(rng.sample(range(len(payloads)), 3))
        bounds = sorted(rng.sample(range(1, len(payloads)), 3))
        assert needed(video.index, payloads, wanted, []) <= needed(video.index, payloads, wanted, bounds)


@pytest.mark.parametrize("name", DAMAGED)
@given(st.data())
def test_a_packet_that_cannot_be_read_keeps_itself_and_all_after_it(name: str, stream, data: st.DataObject) -> None:
    video = stream(name)
    payloads = payloads_of(video)
    damaged = data.draw(st.integers(1, len(payloads) - 1))
    payloads[damaged] = data.draw(st.sampled_from([b"", b"\0", b"\1\0\0", payloads[damaged][:2]]))
    assert needed(video.index, payloads, {0}, []) >= set(range(damaged, len(payloads)))


@pytest.mark.parametrize("name", DAMAGED)
@given(st.data())
def test_any_bytes_are_taken(name: str, stream, data: st.DataObject) -> None:
    video = stream(name)
    payloads = payloads_of(video)[:12]
    for number in data.draw(st.sets(st.integers(0, 11), max_size=4)):
        at = data.draw(st.integers(0, min(30, len(payloads[number]) - 1)))
        payloads[number] = payloads[number][:at] + data.draw(st.binary(max_size=12)) + payloads[number][at + 12 :]
    wanted = data.draw(st.sets(st.integers(0, 11)))
    assert needed(video.index, payloads, wanted, []) >= wanted | {0}


def test_codecs_that_name_their_references() -> None:
    assert [codec for codec in (*NAMED, "h264", "mpeg4", "mjpeg") if names_references(codec)] == list(NAMED)


def test_packets_shown_by_another_are_kept(tmp_path: Path) -> None:
    """A packet that shows what was decoded before needs that, and nothing else."""
    video = Decoded(write_video(tmp_path / "video.mp4", RECIPES["av1_mp4"]))
    for frame in range(len(video.index)):
        video.assert_same([frame])
