"""Damaged H.263, whose decoder notices damage only once it has seen pictures that end as they should."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from read_alone import read_alone
from sample_videos import Recipe, write_video
from truth import full_decode

from videoloader.decoding.cpu import CpuDecoder
from videoloader.indexing import FileSource, build_index

# Sizes that the header of a picture tells in each of its ways.
RECIPES = [
    Recipe(suffix, encoder, {"g": "7"}, size=size, frames=21)
    for suffix, encoder, size in (
        ("avi", "h263", (176, 144)),
        ("3gp", "h263", (128, 96)),
        ("avi", "h263p", (100, 80)),
        ("flv", "flv", (64, 48)),
        ("flv", "flv", (264, 32)),
        ("flv", "flv", (160, 120)),
    )
]
each_recipe = pytest.mark.parametrize(
    "recipe", RECIPES, ids=lambda each: f"{each.encoder}-{each.suffix}-{each.size[0]}"
)


@each_recipe
def test_pictures_that_damage_of_a_keyframe_changes_are_marked(recipe: Recipe, tmp_path: Path) -> None:
    sound, damaged = (tmp_path / f"{name}.{recipe.suffix}" for name in ("sound", "damaged"))
    write_video(sound, recipe)
    index, expected, choose, seen = build_index(sound), full_decode(sound).hashes, random.Random(7), 0
    (_, keyframe, *_) = np.flatnonzero(index.packet_key).tolist()
    offset, size = int(index.packet_offset[keyframe]), int(index.packet_size[keyframe])
    for _ in range(80):
        data = bytearray(sound.read_bytes())
        data[offset + choose.randrange(20, size)] ^= 1 << choose.randrange(8)
        damaged.write_bytes(data)
        truth = full_decode(damaged)
        if truth.error or len(truth.hashes) != len(expected):
            continue
        changed = [frame for frame in range(len(expected)) if truth.hashes[frame] != expected[frame]]
        for frame in changed[:3]:
            hashed, is_marked, _ = read_alone(FileSource(damaged), build_index(damaged), frame, CpuDecoder())
            assert hashed == truth.hashes[frame]
            seen += is_marked
    assert seen > 5


@each_recipe
def test_sound_pictures_are_decoded_once(recipe: Recipe, tmp_path: Path) -> None:
    path = tmp_path / f"sound.{recipe.suffix}"
    write_video(path, recipe)
    source, index, truth = FileSource(path), build_index(path), full_decode(path)
    for frame in (0, 1, 8, 20):
        packets = int(index.frame_packet[frame] - index.packet_start[index.frame_packet[frame]]) + 1
        assert read_alone(source, index, frame, CpuDecoder()) == (truth.hashes[frame], False, packets)
