"""Files with several video streams: the best one, or the one that is asked for."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
import pytest
import torch
from av.packet import Packet
from av.stream import Disposition
from av.video.stream import VideoStream

import videoloader as vl
from videoloader.indexing import FolderSource, open_source
from videoloader.indexing.sources.opening import local_places
from videoloader.indexing.sources.stream import StreamSource

# Encoder, (width, height) and frames of each stream by its number; 1 is sound.
VIDEOS = {0: ("libx264", (160, 128), 60), 2: ("libx264", (96, 64), 45), 3: ("mpeg2video", (64, 48), 30)}
KINDS = ["mp4", "mov", "mkv", "ts", "avi", "mpg"]
BYTE_RANGES = ["mp4", "mov", "mkv", "avi"]
LISTED = r"those are 0 \(h264 160×128\), 2 \(h264 96×64\), 3 \(mpeg2video 64×48\)"


def pictures(size: tuple[int, int], frames: int) -> Iterator[av.VideoFrame]:
    y, x = np.ogrid[: size[1], : size[0]]
    for number in range(frames):
        waves = [np.sin((x + 3 * number + shift) / 9) + np.sin((y - 2 * number) / 7) for shift in (0, 5, size[0])]
        frame = av.VideoFrame.from_ndarray((128 + 55 * np.stack(waves, 2)).astype(np.uint8), format="rgb24")
        frame.pts, frame.time_base = number, Fraction(1, 25)
        yield frame


def write_alone(folder: Path) -> dict[int, Path]:
    """A file of each stream; encoded once, since x264 need not give the same bytes twice."""
    alone = {number: folder / f"{number}.ts" for number in range(4)}
    for number, (encoder, size, frames) in VIDEOS.items():
        with av.open(str(alone[number]), "w") as container:
            stream = container.add_stream(encoder, rate=25, options={"g": "12", "bf": "2"})
            assert isinstance(stream, VideoStream)
            (stream.width, stream.height), stream.pix_fmt = size, "yuv420p"
            for frame in (*pictures(size, frames), None):
                container.mux(stream.encode(frame))
    with av.open(str(alone[1]), "w") as container:
        sound = container.add_stream("mp2", rate=48000, layout="stereo")
        silence = av.AudioFrame.from_ndarray(np.zeros((1, 2 * 1152), np.int16), layout="stereo")
        for number in range(80):
            silence.rate, silence.pts, silence.time_base = 48000, 1152 * number, Fraction(1, 48000)
            container.mux(sound.encode(silence))
    return alone


def write(path: Path, alone: dict[int, Path], *, cover: bool = False) -> Path:
    """All streams in one file, packets by time."""
    with av.open(str(path), "w") as container:
        packets: list[tuple[Fraction, Packet]] = []
        for file in alone.values():
            with av.open(str(file)) as read:
                stream = container.add_stream_from_template(read.streams[0])
                for packet in read.demux():
                    if packet.size:
                        packet.stream = stream
                        packets.append((packet.dts * packet.time_base, packet))
        if cover:
            jpeg = av.CodecContext.create("mjpeg", "w")
            jpeg.width, jpeg.height, jpeg.pix_fmt, jpeg.time_base = 32, 32, "yuvj420p", Fraction(1, 25)
            (picture,) = [*jpeg.encode(next(pictures((32, 32), 1))), *jpeg.encode()]
            if path.suffix == ".mkv":
                container.add_attachment("cover.jpg", "image/jpeg", bytes(picture))
            else:
                art = container.add_stream("mjpeg", rate=25)
                art.width, art.height, art.pix_fmt = 32, 32, "yuvj420p"
                art.disposition = Disposition.attached_pic
                picture.stream = art
                packets.append((Fraction(-1), picture))
        for _, packet in sorted(packets, key=lambda packet: packet[0]):
            container.mux(packet)
    return path


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    return write_alone(tmp_path_factory.mktemp("alone"))


@pytest.fixture(scope="module")
def files(alone: dict[int, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("streams")
    return {kind: write(folder / f"several.{kind}", alone) for kind in KINDS}


@pytest.fixture(scope="module")
def frames(alone: dict[int, Path]) -> dict[int, torch.Tensor]:
    return {number: vl.Video(alone[number], device="cpu")[:] for number in VIDEOS}


def test_a_name_says_which_stream_is_meant(files: dict[str, Path]) -> None:
    source = open_source(f"{files['mkv']}::stream_index=2")
    assert isinstance(source, StreamSource)
    assert source.name == f"{files['mkv']}::stream_index=2"
    assert pickle.loads(pickle.dumps(source)).read(0, 4) == files["mkv"].read_bytes()[:4]


@pytest.mark.parametrize("more", [1, 1000, 20_000])
def test_a_stream_has_no_streams(files: dict[str, Path], more: int) -> None:
    name = f"{files['mkv']}::stream_index=2" + "::stream_index=0" * more
    with pytest.raises(vl.UnsupportedError, match="is not an archive"):
        open_source(name)
    assert local_places(name)  # data sets that limit their sources ask for these


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", VIDEOS)
def test_frames_and_times_are_those_that_libav_gives_of_the_stream(
    kind: str, number: int, files: dict[str, Path], frames: dict[int, torch.Tensor]
) -> None:
    with av.open(str(files[kind])) as container:
        stream = container.streams[number]
        shown = [(frame.pts, frame.width) for frame in container.decode(stream)]
    video = vl.Video(files[kind], stream_index=number, device="cpu")
    assert video.index.stream.stream_number == number
    if kind not in ("avi", "mpg"):  # which tell too few times
        assert video.index.frame_pts.tolist() == [pts for pts, _ in shown]
    assert {video.width} == {width for _, width in shown}
    assert torch.equal(video[:], frames[number])
    assert torch.equal(video[[-1, 3]], frames[number][[-1, 3]])
    assert video.index.byte_ranges is (kind in BYTE_RANGES)
    assert vl.verify(video.index.source).ok


@pytest.mark.parametrize("kind", KINDS)
def test_without_a_number_it_is_libavs_best(kind: str, files: dict[str, Path]) -> None:
    with av.open(str(files[kind])) as container:
        best = container.streams.best("video").index
    index = vl.build_index(files[kind])
    assert (index.source, index.stream.stream_number) == (str(files[kind]), best)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("number", [1, 4, 10**6])
def test_what_is_no_video_stream_is_an_error_that_lists_those_there_are(
    kind: str, number: int, files: dict[str, Path]
) -> None:
    told = f"{kind}: stream_index={number} is not a video stream of the file; {LISTED}$"
    for name, arguments in ((files[kind], {"stream_index": number}), (f"{files[kind]}::stream_index={number}", {})):
        with pytest.raises(vl.ConfigurationError, match=told):
            vl.Video(name, **arguments)


@pytest.mark.parametrize("kind", ["mp4", "mkv"])
def test_attached_pictures_are_no_videos(kind: str, alone: dict[int, Path], tmp_path: Path) -> None:
    path = write(tmp_path / f"cover.{kind}", alone, cover=True)
    with av.open(str(path)) as container:
        (cover,) = [each.index for each in container.streams.video if each.disposition & Disposition.attached_pic]
    with pytest.raises(
        vl.ConfigurationError, match=f"stream_index={cover} is not a video stream of the file; {LISTED}$"
    ):
        vl.build_index(path, stream_index=cover)
    assert len(vl.build_index(path, stream_index=2)) == 45


def test_bytes_and_open_files_hold_several_streams_too(files: dict[str, Path], frames: dict[int, torch.Tensor]) -> None:
    assert torch.equal(vl.Video(files["ts"].read_bytes(), stream_index=2, device="cpu")[7], frames[2][7])
    with open(files["mp4"], "rb") as file:
        assert torch.equal(vl.Video(file, stream_index=3, device="cpu")[7], frames[3][7])


@pytest.mark.parametrize("kind", ["mp4", "mpg"])
def test_an_index_is_of_one_stream(kind: str, files: dict[str, Path], frames: dict[int, torch.Tensor]) -> None:
    index = vl.build_index(files[kind], stream_index=3)
    assert torch.equal(vl.Video(files[kind], index=index, device="cpu")[7], frames[3][7])
    with pytest.raises(vl.ConfigurationError, match="the index is of another stream than stream_index=2"):
        vl.Video(files[kind], index=index, stream_index=2)


@pytest.mark.parametrize("number", [-1, 1.0, "2", True])
def test_a_stream_is_named_by_its_number(number: object, files: dict[str, Path]) -> None:
    with pytest.raises(vl.ConfigurationError, match="stream_index must be an integer of at least 0"):
        vl.build_index(files["mp4"], stream_index=number)  # type: ignore[arg-type]


def test_one_source_has_one_stream(files: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(vl.ConfigurationError, match="the path names a different stream than stream_index=2"):
        vl.Video(f"{files['mp4']}::stream_index=3", stream_index=2)
    assert vl.Video(f"{files['mp4']}::stream_index=3", stream_index=3, device="cpu").width == 64
    (tmp_path / "1.png").write_bytes(b"1")
    with pytest.raises(vl.ConfigurationError, match="images have no streams to choose from"):
        vl.build_index(FolderSource(tmp_path), stream_index=0)


def test_data_sets_and_stores_tell_the_streams_of_a_file_apart(
    files: dict[str, Path], frames: dict[int, torch.Tensor], tmp_path: Path
) -> None:
    paths = [f"{files['mkv']}::stream_index={number}" for number in VIDEOS]
    data = vl.VideoDataset.from_paths([*paths, files["mkv"]])
    report = data.build_store(tmp_path / "store.db")
    assert (report.indexed, report.unreadable) == (4, [])
    store = vl.IndexStore(tmp_path / "store.db")
    assert [len(store.get(path)) for path in data.paths] == [60, 45, 30, 60]
    for index in (None, tmp_path / "store.db"):
        loader = vl.VideoLoader(
            data, [0, 7, 29], batch_size=1, device="cpu", collate="list", index=index, num_workers=1
        )
        for batch, number in zip(loader, (*VIDEOS, 0), strict=True):
            assert torch.equal(batch.frames[0], frames[number][[0, 7, 29]])
    report = data.build_store(tmp_path / "store.db")
    assert report.indexed == 0
