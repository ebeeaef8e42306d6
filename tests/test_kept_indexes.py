"""An index that a program keeps serves what it was made of, and nothing that took its place."""

from __future__ import annotations

import gzip
import io
import pickle
import shutil
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from archive_writing import tar_bytes, tfrecord_bytes, write_lmdb
from changed_files import CHANGES, change
from image_files import write_frames

import videoloader as vl
from videoloader import SourceError, StaleIndexError
from videoloader.indexing import IndexStore, VideoIndex, build_index
from videoloader.indexing.store.building import build_store
from videoloader.interop.torch import ClipRequest, DecodingLoader

Sample = Callable[[str], Path]


@pytest.fixture
def clip(sample: Sample, tmp_path: Path) -> Path:
    return Path(shutil.copy(sample("h264_mp4"), tmp_path / "clip.mp4"))


def indexes_of(path: Path, tmp_path: Path) -> dict[str, VideoIndex]:
    build_store([path], tmp_path / "store.db", workers=1)
    index = build_index(path)
    return {
        "built": index,
        "pickled": pickle.loads(pickle.dumps(index)),
        "of a video": vl.Video(path, device="cpu").index,
        "of a store": IndexStore(tmp_path / "store.db").get(path),
    }


@pytest.mark.parametrize("how", CHANGES)
def test_an_index_knows_the_file_that_it_was_made_of(clip: Path, tmp_path: Path, how: str, sample: Sample) -> None:
    indexes = indexes_of(clip, tmp_path)
    for index in indexes.values():
        assert vl.Video(clip, index=index, device="cpu")[3].shape == (3, 128, 160)
    change(clip, how, sample("h264_mp4").read_bytes())
    for index in indexes.values():
        with pytest.raises(StaleIndexError, match=r"clip\.mp4: has changed since it was indexed or opened: \w+"):
            vl.Video(clip, index=index, device="cpu")


@pytest.mark.parametrize("member", ["", "::stream_index=0", "::a.mp4"])
def test_an_index_is_compared_by_any_path_of_its_file(
    clip: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, member: str
) -> None:
    if member == "::a.mp4":
        clip.write_bytes(tar_bytes({"a.mp4": clip.read_bytes()}))
        clip = clip.rename(tmp_path / "clip.tar")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to(clip)
    monkeypatch.chdir(tmp_path)
    named = (
        clip,
        clip.name,
        f"./{clip.name}",
        f"sub/../{clip.name}",
        tmp_path / "sub" / ".." / clip.name,
        f"file://{clip}",
    )
    paths = [f"{path}{member}" for path in (*named, "link" if not member.endswith("mp4") else clip)]
    indexes = [build_index(path) for path in paths]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for path in paths:
            assert vl.Video(path, index=indexes[0], device="cpu")[3].shape == (3, 128, 160)
    change(clip, "touch")
    for path in paths:
        for index in indexes:
            with pytest.raises(StaleIndexError, match="has changed"):
                vl.Video(path, index=index, device="cpu")


def test_an_index_serves_copies_and_file_objects(clip: Path, tmp_path: Path) -> None:
    expected = vl.Video(clip, device="cpu")[3]
    copy = Path(shutil.copy(clip, tmp_path / "copy.mp4"))
    for index in indexes_of(clip, tmp_path).values():
        with pytest.warns(vl.VideoLoaderWarning, match=r"the index is of .*clip\.mp4, not of .*copy\.mp4"):
            assert torch.equal(vl.Video(copy, index=index, device="cpu")[3], expected)
        assert torch.equal(vl.Video(clip.read_bytes(), index=index, device="cpu")[3], expected)
    of_object = build_index(io.BytesIO(clip.read_bytes()))
    for source in (clip, io.BytesIO(clip.read_bytes())):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert torch.equal(vl.Video(source, index=of_object, device="cpu")[3], expected)


def test_an_index_serves_any_source_that_has_not_changed(sample: Sample, tmp_path: Path) -> None:
    data = sample("mjpeg_mkv").read_bytes()
    (tmp_path / "a.tar").write_bytes(tar_bytes({"a.mkv": data}))
    (tmp_path / "a.tfrecord.gz").write_bytes(gzip.compress(tfrecord_bytes([data])))
    with zipfile.ZipFile(tmp_path / "a.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("a.mkv", data)
    write_lmdb(tmp_path / "a.lmdb", {"a": data})
    write_frames(tmp_path / "images", [f"{number}.png" for number in range(3)])
    (tmp_path / "a.mkv").write_bytes(data)
    members = ("a.tar::a.mkv", "a.tfrecord.gz::0", "a.zip::a.mkv", "a.lmdb::a", "images", "a.mkv::stream_index=0")
    for member in members:
        path = str(tmp_path / member)
        build_store([path], tmp_path / "store.db", workers=1)
        for index in (build_index(path), IndexStore(tmp_path / "store.db").get(path)):
            assert index.state is not None
            video = vl.Video(path, index=pickle.loads(pickle.dumps(index)), device="cpu")
            assert torch.equal(video[1], vl.Video(path, index=video.index, device="cpu").read([1]).frames[0])
            assert len([*video.stream()]) == len(video)
        (clip,) = DecodingLoader([ClipRequest(path, [1])], device="cpu", layout="TCHW")
        assert torch.equal(clip[0], vl.Video(path, device="cpu")[1])


def test_a_store_that_does_not_verify_gives_indexes_that_do_not(clip: Path, tmp_path: Path) -> None:
    build_store([clip], tmp_path / "store.db", workers=1)
    change(clip, "touch")
    index = IndexStore(tmp_path / "store.db", verify=False).get(clip)
    assert vl.Video(clip, index=index, device="cpu")[3].shape == (3, 128, 160)


def test_an_index_of_a_stream_that_is_sound_now(tmp_path: Path) -> None:
    """Of the same size and times, as on a file system that keeps neither inodes nor what changed."""
    contents = [mkv_of_prores(sound_first) for sound_first in (False, True)]
    size = max(map(len, contents))
    path = tmp_path / "a.mkv"
    path.write_bytes(contents[0].ljust(size, b"\0"))
    index = replace(build_index(path), state=None)
    assert len(vl.Video(path, index=index, device="cpu").read([2]).frames) == 1
    path.write_bytes(contents[1].ljust(size, b"\0"))
    with pytest.raises(SourceError, match="has no video in stream 0, which its index names"):
        vl.Video(path, index=index, device="cpu")[2]
    beyond = replace(index, stream=replace(index.stream, stream_number=7))
    with pytest.raises(SourceError, match="has no video in stream 7, which its index names"):
        vl.Video(path, index=beyond, device="cpu")[2]


def mkv_of_prores(sound_first: bool) -> bytes:
    """Packets that libavformat must demux, behind a stream of sound or alone."""
    out = io.BytesIO()
    with av.open(out, "w", format="matroska") as container:
        sound = container.add_stream("pcm_s16le", rate=8000) if sound_first else None
        video = container.add_stream("prores_ks", rate=25)
        video.width, video.height, video.pix_fmt = 64, 48, "yuv422p10le"
        for number in range(5):
            container.mux(video.encode(av.VideoFrame.from_ndarray(np.full((48, 64, 3), number, np.uint8), "rgb24")))
            if sound is not None:
                heard = av.AudioFrame.from_ndarray(np.zeros((1, 320), np.int16), format="s16", layout="mono")
                heard.sample_rate, heard.pts = 8000, number * 320
                container.mux(sound.encode(heard))
        container.mux(video.encode())
    return out.getvalue()
