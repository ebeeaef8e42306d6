"""What fuzzers call: for each reader of foreign bytes, small files to begin with and one use of any bytes.

A use ends with an answer or with an error of the library. What it checks besides is in its docstring: that is where a
silent difference would show. LMDB's databases are not among them: its library maps the file and believes its pages, so
docs/security.md says that they must be trusted.
"""

from __future__ import annotations

import dataclasses
import io
import itertools
import os
import resource
import socketserver
import struct
import threading
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import cache, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np
from any_index import assert_same_index
from archive_writing import example, recordio_bytes, tar_bytes, tfrecord_bytes, zip_bytes
from image_files import encoded, picture
from sample_videos import RECIPES, Recipe, write_video
from soak.fuzz_indexing import check_index

from videoloader import Video, VideoDataset, build_index, build_store, set_limits
from videoloader.decoding import picture_changes
from videoloader.errors import VideoLoaderError
from videoloader.indexing import FileSource, IndexStore, RemoteSource, open_source
from videoloader.indexing.bitstream import (
    damage_reach,
    display_order,
    disposable,
    jpeg,
    lost_data,
    nal,
    parameter_sets,
    picture_kinds,
    random_access,
    references,
    vpx,
    x264_version,
)
from videoloader.indexing.bitstream import picture as picture_formats

# Of one case: seconds of processor time, megabytes beyond what the process had. Code that counts its branches is slow.
SECONDS, MEGABYTES = 5.0, 300
LONGEST = 1 << 16  # bytes of a case
_FEW_FRAMES, _SMALL = 14, (64, 48)
_MOST_PIXELS = 1 << 20  # of pictures that are decoded: a case is to take milliseconds
# Codecs whose damage always tells; docs/architecture/damage.md says of which others it does not.
_TELL_DAMAGE = ("h264", "mjpeg")
_numbers = itertools.count()


class Target(NamedTuple):
    """A reader of foreign bytes.

    Attributes:
        seeds: files that it reads, given a folder to write in.
        use: called with any bytes and an empty folder.
    """

    seeds: Callable[[Path], Iterable[bytes]]
    use: Callable[[bytes, Path], object]


def run_case(target: Target, data: bytes, folder: Path) -> str:
    """``"answer"``, or the name of the library's error; any other exception, or AssertionError, is a finding."""
    before, begin = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    result = "answer"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target.use(data, folder)
    except VideoLoaderError as error:
        str(error).encode()  # can be printed
        result = type(error).__name__
    seconds = time.process_time() - begin
    more = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    assert seconds < SECONDS, f"took {seconds:.1f} s"
    assert more < MEGABYTES, f"took {more:.0f} MB"
    return result


def _written(folder: Path, data: bytes, ending: str = "") -> Path:
    """A file of another name in each case, since readers keep what they know of a file."""
    for old in folder.iterdir():
        old.unlink()
    path = folder / f"{next(_numbers)}{ending}"
    path.write_bytes(data)
    return path


@cache
def _video(name: str, folder: Path) -> bytes:
    recipe = dataclasses.replace(RECIPES[name], frames=_FEW_FRAMES, size=_SMALL)
    if recipe.encoder == "libsvtav1":  # it takes no smaller pictures
        recipe = dataclasses.replace(recipe, size=(64, 64))
    return write_video(folder / f"{name}.{recipe.suffix}", recipe).read_bytes()


def _videos(*suffixes: str) -> Callable[[Path], Iterable[bytes]]:
    return lambda folder: [_video(name, folder) for name, recipe in RECIPES.items() if recipe.suffix in suffixes]


def _other_videos(folder: Path) -> Iterator[bytes]:
    """Of containers that libavformat reads."""
    for suffix, encoder in [
        ("flv", "flv"), ("mpg", "mpeg2video"), ("ogv", "libtheora"), ("asf", "msmpeg4v3"), ("h264", "libx264"),
        ("m4v", "mpeg4"), ("ivf", "libvpx"), ("nut", "mpeg4"), ("y4m", "wrapped_avframe"), ("mxf", "mpeg2video"),
    ]:  # fmt: skip
        try:
            recipe = Recipe(suffix, encoder, frames=_FEW_FRAMES, size=_SMALL)
            yield write_video(folder / f"other.{suffix}", recipe).read_bytes()
        except (ValueError, OSError):  # FFmpeg was built without this encoder
            continue


