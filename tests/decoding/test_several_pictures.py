"""A packet that holds two shown pictures is an error, or its frames are corrupt: never a wrong frame in silence."""

from __future__ import annotations

import pytest
import torch
from joined_packets import write_joined
from truth import full_decode

from videoloader import UnsupportedError, Video
from videoloader.decoding.frame_threads import NeedsOneThreadError, decode_in_threads
from videoloader.indexing import FileSource, build_index
from videoloader.packets.decode_plan import plan_frames
from videoloader.packets.read_packets import read_packets

CASES = [(encoder, container) for encoder in ("libvpx-vp9", "libsvtav1") for container in ("mp4", "mkv", "webm", "ivf")]


@pytest.mark.parametrize(("encoder", "container"), CASES)
def test_two_shown_pictures_in_a_packet_are_an_error(tmp_path, encoder, container):
    path = write_joined(tmp_path, encoder, container)
    for frames in ([0], [5], list(range(11)), [10, 3]):
        with pytest.raises(UnsupportedError, match=r"joined\.\w+: packet \d+ decodes to several pictures"):
            Video(path, device="cpu").read(frames)


@pytest.mark.parametrize("threads", [1, 2, 8])
@pytest.mark.parametrize("encoder", ["libvpx-vp9", "libsvtav1"])
def test_several_threads_leave_them_to_one(tmp_path, encoder, threads):
    path = write_joined(tmp_path, encoder, "mp4", first=4, last=6)
    index = build_index(path)
    (run,) = plan_frames(index, list(range(len(index)))).runs
    with pytest.raises(NeedsOneThreadError):
        list(decode_in_threads(index, read_packets(FileSource(path), index, run), threads))


@pytest.mark.parametrize("encoder", ["libvpx-vp9", "libsvtav1"])
def test_one_such_packet_is_found_when_it_is_decoded(tmp_path, encoder):
    path = write_joined(tmp_path, encoder, "mp4", first=10, last=12)
    video = Video(path, device="cpu")
    assert build_index(path).method == "tables"
    assert video.read([9]).frames.any()
    with pytest.raises(UnsupportedError, match="packet 10 decodes to several pictures"):
        video.read([12])


@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("container", ["mp4", "mkv"])
def test_pictures_of_which_only_some_are_referred_to_are_corrupt(tmp_path, container, first):
    path = write_joined(tmp_path, "libx264", container, first=first)
    truth = full_decode(path)
    video = Video(path, device="cpu")
    assert len(video) == len(truth.hashes)
    clip = video.read(list(range(len(video))))
    assert clip.corrupt.sum() >= 6
    for frame in reversed(range(len(video))):
        alone = video.read([frame])
        assert alone.corrupt[0] == clip.corrupt[frame]
        assert torch.equal(alone.frames[0], clip.frames[frame])
