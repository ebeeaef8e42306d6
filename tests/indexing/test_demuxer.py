"""Whatever a file holds, and whatever its name looks like: libavformat opens nothing but that file."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import av
import pytest
import torch
from archive_writing import tar_bytes, zip_bytes
from child_environment import SAFE_PATH, child_environment
from sample_videos import Recipe, write_video

from videoloader import IndexingError, SourceError, StaleIndexError, Video, VideoLoaderError, build_index
from videoloader.indexing import FileSource, MemorySource, demuxer
from videoloader.indexing.demuxer import _whole_formats, open_demuxer

HLS = "#EXTM3U\n#EXT-X-VERSION:3\n#EXT-X-TARGETDURATION:9\n#EXT-X-MEDIA-SEQUENCE:0\n#EXTINF:9.0,\n"
# Transport packets without their padding: a program of an MPEG-2 video (2), a packet of that video lost, and its
# program of H.264 (1b).
BECOMES_H264 = [
    "474000100000b00d0001c100000001f0002ab104b2", "475000100002b0120001c10000e100f00002e100f0009e8b23d1",
    "474100100000" "01e0", "47010012", "474100100000" "01e0", "475000110002b0120001c10000e100f0001be100f00015bd4d56",
]  # fmt: skip
# A line of the file each, and the kind of list that the error names. {bait} is the absolute path of a good video.
LISTS = {
    "ffconcat": ("ffconcat version 1.0\nfile bait.ts\n", "ffconcat"),
    "ffconcat with an absolute path": ("ffconcat version 1.0\nfile {bait}\n", "ffconcat"),
    "ffconcat that is unsafe": ("ffconcat version 1.0\nfile 'subfile,,start,0,end,0,,:bait.ts'\n", "ffconcat"),
    "HLS": (HLS + "bait.ts\n#EXT-X-ENDLIST\n", "HLS"),
    "HLS with an absolute path": (HLS + "{bait}\n#EXT-X-ENDLIST\n", "HLS"),
    "HLS that goes on": (HLS + "bait.ts\n", "HLS"),
    "HLS of a server": (HLS + "http://127.0.0.1:9/bait.ts\n", "HLS"),
    "HLS of playlists": ("#EXTM3U\n#EXT-X-STREAM-INF:BANDWIDTH=1\nother.m3u8\n", "HLS"),
    "M3U": ("#EXTM3U\nbait.ts\n", "HLS"),
    "SDP": ("v=0\r\no=- 0 0 IN IP4 0.0.0.0\r\ns=x\r\nc=IN IP4 0.0.0.0\r\nt=0 0\r\nm=video 5005 RTP/AVP 96\r\n"
            "a=rtpmap:96 H264/90000\r\n", "SDP"),
    "DASH": ('<?xml version="1.0"?>\n<MPD xmlns="urn:mpeg:dash:schema:mpd:2011" type="static"><Period>'
             "<BaseURL>bait.ts</BaseURL></Period></MPD>\n", "DASH"),
}  # fmt: skip
# Opens each file that it is told of by each door, and tells what came of it. Reads of libavformat's own would not be
# heard of by Python, so the file system is asked who opened the bait.
PROGRAM = """
import ctypes, io, json, os, signal, sys
from pathlib import Path
import videoloader as vl

signal.alarm(100)
libc = ctypes.CDLL(None)
watch = libc.inotify_init1(os.O_NONBLOCK)
assert libc.inotify_add_watch(watch, b"bait.ts", 0x20) >= 0  # IN_OPEN

def opened():
    try:
        return len(os.read(watch, 4096)) > 0
    except BlockingIOError:
        return False