def _index(data: bytes, folder: Path) -> None:
    """The index is sound, and the same from a file and out of an archive."""
    index = build_index(data)
    path = _written(folder, data)
    check_index(index, FileSource(path))
    archive = _written(folder, tar_bytes({"a": data}), ".tar")
    again = build_index(f"{archive}::a")
    moved = open_source(f"{archive}::a").read(0, len(data)) == data
    assert moved, "an archive gives other bytes"
    assert_same_index(*(dataclasses.replace(each, source="") for each in (index, again)))


def _watch(data: bytes, folder: Path) -> None:
    """Frames are the same whether they are read alone, together or by another decoder, unless they are marked."""
    with Video(data, device="cpu") as video, Video(data, device="cpu") as other:
        if video.width * video.height > _MOST_PIXELS:
            return
        last = len(video) - 1
        some = sorted({0, last // 2, last})
        clip, again = video.read(some), other.read(some[::-1])
        assert clip.frames.shape == (len(some), *video.shape[1:])
        assert clip.frame_numbers.tolist() == some
        for place, number in enumerate(some):
            whole = not (clip.corrupt[place] or again.corrupt[len(some) - 1 - place])
            if whole and video.codec in _TELL_DAMAGE:
                same = (clip.frames[place] == again.frames[len(some) - 1 - place]).all()
                assert same, f"frame {number} differs from read to read"


def _images(folder: Path) -> list[bytes]:
    return [encoded(picture(), kind) for kind in ("PNG", "JPEG", "BMP", "TIFF", "WEBP", "GIF", "PPM")]


# Codec by codec, packets with the record before them: two bytes of size, then the bytes.
_CODECS = ("h264", "hevc", "av1", "vp9", "vp8", "mpeg2video", "mpeg4", "mjpeg", "ffv1", "vvc", "mpeg1video", "h263")
_WITH_KINDS = ("h264", "mpeg1video", "mpeg2video", "mpeg4")


def _packets(folder: Path) -> Iterator[bytes]:
    for name in RECIPES:
        data = _video(name, folder)
        index = build_index(data)
        if not index.byte_ranges or index.stream.codec not in _CODECS:
            continue
        sizes = np.minimum(index.packet_size[:6], 400)
        parts = [index.stream.codec_configs[0]]
        parts += [data[at : at + size] for at, size in zip(index.packet_offset.tolist(), sizes.tolist(), strict=False)]
        counted = b"".join(struct.pack(">H", len(part)) + part for part in parts)
        yield bytes([_CODECS.index(index.stream.codec)]) + counted


def _bitstream(data: bytes, folder: Path) -> None:
    """Headers tell something, or that they cannot: no error is heard of outside of the readers, in any order."""
    if not data:
        return
    codec, at, parts = _CODECS[data[0] % len(_CODECS)], 1, []
    while at + 2 <= len(data):
        size = int.from_bytes(data[at : at + 2], "big")
        parts.append(data[at + 2 : at + 2 + size])
        at += 2 + size
    config, *packets = parts or [b""]
    places = display_order.Places(codec, config)
    reach = damage_reach.DamageReach(codec, config)
    closure = references.ReferenceClosure(codec, config)
    for number, packet in enumerate(packets):
        assert random_access.is_random_access(codec, config, packet) in (True, False, None)
        disposable.is_disposable(codec, config, packet)
        places.add(packet, goes_on=True)
        reach.add(number, packet)
        assert number in reach.of(number)
    wanted = [number == len(packets) - 1 for number in range(len(packets))]
    kept = closure.needed(packets, wanted, more_follow=False)
    assert all(keep for keep, want in zip(kept, wanted, strict=True) if want)
    for packet in packets:
        if codec in ("h264", "hevc"):
            parameter_sets.sets_in_packet(codec, 4, packet)
            picture_formats.parameter_set_format(codec, packet)
        if codec in ("vp8", "vp9"):
            vpx.keyframe_format(codec, packet)
        if codec == "h264":
            x264_version.demands_version(config, packet)
            x264_version.x264_version(packet, config)
        if check := lost_data.lost_data_check(codec, config):
            assert check(packet) in (True, False)
        if codec in _WITH_KINDS:
            picture_kinds.is_b_picture(codec, config, packet)
        if codec in ("vp8", "vp9", "av1", "mpeg1video", "mpeg2video", "mpeg4"):
            picture_changes.contradiction(codec, packet, picture_formats.PictureFormat(64, 48, "420", 8, 1, None))
        if codec == "mjpeg":
            jpeg.tables_brought(packet)
            jpeg.read_jpeg_frame(packet)
            jpeg.segments_before_scan(packet)
        assert sum(len(payload) for _, payload in nal.iterate_messages(packet)) <= len(packet)


_MEMBER = b"what a member holds " * 20


def _archives(make: Callable[[dict[str, bytes]], bytes]) -> Callable[[Path], list[bytes]]:
    names = {"a": _MEMBER, "b/c.mp4": _MEMBER[:50], "ü" * 60: b""}
    return lambda folder: [make(names), make({"a": _MEMBER})]


def _read_members(ending: str, members: tuple[str, ...], data: bytes, folder: Path) -> None:
    """A member has as many bytes as it says, the same in one piece and in several."""
    path = _written(folder, data, ending)
    errors = []
    for member in members:
        try:
            source = open_source(f"{path}::{member}")
            size = min(source.size, 4096)
            whole = source.read(0, size)
            assert len(whole) == size
            assert b"".join(source.read_ranges([0, size // 2], [size // 2, size - size // 2])) == whole
        except VideoLoaderError as error:
            errors.append(error)
    if len(errors) == len(members):
        raise errors[0]


class _Replies(socketserver.ThreadingTCPServer):
    """Gives each request the same bytes, and hangs up."""

    daemon_threads = True
    reply = b""

    def handle_error(self, *_: object) -> None:
        pass  # clients that hang up are what is looked for


class _Reply(socketserver.StreamRequestHandler):
    timeout = 2

    def handle(self) -> None:
        while self.rfile.readline().strip():
            pass
        self.wfile.write(self.server.reply)  # type: ignore[attr-defined]


@cache
def _server() -> _Replies:
    server = _Replies(("127.0.0.1", 0), _Reply)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    return server


def _replies(folder: Path) -> list[bytes]:
    body = _MEMBER
    ranged = b'HTTP/1.1 206 Partial Content\r\nContent-Range: bytes 0-%d/%d\r\nContent-Length: %d\r\nETag: "1"\r\n\r\n'
    return [
        ranged % (len(body) - 1, len(body), len(body)) + body,
        ranged % (0, len(body), 1) + body[:1],
        b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\nLast-Modified: Mon, 01 Jan 2024 00:00:00 GMT\r\n\r\n" % len(body)
        + body,
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f\x8b\x08\0",
        b"HTTP/1.1 416 No\r\nContent-Range: bytes */5\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 503 Busy\r\nRetry-After: 99999999\r\nContent-Length: 0\r\n\r\n",
        b"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: 0\r\n\r\n",
    ]


def _ask(data: bytes, folder: Path) -> None:
    """As many bytes come as were asked for, the same in one piece and in several."""
    server = _server()
    server.reply = data
    host, port = server.server_address[:2]
    source = RemoteSource(f"http://{host!s}:{port}/{next(_numbers)}", retries=0, timeout=1)
    size = min(source.size, 4096)
    whole = source.read(0, size)
    assert len(whole) == size
    assert source.read_ranges([0], [size]) == [whole]


def _store(folder: Path) -> Iterator[bytes]:
    video = folder / "in.mp4"
    video.write_bytes(_video("h264_mp4", folder))
    for number, paths in enumerate([[], [str(video)]]):
        build_store(paths, folder / f"{number}.db", root=folder, workers=1)
        yield (folder / f"{number}.db").read_bytes()


def _look_up(data: bytes, folder: Path) -> None:
    """What a store gives for a video is an index that is sound in itself."""
    path = _written(folder, data, ".db")
    video = folder / "in.mp4"
    video.write_bytes(b"no video")
    errors = []
    doors: list[Callable[[IndexStore], object]] = [
        lambda store: store.unverified().get(str(video)),
        lambda store: store.get(str(video)),
        lambda store: store.frame_counts([str(video)]),
        lambda store: list(store.errors()),
        lambda store: store.query("SELECT * FROM videos", timeout=1),
        len,
    ]
    for door in doors:
        try:
            door(IndexStore(path))
        except VideoLoaderError as error:
            errors.append(error)
    if len(errors) == len(doors):
        raise errors[0]


def _saved(folder: Path) -> Iterator[bytes]:
    rows = VideoDataset.from_paths(["a.mp4", "b.mp4"], [0, 1])
    for number, data in enumerate([rows, VideoDataset.from_paths(["a.mp4"])]):
        data.save(folder / f"{number}.arrow")
        yield (folder / f"{number}.arrow").read_bytes()


def _load(data: bytes, folder: Path) -> None:
    """Each row can be had."""
    rows = VideoDataset.load(_written(folder, data, ".arrow"))
    assert len([repr(row) for row in itertools.islice(rows, 10)]) == min(len(rows), 10)


_ENDINGS = (".csv", ".tsv", ".txt", ".jsonl", ".json", ".parquet")
_TABLES = [
    b"\0path,label,start,end\na.mp4,1,0.5,2\n\"b,c.mp4\",0,1,\n", b"\1path\tlabel\na.mp4\tx\n", b"\2a.mp4 0 10 3\n",
    b'\3{"path": "a.mp4", "label": 1, "boxes": [1, 2]}\n', b'\4[{"path": "a.mp4"}, {"path": "b.mp4", "fps": 2.5}]',
    b"\0video|caption\n1|x\n2|y\n", b"\0\xef\xbb\xbfpath;start_time\n\xc3\xbc.mp4;00:01\n",
]  # fmt: skip


def _tables(folder: Path) -> Iterator[bytes]:
    import pyarrow
    import pyarrow.parquet

    yield from _TABLES
    buffer = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"path": ["a.mp4", "b.mp4"], "label": [1, 2]}), buffer)
    yield b"\5" + buffer.getvalue()


def _read_table(data: bytes, folder: Path) -> None:
    """Each row can be had."""
    ending = _ENDINGS[(data or b"\0")[0] % len(_ENDINGS)]
    rows = VideoDataset.from_csv(_written(folder, data[1:], ending))
    assert len([repr(row) for row in itertools.islice(rows, 10)]) == min(len(rows), 10)


TARGETS = {
    "mp4": Target(_videos("mp4"), _index),
    "matroska": Target(_videos("mkv", "webm"), _index),
    "avi": Target(_videos("avi"), _index),
    "mpegts": Target(_videos("ts"), _index),
    "libav": Target(_other_videos, _index),
    "images": Target(_images, _index),
    "bitstream": Target(_packets, _bitstream),
    "tar": Target(_archives(tar_bytes), partial(_read_members, ".tar", ("a", "b/c.mp4"))),
    "zip": Target(
        lambda folder: [each for kind in (0, 8) for each in _archives(partial(zip_bytes, method=kind))(folder)],
        partial(_read_members, ".zip", ("a", "b/c.mp4")),
    ),
    "tfrecord": Target(
        lambda folder: [tfrecord_bytes([b"x", example({"video": _MEMBER, "n": 3})]), tfrecord_bytes([b""], True)],
        partial(_read_members, ".tfrecord", ("0", "1", "1/video")),
    ),
    "recordio": Target(lambda folder: [recordio_bytes([b"x", _MEMBER])[0]], partial(_read_members, ".rec", ("0", "1"))),
    "http": Target(_replies, _ask),
    "store": Target(_store, _look_up),
    "saved": Target(_saved, _load),
    "tables": Target(_tables, _read_table),
    "video": Target(_videos("mp4", "mkv", "webm", "avi", "ts"), _watch),
    "pictures": Target(_images, _watch),
}


@contextmanager
def quiet_decoders() -> Iterator[None]:
    """libav and encoders print nothing, as long as this lasts."""
    import av

    os.environ.setdefault("SVT_LOG", "1")
    # A picture takes four bytes a pixel, or more; see MEGABYTES.
    before = set_limits()
    set_limits(picture_pixels=1 << 25)
    level = av.logging.get_level()
    av.logging.set_level(None)
    try:
        yield
    finally:
        av.logging.set_level(level)
        set_limits(picture_pixels=before.picture_pixels)
