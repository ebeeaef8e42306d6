"""H.264 with one field in each packet, as copied from transport streams: the frames are those of a full decode."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from field_pictures import write_field_pictures
from range_server import serve
from truth import full_decode

from videoloader import Video
from videoloader.indexing import build_index

CONTAINERS = ("mp4", "mov", "mkv", "flv", "nut")


def assert_same_as_full_decode(path, count):
    truth, index = full_decode(path), build_index(path)
    assert not truth.error
    assert len(index) == len(truth.hashes) == count
    video = Video(path, device="cpu")
    together = video[:]
    assert len({frame.numpy().tobytes() for frame in together}) == count
    assert all(torch.equal(video[frame], together[frame]) for frame in reversed(range(count)))
    assert not video.read([*range(count)]).corrupt.any()
    return index


@pytest.mark.parametrize("container", CONTAINERS)
@pytest.mark.parametrize(
    "kinds",
    [
        ["fields"] * 12,
        ["slices"] * 12,
        ["frame", "fields", "fields", "frame", "slices"] * 3,
        # One pair, behind all packets that are decoded to see whether each becomes a frame.
        ["frame"] * 30 + ["fields"] + ["frame"] * 9,
    ],
)
def test_two_packets_with_a_field_each_are_one_frame(tmp_path, container, kinds):
    path = write_field_pictures(tmp_path / f"fields.{container}", kinds)
    index = assert_same_as_full_decode(path, len(kinds))
    assert index.method == "decoded"
    assert len(index.packet_size) > len(index)
    assert np.allclose(np.diff(index.timestamps), 1 / 25, atol=0.002)


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_only_pairs_of_fields_in_one_packet_are_indexed_from_tables(tmp_path, container):
    for kinds in (["fields"] * 12, ["frame", "slices"] * 6, ["frame"] * 12):
        path = write_field_pictures(tmp_path / f"pairs.{container}", kinds, together=True)
        assert assert_same_as_full_decode(path, 12).method == "tables"


@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_fields_without_a_partner_are_shown_as_a_decoder_shows_them(tmp_path, container):
    kinds = ["frame"] * 20 + ["top"] * 3 + ["frame"] * 3
    path = write_field_pictures(tmp_path / f"single.{container}", kinds)
    truth, index = full_decode(path), build_index(path)
    assert len(index) == len(truth.hashes) < len(kinds)


def test_remote_files_of_fields_are_recognised_by_their_first_packets(tmp_path):
    path = write_field_pictures(tmp_path / "fields.mp4", ["frame", "fields", *["frame"] * 30])
    with serve({"fields.mp4": path.read_bytes()}) as server:
        assert len(build_index(f"{server.url}fields.mp4")) == 32