Path("bait.ts").read_bytes()
assert opened()
events = []
sys.addaudithook(lambda event, args: events.append(event) if event.startswith("socket.") else None)
doors = {
    "path": lambda path: path,
    "bytes": lambda path: Path(path).read_bytes(),
    "file object": lambda path: open(path, "rb"),
    "other file object": lambda path: io.BytesIO(Path(path).read_bytes()),
    "tar member": lambda path: "all.tar::" + path,
    "zip member": lambda path: "all.zip::" + path,
}
results = {}
for path in sys.argv[1:]:
    for door, make in doors.items():
        try:
            result = f"{len(vl.Video(make(path), device='cpu'))} frames"
        except vl.VideoLoaderError as error:
            result = f"{type(error).__name__}: {error}"
        results.setdefault(path, {})[door] = [result, opened(), list(events)]
print(json.dumps(results))
"""


@pytest.fixture(scope="module")
def bait(sample: Callable[[str], Path]) -> Path:
    return sample("h264_ts")


@pytest.fixture(scope="module")
def attempts(bait: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, tuple[str, bool, list[str]]]]:
    """By the kind of list and the door: what came of opening it, whether the bait was opened, and use of sockets."""
    folder = tmp_path_factory.mktemp("lists")
    (folder / "bait.ts").write_bytes(bait.read_bytes())
    files = {
        f"{name}.{ending}": text.format(bait=folder / "bait.ts").encode()
        for name, (text, _) in LISTS.items()
        for ending in ("mp4", "m3u8")
    }
    for name, data in files.items():
        (folder / name).write_bytes(data)
    (folder / "all.tar").write_bytes(tar_bytes(files))
    (folder / "all.zip").write_bytes(zip_bytes(files))
    done = subprocess.run(
        [sys.executable, *SAFE_PATH, "-c", PROGRAM, *files],
        cwd=folder, env=child_environment(), capture_output=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr.decode()
    results: dict[str, dict[str, tuple[str, bool, list[str]]]] = json.loads(done.stdout)
    return results


@pytest.fixture(scope="module")
def flash(sample: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A video that libavformat indexes."""
    path = tmp_path_factory.mktemp("flash") / "video.flv"
    with av.open(str(sample("h264_mp4"))) as source, av.open(str(path), "w") as target:
        stream = target.add_stream_from_template(source.streams.video[0])
        for packet in source.demux(source.streams.video[0]):
            if packet.dts is not None:
                packet.stream = stream
                target.mux(packet)
    return path


@pytest.mark.skipif(sys.platform != "linux", reason="asks Linux who opens a file")
@pytest.mark.parametrize("ending", ["mp4", "m3u8"])
@pytest.mark.parametrize("name", LISTS)
def test_a_list_of_other_files_is_refused_by_every_door_and_opens_nothing(attempts, name, ending):
    for door, (result, opened, sockets) in attempts[f"{name}.{ending}"].items():
        assert result.startswith("UnsupportedError: "), (door, result)
        assert LISTS[name][1] in result
        assert "remux it to one file" in result
        assert not opened, door
        assert not sockets, door


@pytest.mark.parametrize(
    "name", ["clip%03d.mpg", "*.dpx", "?.png.m2v", "concat:bait.ts|bait.ts", "subfile,,start,0,end,9,,:bait.ts",
             "x.sdp", "pipe:0", "udp:@0.0.0.0:5005", "a.m3u8", "lavfi"],
)  # fmt: skip
def test_a_name_is_a_name_whatever_it_looks_like(flash, bait, tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("bait.ts").write_bytes(bait.read_bytes())
    Path("clip001.mpg").write_bytes(b"bait")
    Path(name).write_bytes(flash.read_bytes())
    expected = Video(flash, device="cpu")
    for video in (Video(name, device="cpu"), Video(MemorySource(Path(name).read_bytes(), name), device="cpu")):
        assert video.index.container == expected.index.container
        assert torch.equal(video[:3], expected[:3])


@pytest.mark.parametrize("name", ["frame%03d.dpx", "frame%03d.jp2", "frame*.dpx", "frame001.tga"])
def test_a_pattern_in_a_name_finds_no_other_files(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with av.open("frame001.dpx", "w", format="image2") as container:
        stream = container.add_stream("dpx", rate=1)
        stream.width = stream.height = 64
        stream.pix_fmt = "rgb24"
        container.mux(stream.encode(av.VideoFrame(64, 64, "rgb24")))
        container.mux(stream.encode(None))
    Path("frame001.jp2").write_bytes(Path("frame001.dpx").read_bytes())
    Path(name).write_bytes(b"no picture" * 100)
    with pytest.raises(VideoLoaderError, match="frame"):
        Video(MemorySource(b"no picture" * 100, name), device="cpu")
    with pytest.raises(VideoLoaderError, match="frame"):
        Video(name, device="cpu")


def test_formats_that_need_other_files_are_never_taken():
    formats = set(_whole_formats(with_nut=True).split(","))
    assert formats - set(_whole_formats(with_nut=False).split(",")) == {"nut"}
    assert {"mov", "matroska", "flv", "mpegts", "mpeg", "h264", "hevc", "asf", "ogg", "ivf", "mxf", "avi"} <= formats
    assert formats.isdisjoint({"hls", "concat", "sdp", "rtsp", "rtp", "sap", "image2", "dash", "imf", "lavfi", "v4l2"})


def test_errors_of_a_source_come_through():
    class Broken(MemorySource):
        def read(self, offset: int, size: int) -> bytes:
            raise SourceError("is broken", self.name)

    with pytest.raises(SourceError, match=r"x\.flv: is broken"), open_demuxer(Broken(b"FLV", "x.flv")):
        pass


def test_a_nut_packet_that_libavformat_would_skip_backwards_is_refused(tmp_path):
    path = write_video(tmp_path / "a.nut", Recipe("nut", "mpeg4", frames=12))
    data, start = path.read_bytes(), b"NMz\x56\x1f\x5f\x04\xad"
    assert len(build_index(data)) == 12
    at = data.index(start) + len(start)
    assert data[at] < 0x80
    larger = data[:at] + b"\x8f\xff\xff\xff\x7f" + data[at + 1 :]
    with pytest.raises(IndexingError, match="a NUT packet at byte 25 claims 4294967295 bytes"):
        build_index(larger)
    with pytest.raises(IndexingError):  # libavformat looks for its start further on than that was checked
        build_index(bytes(1 << 17) + larger)


def test_a_nut_file_is_searched_once_until_it_changes(tmp_path, monkeypatch):
    path = write_video(tmp_path / "a.nut", Recipe("nut", "mpeg4", frames=12))
    searched: list[str] = []
    monkeypatch.setitem(demuxer._CHECKS, demuxer._NUT, lambda source: searched.append(source.name))
    source = FileSource(path)
    for _ in range(3):
        with open_demuxer(source):
            pass
    assert len(searched) == 1
    path.write_bytes(path.read_bytes() + bytes(8))
    with pytest.raises(StaleIndexError), open_demuxer(source):
        pass


def test_a_stream_that_becomes_h264_ends_no_process() -> None:
    data = b"".join(bytes.fromhex(packet).ljust(188, b"\xff") for packet in BECOMES_H264)
    program = "import sys; from videoloader import build_index; build_index(sys.stdin.buffer.read())"
    done = subprocess.run([sys.executable, "-c", program], input=data, capture_output=True, env=child_environment())
    assert done.returncode == 1
    assert b"UnsupportedError: <bytes>: a stream of it becomes H.264 on the way" in done.stderr


def test_libavformat_s_moves_in_a_file_run_no_code_of_python():
    """Python would run the handler of a signal there, and PyAV lose what it raises, such as ``KeyboardInterrupt``."""
    file, called = demuxer._Input(MemorySource(b"0123456789")), []
    sys.setprofile(lambda frame, event, _: called.append(frame.f_code.co_name) if event == "call" else None)
    try:
        file.seek(4, 0)
    finally:
        sys.setprofile(None)
    assert not called
    assert file.read(2) == b"45"
    file.seek(1, 1)
    assert file.read(1) == b"7"
    file.seek(-2, 2)
    assert file.tell() == 8
    file.seek(0, 0x10000)  # how large the file is
    assert (file.tell(), file.read(5)) == (10, b"89")
    with file.raising_its_error():
        pass
